"""Which elements of a buffer argument a view denotes, as far as the text of a program says."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from ..ir import MemRefType, Op, PartitionViewType, PtrType, TensorViewType, Type, Value
from ..isa import effects, views


class Sum(NamedTuple):
    """A number, plus the values of some names that only execution knows."""

    number: int
    names: tuple[str, ...] = ()

    def __add__(self, other: object) -> "Sum":
        """The sum of both; equal ones are equal numbers wherever their names mean the same."""
        assert isinstance(other, Sum)
        return Sum(self.number + other.number, tuple(sorted((*self.names, *other.names))))


#: The number of a value, or its name.
Numbering: TypeAlias = Callable[[Value], Sum]
_ZERO = Sum(0)


@dataclass(frozen=True)
class Window:
    """A box of elements of a buffer: in every dimension ``sizes`` of them from ``starts``, ``strides`` apart.

    ``root`` names the buffer, ``base`` is its element at which the dimensions begin.
    """

    root: str
    base: Sum = _ZERO
    strides: tuple[Sum, ...] = ()
    starts: tuple[Sum, ...] = ()
    sizes: tuple[Sum, ...] = ()

    def overlaps(self, other: "Window") -> bool:
        """Whether both certainly have elements in common, whatever execution makes of the names in them."""
        if self.root != other.root:
            return False
        if (self.base, self.strides) == (other.base, other.strides):
            mine, its = (zip(w.starts, w.sizes, strict=False) for w in (self, other))
            return all(_meet(a, b) for a, b in zip(mine, its, strict=True))
        mine_run, its_run = self._run(), other._run()
        return mine_run is not None and its_run is not None and _meet(mine_run, its_run)

    def names(self) -> Iterator[str]:
        """The names that the window depends on."""
        for part in (self.base, *self.strides, *self.starts, *self.sizes):
            yield from part.names

    def _run(self) -> tuple[Sum, Sum] | None:
        """The first element and the number of elements, where they lie one behind the other."""
        parts = (*self.strides, *self.starts, *self.sizes)
        if not parts or any(part.names for part in parts):
            return None
        first, count = self.base, 1
        for stride, start, size in reversed(list(zip(self.strides, self.starts, self.sizes, strict=True))):
            if size.number > 1 and stride.number != count:
                return None
            first, count = first + Sum(start.number * stride.number), count * size.number
        return first, Sum(count)

    def __str__(self) -> str:
        return f"global memory of %{self.root.rpartition(':')[2]}"


def _meet(a: tuple[Sum, Sum], b: tuple[Sum, Sum]) -> bool:
    """Whether two ranges, each a first element and a size, certainly meet."""
    (first, size), (other, its_size) = a, b
    if first.names != other.names:
        return False
    if size.names or its_size.names:
        return first == other
    return first.number < other.number + its_size.number and other.number < first.number + size.number


def of_argument(value: Value) -> Window | None:
    """The whole buffer that an argument names, None for one that names no global memory."""
    t: Type = value.type
    if isinstance(t, PtrType):
        return Window(value.name)
    if not isinstance(t, TensorViewType | PartitionViewType | MemRefType) or effects.loc_of(t) is not None:
        return None
    sizes = tuple(Sum(n) if n is not None else Sum(0, (value.name,)) for n in t.dims)
    strides = tuple(Sum(0, (f"{value.name}.{i}",)) for i in range(len(sizes)))
    return Window(value.name, _ZERO, strides, (_ZERO,) * len(sizes), sizes)


def of_alias(op: Op, source: Window, number: Numbering) -> Window | None:
    """What the pointer or view denotes that an operation makes of another one; None where nobody knows."""
    if op.name == views.ADDPTR and len(op.ins) == 2:
        return replace(source, base=source.base + number(op.ins[1]))
    if op.name == views.MAKE_TENSOR_VIEW:
        sizes, strides = (tuple(map(number, op.group(name))) for name in ("shape", "strides"))
        return replace(source, strides=strides, starts=(_ZERO,) * len(sizes), sizes=sizes)
    if op.name == views.PARTITION_VIEW and len(op.group("offsets")) == len(source.starts):
        starts = (a + number(v) for a, v in zip(source.starts, op.group("offsets"), strict=True))
        return replace(source, starts=tuple(starts), sizes=tuple(map(number, op.group("sizes"))))
    return None
