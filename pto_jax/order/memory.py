"""On-chip memory of a function over its lines: which tile has which bytes from where to where, and the peak.

Tiles with an address are where the text places them. Others get an address by their lifetimes, the first one
that is free, which is an estimate of what a tool chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..analysis.lifetimes import Access, Lifetimes, bits
from ..analysis.resolve import ResolvedProgram
from ..ir import Function, Loc, Op

#: Addresses that are chosen are multiples of this, and columns of a bar.
ALIGNMENT, COLUMNS = 32, 40
_FULL, _EMPTY = "#", "."


class Bar(NamedTuple):
    """Bytes [start, end) of a buffer that a tile has from one operation to another one, by their numbers."""

    name: str
    start: int
    end: int
    first: int
    last: int
    estimated: bool


class Peak(NamedTuple):
    """The most bytes of a buffer that tiles have at one operation, and which tiles these are."""

    bytes: int
    at: int
    tiles: tuple[str, ...]


@dataclass(frozen=True)
class Buffer:
    """A buffer and the tiles that lie in it."""

    loc: Loc
    bars: tuple[Bar, ...]

    @property
    def estimated(self) -> bool:
        """Whether some tile has an address that the text does not say."""
        return any(bar.estimated for bar in self.bars)

    def used(self, at: int) -> int:
        """The bytes that tiles have at an operation; bytes of several tiles count once."""
        covered = end = 0
        for bar in sorted((b for b in self.bars if b.first <= at <= b.last), key=lambda b: b.start):
            covered += max(0, bar.end - max(bar.start, end))
            end = max(end, bar.end)
        return covered

    @property
    def peak(self) -> Peak:
        """The most that is used; it begins where a tile does."""
        at = max(sorted({bar.first for bar in self.bars}), key=self.used)
        live = sorted((b for b in self.bars if b.first <= at <= b.last), key=lambda b: b.start - b.end)
        return Peak(self.used(at), at, tuple(f"%{b.name}" for b in live))


@dataclass
class Memory:
    r"""The buffers of a function, with its operations in the order of the text.

    >>> from pto_jax.analysis.resolve import resolve
    >>> from pto_jax.text import parse
    >>> t = "!pto.tile_buf<vec, 16x16xf32>"
    >>> text = f"%a = pto.alloc_tile : {t}\n%b = pto.alloc_tile : {t}\n"
    >>> text += f"pto.tabs ins(%a : {t}) outs(%b : {t})"
    >>> resolved = resolve(parse(text))
    >>> memory = Memory.of(resolved, resolved.program.functions[0])
    >>> [(buffer.loc.name, buffer.peak.bytes) for buffer in memory.buffers]
    [('VEC', 2048)]
    """

    function: Function
    ops: tuple[Op, ...] = ()
    buffers: list[Buffer] = field(default_factory=list)

    @staticmethod
    def of(resolved: ResolvedProgram, function: Function) -> Memory:
        """The memory of a function."""
        lifetimes = Lifetimes(resolved, function)
        ops = tuple(lifetimes.function.walk())
        numbers = {id(op): i for i, op in enumerate(ops)}
        spans: dict[int, tuple[int, int]] = {}

        def visit(op: Op, access: Access, before: int, behind: int) -> None:
            at = numbers[id(op)]
            for tile in bits(before | behind | access.all):
                first, last = spans.get(tile, (at, at))
                spans[tile] = min(first, at), max(last, at)

        lifetimes.visit(visit)
        facts = resolved.facts(lifetimes.function)
        memory = Memory(lifetimes.function, ops)
        for loc in Loc:
            bars: list[Bar] = []
            free: list[tuple[int, str, int, int, int]] = []
            for i, tile in enumerate(lifetimes.tiles):
                if tile.type.loc != loc or i not in spans:
                    continue
                start = facts.of(tile.op).number(tile.address) if tile.address is not None else None
                if start is None:
                    free.append((spans[i][0], tile.name, tile.bytes, *spans[i]))
                else:
                    bars.append(Bar(tile.name, start, start + tile.bytes, *spans[i], estimated=False))
            for _, name, size, first, last in sorted(free):
                start = _first_fit([b for b in bars if b.first <= last and first <= b.last], size)
                bars.append(Bar(name, start, start + size, first, last, estimated=True))
            if bars:
                memory.buffers.append(Buffer(loc, tuple(sorted(bars, key=lambda b: (b.start, b.first)))))
        return memory

    def place(self, at: int) -> str:
        """The line and the name of an operation."""
        op = self.ops[at]
        return f"line {op.span.line} ({op.name})" if op.span is not None else op.name

    def lines(self, capacity: Mapping[Loc, int], least: Mapping[Loc, int] | None = None) -> Iterator[str]:
        """The text of the page: for every buffer its peak, and a bar of lines for every tile.

        ``least`` has the bytes that any plan needs, which the verifier compares with the capacity.
        """
        for buffer in self.buffers:
            peak, room = buffer.peak, capacity.get(buffer.loc, 0)
            share = f" of {room} bytes ({100 * peak.bytes / room:.0f} %)" if room else " bytes"
            kind = ", addresses estimated" if buffer.estimated else ""
            yield f"@{self.function.name}, {buffer.loc.name.lower()} buffer{kind}"
            yield f"  peak {peak.bytes}{share} at {self.place(peak.at)}: {', '.join(peak.tiles)}"
            needed = (least or {}).get(buffer.loc, peak.bytes)
            if buffer.estimated and needed < peak.bytes:
                yield f"  at least {needed} bytes: a destination may take the bytes of a source that ends"
            width = max(len(bar.name) for bar in buffer.bars)
            for bar in buffer.bars:
                around = f"[{bar.start}, {bar.end})"
                line = [self.ops[n].span for n in (bar.first, bar.last)]
                text = "-".join(str(span.line) if span is not None else "?" for span in line)
                yield f"  %{bar.name:<{width}} {around:>18} lines {text:>9} |{self._bar(bar)}|"

    def _bar(self, bar: Bar) -> str:
        """The part of the operations during which a tile has its bytes."""
        count = max(1, len(self.ops))
        first, last = bar.first * COLUMNS // count, bar.last * COLUMNS // count
        return "".join(_FULL if first <= i <= last else _EMPTY for i in range(COLUMNS))


def _first_fit(bars: Sequence[Bar], size: int) -> int:
    """The lowest address at which so many bytes are free."""
    start = 0
    for bar in sorted(bars, key=lambda b: b.start):
        if start + size <= bar.start:
            break
        start = max(start, -(-bar.end // ALIGNMENT) * ALIGNMENT)
    return start
