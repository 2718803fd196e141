"""Campaigns over files for several ranks: inputs, executors, mutants, planted errors, options."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from pto_jax.campaign.fuzz.executor_cases import Programs
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases import targets
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.edits import everywhere
from pto_jax.cli.main import main
from pto_jax.devices.machines import machine
from pto_jax.errors import ArgumentError, PtoError
from pto_jax.failures import folder, recorder, reduce
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, Ranks, cases
from pto_jax.interpreter import View
from pto_jax.ir import Op
from pto_jax.oracle.machine import ReferenceMachine
from tests.ranks.protocols import PROTOCOLS, read, ring, text

Output = pytest.CaptureFixture[str]
WINDOWS = Ranks(4, ("y", "s", "z"), (("ctx", "y"),))
RING = replace(WINDOWS, shared=("y", "s"))


def _programs(path: Path, k: Any, ranks: Ranks | None, **more: Any) -> Programs:
    path.write_text(str(k))
    return Programs.of(Plan(programs=(str(path),), ranks=ranks, **more))


@pytest.mark.variants(4)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_files_are_executed_on_generated_inputs(name: str, tmp_path: Path) -> None:
    made = _programs(tmp_path / "k.pto", PROTOCOLS[name](), WINDOWS)
    case = made.case(0, made.attempts - 1)
    outcome = compare_case(case, machine("oracle"), machine("sanitizer"))
    # The table of an exchange has to be one: numbers by chance may ask for more than is sent.
    assert outcome.kind == "equal" or (name == "expert exchange" and outcome.kind == "stopped"), outcome


def test_inputs_have_an_axis_of_ranks_zeros_for_signals_and_numbers_by_name(tmp_path: Path) -> None:
    made = _programs(tmp_path / "ring.pto", ring(), RING)
    case = made.case(0, 0)
    assert case.ranks == RING and case.id != made.case(1, 0).id
    assert {n: i.words.shape for n, i in case.inputs.items()} == {
        "x": (4, 64), "y": (4, 4096), "s": (4, 4096), "rank": (4,), "n": (4,)
    }  # fmt: skip
    assert case.inputs["rank"].words.tolist() == [0, 1, 2, 3] and set(case.inputs["n"].words.tolist()) == {4}
    assert not case.inputs["s"].words.any() and case.inputs["x"].words.any()
    late = made.case(0, made.attempts - 1)
    assert late.inputs["x"].words.tobytes() != case.inputs["x"].words.tobytes()


def test_parts_of_other_ranks_and_windows_that_no_argument_names(tmp_path: Path) -> None:
    k = text()
    k.pointers = {"x": "f32", "far": "f32"}
    k.scalars = {}
    k.put(k.view("%far", "f32", (1, 64)), k.view("%x", "f32", (1, 64)), (1, 64), "f32")
    ranks = Ranks(2, (), (), (("far", "inbox", (1, 0)),))
    case = _programs(tmp_path / "k.pto", k, ranks).case(0, 0)
    assert list(case.inputs) == ["x", "inbox"]
    for tested in ("jit", "eager", "races"):
        assert compare_case(case, machine("oracle"), machine(tested)).kind == "equal"
    outcome = compare_case(case, machine("oracle"), _Shifted())
    record = recorder.Keeper(tmp_path / "f", 5.0, "oracle", "jit", calls=20)(
        outcome, machine("oracle"), _Shifted()
    )
    assert record.folder is not None and "tput" in record.cause
    again = folder.read(record.folder, original=True).case
    assert again.ranks == ranks and list(again.inputs) == ["x", "inbox"]
    assert again.inputs["inbox"].words.tobytes() == case.inputs["inbox"].words.tobytes()


@pytest.mark.slow
def test_mutants_of_files_may_be_right_and_their_findings_are_refusals(tmp_path: Path) -> None:
    made = _programs(tmp_path / "ring.pto", ring(), RING, mutate=True)
    kinds = {compare_case(made.case(i, 0), machine("oracle"), machine("races")).kind for i in range(12)}
    assert kinds == {"equal", "refused"}
    assert made.case(3, 0).origin[0] == str(tmp_path / "ring.pto") and not made.case(0, 0).origin


def test_a_file_that_lacks_its_wait_is_reduced_to_what_races_and_what_orders(tmp_path: Path) -> None:
    k, both = ring(), (machine("oracle"), machine("races"))
    k.lines = [line for line in k.lines if "twait" not in line and "fence" not in line]
    read(k, "%x", "%x")
    case = _programs(tmp_path / "ring.pto", k, RING).case(0, 0)
    outcome = compare_case(case, *both)
    assert outcome.is_failure and "published" in outcome.message
    record = recorder.Keeper(tmp_path / "f", 60.0, "oracle", "races")(outcome, *both)
    assert record.folder is not None
    small, whole = folder.read(record.folder).case, folder.read(record.folder, original=True).case
    assert whole.ranks == RING and small.ranks == replace(RING, count=2)
    assert not small.inputs["x"].words.any()
    assert set(_left(whole)) - set(_left(small)) == {"tload", "tstore"} and "tput" in _left(small)
    again = compare_case(small, *both)
    said = [o.message.splitlines()[0].partition("warning: ")[2] for o in (again, outcome)]
    assert said[0] == said[1] != ""


def test_a_mutant_without_a_finding_stays_whole(tmp_path: Path) -> None:
    case = replace(
        _programs(tmp_path / "ring.pto", ring(), RING).case(0, 0), origin=("ranks", "lacks nothing")
    )
    both = machine("oracle"), machine("races")
    outcome = compare_case(case, *both)
    record = recorder.Keeper(tmp_path / "f", 5.0, "oracle", "races")(outcome, *both)
    assert outcome.is_failure and record.folder is not None
    assert folder.read(record.folder).case.program == folder.read(record.folder, original=True).case.program


# -- planted errors --------------------------------------------------------------------------------------


class _Lost:
    """Executes without the first signal of the text."""

    name = "lost"
    follows: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    def run(self, case: Case) -> targets.Run:
        lost: list[Op] = []

        def change(op: Op) -> tuple[Op, ...]:
            if op.name.endswith("tnotify") and not lost:
                lost.append(op)
                return ()
            return (op,)

        return targets.Oracle().run(everywhere(case, change))


class _Shift(ReferenceMachine):
    """Puts one element behind its place."""

    inside = ""

    def begin(self, op: Op, scope: Any) -> None:
        super().begin(op, scope)
        self.inside = op.name

    def execute(self, execution: Any) -> dict[str, Any]:
        dst = execution.operands.get("dst")
        if self.inside.endswith("tput") and isinstance(dst, View):
            moved = {**execution.operands, "dst": replace(dst, offset=dst.offset + 1)}
            execution = replace(execution, operands=moved)
        return super().execute(execution)


class _Shifted(_Lost):
    name = "shifted"

    def run(self, case: Case) -> targets.Run:
        return targets.Oracle(machine=_Shift).run(case)


def _left(case: Case) -> list[str]:
    """What computes or communicates in a program."""
    plain = ("arith.", "pto.", "alloc", "make_", "partition", "addptr", "load_scalar", "return", "func")
    return [op.name for op in case.program.walk() if not op.name.startswith(plain)]


@pytest.mark.variants(0)
@pytest.mark.parametrize(
    ("tested", "left"),
    [(_Shifted(), {"tput"}), (_Lost(), {"tnotify", "twait"})],
)
def test_planted_errors_are_found_and_shrunk(tested: Any, left: set[str], tmp_path: Path) -> None:
    case = _programs(tmp_path / "ring.pto", ring(), RING).case(0, 0)
    made = reduce.shrink(case, machine("oracle"), tested, seconds=20)
    assert made.outcome.is_failure and {n.rpartition(".")[2] for n in _left(made.case)} == left
    assert np.array_equal(made.case.inputs["rank"].words, case.inputs["rank"].words)
    saved = folder.save(
        tmp_path / "f", case, made.finding, folder.About(made.instruction, "why", "oracle", "jit")
    )
    again = folder.read(saved).case
    assert compare_case(again, machine("oracle"), tested).is_failure
    assert compare_case(again, machine("oracle"), machine("eager")).kind == "equal"


@pytest.mark.slow
@pytest.mark.parametrize("tested", [_Lost(), _Shifted()])
def test_planted_errors_are_found_in_generated_programs(tested: Any) -> None:
    kinds = [
        compare_case(case, machine("oracle"), tested).is_failure
        for case in cases(4, 12, replace(PRESETS["ranks"], mutants=0.0))
    ]
    assert sum(kinds) >= 9


# -- plans and options -----------------------------------------------------------------------------------


def test_a_plan_on_ranks_is_read_again_and_wrong_ones_are_refused() -> None:
    plan = Plan(programs=("k.pto",), ranks=Ranks(2, ("y",), (("ctx", "y"),), (("a", "y", (1, 0)),)))
    assert Plan.of_json(plan.to_json()) == plan and Plan.of_json(Plan().to_json()).ranks is None
    for wrong in (3, {"count": 0}, {"count": 2, "peers": [["a", "y"]]}):
        with pytest.raises(ArgumentError, match="ranks is"):
            Plan.of_json({"ranks": wrong})


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (None, "waits for signals of other processors; allowed: programs of one processor; try: --ranks N"),
        (replace(RING, shared=("q",)), "shared: got 'q'"),
        (replace(RING, context=(("ctx", "q"),)), "context: 'ctx': got 'q'; allowed: a buffer"),
        (replace(RING, peers=(("q", "y", (0,) * 4),)), "peers: got 'q'"),
    ],
)
def test_files_that_do_not_fit_are_rejected_with_the_reason(
    ranks: Ranks | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(PtoError, match="no program can be executed") as error:
        _programs(tmp_path / "ring.pto", ring(), ranks)
    assert message in str(error.value)


def test_options_of_ranks_need_files_and_a_number(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "ring.pto"
    file.write_text(str(ring()))
    for given, message in (
        (["--ranks", "2"], "try: --preset ranks"),
        (["--programs", str(file), "--shared", "y"], "--shared without --ranks"),
        (["--programs", str(file), "--ranks", "65"], "ranks: got 65; allowed: 1 to 64"),
        (["--programs", str(file), "--ranks", "2", "--peer", "a=x:q"], "--peer: got a=x:q"),
    ):
        assert main(["fuzz", *given]) == 2
        assert message in capsys.readouterr().err


def test_a_mesh_of_one_device_and_programs_without_ranks_are_refused(tmp_path: Path) -> None:
    tested = machine("shard_map")
    (plain,) = cases(0, 1, PRESETS["straight"])
    assert compare_case(plain, machine("oracle"), tested).refusals == ("a program for one processor",)
    case = _programs(tmp_path / "ring.pto", ring(), replace(RING, count=5)).case(0, 0)
    (reason,) = compare_case(case, machine("oracle"), tested).refusals
    assert "the devices of this process cannot share the ranks" in reason


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 5])
def test_generated_programs_on_a_mesh_give_the_bits_of_the_interpreter(seed: int) -> None:
    options = replace(PRESETS["ranks"], mutants=0.0)
    case = next(
        c for c in cases(seed, 50, options) if c.ranks is not None and c.ranks.count % 2 == 0 and c.grid == 1
    )
    assert compare_case(case, machine("oracle"), machine("shard_map")).kind == "equal"


@pytest.mark.nightly
@pytest.mark.slow
def test_the_command_executes_files_on_ranks(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "ring.pto"
    file.write_text(str(ring()))
    given = ["--programs", str(file), "--ranks", "4", "--shared", "y,s", "--context", "ctx=y"]
    given += ["--count", "4", "--workers", "1", "--quiet", "--failures", str(tmp_path / "f")]
    for tested in ("jit", "races"):
        assert main(["fuzz", *given, "--tested", tested]) == 0
        assert "4 cases: 4 equal" in capsys.readouterr().out
    assert main(["fuzz", *given, "--tested", "races", "--mutate"]) == 0
