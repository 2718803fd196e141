"""The origin of data: buffer arguments of views, names of the same data, and writes of regions.

Paths are ignored: handles that meet in a branch or loop are names of the same data from the start. So are all
tiles with an address and all tiles that leave a function through a pipe, because they may share bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from .. import ir
from ..ir import Function, Op, Program, TileType, Value
from ..isa.effects import aliased, entered, flows, handed_on, placed, traits_in, traits_of
from . import dataflow, pipes

GlobalTypes = ir.PtrType | ir.MemRefType | ir.TensorViewType | ir.PartitionViewType


def roots(program: ir.Program, function: ir.Function) -> Mapping[str, frozenset[str]]:
    """For every pointer and view: the arguments it may come from."""
    origins: dict[str, frozenset[str]] = {
        a.name: frozenset({a.name}) for a in function.args if isinstance(a.type, GlobalTypes)
    }

    anywhere = frozenset(origins)
    origins |= {op.results[0].name: anywhere for op in function.walk() if of_number(op)}

    def transfer(pairs: Sequence[tuple[ir.Value, ir.Value]]) -> bool:
        changed = False
        for target, source in pairs:
            before = origins.get(target.name, frozenset())
            if not origins.get(source.name, before) <= before:
                origins[target.name], changed = before | origins[source.name], True
        return changed

    dataflow.raise_values(
        [*(tuple(_flows(program, op)) for op in function.walk()), tuple(pipes.slot_views(function))], transfer
    )
    return origins


def of_number(op: ir.Op) -> bool:
    """Whether an operation makes a pointer of an address, which may be that of any argument."""
    pair = _pointer(op)
    return pair is not None and isinstance(pair[1].type, ir.ScalarType) and _is_global(pair[0].type)


def _is_global(t: ir.Type) -> bool:
    return isinstance(t, ir.PtrType) and t.space == ir.AddressSpace.GM


def _pointer(op: ir.Op) -> tuple[ir.Value, ir.Value] | None:
    """The pointer that an operation makes, and what it is made of."""
    cast = len(op.results) == 1 and isinstance(op.results[0].type, ir.PtrType) and op.ins and not op.regions
    return (op.results[0], op.ins[0]) if cast else None


def _flows(program: ir.Program, op: ir.Op) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Pairs of a value and one it may be, or be derived from."""
    traits = traits_of(op)
    if traits.alias is not None and traits.alias.memory == "global":
        pair = aliased(op)
        if pair is not None:
            yield pair
    elif traits.calls:
        yield from (
            (r, v) for r, sources in zip(op.results, forwarded(program, op), strict=False) for v in sources
        )
    elif op.regions:
        yield from flows(op)
    elif (pointer := _pointer(op)) is not None:
        yield pointer


def forwarded(program: ir.Program, call: ir.Op) -> Iterator[list[ir.Value]]:
    """For every result of a call: the operands it may be derived from."""
    callee = called(program, call)
    if callee is None:
        return
    inner = roots(program, callee)
    arguments = {p.name: v for p, v in zip(callee.args, call.ins, strict=False)}
    for v in handed_on(callee.body):
        yield [arguments[name] for name in inner.get(v.name, ())]


def called(program: ir.Program, op: ir.Op) -> ir.Function | None:
    """The function of the program that an operation calls, None where it calls none."""
    callee = op.attrs.get("callee") if op.attributes and traits_of(op).calls else None
    return program.function(callee.name) if isinstance(callee, ir.Symbol) else None


def calls(program: ir.Program, function: ir.Function) -> list[tuple[ir.Op, ir.Function]]:
    """The calls of a function, with the functions of the program that they execute, in text order."""
    if not any(traits.calls for traits in traits_in(function)):
        return []
    pairs = ((op, called(program, op)) for op in function.walk())
    return [(op, callee) for op, callee in pairs if callee is not None]


def callees(program: ir.Program) -> frozenset[str]:
    """The names of the functions of a program that others call."""
    return frozenset(callee.name for f in program.functions for _, callee in calls(program, f))


#: A name by its function; the class of data that it stands for is known by one of its names.
Name: TypeAlias = tuple[str, str]
_SHARED: Name = ("", "")


class AliasClasses:
    r"""The names of a program in classes that may stand for the same data.

    >>> from pto_jax.api import parse
    >>> t = "!pto.tile<16x16xf32>"
    >>> classes = AliasClasses(parse(f"%b = pto.bitcast %a : {t} -> {t}\n%c = tneg %b : {t}"))
    >>> classes.of("fragment", "a") == classes.of("fragment", "b") != classes.of("fragment", "c")
    True
    """

    def __init__(self, program: Program) -> None:
        self._parents: dict[Name, Name] = {}
        for function in program.functions:
            for op in function.walk():
                self._unite_names(program, function, op)

    def of(self, function: str, name: str) -> Name:
        """The class of a name in a function."""
        return self._root((function, name))

    def _root(self, node: Name) -> Name:
        while (parent := self._parents.get(node, node)) != node:
            node = parent
        return node

    def _unite(self, f: Function, pairs: Iterable[tuple[Value, Value]], g: Function | None = None) -> None:
        for a, b in pairs:
            self._parents[self._root((f.name, a.name))] = self._root(((g or f).name, b.name))

    def _share(self, f: Function, values: Iterable[Value]) -> None:
        for v in values:
            self._parents[self._root((f.name, v.name))] = self._root(_SHARED)

    def _unite_names(self, program: Program, f: Function, op: Op) -> None:
        """Unite the names that an operation makes names of the same data."""
        pair, place, callee = aliased(op), placed(op), called(program, op)
        if pair is not None:
            self._unite(f, [pair])
        elif place is not None:
            self._share(f, place[:1] if place[1] is not None else ())
        elif callee is not None:
            self._unite(f, zip(op.ins, callee.args, strict=False), callee)
            self._unite(f, zip(op.results, handed_on(callee.body), strict=False), callee)
        elif op.regions:
            for region in op.regions:
                ends = region.ops[-1].ins if region.ops else ()
                sources = (op.group("inits") or op.ins, ends, ends[1:])
                for targets in (op.results, region.args, region.args[1:]):
                    self._unite(f, chain.from_iterable(zip(targets, s, strict=False) for s in sources))
        elif traits_of(op).fifo in ("push", "pop"):
            self._share(f, (*op.ins, *op.outs, *op.results))


#: A name around the regions, or the number of the operation that allocates a tile inside them.
Origin: TypeAlias = str | int


@dataclass(frozen=True)
class RegionWrites:
    """The tiles that regions allocate, and everything that they write, in text order."""

    allocations: tuple[Op, ...]
    origins: tuple[Origin, ...]


def region_writes(op: Op, written: Callable[[Op], Iterable[Value]]) -> RegionWrites:
    """What the regions of an operation write; ``written`` gives the values that one operation writes.

    Handles are followed to what they are handles of; the first trip of a loop stands for all.

    >>> from pto_jax.api import parse
    >>> from pto_jax.isa import effects
    >>> t = "!pto.tile<16x16xf32>"
    >>> body = f"%v = pto.bitcast %a : {t} -> {t} pto.tneg ins(%b : {t}) outs(%v : {t})"
    >>> (branch,) = parse(f"scf.if %c {{ {body} }}").functions[0].body.ops
    >>> region_writes(branch, effects.written).origins
    ('a',)
    """
    allocations: list[Op] = []
    origins: dict[str, Origin] = {}
    result: dict[Origin, None] = {}
    for inner in op.walk():
        pair, place = aliased(inner), placed(inner)
        for name, source in entered(inner) if pair is None else (pair,):
            origins[name.name] = origins.get(source.name, source.name)
        if place is not None and place[0] in inner.results and isinstance(place[0].type, TileType):
            origins[place[0].name] = len(allocations)
            allocations.append(inner)
        for value in written(inner):
            result.setdefault(origins.get(value.name, value.name))
    return RegionWrites(tuple(allocations), tuple(result))
