"""Comparison into packed masks, selection by a mask, and element type conversion."""

from __future__ import annotations

import numpy as np

from ..ir.types import CmpMode
from . import masks
from .convert import convert_tile
from .step import Step, rule


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


rule("tcvt")(lambda step: convert_tile(step))
