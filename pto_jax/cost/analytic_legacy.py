"""Model ``analytic_legacy``: the hardware calls an instruction consists of, one startup and the barriers.

The first call pays its startup, a call after a barrier its interval, every call its repeats.
"""

from collections.abc import Callable, Mapping
from typing import Final

from .doc_formula import BANDWIDTH, PRODUCTS, ROW_SEQUENCES, TRANSFERS, product_repeats
from .work import Figure, Model, Size, Work, at_least, ceil_div, lacks, of_type, where

NAME: Final = "analytic_legacy"
BARRIER = 18
#: The copy that ends some sequences: its startup, or its interval after a barrier, and one repeat.
_COPY = 13 + 1
_ByType = int | Mapping[str, int]
_ROOT: _ByType = {"f32": 2, "f16": 4}
# Instructions by name: the figures are published ones, a line for each instruction.
#: Startup and cycles per repeat of instructions that are one call.
BINARY: Mapping[str, tuple[int, _ByType]] = dict.fromkeys(("tadd", "tsub", "tmul", "tmax", "tmin"), (14, 2))
TILE_SCALAR: Mapping[str, tuple[int, _ByType]] = dict.fromkeys(("tadds", "tmins", "tmuls", "tdivs"), (14, 1))
UNARY: Mapping[str, tuple[int, _ByType]] = {"tabs": (13, 1), "texp": (13, _ROOT), "tsqrt": (13, _ROOT)}
_PRODUCT_REPEAT = {"f32": 2, "f16": 1, "i16": 1, "i8": 1}
_SCATTER_REPEAT = {16: 1, 32: 2}


def padded_repeats(work: Work) -> Size:
    """Every valid row in whole repeats."""
    return work.valid_row * ceil_div(work.valid_col, work.per_repeat)


def contiguous_repeats(work: Work) -> Size:
    """The valid elements in whole repeats, as one run of storage."""
    return ceil_div(work.elements, work.per_repeat)


def is_contiguous(work: Work) -> Size:
    """Whether the valid elements are one run of storage: whole rows, or a single one."""
    return (work.valid_col == work.cols) | (work.rows == 1)


def _many(work: Work) -> Size:
    return ceil_div(work.rows * work.cols, work.per_repeat) > 255


def _padded(work: Work) -> Size:
    """Rows apart in storage; tall or short tiles are one call per row in counter mode."""
    e = work.per_repeat
    across, tail = work.cols // e, work.valid_col % e != 0
    wide = work.rows < across + 1
    counter = ((across > 1) & (work.rows * across < 4)) | (wide & tail)
    return where(
        counter,
        work.valid_row,
        where(wide, work.valid_row * (work.valid_col // e), padded_repeats(work)),
    )


def binary_repeats(work: Work) -> Size:
    """Repeats of a tile-tile instruction."""
    e = work.per_repeat
    counter = ((work.cols > e) & (work.cols % e != 0)) | _many(work)
    regular = where(is_contiguous(work), where(counter, 1, contiguous_repeats(work)), _padded(work))
    if not work.static:
        return regular
    return where((work.rows <= 255) & (work.cols < e), work.valid_row, regular)


def tile_scalar_repeats(work: Work) -> Size:
    """Repeats of a tile-scalar instruction; counter mode adds none."""
    if not work.static:
        return padded_repeats(work)
    e = work.per_repeat
    counter = ((work.cols > e) & (work.cols % e != 0)) | _many(work)
    return where(is_contiguous(work), where(counter, 0, contiguous_repeats(work)), padded_repeats(work))


def unary_repeats(work: Work) -> Size:
    """Repeats of a unary instruction."""
    run = contiguous_repeats(work)
    return where(is_contiguous(work), where(run > 255, 0, run), padded_repeats(work))


_KINDS: tuple[tuple[Mapping[str, tuple[int, _ByType]], Callable[[Work], Size]], ...] = (
    (BINARY, binary_repeats),
    (TILE_SCALAR, tile_scalar_repeats),
    (UNARY, unary_repeats),
)


def estimate(work: Work) -> Figure:
    """The figure of the call sequence."""
    name = work.instruction
    for table, repeats_of in _KINDS:
        if name in table:
            startup, per_type = table[name]
            per_repeat = of_type(per_type, work.dtype)
            if per_repeat is None:
                return lacks(NAME, work, f"on {work.dtype}")
            return _single(work, startup, per_repeat, repeats_of(work))
    if name in PRODUCTS:
        per_repeat = _PRODUCT_REPEAT.get(work.dtype.name)
        if per_repeat is None:
            return lacks(NAME, work, f"on {work.dtype}")
        return _single(work, 14, per_repeat, product_repeats(work))
    if name in TRANSFERS:
        bandwidth = BANDWIDTH.get(work.route)
        if bandwidth is None:
            return lacks(NAME, work, f"from {work.route.replace('->', ' to ')}" if work.route else "")
        return Figure(NAME, work.bytes // bandwidth, {"bytes": work.bytes, "bandwidth": bandwidth})
    if name in _SEQUENCES:
        cycles = _SEQUENCES[name](work)
        return Figure(NAME, cycles) if cycles is not None else lacks(NAME, work, f"on {work.dtype}")
    return lacks(NAME, work, "(its call list is empty)" if name in ("tsel", "tcvt") else "")


def _single(work: Work, startup: int, per_repeat: int, repeats: Size) -> Figure:
    terms = {"startup": startup, "per_repeat": per_repeat, "repeats": repeats}
    return Figure(NAME, startup + per_repeat * repeats, terms, layout=work.layout)


def _row_reduction(work: Work) -> Size:
    """Adds over the repeats of a row with a barrier after each, then one reduction; all in counter mode."""
    across = ceil_div(work.valid_col, work.per_repeat)
    cycles = where(across > 1, 14 + (across - 1) * BARRIER, 13)
    if work.dtype.name != "f32":
        return cycles
    for (rows, cols), listed in ROW_SEQUENCES.items():
        repeats = (128, 16, 1, 1) if (rows, cols) == (8, 1024) else listed
        here = (work.valid_row == rows) & (work.valid_col == cols)
        cycles = where(here, 13 + 2 * sum(repeats) + (len(repeats) - 1) * BARRIER, cycles)
    return cycles


def _column_fold(work: Work) -> Size:
    """A copy, then one call per further row, a barrier between them; only a partial repeat counts."""
    further = at_least(work.valid_row - 1, 0)
    partial = where(work.valid_col % work.per_repeat != 0, 1, 0)
    return _COPY + 2 * partial * further + at_least(further - 1, 0) * BARRIER


def _column_sum(work: Work) -> Size:
    if not work.binary:
        return _column_fold(work)
    pairs = at_least(work.valid_row - 1, 0)
    return 2 * pairs * ceil_div(work.valid_col, work.per_repeat) + _COPY


def _merge_sort(work: Work) -> Size:
    if work.lists > 1:
        return 14 + 6 + _COPY
    return 14 + 6 * (work.valid_col // (4 * work.block))


def _scatter(work: Work) -> Size | None:
    per_element = _SCATTER_REPEAT.get(work.dtype.storage_bits)
    return None if per_element is None else 14 + per_element * work.elements


def _transpose(work: Work) -> Size:
    groups = ceil_div(work.valid_col * work.dtype.storage_bits, 32 * 8)
    lines = 32 if work.dtype.storage_bits == 8 else 16
    return 14 + 2 * groups * (work.valid_row // lines) + _COPY


_SEQUENCES: Mapping[str, Callable[[Work], Size | None]] = {
    **dict.fromkeys(("trowsum", "trowmax", "trowmin"), _row_reduction),
    **dict.fromkeys(("tcolmax", "tcolmin"), _column_fold),
    "tcolsum": _column_sum,
    "trowexpand": lambda work: 14 + 8 * work.valid_row,
    "tsort32": lambda work: (
        14 + 4 * work.valid_row * (work.valid_col // 32) + at_least(work.valid_row - 1, 0) * BARRIER
    ),
    "tmrgsort": _merge_sort,
    "tscatter": _scatter,
    "ttrans": _transpose,
}

MODEL = Model(
    NAME,
    "hardware calls with startup, barriers and repeats",
    ("a2a3",),
    frozenset((*BINARY, *TILE_SCALAR, *UNARY, *PRODUCTS, *TRANSFERS, *_SEQUENCES)),
    estimate,
    "pto-isa cost model up to April 2026 and its tests",
)
