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

from pto_jax.dtypes import INDEX, DType
from pto_jax.types import TileType
from pto_jax.walk import Choice, Operand, Pointer, Scalar, TileRef, View

from . import scalars
from .storage import Slot

if TYPE_CHECKING:
    from .program import JaxMachine


@dataclass(frozen=True)
class Hole:
    """A scalar that is data."""

    dtype: DType


@dataclass(frozen=True)
class Words:
    """Storage made on the way, whose contents travel as data."""

    type: TileType


@dataclass(frozen=True, eq=False)
class Carried:
    """Storage made on the way: its contents, where they are handed on."""

    type: TileType
    words: Array


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


def _join_all(a: Sequence[Shape], b: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple(join(x, y) for x, y in zip(a, b, strict=True))


def _same_number(a: Scalar, b: Scalar) -> bool:
    return isinstance(a, int | float) and type(a) is type(b) and a == b


def _options(place: Any) -> tuple[Any, ...]:
    return place.options if isinstance(place, Choice) else (place,)


def _alike(a: Any, b: Any) -> bool:
    """Whether two storages are one, up to an address in it."""
    if isinstance(a, Slot) and isinstance(b, Slot):
        return a.cell.key == b.cell.key
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
            found.append(Words(place.type) if isinstance(place, Carried) else place)
        elif isinstance(place, Slot) and not _same_number(found[at].address, place.address):
            found[at] = replace(place, address=Hole(INDEX))
    return found[0] if len(found) == 1 else Choice(Hole(INDEX), tuple(found))


def fits(operand: Operand, shape: Shape) -> bool:
    """Whether an operand has the shape."""
    if isinstance(shape, Hole) or (operand is shape and not isinstance(operand, TileRef | View | Pointer)):
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
        return scalar and fits(operand.shape, shape.shape) and fits(operand.strides, shape.strides)
    if isinstance(shape, tuple):
        return all(fits(o, s) for o, s in zip(operand, shape, strict=True))
    return _same_number(operand, shape)


def _place_fits(place: Any, shape: Any) -> bool:
    options = _options(shape)
    return all(_position(p, options) is not None for p in _options(place))


def _position(place: Any, options: Sequence[Any]) -> int | None:
    at = next((i for i, option in enumerate(options) if _alike(place, option)), None)
    if at is None or not isinstance(place, Slot):
        return at
    return at if fits(place.address, options[at].address) else None


def leaves(operand: Operand, shape: Shape) -> list[Array]:
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
            found += leaves(operand.shape, shape.shape)
            found += leaves(operand.strides, shape.strides)
        return found
    if isinstance(shape, tuple):
        return [leaf for o, s in zip(operand, shape, strict=True) for leaf in leaves(o, s)]
    return []


def _place_leaves(place: Any, shape: Any) -> list[Array]:
    options = _options(shape)
    found: list[Array] = []
    if isinstance(shape, Choice):
        found.append(_index(place, options))
    for option in options:
        here = next((p for p in _options(place) if _alike(p, option)), None)
        if isinstance(option, Words):
            blank = jnp.zeros(option.type.shape, option.type.dtype.word)
            found.append(here.words if isinstance(here, Carried) else blank)
        elif isinstance(option, Slot) and isinstance(option.address, Hole):
            found.append(scalars.to_native(here.address if isinstance(here, Slot) else 0, INDEX))
    return found


def _index(place: Any, options: Sequence[Any]) -> Array:
    positions = [_position(p, options) for p in _options(place)]
    assert None not in positions
    numbers = [np.int64(p) for p in positions if p is not None]
    chosen = jnp.asarray(numbers[0])
    if isinstance(place, Choice):
        for i, number in enumerate(numbers[1:], 1):
            chosen = jnp.where(place.index == i, number, chosen)
    return chosen


def fill(machine: JaxMachine, shape: Shape, data: Iterator[Array]) -> Operand:
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


def _fill_place(machine: JaxMachine, shape: Any, data: Iterator[Array]) -> Any:
    index = next(data) if isinstance(shape, Choice) else None
    filled = []
    for option in _options(shape):
        if isinstance(option, Words):
            filled.append(machine.temporary(option.type, next(data)))
        elif isinstance(option, Slot) and isinstance(option.address, Hole):
            filled.append(replace(option, address=next(data)))
        else:
            filled.append(option)
    return filled[0] if index is None else Choice(index, tuple(filled))
