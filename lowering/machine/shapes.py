"""What is static and what is data about an operand that control flow hands on.

A *shape* is an operand with :class:`Hole` where a scalar is data, :class:`Words` where the contents of a
tile travel, and a :class:`Choice` where different paths hand on different storage. ``leaves`` takes the
data out of an operand of a shape, ``fill`` puts data back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.interpreter import Choice, Operand, Pointer, Scalar, TileRef, View
from pto_jax.ir import INDEX, DType, TileType

from .. import scalars
from .storage import Carried, Slot, Window
from .tile_memory import TileMemory

if TYPE_CHECKING:
    from jaxtyping import Int64

    from ..arrays import Leaf


@dataclass(frozen=True)
class Hole:
    """A scalar that is data."""

    dtype: DType


@dataclass(frozen=True)
class Words:
    """Storage made on the way, whose contents travel as data."""

    type: TileType


#: An operand with holes.
Shape = Any


def opened(operand: Operand, dtype: DType) -> Shape:
    """The shape of an operand whose own value is data if it is a scalar."""
    if operand is None or isinstance(operand, TileRef | View | Pointer | tuple):
        return operand
    return Hole(dtype)


def join(a: Shape, b: Shape, dtype: DType = INDEX) -> Shape:
    """The least shape that both operands (or shapes) have."""
    if a is b or isinstance(a, Hole):
        return a
    if isinstance(a, TileRef):
        return replace(
            a,
            storage=_join_places(a.storage, b.storage),
            v_row=join(a.v_row, b.v_row),
            v_col=join(a.v_col, b.v_col),
        )
    if isinstance(a, View):
        a, b = _of_rank(a, len(b.shape)), _of_rank(b, len(a.shape))
        return replace(
            a,
            buffer=_join_places(a.buffer, b.buffer),
            offset=join(a.offset, b.offset),
            shape=_join_all(a.shape, b.shape),
            strides=_join_all(a.strides, b.strides),
        )
    if isinstance(a, Pointer):
        return replace(a, buffer=_join_places(a.buffer, b.buffer), offset=join(a.offset, b.offset))
    if isinstance(a, tuple):
        return _join_all(a, b)
    return a if _same_number(a, b) else Hole(dtype)


def _of_rank(view: View, rank: int) -> View:
    """A view in at least ``rank`` dimensions, of which the first ones have one element."""
    missing = (1,) * (rank - len(view.shape))
    return replace(view, shape=missing + view.shape, strides=missing + view.strides)


def _join_all(a: Sequence[Shape], b: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple(join(x, y) for x, y in zip(a, b, strict=True))


def _same_number(a: Scalar, b: Scalar) -> bool:
    return isinstance(a, int | float) and type(a) is type(b) and a == b


def _options(place: Any) -> tuple[Any, ...]:
    return place.options if isinstance(place, Choice) else (place,)


def _alike(a: Any, b: Any) -> bool:
    """Whether two storages are one, up to an address or a place in it."""
    if isinstance(a, Slot) and isinstance(b, Slot):
        return a.cell.key == b.cell.key
    if isinstance(a, Window) and isinstance(b, Window):
        return a.tile.type == b.tile.type and _alike(a.tile.storage, b.tile.storage)
    if isinstance(a, Words | Carried):
        return isinstance(b, Words | Carried) and a.type.with_valid(None, None) == b.type.with_valid(
            None, None
        )
    return isinstance(a, str) and a == b


def _join_places(a: Any, b: Any) -> Any:
    found: list[Any] = []
    for place in (*_options(a), *_options(b)):
        at = next((i for i, known in enumerate(found) if _alike(known, place)), None)
        if at is None:
            found.append(_open_place(place))
        else:
            found[at] = _join_place(found[at], place)
    return found[0] if len(found) == 1 else Choice(Hole(INDEX), tuple(found))


def _open_place(place: Any) -> Any:
    """A storage whose contents or numbers travel as data where they are not known."""
    return _join_place(place, place)


def _join_place(a: Any, b: Any) -> Any:
    if isinstance(a, Words | Carried):
        return Words(a.type)
    if isinstance(a, Slot):
        address = a.address if _same_number(a.address, b.address) else Hole(INDEX)
        return replace(a, address=address, step=min(a.step, b.step))
    if isinstance(a, Window):
        tile = replace(a.tile, storage=_join_place(a.tile.storage, b.tile.storage))
        row, col = (m if _same_number(m, n) else Hole(INDEX) for m, n in zip(a.starts, b.starts, strict=True))
        return Window(tile, row, col)
    return a


def fits(operand: Any, shape: Shape) -> bool:
    """Whether an operand, or each of several, has the shape."""
    if isinstance(shape, Hole) or (operand is shape and not isinstance(shape, TileRef | View | Pointer)):
        return True
    if isinstance(shape, TileRef):
        return (
            _place_fits(operand.storage, shape.storage)
            and fits(operand.v_row, shape.v_row)
            and fits(operand.v_col, shape.v_col)
        )
    if isinstance(shape, View | Pointer):
        scalar = fits(operand.offset, shape.offset) and _place_fits(operand.buffer, shape.buffer)
        if isinstance(shape, Pointer):
            return scalar
        operand = _of_rank(operand, len(shape.shape))
        return scalar and fits(operand.shape, shape.shape) and fits(operand.strides, shape.strides)
    if isinstance(shape, tuple):
        return all(fits(o, s) for o, s in zip(operand, shape, strict=True))
    return _same_number(operand, shape)


def _place_fits(place: Any, shape: Any) -> bool:
    options = _options(shape)
    return all(_position(p, options) is not None for p in _options(place))


def _position(place: Any, options: Sequence[Any]) -> int | None:
    at = next((i for i, option in enumerate(options) if _alike(place, option)), None)
    return at if at is None or _numbers_fit(place, options[at]) else None


def _numbers_fit(place: Any, shape: Any) -> bool:
    if isinstance(shape, Window):
        return _numbers_fit(place.tile.storage, shape.tile.storage) and fits(place.starts, shape.starts)
    return not isinstance(shape, Slot) or (fits(place.address, shape.address) and place.step >= shape.step)


def leaves(operand: Operand, shape: Shape) -> list[Leaf]:
    """The data of an operand that fits the shape."""
    if isinstance(shape, Hole):
        return [scalars.to_native(operand, shape.dtype)]
    if isinstance(shape, TileRef):
        found = _place_leaves(operand.storage, shape.storage)
        return [*found, *leaves(operand.v_row, shape.v_row), *leaves(operand.v_col, shape.v_col)]
    if isinstance(shape, View | Pointer):
        found = _place_leaves(operand.buffer, shape.buffer)
        found += leaves(operand.offset, shape.offset)
        if isinstance(shape, View):
            operand = _of_rank(operand, len(shape.shape))
            found += leaves(operand.shape, shape.shape)
            found += leaves(operand.strides, shape.strides)
        return found
    if isinstance(shape, tuple):
        return [leaf for o, s in zip(operand, shape, strict=True) for leaf in leaves(o, s)]
    return []


def _place_leaves(place: Any, shape: Any) -> list[Leaf]:
    options = _options(shape)
    found: list[Leaf] = []
    if isinstance(shape, Choice):
        found.append(_index(place, options))
    for option in options:
        here = next((p for p in _options(place) if _alike(p, option)), None)
        found += _numbers_of(here, option)
    return found


def _numbers_of(place: Any, shape: Any) -> list[Leaf]:
    """The data of one storage; of none at all, if another one is handed on."""
    if isinstance(shape, Words):
        blank = jnp.zeros(shape.type.shape, shape.type.dtype.word)
        return [place.words if isinstance(place, Carried) else blank]
    if isinstance(shape, Slot):
        return _place_numbers((0 if place is None else place.address,), (shape.address,))
    if isinstance(shape, Window):
        inner = None if place is None else place.tile.storage
        starts = (0, 0) if place is None else place.starts
        return [*_numbers_of(inner, shape.tile.storage), *_place_numbers(starts, shape.starts)]
    return []


def _place_numbers(given: Sequence[Scalar], shapes: Sequence[Shape]) -> list[Leaf]:
    pairs = zip(given, shapes, strict=True)
    return [scalars.to_native(n, INDEX) for n, shape in pairs if isinstance(shape, Hole)]


def _index(place: Any, options: Sequence[Any]) -> Int64[Array, ""]:
    positions = [_position(p, options) for p in _options(place)]
    assert None not in positions
    numbers = [np.int64(p) for p in positions if p is not None]
    chosen = jnp.asarray(numbers[0])
    if isinstance(place, Choice):
        for i, number in enumerate(numbers[1:], 1):
            chosen = jnp.where(place.index == i, number, chosen)
    return chosen


def fill(machine: TileMemory, shape: Shape, data: Iterator[Leaf]) -> Operand:
    """The operand of a shape with this data."""
    if isinstance(shape, Hole):
        return next(data)
    if isinstance(shape, TileRef):
        storage = _fill_place(machine, shape.storage, data)
        rows, cols = fill(machine, shape.v_row, data), fill(machine, shape.v_col, data)
        return replace(shape, storage=storage, v_row=rows, v_col=cols)
    if isinstance(shape, View | Pointer):
        buffer = _fill_place(machine, shape.buffer, data)
        offset = fill(machine, shape.offset, data)
        if isinstance(shape, Pointer):
            return replace(shape, buffer=buffer, offset=offset)
        sizes, strides = fill(machine, shape.shape, data), fill(machine, shape.strides, data)
        return replace(shape, buffer=buffer, offset=offset, shape=sizes, strides=strides)
    if isinstance(shape, tuple):
        return tuple(fill(machine, s, data) for s in shape)
    return shape


def _fill_place(machine: TileMemory, shape: Any, data: Iterator[Leaf]) -> Any:
    index = next(data) if isinstance(shape, Choice) else None
    filled = tuple(_fill_option(machine, option, data) for option in _options(shape))
    return filled[0] if index is None else Choice(index, filled)


def _fill_option(machine: TileMemory, shape: Any, data: Iterator[Leaf]) -> Any:
    if isinstance(shape, Words):
        return machine.temporary(shape.type, next(data))
    if isinstance(shape, Slot):
        return replace(shape, address=_filled(shape.address, data))
    if isinstance(shape, Window):
        tile = replace(shape.tile, storage=_fill_option(machine, shape.tile.storage, data))
        row, col = (_filled(n, data) for n in shape.starts)
        return Window(tile, row, col)
    return shape


def _filled(shape: Shape, data: Iterator[Leaf]) -> Scalar:
    return next(data) if isinstance(shape, Hole) else shape
