"""Mutants of the lowering: one wrong spot each, read from a table.

A mutant is an edit of a function's syntax tree; the function is looked for in all modules. The functions it
changes get the code of the edited tree in place, so that whoever holds one of them executes the mutant;
nothing is imported twice.
"""

import ast
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.mutation import code
from tests.mutation.code import Spot

TABLE = Path(__file__).with_name("mutants.txt")


class TableError(Exception):
    """A mutant that cannot be put in place."""


@dataclass(frozen=True)
class Mutant:
    """``old`` stands once in ``function`` and becomes ``new``; ``survives`` is the reason why no case can
    tell, for a mutant that computes the same."""

    name: str
    function: str
    old: str
    new: str
    survives: str = ""

    def __str__(self) -> str:
        return f"{self.function}: {self.name}"

    @cached_property
    def _place(self) -> tuple[str, ast.stmt | ast.expr]:
        """The module and the node of ``old``."""
        old = _parsed(self.old)
        kind, text = ast.stmt if isinstance(old, ast.stmt) else ast.expr, ast.unparse(old)
        places = [
            (module, node)
            for module, function in code.definitions().get(self.function, ())
            for node in ast.walk(function)
            if isinstance(node, kind) and ast.unparse(node) == text
        ]
        if len(places) != 1:
            raise TableError(f"{self}: {len(places)} times in functions of this name: {self.old}")
        return places[0]

    @property
    def module(self) -> str:
        """The module that has the function."""
        return self._place[0]

    @property
    def edited(self) -> ast.Module:
        """The syntax tree of the module with the mutant; every function stays on its line."""
        module, old = self._place
        memo: dict[int, ast.AST] = {}
        tree = copy.deepcopy(code.tree(module), memo)
        target, new = memo[id(old)], _parsed(self.new)
        for node in ast.walk(new):
            ast.copy_location(node, old)
        for node in ast.walk(tree):
            for name, value in ast.iter_fields(node):
                if value is target:
                    setattr(node, name, new)
                elif isinstance(value, list):
                    setattr(node, name, [new if part is target else part for part in value])
        return tree

    @property
    def spot(self) -> Spot:
        """The statement that the mutant changes: what never executes it cannot tell."""
        return code.spot(*self._place)


def _parsed(text: str) -> ast.stmt | ast.expr:
    """An expression, or else a statement."""
    try:
        (statement,) = ast.parse(text.strip()).body
    except (SyntaxError, ValueError) as error:
        raise TableError(f"neither one expression nor one statement: {text}") from error
    return statement.value if isinstance(statement, ast.Expr) else statement


def read_table(text: str) -> list[Mutant]:
    """The mutants of a table; the head of ``mutants.txt`` says how one is written."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        function, _, name = lines[0].partition(": ")
        marks = {"-": "", "+": "", "=": ""}
        for line in lines[1:]:
            if line[:2] not in ("- ", "+ ", "= "):
                raise TableError(f"found {line!r}; allowed: lines that begin with '- ', '+ ' or '= '")
            marks[line[0]] += line[2:] + "\n"
        old, new, reason = (marks[mark][:-1] for mark in "-+=")
        if not (name and old and new):
            raise TableError(f"not a mutant: {block}")
        found.append(Mutant(name, function, old, new, reason))
    return found


@cache
def table() -> tuple[Mutant, ...]:
    return tuple(read_table(TABLE.read_text()))


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The lowering with a mutant in it, without anything computed before, and nothing left of it after."""
    with code.replaced(mutant.module, code.compiled(mutant.module, mutant.edited)):
        yield
