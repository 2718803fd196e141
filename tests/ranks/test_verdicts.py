"""Verdicts on executions of several ranks: right protocols are exact, wrong ones name both places."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.runtime.ranks import Sync
from pto_jax.schedules.ranks import RankReport
from tests.ranks import protocols
from tests.ranks.protocols import FENCE, PROTOCOLS, Text, compiled, values

#: Adds lines to a kernel.
Lines: TypeAlias = Callable[[Text], Any]


def report(k: Text, n: int = protocols.N, sync: Sync = "auto", **more: object) -> RankReport:
    kernel = compiled(k, n)
    return kernel.judge({**values(k, n), **more}, sync)


@pytest.mark.instructions("tbroadcast")
@pytest.mark.variants(1)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_right_protocols_have_no_finding_and_one_result(name: str) -> None:
    k = PROTOCOLS[name]()
    kernel, given = compiled(k), values(k)
    if name == "expert exchange":
        given["route"] = np.random.default_rng(1).integers(0, 4, given["route"].shape).astype(np.int32)
    modes: tuple[Sync, ...] = ("auto", "as-written")
    for sync in modes:
        found = kernel.judge(given, sync)
        assert found.exact or sync == "as-written", f"{name}, {sync}:\n{found}"
    expected = kernel(**given)
    for seed in range(8):
        other = compiled(k, schedule=seed)(**given)
        assert all((other[n] == expected[n]).all() for n in expected), seed


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS)
def test_200_orders_of_a_right_protocol_have_one_result(name: str) -> None:
    k = PROTOCOLS[name]()
    given = values(k)
    expected = compiled(k)(**given)
    program = pto.parse(str(k))
    for seed in range(200):
        shared = tuple(n for n in k.pointers if n not in ("x", "ctx"))
        options: dict[str, Any] = {"shared": shared, "context": {"ctx": "y"}, "schedule": seed}
        other = pto.compile(program, ranks=4, engine="interpreter", warn=False, **options)(**given)
        assert all((other[n] == expected[n]).all() for n in expected), seed


def kinds(k: Text, n: int = protocols.N, sync: Sync = "auto", **more: object) -> set[tuple[str, str, str]]:
    """The findings by kind and the names of their two operations."""
    return {(f.kind, f.first.name, f.second.name) for f in report(k, n, sync, **more).findings}


def pair(send: Lines, receive: Lines, *more: str) -> Text:
    """Rank 0 does one thing, rank 1 another."""
    k = protocols.text("z", *more)
    own = k.index("%rank")
    for rank, does in ((0, send), (1, receive)):
        with protocols.where(k, k.equal(own, rank)):
            does(k)
    return k


def sends(fence: str = FENCE, notify: bool = True) -> Lines:
    def lines(k: Text) -> None:
        protocols.put(k, k.peer("%y", k.number(1)), "%x")
        k.add(*fence.splitlines())
        if notify:
            k.notify(k.peer("%s", k.number(1)), 0)

    return lines


def receives(k: Text) -> None:
    k.wait("%s", 0)
    protocols.read(k, "%y")


def test_31_a_put_of_what_a_store_has_not_written_yet_is_a_race_as_written() -> None:
    k = protocols.text()
    t = k.tile(1, 64)
    k.load(k.view("%x", "f32", (1, 64)), (1, 64), "f32", t)
    k.store(t, k.view("%y", "f32", (1, 64)), (1, 64), "f32")
    protocols.put(k, k.peer("%y", k.number(1)), "%y", 128)
    assert ("race", "tstore", "tput") in kinds(k, 2, "as-written") and not kinds(k, 2) & {
        ("race", "tstore", "tput")
    }


def test_32_hidden_steps_of_a_put_race_with_uses_of_its_staging_tile() -> None:
    k = protocols.text()
    t = k.tile(1, 64)
    k.put(k.view("%y", "f32", (1, 64)), k.view("%x", "f32", (1, 64)), (1, 64), "f32", t, (1, 64))
    k.binary("tadd", t, t, t, (1, 64), "f32")
    assert ("race", "tput", "tadd") in kinds(k, 2, "as-written")
    assert not kinds(k, 2)


def test_33_a_signal_without_a_fence_lets_the_peer_read_old_data() -> None:
    found = kinds(pair(sends(""), receives), 2)
    assert {("race", "tput", "tnotify"), ("race", "tput", "tload")} <= found
    assert not kinds(pair(sends(), receives), 2)


def freed(drain: str = "") -> Text:
    """Rank 0 overwrites what rank 1 has read, once that one says so."""

    def send(k: Text) -> None:
        k.wait("%s", 0)
        protocols.put(k, k.peer("%y", k.number(1)), "%x")

    def receive(k: Text) -> None:
        t = k.tile(1, 64)
        k.load(k.view("%y", "f32", (1, 64)), (1, 64), "f32", t)
        k.add(*drain.splitlines())
        k.notify(k.peer("%s", k.number(0)), 0)
        k.store(t, k.view("%z", "f32", (1, 64)), (1, 64), "f32")

    return pair(send, receive)


def test_34_a_signal_that_frees_what_is_still_read_is_a_race_with_a_witness() -> None:
    assert {("race", "tload", "tnotify"), ("race", "tload", "tput")} <= kinds(freed(), 2)
    shown = compiled(freed(), 2).judge(values(freed(), 2), schedules=24).witness
    assert "elements of z differ" in shown, shown
    for drain in (FENCE, "pto.barrier <PIPE_ALL>"):
        found = compiled(freed(drain), 2).judge(values(freed(drain), 2), schedules=24)
        assert found.exact and found.witness.startswith("none of 24 legal orders"), found


def test_the_end_of_a_kernel_and_uses_of_a_tile_end_what_is_on_its_way() -> None:
    """Kernels at a host barrier, and a tile that is read late, give one result in all orders."""
    k = protocols.text("z")
    protocols.put(k, k.peer("%y", k.of("remui", k.of("addi", k.index("%rank"), 1), 2)), "%x")
    second = protocols.text("z")
    t = second.tile(1, 64)
    second.load(second.view("%y", "f32", (1, 64)), (1, 64), "f32", t)
    second.binary("tadd", t, t, t, (1, 64), "f32")
    second.store(t, second.view("%y", "f32", (1, 64), 64), (1, 64), "f32")
    protocols.read(second, "%y", at=64)
    step = pto.launches([compiled(k, 2), pto.host_barrier, compiled(second, 2)], ranks=2)
    found = step.judge(values(k, 2), schedules=8)
    assert found.exact and found.witness.startswith("none of 8 legal orders"), found


def test_35_a_drain_of_other_pipes_leaves_accumulators_on_their_way() -> None:
    def send(k: Text) -> None:
        acc = (
            "!pto.tile_buf<loc=acc, dtype=f32, rows=16, cols=16, v_row=16, v_col=16, blayout=col_major, "
            "slayout=row_major, fractal=1024, pad=0>"
        )
        t = k.new()
        k.add(f"{t} = pto.alloc_tile : {acc}")
        v = k.view(k.peer("%y", k.number(1)), "f32", (16, 16))
        k.add(f"pto.tstore ins({t} : {acc}) outs({v} : {k.type((16, 16), 'f32')})")
        k.add("pto.barrier <PIPE_MTE2>", "pto.barrier <PIPE_MTE3>")
        k.notify(k.peer("%s", k.number(1)), 0)

    found = kinds(pair(send, receives), 2)
    assert {("race", "tstore", "tnotify"), ("race", "tstore", "tload")} <= found


def test_36_a_barrier_orders_a_put_and_does_not_publish_it() -> None:
    assert kinds(pair(sends("pto.barrier <PIPE_ALL>"), receives), 2) == {("visibility", "tput", "tnotify")}


def test_37_a_scalar_store_stays_in_the_cache_without_a_write_back() -> None:
    def send(k: Text) -> None:
        one = k.new()
        k.add(f"{one} = arith.constant 1.0 : f32")
        there = k.peer("%y", k.number(1))
        k.add(f"pto.store_scalar {one}, {there}[{k.number(0)}] : !pto.ptr<f32>, f32")
        k.fence()
        k.notify(k.peer("%s", k.number(1)), 0)

    assert ("visibility", "store_scalar", "tnotify") in kinds(pair(send, receives), 2)


def test_38_two_cores_in_one_line_of_which_one_goes_through_the_cache() -> None:
    def first(k: Text) -> None:
        one, there = k.new(), k.peer("%y", k.number(1))
        k.add(f"{one} = arith.constant 1.0 : f32")
        k.add(f"pto.store_scalar {one}, {there}[{k.number(0)}] : !pto.ptr<f32>, f32")

    def second(k: Text) -> None:
        t = k.tile(1, 8)
        k.load(k.view("%x", "f32", (1, 8)), (1, 8), "f32", t)
        k.store(t, k.view("%y", "f32", (1, 8), 8), (1, 8), "f32")

    assert ("visibility", "store_scalar", "tstore") in kinds(pair(first, second), 2)


def asynchronous(wait_first: bool) -> Text:
    k = pair(lambda k: None, receives)
    k.pointers = {**k.pointers, "ws": "i8"}
    own = k.index("%rank")
    with protocols.where(k, k.equal(own, 0)):
        flat, t, s, e, done = "!pto.partition_tensor_view<64xf32>", k.new(), k.new(), k.new(), k.new()
        k.add(f"{t} = pto.alloc_tile : !pto.tile_buf<vec, 1x256xi8>")
        k.add(
            f"{s} = pto.comm.build_async_session({t}, %ws : !pto.tile_buf<vec, 1x256xi8>, !pto.ptr<i8>) "
            "{sync_id = 0 : i32} -> !pto.async_session"
        )
        dst, src = k.view(k.peer("%y", k.number(1)), "f32", (64,)), k.view("%x", "f32", (64,))
        k.add(
            f"{e} = pto.comm.tput_async({dst}, {src}, {s} : {flat}, {flat}, !pto.async_session) "
            "-> !pto.async_event"
        )
        wait = f"{done} = pto.comm.wait_async_event({e}, {s} : !pto.async_event, !pto.async_session) -> i1"
        k.add(*([wait] if wait_first else []))
        k.fence()
        k.notify(k.peer("%s", k.number(1)), 0)
        k.add(*([] if wait_first else [wait]))
    return k


def test_39_a_signal_before_the_wait_for_an_asynchronous_copy_is_a_race() -> None:
    ws = np.zeros((2, 1024), np.int8)
    assert ("race", "tput_async", "tload") in kinds(asynchronous(False), 2, ws=ws)
    assert not kinds(asynchronous(True), 2, ws=ws)


def test_40_a_cycle_of_waits_is_a_deadlock_with_every_rank() -> None:
    k = protocols.text()
    own = k.index("%rank")
    k.wait("%s", 0)
    k.notify(k.peer("%s", k.of("remui", k.of("addi", own, 1), 4)), 0)
    with pytest.raises(pto.PtoError) as error:
        compiled(k)(**values(k))
    lines = str(error.value).splitlines()
    assert lines[0] == "deadlock: 4 of 4 ranks wait for ever" and len(lines) == 5
    assert all("k.pto:" in line and f"rank {i} (block 0)" in line for i, line in enumerate(lines[1:]))


def test_41_equality_on_a_counter_may_miss_its_value() -> None:
    k = protocols.text()
    own = k.index("%rank")
    for rank in range(3):
        with protocols.where(k, k.equal(own, rank)):
            if rank == 1:
                k.wait("%s", 0, 1, "eq")
            else:
                k.notify(k.peer("%s", k.number(1)), 0)
    assert ("deadlock", "tnotify", "twait") in kinds(k, 3)
    with pytest.raises(pto.PtoError, match=r"deadlock: 1 of 3 ranks waits for ever(.|\n)*eq 1, which is 2"):
        for seed in range(20):
            compiled(k, 3, schedule=seed)(**values(k, 3))
    k.lines = [line.replace("wait_cmp eq", "wait_cmp ge") for line in k.lines]
    assert not kinds(k, 3)


def test_42_a_set_and_an_increment_of_one_cell_without_an_order() -> None:
    k = protocols.text()
    own = k.index("%rank")
    for rank, how in ((0, "set"), (1, "atomic_add")):
        with protocols.where(k, k.equal(own, rank)):
            k.notify(k.peer("%s", k.number(2)), 0, 1, how)
    assert ("schedule", "tnotify", "tnotify") in kinds(k, 3)


def test_43_a_mesh_reduction_into_what_others_still_read_is_a_race() -> None:
    k = protocols.text("z")
    own = k.index("%rank")
    protocols.put(k, "%y", "%x")
    protocols.barrier(k, own, 0, protocols.N)
    total, other = k.tile(1, 64), k.tile(1, 64)
    k.load(k.view(k.peer("%y", k.number(0)), "f32", (1, 64)), (1, 64), "f32", total)
    for p in range(1, protocols.N):
        k.load(k.view(k.peer("%y", k.number(p)), "f32", (1, 64)), (1, 64), "f32", other)
        k.binary("tadd", total, other, total, (1, 64), "f32")
    k.store(total, k.view("%y", "f32", (1, 64)), (1, 64), "f32")
    assert ("race", "tload", "tstore") in kinds(k) or ("race", "tstore", "tload") in kinds(k)


def test_44_a_counter_that_is_used_again_with_the_same_number_does_not_wait() -> None:
    right, wrong = protocols.barrier_twice(), protocols.barrier_twice()
    wrong.lines = [line.replace("%c8_i32", "%c4_i32") for line in wrong.lines]
    assert not kinds(right)
    assert ("race", "tput", "tload") in kinds(wrong)


def test_45_a_signal_of_the_other_core_does_not_announce_a_put() -> None:
    k = protocols.text("z")
    own = k.index("%rank")
    for section in ("vector", "cube"):
        k.add(f"pto.section.{section} {{")
        with protocols.where(k, k.equal(own, 0)):
            if section == "vector":
                protocols.put(k, k.peer("%y", k.number(1)), "%x")
                k.fence()
            else:
                k.notify(k.peer("%s", k.number(1)), 0)
        k.add("}")
    k.add("pto.section.vector {")
    with protocols.where(k, k.equal(own, 1)):
        receives(k)
    k.add("}")
    assert ("race", "tput", "tload") in kinds(k, 2)


def test_46_float_additions_of_several_ranks_round_in_their_order() -> None:
    def additions(t: str) -> set[tuple[str, str, str]]:
        k = protocols.text("z")
        k.pointers = {n: t if n in "xyz" else d for n, d in k.pointers.items()}
        own = k.index("%rank")
        shape = (1, 64)
        add = "{atomicType = #pto<atomic_type atomic_add>}"
        dst = k.view(k.peer("%y", k.number(0)), t, shape)
        k.put(dst, k.view("%x", t, shape), shape, t, k.tile(*shape, t), shape, add)
        assert own
        return kinds(k)

    assert additions("f32") == {("schedule", "tput", "tput")} and not additions("i32")


def test_46_an_answer_about_a_signal_depends_on_the_order() -> None:
    k = pair(sends(notify=True), lambda k: k.test("%s", 0))
    assert ("schedule", "tnotify", "ttest") in kinds(k, 2)


@pytest.mark.parametrize("trips", [(2, 2, 2), (2, 1, 2)], ids=["alike", "uneven"])
def test_51_a_barrier_in_a_loop_of_other_trips_on_one_rank_is_a_deadlock(trips: tuple[int, ...]) -> None:
    k = protocols.text(scalars=("trips",))
    trip, count = k.new(), k.index("%trips")
    k.add(f"scf.for {trip} = {k.number(0)} to {count} step {k.number(1)} {{")
    expected = k.new()
    k.add(f"{expected} = arith.index_cast {k.of('muli', k.of('addi', trip, 1), 3)} : index to i32")
    for p in range(3):
        k.notify(k.peer("%s", k.number(p)), 0)
    k.wait("%s", 0, expected)
    k.end()
    if len(set(trips)) == 1:
        assert not kinds(k, 3, trips=list(trips))
        return
    with pytest.raises(pto.PtoError, match=r"deadlock: 2 of 3 ranks wait for ever(.|\n)*ge 6, which is 5"):
        compiled(k, 3)(**{**values(k, 3), "trips": list(trips)})
