"""On-chip memory over a program: the bytes of each tile from its first write to its last use.

Lifetimes and needs are those of the verifier's rule on capacity. Tiles without an address are placed by first
fit, as a tool may do at build levels 1 and 2.

>>> import pto_jax as pto
>>> from pto_jax.examples import example
>>> memory(pto.load(example("vector_add").path))
<Picture: on-chip memory of @vector_add on a2a3: vec 32 of 192 KiB>
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..analysis.lifetimes import Lifetimes, Tile, bits
from ..analysis.resolve import ResolvedProgram, resolve
from ..api import resolve_profile, verify
from ..errors import ArgumentError, VerifyError, with_article
from ..files import user_code
from ..ir import Function, Loc, Op, Program
from ..isa.effects import traits_of
from ..profiles import Profile
from ..verifier.capacity import Need, needs
from .svg import Canvas, Picture, cut, num, size_text

#: Rules whose violations the picture shows: more bytes than a memory has.
SHOWN = frozenset({"capacity", "tile-capacity", "address-range"})
_LEFT, _PLOT, _GAP = 62.0, 132.0, 34.0
#: The width of a letter.
_LETTER = 6.4
#: Loops whose brackets are drawn around each other.
_DEPTH = 4


def subject(
    program: Any, profile: str | Profile | None, shown: frozenset[str] = frozenset()
) -> tuple[Program, Profile]:
    """A program, or that of a kernel, and its profile.

    VerifyError for a program with errors other than of the rules ``shown``, ArgumentError for something else
    and for a program without operations.
    """
    if profile is None and isinstance(kernel := getattr(program, "profile", None), Profile):
        profile = kernel
    program = getattr(program, "program", program)
    if not isinstance(program, Program):
        got = f"{with_article(type(program).__name__)}"
        raise ArgumentError(
            f"picture: got {got}",
            allowed="a program or a kernel",
            fix=f"pto.parse({user_code.argument('text', 0)})",
        )
    if not any(True for _ in program.walk()):
        raise ArgumentError(f"{program.source}: got a program without operations", allowed="one or more")
    selected = resolve_profile(program, profile)
    errors = [d for d in verify(program, selected) if d.severity == "error" and d.rule not in shown]
    if errors:
        raise VerifyError(errors)
    return program, selected


def memory(program: Any, profile: str | Profile | None = None) -> Picture:
    """The on-chip memory that a program or kernel uses: operations to the right, bytes upwards.

    A plot per function and memory has a bar for each tile, from its first write to its last use, and the
    capacity of the profile as a line. Bars in the colour of reuse lie where another tile was before; bytes
    beyond the capacity are red, with the need, the capacity and the line of the program. Where tiles have
    addresses, bars lie there; others are placed by first fit. Hatched parts are slots of pipes, scratch, and
    what called functions need. A program that fits nowhere is drawn; VerifyError for one with other errors,
    ArgumentError for an unknown profile or a program without tiles.

    >>> import pto_jax as pto
    >>> text = "%c = tadd %a, %b : !pto.tile<16x16xf32>"
    >>> "%c: vec 16x16xf32, 1 KiB" in memory(pto.parse(text), profile="a5").svg
    True
    """
    program, target = subject(program, profile, SHOWN)
    resolved = resolve(program, target)
    plots = [plot for f in resolved.program.functions for plot in _plots(resolved, target, f)]
    if not plots:
        raise ArgumentError(f"{program.source}: got a program without tiles", allowed="one tile or more")
    plots = [plot for plot in plots if plot.bars or plot.peak[0] > plot.capacity] or plots
    names = list(dict.fromkeys(plot.function for plot in plots))
    text = ", ".join(f"{plot.place} {_of(plot)}" for plot in plots[:6])
    label = f"on-chip memory of {', '.join(f'@{n}' for n in names[:4])} on {target.name}: {text}"
    columns = max(len(plot.columns) for plot in plots)
    canvas = Canvas(max(480.0, min(_LEFT + 14 * columns + 20, 1200)), label)
    top = 12.0
    for plot, below in zip(plots, [*plots[1:], None], strict=True):
        top = _draw(canvas, plot, top, last=below is None or below.function != plot.function)
    return canvas.picture(_key(canvas, plots, top))


@dataclass(eq=False)
class Bar:
    """A tile, or tiles that take turns: bytes from ``start`` on, in spans of half operations."""

    tile: Tile
    spans: list[tuple[int, int]]
    bytes: int
    start: int = 0
    reused: bool = False

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        return self.start + self.bytes

    def meets(self, other: Bar) -> bool:
        """Whether both hold data at some time."""
        return any(a < d and c < b for a, b in self.spans for c, d in other.spans)


@dataclass(eq=False)
class Plot:
    """One memory in one function; ``columns`` are its operations with the bytes that each needs at least."""

    function: str
    loc: Loc
    capacity: int
    columns: list[Op]
    bars: list[Bar]
    extra: list[tuple[int, str, int]]
    needed: list[int]
    loops: list[tuple[int, int, Op, int]] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The name of the memory."""
        return self.loc.name.lower()

    @property
    def top(self) -> int:
        """The byte behind the last one that is used."""
        over = {k: n for k, _, n in self.extra}
        return max([bar.end for bar in self.bars] + list(over.values()) + self.needed)

    @property
    def peak(self) -> tuple[int, Op | None]:
        """The bytes that the program needs at most, and the operation that needs them."""
        placed = [b for b in self.bars if b.tile.address is not None]
        most = max(self.needed, default=0)
        last = max(placed, key=lambda b: b.end, default=None)
        if last is not None and last.end > most:
            return last.end, self.columns[last.spans[0][0] // 2]
        # The last one, which the rule names, too.
        behind = self.needed[::-1].index(most) if self.needed else 0
        return most, self.columns[-1 - behind] if self.needed else None


def _plots(resolved: ResolvedProgram, target: Profile, function: Function) -> Iterator[Plot]:
    lifetimes, usage = needs(resolved, target, function)
    reserved = usage[0].extra if usage else {}
    drawn = [n for n in usage if n.used or any(parts != reserved.get(loc) for loc, parts in n.extra.items())]
    locs = dict.fromkeys(t.type.loc for n in drawn for t in lifetimes.listed(n.live))
    locs |= dict.fromkeys(loc for n in drawn for loc, parts in n.extra.items() if parts)
    facts = resolved.facts(lifetimes.function)
    for loc in sorted(locs):
        bars = _bars(lifetimes, drawn, loc)
        for bar in bars:
            known = facts.of(bar.tile.op).number(bar.tile.address)
            bar.start = known if isinstance(known, int) else -1
        _place(bars)
        extra = [
            (k, "; ".join(map(str, parts)), sum(part.bytes for part in parts))
            for k, n in enumerate(drawn)
            if (parts := n.extra.get(loc))
        ]
        needed = [n.bytes.get(loc, 0) for n in drawn]
        plot = Plot(function.name, loc, target.capacity[loc], [n.op for n in drawn], bars, extra, needed)
        plot.loops = list(_loops(lifetimes.function, plot.columns))
        yield plot


def _bars(lifetimes: Lifetimes, needs: Sequence[Need], loc: Loc) -> list[Bar]:
    """The bars of the tiles of a memory, without places; a tile that takes turns is part of the first one."""
    spans: dict[int, list[tuple[int, int]]] = {}
    largest: dict[int, Tile] = {}
    for k, need in enumerate(needs):
        for i in bits(need.live):
            tile, turn = lifetimes.tiles[i], lifetimes.turns[i]
            if tile.type.loc != loc:
                continue
            first, last = (2 * k + (need.begins >> i & 1)), 2 * k + 2 - (need.ends >> i & 1)
            listed = spans.setdefault(turn, [])
            if listed and listed[-1][1] >= first:
                listed[-1] = listed[-1][0], max(last, listed[-1][1])
            else:
                listed.append((first, last))
            if turn not in largest or largest[turn].bytes < tile.bytes:
                largest[turn] = tile
    return [Bar(tile, spans[turn], tile.bytes) for turn, tile in largest.items()]


def _place(bars: list[Bar]) -> None:
    """Give every bar without a place the lowest one, in the order that takes the fewest bytes."""
    fixed = [bar for bar in bars if bar.start >= 0]
    free = [bar for bar in bars if bar.start < 0]
    orders: list[Callable[[Bar], Any]] = [
        lambda bar: bar.spans[0],
        lambda bar: (-bar.bytes, bar.spans[0]),
        lambda bar: (bar.spans[0][0] - bar.spans[-1][1], -bar.bytes),
    ]
    tried = [_fitted(fixed, sorted(free, key=order)) for order in orders]
    best = min(tried, key=lambda starts: max((b.bytes + starts[id(b)] for b in free), default=0))
    for bar in free:
        bar.start = best[id(bar)]
    for bar in bars:
        bar.reused = any(
            other.start < bar.end and bar.start < other.end and other.spans[0] < bar.spans[0]
            for other in bars
        )


def _fitted(fixed: Sequence[Bar], free: Sequence[Bar]) -> Mapping[int, int]:
    """The lowest start of each bar, one after the other, by its identity."""
    placed = [(bar, bar.start) for bar in fixed]
    for bar in free:
        start = 0
        for other, at in sorted(placed, key=lambda pair: pair[1]):
            if at < start + bar.bytes and start < at + other.bytes and bar.meets(other):
                start = at + other.bytes
        placed.append((bar, start))
    return {id(bar): start for bar, start in placed}


def _loops(function: Function, columns: Sequence[Op]) -> Iterator[tuple[int, int, Op, int]]:
    """The first and last column of every loop, with its depth."""
    at = {id(op): k for k, op in enumerate(columns)}

    def visit(ops: Sequence[Op], depth: int) -> Iterator[tuple[int, int, Op, int]]:
        for op in ops:
            regions = traits_of(op).regions
            repeats = regions is not None and regions.repeats
            inside = [at[id(o)] for region in op.regions for i in region.ops for o in i.walk() if id(o) in at]
            if repeats and inside:
                yield min(inside), max(inside), op, depth
            for region in op.regions:
                yield from visit(region.ops, depth + repeats)

    yield from visit(function.body.ops, 0)


# -- drawing -------------------------------------------------------------------------------------------


def _of(plot: Plot) -> str:
    """``256 of 192 KiB``, or with both units where they differ."""
    need, capacity = size_text(plot.peak[0]), size_text(plot.capacity)
    same = need.split()[1] == capacity.split()[1]
    return f"{need.split()[0] if same else need} of {capacity}"


def _line(op: Op | None) -> str:
    return f" at line {op.span.line}" if op is not None and op.span is not None else ""


def _draw(canvas: Canvas, plot: Plot, top: float, *, last: bool) -> float:
    """Draw a plot below ``top``, the ``last`` one of a function with its axis; where it ends."""
    peak, op = plot.peak
    over = peak > plot.capacity
    need = f"{_of(plot)}{_line(op)}"
    room = int((canvas.width - 40 - _LETTER * len(need)) / (1.2 * _LETTER)) - len(plot.place) - 2
    canvas.text(12, top + 14, f"@{cut(plot.function, room)} {plot.place}", "title")
    canvas.text(canvas.width - 12, top + 14, need, "bad bold" if over else "soft", anchor="end")
    # A program that uses little of a memory is drawn larger than the capacity allows.
    scaled = plot.top * 2.5 >= plot.capacity
    most = max(plot.top, plot.capacity) * 1.04 if scaled else plot.top * 1.3
    y0, width = top + 26 + _PLOT, canvas.width - _LEFT - 16
    step = width / len(plot.columns)

    def y(size: float) -> float:
        return y0 - _PLOT * size / most

    canvas.rect(_LEFT, y0 - _PLOT, width, _PLOT, "row")
    for bar in plot.bars:
        _bar(canvas, plot, bar, step, y)
    _names(canvas, plot, step, y)
    for k, names, size in plot.extra:
        under = plot.needed[k] - size
        title = f"{names}: {size_text(size)}"
        canvas.rect(
            _LEFT + k * step, y(under + size), step, y(under) - y(under + size), "outside", title=title
        )
    _levels(canvas, plot, y, scaled=scaled, width=width)
    return _axis(canvas, plot, step, y0) if last else y0 + 10


def _bar(canvas: Canvas, plot: Plot, bar: Bar, step: float, y: Callable[[float], float]) -> None:
    tile = bar.tile
    opens, closes = plot.columns[bar.spans[0][0] // 2], plot.columns[(bar.spans[-1][1] - 1) // 2]
    lines = f",{_line(opens)[3:]} to{_line(closes)[3:]}" if opens.span and closes.span else ""
    at = f"bytes {bar.start} to {bar.end - 1}"
    title = f"%{tile.name}: {tile.type}, {size_text(bar.bytes)}, {at}{lines}"
    for first, last in bar.spans:
        x, width = _LEFT + first * step / 2, (last - first) * step / 2
        for low, high, kind in (
            (bar.start, min(bar.end, plot.capacity), "reuse" if bar.reused else "first"),
            (max(bar.start, plot.capacity), bar.end, "over"),
        ):
            if high > low:
                tall = max(y(low) - y(high), 1.5)
                gap = min(0.6, tall / 4)
                canvas.rect(
                    x + 0.6, y(high) + gap, width - 1.2, tall - 2 * gap, kind, title=title, radius=1.5
                )


def _names(canvas: Canvas, plot: Plot, step: float, y: Callable[[float], float]) -> None:
    """The names of tiles on their bars, where they have room: bars of the same bytes are over each other."""
    drawn: list[tuple[float, float, float]] = []
    for bar in plot.bars:
        begin, end = max(bar.spans, key=lambda span: span[1] - span[0])
        tall, wide = y(bar.start) - y(bar.end), _LETTER * (len(bar.tile.name) + 1)
        x, middle = _LEFT + (begin + end) * step / 4, (y(bar.start) + y(bar.end)) / 2
        if (end - begin) * step / 2 <= wide + 4 or tall <= 10:
            continue
        if all(abs(x - a) >= (wide + w) / 2 or abs(middle - b) >= 10 for a, b, w in drawn):
            canvas.text(x, middle + 3.5, f"%{bar.tile.name}", "on small", anchor="middle")
            drawn.append((x, middle, wide))


def _levels(canvas: Canvas, plot: Plot, y: Callable[[float], float], *, scaled: bool, width: float) -> None:
    """The numbers at the left, and the capacity as a line."""
    line = y(plot.capacity) if scaled else y(plot.top * 1.3) + 8
    canvas.path(f"M{num(_LEFT)} {num(line)}h{num(width)}", "limit")
    if not scaled:
        canvas.text(_LEFT + width - 4, line + 12, "capacity, not to scale", "soft small", anchor="end")
    canvas.text(_LEFT - 5, line + 4, size_text(plot.capacity), "bad small", anchor="end")
    canvas.text(_LEFT - 5, y(0) + 2, "0", "soft small", anchor="end")
    bottom = plot.top
    if abs(y(bottom) - line) > 11 and bottom:
        canvas.text(_LEFT - 5, y(bottom) + 4, size_text(bottom), "soft small", anchor="end")


def _axis(canvas: Canvas, plot: Plot, step: float, y0: float) -> float:
    """The lines of the program, the names of the operations and brackets of loops; where they end."""
    for k, op in enumerate(plot.columns):
        title = f"{_line(op)[4:] or 'operation ' + str(k + 1)}: {op.name}".strip()
        canvas.rect(_LEFT + k * step, y0, step, 14, "clear", title=title)
    every = max(1, -(-22 // step))
    last = None
    for k in range(0, len(plot.columns), int(every)):
        span = plot.columns[k].span
        label = str(span.line) if span is not None else str(k + 1)
        if label != last:
            canvas.text(_LEFT + (k + 0.5) * step, y0 + 12, label, "soft small", anchor="middle")
        last = label
    canvas.text(_LEFT - 5, y0 + 12, "line", "soft small", anchor="end")
    bottom = y0 + 16
    if step >= 11:
        longest = max(len(op.name) for op in plot.columns)
        for k, op in enumerate(plot.columns):
            canvas.text(
                _LEFT + (k + 0.5) * step + 3, bottom + 4, op.name, "soft small", turn=-90, anchor="end"
            )
        bottom += 5.6 * longest + 6
    depths = sorted({depth for *_, depth in plot.loops})[:_DEPTH]
    for first, last_column, op, depth in plot.loops:
        if depth in depths:
            x, level = _LEFT + first * step, bottom + 15 * depth
            end = _LEFT + (last_column + 1) * step
            canvas.path(f"M{num(x + 1)} {num(level)}v4H{num(end - 1)}v-4", "ring")
            words = f"loop{_line(op)}".replace(" at", ",")
            canvas.text(
                (x + end) / 2, level + 13, words if end - x > 60 else "loop", "soft small", anchor="middle"
            )
    return bottom + (15 * (len(depths)) + 4 if depths else 0) + _GAP / 2


def _key(canvas: Canvas, plots: Sequence[Plot], y: float) -> float:
    """What the colours mean, as far as they occur; where the picture ends."""
    bars = [(plot, bar) for plot in plots for bar in plot.bars]
    entries = [("first", "first use of the bytes")]
    if any(bar.reused for _, bar in bars):
        entries.append(("reuse", "bytes used again"))
    if any(bar.end > plot.capacity for plot, bar in bars):
        entries.append(("over", "beyond the capacity"))
    if any(plot.extra for plot in plots):
        entries.append(("outside", "pipe slots, scratch, calls"))
    fixed = sum(bar.tile.address is not None for _, bar in bars)
    how = "others by first fit" if fixed else "places by first fit"
    how = f"addresses of the program{f', {how}' if fixed < len(bars) else ''}" if fixed else how
    tight = [plot for plot, bar in bars if plot.peak[0] <= plot.capacity < bar.end]
    if tight:
        how += f"; a plan of {_of(tight[0])} exists"
    return canvas.legend([*entries, ("", how)], y) + 4
