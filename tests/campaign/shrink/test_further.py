"""Failures in folders made smaller, what they depend on, and what devices said."""

import json
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pytest

from pto_jax.cases.comparison import Outcome, compare_case, normalised
from pto_jax.cases.recording import numbered
from pto_jax.cases.targets import Oracle, Run
from pto_jax.cli.main import main
from pto_jax.devices.conversation import Server
from pto_jax.devices.dut import Command
from pto_jax.failures.folder import read, shrink_folder, size
from pto_jax.failures.isolation import depends, varied
from pto_jax.failures.recorder import Keeper
from pto_jax.failures.reduce import shrink_attributes
from pto_jax.failures.search import Machines, Search
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases
from pto_jax.ir import AccPhase, Op, RoundMode
from tests.campaign.shrink.planted import WRONG_ADDITION, failures

TESTED = "python:tests.campaign.shrink.planted:WRONG_ADDITION"


def _failure(operations: int) -> Outcome:
    """A failure of a program with so many operations at least."""
    return next(o for o in failures("everything") if len(list(o.case.program.walk())) >= operations)


@pytest.fixture
def outcome() -> Outcome:
    return _failure(1)


def test_calls_are_what_a_failure_may_cost(outcome: Outcome, tmp_path: Path) -> None:
    seen: list[int] = []
    keeper = Keeper(tmp_path, 1e6, "oracle", TESTED, calls=4, beat=lambda: seen.append(1))
    record = keeper(outcome, Oracle(), WRONG_ADDITION)
    # Four to make it small, and some to see what it depends on.
    assert record.folder is not None and 4 <= len(seen) <= 4 + 40


@pytest.mark.slow
def test_a_folder_is_made_smaller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = Keeper(tmp_path, 1e6, "oracle", TESTED, calls=8)(_failure(90), Oracle(), WRONG_ADDITION)
    assert record.folder is not None
    before = read(record.folder)
    assert main(["shrink", record.folder, "--calls", "300"]) == 2
    assert f"not executed: {TESTED}; allow it with --trust" in capsys.readouterr().err
    assert size(read(record.folder).case) == size(before.case)
    assert main(["shrink", str(tmp_path), "--trust", "--calls", "300"]) == 0
    said = capsys.readouterr().out
    after = read(record.folder)
    assert f"{record.folder}: smaller: " in said and size(after.case) < size(before.case)
    assert after.report["cause"] == before.report["cause"]
    again = shrink_folder(record.folder, 300, tested=TESTED)
    assert again.verdict == "as small" and size(read(record.folder).case) == size(after.case)
    assert shrink_folder(record.folder, 10, tested="oracle:a5", against="oracle").verdict == "gone"
    assert main(["replay", record.folder, "--trust"]) == 1
    assert main(["shrink", record.folder, "--calls", "0"]) == 2


@dataclass(frozen=True)
class OneMore:
    """Results of some cases are one too large."""

    concerns: Callable[[Case], bool]
    name: str = "one more"

    def run(self, case: Case) -> Run:
        run = Oracle().run(case)
        if not self.concerns(case):
            return run
        return Run({n: replace(o, words=o.words + o.words.dtype.type(1)) for n, o in run.outputs.items()})


def _converts_with_rint_on_a5(case: Case) -> bool:
    modes = [op.attrs.get("rmode") for op in case.program.walk() if op.name == "tcvt"]
    return case.profile.name == "a5" and RoundMode.RINT in modes


def test_what_a_failure_depends_on_is_said() -> None:
    machine = OneMore(_converts_with_rint_on_a5)
    options = replace(PRESETS["straight"], only=frozenset({"tcvt"}), statements=1, profiles=("a5",))
    found = (compare_case(case, Oracle(), machine) for case in cases(3, 400, options))
    (outcome,) = islice((o for o in found if o.is_failure), 1)
    machines = Machines(Oracle(), machine)
    variants = varied(machines, machines.run(outcome.case))
    assert variants["profile"]["a5"] == "fails" and "fails" not in (
        variants["profile"]["a2a3"],
        variants["profile"]["cpu_sim"],
    )
    modes = variants["tcvt rmode"]
    assert [m for m, kind in modes.items() if kind == "fails"] == ["rint"] and "equal" in modes.values()
    assert "fails with tcvt rmode rint, not with" in depends(variants)


@pytest.mark.nightly
@pytest.mark.slow
def test_attributes_in_called_functions_are_varied_and_left_out() -> None:
    """The only operation with a phase is in a function that the entry calls."""

    def phases_in(ops: Iterable[Op]) -> int:
        return sum(op.attrs.get("accPhase") == AccPhase.FINAL for op in ops)

    def has_phase(case: Case) -> bool:
        return phases_in(case.program.walk()) > 0

    def in_call(case: Case) -> bool:
        return phases_in(case.program.walk()) == 1 and not any(
            phases_in(f.walk()) for f in case.program.entries
        )

    options = replace(PRESETS["everything"], only=frozenset({"tgemv.acc"}))
    machines = Machines(Oracle(), OneMore(has_phase))
    called = (numbered(c) for c in cases(6, 1000, options) if in_call(c))
    case, failing = next((c, f) for c in called if (f := machines.run(c)).outcome.is_failure)
    phases = varied(machines, failing)["tgemv.acc accPhase"]
    assert phases["final"] == "fails" and set(phases.values()) == {"fails", "equal"}
    wrong = Machines(Oracle(), OneMore(lambda case: True))
    finding = wrong.run(case)
    search = Search(wrong, finding, finding.signature)
    shrink_attributes(search)
    assert has_phase(case) and not has_phase(search.case)


def test_what_a_device_said_is_kept(tmp_path: Path) -> None:
    # Where data is undefined a device may stop.
    case = next(cases(1, 1, replace(PRESETS["straight"], only=frozenset({"tadd"}), statements=1), start=1))
    script = "import sys; print('\\n'.join(f'step {i}' for i in range(30)), file=sys.stderr); sys.exit(4)"
    command = shlex.join([sys.executable, "-S", "-c", script.replace("{", "{{").replace("}", "}}")])
    for device in (Command(command + " {program} {inputs} {outputs}", 20), Server(command, 20)):
        found = compare_case(case, Oracle(), device)
        keeper = Keeper(tmp_path / device.name[:8], 60, "oracle", device.name, calls=3)
        record = keeper(found, Oracle(), device)
        assert record.cause == "crash of the tested executor: DeviceError: exit status 4: step N"
        assert record.folder is not None
        kept = (Path(record.folder) / "output.txt").read_text().split()
        assert kept[:2] == ["step", "0"] and kept[-1] == "29"
        assert json.loads((Path(record.folder) / "report.json").read_text())["cause"] == record.cause


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (": cannot open /tmp/pto-jax-dut-x1/case.pto", ": cannot open /tmp/pto-jax-dut-zz9/case.pto"),
        (": boot | assert at 0x7f12 of %r3", ": boot | other | assert at 0xdead of %t17"),
        (": KeyError: 'r12'", ": KeyError: 'r3'"),
    ],
)
def test_messages_of_one_cause_are_alike(one: str, other: str) -> None:
    assert normalised(one) == normalised(other) != normalised(": something else")
