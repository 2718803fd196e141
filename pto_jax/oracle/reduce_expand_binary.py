"""Arithmetic with one operand expanded along rows or columns."""

import numpy as np

from ..ir import DType
from . import arithmetic as lane
from .numbers import Array
from .step import Lane, Step, other_rule, rule


def _exponential_of_difference(d: DType, a: Array, b: Array) -> Array:
    """The difference is rounded to the element type before the exponential."""
    return lane.precise(np.exp)(d, lane.subtract(d, a, b))


OPERATIONS: dict[str, Lane] = {
    "add": lane.add,
    "sub": lane.subtract,
    "mul": lane.multiply,
    "div": lane.divide,
    "max": lane.larger,
    "min": lane.smaller,
    "expdif": _exponential_of_difference,
}


def repeated(step: Step, name: str) -> Array:
    """Lane (r, c) of dst reads lane (r, c modulo the source's valid columns)."""
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    return step.flushed(step.gather(name, rows, cols % max(step.valid(name)[1], 1)), name)


def row_zero(step: Step, name: str) -> Array:
    """Words [1, cols] of the first row of an operand, over the destination's valid columns."""
    rows, cols = np.ogrid[:1, : step.region[1]]
    return step.flushed(step.gather(name, rows, cols), name)


def _by_rows(operation: str, compute: Lane) -> None:
    @rule(f"trowexpand{operation}")
    def execute(step: Step) -> None:
        step.store(compute(step.dtype(), repeated(step, "src0"), repeated(step, "src1")))


def _other_by_rows(operation: str, compute: Lane) -> None:
    @other_rule("column-zero", f"trowexpand{operation}")
    def execute(step: Step) -> None:
        """One scalar per row, whatever the layout of the expanded operand."""
        rows, cols = np.ogrid[tuple(map(slice, step.region))]
        words = step.flushed(step.gather("src1", rows, cols * 0), "src1")
        step.store(compute(step.dtype(), step.words("src0"), words))


def _by_columns(operation: str, compute: Lane) -> None:
    @rule(f"tcolexpand{operation}")
    def execute(step: Step) -> None:
        step.store(compute(step.dtype(), step.words("src0"), row_zero(step, "src1")))


for _name, _compute in OPERATIONS.items():
    _by_rows(_name, _compute)
    _other_by_rows(_name, _compute)
    _by_columns(_name, _compute)
