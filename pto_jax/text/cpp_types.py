"""Types of C++ kernels that are no scalars: tiles, extents, pipes."""

from typing import Any, TypeVar

from .. import ir
from .cpp_names import members, plain
from .cpp_tokens import Words
from .cpp_values import ELEMENTS

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
    found = known.get(key)
    if found is None:
        found = known[key] = _tile(words, opened)
    words.go(close + 1)
    return found


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
    found = members().get(plain(words.text))
    if not isinstance(found, kind):
        words.unexpected(f"a member of {kind.__name__}")
    words.take()
    return found


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
    known = layout if isinstance(layout, ir.GlobalLayout) else ir.GlobalLayout.ND
    return element, known, tuple(words.texts[opened:close])


def extents(words: Words) -> tuple[int, ...]:
    """``pto::Shape<1, 1, 1, -1, 64>``: five numbers, -1 for those that execution gives."""
    at = words.index
    words.take()
    if not words.accept("<"):
        words.unexpected("'<'")
    found = tuple(words.listed(lambda: whole(words), ">"))
    if len(found) > 5:
        words.fail(f"got {len(found)} extents; allowed: 5", at)
    return found + (-1,) * (5 - len(found))


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
    found: dict[str, ir.AttrValue] = {
        "id": number,
        "dir_mask": direction,
        **dict(zip(names, rest, strict=False)),
    }
    if "nosplit" in found:
        found["nosplit"] = bool(found["nosplit"])
    return found
