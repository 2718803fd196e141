"""JAX rules of loads and stores of registers and masks, in words of the widths that the operations name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.isa.micro import MicroCall

from .machine.local_memory import Special
from .micro import memory_rule, register_width, regrouped, result_width

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt

    from .machine.local_memory import Place
    from .machine.tile_memory import TileMemory

#: What a flush, and the beginning of a stream, hand on.
_ALIGN = np.zeros((), np.uint8)


def _integer(scalar: Any) -> Any:
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
            found = jnp.broadcast_to(base.read(1, unit), (count,))
        case "US":
            found = jnp.repeat(base.read(count // 2, unit), 2)
        case "DS":
            found = base.read(count * 2, unit)[::2]
        case "UNPK":
            found = _with_zeros(base.read(count // 2, unit), 2)
        case _:
            found = jnp.repeat(base.read(8, unit), 256 // unit)
    return (regrouped(found, lane),)


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
    stride = _integer(block_stride)
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


# -- stores ------------------------------------------------------------------------------------------------


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
    number = _integer(count)
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


# -- masks and special registers ---------------------------------------------------------------------------


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
