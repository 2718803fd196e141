"""Reading types: every spelling of programs and documentation pages.

Types are written out at every operand, so the reader remembers what each piece of type text meant and
passes over a known one without looking at its tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir.dtypes import DType, find_dtype
from ..ir.types import (
    AddressSpace,
    MemRefType,
    OpaqueType,
    PartitionViewType,
    PtrType,
    ScalarType,
    TensorViewType,
    Type,
    UnknownType,
    VectorType,
)
from .attributes import enumeration
from .conv_type import CONV_NAME, read_conv_tile
from .lexer import Cursor
from .names import suggestion
from .tile_type import TILE_NAMES, read_tile_body
from .tokens import Kind

MAX_RANK = 5
MAX_DIMENSION = (1 << 63) - 1
#: Types without data, which are kept as written.
OPAQUE = (
    "pipe",
    "eventid_array",
    "async_session",
    "async_event",
    "event",
    "global",
    "memref",
    "group",
    "fmatrix_config",
    "prefetch_context",
)
VIEWS = ("tensor_view", "partition_tensor_view", "tile_view")
#: What the documentation writes for "some element type" and for "some dimensions".
OPEN_DTYPE = "dtype"
_OPEN_DIMS = re.compile(r"[A-Za-z?0-9]+xdtype")
#: What the overview writes for some tile: element type, rows and columns by a letter each.
_OPEN_TILE = re.compile(r"T\s*,\s*R\s*,\s*C\s*>")
#: A type with at most one inner pair of angle brackets, which is all that programs write.
_EXTENT = re.compile(r"[!\w.]*<(?:[^<>]++|<[^<>]*+>)*+>")
_DIM = re.compile(r"(\d+)x")

Dims = tuple[int | None, ...]


class TypeReader:
    """Reads types at a cursor and remembers the text of those already read."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._known: dict[str, Type] = {}

    def read(self) -> Type:
        """The type at the cursor."""
        c = self.cursor
        if c.kind is Kind.BARE_IDENT and (scalar := self._word()) is not None:
            return scalar
        extent = _EXTENT.match(c.source, c.start)
        if extent is not None and (known := self._known.get(extent.group())) is not None:
            c.seek(extent.end())
            return known
        start = c.start
        c.deeper("a type")
        found = self._dispatch()
        c.shallower()
        self._known[c.source[start : c.last_end]] = found
        return found

    def starts(self) -> bool:
        """Whether the current token begins a type."""
        c = self.cursor
        if c.kind is Kind.BARE_IDENT:
            return c.text in ("memref", "vector", OPEN_DTYPE) or find_dtype(c.text) is not None
        return c.kind in (Kind.EXCLAMATION_IDENT, Kind.LESS)

    def _word(self) -> Type | None:
        """A type that is one word; None when the word opens a longer type."""
        c = self.cursor
        if c.text in ("memref", "vector", "pto.tile", "pto.tile_buf"):
            return None
        if c.text == OPEN_DTYPE:
            c.advance()
            return UnknownType(OPEN_DTYPE, "scalar")
        if c.text == "_":
            c.advance()
            return UnknownType()
        found = find_dtype(c.text)
        if found is None:
            c.unexpected("a type (f32, index, !pto.tile_buf<...>, memref<...> ...)")
        c.advance()
        return ScalarType(found)

    def _dispatch(self) -> Type:
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
        known = (*TILE_NAMES, *VIEWS, *OPAQUE, "ptr", CONV_NAME)
        if not c.text.startswith(("!pto.", "pto.")) or name not in known:
            c.fail(f"found the unknown type {c.found()}{suggestion(name, known, '!pto.')}")
        start = c.start
        c.advance()
        if name in OPAQUE:
            return self._opaque(name, start)
        if name == CONV_NAME:
            return read_conv_tile(self, start)
        opened = c.start
        c.expect(Kind.LESS, f"after !pto.{name}")
        if (left_open := self._left_open(name, start)) is not None:
            return left_open
        found: Type
        if name in TILE_NAMES:
            found = read_tile_body(self, name, start)
        elif name == "ptr":
            found = self._pointer()
        else:
            found = self._view(name)
        c.close(Kind.GREATER, opened)
        return found

    def _left_open(self, name: str, start: int) -> UnknownType | None:
        """A type whose parameters a page leaves open: ``<...>``, ``<T, R, C>``, ``<MxNxdtype>``."""
        c = self.cursor
        if name in TILE_NAMES and (letters := _OPEN_TILE.match(c.source, c.start)) is not None:
            c.seek(letters.end())
            return UnknownType(f"!pto.{name}<T, R, C>", "tile")
        is_open = c.kind is Kind.ELLIPSIS or (c.kind is Kind.BARE_IDENT and _OPEN_DIMS.fullmatch(c.text))
        if not is_open:
            return None
        c.advance()
        c.expect(Kind.GREATER)
        text = "".join(c.source[start : c.last_end].split())
        return UnknownType("!" + text.removeprefix("!"), "tile" if name in TILE_NAMES else "any")

    def _elided(self) -> Type:
        """``<loc=vec, ...>`` or ``<f32>``: a tile or a pointer without its name in front."""
        c = self.cursor
        start = c.start
        c.advance()
        found: Type
        if c.kind is Kind.BARE_IDENT and c.peek()[0] is Kind.GREATER:
            found = self._pointer()
        else:
            found = read_tile_body(self, "tile_buf", start)
        c.close(Kind.GREATER, start)
        return found

    def _pointer(self) -> PtrType | UnknownType:
        c = self.cursor
        start = c.start
        if c.at_word("T"):
            c.advance()
            if c.accept(Kind.COMMA):
                c.expect(Kind.BARE_IDENT, "an address space")
            return UnknownType(f"!pto.ptr<{''.join(c.source[start : c.last_end].split())}>")
        element = self.dtype()
        space = AddressSpace.GM
        if c.accept(Kind.COMMA):
            space = enumeration(c, AddressSpace, "address_space")
        return PtrType(element, space)

    def _view(self, name: str) -> Type:
        c = self.cursor
        start = c.start
        dims, element = self.shaped(f"the dimensions of !pto.{name}, as in 16x512xbf16")
        if not 1 <= len(dims) <= MAX_RANK:
            c.fail(
                f"found a !pto.{name} of rank {len(dims)}; allowed: 1 to {MAX_RANK} dimensions",
                start=start,
                end=c.last_end,
            )
        view = TensorViewType if name == "tensor_view" else PartitionViewType
        return view(dims, element)

    def _opaque(self, name: str, start: int) -> Type:
        c = self.cursor
        if c.kind is not Kind.LESS:
            return OpaqueType(name)
        params = self.balanced()
        if params == "<...>":
            return UnknownType(f"!pto.{name}<...>")
        return OpaqueType(name, params[1:-1])

    def balanced(self) -> str:
        """The text of a bracketed group, brackets included, with blanks made uniform."""
        c = self.cursor
        closing = {
            Kind.LESS: Kind.GREATER,
            Kind.L_PAREN: Kind.R_PAREN,
            Kind.L_SQUARE: Kind.R_SQUARE,
            Kind.L_BRACE: Kind.R_BRACE,
        }
        opened: list[tuple[Kind, int]] = []
        start = c.start
        while True:
            if c.kind in closing:
                opened.append((c.kind, c.start))
                c.deeper("a bracket")
            elif opened and c.kind is closing[opened[-1][0]]:
                opened.pop()
                c.shallower()
            elif c.kind in closing.values() or c.kind is Kind.EOF:
                c.close(closing[opened[-1][0]], opened[-1][1])
            c.advance()
            if not opened:
                return re.sub(r"\s+", " ", c.source[start : c.last_end])

    # -- shaped types --------------------------------------------------------------------------------

    def dtype(self, text: str | None = None) -> DType:
        """An element type at the cursor, or the one called ``text``."""
        c = self.cursor
        name = c.expect(Kind.BARE_IDENT, "an element type") if text is None else text
        found = find_dtype(name)
        if found is None:
            c.fail(
                f"found the unknown element type '{name}'; allowed: f32, f16, bf16, i8 to i64, ui8 to ui64, "
                "f8E4M3FN, f8E5M2 and further small floats",
                start=c.last_end - len(name),
                end=c.last_end,
            )
        return found

    def dims(self, role: str, least: int = 1) -> tuple[Dims, str]:
        """``16x?xf32`` as sizes and the text after the last ``x`` ("" when nothing follows)."""
        c = self.cursor
        sizes: list[int | None] = []
        while True:
            rest = ""
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
            if c.start == c.last_end and c.kind is Kind.BARE_IDENT and (rest or c.text[0] == "x"):
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
            self.cursor.fail(f"found the dimension {size}; allowed: {allowed} or '?'", start=end - 1, end=end)
        return size

    def shaped(self, role: str) -> tuple[Dims, DType]:
        """Dimensions followed by an element type."""
        dims, element = self.dims(role)
        if not element:
            self.cursor.unexpected("an element type after the dimensions, as in 16x512xbf16")
        return dims, self.dtype(element)

    def _memref(self) -> MemRefType | UnknownType:
        c = self.cursor
        c.advance()
        opened = c.start
        c.expect(Kind.LESS, "after memref")
        if c.accept(Kind.ELLIPSIS):
            c.close(Kind.GREATER, opened)
            return UnknownType("memref<...>")
        dims: Dims = ()
        if c.kind is Kind.BARE_IDENT:
            element = self.dtype()
        else:
            dims, element = self.shaped("the dimensions of a memref")
        strides: Dims | None = None
        offset: int | None = 0
        space: AddressSpace | None = None
        while c.accept(Kind.COMMA):
            if c.at_word("strided") and strides is None:
                strides, offset = self.strided()
            elif c.kind in (Kind.HASH_IDENT, Kind.INTEGER_LIT) and space is None:
                space = enumeration(c, AddressSpace, "address_space")
            else:
                c.unexpected("strided<[...], offset: ...> or #pto.address_space<...>, each at most once")
        c.close(Kind.GREATER, opened)
        return MemRefType(dims, element, space, strides, offset)

    def strided(self) -> tuple[Dims, int | None]:
        """``strided<[s, ...], offset: o>``; the offset may be a list (tiles of old programs)."""
        c = self.cursor
        c.advance()
        opened = c.start
        c.expect(Kind.LESS, "after strided")
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
        opened = c.start
        c.expect(Kind.L_SQUARE)
        sizes = c.listed(self._open_size, Kind.R_SQUARE)
        c.close(Kind.R_SQUARE, opened)
        return sizes or [None]

    def _open_size(self) -> int | None:
        c = self.cursor
        return None if c.accept(Kind.QUESTION) else c.integer("a size or '?'")

    def _vector(self) -> VectorType:
        c = self.cursor
        c.advance()
        opened = c.start
        c.expect(Kind.LESS, "after vector")
        dims, element = self.shaped("the dimensions of a vector")
        static = tuple(d for d in dims if d is not None)
        if len(static) < len(dims):
            c.fail("found a vector with a dimension '?'; vectors are static", start=opened, end=c.last_end)
        c.close(Kind.GREATER, opened)
        return VectorType(static, element)
