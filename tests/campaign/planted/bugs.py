"""Devices with one bug each: the reference interpreter, changed in one place."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pto_jax.cases.edits import rewritten
from pto_jax.cases.targets import Oracle, Run
from pto_jax.generate.programs import Case
from pto_jax.interpreter import Execution, Scope
from pto_jax.ir import DType, Op, Region, attrs
from pto_jax.oracle import storage
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.step import Step, place_of

Words: TypeAlias = NDArray[Any]
#: Executes an instruction wrongly; the function given executes it as it should be.
Fault: TypeAlias = Callable[[Step, Callable[[Step], None]], None]
#: Words of the whole destination before and after an instruction give those that the bug leaves there.
Change: TypeAlias = Callable[[Step, Words, Words], Words]


#: Operations after which a device is taken to hang.
ENDLESS = 100_000


class Hangs(Exception):
    """A device that comes to no end."""


class Ending(ReferenceMachine):
    """Executes like its base, up to a number of operations."""

    executed = 0

    def begin(self, op: Op, scope: Scope) -> None:
        self.executed += 1
        if self.executed > ENDLESS:
            raise Hangs


@dataclass(frozen=True)
class Bug:
    """A bug of one instruction or of another operation."""

    operation: str
    what: str

    def __str__(self) -> str:
        return f"{self.operation}: {self.what}"

    @property
    def name(self) -> str:
        """The name of the device."""
        return "planted"


@dataclass(frozen=True)
class WrongInstruction(Bug):
    """An instruction is executed wrongly."""

    fault: Fault

    def run(self, case: Case) -> Run:
        """The results of the interpreter with the bug."""
        bug = self

        class Planted(ReferenceMachine):
            def compute(self, execution: Execution, step: Step) -> None:
                right = super().compute
                if execution.instruction.name == bug.operation:
                    bug.fault(step, partial(right, execution))
                else:
                    right(execution, step)

        return Oracle(machine=Planted).run(case)


@dataclass(frozen=True)
class WrongReading(Bug):
    """An operation is taken for another one: bugs of control flow, handles, views and scalars."""

    reading: Callable[[Op], Op]

    def run(self, case: Case) -> Run:
        """The results of the interpreter for the program as the device reads it."""
        functions = tuple(
            replace(f, body=rewritten(f.body, lambda op: (self._read(op),))) for f in case.program.functions
        )
        return Oracle(machine=Ending).run(replace(case, program=replace(case.program, functions=functions)))

    def _read(self, op: Op) -> Op:
        return self.reading(op) if op.name == self.operation else op


def after(change: Change) -> Fault:
    """A bug that can be told by what stands in the destination."""

    def fault(step: Step, right: Callable[[Step], None]) -> None:
        before = step.stored("dst").copy()
        right(step)
        after = step.stored("dst")
        wrong = np.asarray(change(step, before, after.copy())).astype(after.dtype)
        step.scatter(wrong, storage.map_of(step.type("dst")))

    return fault


def _attribute(name: str, value: Callable[[Any], Any]) -> Fault:
    """An attribute has another value than the program says."""

    def fault(step: Step, right: Callable[[Step], None]) -> None:
        right(replace(step, attrs={**step.attrs, name: value(step.attrs.get(name))}))

    return fault


def _swapped(first: str, second: str) -> Fault:
    """Sources change places where the destination is the second of them."""

    def fault(step: Step, right: Callable[[Step], None]) -> None:
        operands = dict(step.operands)
        same = place_of(step.tile(second)).buffer is place_of(step.tile("dst")).buffer
        if same and place_of(step.tile(second)).address == place_of(step.tile("dst")).address:
            operands[first], operands[second] = operands[second], operands[first]
        right(replace(step, operands=operands))

    return fault


# -- regions ----------------------------------------------------------------------------------------------


def last_odd_column(step: Step, before: Words, after: Words) -> Words:
    rows, cols = step.region
    if cols % 2:
        after[:rows, cols - 1] = before[:rows, cols - 1]
    return after


def _last_odd_row(step: Step, before: Words, after: Words) -> Words:
    rows, cols = step.region
    if rows % 2:
        after[rows - 1, :cols] = before[rows - 1, :cols]
    return after


def _odd_corner(step: Step, before: Words, after: Words) -> Words:
    rows, cols = step.region
    if rows % 2 and cols % 2:
        after[rows - 1, cols - 1] = before[rows - 1, cols - 1]
    return after


def _whole_blocks(step: Step, before: Words, after: Words) -> Words:
    """Of a row only whole blocks of 32 bytes are written."""
    rows, cols = step.region
    block = max(1, 32 * 8 // step.dtype("dst").word_bits)
    start = cols // block * block
    after[:rows, start:cols] = before[:rows, start:cols]
    return after


def _empty_writes(step: Step, before: Words, after: Words) -> Words:
    if 0 in step.region:
        after[0, 0] = ~before[0, 0]
    return after


def _single_row(step: Step, before: Words, after: Words) -> Words:
    return before if step.region[0] == 1 else after


def _dynamic_first_row(step: Step, before: Words, after: Words) -> Words:
    """Where the valid sizes come with the call, the last row is forgotten."""
    rows, cols = step.region
    if not step.type("dst").is_static and rows > 1:
        after[rows - 1, :cols] = before[rows - 1, :cols]
    return after


# -- values -----------------------------------------------------------------------------------------------


def _fields(d: DType) -> tuple[int, int]:
    """The bits of infinity and of the sign."""
    return ((1 << d.exponent) - 1) << d.mantissa, 1 << (d.bits - 1)


def _special(kind: str) -> Change:
    def change(step: Step, before: Words, after: Words) -> Words:
        d, (rows, cols) = step.dtype("dst"), step.region
        if not d.is_float or d.exponent < 2:
            return after
        infinity, sign = _fields(d)
        valid = after[:rows, :cols]
        size = valid & (sign - 1)
        match kind:
            case "nan":
                valid[size > infinity] = 0
            case "infinity":
                valid[size == infinity] -= 1
            case "minus zero":
                valid[(size == 0) & (valid != 0)] = 0
            case "subnormal":
                valid[(size < 1 << d.mantissa)] &= sign
        return after

    return change


def minus_zero(name: str) -> Change:
    """Minus zero becomes zero in one type."""
    plain = _special("minus zero")
    return lambda step, before, now: plain(step, before, now) if step.dtype("dst").name == name else now


def _extremes(step: Step, before: Words, after: Words) -> Words:
    """The least integer becomes the largest."""
    d, (rows, cols) = step.dtype("dst"), step.region
    if d.is_integer and d.is_signed:
        valid = after[:rows, :cols]
        valid[valid == 1 << (d.bits - 1)] = (1 << (d.bits - 1)) - 1
    return after


def _ties_toward_zero(step: Step, before: Words, after: Words) -> Words:
    rows, cols = step.region
    if (step.dtype("src").name, step.dtype("dst").name) == ("f32", "f16"):
        src, valid = step.words("src"), after[:rows, :cols]
        tie = ((src & 0x1FFF) == 0x1000) & ((src >> 13) & 1 == 1)
        normal = ((valid & 0x7FFF) > 0x0400) & ((valid & 0x7FFF) < 0x7C00)
        valid[tie & normal] -= 1
    return after


def wrapping(step: Step, before: Words, after: Words) -> Words:
    if "src2" in step.form or step.dtype("dst").name not in ("i8", "u8", "i16"):
        return after
    rows, cols = step.region
    after[:rows, :cols] = step.words("src0") + step.words("src1")
    return after


def _long_shifts(step: Step, before: Words, after: Words) -> Words:
    d, (rows, cols) = step.dtype("dst"), step.region
    count = int(np.asarray(step.operands["scalar"]).reshape(-1)[0])
    if d.bits == 16 and count >= 15:
        after[:rows, :cols] = 0
    return after


def _first_column_kept(step: Step, before: Words, after: Words) -> Words:
    """Tiles in boxes lose their very first element."""
    if step.type("dst").boxed and 0 not in step.region:
        after[0, 0] = before[0, 0]
    return after


def _equal_sources(step: Step, before: Words, after: Words) -> Words:
    """Lanes whose sources are equal are left alone."""
    rows, cols = step.region
    same = step.words("src0") == step.words("src1")
    after[:rows, :cols] = np.where(same, before[:rows, :cols], after[:rows, :cols])
    return after


def _zero_divisor(step: Step, before: Words, after: Words) -> Words:
    d, (rows, cols) = step.dtype("dst"), step.region
    if d.is_integer:
        after[:rows, :cols][np.broadcast_to(step.words("src1") == 0, (rows, cols))] = 1
    return after


def _negative_truncates(step: Step, before: Words, after: Words) -> Words:
    d, (rows, cols) = step.dtype("dst"), step.region
    sign = 1 << (d.bits - 1)
    if d.is_integer and d.is_signed:
        valid = after[:rows, :cols]
        valid[(valid & sign) != 0] += 1
    return after


_REGIONS: tuple[tuple[str, Change, str], ...] = (
    ("the last odd column is left out", last_odd_column, "tmul tadds tcvt trowmax tcolsum tsel tand tabs"),
    ("the last odd row is left out", _last_odd_row, "tsub tmaxs tcolmax trowexpandmul texp tmov"),
    ("rows are written in whole blocks", _whole_blocks, "tmin tmuls tcolexpand trelu tshls tfmods"),
    ("an empty region writes an element", _empty_writes, "tadd trowsum tsubs tneg tcolmin"),
    ("a single row is left out", _single_row, "tdiv tmax trsqrt tcolexpandadd txor"),
    ("the last row of a dynamic region is left out", _dynamic_first_row, "tor tdivs trowexpandsub tlrelu"),
)
_VALUES: tuple[tuple[str, Change, str], ...] = (
    ("a NaN becomes zero", _special("nan"), "tmax trowmin tadd trowexpandadd"),
    ("an infinity becomes the largest number", _special("infinity"), "tmul tcolexpandmul tdivs"),
    ("minus zero becomes zero", _special("minus zero"), "tneg tmuls tmul"),
    ("subnormal results are flushed", _special("subnormal"), "tmul tdiv tmuls"),
    ("the least integer becomes the largest", _extremes, "tabs tshl tmins tsub"),
    ("equal sources leave the destination", _equal_sources, "tmax tsub tand"),
    ("tiles in boxes lose their first element", _first_column_kept, "textract tmatmul"),
)
_SINGLE: tuple[tuple[str, str, Fault], ...] = (
    ("NaN is ignored", "trowmax", after(_special("nan"))),
    ("shifts of 16 bits by 15 and more give zero", "tshrs", after(_long_shifts)),
    ("the corner of an odd transposition is left out", "ttrans", after(_odd_corner)),
    ("f32 to f16 rounds ties toward zero", "tcvt", after(_ties_toward_zero)),
    ("sums of two small integers wrap", "taddc", after(wrapping)),
    ("a quotient by zero is one", "tdiv", after(_zero_divisor)),
    ("negative remainders are one too large", "trem", after(_negative_truncates)),
    (
        "the rounding mode is ignored",
        "tcvt",
        _attribute("rmode", lambda mode: None if mode is None else type(mode)(0)),
    ),
    (
        "every comparison is for equality",
        "tcmp",
        _attribute("cmpMode", lambda mode: 0 if mode is None else type(mode)(0)),
    ),
    ("a difference in place swaps its sources", "tsub", _swapped("src0", "src1")),
    ("a quotient in place swaps its sources", "tdiv", _swapped("src0", "src1")),
)


def _exchanged(*pairs: tuple[int, int]) -> Callable[[Op], Op]:
    """Operands change places."""

    def reading(op: Op) -> Op:
        ins = list(op.ins)
        for a, b in pairs:
            if max(a, b) < len(ins):
                ins[a], ins[b] = ins[b], ins[a]
        return replace(op, ins=tuple(ins))

    return reading


def _without_else(op: Op) -> Op:
    return op if op.results or len(op.regions) < 2 else replace(op, regions=(op.regions[0], Region(())))


def _without_last_statement(op: Op) -> Op:
    """The last instruction of a body is left out where nothing is handed on."""
    body = op.regions[0]
    if op.results or len(body.ops) < 2 or body.ops[-2].results:
        return op
    return replace(op, regions=(replace(body, ops=(*body.ops[:-2], body.ops[-1])), *op.regions[1:]))


def _predicate(op: Op) -> Op:
    inclusive = {"slt": "sle", "sge": "sgt", "eq": "sle", "ne": "slt"}
    predicate = str(op.attrs["predicate"])
    return replace(op, attributes=attrs({**op.attrs, "predicate": inclusive.get(predicate, predicate)}))


_READINGS: tuple[tuple[str, str, Callable[[Op], Op]], ...] = (
    ("set_validshape", "rows and columns change places", _exchanged((1, 2))),
    ("subset", "offsets change places", _exchanged((1, 2))),
    ("subview", "offsets change places", _exchanged((1, 2))),
    ("tsubview", "offsets change places", _exchanged((1, 2))),
    ("partition_view", "offsets change places", _exchanged((1, 2))),
    ("arith.subi", "sources change places", _exchanged((0, 1))),
    ("arith.maxsi", "the smaller is taken", lambda op: replace(op, name="arith.minsi")),
    ("arith.addi", "numbers are subtracted", lambda op: replace(op, name="arith.subi")),
    ("arith.cmpi", "bounds are inclusive", _predicate),
    ("scf.if", "the other branch is left out", _without_else),
    ("scf.for", "the last instruction of the body is left out", _without_last_statement),
    ("scf.for", "starting values change places", _exchanged((3, 4))),
)


def bugs() -> Iterator[WrongInstruction | WrongReading]:
    """Every bug."""
    for what, change, names in (*_REGIONS, *_VALUES):
        for name in names.split():
            yield WrongInstruction(name, what, after(change))
    for what, name, fault in _SINGLE:
        yield WrongInstruction(name, what, fault)
    for name, what, reading in _READINGS:
        yield WrongReading(name, what, reading)
