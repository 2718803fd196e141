"""The manual that ``pto-jax isa`` prints: instructions, tile and other types, the grammar, profiles."""

import difflib
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from importlib import resources
from textwrap import indent

from .. import isa
from ..errors import ArgumentError
from ..ir import TileType, UnknownType
from ..isa.history import changes, written_out
from ..isa.reference import Style, matrix, page
from ..isa.rules.constraints import spelled
from ..isa.samples.operations import Sample, legal_samples, to_program
from ..profiles import PROFILES
from ..text import parse, print_program
from ..text.type_text import print_type
from .micro import micro_topic, operation_page
from .topics import (
    GRAMMAR_TOPIC,
    PROFILES_TOPIC,
    TILE_TOPIC,
    TYPES_TOPIC,
    Topic,
    contradictions_topic,
    events_topic,
)


@cache
def topics() -> dict[str, Topic]:
    """The pages that are about more than one instruction, by name."""
    pages = (
        GRAMMAR_TOPIC,
        TILE_TOPIC,
        TYPES_TOPIC,
        PROFILES_TOPIC,
        events_topic(),
        micro_topic(),
        contradictions_topic(),
    )
    return {t.name: t for t in pages}


@cache
def sessions() -> dict[str, str]:
    """Sessions in Python by the instruction that they call, with what they print: written by tools.stubs."""
    stored = resources.files(__name__) / "sessions.json"
    shown: dict[str, str] = json.loads(stored.read_text(encoding="utf-8"))
    return shown


def manual(
    name: str | None = None,
    style: Style = "text",
    python: Callable[[isa.Instruction], str] = lambda instruction: "",
) -> str:
    """The page of an instruction or a topic, or without a name the support matrix of all instructions.

    ``python`` gives the session in Python that a page of an instruction shows. Raises ArgumentError, with the
    names that are close, where there is no such page.

    >>> print(manual("taddsc").splitlines()[0])
    taddsc: Tile plus scalar plus tile.
    >>> manual("tile").splitlines()[0]
    'tile: Tile types: spellings, parameters, layouts, valid regions.'
    >>> manual(style="markdown").splitlines()[0]
    '| instruction | class | status | operands | cpu_sim | a2a3 | a5 |'
    """
    if name is None:
        return matrix(isa.instructions().values(), style) + (_more() if style == "text" else "")
    if name == "changes":
        return changed(style)
    topic = _topic(name)
    if topic is not None:
        return topic.page(style)
    instruction = isa.find(name)
    operation = isa.find_micro(name.removeprefix("pto.")) if instruction is None else None
    if operation is not None:
        return operation_page(operation).page(style)
    if instruction is None:
        near = _near(name)
        raise ArgumentError(
            f"no instruction or page is called {name!r}",
            allowed=", ".join([*near, "all that `pto-jax isa` lists"]),
            fix=f"pto-jax isa {near[0]}" if near else "",
        )
    return page(instruction, style, example(instruction), python(instruction))


def changed(style: Style = "text") -> str:
    """What versions of the text language changed, one line for each change (text), or records (JSON).

    >>> print(changed().splitlines()[0])
    2026-08 tcvt default: no sat_mode: the default of the pair on the profile -> OFF
    """
    if style == "json":
        return json.dumps([{"name": name, **asdict(change)} for name, change in changes()], indent=1)
    return "\n".join(f"{c.language} {name} {c}" for name, c in changes())


def example(instruction: isa.Instruction) -> str | None:
    """A legal operation in the text, on the first profile that has the instruction."""
    for profile in (PROFILES["a2a3"], PROFILES["a5"], PROFILES["cpu_sim"]):
        sample = next(iter(legal_samples(instruction, profile)), None)
        if sample is not None:
            return _printed(sample)
    return None


def _printed(sample: Sample) -> str:
    """A sample with its tile types in the short spelling.

    It is in a function where the operation names no type of an operand.
    """
    program = written_out(to_program(sample))
    text = print_program(program).rstrip("\n")
    result = {v.name for op in program.walk() for v in op.results}
    read = {v.name: v for op in program.walk() for v in (*op.ins, *op.outs) if v.name not in result}
    types = {v.name: v.type for op in parse(text).walk() for v in (*op.ins, *op.outs)}
    if any(isinstance(types.get(name, UnknownType()), UnknownType) for name in read):
        arguments = ", ".join(f"{v}: {print_type(v.type)}" for v in read.values())
        text = f"func.func @example({arguments}) {{\n{indent(text, '  ')}\n  return\n}}"
    for op in program.walk():
        for value in (*op.ins, *op.outs, *op.results):
            if isinstance(value.type, TileType) and value.type.conv is None:
                text = text.replace(print_type(value.type), spelled(value.type))
    return text


def _topic(name: str) -> Topic | None:
    key = name.lower().removeprefix("!").removeprefix("pto.")
    return next((t for t in topics().values() if key == t.name or key in t.also), None)


def _near(name: str) -> list[str]:
    names = [*isa.instructions(), *isa.ALIASES, *isa.micro_operations()]
    for topic in topics().values():
        names += [topic.name, *topic.also]
    return difflib.get_close_matches(name.lower().removeprefix("pto."), names, n=3)


def _more() -> str:
    pages = "\n".join(f"{t.name:<24}{t.summary}" for t in topics().values())
    return f"\n\nPages on more than one instruction (`pto-jax isa NAME`):\n{pages}"


__all__ = ["changed", "example", "manual", "topics"]
