"""Quantisation rules: groups with scales, shapes of scale tiles, and parameter words of accumulators.

The assembler's form of group quantisation takes the cases that the headers of A5 compute without a write
outside a tile.

A parameter of an accumulator's quantisation is a 64-bit word, one for the whole tile or one per column. Its
fields:

====== =====================================================
bits   meaning
====== =====================================================
31:13  scale as a short float (sign, 8 exponent bits, 10 mantissa bits)
31:0   scale as f32, in the one word for a tile on cpu_sim
35:32  shift minus one
45:37  offset, two's complement; unsigned on cpu_sim
46     signed target
====== =====================================================
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from ...ir import (
    F16,
    F32,
    U8,
    AttrValue,
    Loc,
    MxQuantAlg,
    QuantScaleAlg,
    QuantType,
    SLayout,
    TileType,
    VecStoreMode,
)
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..changes import DIALECT
from ..declare import AttrMap, Breaker, Constraint, Finding, Instruction, Site
from .constraints import HEADERS, size
from .forbid import Types, assign, forbid, retile
from .typesets import Rows

GROUP = 32
FP8_ALGS = (MxQuantAlg.OCP_MX_FP8_E4M3, MxQuantAlg.NV_MX_FP8_E4M3)
OCP_ALGS = (MxQuantAlg.OCP_MX_FP8_E4M3, MxQuantAlg.OCP_MX_FP4_E2M1)
FP4_ALGS = (MxQuantAlg.OCP_MX_FP4_E2M1, MxQuantAlg.NV_MX_FP4_E2M1)


def algorithm(attrs: Mapping[str, AttrValue]) -> MxQuantAlg:
    """The element format and exponent rule of an operation.

    >>> algorithm({"quant_type": QuantType.MXFP4_E2M1, "quantScaleAlg": QuantScaleAlg.NV}).name
    'NV_MX_FP4_E2M1'
    """
    said = attrs.get("mx_alg")
    if isinstance(said, MxQuantAlg):
        return said
    formats = FP4_ALGS if attrs.get("quant_type") == QuantType.MXFP4_E2M1 else FP8_ALGS
    return formats[attrs.get("quantScaleAlg") == QuantScaleAlg.NV]


#: What is said of an operation with such a destination.
REORDERED = "is not executed: its store mode has no defined result; try: tmov of exp with scratch"


def along_rows(attrs: Mapping[str, AttrValue]) -> bool:
    """Whether groups run down the columns of the source, by the attributes with their defaults.

    Instructions without such an attribute have no other groups.

    >>> along_rows({"grp_axis": 1}), along_rows({"grp_axis": 1, "grpAxis": 0}), along_rows({})
    (False, True, True)
    """
    axis = attrs.get("grpAxis")
    return (attrs.get("grp_axis", 0) if axis is None else axis) == 0


def grouped_down(site: Site) -> bool:
    """Whether the groups of an operation run down the columns of its source."""
    return along_rows(site.attrs)


def groups_in_line(site: Site) -> int | None:
    """Whole groups of a line of src: the valid ones, on cpu_sim all."""
    t, down = site.tile("src"), grouped_down(site)
    if t is None:
        return None
    extent = t.shape[not down] if site.profile.name == "cpu_sim" else site.region("src")[not down]
    return None if extent is None else extent // GROUP


def _narrow(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    t = types["dst"]
    return isinstance(t, TileType) and retile("dst", cols=t.cols // 2, v_col=t.cols // 2)(
        types, attrs, profile
    )


@forbid(
    "codes-room",
    "dst has a code for every valid element of src; along columns in rows as long as those of src",
    ("a5",),
    invalid_if=_narrow,
)
def codes_room(site: Site) -> Iterator[Finding]:
    """Codes lie in rows as long as those of the source, which the hardware counts by."""
    src, dst, (rows, cols) = site.tile("src"), site.tile("dst"), site.region("src")
    if src is None or dst is None:
        return
    have = dst.cols * dst.dtype.numbers
    wide = have >= (cols or 0) if grouped_down(site) else have == src.cols
    if dst.rows < (rows or 0) or not wide:
        at_least = "at least " if grouped_down(site) else ""
        expected = f"{size(rows)} rows and {at_least}{cols if at_least else src.cols} columns"
        yield (
            "dst",
            f"dst is {dst.rows}x{dst.cols}, src is {src.rows}x{src.cols}; allowed: {expected}",
        )


@forbid(
    "reordered-exponents",
    "exp_zz with storeMode, groups along columns and quantScaleAlg ocp",
    ("a5",),
    source=DIALECT,
    invalid_if=assign(storeMode=VecStoreMode.NZ),
)
def reordered(site: Site) -> Iterator[Finding]:
    """A destination of reordered exponents, and what says their order."""
    has_operand, mode = "exp_zz" in site.types, site.op.attrs.get("storeMode") is not None
    if has_operand != mode:
        got = "exp_zz without storeMode" if has_operand else "storeMode without exp_zz"
        yield None, f"{got}; allowed: both or none"
    elif has_operand and (grouped_down(site) or algorithm(site.attrs) not in OCP_ALGS):
        yield "exp_zz", "exp_zz with groups along rows, or quantScaleAlg nv; allowed: tmov reorders exponents"


def _with_reordered(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["storeMode"], types["exp_zz"] = VecStoreMode.NZ, TileType(U8, 1, 32)
    return attrs.get("mx_alg") in OCP_ALGS


@forbid(
    "exponents-reordered",
    "no exp_zz: it is read, not executed",
    ("a5",),
    source=f"{HEADERS}; {DIALECT}",
    severity="warning",
    invalid_if=_with_reordered,
    on_lanes=False,
)
def not_executed(site: Site) -> Iterator[Finding]:
    """What no source defines is read only."""
    if "exp_zz" in site.types:
        yield "exp_zz", f"exp_zz {REORDERED}"


#: Elements of 16 bits that a vector has.
_VECTOR = 128


def assembled_shapes(site: Site) -> Iterator[Finding]:
    """What the assembler's form of the instruction demands of its tiles beside room for the groups."""
    src, exp, down = site.tile("src"), site.tile("exp"), grouped_down(site)
    yield from _static(site)
    yield from _one_per_group(site, down)
    if src is None or exp is None:
        return
    if down:
        yield from _exponents_down(site, src, exp)
        yield from _pairs_down(site, src)
    else:
        yield from (_in_one_row(site, src) if exp.rows == 1 else _row_by_row(src))
    yield from _padding(site, src)


def _static(site: Site) -> Iterator[Finding]:
    for name, t in site.tiles():
        if None in t.valid:
            got = f"{name} has valid region {size(t.v_row)}x{size(t.v_col)}"
            yield name, f"{got}; allowed: sizes that its type states"


def _one_per_group(site: Site, down: bool) -> Iterator[Finding]:
    rows, cols = site.region("src")
    for name, t in site.named("max", "scaling"):
        have = site.region(name)
        if rows is None or cols is None or None in have:
            continue
        expected = (rows // GROUP, cols)
        if down and have != expected:
            got = f"{name} has valid region {have[0]}x{have[1]}"
            yield name, f"{got}; allowed: {expected[0]}x{expected[1]}, one per group"
        elif not down and have[0] != 1 and have[1] != t.cols:
            yield name, f"{name} has {t.cols} columns, {have[1]} of them valid; allowed: all, or one row"


def _exponents_down(site: Site, src: TileType, exp: TileType) -> Iterator[Finding]:
    if not site.attrs.get("interleave"):
        if exp.cols != src.cols:
            yield "exp", f"exp has {exp.cols} columns, src {src.cols}; allowed along rows: equal columns"
        return
    pairs = (src.rows // 64, -(-2 * src.cols // 32) * 32)
    if exp.shape != pairs:
        got = f"exp is {exp.rows}x{exp.cols}, src {src.rows}x{src.cols}"
        yield "exp", f"{got}; allowed with interleave: {pairs[0]}x{pairs[1]}, two columns for each"
    if src.dtype == F32:
        yield "src", "src has element type f32 with interleave; allowed: f16, bf16"


def _pairs_down(site: Site, src: TileType) -> Iterator[Finding]:
    """Codes of 4 bits lie in rows as long as those of the source."""
    dst = site.tile("dst")
    if dst is None or not dst.dtype.pair_of:
        return
    if 2 * dst.cols != src.cols:
        yield "dst", f"dst has {dst.cols} columns of pairs, src {src.cols}; allowed: half as many"
    elif src.dtype == F16 and dst.cols % 32:
        yield "dst", f"dst has {dst.cols} columns of pairs from f16 along rows; allowed: a multiple of 32"


def _in_one_row(site: Site, src: TileType) -> Iterator[Finding]:
    cols, scaling = site.region("src")[1], site.tile("scaling")
    if cols is not None and cols != src.cols:
        got = f"src has {src.cols} columns, {cols} of them valid, exp is one row"
        yield "src", f"{got}; allowed: all columns valid, or a row of exponents each"
    if src.dtype != F32 and site.attrs.get("quantScaleAlg") == QuantScaleAlg.NV:
        got = f"exponents of {src.dtype} in one row with quantScaleAlg nv"
        yield "exp", f"{got}; allowed: ocp, or a row each"
    least = _factors(site, src)
    if scaling is not None and scaling.elements < least:
        got = f"scaling has {scaling.elements} elements"
        yield "scaling", f"{got}; allowed: at least {least}, with padding"


def _row_by_row(src: TileType) -> Iterator[Finding]:
    if src.dtype != F32:
        yield "src", f"src has element type {src.dtype}, exp a row each; allowed: f32, or exp of one row"


def _factors(site: Site, src: TileType) -> int:
    """Factors of exponents in one row: whole vectors, twice as many where the loop is unrolled."""
    rows, cols = site.region("src")
    valid, wide = (rows or 0) * (cols or 0), src.dtype == F32
    unrolled = wide and src.elements > 1024 and src.elements % 256 == valid % 256 == 0
    vector = 64 if wide else _VECTOR
    return -(-valid // GROUP * (1 + unrolled) // vector) * vector


def _padding(site: Site, src: TileType) -> Iterator[Finding]:
    """The columns behind the valid ones of 16-bit sources are cleared vector by vector."""
    rows, cols = site.region("src")
    if src.dtype == F32 or rows is None or cols is None or cols >= src.cols or _VECTOR % src.cols:
        return
    if rows * src.cols % _VECTOR:
        got = f"src has {rows} rows of {src.cols} elements, {cols} of them valid"
        yield "src", f"{got}; allowed: rows that are whole vectors of {_VECTOR} elements, or all valid"


_SCALED = {"a_scale": "a", "b_scale": "b"}
#: Elements that share a scale.
BLOCK = 32
#: Where the scales of a product have defined storage.
SCALE_PLACES = (Loc.SCALELEFT, Loc.SCALERIGHT)


def unstored(name: str, t: TileType) -> str:
    """Why a product with a scale tile elsewhere is not executed."""
    return f"{name} is {t}, whose scales have no defined storage; allowed: f8e8m0 in scaleleft or scaleright"


def printed_scales(site: Site) -> tuple[str, ...]:
    """Scale operands that are tiles in scaling as compilers print them.

    They have the shape of the scales, one for 32 elements, or (before August 2026) that of the operand they
    scale. Such a tile stands for the scales without saying how they are stored.
    """
    scales = []
    for scale, data in _SCALED.items():
        s, d = site.tile(scale), site.tile(data)
        if (
            s is not None
            and d is not None
            and s.loc == Loc.SCALING
            and s.shape in (d.shape, _one_for_32(scale, d))
        ):
            scales.append(scale)
    return tuple(scales)


def _one_for_32(scale: str, d: TileType) -> tuple[int, int]:
    """The extents of the scales of an operand, along its inner dimension."""
    if scale == "a_scale":
        return d.rows, -(-d.cols // BLOCK)
    return -(-d.rows // BLOCK), d.cols


def _tolerant(rule: Constraint) -> Constraint:
    """The rule for tiles whose storage is known: it says nothing about printed scales."""

    def check(site: Site) -> Iterator[Finding]:
        printed = printed_scales(site)
        for finding in rule.check(site):
            if finding[0] not in printed and not (rule.rule == "k-multiple" and printed):
                yield finding

    return replace(rule, check=check)


def _printing(block: int) -> Breaker:
    """A tile of scales as compilers print it beside the data, one for a number of elements."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        data = types["a"]
        if not isinstance(data, TileType):
            return False
        cols = -(-data.cols // block)
        types["a_scale"] = TileType(
            F16, data.rows, cols, loc=Loc.SCALING, slayout=SLayout.ROW_MAJOR, fractal=BLOCK
        )
        return True

    return breaks


@forbid(
    "scale-form",
    "scales of f8e8m0 in scaleleft and scaleright; a warning for scaling tiles as compilers print them",
    ("cpu_sim", "a5"),
    severity="warning",
    source="PTOAS verifier and programs",
    invalid_if=_printing(BLOCK),
)
def _scale_form(site: Site) -> Iterator[Finding]:
    for name in printed_scales(site):
        yield (
            name,
            f"{name} is {site.tile(name)}, the form compilers print: its scales have no defined storage and "
            "the product is not portable; allowed, and executable with f8e8m0 in scaleleft and scaleright",
        )


@forbid(
    "scale-extents",
    "a scale for 32 elements along K",
    ("cpu_sim", "a5"),
    source=DIALECT,
    invalid_if=_printing(1),
    since="2026-08",
)
def _scale_extents(site: Site) -> Iterator[Finding]:
    for name in printed_scales(site):
        scale, data = site.tile(name), site.tile(_SCALED[name])
        if scale is not None and data is not None and scale.shape != (expected := _one_for_32(name, data)):
            got = f"{name} is {scale.rows}x{scale.cols}, as large as {_SCALED[name]}"
            yield name, f"{got}; allowed: a scale for 32 elements, {expected[0]}x{expected[1]}"


def with_printed_scales(instruction: Instruction) -> Instruction:
    """The declaration that also accepts scale tiles as compilers print them, with a warning."""
    rules = ("location", "layout", "a_scale-type", "b_scale-type", "k-multiple", "scales-cover", "regions")
    constraints = [_tolerant(c) if c.rule in rules else c for c in instruction.constraints]
    return replace(instruction, constraints=(*constraints, _scale_form, _scale_extents))


SHORT_SCALE_BIT = 13
SHIFT_BIT, SHIFT_WIDTH = 32, 4
OFFSET_BIT, OFFSET_WIDTH = 37, 9
SIGNED_BIT = 46


@dataclass(frozen=True)
class QuantMode:
    """How an accumulator element x and a parameter word become an element of the destination.

    ``byte``: y = f32(x) * scale, rounded half to even and saturated to nine bits, [-256, 255], plus the
    offset, clamped to [-128, 127] if the word says signed, else to [0, 255], whatever the destination's
    sign; NaN gives 0; the low 8 bits are stored. ``simulated`` modes add the offset, unsigned, to y as f32
    and round then. ``value``: y = f32(x) * scale, clamped to the finite range of the destination (of f32 for
    bf16), then one rounding to nearest even; NaN stays. Infinite products are clamped too where
    ``infinities`` says so, else they become what a conversion makes of an infinity. ``shift``: x is
    shifted right by the shift field plus one and saturated to 16 bits, of which simulated modes keep the
    low ones; scale and offset are not used. Every product and sum is one f32 operation. ReLU comes last,
    before the conversion to the destination's type: y if y > 0, else +0.

    With control bit 48 set (attribute ``saturateInf``), ``value`` modes that keep infinities clamp them,
    and make 0 of NaN. ``short`` modes take the scale from bits 31 to 13: zero if exponent and mantissa
    are zero, else (-1)^s * (1 + m / 1024) * 2^(e - 127), so that e = 0 is no special case and e = 255
    overflows to an infinity.
    """

    name: str
    rule: Literal["byte", "value", "shift"]
    short: bool = False
    infinities: Literal["clamp", "keep"] = "keep"
    simulated: bool = False


_BYTE = ("i8", "u8")


def _scalar_modes(profile: ProfileName) -> dict[tuple[str, str], QuantMode]:
    simulated = profile == "cpu_sim"
    mode = partial(QuantMode, short=not simulated, simulated=simulated)
    modes = {("f32", d): mode("QF322B8_PRE", "byte") for d in _BYTE}
    modes |= {("i32", d): mode("REQ8", "byte") for d in _BYTE}
    modes |= {("i32", "f16"): mode("DEQF16", "value", infinities="clamp")}
    modes |= {("f32", "f16"): mode("QF322F16_PRE", "value")}
    modes |= {("f32", "bf16"): mode("QF322BF16_PRE", "value")}
    if profile != "a5":
        return modes | {("i32", "i16"): mode("SHIFTS322S16", "shift")}
    return modes | {
        ("i32", "bf16"): mode("QS322BF16_PRE", "value"),
        ("f32", "hif8"): mode("QF322HIF8_PRE", "value"),
        ("f32", "f8e4m3"): mode("QF322FP8_PRE", "value"),
        ("f32", "f32"): mode("QF322F32_PRE", "value"),
    }


def _vector_modes(profile: ProfileName) -> dict[tuple[str, str], QuantMode]:
    """A word per column; float targets have no such mode on a2a3."""
    mode = partial(QuantMode, short=True, simulated=profile == "cpu_sim")
    modes = {("f32", d): mode("VQF322B8_PRE", "byte") for d in _BYTE}
    modes |= {("i32", d): mode("VREQ8", "byte") for d in _BYTE}
    modes |= {("i32", "f16"): mode("VDEQF16", "value", infinities="clamp")}
    if profile != "a5":
        modes |= {("i32", "i16"): mode("VSHIFTS322S16", "shift")}
    if profile == "a2a3":
        return modes
    modes |= {
        ("f32", "f16"): mode("VQF322F16_PRE", "value"),
        ("f32", "bf16"): mode("VQF322BF16_PRE", "value"),
    }
    if profile == "cpu_sim":
        return modes
    return modes | {
        ("i32", "bf16"): mode("VQS322BF16_PRE", "value"),
        ("f32", "hif8"): mode("VQF322HIF8_PRE", "value"),
        ("f32", "f8e4m3"): mode("VQF322FP8_PRE", "value"),
        ("f32", "f32"): mode("VQF322F32_PRE", "value"),
    }


_MODES: Mapping[tuple[str, bool], Mapping[tuple[str, str], QuantMode]] = {
    (name, vector): (_vector_modes if vector else _scalar_modes)(name)
    for name in PROFILE_NAMES
    for vector in (False, True)
}


def quant_mode(profile: str, source: str, target: str, *, vector: bool) -> QuantMode | None:
    """The mode that element types select; None where a conversion with a parameter word ignores it.

    >>> quant_mode("a2a3", "i32", "f16", vector=True).name
    'VDEQF16'
    >>> quant_mode("cpu_sim", "f32", "f32", vector=False) is None
    True
    """
    return _MODES[profile, vector].get((source, target))


def _pairs(targets: str, source: str) -> Rows:
    return tuple((t, source) for t in targets.split())


#: Element types (destination, accumulator) of moves between tiles, without and with parameter words.
MOVED_PLAIN: Mapping[ProfileName, Rows] = {
    "a2a3": _pairs("f16 bf16", "f32"),
    "a5": (*_pairs("f32 f16 bf16", "f32"), ("i32", "i32")),
}
MOVED_QUANTISED: Mapping[ProfileName, Rows] = {
    "a2a3": (("i8", "f32"), *_pairs("i8 u8 f16 i16", "i32")),
    "a5": (*_pairs("i8 u8 hif8 f16 bf16 f8e4m3 f32", "f32"), *_pairs("i8 u8 f16 bf16", "i32")),
}
#: The same of stores to global memory.
STORED_PLAIN: Mapping[ProfileName, Rows] = {
    name: (*_pairs("f32 f16 bf16 i32", "f32"), *_pairs("i32 f32 f16 bf16", "i32")) for name in ("a2a3", "a5")
}
STORED_QUANTISED: Mapping[ProfileName, Rows] = {
    "a2a3": (*_pairs("i8 u8", "f32"), *_pairs("i8 u8 f16", "i32")),
    "a5": MOVED_QUANTISED["a5"],
}
#: What the simulator quantises, with one word or with one per column.
SIMULATED_SCALAR: Rows = (*_pairs("i8 u8 f16 bf16", "f32"), *_pairs("i8 u8 f16 i16", "i32"))
SIMULATED_VECTOR: Rows = (
    *_pairs("i8 u8", "f32"),
    *_pairs("i8 u8 f16 i16", "i32"),
    *_pairs("f16 bf16", "f32"),
)
