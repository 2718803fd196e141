"""The blocks of a launch: side by side where they provably do not meet in global memory, else in order.

The proof follows every block with its number known and everything else unknown, and collects the elements
of each buffer that its transfers name. Blocks whose writes are disjoint, and who read nothing that another
one writes, are one ``vmap``: each sees the part of a written buffer it touches as a buffer of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pto_jax.errors import PtoError
from pto_jax.interpreter import Execution, Frame, Operand, Pointer, Scalar, Scope, View, run_block
from pto_jax.ir.program import Op, Program

from .planning import Surveyor
from .ranges import Range
from .tile_memory import Site, Snapshot, TileMemory

if TYPE_CHECKING:
    from jaxtyping import Int32, Int64, UInt

    from pto_jax.interpreter.machine import Arm, Before, Body, RunBlock

    from ..arrays import Flat, Leaf

#: Operations, and elements of windows, of all blocks together up to which the proof is tried.
MAX_OPERATIONS = 20_000
MAX_ELEMENTS = 1 << 24
#: A written buffer may be carried this many times in all blocks together.
MAX_COPIES = 4

Elements = NDArray[np.int64]


class _Unproven(Exception):
    """Blocks may meet, or what they touch is not known."""


@dataclass
class _Budget:
    """What the proof for a launch may still cost."""

    operations: int = MAX_OPERATIONS
    elements: int = MAX_ELEMENTS

    def spend(self, operations: int = 0, elements: float = 0) -> None:
        if operations > self.operations or elements > self.elements:
            raise _Unproven
        self.operations -= operations
        self.elements -= int(elements)


@dataclass
class _Footprints(Surveyor):
    """Notes the elements a block reads and writes."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    budget: _Budget = field(default_factory=_Budget)
    reads: dict[str, list[Elements]] = field(default_factory=dict)
    writes: dict[str, list[Elements]] = field(default_factory=dict)

    def begin(self, op: Op, scope: Scope) -> None:
        super().begin(op, scope)
        self.budget.spend(operations=1)

    def unrolls(self, op: Op, trips: int) -> bool:
        return True

    def counter(self, value: int) -> Scalar:
        return value

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        raise _Unproven

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        raise _Unproven

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: Any
    ) -> tuple[Operand, ...]:
        raise _Unproven

    def load(self, op: Op, pointer: Pointer, dtype: Any) -> Scalar:
        self._touch(self.reads, pointer.buffer, np.array([_number(pointer.offset)]))
        return Range()

    def store(self, op: Op, pointer: Pointer, value: Scalar) -> None:
        self._touch(self.writes, pointer.buffer, np.array([_number(pointer.offset)]))

    def execute(self, execution: Execution) -> dict[str, None]:
        for name, operand in execution.operands.items():
            if not isinstance(operand, View | Pointer):
                continue
            uses = [e for e in execution.instruction.traits.effects if e.operand == name]
            whole = all(e.access != "scratch" and not e.indexed for e in uses)
            if not isinstance(operand, View) or not whole:
                raise _Unproven
            self.budget.spend(elements=np.prod([_number(n) for n in operand.shape], dtype=np.float64))
            elements = _window(operand)
            self._touch(self.reads, operand.buffer, elements)
            if any(e.access == "write" for e in uses):
                self._touch(self.writes, operand.buffer, elements)
        return dict.fromkeys(execution.vectors)

    def _touch(self, kind: dict[str, list[Elements]], buffer: Any, elements: Elements) -> None:
        inside = isinstance(buffer, str) and (elements >= 0).all() and (elements < self.sizes[buffer]).all()
        if not inside:
            raise _Unproven
        kind.setdefault(buffer, []).append(elements)


def _number(scalar: Scalar) -> int:
    if not isinstance(scalar, int):
        raise _Unproven
    return scalar


def _window(view: View) -> Elements:
    """The elements a view names."""
    steps = [(_number(n), _number(stride)) for n, stride in zip(view.shape, view.strides, strict=True)]
    if abs(_number(view.offset)) + sum(n * abs(stride) for n, stride in steps) >= 1 << 62:
        raise _Unproven
    found = np.array([view.offset], np.int64)
    for n, stride in steps:
        found = (found[:, None] + np.arange(n) * stride).reshape(-1)
    return found


@dataclass(frozen=True)
class Part:
    """What the blocks touch of one written buffer: block ``b`` has ``size`` elements from ``starts[b]`` on.

    ``targets`` and ``sources`` are the elements written and where they stand in the parts laid end to end.
    """

    starts: Elements
    size: int
    targets: Elements
    sources: Elements


@lru_cache(maxsize=256)
def disjoint_parts(
    program: Program, entry: str, grid: int, sizes: tuple[tuple[str, int], ...]
) -> Mapping[str, Part] | None:
    """The parts of the written buffers that blocks touch, None where blocks may meet."""
    function, elements, found = program.function(entry), dict(sizes), []
    assert function is not None, entry
    operands, budget = [Surveyor().argument(a) for a in function.args], _Budget()
    try:
        for number in range(grid):
            machine = _Footprints(sizes=elements, budget=budget)
            run_block(program, machine, function, operands, number, grid)
            found.append(machine)
        buffers = {b for m in found for b in m.writes}
        return {b: _part(b, elements[b], found) for b in sorted(buffers)}
    except (_Unproven, PtoError):
        return None


def _part(buffer: str, size: int, blocks: Sequence[_Footprints]) -> Part:
    owner = np.full(size, -1, np.int64)
    starts, ends = [], []
    for number, block in enumerate(blocks):
        written = np.concatenate(block.writes.get(buffer, [np.zeros(0, np.int64)]))
        if (owner[written] >= 0).any():
            raise _Unproven
        owner[written] = number
    for number, block in enumerate(blocks):
        used = [*block.reads.get(buffer, []), *block.writes.get(buffer, [])]
        touched = np.concatenate([*used, np.zeros(0, np.int64)])
        if not np.isin(owner[touched], (-1, number)).all():
            raise _Unproven
        starts.append(int(touched.min(initial=size)) if touched.size else 0)
        ends.append(int(touched.max(initial=0)) + 1 if touched.size else 1)
    extent = max(e - s for s, e in zip(starts, ends, strict=True))
    if extent * len(blocks) > MAX_COPIES * size:
        raise _Unproven
    first = np.minimum(np.array(starts), size - extent)
    targets = np.flatnonzero(owner >= 0)
    of = owner[targets]
    return Part(first, extent, targets, of * extent + targets - first[of])


def side_by_side(
    machine: TileMemory, operands: Sequence[Operand], grid: int, parts: Mapping[str, Part], run: RunBlock
) -> None:
    """All blocks at once; their parts of the written buffers are put together again."""
    around, flags = Snapshot.of(machine), list(machine.violations)
    sites: list[Site] = []

    def block(
        number: Int64[Array, ""], starts: Mapping[str, Int32[Array, ""]]
    ) -> tuple[dict[str, Leaf], list[Leaf]]:
        machine.violations.clear()
        own = {b: jax.lax.dynamic_slice(around.buffers[b], (starts[b],), (p.size,)) for b, p in parts.items()}
        machine.buffers.update(own)
        machine.new_block()
        run(number, [_moved(o, starts) for o in operands])
        sites[:] = [v.site for v in machine.violations]
        made = {b: machine.buffers[b] for b in parts}, [leaf for v in machine.violations for leaf in v.data]
        around.restore(machine)
        machine.violations[:] = flags
        return made

    starts = {b: jnp.asarray(p.starts.astype(np.int32)) for b, p in parts.items()}
    results, data = jax.vmap(block)(jnp.arange(grid, dtype=np.int64), starts)
    given = iter(data)
    machine.violations[:] = [*flags, *(site.filled(given).of_batch() for site in sites)]
    for name, part in parts.items():
        machine.buffers[name] = _assembled(machine.buffers[name], results[name].reshape(-1), part)


def _moved(operand: Operand, starts: Mapping[str, Int32[Array, ""]]) -> Operand:
    """A pointer or view into a block's part of its buffer."""
    if not isinstance(operand, Pointer | View) or operand.buffer not in starts:
        return operand
    start = jax.lax.convert_element_type(starts[operand.buffer], np.int64)
    return replace(operand, offset=operand.offset - start)


def _assembled(old: Flat, parts: UInt[Array, " _"], part: Part) -> Flat:
    n = len(part.targets)
    whole = n == old.shape[0] == parts.shape[0] and np.array_equal(part.sources, np.arange(n))
    if whole:
        return parts
    values = parts[part.sources]
    return old.at[part.targets].set(values, unique_indices=True, indices_are_sorted=True)
