"""The JAX executor behind the interpreter: it traces a program into a pure function.

:class:`JaxMachine` executes one instruction after another: operands as arrays, rule, results.
:class:`ObservedMachine` reports each step to an observer; it is for eager execution, where every value is
concrete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.errors import Diagnostic, ExecutionError, NotExecutableError
from pto_jax.interpreter import (
    Buffer,
    Execution,
    Frame,
    Operand,
    Pointer,
    Scalar,
    Scope,
    TileRef,
    View,
    printed,
    step_by_step,
)
from pto_jax.interpreter.operands import LocalPointer
from pto_jax.interpreter.windows import advanced, scalar as folded
from pto_jax.ir import DType, MaskType, Op, ScalarType, TileType, VRegType
from pto_jax.isa.declare import Constraint, Operand as DeclaredOperand
from pto_jax.isa.micro import MicroCall
from pto_jax.profiles import ProfileName

from .. import platforms, scalars, slicing
from ..bits import recast, restored
from ..rules import MEMORY_RULES, RULES, Context, GlobalMemory, Inputs, Lanes, MemoryRule, Result, jitted
from . import (
    addresses,
    block_numbers,
    control_flow,
    grid as blocks,
    local_memory,
    planning,
    storage,
    tile_memory,
    together,
)
from .planning import Key, key_of

if TYPE_CHECKING:
    from jaxtyping import Bool, Shaped

    from pto_jax.interpreter.machine import After, Arm, Before, Body, RunBlock

    from ..bits import Word


def _written(e: Execution, name: str) -> DType | None:
    """The type that the text gives a scalar operand, None where it gives none."""
    value = dict(zip(e.form, e.op.ins, strict=False)).get(name)
    return value.type.dtype if value is not None and isinstance(value.type, ScalarType) else None


def scalar_dtype(e: Execution, operand: DeclaredOperand) -> DType:
    """Element type of a scalar operand: as the text gives it, for one that converts that of the tiles."""
    written = _written(e, operand.name)
    if written is not None and not operand.converts:
        return written
    reference = next(n for n in ("src", "src0", "base", "dst") if n in e.operands)
    return e.tile(reference).type.dtype


def region_rules(e: Execution, profile: ProfileName) -> list[tuple[Constraint, Bool[Array, ""] | bool]]:
    """Run-time rules on valid regions, and whether they are broken."""
    tiles = {n: ref for n, ref in e.operands.items() if isinstance(ref, TileRef)}
    sizes = {n: (ref.v_row, ref.v_col) for n, ref in tiles.items()}
    types = {n: ref.type for n, ref in tiles.items()}
    return [
        (c, c.region.broken(sizes, types))
        for c in e.instruction.constraints
        if c.severity == "error" and profile in c.profiles and c.region is not None
        if c.region.applies(sizes)
    ]


def _static(size: Scalar) -> int | None:
    return int(size) if isinstance(size, int | np.integer) else None


def _covered(e: Execution) -> list[str]:
    """Sources whose valid region is known to contain the one the instruction iterates over."""
    domain = e.instruction.domain if e.instruction.domain in e.operands else "dst"
    over = e.operands.get(domain)
    if not isinstance(over, TileRef):
        return []
    names = []
    for name, ref in e.operands.items():
        if not isinstance(ref, TileRef):
            continue
        if tile_memory.contains((ref.v_row, ref.v_col), over):
            names.append(name)
    return names


#: Operations up to which a loop of known length is written out in a traced program: every operation of a
#: trip is a pass over memory (on GPUs a kernel launch), and what is written out can be one. Exact arithmetic
#: outside GPUs takes longer so, for it keeps the decoded operands of all trips; but where a trip decides on
#: valid regions, these are known then.
MAX_UNROLLED, MAX_UNROLLED_DECODED = 64, 16
#: Operations up to which loops are written out in one program: loops in each other multiply.
MAX_WRITTEN_OUT = 1 << 12
#: The operation that is executed before the first one.
BEFORE = Op("")


@dataclass
class JaxMachine(tile_memory.TileMemory):
    """Executes programs on arrays.

    Where the program is traced as a whole, control flow that is not known becomes ``lax`` control flow, and
    the values of freshly written float32 tiles are kept besides their words, as XLA drops whichever of the
    two nobody reads.
    ``disjoint`` tells which parts of the buffers blocks touch, where they do not meet; ``near`` are the
    operations whose addresses need no care, ``inside`` those whose windows never leave what they are in.
    """

    disjoint: Callable[[Mapping[str, int]], blocks.Disjoint | None] | None = None
    depth: int = 0
    abstract: bool = False
    in_order: bool = False
    near: frozenset[Key] = frozenset()
    inside: frozenset[Key] = frozenset()
    _op: Op = BEFORE

    def begin(self, op: Op, scope: Scope) -> None:
        """Remember the operation whose addresses are computed next."""
        self._op = op

    def execute(self, execution: Execution) -> dict[str, Shaped[Array, "..."]]:
        """Execute an instruction and write its destinations; returns vectors outside tile memory by name.

        Raises NotExecutableError for an instruction without a rule.
        """
        self.one_by_one()
        name = execution.instruction.name
        if name in MEMORY_RULES:
            self._transfer(execution, MEMORY_RULES[name])
            return {}
        if name not in RULES:
            raise NotExecutableError(
                Diagnostic("error", "is not executed by this version", execution.op.span, name)
            )
        return self._compute(execution)

    def _transfer(self, e: Execution, rule: MemoryRule) -> None:
        """Execute an instruction between tiles and the buffer of a view."""
        view = next(o for o in e.operands.values() if isinstance(o, View))
        context = self.context(e)
        self._check(e)
        require = partial(self.require, e.op) if self.checks else None
        place, buffer = (planning.key_of(e.op), view.buffer), self.buffers[view.buffer]
        copied, passed = self.passed.get(view.buffer, (None, None))
        memory = GlobalMemory(
            view,
            buffer,
            require,
            self.constants.get(view.buffer),
            self.offsets.get(place),
            place in self.independent,
            passed if copied is buffer else None,
        )
        words = rule(context, self.inputs(e, context), memory)
        target = e.operands[e.instruction.destinations[0].name]
        if words is not None and isinstance(target, TileRef):
            self.write(target, *(words if isinstance(words, Result) else Result(words)))
        elif words is not None:
            assert not isinstance(words, Result)
            self.buffers[view.buffer] = words

    def _compute(self, e: Execution) -> dict[str, Shaped[Array, "..."]]:
        """Execute an instruction on tiles and scalars."""
        context = self.context(e)
        self._check(e)
        results = jitted(context)(self.inputs(e, context))
        for name, result in results.items():
            if name not in e.vectors:
                self.write(e.tile(name), *(result if isinstance(result, Result) else Result(result)))
        return {n: slicing.as_array(results[n], t.dtype.numpy) for n, t in e.vectors.items()}

    def inputs(self, e: Execution, context: Context) -> Inputs:
        """Lanes of the tiles and words of the scalars an instruction is given."""
        inputs: dict[str, Lanes | Word] = {}
        for name, operand in e.operands.items():
            if e.instruction.operand(name).role == "tmp" or isinstance(operand, View | Pointer):
                continue
            if isinstance(operand, TileRef):
                inputs[name] = self.lanes(operand, context.tile(name).shape)
            else:
                number = scalars.converted(operand, _written(e, name), context.dtype(name))
                inputs[name] = scalars.to_word(number, context.dtype(name))
        return inputs

    def _check(self, e: Execution) -> None:
        if not self.checks or self.rules is not None:
            return
        for c, broken in region_rules(e, self.semantics.profile.name):
            assert c.region is not None
            tiles = [(n, ref) for n in c.region.operands if isinstance(ref := e.operands.get(n), TileRef)]
            actual = "valid regions " + ", ".join(f"{n} {{}}x{{}}" for n, _ in tiles)
            sizes = tuple(tile_memory.as_number(n) for _, ref in tiles for n in (ref.v_row, ref.v_col))
            flag = jnp.asarray(broken, bool)
            self.violations.append(tile_memory.Violation(e.op, c.rule, c.allowed, flag, actual, sizes))

    def context(self, e: Execution) -> Context:
        """The static part of an execution: types with known valid sizes, attributes, form, sources covered.

        A source is covered where its valid region is known to contain the destination's.
        """
        types: list[tuple[str, TileType | ScalarType]] = []
        for name, operand in e.operands.items():
            slot = e.instruction.operand(name)
            if isinstance(operand, TileRef):
                types.append((name, operand.type.with_valid(_static(operand.v_row), _static(operand.v_col))))
            elif not isinstance(operand, View | Pointer):
                types.append((name, ScalarType(scalar_dtype(e, slot))))
        context = Context(
            e.instruction.name,
            tuple(types),
            tuple(sorted(e.attrs.items(), key=lambda kv: kv[0])),
            e.form,
            self.semantics,
            frozenset(_covered(e)),
            self.whole,
        )
        return context.cropped if platforms.expected() == "cpu" else context

    def require(
        self, op: Op, rule: str, allowed: str, broken: Scalar, found: str = "", values: Sequence[Scalar] = ()
    ) -> None:
        """Record a run-time rule; of those on accesses, none that is certainly kept."""
        certain = self.rules is not None and rule == "window" and key_of(op) in self.inside
        if not certain:
            super().require(op, rule, allowed, broken, found, values)

    def unrolls(self, op: Op, trips: int) -> bool:
        """Whether the loop is executed trip by trip: eagerly always, else up to MAX_UNROLLED operations.

        In a loop whose trips are executed at once only one that carries registers may be.
        """
        body = max(1, sum(1 for _ in op.walk()) - 1)
        if not self.whole:
            return True
        exact = self.semantics.numerics == "exact" and platforms.expected() != "gpu"
        types = (v.type for inner in op.walk() for v in inner.results)
        decoded = exact and not any(isinstance(t, TileType) and None in t.valid for t in types)
        carries = any(isinstance(v.type, VRegType | MaskType) for v in op.results)
        if self.together is not None and trips and not carries:
            return False
        written = self.written_out + trips * body
        if trips * body > (MAX_UNROLLED_DECODED if decoded else MAX_UNROLLED) or written > MAX_WRITTEN_OUT:
            return False
        self.written_out = written
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
        self.one_by_one()
        with self._inside():
            return control_flow.branch(self, frame, condition, arms)

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """What is carried after ``trips`` trips of ``body``.

        They are executed at once where that is proven right (:func:`together.loop`), else one by one
        (:func:`control_flow.loop`).
        """
        with self._inside():
            if self.together is not None:
                results: tuple[Operand, ...] = self.together.loop(frame, trips, inits, body)
                return results
            batch = together.loop(self, frame, trips, inits, body) if self.whole else None
            return batch if batch is not None else control_flow.loop(self, frame, trips, inits, body)

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        """What is carried after a while loop; traced as a whole, else step by step."""
        self.one_by_one()
        if self.whole:
            with self._inside():
                return control_flow.repeat(self, frame, inits, before, after)
        return step_by_step(self, frame.op, inits, before, after)

    def show(self, op: Op, format: str, value: Scalar, dtype: DType) -> None:
        """Print a scalar at once where it is known, else when the compiled program runs."""
        self.one_by_one()

        def show(value: Shaped[Array, ""]) -> None:
            print(printed(format, value.item()), flush=True)

        if self.known(value) is not None or isinstance(value, float):
            print(printed(format, value if isinstance(value, int | float) else value.item()))
        else:
            jax.debug.callback(show, scalars.to_native(value, dtype))

    def trap(self, op: Op) -> None:
        """End the execution: eagerly ExecutionError at once, else a violation of the rule ``trap``."""
        self.one_by_one()
        if not self.whole:
            raise ExecutionError(op.error("trap", "the program stops here"))
        self.stop(op, "trap", "a program that does not come here", jnp.ones((), bool))

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        """The result of an ``arith`` operation, of which an operand is an array of shape ()."""
        if self.together is not None:
            number = scalars.compute(self.semantics, name, args, source, result)
            return self.together.computed(number, name, args, source, result)
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
        if self.together is not None:
            return self.together.addressed(self._address(base, index, stride), base, index, stride)
        form = self.numbers.address(self, base, index, stride)
        if form is not None and isinstance(form.table, int):
            return advanced(self, form.table, form.base)
        return self._noted(self._address(base, index, stride), form)

    def _address(self, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        if key_of(self._op) in self.near:
            return addresses.near(base, index, stride)
        return (addresses.advanced if self.checks else addresses.followed)(base, index, stride)

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
        return slicing.as_scalar(slicing.read(flat, slicing.in_tile(ref.type, position)), dtype)

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        """Write a scalar to the element at a position in a tile's storage.

        Positions outside the tile break the run-time rule ``offset-range``.
        """
        _whole(op, ref)
        self._within(op, position, ref.type.elements, "the tile")
        words, at = self.words(ref), slicing.in_tile(ref.type, position)
        new = slicing.write(words.reshape(-1), at, scalars.to_word(value, ref.type.dtype))
        self.write(ref, new.reshape(words.shape))

    def micro(self, op: Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """The results of a micro-operation; accesses outside memory break the run-time rule ``in-bounds``."""
        results = local_memory.execute(self, op, call, operands)
        if self.together is not None:
            self.together.counted(op, operands, results)
        return results

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Shaped[Array, ""]:
        """The element of memory that a pointer is at, an array of shape ().

        Offsets outside the buffer break the run-time rule ``offset-range``.
        """
        if isinstance(pointer, LocalPointer):
            place = local_memory.scalar_place(self, op, pointer)
            return slicing.as_scalar(place.read(1, pointer.dtype.word_bits)[0], dtype)
        buffer = recast(self.buffers[pointer.buffer], pointer.dtype.word)
        self._within(op, pointer.offset, buffer.shape[0], pointer.buffer)
        return slicing.as_scalar(slicing.read(buffer, pointer.offset), dtype)

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Write a scalar to the element a pointer is at.

        Offsets outside the buffer break the run-time rule ``offset-range``.
        """
        if isinstance(pointer, LocalPointer):
            word = scalars.to_word(value, pointer.dtype).reshape(1)
            local_memory.scalar_place(self, op, pointer).write(word)
            return
        memory, word = self.buffers[pointer.buffer], scalars.to_word(value, pointer.dtype)
        buffer = recast(memory, pointer.dtype.word)
        self._within(op, pointer.offset, buffer.shape[0], pointer.buffer)
        written = slicing.write(buffer, pointer.offset, word)
        self.buffers[pointer.buffer] = restored(memory, written)

    def _within(self, op: Op, position: Scalar, size: int, what: str) -> None:
        broken = slicing.outside(position, size)
        allowed = f"an element of {what}, " + (f"0 to {size - 1}" if size else "which has none")
        self.require(op, "offset-range", allowed, broken, "offset {}", (position,))


def _whole(op: Op, ref: TileRef) -> None:
    if isinstance(ref.storage, storage.Window):
        message = "got an element of a window; allowed: of a whole tile"
        raise NotExecutableError(op.error("window", message))


class Observer(Protocol):
    """What is told about an execution, in its order; an exception that it raises ends the execution."""

    def block(self, machine: JaxMachine) -> None:
        """A block of a grid of several begins."""

    def begin(self, machine: JaxMachine, op: Op, scope: Scope) -> None:
        """Any operation begins, structured ones and handles' included."""

    def before(self, machine: JaxMachine, execution: Execution) -> None:
        """An instruction is about to compute."""

    def after(self, machine: JaxMachine, execution: Execution, outputs: Mapping[str, Operand]) -> None:
        """It has written its destinations; ``outputs`` are those outside tile memory."""


@dataclass
class ObservedMachine(JaxMachine):
    """Executes like :class:`JaxMachine` and tells ``observer``."""

    observer: Observer | None = None

    def begin(self, op: Op, scope: Scope) -> None:
        """Tell the observer the operation and the names it sees, before it is executed."""
        super().begin(op, scope)
        if self.observer is not None:
            self.observer.begin(self, op, scope)

    def new_block(self) -> None:
        """Tell the observer that a block of a launch begins."""
        super().new_block()
        if self.observer is not None:
            self.observer.block(self)

    def execute(self, execution: Execution) -> dict[str, Shaped[Array, "..."]]:
        """Execute an instruction; the observer looks before it and after it."""
        if self.observer is None:
            return super().execute(execution)
        self.observer.before(self, execution)
        results = super().execute(execution)
        self.observer.after(self, execution, results)
        return results
