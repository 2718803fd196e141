"""Types of arguments and tiles, as Python programs give them."""

from enum import IntEnum
from typing import Any, TypeVar

from .. import errors, ir
from .places import fail
from .public import public
from .values import Handle, described

E = TypeVar("E", bound=IntEnum)
_EXAMPLES = "pto.ptr('f32'), 'index', '!pto.ptr<f32>' ..."
_TYPES = (
    ir.TileType,
    ir.ScalarType,
    ir.PtrType,
    ir.TensorViewType,
    ir.PartitionViewType,
    ir.MemRefType,
    ir.VectorType,
    ir.OpaqueType,
    ir.MultiTileType,
    ir.LocalArrayType,
    ir.StructType,
    ir.UnknownType,
)
_PYTHON: dict[object, ir.DType] = {int: ir.INDEX, float: ir.F32, bool: ir.I1}


def as_type(value: object, what: str = "type") -> ir.Type:
    """A type of the IR: itself, an element type (a scalar), ``int`` (index), ``float`` (f32) or text.

    BuildError for anything else.

    >>> str(as_type("index")), str(as_type("!pto.ptr<bf16>")), str(as_type(float))
    ('index', 'ptr<bf16>', 'f32')
    """
    if isinstance(value, _TYPES):
        return value
    if isinstance(value, ir.DType):
        return ir.ScalarType(value)
    if isinstance(value, type) and value in _PYTHON:
        return ir.ScalarType(_PYTHON[value])
    if not isinstance(value, str):
        fail(f"{what}: got {described(value)}", allowed=f"a type ({_EXAMPLES})", fix=_pointer(value))
    element = ir.find_dtype(value)
    return ir.ScalarType(element) if element is not None else _parsed(value, what)


def _pointer(value: object) -> str:
    """The type of a pointer that an array, the type of one, or ``ptr`` itself stands for; "" for others."""
    if getattr(value, "__name__", "") in ("ndarray", "Array", "Tensor", "ptr"):
        return 'pto.ptr("f32")'
    d = ir.find_dtype(str(getattr(value, "dtype", "")))
    return f'pto.ptr("{d}")' if d is not None else ""


def _parsed(text: str, what: str) -> ir.Type:
    from ..text.lexer import Cursor
    from ..text.types import TypeReader

    try:
        cursor = Cursor(text, f"<{what}>")
        t = TypeReader(cursor).read()
        if cursor.text:
            cursor.unexpected("the end of the type")
    except errors.ParseError as error:
        inner = error.diagnostics[0]
        pointed = text.rstrip("* ")
        fix = f'pto.ptr("{pointed}")' if pointed != text and ir.find_dtype(pointed) else ""
        allowed = _EXAMPLES if fix or not inner.allowed else inner.allowed
        fail(f"{what}: got the type {text!r}", allowed=allowed, fix=fix)
    return t


def element(value: str | ir.DType) -> ir.DType:
    """An element type by name; BuildError where there is none of the name."""
    try:
        return ir.dtype(value)
    except errors.ArgumentError as error:
        fail(f"element type: {error.got}", allowed=error.allowed, fix=error.fix)


@public
def ptr(dtype: str | ir.DType, space: str | ir.AddressSpace = ir.AddressSpace.GM) -> ir.PtrType:
    """The type of a pointer, by default into global memory; BuildError for an unknown element type or space.

    >>> str(ptr("f32"))
    'ptr<f32>'
    """
    return ir.PtrType(element(dtype), member(ir.AddressSpace, space, "space"))


@public
def tensor_view(dtype: str | ir.DType, *dims: int | None) -> ir.TensorViewType:
    """The type of a view of global memory; None marks an extent known at run time.

    BuildError for negative extents and unknown element types.

    >>> str(tensor_view("f16", None, 128))
    'tensor_view<?x128xf16>'
    """
    extents: tuple[Any, ...] = dims
    for n in extents:
        if n is not None and not errors.is_number(n, 0):
            sizes = ", ".join(map(str, n)) if isinstance(n, tuple | list) else ""
            fix = f'pto.tensor_view("{dtype}", {sizes})' if sizes else ""
            fail(
                f"tensor_view: got the extent {n!r}",
                allowed="0 or more, or None for one of run time",
                fix=fix,
            )
    return ir.TensorViewType(dims, element(dtype))


def member(cls: type[E], value: object, what: str) -> E:
    """A member of an enumeration: itself, its name in any spelling of the text, or its number."""
    from ..text.attributes import words

    word = choice(cls, value)
    if word is None:
        choices = words(cls)
        close = ir.BUFFERS.get(str(value).upper(), "") if cls is ir.Loc else ""
        close = close or errors.nearest(value, choices.split(", ")) or next(iter(choices.split(", ")[1:]), "")
        fix = f'{what.rpartition(": ")[2]}="{close}"' if close else ""
        fail(f"{what}: got {described(value)}", allowed=choices, fix=fix)
    return word


def either(*classes: type[IntEnum], given: object, what: str) -> IntEnum:
    """A member of the first of several enumerations that has it."""
    from ..text.attributes import words

    word = next((c for c in (choice(cls, given) for cls in classes) if c is not None), None)
    if word is None:
        fail(f"{what}: got {described(given)}", allowed=", ".join(map(words, classes)))
    return word


def choice(cls: type[E], value: object) -> E | None:
    """A member of an enumeration by itself, its name or its number; None where there is none."""
    from ..text.attributes import member as named

    if isinstance(value, IntEnum) and not isinstance(value, cls):
        return cls.__members__.get(value.name)
    if isinstance(value, str):
        return named(cls, value)
    if isinstance(value, int) and not isinstance(value, bool):
        return next((m for m in cls if m == value), None)
    return None


@public
def tile_type(
    dtype: str | ir.DType,
    rows: int,
    cols: int,
    *,
    loc: str | ir.Loc = ir.Loc.VEC,
    valid: tuple[int | None, int | None] | None = None,
    blayout: str | ir.BLayout | None = None,
    slayout: str | ir.SLayout | None = None,
    fractal: int | None = None,
    pad: str | ir.Pad = ir.Pad.NULL,
    compact: str | ir.Compact = ir.Compact.NULL,
) -> ir.TileType:
    """The type of a tile; without layouts it has the element order that its place asks for.

    ``valid`` has None for sizes known at run time. BuildError for sizes that are no positive integers, and
    for unknown words.

    >>> tile_type("f16", 32, 64, loc="mat").layout, tile_type("f16", 32, 64).layout
    ('NZ', 'ND')
    """
    d, place = element(dtype), member(ir.Loc, loc, "loc")
    for what, size in (("rows", rows), ("cols", cols)):
        if not errors.is_number(size, 1):
            _no_size(what, size, d, rows, cols)
    rows, cols = int(rows), int(cols)
    outer, inner, size_of_box = _order(place, blayout, slayout)
    v_row, v_col = (rows, cols) if valid is None else two_sizes(valid, cols)
    return ir.TileType(
        d,
        rows,
        cols,
        v_row,
        v_col,
        place,
        outer,
        inner,
        size_of_box if fractal is None else fractal,
        member(ir.Pad, pad, "pad"),
        member(ir.Compact, compact, "compact"),
    )


def _no_size(what: str, size: Any, d: ir.DType, rows: Any, cols: Any) -> None:
    """Refuse rows or columns that are no positive Python integer."""
    known_later = isinstance(size, Handle)
    run_time = "; valid= takes sizes that are known when the program runs" if known_later else ""
    whole = str(size).partition(".0")[0]
    fix = whole if isinstance(size, float | str) and whole.isdecimal() and int(whole) else ""
    if isinstance(size, Handle) and size.label.isidentifier():
        largest = {"rows": (16, cols), "cols": (rows, 64)}[what]
        region = (size.label, cols) if what == "rows" else (rows, size.label)
        fix = f'pto.alloc_tile("{d}", {largest[0]}, {largest[1]}, valid=({region[0]}, {region[1]}))'
    fail(f"{what}: got {described(size)}", allowed=f"a positive Python integer{run_time}", fix=fix)


def two_sizes(valid: Any, cols: Any) -> tuple[Any, Any]:
    """``valid=`` as two sizes, each of which is a number, a scalar of the program or None."""
    sizes = tuple(valid) if isinstance(valid, list | tuple) else ()
    if len(sizes) == 2 and all(n is None or isinstance(n, Handle) or errors.is_number(n, 0) for n in sizes):
        return sizes
    text = valid.label if isinstance(valid, Handle) else str(valid)
    one = isinstance(valid, Handle) or errors.is_number(valid, 0)
    fix = f"valid=({text}, {cols})" if one and isinstance(cols, int) else ""
    if len(sizes) == 2 and all(isinstance(n, int | float) and n >= 0 and n == int(n) for n in sizes):
        fix = f"valid=({int(sizes[0])}, {int(sizes[1])})"
    return fail(f"valid: got {described(valid)}", allowed="two sizes, rows and columns", fix=fix)


def _order(
    place: ir.Loc, blayout: str | ir.BLayout | None, slayout: str | ir.SLayout | None
) -> tuple[ir.BLayout, ir.SLayout, int]:
    """Element order and bytes of a box: as given, else as the place asks for."""
    outer, inner, box = ir.element_order(place)
    if blayout is not None or slayout is not None:
        outer, inner = ir.BLayout.ROW_MAJOR, ir.SLayout.NONE_BOX
    if blayout is not None:
        outer = member(ir.BLayout, blayout, "blayout")
    if slayout is not None:
        inner = member(ir.SLayout, slayout, "slayout")
    return outer, inner, box
