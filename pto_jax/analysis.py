"""Facts about a program that need no execution: arguments, written buffers, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import ArgumentError
from .ir import Function, Op, Program, Symbol
from .types import MemRefType, PtrType, Type


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel. ``min_elements`` is the number of elements a buffer needs for the views
    whose sizes the text gives, None when it gives none."""

    name: str
    type: Type
    min_elements: int | None = None
    written: bool = False


def select_entry(program: Program, entry: str | None) -> Function:
    """The function to execute: the named one, else the entry, else the only function."""
    if entry is not None:
        found = program.function(entry)
        if found is None:
            names = ", ".join(f.name for f in program.functions) or "none"
            raise ArgumentError(f"no function {entry!r} in the program; it has: {names}")
        return found
    entries = [f for f in program.entries if f.body.ops]
    if len(entries) == 1:
        return entries[0]
    names = ", ".join(f.name for f in program.functions) or "none"
    if not program.functions:
        raise ArgumentError("the program has no function to execute")
    raise ArgumentError(f"the program does not say which function is the entry; choose one of: {names}")


def arguments(program: Program, function: Function) -> tuple[Argument, ...]:
    """The arguments of a function with what is known about its buffers."""
    written = set(written_buffers(program, function))
    needs = _needs(function)
    return tuple(Argument(a.name, a.type, needs.get(a.name), a.name in written) for a in function.args)


def _roots(function: Function) -> dict[str, str]:
    """For every pointer, view and handle derived from a buffer argument: the argument's name."""
    roots = {a.name: a.name for a in function.args if isinstance(a.type, PtrType | MemRefType)}
    for op in function.walk():
        for base in op.ins[:1]:
            if base.name in roots and op.name in ("make_tensor_view", "partition_view", "subview", "addptr"):
                roots.update({r.name: roots[base.name] for r in op.results})
    return roots


def written_buffers(program: Program, function: Function) -> tuple[str, ...]:
    """Names of the buffer arguments a function writes, in order of the first write."""
    return tuple(dict.fromkeys(_writes(program, function, frozenset())))


def _writes(program: Program, function: Function, active: frozenset[str]) -> Iterator[str]:
    roots = _roots(function)
    for op in function.walk():
        if op.name in ("tstore", "store_scalar", "tstore_fp", "mscatter"):
            for target in op.outs:
                if target.name in roots:
                    yield roots[target.name]
        callee = op.attrs.get("callee") if op.name == "call" else None
        if isinstance(callee, Symbol) and callee.name not in active:
            called = program.function(callee.name)
            if called is not None:
                inner = set(_writes(program, called, active | {function.name}))
                for parameter, value in zip(called.args, op.ins, strict=False):
                    if parameter.name in inner and value.name in roots:
                        yield roots[value.name]


def _needs(function: Function) -> dict[str, int]:
    constants: dict[str, int] = {}
    offsets: dict[str, tuple[str, int]] = {
        a.name: (a.name, 0) for a in function.args if isinstance(a.type, PtrType)
    }
    needs: dict[str, int] = {}
    for op in function.walk():
        value = op.attrs.get("value") if op.name == "arith.constant" else None
        if isinstance(value, int):
            constants[op.results[0].name] = value
        elif op.name == "addptr" and op.ins[0].name in offsets and op.ins[1].name in constants:
            base, offset = offsets[op.ins[0].name]
            offsets[op.results[0].name] = (base, offset + constants[op.ins[1].name])
        elif op.name == "make_tensor_view" and op.group("ptr")[0].name in offsets:
            base, offset = offsets[op.group("ptr")[0].name]
            extent = _extent(op, constants)
            if extent:
                needs[base] = max(needs.get(base, 0), offset + extent)
    return needs


def _extent(op: Op, constants: dict[str, int]) -> int:
    """Elements from the view's base to its last element, 0 when the text does not give the sizes."""
    total = 1
    for size, stride in zip(op.group("shape"), op.group("strides"), strict=False):
        if size.name not in constants or stride.name not in constants:
            return 0
        if constants[size.name] == 0:
            return 0
        total += (constants[size.name] - 1) * constants[stride.name]
    return total
