"""Rules and samples of moves between tiles, with the valid regions of rearranging instructions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ... import ir
from ...ir import TileType
from ...profiles import Profile, ProfileName
from ..declare import AttrMap, Breaker, Finding, Instruction, RegionRule, Site
from ..memory import MOVED
from ..samples.operations import Sample
from . import block_scales, typesets
from .constraints import HARDWARE, size
from .fixpipe import accumulator, boxed, ends, parameters, written
from .forbid import Types, edit, forbid, retype
from .irregular import sample
from .require import require

_MAT, _VEC, _ACC = ir.Loc.MAT, ir.Loc.VEC, ir.Loc.ACC
PATHS: Mapping[ProfileName, tuple[tuple[ir.Loc, ir.Loc], ...]] = {
    "a2a3": (
        *((_MAT, loc) for loc in (ir.Loc.LEFT, ir.Loc.RIGHT, ir.Loc.BIAS, ir.Loc.SCALING)),
        (_VEC, _VEC),
        (_ACC, _MAT),
        (_ACC, _VEC),
    ),
    "a5": (
        *((_MAT, loc) for loc in (ir.Loc.LEFT, ir.Loc.RIGHT, ir.Loc.BIAS, ir.Loc.SCALING)),
        (_MAT, ir.Loc.SCALELEFT),
        (_MAT, ir.Loc.SCALERIGHT),
        (_VEC, _VEC),
        (_VEC, _MAT),
        (_ACC, _VEC),
        (_ACC, _MAT),
    ),
}
#: (destination, source) types of the bias buffer, which alone converts on the way in.
_BIAS: typesets.Rows = (("i32", "i32"), ("f32", "f32"), ("f32", "f16"), ("f32", "bf16"))
_CUBE = ("i8", "hif8", "f8e5m2", "f8e4m3", "f16", "bf16", "f32", "f4e2m1x2", "f4e1m2x2")
_CUBE_PATHS = ((_MAT, ir.Loc.LEFT), (_MAT, ir.Loc.RIGHT), (_VEC, _MAT))
#: Bytes of which a row of the bias or scaling buffer is a multiple.
_UNITS = {ir.Loc.BIAS: 64, ir.Loc.SCALING: 128}


def breaks_moved_types(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    """Make both tiles of a move i4; False where the profile moves i4, or a tile is not in vec memory."""
    places = [t.loc for t in (types["dst"], types["src"]) if isinstance(t, ir.TileType)]
    if ("i4",) in MOVED[profile.name] or places != [_VEC, _VEC]:
        return False
    return all(retype(name, "i4")(types, attrs, profile) for name in ("dst", "src"))


equal_types = require(
    "types-equal",
    "src.dtype == dst.dtype",
    HARDWARE,
    when="src.loc != acc and dst.loc != bias",
    why="tcvt converts",
)


def _into(path: tuple[ir.Loc, ir.Loc], profile: Profile) -> typesets.Rows | None:
    """(destination, source) types of a path into a small buffer; None where equal types are enough."""
    place = path[1]
    if place == ir.Loc.BIAS:
        return _BIAS if profile.name == "a5" else _BIAS[:3]
    if place == ir.Loc.SCALING:
        scales = (("f8e8m0", "f8e8m0"),) if profile.name == "a5" else ()
        return (("u64", "u64"), ("i64", "i64"), *scales)
    if place in (ir.Loc.SCALELEFT, ir.Loc.SCALERIGHT):
        return (("f8e8m0", "f8e8m0"),)
    if profile.name == "a5" and path in _CUBE_PATHS:
        return tuple((d, d) for d in _CUBE)
    return None


def _both_into_scaling(change: Callable[[ir.TileType], ir.TileType]) -> Breaker:
    """Source and destination of a move into the scaling buffer change alike."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        dst = types["dst"]
        if not isinstance(dst, ir.TileType) or dst.loc != ir.Loc.SCALING:
            return False
        return all(edit(name, change)(types, attrs, profile) for name in ("src", "dst"))

    return breaks


@forbid(
    "place-types",
    "element types of the destination's buffer: bias i32 or f32, scaling 64-bit words, scales f8e8m0",
    HARDWARE,
    invalid_if=_both_into_scaling(lambda t: t.with_dtype(ir.F32)),
)
def place_types(site: Site) -> Iterator[Finding]:
    """Element types that the buffers next to the cube take."""
    both = ends(site)
    if both is None:
        return
    src, dst = both
    pair, legal = (dst.dtype.name, src.dtype.name), _into((src.loc, dst.loc), site.profile)
    # Differing types are reported once, by the rule on equal types.
    if legal is None or pair in legal or (pair[0] != pair[1] and dst.loc != ir.Loc.BIAS):
        return
    names = ", ".join(s if s == d else f"{s} to {d}" for d, s in legal)
    yield (
        "dst",
        f"{src.dtype} moves to {dst.dtype} in {dst.loc.name.lower()}; allowed from "
        f"{src.loc.name.lower()} on {site.profile.name}: {names}",
    )


@forbid(
    "shape-equal",
    "equal rows and columns; on a5 from mat",
    HARDWARE,
    invalid_if=edit("src", lambda t: None if t.rows == 1 else replace(t, rows=t.rows * 2)),
)
def equal_shapes(site: Site) -> Iterator[Finding]:
    """The tiles have equal physical rows and columns; on a5 only from mat."""
    both = ends(site)
    if both is None or both[0].shape == both[1].shape:
        return
    src, dst = both
    if site.profile.name == "a5" and src.loc != _MAT:
        return
    rows, cols = site.valid["dst"]
    if src.rows >= (rows or 0) and src.cols >= (cols or 0):
        yield (
            "src",
            f"src is {src.rows}x{src.cols}, dst is {dst.rows}x{dst.cols}; allowed from "
            f"{src.loc.name.lower()} on {site.profile.name}: equal rows and columns",
        )


def _nn(t: ir.TileType) -> ir.TileType | None:
    cube = t.loc in (ir.Loc.LEFT, ir.Loc.RIGHT)
    return replace(t, blayout=ir.BLayout.COL_MAJOR, slayout=ir.SLayout.COL_MAJOR) if cube else None


@forbid("cube-layout", "left NZ or ZZ, right ZN, from NZ or row_major", HARDWARE, invalid_if=edit("dst", _nn))
def cube_layouts(site: Site) -> Iterator[Finding]:
    """Layouts of the cube's operands."""
    src, dst = written(site, "src"), written(site, "dst")
    if dst is None or dst.loc not in (ir.Loc.LEFT, ir.Loc.RIGHT):
        return
    legal = {ir.Loc.LEFT: ("NZ", "ZZ"), ir.Loc.RIGHT: ("ZN",)}[dst.loc]
    if dst.layout not in legal:
        yield (
            "dst",
            f"dst has layout {dst.layout}; allowed in {dst.loc.name.lower()}: {' or '.join(legal)}",
        )
    if src is not None and src.layout in ("DN", "NN") and src.rows > 1:
        yield "src", f"src has layout {src.layout}; allowed into {dst.loc.name.lower()}: NZ or row_major"


@forbid(
    "small-buffer",
    "bias and scaling: one row, of a multiple of 64 and of 128 bytes",
    HARDWARE,
    invalid_if=_both_into_scaling(lambda t: replace(t, cols=4, v_col=4)),
)
def small_buffers(site: Site) -> Iterator[Finding]:
    """The bias and scaling buffers take one row of whole units."""
    both = ends(site)
    if both is None or both[1].loc not in _UNITS:
        return
    src, dst = both
    if dst.dtype == ir.F8E8M0:
        return  # scales of products, which lie in boxes
    place, unit = dst.loc.name.lower(), _UNITS[dst.loc]
    if src.rows != 1:
        yield "src", f"src has {src.rows} rows; allowed into {place}: 1"
    size = dst.cols * dst.dtype.storage_bits // 8
    if size % unit:
        yield "dst", f"a row of dst takes {size} bytes; allowed in {place}: a multiple of {unit}"


def samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """Every type between vec tiles, every path, every conversion on the way out of an accumulator."""
    for (name,) in instruction.types[profile.name]:
        t = ir.TileType(ir.dtype(name), 8, 64)
        yield sample(instruction, ("src",), {"dst": t, "src": t})
    yield from _crossings(instruction, profile)
    yield from _conversions(instruction, profile)


def _crossings(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    left = boxed("f16", ir.Loc.LEFT)
    if profile.name == "a2a3":
        left = replace(left, blayout=ir.BLayout.ROW_MAJOR)
    right = ir.TileType(ir.dtype("bf16"), 16, 32, loc=ir.Loc.RIGHT, slayout=ir.SLayout.COL_MAJOR)
    moves = [
        (left, boxed("f16")),
        (right, boxed("bf16")),
        (ir.TileType(ir.dtype("f32"), 1, 32, loc=ir.Loc.BIAS), ir.TileType(ir.dtype("f16"), 1, 32, loc=_MAT)),
        (parameters(), replace(parameters(), loc=_MAT)),
    ]
    if profile.name != "a2a3":
        scale = ir.TileType(ir.dtype("f8e8m0"), 16, 2, loc=_MAT, slayout=ir.SLayout.ROW_MAJOR, fractal=32)
        moves += [
            (boxed("f16", _MAT), ir.TileType(ir.dtype("f16"), 16, 32)),
            (replace(scale, loc=ir.Loc.SCALELEFT), scale),
        ]
    for dst, src in moves:
        yield sample(instruction, ("src",), {"dst": dst, "src": src})


def _conversions(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    hardware = profile.name != "cpu_sim"
    relu = {"reluPreMode": ir.ReluPreMode.NORMAL_RELU}
    for d, s in block_scales.MOVED_PLAIN.get(profile.name, (("f16", "f32"), ("bf16", "f32"), ("i32", "i32"))):
        types: dict[str, ir.Type] = {"dst": boxed(d), "src": accumulator(s)}
        yield sample(instruction, ("src",), types, {} if d == "f16" else relu)
    if profile.name == "a5":
        types = {"dst": ir.TileType(ir.dtype("f32"), 16, 32), "src": accumulator("f32")}
        mode = {"accToVecMode": ir.AccToVecMode.DUAL_MODE_SPLIT_M}
        yield sample(instruction, ("src",), types, {**relu, **mode})
    word = {"preQuantScalar": ir.ScalarType(ir.dtype("u64"))}
    pairs = block_scales.MOVED_QUANTISED[profile.name] if hardware else (("f16", "f32"),)
    for index, (d, s) in enumerate(pairs):
        types = {"dst": boxed(d), "src": accumulator(s), **word}
        yield sample(instruction, ("src", "preQuantScalar"), types, relu if index % 2 else {})
    dst = boxed("i8") if profile.name == "a2a3" else ir.TileType(ir.dtype("i8"), 16, 32)
    yield sample(instruction, ("src", "fp"), {"dst": dst, "src": accumulator("f32"), "fp": parameters()})


def _shorter(t: TileType) -> TileType:
    return t.with_valid(t.rows - 1, t.cols)


def _not_mirrored(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    (r, c), (s, t) = sizes["dst"], sizes["src"]
    return (types["src"].conv is None) & ((r != t) | (c != s))


@forbid(
    "valid-mirrored",
    "the valid regions of dst and src mirror each other",
    severity="warning",
    stage="run-time",
    invalid_if=edit("src", lambda t: None if t.conv is not None else _shorter(t)),
    region=RegionRule("custom", ("dst", "src"), _not_mirrored),
)
def mirrored(site: Site) -> Iterator[Finding]:
    """The valid rows of dst are the valid columns of src, and the other way round."""
    (r, c), (s, t) = site.region("dst"), site.region("src")
    if any(tile.conv is not None for _, tile in site.tiles()):
        return
    if (None not in (r, t) and r != t) or (None not in (c, s) and c != s):
        yield (
            "dst",
            f"dst has valid region {size(r)}x{size(c)}, src has {size(s)}x{size(t)}; "
            "allowed: the rows of one are the columns of the other",
        )


columns_sum = require(
    "columns-sum",
    "dst.valid_cols == src0.valid_cols + src1.valid_cols",
    ("cpu_sim",),
    run_time=True,
)


columns_fit = require(
    "columns-sum",
    "dst.cols >= src0.valid_cols + src1.valid_cols",
    HARDWARE,
    run_time=True,
)


equal_rows = require(
    "rows-equal",
    "it.valid_rows == dst.valid_rows",
    it=("src0", "src1"),
    when="it.rows >= dst.valid_rows",
    statement="dst, src0 and src1 have equal valid rows",
    run_time=True,
    region=RegionRule("equal-rows", ("dst", "src0", "src1")),
)


def _with_odd_columns(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    tiles = {n: t for n, t in types.items() if isinstance(t, TileType)}
    single = "src1" not in tiles
    for name, t in tiles.items():
        less = 2 if single and name == "src0" else 1
        types[name] = t.with_valid(t.rows, t.cols - less)
    return True


even_columns = require(
    "columns-even", "dst0.valid_cols % 2 == 0", run_time=True, invalid_if=_with_odd_columns
)


def _not_half(sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
    (r, c), (s, t) = sizes["dst0"], sizes["src0"]
    return (r != s) | (c != t) if "src1" in sizes else (r != s) | (2 * c != t)


@forbid(
    "source-columns",
    "src0 has the valid region of dst0, a single source twice its columns",
    stage="run-time",
    invalid_if=edit("src0", _shorter),
    region=RegionRule("custom", ("dst0", "src0"), _not_half),
)
def halves(site: Site) -> Iterator[Finding]:
    """The valid region of src0 is that of dst0; a single source has twice its columns."""
    (r, c), (s, t) = site.region("dst0"), site.region("src0")
    each = 1 if "src1" in site.types else 2
    if (None not in (r, s) and r != s) or (c is not None and t is not None and each * c != t):
        columns = "twice the columns of dst0 in a single source" if each == 2 else "equal columns"
        yield (
            "src0",
            f"src0 has valid region {size(s)}x{size(t)}, dst0 {size(r)}x{size(c)}; allowed: "
            f"equal rows and {columns}",
        )
