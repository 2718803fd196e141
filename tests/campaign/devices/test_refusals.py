"""What devices decline is no success, is named, is learnt and left out of programs."""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pto_jax.api import parse
from pto_jax.campaign.fuzz.batch import Batch
from pto_jax.campaign.fuzz.executor_cases import CaseExecutor
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.campaign.refusals import Refusals, without
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.kernels import kernel, kernels_only
from pto_jax.cases.targets import Oracle, Run, Target
from pto_jax.cli.main import main
from pto_jax.devices import machines
from pto_jax.devices.machines import machine
from pto_jax.failures.recorder import forget
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, generate
from tests.campaign.blocks import joined
from tests.campaign.devices import devices

HERE = "python:tests.campaign.devices.devices:"
CONTROL = kernels_only(PRESETS["control"])


def executor(monkeypatch: pytest.MonkeyPatch, device: Target, **more: Any) -> CaseExecutor:
    plan = Plan(seed=4, tested="python:it", presets=("straight", "control"), form="kernel", **more)

    def made(name: str, timeout: float) -> Target:
        return device if name == "python:it" else machine(name, timeout)

    monkeypatch.setattr(machines, "machine", made)
    return CaseExecutor(plan, forget, lambda index: None)


@pytest.mark.slow
def test_a_device_that_declines_everything_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("goal.toml").write_text('[[bins]]\ninstruction = "tadd"\ntype = ["f32", "f16"]\n')
    command = ["--tested", f"{HERE}Declining", "--goal", "goal.toml", "--count", "4", "--workers", "1"]
    files = ["--store", "run.db", "--junit", "run.xml"]
    assert main(["fuzz", *command, *files, "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert "4 refused" in out and "0 compared" in out and "goal: 0 of 2 bins reached" in out
    assert "coverage: 0 cells" in out and "4  the device declines: case N is too hard" in out
    assert "0 of 4 cases were compared; --min-compared is 1" in err
    suite = ElementTree.parse("run.xml").getroot()[0]
    assert suite.get("failures") == "1" and suite.get("skipped") == "1"
    assert main(["report", "run.db", "--json", "run.json", "--html", "run.html"]) == 0
    assert "case N is too hard" in capsys.readouterr().out
    plain = json.loads(Path("run.json").read_text())
    assert plain["compared"] == 0 and plain["coverage"]["cells"] == 0
    assert plain["refusals"] == {"the device declines: case N is too hard": 4}
    assert [b["reached"] for b in plain["goal"]] == [0, 0]
    assert "case N is too hard" in Path("run.html").read_text()
    again = ["fuzz", "--resume", "--trust", "--store", "run.db", "--min-compared", "0", "--quiet"]
    assert main(again) == 0


@pytest.mark.nightly
@pytest.mark.slow
def test_fewer_compared_cases_than_wanted_are_no_success(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pto_jax.cli.fuzz._workers", lambda memory: 1)
    command = ["fuzz", "--tested", f"{HERE}Zeroed", "--only", "tadd", "--count", "2", "--quiet"]
    assert main([*command, "--min-compared", "3"]) == 1
    assert "2 of 2 cases were compared; --min-compared is 3" in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.slow
def test_what_a_device_refuses_is_left_out_and_the_rest_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.Partial()
    made = executor(monkeypatch, device)
    batch = joined(made.pieces(0, 10))
    assert batch.kinds["equal"] >= 8 and batch.kinds.total() == 10
    reason = "the device declines: an instruction that is none of mine"
    assert batch.refusals.keys() <= {f"{name}: {reason}" for name in device.lacking}
    assert len(batch.refusals) > 1
    reached = {cell.partition("|")[0] for cell in batch.coverage}
    assert not reached & device.lacking and len(reached) > 15


@pytest.mark.nightly
@pytest.mark.slow
def test_what_is_refused_is_sent_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.Partial()
    made = executor(monkeypatch, device)
    list(made.pieces(0, 5))
    device.sent.clear()
    list(made.pieces(0, 5))
    assert len(device.sent) == 5 and not any(names & device.lacking for names in device.sent)


@pytest.mark.nightly
@pytest.mark.slow
def test_rows_do_not_depend_on_what_was_learnt_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block alone, in parts, and after others has the same row."""

    def row(*parts: tuple[int, int]) -> Batch:
        made = executor(monkeypatch, devices.Partial())
        return joined([b for start, count in parts for b in made.pieces(start, count) if b.start >= 2])

    assert row((2, 3)) == row((4, 1), (2, 2)) == row((0, 5))


@pytest.mark.slow
def test_what_a_reason_names_is_left_out() -> None:
    """Loops are in no small program: the device's own words are what is known of them."""
    device = devices.NoLoops()
    for index in range(20):
        case = kernel(3, index, CONTROL)
        if any(op.name == "scf.for" for op in case.program.walk()):
            break
    refused = compare_case(case, Oracle(), device)
    assert refused.kind == "refused"
    outcome = Refusals(device).compared(refused, Oracle(), device)
    assert outcome.kind == "equal", str(outcome)
    assert outcome.refusals == ("scf.for: the device declines: line N: scf.for is not supported",)
    assert all(op.name != "scf.for" for op in outcome.case.program.walk())
    assert outcome.case.origin == (f"without {outcome.refusals[0]}",)


@pytest.mark.slow
def test_a_device_that_declines_everything_is_asked_little() -> None:
    sent: list[Case] = []

    class Counting(devices.Declining):
        def run(self, case: Case) -> Run:
            sent.append(case)
            return super().run(case)

    device = Counting()
    refusals = Refusals(device)
    for index in range(8):
        case = kernel(3, index, CONTROL)
        refusals.compared(compare_case(case, Oracle(), device), Oracle(), device)
    assert len(sent) < 8 + 3 * 15 + 1


TEXT = """
func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %z: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %vx = pto.make_tensor_view %x, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<1x8xf32>
  %vy = pto.make_tensor_view %y, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<1x8xf32>
  %vz = pto.make_tensor_view %z, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<1x8xf32>
  %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c1, %c8] \
: !pto.tensor_view<1x8xf32> -> !pto.partition_tensor_view<1x8xf32>
  %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c1, %c8] \
: !pto.tensor_view<1x8xf32> -> !pto.partition_tensor_view<1x8xf32>
  %pz = pto.partition_view %vz, offsets = [%c0, %c0], sizes = [%c1, %c8] \
: !pto.tensor_view<1x8xf32> -> !pto.partition_tensor_view<1x8xf32>
  %a = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
  %b = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
  %c = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
  pto.tload ins(%px : !pto.partition_tensor_view<1x8xf32>) outs(%a : !pto.tile_buf<vec, 1x8xf32>)
  pto.texp ins(%a : !pto.tile_buf<vec, 1x8xf32>) outs(%b : !pto.tile_buf<vec, 1x8xf32>)
  pto.tneg ins(%b : !pto.tile_buf<vec, 1x8xf32>) outs(%c : !pto.tile_buf<vec, 1x8xf32>)
  pto.tstore ins(%c : !pto.tile_buf<vec, 1x8xf32>) outs(%py : !pto.partition_tensor_view<1x8xf32>)
  pto.tabs ins(%a : !pto.tile_buf<vec, 1x8xf32>) outs(%b : !pto.tile_buf<vec, 1x8xf32>)
  pto.tstore ins(%b : !pto.tile_buf<vec, 1x8xf32>) outs(%pz : !pto.partition_tensor_view<1x8xf32>)
  return
}
"""


def test_with_an_operation_go_those_that_read_what_nothing_writes_any_more() -> None:
    base = kernel(3, 0, CONTROL)
    case = Case("id", 0, 0, base.profile, parse(TEXT), {}, {}, 1, "kernel")

    def left(*names: str) -> list[str]:
        made = without(case, lambda op: op.name in names)
        assert made is not None
        return [
            op.name for op in made.program.walk() if op.name in ("tload", "texp", "tneg", "tabs", "tstore")
        ]

    # %b is written by tabs too: what reads it before is left to the definedness of its contents.
    assert left("tabs") == ["tload", "texp", "tneg", "tstore", "tstore"]
    assert left("tneg") == ["tload", "texp", "tabs", "tstore"]
    assert without(case, lambda op: op.name == "tload") is None


@pytest.mark.nightly
@pytest.mark.slow
def test_a_device_with_few_instructions_is_compared_on_most_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of programs with ten instructions nearly all have one that it lacks."""
    device = devices.Partial()
    device.lacking = frozenset(
        "tdiv tcvt texp tlog tsqrt trsqrt trecip tshl tshr tshls tshrs trem trems tfmod tfmods taxpy tprelu "
        "tconcat ttrans tsort32 tmrgsort tgather tscatter trowmin tcolmin trowmax tcolmax ttri tci".split()
    )
    batch = joined(executor(monkeypatch, device).pieces(0, 200))
    assert batch.kinds["equal"] > 180, batch.kinds


@pytest.mark.slow
def test_an_operation_in_a_loop_is_cut_out_there() -> None:
    found = Counter[str]()
    for index in range(30):
        case = generate(3, index, PRESETS["everything"])
        names = {op.name for op in case.program.walk()}
        for name in sorted(names & {"tadd", "tmov", "tadds"}):
            made = without(case, lambda op, name=name: op.name == name)  # type: ignore[misc]
            found["cut"] += made is not None
            if made is not None:
                assert all(op.name != name for op in made.program.walk())
                assert made.inputs.keys() <= case.inputs.keys()
    assert found["cut"] > 5
