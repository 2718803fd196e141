"""JAX rules of the unified buffer: loads and stores of registers and masks, transfers of bytes, sorting.

Registers are loaded and stored in words of the widths that the operations name.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.ir import dtype
from pto_jax.isa.micro import MicroCall
from pto_jax.isa.ub_transfers import GROUP, LISTS, RECORD

from . import formulas
from .irregular_sort import Merge, as_records, descending, merged
from .machine.local_memory import Special
from .micro import memory_rule, register_width, regrouped, result_width

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt

    from .machine.local_memory import Place
    from .machine.tile_memory import TileMemory

#: What a flush, and the beginning of a stream, hand on.
_ALIGN = np.zeros((), np.uint8)


def integer(scalar: Any) -> Any:
    """A scalar as a number: a Python one, or int64."""
    if isinstance(scalar, int):
        return int(scalar)
    signed = np.dtype(f"i{scalar.dtype.itemsize}")
    return lax.bitcast_convert_type(scalar, signed).astype(np.int64)


def _unit_of(dist: str) -> tuple[str, int]:
    """The name of a distribution and the bits of its unit."""
    name, _, width = dist.partition("_B")
    return name, int(width) if width else 8


def _with_zeros(words: UInt[Array, " n"], times: int) -> UInt[Array, " m"]:
    return jnp.pad(words[:, None], ((0, 0), (0, times - 1))).reshape(-1)


@memory_rule("vlds")
def _load(call: MicroCall, machine: TileMemory, base: Place, offset: Any) -> tuple[Array]:
    dist, lane = str(call.attributes["dist"]), result_width(call)
    if dist == "NORM":
        return (base.read(2048 // lane, lane),)
    if dist == "BRC_BLK":
        return (jnp.tile(base.read(256 // lane, lane), 8),)
    if dist == "UNPK4":
        return (regrouped(_with_zeros(base.read(64, 8), 4), lane),)
    name, unit = _unit_of(dist)
    count = 2048 // unit
    match name:
        case "BRC":
            words = jnp.broadcast_to(base.read(1, unit), (count,))
        case "US":
            words = jnp.repeat(base.read(count // 2, unit), 2)
        case "DS":
            words = base.read(count * 2, unit)[::2]
        case "UNPK":
            words = _with_zeros(base.read(count // 2, unit), 2)
        case _:
            words = jnp.repeat(base.read(8, unit), 256 // unit)
    return (regrouped(words, lane),)


@memory_rule("vldsx2")
def _load_two(call: MicroCall, machine: TileMemory, base: Place, offset: Any) -> tuple[Array, Array]:
    dist, lane = str(call.attributes["dist"]), result_width(call)
    if dist == "BDINTLV":
        blocks = base.read(4096 // lane, lane).reshape(8, 2, -1)
        return blocks[:, 0].reshape(-1), blocks[:, 1].reshape(-1)
    unit = _unit_of(dist)[1]
    pairs = base.read(4096 // unit, unit).reshape(-1, 2)
    return regrouped(pairs[:, 0], lane), regrouped(pairs[:, 1], lane)


def _block_positions(block_stride: Any, lane: int) -> Any:
    """The positions of the lanes of eight blocks at a stride of 32-byte blocks."""
    size = 256 // lane
    stride = integer(block_stride)
    blocks = np.arange(8, dtype=np.int64) * stride
    return blocks[:, None] * size + np.arange(size, dtype=np.int64)


@memory_rule("vsldb")
def _load_blocks(
    call: MicroCall,
    machine: TileMemory,
    base: Place,
    block_stride: Any,
    repeat_stride: Any,
    mask: Bool[Array, " 256"],
) -> tuple[Array]:
    lane = result_width(call)
    unit = base.unit(lane // 8, 32)
    active = mask.reshape(8, 32).any(axis=1)
    positions = jnp.where(active[:, None], _block_positions(block_stride, unit), 0)
    words = jnp.where(active[:, None], base.gather(positions, unit), 0)
    return (regrouped(words.reshape(-1), lane),)


@memory_rule("vldas")
def _prime(call: MicroCall, machine: TileMemory, base: Place) -> tuple[Array]:
    return (jnp.asarray(_ALIGN),)


@memory_rule("vldus")
def _load_unaligned(
    call: MicroCall, machine: TileMemory, base: Place, align: Array, increment: Any = None
) -> tuple[Array, Array]:
    lane = result_width(call)
    return base.read(2048 // lane, lane), align


def _offsets(offsets: UInt[Array, " n"]) -> Array:
    return offsets.astype(np.int64)


@memory_rule("vgather2", "vgather2_bc")
def _gather(
    call: MicroCall, machine: TileMemory, base: Place, offsets: Array, mask: Bool[Array, " 256"]
) -> tuple[Array]:
    lane, source = result_width(call), base.dtype.word_bits
    lanes = min(offsets.shape[0], 2048 // lane)
    active = mask[:: 256 // lanes][:lanes]
    unit = base.unit(source // 8)
    pieces = source // unit
    at = jnp.where(active, _offsets(offsets[:lanes]), 0)[:, None] * pieces + np.arange(pieces)
    words = regrouped(base.gather(at, unit).reshape(-1), source).astype(np.dtype(f"u{lane // 8}"))
    words = jnp.where(active, words, 0)
    return (jnp.pad(words, (0, 2048 // lane - lanes)),)


@memory_rule("vgatherb")
def _gather_blocks(
    call: MicroCall, machine: TileMemory, base: Place, offsets: Array, mask: Bool[Array, " 256"]
) -> tuple[Array]:
    active = mask[:32:4]
    at = jnp.where(active, _offsets(offsets[:8]), 0)[:, None] + np.arange(32)
    words = jnp.where(active[:, None], base.gather(at, 8), 0)
    return (regrouped(words.reshape(-1), result_width(call)),)


# -- stores ------------------------------------------------------------------------------------------


@memory_rule("vsts")
def _store(
    call: MicroCall, machine: TileMemory, value: Array, base: Place, offset: Any, mask: Bool[Array, " 256"]
) -> tuple[()]:
    lane = register_width(call)
    name, unit = _unit_of(str(call.attributes["dist"]))
    match name:
        case "NORM":
            base.write(value, mask[:: lane // 8])
        case "1PT":
            base.write(regrouped(value, unit)[:1])
        case "PK4":
            base.write(regrouped(value, 8)[::4], mask[::4])
        case _:
            base.write(regrouped(value, unit // 2)[::2], mask[:: unit // 8])
    return ()


@memory_rule("vstsx2")
def _store_two(
    call: MicroCall, machine: TileMemory, low: Array, high: Array, base: Place, offset: Any, mask: Array
) -> tuple[()]:
    unit = _unit_of(str(call.attributes["dist"]))[1]
    base.write(jnp.stack([regrouped(v, unit) for v in (low, high)], axis=1).reshape(-1))
    return ()


@memory_rule("vsstb")
def _store_blocks(
    call: MicroCall,
    machine: TileMemory,
    value: Array,
    base: Place,
    block_stride: Any,
    repeat_stride: Any,
    mask: Bool[Array, " 256"],
) -> tuple[()]:
    lane = register_width(call)
    unit = base.unit(lane // 8, 32)
    active = jnp.repeat(mask[:: lane // 8], lane // unit).reshape(8, -1)
    words = regrouped(value, unit).reshape(8, -1)
    base.scatter(_block_positions(block_stride, unit), words, active, unique=False)
    return ()


@memory_rule("vscatter")
def _scatter(
    call: MicroCall, machine: TileMemory, value: Array, base: Place, offsets: Array, mask: Bool[Array, " 256"]
) -> tuple[()]:
    lanes, target = offsets.shape[0], base.dtype.word_bits
    active = mask[:: 256 // lanes]
    unit = base.unit(target // 8)
    pieces = target // unit
    words = regrouped(value, 2048 // lanes).astype(np.dtype(f"u{target // 8}"))
    at = _offsets(offsets)[:, None] * pieces + np.arange(pieces)
    shown = jnp.broadcast_to(active[:, None], at.shape)
    base.scatter(at, regrouped(words, unit).reshape(at.shape), shown, unique=False)
    return ()


@memory_rule("init_align")
def _fresh(call: MicroCall, machine: TileMemory) -> tuple[Array]:
    return (jnp.asarray(_ALIGN),)


@memory_rule("vstus")
def _store_first(
    call: MicroCall, machine: TileMemory, align: Array, count: Any, value: Array, base: Place
) -> tuple[Array]:
    number = integer(count)
    if isinstance(number, int):
        base.write(value[: max(0, number)])
    else:
        _store_some(value, base, number, 0)
    return (align,)


def _store_some(value: Array, base: Place, count: Any, at: Any) -> None:
    """Store the first words of a register, as many as only execution knows, some bytes behind a place."""
    width = value.dtype.itemsize * 8
    unit = base.unit(width // 8)
    pieces = width // unit
    numbers = np.arange(value.shape[0] * pieces, dtype=np.int64)
    base.scatter(numbers + at * 8 // unit, regrouped(value, unit), numbers < count * pieces)


@memory_rule("vstur")
def _store_squeezed(
    call: MicroCall, machine: TileMemory, align: Array, value: Array, base: Place
) -> tuple[Array]:
    special = Special(machine)
    size, at = special["SQZN"], special["AR"]
    _store_some(regrouped(value, 8), base, size, at)
    if call.attributes["mode"] == "POST_UPDATE":
        special["AR"] = at + size
    return (align,)


@memory_rule("vstas", "vstar")
def _flush(call: MicroCall, machine: TileMemory, align: Array, base: Place, offset: Any = None) -> tuple[()]:
    return ()


# -- masks and special registers ---------------------------------------------------------------------


def _packed(bits: Bool[Array, " n"]) -> UInt[Array, " m"]:
    """Truth values as bytes, the first one in the lowest bit."""
    places = np.left_shift(np.uint8(1), np.arange(8, dtype=np.uint8))
    return jnp.sum(bits.reshape(-1, 8).astype(np.uint8) * places, axis=1, dtype=np.uint8)


@memory_rule("plds", "pldi")
def _load_mask(call: MicroCall, machine: TileMemory, base: Place, offset: Any) -> tuple[Array]:
    dist = call.attributes["dist"]
    data = base.read({"US": 16, "DS": 64}.get(str(dist), 32), 8)
    bits = ((data[:, None] >> np.arange(8, dtype=np.uint8)) & np.uint8(1)).astype(bool).reshape(-1)
    if dist == "US":
        return (jnp.repeat(bits, 2),)
    return (bits[::2] if dist == "DS" else bits,)


@memory_rule("psts", "psti")
def _store_mask(
    call: MicroCall, machine: TileMemory, mask: Bool[Array, " 256"], base: Place, offset: Any
) -> tuple[()]:
    base.write(_packed(mask[::2] if call.attributes["dist"] == "PK" else mask))
    return ()


@memory_rule("pstu")
def _store_bits(
    call: MicroCall, machine: TileMemory, align: Array, mask: Bool[Array, " 256"], base: Place
) -> tuple[Array]:
    bits = next(t for t in call.types if isinstance(t, int))
    base.write(_packed(mask[:: bits // 8]))
    return (align,)


@memory_rule("sprclr")
def _clear(call: MicroCall, machine: TileMemory) -> tuple[()]:
    Special(machine)[str(call.attributes["spr"])] = 0
    return ()


@memory_rule("sprsti", "sprsts")
def _store_special(call: MicroCall, machine: TileMemory, base: Place, offset: Any) -> tuple[()]:
    word = Special(machine)[str(call.attributes["spr"])].astype(np.uint32)
    base.write(word.reshape(1))
    return ()


# -- sorting and merging of records ------------------------------------------------------------------


def known(call: MicroCall, name: str, value: Any) -> int:
    """A number that has to be known before the program is compiled."""
    if isinstance(value, int):
        return int(value)
    message = f"got a {name} that only execution knows"
    allowed = "a constant, a scalar that pto.compile(..., scalars={...}) fixes, or the reference interpreter"
    raise NotExecutableError(
        Diagnostic("error", message, None, call.name, rule="executable", allowed=allowed)
    )


@memory_rule("vbitsort")
def _sort(
    call: MicroCall, machine: TileMemory, dst: Place, src: Place, idx: Place, repeats: Any
) -> tuple[()]:
    groups, d = max(0, known(call, "number of groups", repeats)), src.dtype
    if not groups:
        return ()
    scores = src.read(groups * GROUP, d.word_bits).reshape(groups, GROUP)
    indices = idx.read(groups * GROUP, 32).reshape(groups, GROUP)
    order = jnp.argsort(descending(scores, d), axis=1, stable=True)
    both = (jnp.take_along_axis(x, order, axis=1) for x in (scores, indices))
    dst.write(as_records(*both).reshape(-1))
    return ()


@memory_rule("vmrgsort4")
def _merge(
    call: MicroCall, machine: TileMemory, dst: Place, count: Any, config: Any, **sources: Place
) -> tuple[()]:
    lengths_word, control = known(call, "count", count), known(call, "configuration", config)
    lengths = [(lengths_word >> 16 * k & 0xFFFF) * (control >> 8 + k & 1) for k in range(LISTS)]
    there = [k for k in range(LISTS) if lengths[k]]
    special = Special(machine)
    counts = dict.fromkeys(range(LISTS), jnp.zeros((), np.int32))
    if there:
        size = RECORD * 8 // dst.dtype.word_bits
        lists = [sources[f"src{k}"].read(lengths[k] * size, dst.dtype.word_bits) for k in there]
        words = jnp.concatenate(lists).reshape(-1, size)
        order, ends = merged(words[:, 0], dst.dtype, _job([lengths[k] for k in there], control), len(words))
        counts |= dict(zip(there, ends, strict=True))
        rows = words[jnp.maximum(order, 0)].reshape(-1)
        dst.write(rows, jnp.repeat(order >= 0, size))
    for k in range(LISTS):
        special[f"VMS4_{k}"] = counts[k]
    return ()


def _job(lengths: list[int], control: int) -> Merge:
    begin = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    zero, total = np.int32(0), np.int32(sum(lengths))
    exhausted = bool(control >> 12 & 1)
    arrays: list[Array] = [jnp.asarray(x, np.int32) for x in (begin, lengths, total, zero)]
    return Merge(arrays[0], arrays[1], arrays[2], arrays[3], exhausted=exhausted)


@memory_rule("get_vms4_sr")
def _taken(call: MicroCall, machine: TileMemory) -> tuple[Array, ...]:
    special = Special(machine)
    return tuple(special[f"VMS4_{k}"].astype(np.uint16) for k in range(LISTS))


# -- transfers of bytes ------------------------------------------------------------------------------


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


def loops_of(n: Any, s: Any, d: Any, more: dict[str, Any]) -> list[Loop]:
    """The loops of a grouped transfer, from the outer one to the bursts."""
    loops = [Loop(integer(n), integer(s), integer(d))]
    for k in range(1, 5):
        if f"c{k}" in more:
            loops.insert(0, Loop(*(integer(more[f"{name}{k}"]) for name in "csd")))
    return loops


def _route(length: Any, loops: list[Loop], pad: Pad | None, unit: int, most: int) -> Route:
    """The words of a transfer in its order, of ``unit`` bytes; at most ``most`` where nothing else says."""
    left = 0 if pad is None else pad.left
    whole = length if pad is None else -(-(left + length + pad.right) // 32) * 32
    numbers = [whole // unit, *(loop.count for loop in reversed(loops))]
    constant = all(isinstance(n, int) for n in numbers)
    xp: Any = np if constant and isinstance(left, int) and isinstance(length, int) else jnp
    count = prod(max(0, n) for n in numbers) if constant else most
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
    positive = jnp.asarray(True)
    for n in numbers:
        positive &= n > 0
    return positive


def _unit(source: Place, target: Place, length: Any, loops: list[Loop], pad: Pad | None, element: int) -> int:
    """Bytes of the words that a transfer is made of: those of elements where its numbers are not known."""
    sizes = [length] if pad is None else [length, pad.left, pad.right]
    numbers = [*sizes, *(n for loop in loops for n in (loop.source, loop.target))]
    if not all(isinstance(n, int) for n in numbers):
        return element
    return min(source.unit(*numbers), target.unit(*numbers)) // 8


def transfer(
    call: MicroCall, machine: TileMemory, source: Place, target: Place, length: Any, loops: list[Loop],
    pad: Pad | None = None,
) -> tuple[()]:  # fmt: skip
    """Move the bytes of bursts inside loops, from the outer one to the bursts."""
    atomic = call.attributes.get("atomic")
    element = dtype(call.attributes["atomic_type"]).word_bits // 8 if atomic else 1
    unit = _unit(source, target, length, loops, pad, element)
    most = min(p.flat(unit * 8).shape[0] for p in (source, target))
    route = _route(length, loops, pad, unit, most)
    if not isinstance(route.target, np.ndarray):
        _require_at_most(machine, target, length, loops, most * unit)
    if not route.target.size:
        return ()
    words = _fetched(source, route, unit)
    if pad is not None:
        word = regrouped(pad.word.reshape(1), 8 * min(unit, pad.word.dtype.itemsize))
        fill = jnp.tile(word, -(-unit // pad.word.dtype.itemsize))
        pieces = regrouped(fill, unit * 8)
        words = jnp.where(route.data, words, pieces[route.number % pieces.shape[0]])
    if atomic:
        combine(call, machine, target, route.target, words, route.exists)
    else:
        put(target, route.target, words, route.exists)
    return ()


def _require_at_most(machine: TileMemory, place: Place, length: Any, loops: list[Loop], most: int) -> None:
    """Bursts whose sizes only execution knows have no more bytes than the memories."""
    total = prod((jnp.asarray(loop.count, np.int64) for loop in loops), start=jnp.asarray(length, np.int64))
    allowed = f"{most} bytes in all, where their number is not a constant"
    machine.stop(place.op, "executable", allowed, total > most)


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


def put(target: Place, positions: Any, words: Array, exists: Any) -> None:
    """Store words at positions, those that exist; of words that go to one place the last one counts."""
    if not isinstance(positions, np.ndarray):
        target.scatter(positions, words, jnp.asarray(exists), unique=False)
        return
    numbers = np.flatnonzero(exists)
    places, last = np.unique(positions.reshape(-1)[numbers][::-1], return_index=True)
    order = numbers[::-1][last]
    words = words.reshape(-1)
    words = words if places.size == words.size and _run(order) == 0 else words[order]
    first = _run(places)
    if first is not None:
        target.write(words, at=first)
    else:
        target.scatter(places, words, jnp.ones(places.shape, bool))


class Queue(NamedTuple):
    """Words in the order of their places, those of one place one after another.

    ``number`` says which word it is, ``exists`` whether it is one at all, ``turn`` how many of the same place
    come before it, ``last`` whether none comes behind it.
    """

    number: Any
    exists: Any
    turn: Any
    last: Any


def _queue(positions: Any, exists: Any) -> Queue:
    """The words that exist in the order of their places, then the others."""
    xp: Any = np if isinstance(positions, np.ndarray) else jnp
    nowhere = np.iinfo(np.int64).max
    place = xp.where(exists, positions, nowhere)
    number = np.argsort(place, kind="stable") if xp is np else jnp.argsort(place, stable=True)
    place = place[number]
    count, one = xp.arange(place.shape[0], dtype=np.int64), xp.ones(1, bool)
    new = xp.concatenate([one, place[1:] != place[:-1]])
    begin = (np.maximum.accumulate if xp is np else lax.cummax)(xp.where(new, count, 0))
    there = place != nowhere
    return Queue(number, there, xp.where(there, count - begin, 0), xp.concatenate([new[1:], one]) & there)


def combine(
    call: MicroCall, machine: TileMemory, target: Place, positions: Any, words: Array, exists: Any
) -> None:
    """Add words, or take the larger or the smaller ones; those of one place one after another."""
    positions, exists, words = (v.reshape(-1) for v in (positions, exists, words))
    queue = _queue(positions, exists)
    most = queue.turn.max()
    if isinstance(most, np.integer) and not most:
        # No place has two: the words keep their order.
        queue = Queue(np.arange(words.size), exists, queue.turn, exists)
    else:
        positions, words = positions[queue.number], words[queue.number]
    old = target.gather(jnp.where(queue.exists, positions, 0), words.dtype.itemsize * 8)
    results = combined(call, machine, old, words)

    def taken(turn: Any, results: Array) -> Array:
        return jnp.where(queue.turn == turn, combined(call, machine, jnp.roll(results, 1), words), results)

    if not isinstance(most, np.integer) or most:
        results = lax.fori_loop(1, most + 1, taken, results)
    target.scatter(positions, results, jnp.asarray(queue.last))


def combined(call: MicroCall, machine: TileMemory, old: Array, words: Array) -> Array:
    """Words of memory and others as one of elements of the type of atomic stores."""
    d, have = dtype(call.attributes["atomic_type"]), words.dtype.itemsize * 8
    a = machine.semantics.arithmetic(d)
    first, second = (regrouped(v.reshape(-1), d.word_bits) for v in (old, words))
    match call.attributes["atomic"]:
        case "max":
            result = formulas.maximum(a, first, second)
        case "min":
            result = formulas.minimum(a, first, second)
        case _:
            result = a.encode(a.add(a.decode(first), a.decode(second)))
    return regrouped(result, have).reshape(words.shape)


@memory_rule("mte_gm_ub")
def _load_rows(  # noqa: PLR0913 - operands
    call: MicroCall, machine: TileMemory, gm: Place, ub: Place, l2: Any, len: Any, n: Any, s: Any, d: Any,
    **more: Any,
) -> tuple[()]:  # fmt: skip
    pad = None
    if "pad" in more:
        # A number that is known has its bits beside it.
        word = getattr(more["pad"], "word", more["pad"])
        size = word.dtype.itemsize
        sides = (integer(more[name]) * size if name in more else 0 for name in ("left", "right"))
        pad = Pad(word, *sides)
    return transfer(plain(call), machine, gm, ub, integer(len), loops_of(n, s, d, more), pad)


def plain(call: MicroCall) -> MicroCall:
    """The call of a transfer that combines nothing: only stores to global memory do."""
    return MicroCall(call.name, call.types, call.results, {**call.attributes, "atomic": ""})


@memory_rule("mte_ub_gm")
def _store_rows(
    call: MicroCall, machine: TileMemory, ub: Place, gm: Place, len: Any, n: Any, s: Any, d: Any, **more: Any
) -> tuple[()]:
    return transfer(call, machine, ub, gm, integer(len), loops_of(n, s, d, more))


@memory_rule("mte_ub_ub")
def _move(
    call: MicroCall, machine: TileMemory, src: Place, dst: Place, len: Any, n: Any, s: Any, d: Any
) -> tuple[()]:
    length = integer(len) * 32
    loop = Loop(integer(n), length + integer(s) * 32, length + integer(d) * 32)
    return transfer(plain(call), machine, src, dst, length, [loop])


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
    loops = [*_outer(call, "outtoub"), Loop(integer(n), integer(gm_stride), integer(ub_stride))]
    pad = None
    if integer(select):
        bits = ub.dtype.word_bits
        word = jnp.asarray(np.dtype(f"u{bits // 8}").type(call.attributes["pad_value"] & ((1 << bits) - 1)))
        pad = Pad(word, integer(left) * bits // 8, integer(right) * bits // 8)
    return transfer(plain(call), machine, gm, ub, integer(len), loops, pad)


@memory_rule("copy_ubuf_to_gm")
def _raw_store(  # noqa: PLR0913 - operands
    call: MicroCall, machine: TileMemory, ub: Place, gm: Place, sid: Any, n: Any, len: Any, l2: Any,
    gm_stride: Any, ub_stride: Any,
) -> tuple[()]:  # fmt: skip
    loops = [*_outer(call, "ubtoout"), Loop(integer(n), integer(ub_stride), integer(gm_stride))]
    return transfer(call, machine, ub, gm, integer(len), loops)
