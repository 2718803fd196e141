"""How the walker executes instructions that make scalars of memory, and memory of scalars."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..analysis.constant_folding import scalar_dtype
from ..ir.dtypes import DType
from ..ir.program import Op
from .interpreter import Scope, Walker, handles
from .operands import Operand, Pointer, Scalar, TileRef
from .windows import advanced


@runtime_checkable
class ScalarMemory(Protocol):
    """What a machine does with single elements; positions count elements, those of tiles in the order of
    their storage."""

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Scalar:
        """An element of a tile as a scalar of a type with as many bits."""

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        """Write a scalar to an element of a tile."""

    def load(self, op: Op, pointer: Pointer, dtype: DType) -> Scalar:
        """The element of global memory that a pointer is at."""

    def store(self, op: Op, pointer: Pointer, value: Scalar) -> None:
        """Write a scalar where a pointer is at."""


def _memory(walker: Walker) -> ScalarMemory:
    machine = walker.machine
    assert isinstance(machine, ScalarMemory), type(machine)
    return machine


@handles("tgetval")
def _tgetval(walker: Walker, op: Op, scope: Scope) -> None:
    ref, position = (scope[v] for v in op.ins)
    result, memory = op.results[0], _memory(walker)
    dtype = scalar_dtype(result.type)
    (value,) = walker.resolved(op, scope, ref, lambda one: (memory.element(op, one, position, dtype),))
    scope.bind(result, value)


@handles("tsetval")
def _tsetval(walker: Walker, op: Op, scope: Scope) -> None:
    position, value = (scope[v] for v in op.ins)
    for result in op.results:
        scope.bind(result, walker.fresh(op, result, {}))
    memory = _memory(walker)

    def write(one: Operand) -> tuple[Operand, ...]:
        memory.set_element(op, one, position, value)
        return ()

    walker.resolved(op, scope, scope[op.destinations[0]], write)


@handles("load_scalar")
def _load_scalar(walker: Walker, op: Op, scope: Scope) -> None:
    pointer, offset = (scope[v] for v in op.ins)
    result, memory = op.results[0], _memory(walker)
    dtype, at = scalar_dtype(result.type), _moved(walker, pointer, offset)
    (value,) = walker.resolved(op, scope, at, lambda one: (memory.load(op, one, dtype),))
    scope.bind(result, value)


@handles("store_scalar")
def _store_scalar(walker: Walker, op: Op, scope: Scope) -> None:
    value, pointer, offset = (scope[v] for v in op.ins)
    memory = _memory(walker)

    def write(one: Operand) -> tuple[Operand, ...]:
        memory.store(op, one, value)
        return ()

    walker.resolved(op, scope, _moved(walker, pointer, offset), write)


def _moved(walker: Walker, pointer: Pointer, offset: Scalar) -> Pointer:
    return Pointer(pointer.buffer, pointer.dtype, advanced(walker.machine, pointer.offset, offset))
