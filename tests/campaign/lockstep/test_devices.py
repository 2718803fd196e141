"""Programs that are made and executed as arrays, on devices."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pto_jax.campaign import lockstep as devices
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.campaign.lockstep import DeviceExecutor
from pto_jax.cases.comparison import Outcome
from pto_jax.cases.targets import Oracle, Run, Target
from pto_jax.cli.main import main
from pto_jax.devices.exchange import program_text
from pto_jax.devices.lockstep import decoder
from pto_jax.devices.machines import machine
from pto_jax.errors import ArgumentError, NotExecutableError
from pto_jax.failures.recorder import Record
from pto_jax.generate.programs import Case
from pto_jax.lockstep.stream import Runner
from pto_jax.lockstep.tables import Table, Tables, small, table
from tests.campaign.blocks import joined
from tests.campaign.lockstep.conftest import decode

SEED = 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [lambda: table("a5"), lambda: small("a2a3", 1, 20), lambda: small("cpu_sim", 4, 64)],
    ids=["large", "a2a3", "cpu_sim"],
)
def test_texts_are_those_of_the_printer(make: Callable[[], Table]) -> None:
    made = make()
    for index in range(12):
        case = decode(made, SEED, index)
        assert decoder(made).text(case.program) == program_text(case)


class Device:
    """The interpreter, with some of its results changed."""

    name = "device"

    def __init__(self) -> None:
        self.wrong: set[int] = set()
        self.crashing: set[int] = set()
        self.declining: set[int] = set()

    def run(self, case: Case) -> Run:
        if case.index in self.crashing:
            raise RuntimeError("out of order")
        if case.index in self.declining:
            raise NotExecutableError([])
        outputs = dict(Oracle().run(case).outputs)
        if case.index in self.wrong:
            name, output = next(iter(outputs.items()))
            words = output.words.copy()
            words[0, 0] ^= 1
            outputs[name] = replace(output, words=words)
        return Run(outputs)


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch, simple: Table) -> Any:
    kept: list[Outcome] = []
    device = Device()

    def keep(outcome: Outcome, reference: Target, tested: Target) -> Record:
        kept.append(outcome)
        return Record("here", "cause")

    monkeypatch.setattr(Tables, "of", lambda self, index: simple)
    monkeypatch.setattr(devices, "machine", lambda name, timeout: device if name == "python:it" else Oracle())
    monkeypatch.setattr(devices, "DEVICE_CHUNK", 8)
    monkeypatch.setattr(devices, "SENT", 8)
    made = DeviceExecutor(
        Plan(seed=SEED, tested="python:it", lockstep=True, span=64), keep, lambda index: None
    )
    return made, device, kept


def test_a_right_device_is_equal(executor: Any) -> None:
    made, _, kept = executor
    whole, first, second = (joined(made.pieces(100 + a, n)) for a, n in ((0, 16), (0, 10), (10, 6)))
    assert whole.kinds == Counter(equal=16) and not kept
    assert whole.coverage == first.coverage + second.coverage and whole.coverage


def test_failures_of_a_device_are_its_own(executor: Any) -> None:
    made, device, kept = executor
    device.wrong, device.crashing, device.declining = {101, 107}, {103}, {104, 106}
    pieces = list(made.pieces(100, 8))
    assert sum((p.kinds for p in pieces), Counter()) == Counter(equal=3, different=2, crashed=1, refused=2)
    assert [f.index for p in pieces for f in p.failures] == [101, 103, 107]
    # Every piece begins where the one before ends, and a failure is alone.
    assert [p.start for p in pieces] == list(np.cumsum([100, *(p.count for p in pieces)])[:-1])
    assert all(p.count == 1 for p in pieces if p.failures)
    assert [o.case.program for o in kept] == [
        decode(made._tables.of(0), SEED, i).program for i in (101, 103, 107)
    ]


def test_where_lockstep_is_wrong_the_device_is_not_blamed(
    executor: Any, simple: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _, kept = executor
    plain = Runner.registers

    def registers(self: Runner, programs: Any, contents: np.ndarray) -> np.ndarray:
        found = plain(self, programs, contents).copy()
        found[1] ^= np.uint32(1)
        return found

    monkeypatch.setattr(Runner, "registers", registers)
    (failed,) = joined(made.pieces(64, 8)).failures
    assert failed.index == 65 and "lockstep" in failed.cause and not kept


@pytest.mark.slow
def test_tables_grow_at_the_beginning_of_a_campaign() -> None:
    made = Tables(("a5",), 32, length=1024)
    assert list(made.spans(0, 3000)) == [(0, 256), (256, 256), (512, 512), (1024, 1024), (2048, 952)]
    counts = [len(made.of(start).opcodes) for start, _ in made.spans(0, 3000)]
    assert counts[:2] == [8, 16] and max(counts) <= 32 and made.of(300) is made.of(500)


def test_other_references_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--lockstep", "--dut-server", "true", "--against", "jit"]) == 2
    assert "--lockstep with a device against jit; allowed: oracle" in capsys.readouterr().err
    with pytest.raises(ArgumentError, match="no such command"):
        machine("dut-server:/no/such")
