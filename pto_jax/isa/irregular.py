"""Irregular instructions that make values: sequences, triangles, random numbers, histograms; printing.

Sorting is in :mod:`.irregular_sort`, gathering and scattering in :mod:`.irregular_gather`, quantisation
in :mod:`.irregular_quant`, partially valid operands in :mod:`.irregular_partial`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from .. import ir
from ..profiles import Profile, ProfileName
from . import assembly, changes, declare, traits
from .common import OPEN_DST, PAGES, SIMULATOR_VALUES, tile_instruction
from .declare import Attribute, AttrMap, Decision, Finding, Instruction, Operand, Phase, Site
from .rules import elementwise, regions
from .rules.constraints import HEADERS, element_type, fixed_type, in_vec, type_row
from .rules.forbid import Types, assign, forbid
from .rules.irregular import A5_AND_SIMULATOR, Want, one_of, plain, room, row_cols, sample, single_row
from .rules.require import require
from .rules.typesets import STANDARD, rows, table
from .samples.operations import Sample

_INTS = ("i32", "u32", "i16", "u16")
_BINS = 256
_OUT = OPEN_DST
_TMP = replace(elementwise.TMP, implied=declare.Implied(""))


def _tile(name: str, row_count: int = 4, cols: int = 64) -> ir.TileType:
    return ir.TileType(ir.dtype(name), row_count, cols)


# -- tci ---------------------------------------------------------------------------------------------


def _sequence_scratch(site: Site) -> int | None:
    d = element_type(site.types.get("dst"))
    return None if d is None else 768 if d.bits == 32 else 1792


def _sequence_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        types: dict[str, ir.Type] = {"start": ir.ScalarType(ir.dtype(name)), "dst": _tile(name, 1)}
        yield sample(instruction, ("start",), types, {"descending": i % 2 == 1})
        if i == 0:
            types["tmp"] = ir.TileType(ir.F32, 1, 512)
            yield sample(instruction, ("start", "tmp"), types)


def _sequence_phases(
    profile: ProfileName, types: Mapping[str, ir.Type], attrs: Mapping[str, ir.AttrValue]
) -> tuple[Phase, ...]:
    """The scalar unit writes the numbers, unless the vector unit has room for partial sequences."""
    return (Phase(ir.Pipe.V if "tmp" in types else ir.Pipe.S, ("tmp",), ("dst", "tmp")),)


_SEQUENCE_OPERANDS = (_OUT, Operand("start", "in", "scalar"), _TMP)
_TCI = tile_instruction(
    "tci",
    "A row of consecutive numbers.",
    "dst[0,j] = start + j (descending: start - j) for j below the valid columns of dst, in the element "
    "type; integers wrap, floats convert j and round the sum once. The valid rows of dst are not "
    "consulted.",
    _SEQUENCE_OPERANDS,
    table(STANDARD, _INTS, _INTS),
    cls="irregular",
    domain="custom",
    attributes=(Attribute("descending", bool, False, "count down"),),
    placement=(in_vec((_OUT, _TMP)),),
    extra=(
        single_row(("dst",)),
        plain(("dst",)),
        fixed_type("tmp", ("f32", "i32", "u32"), ("a2a3",), changes.DIALECT, since="2026-08"),
        elementwise.scratch_bytes(_sequence_scratch, "the partial sequences"),
    ),
    decisions=(
        Decision(
            "A2/A3 with tmp gives -(start + j) when descending.",
            "start - j everywhere: the other overload, A5 and the page agree.",
            f"{PAGES}; {HEADERS}; {SIMULATOR_VALUES}",
        ),
        Decision(
            "The page speaks of a row-major order over several rows; may dst have them?",
            "No: every header asserts one row.",
            HEADERS,
        ),
        Decision(
            "The simulator has no overload with tmp; is it an error there?",
            "No: tmp never affects values and is ignored, as on a5.",
            f"{PAGES}; pto_instr.hpp",
        ),
    ),
    sampler=_sequence_samples,
    assembly=assembly.Assembly(inline=True),
)
TCI = replace(
    _TCI,
    phases=_sequence_phases,
    decisions=(
        *_TCI.decisions,
        Decision(
            "Which pipe does it run on?",
            "On S; with tmp on V.",
            "pto-isa headers; PTOAS getPipe has S always (defects 1499, 1532)",
        ),
    ),
)

# -- ttri --------------------------------------------------------------------------------------------

_TRIANGLE_OPERANDS = (_OUT, Operand("diagonal", "in", "scalar", dtype="i32"))


def _triangle_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        types: dict[str, ir.Type] = {"diagonal": ir.ScalarType(ir.I32), "dst": _tile(name, 16)}
        yield sample(instruction, ("diagonal",), types, {"upperOrLower": i % 2})


TTRI = tile_instruction(
    "ttri",
    "A triangular mask of ones and zeros.",
    "Lower (0): dst[i,j] = 1 where j - i <= diagonal, else 0. Upper (1): dst[i,j] = 1 where "
    "j - i >= diagonal, else 0. The difference j - i does not overflow; 1 and 0 are values of the "
    "element type.",
    _TRIANGLE_OPERANDS,
    table(
        ("i32", "i16", "u32", "u16", "f16", "bf16", "f32"),
        ("i32", "i16", "u32", "u16", "f16", "f32"),
        ("i64", "u64", "i32", "i16", "i8", "u32", "u16", "u8", "f16", "f32", "bf16"),
    ),
    cls="irregular",
    attributes=(
        Attribute(
            "upperOrLower",
            int,
            0,
            "0: lower triangle, 1: upper triangle",
            ("upperOrLower", "isUpperOrLower"),
        ),
    ),
    placement=(in_vec((_OUT,)), plain(("dst",))),
    extra=(one_of("upperOrLower", (0, 1), HEADERS),),
    decisions=(
        Decision(
            "The page prints two source tiles; does the instruction have any?",
            "No: its only input is the diagonal.",
            f"{HEADERS}; PTOAS dialect definition",
        ),
    ),
    sampler=_triangle_samples,
    assembly=assembly.Assembly(inline=True),
)

# -- trandom -----------------------------------------------------------------------------------------

_WORDS = ("key0", "key1", "counter0", "counter1", "counter2", "counter3")
_RANDOM_OPERANDS = (_OUT, *(Operand(n, "in", "scalar", dtype="u32") for n in _WORDS))


def _random_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for i, (name,) in enumerate(instruction.types[profile.name]):
        types: dict[str, ir.Type] = {n: ir.ScalarType(ir.U32) for n in _WORDS}
        types["dst"] = _tile(name, 3, 256 if i else 320)
        yield sample(instruction, _WORDS, types, {"rounds": 7 + 3 * i})


TRANDOM = tile_instruction(
    "trandom",
    "Random words of a counter-based generator.",
    "Philox-4x32 with the given number of rounds. A block of a 128-bit counter c (counter0 is the "
    "lowest word) gives words 0 to 3. Rows are made in order, each in chunks of 256 columns; lane l "
    "(0 to 63) of a chunk uses the counter plus l. cpu_sim: word q of lane l is column 64*q + l of the "
    "chunk, and the counter advances by cols/4 (static columns, rounded down) after each chunk. a5: word "
    "q of lane l is column 4*l + q, and the counter advances by 64 after each chunk of a row, but by "
    "(valid columns - 1) mod 64 + 1 after the last one. Key and counter operands are not changed.",
    _RANDOM_OPERANDS,
    table(("i32", "u32"), (), ("i32", "u32")),
    cls="irregular",
    attributes=(Attribute("rounds", int, 10, "number of rounds, 7 or 10"),),
    placement=(in_vec((_OUT,)), plain(("dst",))),
    extra=(one_of("rounds", (7, 10), HEADERS),),
    decisions=(
        Decision(
            "The pages describe quarter rounds; which generator is it?",
            "Philox-4x32 with its published constants.",
            f"{HEADERS}; {SIMULATOR_VALUES}",
        ),
        Decision(
            "Simulator and A5 place words and advance the counter differently; which holds?",
            "Each on its own profile.",
            f"{HEADERS}; {SIMULATOR_VALUES}",
        ),
    ),
    sampler=_random_samples,
    assembly=assembly.Assembly(inline=True),
)

# -- thistogram --------------------------------------------------------------------------------------


def counted_byte(src_bits: int, attrs: Mapping[str, ir.AttrValue]) -> ir.HistByte:
    """The byte a histogram counts: ``byte`` where given, else the one ``isMSB`` says.

    >>> counted_byte(16, {"isMSB": False})
    <HistByte.BYTE_0: 0>
    """
    byte = attrs.get("byte")
    if isinstance(byte, ir.HistByte):
        return byte
    return ir.HistByte(src_bits // 8 - 1 if attrs.get("isMSB", True) else 0)


def _byte_meant(
    types: Mapping[str, ir.Type], attrs: Mapping[str, ir.AttrValue], profile: Profile
) -> ir.AttrValue:
    d = element_type(types.get("src"))
    return None if d is None or d.bits not in (16, 32) else counted_byte(d.bits, attrs)


def _source_bits(site: Site) -> int | None:
    d = element_type(site.types.get("src"))
    return d.bits if d is not None and d.bits in (16, 32) else None


def _breaks_byte(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["byte"] = ir.HistByte.BYTE_3
    return dtype_bits(types["src"]) == 16


@forbid("byte-exists", "the counted byte is a byte of the element", invalid_if=_breaks_byte)
def _byte_exists(site: Site) -> Iterator[Finding]:
    bits = _source_bits(site)
    if bits is not None and counted_byte(bits, site.attrs) * 8 >= bits:
        byte = counted_byte(bits, site.attrs)
        yield "src", f"byte is {byte.name}, src has {bits // 8} bytes; allowed: a byte of the element"


def _breaks_filter(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    types["idx"] = ir.TileType(ir.U8, 5, 32)
    return counted_byte(dtype_bits(types["src"]), attrs) != ir.HistByte.BYTE_3


@forbid(
    "byte-once",
    "byte or isMSB",
    source=changes.DIALECT,
    invalid_if=assign(byte=ir.HistByte.BYTE_0, isMSB=False),
    since="2026-08",
)
def _byte_once(site: Site) -> Iterator[Finding]:
    if isinstance(site.attrs.get("byte"), ir.HistByte) and "isMSB" in site.op.attrs:
        yield None, "byte and isMSB; allowed: byte alone, isMSB is its name of before August 2026"


@forbid(
    "filter-layout",
    "idx holds one filter byte per row (16-bit sources) or one row per filter byte (32-bit)",
    ("a5",),
    invalid_if=_breaks_filter,
)
def _filter_layout(site: Site) -> Iterator[Finding]:
    bits, idx, src = _source_bits(site), site.tile("idx"), site.tile("src")
    if bits is None or idx is None or src is None:
        return
    if bits == 16:
        if idx.layout != "DN" or idx.cols != 1:
            yield "idx", f"idx is {idx}; allowed for 16-bit sources on a5: one column, col_major"
        return
    filtered = 3 - counted_byte(bits, site.attrs)
    if filtered and (idx.layout != "ND" or idx.shape != (filtered, src.cols)):
        yield "idx", f"idx is {idx}; allowed for this byte on a5: row_major {filtered}x{src.cols}"


def dtype_bits(t: ir.Type) -> int:
    """Width of a value's elements, 0 where it has none."""
    d = element_type(t)
    return 0 if d is None else d.bits


def _breaks_filter_rows(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    types["idx"] = ir.TileType(ir.U8, 1, 32)
    return counted_byte(dtype_bits(types["src"]), attrs) == ir.HistByte.BYTE_0


def _filter_bytes(site: Site) -> int | None:
    """Rows of filter bytes: one per row of a 16-bit source, one per byte above the counted one of others."""
    bits = _source_bits(site)
    if bits is None:
        return None
    byte = counted_byte(bits, site.attrs)
    if bits == 16:
        return 0 if byte == ir.HistByte.BYTE_1 else site.region("src")[0]
    return 3 - byte


_filter_rows = require(
    "filter-rows",
    "idx.rows >= filtered",
    ("cpu_sim",),
    let={"filtered": _filter_bytes},
    why="a row for every filter byte",
    statement="idx has a row for every filter byte",
    invalid_if=_breaks_filter_rows,
)


def _bins(site: Site) -> Want:
    return site.region("src")[0], _BINS


def _histogram_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for (name,) in instruction.types[profile.name]:
        src = _tile(name, 4, 32)
        for byte in ir.HistByte:
            if byte * 8 >= src.dtype.bits:
                continue
            idx = ir.TileType(ir.U8, 32, 1, blayout=ir.BLayout.COL_MAJOR)
            if profile.name == "a5" and name == "u32":
                idx = ir.TileType(ir.U8, max(3 - byte, 1), src.cols)
            types: dict[str, ir.Type] = {"src": src, "idx": idx, "dst": ir.TileType(ir.U32, 4, _BINS)}
            yield sample(instruction, ("src", "idx"), types, {"byte": byte})


_HISTOGRAM_OPERANDS = (
    Operand("dst", "out", dtype="u32", note="256 bins per row of src", extent=regions.columns(_BINS)),
    Operand("src", "in"),
    Operand("idx", "in", dtype="u8", note="values of the bytes above the counted one"),
)
_BYTE = Attribute(
    "byte", ir.HistByte, None,
    "byte to count; absent: the one isMSB says, in texts since 2026-08 else byte 1",
    unwritten=(changes.Default(
        "2026-08", ir.HistByte.BYTE_1, "the highest byte", changes.DIALECT, ("isMSB",), _byte_meant),),
)  # fmt: skip
_HISTOGRAM_TYPES = table(("u16", "u32"), (), ("u16", "u32"))
THISTOGRAM = tile_instruction(
    "thistogram",
    "Cumulative histogram of one byte of the elements of each row.",
    "For each valid row r of src: dst[r,b] is the number of valid elements of the row whose counted byte "
    "is at most b and that pass the filter, b = 0 to 255. Elements pass when the bytes above the counted "
    "one equal the filter: 16-bit sources compare byte 1 with idx[r,0]; 32-bit sources compare byte 3 "
    "with idx[0,0], byte 2 with idx[1,0], byte 1 with idx[2,0], for all rows alike. Other columns of dst "
    "stay.",
    _HISTOGRAM_OPERANDS,
    _HISTOGRAM_TYPES,
    cls="irregular",
    domain="custom",
    attributes=(
        _BYTE,
        Attribute("isMSB", bool, True, "count the highest byte, else the lowest; ignored beside byte"),
    ),
    placement=(in_vec(_HISTOGRAM_OPERANDS), plain(("dst", "src"))),
    extra=(
        fixed_type("dst", ("u32",), A5_AND_SIMULATOR, HEADERS),
        fixed_type("idx", ("u8",), A5_AND_SIMULATOR, HEADERS),
        _byte_exists,
        _byte_once,
        room("dst", _bins, "256 bins for each valid row of src"),
        _filter_layout,
        _filter_rows,
    ),
    decisions=(
        Decision(
            "Pages define plain counts, the implementations store running sums; which is it?",
            "Running sums.",
            f"{SIMULATOR_VALUES}; {HEADERS}",
        ),
        Decision(
            "The text has isMSB, the C++ interface a byte; which attribute holds?",
            "Both are read; byte wins. isMSB false is byte 0, true the highest byte of the element.",
            f"PTOAS dialect definition; {HEADERS}",
        ),
    ),
    sampler=_histogram_samples,
    lanes="open",
)

# -- tprint ------------------------------------------------------------------------------------------

_PRINTED = ("f32", "f16", "i8", "i16", "i32", "u8", "u16", "u32")
_PRINT_OPERANDS = (
    Operand("src", "in"),
    Operand("tmp", "tmp", "gm", dtype=None, optional=True, note="global scratch of Mat and Acc tiles"),
)
_PRINT_TYPES = {
    "cpu_sim": rows((*STANDARD, "f8e4m3", "f8e5m2", "hif8")),
    "a2a3": rows(_PRINTED),
    "a5": rows(_PRINTED),
}


def _print_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for (name,) in instruction.types[profile.name]:
        yield sample(instruction, ("src",), {"src": ir.TileType(ir.dtype(name), 2, row_cols(ir.dtype(name)))})


TPRINT = Instruction(
    "tprint",
    "irregular",
    "Print the valid region of a tile.",
    "Writes 'TPRINT <rows>x<columns>' and a line per valid row, elements separated by one blank: floats "
    "of 32 bits with the field width and digits of the format, integers with the field width. Nothing in "
    "memory changes.",
    _PRINT_OPERANDS,
    _PRINT_TYPES,  # type: ignore[arg-type]
    ("T",),
    (
        Attribute(
            "format",
            ir.PrintFormat,
            ir.PrintFormat.WIDTH8_PRECISION4,
            "width and digits",
            ("printFormat", "format"),
        ),
    ),
    (type_row(_PRINT_OPERANDS, ("T",), _PRINT_TYPES),),  # type: ignore[arg-type]
    decisions=(
        Decision(
            "Hardware prints invalid lanes behind a bar, the simulator leaves them out.",
            "They are left out on every profile.",
            SIMULATOR_VALUES,
        ),
    ),
    sources=("page tprint", HEADERS, "public CPU simulator"),
    sampler=_print_samples,
    traits=traits.Traits(effects=(traits.Effect("write", "host"),)),
)

INSTRUCTIONS: tuple[Instruction, ...] = (TCI, TTRI, TRANDOM, THISTOGRAM, TPRINT)
