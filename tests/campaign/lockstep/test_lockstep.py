"""Programs in lockstep: drawn alike everywhere, legal, and with the bits of every other way to execute."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from pto_jax.campaign.lockstep import finished
from pto_jax.cases.comparison import Outcome, compare_case
from pto_jax.cases.targets import Oracle
from pto_jax.ir import F16, F32, I32, U8
from pto_jax.lockstep import values
from pto_jax.lockstep.opcodes import catalogue, names
from pto_jax.lockstep.programs import contents, contents_of_one, draw
from pto_jax.lockstep.stream import Runner, coverage
from pto_jax.lockstep.tables import REGIONS, SMALL_SPAN, Table, Tables, rounds, small, table
from pto_jax.lowering.bits import x64
from pto_jax.oracle.step import RULES
from pto_jax.profiles import ProfileName
from pto_jax.verifier.programs import verify_program
from tests.campaign.lockstep.conftest import decode

SEED = 11
INDEX = np.arange(2**40, 2**40 + 40, dtype=np.uint64)


@pytest.fixture(scope="module")
def few() -> Table:
    """A table of some opcodes of every class, quick to compile."""
    plain = {F32, F16, I32, U8}
    listed = (o for o in table("a5", 1).opcodes if {k.type.dtype for k in o.kinds} <= plain)
    return Table("a5", 16, 16, tuple(listed)[::4])


@pytest.fixture(scope="module")
def switch(few: Table) -> Runner:
    return Runner(few, "switch", chunk=64)


def test_numpy_and_jax_draw_the_same_programs(few: Table) -> None:
    start = values.origin(SEED)
    ours, pool = draw(np, few, start, INDEX), few.pool(start)

    @jax.jit
    def on_device(start: Any, index: Any) -> Any:
        drawn = draw(jnp, few, start, index)
        words, free = jnp.asarray(pool.words), jnp.asarray(pool.free)
        return drawn, lax.map(lambda one: contents_of_one(few, words, free, one), drawn)

    with x64():
        theirs, filled = on_device(start, INDEX)
        for a, b in zip((*ours.programs, *ours[1:]), (*theirs.programs, *theirs[1:]), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, np.asarray(b))
        np.testing.assert_array_equal(contents(few, pool, ours), np.asarray(filled))


def test_programs_differ_and_use_every_choice_of_regions(few: Table) -> None:
    drawn = draw(np, few, values.origin(SEED), np.arange(2000, dtype=np.uint64))
    instructions = [a.reshape(2000, -1) for a in (drawn.programs.opcodes, drawn.programs.slots)]
    assert len(np.unique(np.concatenate(instructions, axis=1), axis=0)) == 2000
    assert set(drawn.regions.tolist()) == set(range(len(REGIONS)))
    assert set(drawn.programs.opcodes.reshape(-1).tolist()) == set(range(len(few.opcodes)))


@pytest.mark.nightly
@pytest.mark.slow
def test_small_tables_in_a_row_have_every_instruction() -> None:
    few, count = Tables(("a2a3",), 20), rounds(len(names("a2a3")), 20)
    made = [few.of(turn * SMALL_SPAN) for turn in range(count)]
    # The campaign's first table is a part of a whole one.
    whole = small("a2a3", 0, 20)
    assert made[0].opcodes == whole.opcodes[:8]
    named = [o.name for t in (whole, *made[1:]) for o in t.opcodes]
    assert len(named) == len(set(named)) and max(len(t.opcodes) for t in made) <= 20
    assert set(named) == {o.name for o in catalogue("a2a3")}
    assert few.of(count * SMALL_SPAN - 1) is made[-1]
    assert few.of(count * SMALL_SPAN).opcodes != whole.opcodes


@pytest.mark.variants(0)
@pytest.mark.parametrize("profile", ["cpu_sim", "a2a3", "a5"])
def test_decoded_programs_pass_the_verifier(profile: ProfileName) -> None:
    tables = (table(profile), table(profile, 2), *(small(profile, n, 20) for n in range(6)))
    for found_in in tables:
        for index in range(8):
            case = decode(found_in, SEED, index)
            found = verify_program(case.program, case.profile)
            assert [str(d) for d in found if d.severity == "error"] == []


@pytest.mark.nightly
@pytest.mark.slow
def test_switch_and_grouped_and_two_devices_give_the_same_digests(few: Table, switch: Runner) -> None:
    found = switch.digests(SEED, 5, 100)
    grouped = replace(switch, mode="grouped", chunk=96, block=8).digests(SEED, 5, 100)
    both = replace(switch, devices=2, chunk=32).digests(SEED, 5, 100)
    assert len(np.unique(found.words, axis=0)) == 100
    for other in (grouped, both):
        np.testing.assert_array_equal(found.words, other.words)
        np.testing.assert_array_equal(found.coverage, other.coverage)
    assert found.coverage.sum() == 100 * 20


def _disagreements(runner: Runner) -> list[Outcome]:
    """The programs on which the lockstep engine and the reference interpreter do not agree."""
    outcomes = (compare_case(p.case, Oracle(), p.machine) for p in finished(runner, SEED, range(64)))
    return [o for o in outcomes if o.is_failure]


@pytest.mark.slow
def test_results_are_those_of_the_interpreter(few: Table, switch: Runner) -> None:
    assert _disagreements(switch) == []
    drawn = draw(np, few, values.origin(SEED), np.arange(64, dtype=np.uint64))
    assert (coverage(few, drawn.programs).sum(axis=1) >= 5).all()


@pytest.mark.slow
def test_an_interpreter_that_differs_is_found(switch: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {**RULES, "tabs": RULES["tneg"]}
    monkeypatch.setattr("pto_jax.oracle.machine.RULES", broken)
    found = _disagreements(switch)
    assert found and {o.kind for o in found} == {"different"}


@pytest.mark.variants(0)
@pytest.mark.parametrize("profile", ["a2a3", "a5"])
def test_a_destination_is_no_register_that_it_must_not_share_bytes_with(profile: ProfileName) -> None:
    marked = clashes = 0
    for number in range(6):
        table = small(profile, number, 20)
        drawn = draw(np, table, values.origin(3), np.arange(200, dtype=np.uint64))
        slots = np.asarray(drawn.programs.slots)
        marks = table.apart[np.asarray(drawn.programs.opcodes)]
        marked += int(marks.sum())
        clashes += int((marks & (slots == slots[..., :1])).sum())
    assert marked and not clashes
