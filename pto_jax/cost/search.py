"""Choosing among variants: programs ranked by cost, and search spaces by cost and error.

>>> import pto_jax as pto
>>> one = pto.parse("%d = tadd %a, %b : !pto.tile<16x64xf32>")
>>> two = pto.parse("%d = tmul %a, %b : !pto.tile<16x128xf32>")
>>> [variant.name for variant in rank({"two": two, "one": one})]
['one', 'two']
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import api, profiles
from ..errors import ArgumentError, PtoError
from ..ir import Program
from .program import CostReport, cost
from .work import Size, is_number

#: The models of :func:`rank` and :func:`tune` by default: those with figures of most instructions.
DEFAULT_MODELS: Mapping[str, str] = {"a2a3": "tables", "a5": "a5_fit"}
#: Candidates that :func:`tune` evaluates at most.
MAX_CANDIDATES = 100_000


@dataclass(frozen=True, eq=False)
class Variant:
    """A program with its cost report; ``unknown`` counts executions without a figure, by instruction.

    >>> import pto_jax as pto
    >>> ranking = pto.cost.rank({"add": pto.parse("%z = tadd %x, %y : !pto.tile<f32, 16, 64>")})
    >>> ranking.variants[0].name
    'add'
    """

    name: str
    report: CostReport

    @property
    def unknown(self) -> Mapping[str, int]:
        """Executions without a figure, by instruction."""
        counts: Counter[str] = Counter()
        for line in self.report.lines:
            if line.figure.cycles is None:
                counts[line.instruction] += 1 if line.times is None else int(line.times)
        return dict(counts)


@dataclass(frozen=True, eq=False)
class Ranking(Sequence[Variant]):
    """Variants of a program, the cheapest first; ``print`` writes a table.

    A variant with fewer executions without a figure stands before others, as its cost is better known; equal
    ones are ordered by the busiest pipe, then by the sum of all pipes.

    >>> import pto_jax as pto
    >>> ranking = pto.cost.rank([pto.parse("%z = tadd %x, %y : !pto.tile<f32, 16, 64>")])
    >>> len(ranking.variants)
    1
    """

    variants: tuple[Variant, ...]

    def __getitem__(self, index: Any) -> Any:
        return self.variants[index]

    def __len__(self) -> int:
        return len(self.variants)

    def __str__(self) -> str:
        report = self.variants[0].report
        rows = [
            (str(i), v.name, str(v.report.overlapped), str(v.report.serial), _counted(v.unknown))
            for i, v in enumerate(self.variants, 1)
        ]
        title = f"model {report.model}, profile {report.profile}; cycles"
        return "\n".join(
            [title, *_table(("", "program", "busiest pipe", "all pipes", "without a figure"), rows)]
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Names, cycles and what has no figure, in order."""
        return [
            {
                "program": v.name,
                "model": v.report.model,
                "profile": v.report.profile,
                "overlapped": v.report.overlapped,
                "serial": v.report.serial,
                "complete": v.report.complete,
                "without_figure": dict(v.unknown),
            }
            for v in self.variants
        ]


def rank(
    programs: Mapping[str, Any] | Sequence[Any],
    profile: str | profiles.Profile | None = None,
    model: str | None = None,
    *,
    entry: str | None = None,
    arguments: Mapping[str, int] | None = None,
) -> Ranking:
    """Programs ordered by the cycles that a model gives them, the cheapest first.

    ``programs`` are programs or kernels by name, or a sequence of them; ``arguments`` gives scalar arguments
    that sizes and loop bounds depend on. Without ``model`` it is "tables" on a2a3 and "a5_fit" on a5.
    Raises ArgumentError where there is no program, for arguments that are no numbers, and as
    :func:`pto_jax.cost`.

    >>> import pto_jax as pto
    >>> texts = {n: f"%z = tadd %x, %y : !pto.tile<f32, {n}, 64>" for n in (16, 8)}
    >>> ranking = rank({str(n): pto.parse(text) for n, text in texts.items()})
    >>> [v.name for v in ranking.variants]
    ['8', '16']
    """
    by_name = programs if isinstance(programs, Mapping) else {_name(p, i): p for i, p in enumerate(programs)}
    if not by_name:
        raise ArgumentError("rank: got no programs", allowed="one or more")
    variants = []
    for name, one in by_name.items():
        program = _program(one)
        default = model or DEFAULT_MODELS.get(api.resolve_profile(program, profile).name)
        report = cost(program, profile, default, entry=entry, arguments=arguments)
        if not is_number(report.serial):
            raise ArgumentError(
                "rank: arguments: got arrays", allowed="numbers", fix="pto.cost.tune for a space"
            )
        variants.append(Variant(name, report))
    return Ranking(tuple(sorted(variants, key=_order)))


def _order(variant: Variant) -> tuple[Any, ...]:
    return sum(variant.unknown.values()), variant.report.overlapped, variant.report.serial


@dataclass(frozen=True)
class Candidate:
    """One point of a search space: its parameters, cycles of the busiest pipe and of all, and its error.

    >>> Candidate({"rows": 16}, overlapped=120, serial=300).parameters["rows"]
    16
    """

    parameters: Mapping[str, Any]
    overlapped: float
    serial: float
    error: float = 0.0
    complete: bool = True


@dataclass(frozen=True, eq=False)
class Tuning:
    """The candidates of a search space in the order of the space; ``print`` writes those of ``front``.

    ``refused`` are the parameters of candidates that the verifier or the builder refuses, with the reason.

    >>> listed = (Candidate({"rows": 16}, 120, 300, 0.5), Candidate({"rows": 64}, 200, 400, 0.1))
    >>> [c.parameters for c in Tuning(listed).front], Tuning(listed).best(error=0.2).overlapped
    ([{'rows': 16}, {'rows': 64}], 200)
    """

    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[Mapping[str, Any], str], ...] = ()
    model: str = ""
    profile: str = ""

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The candidates that no other one beats in both cost and error, the cheapest first."""
        best, chosen = np.inf, list[Candidate]()
        for c in sorted(self.candidates, key=lambda c: (c.overlapped, c.error, c.serial)):
            if c.error < best:
                chosen.append(c)
                best = c.error
        return tuple(chosen)

    def best(self, *, error: float = np.inf, cost: float = np.inf) -> Candidate:
        """The cheapest candidate within the limits; with ``cost`` alone the most accurate one.

        ``error`` is the largest error, ``cost`` the most cycles of the busiest pipe. ArgumentError where no
        candidate is within the limits.
        """
        allowed = [c for c in self.candidates if c.error <= error and c.overlapped <= cost]
        if not allowed:
            least = min(c.error for c in self.candidates)
            raise ArgumentError(
                f"best: no candidate has an error of at most {error:.6g} and at most {cost:.6g} cycles",
                allowed=f"errors from {least:.6g}, cycles from {min(c.overlapped for c in self.candidates)}",
            )
        if np.isfinite(cost) and not np.isfinite(error):
            return min(allowed, key=lambda c: (c.error, c.overlapped, c.serial))
        return min(allowed, key=lambda c: (c.overlapped, c.error, c.serial))

    def __str__(self) -> str:
        names = tuple(self.candidates[0].parameters)
        rows = [
            (
                *(str(c.parameters[n]) for n in names),
                f"{c.overlapped:.6g}{'' if c.complete else ' or more'}",
                f"{c.serial:.6g}",
                f"{c.error:.4g}",
            )
            for c in self.front
        ]
        title = f"{len(rows)} of {len(self.candidates)} candidates that no other beats in cycles and error"
        source = f"model {self.model}, profile {self.profile}"
        table = _table((*names, "busiest pipe", "all pipes", "error"), rows)
        refused = [f"{len(self.refused)} refused, the first: {self.refused[0][1]}"] if self.refused else []
        return "\n".join([f"{title} ({source})", *table, *refused])


def tune(
    program: Any,
    space: Mapping[str, Sequence[Any]],
    error: Callable[[Sequence[Mapping[str, Any]]], Any] | None = None,
    *,
    profile: str | profiles.Profile | None = None,
    model: str | None = None,
    entry: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Tuning:
    """Every candidate of a search space with its cycles and its error.

    ``space`` maps parameters to their values. Of a program or kernel the parameters are scalar arguments, and
    all candidates are one evaluation of the model. A function, such as ``kernel.specialise``, is called with
    the parameters of each candidate by keyword; it returns a program or kernel, which is verified.
    ``error(candidates)`` takes the parameters of all accepted candidates and returns an error for each, from
    one batched call of the kernel for example. ``arguments`` are further scalar arguments of the program.
    Raises ArgumentError for a space without values or with more than 100,000 candidates, where every
    candidate is refused, and where ``error`` returns another number of values.

    >>> import pto_jax as pto
    >>> def program(rows):
    ...     return pto.parse(f"%d = tadd %a, %b : !pto.tile<{rows}x64xf32>")
    >>> result = tune(program, {"rows": (16, 64, 4096)}, lambda all: [1 / c["rows"] for c in all])
    >>> [c.parameters["rows"] for c in result.front], len(result.refused)
    ([16, 64], 1)
    >>> result.best(error=0.02).parameters
    {'rows': 64}
    """
    sizes = [len(values) for values in space.values()]
    count = int(np.prod(sizes, dtype=np.float64))
    if not space or count < 1 or count > MAX_CANDIDATES:
        raise ArgumentError(f"tune: got {count if space else 0} candidates", allowed=f"1 to {MAX_CANDIDATES}")
    points = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    function = program if callable(program) and not hasattr(program, "program") else None
    options = {"profile": profile, "model": model, "entry": entry}
    if function is None:
        reports = [_spread(_program(program), points, arguments, options)]
        accepted, refused = points, list[tuple[Mapping[str, Any], str]]()
    else:
        accepted, refused, reports = _each(function, points, arguments, options)
    if not accepted:
        raise ArgumentError(f"tune: every candidate is refused, the first: {refused[0][1]}")
    busiest = np.concatenate([np.broadcast_to(r.overlapped, len(accepted) // len(reports)) for r in reports])
    total = np.concatenate([np.broadcast_to(r.serial, len(accepted) // len(reports)) for r in reports])
    complete = [r.complete for r in reports for _ in range(len(accepted) // len(reports))]
    errors = np.zeros(len(accepted)) if error is None else np.asarray(error(accepted), np.float64)
    if errors.shape != (len(accepted),):
        raise ArgumentError(
            f"tune: error: got shape {errors.shape}", allowed=f"{(len(accepted),)}, one for each"
        )
    rows = zip(accepted, busiest.tolist(), total.tolist(), errors.tolist(), complete, strict=True)
    first = reports[0]
    return Tuning(tuple(Candidate(*row) for row in rows), tuple(refused), first.model, first.profile)


def _spread(
    program: Program, points: Sequence[Mapping[str, Any]], arguments: Mapping[str, Any] | None, options: Any
) -> CostReport:
    """The report of all candidates at once, with arrays of the scalar arguments."""
    columns: dict[str, Size] = {n: np.array([p[n] for p in points]) for n in points[0]}
    return _report(program, {**(arguments or {}), **columns}, options)


def _each(
    function: Callable[..., Any],
    points: Sequence[dict[str, Any]],
    arguments: Mapping[str, Any] | None,
    options: Any,
) -> tuple[list[dict[str, Any]], list[tuple[Mapping[str, Any], str]], list[CostReport]]:
    """The candidates whose programs are legal, those that are not, and the reports of the former."""
    accepted, reports = [], []
    refused: list[tuple[Mapping[str, Any], str]] = []
    for point in points:
        try:
            program = _program(function(**point))
            api.verify(program, options["profile"], raise_on_error=True)
            reports.append(_report(program, arguments, options))
        except PtoError as problem:
            refused.append((point, str(problem).partition("\n")[0]))
        else:
            accepted.append(point)
    return accepted, refused, reports


def _report(program: Program, arguments: Mapping[str, Any] | None, options: Any) -> CostReport:
    profile = api.resolve_profile(program, options["profile"])
    model = options["model"] or DEFAULT_MODELS.get(profile.name)
    return cost(program, profile, model, entry=options["entry"], arguments=arguments)


def _program(one: Any) -> Program:
    program = getattr(one, "program", one)
    if not isinstance(program, Program):
        raise ArgumentError(
            f"got {type(one).__name__}", allowed="programs and kernels", fix="pto.parse(text)"
        )
    return program


def _name(one: Any, index: int) -> str:
    return getattr(one, "symbol", None) or f"{index + 1}"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(name if n == 1 else f"{name} x{n}" for name, n in counts.items()) or "none"


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Columns with the numbers at the right; the last one is text."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(w) if not rows or not rows[0][i][:1].isdigit() else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
