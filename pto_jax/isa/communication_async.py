"""Asynchronous copies between processors, their sessions and events."""

from collections.abc import Iterator
from dataclasses import replace

from .. import ir, profiles
from .declare import Attribute, AttrMap, Constraint, Finding, Instruction, Operand, Site
from .rules.communication import DIALECT, comm, engine, equal_elements, gm, staging
from .rules.constraints import fixed_type, place, size
from .rules.forbid import Types, forbid, give
from .rules.handles import Shown, handle, handle_operand, number_in
from .traits import Effect

SESSION, EVENT = ir.OpaqueType("async_session"), ir.OpaqueType("async_event")
_FLAT = ir.MemRefType((128,), ir.F32, ir.AddressSpace.GM)
_SCRATCH = ir.TileType(ir.I8, 1, 256)
_WORKSPACE = ir.MemRefType((1024,), ir.I8, ir.AddressSpace.GM)


def _dims(t: ir.Type | None) -> tuple[int | None, ...] | None:
    return t.dims if isinstance(t, ir.MemRefType | ir.TensorViewType | ir.PartitionViewType) else None


def _flat(*names: str) -> Constraint:
    """Asynchronous copies move one run of elements whose number the types say."""

    def breaks(types: Types, attrs: AttrMap, profile: profiles.Profile) -> bool:
        for name in names:
            t = types[name]
            if isinstance(t, ir.MemRefType | ir.TensorViewType | ir.PartitionViewType):
                types[name] = replace(t, dims=(4, 32))
        return True

    @forbid("flat", f"{', '.join(names)} are flat", source=DIALECT, invalid_if=breaks)
    def rule(site: Site) -> Iterator[Finding]:
        for name in names:
            dims = _dims(site.types.get(name))
            if dims is not None and (None in dims or any(d != 1 for d in dims[:-1])):
                shape = "x".join(size(d) for d in dims)
                yield name, f"{name} has shape {shape}; allowed: one dimension of known extent"

    return rule


@forbid(
    "shape-equal",
    "src and dst have one shape",
    source=DIALECT,
    invalid_if=give("src", ir.MemRefType((64,), ir.F32, ir.AddressSpace.GM)),
)
def _equal_shapes(site: Site) -> Iterator[Finding]:
    dst, src = _dims(site.types.get("dst")), _dims(site.types.get("src"))
    if dst is not None and src is not None and dst != src:
        yield "src", f"src has shape {src}, dst has {dst}; allowed: equal shapes"


@forbid(
    "scratch-size",
    "scratch has at least 8 bytes",
    source=DIALECT,
    invalid_if=give("scratch", ir.MemRefType((4,), ir.I8, ir.AddressSpace.VEC)),
)
def _scratch_bytes(site: Site) -> Iterator[Finding]:
    t = site.tile("scratch")
    if t is not None and t.bytes < 8:
        yield "scratch", f"scratch has {t.bytes} bytes; allowed: at least 8"


def _async_copy(name: str, summary: str) -> Instruction:
    form = ("dst", "src", "session")
    operands = (
        gm("dst", note="destination"),
        gm("src"),
        handle_operand("session"),
        handle_operand("event", out=True),
    )
    types: dict[str, ir.Type] = {"dst": _FLAT, "src": _FLAT, "session": SESSION, "event": EVENT}
    return comm(
        name,
        summary,
        "Starts the copy and returns an event; the data is there once the event completed.",
        operands,
        (Shown(types, form),),
        (engine(ir.DmaEngine),),
        (
            equal_elements("dst", "src"),
            _flat("dst", "src"),
            _equal_shapes,
            handle("session", "async_session", DIALECT),
            handle("event", "async_event", DIALECT),
        ),
        effects=(Effect("write", "global", "dst"),),
    )


INSTRUCTIONS: tuple[Instruction, ...] = (
    _async_copy("tput_async", "Start a copy to remote global memory."),
    _async_copy("tget_async", "Start a copy from remote global memory."),
    comm(
        "build_async_session",
        "Make the session that asynchronous copies use.",
        "The session owns the scratch tile and the workspace.",
        (
            staging("scratch"),
            Operand("workspace", "in", "ptr", note="bytes of global memory"),
            handle_operand("session", out=True),
        ),
        (Shown({"scratch": _SCRATCH, "workspace": _WORKSPACE, "session": SESSION}, attrs={"sync_id": 0}),),
        (
            Attribute("sync_id", int, None, "flag of the session"),
            Attribute("block_bytes", int, None, "bytes of one piece"),
            Attribute("comm_block_offset", int, None, "offset of the session's block"),
            Attribute("queue_num", int, None, "queues"),
            Attribute("channel_group_idx", int, None, "channel group"),
        ),
        (
            place((staging("scratch"),), (ir.Loc.VEC,), ("cpu_sim", "a2a3", "a5")),
            _scratch_bytes,
            fixed_type("workspace", (ir.I8.name, ir.U8.name), ("cpu_sim", "a2a3", "a5"), DIALECT),
            number_in("sync_id", lambda n: 0 <= n <= 7, "0 to 7", 8, DIALECT),
            number_in("block_bytes", lambda n: n > 0, "more than 0", 0, DIALECT),
            number_in("comm_block_offset", lambda n: n >= 0, "0 or more", -1, DIALECT),
            number_in("queue_num", lambda n: n > 0, "more than 0", 0, DIALECT),
            number_in("channel_group_idx", lambda n: 0 <= n < 1 << 32, "0 to 2^32 - 1", -1, DIALECT),
            handle("session", "async_session", DIALECT),
        ),
        effects=(Effect("scratch", "global", "workspace"),),
    ),
)
