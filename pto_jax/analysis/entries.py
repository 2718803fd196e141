"""Facts about a program that need no execution: arguments, written buffers, sizes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .. import isa
from ..errors import ArgumentError, VerifyError
from ..ir import AddressSpace, Function, MemRefType, Op, Program, PtrType, Type
from ..isa import effects, views
from .calls import too_many_calls
from .facts import OperandFacts
from .provenance import GlobalTypes as GlobalTypes, called, of_number
from .resolve import resolve


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
        found = program.function(entry) if isinstance(entry, str) else None
        if found is None:
            names = ", ".join(f.name for f in program.functions) or "none"
            raise ArgumentError(f"entry: got {entry!r}", allowed=names)
        return found
    entries = [f for f in program.entries if f.body.ops]
    if len(entries) == 1:
        return entries[0]
    names = ", ".join(f.name for f in program.functions) or "none"
    if not program.functions:
        raise ArgumentError("got a program without a function", allowed="one or more")
    raise ArgumentError("entry: the program marks none", allowed=names)


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
    made: set[str] = set()
    read = {v.name for op in program.walk() for v in op.ins}
    for op in program.walk():
        instruction, alias = isa.find(op.name), effects.traits_of(op).alias
        if instruction is not None and instruction.syntax == "tile":
            made |= {v.name for v in op.destinations}
        elif alias is not None and alias.memory == "tile":
            made |= {v.name for v in op.destinations} - read
    buffers = [name for function in program.functions for name in written_buffers(program, function)]
    sources = {n: r for function in program.functions for n, r in resolve(program).origins(function).items()}
    named: list[str] = []
    for name in program.fragment_results:
        if name in made or name in buffers:
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
            given = {p.name: v.name for p, v in zip(callee.args, op.ins, strict=False)}
            for inner in _accessed(program, callee, access, active | {function.name}):
                yield from of(given.get(inner))
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
            known = facts.of(op)
            pointer, extent = known.pointers.get(op.group("ptr")[0].name), _extent(op, known)
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


def _transferred(op: Op, known: OperandFacts) -> Iterator[tuple[str, int]]:
    """The elements that a micro-operation accesses of a buffer, as far as the text gives them."""
    declared = isa.micro_operation(op)
    for place in declared.places if declared is not None else ():
        assert declared is not None
        values = declared.values(op)
        value = values[place.pointer]
        pointer = known.pointers.get(value.name)
        if pointer is None or not isinstance(value.type, PtrType) or value.type.space != AddressSpace.GM:
            continue
        numbers = {name: known.number(v) for name, v in values.items()}
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
    found = [math.prod(d or 0 for d in dims[i + 1 :]) for i in range(len(dims))]
    return tuple(s if s is not None else c for s, c in zip(strides or found, found, strict=True))


def _extent(op: Op, known: OperandFacts) -> int:
    """Elements from the view's base to its last element, 0 when the text does not give the sizes."""
    total = 1
    for dimension in zip(op.group("shape"), op.group("strides"), strict=False):
        size, stride = map(known.number, dimension)
        if not size or stride is None:
            return 0
        total += (size - 1) * stride
    return total
