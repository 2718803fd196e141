"""Micro-operations of lane-wise instructions, from their declarations.

The tile register file is read and written lane by lane: for a binary instruction ``TRF_READ src0``,
``TRF_READ src1``, the operation, ``TRF_WRITE``. Scalars are read once.
"""

from collections.abc import Iterator, Mapping
from string import ascii_uppercase

from ...interpreter import Execution, TileRef
from ...ir import DType
from ...isa.declare import Instruction
from ...profiles import OutOfRegion
from .trace_text import Words, number, tile_type, valid_sizes, written_attributes


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
    listed = ", ".join(dict.fromkeys(parts))
    return f"not lane-wise, as a whole: {listed}: {execution.instruction.summary}"


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
                shown = _read(execution.tile(name), before[name], i, j, out_of_region)
                yield f"TRF_READ({name}, {i}, {j}) -> {letters[name]} = {shown}"
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
