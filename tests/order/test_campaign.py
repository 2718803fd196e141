"""Generated programs with the order that they need, and mutants that lose, move or double some of it.

Whether a mutant needs what it has lost is decided without the check: by the definition of a race over all
pairs of uses, and by that of a token, which is set once and waited for once.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pytest

from pto_jax.analysis.resolve import ResolvedProgram, resolve
from pto_jax.analysis.roots import hands_token
from pto_jax.cases.edits import rewritten
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases
from pto_jax.ir import Op, Program, Region
from pto_jax.isa import effects
from pto_jax.order import judge
from pto_jax.schedules import mode_of, races
from tests.order.graph import by_definition


class Mutant(NamedTuple):
    """How a program loses some order; ``always``: its tokens are wrong wherever the flag is executed."""

    what: str
    make: Callable[[], Program]
    lost: Op
    always: bool


def with_ops(program: Program, change: Callable[[Op], tuple[Op, ...]]) -> Program:
    functions = tuple(replace(f, body=rewritten(f.body, change)) for f in program.functions)
    return replace(program, functions=functions)


def moved(region: Region, op: Op, step: int) -> Region:
    """A region in which an operation has changed places with the next instruction before or behind it."""
    ops = list(region.ops)
    if any(o is op for o in ops):
        at = next(i for i, o in enumerate(ops) if o is op)
        places = range(at - 1, -1, -1) if step < 0 else range(at + 1, len(ops))
        other = next((i for i in places if effects.traits_of(ops[i]).order is None), at)
        if not ops[other].regions and not effects.traits_of(ops[other]).terminator:
            ops.insert(other, ops.pop(at))
        return replace(region, ops=tuple(ops))
    return replace(
        region,
        ops=tuple(replace(o, regions=tuple(moved(r, op, step) for r in o.regions)) for o in ops),
    )


def orders(op: Op) -> bool:
    order = effects.traits_of(op).order
    return order is not None and order.through in ("flag", "event", "token", "pipe")


def channel(program: Program, op: Op) -> tuple[Op, ...]:
    """The operations on the same pipes and number in the function of one."""
    function = next(f for f in program.functions if any(o is op for o in f.walk()))
    key = op.attrs.get("src"), op.attrs.get("dst"), op.attrs.get("src_op"), op.attrs.get("event")
    return tuple(
        o
        for o in function.walk()
        if hands_token(o)
        and (o.attrs.get("src"), o.attrs.get("dst"), o.attrs.get("src_op"), o.attrs.get("event")) == key
    )


def without(program: Program, *lost: Op) -> Program:
    gone = {id(op) for op in lost}
    return with_ops(program, lambda o: () if id(o) in gone else (o,))


def shifted(program: Program, op: Op) -> Program:
    """A signal before the instruction that it follows, or a wait behind the one that it precedes."""
    order = effects.traits_of(op).order
    step = -1 if order is not None and order.role == "signal" else 1
    return replace(
        program, functions=tuple(replace(f, body=moved(f.body, op, step)) for f in program.functions)
    )


def mutants(program: Program) -> Iterator[Mutant]:
    """Mutants of a program, one of each kind for every operation that orders."""
    for op in filter(orders, program.walk()):
        token = hands_token(op)
        yield Mutant(f"{op.name} is lost", partial(without, program, op), op, token)
        yield Mutant(f"{op.name} is moved", partial(shifted, program, op), op, False)
        if token:
            twice = partial(with_ops, program, partial(doubled, op))
            yield Mutant(f"{op.name} is doubled", twice, op, True)
            yield Mutant(
                f"all of {op.name} is lost", partial(without, program, *channel(program, op)), op, False
            )


def doubled(op: Op, other: Op) -> tuple[Op, ...]:
    return (other, replace(other)) if other is op else (other,)


def strict(case: Case) -> bool:
    return mode_of(case.program, case.profile) == "strict"


def outcomes(case: Case, number: int) -> Iterator[tuple[Mutant, bool]]:
    """Some mutants of a case that need what they lost, and whether the check finds them."""
    whole = resolve(case.program, case.profile)
    reached = by_definition(whole, vector=strict(case)).reached
    pairs = zip(case.program.walk(), whole.program.walk(), strict=True)
    executed = {id(op) for op, bound in pairs if id(bound) in reached}
    listed = list(mutants(case.program))
    for mutant in random.Random(case.index).sample(listed, min(number, len(listed))):
        resolved = resolve(mutant.make(), case.profile)
        wrong = mutant.always and id(mutant.lost) in executed
        if wrong or by_definition(resolved, vector=strict(case)).races:
            yield mutant, bool(findings(resolved, vector=strict(case)))


def findings(resolved: ResolvedProgram, *, vector: bool) -> list[str]:
    return [str(finding) for finding in judge(resolved, vector=vector)]


def ordered(seed: int, count: int) -> Iterator[Case]:
    return cases(seed, count, PRESETS["ordered"])


@pytest.mark.nightly
@pytest.mark.variants(0)
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 6])
def test_50_ordered_programs_have_no_finding(seed: int) -> None:
    for case in ordered(seed, 50):
        results = [str(f) for f in races(case.program, case.profile, grid=case.grid)]
        assert results == [], case


@pytest.mark.slow
def test_a_vector_core_of_an_a5_names_no_pipe_of_another_core() -> None:
    split = [
        case
        for case in cases(3, 80, PRESETS["ordered"])
        if case.profile.name == "a5" and any(op.name == "section.vector" for op in case.program.walk())
    ]
    assert split
    for case in split:
        assert [str(f) for f in races(case.program, case.profile, grid=case.grid)] == []


def found(seed: int, count: int, each: int) -> Counter[bool]:
    told: Counter[bool] = Counter()
    for case in ordered(seed, count):
        for mutant, seen in outcomes(case, each):
            told[seen] += 1
            if not seen:
                print(case.index, case.profile.name, mutant.what)
    return told


@pytest.mark.slow
def test_mutants_that_need_what_they_lost_are_found() -> None:
    told = found(7, 5, 6)
    assert told[False] == 0 and told[True] >= 10, told


@pytest.mark.nightly
@pytest.mark.slow
def test_3000_mutants() -> None:
    told = found(8, 200, 25)
    assert told.total() >= 3000 and told[True] >= 0.98 * told.total(), told


@pytest.mark.slow
def test_the_definition_sees_what_it_is_for() -> None:
    """Of every 10 mutants some need nothing: they lose what is ordered otherwise."""
    needed = all_of = 0
    for case in ordered(9, 6):
        listed = [m for m in mutants(case.program) if not m.always][:8]
        all_of += len(listed)
        for mutant in listed:
            needed += bool(by_definition(resolve(mutant.make(), case.profile), vector=strict(case)).races)
    assert 0.3 * all_of < needed < all_of
