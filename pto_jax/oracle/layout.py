"""Moves between tiles."""

import numpy as np

from .numbers import decode
from .quantise import cast_words, has_relu, outgoing, row_parameters, scalar_parameter
from .step import Step, rule


@rule("tmov")
def _tmov(step: Step) -> None:
    """Every lane of the destination's valid region, through both layouts.

    The simulator has no use for a scalar parameter. Without parameters the clamp comes after the
    conversion and clears what is negative only.
    """
    words, parameters = step.raw("src"), None
    if step.is_tile("fp"):
        parameters = row_parameters(step, np.arange(step.region[1])[None, :])
    elif not step.policy.simulator:
        parameters = scalar_parameter(step)
    if parameters is not None:
        step.put(outgoing(step, words, step.dtype(), parameters))
        return
    made = cast_words(words, step.dtype("src"), step.dtype())
    if has_relu(step):
        made = np.where(decode(made, step.dtype()) < 0, np.zeros_like(made), made)
    step.put(made)
