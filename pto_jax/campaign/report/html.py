"""A campaign's report as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from . import charts
from .coverage import REGIONS, Coverage, Row
from .model import FAILING, Accuracy, Cause, Report
from .style import CSS, LEVELS
from .text import short
from .ulp import label

#: Causes that the page lists.
CAUSES = 200
_TITLES = {
    "failures": "Failures by cause",
    "throughput": "Throughput",
    "ulp": "ULP distances",
    "coverage": "Coverage",
    "never": "Never reached",
    "campaign": "Campaign",
}


def page(report: Report) -> str:
    """The whole page."""
    sections: dict[str, Iterable[str]] = {}
    if report.campaign:
        sections = {"failures": _failures(report), "throughput": _throughput(report)}
    if report.ulp or report.measured:
        sections["ulp"] = _ulp(report)
    if report.campaign:
        sections |= {
            "coverage": _coverage(report.coverage),
            "never": _never(report.coverage),
            "campaign": _campaign(report),
        }
    title = escape(f"{report.title}: {report.name}" if report.campaign else "Measured accuracy")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{CSS}</style></head><body>",
            *_header(report, title, sections),
            "<main>",
            *(line for key, lines in sections.items() for line in _section(key, lines)),
            "</main>",
            *_footer(report),
            "</body></html>",
            "",
        ]
    )


def _section(key: str, lines: Iterable[str]) -> Iterator[str]:
    yield f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{_TITLES[key]}</h2>'
    yield from lines
    yield "</section>"


def _header(r: Report, title: str, sections: Mapping[str, object]) -> Iterator[str]:
    yield f"<header><h1>{title}</h1>"
    if r.campaign:
        yield f'<p class="soft">{escape(_started(r))}</p><ul class="figures">'
        yield _figure(f"{r.cases:,}", "cases")
        for kind, n in r.kinds.items():
            yield _figure(f"{n:,}", kind, "bad" if kind in FAILING else "good" if kind == "equal" else "")
        yield _figure(f"{len(r.causes):,}", "causes of failure", "bad" if r.causes else "good")
        yield _figure(f"{r.throughput.mean:,.1f}", "cases per second")
        pairs, declared = r.coverage.pairs
        yield _figure(f"{pairs:,} of {declared:,}", "pairs of instruction and type")
        yield "</ul>"
    links = (f'<a href="#{key}">{_TITLES[key]}</a>' for key in sections)
    yield f'<nav aria-label="Sections">{"".join(links)}</nav></header>'


def _started(r: Report) -> str:
    known = r.campaign.get("started")
    begun = "at an unknown time"
    if isinstance(known, int | float):
        moment = datetime.fromtimestamp(known, tz=UTC)
        begun = moment.strftime("%Y-%m-%d %H:%M UTC")
    workers = f"{r.workers} worker{'s' * (r.workers != 1)}"
    return (
        f"Started {begun}; {r.blocks:,} blocks by {workers}; {r.campaign.get('device') or 'device unknown'}"
    )


def _figure(number: str, what: str, mood: str = "") -> str:
    return f'<li><b class="{mood}">{escape(number)}</b><span>{escape(what)}</span></li>'


def _failures(r: Report) -> Iterator[str]:
    if not r.causes:
        yield '<p class="good">No failure.</p>'
        return
    yield f"<p>{r.failures:,} failures of {len(r.causes):,} causes; the first of each is shown.</p>"
    for i, cause in enumerate(r.causes[:CAUSES]):
        yield from _cause(cause, opened=i < 3)
    if len(r.causes) > CAUSES:
        yield f"<p>and {len(r.causes) - CAUSES:,} more causes</p>"


def _cause(c: Cause, opened: bool) -> Iterator[str]:
    lines = c.cause.splitlines() or [""]
    yield f"<details{' open' if opened else ''}><summary>"
    yield f'<span class="count">{c.count:,}</span> {escape(lines[0])}</summary>'
    f = c.first
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in c.kinds.items())
    rows = {
        "outcomes": kinds,
        "instructions": " ".join(c.instructions),
        "profiles": " ".join(c.profiles),
        "first case": f"{f.id}, index {f.index}",
        "folder": f.folder or "",
        "first element": ", ".join(f"{k} {v}" for k, v in f.detail.items() if v is not None),
    }
    yield "<table><tbody>"
    yield from (
        f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in rows.items() if v
    )
    yield f"</tbody></table><pre>{escape(f.message)}</pre>"
    yield f"<p>To see it again:</p><pre>{escape(c.command)}</pre></details>"


def _throughput(r: Report) -> Iterator[str]:
    t = r.throughput
    if not t.points:
        yield "<p>No block is finished.</p>"
        return
    yield charts.throughput(t)
    if t.pauses:
        yield f'<p class="soft">Pauses left out, at the dashed lines: {len(t.pauses)}.</p>'


def _ulp(r: Report) -> Iterator[str]:
    yield '<p class="soft">Elements per distance in units in the last place, heights by the logarithm of '
    yield "the count. Red bars are beyond the declared bound.</p>"
    groups = {"Results of the campaign": r.ulp} if r.ulp else {}
    for name, listed in {**groups, **{f"Measured, {n}": a for n, a in r.measured.items()}}.items():
        yield f'<h3>{escape(name)}</h3><div class="charts">'
        for a in listed:
            yield f"<figure>{charts.histogram(a)}<figcaption>{_caption(a)}</figcaption></figure>"
        yield "</div>"
        yield from _details("The same as a table", _ulp_table(listed))


def _caption(a: Accuracy) -> str:
    bound = "no bound" if a.bound is None else f"bound {a.bound}"
    mood = "good" if a.within else "bad"
    worst = f'<span class="{mood}">worst {a.histogram.worst:,}</span>'
    nan = f", {a.histogram.nan:,} NaN on one side" if a.histogram.nan else ""
    name = f"<b>{escape(a.instruction)}</b> {escape(a.dtype)}"
    return f"{name}: {worst}, {bound}, {short(a.histogram.elements)} elements{nan}"


def _ulp_table(listed: Sequence[Accuracy]) -> Iterator[str]:
    starts = sorted({s for a in listed for s in a.histogram.counts})
    head = ["instruction", "type", "bound", "elements", "worst", *map(label, starts), "NaN"]
    rows = []
    for a in listed:
        h = a.histogram
        bound = "none" if a.bound is None else a.bound
        rows.append(
            [a.instruction, a.dtype, bound, h.elements, h.worst, *(h.counts[s] for s in starts), h.nan]
        )
    yield from _table(head, rows, left=2)


def _coverage(c: Coverage) -> Iterator[str]:
    reached, declared = c.pairs
    yield f"<p>{c.cells:,} cells; {c.reached} of {len(c.rows)} instructions; {reached:,} of {declared:,} "
    yield "declared pairs of instruction and element type.</p>"
    keys = "".join(f'<span class="key h{n}">{_least(n, _highest(c))}</span>' for n in range(1, LEVELS + 1))
    yield f'<p class="soft">Operations per cell, from {keys} on; <span class="never-key">·</span> is allowed '
    yield "by the declarations and was never reached; empty is not allowed.</p>"
    yield "<h3>Instruction and element type of the result</h3>"
    yield from _heat(c, c.dtypes, lambda r, d: r.dtypes.get(d, 0), lambda r, d: d in r.declared, _highest(c))
    yield "<h3>Valid region and layout of the first tile</h3>"
    columns = (*REGIONS, *c.layouts)
    yield from _heat(
        c,
        columns,
        lambda r, k: r.regions.get(k, 0) if k in REGIONS else r.layouts.get(k, 0),
        lambda r, k: k in REGIONS and r.on_tiles and r.count > 0,
        max((n for r in c.rows for n in (*r.regions.values(), *r.layouts.values())), default=1),
        reached=True,
    )
    yield from _details("Attribute values", _attributes(c))


def _highest(c: Coverage) -> int:
    return max((n for r in c.rows for n in r.dtypes.values()), default=1)


def _least(level: int, highest: int) -> str:
    """The smallest count of a level of the heat map."""
    return short(math.ceil(max(highest, 2) ** ((level - 1) / LEVELS)))


def level(n: int, highest: int) -> int:
    """The level of a count, by its logarithm.

    >>> [level(n, 10**6) for n in (1, 9, 10, 1000, 10**6)]
    [1, 1, 2, 4, 6]
    """
    return min(LEVELS, 1 + int(LEVELS * math.log(n) / math.log(max(highest, 2)) + 1e-9))


def _heat(
    c: Coverage, columns: Sequence[str], count: Any, allowed: Any, highest: int, reached: bool = False
) -> Iterator[str]:
    """Rows by class, columns, cells coloured by their counts."""
    yield '<div class="scroll tall"><table class="heat"><thead><tr><th scope="col">instruction</th>'
    yield "".join(f'<th scope="col">{escape(name)}</th>' for name in columns) + "</tr></thead>"
    for cls, rows in c.by_class().items():
        shown = [r for r in rows if r.count or (r.is_shown and not reached)]
        if not shown:
            continue
        width = len(columns) + 1
        yield f'<tbody><tr class="group"><th colspan="{width}" scope="rowgroup">{escape(cls)}</th></tr>'
        for r in shown:
            cells = "".join(_cell(r, k, count(r, k), allowed(r, k), highest) for k in columns)
            yield f'<tr><th scope="row">{escape(r.instruction)}</th>{cells}</tr>'
        yield "</tbody>"
    yield "</table></div>"


def _cell(r: Row, column: str, n: int, allowed: bool, highest: int) -> str:
    where = escape(f"{r.instruction} {column}")
    if n:
        return f'<td class="h{level(n, highest)}" title="{where}: {n:,}">{short(n)}</td>'
    return f'<td class="never" title="{where}: never">·</td>' if allowed else "<td></td>"


def _attributes(c: Coverage) -> Iterator[str]:
    rows = []
    for r in c.rows:
        values = {k: n for k, n in sorted(r.attributes.items()) if k != "-"}
        if values:
            reached = ", ".join(f"{k} ({short(n)})" for k, n in values.items())
            rows.append([r.instruction, reached, ", ".join(r.missing_attributes)])
    yield from _table(["instruction", "reached", "never reached"], rows, left=3, css="values")


def _never(c: Coverage) -> Iterator[str]:
    unseen = [r.instruction for r in c.rows if not r.count]
    yield f"<p>Instructions ({len(unseen)}): {escape(', '.join(unseen)) or 'none'}</p>"
    rows = [
        [
            r.instruction,
            ", ".join(r.missing_dtypes),
            ", ".join(r.missing_regions),
            ", ".join(r.missing_attributes),
        ]
        for r in c.rows
        if r.count and (r.missing_dtypes or r.missing_regions or r.missing_attributes)
    ]
    inner = _table(
        ["instruction", "element types", "regions", "attribute values"], rows, left=4, css="values"
    )
    yield from _details(f"Parts of {len(rows)} instructions that were reached", inner)


def _campaign(r: Report) -> Iterator[str]:
    versions = {f"version of {k}": v for k, v in (r.campaign.get("versions") or {}).items()}
    known = {**r.options, "device": r.campaign.get("device") or "unknown", **versions, "store": r.name}
    yield from _table(["what", "value"], [[k, v] for k, v in known.items()], left=2, css="values")


def _table(
    head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1, css: str = ""
) -> Iterator[str]:
    yield f'<div class="scroll"><table class="{css}"><thead><tr>'
    yield "".join(f'<th scope="col">{escape(h)}</th>' for h in head) + "</tr></thead><tbody>"
    for row in rows:
        cells = (
            f"<td>{escape(str(v))}</td>" if i < left else f'<td class="n">{_number(v)}</td>'
            for i, v in enumerate(row)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def _details(summary: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{escape(summary)}</summary>"
    yield from lines
    yield "</details>"


def _footer(r: Report) -> Iterator[str]:
    version = (r.campaign.get("versions") or {}).get("pto_jax")
    made = f"pto_jax {version}" if version else "pto_jax"
    source = f" from {escape(r.name)}" if r.name else ""
    yield f'<footer><p class="soft">Made by pto-jax report{source}, {escape(made)}.</p></footer>'
