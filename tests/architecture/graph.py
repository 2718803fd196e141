"""What the modules of a tree import: every statement counts, also inside functions and type checks."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "pto_jax"
#: The folder beside the package that is imported as its subpackage; inside the package it is a link.
LOWERING = "lowering"


@dataclass(frozen=True)
class Module:
    """A module by its dotted name, its file relative to the tree's root, and its text."""

    name: str
    file: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def package(self) -> str:
        """The package that its relative imports start from."""
        return self.name if self.file.endswith("/__init__.py") else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Import:
    """An import statement by the names of two modules, with its place."""

    source: str
    target: str
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.source} imports {self.target}"


@cache
def modules(root: Path) -> Mapping[str, Module]:
    """The modules of a tree by name.

    A tree holds a folder ``pto_jax`` and, beside it, the folder ``lowering``.
    """
    files = [f for f in (root / PACKAGE).rglob("*.py") if (root / PACKAGE / LOWERING) not in f.parents]
    files += (root / LOWERING).rglob("*.py")
    found = {}
    for file in sorted(files):
        path = file.relative_to(root)
        parts = path.with_suffix("").parts
        name = ".".join(parts if parts[0] == PACKAGE else (PACKAGE, *parts)).removesuffix(".__init__")
        found[name] = Module(name, path.as_posix(), file.read_text())
    return found


@cache
def imports(root: Path) -> tuple[Import, ...]:
    """Every import of one module of a tree by another."""
    return tuple(
        Import(module.name, target, f"{module.file}:{node.lineno}")
        for module in modules(root).values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for target in _targets(module, node, modules(root))
        if target != module.name
    )


def _targets(module: Module, node: ast.Import | ast.ImportFrom, known: Mapping[str, Module]) -> Iterable[str]:
    """The modules that a statement imports: ``from p import m`` is module p.m, where there is one, or p."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name in known]
    parts = module.package.split(".")
    prefix = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    origin = ".".join(p for p in (prefix, node.module or "") if p)
    names = [f"{origin}.{alias.name}" for alias in node.names]
    return dict.fromkeys(n for n in (n if n in known else origin for n in names) if n in known)


def circles(found: Iterable[Import]) -> set[frozenset[str]]:
    """The largest sets of modules that import each other, directly or through others."""
    targets = defaultdict[str, set[str]](set)
    for one in found:
        targets[one.source].add(one.target)
    below = {name: _reachable(name, targets) for name in targets}
    return {
        frozenset(other for other in reached if name in below.get(other, ()))
        for name, reached in below.items()
        if name in reached
    }


def _reachable(start: str, targets: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    pending = [start]
    while pending:
        for target in targets.get(pending.pop(), ()):
            if target not in reached:
                reached.add(target)
                pending.append(target)
    return reached


def shortest_round(circle: frozenset[str], found: Iterable[Import]) -> list[Import]:
    """The fewest imports of a circle that lead from a module back to it."""
    leaving = defaultdict[str, list[Import]](list)
    for one in found:
        if one.source in circle and one.target in circle:
            leaving[one.source].append(one)
    rounds = [r for start in sorted(circle) if (r := _way_back(start, leaving))]
    return min(rounds, key=len)


def _way_back(start: str, leaving: Mapping[str, list[Import]]) -> list[Import]:
    ways: dict[str, list[Import]] = {start: []}
    for name, way in (pending := list(ways.items())):
        for one in leaving[name]:
            if one.target == start:
                return [*way, one]
            if one.target not in ways:
                ways[one.target] = [*way, one]
                pending.append((one.target, ways[one.target]))
    return []


def room(module: str) -> str:
    """The part of the package that a module belongs to; ``pto_jax`` itself has the public names."""
    return module.split(".")[1] if "." in module else PACKAGE


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """A small tree with some files, and an ``__init__.py`` in each of their folders."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in file.relative_to(root).parents[:-1]:
            (root / folder / "__init__.py").touch()
        file.write_text(text)
    return root
