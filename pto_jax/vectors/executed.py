"""An instruction about to execute, and what is true of it that matters to the public CPU simulator."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..interpreter import Execution, TileRef
from ..ir import Coalesce, DType, GatherOob, Loc, SaturationMode, ScatterAtomicOp, ScatterOob, TileType
from ..isa.declare import Instruction
from ..isa.rules.typesets import BYTE_FLOATS, FIRST_SPECIAL, FLOATS
from ..oracle.machine import ReferenceMachine
from ..oracle.storage import Place, Window, storage_size

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
    known = e.dtype("src").name in FIRST_SPECIAL
    return _special(e.dtype("src"), words) if known else np.zeros(words.shape, np.bool_)


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
        listed = e.size("fp")[1] if "fp" in e else e.size("dst")[1]
    else:
        needed = rows if by_row else cols
        listed = e.size("fp")[1] if "fp" in e else rows
        if e.name == "tmov" and "fp" not in e:
            return False
    return needed > listed


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
