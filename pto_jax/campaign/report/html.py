"""A campaign's report as one HTML page that needs nothing else: no network, no script.

The page is the Jinja2 template ``page.html`` beside this module (extra ``report``); everything that is put
into it is escaped.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ...errors import ArgumentError
from ..fuzz.batch import Failure
from ..fuzz.coverage import CONTROLS, REGIONS
from ..fuzz.goal import described, reached
from . import charts, model, ulp
from .coverage import Coverage, Row
from .programs import brief, marked
from .text import short

#: Causes that the page lists.
CAUSES = 200
#: Steps of the heat map; ``page.css`` has a colour for each.
LEVELS = 6
_TITLES = {
    "failures": "Failures by cause",
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
    shown = dict.fromkeys(("failures", *refusals, *goal, "never") if report.campaign else ())
    shown |= dict.fromkeys(("throughput", "growth") if report.campaign else ())
    shown |= dict.fromkeys(("ulp",) if report.ulp or report.measured else ())
    shown |= dict.fromkeys(("coverage", "campaign") if report.campaign else ())
    groups = {"Results of the campaign": report.ulp} if report.ulp else {}
    coverage = report.coverage
    bins = [(described(b), n, b.at_least) for b, n in reached(report.bins, report.cells)]
    version = (report.campaign.get("versions") or {}).get("pto_jax")
    text: str = _template().render(
        report=report,
        title=f"{report.title}: {report.name}" if report.campaign else "Measured accuracy",
        sections={key: _TITLES[key] for key in shown},
        started=_started(report),
        failing=model.FAILING,
        limit=CAUSES,
        facts=_facts,
        program=lambda cause: marked(brief(cause.evidence.program), cause.first.instruction),
        accuracy_groups=groups | {f"Measured, {n}": a for n, a in report.measured.items()},
        ulp_table=_ulp_table,
        apart=lambda listed: [a for a in listed if a.histogram.worst or a.histogram.nan],
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
            "the HTML page needs Jinja2, which is not installed; usual fix: pip install 'pto_jax[report]'"
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
    environment.globals["growth_chart"] = lambda t, column, title: Markup(charts.growth(t, column, title))
    environment.globals["throughput_chart"] = lambda t: Markup(charts.throughput(t))
    environment.globals["histogram_chart"] = lambda a: Markup(charts.histogram(a))
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


def _ulp_table(listed: Sequence[model.Accuracy]) -> tuple[list[str], list[list[object]]]:
    """Head and rows of the table of distances."""
    starts = sorted({s for a in listed for s in a.histogram.counts})
    rows: list[list[object]] = []
    for a in listed:
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

    listed = {id(r) for r in rows}
    groups = [
        (cls, [(r.instruction, [cell(r, k) for k in columns]) for r in members if id(r) in listed])
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
