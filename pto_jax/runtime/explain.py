"""A kernel on one page: its arguments, tiles, memory, instructions, cost and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from .. import isa
from ..analysis.entries import Argument
from ..analysis.lifetimes import made_tiles
from ..analysis.resolve import resolve
from ..cost import CostReport, cost
from ..errors import Diagnostic, PtoError
from ..ir import Function, Loc, Program, TileType
from ..isa.history import left_out
from ..profiles import Profile
from ..verifier.capacity import needed_bytes


class Explained(Protocol):
    """The kernel that is explained."""

    @property
    def program(self) -> Program:
        """The program with its functions."""

    @property
    def entry(self) -> str:
        """The name of the function that is executed."""

    @property
    def function(self) -> Function:
        """That function."""

    @property
    def profile(self) -> Profile:
        """The hardware profile."""

    @property
    def grid(self) -> int:
        """The number of blocks."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of the function, in order."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results."""

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The verifier's warnings."""


@dataclass(frozen=True)
class TileUse:
    """A tile of the program: its name, type, size in bytes and the line that makes it."""

    name: str
    type: TileType
    bytes: int
    line: int | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """What :meth:`pto_jax.Kernel.explain` shows; ``print`` writes it, notebooks show it.

    ``memory`` has the bytes of each on-chip memory that the tiles need at the same time, and its capacity.
    ``cost`` is the report of the first model of the profile, for one block; None where arguments decide.
    ``notes`` has the attributes that a text in another version of the language reads otherwise.
    """

    title: str
    arguments: tuple[Argument, ...]
    outputs: tuple[str, ...]
    instructions: dict[str, int]
    tiles: tuple[TileUse, ...]
    memory: dict[str, tuple[int, int]]
    cost: CostReport | None
    warnings: tuple[Diagnostic, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield self.title
        yield from _section("arguments", map(_argument, self.arguments))
        yield f"results: {', '.join(self.outputs) or 'none'}"
        counts = [name if n == 1 else f"{name} x{n}" for name, n in self.instructions.items()]
        yield f"instructions: {', '.join(counts) or 'none'}"
        rows = [(f"%{t.name}", str(t.type), f"{t.bytes} bytes", _line(t.line)) for t in self.tiles]
        yield from _section("tiles", _columns(rows))
        sizes = [
            (name, f"{used} of {capacity} bytes ({-(-100 * used // max(capacity, 1))} %)")
            for name, (used, capacity) in self.memory.items()
        ]
        yield from _section("memory of tiles that are needed together", _columns(sizes))
        if self.cost is not None:
            yield from _section(f"cost of one block in cycles (model {self.cost.model})", _costs(self.cost))
        yield from _section("warnings", map(str, self.warnings))
        yield from _section("attributes that are left out", iter(self.notes))

    def __repr__(self) -> str:
        return f"<Explanation of {self.title}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def explain(kernel: Explained) -> Explanation:
    """The explanation of a kernel."""
    program, profile = kernel.program, kernel.profile
    blocks = f"{kernel.grid} block{'s' if kernel.grid > 1 else ''}"
    tiles = [(tile, op) for op in program.walk() for tile in made_tiles(op)]
    memory: dict[str, tuple[int, int]] = {}
    if not program.fragment:
        needed = needed_bytes(resolve(program, profile), kernel.function, profile)
        memory = {loc.name.lower(): (size, profile.capacity[Loc(loc)]) for loc, size in needed.items()}
    return Explanation(
        f"kernel @{kernel.entry}, profile {profile.name} ({profile.title}), {blocks}",
        kernel.arguments,
        kernel.outputs,
        dict(Counter(op.name for op in program.walk() if isa.find(op.name) is not None)),
        tuple(
            TileUse(t.name, t.type, t.bytes, op.span.line if op.span is not None else None) for t, op in tiles
        ),
        memory,
        _cost(kernel),
        kernel.warnings,
        tuple(
            f"{_line(n.op.span.line if n.op.span else None)} {n}".strip() for n in left_out(program, profile)
        ),
    )


def _cost(kernel: Explained) -> CostReport | None:
    try:
        return cost(kernel.program, kernel.profile, entry=kernel.entry)
    except PtoError:  # Of a fragment with open types no size is there before a call.
        return None


def _argument(a: Argument) -> str:
    uses = " and ".join(word for word, is_so in (("read", a.read), ("written", a.written)) if is_so)
    needs = f", at least {a.min_elements} elements" if a.min_elements is not None else ""
    return f"{a.name}  {a.type}{needs}{f', {uses}' if uses else ''}"


def _line(line: int | None) -> str:
    return "" if line is None else f"line {line}"


def _costs(report: CostReport) -> Iterator[str]:
    for pipe, total in report.totals.items():
        yield f"pipe {pipe.name}: {total}"
    if report.totals:
        yield f"busiest pipe: {report.overlapped}, one after another: {report.serial}"
    missing = Counter(line.instruction for line in report.lines if line.figure.cycles is None)
    if missing:
        yield f"without a figure: {', '.join(missing)}"
    if any(line.times is None for line in report.lines):
        yield "loops with an unknown number of iterations count once"


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    """A title with its lines; nothing where there are none."""
    rows = list(lines)
    if rows:
        yield f"{title}:"
        yield from (f"  {line}" for line in rows)
