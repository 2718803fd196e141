"""Attributes at their defaults, where the failure does not depend on them."""

from collections.abc import Collection
from dataclasses import replace

from ... import isa
from ...generate.programs import Case
from ...ir import Attrs, Op
from . import recording
from .edits import with_op
from .search import Search


def shrink_attributes(search: Search) -> None:
    """Leave attributes of instructions out: all of an operation's, else one after another."""
    for at in [recording.number(op) for op in search.case.program.walk()]:
        keys = _optional(search.case, at)
        if len(keys) > 1 and search.attempt(_without(search.case, at, keys)):
            continue
        for key in keys:
            search.attempt(_without(search.case, at, (key,)))


def _optional(case: Case, at: int) -> tuple[str, ...]:
    op = next((op for op in case.program.walk() if recording.number(op) == at), None)
    instruction = isa.find(op.name) if op is not None else None
    if op is None or instruction is None or instruction.syntax != "tile":
        return ()
    return tuple(op.attrs)


def _without(case: Case, at: int, keys: Collection[str]) -> Case:
    def change(op: Op) -> Op:
        return replace(op, attributes=tuple((k, v) for k, v in op.attributes if k not in keys))

    return with_op(case, at, change)


def relevant(op: Op) -> Attrs:
    """Attributes with another value than the default."""
    instruction = isa.find(op.name)
    if instruction is None:
        return op.attributes
    defaults = {k: a.default for a in instruction.attributes for k in (a.name, *a.keys)}
    return tuple((k, v) for k, v in op.attributes if k not in defaults or defaults[k] != v)
