"""What can be known of a value before execution, and how that is joined where paths meet.

Of a scalar its number, of a tile its valid region and its bytes, of a view its extents and its layout, of a
pointer where it points to. Every part that two paths do not agree on is unknown behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..ir import GlobalLayout, PartitionViewType, TensorViewType, Type, Value
from ..isa.check import Valid
from .addresses import Bytes

Extents: TypeAlias = tuple[int | None, ...]


class TileFact(NamedTuple):
    """A tile: the rows and columns of its valid region, None where nothing but its type gives them.

    ``bytes`` is None for a handle that has bytes of its own.
    """

    valid: Valid | None
    bytes: Bytes | None = None


class ViewFact(NamedTuple):
    """A view of global memory."""

    extents: Extents | None
    layout: GlobalLayout | None = None


class PointerFact(NamedTuple):
    """A pointer: the argument that it is derived from, and how many elements behind its first one."""

    base: str
    offset: int


#: The number of a scalar (an array of numbers for many candidates at once), or what is known of a handle.
Fact: TypeAlias = "int | TileFact | ViewFact | PointerFact | Any"


def fact_of(t: Type) -> Fact | None:
    """What the type of a value says; the sizes in a tile's type are seen wherever the tile is named."""
    return ViewFact(t.dims) if isinstance(t, TensorViewType | PartitionViewType) else None


def join(a: Fact | None, b: Fact | None) -> Fact | None:
    """What is known of a value of which one path knows ``a`` and another one ``b``.

    >>> join(3, 3), join(3, 4)
    (3, None)
    >>> join(TileFact((8, 16)), TileFact((4, 16)))
    TileFact(valid=(None, 16), bytes=None)
    """
    if a is b:
        return a
    if isinstance(a, TileFact) and isinstance(b, TileFact):
        where = a.bytes.joined(b.bytes) if a.bytes is not None and b.bytes is not None else None
        return TileFact(_each(a.valid, b.valid), where)  # type: ignore[arg-type]
    if isinstance(a, ViewFact) and isinstance(b, ViewFact):
        return ViewFact(_each(a.extents, b.extents), a.layout if a.layout == b.layout else None)
    return a if isinstance(a, int | PointerFact) and isinstance(b, int | PointerFact) and a == b else None


def _each(a: Extents | None, b: Extents | None) -> Extents | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(m if m == n else None for m, n in zip(a, b, strict=True))


class Facts:
    """What is known at a place of a program of every name in scope: the state of the dataflow problem.

    A path through a region has names of its own, and what it changes of those around it, so that a region
    costs as much as it defines and changes.
    """

    __slots__ = ("_around", "_changed", "_own")

    def __init__(self, around: Facts | None = None) -> None:
        self._own: dict[str, Fact | None] = {}
        self._changed: dict[str, Fact | None] = {}
        self._around = around

    def __getitem__(self, name: str) -> Fact | None:
        scope: Facts | None = self
        while scope is not None:
            if name in scope._own:
                return scope._own[name]
            if name in scope._changed:
                return scope._changed[name]
            scope = scope._around
        return None

    def __setitem__(self, name: str, fact: Fact | None) -> None:
        is_own = name in self._own or self._around is None
        (self._own if is_own else self._changed)[name] = fact

    def define(self, value: Value) -> None:
        """Bring a name into scope with what its type says."""
        self._own[value.name] = fact_of(value.type)

    def fork(self, defined: Sequence[Value] = ()) -> Facts:
        """A path that begins here, and the names that it begins with."""
        path = Facts(self)
        for value in defined:
            path.define(value)
        return path

    def adopt(self, path: Facts) -> None:
        """Take over what a path that began here has changed."""
        scopes = []
        while path is not self:
            assert path._around is not None, "a path that began elsewhere"
            scopes.append(path)
            path = path._around
        for scope in reversed(scopes):
            for name, fact in scope._changed.items():
                self[name] = fact

    def weaken(self, other: Facts) -> bool:
        """Join with what is known on another path; whether something is no longer known."""
        less = False
        for name in (*self._changed, *other._changed):
            mine = self[name]
            joined = join(mine, other[name]) if mine is not None else None
            if mine is not None and (joined is None or joined != mine):
                self[name], less = joined, True
        return less

    def kept(self) -> Facts:
        """What this path knows by itself, without what is around it."""
        found = Facts()
        found._changed = {**self._own, **self._changed}
        return found


class OperandFacts(NamedTuple):
    """What is known of the operands of an operation where it is executed, by the names of values."""

    numbers: Mapping[str, Any]
    valid: Mapping[str, Valid]
    extents: Mapping[str, Extents]
    layouts: Mapping[str, GlobalLayout]
    bytes: Mapping[str, Bytes]
    pointers: Mapping[str, PointerFact]

    def number(self, value: Value | None) -> Any:
        """The number of a scalar, None where it is not known."""
        return None if value is None else self.numbers.get(value.name)


_NONE: Mapping[str, Any] = {}
#: Of an operation that is not in the program.
NOTHING = OperandFacts(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE)


def operand_facts(values: tuple[Value, ...], facts: Facts) -> OperandFacts:
    """The facts of some values at a place."""
    # Most operations know nothing of most kinds, and a program keeps one of these for each operation.
    found: dict[str, dict[str, Any]] = {}
    for value in values:
        name, fact = value.name, facts[value.name]
        if isinstance(fact, TileFact):
            if fact.valid is not None:
                found.setdefault("valid", {})[name] = fact.valid
            if fact.bytes is not None:
                found.setdefault("bytes", {})[name] = fact.bytes
        elif isinstance(fact, ViewFact):
            if fact.extents is not None:
                found.setdefault("extents", {})[name] = fact.extents
            if fact.layout is not None:
                found.setdefault("layouts", {})[name] = fact.layout
        elif isinstance(fact, PointerFact):
            found.setdefault("pointers", {})[name] = fact
        elif fact is not None:
            found.setdefault("numbers", {})[name] = fact
    return NOTHING._replace(**found) if found else NOTHING
