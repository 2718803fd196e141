"""Definedness of operations on a tile and an expanded row or column."""

from ..oracle.reduce_expand_binary import OPERATIONS, repeated, row_zero
from . import lanes, shadow
from .step import ShadowStep, shadow_rule


@shadow_rule(*(f"trowexpand{name}" for name in OPERATIONS))
def _by_rows(step: ShadowStep) -> None:
    origin_ids = shadow.first(repeated(step, "src0"), repeated(step, "src1"))
    if step.instruction.name.endswith("div"):
        origin_ids = shadow.first(origin_ids, lanes.by_zero(step, repeated(step.real, "src1")))
    step.put(origin_ids)


@shadow_rule(*(f"tcolexpand{name}" for name in OPERATIONS))
def _by_columns(step: ShadowStep) -> None:
    origin_ids = shadow.first(step.raw("src0"), row_zero(step, "src1"))
    if step.instruction.name.endswith("div"):
        origin_ids = shadow.first(origin_ids, lanes.by_zero(step, row_zero(step.real, "src1")))
    step.put(origin_ids)
