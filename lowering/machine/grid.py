"""The blocks of a launch: side by side if they are proven independent, else in order.

The proof follows every block with its number known and everything else unknown, and collects the elements
of each buffer that it names. Blocks whose writes are disjoint, and who read nothing that another
one writes, are one ``vmap``: each sees the part it touches of a buffer as a buffer of its own.
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
from pto_jax.interpreter import Execution, Frame, Operand, Pointer, Scalar, Scope, TileRef, View, run_block
from pto_jax.interpreter.operands import LocalPointer
from pto_jax.ir import DType, GlobalLayout, Op, Program, PtrType, ScalarType
from pto_jax.isa.effects import traits_of
from pto_jax.isa.micro import MicroCall

from ..bits import numbers_of, raw
from ..memory_layouts import Window
from ..slicing import computed_before, with_slice
from . import block_numbers, ranges
from .planning import Key, Surveyor, key_of
from .tile_memory import Site, Snapshot, TileMemory

if TYPE_CHECKING:
    from jaxtyping import Int64, UInt

    from pto_jax.interpreter.machine import Arm, Before, Body, RunBlock

    from ..bits import Flat, Leaf

#: Operations, and elements of windows, of all blocks together up to which the proof is tried.
MAX_OPERATIONS = 20_000
MAX_ELEMENTS = 1 << 24
#: A buffer may be carried this many times in all blocks together.
MAX_COPIES = 4
#: Parts that do not follow one another at one distance are taken one by one, up to this number.
MAX_SLICES = 64

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
    """Notes the elements that a block touches, and those of them that it writes."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    budget: _Budget = field(default_factory=_Budget)
    touched: dict[str, list[Elements]] = field(default_factory=dict)
    writes: dict[str, list[Elements]] = field(default_factory=dict)
    begins: dict[tuple[Key, str], set[int]] = field(default_factory=dict)

    def begin(self, op: Op, scope: Scope) -> None:
        super().begin(op, scope)
        self.budget.spend(operations=1)
        if _is_address(op):
            raise _Unproven  # of an element of a part it would be another number

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

    def micro(self, op: Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        if any(isinstance(operand, Pointer) for operand in operands.values()):
            raise _Unproven
        return super().micro(op, call, operands)

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: Any) -> Scalar:
        if isinstance(pointer, Pointer):
            self._touch(pointer.buffer, _element(pointer))
        return ranges.Range()

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        if isinstance(pointer, Pointer):
            self._touch(pointer.buffer, _element(pointer), writes=True)

    def execute(self, execution: Execution) -> dict[str, None]:
        for name, operand in execution.operands.items():
            if not isinstance(operand, View | Pointer):
                continue
            uses = [e for e in execution.instruction.traits.effects if e.operand == name]
            whole = all(e.access != "scratch" and not e.indexed for e in uses)
            if not isinstance(operand, View) or not whole:
                raise _Unproven
            elements = self._window(_placed(execution, operand))
            self._touch(operand.buffer, elements, writes=any(e.access == "write" for e in uses))
            begins = self.begins.setdefault((key_of(execution.op), operand.buffer), set())
            begins.add(_number(operand.offset))
        return dict.fromkeys(execution.vectors)

    def _window(self, window: Window) -> Elements:
        """The elements that a window names."""
        steps = [(_number(n), _number(s)) for n, s in zip(window.shape, window.strides, strict=True)]
        self.budget.spend(elements=np.prod([n for n, _ in steps], dtype=np.float64))
        if abs(_number(window.offset)) + sum(n * abs(stride) for n, stride in steps) >= 1 << 62:
            raise _Unproven
        offsets = np.array([window.offset], np.int64)
        for n, stride in steps:
            offsets = (offsets[:, None] + np.arange(n) * stride).reshape(-1)
        return offsets

    def _touch(self, buffer: Any, elements: Elements, *, writes: bool = False) -> None:
        inside = isinstance(buffer, str) and (elements >= 0).all() and (elements < self.sizes[buffer]).all()
        if not inside:
            raise _Unproven
        self.touched.setdefault(buffer, []).append(elements)
        if writes:
            self.writes.setdefault(buffer, []).append(elements)


def _element(pointer: Pointer) -> Elements:
    if pointer.cast:
        raise _Unproven
    return np.array([_number(pointer.offset)])


def _number(scalar: Scalar) -> int:
    if not isinstance(scalar, int):
        raise _Unproven
    return scalar


def _is_address(op: Op) -> bool:
    """Whether an operation makes a number of a pointer."""
    return any(isinstance(v.type, PtrType) for v in op.ins) and any(
        isinstance(v.type, ScalarType) and not traits_of(op).has("read", "global") for v in op.results
    )


def _placed(execution: Execution, view: View) -> Window:
    """The window of a view with all dimensions that the layout of the transfer has."""
    conv = (o.type.conv for o in execution.operands.values() if isinstance(o, TileRef) and o.type.conv)
    attribute = execution.attrs.get("layout")
    layout = attribute if isinstance(attribute, GlobalLayout) else view.layout
    return Window.of(view, layout or next((c.layout for c in conv), None), flat=True)


@dataclass(frozen=True)
class Part:
    """What the blocks touch of one buffer: block ``b`` has ``size`` elements from ``starts[b]`` on.

    The last elements of some parts may lie beyond the buffer: nothing is there. ``owners`` has for each
    element of the buffer the block that writes it, -1 for none.
    """

    starts: Elements
    size: int
    owners: NDArray[np.int32]

    @property
    def step(self) -> int | None:
        """The distance from each part to the next one, where it is the same everywhere, and none meet."""
        steps = np.diff(self.starts)
        step = int(steps[0]) if len(steps) else self.size
        return step if step >= self.size and (steps == step).all() else None

    def taken(self, words: Flat, dtype: DType) -> UInt[Array, "blocks size"]:
        """The parts of a buffer's words, which stand for elements of a type; zeros beyond it."""
        step, count, first = self.step, len(self.starts), int(self.starts[0])
        end = int(self.starts.max()) + self.size if step is None else first + step * count
        if first == 0 and step == self.size and end == words.shape[0]:
            return raw(numbers_of(words, dtype).reshape(count, step))
        words = jnp.pad(words, (0, max(0, end - words.shape[0])))
        if step is not None:
            return words[first:end].reshape(count, step)[:, : self.size]
        if count <= MAX_SLICES:
            return jnp.stack([words[s : s + self.size] for s in map(int, self.starts)])
        return words[self.starts[:, None] + np.arange(self.size)]

    def put(self, words: Flat, parts: UInt[Array, "blocks size"]) -> Flat:
        """The words of a buffer after each block has written its part."""
        size, first = words.shape[0], int(self.starts[0])
        if self.step == self.size:
            flat = parts.reshape(-1)[: size - first]
            return flat if flat.shape == words.shape else with_slice(words, flat, (first,))
        (parts,) = computed_before(parts)
        if self.step is not None and len(self.starts) <= MAX_SLICES:
            for start, part in zip(map(int, self.starts), parts, strict=True):
                words = with_slice(words, part[: size - start], (start,), independent=True)
            return words
        own = np.maximum(self.owners, 0)
        places = own * self.size + np.arange(size) - self.starts[own]
        free = self.owners < 0
        return jnp.where(free, words, parts.reshape(-1)[np.where(free, 0, places)])


@dataclass(frozen=True)
class Disjoint:
    """The parts of buffers that blocks touch, and where the windows of transfers begin in their own parts."""

    parts: Mapping[str, Part]
    offsets: Mapping[tuple[Key, str], ranges.Range]


@lru_cache(maxsize=256)
def disjoint_parts(
    program: Program, entry: str, grid: int, sizes: tuple[tuple[str, int], ...]
) -> Disjoint | None:
    """The parts of the buffers that blocks touch, None where blocks may meet.

    Buffers that no block writes, and of which blocks read the same or most parts, are not among them.
    """
    function, elements, blocks = program.function(entry), dict(sizes), []
    assert function is not None, entry
    operands, budget = [Surveyor().argument(a) for a in function.args], _Budget()
    try:
        for number in range(grid):
            machine = _Footprints(sizes=elements, budget=budget)
            run_block(program, machine, function, operands, number, grid)
            blocks.append(machine)
        buffers = {b for m in blocks for b in m.touched}
        parts = {b: _part(b, elements[b], blocks) for b in sorted(buffers)}
        kept = {b: part for b, part in parts.items() if part is not None}
        return Disjoint(kept, _offsets(kept, blocks))
    except (_Unproven, PtoError):
        return None


def _offsets(parts: Mapping[str, Part], blocks: Sequence[_Footprints]) -> dict[tuple[Key, str], ranges.Range]:
    """Where the windows of each transfer begin in the parts of a buffer, or in a buffer that has none."""
    offsets: dict[tuple[Key, str], set[int]] = {}
    for number, block in enumerate(blocks):
        for (key, buffer), begins in block.begins.items():
            start = int(parts[buffer].starts[number]) if buffer in parts else 0
            offsets.setdefault((key, buffer), set()).update(n - start for n in begins)
    return {place: ranges.Range.holding(begins) for place, begins in offsets.items()}


def _part(buffer: str, size: int, blocks: Sequence[_Footprints]) -> Part | None:
    owner = np.full(size, -1, np.int32)
    for number, block in enumerate(blocks):
        owner[np.concatenate(block.writes.get(buffer, [np.zeros(0, np.int64)]))] = number
    is_written = bool((owner >= 0).any())
    starts, ends = [], []
    for number, block in enumerate(blocks):
        touched = np.concatenate([*block.touched.get(buffer, []), np.zeros(0, np.int64)])
        if is_written and not np.isin(owner[touched], (-1, number)).all():
            raise _Unproven  # another block writes it, before or after this one
        starts.append(int(touched.min(initial=size)) if touched.size else 0)
        ends.append(int(touched.max(initial=0)) + 1 if touched.size else 1)
    extent = max(e - s for s, e in zip(starts, ends, strict=True))
    part = Part(np.array(starts), extent, owner)
    if extent * len(blocks) > MAX_COPIES * size:
        if is_written:
            raise _Unproven
        return None
    return part if is_written or len(set(starts)) > 1 else None


def side_by_side(
    machine: TileMemory, operands: Sequence[Operand], grid: int, disjoint: Disjoint, run: RunBlock
) -> None:
    """All blocks at once; their parts of the written buffers are put together again."""
    around, flags, constants = Snapshot.of(machine), list(machine.violations), machine.constants
    parts, offsets = disjoint.parts, machine.offsets
    sites: list[Site] = []
    written = [b for b, part in parts.items() if (part.owners >= 0).any()]

    def block(
        number: Int64[Array, ""], starts: Mapping[str, Int64[Array, ""]], own: Mapping[str, Flat]
    ) -> tuple[dict[str, Leaf], list[Leaf]]:
        machine.violations.clear()
        machine.numbers = block_numbers.BlockNumbers()
        machine.numbers.note(number, block_numbers.numbered(np.arange(grid)))
        machine.buffers.update(own)
        machine.constants = {b: x for b, x in constants.items() if b not in own}
        machine.offsets = disjoint.offsets
        machine.new_block()
        run(number, [_moved(machine, o, parts, starts) for o in operands])
        sites[:] = [v.site for v in machine.violations]
        after = (
            {b: machine.buffers[b] for b in written},
            [leaf for v in machine.violations for leaf in v.data],
        )
        around.restore(machine)
        machine.violations[:] = flags
        machine.numbers, machine.constants, machine.offsets = block_numbers.BlockNumbers(), constants, offsets
        return after

    starts = {b: jnp.asarray(p.starts) for b, p in parts.items()}
    own = {b: p.taken(around.buffers[b], machine.dtypes[b]) for b, p in parts.items()}
    results, data = jax.vmap(block)(jnp.arange(grid, dtype=np.int64), starts, own)
    leaves = iter(data)
    machine.violations[:] = [*flags, *(site.filled(leaves).of_batch() for site in sites)]
    for name in written:
        machine.buffers[name] = parts[name].put(machine.buffers[name], results[name])


def _moved(
    machine: TileMemory, operand: Operand, parts: Mapping[str, Part], starts: Mapping[str, Int64[Array, ""]]
) -> Operand:
    """A pointer or view into a block's part of its buffer."""
    if not isinstance(operand, Pointer | View) or operand.buffer not in parts:
        return operand
    offset = operand.offset - starts[operand.buffer]
    if isinstance(operand.offset, int):
        machine.numbers.note(offset, block_numbers.numbered(operand.offset - parts[operand.buffer].starts))
    return replace(operand, offset=offset)
