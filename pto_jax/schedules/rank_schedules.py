"""Executions of ranks in other legal orders: other turns, and writes that reach their rank late.

What a core has written to global memory is on its way until a barrier, a flag or a fence of that core says
that it is there. Within the core nothing changes: before it looks at global memory itself, its writes are
there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np

from .. import interpreter, ir
from ..errors import PtoError
from ..interpreter.operands import LocalPointer
from ..isa import effects
from ..oracle.machine import ReferenceMachine
from ..oracle.step import Policy
from .machine import bits

#: Of all writes on their way, the part that arrives before an operation by chance.
_ARRIVES = 0.1


class _Late(NamedTuple):
    pipe: ir.Pipe
    buffer: object
    execution: interpreter.Execution


class DelayedMachine(ReferenceMachine):
    """Executes stores and copies as late as it is legal, or some of them earlier by chance."""

    def __init__(
        self, policy: Policy, buffers: Mapping[str, Any], max_steps: int, seed: int | None = None
    ) -> None:
        super().__init__(policy, buffers, max_steps)
        self.chance = Random(seed) if seed is not None else None
        self.late: dict[str, list[_Late]] = {}

    def begin(self, op: ir.Op, scope: interpreter.Scope) -> None:
        """What an operation orders is there before it."""
        order = effects.traits_of(op).order
        if order is not None and order.through not in ("signal", "transfer"):
            source = effects.ends_of(op)[0] if order.through in ("flag", "event") else None
            named = op.attrs.get("pipe", op.attrs.get("op_type"))
            pipe = source or effects.pipe_named(named) if named is not None or source is not None else None
            self.arrive(None if pipe in (None, ir.Pipe.ALL) else pipe)
        elif self.chance is not None and self.chance.random() < _ARRIVES:
            core, self._core = self._core, self.chance.choice([*self.late, self._core])
            self.arrive(None)
            self._core = core

    def arrive(self, pipe: ir.Pipe | None, buffers: Container[object] | None = None) -> None:
        """Execute what the core has on its way: of one pipe, to some buffers, or all."""
        now: list[_Late] = []
        kept: list[_Late] = []
        for late in self.late.get(self._core, ()):
            meant = (pipe is None or late.pipe == pipe) and (buffers is None or late.buffer in buffers)
            (now if meant else kept).append(late)
        self.late[self._core] = kept
        for late in now:
            self._run(late.execution)

    def finish(self) -> None:
        """Everything arrives at the end."""
        for core in list(self.late):
            self._core = core
            self.arrive(None)

    def execute(self, execution: interpreter.Execution) -> dict[str, Any]:
        """Put off what writes global memory; what reads it sees the writes of its own core."""
        operands = execution.operands
        written = {o.name for o in execution.instruction.destinations}
        views = [n for n, o in operands.items() if isinstance(o, interpreter.View | interpreter.Pointer)]
        if views and all(n in written for n in views) and not execution.vectors:
            kept = {n: self._kept(execution.op, n, o) for n, o in operands.items()}
            later = replace(execution, operands=kept)
            pipe = effects.pipe_of(execution.op)
            self.late.setdefault(self._core, []).append(_Late(pipe, operands[views[0]].buffer, later))
            return {}
        if views:
            self.arrive(None, {operands[n].buffer for n in views})
        return super().execute(execution)

    def _run(self, execution: interpreter.Execution) -> object:
        return super().execute(execution)

    def _kept(self, op: ir.Op, name: str, operand: Any) -> Any:
        """A tile as it is now."""
        if not isinstance(operand, interpreter.TileRef):
            return operand
        return replace(operand, storage=self.receive(op, name, operand.type, self.contents(operand)))

    def load(self, op: ir.Op, pointer: interpreter.Pointer | LocalPointer, dtype: ir.DType) -> Any:
        """An element; of data the core sees its own writes."""
        order = effects.traits_of(op).order
        signal = order is not None and order.through == "signal"
        if isinstance(pointer, interpreter.Pointer) and not signal:
            self.arrive(None, {pointer.buffer})
        return super().load(op, pointer, dtype)


def witness(execute: Callable[..., Any], count: int, seed: int = 0) -> str:
    """The bits that differ in some of ``count`` legal orders, or the word that none do."""
    nothing = f"none of {count} legal orders shows other bits on these inputs"
    return difference(execute, count, seed) or nothing


def difference(execute: Callable[..., Any], count: int, seed: int = 0) -> str | None:
    """The bits that differ in some of ``count`` legal orders; None for none.

    ``execute`` runs the ranks with a machine and a seed of their turns.
    """
    expected = bits(execute(seed=None))
    for number in range(count):
        chance = None if number == 0 else seed + number

        def machine(policy: Policy, buffers: Mapping[str, Any], steps: int, chance: Any = chance) -> Any:
            return DelayedMachine(policy, buffers, steps, chance)

        name = "writes as late as legal" if number == 0 else f"schedule {chance}"
        try:
            found = bits(execute(machine=machine, seed=chance))
        except PtoError as error:
            return f"with {name}: an error, {str(error).splitlines()[0]}"
        for buffer, words in expected.items():
            wrong = np.flatnonzero((words != found[buffer]).any(-1))
            if wrong.size:
                one, two = (bytes(w[int(wrong[0])][::-1]).hex() for w in (words, found[buffer]))
                return (
                    f"with {name}: {wrong.size} of {len(words)} elements of {buffer} differ, first element "
                    f"{int(wrong[0])}: 0x{two} instead of 0x{one}"
                )
    return None
