"""Definedness of reductions that give positions."""

import numpy as np

from ..oracle.reduce_expand import first_lanes, is_empty, lines, write_lines
from .reduce_expand import along_of
from .shadow import first_along
from .step import ShadowStep, shadow_rule


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
