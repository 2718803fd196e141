"""Models ``fit`` (A2/A3) and ``a5_fit`` (A5): straight lines fitted to measured cycles."""

from collections.abc import Mapping
from typing import Final

from . import cce_stub, doc_formula
from .sizes import Size, ceil_div, is_number, nearest, where
from .work import Figure, Model, Work, lacks

FIT: Final = "fit"
A5_FIT: Final = "a5_fit"
Line = tuple[float, float]
# Instructions by name: the figures are measured ones, a line for each instruction.
#: Slope per element and bias, by instruction and element type, then by number of columns.
LINES: Mapping[tuple[str, str], Mapping[int, Line]] = {
    ("tadds", "f32"): {64: (0.0156, 25), 128: (0.0169, 16.5)},
    ("tadds", "f16"): {128: (0.0078, 25)},
    ("tmuls", "f32"): {64: (0.0156, 26)},
    ("tmins", "f32"): {64: (0.0156, 23)},
    ("tdivs", "f32"): {64: (0.0781, 45)},
    ("tsub", "f32"): {64: (0.0313, 25)},
    ("tmul", "f32"): {64: (0.0313, 26)},
    ("tmul", "f16"): {128: (0.0156, 26)},
    ("trowsum", "f32"): {64: (0.1094, 44)},
    ("trowmax", "f32"): {64: (0.1094, 32)},
    ("tcolsum", "f32"): {64: (0.3047, 15)},
    ("tcolmax", "f32"): {64: (0.2734, 17)},
    ("trowexpand", "f32"): {64: (0.2187, 37)},
}
#: Slope and bias for every element type and number of columns.
ANY_COLUMNS: Mapping[str, Line] = {"texp": (0.0314, 30.1), "tsqrt": (0.0314, 31.1)}
_PRODUCT_REPEAT = {"f32": 2, "f16": 1}

#: a5_fit: slope and bias per 256-byte step over whole tiles.
WHOLE: Mapping[str, Line] = {
    "tadd": (1.2469671, 55.073657),
    "tsub": (1.2469671, 55.073657),
    "tmul": (1.1941075, 56.285962),
    "tdivs": (1.9081456, 64.516464),
    "trecip": (1.9081456, 64.516464),
    "texp": (1.9670711, 62.656846),
    "tsqrt": (1.9670711, 63.656846),
    "trsqrt": (4.0294627, 75.570191),
    "tmins": (1.0589255, 53.140381),
    "tneg": (1.0589255, 55.140381),
}
#: a5_fit: slope per step of a row, cost per row, bias, over tiles with padding between rows.
PADDED: Mapping[str, tuple[float, float, float]] = {
    "tadd": (1.8749443, 2.8762808, 44.344619),
    "tsub": (1.8749443, 2.8762808, 44.344619),
    "tmul": (1.8708194, 2.9123738, 44.844619),
    "tdivs": (1.8688724, 2.4753589, 62.942563),
    "trecip": (1.8688724, 2.4753589, 62.942563),
    "texp": (1.8548854, 2.5442386, 60.598247),
    "tsqrt": (1.8548854, 2.5442386, 61.598247),
    "trsqrt": (4.0, 0.032648126, 76.464329),
    "tmins": (1.1016757, 4.5314383, 49.627872),
    "tneg": (1.0952879, 4.5652633, 51.508464),
}


def estimate(work: Work) -> Figure:
    """Model ``fit``."""
    name = work.instruction
    if name in ANY_COLUMNS:
        return _on_line(work, ANY_COLUMNS[name])
    if name in doc_formula.PRODUCTS:
        per_repeat = _PRODUCT_REPEAT.get(work.dtype.name)
        if per_repeat is None:
            return lacks(FIT, work, f"on {work.dtype}")
        repeats = doc_formula.product_repeats(work)
        return Figure(FIT, 6 + per_repeat * repeats, {"per_repeat": per_repeat, "repeats": repeats})
    if name in doc_formula.TRANSFERS:
        return cce_stub.transfer(FIT, work)
    lines = LINES.get((name, work.dtype.name))
    if lines is None:
        has_other_types = any(key == name for key, _ in LINES)
        return lacks(FIT, work, f"on {work.dtype}" if has_other_types else "")
    return _by_columns(work, lines)


def _on_line(work: Work, line: Line) -> Figure:
    slope, bias = line
    return Figure(FIT, nearest(slope * work.elements + bias), {"slope": slope, "bias": bias})


def _by_columns(work: Work, lines: Mapping[int, Line]) -> Figure:
    columns = ", ".join(map(str, lines))
    missing = lacks(FIT, work, f"on {work.dtype} but with {columns} columns")
    if is_number(work.valid_col):
        line = lines.get(int(work.valid_col))
        return missing if line is None else _on_line(work, line)
    cycles: Size = float("nan")
    for columns_of, (slope, bias) in lines.items():
        cycles = where(work.valid_col == columns_of, 1.0 * nearest(slope * work.elements + bias), cycles)
    return Figure(FIT, cycles, note=f"nan: {missing.note}")


def estimate_a5(work: Work) -> Figure:
    """Model ``a5_fit``."""
    if work.instruction not in WHOLE:
        return lacks(A5_FIT, work)
    slope, bias = WHOLE[work.instruction]
    steps = ceil_div(work.elements, work.per_repeat)
    step, row, base = PADDED[work.instruction]
    across = ceil_div(work.valid_col, work.per_repeat)
    cycles = where(
        work.valid_col == work.cols,
        nearest(slope * steps + bias),
        nearest((step * across + row) * work.valid_row + base),
    )
    return Figure(A5_FIT, cycles, {"steps": steps}, layout=work.layout)


FIT_MODEL = Model(
    "fit",
    "lines fitted to measured cycles, A2/A3",
    ("a2a3",),
    frozenset((*(name for name, _ in LINES), *ANY_COLUMNS, *doc_formula.PRODUCTS, *doc_formula.TRANSFERS)),
    estimate,
    "pto-isa cost model, fitted parameters (the digest's samples)",
)
A5_FIT_MODEL = Model(
    "a5_fit",
    "lines fitted to measured cycles, A5",
    ("a5",),
    frozenset(WHOLE),
    estimate_a5,
    "pto-isa cost model for A5, fitted parameters",
)
