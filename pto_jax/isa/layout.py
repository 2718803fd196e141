"""Layout and rearrangement: moves between tiles, and of the exponents of block-scaled formats."""

from collections.abc import Iterator
from dataclasses import replace

from ..ir import MxGroupAxis, Pipe, SLayout, TileType, Type, dtype
from ..profiles import PROFILE_NAMES, Profile, ProfileName
from . import assembly, changes, common, declare, memory
from .rules import (
    block_scales,
    constraints,
    elementwise,
    fixpipe,
    handles,
    irregular,
    layout_moves,
    regions,
    typesets,
)
from .rules.forbid import assign, edit, forbid, one_block, retile
from .rules.require import require
from .samples.operations import Sample
from .semantics import Apart

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


_BETWEEN_TILES: tuple[declare.Instruction, ...] = (
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
                "It is spelled so in texts, and a separate instruction: tmov.zz.",
                f"page tmov; {changes.DIALECT}",
            ),
        ),
        sources=("page tmov", constraints.HEADERS, common.SIMULATOR_VALUES),
        sampler=layout_moves.samples,
        moves="copy",
        in_place={"cpu_sim": ("src",)},
        pipe_rule=handles.loaded,
        assembly=assembly.Assembly(
            generic=assembly.segments("src dst fp pre_quant_scalar=preQuantScalar"),
            typed_apart=True,
            with_tmp="tmov.zz",
        ),
        sized_by=("src",),
    ),
)


# -- shared exponents in the order that products read ------------------------------------------------

#: Rows of exponents in a box, and exponents that lie side by side in it.
BOX_ROWS, BOX_COLS = 16, 2
_A5: tuple[ProfileName, ...] = ("a5",)
_EXPONENT_OPERANDS = (
    replace(common.DST, extent=regions.OPEN, note="exponents in boxes of 16 x 2"),
    replace(common.SRC, note="exponents row by row"),
    declare.Operand("tmp", "tmp", note="scratch"),
)


def across(site: declare.Site) -> bool:
    """Whether the groups that the exponents belong to lie along the rows (axis1) of what was quantised."""
    return site.attrs.get("grpAxis") != MxGroupAxis.AXIS0


def padded(rows: int) -> int:
    """Rows in whole boxes.

    >>> padded(20), padded(16)
    (32, 16)
    """
    return -(-rows // BOX_ROWS) * BOX_ROWS


def _stored(site: declare.Site) -> int | None:
    """Exponents that src has room for and that are written to dst."""
    rows, cols = site.region("dst" if across(site) else "src")
    if rows is None or cols is None:
        return None
    return (padded(rows) if across(site) else rows) * cols


_dst_layout = require("layout-zz", "dst.layout == ZZ", _A5)


@forbid(
    "sizes-static",
    "valid regions of src and dst that stand in their types",
    _A5,
    source=changes.DIALECT,
    invalid_if=retile("src", v_row=None),
)
def _static(site: declare.Site) -> Iterator[declare.Finding]:
    for name, t in site.named("src", "dst"):
        if None in t.valid:
            got = f"{name} has valid region {constraints.size(t.v_row)}x{constraints.size(t.v_col)}"
            yield name, f"{got}; allowed: sizes that its type states"


_equal_counts = require(
    "exponents-equal",
    "src.valid_elements == dst.valid_elements",
    _A5,
    source=changes.DIALECT,
)


@forbid(
    "groups-whole",
    "axis1: an even number of valid columns of dst; axis0: pairs of valid rows and 16s of columns of src",
    _A5,
    source=f"{constraints.HEADERS}; {changes.DIALECT}",
    invalid_if=lambda types, attrs, profile: (
        retile("dst", v_row=1, v_col=1)(types, attrs, profile)
        and retile("src", v_row=1, v_col=1)(types, attrs, profile)
    ),
)
def _whole_boxes(site: declare.Site) -> Iterator[declare.Finding]:
    if across(site):
        cols = site.region("dst")[1]
        if cols is not None and cols % BOX_COLS:
            yield "dst", f"dst has {cols} valid columns; allowed: an even number, two to a box"
        return
    rows, cols = site.region("src")
    if rows is not None and (rows < BOX_COLS or rows % BOX_COLS):
        yield "src", f"src has {rows} valid rows; allowed along axis0: an even number of 2 or more"
    if cols is not None and cols % BOX_ROWS:
        yield "src", f"src has {cols} valid columns; allowed along axis0: a multiple of {BOX_ROWS}"


_dense = require(
    "exponents-dense",
    "src.valid_cols == src.cols",
    _A5,
    when=lambda site: not (across(site) and site.region("src")[0] == 1),
    statement="the valid exponents of src follow each other in its storage",
    source=f"{constraints.HEADERS}; {changes.DIALECT}",
    invalid_if=edit("src", lambda t: replace(t, cols=2 * t.cols) if t.v_row != 1 else None),
)


def _room(name: str) -> declare.Constraint:
    return require(
        f"{name}-room",
        f"{name}.bytes >= stored",
        _A5,
        let={"stored": _stored},
        why="the rows in whole boxes",
        statement=f"{name} has room for whole boxes (axis1: rows rounded up to 16)",
        source=f"{constraints.HEADERS}; {changes.DIALECT}",
        invalid_if=edit(name, lambda t: replace(t, rows=t.v_row) if t.v_row else None),
    )


def _scratch(site: declare.Site) -> int | None:
    """Two blocks of 32 bytes and two bytes of index for every pair of exponents in a row of boxes."""
    rows, cols = site.region("dst")
    if not across(site) or rows is None or cols is None:
        return None
    return 64 + padded(rows) // BOX_ROWS * cols


@forbid(
    "move-modes",
    "no reluPreMode or accToVecMode",
    _A5,
    source=changes.DIALECT,
    invalid_if=assign(reluPreMode=1),
)
def _no_modes(site: declare.Site) -> Iterator[declare.Finding]:
    for key in ("reluPreMode", "accToVecMode"):
        # Extra attributes are legal on every operation; these are those of other moves.
        if site.op.attrs.get(key):
            yield None, f"attribute {key} of a move of exponents; allowed: grpAxis"


def _samples(instruction: declare.Instruction, profile: Profile) -> Iterator[Sample]:
    """Whole boxes and a last one of four rows, exponents in one row, and those of both axes."""
    zz = SLayout.ROW_MAJOR
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = dtype(name)
        rows = (16, 20, 16)[i]
        src = TileType(d, padded(rows), 32, v_row=rows)
        types: dict[str, Type] = {
            "src": src,
            "dst": replace(src, slayout=zz),
            "tmp": TileType(d, 1, 128),
        }
        yield irregular.sample(instruction, ("src", "tmp"), types)
        if i == 0:
            yield irregular.sample(instruction, ("src", "tmp"), types | {"src": TileType(d, 1, 512)})
        pairs = TileType(d, 4, 32)
        types = {"src": pairs, "dst": replace(pairs, slayout=zz), "tmp": TileType(d, 1, 32)}
        yield irregular.sample(instruction, ("src", "tmp"), types, {"grpAxis": MxGroupAxis.AXIS0})


_MOVE = common.tile_instruction(
    "tmov.zz",
    "Reorder the exponents of block-scaled formats into boxes of boxes.",
    "R and C are the valid rows and columns of dst (axis1) or src (axis0); e[k] is element k of src in "
    "storage order. axis1: E(r, c) = e[r * C + c] for r < R and 0 for the rows up to the next "
    "multiple of 16; dst, in storage order, is E in boxes of 16 rows and 2 columns, row by row of boxes, "
    "each row by row. axis0: E(r, c) = e[r * C + c]; dst is E in boxes of 2 rows and 16 columns, column "
    "by column of boxes, each column by column. Elements of dst behind the last box stay. Texts write "
    "tmov, with a second tile that is not in the scaling buffer.",
    _EXPONENT_OPERANDS,
    typesets.table((), (), ("u8", "hif8", "f8e8m0")),
    cls="layout",
    domain="custom",
    attributes=(
        declare.Attribute(
            "grpAxis", MxGroupAxis, MxGroupAxis.AXIS1, "axis of the groups", mnemonic="mx_group_axis"
        ),
    ),
    placement=(constraints.in_vec(_EXPONENT_OPERANDS, _A5), irregular.plain(("src",), _A5)),
    extra=(
        _dst_layout,
        _static,
        _equal_counts,
        _whole_boxes,
        _dense,
        _room("src"),
        _room("dst"),
        elementwise.scratch_bytes(_scratch, "indices of boxes", one_block("tmp"), _A5),
        _no_modes,
    ),
    decisions=(
        declare.Decision(
            "Hardware writes zeros into src behind its valid rows (axis1); does it change?",
            "No: no instruction changes its sources; src has to be large enough.",
            f"{constraints.HEADERS}; {changes.DIALECT}",
        ),
        declare.Decision(
            "Is tmp used along axis0?",
            "No: it may be a tile of any size.",
            f"{constraints.HEADERS}; {changes.DIALECT}",
        ),
    ),
    sources=(constraints.HEADERS, changes.DIALECT, "assembler's system tests (tquant_mx_dn)"),
    sampler=_samples,
    sized_by=("src",),
    changes=(changes.new("the exponents of tquant.mx in the order that products take"),),
    assembly=assembly.Assembly(
        generic=assembly.segments("src dst fp=tmp pre_quant_scalar"), typed_apart=True, tmp_clause="tmov"
    ),
    apart=(Apart("dst", ("src",), "PTOAS memory planning (no-alias pairs)", PROFILE_NAMES),),
)

_EXPONENTS: tuple[declare.Instruction, ...] = (_MOVE,)

INSTRUCTIONS: tuple[declare.Instruction, ...] = (*_BETWEEN_TILES, *_EXPONENTS)
