"""Models ``fit`` (A2/A3) and ``a5_fit`` (A5): lines fitted to measured cycles, and ``tables``."""

from collections.abc import Mapping
from typing import Final

from . import analytic_legacy, cce_stub, doc_formula
from .work import Figure, Model, Size, Work, ceil_div, is_number, lacks, nearest, where

FIT: Final = "fit"
A5_FIT: Final = "a5_fit"
TABLES: Final = "tables"
Line = tuple[float, float]
# Instructions by name: the figures are measured ones, a line for each instruction.
#: Columns, slope per element and bias, by instruction and element type.
_LINES: Mapping[tuple[str, str], str] = {
    ("tadds", "f32"): (
        "32 0.0156 25, 48 0.0164 21, 64 0.0156 25, 80 0.0156 42, 96 0.0156 42, 112 0.0156 42, 128 "
        "0.0169 16.5, 176 0.0156 42, 336 0.0156 42"
    ),
    ("tadds", "f16"): (
        "32 0.0078 25, 64 0.0078 25, 96 0.0078 25, 128 0.0078 25, 144 0.0078 42, 160 0.0078 42, 192 "
        "0.0078 42, 208 0.0078 42, 240 0.0078 42, 272 0.0078 42, 464 0.0078 42, 496 0.0078 42, 592 "
        "0.0078 42, 1008 0.0078 42"
    ),
    ("tcolmax", "f32"): ("8 2.125 24, 32 0.5391 16, 64 0.2734 17, 96 0.3646 2, 128 0.1571 10"),
    ("tcolmax", "f16"): (
        "32 0.5352 16, 64 0.2695 16, 96 0.1836 19, 128 0.1367 17, 160 0.2187 2, 192 0.1823 2.3325"
    ),
    ("tcolsum", "f32"): (
        "8 2.375 29, 16 1.1958 18.271, 32 0.6016 15, 64 0.3047 15, 96 0.2187 14, 128 0.1728 8, 144 "
        "0.1578 27, 176 0.1314 30, 208 0.1166 36, 240 0.1031 36, 272 0.096 35, 304 0.0876 35, 336 "
        "0.0833 34"
    ),
    ("tcolsum", "f16"): (
        "16 1.1916 20.664, 32 0.5977 15, 64 0.3008 15, 96 0.2044 15, 128 0.1523 15, 160 0.1312 14, "
        "208 0.1029 25, 240 0.09 28, 272 0.0838 27, 304 0.0755 30, 336 0.069 30, 368 0.069 30, 400 "
        "0.0616 29, 432 0.057 36, 464 0.0536 36, 496 0.0507 36, 528 0.0498 35, 560 0.0474 35, 592 "
        "0.0453 35, 624 0.0434 35, 656 0.0431 34"
    ),
    ("tdivs", "f32"): (
        "32 0.0781 45, 48 0.0792 40, 64 0.0781 45, 80 0.0781 62, 96 0.0781 62, 112 0.0781 62, 128 "
        "0.0794 36.5, 208 0.0781 62, 304 0.0781 62"
    ),
    ("tdivs", "f16"): (
        "32 0.0703 45, 64 0.0703 45, 80 0.0709 38, 96 0.0703 45, 128 0.0703 45, 144 0.0703 62, 160 "
        "0.0703 62, 192 0.0703 62, 208 0.0703 62, 240 0.0703 62, 272 0.0703 62, 336 0.0703 62, 528 "
        "0.0703 62, 656 0.0703 62, 784 0.0703 62"
    ),
    ("tmins", "f32"): ("32 0.0156 23, 64 0.0156 23, 96 0.0156 40, 128 0.0169 14.5, 144 0.0156 40"),
    ("tmins", "f16"): (
        "32 0.0078 23, 64 0.0078 23, 96 0.0078 23, 128 0.0078 23, 160 0.0078 40, 192 0.0078 40"
    ),
    ("tmul", "f32"): (
        "32 0.0625 43, 64 0.0313 26, 80 0.0312 43, 96 0.0312 43, 112 0.0312 43, 128 0.0325 17.5, 144 "
        "0.0312 43, 176 0.0312 43, 208 0.0312 43, 240 0.0312 43, 272 0.0312 43, 304 0.0312 43, 336 "
        "0.0312 43"
    ),
    ("tmul", "f16"): (
        "32 0.0625 43, 64 0.0313 42, 80 0.025 42, 96 0.0208 42, 112 0.0179 43, 128 0.0156 26, 144 "
        "0.0156 43, 160 0.0156 43, 176 0.0156 43, 208 0.0156 43, 240 0.0156 43, 272 0.0156 43, 304 "
        "0.0156 43, 336 0.0156 43, 368 0.0156 43, 400 0.0156 43, 432 0.0156 43, 464 0.0156 43, 496 "
        "0.0156 43, 528 0.0156 43, 560 0.0156 43, 592 0.0156 43, 624 0.0156 43, 656 0.0156 43"
    ),
    ("tmuls", "f32"): (
        "32 0.0156 26, 48 0.0164 21, 64 0.0156 26, 80 0.0156 43, 96 0.0156 43, 112 0.0156 43, 128 "
        "0.0169 17.5, 304 0.0156 43, 400 0.0156 43, 432 0.0156 43, 464 0.0156 43"
    ),
    ("tmuls", "f16"): (
        "32 0.0078 26, 64 0.0078 26, 96 0.0078 26, 112 0.0083 23, 128 0.0078 26, 160 0.0078 43, 176 "
        "0.0078 43, 192 0.0078 43, 208 0.0078 43, 240 0.0078 43, 272 0.0078 43, 432 0.0078 43, 688 "
        "0.0079 43, 816 0.0079 43"
    ),
    ("trowexpand", "f32"): ("8 1.7596 33.4, 32 0.4375 37, 64 0.2187 37, 96 0.1562 37, 128 0.1176 34.5"),
    ("trowexpand", "f16"): (
        "32 0.4375 37, 64 0.2187 37, 96 0.1458 37, 128 0.1094 37, 160 0.0937 37, 192 0.0781 37"
    ),
    ("trowmax", "f32"): (
        "8 0.875 46, 32 0.2188 47, 64 0.1094 32, 96 0.0937 61, 128 0.0625 48, 144 0.0692 77, 176 "
        "0.0558 79, 208 0.0517 100, 240 0.0448 100, 272 0.0485 98, 304 0.0434 110, 336 0.0418 131"
    ),
    ("trowmax", "f16"): (
        "32 0.2187 48, 64 0.1094 43, 96 0.0729 43, 128 0.0547 33, 160 0.0562 62, 208 0.0433 63, 240 "
        "0.0388 62, 272 0.0369 74, 304 0.0323 80, 336 0.0302 97, 368 0.0276 93, 400 0.0279 92, 432 "
        "0.025 101, 464 0.0232 119, 496 0.0222 119, 528 0.0254 111, 560 0.0241 110, 592 0.0232 127, "
        "624 0.022 127, 656 0.0224 125"
    ),
    ("trowsum", "f32"): (
        "8 0.875 58, 32 0.2187 59, 64 0.1094 44, 96 0.0938 75, 128 0.0625 61.5, 144 0.0698 92, 176 "
        "0.0575 93, 208 0.0535 99, 240 0.0469 99, 272 0.0484 104, 304 0.0431 104, 336 0.0419 121"
    ),
    ("trowsum", "f16"): (
        "32 0.2188 62, 64 0.1094 57, 96 0.0729 57, 128 0.0547 47, 160 0.0563 78, 208 0.0436 79, 240 "
        "0.0391 79, 272 0.0366 94, 304 0.0323 102, 336 0.0298 115, 368 0.0272 111, 400 0.0275 103, "
        "432 0.0255 103, 464 0.0238 121, 496 0.0229 121, 528 0.0249 111, 560 0.0234 106, 592 0.0219 "
        "140, 624 0.0208 140, 656 0.0213 126"
    ),
    ("tsub", "f32"): (
        "32 0.0625 42, 64 0.0313 25, 96 0.0312 42, 128 0.0325 16.5, 144 0.0312 42, 176 0.0312 42, 208 "
        "0.0312 42, 240 0.0312 42, 272 0.0312 42, 304 0.0312 42, 336 0.0312 42"
    ),
    ("tsub", "f16"): (
        "32 0.0625 42, 64 0.0312 41, 96 0.0208 41, 128 0.0156 25, 160 0.0156 42, 176 0.0156 42, 208 "
        "0.0156 42, 240 0.0156 42, 272 0.0156 42, 304 0.0156 42, 336 0.0156 42, 368 0.0156 42, 400 "
        "0.0156 42, 432 0.0156 42, 464 0.0156 42, 496 0.0156 42, 528 0.0156 42, 560 0.0156 42, 592 "
        "0.0156 42, 624 0.0156 42, 656 0.0156 42"
    ),
}


def _parsed(text: str) -> Mapping[int, Line]:
    rows = (row.split() for row in text.split(","))
    return {int(columns): (float(slope), float(bias)) for columns, slope, bias in rows}


LINES: Mapping[tuple[str, str], Mapping[int, Line]] = {key: _parsed(text) for key, text in _LINES.items()}
#: Slope and bias for every element type and number of columns.
ANY_COLUMNS: Mapping[str, Line] = {"texp": (0.0314, 30.1), "tsqrt": (0.0314, 31.1)}
_PRODUCT_REPEAT = {"f32": 2, "f16": 1}

#: a5_fit, by instruction and element types: slope and bias per step over whole tiles; slope per step of a
#: row, cost per row and bias where rows are apart. Conversions of 16-bit floats to f32 are left out: their
#: published slope is negative, so that large tiles would cost less than nothing.
A5_LINES: Mapping[tuple[str, ...], tuple[Line, tuple[float, float, float]]] = {
    ("tadd", "f16"): ((1.2469671, 55.073657), (1.8749443, 2.8762808, 44.344619)),
    ("tadd", "f32"): ((1.2469671, 55.073657), (1.8749443, 2.8762808, 44.344619)),
    ("tdivs", "f16"): ((3.5491803, 68.737705), (3.9981682, -0.12080507, 65.159204)),
    ("tdivs", "f32"): ((1.9081456, 64.516464), (1.8688724, 2.4753589, 62.942563)),
    ("texp", "f16"): ((3.7622951, 65.934426), (3.9981682, -0.12080507, 64.159204)),
    ("texp", "f32"): ((1.9670711, 62.656846), (1.8548854, 2.5442386, 60.598247)),
    ("tmins", "f16"): ((1.0589255, 53.140381), (1.1016757, 4.5314383, 49.627872)),
    ("tmins", "f32"): ((1.0589255, 53.140381), (1.1016757, 4.5314383, 49.627872)),
    ("tmul", "f16"): ((1.1941075, 56.285962), (1.8708194, 2.9123738, 44.844619)),
    ("tmul", "f32"): ((1.1941075, 56.285962), (1.8708194, 2.9123738, 44.844619)),
    ("tneg", "f16"): ((1.0589255, 55.140381), (1.0952879, 4.5652633, 51.508464)),
    ("tneg", "f32"): ((1.0589255, 55.140381), (1.0952879, 4.5652633, 51.508464)),
    ("trecip", "f16"): ((3.5491803, 68.737705), (3.9981682, -0.12080507, 65.159204)),
    ("trecip", "f32"): ((1.9081456, 64.516464), (1.8688724, 2.4753589, 62.942563)),
    ("trsqrt", "f16"): ((8.1065574, 81.098361), (8.011194, 0.05721393, 80.711443)),
    ("trsqrt", "f32"): ((4.0294627, 75.570191), (4, 0.032648126, 76.464329)),
    ("tsel", "f16"): ((2.0983607, 52.47541), (2.4617368, 1.427318, 48.616915)),
    ("tsel", "i8"): ((2.0983607, 52.47541), (2.4617368, 1.427318, 48.616915)),
    ("tsel", "f32"): ((1.9336735, 58.846939), (3.0869132, 36.109522, 22.512394)),
    ("tsqrt", "f16"): ((3.7622951, 66.934426), (3.9981682, -0.12080507, 65.159204)),
    ("tsqrt", "f32"): ((1.9670711, 63.656846), (1.8548854, 2.5442386, 61.598247)),
    ("tsub", "f16"): ((1.2469671, 55.073657), (1.8749443, 2.8762808, 44.344619)),
    ("tsub", "f32"): ((1.2469671, 55.073657), (1.8749443, 2.8762808, 44.344619)),
    ("tcvt", "bf16", "f16"): ((1.2131148, 53.196721), (1.279308, 1.8333786, 51.80597)),
    ("tcvt", "f32", "bf16"): ((1.3196721, 52.295082), (2.2580054, 1.0422433, 55.18408)),
    ("tcvt", "f32", "f16"): ((1.3196721, 52.295082), (2.2580054, 1.0422433, 55.18408)),
    ("tcvt", "f16", "hif8"): ((1.3196721, 53.295082), (1.2897558, 1.7846223, 52.472637)),
    ("tcvt", "f32", "f8e4m3"): ((12.319672, 55.295082), (87.638195, -30.013071, 7.6069652)),
    ("tcvt", "f32", "f8e5m2"): ((12.319672, 55.295082), (87.638195, -30.013071, 7.6069652)),
    ("tcvt", "f32", "hif8"): ((12.319672, 55.295082), (87.638195, -30.013071, 7.6069652)),
    ("tcvt", "f8e4m3", "f32"): ((3.9344262, 81.016393), (5.1631615, -1.7589326, 69.099502)),
    ("tcvt", "f8e5m2", "f32"): ((3.9344262, 81.016393), (5.1631615, -1.7589326, 69.099502)),
    ("tcvt", "hif8", "f32"): ((3.9344262, 81.016393), (5.1631615, -1.7589326, 69.099502)),
    ("tcvt", "bf16", "f4e1m2x2"): ((12.42623, 55.393443), (87.72924, -29.743917, 7.0348259)),
    ("tcvt", "bf16", "f4e2m1x2"): ((12.42623, 55.393443), (87.72924, -29.743917, 7.0348259)),
    ("tcvt", "f4e1m2x2", "bf16"): ((0.89344262, 89.901639), (3.2957259, 1.9433288, 61.60199)),
    ("tcvt", "f4e2m1x2", "bf16"): ((0.89344262, 89.901639), (3.2957259, 1.9433288, 61.60199)),
}
#: a5_fit: the line of ``tsel`` on f32 over an odd number of steps.
_ODD_SELECT: Line = (3.9142857, 63.885714)
#: Instructions with a scalar, whose single rows are no whole tiles.
_SCALAR = frozenset(("tdivs", "tmins", "tneg"))


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
    name, element = work.instruction, work.dtype.name
    converts = name == "tcvt"
    key = (
        (name, work.source.name if work.source is not None else "?", element) if converts else (name, element)
    )
    lines = A5_LINES.get(key)
    if lines is None:
        has_other_types = any(other[0] == name for other in A5_LINES)
        types = f"from {key[1]} to {element}" if converts else f"on {element}"
        return lacks(A5_FIT, work, types if has_other_types else "")
    (slope, bias), (step, row, base) = lines
    steps = ceil_div(work.elements, _per_step(work, padded=False))
    across = ceil_div(work.valid_col, _per_step(work, padded=True))
    whole = nearest(slope * steps + bias)
    if name == "tsel" and element == "f32":
        whole = where(steps % 2 == 0, whole, nearest(_ODD_SELECT[0] * steps + _ODD_SELECT[1]))
    contiguous = work.valid_col == work.cols
    if name not in _SCALAR:
        contiguous = contiguous | (work.rows == 1)
    cycles = where(contiguous, whole, nearest((step * across + row) * work.valid_row + base))
    note = "measured with RINT, saturating" if converts else ""
    return Figure(A5_FIT, cycles, {"steps": steps}, layout=work.layout, note=note)


def _per_step(work: Work, *, padded: bool) -> int:
    """Elements of a step: those of 256 bytes, of conversions those of the wider or narrower type."""
    if work.instruction != "tcvt" or work.source is None:
        return work.per_repeat
    source, element = work.source.name, work.dtype.name
    if padded and source == "f32":
        return 128
    if padded and source in ("f16", "bf16") and element != "f32":
        return 128
    if source.startswith("f8") or source == "hif8":
        return 64
    return 256 if source.startswith("f4") else 256 * 8 // work.source.storage_bits


FIT_MODEL = Model(
    "fit",
    "lines fitted to measured cycles, A2/A3",
    ("a2a3",),
    frozenset((*(name for name, _ in LINES), *ANY_COLUMNS, *doc_formula.PRODUCTS, *doc_formula.TRANSFERS)),
    estimate,
    "pto-isa cost model: include/pto/costmodel/a2a3/formula_costmodel/formula_params.csv",
)
A5_FIT_MODEL = Model(
    "a5_fit",
    "lines fitted to measured cycles, A5",
    ("a5",),
    frozenset(key[0] for key in A5_LINES),
    estimate_a5,
    "pto-isa cost model for A5: include/pto/costmodel/a5/formula_costmodel/formula_params.csv",
)


def estimate_tables(work: Work) -> Figure:
    """Model ``tables``: the first of the models of A2/A3 that go back to calls and measurements."""
    for model in _TABLES:
        figure = model.estimate(work)
        if figure.cycles is not None:
            return figure
    return lacks(TABLES, work)


_TABLES = (FIT_MODEL, cce_stub.MODEL, analytic_legacy.MODEL)
TABLES_MODEL = Model(
    TABLES,
    "for each instruction the first of fit, cce_stub and analytic_legacy that has a figure",
    ("a2a3",),
    frozenset().union(*(model.instructions for model in _TABLES)),
    estimate_tables,
    "the models that it takes figures from",
)
