"""Matrix and matrix-vector instructions: plain and block-scaled products into an accumulator.

In block-scaled (MX) products small floats share one power-of-two scale per 32 elements along K.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..ir import AccPhase, BLayout, DType, Loc, Pipe, TileType, Type, dtype
from ..profiles import PROFILE_NAMES, Profile, ProfileName
from .common import HEADER_LISTS, OUT_OF_REGION, SIMULATOR_VALUES, TYPES_BY_HEADER
from .declare import Attribute, Constraint, Decision, Instruction, Operand, Sampler
from .rules.block_scales import with_printed_scales
from .rules.constraints import fixed_type, same_types, type_row
from .rules.matrix import BIAS_RULES, ROLES, SCALE_RULES, common, one_row
from .rules.regions import PRODUCT
from .rules.typesets import NIBBLE_FLOATS, Row, Rows, TypeTable
from .samples.operations import Sample
from .traits import Effect, Traits

TYPE_VARS = ("D", "A", "B")
DST = Operand("dst", "out", dtype="D", note="accumulator tile", extent=PRODUCT)
ACC = Operand("acc", "in", dtype="D", note="accumulator that is added to, dst itself or another one")
A = Operand("a", "in", dtype="A", note="left tile, M x K")
B = Operand("b", "in", dtype="B", note="right tile, K x N")
BIAS = Operand("bias", "in", dtype="D", note="one row, added to every row")
PHASE = Attribute(
    "accPhase",
    AccPhase,
    AccPhase.UNSPECIFIED,
    "hand-over of the accumulator to the stores; no effect on values",
    ("accPhase", "acc_phase", "phase"),
)

#: Mantissa bits an f32 operand keeps in the short format of the f32 modes (``sethf32mode``).
SHORT_MANTISSA: Mapping[ProfileName, int] = {"a2a3": 11, "a5": 10}
#: The attribute under which an execution knows the rounding mode of the f32 modes, when one is on.
ROUNDING_STATE = "f32Rounding"

_WIDE: Rows = (("i32", "i8", "i8"), ("f32", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "f32", "f32"))
_F8 = ("f8e4m3", "f8e5m2")
PAIRS_F8: Rows = tuple(("f32", a, b) for a in _F8 for b in _F8)
TYPES: TypeTable = {
    "cpu_sim": _WIDE,
    "a2a3": _WIDE,
    "a5": (*_WIDE, *PAIRS_F8, ("f32", "hif8", "hif8")),
}

#: Profiles whose float sums start from the accumulator; the simulator adds it to the finished sum.
STARTED: tuple[ProfileName, ...] = ("a2a3", "a5")

SIZES = Decision(
    "Where do M, K and N come from, when valid regions disagree?",
    "M and K are the valid rows and columns of a, N the valid columns of b. Exactly the M x N corner of "
    "dst is written, whatever its own valid region; every other lane keeps its bytes.",
    SIMULATOR_VALUES,
)
ORDER = Decision(
    "In which order and precision is a float product summed?",
    "k ascending from +0 in one f32 accumulator, each step a fused multiply-add of the operands widened to "
    "f32 (one rounding). Hardware pages name the accumulator type only.",
    SIMULATOR_VALUES,
)
STARTS = Decision(
    "Does the old accumulator start a float sum, or is it added to the finished one?",
    "It starts the sum on a2a3 and a5, so products in a row are one fold over all their k; on cpu_sim it is "
    "added last, with one rounding, as recorded.",
    "backend headers; hw-native-sys/pto-isa issue 280; PTO-ISA/pto-spec "
    f"asl/tile/model/execution/cube.asl; {SIMULATOR_VALUES}",
)
BIAS_LAST = Decision(
    "Does the bias start the sum, or is it added to the finished one?",
    "Added last, with one rounding.",
    f"{SIMULATOR_VALUES}; PTO-ISA/pto-spec decision 0079",
)
_IN_PLACE = Decision(
    "Hardware passes only the address of dst. What if acc is another tile?",
    "acc is read as written; programs are portable when both name one buffer.",
    f"{SIMULATOR_VALUES}; backend headers",
)
_BIAS_REGION = Decision(
    "Which lanes receive the bias?",
    "The valid region of dst; its lanes outside the M x N corner get it added to their old value.",
    SIMULATOR_VALUES,
)
_BIAS_TYPE = Decision(
    "Examples declare a half bias beside a float accumulator; is that legal?",
    "No: the bias has the accumulator's element type.",
    "page tmatmul_bias; assertions of every backend",
)
_SHORT_F32 = Decision(
    "What does a multiplication do while an f32 mode (sethf32mode, settf32mode) is on?",
    "Each f32 operand is first rounded to 11 (a2a3) or 10 (a5) mantissa bits, products and sums stay f32; "
    "no effect on cpu_sim and on other element types.",
    "pto_tile.hpp; page tmatmul",
)
_ONE_ROW_RUNS_AS_16 = Decision(
    "A2/A3 runs a product with M = 1 as M = 16 and writes 16 accumulator rows. Do the others change?",
    "No: rows 1 to 15 keep their bytes; programs may not rely on them there.",
    "A2/A3 header; valid region model",
)
_VECTOR_K = Decision(
    "Hardware takes K from b and forces M = 1, the simulator takes both from a. Which holds?",
    "M and K of a in every profile; more than one valid row of a is an error.",
    f"pages tgemv; {SIMULATOR_VALUES}",
)


def tile_of(name: str, d: DType, rows: int, cols: int, profile: Profile) -> TileType:
    """A legal tile for an operand of a multiplication."""
    role = ROLES[name]
    order = profile.left_blayout if name == "a" else role.blayout
    fractal = role.fractal or (1024 if role.loc == Loc.ACC else 512)
    return TileType(d, rows, cols, loc=role.loc, blayout=order, slayout=role.slayout, fractal=fractal)


def operand_types(
    names: tuple[str, ...], row: Row, extents: tuple[int, int, int], profile: Profile
) -> dict[str, Type]:
    """Tiles of a multiplication with M, K, N = ``extents`` and the element types of a row."""
    m, k, n = extents
    shapes = {"dst": (m, n), "acc": (m, n), "a": (m, k), "b": (k, n), "bias": (1, n)}
    shapes |= {"a_scale": (m, k // 32), "b_scale": (k // 32, n)}
    bound = {"dst": row[0], "acc": row[0], "bias": row[0], "a": row[1], "b": row[2]}
    return {n: tile_of(n, dtype(bound.get(n, "f8e8m0")), *shapes[n], profile) for n in names}


def _one_valid_row(types: Mapping[str, Type]) -> dict[str, Type]:
    """The same tiles of which only the first row of a is valid, and of what follows from it."""
    return {
        n: t.with_valid(1, t.v_col) if isinstance(t, TileType) and n in ("a", "a_scale", "acc", "dst") else t
        for n, t in types.items()
    }


def sampler(k: int, *, vector: bool, step: int = 1) -> Sampler:
    """One sample per type row (every ``step``-th); tiles of one row, phases and layouts with the first."""

    def samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
        def make(
            row: Row, form: tuple[str, ...], m: int = 16, left: BLayout | None = None, **attrs: AccPhase
        ) -> Sample:
            types = operand_types((*form, "dst"), row, (m, k, 16), profile)
            a = types["a"]
            if left is not None and isinstance(a, TileType):
                types["a"] = replace(a, blayout=left)
            return Sample(instruction, _one_valid_row(types) if vector else types, form, attrs)

        rows = instruction.types[profile.name]
        (form,) = instruction.forms
        for row in rows[::step]:
            yield make(row, form)
        if vector and rows:
            yield make(rows[0], form, m=1, accPhase=AccPhase.FINAL)
        elif profile.name == "cpu_sim" and instruction.name == "tmatmul":
            yield make(rows[0], form, left=BLayout.ROW_MAJOR)

    return samples


def _where_it_exists(rules: tuple[Constraint, ...], types: TypeTable) -> tuple[Constraint, ...]:
    """The rules on the profiles that have the instruction; elsewhere the type table says that it is not."""
    limited = (replace(c, profiles=tuple(p for p in c.profiles if types[p])) for c in rules)
    return tuple(c for c in limited if c.profiles)


def product(
    name: str,
    summary: str,
    semantics: str,
    sources: tuple[Operand, ...],
    types: TypeTable,
    *,
    vector: bool = False,
    strict: tuple[ProfileName, ...] = (),
    extra: tuple[Constraint, ...] = (),
    decisions: tuple[Decision, ...] = (),
    k: int = 32,
    sampled: int = 1,
    executable: bool = True,
) -> Instruction:
    """Declare a multiplication."""
    operands = (DST, *sources)
    checks = (
        *((same_types(operands),) if ACC in sources or BIAS in sources else ()),
        *common(strict, vector=vector),
        *((one_row,) if vector else ()),
        *(BIAS_RULES if BIAS in sources else ()),
        *extra,
    )
    return Instruction(
        name,
        "matrix",
        summary,
        semantics,
        operands,
        types,
        TYPE_VARS,
        (PHASE,),
        (type_row(operands, TYPE_VARS, types), *_where_it_exists(checks, types)),
        (tuple(o.name for o in sources),),
        "custom",
        Pipe.M,
        decisions=(
            SIZES,
            *decisions,
            *((STARTS, _IN_PLACE) if ACC in sources else ()),
            *((BIAS_LAST, _BIAS_REGION, _BIAS_TYPE) if BIAS in sources else ()),
            *((_VECTOR_K,) if vector else ()),
            OUT_OF_REGION,
            TYPES_BY_HEADER,
        ),
        sources=(f"page {name}", HEADER_LISTS, SIMULATOR_VALUES),
        executable=executable,
        sampler=sampler(k, vector=vector, step=sampled),
        traits=Traits(effects=(Effect("read", "mode"),)),
        sized_by=("a",),
    )


_SUM = "sum over k < K of a(i, k) * b(k, j)"
_PLAIN = (ORDER, _SHORT_F32)


def _family(base: str, noun: str, *, vector: bool) -> tuple[Instruction, Instruction, Instruction]:
    decisions = _PLAIN if vector else (*_PLAIN, _ONE_ROW_RUNS_AS_16)
    i = "0" if vector else "i"
    total = _SUM.replace("(i", f"({i}")
    corner = "for j < N" if vector else "for i < M, j < N"
    return (
        product(
            base,
            f"{noun} into an accumulator tile.",
            f"dst({i}, j) = {total}, {corner}; int8 products wrap in i32, floats accumulate in f32.",
            (A, B),
            TYPES,
            vector=vector,
            decisions=decisions,
        ),
        product(
            f"{base}.acc",
            f"{noun} added to an accumulator tile.",
            f"dst({i}, j) = acc({i}, j) + ({total}), {corner}; floats start from acc, on cpu_sim the sum is "
            "finished first.",
            (ACC, A, B),
            TYPES,
            vector=vector,
            decisions=decisions,
        ),
        product(
            f"{base}.bias",
            f"{noun} plus a bias per column.",
            f"dst({i}, j) = {total}, {corner}; then dst(r, c) += bias(0, c) over the valid region of dst.",
            (A, B, BIAS),
            TYPES,
            vector=vector,
            decisions=decisions,
        ),
    )


INSTRUCTIONS: tuple[Instruction, ...] = (
    *_family("tmatmul", "Matrix product", vector=False),
    *_family("tgemv", "Product of a row vector and a matrix", vector=True),
)


A_SCALE = Operand("a_scale", "in", dtype="f8e8m0", note="M x K/32 scales of a", shown=(1,))
B_SCALE = Operand("b_scale", "in", dtype="f8e8m0", note="K/32 x N scales of b", shown=(1,))

_PAIRS: Rows = (*PAIRS_F8, *(("f32", a, b) for a in NIBBLE_FLOATS for b in NIBBLE_FLOATS))
MX_TYPES: TypeTable = {"cpu_sim": _PAIRS, "a2a3": (), "a5": _PAIRS}

_ORDER = Decision(
    "In which order and precision is a scaled product summed?",
    "k ascending from +0 in one f32 accumulator. Each step forms a * b * (a_scale * b_scale) and its sum "
    "with the accumulator in f64 and rounds that sum to f32.",
    "public CPU simulator, recorded vectors",
)
_SCALES = Decision(
    "Pages leave the role of the scales to the implementation; what do they scale?",
    "a_scale(i, k / 32) multiplies a(i, k), b_scale(k / 32, j) multiplies b(k, j); K need not be a multiple "
    "of 32 in the valid region.",
    "public CPU simulator, recorded vectors",
)
_SCALE_TILES = Decision(
    "Compilers print scale tiles of f16 in scaling, of the shape of the data; are they legal?",
    "With a warning, and they are not executed: such a tile says nothing about storage, so only f8e8m0 in "
    "scaleleft and scaleright, one scale per 32 elements, boxes of 32 bytes, has values.",
    "PTOAS programs; pto-isa headers and tile aliases; the assembler's verifier checks shapes and layouts "
    "only, and its expansion reads scales at the address of the factor, whatever the tile is",
)
_SPECIAL_CODES = Decision(
    "Do the small formats have NaN and infinity here?",
    "Yes, as everywhere: f8e4m3 7F, f8e5m2 from 7D on and f8e8m0 FF are NaN, f8e5m2 7C is infinity. The "
    "simulator reads them as 480, ordinary binades and 2^128.",
    "OCP formats; conversion pages",
)
_PROFILES = Decision(
    "The overview denies block-scaled products to the simulator, its code has them. Do they exist there?",
    "Yes, on cpu_sim and a5.",
    "public CPU simulator, recorded vectors",
)
_DECISIONS = (_ORDER, _SCALES, _SCALE_TILES, _SPECIAL_CODES, _PROFILES)
_RULES = (
    fixed_type("a_scale", ("f8e8m0",), PROFILE_NAMES, "page tmatmul-mx"),
    fixed_type("b_scale", ("f8e8m0",), PROFILE_NAMES, "page tmatmul-mx"),
    *SCALE_RULES,
)
_MX_SUM = "sum over k < K of a({i}, k) * b(k, j) * a_scale({i}, k / 32) * b_scale(k / 32, j)"


def _mx_family(base: str, noun: str, *, vector: bool) -> tuple[Instruction, ...]:
    i = "0" if vector else "i"
    total, corner = _MX_SUM.format(i=i), "for j < N" if vector else "for i < M, j < N"
    forms: tuple[tuple[str, str, str, tuple[Operand, ...]], ...] = (
        ("", "", f"dst({i}, j) = {total}, {corner}.", (A, A_SCALE, B, B_SCALE)),
        (
            ".acc",
            " added to an accumulator tile",
            f"dst({i}, j) = acc({i}, j) + ({total}), {corner}; sums start from acc, on cpu_sim the sum is "
            "finished first.",
            (ACC, A, A_SCALE, B, B_SCALE),
        ),
        (
            ".bias",
            " plus a bias per column",
            f"dst({i}, j) = {total}, {corner}; then dst(r, c) += bias(0, c) over the valid region of dst.",
            (A, A_SCALE, B, B_SCALE, BIAS),
        ),
    )
    return tuple(
        with_printed_scales(
            product(
                f"{base}{suffix}",
                f"Block-scaled {noun}{more}.",
                semantics,
                sources,
                MX_TYPES,
                vector=vector,
                strict=PROFILE_NAMES,
                extra=_RULES,
                decisions=_DECISIONS,
                k=64,
                sampled=3 if suffix else 1,
            )
        )
        for suffix, more, semantics, sources in forms
    )


_HIF4 = product(
    "tmatmul.mx.hif4",
    "Block-scaled matrix product of 4-bit floats with a three-level scale per 64 elements.",
    "As tmatmul.mx with e1m2 codes of bias 0 and, per 64 elements along K, an e6m2 scale, a power of two "
    "per 8 and one per 4 elements.",
    (A, A_SCALE, B, B_SCALE),
    dict.fromkeys(PROFILE_NAMES, ()),
    strict=PROFILE_NAMES,
    decisions=(
        Decision(
            "Which profile has the form?",
            "None of cpu_sim, a2a3 and a5: it belongs to a later generation, and its element type is no "
            "tile type here.",
            "page tmatmul_mx_hif4; backend headers",
        ),
    ),
    k=64,
    executable=False,
)

MX_INSTRUCTIONS: tuple[Instruction, ...] = (
    *_mx_family("tmatmul.mx", "matrix product", vector=False),
    *_mx_family("tgemv.mx", "product of a row vector and a matrix", vector=True),
    replace(_HIF4, row=("f32", "f4e1m2x2", "f4e1m2x2")),
)

INSTRUCTIONS = (*INSTRUCTIONS, *MX_INSTRUCTIONS)
