"""NumPy rules of the unified buffer: loads and stores of registers and masks, transfers of bytes, sorting."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from ..interpreter import Pointer
from ..ir import dtype
from ..isa.micro import Lanes, MicroCall
from ..isa.ub_transfers import GROUP, LISTS, RECORD
from .arithmetic import computed, larger, smaller
from .irregular_sort import Records, descending, merge, record_of
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


# -- stores ------------------------------------------------------------------------------------------


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
    order = _BYTES[_BYTES % bits < kept]
    return order, order // bits * bits


@memory_rule("vsts")
def _store(call: MicroCall, memory: Memory, value: Any, base: Any, offset: Any, mask: Any) -> tuple[()]:
    order, governed = _stored(str(call.attributes["dist"]), _lane_bytes(call))
    active = (governed < 0) | mask[governed]
    memory.write(base, np.flatnonzero(active), _bytes(value)[order[active]])
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


# -- masks and special registers ---------------------------------------------------------------------


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


# -- sorting and merging of records ------------------------------------------------------------------


@memory_rule("vbitsort")
def _sort(call: MicroCall, memory: Memory, dst: Any, src: Any, idx: Any, repeats: Any) -> tuple[()]:
    d = src.dtype
    for group in range(max(0, signed(repeats))):
        scores = memory.read(src, _span(group, GROUP * d.word.itemsize)).view(d.word)
        indices = memory.read(idx, _span(group, GROUP * 4)).view(np.uint32)
        order = descending(scores, np.arange(GROUP), d)
        records = [record_of(scores[k], indices[k], d) for k in order]
        memory.write(dst, _span(group, GROUP * RECORD), np.concatenate(records).view(np.uint8))
    return ()


def _span(group: int, size: int) -> Array:
    return np.arange(group * size, (group + 1) * size)


@memory_rule("vmrgsort4")
def _merge(call: MicroCall, memory: Memory, dst: Any, count: Any, config: Any, **sources: Any) -> tuple[()]:
    d, lists = dst.dtype, []
    for k in range(LISTS):
        flag = int(config) >> 8 + k & 1
        length = (int(count) >> 16 * k & 0xFFFF) if flag else 0
        words = memory.read(sources[f"src{k}"], np.arange(length * RECORD)).view(d.word)
        lists.append(Records(words, d))
    total = sum(len(one.records) for one in lists)
    merged = merge(
        [one for one in lists if not one.empty], total, stop_when_empty=bool(int(config) >> 12 & 1)
    )
    if merged:
        data = np.concatenate(merged).view(np.uint8)
        memory.write(dst, np.arange(len(data)), data)
    for k, one in enumerate(lists):
        memory.state[f"VMS4_{k}"] = one.taken
    return ()


@memory_rule("get_vms4_sr")
def _taken(call: MicroCall, memory: Memory) -> tuple[Any, ...]:
    return tuple(np.uint16(memory.state[f"VMS4_{k}"]) for k in range(LISTS))


# -- transfers of bytes ------------------------------------------------------------------------------

_COMBINED = {"add": computed(lambda x, y: x + y), "max": larger, "min": smaller}
#: A loop of a transfer: trips, and the strides of source and destination in bytes.
Loop = tuple[int, int, int]


def loops_of(n: Any, s: Any, d: Any, more: dict[str, Any]) -> list[Loop]:
    """The loops of a grouped transfer from the outer one to the bursts."""
    loops = [(signed(n), signed(s), signed(d))]
    for k in range(1, 5):
        if f"c{k}" in more:
            loops.insert(0, (signed(more[f"c{k}"]), signed(more[f"s{k}"]), signed(more[f"d{k}"])))
    return loops


def _bursts(loops: list[Loop]) -> Iterator[tuple[int, int]]:
    """Where bursts begin, in source and destination, in order."""
    for trips in product(*(range(max(0, count)) for count, _, _ in loops)):
        pairs = list(zip(trips, loops, strict=True))
        yield sum(t * s for t, (_, s, _) in pairs), sum(t * d for t, (_, _, d) in pairs)


def copy(memory: Memory, source: Any, target: Any, length: int, loops: list[Loop], call: MicroCall) -> None:
    """Move runs of bytes, combined with those of global memory where stores are atomic.

    All bytes are read before the first one is written.
    """
    span = np.arange(length)
    moves = [(end, memory.read(source, start + span)) for start, end in _bursts(loops)]
    for end, data in moves:
        if isinstance(target, Pointer) and call.attributes.get("atomic"):
            data = combined(memory.read(target, end + span), data, call)
        memory.write(target, end + span, data)


def combined(old: Array, new: Array, call: MicroCall) -> Array:
    """The bytes of global memory after an atomic store."""
    d = dtype(call.attributes["atomic_type"])
    words = (v.view(d.word) for v in (np.ascontiguousarray(old), np.ascontiguousarray(new)))
    return np.asarray(_COMBINED[call.attributes["atomic"]](d, *words)).view(np.uint8)


@memory_rule("mte_gm_ub")
def _load_rows(  # noqa: PLR0913 - operands
    call: MicroCall, memory: Memory, gm: Any, ub: Any, l2: Any, len: Any, n: Any, s: Any, d: Any, **more: Any
) -> tuple[()]:
    length, loops = signed(len), loops_of(n, s, d, more)
    if "pad" not in more:
        copy(memory, gm, ub, length, loops, call)
        return ()
    word = np.frombuffer(np.asarray(more["pad"]).tobytes(), np.uint8)
    left, right = (max(0, signed(more[n])) * word.size if n in more else 0 for n in ("left", "right"))
    _padded(memory, gm, ub, (length, left, right), loops, word)
    return ()


def _padded(
    memory: Memory, gm: Any, ub: Any, sizes: tuple[int, int, int], loops: list[Loop], word: Array
) -> None:
    """Each burst between its pads, filled up to a block of 32 bytes."""
    length, left, right = sizes
    whole = -(-(left + length + right) // 32) * 32
    for start, end in _bursts(loops):
        data = np.resize(word, whole)
        data[left : left + length] = memory.read(gm, start + np.arange(length))
        memory.write(ub, end + np.arange(whole), data)


@memory_rule("mte_ub_gm")
def _store_rows(
    call: MicroCall, memory: Memory, ub: Any, gm: Any, len: Any, n: Any, s: Any, d: Any, **more: Any
) -> tuple[()]:
    copy(memory, ub, gm, signed(len), loops_of(n, s, d, more), call)
    return ()


@memory_rule("mte_ub_ub")
def _move(call: MicroCall, memory: Memory, src: Any, dst: Any, len: Any, n: Any, s: Any, d: Any) -> tuple[()]:
    length = signed(len) * 32
    copy(memory, src, dst, length, [(signed(n), length + signed(s) * 32, length + signed(d) * 32)], call)
    return ()


def _outer(call: MicroCall, way: str) -> list[Loop]:
    """The two loops that registers give."""
    loops = call.attributes["loops"]
    sizes = loops.get(f"loop_size_{way}", (1, 1))
    strides = [loops.get(f"loop{k}_stride_{way}", (0, 0)) for k in (2, 1)]
    return [(count, *stride) for count, stride in zip(sizes, strides, strict=True)]


@memory_rule("copy_gm_to_ubuf")
def _raw_load(  # noqa: PLR0913 - operands
    call: MicroCall, memory: Memory, gm: Any, ub: Any, sid: Any, n: Any, len: Any, left: Any, right: Any,
    select: Any, l2: Any, gm_stride: Any, ub_stride: Any,
) -> tuple[()]:  # fmt: skip
    loops = [*_outer(call, "outtoub"), (signed(n), signed(gm_stride), signed(ub_stride))]
    size = ub.dtype.storage_bits // 8
    if not signed(select):
        copy(memory, gm, ub, signed(len), loops, call)
        return ()
    word = np.uint64(call.attributes["pad_value"] & (1 << 64) - 1).reshape(1).view(np.uint8)[:size]
    sizes = signed(len), signed(left) * size, signed(right) * size
    _padded(memory, gm, ub, sizes, loops, word)
    return ()


@memory_rule("copy_ubuf_to_gm")
def _raw_store(  # noqa: PLR0913 - operands
    call: MicroCall, memory: Memory, ub: Any, gm: Any, sid: Any, n: Any, len: Any, l2: Any,
    gm_stride: Any, ub_stride: Any,
) -> tuple[()]:  # fmt: skip
    loops = [*_outer(call, "ubtoout"), (signed(n), signed(ub_stride), signed(gm_stride))]
    copy(memory, ub, gm, signed(len), loops, call)
    return ()
