"""Micro-operations on the reference machine: registers as words, memory as bytes.

A rule of a register operation takes the call and the operands in the order of the text: registers and scalars
as raw words, masks as images of 256 truth values. A rule of an operation that accesses memory takes the
:class:`Memory` before these. Both return the results as a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..errors import ExecutionError
from ..interpreter import Operand, Pointer
from ..interpreter.operands import LocalPointer, Register
from ..ir import Loc, Op, ScalarType, Value
from ..isa import MICRO_FAMILIES, find_micro, load_families
from ..isa.micro import Lanes, MicroCall
from .numbers import Array
from .step import Policy, not_executable, scalar_word
from .storage import Place

Rule: TypeAlias = "Callable[..., tuple[Any, ...]]"
#: Rules of operations on registers, and of those that access memory, by name.
RULES: dict[str, Rule] = {}
MEMORY_RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule on registers."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def memory_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule on memory and registers."""

    def register(function: Rule) -> Rule:
        MEMORY_RULES.update(dict.fromkeys(names, function))
        return function

    return register


@cache
def load_rules() -> None:
    """Import the families of this package."""
    assert __package__
    load_families(__package__, MICRO_FAMILIES)


class Machine(Protocol):
    """What a memory is of: a machine with buffers, special registers, and on-chip memory by pointers."""

    policy: Policy
    buffers: Mapping[str, Array]
    special: dict[str, Any]

    def local(self, pointer: LocalPointer, op: Op) -> Place:
        """Where a pointer into on-chip memory is."""

    def memory_of(self, op: Op) -> Memory:
        """The memory as a micro-operation accesses it."""


class Memory:
    """The bytes of a machine as one operation accesses them; ``state`` are its special registers."""

    def __init__(self, machine: Machine, op: Op) -> None:
        self.machine = machine
        self.op = op
        self.state = machine.special

    def bytes_at(self, pointer: Operand) -> tuple[Array, int, int]:
        """The run of bytes that a pointer is in, its address there, and where the run ends."""
        if isinstance(pointer, Pointer):
            memory = self.machine.buffers[pointer.buffer]
            return memory, int(pointer.offset) * pointer.dtype.storage_bits // 8, len(memory)
        place = self.machine.local(pointer, self.op)
        end = self.machine.policy.profile.end(Loc[pointer.space.name], place.address)
        # Nothing is known to be behind a tile that has no address.
        placed = pointer.tile is None or pointer.tile.address is not None
        return place.buffer.bytes, place.address, end if placed else len(place.buffer.bytes)

    def read(self, pointer: Operand, offsets: Array) -> Array:
        """The bytes at offsets from a pointer."""
        memory, address, end = self.bytes_at(pointer)
        return np.asarray(memory[self.within(offsets, address, end, pointer)])

    def write(self, pointer: Operand, offsets: Array, data: Array) -> None:
        """Replace the bytes at offsets from a pointer; of equal offsets the last one counts."""
        memory, address, end = self.bytes_at(pointer)
        memory[self.within(offsets, address, end, pointer)] = data

    def within(self, offsets: Array, address: int, end: int, pointer: Operand) -> Array:
        """Positions in a run of bytes; ExecutionError where one is outside."""
        at = address + np.asarray(offsets, np.int64)
        if at.size and not (at.min() >= 0 and at.max() < end):
            where, allowed = f"buffer {getattr(pointer, 'buffer', '')}", "its bytes"
            if isinstance(pointer, LocalPointer):
                where = pointer.space.name.lower()
                if pointer.tile is not None and pointer.tile.address is None:
                    where, allowed = (
                        "a tile",
                        "its bytes, also those behind it with addr at its pto.alloc_tile",
                    )
            message = (
                f"got bytes [{at.min()}, {at.max() + 1}) of {where}, which has {end}; allowed: {allowed}"
            )
            raise ExecutionError(self.op.error("in-bounds", message))
        return at


def execute(
    machine: Machine, op: Op, call: MicroCall, operands: Mapping[str, Operand]
) -> tuple[Operand, ...]:
    """The results of a micro-operation; NotExecutableError without a rule."""
    load_rules()
    operation = find_micro(op.name)
    values = operation.values(op) if operation is not None else {}
    arguments = {name: contents(operand, values.get(name)) for name, operand in operands.items()}
    with np.errstate(all="ignore"):
        if op.name in RULES:
            results = RULES[op.name](call, *arguments.values())
        elif op.name in MEMORY_RULES:
            results = MEMORY_RULES[op.name](call, machine.memory_of(op), **arguments)
        else:
            raise not_executable(op, "is not executed by the reference interpreter")
    if operation is not None and operation.squeezes:
        lanes = call.results[0]
        assert isinstance(lanes, Lanes)
        active = np.count_nonzero(arguments[operation.squeezes][:: 256 // lanes.lanes])
        machine.special["SQZN"] = active * lanes.dtype.word_bits // 8
    return tuple(result(v, words) for v, words in zip(op.results, results, strict=False))


def contents(operand: Operand, value: Value | None) -> Any:
    """What a rule gets: words of registers, raw words of scalars, pointers as they are."""
    if isinstance(operand, Register):
        return operand.contents
    if isinstance(operand, Pointer | LocalPointer) or value is None or not isinstance(value.type, ScalarType):
        return operand
    d = value.type.dtype
    return np.int64(int(operand)) if d.kind == "index" else scalar_word(operand, d).reshape(())


def result(value: Value, words: Any) -> Operand:
    """What a name stands for after a rule."""
    if not isinstance(value.type, ScalarType):
        return Register(words)
    d = value.type.dtype
    number = np.asarray(words).astype(d.word).reshape(1).view(d.numpy)[0]
    return int(number) if not d.is_float else number


def signed(word: Any) -> int:
    """A scalar word as the signed number of its width."""
    word = np.asarray(word)
    return int(word.astype(f"i{word.dtype.itemsize}"))
