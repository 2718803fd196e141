"""What the interpreter needs of whatever computes: storage, arithmetic, and control flow it cannot decide."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ..ir import DType, Op, TileType, Value
from ..isa.micro import MicroCall
from ..profiles import ProfileName
from .operands import (
    Buffer,
    Execution,
    Frame,
    LocalPointer,
    Operand,
    Pointer,
    Scalar,
    Scope,
    TileRef,
    View,
)

#: An arm of a branch gives its results; the body of a loop maps the trip and what it carries; the first
#: region of a while loop gives its condition too.
Arm: TypeAlias = Callable[[], tuple[Operand, ...]]
Body: TypeAlias = Callable[[Scalar, tuple[Operand, ...]], tuple[Operand, ...]]
Before: TypeAlias = Callable[[tuple[Operand, ...]], tuple[Scalar, tuple[Operand, ...]]]
After: TypeAlias = Callable[[tuple[Operand, ...]], tuple[Operand, ...]]
#: Executes the block of a number.
RunBlock: TypeAlias = Callable[[Scalar, Sequence[Operand]], None]


class Machine(Protocol):
    """Storage and arithmetic behind the interpreter.

    ``max_steps`` bounds the trips of a while loop; ``depth`` counts the regions around an operation whose
    course only execution knows. An ``abstract`` machine computes nothing, and waits for nothing; ``checks``
    tells whether run-time rules are followed, and ``in_order`` whether every operation executes when its turn
    comes, each trip of a loop for itself.
    """

    max_steps: int
    depth: int
    abstract: bool
    checks: bool
    in_order: bool

    @property
    def profile_name(self) -> ProfileName | None:
        """The profile by whose rules pipes and flags between cores work; None where none is asked for."""

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        """An ``arith`` operation on scalars of type ``source`` of which at least one is not a number."""

    def address(self, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        """``base + index * stride`` of scalars of which at least one is not a number.

        NOWHERE where the product or the sum leaves 64 bits, and where the base is NOWHERE.
        """

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        """Storage of an ``alloc_tile``; the same operation always names the same storage."""

    def fresh(self, op: Op, result: Value, type: TileType) -> Hashable:
        """Storage of a result that no allocation names; its contents start over at every execution."""

    def rebind(self, op: Op, ref: TileRef, type: TileType, address: Scalar) -> Hashable:
        """Storage of an existing tile's memory space at another address."""

    def enter(self, core: str) -> None:
        """Turn to the local memory of a core."""

    def leave(self) -> None:
        """Called where the kernel of a core of several ranks ends."""

    def blocks(self, grid: int, operands: Sequence[Operand], run: RunBlock) -> None:
        """Execute a number of blocks, each on the operands and with fresh local memory."""

    def alias(self, op: Op, ref: TileRef, type: TileType) -> Hashable:
        """Storage of a tile for a handle of another type."""

    def offset(self, op: Op, ref: TileRef, type: TileType, elements: Scalar) -> Hashable:
        """Storage of a tile that begins some elements into another."""

    def window(self, op: Op, ref: TileRef, type: TileType, row: Scalar, col: Scalar) -> Hashable:
        """Storage of a part of a tile, in the order of the whole."""

    def window_of(self, ref: TileRef) -> tuple[TileRef, Scalar, Scalar] | None:
        """The tile, the row and the column that a handle with its pitch begins at; None for other handles."""

    def contents(self, ref: TileRef) -> Any:
        """The words of a whole tile as an array [rows, cols]."""

    def receive(self, op: Op, name: str, type: TileType, contents: Any) -> Hashable:
        """New storage that holds such an array."""

    def concatenate(self, parts: Sequence[Any], axis: int) -> Any:
        """Such arrays side by side."""

    def splice(self, first: Any, second: Any, axis: int, at: Scalar) -> Any:
        """What is before a position of two such arrays, one behind the other, and then the rest of both."""

    def execute(self, execution: Execution) -> Mapping[str, Operand]:
        """Compute one instruction and write its destinations.

        Returns the values of those that are vectors outside tile memory, by name.
        """

    def copy(self, op: Op, dst: View, src: View) -> bool:
        """Copy a view to another one at once; whether the machine does, else it is loaded and stored."""

    def region(self, op: Op, ref: TileRef) -> None:
        """Called where a handle gets its valid sizes; they must lie within its physical shape."""

    def elements(self, buffer: Buffer, dtype: DType) -> int | None:
        """How many elements of a type a buffer has; None where execution chooses it."""

    def begin(self, op: Op, scope: Scope) -> None:
        """Called before each operation with the names it sees, for traces and reports."""

    def known(self, value: Scalar) -> int | None:
        """The number a scalar is already known to be, if it is."""

    def unrolls(self, op: Op, trips: int) -> bool:
        """Whether a loop with a known number of trips is executed trip by trip."""

    def counter(self, value: int) -> Scalar:
        """The induction variable of such a trip."""

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        """What the first arm gives where a run-time condition holds, else the second."""

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """A loop of a run-time number of trips, or of too many to repeat its text."""

    def show(self, op: Op, format: str, value: Scalar, dtype: DType) -> None:
        """Print a scalar."""

    def trap(self, op: Op) -> None:
        """End the execution with an error."""

    def require(
        self, op: Op, rule: str, allowed: str, broken: Scalar, found: str = "", values: Sequence[Scalar] = ()
    ) -> None:
        """Note where a run-time rule is broken; ``found`` is a format of what was found, for ``values``."""

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        """A while loop."""

    def element(self, op: Op, ref: TileRef, position: Scalar, dtype: DType) -> Scalar:
        """The element of a tile at a position in its storage, as a scalar of a type with as many bits."""

    def set_element(self, op: Op, ref: TileRef, position: Scalar, value: Scalar) -> None:
        """Write a scalar to the element of a tile at a position in its storage."""

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: DType) -> Scalar:
        """The element of memory that a pointer is at."""

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Write a scalar where a pointer is at."""

    def micro(self, op: Op, call: MicroCall, operands: Mapping[str, Operand]) -> tuple[Operand, ...]:
        """The results of a micro-operation, whose pointers are where it accesses memory."""
