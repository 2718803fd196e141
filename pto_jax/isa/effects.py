"""The traits of an operation applied to its values, and the pipe that executes it.

>>> from pto_jax.ir import F32, TileType
>>> t = TileType(F32, 16, 16)
>>> a, b = Value("a", t), Value("b", t)
>>> traits_of(Op("tadd", (a, a), (b,))).has("write", "tile")
True
>>> [str(v) for v in written(Op("tabs", (a,), (b,)))]
['%b']
>>> [str(v) for v in aliased(Op("bitcast", (a,), results=(b,))) or ()]
['%b', '%a']
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from ..errors import Diagnostic, VerifyError
from ..ir import (
    F8E8M0,
    AttrValue,
    Function,
    Loc,
    MemRefType,
    Op,
    Pipe,
    PipeEventType,
    Region,
    TileType,
    Type,
    Value,
)
from ..profiles import ProfileName
from . import find, find_micro
from .bind import bind
from .declare import Instruction, Phase
from .rules.tile_legality import tile_of_memref
from .rules.typesets import element_type
from .semantics import Apart
from .traits import UNKNOWN, Effect, Resource, Traits, structural_traits


def traits_of(op: Op) -> Traits:
    """What is declared of an operation, whether it is an instruction or not."""
    return _traits(op.name)


def traits_in(function: Function) -> list[Traits]:
    """What is declared of the operations of a function, of each name once."""
    return [_traits(name) for name in function.names]


@lru_cache(maxsize=4096)
def _traits(name: str) -> Traits:
    structural = structural_traits(name)
    if structural is not None:
        return structural
    operation = find(name) or find_micro(name)
    return operation.traits if operation is not None else UNKNOWN


def operands_of(op: Op) -> Mapping[str, Value]:
    """The values of an instruction by declared operand name; none where they do not fit its declaration."""
    instruction = find(op.name)
    try:
        if instruction is None:
            below = find_micro(op.name)
            return {} if below is None else below.values(op)
        return bind(instruction, op).values
    except VerifyError:
        return {}


def accesses(op: Op, values: Mapping[str, Value] | None = None) -> Iterator[tuple[Effect, Value]]:
    """The effects on what operands name, with the operands' values: sources first.

    ``values`` are the operands by declared name, where they are known already.
    """
    by_operand = traits_of(op).by_operand
    if by_operand:
        for name, value in (operands_of(op) if values is None else values).items():
            if name in by_operand:
                named = (op.group(name) if op.groups else ()) or (value,)
                yield from ((e, v) for e in by_operand[name] for v in named)


def written(op: Op, *resources: Resource, values: Mapping[str, Value] | None = None) -> Iterator[Value]:
    """The values whose memory an operation writes: any, or that of some resources; ``values`` as above."""
    if traits_of(op).has("write", *resources):
        for effect, value in accesses(op, values):
            if effect.access == "write" and (not resources or effect.resource in resources):
                yield value


def aliased(op: Op) -> tuple[Value, Value] | None:
    """The handle, view or pointer that an operation makes, and the one over whose memory it is."""
    alias = traits_of(op).alias
    if alias is None:
        return None
    result, source = next(iter(op.destinations), None), _source(op, alias.source)
    return None if result is None or source is None else (result, source)


def placed(op: Op) -> tuple[Value, Value | None] | None:
    """The handle that an operation places, and the address it gives it, if any."""
    placement = traits_of(op).placement
    if placement is None:
        return None
    handle = next(iter(op.results), None) or _source(op, placement.handle)
    return None if handle is None else (handle, _source(op, placement.address))


def kept_apart(
    instruction: Instruction, form: tuple[str, ...], types: Mapping[str, Type], profile: ProfileName
) -> Iterator[tuple[str, str, Apart]]:
    """The operands of an operation that share no bytes on a profile, two by two, and who says so.

    ``types`` are those of its operands, ``form`` its source operands.
    """
    for operand, other, apart in instruction.apart_on(profile):
        d = element_type(types.get(operand))
        if d is not None and other in types and apart.holds(form, d.name):
            yield operand, other, apart


def _source(op: Op, name: str | None) -> Value | None:
    """A source operand, which has one position in all forms of as many operands."""
    if name is None:
        return None
    if op.groups:
        return next(iter(op.group(name)), None)
    at = _position(op.name, name, len(op.ins))
    return None if at is None else op.ins[at]


@lru_cache(maxsize=4096)
def _position(instruction: str, operand: str, count: int) -> int | None:
    """The position of a source operand among so many."""
    declared = find(instruction)
    forms = declared.forms if declared is not None else ()
    return next((f.index(operand) for f in forms if len(f) == count and operand in f), None)


# -- regions ---------------------------------------------------------------------------------------------


def entered(op: Op) -> Iterator[tuple[Value, Value]]:
    """Arguments of a loop's regions, with the operands that the first trip gives them."""
    regions = traits_of(op).regions
    if regions is not None and regions.repeats and op.regions:
        if regions.runs == "for":
            yield from _pairs(op.regions[0].args[1:], op.group("inits"))
        else:
            yield from _pairs(op.regions[0].args, op.ins)


def flows(op: Op) -> Iterator[tuple[Value, Value]]:
    """Results of an operation and arguments of its regions, with each value that regions hand them."""
    regions = traits_of(op).regions
    yield from entered(op)
    match regions.runs if regions is not None else None:
        case "for" if op.regions:
            ends = handed_on(op.regions[0])
            yield from _pairs(op.results, op.group("inits"), ends)
            yield from _pairs(op.regions[0].args[1:], ends)
        case "while" if len(op.regions) == 2:
            before, after = op.regions
            passed = handed_on(before)
            yield from _pairs(before.args, handed_on(after))
            yield from _pairs(after.args, passed)
            yield from _pairs(op.results, passed)
        case "graph":
            yield from _branched(op)
        case _:
            for region in op.regions:
                yield from _pairs(op.results, handed_on(region))


def _branched(op: Op) -> Iterator[tuple[Value, Value]]:
    """Arguments of blocks with each value that a branch hands them."""
    labels = op.attrs.get("labels")
    blocks = dict(zip(labels if isinstance(labels, tuple) else (), op.regions, strict=False))
    for branch in (region.ops[-1] for region in op.regions if region.ops):
        targets = branch.attrs.get("targets")
        for i, label in enumerate(targets if isinstance(targets, tuple) else ()):
            if label in blocks:
                yield from _pairs(blocks[label].args, branch.group(f"to{i}"))


def handed_on(region: Region) -> tuple[Value, ...]:
    """The values that a region hands on where it ends; of several blocks, the last one."""
    last = region.ops[-1] if region.ops else None
    regions = traits_of(last).regions if last is not None else None
    if last is not None and regions is not None and regions.runs == "graph":
        return handed_on(last.regions[-1])
    traits = traits_of(last) if last is not None else None
    if last is None or traits is None or not traits.terminator:
        return ()
    return last.ins[1:] if traits.decides else last.ins


def _pairs(targets: Sequence[Value], *sources: Sequence[Value]) -> Iterator[tuple[Value, Value]]:
    for values in sources:
        yield from zip(targets, values, strict=False)


#: Pipes of the classes that high-level events name.
EVENT_PIPES: dict[PipeEventType, Pipe] = {
    PipeEventType.TLOAD: Pipe.MTE2,
    PipeEventType.TSTORE_ACC: Pipe.FIX,
    PipeEventType.TSTORE_VEC: Pipe.MTE3,
    PipeEventType.TMOV_M2L: Pipe.MTE1,
    PipeEventType.TMOV_M2S: Pipe.FIX,
    PipeEventType.TMOV_M2B: Pipe.MTE1,
    PipeEventType.TMOV_M2V: Pipe.V,
    PipeEventType.TMOV_V2M: Pipe.FIX,
    PipeEventType.TMATMUL: Pipe.M,
    PipeEventType.TVEC: Pipe.V,
    PipeEventType.TVECWAIT_EVENT: Pipe.V,
}


def starved(op: Op, core: str, number: object) -> Diagnostic:
    """The error of a wait for a token that nothing has set: which pipe waits where, and for what.

    >>> from pto_jax.ir import attrs
    >>> starved(Op("wait_flag", attributes=attrs(src=Pipe.MTE2, dst=Pipe.V)), "", 3).message[:47]
    'waits for a token that nothing sets before: PIP'
    """
    source, target = (pipe.name if pipe is not None else "?" for pipe in ends_of(op))
    of = f" of core {core}" if core else ""
    message = (
        f"waits for a token that nothing sets before: PIPE_{target}{of} waits for flag[PIPE_{source}, "
        f"PIPE_{target}, {number}] with 0 tokens, wants 1; allowed: a signal of the same pipes and number "
        "before every wait for it"
    )
    return op.error("token", message)


def loc_of(t: Type) -> Loc | None:
    """The on-chip buffer of a tile or local memref."""
    tile = tile_of_memref(t) if isinstance(t, MemRefType) else t
    return tile.loc if isinstance(tile, TileType) else None


def _memory_of(t: Type) -> Loc | None:
    """The buffer of a tile; the assembler spells that of block scales of a factor as that of parameters."""
    loc = loc_of(t)
    return Loc.SCALELEFT if loc == Loc.SCALING and isinstance(t, TileType) and t.dtype == F8E8M0 else loc


def pipe_of(op: Op) -> Pipe:
    """The pipe an operation runs on, as its declaration says for the places of its tiles.

    >>> from pto_jax.ir import F32, Value
    >>> vec, acc = (Value("t", TileType(F32, 16, 16, loc=loc)) for loc in (Loc.VEC, Loc.ACC))
    >>> [pipe_of(Op("tmov", (t,), (vec,))).name for t in (vec, acc)]
    ['V', 'FIX']
    """
    instruction = find(op.name)
    if instruction is None:
        return Pipe.S
    if instruction.pipe_rule is None:
        return instruction.pipe
    source = next((loc for v in op.ins if (loc := _memory_of(v.type)) is not None), None)
    target = next((loc for v in op.destinations if (loc := _memory_of(v.type)) is not None), None)
    pipe = instruction.pipe_rule(source, target)
    return instruction.pipe if pipe is None else pipe


def phases_of(
    op: Op, values: Mapping[str, Value], attrs: Mapping[str, AttrValue], profile: ProfileName
) -> tuple[Phase, ...]:
    """The steps of an operation on its pipes, one after the other; ``values`` are its operands by name.

    An operation without phases of its own is one step that has all of its effects.

    >>> from pto_jax.ir import I32, ScalarType, TileType, Value
    >>> dst, start = Value("d", TileType(I32, 1, 64)), Value("s", ScalarType(I32))
    >>> [phase.pipe.name for phase in phases_of(Op("tci", (start,), (dst,)), {"dst": dst}, {}, "a5")]
    ['S']
    """
    instruction = find(op.name)
    if instruction is None:
        return ()
    if instruction.phases is not None:
        steps = instruction.phases(profile, {name: value.type for name, value in values.items()}, attrs)
        if steps:
            return steps
    kept = [e for e in instruction.traits.effects if e.operand is not None]
    reads, writes = (
        tuple(dict.fromkeys(e.operand for e in kept if (e.access == "read") == read and e.operand))
        for read in (True, False)
    )
    return (Phase(pipe_of(op), reads, writes),)


def pipe_named(kind: object) -> Pipe | None:
    """The pipe that an attribute names itself or by a class of operations."""
    if isinstance(kind, Pipe):
        return kind
    return EVENT_PIPES[kind] if isinstance(kind, PipeEventType) else None


def ends_of(op: Op) -> tuple[Pipe | None, Pipe | None]:
    """The pipes that a flag or an event connects: the one that sets it, and the one that waits.

    >>> from pto_jax.ir import attrs
    >>> ends_of(Op("wait_flag", attributes=attrs(src=Pipe.MTE2, dst=Pipe.V)))[1].name
    'V'
    """
    if "src_op" in op.attrs:
        return pipe_named(op.attrs.get("src_op")), pipe_named(op.attrs.get("dst_op"))
    return pipe_named(op.attrs.get("src")), pipe_named(op.attrs.get("dst"))
