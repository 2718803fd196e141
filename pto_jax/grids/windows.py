"""Views as a program declares them, and the windows of them that transfers name."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..interpreter import Execution, Scalar, TileRef, View
from ..ir import I1, INDEX, GlobalLayout, Op
from .numbers import Integers, choose, compute, is_integer

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
