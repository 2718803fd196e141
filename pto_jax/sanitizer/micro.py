"""Definedness of micro-operations: registers and masks with undefined lanes, memory by bytes.

An operation that moves data is executed by the interpreter's rule with undefined bits in place of the data.
Of an operation that computes, a lane is undefined as a whole where an active lane of an operand is, or where
the mask that governs it is. Undefined bytes that arrive in global memory are findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..interpreter import Operand, Pointer
from ..interpreter.operands import LocalPointer, Register
from ..ir import Op
from ..isa import find_micro
from ..isa.micro import MicroCall
from ..oracle.machine import ReferenceMachine
from ..oracle.micro import MEMORY_RULES, RULES, Memory, contents, load_rules
from ..oracle.numbers import Array
from .registers import MOVING, SORTING, shadow_of_results
from .shadow import Shadow, ShadowBuffer
from .step import ShadowState


@dataclass(frozen=True, eq=False)
class ShadowRegister(Register):
    """A register or mask with its undefined bits, words or truth values as the contents are."""

    undefined: Array


class ShadowMemory(Memory):
    """The shadow of memory, as an operation accesses it; ``data`` reads are of the bytes themselves."""

    def __init__(self, machine: ReferenceMachine, shadows: ShadowState, op: Op, data: bool) -> None:
        super().__init__(machine, op)
        self.shadows = shadows
        self.data = data
        self.state = dict(self.state)
        self.origin_id = shadows.origins.id_of("undefined lanes of a register", op)

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
        found = np.asarray(shadow.bits[at])
        if found.any():
            known = shadow.origins[at][found != 0]
            self.origin_id = int(known[known != 0][0]) if (known != 0).any() else self.origin_id
        return found

    def write(self, pointer: Operand, offsets: Array, data: Array) -> None:
        """Bytes get the undefined bits of what is written; those of global memory are findings."""
        _, address, end = self.bytes_at(pointer)
        at = self.within(offsets, address, end, pointer)
        bits = np.broadcast_to(0 if self.data else data, at.shape).astype(np.uint8)
        shadow, origins = self._shadow(pointer), np.where(bits != 0, self.origin_id, 0)
        shadow.bits[at], shadow.origins[at] = bits, origins
        if isinstance(pointer, Pointer) and bits.any():
            self.shadows.findings.add("memory", self.op, pointer.buffer, origins.reshape(-1))


def shadows_before(
    machine: ReferenceMachine,
    shadows: ShadowState,
    op: Op,
    call: MicroCall,
    operands: Mapping[str, Operand],
) -> tuple[Array, ...] | None:
    """The undefined bits of the results of a micro-operation that has not been executed yet; None: none.

    ``shadows`` is what the machine has of them.
    """
    load_rules()
    values = dict(zip(operands, op.ins, strict=True))
    real = {name: contents(operand, values[name]) for name, operand in operands.items()}
    undefined = {name: _undefined(operand, real[name]) for name, operand in operands.items()}
    with np.errstate(all="ignore"):
        if op.name in RULES:
            return _of_registers(op, call, real, undefined)
        if op.name not in MEMORY_RULES:
            return None
        declared = find_micro(op.name)
        assert declared is not None
        memory = ShadowMemory(machine, shadows, op, data=op.name in SORTING)
        names = [n for n in undefined if n not in ("offsets", "mask", "extra")]
        moved = {n: undefined[n] for n in names if isinstance(operands[n], Register)}
        if any(v.any() for v in moved.values()):
            memory.origin_id = shadows.origins.id_of("undefined lanes of a register", op)
        plain = replace(call, attributes={**call.attributes, "atomic": "", "pad_value": 0})
        given = {**real, **moved, **({"pad": np.zeros_like(real["pad"])} if "pad" in real else {})}
        found = MEMORY_RULES[op.name](plain, memory, **given)
    return None if op.name in SORTING else tuple(np.asarray(v) for v in found)


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
        given = {n: real[n] if n in whole or not np.ndim(real[n]) else undefined[n] for n in real}
        return tuple(np.asarray(v) for v in RULES[op.name](call, *given.values()))
    return shadow_of_results(call, tuple(real.values()), tuple(undefined.values()))


def with_shadows(results: tuple[Operand, ...], undefined: tuple[Array, ...] | None) -> tuple[Operand, ...]:
    """Registers among results, each with its undefined bits where there are any."""
    if undefined is None:
        return results
    paired = zip(results, undefined, strict=False)
    made = [
        ShadowRegister(r.contents, u)
        if isinstance(r, Register) and np.shape(u) == np.shape(r.contents)
        else r
        for r, u in paired
    ]
    return (*made, *results[len(made) :])
