"""The page on pipes, events, flags and barriers."""

from collections import defaultdict
from typing import get_args

from .. import isa
from ..ir import Pipe
from ..isa.effects import EVENT_PIPES
from ..isa.traits import Through
from ..text.attributes import BY_CLASS
from .topics import Part, Topic, program, table

#: What stands on both sides of an order, by the means of it.
_ORDERS: dict[Through, str] = {
    "flag": "two pipes of a core, by a flag of hardware with a number",
    "event": "two classes of operations of a core, by an event with a number",
    "token": "the operations of a core that use one buffer, by a token with a number",
    "pipe": "a whole pipe, or all of them, and what follows",
    "operation": "one operation, by the event that it returns or the tile that it works on, and what follows",
    "core": "the cube core and the vector cores of a block",
    "cores": "all cores",
    "signal": "processors, by a number in global memory",
    "transfer": "asynchronous copies and those who wait for them",
}


def _pipes() -> list[str]:
    """The instructions of each pipe, by their classes."""
    classes: dict[Pipe, set[str]] = defaultdict(set)
    for i in isa.instructions().values():
        if i.syntax == "tile":
            classes[i.pipe].add(i.cls)
    words = BY_CLASS[Pipe]
    rows = [[words.word(p), ", ".join(sorted(classes[p])) or "none by itself"] for p in Pipe]
    return table(["pipe", "classes of the tile instructions that it executes"], rows)


def _moving() -> list[str]:
    names = [i.name for i in isa.instructions().values() if i.pipe_rule is not None]
    return [f"By the places of its tiles another pipe may execute: {', '.join(names)}."]


def _event_classes() -> list[str]:
    word = BY_CLASS[Pipe].word
    return table(["class", "pipe"], [[e.name, word(p)] for e, p in EVENT_PIPES.items()])


def _means() -> list[str]:
    """The instructions of each means of order, by their roles."""
    roles: dict[Through, dict[str, list[str]]] = {t: defaultdict(list) for t in get_args(Through)}
    for i in isa.instructions().values():
        if i.traits.order is not None:
            roles[i.traits.order.through][i.traits.order.role].append(i.name)
    return [
        f"{through} ({_ORDERS[through]}): "
        + "; ".join(f"{role} {', '.join(names)}" for role, names in found.items())
        for through, found in roles.items()
        if found
    ]


def topic() -> Topic:
    """The page; instructions that were added count too."""
    return Topic(
        "events",
        "Order: pipes, events, flags, barriers, cores.",
        (
            Part(
                "In short",
                [
                    "The pipes of a core run side by side; each executes its own operations in the order of "
                    "the program. What one pipe reads and another wrote is ordered by an event, a flag or a "
                    "barrier. Programs that leave this to a tool (`pto-jax verify --auto-sync`, levels 1 "
                    "and 2) have none.",
                    "Results do not depend on them here: operations take effect in the order of the program. "
                    "`pto-jax verify` warns of uses of the same memory on two pipes that nothing orders, in "
                    "functions that hold a flag or an event (into others a tool inserts them), and "
                    "at level 3 without --auto-sync. A wait for a token that nothing sets is an error; "
                    "a token that is set twice or left over is a warning. With --strict warnings reject, "
                    "and on a2a3 dependent vector instructions need a barrier of PIPE_V.",
                ],
                "prose",
            ),
            Part("Events of operations", [program("events")], "program"),
            Part("Flags between pipes, events between classes", [program("flags")], "program"),
            Part("Pipes", _pipes(), "table"),
            Part("Pipes by place", _moving(), "prose"),
            Part("Classes of operations in events", _event_classes(), "table"),
            Part("Means, and the instructions that signal, wait, or hold back (barrier)", _means()),
        ),
        ("event", "flags", "flag", "pipe", "sync", "synchronisation", "synchronization", "hazard", "hazards"),
    )
