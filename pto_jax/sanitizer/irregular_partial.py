"""Definedness of operations on two tiles of different extent."""

import numpy as np

from ..oracle import irregular_partial, storage
from .shadow import first
from .step import ShadowStep, shadow_rule


@shadow_rule("tpartadd", "tpartmul", "tpartmax", "tpartmin")
def _partial(step: ShadowStep) -> None:
    """A lane takes the sources that are valid there."""
    step.put(irregular_partial.choose(step, ("src0", "src1"), first(step.raw("src0"), step.raw("src1"))))


@shadow_rule("tpartargmax", "tpartargmin")
def _partial_position(step: ShadowStep) -> None:
    """Both values decide, then the chosen value and its number are taken."""
    values = first(step.raw("src0"), step.raw("src1"))
    wins = irregular_partial.FIRST_WINS[step.instruction.name][step.policy.profile.name]
    chosen_first = wins(step.real.values("src0"), step.real.values("src1"))
    for suffix in ("", "Idx"):
        names = (f"src0{suffix}", f"src1{suffix}")
        taken = np.where(chosen_first, step.raw(names[0]), step.raw(names[1]))
        origin_ids = irregular_partial.choose(step, names, first(values, taken))
        rows, cols = step.region
        target = f"dst{suffix}"
        step.scatter(origin_ids, storage.map_of(step.type(target))[:rows, :cols], target)
