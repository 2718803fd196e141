"""Where a program places its tiles: found by walking it with addresses only.

The walk folds constants, follows calls and rebindings exactly as execution does, so that every address
that execution will know is known here too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from pto_jax.dtypes import DType
from pto_jax.errors import NotExecutableError
from pto_jax.ir import Op, Program, Value
from pto_jax.profiles import Profile
from pto_jax.types import MemRefType, PartitionViewType, PtrType, TensorViewType, TileType
from pto_jax.walk import Execution, Frame, Operand, Pointer, Scalar, Scope, TileRef, View, launch, memref_view
from pto_jax.walk.memory import ScalarMemory

from .storage import Placement, Plan

if TYPE_CHECKING:
    from pto_jax.walk.machine import After, Arm, Before, Body, RunBlock


class Unknown:
    """A scalar whose value only execution knows."""


@dataclass
class Surveyor(ScalarMemory):
    """A machine that computes nothing and notes the constant addresses of tiles."""

    found: list[Placement] = field(default_factory=list)
    max_steps: int = 0
    depth: int = 0
    abstract: bool = True

    def begin(self, op: Op, scope: Scope) -> None: ...

    def region(self, op: Op, ref: TileRef) -> None: ...

    def execute(self, execution: Execution) -> dict[str, None]:
        return dict.fromkeys(execution.vectors)

    def enter(self, core: str) -> None: ...

    def new_block(self) -> None: ...

    def blocks(self, grid: int, operands: Sequence[Operand], run: RunBlock) -> None:
        run(Unknown(), operands)

    def alias(self, op: Op, ref: TileRef, type: TileType) -> Hashable:
        return None

    def offset(self, op: Op, ref: TileRef, type: TileType, elements: Scalar) -> Hashable:
        return None

    def window(self, op: Op, ref: TileRef, type: TileType, row: Scalar, col: Scalar) -> Hashable:
        return None

    def contents(self, ref: TileRef) -> None: ...

    def receive(self, op: Op, name: str, type: TileType, contents: None) -> Hashable:
        return None

    def concatenate(self, parts: Sequence[None], axis: int) -> None: ...

    def show(self, op: Op, format: str, value: Scalar, dtype: DType) -> None: ...

    def trap(self, op: Op) -> None: ...

    def require(self, op: Op, rule: str, allowed: str, broken: Scalar) -> None: ...

    def known(self, value: Scalar) -> int | None:
        return int(value) if isinstance(value, int) else None

    def unrolls(self, op: Op, trips: int) -> bool:
        return False

    def counter(self, value: int) -> Scalar:
        return Unknown()

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        first, second = (arm() for arm in arms)
        return tuple(map(_either, first, second))

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        carried = tuple(map(_opened, inits))
        return tuple(map(_either, carried, body(Unknown(), carried)))

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        passed = before(tuple(map(_opened, inits)))[1]
        after(passed)
        return passed

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        return Unknown()

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Scalar:
        return Unknown()

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None: ...

    def load(self, op: Op, pointer: Pointer, dtype: DType) -> Scalar:
        return Unknown()

    def store(self, op: Op, pointer: Pointer, value: Scalar) -> None: ...

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        if address is not None:
            self.found.append(Placement(type, address if isinstance(address, int) else None))
        return None

    def fresh(self, op: Op, result: Value, type: TileType) -> Hashable:
        return None

    def rebind(self, op: Op, ref: TileRef, type: TileType, address: Scalar) -> Hashable:
        return self.allocate(op, type, address)


def _opened(operand: Operand) -> Operand:
    """What a loop carries: its scalars change from trip to trip."""
    kept = operand is None or isinstance(operand, TileRef | View | Pointer | tuple)
    return operand if kept else Unknown()


def _either(first: Operand, second: Operand) -> Operand:
    return first if first is second else _opened(first)


@lru_cache(maxsize=1024)
def plan(program: Program, entry: str, profile: Profile, grid: int = 1) -> Plan:
    """The memory plan of a function executed on some blocks, which may take different paths.

    A program that execution will stop in is planned up to the place where it stops.
    """
    surveyor, function = Surveyor(), program.function(entry)
    assert function is not None, entry
    with suppress(NotExecutableError):
        launch(program, surveyor, function, [abstract(a) for a in function.args], grid=grid)
    return Plan(surveyor.found, profile.capacity)


def abstract(argument: Value) -> Operand:
    """An argument of which nothing but its type is known."""
    t = argument.type
    if isinstance(t, TileType):
        return TileRef(t, None, Unknown(), Unknown())
    if isinstance(t, PtrType):
        return Pointer(argument.name, t.dtype)
    if isinstance(t, MemRefType) and None not in t.dims:
        return memref_view(argument.name, t, ())
    if isinstance(t, TensorViewType | PartitionViewType | MemRefType):
        unknown = tuple(Unknown() for _ in t.dims)
        return View(argument.name, t.dtype, 0, unknown, unknown)
    return Unknown()
