"""Unusual protocols on 2 to 8 ranks: three ways of execution, no finding, and the two lines of every flaw."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from pto_jax.errors import DeadlockError
from pto_jax.runtime.ranks import RankKernel
from tests.ranks.protocols import ROW, Text, compiled, put, text, values, where
from tests.ranks.test_more_protocols import added, rows

#: What a program does wrong, "" for nothing.
Flaw = str
SIZE = 4096


def mark(k: Text, name: str) -> None:
    """Write a name behind the last line that moves data or changes a signal."""
    moving = ("comm.", "tload", "tstore")
    at = next(i for i in range(len(k.lines) - 1, -1, -1) if any(m in k.lines[i] for m in moving))
    k.lines[at] += f" // {name}"


def fence(k: Text, flaw: Flaw, name: str = "fence") -> None:
    if flaw != name:
        k.fence()


def send(k: Text, to: str, flaw: Flaw, of: str = "%x", *places: int | str, name: str = "put") -> None:
    """Put a row into ``y`` of a rank, under a name, and tell it so."""
    put(k, k.peer("%y", to), of, *places)
    mark(k, name)
    fence(k, flaw)
    k.notify(k.peer("%s", to), 0)
    mark(k, "tell")


def read_as(k: Text, name: str, pointer: str, at: int | str = 0, to: int | str = 0) -> None:
    """Load a row, under a name, and store it where results are."""
    tile = k.tile(*ROW)
    k.load(k.view(pointer, "f32", ROW, at), ROW, "f32", tile)
    mark(k, name)
    k.store(tile, k.view("%z", "f32", ROW, to), ROW, "f32")
    mark(k, "keep")


def everyone(k: Text, n: int, cell: int, value: int, flaw: Flaw = "") -> None:
    """A barrier by a counter on every rank."""
    fence(k, flaw)
    for p in range(n):
        k.notify(k.peer("%s", k.number(p)), cell)
    k.wait("%s", cell, value)


def pressure(n: int, flaw: Flaw = "") -> Text:
    """A ring of two slots: who has read a slot gives its sender a credit for it."""
    k = text("z")
    own = k.index("%rank")
    peer = k.of("remui", k.of("addi", own, 1), n)
    back = k.of("remui", k.of("addi", own, n - 1), n)
    for turn in range(5):
        slot = 0 if flaw == "one slot" else 64 * (turn % 2)
        if turn > 1 and flaw != "credit":
            k.wait("%s", 1, turn - 1)
        send(k, peer, flaw, "%x", slot, 64 * turn)
        k.wait("%s", 0, turn + 1)
        read_as(k, "read", "%y", slot, 64 * turn)
        fence(k, flaw, "fence of a credit")
        k.notify(k.peer("%s", back), 1)
        mark(k, "free")
    return k


def tree(n: int, flaw: Flaw = "") -> Text:
    """The sum to rank 0 along a binary tree of any number of ranks, and back down."""
    k = text("z")
    own = k.index("%rank")
    put(k, "%z", "%x")
    mark(k, "own")
    for rank in reversed(range(n)):
        children = [c for c in (2 * rank + 1, 2 * rank + 2) if c < n]
        with where(k, k.equal(own, rank)):
            if children:
                k.wait("%s", 0, len(children) - (flaw == "count" and rank == 0))
            for child in children:
                add(k, 0 if flaw == "one place" else 64 * ((child - 1) % 2))
            if rank:
                place = 0 if flaw == "one place" else 64 * ((rank - 1) % 2)
                send(k, k.number((rank - 1) // 2), flaw, "%z", place, name="up")
    for rank in range(n):
        with where(k, k.equal(own, rank)):
            if rank:
                k.wait("%s", 1)
            for child in (c for c in (2 * rank + 1, 2 * rank + 2) if c < n):
                put(k, k.peer("%z", k.number(child)), "%z")
                mark(k, "down")
                k.fence()
                if flaw != "silence":
                    k.notify(k.peer("%s", k.number(child)), 1)
    return k


def add(k: Text, at: int) -> None:
    """Add a row of the window to the result."""
    added(k, "%y", at)
    mark(k, "sum")
    at = next(i for i in range(len(k.lines) - 1, -1, -1) if "tload" in k.lines[i])
    k.lines[at] += " // add"


def thrice(n: int, flaw: Flaw = "") -> Text:
    """One window three times: a counter when it is full, another one when all have read it."""
    k = text("z")
    at = k.of("muli", k.index("%rank"), 64)
    for turn in range(3):
        for p in range(n):
            put(k, k.peer("%y", k.number(p)), "%x", at, 64 * turn)
            mark(k, "put")
        everyone(k, n, 0, n if flaw == "full" else n * (turn + 1))
        for p in range(n):
            read_as(k, "read", "%y", 64 * p, 64 * (n * turn + p))
        if flaw != "no second counter":
            everyone(k, n, 1, n if flaw == "empty" else n * (turn + 1))
    return k


def resetting(n: int, flaw: Flaw = "") -> Text:
    """A counter that its rank takes back to zero, behind which a closing barrier keeps the others."""
    k = text("z")
    at = k.of("muli", k.index("%rank"), 64)
    for turn in range(3):
        for p in range(n):
            put(k, k.peer("%y", k.number(p)), "%x", at, 64 * turn)
            mark(k, "put")
        everyone(k, n, 0, n)
        k.notify("%s", 0, -n)
        mark(k, "reset")
        for p in range(n):
            read_as(k, "read", "%y", 64 * p, 64 * (n * turn + p))
        if flaw != "closing":
            everyone(k, n, 1, n * (turn + 1))
    return k


def communicators(n: int, flaw: Flaw = "") -> Text:
    """Two rings that know nothing of each other, one forward and one backward, each with its own window."""
    k = text("z")
    k.pointers = {
        "x": "f32", "y": "f32", "s": "i32", "z": "f32", "ctx": "i64", "w": "f32", "q": "i32", "ctx2": "i64"
    }  # fmt: skip
    own = k.index("%rank")
    ways = {("%y", "%s", "%ctx"): 1, ("%w", "%q", "%ctx2"): n - 1}
    for (window, signal, record), step in ways.items():
        peer = k.of("remui", k.of("addi", own, step), n)
        put(k, of_record(k, record, window, peer), "%x")
        mark(k, f"put {window[1:]}")
        k.fence()
        far = signal if flaw == "own signal" and window == "%w" else of_record(k, record, signal, peer)
        k.notify(far, 0)
    for (window, signal, _), to in zip(ways, (0, 64), strict=True):
        other = {"%s": "%q", "%q": "%s"}[signal]
        k.wait(other if flaw == "other signal" else signal, 0)
        read_as(k, f"read {window[1:]}", window, to=to)
    return k


def of_record(k: Text, record: str, pointer: str, rank: str) -> str:
    """The part of a pointer that a rank has, by a context record."""
    before = len(k.lines)
    made = k.peer(pointer, rank)
    k.lines[before:] = [line.replace("%ctx,", f"{record},") for line in k.lines[before:]]
    return made


def irregular(n: int, flaw: Flaw = "") -> Text:
    """As many rows to every rank as a number of the sender says, which may be none."""
    k = text("z", scalars=("count", "wanted"))
    own, count = k.index("%rank"), k.index("%count")
    for p in range(n):
        trip = k.new()
        k.add(f"scf.for {trip} = {k.number(0)} to {count} step {k.number(1)} {{")
        at = k.of("muli", k.of("addi", k.of("muli", own, 4), trip), 64)
        send(k, k.number(p), flaw, "%x", at, k.of("muli", k.of("addi", trip, 4 * p), 64))
        k.end()
    expected = k.new()
    early = k.number(-1 if flaw == "early" else 0, "i32")
    k.add(f"{expected} = arith.addi %wanted, {early} : i32")
    k.wait("%s", 0, expected)
    for place in range(4 * n):
        read_as(k, "read", "%y", 64 * place, 64 * place)
    return k


#: Rows and columns of a block of a field, and where a window has its halos: above, below, left, right.
H, W = 4, 8
HALO = {"up": 64, "down": 128, "left": 192, "right": 256}
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}


def halo(n: int, flaw: Flaw = "") -> Text:
    """Edges of blocks on a torus of two rows of ranks, twice: data in, and word back when it was read."""
    k = text("z")
    rank, across = k.index("%rank"), n // 2
    row, col = k.of("divui", rank, across), k.of("remui", rank, across)
    next_col, last_col = (k.of("remui", k.of("addi", col, d), across) for d in (1, across - 1))
    other_row = k.of("remui", k.of("addi", row, 1), 2)
    near = {
        "up": (other_row, col), "down": (other_row, col), "left": (row, last_col), "right": (row, next_col)
    }  # fmt: skip
    peers = {d: k.of("addi", k.of("muli", r, across), c) for d, (r, c) in near.items()}
    edges = {
        "up": ((1, W), 0, (W, 1)), "down": ((1, W), (H - 1) * W, (W, 1)),
        "left": ((H, 1), 0, (W, 1)), "right": ((H, 1), W - 1, (W, 1)),
    }  # fmt: skip
    for turn in range(2):
        for cell, (way, (shape, first, strides)) in enumerate(edges.items()):
            if turn and flaw != "acknowledgement":
                k.wait("%s", 8 + cell, turn)
            src = k.view("%x", "f32", shape, first + H * W * turn, strides)
            # What goes up arrives below.
            far = k.view(k.peer("%y", peers[way]), "f32", shape, HALO[OPPOSITE[way]])
            k.put(far, src, shape, "f32", size=(shape[0], 8)) if shape[1] == W else _column(k, far, src)
            mark(k, f"put {way}")
            fence(k, flaw)
            k.notify(k.peer("%s", peers[way]), list(edges).index(OPPOSITE[way]))
            mark(k, f"tell {way}")
        for cell, way in enumerate(edges):
            if not (flaw == "direction" and way == "left"):
                k.wait("%s", cell, turn + 1)
            read_as(k, f"read {way}", "%y", HALO[way], 64 * (4 * turn + cell))
        k.fence()
        for way in edges:
            k.notify(k.peer("%s", peers[way]), 8 + list(edges).index(OPPOSITE[way]))
    return k


def _column(k: Text, far: str, src: str) -> None:
    """Put a column element by element, through a tile whose rows have one valid element."""
    t, tile = k.type((H, 1), "f32"), k.new()
    b = "!pto.tile_buf<loc=vec, dtype=f32, rows=1, cols=8, v_row=1, v_col=1>"
    k.add(f"{tile} = pto.alloc_tile : {b}", f"pto.comm.tput({far}, {src}, buf({tile}) : {t}, {t}, {b})")


def scan(n: int, flaw: Flaw = "") -> Text:
    """Sums of all ranks up to the own one, handed on from rank to rank."""
    k = text("z")
    own = k.index("%rank")
    put(k, "%z", "%x")
    mark(k, "own")
    for rank in range(n):
        with where(k, k.equal(own, rank)):
            if rank:
                if flaw != "wait":
                    k.wait("%s", 0)
                add(k, 0)
            if rank < n - 1:
                send(k, k.number(rank + 1), flaw, "%z")
    return k


def dissemination(n: int, flaw: Flaw = "") -> Text:
    """A barrier in as many steps as the number of ranks has bits; then everyone gets everyone's row."""
    k = text("z")
    own = k.index("%rank")
    put(k, "%y", "%x")
    mark(k, "show")
    fence(k, flaw)
    for step in range((n - 1).bit_length() - (flaw == "step")):
        peer = k.of("remui", k.of("addi", own, 1 << step), n)
        k.notify(k.peer("%s", peer), step)
        mark(k, "tell")
        k.wait("%s", step)
    for p in range(n):
        far = k.view(k.peer("%y", k.number(p)), "f32", ROW)
        k.get(k.view("%z", "f32", ROW, 64 * p), far, ROW, "f32", k.tile(*ROW), ROW)
        mark(k, "get")
    return k


def wrapping(n: int, flaw: Flaw = "") -> Text:
    """A ring whose signal is the second of two numbers that add up to more than a word holds."""
    k = text("z")
    far = k.peer("%s", peer := k.of("remui", k.of("addi", k.index("%rank"), 1), n))
    most = 2**31 - 1
    k.notify(far, 0, most)
    if flaw == "early":
        k.notify(far, 0, most)
    put(k, k.peer("%y", peer), "%x")
    mark(k, "put")
    k.fence()
    if flaw != "early":
        k.notify(far, 0, most)
    k.wait("%s", 0, most if flaw == "first" else -2, "eq")
    read_as(k, "read", "%y")
    return k


def countdown(n: int, flaw: Flaw = "") -> Text:
    """A mesh whose counters go down from zero."""
    k = text("z")
    at = k.of("muli", k.index("%rank"), 64)
    for p in range(n):
        put(k, k.peer("%y", k.number(p)), "%x", at)
        mark(k, "put")
        k.fence()
        k.notify(k.peer("%s", k.number(p)), 5, -1)
    k.wait("%s", 5, -n + (flaw == "count"), "lt" if flaw == "beyond" else "le")
    for p in range(n):
        read_as(k, "read", "%y", 64 * p, 64 * p)
    return k


def words(n: int, flaw: Flaw = "") -> Text:
    """Three rows from rank 0 to rank 1 through one place, each with a word that comes back."""
    k = text("z")
    own = k.index("%rank")
    for turn in range(3):
        word = 5 if flaw == "same word" else 5 + turn
        with where(k, k.equal(own, 0)):
            if turn:
                k.wait("%s", 1, 5 if flaw == "same word" else word - 1, "eq")
            put(k, k.peer("%y", k.number(1)), "%x", 0, 64 * turn)
            mark(k, "put")
            k.fence()
            k.notify(k.peer("%s", k.number(1)), 0, word, "set")
        with where(k, k.equal(own, 1)):
            k.wait("%s", 0, word, "eq")
            read_as(k, "read", "%y", 0, 64 * turn)
            k.fence()
            k.notify(k.peer("%s", k.number(0)), 1, word, "set")
    return k


class Protocol(NamedTuple):
    """A program for a number of ranks, its result from the rows of x, and the lines of its flaws."""

    made: Callable[..., Text]
    result: Callable[[Any, int], Any]
    ranks: tuple[int, ...]
    flaws: dict[Flaw, set[tuple[str, str]] | str]
    scalars: Callable[[int], dict[str, Any]] = lambda n: {}
    more: Mapping[str, Any] = MappingProxyType({})


def _previous(x: Any, n: int, turns: int) -> Any:
    return np.roll(x, 1, 0)[:, :turns]


def _gathered(x: Any, n: int, turns: int = 3) -> Any:
    return np.broadcast_to(np.concatenate([x[:, turn] for turn in range(turns)]), (n, turns * n, 64))


def _halos(x: Any, n: int) -> Any:
    fields, across = x.reshape(n, -1)[:, : 2 * H * W].reshape(2, n // 2, 2, H, W), n // 2
    out = np.zeros((n, 8, 64), np.float32)
    for r in range(2):
        for c in range(across):
            for turn in range(2):
                mine = out[r * across + c, 4 * turn : 4 * turn + 4]
                mine[0, :W] = fields[(r - 1) % 2, c, turn, -1]
                mine[1, :W] = fields[(r + 1) % 2, c, turn, 0]
                mine[2, :H] = fields[r, (c - 1) % across, turn, :, -1]
                mine[3, :H] = fields[r, (c + 1) % across, turn, :, 0]
    return out


def _irregular_numbers(n: int) -> dict[str, Any]:
    counts = np.arange(n) % 4
    return {"count": counts, "wanted": int(counts.sum())}


def _scattered(x: Any, n: int) -> Any:
    out = np.zeros((n, 4 * n, 64), np.float32)
    for source in range(n):
        for to in range(n):
            count = source % 4
            out[to, 4 * source : 4 * source + count] = x[source, 4 * to : 4 * to + count]
    return out


def _total(x: Any, n: int) -> Any:
    return np.broadcast_to(x[:, 0].sum(0), (n, 1, 64))


#: What arrives too early and what is overwritten too early.
BOTH = {("put", "read"), ("read", "put")}
#: By name.
PROTOCOLS = {
    "back pressure": Protocol(
        pressure,
        partial(_previous, turns=5),
        (2, 3, 5, 8),
        {
            "fence": {("put", "tell"), ("put", "read")},
            "credit": BOTH,
            "fence of a credit": {("read", "free"), ("keep", "free"), ("read", "put")},
            "one slot": BOTH,
        },
    ),
    "tree": Protocol(
        tree,
        _total,
        (2, 3, 4, 5, 8),
        {
            "fence": {("own", "tell"), ("up", "tell"), ("up", "add"), ("own", "down"), ("up", "down")},
            "count": {("up", "add"), ("own", "down"), ("up", "down")},
            "one place": {("up", "up")},
            "silence": "for ever",
        },
    ),
    "window three times": Protocol(
        thrice,
        _gathered,
        (2, 3, 4),
        {
            "full": BOTH,
            "empty": BOTH,
            "no second counter": BOTH,
        },
    ),
    "counter back to zero": Protocol(
        resetting, _gathered, (2, 3, 4), {"closing": BOTH}
    ),
    "two communicators": Protocol(
        communicators,
        lambda x, n: np.stack([np.roll(x[:, 0], 1, 0), np.roll(x[:, 0], -1, 0)], 1),
        (2, 3, 4, 8),
        {"own signal": {("put w", "read w"), ("read w", "put w")}, "other signal": {("put y", "read y")}},
        more={"shared": ("y", "s", "z", "w", "q"), "context": {"ctx": "y", "ctx2": "w"}},
    ),
    "irregular": Protocol(
        irregular,
        _scattered,
        (2, 3, 5),
        {"fence": {("put", "tell"), *BOTH}, "early": BOTH},
        _irregular_numbers,
    ),
    "halo": Protocol(
        halo,
        _halos,
        (4, 8),
        {
            "fence": {(f"put {w}", f"tell {v}") for i, w in enumerate(HALO) for v in [*HALO][i:]}
            | {(f"put {w}", f"read {OPPOSITE[w]}") for w in HALO if w != "up"},
            "direction": {("put right", "read left"), ("read left", "put right")},
            "acknowledgement": {(f"put {OPPOSITE[w]}", f"read {w}") for w in HALO}
            | {(f"read {w}", f"put {OPPOSITE[w]}") for w in HALO},
        },
    ),
    "scan": Protocol(
        scan,
        lambda x, n: np.cumsum(x[:, :1], 0),
        (2, 3, 5, 8),
        {
            "fence": {(n, "tell") for n in ("own", "add", "sum", "put")} | {("put", "add")},
            "wait": {("put", "add")},
        },
    ),
    "a counter that wraps": Protocol(
        wrapping,
        partial(_previous, turns=1),
        (2, 3),
        {"early": {("put", "read")}, "first": "for ever"},
    ),
    "a counter that goes down": Protocol(
        countdown, partial(_gathered, turns=1), (2, 3), {"count": BOTH, "beyond": "for ever"}
    ),
    "words": Protocol(
        words,
        lambda x, n: np.concatenate([np.zeros_like(x[:1, :3]), x[:1, :3], np.zeros_like(x[2:, :3])]),
        (2, 3),
        {"same word": {("read", "put")}},
    ),
    "dissemination": Protocol(
        dissemination,
        partial(_gathered, turns=1),
        (2, 3, 4, 5, 8),
        {"fence": {("show", "tell"), ("show", "get")}, "step": {("show", "get"), ("get", "show")}},
    ),
}  # fmt: skip


def made(name: str, n: int, flaw: Flaw = "") -> tuple[Text, dict[str, Any], Callable[..., RankKernel]]:
    """The text of a protocol, its arguments, and what compiles it."""
    protocol = PROTOCOLS[name]
    k = protocol.made(n, flaw)
    given = {**values(k, n, SIZE), **protocol.scalars(n)}
    return k, given, lambda engine="interpreter", **more: compiled(k, n, engine, **protocol.more, **more)


def on_mesh(kernel: RankKernel, given: dict[str, Any], n: int) -> dict[str, Any]:
    """The results with the ranks spread over as many devices as divide them."""
    arrays = {a: v for a, v in given.items() if a in kernel.buffers}
    size = next(d for d in range(min(n, jax.device_count()), 0, -1) if n % d == 0)
    mesh = jax.make_mesh((size,), ("r",), axis_types=(jax.sharding.AxisType.Auto,))
    over = PartitionSpec("r")  # type: ignore[no-untyped-call]
    numbers = {a: v for a, v in given.items() if a in kernel.scalars}
    call = jax.shard_map(lambda a: kernel(**a, **numbers), mesh=mesh, in_specs=over, out_specs=over)
    found: dict[str, Any] = jax.jit(call)(arrays)
    return found


_CASES = [(name, n) for name, p in PROTOCOLS.items() for n in p.ranks]
_QUICK = [("back pressure", 2), ("tree", 3), ("scan", 3), ("dissemination", 3), ("two communicators", 2)]
_QUICK += [("a counter that goes down", 2), ("a counter that wraps", 2)]


@pytest.mark.variants(3)
@pytest.mark.parametrize(
    ("name", "n"), [pytest.param(*c, marks=[pytest.mark.slow] * (c not in _QUICK)) for c in _CASES]
)
def test_a_right_protocol_is_exact_and_has_the_result_of_its_replay(name: str, n: int) -> None:
    _, given, kernel = made(name, n)
    report = kernel().judge(given)
    assert report.exact, str(report)
    expected = PROTOCOLS[name].result(rows(given["x"], n), n)
    for seed in (None, 1, 2):
        found = rows(kernel(schedule=seed)(**given)["z"], n)
        np.testing.assert_array_equal(found[:, : expected.shape[1]], expected)


@pytest.mark.variants(0)
@pytest.mark.parametrize(("name", "n"), _CASES)
def test_the_compiled_forms_give_the_bits_of_the_interpreter(name: str, n: int) -> None:
    _, given, kernel = made(name, n)
    expected, leading = kernel()(**given), kernel("compiled")
    found = leading(**given)
    for buffer, array in expected.items():
        assert np.asarray(found[buffer]).tobytes() == array.tobytes(), buffer
    for buffer, array in on_mesh(leading, given, n).items():
        assert np.asarray(array).tobytes() == expected[buffer].tobytes(), buffer


def _names(k: Text, report: Any) -> set[tuple[str, str]]:
    """The names of the two lines of every finding."""
    lines = str(k).splitlines()
    spans = [(f.first.span, f.second.span) for f in report.findings]
    return {tuple(lines[s.line - 1].partition(" // ")[2] for s in pair) for pair in spans if None not in pair}  # type: ignore[misc, union-attr]


@pytest.mark.variants(3)
@pytest.mark.parametrize(
    ("name", "flaw"),
    [
        pytest.param(name, flaw, marks=[pytest.mark.slow] * (name in ("halo", "window three times")))
        for name, p in PROTOCOLS.items()
        for flaw in p.flaws
    ],
)
def test_a_flaw_is_found_with_its_two_lines(name: str, flaw: Flaw) -> None:
    n = PROTOCOLS[name].ranks[1]
    k, given, kernel = made(name, n, flaw)
    expected = PROTOCOLS[name].flaws[flaw]
    if isinstance(expected, str):
        with pytest.raises(DeadlockError, match=expected):
            kernel()(**given)
        return
    assert _names(k, kernel().judge(given)) == expected
