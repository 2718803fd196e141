"""From a program to a pure function: the JAX machine behind the program walker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax import arrays
from pto_jax.dtypes import F32, DType
from pto_jax.errors import Diagnostic, ExecutionError, NotExecutableError
from pto_jax.ir import Op, Value
from pto_jax.isa.declare import Operand
from pto_jax.isa.memory_indexed_rules import coalescing
from pto_jax.profiles import ProfileName
from pto_jax.types import Coalesce, ScalarType, TileType
from pto_jax.walk import (
    Choice,
    Execution,
    Frame,
    Operand as WalkOperand,
    Pointer,
    Scalar,
    Scope,
    TileRef,
    View,
    step_by_step,
    with_storage,
)

from . import blocks, control_flow, indexed_scalars, memory, memory_indexed, scalars, storage
from .rules import RULES, VALUE, Context, Inputs, Lanes, Semantics, jitted
from .shapes import Carried
from .storage import Cell, Plan, Slot, Window

if TYPE_CHECKING:
    from pto_jax.walk.walker import After, Arm, Before, Body, RunBlock

#: Trips after which a while loop is stopped, unless told otherwise.
MAX_STEPS = 1_000_000
#: Name of the run-time rule that stops it.
STEPS = "steps"
#: Operations up to which a loop of known length is written out in a traced program.
MAX_UNROLLED = 16


@dataclass(frozen=True)
class Violation:
    """A run-time rule of one instruction, and whether this execution broke it (a traced flag)."""

    op: Op
    rule: str
    allowed: str
    broken: Array


@dataclass
class JaxMachine:
    """Executes instructions on arrays; all state is in ``cells`` and ``buffers``.

    ``whole`` says that the program is traced as a whole: control flow becomes ``lax`` control flow, and the
    values of freshly written float32 tiles are kept besides their words, as XLA drops whichever of the two
    nobody reads. ``disjoint`` tells which parts of the buffers blocks touch, where they do not meet.
    ``temporaries`` are the cells of results that no allocation names; ``axes`` the mesh axes
    that arguments vary over; ``max_steps`` bounds while loops.
    """

    semantics: Semantics
    plan: Plan
    buffers: dict[str, Array]
    cells: dict[str, Array] = field(default_factory=dict)
    packed: dict[str, bool] = field(default_factory=dict)
    checks: bool = False
    whole: bool = False
    max_steps: int = MAX_STEPS
    disjoint: Callable[[Mapping[str, int]], Mapping[str, blocks.Part] | None] | None = None
    axes: frozenset[str] = frozenset()
    violations: list[Violation] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    temporaries: set[str] = field(default_factory=set)
    _layout: dict[str, Cell] = field(default_factory=dict)
    core: str = ""
    depth: int = 0
    abstract: bool = False
    _scratch: bool = False
    _own_keys: dict[tuple[str, int], str] = field(default_factory=dict)
    _names: Counter[str] = field(default_factory=Counter)

    def begin(self, op: Op, scope: Scope) -> None:
        """Nothing to do before an operation; a machine with an observer overrides this."""

    def bind_buffer(self, name: str, dtype: DType, words: Array) -> None:
        """Make an argument's flat words a global-memory buffer, one element per word."""
        self.packed[name] = dtype.packed
        if dtype.packed:
            words = jnp.stack([words & np.uint8(0xF), words >> np.uint8(4)], axis=-1).reshape(-1)
        self.buffers[name] = words

    def region(self, op: Op, ref: TileRef) -> None:
        extents = ref.type.shape
        allowed = f"a valid region within {extents[0]}x{extents[1]}"
        sizes = (ref.v_row, ref.v_col)
        broken: Scalar = False
        for size, extent in zip(sizes, extents, strict=True):
            broken = broken | (size < 0) | (size > extent)
        self.require(op, "region", allowed, broken, f"{sizes[0]}x{sizes[1]}")

    def require(self, op: Op, rule: str, allowed: str, broken: Scalar, found: str = "another") -> None:
        """Record a run-time rule; one that is known to be broken is an error at once."""
        if isinstance(broken, bool):
            if broken:
                message = f"found {found}; allowed: {allowed}"
                raise ExecutionError(Diagnostic("error", message, op.span, op.name, rule=rule))
        elif self.checks:
            self.violations.append(Violation(op, rule, allowed, jnp.asarray(broken, bool)))

    def stop(self, op: Op, stopped: Array) -> None:
        """Note that a loop was stopped, whether or not run-time rules are checked."""
        allowed = f"at most {self.max_steps} trips"
        self.violations.append(Violation(op, STEPS, allowed, stopped))

    def known(self, value: Scalar) -> int | None:
        if isinstance(value, Array) and not isinstance(value, jax.core.Tracer):
            return int(value)
        return int(value) if isinstance(value, int | np.integer) else None

    def unrolls(self, op: Op, trips: int) -> bool:
        body = sum(1 for _ in op.walk()) - 1
        return not self.whole or trips * body <= MAX_UNROLLED

    def counter(self, value: int) -> Scalar:
        return value if self.whole else jnp.asarray(np.int64(value))

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[WalkOperand, ...]:
        with self._inside():
            return control_flow.branch(self, frame, condition, arms)

    def loop(
        self, frame: Frame, trips: Scalar, inits: Sequence[WalkOperand], body: Body
    ) -> tuple[WalkOperand, ...]:
        with self._inside():
            return control_flow.loop(self, frame, trips, inits, body)

    def repeat(
        self, frame: Frame, inits: Sequence[WalkOperand], before: Before, after: After
    ) -> tuple[WalkOperand, ...]:
        if self.whole:
            with self._inside():
                return control_flow.repeat(self, frame, inits, before, after)
        return step_by_step(self, frame.op, inits, before, after)

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        return scalars.compute(self.semantics, name, args, source, result)

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Slot:
        if address is None:
            place = (self.core, id(op))
            key = self._own_keys.get(place) or self._key(op.results[0].name)
            return self._own(self._own_keys.setdefault(place, key), type)
        return self._placed(op, type, address)

    def fresh(self, op: Op, result: Value, type: TileType) -> Slot:
        slot = self._own(self._key(result.name), type)
        self.temporaries.add(slot.cell.key)
        return slot

    def temporary(self, type: TileType, words: Array, name: str = "carried") -> Slot:
        """Storage of a value that control flow or a pipe handed on."""
        slot = self._own(self._key(name), type)
        self.temporaries.add(slot.cell.key)
        self.cells[slot.cell.key] = words
        return slot

    def rebind(self, op: Op, ref: TileRef, type: TileType, address: Scalar) -> Slot:
        return self._placed(op, type, address)

    def _placed(self, op: Op, type: TileType, address: Scalar) -> Slot:
        """Storage at an address; one that only execution knows must be in the memory and aligned."""
        slot = self.plan.slot(type, address)
        if self.core:
            slot = replace(slot, cell=replace(slot.cell, key=f"{self.core}/{slot.cell.key}"))
        if not isinstance(address, int):
            cell, step = slot.cell, max(slot.cell.width // 8, 1)
            last = cell.end - type.bytes
            broken = (address < 0) | (address > last) | (address % step != 0)
            allowed = f"a multiple of {step} in [0, {last}]"
            self.require(op, "address", allowed, broken, str(address))
        return self._touch(slot)

    def adopt(self, name: str, type: TileType, words: Array) -> Slot:
        """Storage of a tile that is an argument."""
        slot = self._own(self._key(name), type)
        self.cells[slot.cell.key] = words
        return slot

    def blank(self, name: str, type: TileType) -> Slot:
        """Storage of a tile argument that was left out: a fresh tile."""
        return self._own(self._key(name), type)

    def offset(self, op: Op, ref: TileRef, type: TileType, elements: Scalar) -> Slot:
        if not isinstance(ref.storage, Slot):
            message = "found an alias of a window with its own pitch; allowed: of a whole tile"
            raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="window"))
        address = ref.storage.address + elements * ref.type.dtype.storage_bits // 8
        return Slot(ref.storage.cell, address, loose=True)

    def window(self, op: Op, ref: TileRef, type: TileType, row: Scalar, col: Scalar) -> Window:
        (rows, cols), (limit, width) = type.shape, ref.type.shape
        broken: Scalar = False
        for first, size, extent in ((row, rows, limit), (col, cols, width)):
            broken = broken | (first < 0) | (first > extent - size)
        self.require(
            op, "window", f"a window within {limit}x{width}", broken, f"{rows}x{cols} from {row}, {col}"
        )
        return Window(ref, row, col)

    def contents(self, ref: TileRef) -> Array:
        return self.words(ref)

    def receive(self, op: Op, name: str, type: TileType, contents: Array) -> Slot:
        return self.temporary(type, contents, name)

    def concatenate(self, parts: Sequence[Array], axis: int) -> Array:
        return jnp.concatenate(parts, axis)

    def enter(self, core: str) -> None:
        self.core = core

    def new_block(self) -> None:
        self.cells.clear()
        self.values.clear()
        self._scratch = True

    def blocks(self, grid: int, operands: Sequence[WalkOperand], run: RunBlock) -> None:
        sizes = {name: words.shape[0] for name, words in self.buffers.items()}
        parts = self.disjoint(sizes) if self.whole and self.disjoint is not None else None
        if parts is not None:
            blocks.side_by_side(self, operands, grid, parts, run)
            return

        def body(number: Scalar, carried: tuple[WalkOperand, ...]) -> tuple[WalkOperand, ...]:
            self.new_block()
            run(number, operands)
            return ()

        place = Op("block")
        if not self.whole:
            for number in range(grid):
                body(number, ())
        else:
            self.loop(Frame(place), grid, (), body)

    def words(self, ref: TileRef) -> Array:
        if isinstance(ref.storage, Choice):
            choices = [self.words(with_storage(ref, option)) for option in ref.storage.options]
            found = choices[0]
            for i, words in enumerate(choices[1:], 1):
                found = jnp.where(ref.storage.index == i, words, found)
            return found
        if isinstance(ref.storage, Carried):
            return ref.storage.words
        if isinstance(ref.storage, Window):
            return lax.dynamic_slice(self.words(ref.storage.tile), ref.storage.starts(), ref.type.shape)
        assert isinstance(ref.storage, Slot)
        return storage.load(self.cells, ref.storage, ref.type)

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Array:
        _whole(op, ref)
        self._within(op, position, ref.type.elements, "an element of the tile")
        flat = self.words(ref).reshape(-1)
        return indexed_scalars.as_scalar(
            indexed_scalars.read(flat, indexed_scalars.in_tile(ref.type, position)), dtype
        )

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        _whole(op, ref)
        self._within(op, position, ref.type.elements, "an element of the tile")
        words, at = self.words(ref), indexed_scalars.in_tile(ref.type, position)
        new = indexed_scalars.write(words.reshape(-1), at, scalars.to_word(value, ref.type.dtype))
        self._write(ref, new.reshape(words.shape))

    def load(self, op: Op, pointer: Pointer, dtype: DType) -> Array:
        buffer = self.buffers[pointer.buffer]
        self._within(op, pointer.offset, buffer.shape[0], f"an element of {pointer.buffer}")
        return indexed_scalars.as_scalar(indexed_scalars.read(buffer, pointer.offset), dtype)

    def store(self, op: Op, pointer: Pointer, value: Scalar) -> None:
        buffer, word = self.buffers[pointer.buffer], scalars.to_word(value, pointer.dtype)
        self._within(op, pointer.offset, buffer.shape[0], f"an element of {pointer.buffer}")
        self.buffers[pointer.buffer] = indexed_scalars.write(buffer, pointer.offset, word)

    def _within(self, op: Op, position: Scalar, size: int, what: str) -> None:
        broken = indexed_scalars.outside(position, size)
        self.require(op, "offset-range", f"{what}, 0 to {size - 1}", broken, f"offset {position}")

    def execute(self, execution: Execution) -> dict[str, Array]:
        if execution.instruction.name == "tload":
            self._tload(execution)
        elif execution.instruction.name == "tprefetch":
            self._tprefetch(execution)
        elif execution.instruction.name in ("tstore", "tstore_fp"):
            self._tstore(execution)
        elif execution.instruction.name == "mgather":
            self._mgather(execution)
        elif execution.instruction.name == "mscatter":
            self._mscatter(execution)
        else:
            return self._compute(execution)
        return {}

    def _key(self, name: str) -> str:
        """A cell name; functions and sections may use one tile name for different tiles."""
        self._names[name] += 1
        count = self._names[name]
        own = f"{self.core}%{name}"
        return own if count == 1 else f"{own}#{count}"

    def _own(self, key: str, type: TileType) -> Slot:
        cell = Cell(key, type, 0, type.bytes, type.dtype.word_bits)
        return self._touch(Slot(cell))

    def _touch(self, slot: Slot) -> Slot:
        if self._scratch:
            self.temporaries.add(slot.cell.key)
        self._layout[slot.cell.key] = slot.cell
        self.touch(slot.cell.key)
        return slot

    def touch(self, key: str) -> None:
        """Give a cell its first contents, unless it has some."""
        if key not in self.cells:
            self.cells[key] = storage.initial(self._layout[key], self.semantics.profile)

    def set_cell(self, key: str, words: Array) -> None:
        self.cells[key] = words
        self.values.pop(key, None)

    def _lanes(self, ref: TileRef) -> Lanes:
        slot = ref.storage
        carried = isinstance(slot, Slot) and ref.type.dtype == F32 and storage.sees_logical(slot, ref.type)
        value = self.values.get(slot.cell.key) if carried and isinstance(slot, Slot) else None
        return Lanes(self.words(ref), _traced(ref.v_row), _traced(ref.v_col), value)

    def _write(self, ref: TileRef, words: Array, value: Array | None = None) -> None:
        if isinstance(ref.storage, Window):
            whole = self.words(ref.storage.tile)
            self._write(ref.storage.tile, lax.dynamic_update_slice(whole, words, ref.storage.starts()))
            return
        assert isinstance(ref.storage, Slot)
        cell = ref.storage.cell
        storage.store(self.cells, ref.storage, ref.type, words)
        self.values.pop(cell.key, None)
        if value is not None and storage.sees_logical(ref.storage, ref.type):
            self.values[cell.key] = value

    def _tload(self, e: Execution) -> None:
        ref, view = e.tile("dst"), e.operands["src"]
        assert isinstance(view, View)
        lanes, buffer = self._lanes(ref), self.buffers[view.buffer]
        self._in_bounds(e, "dst", lanes, view, buffer)
        self._write(ref, memory.tload(self.context(e), lanes, view, buffer))

    def _tprefetch(self, e: Execution) -> None:
        ref, view = e.tile("dst"), e.operands["src"]
        assert isinstance(view, View)
        if self.semantics.profile.name == "cpu_sim":
            context, lanes = self.context(e), self._lanes(ref)
            self._write(ref, memory.tprefetch(context, lanes, view, self.buffers[view.buffer]))

    def _tstore(self, e: Execution) -> None:
        ref, view = e.tile("src"), e.operands["dst"]
        assert isinstance(view, View)
        old, context = self.buffers[view.buffer], self.context(e)
        self._in_bounds(e, "src", self._lanes(ref), view, old)
        self.buffers[view.buffer] = memory.tstore(context, self.inputs(e, context), view, old)

    def _mgather(self, e: Execution) -> None:
        view, context = e.operands["src"], self.context(e)
        assert isinstance(view, View)
        inputs, buffer = self.inputs(e, context), self.buffers[view.buffer]
        at = memory_indexed.places(context, inputs, view, "dst", self._picked(e, "dst"))
        self._in_buffer(e, at, buffer)
        self._write(e.tile("dst"), memory_indexed.mgather(context, inputs, at, buffer))

    def _mscatter(self, e: Execution) -> None:
        view, context, pick = e.operands["dst"], self.context(e), self._picked(e, "src")
        assert isinstance(view, View)
        inputs, buffer = self.inputs(e, context), self.buffers[view.buffer]
        at = memory_indexed.places(context, inputs, view, "src", pick)
        self._in_buffer(e, at, buffer)
        self.buffers[view.buffer] = memory_indexed.mscatter(context, inputs, at, pick, buffer)

    def _picked(self, e: Execution, data: str) -> Coalesce:
        return coalescing(e.attrs, self.semantics.profile.name, e.tile("indexes").type, e.tile(data).type)

    def _in_buffer(self, e: Execution, at: memory_indexed.Places, buffer: Array) -> None:
        if self.checks:
            self._check(e)
            allowed = f"elements inside the buffer ({buffer.shape[0]} elements)"
            self.violations.append(Violation(e.op, "in-bounds", allowed, at.outside(buffer)))

    def _in_bounds(self, e: Execution, tile: str, lanes: Lanes, view: View, buffer: Array) -> None:
        if self.checks:
            context = self.context(e)
            window = memory.window_of(context, view, tile)
            broken = memory.leaves_buffer(context.tile(tile), lanes, window, buffer)
            allowed = f"transfers inside the window and the buffer ({buffer.shape[0]} elements)"
            self.violations.append(Violation(e.op, "in-bounds", allowed, jnp.asarray(broken, bool)))

    def _compute(self, e: Execution) -> dict[str, Array]:
        if e.instruction.name not in RULES:
            raise NotExecutableError(
                Diagnostic("error", "is not executed by this version", e.op.span, e.instruction.name)
            )
        context = self.context(e)
        if self.checks:
            self._check(e)
        results = jitted(context)(self.inputs(e, context))
        for name, words in results.items():
            if name not in e.vectors and not name.startswith(VALUE):
                self._write(e.tile(name), words, results.get(VALUE + name))
        return {n: arrays.from_words(results[n], t.dtype.numpy) for n, t in e.vectors.items()}

    def inputs(self, e: Execution, context: Context) -> Inputs:
        """Lanes of the tiles and words of the scalars an instruction is given."""
        inputs: dict[str, Lanes | Array] = {}
        for name, operand in e.operands.items():
            if e.instruction.operand(name).role == "tmp" or isinstance(operand, View | Pointer):
                continue
            if isinstance(operand, TileRef):
                inputs[name] = self._lanes(operand)
            else:
                inputs[name] = scalars.to_word(operand, context.dtype(name))
        return inputs

    def _check(self, e: Execution) -> None:
        for rule, allowed, broken in region_rules(e, self.semantics.profile.name):
            self.violations.append(Violation(e.op, rule, allowed, jnp.asarray(broken, bool)))

    def context(self, e: Execution) -> Context:
        types: list[tuple[str, TileType | ScalarType]] = []
        for name, operand in e.operands.items():
            declared = e.instruction.operand(name)
            if isinstance(operand, TileRef):
                types.append((name, operand.type.with_valid(_static(operand.v_row), _static(operand.v_col))))
            elif not isinstance(operand, View | Pointer):
                types.append((name, ScalarType(scalar_dtype(e, declared))))
        return Context(
            e.instruction.name,
            tuple(types),
            tuple(sorted(e.attrs.items(), key=lambda kv: kv[0])),
            e.form,
            self.semantics,
            frozenset(_covered(e)),
            self.whole,
        )


def scalar_dtype(e: Execution, operand: Operand) -> DType:
    """Element type of a scalar operand: as the text gives it."""
    value = dict(zip(e.form, e.op.ins, strict=False)).get(operand.name)
    if value is not None and isinstance(value.type, ScalarType):
        return value.type.dtype
    reference = next(n for n in ("src", "src0", "base", "dst") if n in e.operands)
    return e.tile(reference).type.dtype


def region_rules(e: Execution, profile: ProfileName) -> list[tuple[str, str, Array | bool]]:
    """Run-time rules on valid regions: (rule, what is allowed, broken?)."""
    tiles = {n: ref for n, ref in e.operands.items() if isinstance(ref, TileRef)}
    sizes = {n: (ref.v_row, ref.v_col) for n, ref in tiles.items()}
    types = {n: ref.type for n, ref in tiles.items()}
    return [
        (c.rule, c.allowed, c.region.broken(sizes, types))
        for c in e.instruction.constraints
        if c.severity == "error" and profile in c.profiles and c.region is not None
        if c.region.applies(sizes)
    ]


def _whole(op: Op, ref: TileRef) -> None:
    if isinstance(ref.storage, Window):
        message = "found an element of a window; allowed: of a whole tile"
        raise NotExecutableError(Diagnostic("error", message, op.span, op.name, rule="window"))


def _static(size: Scalar) -> int | None:
    return int(size) if isinstance(size, int | np.integer) else None


def _traced(size: Scalar) -> Array | None:
    if isinstance(size, int | np.integer):
        return None
    limits = np.iinfo(np.int32)
    return lax.convert_element_type(jnp.clip(size, -1, limits.max), np.int32)


def _contains(outer: Scalar, extent: int, inner: Scalar) -> bool:
    if outer is inner:
        return True
    if not isinstance(outer, int):
        return False
    return outer >= extent or (isinstance(inner, int) and outer >= inner)


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
        rows = _contains(ref.v_row, over.type.rows, over.v_row)
        if rows and _contains(ref.v_col, over.type.cols, over.v_col):
            names.append(name)
    return names
