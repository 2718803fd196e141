"""Definedness of comparisons, selections and conversions."""

import numpy as np

from . import masks, shadow
from .step import ShadowStep, shadow_rule


@shadow_rule("tcmp")
def _compare(step: ShadowStep) -> None:
    masks.compare(step)


@shadow_rule("tsel")
def _select(step: ShadowStep) -> None:
    masks.select(step, "src0", "src1", stream=step.policy.simulator)


@shadow_rule("tcvt")
def _convert(step: ShadowStep) -> None:
    rows, cols = step.region
    if step.policy.simulator:
        (rows, cols), t = step.valid("src"), step.type()
        rows, cols = min(rows, t.rows), min(cols, t.cols)
    elif step.dtype().packed:
        cols -= cols % 2
    source, target = step.dtype("src"), step.dtype()
    numbers = cols * target.numbers
    found = step.raw("src", (rows, -(-numbers // source.numbers)))
    if source.pair_of:
        found = np.repeat(found, 2, axis=1)[:, :numbers]
    if target.pair_of:
        found = shadow.first(found[:, 0::2], found[:, 1::2])
    step.put(found, (rows, cols))
