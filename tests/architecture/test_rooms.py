"""The rooms of the house: what the package's top level holds, and which room may use which."""

from pathlib import Path

import pytest

from tests.architecture.graph import PACKAGE, ROOT, imports, modules, room, write_tree
from tools import architecture

#: Every room above those that it may use. ``pto_jax`` are the public names themselves, which the rooms
#: below need not know.
ROOMS = (
    "errors", "files", "ir", "profiles", "isa", "text", "analysis",
    "interpreter", "order", "verifier", "garbage", "api", "cost", "grids", "lowering", "oracle", "sanitizer",
    "schedules", "extension", "pictures", "runtime", "builder", "ops", "nn",
    "generate", "vectors", "lockstep", "examples", "manual", "editors", "testing", "runner",
    "pto_jax", "cases", "devices", "failures", "validation", "system_tests", "campaign", "cli", "__main__",
)  # fmt: skip
#: The public names and what they are made of; everything else has a room.
TOP = {"__init__", "__main__", "errors", "garbage", "profiles", "api", "ops", "files"}


def upward(root: Path) -> list[str]:
    """Imports of rooms that are not below the importing one."""
    level = {name: i for i, name in enumerate(ROOMS)}
    ends = ((one, room(one.source), room(one.target)) for one in imports(root))
    return [
        f"{one}; {above} may use: {' '.join(ROOMS[: level[above]])}"
        for one, above, below in ends
        if above != below and level[below] >= level[above]
    ]


def loose(root: Path) -> set[str]:
    """Modules at the top of the package that belong into a room."""
    return {f.stem for f in (root / PACKAGE).glob("*.py")} - TOP


def unplaced(root: Path) -> set[str]:
    """Rooms of the tree that the order does not have."""
    return {room(name) for name in modules(root)} - set(ROOMS)


def test_the_top_level_holds_the_public_names_only() -> None:
    assert loose(ROOT) == set()


def test_every_room_has_a_place_in_the_order() -> None:
    assert not unplaced(ROOT), "to be put into ROOMS"
    assert set(ROOMS) == {room(name) for name in modules(ROOT)}, "to be deleted from ROOMS"


def test_rooms_use_the_rooms_below_them() -> None:
    found = upward(ROOT)
    assert not found, "\n".join(found)


def test_the_architecture_page_has_the_packages_as_they_are() -> None:
    text = architecture.PAGE.read_text(encoding="utf-8")
    assert text == architecture.page(ROOT, text), "to be written by python -m tools.architecture"
    assert architecture.PICTURE.read_text(encoding="utf-8") == architecture.picture()
    assert set(architecture.PACKAGES) == set(ROOMS)


def test_packages_use_the_bands_below_them() -> None:
    bands = list(architecture.BANDS)
    level = {name: bands.index(band) for name, (band, _) in architecture.PACKAGES.items() if band}
    drawn = {name: used & set(level) for name, used in architecture.uses(ROOT).items() if name in level}
    assert not [(a, b) for a, used in drawn.items() for b in used if level[b] < level[a]]


def test_the_table_leaves_out_what_another_package_reaches(tmp_path: Path) -> None:
    files = {
        "errors": "",
        "ir/a": "from .. import errors",
        "isa/a": "from .. import errors\nfrom ..ir import a",
    }
    tree = write_tree(tmp_path, {f"pto_jax/{name}.py": text for name, text in files.items()})
    rows = [line.split(" | ") for line in architecture.table(tree).splitlines()[2:]]
    assert [(row[0], row[2]) for row in rows] == [
        ("| `isa`", "`ir` |"),
        ("| `ir`", "`errors` |"),
        ("| `errors`", " |"),
    ]


@pytest.mark.parametrize(
    "text", ["from ..cli import main", "def f():\n    from .. import api", "import pto_jax.runtime.tiles"]
)
def test_a_planted_upward_import_is_found(tmp_path: Path, text: str) -> None:
    files = {f"pto_jax/{p}.py": "" for p in ("cli/main", "api", "runtime/tiles", "isa/declare")}
    (found,) = upward(write_tree(tmp_path, {**files, "pto_jax/text/reader.py": text}))
    assert found.startswith("pto_jax/text/reader.py:")
    assert found.endswith("; text may use: errors files ir profiles isa")


def test_imports_downwards_and_in_the_room_are_free(tmp_path: Path) -> None:
    files = {"pto_jax/text/reader.py": "", "pto_jax/isa/declare.py": "", "lowering/__init__.py": ""}
    text = "from . import scope\nfrom ..isa import declare\nfrom ..isa.declare import x"
    tree = write_tree(
        tmp_path, {**files, "pto_jax/text/reader.py": text, "pto_jax/cli/main.py": "from .. import lowering"}
    )
    assert upward(tree) == []


def test_planted_modules_without_a_room_are_found(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"pto_jax/api.py": "", "pto_jax/extra.py": "", "pto_jax/attic/old.py": ""})
    assert loose(tree) == {"extra"}
    assert unplaced(tree) == {"extra", "attic"}
