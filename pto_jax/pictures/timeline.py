"""The pipes of a program over time: a picture, and a trace for Perfetto.

>>> import pto_jax as pto
>>> from pto_jax.examples import example
>>> timeline(pto.load(example("vector_add").path))
<Timeline: @vector_add on a2a3, model doc_formula: 1 of 4 instructions without a figure>
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from ..files import write_text
from ..profiles import Profile
from .memory import subject
from .schedule import Run, Schedule, binding, schedule, shortened
from .svg import Canvas, Picture, num

#: Runs that are drawn; the trace has all.
RUNS = 400
_LEFT, _ROW, _BAR = 92.0, 30.0, 20.0


@dataclass(frozen=True, repr=False)
class Timeline(Picture):
    """A picture of pipes; ``trace`` is the same as Chrome trace events in JSON, with one cycle as 1 us.

    >>> import json, pto_jax as pto
    >>> from pto_jax.examples import EXAMPLES
    >>> picture = pto.pictures.timeline(pto.load(EXAMPLES["vector_add"].path))
    >>> picture.svg.startswith("<svg "), len(json.loads(picture.trace)["traceEvents"]) > 4
    (True, True)
    """

    trace: str = ""

    def __repr__(self) -> str:
        return f"<Timeline: {self.label}>"

    def save(self, path: str | Path) -> None:
        """Write the picture to a file in .svg, or the trace to one in .json; errors as for a picture."""
        if Path(path).suffix.lower() == ".json":
            write_text(path, self.trace)
        elif Path(path).suffix.lower() == ".svg":
            super().save(path)
        else:
            raise ArgumentError(f"timeline: got the file name {path}", allowed="names in .svg or .json")


def timeline(
    program: Any,
    profile: str | Profile | None = None,
    model: str | None = None,
    *,
    entry: str | None = None,
    arguments: Mapping[str, int] | None = None,
) -> Timeline:
    """When the pipes of a block execute the instructions of a program or kernel, in cycles of a model.

    A row per pipe and core has a bar for each execution and arrows from what it waits for. The pipe with
    the most cycles is bold. Instructions without a figure are hatched, counted in the title and drawn with
    the median of the others. ``arguments`` gives scalar arguments by name, as for :func:`pto_jax.cost`;
    run-time numbers count as 3, or as another number where 3 executes nothing, and conditions as true.
    This is a picture of the model's figures and the program's order, not a measurement. VerifyError for a
    program with errors, ArgumentError for an unknown profile, model, entry or argument and for a program
    without instructions.

    >>> import pto_jax as pto
    >>> picture = timeline(pto.parse("%d = tadd %a, %b : !pto.tile<16x64xf32>"))
    >>> '"name": "tadd", "ph": "X", "ts": 0, "dur": 2575.0' in picture.trace
    True
    """
    program, target = subject(program, profile)
    result = schedule(program, target, model, entry, arguments or {})
    label = f"@{result.function} on {result.profile}, model {result.model}: {_missing(result)}"
    return _draw(shortened(result, RUNS), label, len(result.runs), trace(result))


def _missing(found: Schedule) -> str:
    if not found.missing:
        return f"{found.end:,.0f} cycles"
    return f"{found.missing} of {found.instructions} instructions without a figure"


def trace(found: Schedule) -> str:
    """The schedule as Chrome trace events: a process per core, a thread per pipe, a flow per wait."""
    rows = list(found.busy)
    cores = list(dict.fromkeys(row.core for row in rows))
    events: list[dict[str, Any]] = []
    for row in rows:
        where = {"pid": cores.index(row.core), "tid": int(row.pipe)}
        name = row.core or f"@{found.function}"
        events.append({"name": "process_name", "ph": "M", **where, "args": {"name": name}})
        events.append({"name": "thread_name", "ph": "M", **where, "args": {"name": row.pipe.name}})
    for run in found.runs:
        where = {"pid": cores.index(run.row.core), "tid": int(run.row.pipe)}
        args = {"line": run.span.line if run.span else None, "figure": run.figure}
        times = {"ts": run.start, "dur": run.end - run.start}
        events.append({"name": run.name, "ph": "X", **times, **where, "args": args})
    for number, wait in enumerate(found.waits):
        for run, phase in ((found.runs[wait.source], "s"), (found.runs[wait.target], "f")):
            where = {"pid": cores.index(run.row.core), "tid": int(run.row.pipe)}
            at = run.end if phase == "s" else run.start
            events.append(
                {"name": "wait", "cat": "wait", "ph": phase, "bp": "e", "id": number, "ts": at, **where}
            )
    other = {
        "unit": "1 us is 1 cycle",
        "model": found.model,
        "profile": found.profile,
        "without_figure": f"{found.missing} of {found.instructions}, {found.nominal:g} cycles each",
    }
    return json.dumps({"traceEvents": events, "otherData": other}) + "\n"


# -- drawing -------------------------------------------------------------------------------------------


def _draw(found: Schedule, label: str, runs: int, text: str) -> Timeline:
    width = min(max(640.0, _LEFT + 26 * len(found.runs)), 1200.0)
    canvas = Canvas(width, label)
    canvas.text(12, 22, f"@{found.function} on {found.profile}", "title")
    canvas.text(12, 38, f"model {found.model}, {_missing(found)}", "soft small")
    busy = found.busy
    rows = {row: 64 + _ROW * i for i, row in enumerate(busy)}
    scale = (width - _LEFT - 16) / max(found.end, 1)
    most = max(busy.values(), default=0)
    bottom = 64 + _ROW * len(rows)
    for row, y in rows.items():
        canvas.rect(_LEFT, y - 2, width - _LEFT - 16, _BAR + 4, "row", radius=3)
        bold = "bold" if busy[row] == most and most else ""
        canvas.text(_LEFT - 8, y + 14, str(row), bold, anchor="end")
    _grid(canvas, found.end, scale, bottom)
    for run in found.runs:
        _bar(canvas, run, rows[run.row], scale)
    for wait in binding(found):
        source, target = found.runs[wait.source], found.runs[wait.target]
        x0, x1 = _LEFT + source.end * scale, _LEFT + target.start * scale
        y0, y1 = rows[source.row] + _BAR / 2, rows[target.row] + _BAR / 2
        edge = (_BAR / 2 - 1) * (1 if y1 > y0 else -1)
        canvas.path(f"M{num(x0)} {num(y0 + edge)}L{num(x1)} {num(y1 - edge)}", "arrow", "waits")
    return _closed(canvas, found, runs, bottom, text)


def _closed(canvas: Canvas, found: Schedule, runs: int, bottom: float, trace: str) -> Timeline:
    """The notes below the rows, and the picture."""
    entries = [
        ("", words) for words in ("bold: the busiest pipe", "arrows: the waits that delay", *found.notes)
    ]
    if found.missing:
        entries.insert(0, ("outside", f"no figure in this model, drawn as {found.nominal:,.0f} cycles"))
    if runs > len(found.runs):
        entries.append(("", f"the first {len(found.runs)} of {runs} executions"))
    picture = canvas.picture(canvas.legend(entries, bottom + 24) + 4)
    return Timeline(picture.svg, picture.label, trace)


def _grid(canvas: Canvas, end: float, scale: float, bottom: float) -> None:
    """Lines at round numbers of cycles."""
    step = _round(end / 6)
    at = 0.0
    while at <= end:
        x = _LEFT + at * scale
        canvas.path(f"M{num(x)} 58V{num(bottom)}", "thin")
        canvas.text(x, bottom + 12, f"{at:,.0f}", "soft small", anchor="middle")
        at += step
    canvas.text(_LEFT - 8, bottom + 12, "cycles", "soft small", anchor="end")


def _round(x: float) -> float:
    """The next number that is 1, 2 or 5 times a power of ten."""
    return next(float(s * 10**n) for n in range(16) for s in (1, 2, 5) if s * 10**n >= x)


def _bar(canvas: Canvas, run: Run, y: float, scale: float) -> None:
    x, width = _LEFT + run.start * scale, max((run.end - run.start) * scale, 1.5)
    line = f"line {run.span.line}, " if run.span else ""
    cycles = f"{run.end - run.start:,.0f} cycles" if run.figure else "no figure"
    title = f"{run.name}: {line}{cycles}, from {run.start:,.0f} to {run.end:,.0f}"
    gap = 0.5 if width > 4 else 0
    canvas.rect(x, y, width - gap, _BAR, "first" if run.figure else "outside", title=title, radius=2)
    if width > 6 * len(run.name) + 6:
        look = "on small" if run.figure else "small"
        canvas.text(x + width / 2, y + 14, run.name, look, anchor="middle")
