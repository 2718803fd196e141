"""Quantisation: to 8-bit integers with row parameters, and in groups of 32 with a shared exponent."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from .. import ir
from ..ir import F32, I8, U8, BLayout, QuantType, TileType, Type, dtype
from ..profiles import PROFILE_NAMES, Profile
from . import assembly, changes, common, declare
from .declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules import block_scales, elementwise, regions, typesets
from .rules.block_scales import (
    FP4_ALGS as FP4_ALGS,
    FP8_ALGS,
    GROUP as GROUP,
    OCP_ALGS,
    REORDERED as REORDERED,
    algorithm as algorithm,
    along_rows as along_rows,
    codes_room,
    grouped_down,
    groups_in_line,
    not_executed,
    reordered,
)
from .rules.constraints import HARDWARE, HEADERS, SIMULATOR, element_type, fixed_type, in_vec, row_major
from .rules.forbid import Types, absent, assign, forbid, give, one_block, retile, retype, shrunk
from .rules.irregular import A5_AND_SIMULATOR, Want, one_of, plain, room, row_cols, sample
from .rules.require import require
from .samples.operations import Sample
from .semantics import Apart, all_apart

_SOURCE = Operand("src", "in", dtype="S")


# -- tquant ------------------------------------------------------------------------------------------

_INT8_ROWS: typesets.Rows = (("i8", "f32"), ("u8", "f32"))
_INT8_OPERANDS = (
    Operand("dst", "out", dtype="D"),
    _SOURCE,
    Operand("scale", "in", dtype="f32", note="factor per row, in column 0", shown=(0.5,)),
    Operand("offset", "in", dtype="f32", optional=True, note="zero point per row; asymmetric only"),
    replace(elementwise.TMP, implied=declare.Implied("src")),
)
QUANT_TYPE = Attribute("quant_type", QuantType, QuantType.INT8_SYM, "INT8_SYM or INT8_ASYM")


@forbid(
    "quant-dst",
    "INT8_SYM with an i8 dst, INT8_ASYM with a u8 dst; since August 2026 either",
    source="PTOAS verifier; pto-isa headers",
    invalid_if=retype("dst", "i8", "u8"),
    until="2026-08",
)
def _quant_dst(site: Site) -> Iterator[Finding]:
    kind, d = site.attrs.get("quant_type"), element_type(site.types.get("dst"))
    expected = "u8" if kind == QuantType.INT8_ASYM else "i8"
    if isinstance(kind, QuantType) and d is not None and d.name in ("i8", "u8") and d.name != expected:
        yield "dst", f"dst has element type {d} with {kind.name}; allowed: {expected}"


@forbid(
    "quant-sign",
    "INT8_SYM with an i8 dst, INT8_ASYM with a u8 dst, as others read it",
    source="PTOAS verifier; pto-isa headers",
    severity="warning",
    invalid_if=retype("dst", "i8", "u8"),
    since="2026-08",
    on_lanes=False,
)
def _quant_sign(site: Site) -> Iterator[Finding]:
    """The bits are those of the kind whatever dst's type: who reads them as such may be surprised."""
    yield from _quant_dst.check(site)


_parameter_layout = require(
    "parameter-layout",
    "it.blayout == col_major",
    ("a2a3",),
    it=("scale", "offset"),
    why="a number per row",
    source=changes.DIALECT,
    invalid_if=give("scale", TileType(F32, 8, 8)),
    since="2026-08",
)


@forbid(
    "quant-type",
    "INT8_SYM without offset, INT8_ASYM with an offset",
    source="PTOAS verifier; pto-isa headers",
    invalid_if=assign(quant_type=QuantType.MXFP8),
)
def _quant_type(site: Site) -> Iterator[Finding]:
    kind = site.attrs.get("quant_type")
    if not isinstance(kind, QuantType) or kind not in (QuantType.INT8_SYM, QuantType.INT8_ASYM):
        got = kind.name if isinstance(kind, QuantType) else kind
        yield None, f"quant_type is {got}; allowed: INT8_SYM, INT8_ASYM (tquant.mx makes the others)"
        return
    asymmetric = kind == QuantType.INT8_ASYM
    if asymmetric != ("offset" in site.values):
        allowed = "one, with INT8_ASYM" if asymmetric else "none, with INT8_SYM"
        got = "an" if "offset" in site.values else "no"
        yield "offset" if not asymmetric else None, f"got {got} offset; allowed: {allowed}"


def _int8_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    scale = TileType(F32, 16, 1, blayout=BLayout.COL_MAJOR)
    types: dict[str, Type] = {"src": TileType(F32, 8, 32), "scale": scale, "dst": TileType(I8, 8, 32)}
    yield sample(instruction, ("src", "scale"), types, {"quant_type": QuantType.INT8_SYM})
    types |= {"offset": scale, "dst": TileType(U8, 8, 32)}
    yield sample(instruction, ("src", "scale", "offset"), types, {"quant_type": QuantType.INT8_ASYM})
    types["tmp"] = TileType(F32, 8, 32)
    yield sample(instruction, ("src", "scale", "tmp", "offset"), types, {"quant_type": QuantType.INT8_ASYM})


# A tile that is too small breaks another rule.
_equal_regions = require(
    "valid-equal",
    "dst.region == src.region",
    HARDWARE,
    when="dst.rows >= src.valid_rows and dst.cols >= src.valid_cols",
    statement="src and dst have equal valid regions",
    source=changes.DIALECT,
    on_lanes=False,
    since="2026-08",
)


TQUANT = common.tile_instruction(
    "tquant",
    "Quantise to 8-bit integers with a factor and a zero point per row.",
    "Over the valid region of src: q = src * scale[p,0], with an offset + offset[p,0], each in f32 rounded "
    "to nearest even; p is the row, or the last valid row of the parameter tile where that is smaller. dst "
    "= q rounded to the nearest integer, ties to even, clamped to [-128, 127] (INT8_SYM) or [0, 255] "
    "(INT8_ASYM); NaN gives 0. A parameter tile without valid rows is read at row 0.",
    _INT8_OPERANDS,
    typesets.pairs(_INT8_ROWS, _INT8_ROWS, _INT8_ROWS),
    cls="irregular",
    type_vars=("D", "S"),
    domain="src",
    reads=(),
    forms=(
        ("src", "scale"),
        ("src", "scale", "offset"),
        ("src", "scale", "tmp", "offset"),
    ),
    attributes=(QUANT_TYPE,),
    placement=(in_vec(_INT8_OPERANDS), row_major((_INT8_OPERANDS[0], _SOURCE), ("a2a3",))),
    extra=(
        _quant_type,
        _quant_dst,
        _quant_sign,
        _parameter_layout,
        fixed_type("scale", ("f32",), PROFILE_NAMES, HEADERS),
        fixed_type("offset", ("f32",), PROFILE_NAMES, HEADERS),
        room("dst", lambda site: site.region("src"), "the valid region of src"),
        _equal_regions,
        replace(regions.equal_shape("src", "tmp", ("a2a3",), changes.DIALECT, "tmp-shape"), since="2026-08"),
    ),
    decisions=(
        Decision(
            "Pages divide by the parameter and clip to [-128, 127]; what is computed?",
            "The parameter is multiplied, the offset added before rounding; asymmetric results clip to "
            "[0, 255].",
            f"{HEADERS}; {common.SIMULATOR_VALUES}",
        ),
        common.formal(
            "How often is a code rounded?",
            "Product and sum each in f32, then the integer: 0x3f000001 * 0x3f7fffff gives 0.",
            f"{HEADERS}; {common.SIMULATOR_VALUES}",
            "once, from the exact product and sum: the same gives 1",
            "asl/arch/profile/reference-quantization.asl",
        ),
        Decision(
            "A2/A3 scales src in place; does src change?",
            "No: sources never change.",
            common.SIMULATOR_VALUES,
        ),
        Decision(
            "Hardware rounds to i32, then f16, then saturates to 8 bits; are the values the same?",
            "Yes: integers up to 2048 are exact in f16, larger ones saturate.",
            HEADERS,
        ),
        Decision(
            "Texts of August 2026 have dst signed or unsigned with either kind; what is stored?",
            "The low 8 bits of the clamped number: the kind says the range, dst's type how others read it.",
            changes.DIALECT,
        ),
        Decision(
            "What does NaN give?",
            "0, the hardware's conversion; it is not defined in the simulator.",
            HEADERS,
        ),
    ),
    sampler=_int8_samples,
    positive=("scale",),
    assembly=assembly.Assembly(
        generic=assembly.segments("src fp=scale offset tmp dst"),
        scratch="behind",
        counted=("src", "scale", "offset"),
    ),
    sized_by=("dst",),
)

# -- tdequant ----------------------------------------------------------------------------------------

_DEQUANTISED: typesets.Rows = tuple((d, s) for d in typesets.FLOATS for s in ("i8", "u8", "i16", "i32"))
_DEQUANT_HARDWARE: typesets.Rows = (("f32", "i8"), ("f32", "i16"))
_DEQUANT_OPERANDS = (
    Operand("dst", "out", dtype="D"),
    _SOURCE,
    Operand("scale", "in", dtype="f32", shown=(0.5,)),
    Operand("offset", "in", dtype="f32", shown=(1,)),
)


def _parameters(site: Site) -> Want:
    return site.region("dst")[0], 1


def _dequant_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (d, s) in enumerate(instruction.types[profile.name]):
        para = TileType(F32, 8, 16) if i % 2 else TileType(F32, 16, 1, blayout=BLayout.COL_MAJOR)
        cols = max(row_cols(dtype(s)), row_cols(dtype(d)))
        types: dict[str, Type] = {
            "src": TileType(dtype(s), 8, cols),
            "scale": para,
            "offset": para,
            "dst": TileType(dtype(d), 8, cols),
        }
        yield sample(instruction, ("src", "scale", "offset"), types)


TDEQUANT = common.tile_instruction(
    "tdequant",
    "Turn quantised integers into floats with scale and offset per row.",
    "dst[r,c] = (src[r,c] - offset[r,p]) * scale[r,p] with p = min(c, valid columns of scale - 1), at least "
    "0. The code and both parameters are first rounded to the type of dst; in f32 the difference and the "
    "product each round once, for f16 and bf16 both are computed in f32 and the result rounds once.",
    _DEQUANT_OPERANDS,
    typesets.pairs(_DEQUANTISED, _DEQUANT_HARDWARE, _DEQUANT_HARDWARE),
    cls="irregular",
    type_vars=("D", "S"),
    reads=("src",),
    placement=(in_vec(_DEQUANT_OPERANDS), row_major((_DEQUANT_OPERANDS[0], _SOURCE), HARDWARE)),
    extra=(
        fixed_type("scale", ("f32",), PROFILE_NAMES, HEADERS),
        fixed_type("offset", ("f32",), PROFILE_NAMES, HEADERS),
        room("scale", _parameters, "a factor for every valid row of dst"),
        room("offset", _parameters, "an offset for every valid row of dst"),
    ),
    decisions=(
        Decision(
            "The page has one parameter per row; are several columns legal?",
            "Yes: column c uses parameter column c, the last one from there on.",
            common.SIMULATOR_VALUES,
        ),
    ),
    sampler=_dequant_samples,
)


# -- block-scaled quantisation -----------------------------------------------------------------------

MX_ALG = Attribute(
    "mx_alg",
    ir.MxQuantAlg,
    None,
    "element format and exponent rule; absent: as quant_type (MXFP8) and quantScaleAlg (ocp) say",
)
_SAID = (
    Attribute("quant_type", ir.QuantType, None, "element format: MXFP8 or MXFP4_E2M1"),
    Attribute("quantScaleAlg", ir.QuantScaleAlg, None, "exponent rule"),
)


_MX_OPERANDS = (
    Operand("dst", "out", dtype="D", note="codes"),
    Operand("exp", "out", dtype="u8", note="e8m0 exponent per group", extent=regions.OPEN),
    Operand("max", "out", dtype=None, note="largest magnitude per group", extent=regions.OPEN),
    Operand("scaling", "out", dtype=None, note="factor per group", extent=regions.OPEN),
    _SOURCE,
)


def _no_two_share(operands: tuple[Operand, ...]) -> tuple[Apart, ...]:
    return all_apart([o.name for o in operands], "PTOAS memory planning (no-alias pairs)")


_REORDERED_EXPONENTS = Operand(
    "exp_zz", "out", dtype="u8", optional=True, note="exponents in boxes of boxes", extent=regions.OPEN
)
_MX_SIMULATED: typesets.Rows = tuple((d, s) for d in ("i8", "f4e2m1x2") for s in typesets.FLOATS)
_MX_A5: typesets.Rows = (
    *((d, s) for d in ("i8", "f8e4m3") for s in typesets.FLOATS),
    ("f4e2m1x2", "f16"),
    ("f4e2m1x2", "bf16"),
    ("f4e2m1_pair", "f16"),
    ("f4e2m1_pair", "bf16"),
    *(("u8", s) for s in typesets.FLOATS),
)
_MX_VALUES = (
    "Per group, m is the largest |src| as f32, starting from 0; e is its exponent field. FP8 skips NaNs; "
    "NV FP4 makes m NaN when an element is; OCP FP4 takes the largest bit pattern of |src| cut to bf16. "
    "exponent = 255 where m is NaN. OCP: max(e - 8, 0) for FP8, max(e - 2, 0) for FP4. NV: 0 for m = 0; "
    "otherwise d = m * f32(1/448) for FP8, m * f32(1/6) for FP4, rounded in f32: the exponent field of d, "
    "plus 1 where its mantissa is not 0, unless the field is 254, or 0 with a mantissa of at most 0x400000; "
    "254 where d is infinite. factor = m where the exponent is 255, otherwise 2^(127 - exponent). v = src * "
    "factor in f32, for a bf16 source with FP4 rounded to bf16. FP8 codes: e4m3, nearest, ties to even, "
    "clamped to +-448, NaN 0x7F, a zero result 0x00 whatever its sign; NV: |v| below 2^-10, -0 included, "
    "gives a zero of the sign of v. FP4 codes: e2m1, nearest, ties to even, clamped to +-6, the sign kept; 7 "
    "where the factor or v is NaN, 15 where the factor is -infinity. exp, max and scaling receive exponent, "
    "m and factor, max and scaling converted to their element types."
)


@forbid(
    "mx-format",
    "an FP8 algorithm with 8-bit codes, FP4 with f4e2m1x2",
    A5_AND_SIMULATOR,
    invalid_if=assign(mx_alg=ir.MxQuantAlg.HIF4),
)
def _format(site: Site) -> Iterator[Finding]:
    alg, d = algorithm(site.attrs), element_type(site.types.get("dst"))
    if d is None:
        return
    if alg == ir.MxQuantAlg.HIF4:
        yield None, "mx_alg is HIF4; allowed: the four OCP and NV algorithms"
    elif (alg in FP4_ALGS) != ir.unpaired(d).packed:
        expected = "f4e2m1x2" if alg in FP4_ALGS else "i8"
        yield "dst", f"dst has element type {d} with {alg.name}; allowed: {expected}"


def _breaks_groups(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    if "interleave" in attrs:
        return False
    for name in ("src", "dst"):
        retile(name, rows=24, v_row=24)(types, attrs, profile)
    if types["exp"] == ir.TileType(ir.U8, 8, 32):
        attrs["grp_axis"], types["exp"] = 0, ir.TileType(ir.U8, 1, 64)
    return True


@forbid(
    "group-size",
    "whole groups of 32 along the grouped axis",
    A5_AND_SIMULATOR,
    invalid_if=_breaks_groups,
)
def _group_size(site: Site) -> Iterator[Finding]:
    t = site.tile("src")
    if t is None:
        return
    extent, what = (t.rows, "rows") if grouped_down(site) else (t.cols, "columns")
    if extent % GROUP:
        yield "src", f"src has {extent} {what}; allowed: a multiple of {GROUP}, the group size"


@forbid(
    "group-valid",
    "whole valid groups of 32 along the grouped axis",
    ("a5",),
    source=changes.DIALECT,
    invalid_if=absent("interleave", shrunk("src", rows=1, cols=1)),
    since="2026-08",
)
def _group_valid(site: Site) -> Iterator[Finding]:
    along_rows = grouped_down(site)
    extent, what = site.region("src")[not along_rows], "rows" if along_rows else "columns"
    t = site.tile("src")
    if t is not None and not t.shape[not along_rows] % GROUP and extent is not None and extent % GROUP:
        yield "src", f"src has {extent} valid {what}; allowed: a multiple of {GROUP}, the group size"


def _groups(site: Site) -> Want:
    """Rows and columns of one exponent per group."""
    src, (rows, cols), groups = site.tile("src"), site.region("src"), groups_in_line(site)
    if src is None or groups is None:
        return None, None
    if not grouped_down(site):
        dense = site.profile.name == "a5" and (t := site.tile("exp")) is not None and t.rows == 1
        return (1, None if rows is None else rows * groups) if dense else (rows, groups)
    if site.attrs.get("interleave"):
        return -(-groups // 2), None if cols is None else 2 * cols
    return groups, cols


def _breaks_exponents(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    t = types["exp"]
    tall = isinstance(t, ir.TileType) and t.rows > 2
    return (retile("exp", rows=2, v_row=2) if tall else one_block("exp"))(types, attrs, profile)


def _flat_groups(site: Site) -> int | None:
    """Elements of a tile that has one per group, in rows as long as those of src where groups go down."""
    src, (rows, cols), groups = site.tile("src"), site.region("src"), groups_in_line(site)
    if src is None or not groups:
        return None
    if not grouped_down(site):
        return (rows or 0) * groups
    return (groups - 1) * (src.cols if site.profile.name == "a5" else cols or 0) + (cols or 0)


def _flat_room(name: str) -> Constraint:
    return require(
        f"{name}-room",
        f"{name}.elements >= groups",
        A5_AND_SIMULATOR,
        let={"groups": _flat_groups},
        why="one per group",
        statement=f"{name} has an element per group",
        invalid_if=one_block(name),
    )


def _scratch_types(site: Site) -> tuple[str, ...]:
    src = element_type(site.types.get("src"))
    also = src is not None and site.profile.name == "a5" and src.name != "f32"
    return ("f32", src.name) if also and src is not None else ("f32",)


def _scratch_type(name: str) -> Constraint:
    return require(
        f"{name}-type",
        f"{name}.dtype in types",
        A5_AND_SIMULATOR,
        let={"types": _scratch_types},
        statement=f"{name} has element type f32, on a5 also that of src",
        invalid_if=retype(name, "u8"),
    )


def _breaks_interleave(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    t = types["src"]
    attrs["interleave"] = True
    if not isinstance(t, ir.TileType) or (t.rows % 64 == 0 and profile.name == "a5"):
        return False
    types["exp"] = ir.TileType(ir.U8, t.rows // GROUP, 4 * t.cols)
    return True


@forbid(
    "interleave",
    "interleave on a5 with whole pairs of groups",
    A5_AND_SIMULATOR,
    invalid_if=_breaks_interleave,
)
def _interleave(site: Site) -> Iterator[Finding]:
    src = site.tile("src")
    if not site.attrs.get("interleave") or src is None:
        return
    if site.profile.name == "cpu_sim":
        yield None, "interleave on cpu_sim; allowed on a5 only"
    elif src.rows % 64 or (site.valid["src"][0] or 0) % 64:
        yield "src", f"src has {src.rows} rows; allowed with interleave: whole pairs of groups (64 rows)"


@forbid(
    "group-shape",
    "with groups along rows, max and scaling of one element per group; interleave with them only, in pairs",
    A5_AND_SIMULATOR,
    invalid_if=absent("interleave", assign(interleave=True)),
)
def _interleaved_axis(site: Site) -> Iterator[Finding]:
    if site.attrs.get("interleave") and not grouped_down(site):
        python = site.op.span is not None and site.op.span.python
        axis = 'grpAxis="axis0"' if python else "grpAxis = #pto<mx_group_axis axis0>"
        yield None, "interleave with groups along columns", axis
        return
    yield from _interleave.check(site)
    if site.profile.name == "a5" and "quant_type" in site.op.attrs:
        yield from block_scales.assembled_shapes(site)


#: How the groups of a sample lie: along its columns, down its rows, or down with pairs of exponents.
_Grouping: TypeAlias = Literal["along", "down", "pairs"]


def _mx_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    # A text may call the codes signed or unsigned; they are one type.
    for i, (d, s) in enumerate(r for r in instruction.types[profile.name] if r[0] != "u8"):
        packed = ir.unpaired(ir.dtype(d)).packed
        algs = FP4_ALGS if packed else FP8_ALGS
        for alg in algs if i < 2 or packed else algs[i % 2 : i % 2 + 1]:
            for grouping in _groupings(instruction, profile):
                yield _mx_sample(instruction, profile, (d, s), alg, grouping)


def _groupings(instruction: Instruction, profile: Profile) -> tuple[_Grouping, ...]:
    if instruction.name == "tquant.mx":
        return ("along", "down", "pairs") if profile.name == "a5" else ("along", "down")
    return ("pairs", "down") if profile.name == "a5" else ("down",)


def _mx_sample(
    instruction: Instruction, profile: Profile, row: tuple[str, str], alg: ir.MxQuantAlg, grouping: _Grouping
) -> Sample:
    d, s = map(ir.dtype, row)
    scratch = s if profile.name == "a5" else ir.F32
    rows, cols, flat = 8, 64, ir.TileType(scratch, 1, 32)
    exp = ir.TileType(ir.U8, 8, 32)
    if grouping != "along":
        rows, cols = (64, 32) if alg in FP8_ALGS else (64 if grouping == "pairs" else 32, 64)
        groups = rows // GROUP
        flat = ir.TileType(scratch, groups, cols)
        exp = ir.TileType(ir.U8, 1, 2 * cols) if grouping == "pairs" else ir.TileType(ir.U8, groups, cols)
    types: dict[str, ir.Type] = {
        "src": ir.TileType(s, rows, cols),
        "dst": ir.TileType(d, rows, cols // d.numbers),
        "exp": exp,
        "max": flat,
        "scaling": flat,
    }
    return sample(instruction, ("src",), types, _mx_attributes(instruction, profile, s, alg, grouping))


def _mx_attributes(
    instruction: Instruction, profile: Profile, s: ir.DType, alg: ir.MxQuantAlg, grouping: _Grouping
) -> dict[str, object]:
    """The assembler's attributes of groups down the rows, where it has the form."""
    attrs: dict[str, object] = {"interleave": True} if grouping == "pairs" else {}
    if instruction.name == "tquant_dn" or grouping == "along":
        return {"mx_alg": alg, **attrs}
    attrs["grpAxis"] = ir.MxGroupAxis.AXIS0
    if profile.name == "cpu_sim" or (grouping == "pairs" and s == F32):
        return {"mx_alg": alg, **attrs}
    kind = ir.QuantType.MXFP8 if alg in FP8_ALGS else ir.QuantType.MXFP4_E2M1
    scale = ir.QuantScaleAlg.OCP if alg in OCP_ALGS else ir.QuantScaleAlg.NV
    return {"quant_type": kind, "quantScaleAlg": scale, **attrs}


_MX_RULES = (
    _format,
    fixed_type("exp", ("u8",), A5_AND_SIMULATOR, HEADERS),
    _scratch_type("max"),
    _scratch_type("scaling"),
    regions.equal_shape("src", "dst", SIMULATOR, HEADERS),
    codes_room,
    _group_size,
    _group_valid,
    room("exp", _groups, "an exponent per group", A5_AND_SIMULATOR, invalid_if=_breaks_exponents),
    _flat_room("max"),
    _flat_room("scaling"),
)
_MX_PLACES = (
    in_vec(_MX_OPERANDS, A5_AND_SIMULATOR),
    plain(tuple(o.name for o in _MX_OPERANDS), A5_AND_SIMULATOR),
)
_MX_DECISIONS = (
    Decision(
        "The page subtracts 1 for e2m1; which exponent offset holds?",
        "2, as the code does: the largest e2m1 value is 1.5 * 2^2.",
        f"{common.SIMULATOR_VALUES}; {HEADERS}",
    ),
    Decision(
        "The page rounds stochastically; which rounding holds?",
        "To nearest even.",
        common.SIMULATOR_VALUES,
    ),
    Decision(
        "Do groups run over the physical or the valid extent of the grouped axis?",
        "The physical one on cpu_sim, the valid one on a5; invalid lanes of a group are what any source "
        "lane outside is on the profile.",
        f"{common.SIMULATOR_VALUES}; {HEADERS}",
    ),
    Decision(
        "The simulator clears twice the bytes of an FP4 destination, also behind the tile.",
        "Exactly the tile is cleared, on cpu_sim only.",
        "public CPU simulator, recorded vectors (only the tile is recorded)",
    ),
    Decision(
        "May MXFP4 have an f32 source?",
        "On cpu_sim; the header of A5 forbids it.",
        HEADERS,
    ),
    Decision(
        "Are the NZ store mode and its reordered exponents offered?",
        "They are read and not executed: the simulator's result is not defined, the headers of A5 have no "
        "such form; tmov reorders exponents.",
        "public CPU simulator",
    ),
)

TQUANT_MX = common.tile_instruction(
    "tquant.mx",
    "Quantise to block-scaled FP8 or FP4 with shared exponents.",
    "grp_axis 1: each valid row of src is cut into groups of 32 columns; exp[row, group], and the "
    "elements row * groups + group of max and scaling in storage order, belong to a group; on a5 an exp "
    "tile of one row is filled in that order too. grp_axis 0: as tquant_dn. " + _MX_VALUES + " On cpu_sim "
    "an FP4 dst is zeroed first.",
    (*_MX_OPERANDS, _REORDERED_EXPONENTS),
    typesets.pairs(_MX_SIMULATED, (), _MX_A5),
    cls="irregular",
    type_vars=("D", "S"),
    domain="src",
    reads=(),
    attributes=(
        MX_ALG,
        Attribute("grp_axis", int, 1, "1: groups along columns, 0: along rows"),
        Attribute("grpAxis", ir.MxGroupAxis, None, "the same: axis1 or axis0"),
        *_SAID,
        Attribute("storeMode", ir.VecStoreMode, None, "order of dst and exp_zz"),
        Attribute("interleave", bool, False, "with axis0: exponents of group pairs side by side; a5"),
    ),
    placement=_MX_PLACES,
    extra=(
        *_MX_RULES,
        one_of("grp_axis", (0, 1), HEADERS, A5_AND_SIMULATOR),
        _interleaved_axis,
        reordered,
        not_executed,
    ),
    decisions=_MX_DECISIONS,
    sampler=_mx_samples,
    sized_by=("dst",),
    apart=_no_two_share((*_MX_OPERANDS, _REORDERED_EXPONENTS)),
)

TQUANT_DN = common.tile_instruction(
    "tquant_dn",
    "Quantise to block-scaled FP8 or FP4 with groups along rows.",
    "Each valid column c of src is cut into groups of 32 rows; exp[group, c], and the elements "
    "group * n + c (n: the valid columns of src on cpu_sim, on a5 all) of max and scaling in storage order, "
    "belong to a group. With interleave, "
    "exp[group / 2, 2 * c + group mod 2] instead. " + _MX_VALUES + " On cpu_sim an FP4 dst is zeroed first.",
    _MX_OPERANDS,
    typesets.pairs(_MX_SIMULATED, (), _MX_A5),
    cls="irregular",
    type_vars=("D", "S"),
    domain="src",
    reads=(),
    attributes=(MX_ALG, Attribute("interleave", bool, False, "exponents of group pairs side by side; a5")),
    placement=_MX_PLACES,
    extra=(*_MX_RULES, _interleave),
    decisions=_MX_DECISIONS,
    sampler=_mx_samples,
    sized_by=("dst",),
    apart=_no_two_share(_MX_OPERANDS),
)

TQUANT_HIF4 = replace(
    common.tile_instruction(
        "tquant.hif4",
        "Quantise bf16 to 4-bit floats with a three-level scale.",
        "Groups of 64 elements share a scale; each 8 and each 4 of them a further bit. The instruction "
        "exists on A6 targets only.",
        (Operand("dst", "out", dtype="D"), _SOURCE),
        typesets.pairs((), (), ()),
        cls="irregular",
        type_vars=("D", "S"),
        domain="custom",
        placement=(),
        decisions=(
            Decision(
                "Is it executed?",
                "No: none of the three profiles has it, and the simulator maps its tag to another algorithm.",
                "page TQUANT_HIF4; pto-isa headers (A6 only)",
            ),
        ),
    ),
    executable=False,
    row=("f4e1m2x2", "bf16"),
)

_BLOCK_SCALED: tuple[Instruction, ...] = (
    TQUANT_MX,
    TQUANT_DN,
    TQUANT_HIF4,
)

INSTRUCTIONS: tuple[Instruction, ...] = (TQUANT, TDEQUANT, *_BLOCK_SCALED)
