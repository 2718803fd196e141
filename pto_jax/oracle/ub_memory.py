"""NumPy rules of loads and stores of registers and masks: which byte of memory each byte of a register is."""

from functools import cache
from typing import Any

import numpy as np

from ..isa.micro import Lanes, MicroCall
from .micro import Memory, memory_rule, signed
from .numbers import Array

_BYTES = np.arange(256)
#: Bytes of the blocks that strided and gathering operations move.
_BLOCK = 32


def _words(data: Array, call: MicroCall, at: int = 0) -> Array:
    """Bytes as the lanes of a result."""
    t = call.results[at]
    assert isinstance(t, Lanes)
    return np.ascontiguousarray(data).view(t.dtype.word)


def _bytes(words: Array) -> Array:
    return np.ascontiguousarray(words).view(np.uint8)


def _lane_bytes(call: MicroCall) -> int:
    lanes = next(t for t in (*call.results, *call.types) if isinstance(t, Lanes) and t.lanes > 1)
    return lanes.dtype.word_bits // 8


@cache
def _sources(dist: str, lane: int) -> Array:
    """For every byte of a register the byte of memory that it is, -1 for zero."""
    name, _, width = dist.partition("_B")
    if dist in ("NORM", "BRC_BLK"):
        return _BYTES if dist == "NORM" else _BYTES % _BLOCK
    if dist == "UNPK4":
        return np.where(_BYTES % 4 == 0, _BYTES // 4, -1)
    size = int(width) // 8
    unit, inside = _BYTES // size, _BYTES % size
    if name == "BRC":
        return inside
    if name == "UNPK":
        return np.where(unit % 2 == 0, unit // 2 * size + inside, -1)
    element = {"US": unit // 2, "DS": unit * 2, "E2B": _BYTES // _BLOCK}[name]
    return np.asarray(element * size + inside)


@memory_rule("vlds")
def _load(call: MicroCall, memory: Memory, base: Any, offset: Any) -> tuple[Array, ...]:
    sources = _sources(str(call.attributes["dist"]), _lane_bytes(call))
    data = np.zeros(256, np.uint8)
    data[sources >= 0] = memory.read(base, sources[sources >= 0])
    return (_words(data, call),)


@memory_rule("vldsx2")
def _load_two(call: MicroCall, memory: Memory, base: Any, offset: Any) -> tuple[Array, ...]:
    data = memory.read(base, np.arange(512))
    width = str(call.attributes["dist"]).partition("_B")[2]
    size = int(width) // 8 if width else _BLOCK
    pairs = data.reshape(-1, 2, size)
    return tuple(_words(pairs[:, k].reshape(-1), call, k) for k in (0, 1))


def _at_blocks(block_stride: Array) -> Array:
    return np.asarray(_BYTES // _BLOCK * signed(block_stride) * _BLOCK + _BYTES % _BLOCK)


@memory_rule("vsldb")
def _load_blocks(
    call: MicroCall, memory: Memory, base: Any, block_stride: Any, repeat_stride: Any, mask: Any
) -> tuple[Array, ...]:
    active = np.repeat(mask.reshape(8, _BLOCK).any(axis=1), _BLOCK)
    data = np.zeros(256, np.uint8)
    data[active] = memory.read(base, _at_blocks(block_stride)[active])
    return (_words(data, call),)


@memory_rule("vldas")
def _prime(call: MicroCall, memory: Memory, base: Any) -> tuple[Any, ...]:
    return (np.zeros((), np.uint8),)


@memory_rule("vldus")
def _load_unaligned(
    call: MicroCall, memory: Memory, base: Any, align: Any, increment: Any = None
) -> tuple[Any, ...]:
    return _words(memory.read(base, _BYTES), call), align


@memory_rule("vgather2", "vgather2_bc")
def _gather(call: MicroCall, memory: Memory, base: Any, offsets: Any, mask: Any) -> tuple[Array, ...]:
    out, source = call.results[0], base.dtype.storage_bits // 8
    assert isinstance(out, Lanes)
    size = out.dtype.word_bits // 8
    lanes = min(len(offsets), 256 // size)
    active = np.flatnonzero(mask[:: 256 // lanes][:lanes])
    data = np.zeros((256 // size, size), np.uint8)
    at = offsets[active].astype(np.int64)[:, None] * source + np.arange(source)
    data[active, :source] = memory.read(base, at)
    return (_words(data.reshape(-1), call),)


@memory_rule("vgatherb")
def _gather_blocks(call: MicroCall, memory: Memory, base: Any, offsets: Any, mask: Any) -> tuple[Array, ...]:
    active = np.flatnonzero(mask.reshape(-1, 4)[:8, 0])
    data = np.zeros((8, _BLOCK), np.uint8)
    data[active] = memory.read(base, offsets[active].astype(np.int64)[:, None] + np.arange(_BLOCK))
    return (_words(data.reshape(-1), call),)


# -- stores ------------------------------------------------------------------------------------------------


@cache
def _stored(dist: str, lane: int) -> tuple[Array, Array]:
    """The bytes of a register that are written, in the order of memory, and the bits of the mask for them."""
    name, _, width = dist.partition("_B")
    if name == "NORM":
        return _BYTES, _BYTES // lane * lane
    bits = int(width) // 8
    if name == "1PT":
        return _BYTES[:bits], np.full(bits, -1)
    kept = bits // 4 if name == "PK4" else bits // 2
    chosen = _BYTES[_BYTES % bits < kept]
    return chosen, chosen // bits * bits


@memory_rule("vsts")
def _store(call: MicroCall, memory: Memory, value: Any, base: Any, offset: Any, mask: Any) -> tuple[()]:
    chosen, governed = _stored(str(call.attributes["dist"]), _lane_bytes(call))
    active = (governed < 0) | mask[governed]
    memory.write(base, np.flatnonzero(active), _bytes(value)[chosen[active]])
    return ()


@memory_rule("vstsx2")
def _store_two(
    call: MicroCall, memory: Memory, low: Any, high: Any, base: Any, offset: Any, mask: Any
) -> tuple[()]:
    size = int(str(call.attributes["dist"]).partition("_B")[2]) // 8
    both = np.stack([_bytes(v).reshape(-1, size) for v in (low, high)], axis=1)
    memory.write(base, np.arange(512), both.reshape(-1))
    return ()


@memory_rule("vsstb")
def _store_blocks(
    call: MicroCall, memory: Memory, value: Any, base: Any, block_stride: Any, repeat_stride: Any, mask: Any
) -> tuple[()]:
    lane = _lane_bytes(call)
    active = mask[_BYTES // lane * lane]
    memory.write(base, _at_blocks(block_stride)[active], _bytes(value)[active])
    return ()


@memory_rule("vscatter")
def _scatter(call: MicroCall, memory: Memory, value: Any, base: Any, offsets: Any, mask: Any) -> tuple[()]:
    target = base.dtype.storage_bits // 8
    lanes = len(offsets)
    pitch = 256 // lanes
    active = np.flatnonzero(mask[::pitch][:lanes])
    data = _bytes(value).reshape(lanes, pitch)[active, :target]
    memory.write(base, offsets[active].astype(np.int64)[:, None] * target + np.arange(target), data)
    return ()


@memory_rule("init_align")
def _fresh(call: MicroCall, memory: Memory) -> tuple[Any, ...]:
    return (np.zeros((), np.uint8),)


@memory_rule("vstus")
def _store_first(
    call: MicroCall, memory: Memory, align: Any, count: Any, value: Any, base: Any
) -> tuple[Any, ...]:
    size = min(256, max(0, signed(count)) * _lane_bytes(call))
    memory.write(base, _BYTES[:size], _bytes(value)[:size])
    return (align,)


@memory_rule("vstur")
def _store_squeezed(call: MicroCall, memory: Memory, align: Any, value: Any, base: Any) -> tuple[Any, ...]:
    size, at = memory.state["SQZN"], memory.state["AR"]
    memory.write(base, at + _BYTES[:size], _bytes(value)[:size])
    if call.attributes["mode"] == "POST_UPDATE":
        memory.state["AR"] = at + size
    return (align,)


@memory_rule("vstas", "vstar")
def _flush(call: MicroCall, memory: Memory, align: Any, base: Any, offset: Any = None) -> tuple[()]:
    return ()


# -- masks and special registers ---------------------------------------------------------------------------


@memory_rule("plds", "pldi")
def _load_mask(call: MicroCall, memory: Memory, base: Any, offset: Any) -> tuple[Array, ...]:
    dist = call.attributes["dist"]
    count = {"US": 16, "DS": 64}.get(dist, 32)
    bits = np.unpackbits(memory.read(base, np.arange(count)), bitorder="little").astype(np.bool_)
    return ({"US": bits.repeat(2), "DS": bits[::2]}.get(dist, bits),)


@memory_rule("psts", "psti")
def _store_mask(call: MicroCall, memory: Memory, mask: Any, base: Any, offset: Any) -> tuple[()]:
    bits = mask[::2] if call.attributes["dist"] == "PK" else mask
    data = np.packbits(bits, bitorder="little")
    memory.write(base, np.arange(len(data)), data)
    return ()


@memory_rule("pstu")
def _store_bits(call: MicroCall, memory: Memory, align: Any, mask: Any, base: Any) -> tuple[Any, ...]:
    bits = next(t for t in call.types if isinstance(t, int))
    data = np.packbits(mask[:: bits // 8], bitorder="little")
    memory.write(base, np.arange(len(data)), data)
    return (align,)


@memory_rule("sprclr")
def _clear(call: MicroCall, memory: Memory) -> tuple[()]:
    memory.state[str(call.attributes["spr"])] = 0
    return ()


@memory_rule("sprsti", "sprsts")
def _store_special(call: MicroCall, memory: Memory, base: Any, offset: Any) -> tuple[()]:
    word = np.uint32(memory.state[str(call.attributes["spr"])])
    memory.write(base, np.arange(4), word.reshape(1).view(np.uint8))
    return ()
