"""Execution of recorded cases by the implementations of this package, and the table of results."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from .. import oracle, profiles
from ..errors import FileError, PtoError
from ..files.terminal import table
from ..lowering.bits import x64
from ..profiles import CPU_SIM, Profile
from ..runtime.kernel import Kernel, choices
from ..runtime.tiles import Tile
from . import cases, manifest
from .cases import (
    case_program as case_program,
    to_logical,
    to_physical,
    unsupported_reason as unsupported_reason,
    written_operands,
)
from .compare import Comparison, compare_operand
from .exclusions import exclusion, not_required
from .manifest import Case, GmOperand, ScalarOperand, TileOperand, VectorOperand, load_file, vector_files

#: Executes a case: raw bytes of each written operand afterwards, by name. Operands that were only read
#: may be included; they must be unchanged.
Executor: TypeAlias = Callable[[Case], Mapping[str, NDArray[Any]]]
#: Executes several cases at once; the results are what an :data:`Executor` gives for each, in order.
BatchExecutor: TypeAlias = Callable[[Sequence[Case]], Sequence[Mapping[str, NDArray[Any]]]]
#: Cases handed to a batch executor at a time.
TOGETHER = 32

#: ``pass`` and ``fail`` are required cases; ``differs`` is a not-required case with another result.
Status = Literal["pass", "fail", "excluded", "differs", "unsupported"]
STATUSES: tuple[Status, ...] = ("pass", "fail", "excluded", "differs", "unsupported")
_TITLES = {"differs": "not required"}


@dataclass(frozen=True)
class CaseResult:
    """Outcome of one case: ``detail`` is what differs, ``reason`` why the case is not required."""

    id: str
    label: str
    instruction: str
    status: Status
    detail: str = ""
    reason: str = ""
    agrees: bool | None = None
    max_ulp: int = 0
    file: str = ""


@dataclass(frozen=True)
class ConformanceReport:
    """Outcomes of a run, in the order the cases were read."""

    results: tuple[CaseResult, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """No required case failed, and at least one was executed."""
        return not self.failures and any(r.status == "pass" for r in self.results)

    @property
    def failures(self) -> list[CaseResult]:
        """The required cases with another result, in the order of the run."""
        return [r for r in self.results if r.status == "fail"]

    @property
    def totals(self) -> dict[Status, int]:
        """Cases per status, every status included."""
        counts = Counter(r.status for r in self.results)
        return {s: counts[s] for s in STATUSES}

    @property
    def excluded_share(self) -> float:
        """Part of the executable cases that the exclusion table takes out."""
        totals = self.totals
        executable = len(self.results) - totals["unsupported"]
        return totals["excluded"] / executable if executable else 0.0

    def by_instruction(self) -> dict[str, list[CaseResult]]:
        """The results of each instruction, in the order of the run."""
        groups: dict[str, list[CaseResult]] = {}
        for r in self.results:
            groups.setdefault(r.instruction, []).append(r)
        return groups

    def table(self) -> str:
        """A line per instruction with its counts, and a total."""
        rows = [["instruction", "cases", *(_TITLES.get(s, s) for s in STATUSES), "max ulp"]]
        for name, results in [*self.by_instruction().items(), ("total", list(self.results))]:
            count = Counter(r.status for r in results)
            worst = max((r.max_ulp for r in results if r.status == "pass"), default=0)
            rows.append([name, str(len(results)), *(str(count[s]) for s in STATUSES), str(worst)])
        return "\n".join(table(rows))

    def summary(self, shown: int = 20) -> str:
        """The table, the first failures, and why cases were left out."""
        lines = [self.table(), ""]
        for r in self.failures[:shown]:
            lines.append(f"FAIL {r.file}: {r.id} {r.label}: {r.detail}")
        if len(self.failures) > shown:
            lines.append(f"... and {len(self.failures) - shown} more failures")
        for status in ("unsupported", "excluded", "differs"):
            reasons = Counter(r.reason for r in self.results if r.status == status)
            title = _TITLES.get(status, status)
            lines += [f"{title}: {n} case{'s' * (n > 1)}: {reason}" for reason, n in reasons.items()]
        totals = self.totals
        executed = len(self.results) - totals["unsupported"]
        verdict = "passed" if self.ok else "FAILED" if self.failures else "FAILED: no case was executed"
        lines.append(
            f"{verdict}: {totals['pass']} of {executed} executed cases pass, {totals['fail']} fail, "
            f"{totals['excluded']} excluded ({self.excluded_share:.1%}), {totals['differs']} not required"
        )
        return "\n".join(lines)

    def to_json(self) -> str:
        """Options, totals and every case, as JSON."""
        cases = [
            {k: v for k, v in vars(r).items() if v not in ("", None)} | {"max_ulp": r.max_ulp}
            for r in self.results
        ]
        body = {
            **self.options,
            "ok": self.ok,
            "totals": self.totals,
            "excluded_share": self.excluded_share,
            "cases": cases,
        }
        return json.dumps(body, indent=1)


def run_case(case: Case, execute: Executor) -> CaseResult:
    """Execute one case and judge it. An error of the implementation is a failure of the case."""

    def result(status: Status, detail: str = "", reason: str = "", ulp: int = 0) -> CaseResult:
        agrees = None if status == "unsupported" else not detail
        return CaseResult(
            case.id, case.label, case.instruction, status, detail, reason, agrees, ulp, case.file
        )

    reason = unsupported_reason(case)
    if reason:
        return result("unsupported", reason=reason)
    try:
        comparisons = compare_case(case, execute(case))
        bad = next((str(c) for c in comparisons if not c), "")
        ulp = max((c.max_ulp for c in comparisons), default=0)
    except PtoError as error:
        comparisons, bad, ulp = [], f"{type(error).__name__}: {error}", 0
    except Exception as error:
        # A crash is a fault of the implementation whatever the case is worth, and must not end the run.
        return result("fail", f"internal error: {type(error).__name__}: {error}")
    results = {o.name for o in case.outputs}
    if not bad and not any(c.elements for c in comparisons if c.operand in results):
        return result("unsupported", reason="no element of the results is compared: all are undefined")
    excluded = exclusion(case)
    if excluded:
        return result("excluded", bad, excluded.reason)
    optional = not_required(case)
    if bad and optional:
        return result("differs", bad, optional)
    return result("fail", bad) if bad else result("pass", ulp=ulp)


def compare_case(case: Case, after: Mapping[str, NDArray[Any]]) -> list[Comparison]:
    """Compare every recorded output, and check that read operands given back are unchanged."""
    results: list[Comparison] = []
    names, written = {o.name for o in case.operands}, written_operands(case)
    for name in after:
        if name not in names:
            results.append(Comparison(name, False, reason="the case has no operand of this name"))
    for operand in case.operands:
        if not isinstance(operand, TileOperand | GmOperand | VectorOperand):
            continue
        if operand.name in after:
            results.append(compare_operand(operand, after[operand.name], case.rule))
        elif operand.after is not None and operand.name not in written:
            results.append(compare_operand(operand, operand.before, case.rule))
        elif operand.after is not None:
            results.append(Comparison(operand.name, False, reason="the implementation gave no result"))
    return results


def run_conformance(
    paths: Iterable[str | Path],
    execute: Executor,
    options: Mapping[str, str] | None = None,
    together: BatchExecutor | None = None,
) -> ConformanceReport:
    """Run every case of the vector files and folders in ``paths``.

    ``together`` executes the cases of a file in batches; where it fails, ``execute`` runs the batch case
    by case. Raises FileError when a file cannot be read or the paths hold no case.
    """
    results: list[CaseResult] = []
    for path in vector_files(paths):
        cases = load_file(path)
        for begin in range(0, len(cases), TOGETHER):
            results += _run_batch(cases[begin : begin + TOGETHER], execute, together)
    if not results:
        raise FileError(f"no cases in {', '.join(map(str, paths))}")
    return ConformanceReport(tuple(results), options or {})


def _run_batch(
    cases: Sequence[Case], execute: Executor, together: BatchExecutor | None
) -> Iterator[CaseResult]:
    executable = [case for case in cases if unsupported_reason(case) is None]
    results: dict[str, Mapping[str, NDArray[Any]]] = {}
    if together is not None:
        # A batch that fails is executed case by case, so that the error is that of its case.
        with suppress(Exception):
            results = {c.id: after for c, after in zip(executable, together(executable), strict=True)}
    for case in cases:
        yield run_case(case, lambda case: results[case.id] if case.id in results else execute(case))


def run_case_oracle(
    case: manifest.Case, profile: str | profiles.Profile = "cpu_sim", **options: Any
) -> dict[str, NDArray[np.uint8]]:
    """Bytes of each written operand after the reference interpreter executed a case.

    ``options`` are those of :func:`pto_jax.oracle.run`.
    """
    program = cases.case_program(case)
    taken = {v.name for v in program.functions[0].args}
    arguments = {o.name: _argument(o) for o in case.operands if o.name in taken}
    results = oracle.run(program, arguments, profile=profile, **options)
    return {name: _bytes(case, name, result) for name, result in results.items()}


def _argument(operand: Any) -> Any:
    if isinstance(operand, manifest.TileOperand):
        return oracle.OracleTile(operand.type, cases.to_logical(operand.type, operand.before))
    if isinstance(operand, manifest.GmOperand):
        return cases.unpack_elements(operand.dtype, operand.before)
    if isinstance(operand, manifest.VectorOperand):
        return operand.before.view(operand.dtype.word)
    assert isinstance(operand, manifest.ScalarOperand)
    return operand.value


def _bytes(case: manifest.Case, name: str, result: Any) -> NDArray[np.uint8]:
    operand = case.operand(name)
    if isinstance(operand, manifest.TileOperand):
        t = operand.type
        return cases.to_physical(t, np.ascontiguousarray(result.data).view(t.dtype.word), operand.before)
    if isinstance(operand, manifest.VectorOperand):
        return np.ascontiguousarray(result).view(np.uint8)
    assert isinstance(operand, manifest.GmOperand)
    return cases.pack_elements(operand.dtype, result)


def run_case_engine(
    case: Case, profile: Profile = CPU_SIM, numerics: str = "exact"
) -> Mapping[str, NDArray[np.uint8]]:
    """Raw bytes of every written operand after the case's instruction.

    The program is not verified: vectors record what an implementation does even where a page forbids it.
    """
    kernel = _kernel(case, profile, numerics)
    return _after(case, kernel.eager_unchecked(**_arguments(case, kernel)))


def run_cases_engine(
    cases: Sequence[Case],
    profile: Profile = CPU_SIM,
    numerics: str = "exact",
    apply: Callable[[Callable[[Any], Any], Any], Any] = lambda function, argument: jax.jit(function)(
        argument
    ),
) -> list[Mapping[str, NDArray[np.uint8]]]:
    """What :func:`run_case_engine` gives for each of the cases, from one compiled function.

    Most of the time a small program takes is the fixed cost of a compilation. ``apply`` executes a function
    of arrays in another way.
    """
    kernels = [_kernel(case, profile, numerics) for case in cases]
    arguments = [_arguments(case, kernel) for case, kernel in zip(cases, kernels, strict=True)]

    def execute(batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [kernel(**one) for kernel, one in zip(kernels, batch, strict=True)]

    with x64():
        results = apply(execute, arguments)
    return [_after(case, result) for case, result in zip(cases, results, strict=True)]


def _kernel(case: Case, profile: Profile, numerics: str) -> Kernel:
    program = case_program(case)
    return Kernel(program, program.functions[0].name, choices(profile, numerics, None, "keep"))


def _arguments(case: Case, kernel: Kernel) -> dict[str, Any]:
    return {a.name: _engine_argument(case, a.name) for a in kernel.arguments}


def _after(case: Case, results: Mapping[str, Any]) -> dict[str, NDArray[np.uint8]]:
    return {name: _engine_bytes(case, name, value) for name, value in results.items()}


def _engine_argument(case: Case, name: str) -> Any:
    operand = case.operand(name)
    if isinstance(operand, TileOperand):
        words = to_logical(operand.type, operand.before)
        with x64():
            return Tile(jax.device_put(words), None, None, operand.type)
    if isinstance(operand, GmOperand | VectorOperand):
        return np.asarray(operand.before).view(operand.dtype.word)
    assert isinstance(operand, ScalarOperand)
    return np.array(operand.bits, operand.dtype.word)


def _engine_bytes(case: Case, name: str, value: Any) -> NDArray[np.uint8]:
    operand = case.operand(name)
    if isinstance(operand, TileOperand):
        return to_physical(operand.type, np.asarray(value.words), operand.before.copy())
    return np.ascontiguousarray(np.asarray(value)).view(np.uint8)
