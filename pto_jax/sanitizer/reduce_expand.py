"""Definedness of reductions and expansions."""

from __future__ import annotations

import numpy as np

from ..oracle.reduce_expand import Along, first_lanes, is_empty, lines, write_lines
from ..oracle.reduce_expand_binary import OPERATIONS, repeated, row_zero
from .elementwise import by_zero
from .shadow import first, first_along
from .step import ShadeStep, shades


def _along(step: ShadeStep) -> Along:
    return "row" if step.instruction.name.startswith("trow") else "col"


@shades("trowsum", "tcolsum", "trowprod", "tcolprod")
def _accumulate(step: ShadeStep) -> None:
    """A line without lanes gives the start value on the simulator, and nothing on hardware."""
    if is_empty(step) and not step.policy.simulator:
        return
    along = _along(step)
    write_lines(step, along, first_along(lines(step, along), 1))


@shades("trowmax", "trowmin", "tcolmax", "tcolmin")
def _extreme(step: ShadeStep) -> None:
    along = _along(step)
    if not is_empty(step):
        write_lines(step, along, first_along(lines(step, along), 1))
    elif step.policy.simulator and step.instruction.name.endswith("max"):
        write_lines(step, along, first_lanes(step, along))


@shades("trowargmax", "trowargmin", "tcolargmax", "tcolargmin")
def _position(step: ShadeStep) -> None:
    along = _along(step)
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


@shades("tpairreducesum")
def _pairs(step: ShadeStep) -> None:
    codes = step.raw("src")
    if step.policy.simulator:
        step.define(step.type().shape)
    even, odd = codes[:, ::2], codes[:, 1::2]
    partners = np.zeros_like(even)
    partners[:, : odd.shape[1]] = odd
    result = np.zeros(step.region, np.int32)
    result[:, : even.shape[1]] = first(even, partners)
    step.put(result)


@shades("trowexpand", "tcolexpand")
def _expand(step: ShadeStep) -> None:
    if step.dtype("src") == step.dtype():
        step.moved("src")
        return
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    along = _along(step)
    step.put(step.gather("src", rows, 0 * cols) if along == "row" else step.gather("src", 0 * rows, cols))


@shades(*(f"trowexpand{name}" for name in OPERATIONS))
def _by_rows(step: ShadeStep) -> None:
    codes = first(repeated(step, "src0"), repeated(step, "src1"))
    if step.instruction.name.endswith("div"):
        codes = first(codes, by_zero(step, repeated(step.real, "src1")))
    step.put(codes)


@shades(*(f"tcolexpand{name}" for name in OPERATIONS))
def _by_columns(step: ShadeStep) -> None:
    codes = first(step.raw("src0"), row_zero(step, "src1"))
    if step.instruction.name.endswith("div"):
        codes = first(codes, by_zero(step, row_zero(step.real, "src1")))
    step.put(codes)
