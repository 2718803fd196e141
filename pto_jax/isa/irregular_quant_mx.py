"""Block-scaled quantisation: groups of 32 elements share an exponent."""

from collections.abc import Iterator
from dataclasses import replace

from .. import ir
from ..profiles import PROFILE_NAMES, Profile
from . import changes, common
from .declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules import block_scales, regions, typesets
from .rules.block_scales import (
    FP4_ALGS as FP4_ALGS,
    FP8_ALGS,
    GROUP as GROUP,
    REORDERED as REORDERED,
    algorithm as algorithm,
    along_rows as along_rows,
    codes_room,
    grouped_down,
    groups_in_line,
    not_executed,
    reordered,
)
from .rules.constraints import HEADERS, SIMULATOR, element_type, fixed_type, in_vec
from .rules.forbid import Types, absent, assign, forbid, one_block, retile, retype, shrunk
from .rules.irregular import A5_AND_SIMULATOR, Want, one_of, plain, room, sample
from .rules.require import require
from .samples.operations import Sample
from .semantics import all_apart

_SOURCE = Operand("src", "in", dtype="S")
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
        wanted = "f4e2m1x2" if alg in FP4_ALGS else "i8"
        yield "dst", f"dst has element type {d} with {alg.name}; allowed: {wanted}"


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
    invalid_if=assign(interleave=True),
)
def _interleaved_axis(site: Site) -> Iterator[Finding]:
    if site.attrs.get("interleave") and not grouped_down(site):
        yield None, "interleave with groups along columns; allowed: grpAxis = #pto<mx_group_axis axis0>"
        return
    yield from _interleave.check(site)
    if site.profile.name == "a5" and "quant_type" in site.op.attrs:
        yield from block_scales.assembled_shapes(site)


def _mx_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    # A text may call the codes signed or unsigned; they are one type.
    for i, (d, s) in enumerate(r for r in instruction.types[profile.name] if r[0] != "u8"):
        algs = FP4_ALGS if ir.unpaired(ir.dtype(d)).packed else FP8_ALGS
        for alg in algs if i < 2 or ir.unpaired(ir.dtype(d)).packed else algs[i % 2 : i % 2 + 1]:
            yield _mx_sample(instruction, profile, d, s, alg)


def _mx_sample(instruction: Instruction, profile: Profile, d: str, s: str, alg: ir.MxQuantAlg) -> Sample:
    scratch = ir.dtype(s) if profile.name == "a5" else ir.F32
    attrs: dict[str, object] = {"mx_alg": alg}
    if instruction.name == "tquant_dn":
        rows, cols, exp = (
            (64, 32, ir.TileType(ir.U8, 2, 32)) if alg in FP8_ALGS else (32, 64, ir.TileType(ir.U8, 1, 64))
        )
        if profile.name == "a5" and alg in FP8_ALGS:
            attrs["interleave"], exp = True, ir.TileType(ir.U8, 1, 64)
        flat = 64
    else:
        rows, cols, exp, flat = 8, 64, ir.TileType(ir.U8, 8, 32), 32
    types: dict[str, ir.Type] = {
        "src": ir.TileType(ir.dtype(s), rows, cols),
        "dst": ir.TileType(ir.dtype(d), rows, cols // ir.dtype(d).numbers),
        "exp": exp,
        "max": ir.TileType(scratch, 1, flat),
        "scaling": ir.TileType(scratch, 1, flat),
    }
    return sample(instruction, ("src",), types, attrs)


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
    apart=all_apart(
        (*(o.name for o in _MX_OPERANDS), _REORDERED_EXPONENTS.name),
        "PTOAS memory planning (no-alias pairs)",
        PROFILE_NAMES,
    ),
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
)

INSTRUCTIONS: tuple[Instruction, ...] = (
    TQUANT_MX,
    TQUANT_DN,
    TQUANT_HIF4,
)
