"""Definedness of comparisons, selections and conversions."""

from __future__ import annotations

from .masks import compare, select
from .step import ShadowStep, shadow_rule


@shadow_rule("tcmp")
def _compare(step: ShadowStep) -> None:
    compare(step)


@shadow_rule("tsel")
def _select(step: ShadowStep) -> None:
    select(step, "src0", "src1", stream=step.policy.simulator)


@shadow_rule("tcvt")
def _convert(step: ShadowStep) -> None:
    rows, cols = step.region
    if step.policy.simulator:
        (rows, cols), t = step.valid("src"), step.type()
        rows, cols = min(rows, t.rows), min(cols, t.cols)
    elif step.dtype().packed:
        cols -= cols % 2
    step.put(step.raw("src", (rows, cols)), (rows, cols))
