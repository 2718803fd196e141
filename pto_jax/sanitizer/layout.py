"""Definedness of moves between tiles."""

import numpy as np

from . import quantise, shadow
from .step import ShadowStep, shadow_rule


@shadow_rule("tmov")
def move(step: ShadowStep) -> None:
    """A copy, or a conversion lane by lane."""
    if quantise.is_plain(step):
        step.moved("src")
        return
    step.put(shadow.first(step.raw("src"), quantise.parameters(step, np.arange(step.region[1])[None, :])))
