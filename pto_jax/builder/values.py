"""Values of a program under construction, as Python objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from ..ir.program import Value
from ..ir.types import Loc, MemRefType, PartitionViewType, PtrType, ScalarType, TensorViewType, TileType, Type
from .places import Place, fail, here

if TYPE_CHECKING:
    from .body import Block, Body, Node


class Handle:
    """A value of the program: the result of an operation, or an argument."""

    def __init__(self, owner: Body, block: Block, type_: Type, name: str | None = None) -> None:
        self.owner = owner
        self.block = block
        self.type = type_
        self._name = name

    @property
    def name(self) -> str:
        """Its name in the program, without ``%``."""
        if self._name is None:
            self._name = self.owner.fresh(None)
        return self._name

    def named(self, hint: str | None) -> None:
        """Give a name to a value that has none yet."""
        if self._name is None and hint is not None:
            self._name = self.owner.fresh(hint)

    @property
    def value(self) -> Value:
        return Value(self.name, self.type)

    def __str__(self) -> str:
        return f"%{self.name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}: {self.type}>"


class Scalar(Handle):
    """A number of the program: ``index``, an integer, a float or a truth value.

    Operators build ``arith`` operations; Python numbers on the other side become constants of its type.
    ``//`` and ``%`` truncate toward zero, as in C. Comparisons give an ``i1``; there is no Python truth
    value, so that ``if`` and ``and`` are :func:`if_`, ``&``, ``|`` and :func:`select`.
    """

    type: ScalarType

    def __add__(self, other: Any) -> Scalar:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return _binary("*", other, self)

    def __floordiv__(self, other: Any) -> Scalar:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Scalar:
        return _binary("//", other, self)

    def __truediv__(self, other: Any) -> Scalar:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return _binary("/", other, self)

    def __mod__(self, other: Any) -> Scalar:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> Scalar:
        return _binary("%", other, self)

    def __and__(self, other: Any) -> Scalar:
        return _binary("&", self, other)

    def __rand__(self, other: Any) -> Scalar:
        return _binary("&", other, self)

    def __or__(self, other: Any) -> Scalar:
        return _binary("|", self, other)

    def __ror__(self, other: Any) -> Scalar:
        return _binary("|", other, self)

    def __xor__(self, other: Any) -> Scalar:
        return _binary("^", self, other)

    def __rxor__(self, other: Any) -> Scalar:
        return _binary("^", other, self)

    def __lshift__(self, other: Any) -> Scalar:
        return _binary("<<", self, other)

    def __rlshift__(self, other: Any) -> Scalar:
        return _binary("<<", other, self)

    def __rshift__(self, other: Any) -> Scalar:
        return _binary(">>", self, other)

    def __rrshift__(self, other: Any) -> Scalar:
        return _binary(">>", other, self)

    def __neg__(self) -> Scalar:
        from .arith import negative

        return negative(self)

    def __invert__(self) -> Scalar:
        return _binary("^", self, True if self.type.dtype.name == "i1" else -1)

    def __lt__(self, other: Any) -> Scalar:
        return _compare("<", self, other)

    def __le__(self, other: Any) -> Scalar:
        return _compare("<=", self, other)

    def __gt__(self, other: Any) -> Scalar:
        return _compare(">", self, other)

    def __ge__(self, other: Any) -> Scalar:
        return _compare(">=", self, other)

    def __eq__(self, other: Any) -> Scalar:  # type: ignore[override]
        return _compare("==", self, other)

    def __ne__(self, other: Any) -> Scalar:  # type: ignore[override]
        return _compare("!=", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        fail(
            f"{self} has no truth value in Python, it is known when the program runs; allowed: "
            "pto.if_(condition), pto.select(condition, a, b), and & | ~ instead of and, or, not"
        )

    def __index__(self) -> NoReturn:
        fail(f"{self} is no Python number, it is known when the program runs; allowed: pto.range for loops")

    __int__ = __float__ = __index__


class TileHandle(Handle):
    """A tile, or a local memref."""

    @property
    def shape(self) -> tuple[int | None, ...]:
        return self.type.shape if isinstance(self.type, TileType) else _dims(self.type)

    @property
    def valid(self) -> tuple[int | None, int | None]:
        """The valid sizes that the type gives, None for those known at run time."""
        return self.type.valid if isinstance(self.type, TileType) else (None, None)


class Pointer(Handle):
    """A pointer into memory; ``pointer + n`` moves it by elements."""

    type: PtrType

    def __add__(self, offset: Any) -> Any:
        from .calls import find

        return find("addptr")(self, offset)


class View(Handle):
    """A tensor in global memory, or a window of one.

    ``view[r, c]`` is the place that ``tload`` and ``tstore`` begin at, with one number for every
    dimension.
    """

    @property
    def shape(self) -> tuple[int | None, ...]:
        return _dims(self.type)

    def __getitem__(self, offsets: Any) -> Indexed:
        listed = offsets if isinstance(offsets, tuple) else (offsets,)
        if any(isinstance(o, slice) for o in listed):
            fail(f"a slice of {self}; allowed: numbers, or pto.partition_view(view, offsets, sizes)")
        return Indexed(self, listed)

    def __iter__(self) -> Iterator[Any]:
        fail(f"{self} has no elements in Python; allowed: tload and tstore")


class Indexed:
    """A place in a view."""

    def __init__(self, view: View, offsets: tuple[Any, ...]) -> None:
        self.view = view
        self.offsets = offsets


class Event:
    """What a tile instruction returns: later instructions wait for it with ``wait=`` or :func:`tsync`."""

    def __init__(self, node: Node, owner: Body, block: Block, place: Place) -> None:
        self.node = node
        self._owner = owner
        self._block = block
        self._place = place
        self._handle: Handle | None = None

    def handle(self) -> Handle:
        """The value to wait for: an event that the operation gives, else the tile it works on."""
        if self._handle is None:
            from .synchronise import EVENT

            if self.node.outs:
                name = self._place.target()
                self._handle = Handle(self._owner, self._block, EVENT, self._owner.fresh(name or "event"))
                self.node.results.append(self._handle)
            else:
                tiles = [h for h in self.node.ins if isinstance(h, TileHandle)]
                if not tiles:
                    fail(
                        f"{self} has no event; allowed: tsync() without operands, which waits for everything"
                    )
                self._handle = tiles[0]
        return self._handle

    def __str__(self) -> str:
        return f"{self.node.name} ({self.node.span})"


def _dims(t: Type) -> tuple[int | None, ...]:
    return t.dims if isinstance(t, TensorViewType | PartitionViewType | MemRefType) else ()


def _binary(symbol: str, left: Any, right: Any) -> Scalar:
    from .arith import binary

    return binary(symbol, left, right, here())


def _compare(symbol: str, left: Any, right: Any) -> Scalar:
    from .arith import compare

    return compare(symbol, left, right, here())


def is_local(t: Type) -> bool:
    """Whether a type is that of bytes in an on-chip buffer."""
    if isinstance(t, MemRefType):
        return t.space is not None and t.space.name in Loc.__members__
    return isinstance(t, TileType)


def wrap(owner: Body, block: Block, t: Type, name: str | None) -> Handle:
    """A handle of the class that the type asks for."""
    kind: type[Handle] = Handle
    if isinstance(t, ScalarType):
        kind = Scalar
    elif is_local(t):
        kind = TileHandle
    elif isinstance(t, PtrType):
        kind = Pointer
    elif isinstance(t, TensorViewType | PartitionViewType | MemRefType):
        kind = View
    return kind(owner, block, t, name)
