"""Instruction names stand in the class files: what is known of an instruction is asked of its declaration.

The class files are those of the declarations and of the same names in the rooms that execute instructions.
Elsewhere a string that is an instruction's name, or a list of such names, is a fact about the instruction in
the wrong place. Docstrings, text in which names occur, and ``__all__`` are no such strings.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from pto_jax import isa
from tests.architecture.graph import ROOT, Module, modules, write_tree

NAMES = frozenset(isa.instructions()) | frozenset(isa.ALIASES)
#: Rooms with one file per class of instructions.
CLASS_ROOMS = ("pto_jax/isa", "lowering", "pto_jax/oracle", "pto_jax/sanitizer", "pto_jax/interpreter")
#: Methods that ask for a part of a name.
PART_OF = ("startswith", "endswith", "removeprefix", "removesuffix")
#: Files whose names are data, and of what; a comment there begins with :data:`REASON`.
DATA = {
    "pto_jax/builder/custom.py": "syntax of operations that have their own",
    "pto_jax/builder/instead.py": "calls that messages write for users",
    "pto_jax/devices/cpp/intrinsics.py": "spellings in C++",
    "pto_jax/devices/cpp/operations.py": "spellings in C++",
    "pto_jax/cost/analytic_legacy.py": "published cycle counts",
    "pto_jax/cost/cce_stub.py": "published cycle counts",
    "pto_jax/cost/doc_formula.py": "published cycle counts",
    "pto_jax/cost/fitted.py": "published cycle counts",
    "pto_jax/generate/cores.py": "operations that generators build",
    "pto_jax/generate/handles.py": "operations that generators build",
    "pto_jax/generate/overlaps.py": "operations that generators build",
    "pto_jax/generate/buffers.py": "operations that generators build",
    "pto_jax/generate/options.py": "choices of generators",
    "pto_jax/generate/control.py": "operations that generators build",
    "pto_jax/isa/__init__.py": "other spellings of names",
    "pto_jax/testing/device_check.py": "programs that are measured",
    "pto_jax/text/cpp_expressions.py": "spellings in C++",
    "pto_jax/text/cpp_names.py": "spellings in C++",
    "pto_jax/text/cpp_statements.py": "spellings in C++",
    "pto_jax/text/formats.py": "syntax of operations that have their own",
    "pto_jax/vectors/exclusions.py": "recorded cases, and defects of the simulator",
}
#: No more files may be data.
MOST = 21
#: The comment that says why names stand in a file.
REASON = "# Instructions by name: "
#: Words that are the name of something else in a file, and of what.
OTHER_MEANINGS = {
    ("lowering/scalars.py", "bitcast"): "arith.bitcast",
    ("lowering/machine/program.py", "trap"): "the rule that the report names",
    ("pto_jax/isa/traits.py", "barrier"): "a role in the order of operations",
    ("pto_jax/isa/traits.py", "bitcast"): "arith.bitcast",
    ("pto_jax/oracle/machine.py", "trap"): "the rule that the error names",
    ("pto_jax/oracle/scalars.py", "bitcast"): "arith.bitcast",
    ("pto_jax/order/findings.py", "barrier"): "a role in the order of operations",
    ("pto_jax/order/signals.py", "barrier"): "a role in the order of operations",
    ("pto_jax/schedules/races.py", "barrier"): "a role in the order of operations",
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
    for one in all_literals(root):
        is_data = one.file in DATA or (one.file, one.name) in OTHER_MEANINGS
        if not is_class_file(one.file) and not is_data:
            yield one


@cache
def all_literals(root: Path) -> tuple[Literal, ...]:
    """Names of instructions in all strings of a tree, which is read once."""
    return tuple(Literal(m.file, *found) for m in modules(root).values() for found in named(m))


def is_class_file(file: str) -> bool:
    """Whether a file is one of the class files."""
    path = PurePosixPath(file)
    return path.parent.as_posix() in CLASS_ROOMS and path.stem in (
        *isa.CLASSES,
        *isa.FAMILIES,
        *isa.MICRO_FAMILIES,
    )


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


@pytest.mark.slow
def test_instruction_names_stand_in_class_files_only() -> None:
    found = [str(one) for one in literals(ROOT)]
    assert not found, "\n".join(["a fact about an instruction belongs to its declaration", *found])


def test_files_of_data_are_few_and_say_why() -> None:
    silent = [file for file in DATA if f"\n{REASON}" not in (ROOT / file).read_text(encoding="utf-8")]
    assert not silent, f"no comment begins with {REASON!r}"
    assert len(DATA) <= MOST


def test_files_of_data_and_words_of_other_meanings_are_there() -> None:
    files = {*DATA, *(file for file, _ in OTHER_MEANINGS)}
    there = {(m.file, name) for m in modules(ROOT).values() if m.file in files for _, name in named(m)}
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
    tree = write_tree(tmp_path, {**files, "pto_jax/cost/fitted.py": 'X = "tadd"\n'})
    assert {str(one) for one in literals(tree)} == {"pto_jax/cost/work.py:2: tadd", "lowering/a.py:1: tsub"}


def test_class_files_have_names(tmp_path: Path) -> None:
    files = ["lowering/memory.py", "pto_jax/isa/memory.py", "pto_jax/oracle/memory.py"]
    others = ["lowering/machine/memory.py", "pto_jax/isa/rules/handles.py", "pto_jax/generate/windows.py"]
    tree = write_tree(tmp_path, dict.fromkeys([*files, *others], 'X = "tload"\n'))
    assert {one.file for one in literals(tree)} == set(others)
