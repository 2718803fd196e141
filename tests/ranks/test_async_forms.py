"""Asynchronous copies in their forms: sessions beside each other, events in loops, branches and functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ranks.protocols import Text, compiled, put, read, text, values

FLAT = "!pto.partition_tensor_view<64xf32>"
SCRATCH = "!pto.tile_buf<vec, 1x256xi8>"
EVENT, SESSION = "!pto.async_event", "!pto.async_session"


def session(k: Text, number: int = 0) -> str:
    """A new session."""
    t, s = k.new(), k.new()
    k.add(
        f"{t} = pto.alloc_tile : {SCRATCH}",
        f"{s} = pto.comm.build_async_session({t}, %ws : {SCRATCH}, !pto.ptr<i8>) "
        f"{{sync_id = {number} : i32}} -> {SESSION}",
    )
    return s


def copy(k: Text, s: str, dst: str, src: str, at: int | str = 0, of: int | str = 0, how: str = "tput") -> str:
    """Begin to copy a row; its event."""
    e, to, row = k.new(), k.view(dst, "f32", (64,), at), k.view(src, "f32", (64,), of)
    k.add(f"{e} = pto.comm.{how}_async({to}, {row}, {s} : {FLAT}, {FLAT}, {SESSION}) -> {EVENT}")
    return e


def end(k: Text, e: str, s: str, how: str = "wait") -> str:
    """Wait for a copy, or ask whether it is over."""
    done = k.new()
    k.add(f"{done} = pto.comm.{how}_async_event({e}, {s} : {EVENT}, {SESSION}) -> i1")
    return done


def kernel_text() -> Text:
    k = text("z")
    k.pointers = {**k.pointers, "ws": "i8"}
    return k


def announced(k: Text, rows: int = 2) -> None:
    """Publish, tell the next rank, wait for the last one, and read what came."""
    k.fence()
    peer = k.of("remui", k.of("addi", k.index("%rank"), 1), 3)
    k.notify(k.peer("%s", peer), 0)
    k.wait("%s", 0)
    for row in range(rows):
        read(k, "%y", at=64 * row, to=64 * row)


def far(k: Text) -> str:
    return k.peer("%y", k.of("remui", k.of("addi", k.index("%rank"), 1), 3))


def two_sessions(flaw: bool) -> Text:
    """Each session waits for its own copies only."""
    k = kernel_text()
    one, two = session(k), session(k, 1)
    first, second = copy(k, one, far(k), "%x"), copy(k, two, far(k), "%x", 64, 64)
    end(k, first, one)
    if not flaw:
        end(k, second, two)
    announced(k)
    return k


def of_one_session(flaw: bool) -> Text:
    """A wait for a copy is one for all earlier ones of the session, and for no later one."""
    k = kernel_text()
    s = session(k)
    events = [copy(k, s, far(k), "%x", 64 * n, 64 * n) for n in range(3)]
    end(k, events[1 if flaw else 2], s)
    announced(k, 3)
    return k


def source_written(flaw: bool) -> Text:
    """The source of a copy that is under way stays as it is."""
    k = kernel_text()
    k.fence()
    put(k, "%z", "%x", 256)
    k.fence()
    s = session(k)
    e = copy(k, s, far(k), "%z", 0, 256)
    if not flaw:
        end(k, e, s)
    put(k, "%z", "%x", 256, 64)
    if flaw:
        end(k, e, s)
    announced(k, 1)
    return k


def got_too_early(flaw: bool) -> Text:
    """What a get brings is there behind its wait."""
    k = kernel_text()
    put(k, "%y", "%x")
    k.fence()
    peer = k.of("remui", k.of("addi", k.index("%rank"), 1), 3)
    for p in range(3):
        k.notify(k.peer("%s", k.number(p)), 0)
    k.wait("%s", 0, 3)
    s = session(k)
    e = copy(k, s, "%z", k.peer("%y", peer), 128, how="tget")
    if not flaw:
        end(k, e, s)
    read(k, "%z", at=128)
    if flaw:
        end(k, e, s)
    return k


def carried(flaw: bool) -> Text:
    """A loop that waits for the copy of its last trip: the event goes from trip to trip."""
    k = kernel_text()
    s = session(k)
    peer = far(k)
    first, last, trip, before = copy(k, s, peer, "%x"), k.new(), k.new(), k.new()
    k.add(
        f"{last} = scf.for {trip} = {k.number(1)} to {k.number(4)} step {k.number(1)} "
        f"iter_args({before} = {first}) -> ({EVENT}) {{"
    )
    at = k.of("muli", trip, 64)
    e = copy(k, s, peer, "%x", at, at)
    end(k, before, s)
    k.add(f"scf.yield {e} : {EVENT}", "}")
    if not flaw:
        end(k, last, s)
    announced(k, 4)
    return k


def chosen(flaw: bool) -> Text:
    """The event of the branch that is taken."""
    k = kernel_text()
    s = session(k)
    is_first, peer, e = k.equal(k.index("%rank"), 0), far(k), k.new()
    k.add(f"{e} = scf.if {is_first} -> ({EVENT}) {{")
    one = copy(k, s, peer, "%x")
    k.add(f"scf.yield {one} : {EVENT}", "} else {")
    two = copy(k, s, peer, "%x", 0, 64)
    k.add(f"scf.yield {two} : {EVENT}", "}")
    if not flaw:
        end(k, e, s)
    announced(k, 1)
    return k


def asked(flaw: bool) -> Text:
    """A loop that asks until the copy is over; or one that asks once and goes on."""
    k = kernel_text()
    s = session(k)
    e = copy(k, s, far(k), "%x")
    if flaw:
        done = end(k, e, s, "test")
        k.if_(done)
        k.notify("%s", 5)
        k.end()
        announced(k, 1)
        return k
    k.add("scf.while : () -> () {")
    done, no, more = end(k, e, s, "test"), k.new(), k.new()
    k.add(f"{no} = arith.constant true", f"{more} = arith.xori {done}, {no} : i1")
    k.add(f"scf.condition({more})", "} do {", "scf.yield", "}")
    announced(k, 1)
    return k


def mixed(flaw: bool) -> Text:
    """Copies by the core beside one that goes on by itself into the same window."""
    k = kernel_text()
    s = session(k)
    e = copy(k, s, far(k), "%x")
    put(k, far(k), "%x", 0 if flaw else 64, 64)
    end(k, e, s)
    announced(k)
    return k


FORMS: dict[str, tuple[Callable[[bool], Text], Callable[[Any], Any]]] = {
    "two sessions": (two_sessions, lambda x: x[:, :128]),
    "one session": (of_one_session, lambda x: x[:, :192]),
    "source written": (source_written, lambda x: x[:, :64]),
    "got too early": (got_too_early, lambda x: np.roll(x[:, :64], -2, 0)),
    "carried by a loop": (carried, lambda x: x[:, :256]),
    "chosen by a branch": (chosen, lambda x: np.stack([x[0, :64], *x[1:, 64:128]])),
    "asked": (asked, lambda x: x[:, :64]),
    "mixed": (mixed, lambda x: x[:, :128]),
}


def given_to(k: Text) -> dict[str, Any]:
    return {**values(k, 3), "ws": np.zeros((3, 1024), np.int8)}


@pytest.mark.slow
@pytest.mark.instructions("tput_async", "tget_async", "wait_async_event", "test_async_event")
@pytest.mark.parametrize("name", FORMS)
def test_a_right_form_is_exact_in_all_orders_and_when_compiled(name: str) -> None:
    build, result = FORMS[name]
    k = build(False)
    given = given_to(k)
    report = compiled(k, 3).judge(given, schedules=4)
    # Whether a question is asked again depends on the order, as with signals.
    assert {f.kind for f in report.findings} == ({"schedule"} if name == "asked" else set()), str(report)
    assert "none of 4" in report.witness
    expected = np.roll(result(given["x"]), 1, 0)
    for moves in ("issue", "wait"):
        found = compiled(k, 3, moves=moves)(**given)["z"]
        assert (found[:, : expected.shape[1]] == expected).all()
    leading = np.asarray(compiled(k, 3, "compiled")(**given)["z"])
    assert (leading[:, : expected.shape[1]] == expected).all()


@pytest.mark.variants(4)
@pytest.mark.parametrize("name", FORMS)
def test_a_wrong_form_has_a_finding_of_the_copy(name: str) -> None:
    k = FORMS[name][0](True)
    report = compiled(k, 3).judge(given_to(k))
    assert any("async" in f.first.name + f.second.name for f in report.findings), str(report)


def test_an_answer_that_nobody_looks_at_completes_nothing() -> None:
    k = kernel_text()
    s = session(k)
    e = copy(k, s, far(k), "%x")
    end(k, e, s, "test")
    announced(k, 1)
    report = compiled(k, 3).judge(given_to(k))
    assert {(f.kind, f.first.name) for f in report.findings} >= {("race", "tput_async")}, str(report)
    assert "rank 0 (block 0), copy 1" in str(report)
