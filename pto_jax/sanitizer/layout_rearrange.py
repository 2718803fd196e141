"""Definedness of transpositions, concatenations, interleaving and packing."""

import numpy as np

from ..oracle.numbers import decode
from .step import ShadowStep, shadow_rule

OUT_OF_SOURCE = "count beyond the columns of its source"


@shadow_rule("ttrans", "tpack")
def _rearrange(step: ShadowStep) -> None:
    step.moved("src")


@shadow_rule("tinterleave", "tdeinterleave")
def _interleave(step: ShadowStep) -> None:
    step.moved("src0", "src1")


@shadow_rule("tconcatidx")
def _concatenate_counted(step: ShadowStep) -> None:
    """Counts steer what is copied; what is beyond their sources is cut."""
    for name in ("src0Idx", "src1Idx"):
        step.sink("index", name, step.stored(name)[: step.region[0], :1])
    step.moved("src0", "src1")


@shadow_rule("tconcat")
def _concatenate(step: ShadowStep) -> None:
    """Counts steer what is copied, and are copied to dstIdx themselves."""
    for name in ("src0Idx", "src1Idx"):
        if step.is_tile(name):
            counts = step.stored(name)[: step.region[0], :1]
            step.sink("index", name, counts)
            allowed = step.type(name.removesuffix("Idx")).cols * step.dtype(name).bits // 8
            given = decode(step.real.stored(name)[: len(counts), :1], step.dtype(name)).astype(np.int64)
            wrong = (given < 0) | (given > allowed)
            step.sink("index", name, np.where(wrong, step.origin_of(OUT_OF_SOURCE), 0))
    step.moved("src0", "src1")
    if step.is_tile("dstIdx"):
        step.define((step.region[0], 1), "dstIdx")
