"""What the sanitizer found: an instruction, the lanes, and where their undefined bits come from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ..errors import Diagnostic
from ..ir import Op, Program
from ..oracle.numbers import Array
from .shadow import Origin, Origins

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

    def diagnostic(self, places: Mapping[int, int]) -> Diagnostic:
        """The finding as a diagnostic; ``places`` numbers the operations of texts without spans."""
        op = self.op
        message = f"{_SINKS[self.sink]}: {self.operand}"
        if self.lanes.shape[1]:
            message += f", {len(self.lanes)} of {self.total} lanes, {described(self.lanes)}"
        message += f"; {origin_text(self.origin, places)}"
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
    shown = " ".join(f"({', '.join(str(int(i)) for i in lane)})" for lane in lanes[:_SHOWN])
    return shown + (" ..." if len(lanes) > _SHOWN else "")


class Findings:
    """The findings of one execution; an operation that executes again adds nothing new."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self.found: list[Finding] = []
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
            self.found.append(Finding(sink, op, operand, lanes, origin_ids.size, self.origins[origin_id]))

    def diagnostics(self, program: Program) -> tuple[Diagnostic, ...]:
        """The findings in order, each with its place."""
        places = {id(op): n for n, op in enumerate(program.walk(), 1)}
        return tuple(f.diagnostic(places) for f in self.found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)
