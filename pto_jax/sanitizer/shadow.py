"""The shadow of memory: undefined bits and their origins, and the diagnostics from them.

Beside every byte lies a shadow byte, whose set bits are undefined, and the id of an origin. Elements of the
shadow are read and written through the same maps as elements of the data, so that aliases and
reinterpretations of any kind see the same definedness. An *origin id* is 0 for a defined element, else the
number of an origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ..errors import Diagnostic
from ..ir import DType, Op, Program
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
        ids = np.zeros(words.shape, np.int32)
        if not words.any():
            return ids
        first = _first_byte(positions, d, address)
        for k in reversed(range(d.word.itemsize)):
            ids = np.where(self.bits[first + k] != 0, self.origins[first + k], ids)
        return np.where(words != 0, np.maximum(ids, UNCLAIMED), 0)

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
    origin = origin_ids[0]
    for more in origin_ids[1:]:
        origin = np.where(origin != 0, origin, more)
    return np.asarray(origin)


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


#: Where undefined data arrives: ``memory``: global memory; ``scalar``: a number the program computes with;
#: ``index``: a number that says which element is read or written; ``result``: a tile that a fragment
#: gives; ``read``: an instruction's destination (strict mode only).
Sink: TypeAlias = Literal["memory", "scalar", "index", "result", "read"]
_SINKS: Mapping[Sink, str] = {
    "memory": "undefined data reaches global memory",
    "scalar": "undefined data becomes a scalar",
    "index": "undefined data is used as an index",
    "result": "undefined data is a result of the program",
    "read": "a result depends on undefined data",
}
_SHOWN = 4
#: Findings that are kept of one execution.
MAX_FINDINGS = 100


@dataclass(frozen=True, eq=False)
class Finding:
    """Undefined lanes that matter, all of one origin.

    ``lanes`` are the coordinates ``[n, rank]`` in the operand, or in the tile or vector it names; ``total``
    is how many lanes the operation has there.
    """

    sink: Sink
    op: Op | None
    operand: str
    lanes: Array
    total: int
    origin: Origin
    #: The core of a rank that it was first found on; nothing on one processor.
    core: str = ""

    def diagnostic(self, places: Mapping[int, int]) -> Diagnostic:
        """The finding as a diagnostic; ``places`` numbers the operations of texts without spans."""
        op = self.op
        message = f"{_SINKS[self.sink]}: {self.operand}"
        if self.lanes.shape[1]:
            message += f", {len(self.lanes)} of {self.total} lanes, {described(self.lanes)}"
        message += f"; {origin_text(self.origin, places)}" + (f"; first on {self.core}" if self.core else "")
        if op is not None and op.span is None and id(op) in places:
            message = f"operation {places[id(op)]}: {message}"
        span, instruction = (op.span, op.name) if op is not None else (None, None)
        return Diagnostic("error", message, span, instruction, rule="undefined")


def origin_text(origin: Origin, places: Mapping[int, int]) -> str:
    """A reason with the place of its operation, which ``places`` numbers where the text has no spans."""
    if origin.op is None:
        return origin.reason
    at = str(origin.op.span) if origin.op.span else f"operation {places.get(id(origin.op), '?')}"
    return f"{origin.reason} ({origin.op.name} at {at})"


def described(lanes: Array) -> str:
    """Coordinates as a window where they fill one, else the first of them.

    >>> described(np.array([[2, 0], [2, 1], [3, 0], [3, 1]]))
    'rows 2 to 3, columns 0 to 1'
    >>> described(np.array([[0, 1], [2, 2]]))
    '(0, 1) (2, 2)'
    """
    low, high = lanes.min(axis=0), lanes.max(axis=0)
    if lanes.shape[1] == 2 and len(lanes) > 1 and len(lanes) == np.prod(high - low + 1):
        return ", ".join(
            f"{axis} {a}" if a == b else f"{axis}s {a} to {b}"
            for axis, a, b in zip(("row", "column"), low, high, strict=True)
        )
    text = " ".join(f"({', '.join(str(int(i)) for i in lane)})" for lane in lanes[:_SHOWN])
    return text + (" ..." if len(lanes) > _SHOWN else "")


class Findings:
    """The findings of one execution; an operation that executes again adds nothing new."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self.found: list[Finding] = []
        #: The core of a rank that executes.
        self.core = ""
        self._seen: set[tuple[Sink, int, str, int]] = set()

    def add(self, sink: Sink, op: Op | None, operand: str, origin_ids: Array) -> None:
        """Record the undefined ones of some lanes."""
        if not origin_ids.any():
            return
        for origin_id in np.unique(origin_ids[origin_ids != 0]).tolist():
            key = (sink, id(op), operand, origin_id)
            if key in self._seen or len(self.found) == MAX_FINDINGS:
                continue
            self._seen.add(key)
            lanes = np.argwhere(origin_ids == origin_id)
            origin = self.origins[origin_id]
            self.found.append(Finding(sink, op, operand, lanes, origin_ids.size, origin, self.core))

    def diagnostics(self, program: Program) -> tuple[Diagnostic, ...]:
        """The findings in order, each with its place."""
        places = {id(op): n for n, op in enumerate(program.walk(), 1)}
        return tuple(f.diagnostic(places) for f in self.found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)
