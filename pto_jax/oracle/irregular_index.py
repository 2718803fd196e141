"""Blocks gathered by byte offset, and scattering by offset or by a repeating pattern."""

import numpy as np

from ..ir import MaskPattern, ScatterAxis
from . import irregular_gather, storage
from .numbers import Array, decode
from .step import Step, rule

BLOCK_BYTES = 32


@rule("tgatherb")
def _tgatherb(step: Step) -> None:
    """Whole blocks; hardware also writes the valid part of a last short one.

    The offsets, which may be in dst's place, are read before anything is written.
    """
    t, (rows, cols) = step.type(), step.region
    source = step.stored("src").reshape(-1).view(np.uint8)
    width = t.dtype.word.itemsize
    per_block = BLOCK_BYTES // width
    blocks = cols // per_block if step.policy.simulator else -(-cols // per_block)
    offsets = step.gather("offset", *np.ogrid[:rows, :blocks])
    for row in range(rows):
        for block in range(blocks):
            offset = int(offsets[row, block])
            if offset + BLOCK_BYTES > source.size:
                continue
            first = block * per_block
            count = min(per_block, cols - first)
            words = source[offset : offset + count * width].copy().view(t.dtype.word)
            step.scatter(words, storage.map_of(t)[row, first : first + count])


@rule("tscatter")
def _tscatter(step: Step) -> None:
    if "indexes" in step.operands:
        _by_offset(step)
    elif step.attrs["maskPattern"] == MaskPattern.P1111:
        _put(step, step.raw("src"))
    elif step.attrs["axis"] == ScatterAxis.SCATTER_ROW:
        _over_columns(step)
    else:
        _over_rows(step)


def _clear(step: Step) -> None:
    """Hardware clears all of dst; sources, which may be in the same place, have been read before."""
    if not step.policy.simulator:
        everything = np.arange(step.type().elements)
        step.scatter(np.zeros(everything.shape, step.dtype().word), everything)


def _put(step: Step, words: Array) -> None:
    _clear(step)
    step.put(words)


def _by_offset(step: Step) -> None:
    """One element after the other, so that the last one stays."""
    region, size = step.valid("indexes"), step.type().elements
    offsets = decode(step.raw("indexes", region), step.dtype("indexes")).reshape(-1)
    words = step.raw("src", region).reshape(-1)
    _clear(step)
    for offset, word in zip(offsets.tolist(), words, strict=True):
        if 0 <= offset < size:
            step.scatter(np.array([word]), np.array([offset]))


def _over_columns(step: Step) -> None:
    (rows, cols), source = step.region, step.type("src")
    picked = irregular_gather.chosen(step, cols)
    order = np.cumsum(picked) - 1
    i = np.arange(rows)[:, None]
    if step.policy.simulator:
        flat = i * int(picked.sum()) + order
        at = flat // source.cols, flat % source.cols
    else:
        at = i, np.broadcast_to(order, (rows, cols))
    _put(
        step, _where(picked[None, :] & _there(step, *at), step.gather("src", *(np.maximum(x, 0) for x in at)))
    )


def _over_rows(step: Step) -> None:
    rows, cols = step.region
    picked = irregular_gather.chosen(step, rows)
    order = np.maximum(np.cumsum(picked) - 1, 0)
    at = order[:, None], np.arange(cols)[None, :]
    _put(step, _where(picked[:, None] & _there(step, *at), step.gather("src", *at)))


def _there(step: Step, rows: Array, columns: Array) -> Array:
    """Elements that hardware has in src; what it has not stays cleared."""
    if step.policy.simulator:
        return np.ones((1, 1), bool)
    v_row, v_col = step.valid("src")
    return np.asarray((rows < v_row) & (columns < v_col))


def _where(picked: Array, words: Array) -> Array:
    return np.where(picked, words, np.zeros_like(words))
