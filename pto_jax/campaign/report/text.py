"""A campaign's report as text."""

from collections.abc import Iterable, Iterator, Sequence

from ...cases import ulp
from ...files.terminal import table
from ..fuzz import campaign, goal, progress
from ..fuzz.coverage import REGIONS
from . import model
from .coverage import Coverage, Row

#: Causes and lines of their messages that are shown.
CAUSES, LINES = 50, 6
#: Reasons for refusing programs that are shown.
REFUSALS = 50
_RULE = "-"


def text(report: model.CampaignReport) -> str:
    """The whole report: outcomes, failures, throughput, accuracy, coverage, options."""
    parts: list[Iterable[str]] = [] if not report.campaign else [_head(report), _failures(report)]
    parts += [_accuracy("ULP distances", report.ulp)] if report.ulp else []
    parts += [_accuracy(f"measured accuracy, {n}", rows) for n, rows in report.measured.items()]
    if report.campaign:
        parts += [goal.goal_lines(report.bins, report.cells, len(report.bins))] if report.bins else []
        parts += [_throughput(report), _coverage(report.coverage), _options(report)]
    return "\n\n".join("\n".join(lines) for lines in parts)


def short(n: float) -> str:
    """A count in at most four characters or so.

    >>> [short(n) for n in (0, 999, 1000, 1234, 56789, 1234567, 9.99e9)]
    ['0', '999', '1k', '1.2k', '57k', '1.2M', '10G']
    """
    if n < 1000:
        return f"{n:.0f}"
    unit = ""
    for unit in "kMGT":
        n /= 1000
        if n < 999.5 or unit == "T":
            break
    digits = f"{n:.1f}" if n < 9.95 else f"{n:.0f}"
    return digits.removesuffix(".0") + unit


def _titled(title: str) -> Iterator[str]:
    yield title
    yield _RULE * len(title)


def _head(r: model.CampaignReport) -> Iterator[str]:
    yield from _titled(f"{r.title}: {r.name}")
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in r.kinds.items())
    yield f"{r.cases:,} cases in {r.blocks:,} blocks, {r.workers} workers: {kinds or 'none finished'}"
    yield f"{r.compared:,} compared; coverage and goals count these only"
    yield from campaign.refusal_lines(r.refusals, REFUSALS)
    yield from campaign.note_lines(r.campaign.get("notes") or ())


def _failures(r: model.CampaignReport) -> Iterator[str]:
    yield from _titled(f"failures: {r.failures:,} of {len(r.causes)} causes")
    for c in r.causes[:CAUSES]:
        kinds = ", ".join(f"{n} {kind}" for kind, n in c.kinds.items())
        yield f"{c.count:>7}  {(c.cause.splitlines() or [''])[0]}"
        yield f"         {kinds}; {' '.join(c.instructions) or 'no instruction'}; {' '.join(c.profiles)}"
        yield f"         first: case {c.first.id}, index {c.first.index}"
        first = c.evidence
        lines = (first.message or c.first.message).splitlines()
        yield from (f"           {line}" for line in lines[:LINES])
        yield from (
            f"           {line}" for line in (*first.differences, *([first.only] if first.only else []))
        )
        if c.first.detail and not first.program:
            yield "           " + ", ".join(f"{k} {v}" for k, v in c.first.detail.items() if v is not None)
        yield f"         {c.command}"
    if len(r.causes) > CAUSES:
        yield f"         and {len(r.causes) - CAUSES} more causes"


def _throughput(r: model.CampaignReport) -> Iterator[str]:
    t = r.throughput
    yield from _titled("throughput")
    pauses = f", pauses left out: {len(t.pauses)}" if t.pauses else ""
    yield f"{t.mean:,.1f} cases/s over {progress.duration(t.seconds)} of work{pauses}"
    if len(t.points) > 1:
        highest = max(rate for _, rate in t.points)
        bars = "▁▂▃▄▅▆▇█"
        line = "".join(bars[min(7, int(8 * rate / highest))] if highest else bars[0] for _, rate in t.points)
        yield f"{line}  highest {highest:,.1f}"


def _accuracy(title: str, accuracies: Sequence[model.Accuracy]) -> Iterator[str]:
    yield from _titled(title)
    starts = [s for s in (0, 1, 2, 3, 4, 8) if any(a.histogram.counts[s] for a in accuracies)]
    head = ["instruction", "type", "bound", "elements", "worst", *map(ulp.label, starts), "16-", "NaN"]
    rows = [head]
    for a in accuracies:
        h = a.histogram
        rows.append(
            [
                a.instruction,
                a.dtype,
                "none" if a.bound is None else str(a.bound),
                short(h.elements),
                str(h.worst),
                *(_count(h.counts[s]) for s in starts),
                _count(sum(n for start, n in h.counts.items() if start >= 16)),
                _count(h.nan),
            ]
        )
    yield from table(rows, left=2)


def _coverage(c: Coverage) -> Iterator[str]:
    reached, declared = c.pairs
    yield from _titled("coverage")
    yield (
        f"{c.cells:,} cells; {c.reached} of {len(c.rows)} instructions; {reached} of {declared} pairs of "
        "instruction and element type"
    )
    yield "per element type of the result; . is declared and was never reached"
    rows = [["instruction", *c.dtypes]]
    rows += [[r.instruction, *(_cell(r, d) for d in c.dtypes)] for r in c.rows if r.is_shown]
    yield from table(rows)
    yield ""
    yield "per valid region and layout of the first tile"
    rows = [["instruction", *REGIONS, *c.layouts]]
    for r in c.rows:
        if r.count:
            regions = [short(r.regions[k]) if r.regions.get(k) else "." for k in REGIONS]
            rows.append([r.instruction, *regions, *(_count(r.layouts.get(k, 0)) for k in c.layouts)])
    yield from table(rows)
    yield ""
    yield "per attribute value"
    for r in c.rows:
        if r.reached_attributes or (r.count and r.missing_attributes):
            text = " ".join(f"{k}:{short(n)}" for k, n in r.reached_attributes.items())
            unseen = " ".join(r.missing_attributes)
            yield f"{r.instruction:<20}  {text}{f'  never: {unseen}' if unseen else ''}"
    if c.never:
        yield ""
        yield f"never reached: {' '.join(c.never)}"


def _cell(r: Row, d: str) -> str:
    if r.dtypes.get(d):
        return short(r.dtypes[d])
    return "." if d in r.declared else ""


def _count(n: int) -> str:
    return short(n) if n else ""


def _options(r: model.CampaignReport) -> Iterator[str]:
    yield from _titled("campaign")
    yield from table(list(r.settings.items()), left=2)
