"""Convolution tiles: conversions of their layout, windows of filter weights, and image-to-column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import Conv, Geometry, GlobalLayout, Registers, block_channels, registers
from pto_jax.isa.layout_img2col import IMG2COL_STATE

from .irregular_storage import iota, positions, scalar
from .masks import lanes
from .region import all_ones, merge, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, UInt

    from .arrays import Flat, Words

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
    known = np.pad(np.ones(cut.shape, np.bool_), missing).reshape(split).transpose(axes)
    return jnp.pad(cut, missing).reshape(split).transpose(axes).reshape(-1), known.reshape(-1)


def _extents(conv: Conv, given: tuple[int, ...]) -> dict[str, int]:
    """Extents per letter of a tile; layouts of weights leave all but the blocks to what they hold."""
    stored, shape = _STORED[conv.layout], conv.shape
    size = dict.fromkeys(_LOGICAL, 1)
    if len(stored) == len(shape):
        return size | dict(zip(stored, shape, strict=True))
    groups, _, _, depth, height, width = given
    size |= {"g": groups, "d": depth, "h": height, "w": width}
    size |= {"N": shape[1], "n": shape[2], "c": shape[3]}
    return size | {"C": shape[0] // (groups * depth * height * width)}


def transposed(c: Context, inputs: Inputs) -> Words:
    """A tile in the layout of dst; elements of dst that src does not have stay."""
    old, src = lanes(inputs, "dst"), lanes(inputs, "src")
    source, target = c.tile("src").conv, c.tile("dst").conv
    assert source is not None and target is not None
    new, known = packed(unpacked(src.words, source.layout, source.shape), target)
    return jnp.where(known.reshape(1, -1), new.reshape(1, -1), old.words)


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
    wanted = (row + iota(grid, 0)) * np.int32(line) + col + iota(grid, 1)
    found = boxes.at[wanted].get(mode="fill", fill_value=all_ones(src.dtype))
    window = found.transpose(0, 3, 1, 2).reshape(t.shape)
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
    found = words.at[jnp.where(hit, where, np.int32(0))].get(mode="fill", fill_value=all_ones(d))
    pad = d.word.type(image.pad_word & ((1 << d.word_bits) - 1))
    return {"dst": merge(c, inputs, jnp.where(hit, found, pad))}


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
