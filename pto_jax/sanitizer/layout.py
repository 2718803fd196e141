"""Definedness of moves between tiles."""

from __future__ import annotations

import numpy as np

from .quantise import is_plain, parameters
from .shadow import first
from .step import ShadowStep, shadow_rule


@shadow_rule("tmov")
def move(step: ShadowStep) -> None:
    """A copy, or a conversion lane by lane."""
    if is_plain(step):
        step.moved("src")
        return
    step.put(first(step.raw("src"), parameters(step, np.arange(step.region[1])[None, :])))
