"""Where a program places its tiles: found by walking it with addresses only.

The walk folds constants, follows calls and rebindings exactly as execution does, so that every address
that execution will know is known here too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from pto_jax.dtypes import DType
from pto_jax.errors import NotExecutableError
from pto_jax.ir import Op, Program, Value
from pto_jax.types import MemRefType, PartitionViewType, PtrType, TensorViewType, TileType
from pto_jax.walk import Execution, Operand, Pointer, Scalar, TileRef, View, Walker
from pto_jax.walk_memory import ScalarMemory

from .storage import Placement, Plan


class _Unknown:
    """A scalar whose value only execution knows."""


@dataclass
class _Surveyor(ScalarMemory):
    """A machine that computes nothing and notes the constant addresses of tiles."""

    found: list[Placement] = field(default_factory=list)

    def begin(self, op: Op) -> None: ...

    def region(self, op: Op, ref: TileRef) -> None: ...

    def execute(self, execution: Execution) -> dict[str, None]:
        return dict.fromkeys(execution.vectors)

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        return _Unknown()

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Scalar:
        return _Unknown()

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None: ...

    def load(self, op: Op, pointer: Pointer, dtype: DType) -> Scalar:
        return _Unknown()

    def store(self, op: Op, pointer: Pointer, value: Scalar) -> None: ...

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        if isinstance(address, int):
            self.found.append(Placement(type, address))
        return None

    def fresh(self, op: Op, result: Value, type: TileType) -> Hashable:
        return None

    def rebind(self, ref: TileRef, type: TileType, address: Scalar) -> Hashable:
        return self.allocate(Op("tassign"), type, address)


@lru_cache(maxsize=1024)
def plan(program: Program, entry: str) -> Plan:
    """The memory plan of one execution of a function.

    A program that execution will stop in is planned up to the place where it stops.
    """
    surveyor, function = _Surveyor(), program.function(entry)
    assert function is not None, entry
    with suppress(NotExecutableError):
        Walker(program, surveyor).run(function, [_operand(a) for a in function.args])
    return Plan(surveyor.found)


def _operand(argument: Value) -> Operand:
    t = argument.type
    if isinstance(t, TileType):
        return TileRef(t, None, _Unknown(), _Unknown())
    if isinstance(t, PtrType | MemRefType):
        return Pointer(argument.name, t.dtype)
    if isinstance(t, TensorViewType | PartitionViewType):
        unknown = tuple(_Unknown() for _ in t.dims)
        return View(argument.name, t.dtype, 0, unknown, unknown)
    return _Unknown()
