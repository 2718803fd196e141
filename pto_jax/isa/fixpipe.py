"""Accumulators on their way out with a row of parameter words: moves, windows and stores."""

from collections.abc import Iterator
from typing import Literal

from ..ir import Loc, Pipe, ReluPreMode, TileType, Type, dtype
from ..profiles import Profile
from . import assembly, changes, common, memory, traits
from .declare import Constraint, Decision, Instruction, Operand, Role, Site
from .layout_extract import CORNER, window_inside, windows
from .rules import fixpipe, handles, irregular, regions, typesets
from .rules.block_scales import MOVED_QUANTISED, SIMULATED_VECTOR, STORED_QUANTISED
from .rules.constraints import HARDWARE, HEADERS, place, type_row
from .rules.fixpipe import (
    ATOMIC,
    FP,
    VERIFIER,
    accumulator_extent,
    atomic_types,
    parameter_rules,
    stores_by_column,
    used_words,
)
from .rules.windows import STORED, layout_pair, window_fits
from .samples.operations import Sample

_ACC, _MAT, _VEC = Loc.ACC, Loc.MAT, Loc.VEC
_PATHS: fixpipe.Paths = {"a2a3": ((_ACC, _MAT),), "a5": ((_ACC, _MAT), (_ACC, _VEC))}
_MOVES: typesets.TypeTable = typesets.pairs(SIMULATED_VECTOR, MOVED_QUANTISED["a2a3"], MOVED_QUANTISED["a5"])
_STORES: typesets.TypeTable = typesets.pairs(
    SIMULATED_VECTOR, STORED_QUANTISED["a2a3"], STORED_QUANTISED["a5"]
)
_SRC = Operand("src", "in", dtype="S", note="accumulator")
_INDEX = (Operand("indexRow", "in", "index", dtype=None), Operand("indexCol", "in", "index", dtype=None))

_QUANTISED = (
    "Q(x, w) converts an accumulator element by a 64-bit word w; the mode follows from the element types. "
    "8-bit integers: f32(x) * scale is rounded half to even and saturated to nine bits, [-256, 255]; the "
    "offset (bits 45:37, two's complement) is added and the sum clamped to [-128, 127] if bit 46 is set, "
    "else to [0, 255]; NaN gives 0; the low 8 bits are kept. On cpu_sim the offset is unsigned and is added "
    "to the product as f32, before the one rounding. "
    "i32 to i16: x shifted right by bits 35:32 plus one, saturated to 16 bits, of which cpu_sim keeps the "
    "low ones. Floats: y = f32(x) * scale, "
    "clamped to the finite range of the destination (bf16: of f32) unless infinite or NaN, then rounded "
    "once; i32 to f16 clamps infinities too, and so do the others with saturateInf, which also makes 0 of "
    "NaN. The scale is the short float in bits 31:13 (1-8-10; zero if exponent and mantissa "
    "are zero, no subnormals, exponent 255 overflows to infinity); in a scalar word on cpu_sim it is the "
    "f32 in bits 31:0. Element types without a mode convert as a cast does. ReLU, v > 0 ? v : +0, follows "
    "the quantisation and precedes the cast to the element type. Where subnormals are flushed, x and the "
    "result are, the scale is not."
)
_GENERATORS = (
    "hw-native-sys/pto-isa tests/npu/a2a3/src/st/testcase/tmov_acc2mat/gen_data.py and those of "
    "tstore_acc2gm, tmov_acc2vec, textract_acc2vec and tinsert_acc2vec; PTO-ISA/pto-spec "
    "asl/arch/profile/matrix-quantization.asl"
)
_DECISIONS = (
    common.formal(
        "Where do products saturate on the way to 8 and 16 bits?",
        "On a2a3 and a5 to nine bits before the offset, and shifted numbers to 16 bits; on cpu_sim only the "
        "sum is clamped and a shifted number wraps, as recorded. The product is one f32 operation.",
        f"{_GENERATORS}; {common.SIMULATOR_VALUES}",
        "to nine and sixteen bits, as on a2a3 and a5 here",
        "asl/arch/profile/matrix-quantization.asl, decision 0085 (177)",
        ("cpu_sim",),
    ),
    common.formal(
        "Is the offset signed?",
        "On a2a3 and a5, so that negative zero points have one; not on cpu_sim, as recorded.",
        "PTO-ISA/pto-spec decision 0085 (179); operator tests of CANN; the tests for hardware have offset 0 "
        f"only; {common.SIMULATOR_VALUES}",
        "signed: scale 1, x = 10, offset field 492 gives -10",
        "asl/arch/profile/matrix-quantization.asl, decision 0085 (179)",
        ("cpu_sim",),
    ),
    common.formal(
        "Which bits of the one word for a tile are the scale?",
        "Those of the short float on a2a3 and a5, as in a word per column; the f32 in bits 31:0 on cpu_sim, "
        "as recorded.",
        f"{_GENERATORS}, decision 0085 (177); {common.SIMULATOR_VALUES}",
        "the short float: 0x3f800d1b and 100 into f16 gives 100",
        "decision 0085 (177)",
        ("cpu_sim",),
    ),
    common.formal(
        "Where does ReLU stand?",
        "Last, on the quantised number: scale 1, x = -2, offset 5 gives 3.",
        common.SIMULATOR_VALUES,
        "negatives are multiplied by 0 before the offset is added: 5",
        "decision 0085 (176)",
    ),
    common.formal(
        "Which of two equally near hif8 codes is taken?",
        "The even one: 1.0625 gives 0x08, -1.1875 gives 0x8A.",
        HEADERS,
        "that of the greater number: 0x09 and 0x89",
        "asl/arch/profile/matrix-postprocess.asl",
        ("a5",),
    ),
    common.formal(
        "What does a float product beyond the range of dst become?",
        "The largest finite number, as the tests for hardware clamp.",
        f"{_GENERATORS}; {common.SIMULATOR_VALUES}",
        "that only when saturating, else an infinity (NaN in e4m3)",
        "asl/arch/profile/matrix-postprocess.asl",
    ),
    Decision(
        "The simulator has no mode for f32 into f16 and bf16 with a word per column. Does it use the words?",
        "Yes, as A5 does: a cast that drops the scale is a gap of its code.",
        "no recorded vector shows the case; backend headers of A5",
    ),
    common.formal(
        "What does NaN become in an 8-bit integer?",
        "0; the simulator's result is not defined.",
        "tquant",
        "0 when saturating, else the type's minimum",
        "asl/arch/profile/matrix-postprocess.asl",
    ),
    Decision(
        "Which signedness does an 8-bit destination have?",
        "The word's: the clamp goes by bit 46 whatever the element type, and the low 8 bits are stored.",
        common.SIMULATOR_VALUES,
    ),
    Decision(
        "Do the float modes of A5 (hif8, f8e4m3, f32, bf16 from i32) follow the same formula?",
        "Yes: the product is clamped to the finite range and rounded once; infinities and NaN convert as "
        "in tcvt.",
        f"{HEADERS} name the modes; no page gives their formula",
    ),
    Decision(
        "Where does control bit 48 come from?",
        "From the attribute saturateInf, which no page spells; it is off.",
        common.SIMULATOR_VALUES,
    ),
    Decision(
        "What if fp holds elements that are not 64 bits wide?",
        "The operation is accepted with a warning and is not executed.",
        "PTOAS programs declare f16 and f32 tiles; the instruction pages require 64-bit words",
    ),
    Decision(
        "What if a word lies outside fp?",
        "Outside its valid region it reads as the profile's fill, beyond the physical tile as all ones.",
        "no source defines it",
    ),
)


def _used_move(site: Site) -> int | None:
    """Columns of the row of words that a move or a window reads."""
    if site.instruction.name == "tinsert_fp":
        return site.valid.get("src", (None, None))[1]
    cols = site.valid.get("dst", (None, None))[1]
    start = site.constant("indexCol") if "indexCol" in site.values else 0
    return None if cols is None or start is None else cols + start


def _move_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    """Every pair of element types; to vec where a path exists, every third time."""
    for index, pair in enumerate(instruction.types[profile.name]):
        types: dict[str, Type] = {
            "dst": fixpipe.boxed(pair[0]),
            "src": fixpipe.accumulator(pair[1]),
            "fp": fixpipe.parameters(),
        }
        if profile.name != "a2a3" and index % 3 == 0:
            types["dst"] = TileType(dtype(pair[0]), 16, 32)
        yield irregular.sample(instruction, ("src", "fp"), types, {"reluPreMode": ReluPreMode(index % 2)})


def _window_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    form = ("src", "fp", "indexRow", "indexCol")
    for index, pair in enumerate(instruction.types[profile.name]):
        types = windows(instruction.name, pair) | {"fp": fixpipe.parameters(64)}
        yield irregular.sample(instruction, form, types, {"reluPreMode": ReluPreMode(index % 2)}, CORNER)


def _moving(
    name: str,
    summary: str,
    semantics: str,
    role: Role,
    domain: Literal["dst", "src", "custom"],
    operands: tuple[Operand, ...] = (),
    extra: tuple[Constraint, ...] = (),
) -> Instruction:
    every = (
        Operand("dst", role, extent=regions.OPEN if operands else None, keeps=role == "inout"),
        _SRC,
        FP,
        *operands,
    )
    targets = ("NZ", "ND") if operands else ("ND", "DN", "NZ")
    return Instruction(
        name,
        "layout",
        summary,
        f"{semantics} {_QUANTISED}",
        every,
        _MOVES,
        ("T", "S"),
        (fixpipe.RELU, fixpipe.ACC_TO_VEC, fixpipe.ST_PHASE, fixpipe.SATURATE),
        (
            type_row(every, ("T", "S"), _MOVES),
            fixpipe.paths(_PATHS),
            fixpipe.accumulated_layouts({"a2a3": ("NZ",), "a5": targets}),
            fixpipe.dual_mode(("a5",)),
            *parameter_rules(_used_move, "each column that is read"),
            *extra,
        ),
        (("src", "fp", *(o.name for o in operands)),),
        domain,
        Pipe.FIX,
        decisions=(*_DECISIONS, common.REGIONS_MAY_DIFFER),
        sources=(f"page {name}", HEADERS, common.SIMULATOR_VALUES),
        sampler=_window_samples if operands else _move_samples,
        pipe_rule=handles.moved if role == "out" else handles.inserted,
        sized_by=("src",),
        assembly=assembly.Assembly(fp_clause=name.removesuffix("_fp") if operands else ""),
        changes=(
            changes.removed("the form with a clause fp" if operands else "the form with three operands"),
        ),
    )


TMOV_FP = _moving(
    "tmov.fp",
    "Move an accumulator with a parameter word per column.",
    "dst(r, c) = Q(src(r, c), fp(0, c)) over the valid region of dst.",
    "out",
    "dst",
    extra=regions.covers(("src",), "dst"),
)
TEXTRACT_FP = _moving(
    "textract_fp",
    "Copy a window of an accumulator with a parameter word per column.",
    "dst(r, c) = Q(src(r + indexRow, c + indexCol), fp(0, c + indexCol)) over the valid region of dst; "
    "windows that leave src read as in textract (one that starts outside it starts at its last column plus "
    "one), and a column beyond fp as a word of all ones.",
    "out",
    "custom",
    _INDEX,
    (window_inside(extracts=True),),
)
TINSERT_FP = _moving(
    "tinsert_fp",
    "Write an accumulator into a window with a parameter word per column.",
    "dst(r + indexRow, c + indexCol) = Q(src(r, c), fp(0, c)) over the valid region of src; other elements "
    "of dst stay, and windows that leave dst are cut off as in tinsert.",
    "inout",
    "custom",
    _INDEX,
    (window_inside(extracts=False),),
)
_STORE_OPERANDS = (Operand("dst", "out", "gm"), _SRC, FP)
TSTORE_FP = Instruction(
    "tstore_fp",
    "memory",
    "Store an accumulator with a parameter word per column.",
    "window element (r, c) = Q(src(r, c), fp(0, c)) for the valid lanes of src; on cpu_sim fp(0, r) for "
    f"tiles of block layout col_major, such as every accumulator. atomic_add adds as in tstore. {_QUANTISED}",
    _STORE_OPERANDS,
    _STORES,
    ("T", "S"),
    (
        ATOMIC,
        fixpipe.RELU,
        fixpipe.ST_PHASE,
        fixpipe.SATURATE,
        *memory.VIEW_LAYOUT,
    ),
    (
        type_row(_STORE_OPERANDS, ("T", "S"), _STORES),
        place((_SRC,), (_ACC,), HARDWARE),
        fixpipe.accumulated_layouts({"a2a3": (), "a5": ()}),
        accumulator_extent,
        atomic_types(HARDWARE),
        window_fits("src", "dst", until="2026-08"),
        window_fits("src", "dst", "warning", since="2026-08"),
        layout_pair("src", "dst", STORED),
        *parameter_rules(used_words, "each word that is read"),
    ),
    (("src", "fp"),),
    "src",
    Pipe.FIX,
    decisions=(
        Decision(
            "Is the parameter that of the element's column or row?",
            "The column's on a2a3 and a5; on cpu_sim the row's for a col_major tile, as recorded.",
            f"{common.PAGES}; {common.SIMULATOR_VALUES}",
        ),
        *_DECISIONS,
    ),
    sources=("page tstore_fp", HEADERS, VERIFIER, common.SIMULATOR_VALUES),
    sampler=stores_by_column,
    traits=traits.Traits(transfer=("src", "dst")),
    pipe_rule=handles.stored,
    assembly=assembly.Assembly(indexed=("src", "fp"), fp_clause="tstore"),
    changes=(changes.removed("tstore with a clause fp"),),
)
INSTRUCTIONS: tuple[Instruction, ...] = (TMOV_FP, TEXTRACT_FP, TINSERT_FP, TSTORE_FP)
