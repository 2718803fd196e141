"""Quantisation to 8-bit integers with row parameters, and back."""

from collections.abc import Iterator
from dataclasses import replace

from ..ir import F32, I8, U8, BLayout, QuantType, TileType, Type, dtype
from ..profiles import PROFILE_NAMES, Profile
from . import assembly, changes, common, declare
from .declare import Attribute, Decision, Finding, Instruction, Operand, Site
from .rules import elementwise, regions, typesets
from .rules.constraints import HARDWARE, HEADERS, element_type, fixed_type, in_vec, row_major
from .rules.forbid import assign, forbid, give, retype
from .rules.irregular import Want, room, row_cols, sample
from .rules.require import require
from .samples.operations import Sample

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
    wanted = "u8" if kind == QuantType.INT8_ASYM else "i8"
    if isinstance(kind, QuantType) and d is not None and d.name in ("i8", "u8") and d.name != wanted:
        yield "dst", f"dst has element type {d} with {kind.name}; allowed: {wanted}"


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
        found = kind.name if isinstance(kind, QuantType) else kind
        yield None, f"quant_type is {found}; allowed: INT8_SYM, INT8_ASYM (tquant.mx makes the others)"
        return
    asymmetric = kind == QuantType.INT8_ASYM
    if asymmetric != ("offset" in site.values):
        allowed = "one, with INT8_ASYM" if asymmetric else "none, with INT8_SYM"
        found = "an" if "offset" in site.values else "no"
        yield "offset" if not asymmetric else None, f"got {found} offset; allowed: {allowed}"


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

INSTRUCTIONS: tuple[Instruction, ...] = (TQUANT, TDEQUANT)
