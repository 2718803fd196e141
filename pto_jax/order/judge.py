"""The judgement of a program: its functions, the courses over each of them, and the findings of all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple

from ..analysis.resolve import ResolvedProgram
from ..analysis.roots import cores_of, hands_token, is_as_written, roots
from ..ir import I1, Function, Op, Program, ScalarType
from ..isa import effects
from . import findings
from .findings import Finding
from .guided import Branches, choices, functions_of
from .judged import Judged
from .numbers import ASSUMED, FURTHER, Course
from .signals import EVENTS
from .walk import CourseRun, Listed

#: Courses beyond those with all conditions alike, for programs whose conditions have nothing to do with each
#: other; at most so many further ones, of small numbers and of sizes; and how many numbers are drawn.
_MIXED, _FURTHER, _SMALL, _SIZES, _PERIOD = 4, 24, (-1, 0, 0, 1, 2, 5), (0, 1, 2, 64, 1024, 4096), 16
#: So many first numbers: one of them at least differs from others where something depends on a number.
_ALIKE = 3
#: So many first numbers: the last of them is a number of many trips.
_MANY = 5
#: Blocks of a launch of which all are followed.
_BLOCKS = 24
#: Operations of all blocks together, and those that are followed to come to branches that no course takes.
_ROOM = 40_000
#: Operations that are followed to come to a branch from a course that takes another one.
_NEARBY = 10_000
#: How many numbers that are loaded are alike before they repeat those of arguments.
_LOADED = 240
#: Courses in which numbers of flags that the text does not say may be equal.
_NUMBERED = 64


def judge(
    resolved: ResolvedProgram,
    *,
    as_written: bool = True,
    vector: bool = False,
    inputs: Mapping[str, Any] | None = None,
    grid: int = 1,
    cut: list[str] | None = None,
) -> list[Finding]:
    """The findings about a program; of a fragment its surroundings may set or wait.

    ``as_written``: nothing is inserted, whatever functions hold; else nothing into those that hold a flag or
    an event. ``vector``: dependent operations of the vector pipe need a barrier between them, too. ``inputs``
    are arguments by name, as far as a caller has them. The blocks of a ``grid`` are compared with each other:
    all of them, or the first two and the last one of many. ``cut`` gets the names of functions that have
    more operations than are followed.
    """
    program = resolved.program
    judged = judged_program(resolved, as_written=as_written, vector=vector, inputs=inputs)
    reports: list[Finding] = []
    for function in roots(program):
        if function.external:
            continue
        runs = courses(judged, function)
        if cut is not None and any(run.cut for run in runs):
            cut.append(function.name)
        reports += findings.races(judged, runs)
        if not program.fragment and not function.private:
            reports += findings.tokens(judged, function, runs)
        if grid > 1 and not program.fragment:
            several = [CourseRun(judged, r.course).run(function, _blocks(grid, r.length), grid) for r in runs]
            reports += findings.between_blocks(judged, function, several)
    return _once(reports)


def _blocks(grid: int, length: int) -> tuple[int, ...]:
    """The blocks of a launch that are followed: all of them where they are short, else a few."""
    if grid <= _BLOCKS and grid * length <= _ROOM:
        return tuple(range(grid))
    return tuple(dict.fromkeys((0, 1, grid - 1)))


def judged_program(
    resolved: ResolvedProgram,
    *,
    as_written: bool = True,
    vector: bool = False,
    inputs: Mapping[str, Any] | None = None,
) -> Judged:
    """What the courses over a program share."""
    program = resolved.program
    written = _written(program, as_written)
    return Judged(resolved, cores_of(program), written, vector, dict(inputs or {}))


def _once(reports: list[Finding]) -> list[Finding]:
    """Findings of functions that share helpers, once each."""
    firsts: dict[tuple[object, ...], Finding] = {}
    for finding in reports:
        firsts.setdefault((finding.kind, finding.diagnostic), finding)
    return list(firsts.values())


def courses(judged: Judged, function: Function) -> list[CourseRun]:
    """The courses over a function: one where the text decides, else several with assumed numbers."""
    runs = _assumed(judged, function)
    if any(run.guesses.used for run in runs):
        runs += _guided(judged, function, runs)
    return runs + _numbered(judged, function, runs)


def _assumed(judged: Judged, function: Function) -> list[CourseRun]:
    """The courses with numbers that are mostly alike.

    Further ones follow while there are flags that none has come to, or loops around flags that none repeats.
    Where the first numbers decide nothing, no others do but those that conditions compare with.
    """
    runs: list[CourseRun] = []
    missing = _flags(judged.resolved.program, function)
    for tried, course in enumerate(assumptions(judged.resolved.program), 1):
        if not any(run.guesses.repeats(course) for run in runs):
            runs.append(CourseRun(judged, course).run(function))
            missing -= runs[-1].reached
        if not runs[-1].guesses.used:
            return runs
        if tried == _ALIKE and not (missing or any(r.guesses.depends for r in runs)):
            break
        # The courses so far have no trip, a few and many: further ones of a long program show little more.
        if tried == _MANY and not missing and sum(r.length for r in runs) > _ROOM:
            break
    else:
        for course in _further(runs[0].arguments):
            if not missing:
                break
            if any(run.guesses.repeats(course) for run in runs):
                continue
            run = CourseRun(judged, course).run(function)
            if run.reached & missing:
                runs.append(run)
                missing -= run.reached
    return runs


def _numbered(judged: Judged, function: Function, runs: Sequence[CourseRun]) -> list[CourseRun]:
    """Courses of small numbers by chance in which waits for run-time numbers have their first signals."""
    unmet = {key for run in runs for key in run.signals.unmet}
    unmet -= {key for run in runs for key in run.signals.met}
    random, found = Random(0), list[CourseRun]()
    for i in range(_NUMBERED if unmet else 0):
        numbers = tuple(random.randrange(EVENTS) for _ in range(_PERIOD))
        run = CourseRun(judged, Course(numbers, (random.random() < 0.5,), FURTHER + i)).run(function)
        if run.signals.met & unmet:
            found.append(run)
            unmet -= run.signals.met
        if not unmet:
            break
    return found


def _guided(judged: Judged, function: Function, runs: Sequence[CourseRun]) -> list[CourseRun]:
    """Courses with numbers of the text into branches that no other one takes."""
    branches, found = Branches(judged.resolved, function), list[CourseRun]()
    room, left = _ROOM, set(branches.arms) - {arm for run in runs for arm in run.taken}
    for course in branches.courses(left, runs[0].arguments, runs[0].positions) if left else ():
        if any(run.guesses.repeats(course) for run in (*runs, *found)):
            continue
        run = CourseRun(judged, course).run(function)
        if run.taken & left:
            found.append(run)
            left -= run.taken
        room -= run.length
        if not left or room < 0:
            break
    return found + _near(judged, function, [*runs, *found])


def _near(judged: Judged, function: Function, runs: Sequence[CourseRun]) -> list[CourseRun]:
    """Courses into further branches, each one number apart from a course that comes to the choice."""
    ops = {id(op): op for f in functions_of(judged.resolved.program, function) for op in f.walk()}
    arms = {(key, arm) for key, op in ops.items() for arm in choices(op)}
    left = arms - {arm for run in runs for arm in run.taken}
    pending, tried, found, room = deque(runs), list(runs), list[CourseRun](), _NEARBY
    while pending and left and room > 0:
        guesses, decisions = (run := pending.popleft()).guesses, run.decisions
        wanted = [n for key in dict.fromkeys(key for key, _ in left) for n in decisions.get(key, ())]
        for course in (course for number in wanted for course in guesses.near(number)):
            if room <= 0 or any(run.guesses.repeats(course) for run in tried):
                continue
            run = CourseRun(judged, course).run(function)
            room -= run.length
            tried.append(run)
            if run.taken & left:
                found.append(run)
                pending.append(run)
                left -= run.taken
    return found


class Listing(NamedTuple):
    """The operations of one block of a function in the order of their execution, core by core.

    ``number`` is what run-time numbers were assumed to be, None where none decided anything; ``cut``: there
    are more operations than are listed.
    """

    listed: list[Listed]
    number: int | None
    cut: bool


def listing(resolved: ResolvedProgram, function: Function, arguments: Mapping[str, int], at: int) -> Listing:
    """What a function executes with run-time numbers that are all ``ASSUMED[at]``."""
    listings: list[Listed] = []
    course = Course((ASSUMED[at],), (at % 2 == 1,), at)
    run = CourseRun(judged_program(resolved, inputs=arguments), course, listed=listings).run(function)
    return Listing(listings, ASSUMED[at] if run.guesses.used else None, run.cut)


def _further(arguments: int) -> Iterator[Course]:
    """More courses: small arguments beside sizes that are loaded, then numbers by chance."""
    for i, (flag, size) in enumerate(product((0, 1), _SIZES[-2:])):
        numbers = (flag,) * arguments + (size,) * _LOADED
        yield Course(numbers, (i % 2 == 0,), FURTHER + _FURTHER + i)
    random = Random(0)
    for i in range(_FURTHER):
        numbers = tuple(random.choice(_SIZES if i % 2 else _SMALL) for _ in range(_PERIOD))
        yield Course(numbers, tuple(random.random() < 0.5 for _ in range(_PERIOD)), FURTHER + i)


def _flags(program: Program, function: Function) -> set[int]:
    """The identities of the flags of a function and of those that it calls, and of loops around flags."""
    ops = [op for f in functions_of(program, function) for op in f.walk()]
    flags = {id(op) for op in ops if hands_token(op)}
    return flags | {id(op) for op in ops if _repeats(op) and any(id(inner) in flags for inner in op.walk())}


def _repeats(op: Op) -> bool:
    regions = effects.traits_of(op).regions
    return regions is not None and regions.runs == "for"


def assumptions(program: Program) -> Iterator[Course]:
    """The numbers that courses assume, in their order."""
    for i, number in enumerate(ASSUMED):
        yield Course((number,), (i % 2 == 1,), i)
    # Numbers that differ: loops from the one to the other, and branches on which is larger.
    yield Course(tuple(range(1, _PERIOD)), (True,), len(ASSUMED))
    yield Course(tuple(range(_PERIOD, 0, -1)), (True,), len(ASSUMED) + 1)
    if _has_conditions(program):
        for i, number in enumerate(ASSUMED[:4]):
            yield Course((number,), (i % 2 == 0,), i)
        random = Random(0)
        for i in range(_MIXED):
            holds = tuple(random.random() < 0.5 for _ in range(_PERIOD))
            yield Course((ASSUMED[1 + i % 3],), holds, len(ASSUMED) + 2 + i)


def _has_conditions(program: Program) -> bool:
    """Whether conditions come from elsewhere than from numbers."""
    conditions = any(_is_condition(a) for f in program.functions for a in f.args)
    return conditions or any(
        _is_condition(v) for op in program.walk() if not op.name.startswith("arith.cmpi") for v in op.results
    )


def _is_condition(value: object) -> bool:
    t = getattr(value, "type", None)
    return isinstance(t, ScalarType) and t.dtype == I1


# -- what is judged --------------------------------------------------------------------------------------


def _written(program: Program, as_written: bool) -> frozenset[int]:
    """The operations between which nothing is inserted."""
    return frozenset(
        id(op)
        for function in program.functions
        if as_written or program.emitted or is_as_written(function)
        for op in function.walk()
    )
