"""Executors of blocks: generated cases, or programs of the user, one by one on two executors.

A campaign is a range of case indices cut into blocks. An executor turns cases into pieces, each a
:class:`Batch` that is a function of its cases alone: executed again, in another process or after others, it
is the same, and the sum of a block's pieces is the same however the block was divided. Work that is slow once
(imports, compiled functions that all blocks share) belongs in the executor's constructor, which has no time
limit; a block has one.

For programs of the user, inputs, valid sizes and grids are generated. Case ``i`` executes program ``i mod n``
on its input number ``i div n``; a program is an entry function of a file under one profile. With mutation
every input has another mutation, and the first execution has the program unchanged.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ... import api, errors, profiles
from ...analysis import provenance
from ...analysis.entries import Argument, arguments, select_entry
from ...analysis.resolve import resolve, with_entry
from ...cases import comparison, mutation, targets
from ...cases.kernels import kernel, kernels_only
from ...cases.ulp import Histograms, result_bounds
from ...devices import machines
from ...devices.conversation import Server
from ...errors import ArgumentError, FileError, PtoError
from ...failures import recorder
from ...failures.recorder import Recorder
from ...generate import rank_inputs
from ...generate.fitting import Fit, fit, integers, suits
from ...generate.inputs import STYLES, draw, draw_scalar, numbers, shape_of
from ...generate.options import IN_TURN, PRESETS, Options, on_blocks
from ...generate.programs import Case, Ranks, generate
from ...generate.state import Input
from ...interpreter.operands import BLOCK_NUMBERS
from ...interpreter.steering import signals
from ...ir import FRAGMENT, Function, Program, ScalarType, TileType, VectorType
from ...isa.effects import traits_of
from ...runtime.kernel import compile as compile_program
from ...runtime.ranks import RankKernel
from ..refusals import Refusals, finished
from . import batch
from .batch import Batch, Failure, Note
from .coverage import of_program
from .plan import Plan

#: Inputs drawn for one that breaks no run-time rule; the later half are more careful.
ATTEMPTS = 20
#: Most blocks of a program that asks for its number of the block.
BLOCKS = 4
#: Diagnostics shown of a program that is rejected.
SHOWN = 3
#: Machines of one arithmetic each: inexact instructions give the same bits on all of them.
_ALIKE = (
    frozenset({"eager", "jit", "profile", "lockstep"}),
    frozenset({"oracle", "interpreter", "sanitizer", "races"}),
)


@dataclass(frozen=True, eq=False)
class Subject:
    """A program that is tested: an entry function under a profile, and what inputs for it are made of."""

    file: str
    program: Program
    function: Function
    profile: profiles.Profile
    pool: tuple[int, ...]
    ulp: dict[str, int]
    ranks: Ranks | None = None

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of the function, in order."""
        return arguments(self.program, self.function)

    @property
    def key(self) -> str:
        """What tells it from other subjects, and is the same in every process."""
        return f"{self.program.digest}:{self.function.name}:{self.profile.name}"

    def grid(self, blocks: int | None, rng: np.random.Generator) -> int:
        """A number of blocks: what is wanted, else more than one where the program asks for its number.

        Tiles that are arguments belong to one block.
        """
        if any(isinstance(a.type, TileType) for a in self.function.args):
            return 1
        numbered = any(traits_of(op).launch in ("block", "blocks") for op in self.program.walk())
        numbered |= self.ranks is not None and any(a.name in BLOCK_NUMBERS for a in self.function.args)
        return blocks or (int(rng.integers(1, BLOCKS + 1)) if numbered else 1)


@dataclass(eq=False)
class Programs:
    """Cases of some programs; ``notes`` says what was left out, and why."""

    seed: int
    grid: int | None
    subjects: list[Subject] = field(default_factory=list)
    notes: list[batch.Note] = field(default_factory=list)
    attempts: int = ATTEMPTS
    #: Whether programs are mutated after their first turn.
    mutate: bool = False
    #: Machines of one arithmetic: inexact results have no bounds.
    exact: bool = False

    @staticmethod
    def of(plan: Plan) -> Programs:
        """The programs of a plan; PtoError when none can be executed."""
        programs = Programs(plan.seed, plan.grid, mutate=plan.mutate)
        kinds = {m.partition(":")[0] for m in (plan.reference, plan.tested)}
        programs.exact = exact = any(kinds <= alike for alike in _ALIKE)
        for file in plan.programs:
            for profile in plan.profiles or (None,):
                try:
                    programs.subjects += _subjects(file, profile, plan, exact)
                except FileError:
                    raise
                except PtoError as error:
                    programs.notes.append(batch.Note(_rejection(file, profile, error), True, kept=True))
        programs.notes += [note for s in programs.subjects for note in _uncompared(s)]
        if not programs.subjects:
            raise PtoError("\n".join(["no program can be executed", *(n.text for n in programs.notes)]))
        return programs

    def case(self, index: int, attempt: int) -> Case:
        """The case of an index, with the contents of one attempt; programs take turns."""
        number, which = divmod(index, len(self.subjects))
        subject = self.subjects[which]
        origin: tuple[str, ...] = ()
        if self.mutate and number:
            subject, origin = _mutant(subject, f"{self.seed}:{number}:{subject.key}", self.exact)
        said = f"{self.seed}:{number}:{subject.key}"
        identity = hashlib.sha256(said.encode()).hexdigest()[:16]
        rng = np.random.default_rng((int(identity, 16), attempt))
        late = attempt >= self.attempts // 2
        grid = subject.grid(self.grid or (1 if late else None), rng)
        if subject.ranks is not None:
            style, kernel = STYLES[(number + attempt) % len(STYLES)], on_ranks(subject, subject.ranks, grid)
            inputs = dict(rank_inputs.drawn(kernel, rng, style, subject.pool, late))
        else:
            inputs = dict(_inputs(subject, rng, number + attempt, late, grid))
        entry = None if subject.program.fragment else subject.function.name
        ulp = subject.ulp
        program, profile = subject.program, subject.profile
        rest = (inputs, ulp, grid, entry, origin, subject.ranks)
        return Case(identity, self.seed, index, profile, program, *rest)


@lru_cache(maxsize=4)
def _mutant(subject: Subject, said: str, exact: bool) -> tuple[Subject, tuple[str, ...]]:
    """A subject with another program, by a text that decides on it, and what was changed."""
    result = mutation.mutated(subject.program, subject.profile, random.Random(said))
    program = resolve(result.program).program
    function = program.function(subject.function.name) or program.entries[0]
    ulp = {} if exact else result_bounds(program, function)
    pool = tuple(numbers((program,)))
    changes = result.changes or ("nothing was changed: no mutation is legal",)
    mutant = replace(subject, program=program, function=function, pool=pool, ulp=ulp)
    if subject.ranks is not None:
        try:
            on_ranks(mutant, subject.ranks)
        except PtoError as error:
            return subject, (subject.file, f"nothing was changed: {', '.join(changes)}, but {error}")
    return mutant, (subject.file, *changes)


def on_ranks(subject: Subject, ranks: Ranks, grid: int = 1) -> RankKernel:
    """The kernel of a subject on several ranks."""
    name, profile = subject.function.name, subject.profile
    more: Mapping[str, Any] = {"engine": "interpreter", "warn": False, "partial_launch": True}
    kernel: RankKernel = compile_program(subject.program, profile, name, grid=grid, **ranks.bindings, **more)
    return kernel


def _subjects(file: str, profile: str | None, plan: Plan, exact: bool) -> list[Subject]:
    entry = plan.entry
    program = resolve(with_entry(api.load(file))).program
    target = api.resolve_profile(program, profile)
    api.verify(program, target, raise_on_error=True)
    entries = [f for f in program.entries if f.body.ops] if entry is None else []
    subjects = []
    for function in entries or [select_entry(program, entry)]:
        for a in function.args:
            if not isinstance(a.type, provenance.GlobalTypes | TileType | VectorType | ScalarType):
                where = "fragment" if function.name == FRAGMENT else f"function {function.name}"
                raise ArgumentError(f"{where}: nothing is generated for argument {a.name} of type {a.type}")
        if plan.ranks is None and signals(program, function):
            got = f"{function.name} waits for signals of other processors"
            raise ArgumentError(got, allowed="programs of one processor", fix="--ranks N")
        ulp = {} if exact else result_bounds(program, function)
        pool = tuple(numbers((program,)))
        subjects.append(Subject(file, program, function, target, pool, ulp, plan.ranks))
        if plan.ranks is not None:
            on_ranks(subjects[-1], plan.ranks)
    return subjects


def _rejection(file: str, profile: str | None, error: PtoError) -> str:
    """Why a file is left out, its first errors one below the other."""
    problems = [d for d in error.diagnostics if d.severity == "error"]
    lines = [d.render() if d.span else f"{file}: {d}" for d in problems[:SHOWN]] or [f"{file}: {error}"]
    more = [f"{file}: {len(problems) - SHOWN} more errors"] if len(problems) > SHOWN else []
    under = f" ({profile})" if profile else ""
    return "\n".join([f"{file}: rejected{under}", *lines, *more])


def _uncompared(subject: Subject) -> Iterator[batch.Note]:
    names = [n for n, bound in subject.ulp.items() if bound == targets.UNBOUNDED]
    if names:
        yield batch.Note(
            f"{subject.file}: {', '.join(names)}: computed from results that are only bounded (texp and "
            "alike): their elements are not compared between these machines"
        )


def _inputs(
    subject: Subject, rng: np.random.Generator, number: int, late: bool, grid: int
) -> Iterator[tuple[str, Input]]:
    """An input for every argument. Tiles whose valid sizes are open mostly have the same."""
    style = STYLES[number % len(STYLES)]
    shared = _region(rng, (1 << 16, 1 << 16))
    scalars = {
        a.name: draw_scalar(rng, a.type.dtype, style, subject.pool, late)
        for a in subject.arguments
        if isinstance(a.type, ScalarType)
    }
    fitted = _fitted_to(subject, scalars, int(rng.integers(1 << 32)), grid)
    for a in subject.arguments:
        t = a.type
        if isinstance(t, ScalarType):
            value = scalars[a.name]
            if fitted is not None and a.name in fitted.scalars:
                value = np.asarray(fitted.scalars[a.name]).astype(value.dtype)
            yield a.name, Input(t, value.view(t.dtype.word))
            continue
        assert isinstance(t, provenance.GlobalTypes | TileType | VectorType)
        reached = fitted.reached.get(a.name) if fitted is not None else None
        shape = shape_of(t, a.min_elements if reached is None else reached)
        if t.dtype.packed:
            # One element to a word; arrays hold two to a byte.
            wide = shape if isinstance(t, TileType) else (*shape[:-1], 2 * shape[-1])
            words = rng.integers(0, 1 << t.dtype.bits, wide).astype(t.dtype.word)
        elif fitted is not None and (
            a.name in fitted.tables or (style != "bits" and a.name in fitted.positions)
        ):
            words = fitted.table(a.name, int(np.prod(shape))).astype(t.dtype.numpy).view(t.dtype.word)
        else:
            words = np.ascontiguousarray(draw(rng, t.dtype, shape, style)).view(t.dtype.word)
        if isinstance(t, TileType) and not t.is_static:
            own = _region(rng, t.shape) if rng.random() < (0.0 if late else 0.3) else shared
            yield a.name, Input(t, words.reshape(t.shape), _fitted(t, own))
        else:
            yield a.name, Input(t, words)


def _fitted_to(subject: Subject, scalars: Mapping[str, NDArray[Any]], seed: int, grid: int) -> Fit | None:
    """Integers with which nothing leaves what it is a part of, as near to those drawn as that allows."""
    if not suits(subject.program, subject.function):
        return None
    drawn = {name: int(scalars[name]) for name in integers(subject.function)}
    return fit(subject.program, subject.function, subject.profile.name, drawn, seed, grid)


def _region(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[int, int]:
    """Valid rows and columns: often all, sometimes few or none."""
    full = rng.random(2) < 0.4
    few = rng.integers(0, [min(n, 64) + 1 for n in shape])
    rows, cols = (int(n if whole else f) for n, whole, f in zip(shape, full, few, strict=True))
    return rows, cols


def _fitted(t: TileType, region: tuple[int, int]) -> tuple[int, int]:
    rows, cols = (
        min(n, size) if static is None else static
        for n, size, static in zip(region, t.shape, t.valid, strict=True)
    )
    return rows, cols


class Executor(ABC):
    """Executes the cases of indices ``start`` to ``start + count - 1``.

    What an executor counts as one case is its own choice, as long as every failure has a case of its own.
    """

    #: What a user should know about the cases.
    notes: Sequence[Note] = ()
    #: Whether each case is executed, and told of, before the next one begins.
    one_by_one = False

    @abstractmethod
    def pieces(self, start: int, count: int) -> Iterator[Batch]:
        """What became of the cases, each batch as soon as it is known.

        A failure ends its batch, so that no case waits for the recording of another one's failure.
        """


#: Told what a user should know who waits.
Say = Callable[[str], object]
#: Told the index of a case before it is executed, so that a worker that hangs or crashes can be asked which.
Beat = Callable[[int], None]


def failure(outcome: comparison.Outcome, record: recorder.Record) -> Failure:
    """The row of an outcome and of what its recorder kept."""
    case = outcome.case
    return Failure(
        case.index,
        case.id,
        outcome.kind,
        case.profile.name,
        record.instruction,
        record.cause,
        outcome.message,
        record.folder,
        _detail(outcome) | _origin(outcome.case) | ({"types": record.types} if record.types else {}),
    )


def _origin(case: Case) -> dict[str, Any]:
    return {"origin": "; ".join(case.origin)} if case.origin else {}


def _detail(outcome: comparison.Outcome) -> dict[str, Any]:
    mismatch = outcome.mismatch
    if mismatch is None:
        return {}
    first = outcome.first
    if first is None:
        return {"output": mismatch.output}
    expected, actual = first.bits
    return {
        "output": mismatch.output,
        "index": first.index,
        "dtype": first.dtype.name,
        "expected": expected,
        "got": actual,
        "ulp": first.ulp,
    }


class Source(Protocol):
    """Where cases come from.

    A case on which both machines stop at a run-time rule is drawn again, up to ``attempts`` times.
    """

    @property
    def attempts(self) -> int:
        """How often a case may be drawn."""

    @property
    def notes(self) -> Sequence[batch.Note]:
        """What a user should know about the cases."""

    def case(self, index: int, attempt: int) -> Case:
        """The case of an index; attempts, counted from 0, differ in its contents."""


@dataclass(frozen=True)
class Generated:
    """Generated programs; the presets take turns."""

    seed: int
    options: tuple[Options, ...]
    kernels: bool = False
    attempts: int = 1
    notes: tuple[batch.Note, ...] = ()

    @staticmethod
    def of(plan: Plan) -> Generated:
        """The cases of a plan; ArgumentError for a preset that there is not."""
        unknown = [p for p in plan.presets if p not in PRESETS]
        if unknown:
            raise errors.ArgumentError(f"no preset {', '.join(unknown)}", allowed=" ".join(PRESETS))
        presets = [PRESETS[p] for p in plan.presets or IN_TURN]
        presets = [replace(o, profiles=plan.profiles) if plan.profiles else o for o in presets]
        presets = [on_blocks(o, plan.grid) for o in presets]
        kernels = plan.form == "kernel"
        presets = [kernels_only(o) for o in presets] if kernels else presets
        return Generated(plan.seed, tuple(map(plan.focus.options, presets)), kernels)

    def case(self, index: int, attempt: int = 0) -> Case:
        """The case of an index, the same for every attempt."""
        options = self.options[index % len(self.options)]
        return kernel(self.seed, index, options) if self.kernels else generate(self.seed, index, options)


class CaseExecutor(Executor):
    """Executes blocks of cases; nothing of a case is kept but its counts and, if it fails, its record."""

    def __init__(self, plan: Plan, recorder: Recorder, beat: Beat) -> None:
        self._seed, self._recorder, self._beat = plan.seed, recorder, beat
        self._reference = machines.machine(plan.reference, plan.dut_timeout)
        self._tested = machines.machine(plan.tested, plan.dut_timeout)
        for machine in (self._reference, self._tested):
            if isinstance(machine, Server):
                machine.must_start = True
        devices = (m for m in (self._reference, self._tested) if not targets.follows_profile(m))
        self._refusals = [Refusals(device) for device in devices]
        self._source = source_of(plan)
        self.notes = self._source.notes
        both = (self._reference, self._tested)
        self.one_by_one = not any(isinstance(m, targets.BatchTarget) for m in both)

    def pieces(self, start: int, count: int) -> Iterator[batch.Batch]:
        """One batch for each case, in the order of indices."""
        # A machine that takes many cases at once gets all of them; else one case exists at a time.
        step = 1 if self.one_by_one else count
        for first in range(start, start + count, step):
            ulp: defaultdict[int, Histograms] = defaultdict(Histograms)
            for outcome in self._outcomes(range(first, first + step), ulp):
                yield self._piece(outcome, ulp)

    def _piece(
        self, result: comparison.Outcome | batch.Failure, ulp: Mapping[int, Histograms]
    ) -> batch.Batch:
        if isinstance(result, batch.Failure):
            return batch.alone(result)
        index = result.case.index
        failures: tuple[batch.Failure, ...] = ()
        if result.is_failure:
            record = self._recorder(result, self._reference, self._tested)
            failures = (failure(result, record),)
        coverage = of_program(result.case.program) if result.kind in comparison.COMPARED else Counter[str]()
        kinds, refusals = Counter[str]({result.kind: 1}), Counter(set(result.refusals))
        return batch.Batch(index, 1, kinds, coverage, ulp[index].to_json(), failures, refusals)

    def _outcomes(
        self, indices: Sequence[int], ulp: Mapping[int, Histograms]
    ) -> Iterator[comparison.Outcome | batch.Failure]:
        """What became of each case; distances are counted in the histograms of its index."""

        def watch(case: Case, expected: targets.Run, actual: targets.Run) -> None:
            ulp[case.index].add_case(case, expected, actual)

        pending = list(indices)
        for attempt in range(self._source.attempts):
            cases: list[Case] = []
            for index in pending:
                self._beat(index)
                result = self._made(index, attempt)
                if isinstance(result, Case):
                    cases.append(result)
                else:
                    yield result
            if cases:
                self._beat(cases[0].index)
            pending = []
            for outcome in self._compared(cases, watch):
                if outcome.kind == "stopped" and attempt + 1 < self._source.attempts:
                    pending.append(outcome.case.index)
                else:
                    yield outcome

    def _compared(self, cases: Sequence[Case], watch: comparison.Watch) -> Iterator[comparison.Outcome]:
        """What became of each case, without what devices refuse of it."""
        left = [self._left_out(case) for case in cases]
        results = [case for case, _ in left if case is not None]
        outcomes = comparison.compare_cases(results, self._reference, self._tested, watch)
        for case, (executed, reasons) in zip(cases, left, strict=True):
            if executed is None:
                yield finished(None, case, reasons, self._reference, self._tested)
                continue
            outcome = next(outcomes)
            for refusals in self._refusals if outcome.kind == "refused" else ():
                outcome = refusals.compared(outcome, self._reference, self._tested, watch)
            yield replace(outcome, refusals=(*reasons, *outcome.refusals))

    def _left_out(self, case: Case) -> tuple[Case | None, tuple[str, ...]]:
        """The case without what devices are known to refuse, and why; None where nothing is left."""
        reasons: tuple[str, ...] = ()
        for refusals in self._refusals:
            rest, more = refusals.accepted(case)
            reasons += more
            if rest is None:
                return None, reasons
            case = rest
        return case, reasons

    def _made(self, index: int, attempt: int) -> Case | batch.Failure:
        try:
            return self._source.case(index, attempt)
        except Exception as error:
            # A generator that fails is a finding like a machine that does.
            message = f"generator: {type(error).__name__}: {error}"
            return batch.crash(self._seed, index, message)


def source_of(plan: Plan) -> Source:
    """Where the cases of a plan come from. ArgumentError, FileError and PtoError for a plan that has none."""
    if plan.programs:
        return Programs.of(plan)
    result = Generated.of(plan)
    if plan.goal is None:
        return result
    from .goal import Aimed, read_goal

    bins = read_goal(plan.goal, plan.profiles or profiles.PROFILE_NAMES)
    return Aimed(result.seed, result.options, bins, result.kernels)
