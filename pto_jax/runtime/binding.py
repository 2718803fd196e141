"""Arguments of a call by the names that a kernel gives them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analysis.resolve import resolve
from ..errors import ArgumentError
from ..ir import Function, Program


def bound(
    kernel: str, names: Sequence[str], optional: Iterable[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by name; ArgumentError for one that is missing, unknown or given twice."""
    if len(args) > len(names):
        raise ArgumentError(f"{kernel}: {len(args)} arguments given, it takes {len(names)}: {_list(names)}")
    values = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise ArgumentError(f"{kernel}: no argument {name!r}; it takes: {_list(names)}")
        if name in values:
            raise ArgumentError(f"{kernel}: argument {name!r} is given twice")
        values[name] = value
    missing = [n for n in names if n not in values and n not in optional]
    if missing:
        raise ArgumentError(f"{kernel}: missing argument(s): {_list(missing)}")
    return values


def optional(program: Program, function: Function, outputs: Iterable[str]) -> frozenset[str]:
    """Tiles of a fragment that it writes before it reads them: they may be left out."""
    if not program.fragment:
        return frozenset()
    needed: set[str] = set()
    written: set[str] = set()
    resolved = resolve(program)
    for op in function.walk():
        read = {v.name for v in op.ins}
        instruction = resolved.of(op).instruction
        if instruction is not None and instruction.syntax == "tile":
            values = resolved.of(op).fitting().values
            read |= {values[o.name].name for o in instruction.operands if o.role == "inout"}
        needed |= read - written
        written |= {v.name for v in op.destinations}
    return frozenset(outputs) - needed


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
