"""Mutants of the lowering: one wrong spot each, read from a table.

A mutant is an edit of a module's text. The functions it changes get the code of the edited text in place, so
that whoever holds one of them executes the mutant; nothing is imported twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from tests.mutation import code
from tests.mutation.code import FOLDER, Spot

TABLE = Path(__file__).with_name("mutants.txt")


class TableError(Exception):
    """A mutant that cannot be put in place."""


@dataclass(frozen=True)
class Mutant:
    """``old`` stands once in the text of ``module`` and becomes ``new``; ``survives`` is the reason why no
    case can tell, for a mutant that computes the same."""

    name: str
    module: str
    old: str
    new: str
    survives: str = ""

    def __str__(self) -> str:
        return f"{self.module}: {self.name}"

    @property
    def edited(self) -> str:
        """The text of the module with the mutant."""
        text = code.text(self.module)
        if text.count(self.old) != 1:
            raise TableError(f"{self}: {text.count(self.old)} times in {self.module}.py: {self.old}")
        return text.replace(self.old, self.new)

    @property
    def spot(self) -> Spot:
        """The statement that the mutant changes: what never executes it cannot tell."""
        text, edited = code.text(self.module), self.edited
        first = _common(text, edited)
        last = len(text) - _common(text[first:][::-1], edited[first:][::-1])
        found = code.spot(self.module, first, last)
        if found is None:
            raise TableError(f"{self}: changes more than one statement of a function")
        return found


def _common(a: str, b: str) -> int:
    """Length of the text that both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def read_table(text: str) -> list[Mutant]:
    """The mutants of a table; the head of ``mutants.txt`` says how one is written."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        module, _, name = lines[0].partition(": ")
        marks = {"-": "", "+": "", "=": ""}
        for line in lines[1:]:
            if line[:2] not in ("- ", "+ ", "= "):
                raise TableError(f"found {line!r}; allowed: lines that begin with '- ', '+ ' or '= '")
            marks[line[0]] += line[2:] + "\n"
        old, new, reason = (marks[mark][:-1] for mark in "-+=")
        if not (name and old and new):
            raise TableError(f"not a mutant: {block}")
        found.append(Mutant(name, module, old, new, reason))
    return found


@cache
def table() -> tuple[Mutant, ...]:
    return tuple(read_table(TABLE.read_text()))


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The lowering with a mutant in it, without anything computed before, and nothing left of it after."""
    new = code.functions_of(compile(mutant.edited, str(FOLDER / f"{mutant.module}.py"), "exec"))
    with code.replaced(mutant.module, new):
        yield
