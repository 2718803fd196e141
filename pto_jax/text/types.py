"""Reading types: every spelling of programs and documentation pages.

Types are written out at every operand, so the reader remembers what each piece of type text meant and
passes over a known one without looking at its tokens.
"""

import re
from collections.abc import Callable
from functools import cache

from .. import ir
from . import attributes, conv_type, lexer, micro, names, shapes, tile_type
from .tokens import CLOSING, Kind

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


class TypeReader(shapes.ShapeReader):
    """Reads types at a cursor and remembers the text of those already read."""

    def __init__(self, cursor: lexer.Cursor) -> None:
        super().__init__(cursor)
        self._known: dict[str, ir.Type] = {}
        #: The names of tile types that the text has.
        self.spelled: set[str] = set()

    def read(self) -> ir.Type:
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
        found = ir.find_dtype(c.text)
        if found is None:
            c.unexpected("a type (f32, index, !pto.tile_buf<...>, memref<...> ...)")
        c.advance()
        return _scalar(found)

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
        known = (*tile_type.TILE_NAMES, *VIEWS, *OPAQUE, "ptr", conv_type.CONV_NAME, *_LOCAL)
        if c.text.startswith("!pto.") and (element := ir.find_dtype(name)) is not None:
            c.advance()
            return ir.ScalarType(self.counted("!pto.", element))
        if c.text.startswith("!pto.") and micro.is_micro_type(name):
            c.fail(micro.outside(f"the type '{c.text}'"))
        if not c.text.startswith(("!pto.", "pto.")) or name not in known:
            c.fail(f"found the unknown type {c.found()}{names.suggestion(name, known, '!pto.')}")
        start = c.start
        c.advance()
        if name in OPAQUE:
            return self._opaque(name, start)
        if name == conv_type.CONV_NAME:
            return conv_type.read_conv_tile(self, start)
        opened = c.open(Kind.LESS, f"after !pto.{name}")
        if (left_open := self._left_open(name, start)) is not None:
            return left_open
        found: ir.Type
        if name in tile_type.TILE_NAMES:
            self.spelled.add(name)
            found = tile_type.read_tile_body(self, name, start)
        elif name == "ptr":
            found = self._pointer()
        elif name in _LOCAL:
            readers: dict[str, Callable[[], ir.Type]] = {
                MULTI: self._multi,
                ARRAY: self._array,
                STRUCT: self._struct,
            }
            found = readers[name]()
        else:
            found = self._view(name)
        c.close(Kind.GREATER, opened)
        return found

    def _left_open(self, name: str, start: int) -> ir.UnknownType | None:
        """A type whose parameters a page leaves open: ``<...>``, ``<T, R, C>``, ``<MxNxdtype>``."""
        c = self.cursor
        if name in tile_type.TILE_NAMES and (letters := _OPEN_TILE.match(c.source, c.start)) is not None:
            c.seek(letters.end())
            return ir.UnknownType(f"!pto.{name}<T, R, C>", "tile")
        is_open = c.kind is Kind.ELLIPSIS or (c.kind is Kind.BARE_IDENT and _OPEN_DIMS.fullmatch(c.text))
        if not is_open:
            return None
        c.advance()
        c.expect(Kind.GREATER)
        text = "".join(c.source[start : c.last_end].split())
        return ir.UnknownType("!" + text.removeprefix("!"), "tile" if name in tile_type.TILE_NAMES else "any")

    def _elided(self) -> ir.Type:
        """``<loc=vec, ...>`` or ``<f32>``: a tile or a pointer without its name in front."""
        c = self.cursor
        start = c.start
        c.advance()
        found: ir.Type
        if c.kind is Kind.BARE_IDENT and c.peek()[0] is Kind.GREATER:
            found = self._pointer()
        else:
            self.spelled.add("tile_buf")
            found = tile_type.read_tile_body(self, "tile_buf", start)
        c.close(Kind.GREATER, start)
        return found

    def _pointer(self) -> ir.PtrType | ir.UnknownType:
        c = self.cursor
        start = c.start
        if c.at_word("T"):
            c.advance()
            if c.accept(Kind.COMMA):
                c.expect(Kind.BARE_IDENT, "an address space")
            return ir.UnknownType(f"!pto.ptr<{''.join(c.source[start : c.last_end].split())}>")
        element = self.dtype()
        own, space = self.dialects_own, ir.AddressSpace.GM
        if c.accept(Kind.COMMA):
            space = attributes.enumeration(c, ir.AddressSpace, "address_space")
        in_pairs = space in (ir.AddressSpace.GM, ir.AddressSpace.VEC)
        return ir.PtrType(ir.unpaired(element) if own and not in_pairs else element, space)

    def _multi(self) -> ir.MultiTileType:
        """``vec, 16x16xf16, count=2`` or ``!pto.tile_buf<...>, count=2``."""
        c = self.cursor
        start = c.start
        if c.kind is Kind.EXCLAMATION_IDENT:
            slot = self.read()
            c.expect(Kind.COMMA, "before count=2")
        else:
            slot = tile_type.read_tile_body(self, MULTI, start, last="count")
        if not isinstance(slot, ir.TileType):
            c.fail_since(start, f"found slots of type {slot}; allowed: a tile")
        c.expect_word("count")
        c.expect(Kind.EQUAL)
        start = c.start
        count = c.integer("the number of slots")
        if not 2 <= count <= MAX_SLOTS:
            c.fail_since(start, f"found count={count}; allowed: 2 to {MAX_SLOTS}")
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
                f"found an array of {c.source[start : c.last_end]}; allowed: constant extents and an integer "
                "or float element type",
            )
        return ir.LocalArrayType(static, element)

    def _struct(self) -> ir.StructType:
        """``f16, i8, !pto.struct<f32>``."""
        c = self.cursor
        fields: list[ir.DType | ir.StructType] = []
        for start, t in c.listed(lambda: (c.start, self.read()), Kind.GREATER):
            scalar = t.dtype if isinstance(t, ir.ScalarType) and _is_field(t.dtype) else None
            found = t if isinstance(t, ir.StructType) else scalar
            if found is None:
                c.fail_since(
                    start,
                    f"found a field of type {t}; allowed: i8 to i64, ui8 to ui64, f16, bf16, f32, structures",
                )
            fields.append(found)
        if not fields:
            c.unexpected("the type of a field")
        return ir.StructType(tuple(fields))

    def _view(self, name: str) -> ir.Type:
        c = self.cursor
        start = c.start
        dims, element = self.shaped(f"the dimensions of !pto.{name}, as in 16x512xbf16")
        if not 1 <= len(dims) <= MAX_RANK:
            c.fail_since(
                start, f"found a !pto.{name} of rank {len(dims)}; allowed: 1 to {MAX_RANK} dimensions"
            )
        view = ir.TensorViewType if name == "tensor_view" else ir.PartitionViewType
        return view(dims, element)

    def _opaque(self, name: str, start: int) -> ir.Type:
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
        opened: list[tuple[Kind, int]] = []
        start = c.start
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
        dims: shapes.Dims = ()
        if c.kind is Kind.BARE_IDENT:
            element = self.dtype()
        else:
            dims, element = self.shaped("the dimensions of a memref")
        strides: shapes.Dims | None = None
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
            c.fail_since(opened, "found a vector with a dimension '?'; vectors are static")
        c.close(Kind.GREATER, opened)
        return ir.VectorType(static, element)


@cache
def _scalar(d: ir.DType) -> ir.ScalarType:
    return ir.ScalarType(d)


def _is_field(d: ir.DType) -> bool:
    return (d.is_integer and d.bits >= 8) or d.name in ("f16", "bf16", "f32")
