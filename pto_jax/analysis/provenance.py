"""Which buffer arguments the pointers and views of a function may come from."""

from collections.abc import Iterator, Mapping, Sequence

from .. import ir
from ..isa.effects import aliased, flows, handed_on, traits_of
from . import dataflow, pipes

GlobalTypes = ir.PtrType | ir.MemRefType | ir.TensorViewType | ir.PartitionViewType


def roots(program: ir.Program, function: ir.Function) -> Mapping[str, frozenset[str]]:
    """For every pointer and view: the arguments it may come from."""
    found: dict[str, frozenset[str]] = {
        a.name: frozenset({a.name}) for a in function.args if isinstance(a.type, GlobalTypes)
    }

    anywhere = frozenset(found)
    found |= {op.results[0].name: anywhere for op in function.walk() if of_number(op)}

    def transfer(pairs: Sequence[tuple[ir.Value, ir.Value]]) -> bool:
        changed = False
        for target, source in pairs:
            before = found.get(target.name, frozenset())
            if not found.get(source.name, before) <= before:
                found[target.name], changed = before | found[source.name], True
        return changed

    dataflow.raise_values(
        [*(tuple(_flows(program, op)) for op in function.walk()), tuple(pipes.slot_views(function))], transfer
    )
    return found


def of_number(op: ir.Op) -> bool:
    """Whether an operation makes a pointer of an address, which may be that of any argument."""
    pair = _pointer(op)
    return pair is not None and isinstance(pair[1].type, ir.ScalarType)


def _pointer(op: ir.Op) -> tuple[ir.Value, ir.Value] | None:
    """The pointer that an operation makes, and what it is made of."""
    made = len(op.results) == 1 and isinstance(op.results[0].type, ir.PtrType) and op.ins and not op.regions
    return (op.results[0], op.ins[0]) if made else None


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
    given = {p.name: v for p, v in zip(callee.args, call.ins, strict=False)}
    for v in handed_on(callee.body):
        yield [given[name] for name in inner.get(v.name, ())]


def called(program: ir.Program, op: ir.Op) -> ir.Function | None:
    """The function of the program that an operation calls, None where it calls none."""
    callee = op.attrs.get("callee") if traits_of(op).calls else None
    return program.function(callee.name) if isinstance(callee, ir.Symbol) else None
