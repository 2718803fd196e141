"""Values and types of a C++ kernel while it is read: scalars, pointers, tiles, views, pipes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from .. import ir
from .cpp_names import members, plain
from .cpp_tokens import Words


class CType(NamedTuple):
    """A scalar type of C++: the element type it becomes, and whether it is unsigned."""

    dtype: ir.DType
    unsigned: bool = False

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.dtype.is_float


BOOL, INT, INT64 = CType(ir.I1), CType(ir.I32), CType(ir.INDEX)
#: Scalar types by name: all 64-bit integers are ``index``, the type of sizes and offsets of programs.
SCALARS = {
    "bool": BOOL,
    "int": INT,
    "unsigned": CType(ir.I32, unsigned=True),
    "event_t": INT,
    "size_t": CType(ir.INDEX, unsigned=True),
    "int64_t": INT64,
    "uint64_t": CType(ir.INDEX, unsigned=True),
    **{f"int{d.bits}_t": CType(d) for d in (ir.I8, ir.I16, ir.I32)},
    **{f"uint{d.bits}_t": CType(d, unsigned=True) for d in (ir.I8, ir.I16, ir.I32)},
    **{d.cpp: CType(d) for d in (ir.F32, ir.F16, ir.BF16)},
}


def _elements() -> dict[str, ir.DType]:
    kinds = [d for d in vars(ir).values() if isinstance(d, ir.DType) and d.cpp]
    plain = [d for d in kinds if d not in (ir.INDEX, ir.I1) and not d.pair_of]
    return {d.cpp: d for d in plain} | {"bfloat16": ir.BF16, "bool": ir.I1}


#: Element types of tiles and of global memory by their C++ name.
ELEMENTS = _elements()


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar: a value of the program, or a constant that becomes one where it is used."""

    type: CType
    value: ir.Value | None = None
    number: int | float | None = None


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer into global memory."""

    value: ir.Value


@dataclass(frozen=True, slots=True)
class Sizes:
    """The five extents or strides of a view."""

    numbers: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A view of global memory and the pointer to its first element."""

    value: ir.Value
    pointer: Pointer


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A tile without an address: type, run-time valid sizes, name, the word and depth of its declaration."""

    type: ir.TileType
    valid: tuple[Number, ...]
    word: int
    name: str
    depth: int


@dataclass(frozen=True, slots=True)
class Named:
    """A tile, an array, a vector: a value of the program."""

    value: ir.Value


@dataclass(frozen=True, slots=True)
class Pipe:
    """A pipe between the cores: its number in the program."""

    id: int


def rounded(text: str) -> float:
    """The nearest number of single precision, from the decimal digits in one step.

    >>> rounded("0.1"), rounded("0.333333343")
    (0.10000000149011612, 0.3333333432674408)
    """
    try:
        near: float = struct.unpack("<f", struct.pack("<f", float(text)))[0]
    except OverflowError:
        return float("inf")
    if near in (float("inf"), 0.0):
        return near
    exact, double = Fraction(text), Fraction(float(text))
    if exact == double:
        return near
    # Double precision may be half way between two numbers where the text is not.
    bits = struct.unpack("<i", struct.pack("<f", near))[0]
    others: list[float] = [struct.unpack("<f", struct.pack("<i", bits + step))[0] for step in (-1, 1)]
    return min((near, *(n for n in others if abs(n) < float("inf"))), key=lambda n: abs(Fraction(n) - exact))


_T = TypeVar("_T")
#: Tile types by the words between their angle brackets.
Types = dict[tuple[str, ...], ir.TileType]
_DIRECTIONS = {"DIR_C2V": 1, "DIR_V2C": 2, "DIR_BOTH": 3}


#: The kinds of a tile's template arguments behind its columns, None for numbers.
_KINDS = (ir.BLayout, None, None, ir.SLayout, None, ir.Pad, ir.Compact)


def tile_type(words: Words, known: Types) -> ir.TileType:
    """``Tile<TileType::Vec, float, 16, 64, ...>``, which is passed over."""
    words.take()
    if words.text != "<":
        words.unexpected("'<' and the arguments of a tile type")
    opened = words.index
    close = words.closing(opened)
    key = tuple(words.texts[opened + 1 : close])
    t = known.get(key)
    if t is None:
        t = known[key] = _tile(words, opened)
    words.go(close + 1)
    return t


def _tile(words: Words, opened: int) -> ir.TileType:
    words.go(opened + 1)
    loc = _member(words, ir.Loc)
    words.expect(",")
    place = words.index
    element = ELEMENTS.get(words.name())
    if element is None:
        words.fail(f"got the unknown element type '{words.texts[place]}'", place)
    words.expect(",")
    rows = whole(words)
    words.expect(",")
    cols = whole(words)
    if rows < 1 or cols < 1:
        words.fail(f"got a tile of {rows} rows and {cols} columns; allowed: 1 or more of each", place)
    more: list[Any] = []
    for kind in _KINDS:
        if not words.accept(","):
            break
        more.append(whole(words) if kind is None else _member(words, kind))
    words.expect(">")
    defaults = (ir.BLayout.ROW_MAJOR, rows, cols, ir.SLayout.NONE_BOX, 512, ir.Pad.NULL, ir.Compact.NULL)
    every: list[Any] = [*more, *defaults[len(more) :]]
    outer, v_row, v_col, inner, fractal, pad, compact = every
    v_row, v_col = (None if n == -1 else n for n in (v_row, v_col))
    return ir.TileType(element, rows, cols, v_row, v_col, loc, outer, inner, fractal, pad, compact)


def _member(words: Words, kind: type[_T]) -> _T:
    member = members().get(plain(words.text))
    if not isinstance(member, kind):
        words.unexpected(f"a member of {kind.__name__}")
    words.take()
    return member


def whole(words: Words) -> int:
    """An integer in the text; ``DYNAMIC`` is -1."""
    sign = -1 if words.accept("-") else 1
    text = words.text
    if text.rpartition("::")[2] == "DYNAMIC":
        text = "-1"
    elif not text.isdigit():
        words.unexpected("an integer")
    words.take()
    return sign * int(text)


def view_type(words: Words) -> tuple[ir.DType, ir.GlobalLayout, tuple[str, ...]]:
    """``GlobalTensor<T, shape, stride, layout>``: element type, layout, and all its words."""
    words.take()
    if words.text != "<":
        words.unexpected("'<' and the arguments of a view")
    opened = words.index
    close = words.closing(opened)
    element = ELEMENTS.get(words.texts[opened + 1])
    if element is None:
        words.fail(f"got the unknown element type '{words.texts[opened + 1]}'", opened + 1)
    layout = members().get(plain(words.texts[close - 1]))
    words.go(close + 1)
    order = layout if isinstance(layout, ir.GlobalLayout) else ir.GlobalLayout.ND
    return element, order, tuple(words.texts[opened:close])


def extents(words: Words) -> tuple[int, ...]:
    """``pto::Shape<1, 1, 1, -1, 64>``: five numbers, -1 for those that execution gives."""
    at = words.index
    words.take()
    if not words.accept("<"):
        words.unexpected("'<'")
    numbers = tuple(words.listed(lambda: whole(words), ">"))
    if len(numbers) > 5:
        words.fail(f"got {len(numbers)} extents; allowed: 5", at)
    return numbers + (-1,) * (5 - len(numbers))


def pipe_settings(words: Words) -> dict[str, ir.AttrValue]:
    """``TPipe<0, Direction::DIR_C2V, 1024, 8, 8, true>``: attributes of the pipe."""
    at = words.index
    if plain(words.text) != "TPipe":
        words.unexpected("'TPipe'")
    words.take()
    words.expect("<")
    number = whole(words)
    words.expect(",")
    direction = _DIRECTIONS.get(words.take().rpartition("::")[2])
    rest = []
    while words.accept(","):
        rest.append(int(words.take() == "true") if words.text in ("true", "false") else whole(words))
    words.expect(">")
    if direction is None or not 2 <= len(rest) <= 4:
        words.fail("got settings of a pipe; allowed: number, direction, slot size, slots, local, nosplit", at)
    names = ("slot_size", "slot_num", "local_slot_num", "nosplit")
    settings: dict[str, ir.AttrValue] = {
        "id": number,
        "dir_mask": direction,
        **dict(zip(names, rest, strict=False)),
    }
    if "nosplit" in settings:
        settings["nosplit"] = bool(settings["nosplit"])
    return settings
