"""Memory and data movement: loads, stores, layouts of global memory, and the prefetch hint."""

from collections.abc import Iterator
from dataclasses import replace

from ..ir import F32, BLayout, GlobalLayout, Loc, PartitionViewType, Pipe, SLayout, TileType, dtype
from ..profiles import Profile
from . import assembly, changes, common, memory_convolution, traits
from .assembly import Assembly
from .common import PAGES, SIMULATOR_VALUES
from .declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules import block_scales, fixpipe, handles, typesets, windows
from .rules.constraints import HARDWARE, HEADERS, SIMULATOR, element_type, place, type_row
from .rules.forbid import Types, edit, forbid, retype
from .rules.require import require
from .rules.typesets import BYTE_FLOATS, NIBBLE_FLOATS, STANDARD, table
from .rules.windows import same_size
from .samples import operations
from .samples.operations import Sample

#: How a window's elements are counted, after its dimensions d0..d4 (missing leading ones are 1).
LAYOUT_TEXT = (
    "Element (r, c) of a window with dimensions d0..d4 (missing leading ones are 1) has the indices: nd "
    "(r/(d1 d2 d3), r/(d2 d3) % d1, r/d3 % d2, r % d3, c); dn (c/(d1 d2 d4), c/(d2 d4) % d1, c/d4 % d2, r, "
    "c % d4); nz, q = c/d4: (q/d1, q % d1, r/d3, r % d3, c % d4); mx_a_zz (0, r/16, c/2, r%16, c%2); "
    "mx_a_nd (0, 0, r, c/2, c%2); mx_a_dn (0, 0, c/2, r, c%2); mx_b_nn (0, c/16, r/2, c%16, r%2); mx_b_nd "
    "(0, 0, r/2, c, r%2); mx_b_dn (0, 0, c, r/2, r%2); nc1hwc0 (r/(d2 d3), c/d4, r/d3 % d2, r % d3, c % d4); "
    "ndc1hwc0 (r/(d3 d4), c/(d2 C0), c/C0 % d2, r/d4 % d3, r % d4) and c % C0 elements further; nhwc as nd; "
    "nchw (0, r/(d3 d4), c, r/d4 % d3, r % d4); ncdhw (r/(d2 d3 d4), c, r/(d3 d4) % d2, r/d4 % d3, r % d4)."
)
LAYOUT_DECISIONS = (
    Decision(
        "Must a window's layout be known?",
        "No: a view without one is taken as nd by values, and rules on pairs of layouts do not apply.",
        "PTOAS (layouts are inferred)",
    ),
    Decision(
        "Do scales load into scaleleft and scaleright tiles directly?",
        "On cpu_sim, as recorded; hardware loads mat tiles.",
        f"{SIMULATOR_VALUES}; {HEADERS}",
    ),
    Decision(
        "Which layouts may a load combine in a tile of a single row or column?",
        "nd and dn both: the bytes are the same.",
        HEADERS,
    ),
)


_PREFETCH = (
    Operand("dst", "out", note="scratch tile; programs may not rely on its contents"),
    Operand("src", "in", "gm", dtype=None),
)


def _prefetched(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        d = dtype(name)
        cols = 2 * 256 // d.storage_bits
        t = TileType(d, 4, cols, v_col=cols - 1 if i % 2 else cols, loc=Loc.MAT if i % 3 == 2 else Loc.VEC)
        yield Sample(instruction, {"dst": t, "src": PartitionViewType((5, cols), d)}, ("src",))


_PREFETCHED = table(STANDARD, STANDARD, (*STANDARD, *BYTE_FLOATS, *NIBBLE_FLOATS))
TPREFETCH = Instruction(
    "tprefetch",
    "memory",
    "Hint that a window of global memory will be read, with a tile for the data.",
    "a2a3 and a5: no effect on values. cpu_sim: element (r * cols + c) of the stored dst, cols its physical "
    "columns, becomes element (r * cols + c) of the buffer from the start of src on, for r, c in the valid "
    "region of dst; shape, strides and layout of src and the layout of dst are not consulted, and what lies "
    "beyond the buffer leaves dst as it is.",
    _PREFETCH,
    _PREFETCHED,
    ("T",),
    (
        Attribute("layout", GlobalLayout, None, "layout of the view; no effect"),
        Attribute("inferred_layout", bool, None, "mark of the assembler", ("pto.inferred_layout",)),
    ),
    (
        type_row(_PREFETCH, ("T",), _PREFETCHED),
        place((_PREFETCH[0],), (Loc.VEC, Loc.MAT), ("cpu_sim", "a2a3", "a5")),
        same_size,
    ),
    (("src",),),
    "dst",
    Pipe.MTE2,
    decisions=(
        Decision(
            "The page states a full load on cpu_sim; its code copies linearly. What does the tile hold?",
            "On cpu_sim what was recorded, the linear copy.",
            SIMULATOR_VALUES,
        ),
        Decision(
            "What does the tile hold on hardware, where rows are packed and may overwrite each other?",
            "What it held before: it is scratch, and its contents are not defined.",
            f"{PAGES}; {HEADERS}",
        ),
    ),
    sources=("page tprefetch", HEADERS, SIMULATOR_VALUES),
    sampler=_prefetched,
    lanes="open",
    assembly=Assembly(indexed=("src",)),
)

LAYOUTS_INSTRUCTIONS: tuple[Instruction, ...] = (TPREFETCH,)


_STORED = (*typesets.STANDARD, *typesets.BYTE_FLOATS, *typesets.NIBBLE_FLOATS, "f8e8m0", "i4")
#: Tiles of every stored type move; i4 is packed on A2/A3 only.
MOVED: typesets.TypeTable = typesets.table(
    _STORED, (*typesets.STANDARD, "i4"), (*(d for d in _STORED if d != "i4"), *typesets.PAIRS)
)
#: Names that those who build operations use.
TLOAD = "tload"
TSTORE = "tstore"


def _elements_match(tile: str, view: str, *, converts: bool) -> Constraint:
    """A transfer copies bits: elements of one size; an accumulator store may convert."""
    return require(
        "element-size",
        f"{view}.width == {tile}.width",
        when=f"{tile}.loc != acc and profile != cpu_sim" if converts else "",
        why="accumulator tiles alone are converted" if converts else "",
        source=f"{common.PAGES}; {HEADERS}",
    )


def _reinterprets(tile: str, view: str) -> Constraint:
    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        return element_type(types[view]) == F32 and retype(view, "i32")(types, attrs, profile)

    @forbid(
        "reinterprets",
        f"{tile} and {view} have one element type",
        severity="warning",
        invalid_if=breaks,
    )
    def rule(site: Site) -> Iterator[Finding]:
        t, d = site.tile(tile), element_type(site.types.get(view))
        if t is None or d is None or t.dtype == d or t.dtype.storage_bits != d.storage_bits:
            return
        if t.dtype.is_integer and d.is_integer:
            return
        got = f"{view} has element type {d}, {tile} has {t.dtype}"
        yield view, f"{got}; the bits are copied, no value is converted"

    return rule


_LOAD_OPERANDS = (
    Operand("dst", "out", conv=True, note="its valid region is the transfer's shape"),
    Operand("src", "in", "gm", dtype=None),
)
_STORE_OPERANDS = (
    Operand("dst", "out", "gm", dtype=None),
    Operand("src", "in", conv=True, note="its valid region is the transfer's shape"),
    fixpipe.WORD,
)
_PTOAS_LOAD = tuple(
    Attribute(name, kind, None, "assembler option without effect on values")
    for name, kind in (
        ("pad_mode", str),
        ("pad_value", str),
        ("left_padding_num", int),
        ("right_padding_num", int),
        ("init_out_buffer", bool),
        ("init_condition", str),
    )
)
VIEW_LAYOUT = (
    Attribute("layout", GlobalLayout, None, "layout of the view; absent: as the view says", of_layout=True),
    Attribute(
        "inferred_layout",
        bool,
        None,
        "mark of the assembler's layout inference",
        ("pto.inferred_layout",),
        of_layout=True,
    ),
)


def _stores(instruction: Instruction, profile: Profile) -> Iterator[operations.Sample]:
    yield from operations.transfers(instruction, profile)
    yield from fixpipe.stores(instruction, profile)


def _nested(t: TileType) -> TileType | None:
    """A vec tile of boxes in rows, with rows for whole boxes."""
    whole = t.loc == Loc.VEC and t.layout == "ND" and t.conv is None
    boxed = replace(t, rows=16 * t.rows, blayout=BLayout.ROW_MAJOR, slayout=SLayout.ROW_MAJOR)
    return boxed if whole else None


_plain_vec = require(
    "tile-layout",
    "dst.layout in (ND, DN, NZ)",
    ("a5",),
    when="dst.loc == vec and not dst.convolution",
    source=changes.DIALECT,
    invalid_if=edit("dst", _nested),
    since="2026-08",
)


INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction(
        TLOAD,
        "memory",
        "Copy a window of global memory into a tile.",
        "dst(r, c) = window element (r, c) as a bit copy, through the window's layout and strides and the "
        "tile's layout. cpu_sim "
        "first fills the whole tile with its pad value (0 for null); a2a3 and a5 pad to the next 32 "
        "bytes only, along the elements that are stored one after the other. The pad value is zero bits for "
        "null and zero, the infinities for max and min of floats, the limits of the type for max and min of "
        "integers; floats of 8 and 4 bits have zero only, and so have 64-bit integers on a2a3 and a5. "
        f"{LAYOUT_TEXT} "
        f"{memory_convolution.CONV_TEXT}",
        _LOAD_OPERANDS,
        MOVED,
        ("T",),
        (*VIEW_LAYOUT, *_PTOAS_LOAD),
        (
            type_row(_LOAD_OPERANDS, ("T",), MOVED),
            place((_LOAD_OPERANDS[0],), (Loc.VEC, Loc.MAT), HARDWARE),
            place((_LOAD_OPERANDS[0],), (Loc.VEC, Loc.MAT, Loc.SCALELEFT, Loc.SCALERIGHT), ("cpu_sim",)),
            _elements_match("dst", "src", converts=False),
            _reinterprets("dst", "src"),
            windows.window_fits("dst", "src", until="2026-08"),
            windows.window_fits("dst", "src", "warning", since="2026-08"),
            windows.conv_window("dst", "src"),
            windows.layout_pair("dst", "src", windows.LOADED),
            _plain_vec,
            windows.scale_types,
            windows.wide_integers,
            windows.wide_pads,
            memory_convolution.conv_tiles("dst", (Loc.MAT,)),
        ),
        (("src",),),
        "dst",
        Pipe.MTE2,
        decisions=(
            Decision(
                "Must the window have the tile's valid shape?",
                "No: of a larger window the first rows and columns are loaded, as many as are valid. A "
                "smaller one is an error.",
                f"{changes.DIALECT}; the simulator's assertions are not rules",
            ),
            *LAYOUT_DECISIONS,
            Decision(
                "What do lanes outside the valid region hold after a load?",
                "cpu_sim: the pad value, 0 for null. a2a3 and a5: unchanged, except padding up to "
                "the next 32 bytes.",
                common.SIMULATOR_VALUES,
            ),
            Decision(
                "What is the pad value max or min of 64-bit integers and of floats of 8 and 4 bits?",
                "Zero, as the table of pad values has it; of 64-bit integers on cpu_sim the type's limits, "
                "as recorded. A5 forbids such pads of 64-bit integers.",
                "hw-native-sys/pto-isa include/pto/common/constants.hpp (PadValueMap); "
                f"{common.SIMULATOR_VALUES}",
            ),
        ),
        sources=("page tload", HEADERS, common.SIMULATOR_VALUES),
        sampler=operations.transfers,
        moves="copy",
        traits=traits.Traits(transfer=("dst", "src")),
        assembly=assembly.Assembly(
            indexed=("src",),
            generic=assembly.segments(
                "src dst +pad_value= +left_padding_num= +right_padding_num= +init_condition="
            ),
        ),
        changes=(changes.rule("static sizes of window and tile are equal", "the window may be larger"),),
    ),
    Instruction(
        TSTORE,
        "memory",
        "Copy a tile's valid region into a window of global memory.",
        "window element (r, c) = src(r, c) for the valid lanes of src; atomic_add adds in the "
        "element type of the "
        "window, in row-major order where elements share an address. Elements outside the window keep their "
        "value. reluPreMode first makes +0 of everything that is not greater than zero; an accumulator of "
        "another element type then converts as in tmov, and with preQuantScalar is quantised as in tmov.fp "
        "by that one word (cpu_sim: tiles of any place convert, and the word is ignored for element types "
        "without a mode). stPhase has no effect on values. Layouts of windows and convolution tiles "
        "are those of tload.",
        _STORE_OPERANDS,
        MOVED,
        ("T",),
        (fixpipe.ATOMIC, fixpipe.RELU, fixpipe.ST_PHASE, fixpipe.SATURATE, *VIEW_LAYOUT),
        (
            type_row(_STORE_OPERANDS, ("T",), MOVED),
            place((_STORE_OPERANDS[1],), (Loc.VEC, Loc.MAT, Loc.ACC), ("cpu_sim", "a2a3")),
            place((_STORE_OPERANDS[1],), (Loc.VEC, Loc.ACC), ("a5",)),
            _elements_match("src", "dst", converts=True),
            _reinterprets("src", "dst"),
            windows.window_fits("src", "dst"),
            windows.conv_window("src", "dst", SIMULATOR),
            windows.layout_pair("src", "dst", windows.STORED),
            memory_convolution.conv_tiles("src", (Loc.MAT,), SIMULATOR),
            fixpipe.accumulated_types(block_scales.STORED_PLAIN, block_scales.STORED_QUANTISED),
            fixpipe.accumulated_layouts({"a2a3": (), "a5": ()}),
            fixpipe.accumulator_extent,
            fixpipe.accumulator_only,
            fixpipe.word_type,
            fixpipe.atomic_types(),
        ),
        (("src",), ("src", "preQuantScalar")),
        "src",
        Pipe.MTE3,
        decisions=(
            Decision(
                "Are there atomic maxima and minima?",
                "No: the enumeration has only addition.",
                HEADERS,
            ),
            Decision(
                "Is atomic_add limited to accumulator tiles, and to hardware?",
                "No: vec tiles too, and the simulator implements it.",
                f"{HEADERS}; {common.SIMULATOR_VALUES}",
            ),
            Decision(
                "How does ReLU while storing treat NaN and -0?",
                "v > 0 ? v : 0, so both become +0.",
                common.SIMULATOR_VALUES,
            ),
        ),
        sources=("page tstore", HEADERS, common.SIMULATOR_VALUES),
        sampler=_stores,
        moves="copy",
        traits=traits.Traits(transfer=("src", "dst")),
        pipe_rule=handles.stored,
        assembly=assembly.Assembly(
            indexed=("src",),
            generic=assembly.segments("src dst +fp pre_quant_scalar=preQuantScalar"),
            typed_apart=True,
            with_fp="tstore_fp",
        ),
        changes=(changes.form("tstore_fp", "ins(%src : type fp %fp : type)"),),
    ),
)

INSTRUCTIONS = (*INSTRUCTIONS, *LAYOUTS_INSTRUCTIONS)
