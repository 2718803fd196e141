"""Rules of undefined bits of reductions, positions of extremes, and expansions with arithmetic."""

import numpy as np

from ..oracle.reduce_expand import (
    OPERATIONS,
    Along,
    first_lanes,
    is_empty,
    lines,
    repeated,
    row_zero,
    write_lines,
)
from . import shadow
from .shadow import first, first_along
from .step import ShadowStep, by_zero, shadow_rule


def along_of(step: ShadowStep) -> Along:
    """Whether lines of an instruction are rows or columns."""
    return "row" if step.instruction.name.startswith("trow") else "col"


@shadow_rule("trowsum", "tcolsum", "trowprod", "tcolprod")
def _accumulate(step: ShadowStep) -> None:
    """A line without lanes gives the start value on the simulator, and nothing on hardware."""
    if is_empty(step) and not step.policy.simulator:
        return
    along = along_of(step)
    write_lines(step, along, first_along(lines(step, along), 1))


@shadow_rule("trowmax", "trowmin", "tcolmax", "tcolmin")
def _extreme(step: ShadowStep) -> None:
    along = along_of(step)
    if not is_empty(step):
        write_lines(step, along, first_along(lines(step, along), 1))
    elif step.policy.simulator and step.instruction.name.endswith("max"):
        write_lines(step, along, first_lanes(step, along))


@shadow_rule("tpairreducesum")
def _pairs(step: ShadowStep) -> None:
    origin_ids = step.raw("src")
    if step.policy.simulator:
        step.define(step.type().shape)
    even, odd = origin_ids[:, ::2], origin_ids[:, 1::2]
    partners = np.zeros_like(even)
    partners[:, : odd.shape[1]] = odd
    result = np.zeros(step.region, np.int32)
    count = even.shape[1] if step.policy.simulator else odd.shape[1]
    result[:, :count] = first(even, partners)[:, :count]
    step.put(result)


@shadow_rule("trowexpand", "tcolexpand")
def _expand(step: ShadowStep) -> None:
    if step.dtype("src") == step.dtype():
        step.moved("src")
        return
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    along = along_of(step)
    step.put(step.gather("src", rows, 0 * cols) if along == "row" else step.gather("src", 0 * rows, cols))


@shadow_rule(*(f"trowexpand{name}" for name in OPERATIONS))
def _by_rows(step: ShadowStep) -> None:
    origin_ids = shadow.first(repeated(step, "src0"), repeated(step, "src1"))
    if step.instruction.name.endswith("div"):
        origin_ids = shadow.first(origin_ids, by_zero(step, repeated(step.real, "src1")))
    step.put(origin_ids)


@shadow_rule(*(f"tcolexpand{name}" for name in OPERATIONS))
def _by_columns(step: ShadowStep) -> None:
    origin_ids = shadow.first(step.raw("src0"), row_zero(step, "src1"))
    if step.instruction.name.endswith("div"):
        origin_ids = shadow.first(origin_ids, by_zero(step, row_zero(step.real, "src1")))
    step.put(origin_ids)


@shadow_rule("trowargmax", "trowargmin", "tcolargmax", "tcolargmin")
def _position(step: ShadowStep) -> None:
    along = along_of(step)
    if not is_empty(step):
        values = positions = first_along(lines(step, along), 1)
    elif step.policy.simulator:
        values = first_lanes(step, along)
        positions = np.zeros_like(values)
    else:
        return
    if step.is_tile("dstVal"):
        write_lines(step, along, values, "dstVal")
    write_lines(step, along, positions)
