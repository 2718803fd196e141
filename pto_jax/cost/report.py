"""The cost of a program: one line per instruction, totals per pipe, and what is not known."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import Span
from ..ir import Pipe
from .sizes import Size, at_least, is_number
from .work import Figure, ModelName, Path


@dataclass(frozen=True, eq=False)
class CostLine:
    """One instruction of the program.

    ``times`` is how often it runs, None where the program does not say (its loop then counts once);
    ``notes`` qualify sizes and counts.

    >>> import pto_jax as pto
    >>> line, = pto.cost(pto.parse("%d = tadd %a, %b : !pto.tile<16x64xf32>")).lines
    >>> line.instruction, line.pipe.name, line.times, line.total
    ('tadd', 'V', 1, 2575)
    """

    instruction: str
    function: str
    pipe: Pipe
    figure: Figure
    times: Size | None = 1
    span: Span | None = None
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> Size | None:
        """Cycles of all its executions that are known to take place."""
        if self.figure.cycles is None:
            return None
        return self.figure.cycles * (1 if self.times is None else self.times)


@dataclass(frozen=True, eq=False)
class CostReport:
    """What a model says about a program, in cycles.

    ``complete`` is False when a line has no figure or runs an unknown number of times; totals then cover
    the known part. ``serial`` adds all pipes up, ``overlapped`` is the busiest pipe: real time lies
    between them.

    >>> import pto_jax as pto
    >>> report = pto.cost(pto.parse("%d = tadd %a, %b : !pto.tile<16x64xf32>"))
    >>> report.complete, report.serial, report.overlapped
    (True, 2575, 2575)
    """

    model: ModelName
    profile: str
    lines: tuple[CostLine, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def totals(self) -> Mapping[Pipe, Size]:
        """Known cycles per pipe."""
        totals: dict[Pipe, Size] = {}
        for line in self.lines:
            if line.total is not None:
                totals[line.pipe] = totals.get(line.pipe, 0) + line.total
        return {p: totals[p] for p in sorted(totals)}

    @property
    def serial(self) -> Size:
        """Known cycles of all pipes, one after another."""
        return sum(self.totals.values())

    @property
    def overlapped(self) -> Size:
        """Known cycles of the busiest pipe."""
        most: Size = 0
        for total in self.totals.values():
            most = at_least(total, most)
        return most

    @property
    def complete(self) -> bool:
        """Whether every line has a figure and a known number of executions."""
        return all(line.figure.cycles is not None and line.times is not None for line in self.lines)

    def to_json(self) -> str:
        """The report as JSON; arrays become lists."""
        return json.dumps(
            {
                "model": self.model,
                "profile": self.profile,
                "complete": self.complete,
                "totals": {p.name: _plain(t) for p, t in self.totals.items()},
                "serial": _plain(self.serial),
                "overlapped": _plain(self.overlapped),
                "notes": list(self.notes),
                "lines": [_line_record(line) for line in self.lines],
            },
            indent=2,
        )

    def __str__(self) -> str:
        return "\n".join(_text(self))


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return value.name.lower()
    return value.tolist() if hasattr(value, "tolist") else value


def _line_record(line: CostLine) -> dict[str, Any]:
    figure = line.figure
    return {
        "instruction": line.instruction,
        "function": line.function,
        "line": line.span.line if line.span else None,
        "pipe": line.pipe.name,
        "model": figure.model,
        "cycles": _plain(figure.cycles),
        "times": _plain(line.times),
        "total": _plain(line.total),
        "terms": {k: _plain(v) for k, v in figure.terms.items()},
        "path": _plain(figure.path),
        "layout": figure.layout,
        "lower_bound": _plain(figure.lower_bound),
        "notes": [n for n in (figure.note, *line.notes) if n],
    }


def _shown(value: Size | None) -> str:
    if value is None:
        return "?"
    return str(value) if is_number(value) else "array"


def _text(report: CostReport) -> Iterator[str]:
    yield f"model {report.model}, profile {report.profile}"
    header = ("line", "instruction", "pipe", "cycles", "times", "total", "")
    rows = [header, *(_row(line) for line in report.lines)]
    widths = [max(len(r[i]) for r in rows) for i in range(len(header) - 1)]
    left = (1, 2)
    for row in rows:
        cells = [
            c.ljust(w) if i in left else c.rjust(w)
            for i, (c, w) in enumerate(zip(row[:-1], widths, strict=True))
        ]
        yield "  ".join([*cells, row[-1]]).rstrip()
    for pipe, total in report.totals.items():
        yield f"pipe {pipe.name}: {_shown(total)} cycles ({report.model})"
    if report.totals:
        yield f"all pipes, one after the other: {_shown(report.serial)} cycles ({report.model})"
        yield f"busiest pipe: {_shown(report.overlapped)} cycles ({report.model})"
    missing = sum(line.figure.cycles is None for line in report.lines)
    unknown = sum(line.times is None for line in report.lines)
    if missing:
        yield f"not in the totals: {missing} of {len(report.lines)} instructions have no data in this model"
    if unknown:
        yield f"counted once: {unknown} instructions run an unknown number of times"
    yield from report.notes


def _row(line: CostLine) -> tuple[str, ...]:
    figure = line.figure
    said = []
    if isinstance(figure.path, Path):
        said.append(f"{figure.path.name.lower()} {figure.layout}")
    if figure.lower_bound is True:
        said.append("lower bound")
    said += [n for n in (figure.note, *line.notes) if n]
    return (
        str(line.span.line) if line.span else "",
        line.instruction,
        line.pipe.name,
        "no data" if figure.cycles is None else _shown(figure.cycles),
        _shown(line.times),
        "" if line.total is None else _shown(line.total),
        "; ".join(said),
    )
