"""Thirteen kinds of bugs that simulators have had, each planted in the reference interpreter."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from pto_jax.ir import BLayout, Op, TileType
from pto_jax.oracle import storage
from pto_jax.oracle.numbers import decode, encode
from pto_jax.oracle.step import Step, place_of
from pto_jax.vectors.compare import is_nan
from tests.campaign.planted.bugs import (
    Change,
    Fault,
    Words,
    WrongInstruction,
    WrongReading,
    after,
    last_odd_column,
    minus_zero,
    wrapping,
)


def _one_scalar_per_row(step: Step, before: Words, now: Words) -> Words:
    """A row broadcast of a block takes the block's first element for all of them."""
    rows, cols = step.region
    for name in ("src0", "src1"):
        width = step.valid(name)[1]
        if 1 < width < cols:
            now[:rows, :cols] = now[:rows, np.arange(cols) // width * width]
    return now


def _saturating_product(step: Step, before: Words, now: Words) -> Words:
    d, (rows, cols) = step.dtype("dst"), step.region
    if d.is_integer and d.bits < 64:
        limits = (-(1 << d.bits - 1), (1 << d.bits - 1) - 1) if d.is_signed else (0, (1 << d.bits) - 1)
        factors = (decode(w, d).astype(np.int64) for w in (step.words("src"), step.scalar("scalar", d)))
        product = np.multiply(*factors)
        now[:rows, :cols] = np.clip(product, *limits).astype(d.numpy).view(d.word)
    return now


def _bits_behind_the_last_column(step: Step, before: Words, now: Words) -> Words:
    rows, cols = step.valid("src0")
    bits = step.dtype("dst").word_bits
    if cols % bits and cols // bits < now.shape[1]:
        now[:rows, cols // bits] |= now.dtype.type((1 << bits) - (1 << cols % bits))
    return now


def _pairwise(step: Step, before: Words, now: Words) -> Words:
    d, (rows, cols) = step.dtype("dst"), step.valid("src")
    if d.name == "f32" and step.dtype("src").name == "f32" and rows * cols:
        with np.errstate(invalid="ignore"):
            values = step.values("src", (rows, cols)).astype(np.float64)
        while values.shape[1] > 1:
            odd = values[:, values.shape[1] & ~1 :]
            with np.errstate(invalid="ignore"):
                pairs = values[:, 0 : values.shape[1] & ~1 : 2] + values[:, 1::2]
            values = np.concatenate([pairs, odd], 1)
        now[:rows, :1] = encode(values, d)
    return now


def _second_of_a_nan(step: Step, before: Words, now: Words) -> Words:
    """A minimum with a NaN is its second source."""
    d, (rows, cols) = step.dtype("dst"), step.region
    if d.is_float:
        a, b = (np.broadcast_to(step.words(n), (rows, cols)) for n in ("src0", "src1"))
        now[:rows, :cols] = np.where(is_nan(d, a) | is_nan(d, b), b, now[:rows, :cols])
    return now


def _short_counts(step: Step, before: Words, now: Words) -> Words:
    """Counts of 16-bit shifts have three bits."""
    d, (rows, cols) = step.dtype("dst"), step.region
    if d.bits == 16:
        a, count = (np.broadcast_to(step.words(n), (rows, cols)) for n in ("src0", "src1"))
        now[:rows, :cols] = np.where(count < 16, a << (count & 7).astype(a.dtype), now[:rows, :cols])
    return now


def _into_its_source(step: Step, right: Callable[[Step], None]) -> None:
    """The first result is written before the other rows are read."""
    src, dst = place_of(step.tile("src")), place_of(step.tile("dst"))
    rows, cols = step.valid("src")
    shared = src.buffer is dst.buffer and dst.address < src.address + storage.storage_size(step.type("src"))
    shared = shared and src.address < dst.address + storage.storage_size(step.type("dst"))
    right(step)
    if shared and rows > 1 and cols:
        now = step.stored("dst").copy()
        now[1:rows, 0] = now[0, 0]
        step.scatter(now, storage.map_of(step.type("dst")))


def _finite_fill(step: Step, before: Words, now: Words) -> Words:
    if step.dtype("dst").name == "f16":
        now[now == 0x7C00] = 0x7BFF
    return now


def _ties_away(step: Step, before: Words, now: Words) -> Words:
    rows, cols = step.region
    if (step.dtype("src").name, step.dtype("dst").name) == ("f32", "bf16"):
        tie = (step.words("src") & 0x1FFFF) == 0x8000
        number = (now[:rows, :cols] & 0x7FFF) < 0x7F00
        now[:rows, :cols][tie & number] += 1
    return now


def _rows_first(op: Op) -> Op:
    """A tile whose columns are contiguous is read row by row."""

    def changed(t: object) -> object:
        if isinstance(t, TileType) and t.blayout == BLayout.COL_MAJOR and t.rows > 1 and t.cols > 1:
            return replace(t, blayout=BLayout.ROW_MAJOR)
        return t

    results = tuple(replace(v, type=changed(v.type)) for v in op.results)  # type: ignore[arg-type]
    return replace(op, results=results)


def _of(name: str, what: str, change: Change) -> WrongInstruction:
    fault: Fault = after(change)
    return WrongInstruction(name, what, fault)


def kinds() -> Iterator[WrongInstruction | WrongReading]:
    """The thirteen."""
    yield _of("trowexpandmul", "a block is broadcast as its first element", _one_scalar_per_row)
    yield _of("tmuls", "integers saturate", _saturating_product)
    yield _of("tmul", "minus zero of f16 is zero", minus_zero("f16"))
    yield _of("tcmp", "bits behind the last column are set", _bits_behind_the_last_column)
    yield _of("trowsum", "sums of f32 are pairwise", _pairwise)
    yield _of("tadds", "the last column of odd widths is left out", last_odd_column)
    yield _of("tmin", "with a NaN the second source", _second_of_a_nan)
    yield _of("tshl", "counts of 16-bit types have three bits", _short_counts)
    yield WrongInstruction(
        "trowmax", "into its source, the rows below have the first result", _into_its_source
    )
    yield _of("taddc", "sums of two small integers wrap", wrapping)
    yield _of("tfillpad", "the largest f16 is filled for infinity", _finite_fill)
    yield _of("tcvt", "ties of f32 to bf16 go away from zero", _ties_away)
    yield WrongReading("treshape", "a tile with contiguous columns is read row by row", _rows_first)
