"""The executor that walks all blocks of a launch at once and records the windows that each one writes.

Scalars are numbers, :class:`~.numbers.Lanes` (a number for every block, and for every iteration of the loops
around) or unknown. A condition that differs between blocks makes some lanes inactive; a loop that carries no
scalar is walked once, with an axis for its iterations. Handles and views differ where lanes took different
paths.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..interpreter import Execution, Frame, Operand, Pointer, Scalar, Scope, TileRef, View, abstract
from ..interpreter.abstract import Unknown
from ..interpreter.machine import After, Arm, Before, Body
from ..interpreter.operands import LocalPointer
from ..ir import I1, INDEX, AtomicType, DType, GlobalLayout, Op
from ..isa import find_micro
from ..isa.effects import traits_of
from ..isa.micro import MicroCall
from .numbers import (
    Flags,
    Integers,
    Lanes,
    address,
    aligned,
    choose,
    compute,
    is_integer,
    settled,
    spread,
    wrap,
)

#: Layouts in which rows and columns of a tile are the last two dimensions of a view.
_PLAIN = (None, GlobalLayout.ND, GlobalLayout.DN)


@dataclass(frozen=True)
class Whole:
    """A declared view whose place and sizes are known: the same for every block."""

    buffer: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The number of elements of the view."""
        return prod(self.shape)

    @property
    def last(self) -> int:
        """Position of the last element of the view in its buffer."""
        return self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of one transfer: their block, first element, and elements along each dimension.

    ``adds`` where it adds to what is there.
    """

    op: Op
    adds: bool
    block: Integers
    offset: Integers
    sizes: Integers


def whole_view(view: View) -> Whole | None:
    """A declared view, if all about it is known and the same for every block."""
    numbers = (view.offset, *view.shape, *view.strides)
    if not isinstance(view.buffer, str) or not all(isinstance(n, int) for n in numbers):
        return None
    return Whole(view.buffer, view.offset, tuple(view.shape), tuple(view.strides))


def differs(view: View) -> bool:
    """Whether a view is known, but another one for other blocks."""
    return all(map(is_integer, (view.offset, *view.shape, *view.strides)))


def moved(view: View, tile: TileRef, execution: Execution) -> tuple[Scalar, ...] | None:
    """The elements of a window that a transfer of a tile's valid region moves, along each dimension."""
    rows, cols, shape = tile.v_row, tile.v_col, view.shape
    given = execution.attrs.get("layout")
    layout = given if isinstance(given, GlobalLayout) else view.layout
    if not all(map(is_integer, (rows, cols, *shape))) or len(shape) < 2:
        return None
    *lead, height, width = shape
    if layout in _PLAIN and tile.type.conv is None and all(isinstance(n, int) and n == 1 for n in lead):
        return (*lead, _smaller(height, rows), _smaller(width, cols))
    # In other layouts the valid region is known to be the whole window, or nothing.
    lanes, total = _times((rows, cols)), _times(shape)
    full = compute("arith.cmpi.sge", (lanes, total), INDEX, I1)
    empty = compute("arith.cmpi.sle", (lanes, 0), INDEX, I1)
    if compute("arith.ori", (full, empty), I1, I1) is not True:
        return None
    return tuple(choose(empty, 0, n) for n in shape)


def ranked(sizes: tuple[Scalar, ...], rank: int) -> tuple[Scalar, ...] | None:
    """Sizes in the dimensions of a view of another rank, counted from the last; None if some have no place.

    >>> ranked((1, 64), 1), ranked((16, 64), 3), ranked((2, 64), 1)
    ((64,), (1, 16, 64), None)
    """
    extra = len(sizes) - rank
    if not all(isinstance(n, int) and n == 1 for n in sizes[: max(0, extra)]):
        return None
    return (1,) * -extra + sizes[max(0, extra) :]


def _smaller(a: Scalar, b: Scalar) -> Scalar:
    return compute("arith.minsi", (a, b), INDEX, INDEX)


def _times(factors: Sequence[Scalar]) -> Scalar:
    product: Scalar = 1
    for n in factors:
        product = compute("arith.muli", (product, n), INDEX, INDEX)
    return product


def merged(condition: Scalar, yes: Operand, no: Operand) -> Operand:
    """What a name stands for after two arms, or after a trip that not every lane took."""
    if yes is no:
        return yes
    if isinstance(yes, View | Pointer | TileRef) and type(yes) is type(no):
        parts = {f.name: _part(condition, getattr(yes, f.name), getattr(no, f.name)) for f in fields(yes)}
        if isinstance(yes, View) and isinstance(no, View) and yes.root != no.root:
            parts["buffer"] = None  # a window of one view or of another
        return replace(yes, **parts)
    if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
        return tuple(merged(condition, a, b) for a, b in zip(yes, no, strict=True))
    return choose(condition, yes, no)


def _part(condition: Scalar, yes: Any, no: Any) -> Any:
    """A field of a handle or view; None where it is not one thing."""
    if isinstance(yes, int | Lanes | Unknown | tuple):
        return merged(condition, yes, no)
    return yes if yes == no else None


def unsettled(operand: Operand) -> Operand:
    """What a loop carries of which nobody knows how often it runs."""
    if isinstance(operand, tuple):
        return tuple(map(unsettled, operand))
    if isinstance(operand, View):
        return replace(operand, offset=Unknown(), shape=tuple(Unknown() for _ in operand.shape))
    if isinstance(operand, Pointer):
        return replace(operand, offset=Unknown())
    if isinstance(operand, TileRef):
        return replace(operand, v_row=Unknown(), v_col=Unknown())
    return operand if operand is None else Unknown()


T = TypeVar("T")

#: Operations, elements of lanes, and windows up to which a program is followed.
MAX_OPERATIONS = 4_000
MAX_ELEMENTS = 1 << 23
MAX_WINDOWS = 1 << 16
#: A loop of at most this many trips is written out: its counter is a plain number.
SHORT = 2


class Unseen(Exception):
    """The program is not followed to its end: too long, or it takes a way that is not modelled."""


@dataclass(eq=False)
class Blocks(abstract.AbstractMachine):
    """Follows blocks ``0 .. lanes - 1`` and notes the windows that they write.

    ``buffers`` give the contents of those that are known and not changed. ``undecided`` are the buffers of
    which not every write is known; ``lacking`` says that a value was missing that only execution has.
    """

    lanes: int
    buffers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    active: Flags = field(init=False)
    certain: bool = True
    rank: int = 1
    size: int = field(init=False)
    asked: Op | None = None
    lacking: bool = False
    undecided: set[str] = field(default_factory=set)
    writes: dict[Whole, list[Windows]] = field(default_factory=dict)
    names: dict[Whole, str] = field(default_factory=dict)
    outside: Flags = field(init=False)
    leaves: list[tuple[int, Op, Whole]] = field(default_factory=list)
    _operations: int = MAX_OPERATIONS
    _elements: int = MAX_ELEMENTS
    _windows: int = MAX_WINDOWS

    def __post_init__(self) -> None:
        self.size = self.lanes
        self.active = np.ones(self.lanes, np.bool_)
        self.outside = np.zeros(self.lanes, np.bool_)

    # -- scalars -------------------------------------------------------------------------------------

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        """The result of an ``arith`` operation in all lanes, unknown where it is."""
        self._compute(args)
        return compute(name, args, source, result)

    def address(self, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        """``base + index * stride`` in all lanes."""
        self._compute((base, index, stride))
        return address(base, index, stride)

    def micro(self, op: Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """Transfers of bytes are not followed: the writes to a buffer are undecided."""
        operation = find_micro(op.name)
        for place in operation.places if operation is not None else ():
            pointer = operands.get(place.key)
            if place.access == "write" and isinstance(pointer, Pointer):
                self._give_up(pointer)
        return super().micro(op, call, operands)

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Scalar:
        """The elements that a pointer is at, of a buffer whose contents are known; else unknown."""
        if isinstance(pointer, LocalPointer):
            return abstract.Unknown()
        known = self.buffers.get(pointer.buffer)
        if known is None or pointer.cast or dtype.is_float or dtype.packed or not is_integer(pointer.offset):
            return abstract.Unknown()
        words = np.asarray(known()).reshape(-1)
        at = spread(pointer.offset, self.rank)
        numbers = words[np.clip(at, 0, max(0, words.size - 1))].astype(np.int64) if words.size else at
        return settled(wrap(numbers, dtype), dtype)

    def counter(self, value: int) -> Scalar:
        """The number itself."""
        return value

    def unrolls(self, op: Op, trips: int) -> bool:
        """Whether a loop is so short that it is walked trip by trip."""
        return trips <= SHORT

    def trap(self, op: Op) -> None:
        """A block that stops is none that a launch needs."""
        if self.certain:
            self.outside |= self._blocks(np.asarray(True))

    # -- control flow --------------------------------------------------------------------------------

    @contextmanager
    def _among(self, lanes: Flags | None) -> Iterator[None]:
        """Inside, only some lanes are active; None: nobody knows which."""
        active, certain = self.active, self.certain
        if lanes is None:
            self.certain = False
        else:
            self.active = aligned(active, max(active.ndim, lanes.ndim)) & lanes
        try:
            yield
        finally:
            self.active, self.certain = active, certain

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        """What the arms give, each in its lanes; unknown where no one knows the condition."""
        taken = spread(condition, self.rank) != 0 if isinstance(condition, Lanes) else None
        saved, results, changes = frame.save(), [], []
        for arm, lanes in zip(arms, (taken, None if taken is None else ~taken), strict=True):
            with self._among(lanes):
                results.append(arm())
            changes.append(frame.changed(saved))
            frame.restore(saved)
        first, second = changes
        for key in first | second:
            old = saved[key[0]][key[1]]
            frame[key] = merged(condition, first.get(key, old), second.get(key, old))
        return tuple(merged(condition, a, b) for a, b in zip(*results, strict=True))

    def _perhaps(self, frame: Frame, run: Callable[[], T]) -> T:
        """Walk a region of which nobody knows whether, and how often, it is executed."""
        saved = frame.save()
        with self._among(None):
            result = run()
        for key, new in frame.changed(saved).items():
            frame[key] = merged(abstract.Unknown(), new, saved[key[0]][key[1]])
        return result

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """What a loop carries at its end, lane by lane; unknown where no one knows the trips."""
        if not is_integer(trips):
            blurred = tuple(map(unsettled, inits))
            self._perhaps(frame, lambda: body(abstract.Unknown(), blurred))
            return blurred
        counts = spread(trips, self.rank)
        most = int(np.where(self.active, counts, 0).max(initial=0))
        if most <= 0:
            return tuple(inits)
        if not inits and self._at_once(frame, counts, most, body):
            return ()
        carried = tuple(inits)
        for trip in range(most):
            going = compute("arith.cmpi.slt", (trip, trips), INDEX, I1)
            carried = self._while(frame, going, carried, partial(body, trip))
        return carried

    def _at_once(self, frame: Frame, counts: Integers, most: int, body: Body) -> bool:
        """Walk a loop's body for all trips together.

        False, and nothing done, where a trip changes what the next one finds.
        """
        saved = frame.save()
        state = {w: len(records) for w, records in self.writes.items()}, set(self.undecided), len(self.leaves)
        flags, outside, rank, size = self.lacking, self.outside.copy(), self.rank, self.size
        trip = np.arange(most, dtype=np.int64).reshape((1,) * rank + (most,))
        self.rank, self.size = rank + 1, size * most
        self._spend(self.size)
        lanes = trip < counts.reshape(counts.shape + (1,) * (self.rank - counts.ndim))
        with self._among(lanes):
            body(settled(trip), ())
        self.rank, self.size = rank, size
        if not frame.changed(saved):
            return True
        frame.restore(saved)
        lengths, self.undecided, leaves = state
        self.writes = {w: records[: lengths[w]] for w, records in self.writes.items() if w in lengths}
        self.lacking, self.outside = flags, outside
        del self.leaves[leaves:]
        return False

    def _while(
        self, frame: Frame, going: Scalar, carried: tuple[Operand, ...], step: After
    ) -> tuple[Operand, ...]:
        """One trip of the lanes that go on; the others keep what they have."""
        saved = frame.save()
        with self._among(spread(going, self.rank) != 0):
            made = step(carried)
        for key, new in frame.changed(saved).items():
            frame[key] = merged(going, new, saved[key[0]][key[1]])
        return tuple(merged(going, a, b) for a, b in zip(made, carried, strict=True))

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        """What a while loop hands on, lane by lane; unknown where no one knows its condition."""
        carried, going = tuple(inits), True
        results: tuple[Operand, ...] | None = None
        while True:
            self._spend(1)
            with self._among(spread(going, self.rank) != 0):
                condition, passed = before(carried)
            if not is_integer(condition):
                return self._perhaps(frame, lambda: _blurred_trip(inits, before, after))
            results = passed if results is None else _latest(going, passed, results)
            going = compute("arith.andi", (going, condition), I1, I1)
            if not (self.active & (spread(going, self.rank) != 0)).any():
                return results
            carried = self._while(frame, going, passed, after)

    # -- global memory -------------------------------------------------------------------------------

    def begin(self, op: Op, scope: Scope) -> None:
        """Note operations that ask for the block's number, and blocks whose windows leave their view."""
        self._spend(1)
        traits = traits_of(op)
        if traits.launch == "block":
            self.asked = self.asked or op
        elif traits.alias is not None and traits.alias.memory == "global" and traits.alias.part == "window":
            view = scope[op.group("view")[0]]
            whole = whole_view(view) if isinstance(view, View) else None
            if whole is not None and view.root is None:
                self.names.setdefault(whole, op.group("view")[0].name)
            self._within(op, view, scope)

    def _within(self, op: Op, view: View, scope: Scope) -> None:
        """Note the blocks whose window of a view does not lie inside it."""
        written = op.attrs.get("sizes")
        sizes = list(written) if isinstance(written, tuple) else [scope[v] for v in op.group("sizes")]
        offsets = [scope[v] for v in op.group("offsets")]
        if not self.certain:
            return
        for first, size, extent in zip(offsets, sizes, view.shape, strict=False):
            if is_integer(first) and is_integer(size) and is_integer(extent):
                a, n, limit = (spread(x, self.rank) for x in (first, size, extent))
                self.outside |= self._blocks((a < 0) | (n < 0) | (n > limit) | (a > limit - n))

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Single elements are not followed: the writes to the buffer are undecided."""
        if isinstance(pointer, Pointer):
            self._give_up(pointer)

    def execute(self, execution: Execution) -> dict[str, None]:
        """Note the windows of views that an instruction reads and writes."""
        for operand in execution.instruction.operands:
            view = execution.operands.get(operand.name)
            if isinstance(view, View | Pointer) and self.active.any():
                uses = [e for e in execution.instruction.traits.effects if e.operand == operand.name]
                changes = [e for e in uses if e.access != "read"]
                windowed = all(e.access == "write" and not e.indexed for e in changes)
                if changes and not (isinstance(view, View) and windowed):
                    self._give_up(view)
                elif isinstance(view, View):
                    self._transfer(execution, view, bool(changes))
        return super().execute(execution)

    def _give_up(self, place: View | Pointer) -> None:
        if not isinstance(place.buffer, str):
            raise Unseen
        self.undecided.add(place.buffer)

    def _transfer(self, execution: Execution, view: View, writes: bool) -> None:
        if not isinstance(view.buffer, str):
            raise Unseen
        tile = next((o for o in execution.operands.values() if isinstance(o, TileRef)), None)
        whole = whole_view(view.root or view)
        sizes = moved(view, tile, execution) if tile is not None else None
        if sizes is not None and whole is not None:
            sizes = ranked(sizes, len(whole.shape))
        if sizes is None or whole is None or not is_integer(view.offset) or not self.certain:
            if writes:
                self.lacking |= whole is not None or not differs(view.root or view)
                self.undecided.add(view.buffer)
            return
        if view.root is None and execution.op.outs:
            self.names.setdefault(whole, execution.op.outs[0].name)
        windows = self._windows_of(execution, view, sizes)
        self._leave(windows, whole)
        if writes:
            self.writes.setdefault(whole, []).append(windows)

    def _windows_of(self, execution: Execution, view: View, sizes: Sequence[Scalar]) -> Windows:
        parts = [spread(x, self.rank) for x in (view.offset, *sizes)]
        block = np.arange(self.lanes).reshape((self.lanes,) + (1,) * (self.rank - 1))
        active = aligned(self.active, self.rank)
        live: Any = active
        for size in parts[1:]:
            live = live & (size > 0)
        block, live, *parts = np.broadcast_arrays(block, live, *parts)
        chosen = live.reshape(-1)
        self._spend(chosen.size * len(parts))
        self._windows -= int(chosen.sum())
        if self._windows < 0:
            raise Unseen
        offset, *extents = (p.reshape(-1)[chosen] for p in parts)
        stacked = np.stack(extents, -1) if extents else np.zeros((offset.size, 0), np.int64)
        adds = execution.attrs.get("atomicType") == AtomicType.ATOMIC_ADD
        return Windows(execution.op, adds, block.reshape(-1)[chosen], offset, stacked)

    def _leave(self, windows: Windows, whole: Whole) -> None:
        """Note the first block whose transfer begins before a view or ends behind it."""
        strides = np.array(whole.strides, np.int64)
        if (strides < 0).any() or not whole.elements:
            return
        last = windows.offset + ((windows.sizes - 1) * strides).sum(-1)
        beyond = (windows.offset < whole.offset) | (last > whole.last)
        if beyond.any():
            self.outside[windows.block[beyond]] = True
            self.leaves.append((int(windows.block[beyond].min()), windows.op, whole))

    def _blocks(self, lanes: Flags) -> Flags:
        """The blocks with an active lane among some."""
        hit = aligned(self.active, self.rank) & lanes
        return np.asarray(hit.reshape(self.lanes, -1).any(-1))

    def _compute(self, args: Sequence[Scalar]) -> None:
        """Pay for lanes that an operation computes; never more than all there are."""
        self._spend(self.size if any(isinstance(a, Lanes) for a in args) else 1)

    def _spend(self, elements: int) -> None:
        self._operations -= 1
        self._elements -= elements
        if self._operations < 0 or self._elements < 0:
            raise Unseen


def _blurred_trip(inits: Sequence[Operand], before: Before, after: After) -> tuple[Operand, ...]:
    passed = before(tuple(map(unsettled, inits)))[1]
    after(passed)
    return tuple(map(unsettled, passed))


def _latest(going: Scalar, new: Sequence[Operand], old: Sequence[Operand]) -> tuple[Operand, ...]:
    return tuple(merged(going, a, b) for a, b in zip(new, old, strict=True))
