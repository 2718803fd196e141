"""The report of a campaign as one HTML page without network or script, with charts as inline SVG.

The page is the Jinja2 template ``page.html`` beside this module (extra ``report``); every value in it is
escaped, and the charts take their colours from the page.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import Any

from ...cases import ulp
from ...cases.shown import brief, marked
from ...cases.ulp import SMALL, label
from ...errors import ArgumentError
from ..fuzz.batch import Failure
from ..fuzz.coverage import CONTROLS, REGIONS
from ..fuzz.goal import described, reached
from ..fuzz.progress import duration as in_words
from . import model
from .coverage import Coverage, Row
from .model import Accuracy, Throughput
from .text import short


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


def nice(highest: float, ticks: int = 5) -> Sequence[float]:
    """Round numbers from 0 to at least ``highest``.

    >>> nice(870.0), nice(0.0), nice(0.03)
    ([0.0, 200.0, 400.0, 600.0, 800.0, 1000.0], [0.0], [0.0, 0.01, 0.02, 0.03])
    """
    if highest <= 0:
        return [0.0]
    size = 10.0 ** math.floor(math.log10(highest / ticks))
    step = next(size * k for k in (1, 2, 5, 10) if highest / (size * k) <= ticks)
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
    text = escape(title)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text}"><title>{text}</title>'


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


#: Causes that the page lists.
CAUSES = 200
#: Steps of the heat map; ``page.css`` has a colour for each.
LEVELS = 6
_TITLES = {
    "failures": "Failure groups",
    "refusals": "Not executed",
    "goal": "Goal",
    "throughput": "Throughput",
    "growth": "Coverage and failures over time",
    "ulp": "ULP distances",
    "coverage": "Coverage",
    "never": "Never reached",
    "campaign": "Campaign",
}


@dataclass(frozen=True)
class Cell:
    """A cell of a heat map: the operations counted in it, and whether the declarations allow any."""

    column: str
    count: int
    allowed: bool
    level: int


@dataclass(frozen=True)
class HeatMap:
    """A table of counts: per class of instructions the rows, each an instruction and its cells."""

    columns: Sequence[str]
    groups: Sequence[tuple[str, Sequence[tuple[str, Sequence[Cell]]]]]


def page(report: model.CampaignReport) -> str:
    """The whole page; ArgumentError where Jinja2 is not installed."""
    goal = ("goal",) if report.bins else ()
    refusals = ("refusals",) if report.refusals else ()
    sections = dict.fromkeys(("failures", *refusals, *goal, "never") if report.campaign else ())
    sections |= dict.fromkeys(("throughput", "growth") if report.campaign else ())
    sections |= dict.fromkeys(("ulp",) if report.ulp or report.measured else ())
    sections |= dict.fromkeys(("coverage", "campaign") if report.campaign else ())
    groups = {"Results of the campaign": report.ulp} if report.ulp else {}
    coverage = report.coverage
    bins = [(described(b), n, b.at_least) for b, n in reached(report.bins, report.cells)]
    version = (report.campaign.get("versions") or {}).get("pto_jax")
    text: str = _template().render(
        report=report,
        title=f"{report.title}: {report.name}" if report.campaign else "Measured accuracy",
        sections={key: _TITLES[key] for key in sections},
        started=_started(report),
        failing=model.FAILING,
        limit=CAUSES,
        facts=_facts,
        program=lambda cause: marked(brief(cause.evidence.program), cause.first.instruction),
        accuracy_groups=groups | {f"Measured, {n}": a for n, a in report.measured.items()},
        ulp_table=_ulp_table,
        apart=lambda rows: [a for a in rows if a.histogram.worst or a.histogram.nan],
        missed=[row for row in bins if row[1] < row[2]],
        met=[row for row in bins if row[1] >= row[2]],
        levels=[least(n, _highest(coverage)) for n in range(1, LEVELS + 1)],
        by_dtype=_by_dtype(coverage),
        by_region=_by_region(coverage),
        attribute_rows=list(_attributes(coverage)),
        partly=list(_partly(coverage)),
        version=f"pto_jax {version}" if version else "pto_jax",
    )
    return text


def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise ArgumentError(
            "the HTML page needs Jinja2, which is not installed", fix="pip install 'pto_jax[report]'"
        ) from None
    environment = Environment(
        loader=PackageLoader(__package__ or "", "."),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["number"] = _number
    environment.filters["short"] = short
    # The charts escape what they are given themselves.
    environment.globals["growth_chart"] = lambda t, column, title: Markup(growth(t, column, title))
    environment.globals["throughput_chart"] = lambda t: Markup(throughput(t))
    environment.globals["histogram_chart"] = lambda a: Markup(histogram(a))
    return environment.get_template("page.html")


def _started(r: model.CampaignReport) -> str:
    seconds = r.campaign.get("started")
    begun = "at an unknown time"
    if isinstance(seconds, int | float):
        moment = datetime.fromtimestamp(seconds, tz=UTC)
        begun = moment.strftime("%Y-%m-%d %H:%M UTC")
    workers = f"{r.workers} worker{'s' * (r.workers != 1)}"
    return (
        f"Started {begun}; {r.blocks:,} blocks by {workers}; {r.campaign.get('device') or 'device unknown'}"
    )


def _facts(c: model.Cause) -> dict[str, str]:
    """What is known of a cause, by title; empty where nothing is."""
    f = c.first
    return {
        "outcomes": ", ".join(f"{n:,} {kind}" for kind, n in c.kinds.items()),
        "instructions": " ".join(c.instructions),
        "profiles": " ".join(c.profiles),
        "first case": f"{f.id}, index {f.index}",
        "folder": f.folder or "",
        "first element": ""
        if c.evidence.program
        else ", ".join(f"{k} {v}" for k, v in _element(f).items() if v is not None),
        "types": " ".join(c.types),
        "depends on": c.evidence.only,
        "made of": "; ".join(c.evidence.origin) or str(f.detail.get("origin", "")),
    }


def _element(f: Failure) -> dict[str, Any]:
    """What is known of the first element that differs in the case that was found."""
    return {k: v for k, v in f.detail.items() if k not in ("origin", "types")}


def _ulp_table(accuracies: Sequence[model.Accuracy]) -> tuple[list[str], list[list[object]]]:
    """Head and rows of the table of distances."""
    starts = sorted({s for a in accuracies for s in a.histogram.counts})
    rows: list[list[object]] = []
    for a in accuracies:
        h = a.histogram
        bound = "none" if a.bound is None else a.bound
        rows.append(
            [a.instruction, a.dtype, bound, h.elements, h.worst, *(h.counts[s] for s in starts), h.nan]
        )
    return ["instruction", "type", "bound", "elements", "worst", *map(ulp.label, starts), "NaN"], rows


def _highest(c: Coverage) -> int:
    return max((n for r in c.rows for n in r.dtypes.values()), default=1)


def least(number: int, highest: int) -> int:
    """The smallest count of a level of the heat map."""
    return math.ceil(math.pow(max(highest, 2), (number - 1) / LEVELS))


def level(n: int, highest: int) -> int:
    """The level of a count, by its logarithm.

    >>> [level(n, 10**6) for n in (1, 9, 10, 1000, 10**6)]
    [1, 1, 2, 4, 6]
    """
    return min(LEVELS, 1 + int(LEVELS * math.log(n) / math.log(max(highest, 2)) + 1e-9))


def _by_dtype(c: Coverage) -> HeatMap:
    rows = [r for r in c.rows if r.count or r.is_shown]
    return _heat(
        c, rows, c.dtypes, lambda r, d: r.dtypes.get(d, 0), lambda r, d: d in r.declared, _highest(c)
    )


def _by_region(c: Coverage) -> HeatMap:
    return _heat(
        c,
        [r for r in c.rows if r.count],
        (*REGIONS, *c.layouts, *CONTROLS),
        lambda r, k: next((m[k] for m in (r.regions, r.layouts, r.controls) if k in m), 0),
        lambda r, k: k in REGIONS and r.on_tiles and r.count > 0,
        max((n for r in c.rows for m in (r.regions, r.layouts, r.controls) for n in m.values()), default=1),
    )


def _heat(
    c: Coverage,
    rows: Iterable[Row],
    columns: Sequence[str],
    count: Callable[[Row, str], int],
    allowed: Callable[[Row, str], bool],
    highest: int,
) -> HeatMap:
    """Rows by class, cells coloured by their counts."""

    def cell(r: Row, column: str) -> Cell:
        n = count(r, column)
        return Cell(column, n, allowed(r, column), level(n, highest) if n else 0)

    ids = {id(r) for r in rows}
    groups = [
        (cls, [(r.instruction, [cell(r, k) for k in columns]) for r in members if id(r) in ids])
        for cls, members in c.by_class().items()
    ]
    return HeatMap(columns, [(cls, members) for cls, members in groups if members])


def _attributes(c: Coverage) -> Iterator[list[str]]:
    for r in c.rows:
        if r.reached_attributes:
            reached = ", ".join(f"{k} ({short(n)})" for k, n in r.reached_attributes.items())
            yield [r.instruction, reached, ", ".join(r.missing_attributes)]


def _partly(c: Coverage) -> Iterator[list[str]]:
    """Instructions that occurred, with what of them did not."""
    for r in c.rows:
        missing = (r.missing_dtypes, r.missing_regions, r.missing_attributes)
        if r.count and any(missing):
            yield [r.instruction, *map(", ".join, missing)]


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
