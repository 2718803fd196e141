"""Definedness of masks: comparisons that make one, and selections by one."""

import numpy as np

from ..oracle import masks
from .shadow import all_bits
from .step import ShadowStep


def compare(step: ShadowStep) -> None:
    """A bit of the mask per lane; one origin serves all bits of a mask."""
    region = step.valid("src0")
    origin_ids = np.broadcast_to(step.all_sources(region), region)
    marked, scalar = step.marked(origin_ids), not step.is_tile("src1")
    if step.policy.simulator and scalar:
        t = step.type("src0")
        bits = np.zeros(t.shape, np.bool_)
        bits[: region[0], : region[1]] = origin_ids != 0
        masks.write_stream(marked, bits, t.cols)
    else:
        masks.write_rows(marked, origin_ids != 0, clear=step.policy.simulator)


def select(step: ShadowStep, yes: str, no: str, stream: bool) -> None:
    """A lane takes the definedness of the choice it makes, if that is defined.

    ``stream`` says that the bits of the mask follow each other across the ends of rows.
    """
    places = (masks.places_in_stream if stream else masks.places_in_rows)(step)
    rows, cols, bit = places
    chosen = masks.selected(step.real, places)
    mask = step.bits("mask", rows, cols)
    unknown = (mask >> bit.astype(mask.dtype)) & 1 == 1
    words = np.where(chosen, step.bits_over(yes), step.bits_over(no))
    origin_ids = np.where(chosen, step.raw(yes), step.raw(no))
    d = step.dtype()
    step.put_bits(
        np.where(unknown, d.word.type(all_bits(d)), words),
        np.where(unknown, step.gather("mask", rows, cols), origin_ids),
    )
