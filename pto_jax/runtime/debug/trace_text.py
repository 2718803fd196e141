"""Lines of a trace: operands, values, places, and the micro-operations of an instruction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...interpreter import Execution, Operand, Pointer, TileRef, View
from ...ir import AttrValue, DType, Op, Symbol, TileType
from ...isa.declare import Instruction
from ...profiles import OutOfRegion

if TYPE_CHECKING:
    from ...lowering import JaxMachine

Words = NDArray[Any]


def place(op: Op) -> str:
    """``file:line`` of an operation."""
    return "<no text>" if op.span is None else f"{op.span.file}:{op.span.line}"


def written_attributes(op: Op) -> str:
    """The attributes an operation was written with.

    >>> from pto_jax.ir import RoundMode
    >>> written_attributes(Op("tcvt", attributes=(("rmode", RoundMode.RINT),)))
    ' rmode=RINT'
    """
    return "".join(f" {name}={attribute(value)}" for name, value in op.attributes)


def attribute(value: AttrValue) -> str:
    """An attribute's value in a few characters."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Symbol):
        return f"@{value.name}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(attribute, value)) + "]"
    return str(value)


def is_raw(d: DType) -> bool:
    """Whether NumPy has no numbers for a float type, only its bits."""
    return d.is_float and d.numpy == d.word


def number(d: DType, word: Any) -> str:
    """The value of one raw word.

    >>> from pto_jax.ir import F16, HIF8, I8
    >>> number(F16, 0x3E00), number(I8, 0xFF), number(HIF8, 0x21)
    ('1.5', '-1', '0x21')
    """
    if is_raw(d):
        return f"0x{int(word):0{max(1, d.bits // 4)}x}"
    value = np.array(word, d.word).view(d.numpy)[()]
    return f"{float(value):.6g}" if d.is_float else str(int(value))


def statistics(d: DType, words: Words) -> str:
    """Smallest and largest number, and how many are none.

    >>> from pto_jax.ir import F32
    >>> statistics(F32, np.array([1, -2, np.nan], np.float32).view(np.uint32))
    'min -2 max 1 nan 1'
    """
    if words.size == 0:
        return "no valid lane"
    if is_raw(d):
        return f"words {number(d, words.min())} to {number(d, words.max())}"
    values = np.ascontiguousarray(words).view(d.numpy)
    if not d.is_float:
        return f"min {int(values.min())} max {int(values.max())}"
    with np.errstate(invalid="ignore"):  # Signalling NaNs raise the flag.
        numbers = values.astype(np.float64)
    nan = np.isnan(numbers)
    rest = numbers[~nan]
    extent = f"min {rest.min():.6g} max {rest.max():.6g}" if rest.size else "no number"
    return f"{extent} nan {int(nan.sum())}"


def valid_sizes(ref: TileRef) -> tuple[int, int]:
    """Valid rows and columns of a handle."""
    return int(ref.v_row), int(ref.v_col)


def tile_type(t: TileType) -> str:
    """A tile's type without its valid region, which a trace says itself."""
    return str(t.with_valid(t.rows, t.cols))


def words_of(machine: JaxMachine, ref: TileRef) -> Words:
    """All words of a tile, [rows, cols]."""
    return np.asarray(machine.words(ref))


def operand_text(operand: Operand, d: DType | None = None, words: Words | None = None) -> str:
    """An operand with its shape; a tile's statistics are over its valid region."""
    if isinstance(operand, TileRef):
        rows, cols = valid_sizes(operand)
        text = f"{tile_type(operand.type)}  valid {rows}x{cols}"
        if words is None:
            return text
        return f"{text}  {statistics(operand.type.dtype, words[: max(rows, 0), : max(cols, 0)])}"
    if isinstance(operand, View):
        strides = _joined(operand.strides)
        shape = f"[{_joined(operand.shape)} at {_number(operand.offset)}, strides {strides}]"
        return f"{operand.buffer}{shape} {operand.dtype}"
    if isinstance(operand, Pointer):
        return f"{operand.buffer} + {_number(operand.offset)} {operand.dtype}"
    return f"{_number(operand)}" + (f" {d}" if d is not None else "")


def _joined(sizes: Sequence[Any]) -> str:
    return "x".join(map(_number, sizes))


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_number, value))})"
    if value is None or isinstance(value, str | Enum):
        return str(value)
    array = np.asarray(value)
    if array.shape != ():
        return f"[{', '.join(map(_number, array.reshape(-1)))}]"
    return str(int(array)) if array.dtype.kind in "iub" else f"{float(array):.6g}"


# -- micro-operations --------------------------------------------------------------------------------


def reads(execution: Execution) -> list[str]:
    """Operands that are read lane by lane or once, in the order of the text; scratch tiles are not."""
    declared = execution.instruction
    sources = [n for n in execution.form if declared.operand(n).role != "tmp"]
    return sources + [o.name for o in declared.operands if o.role == "inout" and o.name in execution.operands]


def is_lanewise(execution: Execution) -> bool:
    """Whether every lane of the destination comes from the same lane of the sources."""
    declared = execution.instruction
    return declared.lane_wise and len(declared.destinations) == 1


def summary(execution: Execution) -> str:
    """What is said of an instruction that has no lane-wise micro-operations."""
    parts = []
    for name in [*reads(execution), *(o.name for o in execution.instruction.destinations)]:
        operand = execution.operands.get(name)
        verb = "writes" if execution.instruction.operand(name).role == "out" else "reads"
        if isinstance(operand, TileRef):
            rows, cols = valid_sizes(operand)
            parts.append(f"{verb} {name} ({rows}x{cols} of {tile_type(operand.type)})")
        elif operand is not None:
            parts.append(f"{verb} {name}")
    text = ", ".join(dict.fromkeys(parts))
    return f"not lane-wise, as a whole: {text}: {execution.instruction.summary}"


def operation(instruction: Instruction, form: tuple[str, ...], letters: Mapping[str, str]) -> str:
    """The operation on letters: the formula of the declaration, else the name applied to them.

    >>> from pto_jax import isa
    >>> table = isa.instructions()
    >>> operation(table["tsub"], ("src0", "src1"), {"src0": "A", "src1": "B"})
    'A - B'
    >>> operation(table["tmax"], ("src0", "src1"), {"src0": "A", "src1": "B"})
    'tmax(A, B)'
    """
    formula = instruction.formula(form)
    written = formula.spelled(letters) if formula is not None else None
    return written or f"{instruction.name}({', '.join(letters.values())})"


def lanes(
    execution: Execution,
    before: Mapping[str, Words],
    scalars: Mapping[str, tuple[DType, Words]],
    after: Words,
    out_of_region: OutOfRegion,
    limit: int,
) -> Iterator[str]:
    """The micro-operations of the first ``limit`` lanes of the destination's valid region.

    ``before`` are the words of the tiles that are read, ``scalars`` those of scalar operands, ``after``
    the destination's.
    """
    names = reads(execution)
    letters = dict(zip(names, ascii_uppercase, strict=False))
    result = ascii_uppercase[len(names)]
    dst = execution.instruction.destinations[0].name
    ref = execution.tile(dst)
    rows, cols = valid_sizes(ref)
    text = operation(execution.instruction, execution.form, letters) + written_attributes(execution.op)
    for name, (d, word) in scalars.items():
        yield f"SCALAR({name}) -> {letters[name]} = {number(d, word)}"
    for lane in range(min(rows * cols, limit)):
        i, j = divmod(lane, cols)
        for name in names:
            if name in before:
                element = _read(execution.tile(name), before[name], i, j, out_of_region)
                yield f"TRF_READ({name}, {i}, {j}) -> {letters[name]} = {element}"
        yield f"{text} -> {result}"
        yield f"TRF_WRITE({dst}, {i}, {j}, {result}) = {number(ref.type.dtype, after[i, j])}"
    if rows * cols > limit:
        yield f"... {rows * cols - limit} more lanes"


def _read(ref: TileRef, words: Words, i: int, j: int, out_of_region: OutOfRegion) -> str:
    """The value of a lane; outside the valid region the profile says what is read."""
    rows, cols = valid_sizes(ref)
    d = ref.type.dtype
    outside = i >= rows or j >= cols
    if outside and (out_of_region == "ones" or i >= ref.type.rows or j >= ref.type.cols):
        ones = (1 << min(d.storage_bits, d.word_bits)) - 1
        return f"{number(d, ones)} (all ones, outside the valid region)"
    return number(d, words[i, j]) + (" (outside the valid region)" if outside else "")
