"""What the arguments of a kernel stand for on every rank: parts of buffers, context records, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ..analysis.entries import contexts, strides_of, written_buffers
from ..analysis.provenance import GlobalTypes
from ..errors import ArgumentError, is_number, nearest, one_of
from ..ir import (
    I64,
    DType,
    Function,
    MemRefType,
    PartitionViewType,
    Program,
    PtrType,
    ScalarType,
    TensorViewType,
    Value,
)
from .interleaving import RankLaunch
from .operands import BLOCK_NUMBERS, Operand, Pointer, View
from .ranks import World, part
from .views import memref_view

#: Most ranks that a context record has room for.
MAX_RANKS = 64


@dataclass(frozen=True)
class Part:
    """Parts of a buffer: that of rank ``ranks[m]`` is what rank m has as the argument."""

    buffer: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Record:
    """The context record of the rank."""


@dataclass(frozen=True)
class Number:
    """A scalar that a call gives under a name, or that has one value for each rank."""

    name: str
    values: tuple[Any, ...] | None = None


Binding: TypeAlias = "Part | Record | Number"


@dataclass(frozen=True)
class RankCall:
    """A kernel on all ranks: its function, its blocks, what arguments are, and the windows."""

    program: Program
    entry: str
    ranks: int
    grid: int
    bindings: Mapping[str, Binding] = field(hash=False)
    shared: tuple[str, ...] = ()
    #: Context records that no caller named, with the windows that the text gives them.
    recognised: tuple[tuple[str, str], ...] = ()

    @property
    def function(self) -> Function:
        """The function that is executed."""
        function = self.program.function(self.entry)
        assert function is not None
        return function

    @property
    def buffers(self) -> dict[str, DType]:
        """The buffers that arguments are parts of, with the type of their elements."""
        types = {a.name: a.type for a in self.function.args}
        dtypes: dict[str, DType] = {}
        for name, binding in self.bindings.items():
            t = types[name]
            if isinstance(binding, Part) and isinstance(t, GlobalTypes):
                dtypes.setdefault(binding.buffer, t.dtype)
        return dtypes

    @property
    def numbers(self) -> dict[str, DType]:
        """The scalars that a call gives."""
        dtypes: dict[str, DType] = {}
        for a in self.function.args:
            binding = self.bindings.get(a.name)
            if isinstance(binding, Number) and binding.values is None and isinstance(a.type, ScalarType):
                dtypes[binding.name] = a.type.dtype
        return dtypes

    @property
    def records(self) -> tuple[str, ...]:
        """The arguments that are context records."""
        return tuple(n for n, b in self.bindings.items() if isinstance(b, Record))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The buffers of which some rank writes a part."""
        written = written_buffers(self.program, self.function)
        parts = (self.bindings[name] for name in written)
        return tuple(dict.fromkeys(p.buffer for p in parts if isinstance(p, Part)))

    def launch(
        self, rank: int, shapes: Mapping[str, tuple[int, ...]], numbers: Mapping[str, Sequence[Any]]
    ) -> RankLaunch:
        """The kernel of one rank; ``shapes`` are those of the parts, ``numbers`` one scalar for each rank."""
        operands = [self._operand(a, rank, shapes, numbers) for a in self.function.args]
        return RankLaunch(self.program, self.function, self.grid, operands)

    def _operand(
        self,
        argument: Value,
        rank: int,
        shapes: Mapping[str, tuple[int, ...]],
        numbers: Mapping[str, Sequence[Any]],
    ) -> Operand:
        binding, t = self.bindings.get(argument.name), argument.type
        if isinstance(binding, Number):
            return (numbers[binding.name] if binding.values is None else binding.values)[rank]
        if isinstance(binding, Record):
            return Pointer(part(argument.name, rank), I64)
        if not isinstance(binding, Part):
            return None
        name, shape = part(binding.buffer, binding.ranks[rank]), shapes[binding.buffer]
        if isinstance(t, MemRefType):
            return memref_view(name, t, shape)
        if isinstance(t, TensorViewType | PartitionViewType):
            return View(name, t.dtype, 0, shape, strides_of(shape, None))
        assert isinstance(t, PtrType)
        return Pointer(name, t.dtype)


def bind(
    program: Program,
    function: Function,
    ranks: int,
    grid: int = 1,
    shared: Sequence[str] = (),
    context: Mapping[str, str] | None = None,
    peers: Mapping[str, tuple[str, int | Sequence[int]]] | None = None,
) -> RankCall:
    """What arguments of a function are on ``ranks`` ranks; ArgumentError for what does not fit.

    ``context`` maps arguments that are context records to a window; others are recognised by their use.
    ``peers`` maps arguments to a buffer and the rank whose part they are, or one rank for each rank.
    """
    check_ranks(ranks)
    check_names(shared, context, peers)
    recognised = {n: w for n, w in contexts(program, function).items() if n not in (context or {})}
    records, parts = {**recognised, **(context or {})}, dict(peers or {})
    types = {a.name: a.type for a in function.args}
    _require_pointers(function, "context", records)
    _require_pointers(function, "peers", parts)
    both = next((n for n in parts if n in (context or {})), None)
    if both is not None:
        raise ArgumentError(f"context, peers: got {both!r} in both", allowed="one of them")
    bindings: dict[str, Binding] = {}
    for argument in function.args:
        name, t = argument.name, argument.type
        if name in BLOCK_NUMBERS:
            continue
        if name in records:
            bindings[name] = _record(name, t, types)
        elif name in parts:
            bindings[name] = _peer(name, parts[name], ranks)
        elif isinstance(t, GlobalTypes):
            bindings[name] = Part(name, tuple(range(ranks)))
        elif isinstance(t, ScalarType):
            bindings[name] = Number(name)
        else:
            raise ArgumentError(
                f"{function.name}: argument {name!r}: got {t}; allowed on {ranks} ranks: buffers and scalars"
            )
    windows = tuple(dict.fromkeys((*shared, *records.values())))
    buffers = {b.buffer for b in bindings.values() if isinstance(b, Part)}
    check_windows(shared, buffers | set(records.values()))
    for name, window in records.items():
        if window not in buffers | set(shared):
            raise not_a_buffer(name, window, buffers | set(shared))
    return RankCall(program, function.name, ranks, grid, bindings, windows, tuple(recognised.items()))


def check_ranks(ranks: object) -> None:
    """ArgumentError for what is no number of ranks."""
    if not is_number(ranks, 1, MAX_RANKS):
        raise ArgumentError(f"ranks: got {ranks!r}", allowed=f"1 to {MAX_RANKS}", fix="ranks=2")


#: What the names of a keyword are.
_OF = {"context": "pointers to i64", "peers": "pointer arguments"}


def check_names(shared: object, context: object, peers: object) -> None:
    """ArgumentError for windows, records or peers that are not given by names."""
    if isinstance(shared, str) or not isinstance(shared, Iterable):
        names = str(shared).split(",") if isinstance(shared, str) else ["y"]
        got = f"shared: got {shared!r}"
        raise ArgumentError(got, allowed="names of buffers", fix=f"shared=[{', '.join(map(repr, names))}]")
    for what, values, fix in (
        ("context", context, {"ctx": "y"}),
        ("peers", peers, {"a": ["x", 1]}),
    ):
        if values is not None and not isinstance(values, Mapping):
            got = f"{what}: got {one_of(values)}"
            raise ArgumentError(got, allowed="names of arguments to buffers", fix=f"{what}={_quoted(fix)}")


def _require_pointers(function: Function, what: str, values: Mapping[str, Any]) -> None:
    """ArgumentError for a name that is no argument of global memory."""
    types = {a.name: a.type for a in function.args}
    name = next((n for n in values if not isinstance(types.get(n), GlobalTypes)), None)
    if name is not None:
        pointers = [n for n, t in types.items() if isinstance(t, GlobalTypes)]
        pointers = [n for n in pointers if what != "context" or _is_record(types[n])]
        allowed = f"{_OF[what]} of {function.name}: {', '.join(pointers) or 'none'}"
        close = _meant(name, pointers)
        fix = f"{what}={_quoted({close: values[name]})}" if close else ""
        raise ArgumentError(f"{what}: got {name!r}", allowed=allowed, fix=fix)


def _quoted(values: Mapping[Any, Any]) -> str:
    """A dictionary as Python and JSON write it."""
    return repr(dict(values)).replace("'", '"')


def _meant(name: object, words: Iterable[str]) -> str:
    """The word that a wrong name stands for: the closest one, or the only one; "" where that is not clear."""
    only = list(words)
    return nearest(name, only) or (only[0] if len(only) == 1 else "")


def check_windows(shared: Sequence[str], reached: Iterable[str]) -> None:
    """ArgumentError for a window that no argument, context record or peer is part of."""
    for name in shared:
        if name not in reached:
            got = f"shared: got {name!r}, which no argument, context record or peer is part of"
            close = nearest(name, reached)
            fix = f"shared={[close if n == name else n for n in shared]!r}" if close else ""
            raise ArgumentError(got, allowed=", ".join(sorted(reached)) or "none", fix=fix)


def not_a_buffer(record: str, window: object, buffers: Iterable[str]) -> ArgumentError:
    """The error of a context record whose window is none."""
    close = _meant(window, buffers)
    fix = f"context={_quoted({record: close})}" if close else ""
    allowed = f"a buffer: {', '.join(sorted(buffers)) or 'none'}"
    return ArgumentError(f"context: {record!r}: got {window!r}", allowed=allowed, fix=fix)


def _is_record(t: object) -> bool:
    return isinstance(t, PtrType) and t.dtype.storage_bits == I64.storage_bits


def _record(name: str, t: object, types: Mapping[str, object]) -> Record:
    if not _is_record(t):
        names = ", ".join(n for n, other in types.items() if _is_record(other)) or "none here"
        raise ArgumentError(f"context: argument {name!r}: got {t}", allowed=f"a pointer to i64: {names}")
    return Record()


def _peer(name: str, peer: object, ranks: int) -> Part:
    """The part of a buffer that is another rank's."""
    parts: Sequence[object] = peer if isinstance(peer, tuple | list) else (peer,)
    buffer, which = parts if len(parts) == 2 else (None, None)
    several = isinstance(which, Iterable) and not isinstance(which, str) and getattr(which, "ndim", 1) == 1
    owners: list[Any] = list(cast("Iterable[Any]", which)) if several else [which] * ranks
    if isinstance(buffer, str) and len(owners) == ranks and all(is_number(r, 0, ranks - 1) for r in owners):
        return Part(buffer, tuple(int(r) for r in owners))
    named = next((part for part in parts if isinstance(part, str)), "x")
    fix = f"peers={_quoted({name: [named, ranks - 1]})}"
    allowed = f"a buffer and a rank from 0 to {ranks - 1}, or {ranks} of them, one for each rank"
    raise ArgumentError(f"peers: {name!r}: got {peer!r}", allowed=allowed, fix=fix)


def world_of(calls: Sequence[RankCall], *, late: bool = False) -> World:
    """The ranks that some kernels run on, with the buffers of all of them."""
    buffers = tuple(dict.fromkeys(b for call in calls for b in (*call.buffers, *call.shared)))
    shared = frozenset(name for call in calls for name in call.shared)
    return World(calls[0].ranks, buffers, shared, late)
