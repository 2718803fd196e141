"""Rules of undefined bits of moves between tiles, windows, pads, rearrangements and image-to-column."""

from dataclasses import replace

import numpy as np

from ..ir import MxGroupAxis
from ..isa.layout import padded
from ..isa.layout_img2col import IMG2COL_STATE
from ..oracle.layout import insert as write_window, window
from ..oracle.numbers import decode
from . import memory, shadow
from .memory import is_plain, parameters
from .shadow import first
from .step import ShadowStep, shadow_rule


@shadow_rule("tmov")
def move(step: ShadowStep) -> None:
    """A copy, or a conversion lane by lane."""
    if memory.is_plain(step):
        step.moved("src")
        return
    step.put(shadow.first(step.raw("src"), memory.parameters(step, np.arange(step.region[1])[None, :])))


OVERWRITTEN = "behind exponents that were put in boxes: hardware clears the rows that fill up the last one"


@shadow_rule("tmov.zz")
def _into_boxes(step: ShadowStep) -> None:
    """A copy; what fills up the last box is zero, in the source too."""
    step.moved("src")
    rows, cols = step.region
    if step.attrs["grpAxis"] == MxGroupAxis.AXIS1:
        behind = np.arange(rows * cols, min(padded(rows) * cols, step.type("src").elements))
        step.lose(OVERWRITTEN, behind, "src")


@shadow_rule("textract")
def extract(step: ShadowStep) -> None:
    """The destination takes a window of the source."""
    if step.type("src").conv is not None or is_plain(step):
        step.moved("src")
        return
    origin_ids, columns = window(step)
    step.put(first(origin_ids, parameters(step, columns)))


@shadow_rule("tinsert")
def insert(step: ShadowStep) -> None:
    """A window of the destination takes the source."""
    if is_plain(step):
        step.moved("src")
        return
    region = step.valid("src")
    origin_ids = first(step.raw("src", region), parameters(step, np.arange(region[1])[None, :]))
    write_window(step, np.broadcast_to(origin_ids, region))


@shadow_rule("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _fill(step: ShadowStep) -> None:
    step.moved("src", attrs={**step.attrs, "padValue": 0})


@shadow_rule("timg2col")
def _image_to_column(step: ShadowStep) -> None:
    """Taps outside the image are defined."""
    conv, state = step.type("src").conv, step.attrs.get(IMG2COL_STATE)
    if conv is None:
        return
    ref = step.tile("src")
    unpadded = replace(conv, geometry=replace(conv.geometry, pad_value=0))
    operands = {**step.operands, "src": replace(ref, type=replace(ref.type, conv=unpadded))}
    attrs = {**step.attrs, IMG2COL_STATE: (*state[:-1], 0)} if isinstance(state, tuple) else step.attrs
    step.moved("src", operands=operands, attrs=attrs)


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
            count = decode(step.real.stored(name)[: len(counts), :1], step.dtype(name)).astype(np.int64)
            wrong = (count < 0) | (count > allowed)
            step.sink("index", name, np.where(wrong, step.origin_of(OUT_OF_SOURCE), 0))
    step.moved("src0", "src1")
    if step.is_tile("dstIdx"):
        step.define((step.region[0], 1), "dstIdx")
