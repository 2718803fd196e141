"""Comparison into packed masks, selection by a mask, and element type conversion."""

from dataclasses import replace

import numpy as np

from ..ir import CmpMode, SaturationMode
from . import convert, masks
from .numbers import is_small
from .step import Step, other_rule, rule


@rule("tcmp")
def _tcmp(step: Step) -> None:
    mode = step.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    region = step.valid("src0")
    a, b = step.values("src0", region), step.values("src1", region)
    masks.write_rows(step, masks.compare(mode, a, b), clear=step.policy.simulator)


@rule("tsel")
def _tsel(step: Step) -> None:
    places = masks.places_in_stream if step.policy.simulator else masks.places_in_rows
    step.put(np.where(masks.selected(step, places(step)), step.raw("src0"), step.raw("src1")))


rule("tcvt")(lambda step: convert.convert_tile(step))


@other_rule("always-saturates", "tcvt")
def _saturating(step: Step) -> None:
    """Out of range gives the limit without being asked for, NaN gives 0 in 8-bit floats."""
    nan = np.isnan(step.values("src").astype(np.float64))
    convert.convert_tile(replace(step, attrs={**step.attrs, "sat_mode": SaturationMode.ON}))
    if is_small(step.dtype()):
        words = step.gather("dst", *np.ogrid[tuple(map(slice, step.region))])
        step.put(np.where(nan, words.dtype.type(0), words))
