"""Machines that say, beside the results of a case, which of their elements others have to reproduce."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..interpreter import Execution, Scalar, TileRef, View
from ..ir import DType, Op, TileType
from ..oracle.machine import ReferenceMachine
from ..oracle.numbers import Array
from ..oracle.step import Policy, Step
from ..oracle.storage import Place, read_words
from ..profiles import CPU_SIM
from ..sanitizer.machine import Contents, ShadowMachine
from ..sanitizer.shadow import Findings, ShadowBuffer, Sink, all_bits
from ..vectors import compare, manifest
from ..vectors.exclusions import PROGRAM_EXCLUSIONS, Executed, ProgramExclusion


class Tracked(ShadowMachine):
    """The interpreter with definedness by the rules of the ISA, kept to the results.

    Undefined numbers that the program computes with or branches on make every result undefined: ``lost`` is
    the first one's origin. Undefined indices make all that their instruction writes undefined; ``wild`` says
    that there was one or the other, so that a device may do anything.
    """

    def __init__(self, policy: Policy, buffers: Mapping[str, Array], max_steps: int = 1_000_000) -> None:
        super().__init__(policy, buffers, max_steps)
        self.findings = _Arrivals(self)
        self.lost = 0
        self.wild = False
        #: The tiles that a fragment gives, as they are as a whole.
        self.tiles: dict[str, Contents] = {}
        self._indices = 0

    def arrive(self, sink: Sink, origin_id: int) -> None:
        """Undefined data arrives at a place where its effect has no lanes."""
        self.wild |= sink in ("scalar", "index")
        if sink == "scalar":
            self.lost = self.lost or origin_id
        elif sink == "index":
            self._indices = self._indices or origin_id

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        """Storage for a tile; what an operation that executes again finds in it is undefined."""
        again = address is None and (self._core, id(op)) in self._allocated
        place = super().allocate(op, type, address)
        if again:
            assert isinstance(place, Place) and isinstance(place.buffer, ShadowBuffer)
            place.buffer.shadow.bits[:] = 0xFF
            place.buffer.shadow.origins[:] = self.origins.id_of("never written", op)
        return place

    def gives(self, name: str, ref: TileRef) -> None:
        """Keep a tile that a fragment gives."""
        self.tiles[name] = self.contents(ref)

    def compute(self, execution: Execution, step: Step) -> None:
        """Compute an instruction; what it writes is undefined where one of its indices is."""
        self._indices = 0
        super().compute(execution, step)
        if self._indices:
            self.lose(execution, self._indices)

    def lose(self, execution: Execution, origin_id: int, lanes: Array | None = None) -> None:
        """What an instruction wrote is undefined: all of it, or some lanes of its tiles' valid regions."""
        if execution.vectors:
            self.lost = self.lost or origin_id
        for name, operand in execution.operands.items():
            if execution.instruction.operand(name).role not in ("out", "inout"):
                continue
            if isinstance(operand, TileRef):
                self._lose_tile(operand, origin_id, lanes)
            elif isinstance(operand, View):
                shadow = self.memory[operand.buffer]
                shadow.bits[:] = 0xFF
                shadow.origins[:] = origin_id

    def _lose_tile(self, ref: TileRef, origin_id: int, lanes: Array | None) -> None:
        d, old = ref.type.dtype, self.contents(ref)
        lost = np.ones(ref.type.shape, np.bool_)
        if lanes is not None:
            lost[...] = False
            rows, cols = (min(a, b) for a, b in zip(lanes.shape, ref.type.shape, strict=True))
            lost[:rows, :cols] = lanes[:rows, :cols]
        bits = np.where(lost, d.word.type(all_bits(d)), old.bits)
        self.overwrite(ref, Contents(old.words, bits, np.where(lost, np.int32(origin_id), old.origin_ids)))


class _Arrivals(Findings):
    """Findings of which every one is told to the machine, those that were seen before too."""

    def __init__(self, machine: Tracked) -> None:
        super().__init__(machine.origins)
        self._machine = machine

    def add(self, sink: Sink, op: Op | None, operand: str, origin_ids: Array) -> None:
        if origin_ids.any():
            self._machine.arrive(sink, int(origin_ids[origin_ids != 0].reshape(-1)[0]))
        super().add(sink, op, operand, origin_ids)


class _Zeroed(ShadowBuffer):
    """Bytes that start as zeros and are defined."""

    def reserve(self, size: int) -> None:
        before = len(self.bytes)
        super().reserve(size)
        self.shadow.bits[before:] = 0


class Simulator(Tracked):
    """What the public CPU simulator promises.

    Lanes outside a valid region are read as they are stored, tiles start as zeros, and what the table of its
    properties excludes is undefined.

    ``ends`` has the exclusions that were met after which nothing can be said about the process.
    """

    keeps_backing = True

    def __init__(self, policy: Policy, buffers: Mapping[str, Array], max_steps: int = 1_000_000) -> None:
        super().__init__(policy, buffers, max_steps)
        self.ends: list[tuple[ProgramExclusion, Op]] = []

    def buffer(self) -> ShadowBuffer:
        """A run of bytes that grows by zeros, which are defined."""
        return _Zeroed(self._fill)

    def execute(self, execution: Execution) -> dict[str, Array]:
        """Execute an instruction; what exclusions apply to is undefined afterwards, or added to ``ends``."""
        executed = Executed(execution, self)
        with np.errstate(all="ignore"):
            met = [(x, x.lanes and x.lanes(executed)) for x in PROGRAM_EXCLUSIONS if x.applies(executed)]
        result = super().execute(execution)
        for exclusion, lanes in met:
            if exclusion.contained:
                self.lose(execution, self.origins.id_of(exclusion.reason, execution.op), lanes)
            else:
                self.ends.append((exclusion, execution.op))
        return result


@dataclass(frozen=True, eq=False)
class Divergence:
    """An operation that gives other values on the CPU simulator for the same operands."""

    op: Op
    lanes: int


class Diverging(ReferenceMachine):
    """The interpreter, executing every instruction by the simulator's rules as well.

    ``divergences`` has the operations whose destinations differ in their valid region. What each of them
    reads is what the machine's own profile gives.
    """

    def __init__(self, policy: Policy, buffers: Mapping[str, Array], max_steps: int = 1_000_000) -> None:
        super().__init__(policy, buffers, max_steps)
        self.divergences: list[Divergence] = []

    def compute(self, execution: Execution, step: Step) -> None:
        """Compute an instruction by both rules, keep the machine's own result and note where they differ."""
        before = self._state(execution)
        super().compute(execution, step)
        ours, result = self._written(execution, step), self._state(execution)
        self._restore(execution, before)
        # Lanes outside a valid region are no part of the question.
        other = replace(step, policy=replace(step.policy, profile=CPU_SIM), made={})
        super().compute(execution, other)
        theirs = self._written(execution, other)
        self._restore(execution, result)
        lanes = sum(_different(d, a, b) for (d, a), (_, b) in zip(ours, theirs, strict=True))
        if lanes and all(divergence.op is not execution.op for divergence in self.divergences):
            self.divergences.append(Divergence(execution.op, lanes))

    def _state(self, execution: Execution) -> list[Any]:
        return [
            self.stored(o).copy() if isinstance(o, TileRef) else self.buffers[o.buffer].copy()
            for o in _destinations(execution)
        ]

    def _restore(self, execution: Execution, state: list[Any]) -> None:
        for operand, words in zip(_destinations(execution), state, strict=True):
            if isinstance(operand, TileRef):
                self.overwrite(operand, words)
            else:
                self.buffers[operand.buffer][...] = words

    def _written(self, execution: Execution, step: Step) -> list[tuple[DType, Array]]:
        contents: list[tuple[DType, Array]] = []
        for operand in _destinations(execution):
            if isinstance(operand, TileRef):
                rows, cols = int(operand.v_row), int(operand.v_col)
                contents.append((operand.type.dtype, self.stored(operand)[:rows, :cols].copy()))
            else:
                raw, d = self.buffers[operand.buffer], operand.dtype
                contents.append((d, read_words(raw, np.arange(len(raw) * 8 // d.storage_bits), d)))
        return contents + [(t.dtype, step.made[name]) for name, t in execution.vectors.items()]


def _destinations(execution: Execution) -> list[TileRef | View]:
    """Tiles and views that an instruction may write, scratch included."""
    return [
        operand
        for name, operand in execution.operands.items()
        if isinstance(operand, TileRef | View)
        and execution.instruction.operand(name).role in ("out", "inout", "tmp")
    ]


def _different(d: DType, a: Array, b: Array) -> int:
    return compare.compare_words("", d, a, b, manifest.Rule(0)).different
