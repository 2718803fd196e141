"""Block-scaled (MX) products: small floats with one power-of-two scale per 32 elements along K."""

from ..profiles import PROFILE_NAMES
from .declare import Decision, Instruction, Operand
from .matrix import ACC, BIAS, PAIRS_F8, A, B, product
from .rules.constraints import fixed_type
from .rules.matrix import SCALE_RULES
from .rules.matrix_scales import with_printed_scales
from .rules.typesets import NIBBLE_FLOATS, Rows, TypeTable

A_SCALE = Operand("a_scale", "in", dtype="f8e8m0", note="M x K/32 scales of a")
B_SCALE = Operand("b_scale", "in", dtype="f8e8m0", note="K/32 x N scales of b")

_PAIRS: Rows = (*PAIRS_F8, *(("f32", a, b) for a in NIBBLE_FLOATS for b in NIBBLE_FLOATS))
TYPES: TypeTable = {"cpu_sim": _PAIRS, "a2a3": (), "a5": _PAIRS}

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
    "PTOAS programs; pto-isa headers and tile aliases",
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
_SUM = "sum over k < K of a({i}, k) * b(k, j) * a_scale({i}, k / 32) * b_scale(k / 32, j)"


def _family(base: str, noun: str, *, vector: bool) -> tuple[Instruction, ...]:
    i = "0" if vector else "i"
    total, corner = _SUM.format(i=i), "for j < N" if vector else "for i < M, j < N"
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
                TYPES,
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


INSTRUCTIONS: tuple[Instruction, ...] = (
    *_family("tmatmul.mx", "matrix product", vector=False),
    *_family("tgemv.mx", "product of a row vector and a matrix", vector=True),
    product(
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
    ),
)
