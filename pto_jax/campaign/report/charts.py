"""Charts of a report as inline SVG: a line over time, bars of a histogram. Colours come from the page."""

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise

from ..fuzz.progress import duration as in_words
from .model import Accuracy, Throughput
from .text import short
from .ulp import SMALL, label


def throughput(t: Throughput, width: int = 860, height: int = 220) -> str:
    """Cases per second over the seconds of work; dashed lines stand where a pause was left out."""
    title = f"Throughput: {t.mean:,.1f} cases per second on average"
    points = t.points
    if len(points) == 1:
        points = ((0.0, points[0][1]), (t.seconds, points[0][1]))
    return _line(t, points, title, "cases per second", (width, height))


def growth(t: Throughput, column: int, what: str, width: int = 400, height: int = 200) -> str:
    """How many of something there were over the seconds of work: a column of the growth."""
    points = [(p[0], float(p[column])) for p in t.growth]
    # A count stays what it is until the next block ends.
    steps = [points[0], *(q for a, b in pairwise(points) for q in ((b[0], a[1]), b))] if points else []
    return _line(t, steps, f"{what}: {points[-1][1] if points else 0:,.0f}", what, (width, height))


def _line(
    t: Throughput, points: Sequence[tuple[float, float]], title: str, what: str, size: tuple[int, int]
) -> str:
    """Numbers over the seconds of work."""
    (width, height), (left, right, top, bottom) = size, (58, 12, 24, 34)
    ticks = nice(max((n for _, n in points), default=0.0))
    scale_y = (height - top - bottom) / (ticks[-1] or 1.0)
    scale_x = (width - left - right) / (t.seconds or 1.0)

    def at(seconds: float, n: float) -> tuple[float, float]:
        return left + seconds * scale_x, height - bottom - n * scale_y

    parts = [_open(width, height, title)]
    for tick in ticks:
        y = at(0, tick)[1]
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}"/>')
        parts.append(_label(left - 6, y + 4, short(tick) if tick >= 10 else f"{tick:g}", "end"))
    unit = next((u for u in (3600, 60) if t.seconds >= 2 * u), 1)
    for tick in (unit * n for n in nice(t.seconds / unit, max(2, width // 170))):
        if tick <= t.seconds:
            parts.append(_label(at(tick, 0)[0], height - bottom + 16, duration(tick), "middle"))
    for pause in t.pauses:
        x = at(pause, 0)[0]
        parts.append(f'<line class="pause" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{height - bottom}"/>')
    if points:
        placed = [at(*p) for p in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        (first, _), (last, _), base = placed[0], placed[-1], height - bottom
        parts.append(f'<polygon class="area" points="{first:.1f},{base} {path} {last:.1f},{base}"/>')
        parts.append(f'<polyline class="line" points="{path}"/>')
    parts.append(_label(width - right, height - 4, "time of work", "end"))
    parts.append(_label(4, 12, what, "start"))
    return "".join([*parts, "</svg>"])


def histogram(a: Accuracy, width: int = 236, height: int = 128) -> str:
    """Elements per distance, heights by the logarithm; buckets beyond the bound look different."""
    h = a.histogram
    starts = _starts(max(h.counts, default=0))
    bars = [(label(s) if s < SMALL else short_power(s), h.counts[s], _beyond(a, s)) for s in starts]
    if h.nan:
        bars.append(("NaN", h.nan, True))
    top, bottom = 16, 18
    step = width / max(len(bars), 4)
    highest = math.log1p(max((n for _, n, _ in bars), default=0)) or 1.0
    title = f"{a.instruction} {a.dtype}: {h.elements:,} elements, worst {h.worst} ULP"
    parts = [_open(width, height, title)]
    every = max(1, math.ceil(len(bars) / 6))
    for i, (name, n, beyond) in enumerate(bars):
        size = (height - top - bottom) * math.log1p(n) / highest
        x, y = i * step, height - bottom - size
        shape = f'x="{x + 1:.1f}" y="{y:.1f}" width="{max(step - 2, 1):.1f}" height="{size:.1f}"'
        if n:
            parts.append(f'<rect class="{"beyond" if beyond else "bar"}" {shape} rx="1.5"/>')
            if every == 1:
                parts.append(_label(x + step / 2, y - 3, short(n), "middle"))
        if name == "NaN" or (i % every == 0 and (not h.nan or i + every < len(bars))):
            parts.append(_label(x + step / 2, height - 4, name, "middle"))
    base = height - bottom
    parts.append(f'<line class="axis" x1="0" y1="{base}" x2="{width}" y2="{base}"/>')
    return "".join([*parts, "</svg>"])


def nice(highest: float, wanted: int = 5) -> Sequence[float]:
    """Round numbers from 0 to at least ``highest``.

    >>> nice(870.0), nice(0.0), nice(0.03)
    ([0.0, 200.0, 400.0, 600.0, 800.0, 1000.0], [0.0], [0.0, 0.01, 0.02, 0.03])
    """
    if highest <= 0:
        return [0.0]
    size = 10.0 ** math.floor(math.log10(highest / wanted))
    step = next(size * k for k in (1, 2, 5, 10) if highest / (size * k) <= wanted)
    return [round(i * step, 12) for i in range(math.ceil(highest / step - 1e-9) + 1)]


def duration(seconds: float) -> str:
    """Seconds as a label.

    >>> [duration(s) for s in (0, 0.5, 90, 100, 5400, 7200, 200000)]
    ['0 s', '0.5 s', '1 min 30 s', '1 min 40 s', '1 h 30 min', '2 h', '55 h 33 min']
    """
    if seconds < 60:
        return f"{seconds:g} s"
    return in_words(seconds).removesuffix(" 0 s").removesuffix(" 0 min")


def short_power(n: int) -> str:
    """A power of two as a label.

    >>> [short_power(n) for n in (8, 1024, 1 << 20)]
    ['8', '2^10', '2^20']
    """
    return str(n) if n < 1000 else f"2^{n.bit_length() - 1}"


def _starts(last: int) -> list[int]:
    """Buckets from 0 to the last one, at least up to 3."""
    starts = list(range(SMALL))
    while starts[-1] < last:
        starts.append(SMALL if starts[-1] == SMALL - 1 else starts[-1] * 2)
    return starts


def _beyond(a: Accuracy, start: int) -> bool:
    return a.bound is not None and start > a.bound


def _open(width: int, height: int, title: str) -> str:
    shown = escape(title)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{shown}"><title>{shown}</title>'


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
