"""Machines with a defect in one instruction, and their failures on generated programs."""

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from itertools import tee
from typing import Any

import numpy as np

from pto_jax.cases.comparison import Outcome, compare_case
from pto_jax.cases.targets import Oracle, Run
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases
from pto_jax.interpreter import Execution, TileRef
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.step import Policy

#: Changes what an instruction leaves in its destination: the machine, the instruction, and the words that the
#: destination had before.
Defect = Callable[[ReferenceMachine, Execution, Any], None]


@dataclass(frozen=True)
class Planted:
    """The reference interpreter with a defect in one instruction, of one element type where that is given."""

    instruction: str
    defect: Defect
    dtype: str = ""

    @property
    def name(self) -> str:
        return f"planted:{self.instruction}"

    def run(self, case: Case) -> Run:
        return Oracle(machine=self._machine).run(case)

    def _machine(self, policy: Policy, buffers: Mapping[str, Any], steps: int) -> ReferenceMachine:
        return _Machine(self, policy, buffers, steps)

    def concerns(self, execution: Execution) -> bool:
        dst = execution.operands.get("dst")
        named = execution.instruction.name == self.instruction
        return named and isinstance(dst, TileRef) and self.dtype in ("", dst.type.dtype.name)


@dataclass(frozen=True)
class Altered:
    """The reference interpreter on a machine of another class."""

    machine: type[ReferenceMachine]

    @property
    def name(self) -> str:
        return f"altered:{self.machine.__name__}"

    def run(self, case: Case) -> Run:
        return Oracle(machine=self.machine).run(case)


class _Machine(ReferenceMachine):
    def __init__(self, plan: Planted, policy: Policy, buffers: Mapping[str, Any], steps: int) -> None:
        super().__init__(policy, buffers, steps)
        self.plan = plan
        self.plain = False

    def execute(self, execution: Execution) -> dict[str, Any]:
        if self.plain or not self.plan.concerns(execution):
            return super().execute(execution)
        before = np.array(self.contents(execution.tile("dst")))
        self.plain = True
        try:
            made = super().execute(execution)
            self.plan.defect(self, execution, before)
        finally:
            self.plain = False
        return made


def _put(machine: ReferenceMachine, execution: Execution, words: Any) -> None:
    machine.overwrite(execution.tile("dst"), words)


def _region(execution: Execution) -> tuple[slice, slice]:
    dst = execution.tile("dst")
    return slice(0, int(dst.v_row)), slice(0, int(dst.v_col))


def swapped(machine: ReferenceMachine, execution: Execution, before: Any) -> None:
    """The first two sources in the wrong order."""
    first, second = list(execution.form)[:2]
    operands = dict(execution.operands)
    operands[first], operands[second] = operands[second], operands[first]
    _put(machine, execution, before)
    machine.execute(replace(execution, operands=operands))


def unmasked(machine: ReferenceMachine, execution: Execution, before: Any) -> None:
    """Lanes outside the valid region are written too."""
    words = np.array(machine.contents(execution.tile("dst")))
    rows, cols = _region(execution)
    outside = np.ones(words.shape, bool)
    outside[rows, cols] = False
    words[outside] = 0x5A
    _put(machine, execution, words)


def next_number(machine: ReferenceMachine, execution: Execution, before: Any) -> None:
    """Results are the next larger word."""
    words = np.array(machine.contents(execution.tile("dst")))
    words[_region(execution)] += words.dtype.type(1)
    _put(machine, execution, words)


def last_column(machine: ReferenceMachine, execution: Execution, before: Any) -> None:
    """The last valid column keeps what it had."""
    words = np.array(machine.contents(execution.tile("dst")))
    rows, cols = _region(execution)
    if cols.stop:
        words[rows, cols.stop - 1] = before[rows, cols.stop - 1]
    _put(machine, execution, words)


def without_sign(machine: ReferenceMachine, execution: Execution, before: Any) -> None:
    """The sign of results is lost."""
    words = np.array(machine.contents(execution.tile("dst")))
    bits = execution.tile("dst").type.dtype.bits
    words[_region(execution)] &= words.dtype.type((1 << (bits - 1)) - 1)
    _put(machine, execution, words)


def missing(machine: ReferenceMachine, execution: Execution, before: Any) -> None:
    """It raises what no machine may raise."""
    raise ZeroDivisionError("planted")


#: Machines for command lines: ``python:tests.campaign.shrink.planted:NAME``.
WRONG_ADDITION = Planted("tadd", next_number)


def failures(preset: str, machine: Planted = WRONG_ADDITION) -> Iterator[Outcome]:
    """The failures in the order of the programs: what is generated may change, so nobody says where."""
    return copy(_searched(preset, machine))


@cache
def _searched(preset: str, machine: Planted) -> Iterator[Outcome]:
    (first,) = tee(_search(preset, machine), 1)
    return first


def _search(preset: str, machine: Planted) -> Iterator[Outcome]:
    for case in cases(6, 1000, PRESETS[preset]):
        # Without the instruction there is no defect.
        if any(op.name == machine.instruction for op in case.program.walk()):
            outcome = compare_case(case, Oracle(), machine)
            if outcome.is_failure:
                yield outcome
