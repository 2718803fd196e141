"""Types of arguments and tiles, as Python programs give them."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from ..errors import ArgumentError, ParseError
from ..ir import types
from ..ir.dtypes import F32, I1, INDEX, DType, dtype as find_element, find_dtype
from .places import fail

E = TypeVar("E", bound=IntEnum)
_TYPES = (
    types.TileType,
    types.ScalarType,
    types.PtrType,
    types.TensorViewType,
    types.PartitionViewType,
    types.MemRefType,
    types.VectorType,
    types.OpaqueType,
    types.MultiTileType,
    types.LocalArrayType,
    types.StructType,
    types.UnknownType,
)
_PYTHON: dict[object, DType] = {int: INDEX, float: F32, bool: I1}


def as_type(given: object, what: str = "type") -> types.Type:
    """A type of the IR: itself, an element type (a scalar), ``int`` (index), ``float`` (f32) or text.

    >>> str(as_type("index")), str(as_type("!pto.ptr<bf16>")), str(as_type(float))
    ('index', 'ptr<bf16>', 'f32')
    """
    if isinstance(given, _TYPES):
        return given
    if isinstance(given, DType):
        return types.ScalarType(given)
    if isinstance(given, type) and given in _PYTHON:
        return types.ScalarType(_PYTHON[given])
    if not isinstance(given, str):
        fail(f"{what}: found {given!r}; allowed: a type (pto.ptr('f32'), 'index', '!pto.ptr<f32>' ...)")
    element = find_dtype(given)
    return types.ScalarType(element) if element is not None else _parsed(given, what)


def _parsed(text: str, what: str) -> types.Type:
    from ..text.lexer import Cursor
    from ..text.types import TypeReader

    try:
        cursor = Cursor(text, f"<{what}>")
        t = TypeReader(cursor).read()
        if cursor.text:
            cursor.unexpected("the end of the type")
    except ParseError as error:
        fail(f"{what}: found {text!r}, which is no type ({error.diagnostics[0].message})")
    return t


def element(given: str | DType, what: str = "element type") -> DType:
    """An element type by name; BuildError where there is none of the name."""
    try:
        return find_element(given)
    except ArgumentError as error:
        fail(f"{what}: {error}")


def ptr(dtype: str | DType, space: str | types.AddressSpace = types.AddressSpace.GM) -> types.PtrType:
    """The type of a pointer, by default into global memory; BuildError for an unknown element type or space.

    >>> str(ptr("f32"))
    'ptr<f32>'
    """
    return types.PtrType(element(dtype), member(types.AddressSpace, space, "space"))


def tensor_view(dtype: str | DType, *dims: int | None) -> types.TensorViewType:
    """The type of a view of global memory; None marks an extent known at run time.

    >>> str(tensor_view("f16", None, 128))
    'tensor_view<?x128xf16>'
    """
    return types.TensorViewType(dims, element(dtype))


def member(cls: type[E], given: object, what: str) -> E:
    """A member of an enumeration: itself, its name in any spelling of the text, or its number."""
    from ..text.attributes import words

    choice = _choice(cls, given)
    if choice is None:
        fail(f"{what}: found {given!r}; allowed: {words(cls)}")
    return choice


def either(*classes: type[IntEnum], given: object, what: str) -> IntEnum:
    """A member of the first of several enumerations that has it."""
    from ..text.attributes import words

    choice = next((c for c in (_choice(cls, given) for cls in classes) if c is not None), None)
    if choice is None:
        fail(f"{what}: found {given!r}; allowed: {', '.join(map(words, classes))}")
    return choice


def _choice(cls: type[E], given: object) -> E | None:
    from ..text.attributes import member as named

    if isinstance(given, IntEnum) and not isinstance(given, cls):
        return cls.__members__.get(given.name)
    if isinstance(given, str):
        return named(cls, given)
    if isinstance(given, int) and not isinstance(given, bool):
        return next((m for m in cls if m == given), None)
    return None


def tile_type(
    dtype: str | DType,
    rows: int,
    cols: int,
    *,
    loc: str | types.Loc = types.Loc.VEC,
    valid: tuple[int | None, int | None] | None = None,
    blayout: str | types.BLayout | None = None,
    slayout: str | types.SLayout | None = None,
    fractal: int | None = None,
    pad: str | types.Pad = types.Pad.NULL,
    compact: str | types.Compact = types.Compact.NULL,
) -> types.TileType:
    """The type of a tile; without layouts it has the element order that its place asks for.

    ``valid`` has None for sizes known at run time.

    >>> tile_type("f16", 32, 64, loc="mat").layout, tile_type("f16", 32, 64).layout
    ('NZ', 'ND')
    """
    place = member(types.Loc, loc, "loc")
    for what, size in (("rows", rows), ("cols", cols)):
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            fail(f"{what}: found {size!r}; allowed: a positive Python integer")
    outer, inner, size_of_box = _order(place, blayout, slayout)
    v_row, v_col = (rows, cols) if valid is None else valid
    return types.TileType(
        element(dtype),
        rows,
        cols,
        v_row,
        v_col,
        place,
        outer,
        inner,
        size_of_box if fractal is None else fractal,
        member(types.Pad, pad, "pad"),
        member(types.Compact, compact, "compact"),
    )


def _order(
    place: types.Loc, blayout: str | types.BLayout | None, slayout: str | types.SLayout | None
) -> tuple[types.BLayout, types.SLayout, int]:
    """Element order and bytes of a box: as given, else as the place asks for."""
    outer, inner, box = types.element_order(place)
    if blayout is not None or slayout is not None:
        outer, inner = types.BLayout.ROW_MAJOR, types.SLayout.NONE_BOX
    if blayout is not None:
        outer = member(types.BLayout, blayout, "blayout")
    if slayout is not None:
        inner = member(types.SLayout, slayout, "slayout")
    return outer, inner, box
