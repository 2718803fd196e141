"""The lockstep engine as a machine and as the executor of a campaign."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.campaign.lockstep import LockstepExecutor
from pto_jax.cases.comparison import Outcome, compare_cases
from pto_jax.cases.targets import Oracle, Target
from pto_jax.devices.lockstep import Lockstep
from pto_jax.errors import ArgumentError, NotExecutableError
from pto_jax.failures.recorder import Record
from pto_jax.generate.options import CONTROL, STRAIGHT
from pto_jax.generate.programs import generate
from pto_jax.lockstep import stream
from pto_jax.lockstep.encode import encode
from pto_jax.lockstep.stream import Runner
from pto_jax.lockstep.tables import SPAN, Table, Tables
from pto_jax.lowering.lockstep import Programs
from tests.campaign.blocks import joined
from tests.campaign.lockstep.conftest import decode

SEED = 3


def test_a_decoded_program_encodes_to_what_it_was(simple: Table) -> None:
    case = decode(simple, SEED, 5)
    encoded = encode(case)
    branches = {o.branch for o in simple.opcodes}
    assert len(encoded.instructions) == 20
    assert {i.branch for i in encoded.instructions} <= branches
    assert set(encoded.results) == set(case.program.fragment_results)


def test_the_machine_gives_what_the_interpreter_gives(simple: Table) -> None:
    cases = [decode(simple, SEED, i) for i in range(6)]
    for tested in (Lockstep(), Lockstep(grouped=True)):
        assert [o.kind for o in compare_cases(cases, Oracle(), tested)] == ["equal"] * 6


@pytest.mark.slow
def test_generated_cases_run_or_are_refused() -> None:
    names = frozenset({"tadd", "tsel", "tadds", "trowmax", "tcvt"})
    options = replace(STRAIGHT, only=names, scalars=0.0, statements=4, elements=512)
    fitting = []
    for case in (generate(SEED, i, options) for i in range(40)):
        try:
            encode(case)
            fitting.append(case)
        except NotExecutableError:
            pass
    assert len(fitting) >= 6
    assert [o.kind for o in compare_cases(fitting[:6], Oracle(), Lockstep())] == ["equal"] * 6


def test_loops_are_refused() -> None:
    with pytest.raises(NotExecutableError, match="lockstep"):
        encode(next(c for i in range(99) if "scf.for" in str((c := generate(1, i, CONTROL)).program)))


def _executor(
    monkeypatch: pytest.MonkeyPatch, simple: Table, reference: str
) -> tuple[LockstepExecutor, list[Outcome]]:
    kept: list[Outcome] = []

    def keep(outcome: Outcome, reference: Target, tested: Target) -> Record:
        kept.append(outcome)
        return Record("here", "cause")

    monkeypatch.setattr(Tables, "of", lambda self, index: simple)
    plan = Plan(seed=SEED, reference=reference, tested="lockstep", profiles=("a5",), lockstep=True)
    return LockstepExecutor(plan, keep), kept


@pytest.mark.variants(0)
@pytest.mark.parametrize("reference", ["lockstep:grouped", "oracle"])
def test_a_block_is_the_sum_of_its_parts(
    monkeypatch: pytest.MonkeyPatch, simple: Table, reference: str
) -> None:
    made, kept = _executor(monkeypatch, simple, reference)
    whole, first, second = (joined(made.pieces(SPAN + a, n)) for a, n in ((0, 16), (0, 8), (8, 8)))
    assert whole.kinds == Counter(equal=16) and not kept
    assert whole.coverage == first.coverage + second.coverage
    regions = {k.split("|")[3] for k in whole.coverage}
    assert regions == {"full", "partial", "odd", "empty"}


@pytest.mark.slow
def test_a_wrong_mode_is_found_and_recorded(monkeypatch: pytest.MonkeyPatch, simple: Table) -> None:
    """The grouped mode with one register of one program changed: one failure, with its element."""
    made, kept = _executor(monkeypatch, simple, "lockstep:grouped")
    wrong = SPAN + 3
    written = decode(simple, SEED, wrong).program.fragment_results[0]
    plain_digests, plain_registers = Runner.digests, Runner.registers

    def digests(self: Runner, seed: int, start: int, count: int) -> stream.Digests:
        found = plain_digests(self, seed, start, count)
        if self.mode == "grouped":
            found.words[np.arange(start, start + count) == wrong] ^= np.uint64(1)
        return found

    def registers(self: Runner, programs: Programs, contents: np.ndarray) -> np.ndarray:
        found = plain_registers(self, programs, contents).copy()
        assert len(found) == 1
        if self.mode == "grouped":
            found[0, int(written[1:]), 0] ^= np.uint32(1)
        return found

    monkeypatch.setattr(Runner, "digests", digests)
    monkeypatch.setattr(Runner, "registers", registers)
    batch = joined(made.pieces(SPAN, 8))
    assert batch.kinds == Counter(equal=7, different=1)
    assert batch.coverage == joined(made.pieces(SPAN, 3)).coverage + joined(made.pieces(SPAN + 3, 5)).coverage
    (row,) = batch.failures
    assert (row.index, row.instruction, row.detail["output"]) == (wrong, "here", written)
    assert kept[0].case.program == decode(simple, SEED, wrong).program


def test_only_lockstep_machines_are_tested_in_lockstep() -> None:
    with pytest.raises(ArgumentError, match="eager; allowed: lockstep"):
        LockstepExecutor(Plan(tested="eager", lockstep=True), lambda *a: Record())
