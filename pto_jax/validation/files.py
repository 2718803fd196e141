"""Comparison of files and folders before and after compiler passes, and of series of dumps.

The result is equality, or the instruction where the two executions diverge.
"""

import multiprocessing
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..api import load, verify
from ..errors import ArgumentError, Diagnostic, FileError, PtoError
from ..failures import folders
from ..files.terminal import uninterrupted
from ..ir import Op, PartitionViewType, Program, PtrType, TensorViewType, TextLanguage
from ..isa import effects
from ..profiles import Profile, ProfileName
from ..runtime.array_files import read_inputs
from . import translation
from .jobs import Job, pairs
from .trace import Parting, Span, parting, place, run, trace
from .translation import Failure, Pair, Result

#: ``equal`` on every input; ``same``: the programs say the same; ``different``; ``rejected``: only the
#: program after is refused, or it is missing; ``skipped``: the programs cannot be compared.
Kind = Literal["equal", "same", "different", "rejected", "skipped"]


@dataclass(frozen=True)
class Comparing:
    """How programs are compared: ``count`` inputs of a ``seed``, under a profile (none: the texts' own).

    Beside a program ``NAME.pto`` an input ``NAME.npz`` may stand, which is tried first.

    ``ulp`` and ``open`` as in :class:`.translation.Pair`; ``language_after`` is that of the texts after.
    """

    count: int = 16
    seed: int = 0
    profile: ProfileName | None = None
    grid: int = 1
    ulp: Mapping[str, int] = field(default_factory=dict)
    language: TextLanguage | None = None
    language_after: TextLanguage | None = None
    open: bool = False


@dataclass(frozen=True)
class Verdict:
    """What became of one program: its name, how many inputs were compared, and what differs where.

    ``before`` and ``after`` are the places of the instructions at which the programs part, ``change`` is the
    one operation that the texts say differently, ``warnings`` those that only the program after gets,
    ``open`` elements that differ where the program before leaves them open.
    """

    name: str
    kind: Kind
    message: str = ""
    inputs: int = 0
    seconds: float = 0.0
    before: str = ""
    after: str = ""
    parting: str = ""
    change: str = ""
    warnings: tuple[str, ...] = ()
    open: str = ""
    element: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_failure(self) -> bool:
        """Whether the pass is at fault."""
        return self.kind in ("different", "rejected")

    def to_json(self) -> dict[str, Any]:
        """As JSON values, without what is not known."""
        return {
            k: round(v, 3) if k == "seconds" else v for k, v in vars(self).items() if v not in ("", {}, 0, ())
        }


def compare_files(name: str, before: Path, after: Path, how: Comparing) -> Verdict:
    """Compare the programs of two files; what cannot be read or compared is a verdict too."""
    began = time.perf_counter()
    verdict = _compared(name, before, after, how)
    return replace(verdict, seconds=time.perf_counter() - began)


def _compared(name: str, before: Path, after: Path, how: Comparing) -> Verdict:
    try:
        first = load(before, language=how.language)
    except (FileError, PtoError) as error:
        return Verdict(name, "skipped", f"before: {_line(error)}")
    if not after.exists():
        return Verdict(name, "rejected", f"{after}: no such file")
    try:
        second = load(after, language=how.language_after)
    except (FileError, PtoError) as error:
        return Verdict(name, "rejected", f"after: {_line(error)}")
    if first == second:
        return Verdict(name, "same")
    inputs, opened = 0, ""
    warnings = tuple(map(str, new_warnings(first, second, how.profile)))
    for entry in _entries(first):
        verdict = _entry(
            Verdict(name, "equal", warnings=warnings), (first, second), entry, how, before.with_suffix(".npz")
        )
        if verdict.kind != "equal":
            return verdict
        inputs, opened = inputs + verdict.inputs, opened or verdict.open
    return Verdict(name, "equal", inputs=inputs, warnings=warnings, open=opened)


def _entries(program: Program) -> list[str | None]:
    if program.fragment:
        return [None]
    return [f.name for f in program.entries if f.body.ops] or [None]


def _entry(
    verdict: Verdict, programs: tuple[Program, Program], entry: str | None, how: Comparing, file: Path
) -> Verdict:
    """The verdict on an entry function: on generated inputs, or on that of a file where there is one."""
    before, after = programs
    options: dict[str, Any] = {"grid": how.grid, "entry": entry, "partial_launch": True}
    try:
        profile = translation.pair(before, before, how.profile, **options).before.profile.name
    except PtoError as error:
        return replace(verdict, kind="skipped", message=f"before: {_line(error)}")
    try:
        both = translation.pair(before, after, profile, **options)
    except PtoError as error:
        return replace(verdict, kind="rejected", message=f"after: {_line(error)}")
    both = replace(both, ulp=how.ulp, open=how.open, run=run)
    try:
        result = _result(both, how, file)
    except (FileError, PtoError) as error:
        return replace(verdict, kind="skipped", message=_line(error))
    if result.failure is None:
        return replace(verdict, inputs=result.compared, open=result.left)
    failure = result.failure
    where = locate(both, failure)
    return replace(
        verdict,
        kind="different",
        message=str(failure),
        inputs=result.compared,
        before=place(where.before if where else None),
        after=place(where.after if where else None) or _broken(failure),
        parting=str(where) if where else "",
        change=only_change(before, after),
        open=result.left,
        element=folders.first_difference(failure.comparison, "buffer", "before", "after"),
    )


def _result(both: Pair, how: Comparing, file: Path) -> Result:
    """What the input in a file shows, where there is one, and then generated ones."""
    first = Result(0)
    if file.is_file():
        values, _ = read_inputs(both.before, str(file))  # pyright: ignore[reportArgumentType]
        first = translation.compare(both, values)
    if first.failure is not None:
        return first
    try:
        result = translation.validate(both, how.count, how.seed)
    except ArgumentError:
        if first.compared:
            return first
        raise
    return first.joined(result)


def locate(both: Pair, failure: Failure) -> Parting | None:
    """Where two programs part on an input on which they differ; None where that cannot be seen."""
    if failure.comparison is None:
        return None
    first = trace(both.before, {a.name: failure.inputs[a.name] for a in both.arguments})
    second = trace(both.after, both.ordered(failure.inputs))
    output = failure.comparison.operand
    names = [a.name for a in both.arguments]
    if output in names and not both.before.program.fragment:
        memory = Span(names.index(output), 0, 1 << 62)
        return parting(first, second, (memory, memory))
    if output in first.tiles and output in second.tiles:
        return parting(first, second, (first.tiles[output], second.tiles[output]))
    return None


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _broken(failure: Failure) -> str:
    """The place of a rule that only the program after breaks."""
    problem = failure.problem
    if problem is None or problem.span is None:
        return ""
    return f"{problem.span.file}:{problem.span.line}: {problem.instruction or ''}".rstrip()


#: Told of each verdict as soon as it is known.
Told = Callable[[Verdict], None]


def compare_all(jobs: Sequence[Job], how: Comparing, workers: int, report: Told) -> list[Verdict]:
    """The verdicts on some programs, in their order; ``workers`` processes find them."""
    table: dict[str, Verdict] = {}
    if workers == 1 or len(jobs) == 1:
        for job in jobs:
            table[job.name] = compare_files(job.name, job.before, job.after, how)
            report(table[job.name])
    else:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            try:
                with uninterrupted():
                    started: dict[Future[Verdict], Job] = {
                        pool.submit(compare_files, job.name, job.before, job.after, how): job for job in jobs
                    }
                for future in as_completed(started):
                    name = started[future].name
                    error = future.exception()
                    table[name] = future.result() if error is None else Verdict(name, "skipped", f"{error}")
                    report(table[name])
            except BaseException:
                # The pool would wait for them.
                for process in multiprocessing.active_children():
                    process.terminate()
                raise
    return [table[job.name] for job in jobs]


def series(dumps: Sequence[Path], how: Comparing, report: Told) -> list[Verdict]:
    """For each program of a series of dumps, which of them is the first that differs from the first one.

    The dumps between are searched by halves, as if what is broken once stays broken.
    """
    names = [""]
    if dumps[0].is_dir():
        names = [job.name for job in pairs(dumps[0], dumps[-1])[0]]
    verdicts = []
    for name in names:
        verdicts.append(_bisected(name, [p / name if name else p for p in dumps], how))
        report(verdicts[-1])
    return verdicts


def _bisected(name: str, files: Sequence[Path], how: Comparing) -> Verdict:
    label = name or str(files[0])
    last = compare_files(label, files[0], files[-1], how)
    if not last.is_failure:
        return last
    good, bad, result = 0, len(files) - 1, last
    while bad - good > 1:
        middle = (good + bad) // 2
        verdict = compare_files(label, files[0], files[middle], how)
        if verdict.is_failure:
            bad, result = middle, verdict
        else:
            good = middle
    # The step itself says where, unless it only shows on the program of the beginning.
    step = compare_files(label, files[good], files[bad], how)
    result = step if step.is_failure else result
    return replace(result, message=f"first in {files[bad]}, not in {files[good]}: {result.message}")


def counted(verdicts: Sequence[Verdict]) -> str:
    """How many programs have each kind of verdict.

    >>> counted([Verdict("a", "equal"), Verdict("b", "same"), Verdict("c", "equal")])
    '3 programs: 2 equal, 1 same'
    """
    counts = Counter(v.kind for v in verdicts)
    kinds = [f"{counts[k]} {k}" for k in ("equal", "same", "different", "rejected", "skipped") if counts[k]]
    return f"{len(verdicts)} programs: {', '.join(kinds)}"


def lines(verdict: Verdict) -> Iterator[str]:
    """A verdict in words: what differs, and where."""
    yield f"{verdict.name}: {verdict.kind}" + (f": {verdict.message}" if verdict.message else "")
    yield from (
        f"    {line}" for line in (verdict.parting, verdict.change, verdict.open, *verdict.warnings) if line
    )


# -- changes of the text -----------------------------------------------------------------------------

_VIEWS = (PtrType, TensorViewType, PartitionViewType)


def new_warnings(before: Program, after: Program, profile: Profile | ProfileName | None) -> list[Diagnostic]:
    """The warnings about one program that the other one does not get, wherever the texts have them."""
    old = Counter(map(_said, verify(before, profile)))
    warnings = []
    for finding in verify(after, profile):
        if old[_said(finding)]:
            old[_said(finding)] -= 1
        elif finding.severity == "warning":
            warnings.append(finding)
    return warnings


def _said(finding: Diagnostic) -> tuple[str | None, ...]:
    """A finding without the places that it names."""
    return (
        finding.severity,
        finding.rule,
        finding.instruction,
        re.sub(r"\([^()\s]*:\d+:\d+\)", "", finding.message),
    )


def only_change(before: Program, after: Program) -> str:
    """The tile, view or loop that differs where two programs are the same apart from one; else nothing.

    Such an operation computes nothing that could be seen to differ, only its users do.
    """
    first, second = list(before.walk()), list(after.walk())
    if len(first) != len(second):
        return ""
    pairs = zip(first, second, strict=True)
    changed = [(a, b) for a, b in pairs if _without_uses(a) != _without_uses(b)]
    if len(changed) != 1:
        return ""
    old, new = changed[0]
    if not new.regions and not any(
        effects.loc_of(v.type) is not None or isinstance(v.type, _VIEWS) for v in new.results
    ):
        return ""
    return f"the only change: {_place(old)}, {_place(new)}"


def _without_uses(op: Op) -> tuple[object, ...]:
    """What an operation says by itself: the types of its operands are said where those are made."""
    names = [[v.name for v in values] for values in (op.ins, op.outs)]
    return op.name, names, op.attributes, op.groups, [(v.name, v.type) for v in op.results]


def _place(op: Op) -> str:
    text = op.span.text.strip() if op.span is not None else ""
    return f"{op.name} ({op.span})" + (f": {text}" if text else "")
