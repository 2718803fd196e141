"""Rearrangements of whole tiles: transposition, concatenation, interleaving, narrowing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from . import convert, layout_img2col
from .irregular_storage import inside, iota, source
from .masks import lanes
from .region import fit, merge, read, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64, UInt

    from .arrays import Words


@rule("ttrans")
def _ttrans(c: Context, inputs: Inputs) -> Outputs:
    """What is valid in src is written, wherever that falls in dst."""
    if c.tile("src").conv is not None:
        return {"dst": layout_img2col.transposed(c, inputs)}
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    words = lanes(inputs, "src").words.T
    written = fit(inside(c, inputs, "src").T, t.shape, np.bool_(False))
    return {"dst": jnp.where(written, fit(words, t.shape, old.dtype.type(0)), old)}


# -- concatenation -----------------------------------------------------------------------------------


def joined(
    first: UInt[Array, "rows _"], second: UInt[Array, "rows _"], count: Int32[Array, ""]
) -> UInt[Array, "rows _"]:
    """The leading ``count`` columns of ``first``, then ``second``; as wide as both together."""
    line = jnp.pad(first, ((0, 0), (0, second.shape[1])))
    return lax.dynamic_update_slice(line, second, (np.int32(0), count))


@rule("tconcat")
def _tconcat(c: Context, inputs: Inputs) -> Outputs:
    if c.has("src0Idx"):
        return _by_counts(c, inputs)
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    count0, count1 = (sizes(c.tile(n), lanes(inputs, n))[1] for n in ("src0", "src1"))
    first, second = (source(c, inputs, n, (t.rows, c.tile(n).cols)) for n in ("src0", "src1"))
    new = fit(joined(first, second, count0), t.shape, old.dtype.type(0))
    written = (iota(t.shape, 0) < sizes(t, lanes(inputs, "dst"))[0]) & (iota(t.shape, 1) < count0 + count1)
    return {"dst": jnp.where(written, new, old)}


@rule("tconcatidx")
def _tconcatidx(c: Context, inputs: Inputs) -> Outputs:
    """Counts are cut to what is valid of their source, and to the room in dst."""
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    v_row, v_col = sizes(t, lanes(inputs, "dst"))
    room, counts = lax.convert_element_type(v_col, np.int64), []
    for name in ("src0", "src1"):
        stated = _count(c, _stored(c, inputs, f"{name}Idx", (t.rows, 1)), name)
        valid = lax.convert_element_type(sizes(c.tile(name), lanes(inputs, name))[1], np.int64)
        taken = jnp.minimum(jnp.minimum(stated, valid), room)
        counts.append(lax.convert_element_type(taken, np.int32))
        room = room - taken
    column, row, first = iota(t.shape, 1), iota(t.shape, 0), counts[0]
    source1 = _stored(c, inputs, "src1", (t.rows, max(t.cols, c.tile("src1").cols)))
    shifted = jnp.take_along_axis(source1, jnp.maximum(column - first, np.int32(0)), axis=1)
    new = jnp.where(column < first, _stored(c, inputs, "src0", t.shape), shifted)
    return {"dst": jnp.where((row < v_row) & (column < first + counts[1]), new, old)}


def _stored(c: Context, inputs: Inputs, name: str, shape: tuple[int, int]) -> Words:
    """A tile's words over ``shape``, whatever of it is valid."""
    words = lanes(inputs, name).words
    return fit(words, shape, words.dtype.type(0))


def _count(c: Context, words: UInt[Array, "*shape"], name: str) -> Int64[Array, "*shape"]:
    """The columns of a source that its stated bytes of the index type stand for, as int64."""
    d = c.dtype(f"{name}Idx")
    wide = lax.convert_element_type(convert.integer(words, d), np.int64)
    return jnp.clip(wide // np.int64(d.word_bits // 8), np.int64(0), np.int64(c.tile(name).cols))


def _by_counts(c: Context, inputs: Inputs) -> Outputs:
    """Every row has its own two counts, in column 0 of the index tiles."""
    t, old, d = c.tile("dst"), lanes(inputs, "dst").words, c.dtype("src0Idx")
    v_row, v_col = sizes(t, lanes(inputs, "dst"))
    stated = [_stored(c, inputs, n, (t.rows, 1)) for n in ("src0Idx", "src1Idx")]
    count, second = (_count(c, w, n) for w, n in zip(stated, ("src0", "src1"), strict=True))
    end = count + second
    total = stated[0] + stated[1]
    if c.profile != "cpu_sim":
        limit = lax.convert_element_type(jnp.maximum(v_col, np.int32(0)), np.int64)
        count, end = jnp.minimum(count, limit), jnp.minimum(end, limit)
        total = lax.convert_element_type(end * np.int64(d.word_bits // 8), d.word)
    count, end = (lax.convert_element_type(n, np.int32) for n in (count, end))
    column, row = iota(t.shape, 1), iota(t.shape, 0)
    source1 = _stored(c, inputs, "src1", (t.rows, max(t.cols, c.tile("src1").cols)))
    shifted = jnp.take_along_axis(source1, jnp.maximum(column - count, np.int32(0)), axis=1)
    new = jnp.where(column < count, _stored(c, inputs, "src0", t.shape), shifted)
    result = {"dst": jnp.where((row < v_row) & (column < end), new, old)}
    if c.has("dstIdx"):
        index = c.tile("dstIdx")
        words = fit(total, (index.rows, 1), d.word.type(0))
        written = (iota(index.shape, 0) < v_row) & (iota(index.shape, 1) == np.int32(0))
        result["dstIdx"] = jnp.where(written, words, lanes(inputs, "dstIdx").words)
    return result


# -- interleaving ------------------------------------------------------------------------------------


@rule("tinterleave")
def _tinterleave(c: Context, inputs: Inputs) -> Outputs:
    """The stream of both sources' columns in turn; dst0 has its first half, dst1 its second."""
    t = c.tile("dst0")
    rows, count = t.rows, sizes(t, lanes(inputs, "dst0"))[1]
    cols = max(c.tile(n).cols for n in ("src0", "src1", "dst0", "dst1"))
    pair = [source(c, inputs, n, (rows, cols)) for n in ("src0", "src1")]
    stream = jnp.stack(pair, axis=-1).reshape(rows, 2 * cols)
    # Which begins at a column of src0.
    second = lax.dynamic_slice(stream, (np.int32(0), count & np.int32(-2)), (rows, cols))
    result = {}
    for name, half in (("dst0", stream[:, :cols]), ("dst1", second)):
        new = fit(half, c.tile(name).shape, stream.dtype.type(0))
        result[name] = merge(c, inputs, new, name, "dst0")
    return result


@rule("tdeinterleave")
def _tdeinterleave(c: Context, inputs: Inputs) -> Outputs:
    """Even columns to dst0, odd columns to dst1; two sources are read one after the other."""
    t = c.tile("dst0")
    stream = source(c, inputs, "src0", (t.rows, c.tile("src0").cols))
    if c.has("src1"):
        second = source(c, inputs, "src1", (t.rows, c.tile("src1").cols))
        stream = joined(stream, second, sizes(t, lanes(inputs, "dst0"))[1])
    result = {}
    for parity, name in enumerate(("dst0", "dst1")):
        new = fit(stream[:, parity::2], c.tile(name).shape, stream.dtype.type(0))
        result[name] = merge(c, inputs, new, name, "dst0")
    return result


# -- narrowing ---------------------------------------------------------------------------------------


@rule("tpack")
def _tpack(c: Context, inputs: Inputs) -> Outputs:
    """Bits are cut, no value is converted."""
    return {"dst": merge(c, inputs, lax.convert_element_type(read(c, inputs, "src"), c.dtype("dst").word))}
