"""Commands on several ranks: traces, breakpoints, states, undefined data, comparisons, refusals."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from pto_jax.cli.main import main
from pto_jax.examples import ON_RANKS, example
from tests.ranks.protocols import FENCE, PROTOCOLS, compiled, put, ring, text, values

Output = pytest.CaptureFixture[str]
RANKS = ["--ranks", "3", "--shared", "y,s", "--context", "ctx=y"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The ring as a file."""
    path = tmp_path / "ring.pto"
    path.write_text(str(ring()))
    return path


def _line(file: Path, part: str) -> int:
    return next(i for i, t in enumerate(file.read_text().splitlines(), 1) if part in t)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_steps_of_a_trace_give_the_bits_of_the_interpreter(name: str) -> None:
    k = PROTOCOLS[name]()
    given = values(k)
    trace = compiled(k).trace(**given)
    expected = compiled(k)(**given)
    assert {f"rank {r} (block 0)" for r in range(2)} <= {step.core for step in trace}
    for buffer, array in expected.items():
        np.testing.assert_array_equal(np.asarray(trace.outputs[buffer]), array)


def test_a_trace_takes_other_orders_and_data_that_decide_the_order() -> None:
    k = text("z")
    k.pointers = {"count": "i32", **k.pointers}
    n = k.new()
    k.add(f"{n} = pto.load_scalar %count[{k.number(0)}] : !pto.ptr<i32> -> i32")
    k.if_(k.equal(k.index(n), 2))
    k.notify(k.peer("%s", k.of("remui", k.of("addi", k.index("%rank"), 1), 4)), 0)
    k.wait("%s", 0)
    k.end()
    given = {**values(k), "count": np.full((4, 8), 2, np.int32)}
    for schedule in (None, 3):
        trace = compiled(k, schedule=schedule).trace(**given)
        assert np.asarray(trace.outputs["s"])[:, 0].tolist() == [1] * 4
        assert len(trace.at(trace[-1].line or 0)) >= 1


def test_a_trace_names_the_rank_and_the_window_of_every_transfer(file: Path, capsys: Output) -> None:
    assert main(["run", str(file), *RANKS, "--trace"]) == 0
    lines = capsys.readouterr().out.splitlines()
    put, wait = _line(file, "comm.tput"), _line(file, "comm.twait")
    steps = [line for line in lines if line.startswith("[")]
    assert sum(f":{wait} rank 2 (block 0) twait" in line for line in steps) == 1
    ours = [line for line in lines if "dst %view  y of rank 2[1x64" in line]
    assert len(ours) == 1 and sum(f":{put} rank 1 (block 0) tput" in line for line in steps) == 1
    assert lines[-1].startswith("exact: every order of the ranks")
    assert main(["run", str(file), *RANKS, "--trace", "--trace-limit", "2", "--schedule", "5"]) == 0
    assert "only 2 lines are shown" in capsys.readouterr().out


def test_a_breakpoint_stops_one_rank_and_saves_all(file: Path, tmp_path: Path, capsys: Output) -> None:
    line, saved = _line(file, "comm.twait"), tmp_path / "state.npz"
    options = ["run", str(file), *RANKS, "--break", f"{line}:2", "--dump-state", str(saved)]
    assert main([*options, "--pictures", str(tmp_path / "pictures")]) == 0
    assert f"ring.pto:{line} rank 1 (block 0) twait, reached 2 times" in capsys.readouterr().out
    state = np.load(saved)
    assert state["buffer/s"].shape[0] == 3 and state["buffer/s"][:, 0].tolist() == [0, 1, 1]
    assert any(name.startswith("tile/rank 0 (block 0)/ring/") for name in state.files)
    assert (tmp_path / "pictures" / "y.svg").exists()
    assert main(["run", str(file), *RANKS, "--break", f"{line}:4"]) == 2
    assert "it reached that line 3 times" in capsys.readouterr().err


def test_a_state_has_the_tiles_of_every_rank(tmp_path: Path, capsys: Output) -> None:
    saved = tmp_path / "state.npz"
    assert main(["run", "--example", "ring_exchange", "--dump-state", str(saved)]) == 0
    assert "equal to NumPy" in capsys.readouterr().out
    state, given = np.load(saved), example("ring_exchange").arguments(0)
    for rank in range(4):
        mine = state[f"tile/rank {rank} (block 0)/ring_exchange/mine"]
        np.testing.assert_array_equal(mine, np.asarray(given["x"])[rank : rank + 1])


def test_undefined_data_on_a_rank_is_named_with_the_rank(tmp_path: Path, capsys: Output) -> None:
    k, file = ring(), tmp_path / "k.pto"
    k.if_(k.equal(k.index("%rank"), 1))
    k.store(k.tile(1, 64), k.view("%y", "f32", (1, 64)), (1, 64), "f32")
    k.end()
    file.write_text(str(k))
    assert main(["run", str(file), *RANKS, "--sanitize"]) == 1
    shown = capsys.readouterr()
    assert "on 3 ranks" in shown.out
    assert re.search(r"tstore: undefined data .*never written .*first on rank 1 \(block 0\)", shown.err)


@pytest.mark.parametrize("name", ON_RANKS)
def test_examples_on_ranks_have_no_undefined_data(name: str, capsys: Output) -> None:
    assert main(["run", "--example", name, "--sanitize=strict"]) == 0
    assert "sanitizer: no undefined data" in capsys.readouterr().out


def test_two_programs_are_compared_on_ranks(file: Path, tmp_path: Path, capsys: Output) -> None:
    assert main(["diff", str(file), str(file), *RANKS, "--count", "2"]) == 0
    assert "equal: y, s on 2 generated inputs, seed 0 (3 ranks, profile a5)" in capsys.readouterr().out
    other = tmp_path / "other.pto"
    other.write_text(str(ring()).replace("notify_op atomic_add", "notify_op set"))
    assert main(["diff", str(file), str(other), *RANKS, "--count", "2"]) == 0
    capsys.readouterr()
    other.write_text(str(ring()).replace("%c1_i32 = arith.constant 1", "%c1_i32 = arith.constant 2"))
    assert main(["diff", str(file), str(other), *RANKS, "--failures", str(tmp_path)]) == 1
    assert "different: input 0: s[0, 0]" in capsys.readouterr().out
    (folder,) = tmp_path.glob("diff-ring-other-*")
    words = json.loads((folder / "report.json").read_text())["command"].split()
    ours = [str(folder / w) if (folder / w).exists() else w for w in words[1:]]
    assert main([*ours, "--failures", str(tmp_path)]) == 1
    assert "different: input 0: s[0, 0]" in capsys.readouterr().out


def test_a_program_that_only_one_order_saves_is_different(file: Path, tmp_path: Path, capsys: Output) -> None:
    after = tmp_path / "after.pto"
    kept = [line for line in str(ring()).splitlines() if line.strip() not in FENCE.splitlines()]
    after.write_text("\n".join(kept))
    assert main(["diff", str(file), str(after), *RANKS, "--count", "1"]) == 1
    assert "only the program after is schedule-dependent" in capsys.readouterr().out
    after.write_text(str(ring()).replace("wait_cmp ge", "wait_cmp gt"))
    assert main(["diff", str(file), str(after), *RANKS, "--failures", str(tmp_path)]) == 1
    assert "only the program after breaks a rule" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["run", "FILE"], "waits for a signal of another rank; allowed: several ranks; try: --ranks 2"),
        (["run", "FILE", "--shared", "y"], "--shared without --ranks; allowed: both; try: --ranks 2"),
        (["races", "FILE", "--context", "ctx=y"], "--context without --ranks"),
        (["diff", "FILE", "FILE", "--peer", "x=y:0"], "--peer without --ranks"),
        (["diff", "FILE", "FILE", "--ranks", "0"], "ranks: got 0; allowed: 1 to 64; try: --ranks 2"),
        (["run", "FILE", *RANKS, "--context", "ctx=s"], "--context: got 'ctx' twice; allowed: each"),
        (["run", "FILE", *RANKS, "--peer", "x=y:0", "--peer", "x=y:1"], "--peer: got 'x' twice"),
        (["run", "FILE", *RANKS, "--arg", "n=2", "--arg", "n=3"], "--arg: got 'n' twice"),
        (["run", "FILE", *RANKS, "--arg", "n"], "--arg: got n; allowed: NAME=N or NAME=N,N,..."),
        (
            ["run", "FILE", "--ranks", "2", "--context", "cty=y"],
            "pointers to i64 of ring: ctx; try: --context ctx=y",
        ),
        (
            ["run", "FILE", "--ranks", "2", "--shared", "yy"],
            "which no argument, context record or peer is part of",
        ),
        (
            ["run", "FILE", *RANKS, "--peer", "x=y:9"],
            "got ('y', 9); allowed: a buffer and a rank from 0 to 2",
        ),
        (["diff", "FILE", "FILE", *RANKS, "--sync"], "--ranks with --sync"),
        (
            ["diff", "FILE", "FILE", *RANKS, "--corpus"],
            "got --ranks with --corpus or --series; allowed: with two programs",
        ),
        (["diff", "FILE", "FILE", *RANKS, "--numerics", "fast"], "not on several ranks"),
        (["diff", "FILE", "FILE", *RANKS, "--arg", "q=1"], "no argument is called 'q'; allowed: x, y, s"),
        (["cost", "FILE", "--ranks", "2"], "costs are those of one rank"),
        (["run", "FILE", *RANKS, "--sanitize", "--trace"], "got --trace or --break with --sanitize"),
        (["run", "FILE", *RANKS, "--numerics", "fast"], "--numerics fast: not on several ranks"),
        (["run", "FILE", *RANKS, "--break", "900"], "no operation begins on line 900"),
        (["run", "FILE", *RANKS, "--seed", "-1"], "--seed: got -1; allowed: 0 or more"),
    ],
)
def test_what_is_not_for_ranks_is_one_line(
    command: list[str], message: str, file: Path, capsys: Output
) -> None:
    assert main([str(file) if word == "FILE" else word for word in command]) in (1, 2)
    shown = capsys.readouterr().err
    assert message in shown and "Traceback" not in shown and shown.count("error") == 1


def test_kernels_of_a_plan_are_traced_one_after_the_other(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "ring.pto").write_text(str(ring()))
    launch = {"kernel": "ring.pto", "shared": ["y", "s"], "context": {"ctx": "y"}, "arguments": {"s": "s"}}
    again = {**launch, "arguments": {"s": "t"}}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"ranks": 2, "launches": [launch, "host_barrier", again]}))
    assert main(["run", str(plan), "--trace", "--trace-limit", "9000"]) == 0
    assert len(re.findall(r"rank 0 \(block 0\) twait", capsys.readouterr().out)) == 2


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (["--shared", "y"], '"shared": ["y"] for the launch in the plan'),
        (["--grid", "2"], '"blocks": 2 for the launch in the plan'),
        (["--context", "ctx=y"], '"context": {"ctx": "y"} for the launch in the plan'),
        (["--peer", "x=y:1"], '"peers": {"x": ["y", 1]} for the launch in the plan'),
        (["--profile", "a5"], '"profile": "a5" in the plan'),
        (["--entry", "ring"], '"entry": "ring" for the launch in the plan'),
    ],
)
def test_what_a_plan_says_is_no_option(options: list[str], fix: str, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "ring.pto").write_text(str(ring()))
    launch = {"kernel": "ring.pto", "shared": ["y", "s"], "context": {"ctx": "y"}}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"ranks": 2, "launches": [launch]}))
    assert main(["races", str(plan)]) == 0
    assert "exact: every order" in capsys.readouterr().out
    assert main(["run", str(plan), *options]) == 2
    shown = capsys.readouterr().err
    assert f"got {options[0]} with the plan {plan}; allowed:" in shown and f"; try: {fix}" in shown
    plan.write_text(json.dumps({"ranks": 2, "launches": [{**launch, "shared": ["q"]}]}))
    assert main(["run", str(plan)]) == 2
    assert f"{plan}: launches[0]: shared: got 'q', which no argument" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "races"])
def test_generated_buffers_are_as_large_as_accesses_need(
    command: str, tmp_path: Path, capsys: Output
) -> None:
    k, path, words = text("z"), tmp_path / "k.pto", ["--ranks", "2", "--shared", "y"]
    k.pointers = {"route": "i32", **k.pointers}
    to = k.new()
    k.add(f"{to} = pto.load_scalar %route[{k.number(3)}] : !pto.ptr<i32> -> i32")
    # A rank that a table names, and a row far behind the first one.
    put(k, k.peer("%y", k.index(to)), "%x", k.of("muli", k.index("%rank"), 400_000))
    path.write_text(str(k))
    assert main([command, str(path), *words]) == 0
    assert "exact: every order" in capsys.readouterr().out
    np.savez(tmp_path / "in.npz", route=np.full((2, 64), 7, np.int32))
    assert main([command, str(path), *words, "--inputs", str(tmp_path / "in.npz")]) == 1
    assert "addptr: got an address" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "races"])
def test_a_context_record_of_several_windows_has_to_be_given(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ring.pto"
    path.write_text(str(ring()))
    assert main([command, str(path), "--ranks", "2", "--shared", "y,s"]) == 2
    found = capsys.readouterr().err
    assert "context: got the record 'ctx' of y, s without its window" in found
    assert found.rstrip().endswith("allowed: one of them; try: --context ctx=y")


def test_no_block_is_no_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ring.pto"
    path.write_text(str(ring()))
    options = ["--ranks", "2", "--shared", "y,s", "--context", "ctx=y", "--grid", "0"]
    assert main(["run", str(path), *options]) == 2
    assert "grid: got 0; allowed: a positive number" in capsys.readouterr().err
