"""Instruction names stand in the class files: what is known of an instruction is asked of its declaration.

The class files are those of the declarations and of the same names in the rooms that execute instructions.
Elsewhere a string that is an instruction's name, or a list of such names, is a fact about the instruction in
the wrong place. Docstrings, text in which names occur, and ``__all__`` are no such strings.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from pto_jax import isa
from tests.architecture.graph import ROOT, Module, modules, write_tree

NAMES = frozenset(isa.instructions()) | frozenset(isa.ALIASES)
#: Rooms with one file per class of instructions.
CLASS_ROOMS = ("pto_jax/isa", "lowering", "pto_jax/oracle", "pto_jax/sanitizer", "pto_jax/interpreter")
#: Methods that ask for a part of a name.
PART_OF = ("startswith", "endswith", "removeprefix", "removesuffix")
#: Files whose names are data, and of what.
DATA = {
    "pto_jax/isa/aliases.py": "other spellings of names",
    "pto_jax/cli/bench.py": "programs that are measured",
    "pto_jax/cost/analytic_legacy.py": "published cycle counts",
    "pto_jax/cost/cce_stub.py": "published cycle counts",
    "pto_jax/cost/doc_formula.py": "published cycle counts",
    "pto_jax/cost/fitted.py": "published cycle counts",
    "pto_jax/testing/device_check.py": "programs that are measured",
    "pto_jax/vectors/exclusions.py": "recorded cases",
}
#: Words that are the name of something else in a file, and of what.
OTHER_MEANINGS = {
    ("lowering/scalars.py", "bitcast"): "arith.bitcast",
    ("lowering/machine/program.py", "trap"): "the rule that the report names",
    ("pto_jax/builder/arith.py", "bitcast"): "arith.bitcast",
    ("pto_jax/oracle/machine.py", "trap"): "the rule that the error names",
    ("pto_jax/oracle/scalars.py", "bitcast"): "arith.bitcast",
}
#: Names that are still in the wrong place, by file. No number may grow; one that shrinks is corrected here,
#: and a file without names is deleted.
LEFT: dict[str, int] = {
    "pto_jax/analysis/entries.py": 2,
    "pto_jax/builder/custom.py": 14,
    "pto_jax/builder/handles.py": 1,
    "pto_jax/builder/synchronise.py": 2,
    "pto_jax/builder/tiles.py": 4,
    "pto_jax/campaign/cpp/call.py": 12,
    "pto_jax/campaign/cpp/intrinsics.py": 86,
    "pto_jax/campaign/cpp/operations.py": 23,
    "pto_jax/campaign/devices/record.py": 6,
    "pto_jax/campaign/shrink/probes.py": 2,
    "pto_jax/cost/program.py": 13,
    "pto_jax/generate/buffers.py": 17,
    "pto_jax/generate/core_bodies.py": 38,
    "pto_jax/generate/cores.py": 13,
    "pto_jax/generate/handles.py": 13,
    "pto_jax/generate/memory.py": 1,
    "pto_jax/generate/operations.py": 11,
    "pto_jax/generate/options.py": 15,
    "pto_jax/generate/programs.py": 4,
    "pto_jax/generate/sync.py": 15,
    "pto_jax/generate/tiles.py": 4,
    "pto_jax/interpreter/image_state.py": 2,
    "pto_jax/interpreter/interpreter.py": 1,
    "pto_jax/isa/memory_convolution.py": 2,
    "pto_jax/isa/samples/memory.py": 2,
    "pto_jax/isa/samples/operations.py": 13,
    "pto_jax/isa/samples/reduce_expand.py": 4,
    "pto_jax/isa/traits.py": 1,
    "pto_jax/lockstep/encode.py": 1,
    "pto_jax/runtime/launch_rule.py": 1,
    "pto_jax/text/custom.py": 1,
    "pto_jax/text/formats.py": 72,
    "pto_jax/text/generic.py": 11,
    "pto_jax/text/names.py": 31,
    "pto_jax/text/programs.py": 8,
    "pto_jax/text/tile_text.py": 12,
    "pto_jax/vectors/cases.py": 7,
    "pto_jax/vectors/executed.py": 17,
    "pto_jax/verifier/hazards.py": 1,
    "pto_jax/verifier/programs.py": 2,
}


@dataclass(frozen=True)
class Literal:
    """A name in a string of a file."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}"


def literals(root: Path) -> Iterator[Literal]:
    """Names of instructions in the strings of a tree, outside the class files and the data."""
    for module in modules(root).values():
        if not is_class_file(module.file) and module.file not in DATA:
            for line, name in named(module):
                if (module.file, name) not in OTHER_MEANINGS:
                    yield Literal(module.file, line, name)


def is_class_file(file: str) -> bool:
    """Whether a file is one of the class files."""
    path = PurePosixPath(file)
    return path.parent.as_posix() in CLASS_ROOMS and path.stem in isa.CLASSES


def named(module: Module) -> Iterator[tuple[int, str]]:
    """Lines and names of the strings that are names of instructions, lists of names, or asked for as the
    beginning or end of a name."""
    ignored = set(_texts(module.tree))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in ignored:
            yield from ((node.lineno, name) for name in _names_in(node.value))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in PART_OF:
            for part in (n for argument in node.args for n in ast.walk(argument)):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and _is_part(part.value):
                    yield part.lineno, part.value


def _names_in(text: str) -> list[str]:
    """The names in a text that is a name or a list; in a list most words are names."""
    words = text.replace(",", " ").split()
    if len(words) == 1:
        return words if _is_name(text) else []
    names = [w for w in words if _is_name(w)]
    is_list = 2 * len(names) > len(words) and all(re.fullmatch(r"[\w.]+", w) for w in words)
    return names if is_list else []


def _is_name(word: str) -> bool:
    """Whether a word is an instruction's name: that of the text, or that of the C++ intrinsic."""
    plain = word.removeprefix("pto.")
    return plain in NAMES or (plain.isupper() and plain.lower() in NAMES)


def _is_part(text: str) -> bool:
    """Whether a text is four or more letters at the beginning or end of a name, and no dialect."""
    if len(text) < 4 or text.endswith(".") or _is_name(text):
        return False
    return any(name.startswith(text) or name.endswith(text) for name in NAMES)


def _texts(tree: ast.AST) -> Iterator[ast.expr]:
    """Docstrings, and the names that a module exports."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr):
            yield node.body[0].value
        elif isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets):
            yield from (n for n in ast.walk(node.value) if isinstance(n, ast.Constant))


def excess(found: Collection[Literal], left: Mapping[str, int]) -> list[str]:
    """The names of files that have more of them than they may, by file and line."""
    counts = Counter(one.file for one in found)
    over = [file for file, n in counts.items() if n > left.get(file, 0)]
    heads = {file: f"{file}: found {counts[file]} name(s); allowed: {left.get(file, 0)}" for file in over}
    return [line for file in over for line in (heads[file], *(f"  {o}" for o in found if o.file == file))]


def stale(found: Collection[Literal], left: Mapping[str, int]) -> list[str]:
    """Lines of the table that allow more than there is."""
    counts = Counter(one.file for one in found)
    return [
        f'"{file}": {n} is now {f"{counts[file]}" if file in counts else "to be deleted"}'
        for file, n in left.items()
        if counts[file] < n
    ]


def test_instruction_names_stand_in_class_files_only() -> None:
    found = excess(list(literals(ROOT)), LEFT)
    assert not found, "\n".join(["a fact about an instruction belongs to its declaration", *found])


def test_the_table_of_names_that_are_left_is_no_larger_than_they_are() -> None:
    found = stale(list(literals(ROOT)), LEFT)
    assert not found, "\n".join(["LEFT in this file:", *found])


def test_files_of_data_and_words_of_other_meanings_are_there() -> None:
    there = {(module.file, name) for module in modules(ROOT).values() for _, name in named(module)}
    assert DATA.keys() - {file for file, _ in there} == set(), "to be deleted from DATA"
    assert OTHER_MEANINGS.keys() - there == set(), "to be deleted from OTHER_MEANINGS"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('def f(op):\n    return op.name == "tadd"\n', ["tadd"]),
        ('X = {"tadd": 1, "pto.tsub": 2}\n', ["tadd", "pto.tsub"]),
        ('X = "tadd tsub, tmul".split()\n', ["tadd", "tsub", "tmul"]),
        ('X = "scf.for tadd tsub"\n', ["tadd", "tsub"]),
        ('X = "tmatmul_acc"\n', ["tmatmul_acc"]),
        ('def f(k):\n    return f"trowexpand{k}"\n', ["trowexpand"]),
        ('def f(x):\n    match x:\n        case "trap" | "TLOAD":\n            pass\n', ["trap", "TLOAD"]),
        ('def f(x):\n    return x.startswith(("tpush_to", "arith."))\n', ["tpush_to"]),
        ('"""tadd"""\n__all__ = ["tadd"]\n', []),
        ('def f(x):\n    return "add", "allowed: tload and tstore", f"print {x}"\n', []),
    ],
)
def test_planted_names_are_found(tmp_path: Path, text: str, names: list[str]) -> None:
    tree = write_tree(tmp_path, {"pto_jax/analysis/effects.py": text})
    assert [one.name for one in literals(tree)] == names


def test_planted_names_are_reported_by_file_and_line(tmp_path: Path) -> None:
    files = {"pto_jax/cost/work.py": 'X = 1\nY = "tadd"\n', "lowering/a.py": 'X = "tsub"\n'}
    tree = write_tree(tmp_path, files)
    found = list(literals(tree))
    head = "pto_jax/cost/work.py: found 1 name(s); allowed: 0"
    assert excess(found, {"lowering/a.py": 1}) == [head, "  pto_jax/cost/work.py:2: tadd"]
    assert excess(found, {"lowering/a.py": 1, "pto_jax/cost/work.py": 1}) == []
    assert stale(found, {"lowering/a.py": 2, "pto_jax/ir/b.py": 1}) == [
        '"lowering/a.py": 2 is now 1',
        '"pto_jax/ir/b.py": 1 is now to be deleted',
    ]


def test_class_files_have_names(tmp_path: Path) -> None:
    files = ["lowering/memory.py", "pto_jax/isa/memory.py", "pto_jax/oracle/memory.py"]
    others = ["lowering/machine/memory.py", "pto_jax/isa/rules/memory.py", "pto_jax/generate/memory.py"]
    tree = write_tree(tmp_path, dict.fromkeys([*files, *others], 'X = "tload"\n'))
    assert {one.file for one in literals(tree)} == set(others)
