"""Definedness of exponents in boxes of boxes."""

import numpy as np

from ..ir import MxGroupAxis
from ..isa.layout_exponents import padded
from .step import ShadowStep, shadow_rule

OVERWRITTEN = "behind exponents that were put in boxes: hardware clears the rows that fill up the last one"


@shadow_rule("tmov.zz")
def _into_boxes(step: ShadowStep) -> None:
    """A copy; what fills up the last box is zero, in the source too."""
    step.moved("src")
    rows, cols = step.region
    if step.attrs["grpAxis"] == MxGroupAxis.AXIS1:
        behind = np.arange(rows * cols, min(padded(rows) * cols, step.type("src").elements))
        step.lose(OVERWRITTEN, behind, "src")
