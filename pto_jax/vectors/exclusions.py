"""The table of recorded cases that are not a requirement, with a reason for each entry.

An *excluded* case records a plain defect of the C++ simulator; the engine follows the documented rule and
differs. A case with a *not required* tag records additional information; it is compared and reported
separately, and it fails nothing.

For whole programs, the interpreter executes a program and reports the entries that apply to each instruction,
with its values and regions at that moment. Defects that recorded cases show too have the same ids.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..interpreter import Execution, TileRef
from ..ir import Coalesce, DType, GatherOob, Loc, SaturationMode, ScatterAtomicOp, ScatterOob, TileType
from ..isa.declare import Instruction
from ..isa.rules.typesets import BYTE_FLOATS, FIRST_SPECIAL, FLOATS
from ..oracle.machine import ReferenceMachine
from ..oracle.step import Step
from ..oracle.storage import Place, Window, storage_size
from . import compare
from .cases import to_logical
from .manifest import Case, ScalarOperand, TileOperand

# Instructions by name: each function below is a defect of the simulator in one instruction.
Array = NDArray[Any]


@dataclass(frozen=True)
class Executed:
    """An instruction about to execute, and the machine that holds its operands."""

    execution: Execution
    machine: ReferenceMachine

    @property
    def instruction(self) -> Instruction:
        """The declaration of what is executed."""
        return self.execution.instruction

    @property
    def name(self) -> str:
        """The name of the instruction."""
        return self.instruction.name

    def __contains__(self, operand: str) -> bool:
        return operand in self.execution.operands

    def tile(self, operand: str) -> TileRef:
        """The tile that an operand is."""
        return self.execution.tile(operand)

    def dtype(self, operand: str) -> DType:
        """The element type of an operand."""
        return self.execution.dtype(operand)

    def size(self, operand: str) -> tuple[int, int]:
        """Valid rows and columns."""
        ref = self.tile(operand)
        return int(ref.v_row), int(ref.v_col)

    def number(self, operand: str) -> int:
        """A scalar operand as an integer, 0 where the operation leaves it out."""
        return int(self.execution.operands.get(operand, 0))

    def words(self, operand: str) -> Array:
        """The words of a tile's valid region."""
        rows, cols = self.size(operand)
        words: Array = self.machine.stored(self.tile(operand))
        return words[:rows, :cols]

    def values(self, operand: str) -> Array:
        """The elements of a tile's valid region."""
        return self.words(operand).view(self.dtype(operand).numpy)

    def whole(self, operand: str) -> Array:
        """All elements of a tile, or a scalar."""
        value = self.execution.operands[operand]
        if not isinstance(value, TileRef):
            return np.asarray(value)
        words: Array = self.machine.stored(value)
        return words.view(value.type.dtype.numpy)

    def tiles(self, *roles: str) -> Iterator[TileRef]:
        """The operands that are tiles and have one of some roles."""
        for name, ref in self.execution.operands.items():
            if isinstance(ref, TileRef) and self.instruction.operand(name).role in roles:
                yield ref


def computes_with_eight_bit_floats(e: Executed) -> bool:
    """Arithmetic that writes 8-bit floats, or scatters that combine them."""
    writes_them = any(t.type.dtype.name in BYTE_FLOATS for t in e.tiles("out", "inout"))
    if e.execution.attrs.get("scatterAtomicOp", ScatterAtomicOp.NONE) != ScatterAtomicOp.NONE:
        return e.dtype("src").name in BYTE_FLOATS
    i = e.instruction
    return writes_them and i.lanes in ("same", "line") and i.moves is None and not i.converts


def _saturates(e: Executed) -> bool:
    return bool(e.execution.attrs.get("sat_mode") == SaturationMode.ON)


def encodes_eight_bits(e: Executed) -> bool:
    """A conversion or a quantising move to an 8-bit float from another type."""
    if not e.instruction.converts and not _leaves_accumulators(e):
        return False
    return [e.dtype(n).name in BYTE_FLOATS for n in ("dst", "src")] == [True, False]


def saturates_from_eight_bits(e: Executed) -> bool:
    """A conversion from an 8-bit float with saturation."""
    return e.instruction.converts and e.dtype("src").name in BYTE_FLOATS and _saturates(e)


def converts_special_codes(e: Executed) -> bool:
    """A conversion of codes that the simulator decodes as other numbers."""
    return e.instruction.converts and bool(special_codes(e).any())


def special_codes(e: Executed) -> Array:
    """Which lanes hold such a code, bool [rows, cols] of the valid region."""
    words = e.words("src")
    has_codes = e.dtype("src").name in FIRST_SPECIAL
    return _special(e.dtype("src"), words) if has_codes else np.zeros(words.shape, np.bool_)


def wraps_at_the_limit(e: Executed) -> bool:
    """A conversion from u64 to i64 with saturation."""
    pair = (e.dtype("dst").name, e.dtype("src").name) if e.instruction.converts else None
    return pair == ("i64", "u64") and _saturates(e)


def converts_out_of_range(e: Executed) -> bool:
    """A conversion of some number that the integer type cannot hold."""
    return e.instruction.converts and bool(lanes_out_of_range(e).any())


def lanes_out_of_range(e: Executed) -> Array:
    """Which lanes hold floats that the integer type cannot hold, bool [rows, cols] of the valid region.

    A limit that saturation rounds up is one of them: it wraps too.
    """
    d, values = e.dtype("dst"), e.values("src")
    if not e.dtype("src").is_float or not d.is_integer:
        return np.zeros(values.shape, np.bool_)
    low, high = (-(2.0 ** (d.bits - 1)), 2.0 ** (d.bits - 1)) if d.is_signed else (0.0, 2.0**d.bits)
    numbers = values.astype(np.float64)
    return np.asarray(~((numbers > low - 0.5) & (numbers < high - 0.5)))


def converts_four_bits(e: Executed) -> bool:
    """A conversion from or to a 4-bit type."""
    return e.instruction.converts and any(e.dtype(n).bits == 4 for n in ("dst", "src"))


def overlapping_blocks(e: Executed) -> bool:
    """A sort of 16-bit keys in rows of several blocks of 32."""
    return e.name == "tsort32" and e.dtype("src").bits == 16 and e.size("src")[1] > 32


def sorts_nan(e: Executed) -> bool:
    """A sort or merge of floats with a NaN among them."""
    if e.name not in ("tsort32", "tmrgsort"):
        return False
    return any(_has_nan(e, t) for t in e.tiles("in") if t.type.dtype.name in FLOATS)


def _has_nan(e: Executed, ref: TileRef) -> bool:
    words: Array = e.machine.stored(ref)
    return bool(np.isnan(words.view(ref.type.dtype.numpy)).any())


def sorts_past_the_row(e: Executed) -> bool:
    """Records that do not fit the rows of the destination."""
    if e.name != "tsort32":
        return False
    t, (rows, cols) = e.tile("dst").type, e.size("src")
    return rows > t.rows or cols * 64 // e.dtype("src").bits > t.cols


def multiplies_special_codes(e: Executed) -> bool:
    """A block-scaled product with a code that the simulator decodes as another number.

    That is one of no finite number, or negative zero.
    """
    if ".mx" not in e.name or e.instruction.cls != "matrix":
        return False
    return any(_special(t.type.dtype, e.machine.stored(t)).any() for t in e.tiles("in"))


def _special(d: DType, words: Array) -> Array:
    first = FIRST_SPECIAL.get(d.name)
    if d.name == "f8e8m0":
        return np.asarray(words == first)
    if not d.is_float or d.bits > 8:
        return np.zeros(words.shape, np.bool_)
    sign = 1 << (d.bits - 1)
    zero = words == sign
    return np.asarray(zero if first is None else zero | ((words & (sign - 1)) >= first))


def divides_out_of_range(e: Executed) -> bool:
    """An integer division with a 0 or -1 among its numbers: the latter overflows below the smallest one."""
    if not e.instruction.divisor or not e.dtype("dst").is_integer:
        return False
    numbers = [e.whole(n) for n in e.execution.operands if n not in ("dst", "tmp")]
    return any(bool(((n == 0) | (n == -1)).any()) for n in numbers)


def shifts_too_far(e: Executed) -> bool:
    """A shift by a negative count, or by as many bits as there are or more."""
    count = e.instruction.shift_count
    if count is None:
        return False
    counts = e.whole(count).astype(np.int64)
    return bool(((counts < 0) | (counts >= e.dtype("dst").bits)).any())


def integer_power(e: Executed) -> bool:
    """A power of integers."""
    power = any(f.operation == "pow" for f in e.instruction.formulas)
    return power and e.dtype("dst").is_integer


def overlapping(e: Executed) -> bool:
    """A destination over bytes that the instruction reads elsewhere or in another order."""
    tiles = {n: ref for n, ref in e.execution.operands.items() if isinstance(ref, TileRef)}
    written = [n for n in tiles if e.instruction.operand(n).role in ("out", "inout")]
    return any(
        _share(tiles[w], tiles[r]) and not _in_step(e, w, r)
        for w in written
        for r in tiles
        if r != w and r != "tmp"
    )


def _in_step(e: Executed, written: str, read: str) -> bool:
    """Whether an element is read when it is written, and never later."""
    a, b = e.tile(written), e.tile(read)
    if a.storage != b.storage or _form(a.type) != _form(b.type):
        return False
    if read not in e.instruction.in_place.get("cpu_sim", ()):
        return False
    # An operand of another size is the one that is expanded.
    return e.instruction.lanes != "line" or e.size(written) == e.size(read)


def _share(a: TileRef, b: TileRef) -> bool:
    x, y = _bytes(a), _bytes(b)
    return x[0] is y[0] and x[1] < y[2] and y[1] < x[2]


def _bytes(ref: TileRef) -> tuple[object, int, int]:
    if isinstance(ref.storage, Window):
        return _bytes(ref.storage.tile)
    place = ref.storage
    assert isinstance(place, Place)
    return place.buffer, place.address, place.address + storage_size(ref.type)


def _form(t: TileType) -> tuple[object, ...]:
    return t.shape, t.dtype.word_bits, t.blayout, t.slayout, t.fractal


def runs_out_of_parameters(e: Executed) -> bool:
    """A quantising move that reads more parameters than the simulator lists."""
    if not _leaves_accumulators(e) or not ("fp" in e or "preQuantScalar" in e):
        return False
    rows, cols = e.size("src")
    by_row = e.name.startswith("tstore") and e.tile("src").type.loc == Loc.ACC
    if e.name.startswith("textract"):
        needed = e.number("indexCol") + e.size("dst")[1]
        available = e.size("fp")[1] if "fp" in e else e.size("dst")[1]
    else:
        needed = rows if by_row else cols
        available = e.size("fp")[1] if "fp" in e else rows
        if e.name == "tmov" and "fp" not in e:
            return False
    return needed > available


def _leaves_accumulators(e: Executed) -> bool:
    """Whether the instruction is one by which accumulators leave, which may quantise them."""
    return any(o.holds == "parameters" for o in e.instruction.operands)


def refused_regions(e: Executed) -> bool:
    """Valid regions that the simulator's assertions forbid."""
    if e.name in ("tmov", "tmov.fp"):
        return e.size("dst") != e.size("src")
    return e.name == "thistogram" and e.size("dst")[1] < 256


def concatenates_out_of_range(e: Executed) -> bool:
    """A concatenation whose index tiles ask for columns that the sources do not have."""
    if e.name not in ("tconcat", "tconcatidx") or "src0Idx" not in e:
        return False
    step = e.dtype("src0Idx").bits // 8
    widths = [e.values(f"src{i}Idx")[:, :1].astype(np.int64) for i in (0, 1)]
    limits = [e.size(f"src{i}")[1] for i in (0, 1)]
    return any(bool(((w < 0) | (w // step > n)).any()) for w, n in zip(widths, limits, strict=True))


#: Modes that say what an index beyond a table in global memory does, what leaves it open, and the table.
_OPEN = {"gatherOob": (GatherOob.UNDEFINED, "src"), "scatterOob": (ScatterOob.UNDEFINED, "dst")}


def index_out_of_range(e: Executed) -> bool:
    """An index where the instruction says nothing about those that pick nothing."""
    if e.name == "tscatter" and "indexes" in e:
        indices = e.values("indexes").astype(np.int64)
        return bool(((indices < 0) | (indices >= e.tile("dst").type.elements)).any())
    if e.name == "tgatherb":
        return bool((e.words("offset").astype(np.int64) > 0xFFFFFFFF - 32).any())
    attrs = e.execution.attrs
    operand = next((n for mode, (undefined, n) in _OPEN.items() if attrs.get(mode) == undefined), None)
    if operand is None:
        return False
    table = e.execution.operands[operand]
    rows = attrs.get("coalesce") == Coalesce.ROW
    capacity = int(table.shape[-2]) if rows else math.prod(int(n) for n in table.shape)
    indices = e.values("indexes").astype(np.int64)
    return bool(((indices < 0) | (indices >= capacity)).any())


def prefetches_past_the_end(e: Executed) -> bool:
    """A prefetch of a whole tile that the rest of the buffer is too short for."""
    if e.name != "tprefetch":
        return False
    view, t = e.execution.operands["src"], e.tile("dst").type
    size = len(e.machine.buffers[view.buffer]) * 8 // view.dtype.storage_bits
    return bool(int(view.offset) + t.elements > size)


def quantises_to_four_bits(e: Executed) -> bool:
    """A quantisation to a packed type, two elements in a byte."""
    return e.name in ("tquant.mx", "tquant_dn") and e.dtype("dst").packed


def diagonal_overflows(e: Executed) -> bool:
    """A triangle whose diagonal plus its rows does not fit an i32."""
    return e.name == "ttri" and e.number("diagonal") + e.size("dst")[0] >= 2**31


@dataclass(frozen=True)
class Exclusion:
    """Cases excluded for one defect of the simulator. ``id`` names the entry in reports."""

    id: str
    applies: Callable[[Case], bool]
    reason: str


# Instructions by name: recorded files are what they are, whatever is declared.
#: Instructions whose recorded form has operands that an operation does not name, or handles for results.
OTHER_FORMS = frozenset("tmrgsort tfillpad_inplace trandom timg2col tprefetch tsetval".split())
#: Tags of cases that are reported but not required, and why.
NOT_REQUIRED: dict[str, str] = {
    "host-undefined": "the C++ operation is undefined for this input, the host's answer is recorded",
    "experimental-dtype": (
        "the simulator's 4-bit encoders round to an integer first, and its 8-bit and 4-bit decoders know "
        "no NaN, infinity or negative zero"
    ),
}

_ARITHMETIC = frozenset({"tadd", "tsub", "tmul"})


def _dtypes(case: Case) -> tuple[str, ...]:
    return tuple(o.dtype.name for o in case.operands if isinstance(o, TileOperand | ScalarOperand))


def _encodes_eight_bits(case: Case) -> bool:
    return (
        case.instruction == "tcvt" and _dtypes(case)[0] in BYTE_FLOATS and _dtypes(case)[1] not in BYTE_FLOATS
    )


def _saturates_from_eight_bits(case: Case) -> bool:
    return (
        case.instruction == "tcvt"
        and _dtypes(case)[1] in BYTE_FLOATS
        and case.attrs.get("saturationMode") == "ON"
    )


def _wraps_at_the_limit(case: Case) -> bool:
    return (
        case.instruction == "tcvt"
        and _dtypes(case)[:2] == ("i64", "u64")
        and case.attrs.get("saturationMode") == "ON"
    )


def _multiplies_special_codes(case: Case) -> bool:
    """A block-scaled product whose valid operands hold a code for NaN or infinity."""
    if case.instruction not in ("tmatmul_mx", "tgemv_mx"):
        return False
    tiles = [o for o in case.operands if isinstance(o, TileOperand) and o.dtype.name in FIRST_SPECIAL]
    return any(_has_special(o) for o in tiles)


def _has_special(operand: TileOperand) -> bool:
    t = operand.type
    words = to_logical(t, operand.before)[: t.v_row, : t.v_col]
    magnitude = words if t.dtype.name == "f8e8m0" else words & 0x7F
    return bool((magnitude >= FIRST_SPECIAL[t.dtype.name]).any())


def _overlapping_blocks(case: Case) -> bool:
    """A sort of 16-bit data with several blocks of 32 columns."""
    sources = [o.type for o in case.operands if isinstance(o, TileOperand) and o.name == "src"]
    return case.instruction == "tsort32" and any(t.dtype.bits == 16 and (t.v_col or 0) > 32 for t in sources)


EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        "fp8-arithmetic-encoder",
        lambda case: case.instruction in _ARITHMETIC and _dtypes(case)[0] in BYTE_FLOATS,
        "the simulator's f8/hif8 encoder cuts the mantissa off and lets the exponent wrap",
    ),
    Exclusion(
        "fp8-conversion-encoder",
        _encodes_eight_bits,
        "the simulator's f8/hif8 encoder cuts the mantissa off and lets the exponent wrap; with saturation "
        "it writes 0, because the limits of these types are missing",
    ),
    Exclusion(
        "fp8-source-saturation",
        _saturates_from_eight_bits,
        "saturating conversions from f8/hif8 give 0, because the limits of these types are missing",
    ),
    Exclusion(
        "sort-16-bit-blocks",
        _overlapping_blocks,
        "the simulator places the records of 16-bit blocks 64 elements apart although they take 128, so "
        "that a block overwrites half of the one before",
    ),
    Exclusion(
        "u64-to-i64-saturation",
        _wraps_at_the_limit,
        "the simulator's clamp rounds the largest i64 up to 2^63, which wraps to the smallest i64",
    ),
    Exclusion(
        "mx-decoder",
        _multiplies_special_codes,
        "the simulator's decoders of f8e4m3, f8e5m2 and f8e8m0 know no NaN or infinity: 7F reads as 480, "
        "7C to 7F as an ordinary binade and FF as 2^128",
    ),
)


def exclusion(case: Case) -> Exclusion | None:
    """The table entry that excludes a case, or None."""
    return next((e for e in EXCLUSIONS if e.applies(case)), None)


def not_required(case: Case) -> str | None:
    """Why a case is only reported, from its tags, or None when it must pass."""
    return next((reason for tag, reason in NOT_REQUIRED.items() if tag in case.tags), None)


@dataclass(frozen=True)
class ProgramExclusion:
    """Instructions excluded for one property of the simulator. ``id`` names the entry in reports.

    ``contained``: only what the instruction writes is affected; otherwise the process may end, or other
    memory may change. ``lanes`` says which lanes of the destination are, all of them without it.
    """

    id: str
    applies: Callable[[Executed], bool]
    reason: str
    contained: bool = True
    lanes: Callable[[Executed], Array] | None = None


_RECORDED = {x.id: x.reason for x in EXCLUSIONS}
PROGRAM_EXCLUSIONS: tuple[ProgramExclusion, ...] = (
    *(
        ProgramExclusion(id, applies, _RECORDED[id])
        for id, applies in (
            ("fp8-arithmetic-encoder", computes_with_eight_bit_floats),
            ("fp8-conversion-encoder", encodes_eight_bits),
            ("fp8-source-saturation", saturates_from_eight_bits),
            ("sort-16-bit-blocks", overlapping_blocks),
            ("u64-to-i64-saturation", wraps_at_the_limit),
        )
    ),
    ProgramExclusion(
        "mx-decoder",
        multiplies_special_codes,
        f"{_RECORDED['mx-decoder']}; negative zero reads as positive zero",
    ),
    ProgramExclusion(
        "fp8-decoder",
        converts_special_codes,
        "the simulator's decoders of f8e4m3 and f8e5m2 know no NaN, infinity or negative zero",
        lanes=special_codes,
    ),
    ProgramExclusion(
        "four-bit-conversion",
        converts_four_bits,
        "the simulator's 4-bit encoders round to an integer first, and its decoders know no negative zero",
    ),
    ProgramExclusion(
        "conversion-range",
        converts_out_of_range,
        "the conversion of a number that the integer type cannot hold is undefined in C++",
        lanes=lanes_out_of_range,
    ),
    ProgramExclusion(
        "integer-division",
        divides_out_of_range,
        "integer division by zero, or of the smallest number by -1, is undefined in C++ and ends the process",
        contained=False,
    ),
    ProgramExclusion(
        "integer-power",
        integer_power,
        "the simulator computes powers of integers in float64, whose conversion back is undefined where the "
        "power does not fit",
    ),
    ProgramExclusion(
        "shift-count",
        shifts_too_far,
        "a shift by as many bits as there are or more is undefined in C++",
    ),
    ProgramExclusion(
        "overlapping-operands",
        overlapping,
        "the simulator reads and writes element by element, so that what it wrote is read again where a "
        "destination shares bytes with another operand",
    ),
    ProgramExclusion(
        "quantisation-parameters",
        runs_out_of_parameters,
        "the simulator lists as many parameters as one of the tiles has rows or columns and reads past the "
        "end of the list",
        contained=False,
    ),
    ProgramExclusion(
        "refused-regions",
        refused_regions,
        "the simulator's assertions forbid these valid regions",
        contained=False,
    ),
    ProgramExclusion(
        "concatenation-range",
        concatenates_out_of_range,
        "the simulator copies as many columns as the index tile says, past the ends of the tiles",
        contained=False,
    ),
    ProgramExclusion(
        "index-range",
        index_out_of_range,
        "the simulator uses an index that picks nothing as an address",
        contained=False,
    ),
    ProgramExclusion(
        "prefetch-size",
        prefetches_past_the_end,
        "the simulator prefetches as many elements as the whole tile has, past the end of the buffer",
        contained=False,
    ),
    ProgramExclusion(
        "four-bit-quantisation",
        quantises_to_four_bits,
        "the simulator clears twice the bytes of a packed destination, those of whatever lies behind it too",
        contained=False,
    ),
    ProgramExclusion(
        "triangle-diagonal", diagonal_overflows, "the simulator's sum of row and diagonal overflows"
    ),
    ProgramExclusion(
        "sort-nan",
        sorts_nan,
        "the simulator sorts by a comparison that is no order when there is a NaN",
    ),
    ProgramExclusion(
        "sort-row",
        sorts_past_the_row,
        "the simulator writes the records of a row one after another, past the end of the "
        "destination's rows, and past its last one",
        contained=False,
    ),
)


class OtherNans(ReferenceMachine):
    """The interpreter with other bits for the NaNs that instructions write.

    Which NaN an operation gives is the host's choice. What differs between this machine and the
    interpreter depends on that choice: bits of a NaN that were read as another type.
    """

    def other(self, d: DType) -> int:
        """The bits that a NaN has."""
        return (1 << d.bits) - 1

    def compute(self, execution: Execution, step: Step) -> None:
        """Compute an instruction, then overwrite the NaNs of its float destinations."""
        super().compute(execution, step)
        for ref in Executed(execution, self).tiles("out", "inout"):
            d = ref.type.dtype
            if d.name not in FLOATS:
                continue
            words = self.stored(ref).view(d.word)
            nan = compare.is_nan(d, words)
            if nan.any():
                self.overwrite(ref, np.where(nan, d.word.type(self.other(d)), words))


class LeastNans(OtherNans):
    """The same with positive NaNs of the least bits."""

    def other(self, d: DType) -> int:
        """Infinity and one bit more."""
        return (((1 << d.exponent) - 1) << d.mantissa) + 1


#: Choices of NaNs that are as far from each other as NaNs can be.
OTHER_NANS = (OtherNans, LeastNans)
