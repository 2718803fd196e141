"""NumPy rules of moves between tiles: copies, windows, pads, rearrangements, exponents, image-to-column."""

from dataclasses import replace

import numpy as np

from ..ir import Conv, GlobalLayout, Loc, MxGroupAxis, Pad, Registers, block_channels, registers
from ..isa.layout_img2col import IMG2COL_STATE, weight_boxes
from . import convert, memory, numbers, quantise, storage
from .numbers import Array, decode
from .quantise import cast_words, has_relu, outgoing, row_parameters, scalar_parameter
from .step import Step, not_executable, other_rule, rule

_G = GlobalLayout
_BOX = 16


def img2col_value(step: Step) -> None:
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
        raise not_executable(step.op, "got an ordinary tile as src; allowed: a convolution tile")
    height, width, left, right, top, bottom, pad = _geometry(step, conv)
    g, c0 = conv.geometry, conv.shape[-1]
    images, depth, blocks = conv.shape[0], 1, conv.shape[1]
    if conv.layout == _G.NDC1HWC0:
        depth, blocks = conv.shape[1:3]
    out_h = (height + top + bottom - g.dilation[0] * (g.filter[0] - 1) - 1) // g.stride[0] + 1
    out_w = (width + left + right - g.dilation[1] * (g.filter[1] - 1) - 1) // g.stride[1] + 1
    r, c = np.ogrid[tuple(map(slice, step.region))]
    m, k = r + _img2col_start(step, "posM"), c + _img2col_start(step, "posK")
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


def _img2col_start(step: Step, name: str) -> int:
    return int(step.operands[name]) if name in step.operands else 0


@rule("tmov")
def _tmov(step: Step) -> None:
    """Every lane of the destination's valid region, through both layouts.

    The simulator has no use for a scalar parameter. Without parameters the clamp comes after the
    conversion and clears what is negative only.
    """
    words, parameters = step.raw("src"), None
    if step.is_tile("fp"):
        parameters = row_parameters(step, np.arange(step.region[1])[None, :])
    elif not step.policy.simulator:
        parameters = scalar_parameter(step)
    if parameters is not None:
        step.put(outgoing(step, words, step.dtype(), parameters))
        return
    result = cast_words(words, step.dtype("src"), step.dtype())
    if has_relu(step):
        result = np.where(decode(result, step.dtype()) < 0, np.zeros_like(result), result)
    step.put(result)


@rule("tmov.zz")
def _into_boxes(step: Step) -> None:
    """Box k holds two exponents for each of 16 lines; both axes differ in where these are in the source."""
    down = step.attrs["grpAxis"] == MxGroupAxis.AXIS0
    rows, cols = step.valid("src") if down else step.valid("dst")
    line, side = np.divmod(np.arange(32), 2)
    parts = []
    if down:
        for column in range(cols // 16):
            for row in range(rows // 2):
                parts.append(_exponents(step, 2 * row + side, 16 * column + line, rows, cols))
    else:
        for row in range(0, rows, 16):
            for column in range(cols // 2):
                parts.append(_exponents(step, row + line, 2 * column + side, rows, cols))
    words = np.concatenate(parts) if parts else np.zeros(0, step.dtype().word)
    words = words[: step.type().elements]
    step.scatter(words, np.arange(len(words)))


def _exponents(step: Step, r: Array, c: Array, rows: int, cols: int) -> Array:
    """Elements (r, c) of the exponents as they follow each other in the source; zeros beyond its rows."""
    position = r * cols + c
    inside = (r < rows) & (position < step.type("src").elements)
    words = storage.read_words(*step.cells("src", np.where(inside, position, 0)))
    return np.where(inside, words, np.zeros_like(words))


@rule("textract")
def _extract(step: Step) -> None:
    if step.type("src").conv is not None:
        extract_weights(step)
        return
    step.put(quantise.outgoing(step, window(step)[0], step.dtype(), quantise.scalar_parameter(step)))


@rule("tinsert")
def _insert(step: Step) -> None:
    words = step.raw("src", step.valid("src"))
    insert(step, quantise.outgoing(step, words, step.dtype(), quantise.scalar_parameter(step)))


def window(step: Step) -> tuple[numbers.Array, numbers.Array]:
    """Words of the source in the window, and its columns there.

    Positions beyond the physical source read as all ones.
    """
    row, col = _start(step, "src")
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    return step.gather("src", rows + row, cols + col), cols + col


def insert(step: Step, words: numbers.Array) -> None:
    """Write words of the destination's type into its window; what lies beyond it is dropped."""
    row, col = _start(step, "dst")
    places = storage.map_of(step.type())[row:, col:]
    words = words[: places.shape[0], : places.shape[1]]
    step.scatter(words, places[: words.shape[0], : words.shape[1]])


def _start(step: Step, large: str) -> tuple[int, int]:
    """Where the window starts; outside the larger tile is just beyond its end."""
    t = step.type(large)
    row, col = int(step.operands["indexRow"]), int(step.operands["indexCol"])
    return (row if 0 <= row < t.rows else t.rows, col if 0 <= col < t.cols else t.cols)


@rule("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _fill(step: Step) -> None:
    dst, (v_row, v_col) = step.type(), step.valid("dst")
    if not (v_row and v_col):
        return
    whole = step.policy.simulator or dst.loc == Loc.MAT
    extent = (dst.rows if whole else v_row, dst.cols)
    filled = np.full(extent, _pad(step), dst.dtype.word)
    copied = step.raw("src", step.valid("src"))[: extent[0], : extent[1]]
    filled[: copied.shape[0], : copied.shape[1]] = copied
    step.scatter(filled, storage.map_of(dst)[: extent[0]])


@other_rule("finite-pads", "tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _finite(step: Step) -> None:
    """Pads max and min are the largest finite numbers."""
    _fill_with(step, convert.extreme(step.dtype(), largest=step.type().pad != Pad.MIN))


@other_rule("minus-one", "tfillpad")
def _minus_one(step: Step) -> None:
    """Pad zero stands for -1, which no type can say."""
    _fill_with(step, int(numbers.encode(np.array([-1.0]), step.dtype())[0]))


def _fill_with(step: Step, word: int) -> None:
    _fill(replace(step, attrs={**step.attrs, "padValue": word}))


def _pad(step: Step) -> np.generic | numbers.Array:
    dst = step.type()
    value = step.attrs.get("padValue")
    if isinstance(value, int):
        return dst.dtype.word.type(value & ((1 << dst.dtype.bits) - 1))
    return memory.pad_word(dst, wide=False)


@rule("ttrans")
def _transpose(step: Step) -> None:
    """What the source is valid in decides; the destination's valid region does not."""
    if step.type("src").conv is not None or step.type().conv is not None:
        img2col_value(step)
        return
    rows, cols = step.type().shape
    turned = step.raw("src", step.valid("src")).T[:rows, :cols]
    step.put(turned, turned.shape)


@rule("tconcat")
def _concatenate(step: Step) -> None:
    if "src0Idx" in step.operands:
        _by_counts(step)
        return
    rows = step.valid("dst")[0]
    parts = [step.raw(name, (rows, step.valid(name)[1])) for name in ("src0", "src1")]
    joined = np.concatenate(parts, axis=1)[:, : step.type().cols]
    step.put(joined, joined.shape)


def _by_counts(step: Step) -> None:
    t, (rows, cols) = step.type(), step.valid("dst")
    first, second, places = step.stored("src0"), step.stored("src1"), storage.map_of(t)
    bytes0, bytes1 = _counts(step, "src0Idx"), _counts(step, "src1Idx")
    width = step.dtype("src0Idx").bits // 8
    for r in range(rows):
        n0 = min(max(bytes0[r], 0) // width, first.shape[1])
        n1 = min(max(bytes1[r], 0) // width, second.shape[1])
        if not step.policy.simulator:
            n0 = min(n0, cols)
            n1 = min(n0 + n1, cols) - n0
        joined = np.concatenate([first[r, :n0], second[r, :n1]])[: t.cols]
        step.scatter(joined, places[r, : len(joined)])
        if "dstIdx" in step.operands:
            total = bytes0[r] + bytes1[r] if step.policy.simulator else (n0 + n1) * width
            word = np.array([total & ((1 << 8 * width) - 1)]).astype(step.dtype("dstIdx").word)
            step.scatter(word, storage.map_of(step.type("dstIdx"))[r, :1], "dstIdx")


@rule("tconcatidx")
def _concatenate_counted(step: Step) -> None:
    rows, cols = step.valid("dst")
    width, places = step.dtype("src0Idx").bits // 8, storage.map_of(step.type())
    first, second = step.stored("src0"), step.stored("src1")
    for r, (bytes0, bytes1) in enumerate(
        zip(_counts(step, "src0Idx")[:rows], _counts(step, "src1Idx")[:rows], strict=True)
    ):
        n0 = min(max(bytes0, 0) // width, step.valid("src0")[1], cols)
        n1 = min(max(bytes1, 0) // width, step.valid("src1")[1], cols - n0)
        step.scatter(np.concatenate([first[r, :n0], second[r, :n1]]), places[r, : n0 + n1])


def _counts(step: Step, name: str) -> list[int]:
    return [int(n) for n in decode(step.stored(name)[:, 0], step.dtype(name))]


@rule("tinterleave")
def _interleave(step: Step) -> None:
    rows, cols = step.valid("dst0")
    even, odd = step.raw("src0", (rows, cols)), step.raw("src1", (rows, cols))
    sequence = np.stack([even, odd], axis=2).reshape(rows, 2 * cols)
    _put(step, "dst0", sequence[:, :cols])
    # The second half begins at a column of src0.
    half = cols - cols % 2
    _put(step, "dst1", sequence[:, half : half + cols])


@rule("tdeinterleave")
def _deinterleave(step: Step) -> None:
    rows, cols = step.valid("dst0")
    if "src1" in step.operands:
        halves = [step.raw(name, (rows, cols)) for name in ("src0", "src1")]
        sequence = np.concatenate(halves, axis=1)
    else:
        sequence = step.raw("src0", (rows, 2 * cols))
    _put(step, "dst0", sequence[:, 0::2])
    _put(step, "dst1", sequence[:, 1::2])


def _put(step: Step, name: str, words: Array) -> None:
    t = step.type(name)
    inside = words[: t.rows, : t.cols]
    step.scatter(inside, storage.map_of(t)[: inside.shape[0], : inside.shape[1]], name)


@rule("tpack")
def _pack(step: Step) -> None:
    low = step.raw("src") & ((1 << step.dtype().bits) - 1)
    step.put(low.astype(step.dtype().word))
