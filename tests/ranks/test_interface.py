"""The interface for several ranks: arguments, windows, numbers of blocks, sequences, and the command."""

import json
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main
from pto_jax.examples import ON_RANKS
from tests.ranks.protocols import FENCE, Text, compiled, put, read, ring, text, values, where


def blocks() -> Text:
    """Every block writes its number and how many there are to a place of its own."""
    k = Text({"s": "i32"}, {"__pypto_spmd_block_idx": "i32", "__pypto_spmd_block_num": "i32"})
    at = k.index("%__pypto_spmd_block_idx")
    k.add(f"pto.store_scalar %__pypto_spmd_block_num, %s[{at}] : !pto.ptr<i32>, i32")
    return k


@pytest.mark.parametrize("ranks", [None, 2])
def test_numbers_of_blocks_are_those_of_the_launch(ranks: int | None) -> None:
    program = pto.parse(str(blocks()))
    kernel = pto.compile(program, grid=4, ranks=ranks, partial_launch=True, warn=False)
    s = np.zeros((2, 8) if ranks else 8, np.int32)
    found = np.asarray(kernel(s)["s"]).reshape(-1, 8)
    assert (found[:, :4] == 4).all() and not found[:, 4:].any()


def test_one_block_may_be_given_the_number_of_another_one_and_several_may_not() -> None:
    program, s = pto.parse(str(blocks())), np.zeros(8, np.int32)
    one = pto.compile(program, partial_launch=True)
    assert np.asarray(one(s, 3, 5)["s"]).tolist() == [0, 0, 0, 5, 0, 0, 0, 0]
    assert np.asarray(one(s)["s"]).tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    with pytest.raises(pto.ArgumentError, match=r"__pypto_spmd_block_idx'.*4 blocks; allowed: none"):
        pto.compile(program, grid=4, partial_launch=True)(s, 3, 5)
    with pytest.raises(pto.ArgumentError, match="4 blocks; allowed: none"):
        pto.oracle.run(program, [s, 3, 5], grid=4, partial_launch=True)


def peers() -> pto.Program:
    """A copy from one part of a buffer to another one, without context."""
    k = Text({"a": "f32", "b": "f32"})
    put(k, "%b", "%a")
    return pto.parse(str(k), file="peers.pto")


def test_a_peer_is_the_part_of_one_rank_or_of_one_for_each() -> None:
    x = np.arange(3 * 64, dtype=np.float32).reshape(3, 64)
    kernel = pto.compile(peers(), ranks=3, peers={"a": ("x", 1)})
    assert [a.name for a in kernel.arguments] == ["x", "b"]
    assert (np.asarray(kernel(x, np.zeros_like(x))["b"]) == x[1]).all()
    kernel = pto.compile(peers(), ranks=3, peers={"a": ("x", [2, 0, 1])})
    assert (np.asarray(kernel(x=x, b=np.zeros_like(x))["b"]) == x[[2, 0, 1]]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": 0}, "ranks: got 0; allowed: 1 to 64"),
        ({"ranks": "2"}, "ranks: got '2'; allowed: 1 to 64; try: ranks=2"),
        ({"ranks": 2.0}, "ranks: got 2.0; allowed: 1 to 64"),
        ({"ranks": 2, "grid": "2"}, "grid: got '2'; allowed: a positive number"),
        ({"ranks": 2, "shared": "a"}, r"shared: got 'a'; allowed: names of buffers; try: shared=\['a'\]"),
        ({"ranks": 2, "shared": "a,b"}, r"shared: got 'a,b'; .*; try: shared=\['a', 'b'\]"),
        ({"ranks": 2, "shared": None}, "shared: got None; allowed: names of buffers"),
        ({"ranks": 2, "shared": ("q",)}, "shared: got 'q', which no argument.*; allowed: a, b$"),
        ({"ranks": 2, "shared": ("a", "%b")}, r"shared: got '%b', .*; try: shared=\['a', 'b'\]"),
        ({"ranks": 2, "context": ["a"]}, 'context: got a list; allowed: .*; try: context={"ctx": "y"}'),
        ({"ranks": 2, "context": {"q": "a"}}, "context: got 'q'; allowed: pointers to i64 of k: none"),
        ({"ranks": 2, "peers": "a"}, r'peers: got a str; allowed: .*; try: peers={"a": \["x", 1\]}'),
        ({"ranks": 2, "scalars": {"n": 2}}, "scalars: got 'n'; allowed: scalars of k: none"),
        ({"ranks": 2, "engine": "gpu"}, "engine: got 'gpu'; allowed: compiled, interpreter"),
        ({"ranks": 2, "moves": "x"}, "moves: got 'x'; allowed: issue, wait"),
        ({"ranks": 2, "schedule": "x"}, "schedule: got 'x'; allowed: a seed"),
        (
            {"ranks": 2, "peers": {"a": ("x", 2)}},
            r'got .*; allowed: a buffer and a rank from 0 to 1, .*; try: peers={"a": \["x", 1\]}',
        ),
        ({"ranks": 2, "peers": {"a": ("x", True)}}, r"peers: 'a': got \('x', True\)"),
        ({"ranks": 2, "peers": {"a": ("x", 0, 1)}}, r"peers: 'a': got \('x', 0, 1\)"),
        ({"ranks": 2, "peers": {"q": ("x", 1)}}, "peers: got 'q'; allowed: pointer arguments of k: a, b"),
        (
            {"ranks": 2, "context": {"a": "b"}},
            "argument .a.: got ptr<f32>; allowed: a pointer to i64: none here",
        ),
        (
            {"ranks": 2, "context": {"a": "b"}, "peers": {"a": ("b", 1)}},
            "context, peers: got 'a' in both; allowed: one of them",
        ),
        ({"shared": ("a",)}, "got no ranks; allowed: with ranks=N"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        pto.compile(peers(), **options)


def test_numbers_that_no_scalar_holds_are_one_clear_error() -> None:
    k, program = ring(), pto.parse(str(ring()))
    windows: dict[str, Any] = {"shared": ("y", "s"), "context": {"ctx": "y"}}
    both: tuple[Any, ...] = ([2, 2], 2)
    for number in both:
        fixed = pto.compile(program, ranks=2, scalars={"n": number}, engine="interpreter", **windows)
        free = {n: v for n, v in values(k, 2).items() if n != "n"}
        assert [a.name for a in fixed.arguments if a.name in fixed.scalars] == ["rank"]
        assert (fixed(**free)["y"] == compiled(k, 2)(**values(k, 2))["y"]).all()
    whole = compiled(k, 2)
    wrong: tuple[tuple[Any, str], ...] = (
        ([0, 1, 2], r"got shape \(3,\); allowed: one number, or 2 numbers"),
        ([[0, 1]], r"got shape \(1, 2\); allowed: one number, or 2 numbers"),
        (None, "got None; allowed: a number"),
        (2.5, r"got the float 2.5; allowed: i32; try: int\(2.5\)"),
        (1 << 40, "got 1099511627776; allowed: numbers that i32 holds"),
    )
    for number, message in wrong:
        with pytest.raises(pto.ArgumentError, match=f"scalar 'n': {message}"):
            pto.launches([(whole, {"n": number})], ranks=2)
        with pytest.raises(pto.ArgumentError, match=f"scalars: scalar 'n': {message}"):
            pto.compile(program, ranks=2, scalars={"n": number}, **windows)
        with pytest.raises(pto.ArgumentError, match=f"argument 'n': {message}"):
            whole(**{**values(k, 2), "n": number})


def test_a_number_of_blocks_is_never_given_on_ranks() -> None:
    kernel = pto.compile(pto.parse(str(blocks())), ranks=2, grid=4, partial_launch=True, warn=False)
    with pytest.raises(
        pto.ArgumentError, match=r"__pypto_spmd_block_idx': got a value; allowed: none: every"
    ):
        kernel(np.zeros((2, 8), np.int32), __pypto_spmd_block_idx=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": {"q": "y"}}, "context: got 'q'; allowed: context records of the kernels: none"),
        ({"context": {"ctx": "q"}}, "context: 'ctx': got 'q'; allowed: a buffer: s, x, y"),
        ({"shared": ("nope",)}, "shared: got 'nope', which no argument"),
        ({"shared": "y"}, r"shared: got 'y'; .*; try: shared=\['y'\]"),
    ],
)
def test_a_sequence_has_windows_and_records_of_its_kernels(options: dict[str, Any], message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        pto.launches([pto.parse(str(ring()))], ranks=2, **options)


@pytest.mark.parametrize("sequence", ["ring", None, 3, pto.host_barrier])
def test_a_sequence_is_a_list(sequence: Any) -> None:
    with pytest.raises(pto.ArgumentError, match=r"launches: got .*; allowed: a list of kernels; try: pto\."):
        pto.launches(sequence, ranks=2)


@pytest.mark.parametrize("options", [{"schedules": -1}, {"schedules": "x"}, {"seed": 1.5, "schedules": 1}])
def test_orders_are_counted(options: dict[str, Any]) -> None:
    with pytest.raises(pto.ArgumentError, match=r"(schedules|seed): got .*; allowed: a number from 0"):
        compiled(ring(), 2).judge(values(ring(), 2), **options)


@pytest.mark.parametrize("entry", [3, "k", (peers(),), (peers(), "a")])
def test_a_sequence_of_something_else_is_one_clear_error(entry: Any) -> None:
    with pytest.raises(pto.ArgumentError, match=r"launches\[0\]: got .*; allowed: a kernel, a program"):
        pto.launches([entry], ranks=2)


def test_arrays_have_an_axis_of_ranks_and_scalars_one_number_or_one_each() -> None:
    k = ring()
    kernel, given = compiled(k, 4), values(k, 4)
    with pytest.raises(
        pto.ArgumentError, match=r"argument 'x': got shape \(3, 1024\); allowed: a leading axis of 4"
    ):
        kernel(**{**given, "x": given["x"][:3]})
    with pytest.raises(
        pto.ArgumentError, match=r"argument 'rank': got shape \(3,\); allowed: one number, or 4"
    ):
        kernel(**{**given, "rank": [0, 1, 2]})
    assert kernel(**{**given, "rank": [0, 1, 2, 3]})["s"][:, 0].tolist() == [1, 1, 1, 1]


def test_an_address_outside_of_all_windows_is_an_error_at_its_line() -> None:
    k = ring()
    given = {**values(k, 2), "n": 3}
    for engine in ("compiled", "interpreter"):
        with pytest.raises(pto.ExecutionError, match=r"ring\.pto:\d+:5: error: addptr: got an address"):
            compiled(k, 2, engine)(**given)
    with pytest.raises(pto.ExecutionError, match="allowed: its own bytes; try: shared=y"):
        compiled(k, 2, shared=("s",), context={"ctx": "s"})(**{**given, "n": 2})


def test_a_finding_warns_once_and_is_in_the_report() -> None:
    k = ring()
    k.lines = [line for line in k.lines if line not in FENCE.splitlines()]
    kernel, given = compiled(k, 2, warn=True), values(k, 2)
    with pytest.warns(
        pto.PtoWarning, match=r"schedule-dependent: ring\.pto:\d+:5 tput and ring\.pto:\d+:5 tnotify: race"
    ):
        kernel(**given)
    assert kernel.report is not None and not kernel.report.exact and kernel.report.findings[0].kind == "race"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(**given)
    _, report = compiled(ring(), 2, checks=True)(**given)
    assert report.exact and str(report).startswith("exact: ")


def test_signals_under_a_transformation_count_as_zeros_and_a_warning_says_so() -> None:
    kernel, given = compiled(ring(), 2, "compiled", warn=True), values(ring(), 2)
    numbers = {n: given.pop(n) for n in ("rank", "n") if n in given}
    with pytest.warns(pto.PtoWarning, match="got signals under a transformation.*they count as zeros"):
        found = jax.jit(lambda arrays: kernel(**arrays, **numbers))(given)
    for name, expected in kernel(**given, **numbers).items():
        np.testing.assert_array_equal(found[name], expected)


def first() -> Text:
    """Puts a row into the next rank, without a signal."""
    k = text()
    own = k.index("%rank")
    put(k, k.peer("%y", k.of("remui", k.of("addi", own, 1), 2)), "%x")
    k.name = "first"
    return k


def second() -> Text:
    """Reads what came."""
    k = Text({"inbox": "f32", "z": "f32"})
    read(k, "%inbox")
    k.name = "second"
    return k


def test_kernels_in_a_sequence_share_windows_and_meet_at_the_host() -> None:
    one = compiled(first(), 2)
    two = pto.compile(pto.parse(str(second()), file="second.pto"))
    x = np.arange(2 * 64, dtype=np.float32).reshape(2, 64)
    given = {
        "x": x,
        "y": np.zeros_like(x),
        "z": np.zeros_like(x),
        "s": np.zeros((2, 1), np.int32),
        "rank": [0, 1],
    }
    for engine in ("interpreter", "compiled"):
        apart = pto.launches([one, pto.host_barrier, (two, {"inbox": "y"})], ranks=2, engine=engine)
        found = apart(**given)
        assert (np.asarray(found["z"]) == x[::-1]).all() and set(found) == {"y", "z"}
        assert apart.report is not None and apart.report.exact
    together = pto.launches([one, (two, {"inbox": "y"})], ranks=2)
    assert not together.judge(given).exact
    with pytest.raises(
        pto.ArgumentError, match=r"launches\[0\]: second has no argument 'inbx'; allowed: inbox, z"
    ):
        pto.launches([(two, {"inbx": "y"})], ranks=2)
    with pytest.raises(pto.ArgumentError, match=r"launches\[0\]: got a kernel of 2 ranks; allowed: 3"):
        pto.launches([one], ranks=3)


def test_the_command_runs_ranks_and_says_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "ring.pto", tmp_path / "out.npz"
    file.write_text(str(ring()))
    options = ["run", str(file), "--ranks", "4", "--shared", "y,s", "--context", "ctx=y"]
    for more in ([], ["--schedule", "3"], ["--async", "wait"], ["--sync", "both"], ["--outputs", str(out)]):
        assert main([*options, *more]) == 0
        shown = capsys.readouterr().out
        assert "on 4 ranks" in shown and "exact: every order of the ranks gives this result" in shown
    assert np.load(out)["s"].shape[0] == 4


def test_a_deadlock_ends_the_command_with_the_place_of_every_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ring.pto"
    file.write_text(str(ring()).replace("wait_cmp ge", "wait_cmp gt"))
    assert main(["run", str(file), "--ranks", "2", "--shared", "y,s", "--context", "ctx=y"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "deadlock: 2 of 2 ranks wait for ever" and len(lines) == 3
    line = next(i for i, t in enumerate(file.read_text().splitlines(), 1) if "twait" in t)
    expected = f"{file}:{line}: twait: rank 1 (block 0) waits for s[0] of rank 1 gt 1, which is 1"
    assert lines[2].strip() == expected


def test_races_shows_other_bits_for_a_race(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    k = ring()
    k.pointers = {"x": "f32", "y": "f32", "s": "i32", "z": "f32", "ctx": "i64"}
    read(k, "%y")
    file, listed = tmp_path / "k.pto", tmp_path / "k.json"
    options = [
        "races",
        str(file),
        "--ranks",
        "2",
        "--shared",
        "y,s",
        "--context",
        "ctx=y",
        "--schedules",
        "4",
    ]
    file.write_text(str(k))
    assert main(options) == 0
    assert "none of 4 legal orders shows other bits" in capsys.readouterr().out
    file.write_text("\n".join(line for line in str(k).splitlines() if line.strip() not in FENCE.splitlines()))
    assert main([*options, "--json", str(listed)]) == 1
    assert "elements of z differ" in capsys.readouterr().out
    assert {f["kind"] for f in json.loads(listed.read_text())} == {"race"}


def test_a_plan_names_kernels_buffers_and_meetings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "first.pto").write_text(str(first()))
    (tmp_path / "second.pto").write_text(str(second()))
    launches = [
        {"kernel": "first.pto", "shared": ["y"], "context": {"ctx": "y"}},
        "host_barrier",
        {"kernel": "second.pto", "arguments": {"inbox": "y"}},
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"ranks": 2, "launches": launches}))
    assert main(["run", str(plan)]) == 0
    assert "first (1 block) -> host barrier -> second (1 block) on 2 ranks" in capsys.readouterr().out
    plan.write_text(json.dumps({"ranks": 2, "launches": [{"kernel": 3}]}))
    assert main(["run", str(plan)]) == 2
    assert "launches[0].kernel: got 3; allowed: the name of a file" in capsys.readouterr().err


def test_a_private_buffer_is_read_where_a_condition_says_so() -> None:
    """Ranks without work end, and others do not wait for them."""
    k = text("z")
    own = k.index("%rank")
    with where(k, k.equal(own, 1)):
        read(k, "%x")
    given = values(k, 3)
    found = compiled(k, 3, "compiled")(**given)["z"]
    assert (np.asarray(found)[1, :64] == given["x"][1, :64]).all() and not np.asarray(found)[[0, 2]].any()


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ON_RANKS)
def test_examples_on_ranks_have_the_bits_of_the_interpreter_and_numpy(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ON_RANKS[name]
    assert main(["run", "--example", name]) == 0
    shown = capsys.readouterr().out
    assert "check:   " in shown and "exact: every order of the ranks" in shown
    program, given = pto.load(found.path), found.arguments(1)
    results = [
        pto.compile(program, ranks=found.ranks, shared=found.shared, context=found.context, engine=engine)(
            **given
        )
        for engine in ("compiled", "interpreter")
    ]
    compiled_bits, interpreted = ({n: np.asarray(a).tobytes() for n, a in r.items()} for r in results)
    assert compiled_bits == interpreted
    apart = found.differences(given, {n: np.asarray(a) for n, a in results[0].items()})
    assert max(apart.values()) <= found.bound
    assert all(pto.verify(program, profile=p) == [] for p in ("cpu_sim", "a2a3"))


def test_context_records_are_recognised_where_the_text_leaves_no_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "first.pto"
    file.write_text(str(first()))
    assert main(["run", str(file), "--ranks", "2"]) == 0
    assert "context: first: ctx is that of y, as the text uses it" in capsys.readouterr().out
    program, given = pto.parse(str(first())), values(first(), 2)
    found = pto.compile(program, ranks=2)(**given)["y"]
    assert (np.asarray(found)[:, :64] == given["x"][::-1, :64]).all()
    two_windows = pto.compile(pto.parse(str(ring())), ranks=2)
    assert "ctx" in [a.name for a in two_windows.arguments]


def test_a_picture_shows_what_ends_each_wait(tmp_path: Path) -> None:
    k = ring()
    picture = pto.pictures.ranks(compiled(k, 3), values(k, 3))
    assert picture.label == "3 ranks, 9 steps: 3 copies, 3 signals, 3 waits"
    assert picture.svg.count("ends the wait") == 3 and "tnotify: s[0] of rank 1 += 1" in picture.svg
    picture.save(tmp_path / "ranks.svg")
    wrong: Any
    for wrong in ((None, {}), (compiled(k, 3), [1])):
        with pytest.raises(pto.ArgumentError, match="allowed: a kernel on ranks, and its arguments by name"):
            pto.pictures.ranks(*wrong)


@pytest.mark.parametrize("compared", ["ge", "lt", "eq", "ne"])
def test_the_check_of_one_processor_goes_on_behind_a_wait_for_another_one(compared: str) -> None:
    """Whatever the signal is assumed to be, in a text that orders its pipes itself."""
    k = Text({"x": "f32", "s": "i32"})
    flag = "pto.{}_flag[#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_MTE3>, #pto.event<EVENT_ID0>]"
    k.wait("%s", 0, 77, compared)
    k.if_(k.test("%s", 1, 78, compared))
    k.wait("%s", 2, 79, compared)
    k.end()
    tile = k.tile(1, 64)
    k.load(k.view("%x", "f32", (1, 64)), (1, 64), "f32", tile)
    k.add(flag.format("set"), flag.format("wait"))
    k.store(tile, k.view("%x", "f32", (1, 64)), (1, 64), "f32")
    program = pto.parse(str(k))
    assert not [d for d in pto.verify(program) if d.severity == "error"]
    assert not list(pto.races(program))
