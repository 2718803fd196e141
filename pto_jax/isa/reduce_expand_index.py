"""Positions of the extreme values of rows and columns, alone or together with the values."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal

from ..ir import TileType, Type, dtype
from ..profiles import PROFILE_NAMES, Profile
from .common import SCRATCH_OPTIONAL, SIMULATOR_VALUES, formal, tile_instruction
from .declare import AttrMap, Constraint, Decision, Instruction, Operand, RegionRule, Site, Sizes
from .reduce_expand import SOURCE_TMP, WHOLE_SOURCE
from .rules.constraints import HARDWARE, HEADERS, in_vec, same_as, with_dtype
from .rules.elementwise import scratch
from .rules.reduce_expand import column_vector, equal_extent, filled_source, holds, no_boxes, plain
from .rules.regions import COLUMN, ROW
from .rules.require import require
from .rules.typesets import STANDARD, Rows, pairs
from .samples.operations import positions

Along = Literal["row", "col"]
_WORDS = ("i32", "u32")
_HALF_WORDS = ("i16", "u16")
_TILES = (
    Operand("dstVal", "out", dtype="S", optional=True, note="the extreme values; written before dst"),
    Operand("dst", "out", dtype="I", note="their positions", default=("i32", "i16")),
    Operand("src", "in", dtype="S"),
)
_OPERANDS = (*_TILES, SOURCE_TMP)
_PAGE = "instruction pages (output index only; output both value and index)"

_VALUE_FORM = Decision(
    "How is the form with values written? Pages print the index form only.",
    "With two destinations in the order of the C++ interface: the values, then the positions.",
    "pto_instr.hpp",
)
_FIRST_POSITION = formal(
    "NaN and ties?",
    "The first strict extreme: equal values, +0 and -0 included, give the lower position; a NaN in first "
    "place gives 0, later ones are never chosen. The value form stores that element with its bits.",
    SIMULATOR_VALUES,
    "a NaN is never chosen before a number; of zeros of both signs +0 is the maximum, -0 the minimum",
    "asl/tile/model/execution/reduction.asl",
)
_EMPTY = Decision(
    "What does an empty source give?",
    "An error on a2a3 and a5 (nothing is written). cpu_sim, whose assertion is not a rule: position 0 and "
    "the stored first lane for every line that exists.",
    f"{HEADERS}; simulator source",
)


def _rows_of(indices: tuple[str, ...], sources: tuple[str, ...]) -> Rows:
    return tuple((i, s) for s in sources for i in indices)


def _hardware_rows(sources: tuple[str, ...]) -> Rows:
    """32-bit positions; 16-bit ones next to 16-bit values too."""
    narrow = tuple(s for s in sources if dtype(s).bits == 16)
    return (*_rows_of(_WORDS, sources), *_rows_of(_HALF_WORDS, narrow))


def _index_type(along: Along) -> Constraint:
    """The form says how wide positions are."""

    def allowed(src: TileType, *, valued: bool) -> tuple[str, ...]:
        if not valued:
            return _WORDS
        if along == "row":
            return (*_WORDS, *_HALF_WORDS) if src.dtype.bits == 16 else _WORDS
        return {8: (), 16: _HALF_WORDS}.get(src.dtype.bits, _WORDS)

    def positions(site: Site) -> tuple[str, ...] | None:
        """The types of positions, None where other rules object to the types."""
        dst, src, values = site.tile("dst"), site.tile("src"), site.tile("dstVal")
        if dst is None or src is None or (values is not None and values.dtype != src.dtype):
            return None
        row = (dst.dtype.name, src.dtype.name)
        legal = row in site.instruction.types[site.profile.name]
        return allowed(src, valued="dstVal" in site.values) if legal else None

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        dst, src = types.get("dst"), types.get("src")
        if not isinstance(dst, TileType) or not isinstance(src, TileType):
            return False
        if "dstVal" not in types:
            types["dst"] = with_dtype(dst, dtype("i16"))
            return src.dtype.bits == 16 and (dst.rows if dst.cols == 1 else dst.cols) % 16 == 0
        types["dst"] = with_dtype(dst, dtype("i32"))
        return along == "col" and src.dtype.bits == 16

    return require(
        "index-type",
        "dst.dtype in positions",
        HARDWARE,
        let={"positions": positions},
        statement="positions are i32 or u32 alone; next to 16-bit values also (columns: only) i16 or u16",
        source=_PAGE,
        invalid_if=breaks,
    )


def _several_rows(sizes: Sizes, types: Any) -> Any:
    return sizes["dst"][0] != 1


_one_row = require(
    "one-row",
    "it.valid_rows == 1",
    HARDWARE,
    it=("dst", "dstVal"),
    run_time=True,
    region=RegionRule("custom", ("dst",), _several_rows),
    source=f"{_PAGE}; {HEADERS}",
)


def _pairs_of_repeats(site: Site) -> tuple[int, int] | None:
    """Columns for the value-position pairs of a row's repeats, and for their positions."""
    src, cols = site.tile("src"), site.region("src")[1]
    if src is None or cols is None or site.region("tmp") == site.region("src"):
        return None
    repeat, unit = 2048 // src.dtype.storage_bits, 256 // src.dtype.storage_bits
    repeats = -(-cols // repeat)
    return 1, (-(-2 * repeats // unit) + -(-repeats // unit)) * unit


def _stages(site: Site) -> tuple[int, int] | None:
    """Rows and columns of the scratch tile of A2/A3's row form: a line for each row of src.

    Sources of one repeat need a pair for each row, side by side or in one column.
    """
    src, (rows, cols), tmp = site.tile("src"), site.region("src"), site.tile("tmp")
    wide = _pairs_of_repeats(site)
    if src is None or tmp is None or rows is None or cols is None or wide is None:
        return None
    if cols <= 2048 // src.dtype.storage_bits:
        return (2 * rows, 1) if tmp.layout == "DN" else (rows, 2)
    return rows, wide[1]


def _positions(along: Along, extreme: Literal["max", "min"]) -> Instruction:
    line, other = ("row", "column") if along == "row" else ("column", "row")
    word = "largest" if extreme == "max" else "smallest"
    placement: tuple[Constraint, ...]
    extra: tuple[Constraint, ...]
    a2a3: tuple[str, ...]
    a5: tuple[str, ...]
    lanes = ("dst(r, 0)", "dstVal(r, 0)") if along == "row" else ("dst(0, c)", "dstVal(0, c)")
    if along == "row":
        placement = (
            in_vec(_TILES, PROFILE_NAMES),
            plain(("src",), PROFILE_NAMES),
            column_vector(("dst", "dstVal"), one_valid=True),
        )
        extra = (holds(("dst",), "rows"), equal_extent(("src", "dst", "dstVal"), "rows"))
        a2a3, a5 = ("f16", "f32", "i32", "i16"), ("f16", "bf16", "i16", "u16", "f32", "i32", "u32")
        size = scratch(_stages, "the partial results of a row", f"page trowarg{extreme} (tmp)")
    else:
        placement = (
            in_vec(_TILES, PROFILE_NAMES),
            no_boxes(("src",)),
            plain(("dst", "dstVal"), PROFILE_NAMES),
        )
        extra = (holds(("dst",), "cols"), equal_extent(("src", "dst", "dstVal"), "cols"), _one_row)
        a2a3 = ("f16", "f32", "u16", "u32")
        a5 = ("i8", "u8", "i16", "u16", "i32", "u32", "f16", "f32")
        size = scratch(_pairs_of_repeats, "the counters of a row", f"page tcolarg{extreme} (tmp)")
    extent = COLUMN if along == "row" else ROW
    outs = tuple(replace(o, extent=extent) for o in _TILES[:2])
    return tile_instruction(
        f"t{along}arg{extreme}",
        f"Position of the {'maximum' if extreme == 'max' else 'minimum'} of each {line}.",
        f"{lanes[0]} = the {other} of the first {word} value of a {line} of src; with two destinations "
        f"{lanes[1]} = that value.",
        (*outs, *_OPERANDS[2:]),
        pairs(_rows_of(_WORDS, STANDARD), _hardware_rows(a2a3), _hardware_rows(a5)),
        cls="reduce_expand",
        type_vars=("I", "S"),
        forms=(("src",), ("src", "tmp")),
        domain="src",
        reads=(),
        placement=placement,
        extra=(
            *extra,
            _index_type(along),
            filled_source("cols" if along == "row" else "rows", positions=True),
            same_as("src", ("a2a3",), HEADERS),
            size,
        ),
        decisions=(WHOLE_SOURCE, _FIRST_POSITION, _EMPTY, _VALUE_FORM, SCRATCH_OPTIONAL),
        sampler=partial(positions, rowwise=along == "row"),
    )


INSTRUCTIONS: tuple[Instruction, ...] = (
    _positions("row", "max"),
    _positions("row", "min"),
    _positions("col", "max"),
    _positions("col", "min"),
)
