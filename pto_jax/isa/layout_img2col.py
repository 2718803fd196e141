"""Layout and rearrangement: convolution tiles, and image-to-column."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from .. import ir, profiles
from . import common, declare, memory_convolution, traits
from .rules import constraints, irregular, regions, typesets
from .rules.forbid import Types, edit, forbid, retile
from .rules.require import require
from .samples.operations import Sample

_G = ir.GlobalLayout
#: Layouts that ttrans converts, source first.
CONVERSIONS = (
    (_G.NCHW, _G.NC1HWC0),
    (_G.NC1HWC0, _G.NCHW),
    (_G.NC1HWC0, _G.FRACTAL_Z),
    (_G.GNCHW, _G.GNC1HWC0),
    (_G.GNC1HWC0, _G.GNCHW),
    (_G.GNC1HWC0, _G.FRACTAL_Z),
    (_G.NCDHW, _G.FRACTAL_Z_3D),
)
#: The attribute that carries the state of image-to-column: see :data:`pto_jax.ir.types.Registers`.
IMG2COL_STATE = "img2colState"
_ROWS_OF_WEIGHTS = 16

CONV_TRANSPOSITION = (
    "Convolution tiles are converted between layouts, with C0 the channels of 32 bytes: nchw element "
    "(n, c, h, w) is nc1hwc0 element (n, c/C0, h, w, c % C0), in both directions; gnchw and gnc1hwc0 the "
    "same within each group g; nc1hwc0 element (n, c1, h, w, c0) becomes fractal_z element ((c1 H + h) W + "
    "w, n/N0, n % N0, c0), gnc1hwc0 element (g, n, c1, h, w, c0) element (((g C1 + c1) H + h) W + w, n/N0, "
    "n % N0, c0), ncdhw element (n, c, d, h, w) fractal_z_3d element (((d C1 + c/C0) H + h) W + w, n/N0, "
    "n % N0, c % C0). "
    "Channels and images that the source does not have keep their elements."
)
CONV_WINDOW = (
    "From a fractal_z or fractal_z_3d convolution tile, N the images of its rows (fourth dimension of five, "
    "product of the second and third of four): dst, seen as boxes of C0 x 16 elements in zn order, takes for "
    "each row of boxes k < ceil(valid rows / C0) the boxes 0 to ceil(valid columns / 16) - 1 from the boxes "
    "indexCol / 16 on of box row indexRow / C0 + k, of which each has N / 16 boxes; box b is the 16 C0 "
    "elements from 16 C0 b on. Whole boxes move, whatever is valid in them; what lies beyond src reads as "
    "all ones."
)


def _expected(src: ir.Conv, target: ir.GlobalLayout, c0: int, n0: int) -> tuple[int, ...]:
    """Dimensions of the tile that a conversion makes."""
    s = src.shape
    match src.layout, target:
        case _G.NCHW, _:
            return (s[0], -(-s[1] // c0), s[2], s[3], c0)
        case _G.GNCHW, _:
            return (s[0], s[1], -(-s[2] // c0), s[3], s[4], c0)
        case _G.NC1HWC0, _G.FRACTAL_Z:
            return (s[1] * s[2] * s[3], -(-s[0] // n0), n0, c0)
        case _G.NC1HWC0, _:
            return (s[0], s[1] * c0, s[2], s[3])
        case _G.GNC1HWC0, _G.FRACTAL_Z:
            return (s[0] * prod(s[2:5]), -(-s[1] // n0), n0, c0)
        case _G.GNC1HWC0, _:
            return (s[0], s[1], s[2] * c0, s[3], s[4])
    return (-(-s[1] // c0) * prod(s[2:]), -(-s[0] // n0), n0, c0)


def _larger(t: ir.TileType) -> ir.TileType | None:
    if t.conv is None:
        return None
    return ir.conv_tile(t.dtype, replace(t.conv, shape=(t.conv.shape[0] + 1, *t.conv.shape[1:])), t.loc)


@forbid("conversion", "convolution layouts that convert", invalid_if=edit("dst", _larger))
def conversion(site: declare.Site) -> Iterator[declare.Finding]:
    """Convolution tiles have layouts that convert, and shapes that go with each other."""
    dst, src = site.tile("dst"), site.tile("src")
    if dst is None or src is None or (dst.conv is None and src.conv is None):
        return
    if dst.conv is None or src.conv is None:
        yield "src", f"src is {src}, dst is {dst}; allowed: two convolution tiles, or none"
        return
    pair = (src.conv.layout, dst.conv.layout)
    if pair not in CONVERSIONS:
        words = ", ".join(f"{a.name.lower()} to {b.name.lower()}" for a, b in CONVERSIONS)
        yield "src", f"src is {pair[0].name.lower()}, dst {pair[1].name.lower()}; allowed: {words}"
        return
    n0 = dst.conv.shape[2] if len(dst.conv.shape) == 4 else _ROWS_OF_WEIGHTS
    want, have = _expected(src.conv, dst.conv.layout, ir.block_channels(src.dtype), n0), dst.conv.shape
    # A tile that goes back to plain channels may drop the last ones of the last block.
    plain = 1 if pair[1] == _G.NCHW else 2 if pair[1] == _G.GNCHW else None
    if plain is not None and 0 < have[plain] <= want[plain]:
        have = (*have[:plain], want[plain], *have[plain + 1 :])
    if have != want:
        extents = "x".join(map(str, want))
        yield "dst", f"dst is {'x'.join(map(str, dst.conv.shape))}; allowed for src {src}: {extents}"


def converted(instruction: declare.Instruction, profile: profiles.Profile) -> Iterator[Sample]:
    """A conversion of convolution tiles per pair of layouts, and per width of elements."""
    shapes = {
        (_G.NCHW, _G.NC1HWC0): (2, 11, 2, 3),
        (_G.NC1HWC0, _G.NCHW): (2, 2, 2, 3, 0),
        (_G.NC1HWC0, _G.FRACTAL_Z): (3, 2, 2, 1, 0),
        (_G.GNCHW, _G.GNC1HWC0): (2, 1, 11, 1, 2),
        (_G.GNC1HWC0, _G.GNCHW): (2, 1, 1, 2, 2, 0),
        (_G.GNC1HWC0, _G.FRACTAL_Z): (2, 3, 1, 2, 2, 0),
        (_G.NCDHW, _G.FRACTAL_Z_3D): (3, 11, 2, 1, 2),
    }
    for i, pair in enumerate(CONVERSIONS):
        d = ir.dtype(("f32", "f16", "i8")[i % 3])
        c0 = ir.block_channels(d)
        dims = tuple(n or c0 for n in shapes[pair])
        src = ir.Conv(pair[0], dims)
        dst = ir.Conv(pair[1], _expected(src, pair[1], c0, _ROWS_OF_WEIGHTS))
        types: Types = {"src": ir.conv_tile(d, src, ir.Loc.VEC), "dst": ir.conv_tile(d, dst, ir.Loc.VEC)}
        yield irregular.sample(instruction, ("src",), types)


_WEIGHTS = (_G.FRACTAL_Z, _G.FRACTAL_Z_3D)


def weight_boxes(t: ir.TileType) -> tuple[int, int]:
    """Rows and columns of boxes that weights consist of, as a matrix.

    >>> weight_boxes(ir.conv_tile(ir.dtype("f16"), ir.Conv(ir.GlobalLayout.FRACTAL_Z, (12, 2, 16, 16))))
    (12, 2)
    """
    conv = t.conv
    assert conv is not None
    images = conv.shape[3] if len(conv.shape) == 5 else prod(conv.shape[1:3])
    cols = max(1, images // _ROWS_OF_WEIGHTS)
    return conv.elements // (cols * _ROWS_OF_WEIGHTS * ir.block_channels(t.dtype)), cols


@forbid(
    "weights",
    "fractal_z weights go to right tiles in ZN",
    invalid_if=edit(
        "src", lambda t: None if t.conv is None else replace(t, conv=replace(t.conv, layout=_G.NCHW))
    ),
)
def weights(site: declare.Site) -> Iterator[declare.Finding]:
    """Convolution tiles that a window is taken of hold weights, and go to right tiles."""
    dst, src = site.tile("dst"), site.tile("src")
    if dst is None or src is None or src.conv is None:
        return
    if src.conv.layout not in _WEIGHTS:
        yield "src", f"src is {src}; allowed: fractal_z or fractal_z_3d"
    if dst.loc != ir.Loc.RIGHT or dst.layout != "ZN" or dst.fractal != 512:
        where = f"{dst.loc.name.lower()} in layout {dst.layout} with fractal {dst.fractal}"
        yield "dst", f"dst is {where}; allowed from a convolution tile: right in ZN with fractal 512"
        return
    rows, cols = weight_boxes(src)
    c0 = ir.block_channels(src.dtype)
    for axis, name, box, limit in ((0, "indexRow", c0, rows), (1, "indexCol", 16, cols)):
        start, n = site.constant(name), site.valid["dst"][axis]
        if start is not None and (start < 0 or start // box - (-(n or 0) // box) > limit):
            got = f"the window takes {n} from {start} on in boxes of {box}, src has {limit} boxes there"
            yield name, f"{got}; allowed: a window within src"


def weight_windows(instruction: declare.Instruction) -> Iterator[Sample]:
    """Windows of weights, one per width of elements."""
    index: Types = {"indexRow": ir.ScalarType(ir.INDEX), "indexCol": ir.ScalarType(ir.INDEX)}
    for name, shape in (("f32", (4, 2, 16)), ("f16", (2, 1, 2, 32)), ("i8", (3, 2, 16))):
        d = ir.dtype(name)
        c0 = ir.block_channels(d)
        src = ir.conv_tile(d, ir.Conv(_G.FRACTAL_Z, (*shape, c0)))
        dst = ir.TileType(d, 2 * c0, 16, loc=ir.Loc.RIGHT, slayout=ir.SLayout.COL_MAJOR)
        constants = {"indexRow": (0 if name == "f16" else c0,), "indexCol": (16,)}
        form = ("src", "indexRow", "indexCol")
        yield irregular.sample(instruction, form, {"src": src, "dst": dst, **index}, constants=constants)


# -- image-to-column ---------------------------------------------------------------------------------

_DST = declare.Operand(
    "dst", "out", note="left tile: rows are output positions, columns taps of the filter", extent=regions.OPEN
)
_SRC = declare.Operand("src", "in", note="feature map with the geometry of the convolution", conv=True)
_POSITIONS = tuple(declare.Operand(n, "in", "index", dtype=None, optional=True) for n in ("posM", "posK"))
_OPERANDS = (_DST, _SRC, *_POSITIONS)
_TABLE: typesets.TypeTable = {
    "cpu_sim": typesets.rows(memory_convolution.CONV_TYPES),
    "a2a3": typesets.rows((*typesets.FLOATS, "i8")),
    "a5": typesets.rows((*typesets.FLOATS, *typesets.INT32)),
}


def _breaks_types(types: Types, attrs: declare.AttrMap, profile: profiles.Profile) -> bool:
    other = ir.dtype("u8" if profile.name == "a2a3" else "f8e4m3")
    of_a_byte = [
        edit(n, lambda t: t.with_dtype(other) if t.dtype.bits == 8 else None) for n in ("dst", "src")
    ]
    return all(e(types, attrs, profile) for e in of_a_byte)


@forbid("image", "src is a feature map in mat", invalid_if=retile("src", loc=ir.Loc.VEC))
def _image(site: declare.Site) -> Iterator[declare.Finding]:
    src = site.tile("src")
    if src is None:
        return
    if src.conv is None or src.loc != ir.Loc.MAT or src.conv.layout not in (_G.NC1HWC0, _G.NDC1HWC0):
        yield "src", f"src is {src}; allowed: a convolution tile of nc1hwc0 or ndc1hwc0 in mat"


def _other_order(t: ir.TileType) -> ir.TileType:
    return replace(
        t, blayout=ir.BLayout.ROW_MAJOR if t.blayout == ir.BLayout.COL_MAJOR else ir.BLayout.COL_MAJOR
    )


_LEFT_LAYOUTS = (
    require(
        "layout", "dst.layout == ZZ", ("a2a3",), when="dst.loc == left", invalid_if=edit("dst", _other_order)
    ),
    require(
        "layout",
        "dst.layout == NZ",
        ("cpu_sim", "a5"),
        when="dst.loc == left",
        invalid_if=edit("dst", _other_order),
    ),
)


def _large_filter(t: ir.TileType) -> ir.TileType | None:
    if t.conv is None:
        return None
    return replace(t, conv=replace(t.conv, geometry=replace(t.conv.geometry, filter=(50, 1))))


@forbid(
    "geometry",
    "the filter fits the padded image, posM and posK take 16 bits",
    invalid_if=edit("src", _large_filter),
)
def _geometry(site: declare.Site) -> Iterator[declare.Finding]:
    src = site.tile("src")
    for name in ("posM", "posK"):
        at = site.constant(name)
        if at is not None and not 0 <= at < 1 << 16:
            yield name, f"{name} is {at}; allowed: 0 to 65535"
    if src is None or src.conv is None or len(src.conv.shape) < 5:
        return
    g = src.conv.geometry
    (height, width), (left, right, top, bottom) = g.fmap or src.conv.image, g.padding
    if min(*g.filter, *g.stride, *g.dilation) < 1:
        yield "src", "filter, stride or dilation of src has a size of 0; allowed: at least 1"
        return
    for n, pads, f, step, what in (
        (height, top + bottom, g.filter[0], g.dilation[0], "rows"),
        (width, left + right, g.filter[1], g.dilation[1], "columns"),
    ):
        if n + pads < step * (f - 1) + 1:
            got = f"the filter takes {step * (f - 1) + 1} {what} of an image of {n} with {pads} of padding"
            yield "src", f"{got}; allowed: a filter no larger than the padded image"


def _left(d: ir.DType, profile: profiles.Profile, v_row: int = 16, v_col: int = 32) -> ir.TileType:
    blayout = ir.BLayout.ROW_MAJOR if profile.name == "a2a3" else ir.BLayout.COL_MAJOR
    cols = -(-v_col // ir.block_channels(d)) * ir.block_channels(d)
    return ir.TileType(d, 16, cols, v_row, v_col, ir.Loc.LEFT, blayout, ir.SLayout.ROW_MAJOR)


def _samples(instruction: declare.Instruction, profile: profiles.Profile) -> Iterator[Sample]:
    geometry = ir.Geometry(
        filter=(2, 3), stride=(1, 2), dilation=(2, 1), padding=(1, 0, 1, 2), pad_value=0x7F, channels=5
    )
    index: Types = {"posM": ir.ScalarType(ir.INDEX), "posK": ir.ScalarType(ir.INDEX)}
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = ir.dtype(name)
        c0 = ir.block_channels(d)
        mode = {"mode": list(ir.FmatrixMode)[i % 4]}
        src = ir.conv_tile(d, ir.Conv(_G.NC1HWC0, (2, 1, 4, 5, c0), geometry))
        dst = _left(d, profile, 13, 2 * c0 + 3)
        yield irregular.sample(instruction, ("src",), {"src": src, "dst": dst}, mode)
    deep = ir.conv_tile(
        ir.dtype("f16"), ir.Conv(_G.NDC1HWC0, (1, 2, 2, 3, 4, 16), replace(geometry, channels=0))
    )
    types: Types = {"src": deep, "dst": _left(ir.dtype("f16"), profile), **index}
    yield irregular.sample(
        instruction, ("src", "posM", "posK"), types, constants={"posM": (3,), "posK": (16,)}
    )


TIMG2COL = declare.Instruction(
    "timg2col",
    "layout",
    "Arrange the windows of a convolution as rows of a matrix.",
    "oH = (H + top + bottom - dilationH (filterH - 1) - 1) / strideH + 1, oW likewise with left, right. For "
    "r, c in the valid region of dst, with m = posM + r and k = posK + c: n = m / (D oH oW), d, oy, ox the "
    "rest of m in mixed base D, oH, oW (ox fastest); c1 = k / (C0 filterH filterW), ky, kx, c0 the rest of k "
    "in mixed base filterH, filterW, C0 (c0 fastest); y = oy strideH + ky dilationH - top, x = ox strideW + "
    "kx dilationW - left. dst(r, c) is the element ((((n D + d) C1 + c1) H + y) W + x) C0 + c0 of src (D = 1 "
    "for nc1hwc0) if n < N, c1 < C1, 0 <= y < H and 0 <= x < W, else the padding value. On cpu_sim H and W "
    "are those of src and the geometry is that of src. On a2a3 and a5, H, W, the four paddings and the "
    "padding value come from the registers of the mode: automatic modes load them from src first, manual "
    "ones take what setfmatrix and set_img2col_padding left there, or the geometry of src where nothing "
    "did; where src says how many channels it has, channels c1 C0 + c0 beyond them give the padding value; "
    "what lies beyond src reads as all ones.",
    _OPERANDS,
    _TABLE,
    ("T",),
    (
        declare.Attribute(
            "mode",
            ir.FmatrixMode,
            ir.FmatrixMode.FMATRIX_A_MANUAL,
            "which registers hold the geometry, and whether src loads them",
            ("mode", "fmatrixMode"),
        ),
    ),
    (
        constraints.same_types((_DST, _SRC)),
        replace(constraints.type_row(_OPERANDS, ("T",), _TABLE), breaks=_breaks_types),
        constraints.place((_DST,), (ir.Loc.LEFT,), ("cpu_sim", "a2a3", "a5")),
        _image,
        *_LEFT_LAYOUTS,
        _geometry,
    ),
    (("src",), ("src", "posM", "posK")),
    "dst",
    ir.Pipe.MTE1,
    decisions=(
        declare.Decision(
            "Pages name the geometry Img2colTileConfig, the headers keep it in the tile. Where is it?",
            "In the type of the convolution tile, with the defaults of the header.",
            "pto_tile.hpp (ConvTile)",
        ),
        declare.Decision(
            "What do registers hold that no instruction loaded?",
            "Hardware leaves them undefined; here the geometry of src counts.",
            "pages setfmatrix, set_img2col_padding",
        ),
        declare.Decision(
            "What do repetitions (set_img2col_rpt) change?",
            "Nothing in the valid region of dst: no page states where further repetitions write.",
            "page set_img2col_rpt; headers pass the register on",
        ),
        declare.Decision(
            "Do packed channels beyond the number of channels of src count?",
            "On cpu_sim yes, as recorded; elsewhere they read as padding.",
            f"{common.SIMULATOR_VALUES}; pto-spec",
        ),
    ),
    sources=("page timg2col", constraints.HEADERS, common.SIMULATOR_VALUES),
    sampler=_samples,
    lanes="open",
    traits=traits.Traits(effects=(traits.Effect("read", "mode"), traits.Effect("write", "mode"))),
)

INSTRUCTIONS: tuple[declare.Instruction, ...] = (TIMG2COL,)
