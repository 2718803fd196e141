"""A machine that computes nothing: it follows a program with the constants of its text."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from .. import ir
from ..isa.micro import MicroCall
from ..profiles import ProfileName
from .machine import After, Arm, Before, Body, RunBlock
from .operands import (
    Buffer,
    Execution,
    Frame,
    LocalPointer,
    Operand,
    Pointer,
    Register,
    Scalar,
    Scope,
    TileRef,
    View,
)
from .views import in_words, memref_view


class Unknown:
    """A scalar whose value only execution knows."""


class NoStorage:
    """What a machine does that computes no tile: nothing is stored, printed or checked."""

    max_steps: int = 0
    depth: int = 0
    checks: bool = False
    in_order: bool = False
    profile_name: ProfileName | None = None

    def begin(self, op: ir.Op, scope: Scope) -> None:
        """Nothing to prepare."""

    def region(self, op: ir.Op, ref: TileRef) -> None:
        """Not checked: valid sizes may be unknown."""

    def execute(self, execution: Execution) -> dict[str, None]:
        """Nothing is computed; every vector outside tile memory is None."""
        return dict.fromkeys(execution.vectors)

    def copy(self, op: ir.Op, dst: View, src: View) -> bool:
        """It is loaded and stored: False."""
        return False

    def enter(self, core: str) -> None:
        """Nothing to turn to: there is no local memory."""

    def leave(self) -> None:
        """Nothing ends with a kernel."""

    def new_block(self) -> None:
        """Nothing to empty: there is no local memory."""

    def alias(self, op: ir.Op, ref: TileRef, type: ir.TileType) -> Hashable:
        """No storage: None."""
        return None

    def offset(self, op: ir.Op, ref: TileRef, type: ir.TileType, elements: Scalar) -> Hashable:
        """No storage: None."""
        return None

    def window(self, op: ir.Op, ref: TileRef, type: ir.TileType, row: Scalar, col: Scalar) -> Hashable:
        """No storage: None."""
        return None

    def window_of(self, ref: TileRef) -> tuple[TileRef, Scalar, Scalar] | None:
        """No storage: None."""
        return None

    def contents(self, ref: TileRef) -> None:
        """Nothing is computed: None."""

    def receive(self, op: ir.Op, name: str, type: ir.TileType, contents: Any) -> Hashable:
        """No storage: None."""
        return None

    def concatenate(self, parts: Sequence[Any], axis: int) -> None:
        """Nothing is computed: None."""

    def splice(self, first: Any, second: Any, axis: int, at: Scalar) -> None:
        """Nothing is computed: None."""

    def show(self, op: ir.Op, format: str, value: Scalar, dtype: ir.DType) -> None:
        """Nothing is printed."""

    def trap(self, op: ir.Op) -> None:
        """Nothing ends: the path goes on."""

    def require(
        self,
        op: ir.Op,
        rule: str,
        allowed: str,
        broken: Scalar,
        found: str = "",
        values: Sequence[Scalar] = (),
    ) -> None:
        """Not checked."""

    def set_element(self, op: ir.Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        """Nothing is written."""

    def store(self, op: ir.Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Nothing is written."""

    def allocate(self, op: ir.Op, type: ir.TileType, address: Scalar | None) -> Hashable:
        """No storage: None."""
        return None

    def fresh(self, op: ir.Op, result: ir.Value, type: ir.TileType) -> Hashable:
        """No storage: None."""
        return None

    def number(self, dtype: ir.DType) -> Scalar:
        """A scalar of some type that an operation gives, of which nothing more is known."""
        # Each machine has scalars of its own.
        raise NotImplementedError

    def micro(self, op: ir.Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """Registers without contents, and unknown scalars."""
        scalars = (v.type.dtype if isinstance(v.type, ir.ScalarType) else None for v in op.results)
        values = [Register(None) if d is None else self.number(d) for d in scalars]
        return tuple(values[: len(call.results)])

    def rebind(self, op: ir.Op, ref: TileRef, type: ir.TileType, address: Scalar) -> Hashable:
        """What :meth:`allocate` gives at the address."""
        return self.allocate(op, type, address)


class AbstractMachine(NoStorage):
    """Takes every path once, with scalars that are numbers or unknown; tiles have no storage."""

    abstract: bool = True

    def unknown(self, dtype: ir.DType | None = None) -> Scalar:
        """A scalar, of some type where that is given, of which nothing more is known."""
        return Unknown()

    def number(self, dtype: ir.DType) -> Scalar:
        """An unknown scalar."""
        return self.unknown(dtype)

    def one_of(self, count: int) -> Scalar:
        """A number from 0 to ``count`` - 1, whichever it is."""
        return self.unknown(ir.INDEX)

    def trip(self, frame: Frame, trips: Scalar) -> Scalar:
        """The number of a trip of a loop, whichever it is."""
        return self.unknown()

    def below(self, counter: Scalar, upper: Scalar) -> Scalar:
        """The counter of a loop inside of it, which is below the upper bound."""
        return counter

    def opened(self, operand: Operand) -> Operand:
        """What a loop carries: its scalars change from trip to trip."""
        if isinstance(operand, LocalPointer):
            return replace(operand, address=self.unknown(ir.INDEX))
        kept = operand is None or isinstance(operand, TileRef | View | Pointer | Register | tuple)
        return operand if kept else self.unknown()

    def either(self, first: Operand, second: Operand) -> Operand:
        """What one of two regions hands on."""
        return first if first is second else self.opened(first)

    def argument(self, argument: ir.Value) -> Operand:
        """An argument of which nothing but its type is known."""
        t = in_words(argument.type)
        if isinstance(t, ir.TileType):
            return TileRef(t, None, self.unknown(), self.unknown())
        if isinstance(t, ir.PtrType):
            return Pointer(argument.name, t.dtype)
        if isinstance(t, ir.MemRefType) and None not in t.dims:
            return memref_view(argument.name, t, ())
        if isinstance(t, ir.TensorViewType | ir.PartitionViewType | ir.MemRefType):
            sizes = tuple(self.unknown() for _ in t.dims)
            return View(argument.name, t.dtype, 0, sizes, sizes)
        return self.unknown(t.dtype if isinstance(t, ir.ScalarType) else None)

    def blocks(self, grid: int, operands: Sequence[Operand], run: RunBlock) -> None:
        """One block stands for all; its number is unknown."""
        run(self.unknown(), operands)

    def known(self, value: Scalar) -> int | None:
        """The number of a Python integer, else None."""
        return int(value) if isinstance(value, int) else None

    def unrolls(self, op: ir.Op, trips: int) -> bool:
        """Never: a loop's body is followed once."""
        return False

    def counter(self, value: int) -> Scalar:
        """An unknown scalar."""
        return self.unknown()

    @contextmanager
    def _inside(self, certain: bool) -> Iterator[None]:
        """Follow a region that execution may leave out."""
        self.depth += not certain
        try:
            yield
        finally:
            self.depth -= not certain

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        """What either arm may hand on; both are followed."""
        with self._inside(certain=False):
            first, second = (arm() for arm in arms)
        return tuple(map(self.either, first, second))

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """What may be carried after any number of trips; the body is followed once."""
        carried = tuple(map(self.opened, inits))
        with self._inside(certain=isinstance(trips, int) and trips > 0):
            return tuple(map(self.either, carried, body(self.trip(frame, trips), carried)))

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        """What a while loop may hand on; both regions are followed once."""
        passed = before(tuple(map(self.opened, inits)))[1]
        with self._inside(certain=False):
            after(passed)
        return passed

    def scalar(self, name: str, args: Sequence[Scalar], source: ir.DType, result: ir.DType) -> Scalar:
        """An unknown scalar."""
        return self.unknown()

    def elements(self, buffer: Buffer, dtype: ir.DType) -> int | None:
        """Not known: None."""
        return None

    def address(self, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        """An unknown scalar."""
        return self.unknown()

    def element(self, op: ir.Op, ref: TileRef, position: Scalar, dtype: ir.DType) -> Scalar:
        """An unknown scalar."""
        return self.unknown()

    def load(self, op: ir.Op, pointer: Pointer | LocalPointer, dtype: ir.DType) -> Scalar:
        """An unknown scalar."""
        return self.unknown()
