"""The pipe that executes an operation, as far as its operands decide it."""

from ..ir import Loc, MemRefType, Op, Pipe, PipeEventType, TileType, Type
from . import find
from .rules.tile_legality import tile_of_memref

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


def loc_of(t: Type) -> Loc | None:
    """The on-chip buffer of a tile or local memref."""
    tile = tile_of_memref(t) if isinstance(t, MemRefType) else t
    return tile.loc if isinstance(tile, TileType) else None


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
    source = next((loc for v in op.ins if (loc := loc_of(v.type)) is not None), None)
    target = next((loc for v in op.destinations if (loc := loc_of(v.type)) is not None), None)
    pipe = instruction.pipe_rule(source, target)
    return instruction.pipe if pipe is None else pipe


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
