"""Context records among the arguments of a function: pointers to i64 by which addresses of peers are found.

A record belongs to the window whose pointer is moved by a distance that was read from it, or that its name
names, as front ends write it (``recv_ctx`` for ``recv__ssa_v0``).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir import AddressSpace, Function, Op, Program, PtrType, Value
from ..isa.effects import aliased, traits_of
from .provenance import GlobalTypes, called, roots

_SUFFIX, _DIFFERENCE = "_ctx", "arith.subi"


def contexts(program: Program, function: Function) -> dict[str, str]:
    r"""The window of each argument that is a context record, where the text leaves no doubt.

    >>> from pto_jax.text import parse
    >>> from pto_jax.examples import ON_RANKS
    >>> program = parse(ON_RANKS["ring_exchange"].path.read_text())
    >>> contexts(program, program.functions[0])
    {}
    """
    found: dict[str, str] = {}
    for name, windows in moved_windows(program, function).items():
        named = _named(function, name)
        if len(windows) == 1:
            found[name] = next(iter(windows))
        elif named is not None and (not windows or named in windows):
            found[name] = named
    return found


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
    named = [a.name for a in function.args if a.name == base or a.name.startswith(f"{base}__")]
    return named[0] if len(named) == 1 else None


def _moved(program: Program, function: Function, records: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Records, each with a pointer that is moved by a distance from it."""
    origins, made = roots(program, function), {v.name: op for op in function.walk() for v in op.results}
    for op in function.walk():
        pair = aliased(op)
        alias = traits_of(op).alias
        if pair is None or alias is None or alias.memory != "global" or alias.part != "moved":
            continue
        windows = {n for n in origins.get(pair[1].name, ()) if _is_buffer(function, n)} - records
        distances = [v for v in op.ins if v.name != pair[1].name]
        for record in _behind(program, distances, made, records):
            yield from ((record, window) for window in windows)


def _is_buffer(function: Function, name: str) -> bool:
    return any(a.name == name and isinstance(a.type, GlobalTypes) for a in function.args)


def _behind(program: Program, values: list[Value], made: dict[str, Op], records: frozenset[str]) -> set[str]:
    """The records that some numbers are computed from, if a difference is among them."""
    found, pending, seen = set[str](), [v.name for v in values], set[str]()
    differs = False
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in records:
            found.add(name)
        elif name in made:
            pending += [v.name for v in made[name].ins]
            callee = called(program, made[name])
            differs |= any(op.name == _DIFFERENCE for op in (made[name], *(callee.walk() if callee else ())))
    return found if differs else set()
