"""Model ``doc_formula``: startup, completion, repeats and intervals as the instruction pages print them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .. import isa
from ..ir import DType
from .work import Figure, Model, Path, Size, Work, at_least, ceil_div, is_number, lacks, of_type, where

NAME: Final = "doc_formula"
PER_REPEAT, INTERVAL = 8, 18
_ByType = int | Mapping[str, int] | None


@dataclass(frozen=True)
class Constants:
    """Cycle constants of an instruction; completion for floats and for integers, None: no such form."""

    startup: int
    completion_float: _ByType
    completion_integer: _ByType
    per_repeat: int | Mapping[str, int]
    note: str = ""

    def completion(self, dtype: DType) -> int | None:
        """Cycles of completion for an element type, None where there is no such form."""
        return of_type(self.completion_float if dtype.is_float else self.completion_integer, dtype)


_ADD = Constants(14, 19, 17, 2)
_LOGIC = Constants(14, None, 17, 2)
_FUSED = Constants(14, 26, None, 2)
_EXPONENTIAL = Constants(13, {"f32": 26, "f16": 28}, None, {"f32": 2, "f16": 4})
_REDUCTION = Constants(13, {"f32": 19}, None, 2, "sequence of the special shape")
# Instructions by name: the figures are published ones, a line for each instruction.
ELEMENTWISE: Mapping[str, Constants] = {
    **dict.fromkeys(("tadd", "tsub", "taddc", "tsubc", "tmax", "tmin", "trem", "tfmod"), _ADD),
    "tmul": Constants(14, 20, 18, 2),
    "tdiv": Constants(14, 20, None, {"f32": 2, "f16": 4}),
    **dict.fromkeys(("tand", "tor", "txor", "tshl", "tshr"), _LOGIC),
    "tabs": Constants(14, 19, 17, 1, "the class page says startup 13"),
    "tneg": Constants(14, 20, 18, 1, "the class page says completion 19"),
    "trelu": Constants(14, 19, None, 1),
    "trsqrt": Constants(14, 20, None, 1),
    "texp": _EXPONENTIAL,
    "tlog": _EXPONENTIAL,
    "tsqrt": Constants(13, {"f32": 27, "f16": 29}, None, {"f32": 2, "f16": 4}),
    "trecip": Constants(13, 26, None, 1),
    "tnot": Constants(13, None, 26, 1),
    **dict.fromkeys(("taxpy", "tfusedmuladd", "taddreluconv", "tsubrelu", "tprelu", "tmrgsort"), _FUSED),
}
PRODUCTS = frozenset(("tmatmul", "tmatmul.acc", "tmatmul.bias", "tgemv", "tgemv.acc", "tgemv.bias"))
_PRODUCT_REPEAT = {"f32": 2, "f16": 1, "bf16": 1, "i8": 1}
#: Bytes per cycle by the two ends of a transfer.
BANDWIDTH: Mapping[str, int] = {
    "GM->Vec": 128,
    "Vec->Vec": 128,
    "GM->Mat": 256,
    "Mat->Left": 256,
    "Mat->Right": 128,
    "Mat->Bias": 128,
    "Mat->Scaling": 128,
    "Acc->Mat": 128,
    "Mat->Mat": 32,
}
#: Instructions that go by the ends of their transfer; parameters of a quantisation move nothing more.
TRANSFERS = frozenset(
    ("tload", "tstore", "tmov", "textract", "tinsert", "tstore_fp", "tmov.fp", "textract_fp", "tinsert_fp")
)
#: Repeats of the instructions that row reductions of f32 consist of, by valid shape.
ROW_SEQUENCES: Mapping[tuple[int, int], tuple[int, ...]] = {
    (64, 128): (128, 8, 8),
    (32, 256): (128, 8, 4, 4),
    (16, 512): (128, 16, 2),
    (8, 1024): (128, 16, 8, 8),
}
ROW_REDUCTIONS = frozenset(("trowsum", "trowmax", "trowmin"))


def path_of(work: Work) -> Size:
    """The path over the tile: rows shorter than one repeat are small, whole row-major tiles continuous."""
    if work.layout != "ND":
        return Path.GENERAL
    small = (work.rows <= 255) & (work.cols < work.per_repeat)
    contiguous = (work.valid_col == work.cols) | (work.rows == 1)
    code = where(small, int(Path.SMALL), where(contiguous, int(Path.CONTINUOUS), int(Path.GENERAL)))
    return Path(code) if is_number(code) else code


def product_repeats(work: Work) -> Size:
    """16x16 blocks of the result times 32-byte steps of the reduced size."""
    steps = ceil_div(work.k * work.dtype.storage_bits, 32 * 8)
    return ceil_div(work.valid_row, 16) * ceil_div(work.valid_col, 16) * steps


def estimate(work: Work) -> Figure:
    """The pages' figure for one execution."""
    name = work.instruction
    if name in ELEMENTWISE:
        return _elementwise(work, ELEMENTWISE[name])
    if name in PRODUCTS:
        return _product(work)
    if name in TRANSFERS:
        return _transfer(work)
    if name in ROW_REDUCTIONS:
        return _row_reduction(work)
    if name == "tci":
        return Figure(NAME, 10 + work.elements, note="the page's estimate: about 10 and one per element")
    declared = isa.instructions().get(name)
    if declared is None or declared.cycles is None:
        return lacks(NAME, work)
    c = declared.cycles
    return _elementwise(work, Constants(c.startup, c.completion, c.completion, c.per_repeat))


def _elementwise(work: Work, constants: Constants) -> Figure:
    completion = constants.completion(work.dtype)
    per_repeat = of_type(constants.per_repeat, work.dtype)
    if completion is None or per_repeat is None:
        return lacks(NAME, work, f"on {work.dtype}")
    repeats = ceil_div(work.elements, PER_REPEAT)
    between = at_least(repeats - 1, 0)
    fixed = where(repeats > 0, constants.startup + completion, 0)
    path = path_of(work)
    return Figure(
        NAME,
        fixed + per_repeat * repeats + between * INTERVAL,
        {
            "startup": constants.startup,
            "completion": completion,
            "per_repeat": per_repeat,
            "repeats": repeats,
            "interval": INTERVAL,
        },
        path,
        work.layout,
        path != Path.CONTINUOUS,
        constants.note,
    )


def _product(work: Work) -> Figure:
    per_repeat = _PRODUCT_REPEAT.get(work.dtype.name)
    if per_repeat is None:
        return lacks(NAME, work, f"on {work.dtype}")
    repeats = product_repeats(work)
    cycles = where(repeats > 0, 14, 0) + per_repeat * repeats
    return Figure(NAME, cycles, {"startup": 14, "per_repeat": per_repeat, "repeats": repeats})


def _transfer(work: Work) -> Figure:
    bandwidth = BANDWIDTH.get(work.route)
    if bandwidth is None:
        return lacks(NAME, work, f"from {work.route.replace('->', ' to ')}" if work.route else "")
    return Figure(NAME, ceil_div(work.bytes, bandwidth), {"bytes": work.bytes, "bandwidth": bandwidth})


def _row_reduction(work: Work) -> Figure:
    shapes = ", ".join(f"{r}x{c}" for r, c in ROW_SEQUENCES)
    missing = lacks(NAME, work, f"but on f32 with valid region {shapes}")
    if work.dtype.name != "f32":
        return missing
    if is_number(work.valid_row) and is_number(work.valid_col):
        sequence = ROW_SEQUENCES.get((int(work.valid_row), int(work.valid_col)))
        return missing if sequence is None else Figure(NAME, _sequence(sequence), note=_REDUCTION.note)
    cycles: Size = float("nan")
    for (rows, cols), sequence in ROW_SEQUENCES.items():
        here = (work.valid_row == rows) & (work.valid_col == cols)
        cycles = where(here, float(_sequence(sequence)), cycles)
    return Figure(NAME, cycles, note=f"nan: {missing.note}")


def _sequence(repeats: tuple[int, ...]) -> int:
    completion = _REDUCTION.completion_float
    assert isinstance(completion, Mapping)
    steps = sum(completion["f32"] + 2 * r + (r - 1) * INTERVAL for r in repeats)
    return _REDUCTION.startup + steps


MODEL = Model(
    NAME,
    "closed formula of the instruction pages",
    ("a2a3",),
    frozenset((*ELEMENTWISE, *PRODUCTS, *TRANSFERS, *ROW_REDUCTIONS, "tci")),
    estimate,
    "page pto.tadd; PTO ISA instruction and class pages",
)
