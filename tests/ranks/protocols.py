"""Right protocols between ranks: each a program, its windows, and the number of ranks it is written for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import pto_jax as pto
from pto_jax.generate.rank_texts import FENCE as FENCE, Text as Text
from pto_jax.runtime.ranks import RankKernel

N = 4
ROW = (1, 64)


def text(*more: str, scalars: tuple[str, ...] = ()) -> Text:
    """A kernel with an input x, a window y, signals s, and further buffers of f32."""
    pointers = {"x": "f32", "y": "f32", "s": "i32", **dict.fromkeys(more, "f32"), "ctx": "i64"}
    return Text(pointers, {"rank": "i32", **dict.fromkeys(scalars, "i32")})


@contextmanager
def where(k: Text, condition: str) -> Iterator[None]:
    """Lines under a condition."""
    k.if_(condition)
    yield
    k.end()


def compiled(k: Text, n: int = N, engine: Any = "interpreter", grid: int = 1, **more: Any) -> RankKernel:
    """The program on ranks; every buffer but x and the context record is a window."""
    program = pto.parse(str(k), file=f"{k.name}.pto")
    shared = tuple(name for name in k.pointers if name not in ("x", "ctx"))
    given = {"shared": shared, "context": {"ctx": "y"}, "warn": False, "partial_launch": True, **more}
    kernel: RankKernel = pto.compile(program, ranks=n, grid=grid, engine=engine, **given)
    return kernel


def values(k: Text, n: int = N, elements: int = 1024, seed: int = 0) -> dict[str, Any]:
    """Numbers in x, zeros elsewhere."""
    rng, found = np.random.default_rng(seed), {}
    for name, t in k.pointers.items():
        dtype = {"f32": np.float32, "i32": np.int32}.get(t)
        if dtype is not None:
            found[name] = np.zeros((n, elements), dtype)
    found["x"] = rng.integers(-9, 10, (n, elements)).astype(found["x"].dtype)
    return {**found, "rank": np.arange(n), **({"n": n} if "n" in k.scalars else {})}


def put(
    k: Text, dst: str, src: str, at: int | str = 0, of: int | str = 0, shape: tuple[int, int] = ROW
) -> None:
    """A copy between pointers, from elements on."""
    k.put(k.view(dst, "f32", shape, at), k.view(src, "f32", shape, of), shape, "f32", k.tile(*shape), shape)


def read(k: Text, pointer: str, out: str = "%z", at: int | str = 0, to: int | str = 0) -> None:
    """Load a row and store it where results are."""
    tile = k.tile(*ROW)
    k.load(k.view(pointer, "f32", ROW, at), ROW, "f32", tile)
    k.store(tile, k.view(out, "f32", ROW, to), ROW, "f32")


def barrier(k: Text, own: str, cell: int, value: int, n: int = N) -> None:
    """Everyone tells everyone, itself too, and waits for all."""
    k.fence()
    for p in range(n):
        k.notify(k.peer("%s", k.number(p)), cell)
    k.wait("%s", cell, value)


def mesh() -> Text:
    """Every rank puts a row into every other one, at its own place."""
    k = text("z")
    own = k.index("%rank")
    at = k.of("muli", own, 64)
    for p in range(N):
        put(k, k.peer("%y", k.number(p)), "%x", at)
    barrier(k, own, 0, N)
    for p in range(N):
        read(k, "%y", at=64 * p, to=64 * p)
    return k


def barrier_twice() -> Text:
    """A counter that is used again, with twice the number."""
    k = text("z")
    own = k.index("%rank")
    at = k.of("muli", own, 64)
    for turn in range(2):
        for p in range(N):
            put(k, k.peer("%y", k.number(p)), "%x", k.of("addi", at, 256 * turn), 64 * turn)
        barrier(k, own, 0, N * (turn + 1))
        for p in range(N):
            read(k, "%y", at=256 * turn + 64 * p, to=256 * turn + 64 * p)
    return k


def mailbox() -> Text:
    """Rank 0 sends twice and waits for the reply between: one mailbox there, one back."""
    k = text("z")
    own = k.index("%rank")
    there = k.peer("%s", k.number(1))
    for turn in (1, 2):
        with where(k, k.equal(own, 0)):
            put(k, k.peer("%y", k.number(1)), "%x", 0, 64 * turn)
            k.fence()
            k.notify(there, 0, turn, "set")
            k.wait("%s", 1, turn, "eq")
        with where(k, k.equal(own, 1)):
            k.wait("%s", 0, turn, "eq")
            read(k, "%y", to=64 * turn)
            k.fence()
            k.notify(k.peer("%s", k.number(0)), 1, turn, "set")
    return k


def credits() -> Text:
    """Rank 0 is at most two slots ahead: rank 1 gives a credit for every slot that it has read."""
    k = text("z")
    own = k.index("%rank")
    for turn in range(4):
        slot = turn % 2
        with where(k, k.equal(own, 0)):
            if turn > 1:
                k.wait("%s", 1, turn - 1)
            put(k, k.peer("%y", k.number(1)), "%x", 64 * slot, 64 * turn)
            k.fence()
            k.notify(k.peer("%s", k.number(1)), 0)
        with where(k, k.equal(own, 1)):
            k.wait("%s", 0, turn + 1)
            read(k, "%y", at=64 * slot, to=64 * turn)
            k.fence()
            k.notify(k.peer("%s", k.number(0)), 1)
    return k


def epochs() -> Text:
    """A ring twice: a signal and a half of the window for each epoch."""
    k = text("z")
    own = k.index("%rank")
    peer = k.of("remui", k.of("addi", own, 1), N)
    for epoch in range(2):
        put(k, k.peer("%y", peer), "%x", 64 * epoch, 64 * epoch)
        k.fence()
        k.notify(k.peer("%s", peer), epoch)
        k.wait("%s", epoch)
        read(k, "%y", at=64 * epoch, to=64 * epoch)
    return k


def members(k: Text, pointer: str, shape: tuple[int, ...], n: int = N, at: int | str = 0) -> list[str]:
    """The views of a pointer on all ranks."""
    return [k.view(k.peer(pointer, k.number(p)), "f32", shape, at) for p in range(n)]


def collective(
    k: Text,
    name: str,
    first: str,
    group: list[str],
    tiles: str,
    types: tuple[str, str],
    more: str,
    acc: str = "",
) -> None:
    """A collective with its group."""
    whole, member = types
    b = f"!pto.tile_buf<vec, {ROW[0]}x{ROW[1]}xf32>"
    scratch = f"{acc}, recv({tiles})" if acc else f"recv({tiles})"
    listed = ", ".join([whole, *([b, b] if acc else [b]), *[member] * len(group)])
    k.add(f"pto.comm.{name}({first}, {scratch}, group({', '.join(group)}) : {listed}) {{{more}}}")


def broadcast() -> Text:
    """The root copies to all and tells all."""
    k = text("z")
    own = k.index("%rank")
    with where(k, k.equal(own, 1)):
        t = k.type(ROW, "f32")
        collective(
            k,
            "tbroadcast",
            k.view("%x", "f32", ROW),
            members(k, "%y", ROW),
            k.tile(*ROW),
            (t, t),
            "root = 1 : i32",
        )
        k.fence()
        for p in range(N):
            k.notify(k.peer("%s", k.number(p)), 0)
    k.wait("%s", 0)
    read(k, "%y")
    return k


def all_gather() -> Text:
    """Everyone reads everyone's row after a barrier, and a barrier keeps it until all have."""
    k = text("z")
    own = k.index("%rank")
    put(k, "%y", "%x")
    barrier(k, own, 0, N)
    for p in range(N):
        shape = k.type(ROW, "f32")
        assert shape
        k.get(
            k.view("%z", "f32", ROW, 64 * p),
            k.view(k.peer("%y", k.number(p)), "f32", ROW),
            ROW,
            "f32",
            k.tile(*ROW),
            ROW,
        )
    barrier(k, own, 1, N)
    put(k, "%y", "%x", 0, 64)
    return k


def reduce_scatter() -> Text:
    """Everyone adds up its own row of all."""
    k = text("z")
    own = k.index("%rank")
    for p in range(N):
        put(k, "%y", "%x", 64 * p, 64 * p)
    barrier(k, own, 0, N)
    at = k.of("muli", own, 64)
    total, other = k.tile(*ROW), k.tile(*ROW)
    k.load(k.view(k.peer("%y", k.number(0)), "f32", ROW, at), ROW, "f32", total)
    for p in range(1, N):
        k.load(k.view(k.peer("%y", k.number(p)), "f32", ROW, at), ROW, "f32", other)
        k.binary("tadd", total, other, total, ROW, "f32")
    k.store(total, k.view("%z", "f32", ROW), ROW, "f32")
    return k


def exchange() -> Text:
    """Rows go where a table says: counts first, then the rows, then all wait for all."""
    k = text("z")
    k.pointers = {"route": "i32", **k.pointers}
    own = k.index("%rank")
    for row in range(4):
        to, slot = k.new(), k.of("addi", k.of("muli", own, 4), row)
        k.add(f"{to} = pto.load_scalar %route[{k.number(row)}] : !pto.ptr<i32> -> i32")
        put(k, k.peer("%y", k.index(to)), "%x", k.of("muli", slot, 64), 64 * row)
    barrier(k, own, 0, N)
    for place in range(4 * N):
        read(k, "%y", at=64 * place, to=64 * place)
    return k


#: The right protocols, by what they are called.
PROTOCOLS: dict[str, Callable[[], Text]] = {
    "ring": lambda: ring_with_reader(),
    "mesh": mesh,
    "barrier twice": barrier_twice,
    "mailbox with reply": mailbox,
    "credits": credits,
    "epochs": epochs,
    "broadcast and counter": broadcast,
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
    "expert exchange": exchange,
}


def ring_with_reader() -> Text:
    """A ring whose receivers read what came."""
    k = ring()
    k.pointers = {**{n: t for n, t in k.pointers.items() if n != "ctx"}, "z": "f32", "ctx": "i64"}
    read(k, "%y")
    return k


def ring(shape: tuple[int, int] = (1, 64), blocks: bool = False, tile: tuple[int, int] | None = None) -> Text:
    """Every rank puts its part into the next one's, says so, and waits for that of the one before."""
    pointers = {"x": "f32", "y": "f32", "s": "i32", "ctx": "i64"}
    scalars = {"rank": "i32", "n": "i32"} | ({"__pypto_spmd_block_idx": "i32"} if blocks else {})
    k = Text(pointers, scalars, name="ring")
    own, n = k.index("%rank"), k.index("%n")
    peer = k.of("remui", k.of("addi", own, 1), n)
    block = k.index("%__pypto_spmd_block_idx") if blocks else 0
    at = k.of("muli", block, shape[0] * shape[1]) if blocks else 0
    size = tile or shape
    staging = k.tile(*size)
    dst, src = k.view(k.peer("%y", peer), "f32", shape, at), k.view("%x", "f32", shape, at)
    k.put(dst, src, shape, "f32", staging, size)
    k.fence()
    k.notify(k.peer("%s", peer), block)
    k.wait("%s", block)
    return k
