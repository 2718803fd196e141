"""Events: what instructions return, and waiting for them."""

from __future__ import annotations

from typing import Any

from ..ir.types import OpaqueType
from .body import Node, current, flattened
from .places import Place, fail, here
from .values import Event, Handle

EVENT = OpaqueType("event")
#: The most events that one ``tsync`` names.
_MOST = 8


def tsync(*events: Any, op: str | None = None) -> None:
    """Wait for events (or for the instructions that use some tiles); without operands for everything.

    ``op`` names an instruction whose pipe is drained, as in ``pto.tsync<TADD>``.
    """
    wait(events, here(), op=op, always=True)


def wait(events: Any, place: Place, *, op: str | None = None, always: bool = False) -> None:
    """Build the wait for one or several events."""
    handles: list[Handle] = []
    for event in flattened(events):
        if isinstance(event, Event):
            handle = event.handle()
        elif isinstance(event, Handle):
            handle = event
        else:
            fail(
                f"found {event!r} to wait for; allowed: events, which tile instructions return, and tiles",
                place.span,
                instruction="tsync",
            )
        if all(h is not handle for h in handles):
            handles.append(handle)
    attributes = {} if op is None else {"op": op}
    parts = [handles[i : i + _MOST] for i in range(0, len(handles), _MOST)]
    for part in parts or ([[]] if always else []):
        current().emit(Node("tsync", part, attributes=attributes, form="dps", span=place.span))
