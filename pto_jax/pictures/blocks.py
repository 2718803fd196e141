"""The elements of buffers that each block of a launch stores.

>>> import pto_jax as pto
>>> from pto_jax.examples import example
>>> launch = example("rmsnorm")
>>> grid(pto.load(launch.path), launch.arguments(), grid=launch.grid)
<Picture: stores of 4 blocks of @rmsnorm: y 16384 of 16384 elements>
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..analysis.entries import select_entry, written_buffers
from ..analysis.resolve import with_entry
from ..errors import ArgumentError
from ..interpreter import Execution, Pointer
from ..interpreter.machine import RunBlock
from ..interpreter.operands import LocalPointer, Operand
from ..ir import Op
from ..oracle import run
from ..oracle.machine import ReferenceMachine
from ..oracle.numbers import Array
from ..oracle.step import Policy, Step
from ..profiles import Profile
from .memory import subject
from .svg import BLOCKS, CELLS, Canvas, Lattice, Picture


class _Stored(np.ndarray[Any, Any]):
    """Bytes of a buffer that tell ``machine`` which of them are stored, also through views of other types."""

    machine: _Watching | None = None
    name: str = ""

    def __array_finalize__(self, other: Any) -> None:
        self.machine, self.name = getattr(other, "machine", None), getattr(other, "name", "")

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if self.machine is not None:
            self.machine.note(self, key)


class _Watching(ReferenceMachine):
    """Keeps the block and the instruction that stored each byte last, and whether others did before."""

    def __init__(self, policy: Policy, buffers: Mapping[str, Array], max_steps: int = 1_000_000) -> None:
        watched: dict[str, Array] = {}
        for name, memory in buffers.items():
            view = memory.view(_Stored)
            view.machine, view.name, watched[name] = self, name, view
        super().__init__(policy, watched, max_steps)
        self.plain = dict(buffers)
        self.number, self.executed = 0, 0
        self.block = {name: np.full(len(b), -1, np.int32) for name, b in buffers.items()}
        self.by = {name: np.full(len(b), -1, np.int64) for name, b in buffers.items()}
        self.twice = {name: np.zeros(len(b), bool) for name, b in buffers.items()}

    def blocks(self, grid: int, operands: Sequence[Operand], run: RunBlock) -> None:
        """Execute the blocks, and remember which one executes."""

        def counted(number: Any, given: Sequence[Operand]) -> None:
            self.number = int(number)
            run(number, given)

        super().blocks(grid, operands, counted)

    def compute(self, execution: Execution, step: Step) -> None:
        """Execute the rule of the next instruction."""
        self.executed += 1
        super().compute(execution, step)

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Any) -> None:
        """Write a scalar, which counts as an instruction."""
        self.executed += 1
        super().store(op, pointer, value)

    def note(self, part: Array, key: Any) -> None:
        """Keep the bytes that an assignment to a part of a buffer stores; other arrays are copies."""
        name = getattr(part, "name", "")
        start = part.ctypes.data - self.plain[name].ctypes.data
        if not 0 <= start <= len(self.plain[name]) - part.nbytes:
            return
        mask = np.zeros(part.shape, bool)
        mask[key] = True
        at = start + np.flatnonzero(np.repeat(mask.reshape(-1), part.itemsize))
        before = self.by[name][at]
        self.twice[name][at] |= (before >= 0) & (before != self.executed)
        self.by[name][at], self.block[name][at] = self.executed, self.number


@dataclass(frozen=True, eq=False)
class _Buffer:
    """The block that stored each element, -1 for none, and whether it was stored more than once."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    block: Array
    twice: Array


def grid(
    program: Any,
    args: Mapping[str, Any] | Sequence[Any],
    grid: int = 1,
    *,
    profile: str | Profile | None = None,
    entry: str | None = None,
) -> Picture:
    """The buffers that a launch writes: each element in the colour of the block that stored it last.

    The blocks are executed on the interpreter with ``args``, as :func:`pto_jax.oracle.run` takes them:
    arrays by name or in order, 4-bit elements one per byte. Elements that no block stores are grey, those
    that more than one instruction stored are hatched. ``grid`` may be any number of blocks. Of more than 64
    rows or columns every second, third ... one is drawn. VerifyError for a program with errors,
    ExecutionError for an access outside a buffer, ArgumentError for a number of blocks below 1, unfit
    arguments and a program that writes no buffer.

    >>> import numpy as np, pto_jax as pto
    >>> from pto_jax.examples import EXAMPLES
    >>> program = pto.load(EXAMPLES["vector_add"].path)
    >>> x = np.ones((128, 64), np.float32)
    >>> grid(program, [x, x, x], grid=4).svg.startswith("<svg ")
    True
    """
    if isinstance(grid, bool) or not isinstance(grid, int) or grid < 1:
        raise ArgumentError(f"grid: got {grid!r} blocks", allowed="1 or more")
    program, target = subject(program, profile)
    function = select_entry(with_entry(program), entry)
    results: list[_Watching] = []

    def machine(policy: Policy, memory: Mapping[str, Array], steps: int) -> _Watching:
        results.append(_Watching(policy, memory, steps))
        return results[-1]

    run(program, args, profile=target, entry=entry, grid=grid, partial_launch=True, machine=machine)
    names = [a.name for a in function.args]
    arguments = dict(args) if isinstance(args, Mapping) else dict(zip(names, args, strict=True))
    written = written_buffers(with_entry(program), function)
    buffers = [
        _buffer(results[0], a.type, a.name, np.shape(arguments[a.name]))
        for a in function.args
        if a.name in written and a.name in results[0].block
    ]
    if not buffers:
        raise ArgumentError(f"@{function.name}: got a program that writes no buffer", allowed="one or more")
    counts = ", ".join(f"{b.name} {int((b.block >= 0).sum())} of {b.block.size} elements" for b in buffers)
    blocks = f"{grid} block{'s' if grid > 1 else ''}"
    canvas = Canvas(480, f"stores of {blocks} of @{function.name}: {counts}")
    canvas.text(12, 22, f"stores of {blocks} of @{function.name}", "title")
    top = 30.0
    for buffer in buffers:
        top = _draw(canvas, buffer, top)
    return canvas.picture(canvas.legend(_key(buffers, grid), top) + 6)


def _buffer(machine: _Watching, kind: Any, name: str, shape: tuple[int, ...]) -> _Buffer:
    """What was stored to a buffer, by elements."""
    d = kind.dtype
    count = int(np.prod(shape, dtype=np.int64))
    if d.packed:
        block, twice = (np.repeat(x[name], 2)[:count] for x in (machine.block, machine.twice))
    else:
        width = d.word.itemsize
        block = machine.block[name].reshape(-1, width).max(1, initial=-1)
        twice = np.asarray(machine.twice[name].reshape(-1, width).any(1))
    return _Buffer(name, str(d), shape, block, twice)


# -- drawing -------------------------------------------------------------------------------------------


def _colour(block: int) -> str:
    return BLOCKS[block % len(BLOCKS)]


def _draw(canvas: Canvas, buffer: _Buffer, top: float) -> float:
    """The elements of a buffer as cells; where they end."""
    cols = buffer.shape[-1] if len(buffer.shape) > 1 else min(buffer.block.size, CELLS)
    lattice = Lattice.of((buffer.block.size // cols if cols else 0, cols), top + 46, 22, 22)
    missing, twice = int((buffer.block < 0).sum()), int(buffer.twice.sum())
    note = f"{missing} not stored, {twice} stored more than once"
    shape = ", ".join(map(str, buffer.shape))
    canvas.text(12, top + 14, f"{buffer.name} {buffer.dtype}[{shape}]", "bold")
    canvas.text(12, top + 28, note + lattice.note, "soft small")

    def paint(at: tuple[int, int], x: float, y: float) -> None:
        block, again = int(buffer.block[at[0] * cols + at[1]]), bool(buffer.twice[at[0] * cols + at[1]])
        title = f"[{at[0]}, {at[1]}] " + ("not stored" if block < 0 else f"block {block}")
        title += ", stored more than once" if again else ""
        place = x, y, lattice.width - 0.4, lattice.height - 0.4
        kind, fill = ("grey", "") if block < 0 else ("", _colour(block))
        canvas.rect(*place, kind, fill=fill, title=title)
        if again:
            canvas.rect(*place, "again", title=title)

    return lattice.draw(canvas, paint) + 8


def _key(buffers: Sequence[_Buffer], blocks: int) -> Iterator[tuple[str, str]]:
    """The colours of the blocks, and of elements without one."""
    yield from ((_colour(n), f"block {n}") for n in range(min(blocks, len(BLOCKS))))
    if blocks > len(BLOCKS):
        yield "", f"and {blocks - len(BLOCKS)} more, colours repeat"
    if any((b.block < 0).any() for b in buffers):
        yield "grey", "not stored"
    if any(b.twice.any() for b in buffers):
        yield "twice", "stored more than once"
