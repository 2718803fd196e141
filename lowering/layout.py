"""Rules of moves between tiles: copies, windows, pads, rearrangements, exponents, image-to-column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import (
    Conv,
    DType,
    Geometry,
    GlobalLayout,
    Loc,
    MxGroupAxis,
    Registers,
    block_channels,
    registers,
)
from pto_jax.isa.layout import BOX_COLS, BOX_ROWS
from pto_jax.isa.layout_img2col import IMG2COL_STATE

from . import bits, convert, irregular, memory, quantise, region, slicing
from .irregular import inside, iota, positions, scalar, source
from .region import all_ones, fit, lanes, merge, read, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Int64, UInt

    from .bits import Flat, Size, Words


# -- conversions of layout ---------------------------------------------------------------------------

#: Dimensions in storage order: g n c d h w as usual; where a block of channels or images is innermost,
#: C and N count blocks and c and n the elements of one.
_STORED = {
    GlobalLayout.NCHW: "nchw",
    GlobalLayout.GNCHW: "gnchw",
    GlobalLayout.NCDHW: "ncdhw",
    GlobalLayout.NHWC: "nhwc",
    GlobalLayout.NC1HWC0: "nChwc",
    GlobalLayout.GNC1HWC0: "gnChwc",
    GlobalLayout.NDC1HWC0: "ndChwc",
    GlobalLayout.FRACTAL_Z: "gChwNnc",
    GlobalLayout.FRACTAL_Z_3D: "dChwNnc",
}
#: Order of the intermediate form; each pair of block and element is adjacent.
_LOGICAL = "gNnCcdhw"
#: Extents of groups, images, channels, depth, height, width.
Extents = tuple[int, int, int, int, int, int]


def unpacked(
    words: Words, layout: GlobalLayout, shape: tuple[int, ...]
) -> UInt[Array, "groups images channels depth height width"]:
    """[groups, images, channels, depth, height, width] of a tile's elements."""
    stored = _STORED[layout]
    extents = dict(zip(stored, shape, strict=True))
    missing = [n for n in _LOGICAL if n not in stored]
    x = words.reshape((1,) * len(missing) + shape)
    order = [*missing, *stored]
    x = x.transpose([order.index(n) for n in _LOGICAL])
    size = {n: extents.get(n, 1) for n in _LOGICAL}
    joined = (size["g"], size["N"] * size["n"], size["C"] * size["c"], size["d"], size["h"], size["w"])
    return x.reshape(joined)


def packed(
    x: UInt[Array, "groups images channels depth height width"], conv: Conv
) -> tuple[Flat, Bool[np.ndarray, " elements"]]:
    """The elements of a tile in storage order, and which of them ``x`` has; the others are zero."""
    size = _extents(conv, x.shape)
    logical = (size["g"], size["N"] * size["n"], size["C"] * size["c"], size["d"], size["h"], size["w"])
    cut = x[tuple(slice(n) for n in logical)]
    missing = [(0, n - have) for n, have in zip(logical, cut.shape, strict=True)]
    stored = _STORED[conv.layout]
    order = [*(n for n in _LOGICAL if n not in stored), *stored]
    axes = [_LOGICAL.index(n) for n in order]
    split = [size[n] for n in _LOGICAL]
    mask = np.pad(np.ones(cut.shape, np.bool_), missing).reshape(split).transpose(axes)
    return jnp.pad(cut, missing).reshape(split).transpose(axes).reshape(-1), mask.reshape(-1)


def _extents(conv: Conv, extents: tuple[int, ...]) -> dict[str, int]:
    """Extents per letter of a tile; layouts of weights leave all but the blocks to what they hold."""
    stored, shape = _STORED[conv.layout], conv.shape
    size = dict.fromkeys(_LOGICAL, 1)
    if len(stored) == len(shape):
        return size | dict(zip(stored, shape, strict=True))
    groups, _, _, depth, height, width = extents
    size |= {"g": groups, "d": depth, "h": height, "w": width}
    size |= {"N": shape[1], "n": shape[2], "c": shape[3]}
    return size | {"C": shape[0] // (groups * depth * height * width)}


def transposed(c: Context, inputs: Inputs) -> Words:
    """A tile in the layout of dst; elements of dst that src does not have stay."""
    old, src = lanes(inputs, "dst"), lanes(inputs, "src")
    source, target = c.tile("src").conv, c.tile("dst").conv
    assert source is not None and target is not None
    new, mask = packed(unpacked(src.words, source.layout, source.shape), target)
    return jnp.where(mask.reshape(1, -1), new.reshape(1, -1), old.words)


# -- windows of filter weights -----------------------------------------------------------------------

#: Images of one box of weights.
BOX_IMAGES = 16


def extracted(c: Context, inputs: Inputs) -> Words:
    """Whole boxes of weights, from the box that the offsets lie in; beyond the tile all ones."""
    t, src, old = c.tile("dst"), c.tile("src"), lanes(inputs, "dst")
    assert src.conv is not None
    channels, shape = block_channels(src.dtype), src.conv.shape
    images = shape[3] if len(shape) == 5 else shape[1] * shape[2]
    size, line = channels * BOX_IMAGES, max(1, images // BOX_IMAGES)
    rows = src.elements // (size * line)
    boxes = lanes(inputs, "src").words.reshape(-1)[: rows * line * size].reshape(-1, BOX_IMAGES, channels)
    row, col = (
        positions(scalar(inputs, name), c.dtype(name), extent * box) // np.int32(box)
        for name, extent, box in (("indexRow", rows, channels), ("indexCol", line, BOX_IMAGES))
    )
    grid = (t.rows // channels, t.cols // BOX_IMAGES)
    number = (row + iota(grid, 0)) * np.int32(line) + col + iota(grid, 1)
    words = boxes.at[number].get(mode="fill", fill_value=all_ones(src.dtype))
    window = words.transpose(0, 3, 1, 2).reshape(t.shape)
    row, col = (
        (n + np.int32(box - 1)) // np.int32(box) * np.int32(box)
        for n, box in zip(sizes(t, old), (channels, BOX_IMAGES), strict=True)
    )
    return jnp.where((iota(t.shape, 0) < row) & (iota(t.shape, 1) < col), window, old.words)


# -- image-to-column ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Image:
    """A feature map in storage, and how the filter goes over it."""

    images: int
    depth: int
    blocks: int
    channels: int
    height: int
    width: int
    left: int
    top: int
    places: tuple[int, int]
    pad_word: int
    geometry: Geometry


def _image(c: Context) -> Image:
    """On hardware the size of the image and its padding are what the registers hold."""
    conv = c.tile("src").conv
    assert conv is not None
    state = registers(conv)
    if c.profile == "cpu_sim":
        state = (*conv.image, *state[2:])
    else:
        state = cast(Registers, c.attrs.get(IMG2COL_STATE) or state)
    height, width, left, right, top, bottom, pad = state
    g = conv.geometry
    places = (
        (height + top + bottom - g.dilation[0] * (g.filter[0] - 1) - 1) // g.stride[0] + 1,
        (width + left + right - g.dilation[1] * (g.filter[1] - 1) - 1) // g.stride[1] + 1,
    )
    depth = conv.shape[1] if conv.layout == GlobalLayout.NDC1HWC0 else 1
    size = (conv.shape[0], depth, conv.shape[-4], conv.shape[-1])
    return Image(*size, height, width, left, top, places, pad, g)


@rule("timg2col")
def _timg2col(c: Context, inputs: Inputs) -> Outputs:
    """Row m is a place of the filter, column k an element under it."""
    t, d = c.tile("dst"), c.tile("src").dtype
    image = _image(c)
    g, (down, across) = image.geometry, image.places
    m, k = (
        iota(shape, axis) + _position(c, inputs, name)
        for name, axis, shape in (("posM", 0, (t.rows, 1)), ("posK", 1, (1, t.cols)))
    )
    n, deep, oy, ox = _mixed(m, (image.depth, down, across))
    block, ky, kx, channel = _mixed(k, (g.filter[0], g.filter[1], image.channels))
    y = oy * np.int32(g.stride[0]) + ky * np.int32(g.dilation[0]) - np.int32(image.top)
    x = ox * np.int32(g.stride[1]) + kx * np.int32(g.dilation[1]) - np.int32(image.left)
    hit = (n < np.int32(image.images)) & (block < np.int32(image.blocks))
    hit &= (
        (y >= np.int32(0)) & (y < np.int32(image.height)) & (x >= np.int32(0)) & (x < np.int32(image.width))
    )
    if g.channels and c.profile != "cpu_sim":
        hit &= block * np.int32(image.channels) + channel < np.int32(g.channels)
    where = n * np.int32(image.depth) + deep
    for index, extent in (
        (block, image.blocks),
        (y, image.height),
        (x, image.width),
        (channel, image.channels),
    ):
        where = where * np.int32(extent) + index
    words = lanes(inputs, "src").words.reshape(-1)
    pixels = words.at[jnp.where(hit, where, np.int32(0))].get(mode="fill", fill_value=all_ones(d))
    pad = d.word.type(image.pad_word & ((1 << d.word_bits) - 1))
    return {"dst": merge(c, inputs, jnp.where(hit, pixels, pad))}


def _position(c: Context, inputs: Inputs, name: str) -> Int32[Array, ""] | np.int32:
    """A position, of which the instruction has 16 bits."""
    if not c.has(name):
        return np.int32(0)
    word = scalar(inputs, name)
    return lax.convert_element_type(word & word.dtype.type(0xFFFF), np.int32)


def _mixed(number: Int32[Array, "*shape"], bases: tuple[int, ...]) -> tuple[Int32[Array, "*shape"], ...]:
    """The digits of a number in mixed base, highest first; the highest is not bounded."""
    digits = []
    for base in reversed(bases):
        size = np.int32(max(base, 1))
        digits.append(number % size)
        number = number // size
    return (number, *reversed(digits))


@rule("tmov")
def move(c: Context, inputs: Inputs) -> Outputs:
    """A logical copy; differing element types convert as a C++ cast does.

    The simulator moves with a scalar parameter as without one.
    """
    words, d = region.read(c, inputs, "src"), c.dtype("dst")
    if c.has("fp") or (c.has("preQuantScalar") and c.profile != "cpu_sim"):
        return {"dst": region.within(c, inputs, quantise.through(c, inputs, words, d))}
    new = convert.cast(words, c.dtype("src"), d)
    if quantise.has_relu(c):
        new = jnp.where(_negative(new, d), d.word.type(0), new)
    return {"dst": region.within(c, inputs, new)}


def _negative(words: UInt[Array, "*shape"], dtype: DType) -> Bool[Array, "*shape"]:
    """Values below zero: neither NaN nor -0."""
    if dtype.is_float:
        return bits.decode(words, dtype) < np.float64(0)
    native = convert.integer(words, dtype)
    below: Array = native < native.dtype.type(0)
    return below


_ROWS, _COLS, _ONE = np.int32(BOX_ROWS), np.int32(BOX_COLS), np.int32(1)
_BOX = _ROWS * _COLS


@rule("tmov.zz")
def _into_boxes(c: Context, inputs: Inputs) -> Outputs:
    """Every element of dst, by its number, takes the element of src that belongs there."""
    down = c.attrs["grpAxis"] == MxGroupAxis.AXIS0
    name, old = "src" if down else "dst", irregular.flat(c, inputs, "src")
    rows, cols = region.sizes(c.tile(name), region.lanes(inputs, name))
    number = irregular.iota((c.tile("dst").elements,), 0)
    row, col, boxes = _down(number, rows, cols) if down else _across(number, rows, cols)
    words = old.at[row * cols + col].get(mode="fill", fill_value=0)
    words = jnp.where(row < rows, words, old.dtype.type(0))
    return {"dst": irregular.store_first(c, inputs, "dst", words, boxes * _BOX)}


def _across(
    number: Int32[Array, " elements"], rows: Size, cols: Size
) -> tuple[Int32[Array, " elements"], Int32[Array, " elements"], Size]:
    """Row and column of exponents in boxes that follow each other along the rows; how many boxes."""
    box, line, side = _place(number)
    pairs = cols // _COLS
    divisor = jnp.maximum(pairs, _ONE)
    row, col = box // divisor * _ROWS + line, box % divisor * _COLS + side
    return row, col, (rows + _ROWS - _ONE) // _ROWS * pairs


def _down(
    number: Int32[Array, " elements"], rows: Size, cols: Size
) -> tuple[Int32[Array, " elements"], Int32[Array, " elements"], Size]:
    """As :func:`_across`, in boxes that follow each other down the columns, with rows side by side."""
    box, line, side = _place(number)
    pairs = rows // _COLS
    divisor = jnp.maximum(pairs, _ONE)
    row, col = box % divisor * _COLS + side, box // divisor * _ROWS + line
    return row, col, cols // _ROWS * pairs


def _place(
    number: Int32[Array, " elements"],
) -> tuple[Int32[Array, " elements"], Int32[Array, " elements"], Int32[Array, " elements"]]:
    """The box of an element, its line in there, and its place in the line."""
    return number // _BOX, number % _BOX // _COLS, number % _COLS


def _start(c: Context, inputs: Inputs, name: str) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Row and column offset as int32; what is not inside the tile ``name`` is its size."""
    t = c.tile(name)
    row, col = (
        positions(scalar(inputs, n), c.dtype(n), limit)
        for n, limit in (("indexRow", t.rows), ("indexCol", t.cols))
    )
    return row, col


@rule("textract")
def extract(c: Context, inputs: Inputs) -> Outputs:
    """The window of src from (indexRow, indexCol) on, all bits set outside src.

    Of a convolution tile it is a window of its img2col.
    """
    if c.tile("src").conv is not None:
        return {"dst": extracted(c, inputs)}
    t, fill = c.tile("dst"), region.all_ones(c.dtype("src"))
    whole = jnp.pad(source(c, inputs, "src"), ((0, t.rows), (0, t.cols)), constant_values=fill)
    start = _start(c, inputs, "src")
    window = slicing.slice_at(whole, start, t.shape)
    return {"dst": region.merge(c, inputs, quantise.through(c, inputs, window, t.dtype, first=start[1]))}


@rule("tinsert")
def insert(c: Context, inputs: Inputs) -> Outputs:
    """What is valid in src is written; nothing outside dst is."""
    t, src = c.tile("dst"), c.tile("src")
    new, start = quantise.through(c, inputs, lanes(inputs, "src").words, t.dtype), _start(c, inputs, "dst")
    whole = jnp.pad(lanes(inputs, "dst").words, ((0, src.rows), (0, src.cols)))
    window = slicing.slice_at(whole, start, src.shape)
    window = jnp.where(inside(c, inputs, "src"), new, window)
    return {"dst": slicing.with_slice(whole, window, start)[: t.rows, : t.cols]}


def _pad(c: Context) -> np.unsignedinteger:
    """The word to fill with: the low bits of padValue, else what dst's type says."""
    t, custom = c.tile("dst"), c.attrs.get("padValue")
    if isinstance(custom, int):
        return t.dtype.word.type(custom & ((1 << t.dtype.storage_bits) - 1))
    return memory.pad_word(t.dtype, t.pad, c.profile)


@rule("tfillpad", "tfillpad_inplace", "tfillpad_expand", keeps_doubts=True)
def _tfillpad(c: Context, inputs: Inputs) -> Outputs:
    """The simulator fills all of dst, hardware the rows that are valid in it; nothing if dst is empty."""
    t, old = c.tile("dst"), region.lanes(inputs, "dst").words
    words = region.lanes(inputs, "src").valid
    kept = region.fit(irregular.inside(c, inputs, "src"), t.shape, np.bool_(False))
    new = jnp.where(kept, region.fit(words, t.shape, old.dtype.type(0)), _pad(c))
    if t.valid == t.shape and t.elements:
        return {"dst": new}
    v_row, v_col = region.sizes(t, region.lanes(inputs, "dst"))
    mask = (v_row > np.int32(0)) & (v_col > np.int32(0))
    if c.profile != "cpu_sim" and t.loc == Loc.VEC:
        mask = mask & (irregular.iota(t.shape, 0) < v_row)
    return {"dst": region.surrounded(c, jnp.where(mask, new, old), new)}


@rule("ttrans")
def _ttrans(c: Context, inputs: Inputs) -> Outputs:
    """What is valid in src is written, wherever that falls in dst."""
    if c.tile("src").conv is not None:
        return {"dst": transposed(c, inputs)}
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
    mask = (iota(t.shape, 0) < sizes(t, lanes(inputs, "dst"))[0]) & (iota(t.shape, 1) < count0 + count1)
    return {"dst": jnp.where(mask, new, old)}


@rule("tconcatidx")
def _tconcatidx(c: Context, inputs: Inputs) -> Outputs:
    """Counts are cut to what is valid of their source, and to the room in dst."""
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    v_row, v_col = sizes(t, lanes(inputs, "dst"))
    room, counts = lax.convert_element_type(v_col, np.int64), []
    for name in ("src0", "src1"):
        stated = _count(c, _stored(inputs, f"{name}Idx", (t.rows, 1)), name)
        valid = lax.convert_element_type(sizes(c.tile(name), lanes(inputs, name))[1], np.int64)
        count = jnp.minimum(jnp.minimum(stated, valid), room)
        counts.append(lax.convert_element_type(count, np.int32))
        room = room - count
    column, row, first = iota(t.shape, 1), iota(t.shape, 0), counts[0]
    source1 = _stored(inputs, "src1", (t.rows, max(t.cols, c.tile("src1").cols)))
    shifted = jnp.take_along_axis(source1, jnp.maximum(column - first, np.int32(0)), axis=1)
    new = jnp.where(column < first, _stored(inputs, "src0", t.shape), shifted)
    return {"dst": jnp.where((row < v_row) & (column < first + counts[1]), new, old)}


def _stored(inputs: Inputs, name: str, shape: tuple[int, int]) -> Words:
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
    stated = [_stored(inputs, n, (t.rows, 1)) for n in ("src0Idx", "src1Idx")]
    count, second = (_count(c, w, n) for w, n in zip(stated, ("src0", "src1"), strict=True))
    end = count + second
    total = stated[0] + stated[1]
    if c.profile != "cpu_sim":
        limit = lax.convert_element_type(jnp.maximum(v_col, np.int32(0)), np.int64)
        count, end = jnp.minimum(count, limit), jnp.minimum(end, limit)
        total = lax.convert_element_type(end * np.int64(d.word_bits // 8), d.word)
    count, end = (lax.convert_element_type(n, np.int32) for n in (count, end))
    column, row = iota(t.shape, 1), iota(t.shape, 0)
    source1 = _stored(inputs, "src1", (t.rows, max(t.cols, c.tile("src1").cols)))
    shifted = jnp.take_along_axis(source1, jnp.maximum(column - count, np.int32(0)), axis=1)
    new = jnp.where(column < count, _stored(inputs, "src0", t.shape), shifted)
    result = {"dst": jnp.where((row < v_row) & (column < end), new, old)}
    if c.has("dstIdx"):
        index = c.tile("dstIdx")
        words = fit(total, (index.rows, 1), d.word.type(0))
        mask = (iota(index.shape, 0) < v_row) & (iota(index.shape, 1) == np.int32(0))
        result["dstIdx"] = jnp.where(mask, words, lanes(inputs, "dstIdx").words)
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
