"""Further protocols on 2, 4 and 8 ranks with their results in NumPy, each beside wrong ones of its kind."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from pto_jax.errors import DeadlockError
from tests.ranks.protocols import ROW, Text, barrier, compiled, put, read, text, values, where

#: What a program does wrong, "" for nothing.
Flaw = str


def pass_on(k: Text, flaw: Flaw, name: str = "fence") -> None:
    """The fence before a signal, unless it is lost."""
    if flaw != name:
        k.fence()


def added(k: Text, src: str, at: int | str, of: str = "%z") -> None:
    """Add a row of a window to a row of the result."""
    one, two = k.tile(*ROW), k.tile(*ROW)
    k.load(k.view(of, "f32", ROW), ROW, "f32", one)
    k.load(k.view(src, "f32", ROW, at), ROW, "f32", two)
    k.sum(one, two, ROW, "f32")
    k.store(one, k.view(of, "f32", ROW), ROW, "f32")


def doubling(n: int, flaw: Flaw = "") -> Text:
    """All-reduce in log2(n) steps: everyone exchanges its sum with the rank that differs in one bit."""
    k = text("z")
    own = k.index("%rank")
    put(k, "%z", "%x")
    step, distance = 0, 1
    while distance < n:
        peer = k.of("xori", own, distance)
        slot = 0 if flaw == "one slot" else 64 * step
        put(k, k.peer("%y", peer), "%z", slot)
        pass_on(k, flaw)
        cell = 0 if flaw == "one cell" else step
        k.notify(k.peer("%s", peer), cell)
        k.wait("%s", cell, 1)
        added(k, "%y", slot)
        step, distance = step + 1, 2 * distance
    return k


def tree(n: int, flaw: Flaw = "") -> Text:
    """Sum to rank 0 along a tree, and the sum back along it."""
    k = text("z")
    own = k.index("%rank")
    put(k, "%z", "%x")
    levels = n.bit_length() - 1
    for level in range(levels):
        distance = 1 << level
        for receiver in range(0, n, 2 * distance):
            with where(k, k.equal(own, receiver + distance)):
                put(k, k.peer("%y", k.number(receiver)), "%z", 64 * level)
                pass_on(k, flaw)
                k.notify(k.peer("%s", k.number(receiver)), level)
            with where(k, k.equal(own, receiver)):
                if flaw != "wait":
                    k.wait("%s", level)
                added(k, "%y", 64 * level)
    for level in reversed(range(levels)):
        distance = 1 << level
        for sender in range(0, n, 2 * distance):
            with where(k, k.equal(own, sender)):
                put(k, k.peer("%z", k.number(sender + distance)), "%z")
                k.fence()
                if flaw != "signal" or sender:
                    k.notify(k.peer("%s", k.number(sender + distance)), 8)
            with where(k, k.equal(own, sender + distance)):
                k.wait("%s", 8)
    return k


def ring_sum(n: int, flaw: Flaw = "") -> Text:
    """Everyone's row goes around the ring, and is added on its way."""
    k = text("z")
    own = k.index("%rank")
    peer = k.of("remui", k.of("addi", own, 1), n)
    put(k, "%z", "%x")
    for turn in range(n - 1):
        src, of = ("%x", 0) if turn == 0 else ("%y", 64 * (turn - 1))
        put(k, k.peer("%y", peer), src, 64 * turn, of)
        pass_on(k, flaw)
        k.notify(k.peer("%s", peer), 0)
        k.wait("%s", 0, 1 if flaw == "count" else turn + 1)
        added(k, "%y", 64 * turn)
    return k


def chain(n: int, flaw: Flaw = "") -> Text:
    """Four pieces from rank 0 to the last one, each passed on as soon as it is there."""
    k = text("z")
    own = k.index("%rank")
    for piece in range(4):
        for rank in range(n):
            with where(k, k.equal(own, rank)):
                if rank:
                    k.wait("%s", 0, piece + 1 - (flaw == "early"))
                src = "%y" if rank else "%x"
                if rank < n - 1:
                    put(k, k.peer("%y", k.number(rank + 1)), src, 64 * piece, 64 * piece)
                    pass_on(k, flaw)
                    k.notify(k.peer("%s", k.number(rank + 1)), 0)
                else:
                    read(k, src, at=64 * piece, to=64 * piece)
    return k


def mailboxes(n: int, flaw: Flaw = "") -> Text:
    """Questions of all ranks to rank 0 in one place each, and its answers; who reads a place clears it."""
    k = text("z")
    own = k.index("%rank")
    for turn in range(3):
        for rank in range(1, n):
            with where(k, k.equal(own, rank)):
                put(k, k.peer("%y", k.number(0)), "%x", 64 * rank, 64 * turn)
                pass_on(k, flaw)
                k.notify(k.peer("%s", k.number(0)), rank, 1, "set")
                k.wait("%s", 0, 1, "eq")
                if flaw != "clear":
                    k.notify("%s", 0, 0, "set")
                read(k, "%y", to=64 * turn)
            with where(k, k.equal(own, 0)):
                k.wait("%s", rank, 1, "eq")
                k.notify("%s", rank, 0, "set")
                put(k, k.peer("%y", k.number(rank)), "%y", 0, 64 * rank)
                k.fence()
                k.notify(k.peer("%s", k.number(rank)), 0, 1, "set")
    return k


def counted(n: int, flaw: Flaw = "") -> Text:
    """Rows by a table of counts: loops with run-time trips, and a signal for every row."""
    k = text("z", scalars=())
    k.pointers = {"route": "i32", **k.pointers}
    own = k.index("%rank")
    for to in range(n):
        count, trip = k.new(), k.new()
        k.add(f"{count}_32 = pto.load_scalar %route[{k.number(to)}] : !pto.ptr<i32> -> i32")
        k.add(f"{count} = arith.index_cast {count}_32 : i32 to index")
        k.add(f"scf.for {trip} = {k.number(0)} to {count} step {k.number(1)} {{")
        at = k.of("muli", k.of("addi", k.of("muli", own, 4), trip), 64)
        of = k.of("muli", k.of("addi", trip, 4 * to), 64)
        put(k, k.peer("%y", k.number(to)), "%x", at, of)
        pass_on(k, flaw)
        k.notify(k.peer("%s", k.number(to)), 0)
        k.end()
    expected = k.new()
    k.add(f"{expected} = pto.load_scalar %route[{k.number(n)}] : !pto.ptr<i32> -> i32")
    k.wait("%s", 0, expected)
    for place in range(4 * n):
        read(k, "%y", at=64 * place, to=64 * place)
    return k


def rounds(n: int, flaw: Flaw = "") -> Text:
    """Everyone writes to everyone in three rounds, in two halves of the window in turn."""
    k = text("z")
    own = k.index("%rank")
    for turn in range(3):
        half = 64 * n * (turn % 2)
        for p in range(n):
            at = k.of("addi", k.of("muli", own, 64), half)
            put(k, k.peer("%y", k.number(p)), "%x", at, 64 * turn)
        barrier(k, own, 0, n * (turn + 1 if flaw != "epoch" else 1), n)
        for p in range(n):
            read(k, "%y", at=half + 64 * p, to=64 * (n * turn + p))
    return k


class Protocol(NamedTuple):
    """A program for a number of ranks, its result by ranks from the rows of x, and its flaws with kinds."""

    made: Callable[..., Text]
    ranks: int
    result: Callable[[Any], Any]
    flaws: dict[str, str]


def _total(x: Any) -> Any:
    return np.broadcast_to(x[:, 0].sum(0), (len(x), 64))


def _answers(x: Any) -> Any:
    return np.stack([np.zeros((3, 64)), *x[1:, :3]])


#: By name; x has rows of 64.
PROTOCOLS = {
    "doubling on 2": Protocol(doubling, 2, _total, {"fence": "race"}),
    "doubling on 8": Protocol(
        doubling, 8, _total, {"fence": "race", "one slot": "race", "one cell": "race"}
    ),
    "tree on 8": Protocol(tree, 8, _total, {"fence": "race", "wait": "race", "signal": "deadlock"}),
    "tree on 2": Protocol(tree, 2, _total, {"fence": "race"}),
    "ring sum on 4": Protocol(ring_sum, 4, _total, {"fence": "race", "count": "race"}),
    "ring sum on 3": Protocol(ring_sum, 3, _total, {"count": "race"}),
    "chain on 4": Protocol(
        chain, 4, lambda x: np.stack([*np.zeros((3, 4, 64)), x[0, :4]]), {"fence": "race", "early": "race"}
    ),
    "mailboxes on 3": Protocol(mailboxes, 3, _answers, {"fence": "race", "clear": "deadlock"}),
    "rounds on 4": Protocol(
        rounds,
        4,
        lambda x: np.broadcast_to(np.concatenate([x[:, turn] for turn in range(3)]), (4, 12, 64)),
        {"epoch": "race"},
    ),
}  # fmt: skip


def rows(array: Any, n: int) -> Any:
    return np.asarray(array, np.float32).reshape(n, -1, 64)


QUICK = ("doubling on 2", "mailboxes on 3")


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in PROTOCOLS]
)
def test_a_right_protocol_has_the_result_of_its_replay(name: str) -> None:
    made, n, result, _ = PROTOCOLS[name]
    k = made(n)
    given = values(k, n, 2048)
    kernel = compiled(k, n)
    report = kernel.judge(given)
    assert report.exact, str(report)
    expected = rows(result(rows(given["x"], n)), n)
    for other in (kernel, *(compiled(k, n, schedule=seed) for seed in (1, 2, 3))):
        found = rows(other(**given)["z"], n)
        assert (found[:, : expected.shape[1]] == expected).all()
    leading = compiled(k, n, "compiled")(**given)
    assert (rows(leading["z"], n)[:, : expected.shape[1]] == expected).all()


FLAWS = [(name, flaw) for name, protocol in PROTOCOLS.items() for flaw in protocol.flaws]


@pytest.mark.variants(1)
@pytest.mark.parametrize(("name", "flaw"), FLAWS)
def test_a_flaw_of_a_protocol_is_found(name: str, flaw: str) -> None:
    made, n, _, flaws = PROTOCOLS[name]
    k = made(n, flaw)
    if flaws[flaw] == "deadlock":
        with pytest.raises(DeadlockError, match=r"waits? for ever"):
            compiled(k, n)(**values(k, n, 2048))
        return
    report = compiled(k, n).judge(values(k, n, 2048))
    report = compiled(k, n).judge(values(k, n, 2048))
    assert flaws[flaw] in {f.kind for f in report.findings}, str(report)


@pytest.mark.variants(1)
@pytest.mark.parametrize("flaw", ["", "fence"])
def test_rows_by_a_table_of_counts(flaw: str) -> None:
    n = 4
    k = counted(n, flaw)
    given = values(k, n, 2048)
    table = np.random.default_rng(2).integers(0, 5, (n, n))
    given["route"] = np.zeros((n, 2048), np.int32)
    given["route"][:, :n] = table
    given["route"][:, n] = table.sum(0)
    kernel = compiled(k, n)
    report = kernel.judge(given)
    assert report.exact == (not flaw), str(report)
    x, expected = rows(given["x"], n), np.zeros((n, 4 * n, 64), np.float32)
    for source in range(n):
        for to in range(n):
            for row in range(table[source, to]):
                expected[to, 4 * source + row] = x[source, 4 * to + row]
    if not flaw:
        assert (rows(kernel(**given)["z"], n)[:, : 4 * n] == expected).all()
