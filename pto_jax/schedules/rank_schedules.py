"""Executions of ranks in other legal orders: other turns, writes that reach their rank late, and late reads.

What a core has written to global memory is on its way until a barrier, a flag or a fence of that core says
that it is there, and what it reads into a tile may be read as late as the tile is used, or one of those says
that it was read. Within the core nothing changes: before it looks at global memory itself, its writes are
there, and before it writes there, what it reads has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
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
from ..oracle.storage import Place, Window, storage_size
from .machine import bits

#: Of all transfers on their way, the part that arrives before an operation by chance.
_ARRIVES = 0.1


class _Late(NamedTuple):
    pipe: ir.Pipe
    buffer: object
    execution: interpreter.Execution
    writes: bool

    def uses(self, operands: Iterable[object]) -> bool:
        """Whether operands share bytes with the tile that is read into."""
        own = [_bytes(o) for o in self.execution.operands.values() if isinstance(o, interpreter.TileRef)]
        others = [_bytes(o) for o in operands if isinstance(o, interpreter.TileRef)]
        return not self.writes and any(
            b is c and first < end and start < last for b, first, last in own for c, start, end in others
        )


def _bytes(ref: interpreter.TileRef) -> tuple[object, int, int]:
    """The buffer of a tile, its first byte and the one behind its last."""
    while isinstance(ref.storage, Window):
        ref = ref.storage.tile
    assert isinstance(ref.storage, Place)
    return ref.storage.buffer, ref.storage.address, ref.storage.address + storage_size(ref.type)


class DelayedMachine(ReferenceMachine):
    """Executes writes, reads or both as late as it is legal, some of them earlier by chance."""

    def __init__(
        self,
        policy: Policy,
        buffers: Mapping[str, Any],
        max_steps: int,
        seed: int | None = None,
        *,
        reads: bool = False,
        writes: bool = True,
    ) -> None:
        super().__init__(policy, buffers, max_steps)
        self.chance = Random(seed) if seed is not None else None
        self.reads, self.writes = reads, writes
        self.late: dict[str, list[_Late]] = {}

    def begin(self, op: ir.Op, scope: interpreter.Scope) -> None:
        """What an operation orders, or uses, is there before it."""
        order = effects.traits_of(op).order
        if order is not None and order.through == "transfer":
            self.arrive(None)  # a copy that is waited for is in memory
        elif order is not None and order.through != "signal":
            source = effects.ends_of(op)[0] if order.through in ("flag", "event") else None
            named = op.attrs.get("pipe", op.attrs.get("op_type"))
            pipe = source or effects.pipe_named(named) if named is not None or source is not None else None
            self.arrive(None if pipe in (None, ir.Pipe.ALL) else pipe)
        elif self.chance is not None and self.chance.random() < _ARRIVES:
            core, self._core = self._core, self.chance.choice([*self.late, self._core])
            self.arrive(None)
            self._core = core
        if self.late.get(self._core):
            self.settle([scope.find(v) for v in (*op.ins, *op.outs, *op.results)])

    def arrive(self, pipe: ir.Pipe | None, buffers: Container[object] | None = None) -> None:
        """Execute what the core has on its way: of one pipe, to or from some buffers, or all."""
        self._go(
            lambda late: (pipe is None or late.pipe == pipe) and (buffers is None or late.buffer in buffers)
        )

    def settle(self, operands: Iterable[object]) -> None:
        """Read what operands have bytes of."""
        values = list(operands)
        self._go(lambda late: late.uses(values))

    def _go(self, chosen: Callable[[_Late], bool]) -> None:
        now: list[_Late] = []
        kept: list[_Late] = []
        for late in self.late.get(self._core, ()):
            (now if chosen(late) else kept).append(late)
        self.late[self._core] = kept
        for late in now:
            self._run(late.execution)

    def leave(self) -> None:
        """The end of a kernel publishes what it has written."""
        self.arrive(None)

    def finish(self) -> None:
        """Everything arrives at the end."""
        for core in list(self.late):
            self._core = core
            self.arrive(None)

    def execute(self, execution: interpreter.Execution) -> dict[str, Any]:
        """Put off what reads or writes global memory; what reads it sees the writes of its own core."""
        operands = execution.operands
        written = {o.name for o in execution.instruction.destinations}
        views = [n for n, o in operands.items() if isinstance(o, interpreter.View | interpreter.Pointer)]
        names = {operands[n].buffer for n in views}
        writes, reads = (any((n in written) == is_written for n in views) for is_written in (True, False))
        self.settle(operands.values())
        self._go(lambda late: late.buffer in names and (late.writes if reads else not late.writes))
        if writes and reads:
            self.arrive(None, names)
        elif views and not execution.vectors and (self.writes if writes else self.reads):
            copies = {n: self._kept(execution.op, n, o) for n, o in operands.items()} if writes else operands
            late = _Late(
                effects.pipe_of(execution.op),
                operands[views[0]].buffer,
                replace(execution, operands=copies),
                writes,
            )
            self.late.setdefault(self._core, []).append(late)
            return {}
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
        self._look(op, pointer)
        return super().load(op, pointer, dtype)

    def store(self, op: ir.Op, pointer: interpreter.Pointer | LocalPointer, value: Any) -> None:
        """Write a scalar; of data what the core reads has been read."""
        self._look(op, pointer)
        super().store(op, pointer, value)

    def _look(self, op: ir.Op, pointer: interpreter.Pointer | LocalPointer) -> None:
        order = effects.traits_of(op).order
        signal = order is not None and order.through == "signal"
        if isinstance(pointer, interpreter.Pointer) and not signal:
            self.arrive(None, {pointer.buffer})


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
        chance = None if number < 2 else seed + number
        late = {"reads": number > 0, "writes": number != 1}

        def machine(
            policy: Policy, buffers: Mapping[str, Any], steps: int, given: Any = (chance, late)
        ) -> Any:
            return DelayedMachine(policy, buffers, steps, given[0], **given[1])

        name = f"{'reads' if number else 'writes'} as late as legal" if number < 2 else f"schedule {chance}"
        try:
            outputs = bits(execute(machine=machine, seed=seed + number if number else None))
        except PtoError as error:
            return f"with {name}: an error, {str(error).splitlines()[0]}"
        for buffer, words in expected.items():
            wrong = np.flatnonzero((words != outputs[buffer]).any(-1))
            if wrong.size:
                one, two = (bytes(w[int(wrong[0])][::-1]).hex() for w in (words, outputs[buffer]))
                return (
                    f"with {name}: {wrong.size} of {len(words)} elements of {buffer} differ, first element "
                    f"{int(wrong[0])}: 0x{two} instead of 0x{one}"
                )
    return None
