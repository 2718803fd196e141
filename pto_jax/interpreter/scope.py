"""The names of a program while it executes, and everything besides memory that a region may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..analysis.resolve import ResolvedProgram
from ..ir import Op, Value
from .operands import Operand

#: A mode that different paths have left differently.
UNSETTLED = object()


class Scope:
    """Names visible in a region; handles are updated where they are bound."""

    def __init__(self, parent: Scope | None = None) -> None:
        self._parent = parent
        self._names: dict[str, Operand] = {}

    def bind(self, value: Value, operand: Operand) -> None:
        """Give a name of this scope a meaning."""
        self._names[value.name] = operand

    def names(self) -> Mapping[str, Operand]:
        """The names bound in this scope itself."""
        return self._names

    def find(self, value: Value) -> Operand:
        """What a name stands for here, None for one that is not visible."""
        return next((names[value.name] for names in self.chain() if value.name in names), None)

    def __getitem__(self, value: Value) -> Operand:
        scope: Scope | None = self
        while scope is not None:
            if value.name in scope._names:
                return scope._names[value.name]
            scope = scope._parent
        raise KeyError(value.name)

    def chain(self) -> list[dict[str, Operand]]:
        """The names of this scope and of those around it."""
        return [self._names, *(self._parent.chain() if self._parent else [])]

    def update(self, value: Value, operand: Operand) -> None:
        """Change what an existing name stands for, in the scope that owns it."""
        scope: Scope | None = self
        while scope is not None:
            if value.name in scope._names:
                scope._names[value.name] = operand
                return
            scope = scope._parent
        raise KeyError(value.name)


class Frame:
    """Everything besides memory that the operations of a region may change: names around it, and modes.

    ``reading`` is the resolved program of the operation, None for one that stands in no program.
    """

    def __init__(
        self,
        op: Op,
        modes: dict[str, Any] | None = None,
        scope: Scope | None = None,
        reading: ResolvedProgram | None = None,
    ) -> None:
        self.op = op
        self.reading = reading
        self.modes: dict[str, Any] = {} if modes is None else modes
        self._places = [self.modes, *(scope.chain() if scope else [])]
        #: The frames of the cores that enter a region together, by name; none where one core does.
        self.members: Mapping[str, Frame] = {}

    @classmethod
    def joined(cls, members: Mapping[str, Frame], op: Op) -> Frame:
        """The frame of an operation that stands for one of each core."""
        first = next(iter(members.values()))
        frame = cls(op, first.modes, None, first.reading)
        frame._places = [first.modes, *(names for own in members.values() for names in own._places[1:])]
        frame._places += [own.modes for own in members.values() if own is not first]
        frame.members = members
        return frame

    def save(self) -> list[dict[str, Operand]]:
        """A copy of all modes and names, for :meth:`restore`."""
        return [dict(names) for names in self._places]

    def restore(self, saved: list[dict[str, Operand]]) -> None:
        """Make all modes and names what they were."""
        for names, old in zip(self._places, saved, strict=True):
            names.clear()
            names.update(old)

    def changed(self, saved: list[dict[str, Operand]]) -> dict[tuple[int, str], Operand]:
        """The names that differ from a saved state, by place and name; modes are no names."""
        pairs = list(enumerate(zip(self._places, saved, strict=True)))[1:]
        return {
            (i, name): operand
            for i, (names, old) in pairs
            for name, operand in names.items()
            if name in old and old[name] is not operand
        }

    def names(self) -> dict[str, Operand]:
        """What the names around the region stand for."""
        found: dict[str, Operand] = {}
        for names in reversed(self._places[1:]):
            found.update(names)
        return found

    def __getitem__(self, key: tuple[int, str]) -> Operand:
        return self._places[key[0]][key[1]]

    def __setitem__(self, key: tuple[int, str], operand: Operand) -> None:
        self._places[key[0]][key[1]] = operand
