"""Communication between NPUs: remote copies, flags, collectives, asynchronous copies with sessions."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from .. import ir, profiles
from . import changes, sync_config
from .assembly import AS_DECLARED, Assembly
from .declare import (
    Attribute,
    AttrMap,
    Constraint,
    Decision,
    Finding,
    Instruction,
    Operand,
    Phase,
    PhaseRule,
    Site,
)
from .rules.communication import (
    DIALECT,
    MEMBERS,
    PAGE,
    comm,
    engine,
    equal_elements,
    equal_extents,
    gm,
    group_members,
    known_extents,
    second_tile,
    staging,
)
from .rules.constraints import HARDWARE, fixed_type, place
from .rules.forbid import Types, every_tile, forbid, give
from .rules.handles import Shown, handle, handle_operand
from .rules.require import require
from .traits import Effect, Order

GROUP = ir.OpaqueType("group")
_VIEW = ir.PartitionViewType((4, 64), ir.F32)
_FLAGS = ir.PartitionViewType((1, 8), ir.I32)
_STAGING = ir.TileType(ir.F32, 4, 64)
#: Order in which the ranks of a reduction are added.
_ORDER = Decision(
    "In which order are the ranks combined?",
    "The root's own data first, then the other ranks in rising order.",
    "public CPU simulator",
)
_NAMES = Decision(
    "Tile instructions have the names of these collectives. How do texts tell them apart?",
    "The collectives are called comm.tgather and comm.tscatter, as in their C++ name space.",
    "PTO ISA communication pages (name space pto::comm)",
)


_FORM = changes.form(
    "names without comm., operands by position", "pto.comm.NAME(..., buf(..), recv(..), group(..) : ..)"
)


def _piecewise(load: str, store: str, *staging: str, fold: str = "") -> PhaseRule:
    """Pieces are loaded and stored through staging tiles; the next load comes after the last store.

    ``fold`` is the tile that the vector pipe adds them up in.
    """
    steps = [Phase(ir.Pipe.MTE2, (load, *staging), (*staging, *((fold,) if fold else ())))]
    if fold:
        steps.append(Phase(ir.Pipe.V, (*staging, fold), (fold,), 0))
    steps.append(Phase(ir.Pipe.MTE3, (fold,) if fold else staging, (store,), 0))
    steps.append(Phase(ir.Pipe.MTE2, flag=0))
    return lambda profile, types, attrs: tuple(steps)


def _integers(name: str) -> Constraint:
    return fixed_type(name, ("i32",), ("cpu_sim", "a2a3", "a5"), PAGE)


def _in_vec(*names: str) -> Constraint:
    rule = place(tuple(staging(n) for n in names), (ir.Loc.VEC,), HARDWARE)
    return replace(rule, breaks=every_tile(names, lambda t: replace(t, loc=ir.Loc.MAT)))


def _copy(name: str, summary: str, semantics: str, attributes: tuple[Attribute, ...]) -> Instruction:
    operands = (
        gm("dst", "out", "remote" if name == "tput" else "local"),
        gm("src", note="local" if name == "tput" else "remote"),
        staging("staging", optional=True, note="bounds one piece; absent: the compiler's"),
        staging("pong", optional=True, note="second piece in flight"),
    )
    forms = (("src",), ("src", "staging"), ("src", "staging", "pong"))
    types: dict[str, ir.Type] = {"dst": _VIEW, "src": _VIEW, "staging": _STAGING, "pong": _STAGING}
    return comm(
        name,
        summary,
        semantics,
        operands,
        tuple(Shown({n: types[n] for n in ("dst", *f)}, f) for f in forms),
        attributes,
        (
            equal_elements("dst", "src", "staging", "pong"),
            _in_vec("staging", "pong"),
            known_extents("dst", "src", open_windows=True),
            equal_extents,
            second_tile("staging"),
        ),
        forms=forms,
        phases=_piecewise("src", "dst", "staging", "pong"),
        changes=(_FORM,),
    )


def _flag_test(name: str, summary: str, semantics: str, *, result: bool) -> Instruction:
    form = ("signal", "value")
    types: dict[str, ir.Type] = {"signal": _FLAGS, "value": ir.ScalarType(ir.I32)}
    completed = (Operand("completed", "out", "scalar", dtype="i1"),) if result else ()
    if result:
        types["completed"] = ir.ScalarType(ir.I1)
    return comm(
        name,
        summary,
        semantics,
        (gm("signal", note="local flags"), Operand("value", "in", "scalar", dtype="i32"), *completed),
        (Shown(types, form, {"cmp": ir.WaitCmp.EQ}),),
        (Attribute("cmp", ir.WaitCmp, None, "comparison of every flag with the value"),),
        (sync_config.required("cmp"), _integers("signal"), _integers("value"), known_extents("signal")),
        (
            Decision(
                "Comparisons of flags and of tiles are numbered differently. Which numbers hold here?",
                "EQ 0, NE 1, GT 2, GE 3, LT 4, LE 5.",
                "comm_types.hpp (WaitCmp)",
            ),
        ),
        order=None if result else Order("wait", "signal"),
        changes=(_FORM,),
    )


def _collective(
    name: str,
    summary: str,
    semantics: str,
    view: Operand,
    tiles: tuple[str, ...],
    attributes: tuple[Attribute, ...] = (),
    decisions: tuple[Decision, ...] = (),
    given: Mapping[str, ir.AttrValue] | None = None,
) -> Instruction:
    """A collective that its root calls on the views of all ranks."""
    plain = () if view.role == "out" else (view.name,)
    sources = ("group", *plain)
    forms = (sources, (*sources, *tiles), (*sources, *tiles, "pong"))
    types: dict[str, ir.Type] = {
        "group": GROUP,
        view.name: _VIEW,
        **dict.fromkeys((*tiles, "pong"), _STAGING),
    }
    scratch = tuple(staging(t, optional=True) for t in tiles)
    shown = tuple({n: types[n] for n in types if n in f or n == view.name} for f in forms)
    operands = (*plain, *tiles, "members")
    members: dict[str, ir.Type] = {**{n: types[n] for n in (view.name, *tiles)}, "members": _VIEW}
    rules: tuple[Constraint, ...] = (
        handle("group", "group", PAGE),
        equal_elements(view.name, *tiles, "pong", "members"),
        _in_vec(*tiles, "pong"),
        known_extents(view.name, "members"),
        second_tile(tiles[-1]),
        *((second_tile("acc", "recv"),) if "acc" in tiles else ()),
        group_members(view.name, same_type=name == "tbroadcast"),
    )
    return comm(
        name,
        summary,
        semantics,
        (
            replace(handle_operand("group", note="views of all ranks, and the root"), optional=True),
            view,
            *scratch,
            staging("pong", optional=True),
            MEMBERS,
        ),
        (
            *(Shown(t, f, dict(given or {})) for t, f in zip(shown, forms, strict=True)),
            Shown(members, operands, {**(given or {}), "root": 0}, grouped=True),
        ),
        (*attributes, engine(ir.CollectiveEngine), Attribute("root", int, None, "rank that calls it")),
        (*((sync_config.required(*given),) if given else ()), *rules),
        decisions,
        forms=(*forms, operands),
        effects=(
            Effect("read" if view.role == "out" else "write", "remote"),
            Effect("read" if view.role == "out" else "write", "global", "members"),
        ),
        phases=_piecewise(
            "members" if view.role == "out" else view.name,
            view.name if view.role == "out" else "members",
            tiles[-1],
            "pong",
            fold="acc" if "acc" in tiles else "",
        ),
        assembly=Assembly(trailing=1) if view.role == "out" else AS_DECLARED,
        changes=(_FORM,),
    )


INSTRUCTIONS: tuple[Instruction, ...] = (
    _copy(
        "tput",
        "Copy a local view of global memory to a remote one.",
        "dst[i] = src[i], or dst[i] += src[i] with atomicType add, over the whole view.",
        (Attribute("atomicType", ir.AtomicType, ir.AtomicType.ATOMIC_NONE, "store or add"),),
    ),
    _copy("tget", "Copy a remote view of global memory to a local one.", "dst[i] = src[i].", ()),
    comm(
        "tnotify",
        "Change a remote flag.",
        "signal = value, or signal += value as one atomic step.",
        (gm("signal", note="remote flag"), Operand("value", "in", "scalar", dtype="i32")),
        (Shown({"signal": _FLAGS, "value": ir.ScalarType(ir.I32)}, attrs={"op": ir.NotifyOp.ATOMIC_ADD}),),
        (Attribute("op", ir.NotifyOp, None, "set or atomic add", ("notifyOp", "op")),),
        (sync_config.required("op"), _integers("signal"), _integers("value"), known_extents("signal")),
        effects=(Effect("write", "global", "signal"),),
        order=Order("signal", "signal"),
        changes=(_FORM,),
    ),
    _flag_test(
        "twait", "Wait until every flag compares true.", "Returns once signal cmp value.", result=False
    ),
    _flag_test(
        "ttest", "Ask whether every flag compares true.", "completed = signal cmp value.", result=True
    ),
    _collective(
        "comm.tgather",
        "Concatenate the views of all ranks at the root.",
        "dst[a, b, c, r * H + i, j] = view of rank r [a, b, c, i, j], H its extent in the fourth dimension.",
        gm("dst", "out"),
        ("staging",),
        decisions=(_NAMES,),
    ),
    _collective(
        "comm.tscatter",
        "Split the root's view over all ranks.",
        "view of rank r [a, b, c, i, j] = src[a, b, c, r * H + i, j], H its extent in the fourth dimension.",
        gm("src"),
        ("staging",),
        decisions=(_NAMES,),
    ),
    _collective(
        "tbroadcast",
        "Copy the root's view to all ranks.",
        "view of rank r = src for every r.",
        gm("src"),
        ("staging",),
    ),
    _collective(
        "treduce",
        "Combine the views of all ranks at the root.",
        "dst = the elements of all ranks combined by op.",
        gm("dst", "out"),
        ("acc", "recv"),
        (Attribute("op", ir.ReduceOp, None, "sum, maximum or minimum", ("reduceOp", "op")),),
        (_ORDER,),
        {"op": ir.ReduceOp.SUM},
    ),
)


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
                shape = ir.dims_text(dims)
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


_scratch_bytes = require(
    "scratch-size",
    "scratch.bytes >= 8",
    source=DIALECT,
    invalid_if=give("scratch", ir.MemRefType((4,), ir.I8, ir.AddressSpace.VEC)),
)


def _async_copy(name: str, summary: str) -> Instruction:
    form = ("dst", "src", "session")
    operands = (
        gm("dst", note="destination"),
        gm("src"),
        handle_operand("session"),
        handle_operand("event", result=EVENT),
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


ASYNC_INSTRUCTIONS: tuple[Instruction, ...] = (
    _async_copy("tput_async", "Start a copy to remote global memory."),
    _async_copy("tget_async", "Start a copy from remote global memory."),
    comm(
        "build_async_session",
        "Make the session that asynchronous copies use.",
        "The session owns the scratch tile and the workspace.",
        (
            staging("scratch"),
            Operand("workspace", "in", "ptr", note="bytes of global memory"),
            handle_operand("session", result=SESSION),
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
            require("sync-id", "0 <= sync_id <= 7", source=DIALECT),
            require("block-bytes", "block_bytes >= 1", source=DIALECT),
            require("comm-block-offset", "comm_block_offset >= 0", source=DIALECT),
            require("queue-num", "queue_num >= 1", source=DIALECT),
            require("channel-group-idx", "0 <= channel_group_idx <= 4294967295", source=DIALECT),
            handle("session", "async_session", DIALECT),
        ),
        effects=(Effect("scratch", "global", "workspace"),),
    ),
)

INSTRUCTIONS = (*INSTRUCTIONS, *ASYNC_INSTRUCTIONS)
