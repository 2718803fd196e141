"""Convolution tiles: conversion of layouts, windows of weights, image-to-column."""

import numpy as np

from ..ir import Conv, GlobalLayout, Registers, block_channels, registers
from ..isa.layout_img2col import IMG2COL_STATE, weight_boxes
from .numbers import Array
from .step import Step, not_executable, rule

_G = GlobalLayout
_BOX = 16


def convert(step: Step) -> None:
    """Every element of the source goes to its place, as far as the destination has one."""
    src, dst = step.type("src").conv, step.type().conv
    if src is None or dst is None:
        raise not_executable(step.op, "is not executed between a convolution tile and another one")
    words = step.stored("src").reshape(-1)
    index = np.unravel_index(np.arange(src.elements), src.shape)
    places = _places(step, src, dst, index, block_channels(step.dtype()))
    inside = np.logical_and.reduce([p < n for p, n in zip(places, dst.shape, strict=True)])
    at = np.ravel_multi_index(tuple(p[inside] for p in places), dst.shape)
    step.scatter(words[inside], at)


def _places(step: Step, src: Conv, dst: Conv, i: tuple[Array, ...], c0: int) -> tuple[Array, ...]:
    """Indices in the destination of every element of the source."""
    match src.layout, dst.layout:
        case _G.NCHW, _G.NC1HWC0:
            return i[0], i[1] // c0, i[2], i[3], i[1] % c0
        case _G.NC1HWC0, _G.NCHW:
            return i[0], i[1] * c0 + i[4], i[2], i[3]
        case _G.GNCHW, _G.GNC1HWC0:
            return i[0], i[1], i[2] // c0, i[3], i[4], i[2] % c0
        case _G.GNC1HWC0, _G.GNCHW:
            return i[0], i[1], i[2] * c0 + i[5], i[3], i[4]
        case _G.NC1HWC0, _G.FRACTAL_Z:
            _, _, h, w, _ = src.shape
            n0 = dst.shape[2]
            return (i[1] * h + i[2]) * w + i[3], i[0] // n0, i[0] % n0, i[4]
        case _G.GNC1HWC0, _G.FRACTAL_Z:
            _, _, c1, h, w, _ = src.shape
            n0 = dst.shape[2]
            return ((i[0] * c1 + i[2]) * h + i[3]) * w + i[4], i[1] // n0, i[1] % n0, i[5]
        case _G.NCDHW, _G.FRACTAL_Z_3D:
            _, c, _, h, w = src.shape
            n0, block = dst.shape[2], dst.shape[3]
            c1 = -(-c // block)
            row = ((i[2] * c1 + i[1] // block) * h + i[3]) * w + i[4]
            return row, i[0] // n0, i[0] % n0, i[1] % block
    pair = f"{src.layout.name.lower()} to {dst.layout.name.lower()}"
    raise not_executable(step.op, f"is not executed from {pair}")


def extract_weights(step: Step) -> None:
    """Whole boxes of filter weights go to a matrix tile whose boxes are stored one after the other."""
    src, dst = step.type("src"), step.type()
    c0 = block_channels(dst.dtype)
    box = _BOX * c0
    _, stride = weight_boxes(src)
    rows, cols = step.region
    first_row, first_col = int(step.operands["indexRow"]) // c0, int(step.operands["indexCol"]) // _BOX
    words = step.stored("src").reshape(-1)
    ones = np.full(box, (1 << dst.dtype.word_bits) - 1, words.dtype)
    inner = np.arange(box)
    for k in range(-(-rows // c0)):
        for n in range(-(-cols // _BOX)):
            at = (first_row + k) * stride + first_col + n
            inside = at >= 0 and (at + 1) * box <= len(words)
            place = (k * (dst.cols // _BOX) + n) * box
            if place + box <= dst.elements:
                step.scatter(words[at * box + inner] if inside else ones, place + inner)


@rule("timg2col")
def _image_to_column(step: Step) -> None:
    src, dst = step.type("src"), step.type()
    conv = src.conv
    if conv is None:
        raise not_executable(step.op, "is not executed on an ordinary tile; a convolution tile is needed")
    height, width, left, right, top, bottom, pad = _geometry(step, conv)
    g, c0 = conv.geometry, conv.shape[-1]
    images, depth, blocks = conv.shape[0], 1, conv.shape[1]
    if conv.layout == _G.NDC1HWC0:
        depth, blocks = conv.shape[1:3]
    out_h = (height + top + bottom - g.dilation[0] * (g.filter[0] - 1) - 1) // g.stride[0] + 1
    out_w = (width + left + right - g.dilation[1] * (g.filter[1] - 1) - 1) // g.stride[1] + 1
    r, c = np.ogrid[tuple(map(slice, step.region))]
    m, k = r + _start(step, "posM"), c + _start(step, "posK")
    # Sizes of zero leave no output position; every row is then beyond the last image.
    plane = max(out_h, 0) * max(out_w, 0)
    n = m // (depth * plane) if plane else np.full_like(m, images)
    d, oy, ox = m // max(plane, 1) % depth, m // max(out_w, 1) % max(out_h, 1), m % max(out_w, 1)
    c1, channel = k // (c0 * g.filter[0] * g.filter[1]), k % c0
    ky, kx = k // c0 // g.filter[1] % g.filter[0], k // c0 % g.filter[1]
    y = oy * g.stride[0] + ky * g.dilation[0] - top
    x = ox * g.stride[1] + kx * g.dilation[1] - left
    taken = (n < images) & (c1 < blocks) & (y >= 0) & (y < height) & (x >= 0) & (x < width)
    if g.channels and not step.policy.simulator:
        taken &= c1 * c0 + channel < g.channels
    at = ((((n * depth + d) * blocks + c1) * height + y) * width + x) * c0 + channel
    words = step.stored("src").reshape(-1)
    read = _or_ones(words, np.where(taken, at, 0))
    fill = dst.dtype.word.type(pad & ((1 << dst.dtype.word_bits) - 1))
    step.put(np.where(taken, read, fill))


def _or_ones(words: Array, at: Array) -> Array:
    """Elements of a tile; all ones beyond it."""
    ones = words.dtype.type((1 << 8 * words.dtype.itemsize) - 1)
    return np.where(at < len(words), words[np.minimum(at, len(words) - 1)], ones)


def _geometry(step: Step, conv: Conv) -> Registers:
    """Sizes, paddings and the padding value: those of the tile, or what the registers hold."""
    state = step.attrs.get(IMG2COL_STATE)
    if step.policy.simulator:
        return (*conv.image, *conv.geometry.padding, conv.geometry.pad_value)
    if not isinstance(state, tuple):
        return registers(conv)
    height, width, left, right, top, bottom, value = (n if isinstance(n, int) else 0 for n in state)
    return height, width, left, right, top, bottom, value


def _start(step: Step, name: str) -> int:
    return int(step.operands[name]) if name in step.operands else 0
