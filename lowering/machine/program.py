"""From a program to a pure function: the JAX machine behind the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from pto_jax.errors import Diagnostic, ExecutionError, NotExecutableError
from pto_jax.interpreter import Buffer, Frame, Operand, Pointer, Scalar, Scope, TileRef, printed, step_by_step
from pto_jax.interpreter.windows import advanced, scalar as folded
from pto_jax.ir import DType, Op

from .. import indexed_scalars, platforms, scalars
from ..words import recast, restored
from . import addresses, block_numbers, control_flow, grid as blocks, instructions, storage, tile_memory
from .planning import Key, key_of

if TYPE_CHECKING:
    from jaxtyping import Shaped

    from pto_jax.interpreter.machine import After, Arm, Before, Body, RunBlock

#: Operations up to which a loop of known length is written out in a traced program: every operation of a
#: trip is a pass over memory (on GPUs a kernel launch), and what is written out can be one. Exact arithmetic
#: outside GPUs takes longer so, for it keeps the decoded operands of all trips.
MAX_UNROLLED, MAX_UNROLLED_DECODED = 64, 16
#: Operations up to which loops are written out in one program: loops in each other multiply.
MAX_WRITTEN_OUT = 1 << 12
#: The operation that is executed before the first one.
BEFORE = Op("")


@dataclass
class JaxMachine(instructions.InstructionMachine):
    """Executes programs on arrays.

    Where the program is traced as a whole, control flow that is not known becomes ``lax`` control flow.
    ``disjoint`` tells which parts of the buffers blocks touch, where they do not meet; ``near`` are the
    operations whose addresses need no care, ``inside`` those whose windows never leave what they are in.
    """

    disjoint: Callable[[Mapping[str, int]], blocks.Disjoint | None] | None = None
    depth: int = 0
    abstract: bool = False
    near: frozenset[Key] = frozenset()
    inside: frozenset[Key] = frozenset()
    _op: Op = BEFORE
    _written_out: int = 0

    def begin(self, op: Op, scope: Scope) -> None:
        """Remember the operation whose addresses are computed next."""
        self._op = op

    def require(
        self, op: Op, rule: str, allowed: str, broken: Scalar, found: str = "", values: Sequence[Scalar] = ()
    ) -> None:
        """Record a run-time rule; of those on accesses, none that is certainly kept."""
        certain = self.rules is not None and rule == "window" and key_of(op) in self.inside
        if not certain:
            super().require(op, rule, allowed, broken, found, values)

    def known(self, value: Scalar) -> int | None:
        """The number of a Python or NumPy integer or of an array that is not traced, else None."""
        if isinstance(value, Array) and not isinstance(value, Tracer):
            return int(value)
        return int(value) if isinstance(value, int | np.integer) else None

    def unrolls(self, op: Op, trips: int) -> bool:
        """Whether the loop is executed trip by trip: eagerly always, else up to MAX_UNROLLED operations."""
        body = max(1, sum(1 for _ in op.walk()) - 1)
        decoded = self.semantics.numerics == "exact" and platforms.expected() != "gpu"
        if not self.whole:
            return True
        written = self._written_out + trips * body
        if trips * body > (MAX_UNROLLED_DECODED if decoded else MAX_UNROLLED) or written > MAX_WRITTEN_OUT:
            return False
        self._written_out = written
        return True

    def counter(self, value: int) -> Scalar:
        """A Python number in a program traced as a whole, else an int64 array, so that rules see one type."""
        return value if self.whole else jnp.asarray(np.int64(value))

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        """The results of one of two arms by a traced condition (:func:`control_flow.branch`)."""
        with self._inside():
            return control_flow.branch(self, frame, condition, arms)

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """What is carried after ``trips`` trips of ``body`` (:func:`control_flow.loop`)."""
        with self._inside():
            return control_flow.loop(self, frame, trips, inits, body)

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        """What is carried after a while loop; traced as a whole, else step by step."""
        if self.whole:
            with self._inside():
                return control_flow.repeat(self, frame, inits, before, after)
        return step_by_step(self, frame.op, inits, before, after)

    def show(self, op: Op, format: str, value: Scalar, dtype: DType) -> None:
        """Print a scalar at once where it is known, else when the compiled program runs."""

        def show(value: Shaped[Array, ""]) -> None:
            print(printed(format, value.item()), flush=True)

        if self.known(value) is not None or isinstance(value, float):
            print(printed(format, value if isinstance(value, int | float) else value.item()))
        else:
            jax.debug.callback(show, scalars.to_native(value, dtype))

    def trap(self, op: Op) -> None:
        """End the execution: eagerly ExecutionError at once, else a violation of the rule ``trap``."""
        if not self.whole:
            raise ExecutionError(Diagnostic("error", "the program stops here", op.span, op.name, rule="trap"))
        self.stop(op, "trap", "a program that does not come here", jnp.ones((), bool))

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        """The result of an ``arith`` operation, of which an operand is an array of shape ()."""
        form = self.numbers.scalar(self, name, args, source, result)
        if form is not None and isinstance(form.table, int):
            whole = isinstance(form.base, int) and form.base == 0
            return (
                form.table if whole else folded(self, "arith.addi", (form.base, form.table), result, result)
            )
        return self._noted(scalars.compute(self.semantics, name, args, source, result), form)

    def elements(self, buffer: Buffer, dtype: DType) -> int | None:
        """How many elements the buffer's array has; None for a buffer that execution chooses."""
        return self.buffers[buffer].shape[0] if isinstance(buffer, str) else None

    def address(self, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        """``base + index * stride`` as an int64 array, with as much care as the operation's addresses need.

        Outside 64 bits it is NOWHERE where run-time rules are checked, else far outside any buffer.
        """
        form = self.numbers.address(self, base, index, stride)
        if form is not None and isinstance(form.table, int):
            return advanced(self, form.table, form.base)
        if key_of(self._op) in self.near:
            found = addresses.near(base, index, stride)
        else:
            found = (addresses.advanced if self.checks else addresses.followed)(base, index, stride)
        return self._noted(found, form)

    def _noted(self, array: Scalar, form: block_numbers.Form | None) -> Scalar:
        if form is not None:
            self.numbers.note(array, form)
        return array

    def blocks(self, grid: int, operands: Sequence[Operand], run: RunBlock) -> None:
        """Execute the blocks of a launch: side by side where they are proved not to meet, else in order."""
        sizes = {name: words.shape[0] for name, words in self.buffers.items()}
        disjoint = self.disjoint(sizes) if self.whole and self.disjoint is not None else None
        if disjoint is not None:
            blocks.side_by_side(self, operands, grid, disjoint, run)
            return

        def body(number: Scalar, carried: tuple[Operand, ...]) -> tuple[Operand, ...]:
            self.new_block()
            run(number, operands)
            return ()

        place = Op(tile_memory.BLOCK)
        if not self.whole:
            for number in range(grid):
                body(number, ())
        else:
            self.loop(Frame(place), grid, (), body)

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Shaped[Array, ""]:
        """The element at a position in a tile's storage, an array of shape ().

        Positions outside the tile break the run-time rule ``offset-range``.
        """
        _whole(op, ref)
        self._within(op, position, ref.type.elements, "the tile")
        flat = self.words(ref).reshape(-1)
        return indexed_scalars.as_scalar(
            indexed_scalars.read(flat, indexed_scalars.in_tile(ref.type, position)), dtype
        )

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        """Write a scalar to the element at a position in a tile's storage.

        Positions outside the tile break the run-time rule ``offset-range``.
        """
        _whole(op, ref)
        self._within(op, position, ref.type.elements, "the tile")
        words, at = self.words(ref), indexed_scalars.in_tile(ref.type, position)
        new = indexed_scalars.write(words.reshape(-1), at, scalars.to_word(value, ref.type.dtype))
        self.write(ref, new.reshape(words.shape))

    def load(self, op: Op, pointer: Pointer, dtype: DType) -> Shaped[Array, ""]:
        """The element of global memory that a pointer is at, an array of shape ().

        Offsets outside the buffer break the run-time rule ``offset-range``.
        """
        buffer = recast(self.buffers[pointer.buffer], pointer.dtype.word)
        self._within(op, pointer.offset, buffer.shape[0], pointer.buffer)
        return indexed_scalars.as_scalar(indexed_scalars.read(buffer, pointer.offset), dtype)

    def store(self, op: Op, pointer: Pointer, value: Scalar) -> None:
        """Write a scalar to the element a pointer is at.

        Offsets outside the buffer break the run-time rule ``offset-range``.
        """
        memory, word = self.buffers[pointer.buffer], scalars.to_word(value, pointer.dtype)
        buffer = recast(memory, pointer.dtype.word)
        self._within(op, pointer.offset, buffer.shape[0], pointer.buffer)
        written = indexed_scalars.write(buffer, pointer.offset, word)
        self.buffers[pointer.buffer] = restored(memory, written)

    def _within(self, op: Op, position: Scalar, size: int, what: str) -> None:
        broken = indexed_scalars.outside(position, size)
        allowed = f"an element of {what}, " + (f"0 to {size - 1}" if size else "which has none")
        self.require(op, "offset-range", allowed, broken, "offset {}", (position,))


def _whole(op: Op, ref: TileRef) -> None:
    if isinstance(ref.storage, storage.Window):
        message = "found an element of a window; allowed: of a whole tile"
        raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="window"))
