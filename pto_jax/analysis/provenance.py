"""Which buffer arguments the pointers and views of a function may come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..ir.program import Function, Op, Program, Region, Symbol, Value
from ..ir.types import MemRefType, PartitionViewType, PtrType, TensorViewType

GlobalTypes = PtrType | MemRefType | TensorViewType | PartitionViewType

#: Operations whose result is another view of their first operand's buffer.
DERIVING = frozenset(
    """make_tensor_view partition_view subview addptr memref.reinterpret_cast tensor_view_addr castptr
    pointer_cast""".split()
)
_Roots = dict[str, frozenset[str]]


def roots(program: Program, function: Function) -> Mapping[str, frozenset[str]]:
    """For every pointer and view: the arguments it may come from."""
    found: _Roots = {a.name: frozenset({a.name}) for a in function.args if isinstance(a.type, GlobalTypes)}
    while True:
        size = sum(map(len, found.values()))
        for op in function.walk():
            for target, source in _flows(program, op):
                if source.name in found:
                    found[target.name] = found.get(target.name, frozenset()) | found[source.name]
        if sum(map(len, found.values())) == size:
            return found


def _flows(program: Program, op: Op) -> Iterator[tuple[Value, Value]]:
    """Pairs of a value and one it may be, or be derived from."""
    if op.name in DERIVING and op.ins:
        yield from ((r, op.ins[0]) for r in op.results)
    elif op.name == "call":
        yield from (
            (r, v) for r, sources in zip(op.results, forwarded(program, op), strict=False) for v in sources
        )
    elif op.name == "scf.for":
        body, inits = op.regions[0], op.group("inits")
        ends = _ends(body)
        for targets in (op.results, body.args[1:]):
            yield from _pairs(targets, inits, ends)
    elif op.name == "scf.while":
        before, after = op.regions
        yield from _pairs(before.args, op.ins, _ends(after))
        passed = _ends(before)[1:]
        yield from _pairs(after.args, passed)
        yield from _pairs(op.results, passed)
    else:
        for region in op.regions:
            yield from _pairs(op.results, _ends(region))


def _ends(region: Region) -> tuple[Value, ...]:
    last = region.ops[-1] if region.ops else None
    return last.ins if last is not None and last.name in ("scf.yield", "scf.condition") else ()


def _pairs(targets: Sequence[Value], *sources: Sequence[Value]) -> Iterator[tuple[Value, Value]]:
    for given in sources:
        yield from zip(targets, given, strict=False)


def forwarded(program: Program, call: Op) -> Iterator[list[Value]]:
    """For every result of a call: the operands it may be derived from."""
    callee = called(program, call)
    if callee is None:
        return
    inner = roots(program, callee)
    given = {p.name: v for p, v in zip(callee.args, call.ins, strict=False)}
    for op in callee.body.ops:
        if op.name == "return":
            yield from ([given[name] for name in inner.get(v.name, ())] for v in op.ins)


def called(program: Program, call: Op) -> Function | None:
    callee = call.attrs.get("callee")
    return program.function(callee.name) if isinstance(callee, Symbol) else None
