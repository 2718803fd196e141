"""The reference machine: byte-addressed memories behind the program walker."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..dtypes import DType
from ..errors import Diagnostic, ExecutionError
from ..ir import Op, Value
from ..types import Loc, TileType
from ..walk import Execution, Frame, Operand, Scalar, TileRef, step_by_step
from . import (
    elementwise,
    elementwise_fused,
    elementwise_select,
    irregular,
    irregular_gather,
    irregular_index,
    irregular_partial,
    irregular_quant,
    irregular_quant_mx,
    irregular_sort,
    layout,
    layout_extract,
    layout_fill,
    layout_rearrange,
    matrix,
    matrix_mx,
    memory,
    reduce_expand,
    reduce_expand_binary,
    reduce_expand_index,
    scalars,
    tile_scalar,
)
from .numbers import Array
from .step import RULES, Policy, Step, not_executable
from .storage import Buffer, Place, storage_size

#: Importing a class file registers its rules.
CLASS_FILES = (
    elementwise,
    elementwise_fused,
    elementwise_select,
    tile_scalar,
    reduce_expand,
    reduce_expand_index,
    reduce_expand_binary,
    memory,
    layout,
    layout_rearrange,
    layout_fill,
    layout_extract,
    matrix,
    matrix_mx,
    irregular,
    irregular_sort,
    irregular_gather,
    irregular_index,
    irregular_quant,
    irregular_quant_mx,
    irregular_partial,
)

if TYPE_CHECKING:
    from ..walk.walker import After, Arm, Before, Body


class ReferenceMachine:
    """Executes instructions one at a time.

    Tiles with an explicit address share the bytes of their memory space, whatever their shapes and
    types; tiles without one have bytes of their own. ``buffers`` holds global memory as bytes and is
    written in place; ``written`` names the buffers that were stored to.
    """

    def __init__(self, policy: Policy, buffers: Mapping[str, Array], max_steps: int = 1_000_000) -> None:
        self.policy = policy
        self.buffers = buffers
        self.written: set[str] = set()
        self.max_steps = max_steps
        self._fill = 0 if policy.profile.fresh_tile == "zero" else 0xFF
        self._spaces: dict[Loc, Buffer] = {}
        self._allocated: dict[int, Buffer] = {}

    def begin(self, op: Op) -> None:
        """Nothing to prepare: instructions leave no state outside memory."""

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        if address is not None:
            return self._at(type, address, op)
        buffer = self._allocated.setdefault(id(op), Buffer(self._fill))
        buffer.reserve(storage_size(type))
        return Place(buffer)

    def fresh(self, op: Op, result: Value, type: TileType) -> Hashable:
        return self.new(type)

    def new(self, type: TileType) -> Place:
        """Storage of its own for a tile."""
        buffer = Buffer(self._fill)
        buffer.reserve(storage_size(type))
        return Place(buffer)

    def rebind(self, op: Op, ref: TileRef, type: TileType, address: Scalar) -> Hashable:
        return self._at(type, address, op)

    def known(self, value: Scalar) -> int | None:
        return int(value)

    def unrolls(self, op: Op, trips: int) -> bool:
        return True

    def counter(self, value: int) -> Scalar:
        return value

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        return arms[0 if condition else 1]()

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        carried = tuple(inits)
        for trip in range(int(trips)):
            carried = body(trip, carried)
        return carried

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        return step_by_step(self, frame.op, inits, before, after)

    def require(self, op: Op, rule: str, allowed: str, broken: Scalar) -> None:
        if broken:
            message = f"a run-time rule is broken; allowed: {allowed}"
            raise ExecutionError(Diagnostic("error", message, op.span, op.name, rule=rule))

    def _at(self, t: TileType, address: Scalar, op: Op) -> Place:
        start, size = int(address), storage_size(t)
        capacity = self.policy.profile.capacity[t.loc]
        name, span = op.name, op.span
        if start < 0 or start + size > capacity:
            message = (
                f"a tile {t} at address {start} takes bytes [{start}, {start + size}); "
                f"{t.loc.name.lower()} memory of {self.policy.profile.name} has {capacity} bytes"
            )
            raise ExecutionError(Diagnostic("error", message, span, name, rule="capacity"))
        space = self._spaces.setdefault(t.loc, Buffer(self._fill))
        space.reserve(start + size)
        return Place(space, start)

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        return scalars.compute(name, args, source, result)

    def region(self, op: Op, ref: TileRef) -> None:
        rows, cols = int(ref.v_row), int(ref.v_col)
        if not (0 <= rows <= ref.type.rows and 0 <= cols <= ref.type.cols):
            message = f"a valid region of {rows}x{cols} in a tile of {ref.type.rows}x{ref.type.cols}"
            raise ExecutionError(Diagnostic("error", message, op.span, op.name, rule="region"))

    def execute(self, execution: Execution) -> dict[str, Array]:
        rule = RULES.get(execution.instruction.name)
        if rule is None:
            raise not_executable(execution.op, "has no rule in the reference interpreter")
        view = execution.operands.get("dst")
        if view is not None and not isinstance(view, TileRef):
            self.written.add(view.buffer)
        step = Step(
            self.policy,
            execution.op,
            execution.operands,
            execution.attrs,
            execution.form,
            self.buffers.__getitem__,
        )
        with np.errstate(all="ignore"):
            rule(step)
        return {name: step.made[name].view(t.dtype.numpy) for name, t in execution.vectors.items()}
