"""Reader of types: all spellings of tile types, convolution tiles, views, pointers and sizes.

Every operand has its type written out, so the reader remembers the meaning of each piece of type text and
skips the tokens of a repeated one. A convolution tile is ``!pto.conv_tile<mat, 1x2x3x4x8xf32, layout=nc1hwc0,
filter=3x3>``.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

from .. import ir
from ..errors import nearest
from ..ir import (
    AddressSpace,
    BLayout,
    Compact,
    Conv,
    DType,
    GlobalLayout,
    Loc,
    Pad,
    SLayout,
    TileType,
    conv_tile,
    find_dtype,
    paired,
    read_geometry,
    unpaired,
)
from . import attributes, formats, lexer, names
from .attributes import enumeration, member, words
from .lexer import CLOSING, Cursor, Kind, TokenKind
from .names import suggestion

MAX_DIMENSION = (1 << 63) - 1
_DIM = re.compile(r"(\d+)x")
#: What follows a size and a blank where further dimensions do: ``x``, ``x16``, ``x16xf32``.
_SPACED = re.compile(r"x(?:\d.*)?")

Dims = tuple[int | None, ...]


class ShapeReader:
    """Reads element types, dimensions and strides at a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        #: Whether the element type read last was spelled as one of the dialect's own.
        self.dialects_own: bool = False

    def dtype(self, text: str | None = None) -> DType:
        """An element type at the cursor, or the one called ``text``."""
        c = self.cursor
        if text is None and c.kind is Kind.EXCLAMATION_IDENT:
            text = c.take()
        name = c.expect(Kind.BARE_IDENT, "an element type") if text is None else text
        match = find_dtype(name.removeprefix("!pto."))
        if match is None:
            c.fail_since(
                c.last_end - len(name),
                f"got the unknown element type '{name}'; allowed: f32, f16, bf16, i8 to i64, ui8 to ui64, "
                "f8E4M3FN, f8E5M2 and further small floats",
            )
        return self.counted(name, match)

    def register_dtype(self, text: str | None = None) -> DType:
        """An element type of registers and pointers, which have pairs that tiles have not."""
        c = self.cursor
        pair = ir.REGISTER_PAIRS.get((c.text if text is None else text).removeprefix("!pto."))
        if pair is None:
            return self.dtype(text)
        if text is None:
            c.advance()
        self.dialects_own = True
        return pair

    def counted(self, name: str, element: DType) -> DType:
        """An element type by how the text counts its elements: those of the dialect's own are pairs."""
        self.dialects_own = name.startswith("!pto.")
        return paired(element) if self.dialects_own else element

    def dims(self, role: str, least: int = 1) -> tuple[Dims, str]:
        """``16x?xf32`` as sizes and the text after the last ``x`` ("" when nothing follows).

        Blanks may stand around each ``x``; the element type may be one with ``!pto.`` in front.
        """
        c = self.cursor
        sizes: list[int | None] = []
        while True:
            rest = ""
            if sizes and c.kind in (Kind.EXCLAMATION_IDENT, Kind.BARE_IDENT):
                return tuple(sizes), c.take()
            if c.accept(Kind.QUESTION):
                sizes.append(None)
            elif c.at(Kind.INTEGER_LIT) and "x" in c.text:
                # ``0x64`` is a hexadecimal literal to the lexer; as dimensions it is 0 by 64.
                rest = c.take()[1:]
                sizes.append(self._size(0, c.last_end, least))
            elif c.at(Kind.INTEGER_LIT):
                sizes.append(self._size(c.integer(role), c.last_end, least))
            else:
                c.unexpected(role)
            attached = c.start == c.last_end and (rest or c.text[:1] == "x")
            if c.kind is Kind.BARE_IDENT and (attached or _SPACED.fullmatch(c.text)):
                rest += c.take()
            if not rest:
                return tuple(sizes), ""
            rest = rest[1:]
            while (leading := _DIM.match(rest)) is not None:
                sizes.append(self._size(int(leading.group(1)[:20]), c.last_end, least))
                rest = rest[leading.end() :]
            if rest.isdigit():
                return (*sizes, self._size(int(rest[:20]), c.last_end, least)), ""
            if rest:
                return tuple(sizes), rest

    def _size(self, size: int, end: int, least: int) -> int:
        if not least <= size <= MAX_DIMENSION:
            allowed = "a positive size" if least else "a size"
            self.cursor.fail(f"got the dimension {size}; allowed: {allowed} or '?'", start=end - 1, end=end)
        return size

    def shaped(self, role: str) -> tuple[Dims, DType]:
        """Dimensions followed by an element type."""
        dims, element = self.dims(role)
        if not element:
            self.cursor.unexpected("an element type after the dimensions, as in 16x512xbf16")
        return dims, self.dtype(element)

    def strided(self) -> tuple[Dims, int | None]:
        """``strided<[s, ...], offset: o>``; the offset may be a list (tiles of old programs)."""
        c = self.cursor
        c.advance()
        opened = c.open(Kind.LESS, "after strided")
        strides = self._sizes()
        offset: int | None = 0
        if c.accept(Kind.COMMA):
            c.expect_word("offset")
            c.expect(Kind.COLON)
            offset = self._sizes()[0] if c.kind is Kind.L_SQUARE else self._open_size()
        c.close(Kind.GREATER, opened)
        return tuple(strides), offset

    def _sizes(self) -> Sequence[int | None]:
        c = self.cursor
        return c.enclosed(Kind.L_SQUARE, self._open_size) or [None]

    def _open_size(self) -> int | None:
        c = self.cursor
        return None if c.accept(Kind.QUESTION) else c.integer("a size or '?'")


TILE_NAMES = ("tile_buf", "tile")
KEYS = (
    "loc", "dtype", "rows", "cols", "v_row", "v_col", "valid",
    "blayout", "slayout", "fractal", "pad", "compact",
)  # fmt: skip
_ENUMERATIONS = {"loc": Loc, "blayout": BLayout, "slayout": SLayout, "pad": Pad, "compact": Compact}
#: Parameters without a key, in the order of the C++ template.
_POSITIONS = ("dtype", "rows", "cols", "blayout", "slayout", "fractal", "pad")
MAX_SIZE = (1 << 31) - 1
#: What error messages show for the spellings of a tile type, and of valid sizes.
SPELLINGS = "!pto.tile<f32, 16, 64> or !pto.tile_buf<vec, 16x64xf32>"
_VALID_BY_KEY = "valid sizes have a key: valid=13x37, valid=?x?, or v_row=?, v_col=37"


@dataclass
class _Fields:
    """Parameters found so far, and where each stands."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)


def read_tile_body(reader: ShapeReader, name: str, start: int, last: str = "") -> TileType:
    """The parameters between the angle brackets, as a type; up to the key ``last``, where one is given."""
    c = reader.cursor
    fields = _Fields()
    while True:
        _read_parameter(reader, fields)
        if not c.accept(Kind.COMMA) or (last and c.at_word(last)):
            break
    missing = [k for k in ("dtype", "rows", "cols") if k not in fields.values]
    if missing and (last or c.kind is Kind.GREATER):
        absent = f"got a !pto.{name} without {', '.join(missing)}"
        c.fail(f"{absent}; allowed: {SPELLINGS}", start=start, end=c.end)
    if missing:
        c.unexpected("',' and further parameters of the tile type, or '>'")
    if reader.dialects_own and fields.values.get("loc", Loc.VEC) != Loc.VEC:
        # Operands of products count numbers.
        fields.values["dtype"] = unpaired(fields.values["dtype"])
    return TileType(**fields.values)


def _read_parameter(reader: ShapeReader, fields: _Fields) -> None:
    c = reader.cursor
    start = c.start
    if c.kind is Kind.BARE_IDENT and c.peek()[0] is Kind.EQUAL:
        _read_keyed(reader, fields)
    elif c.kind is Kind.HASH_IDENT:
        space = enumeration(c, AddressSpace, "address_space")
        if space.name not in Loc.__members__:
            c.fail_since(start, f"got a tile in the address space {space.name.lower()}, which holds no tiles")
        _store(reader, fields, "loc", Loc[space.name], start)
    elif c.at_word("strided"):
        reader.strided()
    elif c.kind is Kind.BARE_IDENT and "loc" not in fields.values and member(Loc, c.text) is not None:
        _store(reader, fields, "loc", member(Loc, c.take()), start)
    elif c.kind in (Kind.QUESTION, Kind.INTEGER_LIT) and c.peek()[0] is Kind.BARE_IDENT:
        if "rows" in fields.values:
            c.unexpected(f"a parameter of the tile type, as in key=value; {_VALID_BY_KEY}")
        _read_dims(reader, fields)
    else:
        _read_positional(reader, fields)


def _read_dims(reader: ShapeReader, fields: _Fields) -> None:
    c = reader.cursor
    start = c.start
    dims, element = reader.shaped("the dimensions of a tile, as in 16x16xf32")
    if len(dims) != 2 or None in dims:
        c.fail_since(
            start,
            f"got a tile that does not have two static dimensions; allowed: 16x16xf32; {_VALID_BY_KEY}",
        )
    for key, value in zip(("dtype", "rows", "cols"), (element, *dims), strict=True):
        _store(reader, fields, key, value, start)


def _read_keyed(reader: ShapeReader, fields: _Fields) -> None:
    c = reader.cursor
    start, key = c.start, c.text
    if key not in KEYS:
        close = suggestion(key, KEYS)
        c.fail(f"got the unknown key '{key}' in a tile type{close}; allowed: {', '.join(KEYS)}")
    c.advance()
    c.advance()
    if key != "valid":
        _store(reader, fields, key, _read_value(reader, key), start)
        return
    for part, size in zip(("v_row", "v_col"), _valid(reader), strict=True):
        _store(reader, fields, part, size, start)


def _store(reader: ShapeReader, fields: _Fields, key: str, value: object, start: int) -> None:
    """Keep a parameter; one that is already there is an error naming both places."""
    c = reader.cursor
    if key in fields.values:
        first = c.span(*fields.places[key])
        c.fail_since(
            start, f"got '{key}' twice in a tile type (first on line {first.line}, column {first.col})"
        )
    if isinstance(value, DType) and value.name in ("index", "i1"):
        c.fail_since(
            c.last_end - len(value.name),
            f"got a tile of '{value.name}'; tiles hold numbers of at least 4 bits",
        )
    if isinstance(value, int) and key in ("rows", "cols", "v_row", "v_col") and value > MAX_SIZE:
        c.fail_since(start, f"got {key}={value}; allowed: at most {MAX_SIZE}")
    fields.values[key] = value
    fields.places[key] = (start, c.last_end)


def _read_positional(reader: ShapeReader, fields: _Fields) -> None:
    c = reader.cursor
    start = c.start
    key = next((k for k in _POSITIONS if k not in fields.values), None)
    if key is None or c.kind is Kind.GREATER:
        c.unexpected(f"a parameter of the tile type, as in key=value; {_VALID_BY_KEY}")
    if key == "dtype" and find_dtype(c.text.removeprefix("!pto.")) is None:
        memories = [m.name.lower() for m in Loc]
        forms = f"a memory ({', '.join(memories)}), an element type, dimensions (16x16xf32) or key=value"
        meant = ir.BUFFERS.get(c.text.upper()) or nearest(c.text, memories)
        c.fail(f"got {c.found()}", allowed=forms, fix=meant)
    if c.kind is Kind.QUESTION or (c.kind is Kind.INTEGER_LIT and not _is_code(key, c.text)):
        c.unexpected(f"{_expected(key)}; {_VALID_BY_KEY}")
    _store(reader, fields, key, _read_value(reader, key), start)


def _is_code(key: str, text: str) -> bool:
    """Whether a number without a key may be the value at its position."""
    cls = _ENUMERATIONS.get(key)
    return cls is None or text in [str(int(m)) for m in cls]


def _expected(key: str) -> str:
    cls = _ENUMERATIONS.get(key)
    return (
        f"a {key} ({words(cls)})" if cls is not None else f"an integer (the value of {key}, which is static)"
    )


def _read_value(reader: ShapeReader, key: str) -> Any:
    c = reader.cursor
    if key == "dtype":
        return reader.dtype()
    if key in ("rows", "cols"):
        return _size(reader, key, smallest=1)
    if key in ("v_row", "v_col"):
        return None if c.accept(Kind.QUESTION) else _dynamic(_size(reader, key, smallest=-1))
    if key == "fractal":
        if c.kind is Kind.BARE_IDENT and c.text.lower() == "none":
            c.advance()
            return 512
        return _size(reader, key, smallest=1)
    return enumeration(c, _ENUMERATIONS[key], key)


def _size(reader: ShapeReader, key: str, smallest: int) -> int:
    c = reader.cursor
    start = c.start
    size = c.integer(f"the value of {key}")
    if not smallest <= size <= MAX_SIZE:
        least = "0 (or ?)" if smallest < 0 else str(smallest)
        c.fail_since(start, f"got {key}={size}; allowed: an integer from {least} to {MAX_SIZE}")
    return size


def _dynamic(size: int) -> int | None:
    return None if size == -1 else size


def _valid(reader: ShapeReader) -> Dims:
    c = reader.cursor
    start = c.start
    dims, element = reader.dims("the valid sizes, as in 16x?", least=0)
    if len(dims) != 2 or element:
        c.fail_since(start, "got a 'valid' that is not two sizes; allowed: 16x16, 16x?")
    return dims


CONV_NAME = "conv_tile"
_MAX_RANK = 6


def read_conv_tile(reader: ShapeReader, start: int) -> TileType:
    """The type after its name: a place, dimensions and element type, a layout, and the geometry."""
    c = reader.cursor
    opened = c.open(lexer.Kind.LESS, f"after !pto.{CONV_NAME}")
    loc = Loc.MAT
    if c.kind is lexer.Kind.BARE_IDENT and attributes.member(Loc, c.text) is not None:
        loc = Loc[c.take().upper()]
        c.expect(lexer.Kind.COMMA)
    dims, element = reader.shaped("the dimensions of a convolution tile, as in 1x2x3x4x8xf32")
    if None in dims or len(dims) > _MAX_RANK:
        c.fail_since(
            start,
            f"got a convolution tile of {len(dims)} dimensions; allowed: 1 to {_MAX_RANK} static ones",
        )
    layout: GlobalLayout | None = None
    fields: dict[str, str] = {}
    while c.accept(lexer.Kind.COMMA):
        at, key = c.start, c.expect(lexer.Kind.BARE_IDENT, "a key of a convolution tile, as in filter=3x3")
        c.expect(lexer.Kind.EQUAL)
        if key in fields or (key == "layout" and layout is not None):
            c.fail_since(at, f"got '{key}' twice in a convolution tile")
        if key == "layout":
            layout = attributes.enumeration(c, GlobalLayout, "layout")
        else:
            fields[key] = _value(reader)
    geometry = read_geometry(fields)
    if isinstance(geometry, str):
        c.fail_since(start, geometry)
    if layout is None:
        c.unexpected("layout=... of the convolution tile")
    c.close(lexer.Kind.GREATER, opened)
    return conv_tile(element, Conv(layout, tuple(d or 0 for d in dims), geometry), loc)


def _value(reader: ShapeReader) -> str:
    """A number, or sizes with ``x`` between them, as written."""
    c = reader.cursor
    start = c.start
    while c.kind in (lexer.Kind.INTEGER_LIT, lexer.Kind.BARE_IDENT) and (c.start in (start, c.last_end)):
        c.advance()
    if c.last_end <= start:
        c.unexpected("a number, or sizes as in 3x3")
    return c.source[start : c.last_end]


MAX_RANK = 5
#: Types without data, which are kept as written.
OPAQUE = (
    "pipe",
    "eventid_array",
    "async_session",
    "prefetch_async_context",
    "async_event",
    "event",
    "global",
    "memref",
    "group",
    "fmatrix_config",
    "prefetch_context",
    "hif8x2",
    "bf16x2",
)
#: Values that a core keeps, and how many slots a tile in several buffers may have.
MULTI, ARRAY, STRUCT = _LOCAL = ("multi_tile_buf", "local_array", "struct")
MAX_SLOTS = 16
VIEWS = ("tensor_view", "partition_tensor_view", "tile_view")
#: What the documentation writes for "some element type" and for "some dimensions".
OPEN_DTYPE = "dtype"
_OPEN_DIMS = re.compile(r"[A-Za-z?0-9]+xdtype")
#: What the overview writes for some tile: element type, rows and columns by a letter each.
_OPEN_TILE = re.compile(r"T\s*,\s*R\s*,\s*C\s*>")
#: A type with at most one inner pair of angle brackets, which is all that programs write.
_EXTENT = re.compile(r"[!\w.]*<(?:[^<>]++|<[^<>]*+>)*+>")
#: A type that means the same in every text: no alias and no value stands in it.
_EVERYWHERE = re.compile(r"!pto\.\w+<[^!#%]++")
#: Types by their text, with the names of tile types in it.
_Types: TypeAlias = dict[str, tuple[ir.Type, set[str]]]
#: Such types that were read, and how many are kept.
_READ: _Types = {}
_KEPT = 4096


#: A pointer without its name in front: an element type, and a memory where it is not the global one.
_SHORT_POINTER = re.compile(r"<\s*(?:!pto\.)?[A-Za-z]\w*\s*(?:,\s*(?!rows|cols)[a-z]\w*\s*)?>")
_MASK_WIDTH = re.compile(r"(?:pred|b(8|16|32))")


def read_register(reader: ShapeReader) -> ir.Type:
    """``!pto.vreg<64xf32>``, ``!pto.mask<b32>``, ``!pto.align``, and the logical ``!pto.vmi`` ones."""
    c = reader.cursor
    start, name = c.start, c.take().removeprefix("!pto.")
    if name == "align":
        return ir.AlignType()
    logical, name = name.startswith("vmi."), name.removeprefix("vmi.")
    opened = c.open(Kind.LESS, f"after !pto.{name}")
    result = _read_vreg(reader, logical, start) if name == "vreg" else _read_mask(reader, logical, start)
    if logical and c.accept(Kind.COMMA):
        begin = c.start
        while c.kind not in (Kind.GREATER, Kind.EOF):
            c.skip_brackets() if c.kind in CLOSING else c.advance()
        result = replace(result, layout=c.source[begin : c.last_end])
        if allowed := ir.layout_objection(result):
            c.fail_since(begin, f"got the layout {result.layout} in {result}; allowed: {allowed}")
    c.close(Kind.GREATER, opened)
    return result


def _read_vreg(reader: ShapeReader, logical: bool, start: int) -> ir.VRegType:
    c = reader.cursor
    dims, element = reader.dims("the lanes of a register, as in 64xf32")
    if len(dims) != 1 or dims[0] is None or not element:
        c.fail_since(start, "got a register that is not lanes of an element type; allowed: 64xf32")
    d = reader.register_dtype(element)
    if d.kind == "index":
        message = "got a register of index; allowed: integers of 8 to 64 bits; try: !pto.vreg<32xi64>"
        c.fail_since(start, message)
    result = ir.VRegType(dims[0], d, d.kind == "int" and not element.startswith("s"), logical)
    if logical and d.word_bits not in (8, 16, 32):
        c.fail_since(start, f"got a logical register of {d}; allowed: elements of 8, 16 or 32 bits")
    if not result.fits:
        lanes = 2048 // d.word_bits
        c.fail_since(start, f"got a register of {dims[0]} x {d}; allowed: {lanes} lanes, which are 256 bytes")
    return result


def _read_mask(reader: ShapeReader, logical: bool, start: int) -> ir.MaskType:
    c = reader.cursor
    dims, width = reader.dims("the lanes of a mask, as in 128xpred") if logical else ((0,), c.take())
    matched = _MASK_WIDTH.fullmatch(width) if width or not logical else None
    if len(dims) != 1 or dims[0] is None or (width and matched is None) or (not logical and width == "pred"):
        allowed = "128xpred, 128xb32, 128" if logical else "b8, b16, b32"
        c.fail_since(start, f"got a mask of {c.source[start : c.last_end]}; allowed: {allowed}")
    return ir.MaskType(int(matched.group(1) or 0) if matched else 0, dims[0])


class TypeReader(ShapeReader):
    """Reads types at a cursor and remembers the text of those already read."""

    def __init__(self, cursor: lexer.Cursor) -> None:
        super().__init__(cursor)
        self._known: _Types = {}
        self._aliases: dict[str, ir.Type] = {}
        #: The names of tile types that the text has.
        self.spelled: set[str] = set()

    def read_alias(self) -> None:
        """``!name = TYPE``: a name for a type in the rest of the text."""
        c = self.cursor
        start, name = c.start, c.take()
        if "." in name:
            c.fail_since(start, f"got the type alias {name}; allowed: a name without '.', as in !row")
        if name in self._aliases:
            c.fail_since(start, f"got a second type alias {name}; allowed: one definition of a name")
        c.expect(Kind.EQUAL)
        self._aliases[name] = self.read()

    def read(self) -> ir.Type:
        """The type at the cursor."""
        c = self.cursor
        if c.kind is Kind.BARE_IDENT and (scalar := self._word()) is not None:
            return scalar
        if c.kind is Kind.EXCLAMATION_IDENT and (alias := self._aliases.get(c.text)) is not None:
            c.advance()
            return alias
        extent = _EXTENT.match(c.source, c.start)
        if extent is not None and (entry := self._seen(extent.group())) is not None:
            c.seek(extent.end())
            return entry
        start, around = c.start, self.spelled
        self.spelled = set()
        c.deeper("a type")
        t = self._dispatch()
        c.shallower()
        text = c.source[start : c.last_end]
        self._known[text] = t, self.spelled
        if _EVERYWHERE.fullmatch(text):
            if len(_READ) >= _KEPT:
                _READ.clear()
            _READ[text] = self._known[text]
        self.spelled = around | self.spelled
        return t

    def _seen(self, text: str) -> ir.Type | None:
        """The type of a text that was read before."""
        entry = self._known.get(text) or _READ.get(text)
        if entry is None:
            return None
        self.spelled |= entry[1]
        return entry[0]

    @property
    def has_aliases(self) -> bool:
        """Whether the text has names for types."""
        return bool(self._aliases)

    def starts(self) -> bool:
        """Whether the current token begins a type."""
        c = self.cursor
        if c.kind is Kind.BARE_IDENT:
            return c.text in ("memref", "vector", OPEN_DTYPE) or ir.find_dtype(c.text) is not None
        return c.kind in (Kind.EXCLAMATION_IDENT, Kind.LESS)

    def _word(self) -> ir.Type | None:
        """A type that is one word; None when the word opens a longer type."""
        c = self.cursor
        if c.text in ("memref", "vector", "pto.tile", "pto.tile_buf"):
            return None
        if c.text == OPEN_DTYPE:
            c.advance()
            return ir.UnknownType(OPEN_DTYPE, "scalar")
        if c.text == "_":
            c.advance()
            return ir.UnknownType()
        match = ir.find_dtype(c.text)
        if match is None:
            c.unexpected("a type (f32, index, !pto.tile_buf<...>, memref<...> ...)")
        c.advance()
        return _scalar(match)

    def _dispatch(self) -> ir.Type:
        c = self.cursor
        if c.kind is Kind.LESS:
            return self._elided()
        if c.at_word("memref"):
            return self._memref()
        if c.at_word("vector"):
            return self._vector()
        if c.kind is not Kind.EXCLAMATION_IDENT and c.kind is not Kind.BARE_IDENT:
            c.unexpected("a type")
        name = c.text.removeprefix("!").removeprefix("pto.")
        type_names = (*TILE_NAMES, *VIEWS, *OPAQUE, "ptr", CONV_NAME, *_LOCAL)
        if c.text.startswith("!pto.") and (element := ir.find_dtype(name)) is not None:
            c.advance()
            return ir.ScalarType(self.counted("!pto.", element))
        if c.text.startswith("!pto.") and formats.is_register_type(name):
            return read_register(self)
        if not c.text.startswith(("!pto.", "pto.")) or name not in type_names:
            aliases = [alias.removeprefix("!") for alias in self._aliases]
            close = names.suggestion(name, type_names, "!pto.") or names.suggestion(name, aliases, "!")
            c.fail(f"got the unknown type {c.found()}{close}")
        start = c.start
        c.advance()
        if name in OPAQUE:
            return self._opaque(name)
        if name == CONV_NAME:
            return read_conv_tile(self, start)
        opened = c.open(Kind.LESS, f"after !pto.{name}")
        if (left_open := self._left_open(name, start)) is not None:
            return left_open
        result: ir.Type
        if name in TILE_NAMES:
            self.spelled.add(name)
            result = read_tile_body(self, name, start)
        elif name == "ptr":
            result = self._pointer()
        elif name in _LOCAL:
            readers: dict[str, Callable[[], ir.Type]] = {
                MULTI: self._multi,
                ARRAY: self._array,
                STRUCT: self._struct,
            }
            result = readers[name]()
        else:
            result = self._view(name)
        c.close(Kind.GREATER, opened)
        return result

    def _left_open(self, name: str, start: int) -> ir.UnknownType | None:
        """A type whose parameters a page leaves open: ``<...>``, ``<T, R, C>``, ``<MxNxdtype>``."""
        c = self.cursor
        if name in TILE_NAMES and (letters := _OPEN_TILE.match(c.source, c.start)) is not None:
            c.seek(letters.end())
            return ir.UnknownType(f"!pto.{name}<T, R, C>", "tile")
        is_open = c.kind is Kind.ELLIPSIS or (c.kind is Kind.BARE_IDENT and _OPEN_DIMS.fullmatch(c.text))
        if not is_open:
            return None
        c.advance()
        c.expect(Kind.GREATER)
        text = "".join(c.source[start : c.last_end].split())
        return ir.UnknownType("!" + text.removeprefix("!"), "tile" if name in TILE_NAMES else "any")

    def _elided(self) -> ir.Type:
        """``<loc=vec, ...>`` or ``<f32>``: a tile or a pointer without its name in front."""
        c = self.cursor
        start = c.start
        c.advance()
        result: ir.Type
        if _SHORT_POINTER.match(c.source, start):
            result = self._pointer()
        else:
            self.spelled.add("tile_buf")
            result = read_tile_body(self, "tile_buf", start)
        c.close(Kind.GREATER, start)
        return result

    def _pointer(self) -> ir.PtrType | ir.UnknownType:
        c = self.cursor
        start = c.start
        if c.at_word("T"):
            c.advance()
            if c.accept(Kind.COMMA):
                c.expect(Kind.BARE_IDENT, "an address space")
            return ir.UnknownType(f"!pto.ptr<{''.join(c.source[start : c.last_end].split())}>")
        written = c.text if c.text.startswith("si") else ""
        element = self.register_dtype()
        own, space = self.dialects_own, ir.AddressSpace.GM
        if c.accept(Kind.COMMA):
            space = attributes.enumeration(c, ir.AddressSpace, "address_space")
        in_pairs = space in (ir.AddressSpace.GM, ir.AddressSpace.VEC)
        return ir.PtrType(ir.unpaired(element) if own and not in_pairs else element, space, written)

    def _multi(self) -> ir.MultiTileType:
        """``vec, 16x16xf16, count=2`` or ``!pto.tile_buf<...>, count=2``."""
        c = self.cursor
        start = c.start
        if c.kind is Kind.EXCLAMATION_IDENT:
            slot = self.read()
            c.expect(Kind.COMMA, "before count=2")
        else:
            slot = read_tile_body(self, MULTI, start, last="count")
        if not isinstance(slot, ir.TileType):
            c.fail_since(start, f"got slots of type {slot}; allowed: a tile")
        c.expect_word("count")
        c.expect(Kind.EQUAL)
        start = c.start
        count = c.integer("the number of slots")
        if not 2 <= count <= MAX_SLOTS:
            c.fail_since(start, f"got count={count}; allowed: 2 to {MAX_SLOTS}")
        return ir.MultiTileType(slot, count)

    def _array(self) -> ir.LocalArrayType:
        """``4x8xf32``."""
        c = self.cursor
        start = c.start
        dims, element = self.shaped("the dimensions of an array, as in 4x8xf32")
        static = tuple(d for d in dims if d is not None)
        if len(static) < len(dims) or not (element.is_integer or element.is_float):
            c.fail_since(
                start,
                f"got an array of {c.source[start : c.last_end]}; allowed: constant extents and an integer "
                "or float element type",
            )
        return ir.LocalArrayType(static, element)

    def _struct(self) -> ir.StructType:
        """``f16, i8, !pto.struct<f32>``."""
        c = self.cursor
        fields: list[ir.DType | ir.StructType] = []
        for start, t in c.listed(lambda: (c.start, self.read()), Kind.GREATER):
            scalar = t.dtype if isinstance(t, ir.ScalarType) and _is_field(t.dtype) else None
            result = t if isinstance(t, ir.StructType) else scalar
            if result is None:
                c.fail_since(
                    start,
                    f"got a field of type {t}; allowed: i8 to i64, ui8 to ui64, f16, bf16, f32, structures",
                )
            fields.append(result)
        if not fields:
            c.unexpected("the type of a field")
        return ir.StructType(tuple(fields))

    def _view(self, name: str) -> ir.Type:
        c = self.cursor
        start = c.start
        dims, element = self.shaped(f"the dimensions of !pto.{name}, as in 16x512xbf16")
        if not 1 <= len(dims) <= MAX_RANK:
            c.fail_since(start, f"got a !pto.{name} of rank {len(dims)}; allowed: 1 to {MAX_RANK} dimensions")
        view = ir.TensorViewType if name == "tensor_view" else ir.PartitionViewType
        return view(dims, element)

    def _opaque(self, name: str) -> ir.Type:
        c = self.cursor
        if c.kind is not Kind.LESS:
            return ir.OpaqueType(name)
        params = self.balanced()
        if params == "<...>":
            return ir.UnknownType(f"!pto.{name}<...>")
        return ir.OpaqueType(name, params[1:-1])

    def balanced(self) -> str:
        """The text of a bracketed group, brackets included, with blanks made uniform."""
        c = self.cursor
        opened: list[tuple[TokenKind, int]] = []
        start = c.start
        if c.kind not in CLOSING:
            c.unexpected("'<'")
        while True:
            if c.kind in CLOSING:
                opened.append((c.kind, c.start))
                c.deeper("a bracket")
            elif opened and c.kind is CLOSING[opened[-1][0]]:
                opened.pop()
                c.shallower()
            elif c.kind in CLOSING.values() or c.kind is Kind.EOF:
                c.close(CLOSING[opened[-1][0]], opened[-1][1])
            c.advance()
            if not opened:
                return re.sub(r"\s+", " ", c.source[start : c.last_end])

    # -- shaped types --------------------------------------------------------------------------------

    def _memref(self) -> ir.MemRefType | ir.UnknownType:
        c = self.cursor
        c.advance()
        opened = c.open(Kind.LESS, "after memref")
        if c.accept(Kind.ELLIPSIS):
            c.close(Kind.GREATER, opened)
            return ir.UnknownType("memref<...>")
        dims: Dims = ()
        if c.kind is Kind.BARE_IDENT:
            element = self.dtype()
        else:
            dims, element = self.shaped("the dimensions of a memref")
        strides: Dims | None = None
        offset: int | None = 0
        space: ir.AddressSpace | None = None
        while c.accept(Kind.COMMA):
            if c.at_word("strided") and strides is None:
                strides, offset = self.strided()
            elif c.kind in (Kind.HASH_IDENT, Kind.INTEGER_LIT) and space is None:
                space = attributes.enumeration(c, ir.AddressSpace, "address_space")
            else:
                c.unexpected("strided<[...], offset: ...> or #pto.address_space<...>, each at most once")
        c.close(Kind.GREATER, opened)
        return ir.MemRefType(dims, element, space, strides, offset)

    def _vector(self) -> ir.VectorType:
        c = self.cursor
        c.advance()
        opened = c.open(Kind.LESS, "after vector")
        dims, element = self.shaped("the dimensions of a vector")
        static = tuple(d for d in dims if d is not None)
        if len(static) < len(dims):
            c.fail_since(opened, "got a vector with a dimension '?'; vectors are static")
        c.close(Kind.GREATER, opened)
        return ir.VectorType(static, element)


@cache
def _scalar(d: ir.DType) -> ir.ScalarType:
    return ir.ScalarType(d)


def _is_field(d: ir.DType) -> bool:
    return (d.is_integer and d.bits >= 8) or d.name in ("f16", "bf16", "f32")
