"""Comparison into packed masks, selection by a mask, and element type conversion."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..ir import I32, AttrValue, CmpMode, RoundMode, SaturationMode, Type
from ..profiles import PROFILE_NAMES, Profile
from . import assembly, declare, semantics
from .changes import DIALECT, Default
from .common import (
    DST,
    MASK_DST,
    PAGES,
    SCRATCH_OPTIONAL,
    SIMULATOR_VALUES,
    SRC0,
    SRC1,
    formal,
    tile_instruction,
)
from .declare import Attribute, AttrMap, Contradiction, Decision, Finding, Instruction, Operand, Site
from .rules import elementwise, regions
from .rules.constraints import element_type, equal_valid, fixed_type, in_vec, row_major
from .rules.conversions import Conversion, conversions
from .rules.forbid import Types, forbid, one_block
from .rules.require import require
from .rules.typesets import STANDARD, TWO_FOUR_BYTES, Rows, pairs, table

CMP_MODE = Attribute("cmpMode", CmpMode, CmpMode.EQ, "relation", ("cmpMode", "cmp", "cmp_mode"))
HARDWARE_MASKS = ("u8", "i8", "u32", "i32")
READ_MASKS = ("u8", "i8", "u16", "i16", "u32", "i32")

MASK_TYPES = Decision(
    "Which element type does the mask have?",
    "a2a3: u8 (also written i8); a5: u8 or u32 (also i8, i32): pages name u32, the assembler "
    "insists on i8, the "
    "headers assert nothing. cpu_sim: what the simulator compiles.",
    f"{PAGES}; PTOAS verifier; pto-isa headers",
)

STREAMED_MASK = Contradiction(
    "Where does a row of the mask begin?",
    "At a row of the mask tile, and a5 fills it up to a whole predicate of 16 bytes (32 for "
    "elements of one byte) with zeros.",
    "pto-isa headers and their system tests",
    other="right behind the predicates of the row before",
    other_source="PTOAS tilelang system tests of tcmps (10 cases)",
    key="streamed-mask",
    profiles=("a5",),
)


def rows_by_mask(masks: tuple[str, ...], types: tuple[str, ...]) -> Rows:
    """Every mask type with every source type."""
    return tuple((m, t) for m in masks for t in types)


def _less(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["cmpMode"] = CmpMode.LT
    return element_type(types.get("src0")) == I32


equality_only = require(
    "i32-equality",
    "cmpMode in (EQ, NE)",
    ("a2a3",),
    when="src0.dtype == i32",
    why="i32 is compared for equality",
    source="page tcmp (A2/A3 implementation checks)",
    invalid_if=_less,
)


_CMP_OPERANDS = (MASK_DST, SRC0, SRC1)

TCMP = tile_instruction(
    "tcmp",
    "Lane-wise comparison into a packed bit mask.",
    "For each valid row of src0, bit j of the mask row is src0[i,j] <mode> src1[i,j]; comparisons "
    "with NaN are false except NE. On cpu_sim the mask tile is cleared first; on a2a3 and a5 the last mask "
    "element of a row has zeros behind its bits, and those behind it stay, but for what the decisions say of "
    "whole predicates.",
    _CMP_OPERANDS,
    pairs(
        rows_by_mask(("u8",), ("i32", "f16", "f32"))
        + rows_by_mask(("u32",), ("f32", "f16", "bf16", "i8", "u8", "i16", "u16", "i32", "u32")),
        rows_by_mask(("u8", "i8"), ("f32", "f16", "i32")),
        rows_by_mask(HARDWARE_MASKS, STANDARD),
    ),
    type_vars=("M", "T"),
    attributes=(CMP_MODE,),
    domain="src0",
    extra=(equality_only, *regions.mask_receives(PROFILE_NAMES)),
    decisions=(
        MASK_TYPES,
        Decision(
            "A2/A3 computes EQ for i32 whatever the mode; is another mode legal there?",
            "An error on a2a3: the page documents the equality path only. All six modes are legal elsewhere.",
            "page tcmp",
        ),
        Decision(
            "Which valid region is iterated?",
            "src0's; the mask's valid columns cap the words written.",
            SIMULATOR_VALUES,
        ),
    ),
    assembly=assembly.Assembly(inline=True),
)

_SEL_MASK = Operand("mask", "in", dtype=None, note="packed bits, bit 1 selects src0", holds="mask")
_SEL_OPERANDS = (
    DST,
    _SEL_MASK,
    SRC0,
    SRC1,
    replace(elementwise.TMP, implied=declare.Implied(""), default=("i32",)),
)


def _start_of_mask(site: Site) -> int | None:
    d = element_type(site.types.get("dst"))
    return None if d is None else 16 if d.bits == 16 else 8


TSEL = tile_instruction(
    "tsel",
    "Per-lane selection between two tiles by a packed mask.",
    "dst = src0 where the mask bit is 1, else src1; raw bits are copied.",
    _SEL_OPERANDS,
    table(STANDARD, TWO_FOUR_BYTES, STANDARD),
    reads=("src0", "src1"),
    placement=(in_vec(_SEL_OPERANDS), row_major((DST, SRC0, SRC1))),
    extra=(
        fixed_type("mask", READ_MASKS, ("cpu_sim", "a2a3", "a5"), "page tsel (mask encoding)"),
        *regions.mask_holds(stream=True),
        fixed_type("tmp", ("i32", "u32", "f32"), ("a2a3",), DIALECT, since="2026-08"),
        replace(elementwise.scratch_bytes(_start_of_mask, "the start of a mask"), breaks=None),
    ),
    decisions=(
        SCRATCH_OPTIONAL,
        Decision(
            "How are mask bits found?",
            "cpu_sim: one bit stream over the mask's valid columns, eight bits per element, not "
            "realigned at rows. "
            "a2a3 and a5: each row starts at its own mask row.",
            f"{SIMULATOR_VALUES}; pto-isa headers",
        ),
    ),
    moves="select",
    apart=(
        semantics.Apart(
            "dst", ("mask",), "a2a3/TSel.hpp: a row of mask is read after the rows before it are written"
        ),
    ),
)


def _pairs_of(profile_name: str) -> Rows:
    return tuple((d, s) for s, d in conversions(profile_name))


def _break_saturation(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    row = _pair(types, profile)
    if row is None or row.saturation_selectable or row.selectable_with_tmp or row.default_saturation is None:
        return False
    attrs["sat_mode"] = SaturationMode(1 - row.default_saturation)
    return True


def _pair(types: Mapping[str, Type], profile: Profile) -> Conversion | None:
    s, d = element_type(types.get("src")), element_type(types.get("dst"))
    return None if s is None or d is None else conversions(profile.name).get((s.name, d.name))


@forbid(
    "saturation-effect",
    "a saturation mode that has an effect for the pair",
    severity="warning",
    source="pto-isa headers (tcvt)",
    on_lanes=False,
    invalid_if=_break_saturation,
)
def _saturation_effect(site: Site) -> Iterator[Finding]:
    row, mode = _pair(site.types, site.profile), site.attrs.get("sat_mode")
    if row is None or not isinstance(mode, SaturationMode) or "sat_mode" in site.op.implied:
        return
    acts = row.saturation(mode, tmp="tmp" in site.types)
    if acts is not None and acts != mode:
        yield "dst", f"sat_mode {mode.name} has no effect for {_where(site)}, which acts as {acts.name}"


def _saturation_meant(
    types: Mapping[str, Type], attrs: Mapping[str, AttrValue], profile: Profile
) -> AttrValue:
    """The mode in effect where none is given; of pairs without any, the one that texts leave out."""
    row = _pair(types, profile)
    if row is None:
        return None
    mode = row.saturation(None)
    return SaturationMode.OFF if mode is None else mode


def _saturation_acting(types: Mapping[str, Type], mode: AttrValue, profile: Profile) -> AttrValue:
    """The mode in effect where one is given, None where every value is in range."""
    row = _pair(types, profile)
    choice = mode if isinstance(mode, SaturationMode) else None
    return None if row is None else row.saturation(choice, tmp="tmp" in types)


def _break_rounding(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    row = _pair(types, profile)
    attrs["rmode"] = RoundMode.ODD
    return row is not None and RoundMode.ODD not in row.modes and row.fallback is not None


@forbid(
    "rounding-effect",
    "a rounding mode that the pair honours",
    ("a2a3", "a5"),
    severity="warning",
    source="pto-isa headers (tcvt)",
    on_lanes=False,
    invalid_if=_break_rounding,
)
def _rounding_effect(site: Site) -> Iterator[Finding]:
    row, mode = _pair(site.types, site.profile), site.attrs.get("rmode")
    if row is None or not isinstance(mode, RoundMode) or mode in (RoundMode.NONE, RoundMode.RINT):
        return
    if mode not in row.modes and row.fallback not in (None, mode):
        names = ", ".join(m.name for m in row.modes) or "none"
        acts = f"acts as {row.fallback.name} for {_where(site)}"
        yield "dst", f"rmode {mode.name} {acts}; modes with an effect: {names}"


def _where(site: Site) -> str:
    s, d = element_type(site.types.get("src")), element_type(site.types.get("dst"))
    return f"{s} to {d} on {site.profile.name}"


#: Pairs that A2/A3 narrows without saturation in several steps, through scratch.
_IN_STEPS = (("f32", "i16"), ("f16", "i16"), ("f16", "i8"))


def _narrows(site: Site) -> bool:
    s, d = element_type(site.types.get("src")), element_type(site.types.get("dst"))
    pair = (s.name, d.name) if s is not None and d is not None else None
    return pair in _IN_STEPS and site.attrs.get("sat_mode") == SaturationMode.OFF


def _narrowed_bytes(site: Site) -> int | None:
    """Scratch of a conversion in steps: whole repeats of f32, or the blocks of a row of f16."""
    src, (rows, cols) = site.tile("src"), site.region("dst")
    if src is None or rows is None or cols is None or not rows * cols or not _narrows(site):
        return None
    if src.dtype.bits == 32:
        rest = 32 * ((min(rows, 255) - 1) * (src.cols // 8) + -(-(cols % 64) // 8)) if cols % 64 else 0
        return max(256 * min(cols // 64, 255), rest)
    width, d = min(cols, 64), element_type(site.types.get("dst"))
    words = 32 * -(-width // 8)
    return max(words, 128 + 32 * -(-width // 16)) if d is not None and d.bits == 8 else words


def _little_for_steps(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["sat_mode"] = SaturationMode.OFF
    return one_block("tmp")(types, attrs, profile)


_CVT_OPERANDS = (
    Operand("dst", "out", dtype="D"),
    Operand("src", "in", dtype="S"),
    replace(elementwise.TMP, implied=declare.Implied("dst", ("a2a3",), _narrows)),
)

TCVT = tile_instruction(
    "tcvt",
    "Element type conversion with rounding and saturation control.",
    "dst = convert(src) with the rounding mode and saturation in effect for the pair on the profile. "
    "cpu_sim: the mode acts from floats to integers only, floats round to nearest even, and equal types "
    "keep their bits unless sat_mode is ON. ON first clamps the source, as f64, to the range that both "
    "types have: an infinity gives the largest finite number (65504 in f16), NaN the upper end (8-bit "
    "floats keep NaN, 4-bit floats have 0 for it), and 64-bit integers lose low bits, into their own type "
    "too. OFF overflows to infinity and keeps the low bits of integers. a2a3 and a5: f32 to f32 rounds to a "
    "whole number; floats to integers truncate under a mode that the pair has not, ODD included (into i4 "
    "they round to nearest even), NaN gives 0, and with OFF the low bits stay of an integer of 32 bits (64 "
    "for i64) that saturates; i32 to f16 (a2a3) rounds to nearest even and floats to hif8 (a5) half away "
    "from zero under every mode; i16 to u32 (a5) makes 0 of negative numbers under every sat_mode. Where a "
    "mode has no effect, the verifier warns.",
    _CVT_OPERANDS,
    pairs(_pairs_of("cpu_sim"), _pairs_of("a2a3"), _pairs_of("a5")),
    type_vars=("D", "S"),
    attributes=(
        Attribute("rmode", RoundMode, RoundMode.RINT, "rounding mode", ("rmode", "roundMode", "round_mode")),
        Attribute(
            "sat_mode",
            SaturationMode,
            None,
            "saturation mode; absent: the default of the pair on the profile, in texts since 2026-08 OFF",
            ("sat_mode", "saturationMode", "saturation_mode", "satmode"),
            unwritten=(
                Default(
                    "2026-08",
                    SaturationMode.OFF,
                    "the default of the pair on the profile",
                    DIALECT,
                    meant=_saturation_meant,
                    acts=_saturation_acting,
                ),
            ),
        ),
    ),
    domain="custom",
    extra=(
        regions.equal_shape("src", "dst", ("cpu_sim", "a2a3", "a5"), "page tcvt (common constraints)"),
        equal_valid(("src", "dst"), "page tcvt (common constraints)"),
        _saturation_effect,
        _rounding_effect,
        elementwise.scratch_bytes(_narrowed_bytes, "the steps between the types", _little_for_steps),
    ),
    decisions=(
        SCRATCH_OPTIONAL,
        Decision(
            "Which valid region is iterated?",
            "The source's on cpu_sim, the destination's on a2a3 and a5; both must be equal.",
            f"page tcvt; {SIMULATOR_VALUES}",
        ),
        Decision(
            "Which saturation mode holds when none is given?",
            "cpu_sim: OFF (i4 destinations always clamp). a2a3 and a5: the default of the pair. Texts of the "
            "language since 2026-08 that give none say OFF.",
            f"{SIMULATOR_VALUES}; pto-isa headers (tcvt); {DIALECT}",
        ),
        Contradiction(
            "Does a conversion saturate that says nothing about it, and what does NaN give?",
            "Not in texts of 2026-08, whose default is OFF; NaN stays NaN in floats.",
            f"{DIALECT}; {SIMULATOR_VALUES}",
            other="integers and 8-bit floats saturate without being asked, and NaN gives 0 in 8-bit floats",
            other_source="PTOAS tilelang system tests of tcvt (31 cases)",
            key="always-saturates",
            profiles=("a5",),
        ),
        formal(
            "How does ODD round a float to an integer?",
            "cpu_sim: to nearest, ties to the odd number. a2a3 and a5, whose instruction has no such mode "
            "for integers: i32 truncates.",
            f"{SIMULATOR_VALUES}; pto-isa headers (tcvt)",
            "to odd: an inexact value takes the neighbour that is odd",
            "decision 0047",
        ),
        Decision(
            "Saturating results the simulator gets wrong (missing limits, overflowing clamps, "
            "small-float encoders).",
            "The documented rule: clamp to the destination's range, one rounding to nearest even "
            "for small floats.",
            "pto-isa documentation of tcvt; recorded lanes are marked undefined or experimental",
        ),
        Decision(
            "An unsupported pair is a silent no-op in the A2/A3 header.",
            "An error here, naming the pairs that exist.",
            "page tcvt",
        ),
    ),
    formulas=(semantics.Formula("convert(src)"),),
    assembly=assembly.Assembly(generic=assembly.segments("src dst tmp"), inline=True),
)

INSTRUCTIONS: tuple[Instruction, ...] = (TCMP, TSEL, TCVT)
