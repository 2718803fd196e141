"""Undefined lanes of operations on registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..isa.micro import Lanes, MicroCall
from ..isa.rules.registers import BLOCK, element, governed, lanes, saturates
from ..oracle.numbers import Array, decode

#: Operations that move lanes or bits: their rule is executed on undefined bits.
MOVING = frozenset(
    "vintlv vdintlv vintlvv2 vdintlvv2 vselr vsqz vpack vsunpack vzunpack vbitcast vbr vdup vsel vbrc "
    "group_broadcast vinterpret_cast ppack punpack pbitcast psel".split()
) | {f"{n}_b{w}" for n in ("pintlv", "pdintlv") for w in (8, 16, 32)}
#: Operations that order data by its values: what they write counts as defined.
SORTING = frozenset({"vbitsort", "vmrgsort4"})
_SHIFTS = ("vshl", "vshr", "vshls", "vshrs")
_BLOCKS = ("vcgadd", "vcgmax", "vcgmin")


def shadow_of_results(
    call: MicroCall, real: Sequence[Any], undefined: Sequence[Any] | None
) -> tuple[Array, ...] | None:
    """Undefined bits of the results of a computation; None where nothing is undefined."""
    name = call.name.removeprefix("vmi.")
    made = _meaningless(call, name, real)
    if undefined is None and made is None:
        return None
    found = None if undefined is None else _of_operands(call, undefined)
    found = made if found is None else found if made is None else found | made
    active = _active(call, real, undefined)
    if found is not None and active is not None and len(active) == len(found):
        found = found & active
    if found is None or not found.any():
        return None
    return tuple(_placed(name, t, found) for t in call.results)


def _of_operands(call: MicroCall, undefined: Sequence[Any]) -> Array | None:
    """Lanes of which a register or the mask is undefined, by lanes of the first register."""
    flags = []
    for t, bits in zip(call.types, undefined, strict=True):
        if isinstance(t, int):
            flags.append(np.asarray(bits)[:: 256 // governed(call)] if _has_registers(call) else bits)
        elif isinstance(t, Lanes) and np.ndim(bits):
            flags.append(np.asarray(bits) != 0)
    if not flags:
        return None
    size = len(flags[0])
    found = [f if len(f) == size else np.full(size, f.any()) for f in flags]
    return np.asarray(np.stack(found).any(0))


def _has_registers(call: MicroCall) -> bool:
    return any(isinstance(t, Lanes) and t.lanes > 1 for t in (*call.types, *call.results))


def _active(call: MicroCall, real: Sequence[Any], undefined: Sequence[Any] | None) -> Array | None:
    """The lanes that the last mask sets, or may set where it is undefined; None without one."""
    masks = [k for k, v in enumerate(real) if getattr(v, "dtype", None) == np.bool_]
    if not masks or not isinstance(call.types[0], Lanes):
        return None
    flags = np.asarray(real[masks[-1]])
    if undefined is not None:
        flags = flags | np.asarray(undefined[masks[-1]])
    return flags[:: 256 // governed(call)] if isinstance(call.types[-1], int) else flags


def _meaningless(call: MicroCall, name: str, real: Sequence[Any]) -> Array | None:
    """Lanes for which the operation says nothing: shift counts, zero divisors, positions beyond the end."""
    if name in _SHIFTS:
        count = decode(np.asarray(real[1]), element(call.types[1])).astype(np.int64)
        wrong = (count < 0) | (count >= element(call.types[0]).bits)
        return np.broadcast_to(wrong, (lanes(call.types[0]).lanes,))
    if name == "vcvt" and element(call.types[0]).is_float and not saturates(call):
        return _overflowing(call, np.asarray(real[0]))
    if name == "vdiv" and element(call.types[0]).is_integer:
        return np.asarray(np.asarray(real[1]) == 0)
    if name == "vselr":
        return np.asarray(np.asarray(real[1]).astype(np.int64) >= len(real[0]))
    return None


def _overflowing(call: MicroCall, words: Array) -> Array | None:
    """Lanes of floats that have no integer of the result's type."""
    target = element(call.results[0])
    if not target.is_integer or call.attributes.get("saturate") == "SAT":
        return None
    values = decode(words, element(call.types[0])).astype(np.float64)
    bits = target.bits - target.is_signed
    least = -(2.0**bits) if target.is_signed else 0.0
    with np.errstate(invalid="ignore"):
        return np.asarray(~((values > least - 1) & (values < 2.0**bits)))


def _placed(name: str, t: Lanes | int | None, found: Array) -> Array:
    """Undefined lanes of a result; other sizes than that of the operands are undefined where values stand."""
    if isinstance(t, int):
        image = np.zeros(256, np.bool_)
        image[:: 256 // len(found)] = found
        return image
    assert isinstance(t, Lanes)
    if t.dtype.name == "i1":
        return found
    lane: Array = np.zeros(t.lanes, np.bool_)
    if name in _BLOCKS:
        lane[: 256 // BLOCK] = found.reshape(256 // BLOCK, -1).any(1)
    elif name.startswith("vc") and name not in ("vcvt", "vci"):
        lane[: 2 if t.lanes > 2 else 1] = True
    elif t.lanes == len(found):
        lane = found
    elif t.lanes > len(found):
        lane = np.repeat(found, t.lanes // len(found))
    else:
        lane = np.asarray(found.reshape(t.lanes, -1).any(1))
    return np.where(lane, t.dtype.word.type((1 << t.dtype.word_bits) - 1), t.dtype.word.type(0))
