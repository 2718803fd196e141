"""Reading sizes: element types, dimensions and strides, of which the types with parameters are made."""

import re
from collections.abc import Sequence

from ..ir import DType, find_dtype, paired
from .lexer import Cursor
from .tokens import Kind

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
        found = find_dtype(name.removeprefix("!pto."))
        if found is None:
            c.fail_since(
                c.last_end - len(name),
                f"found the unknown element type '{name}'; allowed: f32, f16, bf16, i8 to i64, ui8 to ui64, "
                "f8E4M3FN, f8E5M2 and further small floats",
            )
        return self.counted(name, found)

    def counted(self, name: str, found: DType) -> DType:
        """An element type by how the text counts its elements: those of the dialect's own are pairs."""
        self.dialects_own = name.startswith("!pto.")
        return paired(found) if self.dialects_own else found

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
            self.cursor.fail(f"found the dimension {size}; allowed: {allowed} or '?'", start=end - 1, end=end)
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
