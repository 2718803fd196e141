"""Layout and rearrangement: moves between tiles."""

from dataclasses import replace

from ..ir import Pipe
from . import assembly, changes, common, declare, memory
from .rules import block_scales, constraints, fixpipe, handles, layout_moves, regions
from .rules.forbid import assign
from .rules.require import require

_OPERANDS = (
    declare.Operand("dst", "out", default=("src",)),
    declare.Operand("src", "in", dtype=None),
    replace(fixpipe.FP, optional=True),
    fixpipe.WORD,
)
#: A name that those who build operations use.
TMOV = "tmov"


def _columns(site: declare.Site) -> int | None:
    return site.valid.get("dst", (None, None))[1]


_no_group_axis = require(
    "group-axis",
    "not grpAxis.given",
    why="it belongs to the move of exponents with scratch",
    source=changes.DIALECT,
    invalid_if=assign(grpAxis=0),
    since="2026-08",
)


INSTRUCTIONS: tuple[declare.Instruction, ...] = (
    declare.Instruction(
        TMOV,
        "layout",
        "Copy the valid region between tiles of any place and layout.",
        "dst(r, c) = src(r, c) through both physical layouts, so that any pair of layouts is a conversion. "
        "Equal element types keep their bits; other pairs convert as a cast does: to a float with one "
        "rounding to nearest even and overflow to infinity, from a float to an integer by truncation, "
        "between integers by keeping the low bits. reluPreMode then makes +0 of what is less than zero; "
        "NaN and -0 stay. With fp or preQuantScalar, a2a3 and a5 quantise as tmov.fp does, with the word "
        "of the column or with the one word given; ReLU then is that of the quantisation. cpu_sim "
        "quantises with fp, and ignores preQuantScalar. Valid regions, places and layouts select nothing "
        "else: a tile that takes half of an accumulator in a dual mode holds the first half.",
        _OPERANDS,
        memory.MOVED,
        ("T",),
        (fixpipe.RELU, fixpipe.ACC_TO_VEC, fixpipe.ST_PHASE, fixpipe.SATURATE),
        (
            replace(
                constraints.type_row(_OPERANDS, ("T",), memory.MOVED), breaks=layout_moves.breaks_moved_types
            ),
            fixpipe.paths(layout_moves.PATHS),
            _no_group_axis,
            fixpipe.unlisted_path,
            layout_moves.equal_types,
            layout_moves.place_types,
            fixpipe.accumulated_types(block_scales.MOVED_PLAIN, block_scales.MOVED_QUANTISED),
            layout_moves.equal_shapes,
            layout_moves.cube_layouts,
            layout_moves.small_buffers,
            fixpipe.accumulated_layouts({"a2a3": ("NZ",), "a5": ("ND", "DN", "NZ")}),
            fixpipe.accumulator_only,
            fixpipe.dual_mode(),
            fixpipe.word_type,
            *fixpipe.parameter_rules(_columns, "each valid column of dst"),
            *regions.covers(("src",), "dst"),
        ),
        (("src",), ("src", "fp"), ("src", "preQuantScalar")),
        "dst",
        Pipe.V,
        decisions=(
            common.REGIONS_MAY_DIFFER,
            declare.Decision("Does a move keep NaN bits?", "Yes: bits are copied.", common.SIMULATOR_VALUES),
            declare.Decision(
                "Is a scalar parameter word used?",
                "On a2a3 and a5. cpu_sim ignores it, as recorded, and converts as without it.",
                f"page tmov; {constraints.HEADERS}; {common.SIMULATOR_VALUES}",
            ),
            declare.Decision(
                "What does the clamp at zero make of NaN and -0?",
                "They stay, unlike in stores, windows and quantising moves, where both become +0.",
                common.SIMULATOR_VALUES,
            ),
            declare.Decision(
                "What do the dual modes change?",
                "No value: one vector core is modelled, and it receives the tile's first rows and columns.",
                f"{common.SIMULATOR_VALUES}; there is no second core to receive the other half",
            ),
            declare.Decision(
                "Does acc to vec exist on a2a3?",
                "With a warning: the headers have no such move, the assembler accepts it.",
                f"{constraints.HEADERS}; PTOAS verifier",
            ),
            declare.Decision(
                "Is the exponent reordering with a scratch tile (A5, to ZZ) part of tmov?",
                "It is spelled so in texts, and an instruction of its own: tmov.zz.",
                f"page tmov; {changes.DIALECT}",
            ),
        ),
        sources=("page tmov", constraints.HEADERS, common.SIMULATOR_VALUES),
        sampler=layout_moves.samples,
        moves="copy",
        in_place={"cpu_sim": ("src",)},
        pipe_rule=handles.moved,
        assembly=assembly.Assembly(
            generic=assembly.segments("src dst fp pre_quant_scalar=preQuantScalar"),
            typed_apart=True,
            with_tmp="tmov.zz",
        ),
        sized_by=("src",),
    ),
)
