"""What the text says of an operation for its order, the same in all courses: its steps, operands and core."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from ..analysis.resolve import ResolvedOp
from ..ir import AtomicType, Pipe, Value
from ..isa import effects
from ..isa.declare import Phase
from ..isa.traits import Traits
from ..profiles import ProfileName


class Named(NamedTuple):
    """An operand that a step reads or writes, by its declared name, and as messages name it."""

    name: str
    value: Value
    text: str
    write: bool
    atomic: bool


class Step(NamedTuple):
    """A step on a pipe, and the operands that it uses."""

    phase: Phase
    operands: tuple[Named, ...]


class Known(NamedTuple):
    """What the text says of an operation.

    ``kind`` is the kind of the core that executes it, "" where the text does not say it; ``written``: the
    text has to order it.
    """

    traits: Traits
    pipe: Pipe
    runs: str | None
    kind: str
    written: bool
    steps: tuple[Step, ...]

    @property
    def uses(self) -> bool:
        """Whether it does anything but compute numbers."""
        return bool(self.steps) or self.traits.order is not None or self.traits.fifo is not None


def known(resolved: ResolvedOp, profile: ProfileName, kind: str, written: bool) -> Known:
    """What the text says of an operation."""
    op = resolved.op
    traits = effects.traits_of(op)
    runs = traits.regions.runs if traits.regions is not None else None
    steps: tuple[Step, ...] = ()
    if runs is None and not traits.calls:
        attrs = resolved.bound.attrs if resolved.bound is not None else op.attrs
        phases = effects.phases_of(op, resolved.values, attrs, profile)
        parts = [Step(phase, tuple(_operands(resolved, traits, phase))) for phase in phases]
        # A step that uses nothing still hands its order on to the next one.
        steps = tuple(parts) if len(parts) > 1 or any(step.operands for step in parts) else ()
    return Known(traits, effects.pipe_of(op), runs, kind, written, steps)


def _operands(resolved: ResolvedOp, traits: Traits, phase: Phase) -> Iterator[Named]:
    """The operands of a step; the places of elements that indexes choose are not followed."""
    op = resolved.op
    indexed = {e.operand for e in traits.effects if e.indexed and e.resource == "global"}
    adds = op.attrs.get("atomicType") == AtomicType.ATOMIC_ADD
    names = ((False, name) for name in phase.reads), ((True, name) for name in phase.writes)
    for write, name in chain(*names):
        value = resolved.values.get(name)
        if value is not None and name not in indexed:
            yield Named(name, value, str(value), write, write and adds)
