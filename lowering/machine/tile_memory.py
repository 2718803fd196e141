"""On-chip memory and global buffers of a running program, as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from pto_jax.errors import ExecutionError, NotExecutableError
from pto_jax.interpreter import Choice, Scalar, TileRef, View, with_storage
from pto_jax.ir import F32, U64, DType, Op, TileType, Value
from pto_jax.isa.rules.handles import ALIGNMENT
from pto_jax.profiles import ProfileName

from ..bits import from_words, moves_intact, nibbles
from ..rules import Lanes, Row, Semantics
from ..slicing import slice_at
from . import block_numbers, storage
from .addresses import wide
from .affine import Unproven
from .storage import Carried, Cell, Plan, Slot, Window

if TYPE_CHECKING:
    from jaxtyping import Bool, Int64, UInt

    from ..bits import Elements, Flat, Leaf, Size, Values, Words
    from .planning import Key
    from .ranges import Range

#: Name of the operation that stands for the blocks of a launch.
BLOCK = "block"
#: Trips after which a while loop is stopped, unless told otherwise.
MAX_STEPS = 1_000_000
#: The run-time rules on what is accessed, which lose data where they are broken: elements of buffers and
#: tiles, windows of views and tiles, addresses, slots, valid regions.
ACCESS_RULES = frozenset(
    ("in-bounds", "offset-range", "window", "window-boxes", "address", "address-aligned", "slot", "region")
)


@dataclass(frozen=True)
class Site:
    """Where a run-time rule is followed: all of a :class:`Violation` that is not data."""

    op: Op
    rule: str
    allowed: str
    found: str
    count: int

    def filled(self, data: Iterator[Leaf]) -> Violation:
        """The violation with these data."""
        broken = next(data)
        values = tuple(next(data) for _ in range(self.count))
        return Violation(self.op, self.rule, self.allowed, broken, self.found, values)

    def unbroken(self) -> Violation:
        """The violation whose flag is false and whose numbers are zero: the rule is kept."""
        return self.filled(iter([jnp.zeros((), bool), *[jnp.zeros((), np.int64)] * self.count]))


def as_number(n: Scalar) -> Int64[Array, ""]:
    """A number that a message shows."""
    return lax.convert_element_type(jnp.asarray(wide(n)), np.int64)


@dataclass(frozen=True)
class Violation:
    """A run-time rule of one instruction, and whether this execution broke it (a traced flag).

    ``found`` is a format of what was found, ``values`` are the int64 numbers in it, of the first time.
    """

    op: Op
    rule: str
    allowed: str
    broken: Bool[Array, "..."]
    found: str = ""
    values: tuple[Int64[Array, "..."], ...] = ()

    @property
    def site(self) -> Site:
        """The static part: operation, rule, and the texts of its message."""
        return Site(self.op, self.rule, self.allowed, self.found, len(self.values))

    @property
    def data(self) -> list[Leaf]:
        """The arrays: the flag, then the numbers of the message."""
        return [self.broken, *self.values]

    def of_batch(self) -> Violation:
        """Whether a rule was broken anywhere along the leading axis, with the values of the first place."""
        first = lax.argmax(self.broken, 0, np.int32)
        values = tuple(slice_at(n, (first,), (1,)).reshape(()) for n in self.values)
        return replace(self, broken=self.broken.any(), values=values)

    def after(self, earlier: Violation) -> Violation:
        """Whether a rule was ever broken, with the values of the first time."""
        pairs = zip(earlier.values, self.values, strict=True)
        # For every rule of every loop; the operators of arrays take several times as long to trace.
        values = tuple(lax.select(earlier.broken, old, new) for old, new in pairs)
        return replace(self, broken=lax.bitwise_or(earlier.broken, self.broken), values=values)


@dataclass(frozen=True)
class Written:
    """What a freshly written tile has besides its words, as in :class:`~..rules.Lanes`.

    With ``inside`` it is of the region of these ``sizes``.
    """

    sizes: tuple[Scalar, Scalar]
    value: Values | None
    inside: Words | None


def contains(sizes: tuple[Scalar, Scalar], ref: TileRef) -> bool:
    """Whether a region of so many rows and columns is known to contain a tile's valid region."""

    def is_certain(outer: Scalar, extent: int, inner: Scalar) -> bool:
        if outer is inner:
            return True
        if not isinstance(outer, int):
            return False
        return outer >= extent or (isinstance(inner, int) and outer >= inner)

    return all(map(is_certain, sizes, ref.type.shape, (ref.v_row, ref.v_col)))


@dataclass
class TileMemory:
    """Where tiles and buffers are, and the run-time rules that were broken.

    All state is in ``cells`` and ``buffers``. ``written`` has more of freshly written tiles than their
    words, ``rows`` what gives the words of tiles of one row, with those that were read. ``constants`` are
    buffers that nothing writes, besides their words: a loop that reads words of an argument has a copy of
    it. ``offsets`` tells of transfers, by buffer, where their windows begin, ``independent`` which
    instructions write nothing of a buffer that the program reads. ``dtypes`` are the element types of
    buffers, ``writable`` names those that the program writes. ``temporaries`` are the cells of results that
    no allocation names, ``of_block`` those that end with a block of a launch; ``axes`` the mesh axes that
    arguments vary over; ``core`` is the core whose memory is meant; ``checks`` records run-time rules,
    ``rules`` names those of them that count (all by default), ``max_steps`` bounds while loops. ``whole``
    says that the program is traced as a whole, ``region_traces`` what earlier traces of the regions of an
    operation have shown, by core, operation and how often the operation is around them; ``traced`` names
    the operations that are. ``numbers`` are scalars that the number of a block gives, where blocks are
    executed side by side. ``passed`` are buffers that have a copy of their own, besides the words that were
    passed for them.
    """

    semantics: Semantics
    plan: Plan
    buffers: dict[str, Flat]
    cells: dict[str, UInt[Array, "..."]] = field(default_factory=dict)
    written: dict[str, Written] = field(default_factory=dict)
    rows: dict[str, tuple[Row, Words | None]] = field(default_factory=dict)
    constants: dict[str, Elements] = field(default_factory=dict)
    passed: dict[str, tuple[Flat, Flat]] = field(default_factory=dict)
    offsets: Mapping[tuple[Key, str], Range] = field(default_factory=dict)
    independent: frozenset[tuple[Key, str]] = frozenset()
    spans: Mapping[tuple[Key, str], Any] = field(default_factory=dict)
    packed: dict[str, bool] = field(default_factory=dict)
    dtypes: dict[str, DType] = field(default_factory=dict)
    writable: list[str] = field(default_factory=list)
    temporaries: set[str] = field(default_factory=set)
    of_block: set[str] = field(default_factory=set)
    violations: list[Violation] = field(default_factory=list)
    checks: bool = False
    rules: frozenset[str] | None = None
    whole: bool = False
    max_steps: int = MAX_STEPS
    axes: frozenset[str] = frozenset()
    core: str = ""
    region_traces: dict[tuple[str, int, int], Any] = field(default_factory=dict)
    traced: list[int] = field(default_factory=list)
    numbers: block_numbers.BlockNumbers = field(default_factory=block_numbers.BlockNumbers)
    #: What follows the trips of a loop that are executed at once (:mod:`.together`).
    together: Any = None
    #: Operations of loops that are written out.
    written_out: int = 0
    _layout: dict[str, Cell] = field(default_factory=dict)
    _in_block: bool = False
    _own_keys: dict[tuple[str, int], str] = field(default_factory=dict)
    _names: Counter[str] = field(default_factory=Counter)

    def bind_buffer(self, name: str, dtype: DType, words: Flat, constant: bool = False) -> None:
        """Make an argument's flat words a global-memory buffer, one element per word.

        ``constant`` tells that nothing writes it.
        """
        if not constant:
            self.writable.append(name)
        self.packed[name] = dtype.packed
        self.dtypes[name] = dtype
        if constant and self.whole and moves_intact(dtype):
            self.constants[name] = from_words(words, dtype.numpy)
        if dtype.packed:
            words = nibbles(words)
        self.buffers[name] = words

    def region(self, op: Op, ref: TileRef, operand: str = "") -> None:
        """Check that a handle's valid sizes are within its shape: the run-time rule ``region``.

        Raises ExecutionError where they are known not to be.
        """
        extents = ref.type.shape
        whose = f" of {operand}" if operand else ""
        allowed = f"a valid region within {extents[0]}x{extents[1]}{whose}"
        sizes = (ref.v_row, ref.v_col)
        broken: Scalar = False
        for size, extent in zip(sizes, extents, strict=True):
            outside = _is_outside(size, extent)
            broken = outside if broken is False else broken | outside
        if broken is True:
            raise _broken(op, "region", allowed, f"{sizes[0]}x{sizes[1]}")
        self.require(op, "region", allowed, broken, "{}x{}", sizes)

    def require(
        self, op: Op, rule: str, allowed: str, broken: Scalar, found: str = "", values: Sequence[Scalar] = ()
    ) -> None:
        """Record a run-time rule, if they are followed; eagerly, a broken one is an error at once."""
        if broken is False or not self.follows(rule):
            return
        if broken is True and not self.whole:
            raise _broken(op, rule, allowed, found.format(*values) if found else "another")
        numbers = tuple(map(as_number, values))
        self.violations.append(Violation(op, rule, allowed, jnp.asarray(broken, bool), found, numbers))

    def follows(self, rule: str) -> bool:
        """Whether a run-time rule is followed."""
        return self.checks and (self.rules is None or rule in self.rules)

    def stop(self, op: Op, rule: str, allowed: str, stopped: Bool[Array, ""]) -> None:
        """Note that execution ended early, whether or not run-time rules are checked."""
        self.violations.append(Violation(op, rule, allowed, stopped))

    def one_by_one(self) -> None:
        """Called for what only trips that are executed one by one may do."""
        if self.together is not None:
            raise Unproven

    def known(self, value: Scalar) -> int | None:
        """The number of a Python or NumPy integer or of an array that is not traced, else None."""
        if isinstance(value, Array) and not isinstance(value, Tracer):
            return int(value)
        return int(value) if isinstance(value, int | np.integer) else None

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Slot:
        """Storage of an ``alloc_tile``: its own cell, or the one that the plan has at the byte address."""
        if address is None:
            place = (self.core, id(op))
            key = self._own_keys.get(place) or self._key(op.results[0].name)
            return self._own(self._own_keys.setdefault(place, key), type)
        return self._placed(op, type, address)

    @property
    def profile_name(self) -> ProfileName:
        """The profile by whose rules pipes and flags between cores work."""
        return self.semantics.profile.name

    def fresh(self, op: Op, result: Value, type: TileType) -> Slot:
        """A new cell for a result that no allocation names."""
        slot = self._own(self._key(result.name), type)
        self.temporaries.add(slot.cell.key)
        return slot

    def temporary(self, type: TileType, words: Words, name: str = "carried") -> Slot:
        """Storage of a value that control flow or a pipe handed on."""
        slot = self._own(self._key(name), type)
        self.temporaries.add(slot.cell.key)
        self.cells[slot.cell.key] = words
        return slot

    def rebind(self, op: Op, ref: TileRef, type: TileType, address: Scalar) -> Slot:
        """Storage at a byte address of the type's memory space."""
        return self._placed(op, type, address)

    def _placed(self, op: Op, type: TileType, address: Scalar) -> Slot:
        """Storage at an address; one that only execution knows must be in the memory and aligned."""
        slot = self.plan.slot(type, address)
        if self.core:
            slot = replace(slot, cell=replace(slot.cell, key=f"{self.core}/{slot.cell.key}"))
        if not isinstance(address, int):
            last = slot.cell.end - type.bytes
            broken = (address < 0) | (address > last) | (address % ALIGNMENT != 0)
            allowed = f"a multiple of {ALIGNMENT} in [0, {last}]"
            self.require(op, "address", allowed, broken, "address {}", (address,))
        return self._touch(slot)

    def placed_slot(self, placement: storage.Placement, address: Scalar, core: str) -> Slot:
        """The slot at an address among bytes of a core that the plan has a cell for."""
        slot = self.plan.slot(placement.type, placement.address)
        key = f"{core}/{slot.cell.key}" if core else slot.cell.key
        return self._touch(replace(slot, cell=replace(slot.cell, key=key), address=address))

    def special(self) -> Slot:
        """Storage of the special registers of the vector core."""
        registers = TileType(U64, 1, 6)
        cell = Cell(f"{self.core}%special", registers, 0, registers.bytes, U64.word_bits, cleared=True)
        return self._touch(Slot(cell))

    def adopt(self, name: str, type: TileType, words: Words) -> Slot:
        """Storage of a tile that is an argument."""
        slot = self._own(self._key(name), type)
        self.cells[slot.cell.key] = words
        return slot

    def blank(self, name: str, type: TileType) -> Slot:
        """Storage of a tile argument that was left out: a fresh tile."""
        return self._own(self._key(name), type)

    def alias(self, op: Op, ref: TileRef, type: TileType) -> Slot | Window:
        """The tile's own storage; NotExecutableError for a window that the type would order differently."""
        if isinstance(ref.storage, Window) and not storage.seen_alike(ref.type, type):
            raise _pitched(op)
        assert isinstance(ref.storage, Slot | Window)
        return ref.storage

    def offset(self, op: Op, ref: TileRef, type: TileType, elements: Scalar) -> Slot:
        """Storage that begins ``elements`` elements into the tile; NotExecutableError for a window."""
        if not isinstance(ref.storage, Slot):
            raise _pitched(op)
        width = ref.type.dtype.storage_bits
        if not isinstance(elements, int):
            elements = lax.clamp(np.int64(-storage.FAR), elements, np.int64(storage.FAR))
        address = ref.storage.address + elements * width // 8
        return replace(ref.storage, address=address, step=min(ref.storage.step, max(width, 8)))

    def window(self, op: Op, ref: TileRef, type: TileType, row: Scalar, col: Scalar) -> Window:
        """The part of a tile from (row, col) on."""
        limit, width = ref.type.shape
        return Window(replace(ref, v_row=limit, v_col=width), row, col)

    def window_of(self, ref: TileRef) -> tuple[TileRef, Scalar, Scalar] | None:
        """The tile, the row and the column that a window begins at; None for other handles."""
        return (ref.storage.tile, *ref.storage.starts) if isinstance(ref.storage, Window) else None

    def contents(self, ref: TileRef) -> Words:
        """The words of a whole tile, [rows, cols]."""
        return self.words(ref)

    def receive(self, op: Op, name: str, type: TileType, contents: Words) -> Slot:
        """New storage that holds the words [rows, cols]."""
        return self.temporary(type, contents, name)

    def concatenate(self, parts: Sequence[UInt[Array, "_ _"]], axis: int) -> UInt[Array, "_ _"]:
        """Word arrays joined along an axis."""
        return jnp.concatenate(parts, axis)

    def splice(
        self, first: UInt[Array, "_ _"], second: UInt[Array, "_ _"], axis: int, at: Scalar
    ) -> UInt[Array, "_ _"]:
        """What is before a position of two arrays, and then the rest of both."""
        if not isinstance(at, Array):
            ranges = slice(0, int(at)), slice(int(at), None)
            parts = [a[r] if axis == 0 else a[:, r] for r in ranges for a in (first, second)]
            return jnp.concatenate(parts, axis)
        size = first.shape[axis]
        start = lax.convert_element_type(at, np.int32)
        place = lax.iota(np.int32, size + second.shape[axis])
        behind = jnp.where(place < start + size, place - start, place)
        source = jnp.where(place < start, place, jnp.where(place < 2 * start, place + (size - start), behind))
        return jnp.take(jnp.concatenate([first, second], axis), source, axis, mode="clip")

    def copy(self, op: Op, dst: View, src: View) -> bool:
        """It is loaded and stored: False."""
        return False

    @property
    def core_name(self) -> str:
        """What people call the core whose memory is meant."""
        return self.core

    def enter(self, core: str) -> None:
        """Turn to the local memory of a core."""
        self.core = core

    def leave(self) -> None:
        """Nothing ends with a kernel."""

    def new_block(self) -> None:
        """Empty the local memory: a block of a launch begins."""
        self.cells.clear()
        self.written.clear()
        self.rows.clear()
        self._in_block = True

    def ending_with(self, op: Op) -> set[str]:
        """The cells that nothing reads after the regions of an operation that made them."""
        return self.temporaries | self.of_block if op.name == BLOCK else self.temporaries

    def words(self, ref: TileRef) -> Words:
        """The words of a tile, [rows, cols], wherever they are."""
        self.one_by_one()
        if isinstance(ref.storage, Choice):
            choices = [self.words(with_storage(ref, option)) for option in ref.storage.options]
            result = choices[0]
            for i, words in enumerate(choices[1:], 1):
                result = jnp.where(ref.storage.index == i, words, result)
            return result
        if isinstance(ref.storage, Carried):
            return ref.storage.words
        if isinstance(ref.storage, Window):
            return ref.storage.take(self._around(ref.storage, ref.type), ref.type)
        assert isinstance(ref.storage, Slot)
        return storage.load(self.cells, ref.storage, ref.type)

    def _around(self, window: Window, t: TileType) -> Words:
        """The words of the tile that a window of a type is in; of one row, those up to the window's end."""
        key, place = self._seen_as_it_is(window.tile), window.starts
        row, words = self.rows.get(key or "", (None, None))
        if row is None or not storage.is_inside(place, t.shape, window.tile.type.shape):
            return self.words(window.tile)
        end = int(place[1]) + t.cols
        if words is None or words.shape[1] < end:
            words = jnp.where(row.certain, row.first(end), self.words(window.tile)[:, :end])
            self.rows[key or ""] = row, words
        return words

    def _seen_as_it_is(self, ref: TileRef) -> str | None:
        """The cell that a tile is all of, as it is carried."""
        slot = ref.storage
        return slot.cell.key if isinstance(slot, Slot) and storage.sees_logical(slot, ref.type) else None

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
        if self._in_block:
            self.of_block.add(slot.cell.key)
        self._layout[slot.cell.key] = slot.cell
        self.touch(slot.cell.key)
        return slot

    def touch(self, key: str) -> None:
        """Give a cell its first contents, unless it has some."""
        if key not in self.cells:
            self.cells[key] = storage.initial(self._layout[key], self.semantics.profile, self.whole)

    def set_cell(self, key: str, words: UInt[Array, "..."]) -> None:
        """Replace a cell's words; values known besides the old ones are dropped."""
        self.one_by_one()
        self.cells[key] = words
        self._forget(key)

    def _forget(self, key: str) -> None:
        self.written.pop(key, None)
        self.rows.pop(key, None)

    def lanes(self, ref: TileRef, shape: tuple[int, int] | None = None) -> Lanes:
        """Words, valid sizes, and what is known besides the words, of a tile or of its first lanes."""
        key, shape = self._seen_as_it_is(ref) or "", shape or ref.type.shape
        written = self.written.get(key)
        if written is None or (written.inside is not None and not contains(written.sizes, ref)):
            written = Written((0, 0), None, None)
        value = written.value if ref.type.dtype == F32 else None
        row = self.rows.get(key, (None, None))[0]
        words, value, inside = (_first_lanes(x, shape) for x in (self.words(ref), value, written.inside))
        assert words is not None
        return Lanes(words, _traced(ref.v_row), _traced(ref.v_col), value, row, inside)

    def write(
        self,
        ref: TileRef,
        words: Words,
        value: Values | None = None,
        row: Row | None = None,
        inside: Words | None = None,
    ) -> None:
        """Replace the words [rows, cols] of a tile; the rest as in :class:`~..rules.Result`.

        They may be the first rows and columns alone, outside of which nothing is valid.
        """
        self.one_by_one()
        if words.shape != ref.type.shape:
            inside = words if inside is None else inside
            words = _with_first_lanes(self.words(ref), words)
        if isinstance(ref.storage, Window):
            whole = self.words(ref.storage.tile)
            self.write(ref.storage.tile, ref.storage.put(whole, words))
            return
        assert isinstance(ref.storage, Slot)
        cell = ref.storage.cell
        storage.store(self.cells, ref.storage, ref.type, words)
        self._forget(cell.key)
        if storage.sees_logical(ref.storage, ref.type):
            if value is not None or inside is not None:
                self.written[cell.key] = Written((ref.v_row, ref.v_col), value, inside)
            if row is not None:
                self.rows[cell.key] = row, None


@dataclass(frozen=True)
class Snapshot:
    """A machine's arrays at one moment."""

    cells: dict[str, UInt[Array, "..."]]
    buffers: dict[str, UInt[Array, "..."]]
    written: dict[str, Written]
    rows: dict[str, tuple[Row, Words | None]]

    @classmethod
    def of(cls, machine: TileMemory) -> Snapshot:
        """The arrays a machine has now."""
        return cls(dict(machine.cells), dict(machine.buffers), dict(machine.written), dict(machine.rows))

    def restore(self, machine: TileMemory) -> None:
        """Make the arrays those of the machine."""
        machine.cells.clear()
        machine.cells.update(self.cells)
        machine.buffers.clear()
        machine.buffers.update(self.buffers)
        machine.written.clear()
        machine.written.update(self.written)
        machine.rows.clear()
        machine.rows.update(self.rows)


def _first_lanes(x: Array | None, shape: tuple[int, int]) -> Array | None:
    """The first rows and columns of an array; None where it has fewer."""
    if x is None or x.shape == shape:
        return x
    return None if x.shape[0] < shape[0] or x.shape[1] < shape[1] else lax.slice(x, (0, 0), shape)


def _with_first_lanes(whole: Words, words: UInt[Array, "_ _"]) -> Words:
    # No update, which XLA may write in place while it computes the words from others of the whole.
    margins = [(0, n - m, 0) for n, m in zip(whole.shape, words.shape, strict=True)]
    axes = [axis for axis, margin in enumerate(margins) if margin[1]]
    places = (lax.broadcasted_iota(np.int32, whole.shape, axis) < words.shape[axis] for axis in axes)
    return lax.select(reduce(lax.bitwise_and, places), lax.pad(words, words.dtype.type(0), margins), whole)


def _broken(op: Op, rule: str, allowed: str, found: str) -> ExecutionError:
    message = f"got {found}; allowed: {allowed}"
    return ExecutionError(op.error(rule, message))


def _pitched(op: Op) -> NotExecutableError:
    message = "got an alias of a window with its own pitch; allowed: of a whole tile"
    return NotExecutableError(op.error("window", message))


def _is_outside(size: Scalar, extent: int) -> Scalar:
    """Whether a size is negative or larger than an extent."""
    if not isinstance(size, Array):
        return bool((size < 0) | (size > extent))
    size = wide(size)
    return lax.bitwise_or(lax.lt(size, np.int64(0)), lax.gt(size, np.int64(extent)))


def _traced(size: Scalar) -> Size | None:
    if isinstance(size, int | np.integer):
        return None
    limits = np.iinfo(np.int32)
    # In the type that it has: for GPUs XLA makes a launch of its own of a clamp in a wider one.
    return lax.convert_element_type(jnp.clip(size, -1, limits.max), np.int32)
