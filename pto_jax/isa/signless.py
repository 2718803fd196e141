"""Arithmetic of programs on unsigned integers: the arith dialect computes on signless integers only.

An unsigned value is seen as the signless one of its bits by a cast before an operation, and a result of it
by a cast behind it.
"""

from collections.abc import Callable
from dataclasses import replace

from .. import ir
from .traits import CAST

#: The loop whose bounds and counter are signless, and the number of its bounds.
_LOOP, _BOUNDS = "scf.for", 3
#: What the dialect has on values of any type.
_ANY_TYPE = "arith.select"


def signless_type(t: ir.Type) -> ir.Type:
    """The type without a sign of an unsigned integer; others as they are.

    >>> str(signless_type(ir.ScalarType(ir.dtype("u16")))), str(signless_type(ir.ScalarType(ir.F32)))
    ('i16', 'f32')
    """
    if isinstance(t, ir.ScalarType) and t.dtype.kind == "uint" and t.dtype not in (ir.I1, ir.INDEX):
        return ir.ScalarType(ir.dtype(f"i{t.dtype.bits}"))
    return t


def computes_on_signless(name: str) -> bool:
    """Whether an operation takes no unsigned integers."""
    return name.startswith("arith.") and name != _ANY_TYPE


def unsigned_of(op: ir.Op) -> tuple[ir.Value, ...]:
    """The operands and results of an operation that have to be signless and are unsigned."""
    values = (*op.ins, *op.results) if computes_on_signless(op.name) else ()
    if op.name == _LOOP:
        values = (*op.ins[:_BOUNDS], *(v for region in op.regions for v in region.args[:1]))
    return tuple([v for v in values if signless_type(v.type) is not v.type])


def on_signless(op: ir.Op, fresh: Callable[[str], str]) -> tuple[ir.Op, ...]:
    """The operation on signless integers between casts, itself where it has no unsigned ones.

    >>> u8 = ir.ScalarType(ir.dtype("u8"))
    >>> a, r = ir.Value("a", u8), ir.Value("r", u8)
    >>> [o.name.rpartition(".")[2] for o in on_signless(ir.Op("arith.divui", (a, a), results=(r,)), str)]
    ['unrealized_conversion_cast', 'divui', 'unrealized_conversion_cast']
    """
    unsigned = dict.fromkeys(unsigned_of(op))
    if not unsigned:
        return (op,)
    if op.name == _LOOP:
        return _on_index(op, fresh)
    own = "_".join(v.name for v in op.results)
    seen = {}
    for v in unsigned:
        # Named after the result, so that the values of two operations have two names.
        name = v.name if v in op.results else f"{own}_{v.name}"
        word = f"{'v' if name[:1].isdigit() else ''}{name}_{signless_type(v.type)}"
        seen[v] = ir.Value(fresh(word), signless_type(v.type))
    inner = replace(
        op, ins=tuple(seen.get(v, v) for v in op.ins), results=tuple(seen.get(v, v) for v in op.results)
    )
    before = [ir.Op(CAST, (v,), results=(seen[v],), span=op.span) for v in unsigned if v in op.ins]
    behind = [ir.Op(CAST, (seen[v],), results=(v,), span=op.span) for v in unsigned if v in op.results]
    return (*before, inner, *behind)


def _on_index(loop: ir.Op, fresh: Callable[[str], str]) -> tuple[ir.Op, ...]:
    """A loop over unsigned integers as one over index: signless bounds would be compared with their sign."""
    index, (region,) = ir.ScalarType(ir.INDEX), loop.regions
    counter, before, bounds = region.args[0], list[ir.Op](), list[ir.Value]()
    for v, word in zip(loop.ins[:_BOUNDS], ("lower", "upper", "step"), strict=True):
        bounds.append(ir.Value(fresh(f"{counter.name}_{word}"), index))
        cast = ir.Op("arith.index_castui", (v,), results=(bounds[-1],), span=loop.span)
        before += on_signless(cast, fresh)
    number = ir.Value(fresh(f"{counter.name}_index"), index)
    back = ir.Op("arith.index_cast", (number,), results=(counter,), span=loop.span)
    inner = ir.Region((*on_signless(back, fresh), *region.ops), (number, *region.args[1:]))
    return (*before, replace(loop, ins=(*bounds, *loop.ins[_BOUNDS:]), regions=(inner,)))
