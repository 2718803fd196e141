"""No import circles: of two modules at most one depends on the other, also lazily and for annotations."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pto_jax.isa import CLASSES, FAMILIES
from tests.architecture.graph import ROOT, Import, circles, imports, modules, shortest_round, write_tree

#: Modules that import others by names in text, and why that hides no dependency.
BY_TEXT = {
    "pto_jax": "public names load their modules on first use; its type-checking block imports the same ones",
    "pto_jax.isa": "the files of families, which loaded() adds to the imports",
    "pto_jax.devices.machines": "a module of the user",
}
#: Functions that import a module by its name.
BY_NAME = ("import_module", "__import__")
#: Who loads the files of the families.
LOADERS = ("isa", "interpreter", "lowering", "oracle.machine", "sanitizer.machine")


def loaded() -> Iterator[Import]:
    """Imports that statements do not show."""
    for loader in LOADERS:
        for name in (f"pto_jax.{loader.partition('.')[0]}.{c}" for c in dict.fromkeys((*CLASSES, *FAMILIES))):
            if name in modules(ROOT):
                yield Import(f"pto_jax.{loader}", name, f"load_families in {loader}")


def described(circle: frozenset[str], found: Iterable[Import]) -> str:
    """A circle, and the shortest way round it."""
    head = f"circle of {len(circle)} modules: {' '.join(sorted(circle))}"
    return "\n".join([head, *(f"  {one}" for one in shortest_round(circle, found))])


def importing_by_text(root: Path) -> set[str]:
    """Modules that call ``import_module`` or ``__import__``."""
    return {
        module.name
        for module in modules(root).values()
        if any(name in module.text for name in BY_NAME)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        if getattr(node.func, "id", getattr(node.func, "attr", "")) in BY_NAME
    }


@pytest.mark.slow
def test_there_are_no_import_circles() -> None:
    found = [*imports(ROOT), *loaded()]
    there = circles(found)
    assert not there, "\n".join(described(c, found) for c in there)


def test_modules_are_imported_by_statements() -> None:
    assert importing_by_text(ROOT) == BY_TEXT.keys()


@pytest.mark.parametrize(
    "text",
    [
        "from ..a import first\n",
        "import pto_jax.a.first\n",
        "def f():\n    from ..a.first import x\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..a.first import x\n",
        "from ..lowering import rules\n",
    ],
    ids=["relative", "absolute", "lazy", "for types", "through a third"],
)
def test_a_planted_circle_is_found(tmp_path: Path, text: str) -> None:
    files = {
        "pto_jax/a/first.py": "from ..b import second\n",
        "pto_jax/b/second.py": text,
        "lowering/rules.py": "from ..a.first import x\n",
    }
    found = imports(write_tree(tmp_path, files))
    (circle,) = circles(found)
    assert circle >= {"pto_jax.a.first", "pto_jax.b.second"}
    assert "pto_jax/a/first.py:1: pto_jax.a.first imports pto_jax.b.second" in described(circle, found)


def test_the_shortest_way_round_is_shown(tmp_path: Path) -> None:
    files = {
        "pto_jax/a.py": "from . import b\n",
        "pto_jax/b.py": "from . import c\nfrom . import d\n",
        "pto_jax/c.py": "\nfrom . import b\n",
        "pto_jax/d.py": "from . import a\n",
    }
    found = imports(write_tree(tmp_path, files))
    (circle,) = circles(found)
    assert described(circle, found).splitlines() == [
        "circle of 4 modules: pto_jax.a pto_jax.b pto_jax.c pto_jax.d",
        "  pto_jax/b.py:1: pto_jax.b imports pto_jax.c",
        "  pto_jax/c.py:2: pto_jax.c imports pto_jax.b",
    ]


def test_modules_that_import_one_way_are_no_circle(tmp_path: Path) -> None:
    files = {
        "pto_jax/a/first.py": "from ..b import second\nfrom ..b.third import x\n",
        "pto_jax/b/second.py": "from . import third\nimport json\n",
        "pto_jax/b/third.py": "",
    }
    assert circles(imports(write_tree(tmp_path, files))) == set()


def test_a_planted_import_by_text_is_found(tmp_path: Path) -> None:
    text = "import importlib\n\ndef f():\n    return importlib.import_module('.b', __package__)\n"
    assert importing_by_text(write_tree(tmp_path, {"pto_jax/a.py": text})) == {"pto_jax.a"}
