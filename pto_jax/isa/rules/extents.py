"""How large a destination is that a call leaves to the instruction.

Every rule gives the physical size and the valid one from those of the sources. Columns of a packed or
transposed tile are rounded up to the 32-byte blocks that a row_major tile consists of.
"""

from __future__ import annotations

from typing import Any

from ...ir import DType
from ..declare import Extent, Size, Sources

_BLOCK_BITS = 256


class Open:
    """A valid size that is not known; what is computed from it is not known either."""

    def _open(self, *_: Any) -> Open:
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __floordiv__ = __neg__ = _open

    def __repr__(self) -> str:
        return "?"


OPEN_SIZE = Open()


def whole_blocks(cols: int, d: DType) -> int:
    """Columns rounded up to 32-byte blocks of an element type.

    >>> from pto_jax.ir import F32, U8
    >>> whole_blocks(9, F32), whole_blocks(8, U8)
    (16, 32)
    """
    step = _BLOCK_BITS // d.word_bits
    return -(-cols // step) * step


def like(name: str) -> Extent:
    """The size of one source."""

    def rule(s: Sources) -> Size:
        return s.types[name].shape, s.sizes[name]

    return Extent(f"the rows and columns of {name}", rule)


def columns(count: int) -> Extent:
    """A row of ``count`` elements for each row of src."""

    def rule(s: Sources) -> Size:
        return (s.types["src"].rows, count), (s.sizes["src"][0], count)

    return Extent(f"the rows of src and {count} columns", rule)


def _column(s: Sources) -> Size:
    return (s.types["src"].rows, 1), (s.sizes["src"][0], 1)


def _row(s: Sources) -> Size:
    return (1, s.types["src"].cols), (1, s.sizes["src"][1])


def _mask(s: Sources) -> Size:
    source, (rows, cols) = s.types["src0"], s.sizes["src0"]
    bits = s.dtype.bits
    shape = (source.rows, whole_blocks(-(-source.cols // bits), s.dtype))
    return shape, (rows, -(-cols // bits))


def _product(s: Sources) -> Size:
    return (s.types["a"].rows, s.types["b"].cols), (s.sizes["a"][0], s.sizes["b"][1])


def _transposed(s: Sources) -> Size | None:
    source, (rows, cols) = s.types["src"], s.sizes["src"]
    if source.conv is not None:
        return None
    return (source.cols, whole_blocks(source.rows, s.dtype)), (cols, rows)


def _joined(s: Sources) -> Size:
    names = [n for n in s.types if n in ("src0", "src1", "src2", "src3")]
    shape = (max(s.types[n].rows for n in names), sum(s.types[n].cols for n in names))
    valid = s.sizes[names[0]][1]
    for name in names[1:]:
        valid = valid + s.sizes[name][1]
    return shape, (s.sizes[names[0]][0], valid)


def _unwoven(s: Sources) -> Size:
    source, (rows, cols) = s.types["src0"], s.sizes["src0"]
    if "src1" in s.types:
        return source.shape, (rows, cols)
    return (source.rows, source.cols // 2), (rows, cols // 2)


def _larger(s: Sources) -> Size:
    """The larger of two sources, by columns, rows and static valid sizes; src0 where they are alike."""

    def key(name: str) -> tuple[int, ...]:
        t = s.types[name]
        return (t.cols, t.rows, t.v_col or 0, t.v_row or 0)

    name = max(("src0", "src1"), key=key)
    return s.types[name].shape, s.sizes[name]


COLUMN = Extent("the rows of src and one column", _column)
ROW = Extent("one row and the columns of src", _row)
MASK = Extent("the rows of src0 and a bit for each of its columns", _mask)
PRODUCT = Extent("the rows of a and the columns of b", _product)
TRANSPOSED = Extent("the columns of src as rows, its rows as columns", _transposed)
JOINED = Extent("the columns of all sources side by side", _joined)
UNWOVEN = Extent("the rows and columns of src0, half the columns of a single source", _unwoven)
LARGER = Extent("the rows and columns of the larger source", _larger)
#: A size that no source says.
OPEN = Extent("a size that no source says", lambda _: None)
