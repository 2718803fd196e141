"""Tiles and global tensors: allocation and description, also under the names of the C++ interface."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import is_number, nearest
from ..ir import BUFFERS, F32, BLayout, DType, GlobalLayout, Loc, Pad, SLayout, TileType, find_dtype
from ..isa.views import ALLOC_TILE, MAKE_TENSOR_VIEW
from .argument_types import as_type, choice, member, tile_type, two_sizes
from .arith import Scalar
from .body import current
from .instructions import find
from .places import fail
from .program import Pointer
from .public import public
from .values import Handle, TileHandle, View, described

#: A size of the valid region that is known when the program runs.
Size = int | Scalar | None


def alloc_tile(
    dtype: str | DType | TileType,
    rows: int | None = None,
    cols: int | None = None,
    *,
    addr: Any = None,
    valid: tuple[Size, Size] | None = None,
    valid_row: Size = None,
    valid_col: Size = None,
    named: str | None = None,
    **layout: Any,
) -> TileHandle:
    """Declare a tile: by element type, rows and columns, or by its type.

    ``addr`` is its byte address. ``valid`` gives the valid region; sizes that are scalars of the program
    are dynamic. ``loc``, ``blayout``, ``slayout``, ``fractal``, ``pad`` and ``compact`` are as for
    :func:`tile_type`: without layouts the tile has the element order that its place asks for on the target
    of the program (a2a3 and a5 differ in left tiles). BuildError for sizes, words and types that there are
    not, and outside of a kernel.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f") as f:
    ...     tiles = b.alloc_tile("f32", 16, 64, addr=0), b.alloc_tile("f16", 16, 16, loc="left")
    >>> [t.type.loc.name for t in tiles]
    ['VEC', 'LEFT']
    """
    _check_layout(dtype, rows, cols, layout)
    sizes = (valid_row, valid_col) if valid is None else two_sizes(valid, cols)
    if isinstance(dtype, DType) or (rows is not None and cols is not None):
        if isinstance(dtype, TileType) or rows is None or cols is None:
            fail("got a type and its parts", allowed="alloc_tile(dtype, rows, cols, ...) or a tile type")
        order = _target_order(layout)
        t = tile_type(dtype, rows, cols, valid=(_static(sizes[0], rows), _static(sizes[1], cols)), **order)
    else:
        type_ = as_type(dtype)
        t_name = getattr(getattr(type_, "dtype", None), "name", "")
        if not isinstance(type_, TileType) or layout:
            shape = rows if isinstance(rows, tuple | list) else (rows or 16, cols or 64)
            fix = f'pto.{ALLOC_TILE}("{t_name}", {", ".join(map(str, shape))})' if t_name else ""
            allowed = f"{ALLOC_TILE}(dtype, rows, cols, ...) or a tile type"
            fail("got no rows and columns", allowed=allowed, fix=fix)
        t = type_
    dynamic = {
        name: size
        for name, size, static in zip(("valid_row", "valid_col"), sizes, t.valid, strict=True)
        if size is not None and (static is None or isinstance(size, Handle))
    }
    tile: TileHandle = find(ALLOC_TILE)(addr=addr, **dynamic, type=t, named=named)
    return tile


if not TYPE_CHECKING:
    # Type checkers see the function itself: the package imports its names in a circle.
    alloc_tile = public(alloc_tile)


#: What :func:`tile_type` takes by keyword besides the valid region.
_SIZES = ("dtype", "rows", "cols", "addr", "valid", "valid_row", "valid_col")
_LAYOUT = ("loc", "blayout", "slayout", "fractal", "pad", "compact")


def _check_layout(dtype: Any, rows: Any, cols: Any, layout: dict[str, Any]) -> None:
    """Refuse a keyword that tile types do not have; the fix is the one with such a value.

    BuildError for arguments in another order, too.
    """
    values = [v for a in (dtype, rows, cols) for v in (a if isinstance(a, tuple | list) else [a])]
    element = next((v for v in values if isinstance(v, str | DType)), None)
    numbers = [v for v in values if is_number(v, 1)]
    if element is not dtype and element is not None and len(numbers) == 2:
        fail(
            f"{ALLOC_TILE}: got ({', '.join(map(described, values))})",
            allowed="dtype, rows, cols",
            fix=f'pto.{ALLOC_TILE}("{element}", {numbers[0]}, {numbers[1]})',
        )
    key = next((k for k in layout if k not in _LAYOUT), None)
    if key is None:
        return
    value = layout[key]
    orders = [TileType(F32, 16, 16, blayout=b, slayout=s) for b in BLayout for s in SLayout]
    order = next((t for t in orders if str(value).upper() == t.layout), None)
    close = {"columns": "cols", "shape": "rows"}.get(key) or nearest(
        key, (*_LAYOUT, "rows", "cols", "valid", "addr")
    )
    fix = f"{close}={value!r}" if close else ""
    if close == "rows" and isinstance(value, tuple | list) and len(value) == 2:
        fix = f"rows={value[0]}, cols={value[1]}"
    if order is not None:
        fix = f'blayout="{order.blayout.name.lower()}", slayout="{order.slayout.name.lower()}"'
    elif choice(Loc, value) is not None or str(value).upper() in BUFFERS:
        fix = f'loc="{BUFFERS.get(str(value).upper(), value)}"'
    fail(
        f"got {key}={described(value)}",
        allowed=", ".join((*_SIZES, *_LAYOUT)),
        fix=fix,
        instruction=ALLOC_TILE,
    )


def _target_order(layout: dict[str, Any]) -> dict[str, Any]:
    """The layouts of a tile; a left one has the block order of the program's target unless it has one."""
    ordered = layout.get("blayout") is not None or layout.get("slayout") is not None
    if ordered or member(Loc, layout.get("loc", Loc.VEC), "loc") != Loc.LEFT:
        return layout
    return {**layout, "blayout": current().program.profile.left_blayout, "slayout": SLayout.ROW_MAJOR}


def _static(size: Size, full: int) -> int | None:
    return full if size is None else None if isinstance(size, Handle) else size


@public
def tile(
    loc: str | Loc,
    dtype: str | DType,
    rows: int,
    cols: int,
    blayout: str | BLayout | None = None,
    v_row: Size = None,
    v_col: Size = None,
    slayout: str | SLayout | None = None,
    fractal: int | None = None,
    pad: str | Pad = Pad.NULL,
    *,
    addr: Any = None,
    named: str | None = None,
) -> TileHandle:
    """``Tile<loc, dtype, rows, cols, ...>`` of the C++ interface: a tile, its parameters in that order.

    ``v_row`` and ``v_col`` are its valid sizes, those of the whole tile without them.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f") as f:
    ...     b.Tile("vec", "f32", 16, 64, v_row=8).valid
    (8, 64)
    """
    return alloc_tile(
        dtype,
        rows,
        cols,
        addr=addr,
        valid=(v_row, v_col),
        named=named,
        loc=loc,
        blayout=blayout,
        slayout=slayout,
        fractal=fractal,
        pad=pad,
    )


def _listed(what: str, ptr: Any, value: Any, *more: Any) -> list[Any]:
    """Extents or strides as a list; of a lone one the fix is the list with what follows it."""
    if isinstance(value, list | tuple):
        if not isinstance(ptr, Pointer):
            _no_pointer(ptr, value)
        negative = next((n for n in value if isinstance(n, int) and n < 0 and what == "shape"), None)
        if negative is not None:
            fix = (
                f"pto.GlobalTensor({ptr.label}, {tuple(abs(n) if isinstance(n, int) else n for n in value)})"
            )
            fail(f"shape: got {negative}", allowed="0 or more", fix=fix if ptr.label.isidentifier() else "")
        return list(value)
    numbers = [v for v in (value, *more) if is_number(v, 0) or isinstance(v, Scalar)]
    text = ", ".join(
        v.label if isinstance(v, Handle) else str(v) for v in (*numbers, *[1] * (len(numbers) == 1))
    )
    usable = numbers and isinstance(ptr, Handle) and ptr.label.isidentifier() and what == "shape"
    fix = f"pto.GlobalTensor({ptr.label}, ({text}))" if usable else ""
    if isinstance(value, Pointer) and isinstance(ptr, list | tuple):
        fix = f"pto.GlobalTensor({value.label}, {tuple(ptr)})"
    return fail(f"{what}: got {described(value)}", allowed="a list with a number for each dimension", fix=fix)


def _no_pointer(ptr: Any, shape: Sequence[Any]) -> None:
    """Refuse what is no pointer; an argument of the kernel becomes one by its type."""
    allowed, fix = "a pointer, as an argument of type pto.ptr(...)", ""
    if isinstance(ptr, Scalar) and ptr.label.isidentifier():
        fix = f'types={{"{ptr.label}": pto.ptr("{ptr.type.dtype}")}}'
    elif not isinstance(ptr, Handle) and find_dtype(str(getattr(ptr, "dtype", ""))) is not None:
        d = find_dtype(str(ptr.dtype))
        fix = f'types={{"x": pto.ptr("{d}")}} and pto.GlobalTensor(x, {tuple(shape)})'
    fail(f"ptr: got {described(ptr)}", allowed=allowed, fix=fix, instruction=MAKE_TENSOR_VIEW)


@public
def global_tensor(
    ptr: Handle,
    shape: Sequence[Any],
    strides: Sequence[Any] | None = None,
    layout: str | GlobalLayout | None = None,
    *,
    named: str | None = None,
) -> View:
    """``GlobalTensor`` of the C++ interface: a tensor in global memory; without strides a packed one.

    Extents and strides are in elements: Python integers, or scalars of the program for those known when it
    runs. BuildError outside of a kernel.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"p": b.ptr("f32")}) as f:
    ...     b.GlobalTensor(f.args[0], [128, 64], named="x")
    <View %x: tensor_view<128x64xf32>>
    """
    extents = _listed("shape", ptr, shape, strides)
    if strides is None:
        steps: list[Any] = [1]
        for extent in extents[:0:-1]:
            steps.insert(0, extent if isinstance(steps[0], int) and steps[0] == 1 else extent * steps[0])
        strides = steps[: len(extents)]
    strides = _listed("strides", ptr, strides)
    if len(strides) != len(extents):
        fix = f"pto.GlobalTensor({ptr.label}, {tuple(shape)})" if ptr.label.isidentifier() else ""
        fail(
            f"strides: got {len(strides)} strides of {len(extents)} dimensions",
            allowed="one for each",
            fix=fix,
        )
    view: View = find(MAKE_TENSOR_VIEW)(ptr, extents, list(strides), layout=layout, named=named)
    return view
