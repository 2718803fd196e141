"""Which bits of memory are defined, and what made the others undefined.

Beside every byte lies a shadow byte, whose set bits are undefined, and the id of an origin. Elements
of the shadow are read and written through the same maps as elements of the data, so that aliases and
reinterpretations of any kind see the same definedness.

An *origin id* is what a lane of a shadow is computed with: 0 for a defined lane, else the number of an
origin.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..ir import DType, Op
from ..oracle.numbers import Array
from ..oracle.storage import Buffer, read_words, write_words

#: The origin of bytes that no allocation claimed.
UNCLAIMED = 1


@dataclass(frozen=True, eq=False)
class Origin:
    """What made bits undefined: a reason, and the operation where it happened."""

    reason: str
    op: Op | None = None


class Origins:
    """The origins of one execution by id."""

    def __init__(self) -> None:
        self._known: list[Origin] = [Origin(""), Origin("never written")]
        self._ids: dict[tuple[int, str], int] = {}

    def id_of(self, reason: str, op: Op) -> int:
        """The id of an origin; an operation that executes again has the same one."""
        key = (id(op), reason)
        if key not in self._ids:
            self._ids[key] = len(self._known)
            self._known.append(Origin(reason, op))
        return self._ids[key]

    def __getitem__(self, origin_id: int) -> Origin:
        return self._known[origin_id]


@dataclass(eq=False)
class Shadow:
    """The shadow of a run of bytes: undefined bits, and the origin of each byte that has any."""

    bits: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    origins: Array = field(default_factory=lambda: np.zeros(0, np.int32))

    @classmethod
    def defined(cls, size: int) -> Shadow:
        """The shadow of ``size`` defined bytes."""
        return cls(np.zeros(size, np.uint8), np.zeros(size, np.int32))

    def words(self, positions: Array, d: DType, address: int = 0) -> Array:
        """Undefined bits of elements."""
        return read_words(self.bits, positions, d, address)

    def origin_ids(self, positions: Array, d: DType, address: int = 0) -> Array:
        """Elements as origin ids: undefined where any bit is, with the origin of the first such byte."""
        words = self.words(positions, d, address)
        found = np.zeros(words.shape, np.int32)
        if not words.any():
            return found
        first = _first_byte(positions, d, address)
        for k in reversed(range(d.word.itemsize)):
            found = np.where(self.bits[first + k] != 0, self.origins[first + k], found)
        return np.where(words != 0, np.maximum(found, UNCLAIMED), 0)

    def write(self, positions: Array, words: Array, origin_ids: Array, d: DType, address: int = 0) -> None:
        """Set the undefined bits of elements, and the origins of those that have any."""
        positions, words, origin_ids = np.broadcast_arrays(positions, words, origin_ids)
        write_words(self.bits, positions, words.astype(d.word), d, address)
        undefined = words != 0
        if not undefined.any():
            return
        first = _first_byte(positions[undefined], d, address)
        for k in range(d.word.itemsize):
            self.origins[first + k] = origin_ids[undefined]

    def define(self, positions: Array, d: DType, address: int = 0) -> None:
        """Elements were written with defined data."""
        self.write(positions, np.zeros(1, d.word), np.zeros(1, np.int32), d, address)

    def claim(self, start: int, size: int, origin_id: int) -> None:
        """Name the origin of bytes that have none yet."""
        part = self.origins[start : start + size]
        part[part == 0] = origin_id


def _first_byte(positions: Array, d: DType, address: int) -> Array:
    return np.asarray(address + (positions >> 1 if d.packed else positions * d.word.itemsize))


@dataclass(eq=False)
class ShadowBuffer(Buffer):
    """Bytes with their shadow; new bytes are undefined."""

    shadow: Shadow = field(default_factory=Shadow)

    def reserve(self, size: int) -> None:
        """Grow to at least ``size`` bytes; new ones are undefined."""
        more = size - len(self.bytes)
        super().reserve(size)
        if more > 0:
            self.shadow.bits = np.concatenate([self.shadow.bits, np.full(more, 0xFF, np.uint8)])
            self.shadow.origins = np.concatenate([self.shadow.origins, np.zeros(more, np.int32)])


def first(*origin_ids: Array) -> Array:
    """Lanes that are undefined where any operand's is, with the origin of the first such operand.

    >>> first(np.array([0, 0, 7]), np.array([0, 5, 6]))
    array([0, 5, 7])
    """
    found = origin_ids[0]
    for more in origin_ids[1:]:
        found = np.where(found != 0, found, more)
    return np.asarray(found)


def first_along(origin_ids: Array, axis: int) -> Array:
    """Origin ids combined along an axis, which is removed.

    >>> first_along(np.array([[0, 3, 2], [0, 0, 0]]), 1)
    array([3, 0])
    """
    if origin_ids.shape[axis] == 0:
        return np.zeros(np.delete(origin_ids.shape, axis), np.int32)
    at = np.expand_dims((origin_ids != 0).argmax(axis), axis)
    return np.asarray(np.take_along_axis(origin_ids, at, axis).squeeze(axis))


def all_bits(d: DType) -> int:
    """The word of an element that is undefined as a whole."""
    return 15 if d.packed else (1 << d.word_bits) - 1


def as_words(origin_ids: Array, d: DType) -> Array:
    """Undefined bits of lanes that are undefined as a whole or not at all."""
    return np.where(origin_ids != 0, d.word.type(all_bits(d)), d.word.type(0))
