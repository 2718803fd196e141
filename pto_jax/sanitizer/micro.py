"""Definedness of micro-operations: registers and masks with undefined lanes, memory by bytes.

An operation that moves data is executed by the interpreter's rule with undefined bits in place of the data.
Of an operation that computes, a lane is undefined as a whole where an active lane of an operand is, or where
the mask that governs it is. Undefined bytes that arrive in global memory are findings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..interpreter import Operand, Pointer
from ..interpreter.operands import LocalPointer, Register
from ..ir import Op
from ..isa import find_micro
from ..isa.micro import Lanes, MicroCall
from ..isa.rules.registers import BLOCK, element, governed, lanes, saturates
from ..oracle.machine import ReferenceMachine
from ..oracle.micro import MEMORY_RULES, RULES, Memory, Rule, contents, load_rules
from ..oracle.numbers import Array, decode
from . import cube
from .shadow import Shadow, ShadowBuffer
from .step import BY_ZERO, TOO_FAR, ShadowState


@dataclass(frozen=True, eq=False)
class ShadowRegister(Register):
    """A register or mask with its undefined bits, words or truth values as the contents are.

    ``origin_id`` is the origin of the first of them.
    """

    undefined: Array
    origin_id: int = 0


class ShadowMemory(Memory):
    """The shadow of memory, as an operation accesses it; ``data`` reads are of the bytes themselves."""

    def __init__(
        self, machine: ReferenceMachine, shadows: ShadowState, op: Op, data: bool, origin_id: int
    ) -> None:
        super().__init__(machine, op)
        self.shadows = shadows
        self.data = data
        self.state = dict(self.state)
        self.origin_id = origin_id

    def _shadow(self, pointer: Operand) -> Shadow:
        if isinstance(pointer, Pointer):
            return self.shadows.memory[pointer.buffer]
        assert isinstance(pointer, LocalPointer)
        buffer = self.machine.local(pointer, self.op).buffer
        assert isinstance(buffer, ShadowBuffer)
        return buffer.shadow

    def read(self, pointer: Operand, offsets: Array) -> Array:
        """The undefined bits of bytes."""
        if self.data:
            return super().read(pointer, offsets)
        _, address, end = self.bytes_at(pointer)
        at = self.within(offsets, address, end, pointer)
        shadow = self._shadow(pointer)
        bits = np.asarray(shadow.bits[at])
        if bits.any():
            origins = shadow.origins[at][bits != 0]
            never = self.shadows.origins.id_of("never written", self.op)
            self.origin_id = int(origins[origins != 0][0]) if (origins != 0).any() else never
        return bits

    def write(self, pointer: Operand, offsets: Array, data: Array) -> None:
        """Bytes get the undefined bits of what is written; those of global memory are findings."""
        _, address, end = self.bytes_at(pointer)
        at = self.within(offsets, address, end, pointer)
        bits = np.broadcast_to(0 if self.data else data, at.shape).astype(np.uint8)
        shadow, origins = self._shadow(pointer), np.where(bits != 0, self.origin_id, 0)
        shadow.bits[at], shadow.origins[at] = bits, origins
        if isinstance(pointer, Pointer) and bits.any():
            size = max(1, pointer.dtype.storage_bits // 8)
            elements = origins.reshape(-1, size).max(1) if origins.size % size == 0 else origins.reshape(-1)
            self.shadows.findings.add("memory", self.op, pointer.buffer, elements)


@dataclass(frozen=True, eq=False)
class Undefined:
    """The undefined bits of the results of an operation, and where they come from."""

    bits: tuple[Array, ...]
    origin_id: int


def shadows_before(
    machine: ReferenceMachine,
    shadows: ShadowState,
    op: Op,
    call: MicroCall,
    operands: Mapping[str, Operand],
) -> Undefined | None:
    """The undefined bits of the results of a micro-operation that has not been executed yet; None: none.

    ``shadows`` is what the machine has of them.
    """
    load_rules()
    below = find_micro(op.name)
    values = below.values(op) if below is not None else {}
    real = {name: contents(operand, values.get(name)) for name, operand in operands.items()}
    undefined = {name: _undefined(operand, real[name]) for name, operand in operands.items()}
    with np.errstate(all="ignore"):
        if op.name in RULES:
            bits = _of_registers(op, call, real, undefined)
            return None if bits is None else Undefined(bits, _origin(shadows, op, operands))
        if op.name not in MEMORY_RULES:
            return None
        operation = find_micro(op.name)
        assert operation is not None
        memory = ShadowMemory(machine, shadows, op, op.name in SORTING, _origin(shadows, op, operands))
        names = [n for n in undefined if n not in ("offsets", "mask", "extra", "repeat")]
        moved = {n: undefined[n] for n in names if isinstance(operands[n], Register)}
        plain = replace(call, attributes={**call.attributes, "atomic": "", "pad_value": 0})
        zeros = {"pad": np.zeros_like(real["pad"])} if "pad" in real else {}
        rule: Rule = cube.RULES.get(op.name, MEMORY_RULES[op.name])
        results = rule(plain, memory, **{**real, **moved, **zeros})
    if op.name in SORTING:
        return None
    return Undefined(tuple(np.asarray(v) for v in results), memory.origin_id)


def _origin(shadows: ShadowState, op: Op, operands: Mapping[str, Operand]) -> int:
    """Where undefined lanes come from: from the first operand that has any, else from the operation."""
    of_operands = (
        o.origin_id for o in operands.values() if isinstance(o, ShadowRegister) and o.undefined.any()
    )
    origin = next(of_operands, 0)
    return origin or shadows.origins.id_of(_REASONS.get(op.name.removeprefix("vmi."), _LANES), op)


def _undefined(operand: Operand, real: Any) -> Any:
    if isinstance(operand, ShadowRegister):
        return operand.undefined
    return np.zeros_like(real) if isinstance(operand, Register) else real


def _of_registers(
    op: Op, call: MicroCall, real: Mapping[str, Any], undefined: Mapping[str, Any]
) -> tuple[Array, ...] | None:
    if not any(isinstance(v, np.ndarray) and v.ndim and v.any() for v in undefined.values()):
        return shadow_of_results(call, tuple(real.values()), None)
    if op.name.removeprefix("vmi.") in MOVING:
        whole = [n for n in real if n in ("mask", "idx", "index")]
        operands = {n: real[n] if n in whole or not np.ndim(real[n]) else undefined[n] for n in real}
        return tuple(np.asarray(v) for v in RULES[op.name](call, *operands.values()))
    return shadow_of_results(call, tuple(real.values()), tuple(undefined.values()))


def with_shadows(results: tuple[Operand, ...], undefined: Undefined | None) -> tuple[Operand, ...]:
    """Registers among results, each with its undefined bits where there are any."""
    if undefined is None:
        return results
    paired = zip(results, undefined.bits, strict=False)
    values = [
        ShadowRegister(r.contents, u, undefined.origin_id)
        if isinstance(r, Register) and np.shape(u) == np.shape(r.contents)
        else r
        for r, u in paired
    ]
    return (*values, *results[len(values) :])


# -- lanes of registers ------------------------------------------------------------------------------

#: Operations that move lanes or bits: their rule is executed on undefined bits.
MOVING = frozenset(
    "vintlv vdintlv vintlvv2 vdintlvv2 vselr vsqz vpack vsunpack vzunpack vbitcast vbr vdup vsel vbrc "
    "group_broadcast vinterpret_cast ppack punpack pbitcast psel".split()
) | {f"{n}_b{w}" for n in ("pintlv", "pdintlv") for w in (8, 16, 32)}
#: Operations that order data by its values: what they write counts as defined.
SORTING = frozenset({"vbitsort", "vmrgsort4"})
_SHIFTS = ("vshl", "vshr", "vshls", "vshrs")
_BLOCKS = ("vcgadd", "vcgmax", "vcgmin")
#: Why an operation makes undefined lanes of defined ones.
_LANES = "undefined lanes of a register"
_REASONS = {
    **dict.fromkeys(_SHIFTS, TOO_FAR),
    "vdiv": BY_ZERO,
    "vcvt": "number beyond the integer type",
    "vselr": "position beyond the register",
}


def shadow_of_results(
    call: MicroCall, real: Sequence[Any], undefined: Sequence[Any] | None
) -> tuple[Array, ...] | None:
    """Undefined bits of the results of a computation; None where nothing is undefined."""
    name = call.name.removeprefix("vmi.")
    meaningless = _meaningless(call, name, real)
    if undefined is None and meaningless is None:
        return None
    flags = None if undefined is None else _of_operands(call, undefined)
    flags = meaningless if flags is None else flags if meaningless is None else flags | meaningless
    active = _active(call, real, undefined)
    if flags is not None and active is not None and len(active) == len(flags):
        flags = flags & active
    if flags is None or not flags.any():
        return None
    return tuple(_placed(name, t, flags) for t in call.results)


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
    images = [f if len(f) == size else np.full(size, f.any()) for f in flags]
    return np.asarray(np.stack(images).any(0))


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


def _placed(name: str, t: Lanes | int | None, flags: Array) -> Array:
    """Undefined lanes of a result; other sizes than that of the operands are undefined where values stand."""
    if isinstance(t, int):
        image = np.zeros(256, np.bool_)
        image[:: 256 // len(flags)] = flags
        return image
    assert isinstance(t, Lanes)
    if t.dtype.name == "i1":
        return flags
    lane: Array = np.zeros(t.lanes, np.bool_)
    if name in _BLOCKS:
        lane[: 256 // BLOCK] = flags.reshape(256 // BLOCK, -1).any(1)
    elif name.startswith("vc") and name not in ("vcvt", "vci"):
        lane[: 2 if t.lanes > 2 else 1] = True
    elif t.lanes == len(flags):
        lane = flags
    elif t.lanes > len(flags):
        lane = np.repeat(flags, t.lanes // len(flags))
    else:
        lane = np.asarray(flags.reshape(t.lanes, -1).any(1))
    return np.where(lane, t.dtype.word.type((1 << t.dtype.word_bits) - 1), t.dtype.word.type(0))
