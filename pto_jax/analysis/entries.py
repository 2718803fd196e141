"""Facts about a program that need no execution: arguments, written buffers, sizes, counts of calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .. import isa
from ..errors import ArgumentError, Diagnostic, VerifyError, nearest
from ..ir import AddressSpace, Function, MemRefType, Op, Program, PtrType, Region, Type, Value
from ..isa import effects, views
from ..isa.effects import aliased, traits_in, traits_of
from .facts import OperandFacts
from .provenance import GlobalTypes as GlobalTypes, called, calls, of_number, roots
from .resolve import ResolvedProgram, resolve


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel.

    ``min_elements`` is the number of elements a buffer needs for the views whose sizes the text gives, None
    when it gives none; ``read`` and ``written`` tell what the function does to a buffer.
    """

    name: str
    type: Type
    min_elements: int | None = None
    written: bool = False
    read: bool = False

    def __repr__(self) -> str:
        needs = f", at least {self.min_elements} elements" if self.min_elements is not None else ""
        return f"Argument({self.name}: {self.type}{needs}{', written' if self.written else ''})"


def select_entry(program: Program, entry: str | None) -> Function:
    """The function to execute: the named one, else the entry, else the only function.

    ArgumentError where there is no such function, or more than one could be meant; VerifyError where an
    execution would make too many calls.
    """
    calls = too_many_calls(program)
    if calls is not None:
        raise VerifyError(calls)
    if entry is not None:
        selected = program.function(entry) if isinstance(entry, str) else None
        if selected is None:
            names = ", ".join(f.name for f in program.functions) or "none"
            close = nearest(entry, [f.name for f in program.functions])
            fix = f'entry="{close}" (--entry {close})' if close else ""
            raise ArgumentError(f"entry: got {entry!r}", allowed=names, fix=fix)
        return selected
    entries = [f for f in program.entries if f.body.ops]
    if len(entries) == 1:
        return entries[0]
    names = ", ".join(f.name for f in program.functions) or "none"
    if not program.functions:
        raise ArgumentError("got a program without a function", allowed="one or more")
    first = program.functions[0].name
    raise ArgumentError(
        "entry: the program marks none", allowed=names, fix=f'entry="{first}" (--entry {first})'
    )


def arguments(program: Program, function: Function) -> tuple[Argument, ...]:
    """The arguments of a function with what is known about its buffers."""
    read, changed = (set(_accessed(program, function, access)) for access in ("read", "write"))
    needs = _needs(program, function, frozenset())
    return tuple(
        Argument(a.name, a.type, needs.get(a.name), a.name in changed, a.name in read) for a in function.args
    )


def fragment_outputs(program: Program) -> tuple[str, ...]:
    """Names of a fragment's results that instructions wrote, and of the tile handles it makes at its end.

    Its constants are not results, and a view that it writes stands for the arguments it is a view of.
    """
    results: set[str] = set()
    read = {v.name for op in program.walk() for v in op.ins}
    for op in program.walk():
        instruction, alias = isa.find(op.name), effects.traits_of(op).alias
        if instruction is not None and instruction.syntax == "tile":
            results |= {v.name for v in op.destinations}
        elif alias is not None and alias.memory == "tile":
            results |= {v.name for v in op.destinations} - read
    buffers = [name for function in program.functions for name in written_buffers(program, function)]
    sources = {n: r for function in program.functions for n, r in resolve(program).origins(function).items()}
    named: list[str] = []
    for name in program.fragment_results:
        if name in results or name in buffers:
            named += sorted(sources.get(name, {name}))
    return tuple(dict.fromkeys((*named, *buffers)))


def written_buffers(program: Program, function: Function) -> tuple[str, ...]:
    """Names of the buffer arguments a function writes, in order of the first write."""
    return tuple(dict.fromkeys(_accessed(program, function, "write")))


def _accessed(
    program: Program, function: Function, access: str, active: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Names of the buffer arguments that a function reads or writes, for every operation that does."""
    resolved = resolve(program)
    names = resolved.origins(function)
    order = {a.name: i for i, a in enumerate(function.args)}

    def of(name: str | None) -> list[str]:
        return sorted(names.get(name or "", ()), key=order.__getitem__)

    for op in function.walk():
        for effect, value in resolved.of(op).accesses():
            if effect.access == access and effect.resource == "global":
                yield from of(value.name)
        callee = called(program, op)
        if callee is not None and callee.name not in active:
            arguments = {p.name: v.name for p, v in zip(callee.args, op.ins, strict=False)}
            for inner in _accessed(program, callee, access, active | {function.name}):
                yield from of(arguments.get(inner))
            if any(map(of_number, callee.walk())):
                yield from (a.name for a in function.args if isinstance(a.type, GlobalTypes))


def _needs(program: Program, function: Function, active: frozenset[str]) -> dict[str, int]:
    facts = resolve(program).facts(function)
    needs = {
        a.name: memref_extent(a.type)
        for a in function.args
        if isinstance(a.type, MemRefType) and memref_extent(a.type)
    }
    for op in function.walk():
        if op.name == views.MAKE_TENSOR_VIEW:
            before = facts.of(op)
            pointer, extent = before.pointers.get(op.group("ptr")[0].name), _extent(op, before)
            if pointer is not None and extent:
                needs[pointer.base] = max(needs.get(pointer.base, 0), pointer.offset + extent)
        for name, count in _transferred(op, facts.of(op)):
            needs[name] = max(needs.get(name, 0), count)
        callee = called(program, op)
        if callee is not None and callee.name not in active:
            inner = _needs(program, callee, active | {function.name})
            for parameter, value in zip(callee.args, op.ins, strict=False):
                pointer = facts.of(op).pointers.get(value.name)
                if pointer is not None and parameter.name in inner:
                    extent = pointer.offset + inner[parameter.name]
                    needs[pointer.base] = max(needs.get(pointer.base, 0), extent)
    return needs


def _transferred(op: Op, before: OperandFacts) -> Iterator[tuple[str, int]]:
    """The elements that a micro-operation accesses of a buffer, as far as the text gives them."""
    declared = isa.micro_operation(op)
    for place in declared.places if declared is not None else ():
        assert declared is not None
        values = declared.values(op)
        value = values.get(place.pointer)
        if value is None:
            continue
        pointer = before.pointers.get(value.name)
        if pointer is None or not isinstance(value.type, PtrType) or value.type.space != AddressSpace.GM:
            continue
        numbers = {name: before.number(v) for name, v in values.items()}
        size = place.span(declared.call(op), numbers)
        if size is not None:
            yield pointer.base, pointer.offset + -(-size // (value.type.dtype.storage_bits // 8))


def memref_extent(t: MemRefType) -> int:
    """Elements up to the last one of a memref, 0 when its type does not give the sizes."""
    if None in t.dims or (t.strides is not None and None in t.strides) or t.offset is None:
        return 0
    last = t.offset
    for size, stride in zip(t.dims, strides_of(t.dims, t.strides), strict=True):
        if size == 0:
            return 0
        last += ((size or 0) - 1) * stride
    return last + 1


def strides_of(dims: Sequence[int | None], strides: Sequence[int | None] | None) -> tuple[int, ...]:
    """Element strides of a memref of known sizes; contiguous where none are given."""
    result = [math.prod(d or 0 for d in dims[i + 1 :]) for i in range(len(dims))]
    return tuple(s if s is not None else c for s, c in zip(strides or result, result, strict=True))


def _extent(op: Op, before: OperandFacts) -> int:
    """Elements from the view's base to its last element, 0 when the text does not give the sizes."""
    total = 1
    for dimension in zip(op.group("shape"), op.group("strides"), strict=False):
        size, stride = map(before.number, dimension)
        if not size or stride is None:
            return 0
        total += (size - 1) * stride
    return total


# -- number of executions ----------------------------------------------------------------------------

#: Calls of one execution, loops counted once. Every call is verified, traced and executed by itself.
MOST_CALLS = 10_000
#: Trips of the loops of one execution: at a microsecond for each a day.
MOST_TRIPS = 1 << 36


def too_many_calls(program: Program) -> Diagnostic | None:
    """An error at the first function whose execution makes too many calls.

    Calls that lead back to where they are count once; they are errors of their own.
    """
    counts: dict[str, int] = {}

    def count(name: str, active: tuple[str, ...]) -> int:
        function = program.function(name)
        if name in active or function is None:
            return 0
        if name not in counts:
            counts[name] = sum(1 + count(f.name, (*active, name)) for _, f in calls(program, function))
        return counts[name]

    for function in program.functions:
        number = count(function.name, ())
        if number > MOST_CALLS:
            message = f"an execution of @{function.name} makes {number} calls; allowed: {MOST_CALLS}"
            return Diagnostic("error", message, function.span, "call", rule="limits")
    return None


def too_many_trips(resolved: ResolvedProgram) -> Diagnostic | None:
    """An error at the first function whose loops of constant bounds make too many trips, calls included."""
    program = resolved.program
    trips: dict[str, int] = {}

    def of_function(name: str, active: tuple[str, ...]) -> int:
        function = program.function(name)
        if name in active or function is None:
            return 0
        if name not in trips:
            facts = resolved.facts(function)
            steered = any(traits.calls or traits.regions is not None for traits in traits_in(function))
            trips[name] = of_region(function.body, facts.of, (*active, name)) if steered else 0
        return trips[name]

    def of_region(region: Region, facts: Callable[[Op], OperandFacts], active: tuple[str, ...]) -> int:
        return sum(of_op(op, facts, active) for op in region.ops)

    def of_op(op: Op, facts: Callable[[Op], OperandFacts], active: tuple[str, ...]) -> int:
        callee = called(program, op)
        if callee is not None:
            return of_function(callee.name, active)
        inside = sum(of_region(region, facts, active) for region in op.regions)
        regions = traits_of(op).regions
        return (
            _trips(op, facts(op)) * (1 + inside) if regions is not None and regions.runs == "for" else inside
        )

    for function in program.functions:
        count = of_function(function.name, ())
        if count > MOST_TRIPS:
            message = f"the loops of @{function.name} make {count} trips; allowed: {MOST_TRIPS}"
            return Diagnostic("error", message, function.span, rule="limits")
    return None


def _trips(loop: Op, before: OperandFacts) -> int:
    """How often a loop runs, once where only execution knows it."""
    low, high, step = (before.number(next(iter(loop.group(name)), None)) for name in ("lb", "ub", "step"))
    if not (isinstance(low, int) and isinstance(high, int) and isinstance(step, int) and step > 0):
        return 1
    return max(0, -((low - high) // step))


# -- context records ---------------------------------------------------------------------------------

_SUFFIX, _DIFFERENCE = "_ctx", "arith.subi"


def contexts(program: Program, function: Function) -> dict[str, str]:
    r"""The window of each argument that is a context record, where the text leaves no doubt.

    >>> from pto_jax.text import parse
    >>> from pto_jax.examples import ON_RANKS
    >>> program = parse(ON_RANKS["ring_exchange"].path.read_text())
    >>> contexts(program, program.functions[0])
    {}
    """
    texts: dict[str, str] = {}
    for name, windows in moved_windows(program, function).items():
        names = _named(function, name)
        if len(windows) == 1:
            texts[name] = next(iter(windows))
        elif names is not None and (not windows or names in windows):
            texts[name] = names
    return texts


def moved_windows(program: Program, function: Function) -> dict[str, list[str]]:
    """For each argument that may be a context record the pointers that are moved by distances from it."""
    records = [a.name for a in function.args if _is_record(a)]
    moved: dict[str, dict[str, None]] = {name: {} for name in records}
    for record, window in _moved(program, function, frozenset(records)):
        moved[record] |= {window: None} if window != record else {}
    order = [a.name for a in function.args]
    return {name: sorted(windows, key=order.index) for name, windows in moved.items()}


def _is_record(argument: Value) -> bool:
    t = argument.type
    return isinstance(t, PtrType) and t.space == AddressSpace.GM and t.dtype.name in ("i64", "u64")


def _named(function: Function, record: str) -> str | None:
    """The argument that a record is named after."""
    if not record.endswith(_SUFFIX):
        return None
    base = record.removesuffix(_SUFFIX)
    names = [a.name for a in function.args if a.name == base or a.name.startswith(f"{base}__")]
    return names[0] if len(names) == 1 else None


def _moved(program: Program, function: Function, records: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Records, each with a pointer that is moved by a distance from it."""
    origins, ops = roots(program, function), {v.name: op for op in function.walk() for v in op.results}
    for op in function.walk():
        pair = aliased(op)
        alias = traits_of(op).alias
        if pair is None or alias is None or alias.memory != "global" or alias.part != "moved":
            continue
        windows = {n for n in origins.get(pair[1].name, ()) if _is_buffer(function, n)} - records
        distances = [v for v in op.ins if v.name != pair[1].name]
        for record in _behind(program, distances, ops, records):
            yield from ((record, window) for window in windows)


def _is_buffer(function: Function, name: str) -> bool:
    return any(a.name == name and isinstance(a.type, GlobalTypes) for a in function.args)


def _behind(program: Program, values: list[Value], ops: dict[str, Op], records: frozenset[str]) -> set[str]:
    """The records that some numbers are computed from, if a difference is among them."""
    names, pending, seen = set[str](), [v.name for v in values], set[str]()
    differs = False
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in records:
            names.add(name)
        elif name in ops:
            pending += [v.name for v in ops[name].ins]
            callee = called(program, ops[name])
            differs |= any(op.name == _DIFFERENCE for op in (ops[name], *(callee.walk() if callee else ())))
    return names if differs else set()
