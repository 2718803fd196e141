"""Model ``cce_stub``: head, slope and tail of each hardware call; transfers by measured bandwidth."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..ir import DType
from .analytic_legacy import binary_repeats, contiguous_repeats, padded_repeats, unary_repeats
from .doc_formula import PRODUCTS, TRANSFERS, product_repeats
from .work import Figure, Model, ModelName, Size, Work, ceil_div, is_number, lacks, where, whole

NAME: Final = "cce_stub"
FREQUENCY = 1.85e9
#: Cycles that arithmetic on a partial repeat costs on top, and the two calls that set and reset its mask.
_FLOOR, _MASK_CALLS = 16, 2
#: Cost of a call that only controls (flags, barriers).
CONTROL = 1


@dataclass(frozen=True)
class Call:
    """Cost of a hardware call; ``floor``: a partial mask costs extra."""

    head: int
    slope: int
    tail: int
    floor: bool = False


_ADD = Call(10, 2, 14, floor=True)
_LOGIC = Call(8, 2, 12, floor=True)
# Instructions by name: the figures are published ones, a line for each instruction.
BINARY: Mapping[str, Call] = {
    **dict.fromkeys(("tadd", "tsub", "tmax", "tmin"), _ADD),
    "tmul": Call(10, 2, 15, floor=True),
    "tdiv": Call(11, 4, 19, floor=True),
    "tand": _LOGIC,
    "tor": _LOGIC,
}
TILE_SCALAR: Mapping[str, Call] = {
    "tadds": Call(13, 1, 18),
    "tmuls": Call(11, 1, 15),
    "tmins": Call(14, 1, 16),
    "tmaxs": Call(10, 1, 13),
    "tlrelu": Call(11, 1, 15),
}
UNARY: Mapping[str, Call] = {
    "tabs": Call(13, 1, 16),
    "trelu": Call(10, 1, 13),
    "tnot": Call(8, 2, 12),
    "texp": Call(13, 2, 18),
    "tlog": Call(13, 2, 20),
    "tsqrt": Call(14, 2, 25),
    "trsqrt": Call(10, 1, 14),
}
#: The call that an expansion repeats in each row, after a broadcast of the column and a barrier.
EXPANDED: Mapping[str, str] = {
    **{f"trowexpand{name}": f"t{name}" for name in ("add", "sub", "mul", "div", "max", "min")},
}
_BROADCAST = 18 + CONTROL
#: Conversions that are one kind of call, in each row.
_CONVERT = Call(14, 2, 18)
_CONVERTED = frozenset(
    (("f32", "f16"), ("f16", "f32"), ("f32", "bf16"), ("bf16", "f32"), ("f32", "i32"), ("i32", "f32"))
)
#: GiB per second by the two ends of a transfer.
BANDWIDTH: Mapping[str, float] = {
    "GM->Vec": 100.9,
    "GM->Mat": 135.0,
    "Vec->GM": 188.46,
    "Mat->GM": 32.0,
    "Vec->Vec": 1024.0,
    "Acc->GM": 70.0,
    "Acc->Mat": 128.0,
    "Mat->Left": 441.0,
    "Mat->Right": 220.5,
    "Mat->Bias": 32.0,
    "Mat->Scaling": 32.0,
}


def _row_repeats(work: Work) -> Size:
    """A tile-scalar instruction goes over whole tiles in one run, over run-time sizes row by row."""
    whole_tile = (work.valid_col == work.cols) & work.static
    return where(whole_tile, contiguous_repeats(work), padded_repeats(work))


def _partial(work: Work) -> Size:
    """Whether rows go one by one and end in a partial repeat, so that a mask is set."""
    return (work.cols < work.per_repeat) | (work.valid_col % work.per_repeat != 0)


_Kind = tuple[Mapping[str, Call], Callable[[Work], Size], Callable[[Work], Size]]
_KINDS: tuple[_Kind, ...] = (
    (BINARY, binary_repeats, _partial),
    (TILE_SCALAR, _row_repeats, lambda work: work.valid_col % work.per_repeat != 0),
    (UNARY, unary_repeats, lambda work: False),
)


def estimate(work: Work) -> Figure:
    """The figure of head, slope and tail."""
    for table, repeats_of, partial in _KINDS:
        if work.instruction in table:
            return _call(table[work.instruction], repeats_of(work), partial(work))
    if work.instruction in EXPANDED:
        return _expanded(work)
    if work.instruction == "tcvt" and work.source is not None:
        return _converted(work, work.source)
    if work.instruction in PRODUCTS:
        return _call(Call(6, 2 if work.dtype.name == "f32" else 1, 0), product_repeats(work), False)
    if work.instruction in TRANSFERS:
        return transfer(NAME, work)
    return lacks(NAME, work)


def _call(call: Call, repeats: Size, partial: Size) -> Figure:
    extra = where(partial, _MASK_CALLS + (_FLOOR if call.floor else 0), 0)
    terms = {"head": call.head, "slope": call.slope, "tail": call.tail, "repeats": repeats, "mask": extra}
    return Figure(NAME, call.head + call.slope * repeats + call.tail + extra, terms)


def _expanded(work: Work) -> Figure:
    """Rows are the repeats of a call, as long as there are more of them than repeats in a row."""
    rows, across = work.valid_row, ceil_div(work.valid_col, work.per_repeat)
    if not is_number(rows) or not is_number(across) or rows > 240 or work.valid_col // work.per_repeat > rows:
        return lacks(NAME, work, "but with up to 240 rows, and no more repeats in a row")
    figure = _call(BINARY[EXPANDED[work.instruction]], rows * across, work.valid_col % work.per_repeat != 0)
    return replace(figure, cycles=figure.cycles + _BROADCAST, note="the second source is a column")


def _converted(work: Work, source: DType) -> Figure:
    if (source.name, work.dtype.name) not in _CONVERTED:
        return lacks(NAME, work, f"from {source} to {work.dtype}")
    per_repeat = 256 * 8 // max(source.storage_bits, work.dtype.storage_bits)
    repeats = work.valid_row * ceil_div(work.valid_col, per_repeat)
    return _call(_CONVERT, repeats, work.valid_col % per_repeat != 0)


def transfer(model: ModelName, work: Work) -> Figure:
    """Cycles of a transfer at the bandwidth of its ends, its fraction cut off."""
    bandwidth = BANDWIDTH.get(work.route)
    if bandwidth is None:
        return lacks(model, work, f"from {work.route.replace('->', ' to ')}" if work.route else "")
    cycles = whole(work.bytes / 2**30 / bandwidth * FREQUENCY)
    return Figure(model, cycles, {"bytes": work.bytes, "GiB per second": bandwidth})


MODEL = Model(
    NAME,
    "head, slope and tail per hardware call",
    ("a2a3",),
    frozenset((*BINARY, *TILE_SCALAR, *UNARY, *EXPANDED, *PRODUCTS, *TRANSFERS, "tcvt")),
    estimate,
    "pto-isa cost model, stub of hardware calls; sequences of calls: headers for A2/A3",
)
