"""JAX rules of transfers of bytes between global memory and the unified buffer.

A transfer is a list of words: each comes from a place in the source and goes to a place in the destination.
Where all numbers of a transfer are known, the places are constants, and consecutive ones are slices.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.ir import dtype
from pto_jax.isa.micro import MicroCall

from . import formulas
from .micro import memory_rule, regrouped
from .ub_memory import _integer

if TYPE_CHECKING:
    from .machine.local_memory import Place
    from .machine.tile_memory import TileMemory


class Loop(NamedTuple):
    """A loop of a transfer: trips, and the strides of source and destination in bytes."""

    count: Any
    source: Any
    target: Any


class Pad(NamedTuple):
    """What stands around the bytes of a burst: the word, and bytes before and behind."""

    word: Array
    left: Any
    right: Any


class Route(NamedTuple):
    """Words of a transfer: where each comes from and goes to, whether it exists, and whether it is data."""

    source: Any
    target: Any
    exists: Any
    data: Any
    #: The number of the word in its burst.
    number: Any


def _loops(n: Any, s: Any, d: Any, more: dict[str, Any]) -> list[Loop]:
    found = [Loop(_integer(n), _integer(s), _integer(d))]
    for k in range(1, 5):
        if f"c{k}" in more:
            found.insert(0, Loop(*(_integer(more[f"{name}{k}"]) for name in "csd")))
    return found


def _route(length: Any, loops: list[Loop], pad: Pad | None, unit: int, most: int) -> Route:
    """The words of a transfer in its order, of ``unit`` bytes; at most ``most`` where nothing else says."""
    left = 0 if pad is None else pad.left
    whole = length if pad is None else -(-(left + length + pad.right) // 32) * 32
    numbers = [whole // unit, *(loop.count for loop in reversed(loops))]
    known = all(isinstance(n, int) for n in numbers)
    xp: Any = np if known and isinstance(left, int) and isinstance(length, int) else jnp
    count = prod(max(0, n) for n in numbers) if known else most
    rest = xp.arange(count, dtype=np.int64)
    k = rest % xp.maximum(numbers[0], 1)
    rest = rest // xp.maximum(numbers[0], 1)
    source, target = k - left // unit, k
    for loop in reversed(loops):
        trips = xp.maximum(loop.count, 1)
        trip, rest = rest % trips, rest // trips
        source, target = source + trip * loop.source // unit, target + trip * loop.target // unit
    exists = xp.broadcast_to(
        (rest == 0) & (xp.minimum.reduce(numbers) > 0 if xp is np else _positive(numbers)), rest.shape
    )
    data = (k >= left // unit) & (k < (left + length) // unit)
    return Route(source, target, exists, data, k)


def _positive(numbers: list[Any]) -> Array:
    found = jnp.asarray(True)
    for n in numbers:
        found &= n > 0
    return found


def _unit(source: Place, target: Place, length: Any, loops: list[Loop], pad: Pad | None) -> int:
    """Bytes of the words that a transfer is made of."""
    sizes = [length] if pad is None else [length, pad.left, pad.right]
    numbers = [*sizes, *(n for loop in loops for n in (loop.source, loop.target))]
    if not all(isinstance(n, int) for n in numbers):
        return 1
    return min(source.unit(*numbers), target.unit(*numbers)) // 8


def transfer(
    call: MicroCall, machine: TileMemory, source: Place, target: Place, length: Any, loops: list[Loop],
    pad: Pad | None = None,
) -> tuple[()]:  # fmt: skip
    """Move the bytes of bursts inside loops, from the outer one to the bursts."""
    unit = _unit(source, target, length, loops, pad)
    most = min(p.flat(unit * 8).shape[0] for p in (source, target))
    route = _route(length, loops, pad, unit, most)
    if not route.target.size:
        return ()
    words = _fetched(source, route, unit)
    if pad is not None:
        word = regrouped(pad.word.reshape(1), 8 * min(unit, pad.word.dtype.itemsize))
        fill = jnp.tile(word, -(-unit // pad.word.dtype.itemsize))
        pieces = regrouped(fill, unit * 8)
        words = jnp.where(route.data, words, pieces[route.number % pieces.shape[0]])
    if call.attributes.get("atomic"):
        _combine(call, machine, target, route, words)
    else:
        _put(target, route, words)
    return ()


def _run(positions: Any) -> int | None:
    """Where constant positions begin that follow each other, None for others."""
    if not isinstance(positions, np.ndarray) or not positions.size:
        return None
    first = int(positions[0])
    return first if np.array_equal(positions, first + np.arange(positions.size)) else None


def _fetched(source: Place, route: Route, unit: int) -> Array:
    whole = isinstance(route.data, np.ndarray) and bool(route.data.all() and route.exists.all())
    first = _run(route.source) if whole else None
    if first is not None:
        return source.read(route.source.size, unit * 8, first)
    there = route.exists & route.data
    return source.gather(jnp.asarray(jnp.where(there, route.source, 0)), unit * 8)


def _put(target: Place, route: Route, words: Array) -> None:
    if isinstance(route.target, np.ndarray):
        # Of words that go to one place the last one counts.
        places, last = np.unique(route.target[::-1], return_index=True)
        last = route.target.size - 1 - last
        chosen = words if places.size == words.shape[0] and _run(last) == 0 else words[last]
        first = _run(places)
        if first is not None:
            target.write(chosen, at=first)
        else:
            target.scatter(jnp.asarray(places), chosen, jnp.ones(places.shape, bool))
        return
    target.scatter(route.target, words, jnp.asarray(route.exists), unique=True)


def _combine(call: MicroCall, machine: TileMemory, target: Place, route: Route, words: Array) -> None:
    """Add the words, or take the larger or the smaller ones, element by element."""
    d = dtype(call.attributes["atomic_type"])
    have, size = words.dtype.itemsize * 8, d.word_bits
    places = jnp.asarray(route.target)
    exists = jnp.broadcast_to(jnp.asarray(route.exists), words.shape)
    old = regrouped(target.gather(jnp.where(exists, places, 0), have), size)
    a, new = machine.semantics.arithmetic(d), regrouped(words, size)
    match call.attributes["atomic"]:
        case "max":
            combined = formulas.maximum(a, old, new)
        case "min":
            combined = formulas.minimum(a, old, new)
        case _:
            combined = a.encode(a.add(a.decode(old), a.decode(new)))
    target.scatter(places, regrouped(combined, have), exists)


@memory_rule("mte_gm_ub")
def _load(  # noqa: PLR0913 - operands
    call: MicroCall, machine: TileMemory, gm: Place, ub: Place, l2: Any, len: Any, n: Any, s: Any, d: Any,
    **more: Any,
) -> tuple[()]:  # fmt: skip
    pad = None
    if "pad" in more:
        # A number that is known has its bits beside it.
        word = getattr(more["pad"], "word", more["pad"])
        size = word.dtype.itemsize
        sides = (_integer(more[name]) * size if name in more else 0 for name in ("left", "right"))
        pad = Pad(word, *sides)
    plain = _plain(call)
    return transfer(plain, machine, gm, ub, _integer(len), _loops(n, s, d, more), pad)


def _plain(call: MicroCall) -> MicroCall:
    """The call of a transfer that combines nothing: only stores to global memory do."""
    return MicroCall(call.name, call.types, call.results, {**call.attributes, "atomic": ""})


@memory_rule("mte_ub_gm")
def _store(
    call: MicroCall, machine: TileMemory, ub: Place, gm: Place, len: Any, n: Any, s: Any, d: Any, **more: Any
) -> tuple[()]:
    return transfer(call, machine, ub, gm, _integer(len), _loops(n, s, d, more))


@memory_rule("mte_ub_ub")
def _move(
    call: MicroCall, machine: TileMemory, src: Place, dst: Place, len: Any, n: Any, s: Any, d: Any
) -> tuple[()]:
    length = _integer(len) * 32
    loop = Loop(_integer(n), length + _integer(s) * 32, length + _integer(d) * 32)
    return transfer(_plain(call), machine, src, dst, length, [loop])


def _outer(call: MicroCall, way: str) -> list[Loop]:
    """The two loops that registers give."""
    loops = call.attributes["loops"]
    sizes = loops.get(f"loop_size_{way}", (1, 1))
    return [
        Loop(count, *loops.get(f"loop{k}_stride_{way}", (0, 0)))
        for k, count in zip((2, 1), sizes, strict=True)
    ]


@memory_rule("copy_gm_to_ubuf")
def _raw_load(  # noqa: PLR0913 - operands
    call: MicroCall, machine: TileMemory, gm: Place, ub: Place, sid: Any, n: Any, len: Any, left: Any,
    right: Any, select: Any, l2: Any, gm_stride: Any, ub_stride: Any,
) -> tuple[()]:  # fmt: skip
    loops = [*_outer(call, "outtoub"), Loop(_integer(n), _integer(gm_stride), _integer(ub_stride))]
    pad = None
    if _integer(select):
        bits = ub.dtype.word_bits
        word = jnp.asarray(np.dtype(f"u{bits // 8}").type(call.attributes["pad_value"] & ((1 << bits) - 1)))
        pad = Pad(word, _integer(left) * bits // 8, _integer(right) * bits // 8)
    return transfer(_plain(call), machine, gm, ub, _integer(len), loops, pad)


@memory_rule("copy_ubuf_to_gm")
def _raw_store(  # noqa: PLR0913 - operands
    call: MicroCall, machine: TileMemory, ub: Place, gm: Place, sid: Any, n: Any, len: Any, l2: Any,
    gm_stride: Any, ub_stride: Any,
) -> tuple[()]:  # fmt: skip
    loops = [*_outer(call, "ubtoout"), Loop(_integer(n), _integer(ub_stride), _integer(gm_stride))]
    return transfer(call, machine, ub, gm, _integer(len), loops)
