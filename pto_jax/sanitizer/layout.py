"""Definedness of moves between tiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..isa.layout_img2col import IMG2COL_STATE
from ..oracle.layout_extract import insert, window
from ..oracle.numbers import Array, decode
from ..oracle.quantise import has_relu
from .shadow import first
from .step import ShadeStep, shades

OUT_OF_SOURCE = "count beyond the columns of its source"


def is_plain(step: ShadeStep) -> bool:
    """Whether an instruction moves bits, and changes none of them."""
    quantises = step.is_tile("fp") or "preQuantScalar" in step.operands
    same = step.dtype("src") == step.dtype()
    return same and not quantises and not has_relu(step)


def parameters(step: ShadeStep, columns: Array) -> Array:
    """The words of the parameter row that quantise some columns."""
    if not step.is_tile("fp"):
        return np.zeros((1, 1), np.int32)
    return step.gather("fp", np.zeros((1, 1), np.int64), columns)


@shades("tmov", "tmov.fp")
def _move(step: ShadeStep) -> None:
    if is_plain(step):
        step.moved("src")
        return
    step.put(first(step.raw("src"), parameters(step, np.arange(step.region[1])[None, :])))


@shades("textract", "textract_fp")
def _extract(step: ShadeStep) -> None:
    if step.type("src").conv is not None or is_plain(step):
        step.moved("src")
        return
    codes, columns = window(step)
    step.put(first(codes, parameters(step, columns)))


@shades("tinsert", "tinsert_fp")
def _insert(step: ShadeStep) -> None:
    if is_plain(step):
        step.moved("src")
        return
    region = step.valid("src")
    codes = first(step.raw("src", region), parameters(step, np.arange(region[1])[None, :]))
    insert(step, np.broadcast_to(codes, region))


@shades("ttrans", "tpack")
def _rearrange(step: ShadeStep) -> None:
    step.moved("src")


@shades("tinterleave", "tdeinterleave")
def _interleave(step: ShadeStep) -> None:
    step.moved("src0", "src1")


@shades("tconcat")
def _concatenate(step: ShadeStep) -> None:
    """Counts steer what is copied, and are copied to dstIdx themselves."""
    for name in ("src0Idx", "src1Idx"):
        if step.is_tile(name):
            counts = step.stored(name)[: step.region[0], :1]
            step.sink("index", name, counts)
            allowed = step.type(name.removesuffix("Idx")).cols * step.dtype(name).bits // 8
            given = decode(step.real.stored(name)[: len(counts), :1], step.dtype(name)).astype(np.int64)
            wrong = (given < 0) | (given > allowed)
            step.sink("index", name, np.where(wrong, step.origin(OUT_OF_SOURCE), 0))
    step.moved("src0", "src1")
    if step.is_tile("dstIdx"):
        step.define((step.region[0], 1), "dstIdx")


@shades("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _fill(step: ShadeStep) -> None:
    step.moved("src", attrs={**step.attrs, "padValue": 0})


@shades("timg2col")
def _image_to_column(step: ShadeStep) -> None:
    """Taps outside the image are defined."""
    conv, state = step.type("src").conv, step.attrs.get(IMG2COL_STATE)
    if conv is None:
        return
    ref = step.tile("src")
    unpadded = replace(conv, geometry=replace(conv.geometry, pad_value=0))
    operands = {**step.operands, "src": replace(ref, type=replace(ref.type, conv=unpadded))}
    attrs = {**step.attrs, IMG2COL_STATE: (*state[:-1], 0)} if isinstance(state, tuple) else step.attrs
    step.moved("src", operands=operands, attrs=attrs)
