"""Parts of declarations of pipes: attributes, rules on slots, and scales of quantising pushes."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Unpack

from ...errors import with_article
from ...ir import AccPushEpilogue, AttrValue, Loc, Pipe, PushQuant, TensorViewType, TileType, Type, dtype
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..changes import DIALECT as ISA_DIALECT
from ..declare import (
    Attribute,
    AttrMap,
    Constraint,
    Decision,
    Finding,
    Instruction,
    Operand,
    Phase,
    Site,
)
from ..traits import PLAIN, Traits
from .constraints import HARDWARE, place
from .forbid import Types, assign, edit, forbid, present, where
from .handles import NOT_EXECUTED, CustomParts, Shown, custom
from .require import require
from .typesets import TypeTable

SOURCES = ("PTO ISA page of the instruction", "PTOAS dialect definition and verifier")
PAGE, DIALECT = SOURCES
SPLIT = Attribute(
    "split",
    int,
    0,
    "0 whole tile, 1 row halves, 2 column halves of the two vector cores; 3, 4: halves of an odd number",
)
SPLIT_RULE = require("split", "0 <= split <= 4", source=DIALECT)
#: Attributes of stores from accumulators, in their spellings.
_OF_STORES = "(st_?phase|atomic_?type|sub_?block_?id|clip_?relu_?mode|(is_?)?channel_?split)"


_forbid = partial(forbid, source=DIALECT)
_require = partial(require, source=DIALECT)


@_forbid(
    "pipe-attribute",
    "no attribute of stores from accumulators: a pipe says what is done to them",
    invalid_if=assign(stPhase=1),
)
def no_store_attributes(site: Site) -> Iterator[Finding]:
    """Pipes have none of the attributes of stores from accumulators."""
    for key in site.op.attrs:
        if re.fullmatch(_OF_STORES, key, re.IGNORECASE):
            yield None, f"attribute {key}, which pipes do not have; allowed: acc_push_epilogue"


ID = Attribute("id", int, 0, "which pipe of the function")
ID_RULE = require("id", "id >= 0", source=DIALECT)
DIR_MASK = Attribute("dir_mask", int, None, "1 cube to vector, 2 vector to cube, 3 both")
SLOT_SIZE = Attribute("slot_size", int, None, "bytes of one slot")
SLOT_NUM = Attribute("slot_num", int, None, "slots of the ring")
NOSPLIT = Attribute("nosplit", bool, None, "whether only split 0 is used; absent: follows from the uses")
FLAG_BASE = Attribute("flag_base", int, None, "first flag; absent: assigned with the buffer's peer")
RING = (
    require("dir-mask", "dir_mask in (1, 2, 3)", source=DIALECT),
    require("slot-size", "slot_size >= 1", source=DIALECT),
)
RING_NUMBERS = (
    *RING,
    require("slot-num", "slot_num >= 1", source=DIALECT),
    require("flag-base", "flag_base >= 0", source=DIALECT),
)
RELEASE = Decision(
    "When does a slot become free?",
    "Once the consumer frees it: a program frees exactly once after each pop, in every profile.",
    "page TFREE (a2a3 releases in the pop itself, a5 and the simulator in the free)",
)


#: Profiles that split a tile by its valid region.
HALVES_OF_VALID: tuple[ProfileName, ...] = ("a2a3", "a5")
HALVES = Decision(
    "Where does the half of the second vector core begin?",
    "On a2a3 and a5 behind half of the rows or columns that are valid in the tile of the cube core, and "
    "where it pushes behind as many as are valid in its own tile. The valid sizes of the popped tile do not "
    "move it. "
    "On cpu_sim halves are those of the physical tile.",
    "headers npu/a2a3/TPush.hpp and npu/a5/TPush.hpp (valid sizes), cpu/TPush.hpp (physical sizes); "
    "pto-isa issue 263 (a device reads a narrow second half at the right place, where the header takes the "
    "place from the popped tile's sizes), PTOAS issue 1368",
)


def _other_direction(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["dir_mask"] = 1 if attrs.get("dir_mask") == 3 else 3
    return True


@_forbid("peer-address", "peer_local_addr exactly with dir_mask = 3", invalid_if=_other_direction)
def peer_address(site: Site) -> Iterator[Finding]:
    """The attribute dir_mask is 3 exactly where the operand peer_local_addr is given."""
    both = site.attrs.get("dir_mask") == 3
    if both and "peer_local_addr" not in site.values:
        yield None, "dir_mask is 3 and peer_local_addr is missing; allowed: both addresses with dir_mask 3"
    if not both and "peer_local_addr" in site.values:
        yield "peer_local_addr", "peer_local_addr is given; allowed: only with dir_mask = 3"


local_slots = _require("local-slots", "1 <= local_slot_num <= slot_num")


reserved_place = _require("buffer-location", "location in (vec, mat)")


def _without_base(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["auto"] = False
    attrs.pop("base", None)
    return True


base_given = _require(
    "buffer-base", "base.given", when="not auto", why="placement is not automatic", invalid_if=_without_base
)


def half_given(tile: str) -> Constraint:
    """The operand aiv_subblockid goes with halves of tiles in vec."""

    @_forbid(
        "half-given",
        "aiv_subblockid with split 1 to 4 and a vec tile",
        invalid_if=present("aiv_subblockid", assign(split=0)),
    )
    def rule(site: Site) -> Iterator[Finding]:
        if "aiv_subblockid" not in site.values:
            return
        if site.attrs.get("split") == 0:
            yield "aiv_subblockid", "aiv_subblockid with split = 0; allowed: with split 1 to 4"
        t = site.types.get(tile)
        if not isinstance(t, TileType):
            yield "aiv_subblockid", f"aiv_subblockid with the view {tile}; allowed: with a tile"
        elif t.loc != Loc.VEC:
            yield (
                "aiv_subblockid",
                f"aiv_subblockid with {with_article(t.loc.name.lower())} tile; allowed: vec",
            )

    return rule


@_forbid(
    "valid-dynamic",
    "with valid_row and valid_col the result has v_row=? and v_col=?",
    invalid_if=present("valid_row", edit("result", lambda t: t.with_valid(t.rows, t.cols))),
)
def dynamic_result(site: Site) -> Iterator[Finding]:
    """Run-time valid sizes need a type that leaves both open, and the other way round."""
    t, sizes = site.tile("result"), [n for n in ("valid_row", "valid_col") if n in site.values]
    if len(sizes) == 1:
        yield sizes[0], f"{sizes[0]} is given alone; allowed: both valid sizes or none"
    if sizes and t is not None and t.valid != (None, None):
        yield "result", "valid sizes are given for a type with static ones; allowed: v_row=? and v_col=?"


#: Pipes of the cube core: on a5, flags and barriers of a vector core that name them stop it or are refused by
#: its compiler (assembler issues 168, 374, 482, 1026).
CUBE_PIPES = (Pipe.M, Pipe.MTE1, Pipe.FIX)
#: The pipe that waits for a slot of tiles and frees it, where a popped tile is a window into the ring.
_WINDOWS = {Loc.VEC: Pipe.V, Loc.MAT: Pipe.MTE1}


def are_windows(profile: ProfileName) -> bool:
    """Whether popped tiles are windows into the ring and no copies (pto-isa headers, TPop.hpp)."""
    return profile == "a5"


def popping(
    profile: ProfileName, types: Mapping[str, Type], attrs: Mapping[str, AttrValue]
) -> tuple[Phase, ...]:
    """The step of a pop: MTE2 copies the slot into the tile, or a pipe has waited for a window."""
    name = "tile" if "tile" in types else "result"
    t = types.get(name)
    if not isinstance(t, TileType):
        return ()
    pipe = _WINDOWS.get(t.loc, Pipe.S) if are_windows(profile) else Pipe.MTE2
    return (Phase(pipe, (), (name,)),)


def pipe_instruction(
    name: str,
    summary: str,
    semantics: str,
    operands: tuple[Operand, ...],
    shown: tuple[Shown, ...],
    attributes: tuple[Attribute, ...] = (),
    constraints: tuple[Constraint, ...] = (),
    decisions: tuple[Decision, ...] = (),
    *,
    traits: Traits = PLAIN,
    types: TypeTable | None = None,
    pipe: Pipe = Pipe.S,
    executable: bool = True,
    **parts: Unpack[CustomParts],
) -> Instruction:
    """The declaration of an instruction of the class pipes, which has a syntax of its own.

    ``shown`` are its sample operations; one that is not ``executable`` gets the decision that says so.
    """
    return custom(
        name,
        summary,
        semantics,
        operands,
        shown,
        attributes,
        (*constraints, *((no_store_attributes,) if ID in attributes else ())),
        decisions if executable else (*decisions, NOT_EXECUTED),
        traits,
        sources=SOURCES,
        cls="pipes",
        types=types,
        pipe=pipe,
        executable=executable,
        **parts,
    )


def tile_operand(name: str, role: str = "in", *, optional: bool = False, note: str = "") -> Operand:
    """A tile operand of any element type; ``role`` is "in" or "out"."""
    return Operand(name, "out" if role == "out" else "in", "tile", optional=optional, note=note)


def subblock(name: str) -> Operand:
    """The operand that says which vector core's half of a tile is meant."""
    return Operand(name, "in", "scalar", dtype="i64", optional=True, note="number of the vector core")


def located(name: str, *locs: Loc) -> Constraint:
    """The rule that a tile operand is in one of some places, on every profile."""
    return place((tile_operand(name),), locs, PROFILE_NAMES)


#: Directions of data, as bits of ``dir_mask``.
TO_VECTOR, TO_CUBE = 1, 2
BUFFERS = {TO_VECTOR: "c2v_consumer_buf", TO_CUBE: "v2c_consumer_buf"}
_ONLY_A5 = (
    PushQuant.QS322BF16_PRE_SCALAR,
    PushQuant.QS322BF16_PRE_VEC,
    PushQuant.QF322HIF8_PRE_SCALAR,
    PushQuant.QF322FP8_PRE_SCALAR,
)


def default_slots(dir_mask: object) -> int:
    """How many slots a pipe has that does not say it."""
    return 4 if dir_mask == TO_VECTOR | TO_CUBE else 8


@_forbid(
    "slot-memory",
    "a consumer buffer for each direction of dir_mask, or gm_slot_tensor",
    invalid_if=where(
        lambda types, attrs: attrs.get("dir_mask") == TO_VECTOR and "gm_slot_tensor" not in types,
        assign(dir_mask=TO_CUBE),
    ),
)
def _slot_memory(site: Site) -> Iterator[Finding]:
    """Which operands say where slots lie: local buffers by direction, or slots in global memory alone."""
    mask, operands = site.attrs.get("dir_mask"), site.values
    if not isinstance(mask, int) or mask not in (1, 2, 3):
        return
    expected = [name for bit, name in BUFFERS.items() if mask & bit]
    local = [name for name in BUFFERS.values() if name in operands]
    if "gm_slot_tensor" in operands:
        if "gm_slot_buffer" in operands:
            yield "gm_slot_buffer", "gm_slot_buffer beside gm_slot_tensor; allowed: one of them"
        if local and (mask != TO_VECTOR or local != [BUFFERS[TO_VECTOR]]):
            yield (
                "gm_slot_tensor",
                f"gm_slot_tensor with dir_mask = {mask} and {', '.join(local)}; allowed: alone, or with "
                "dir_mask = 1 and c2v_consumer_buf",
            )
        return
    missing = [name for name in expected if name not in operands]
    if missing:
        fix = "; try: the address of a reserved buffer, or gm_slot_tensor for slots as views"
        yield None, f"dir_mask is {mask} and {', '.join(missing)} is missing; allowed: both given{fix}"


_slots_in_memory = _require(
    "slot-global",
    "gm_slot_buffer.given or gm_slot_tensor.given",
    ("a2a3",),
    why="cores of a2a3 exchange data in global memory",
    severity="warning",
    on_lanes=False,
)


@_forbid(
    "slot-bytes",
    "slot_size is that of gm_slot_tensor, or twice it",
    invalid_if=present("gm_slot_tensor", assign(slot_size=96)),
)
def _slot_tensor(site: Site) -> Iterator[Finding]:
    """A slot has the size of the view that describes it, or twice that where it is split."""
    t, size = site.types.get("gm_slot_tensor"), site.attrs.get("slot_size")
    if not isinstance(t, TensorViewType) or t.dtype is None or not isinstance(size, int):
        return
    extents = [n for n in t.dims if n is not None]
    count = math.prod(extents) * t.dtype.bits // 8
    if len(extents) == len(t.dims) and size not in (count, 2 * count):
        got = f"gm_slot_tensor has {count} bytes, slot_size is {size}"
        yield "gm_slot_tensor", f"{got}; allowed: {count} or {2 * count}"


@_forbid(
    "local-slots",
    "local_slot_num between 1 and slot_num, on a2a3",
    invalid_if=assign(local_slot_num=99),
)
def _local_count(site: Site) -> Iterator[Finding]:
    """The attribute local_slot_num is for tiles on a2a3, and between 1 and slot_num."""
    local = site.attrs.get("local_slot_num")
    if not isinstance(local, int):
        return
    if site.profile.name == "a5":
        yield None, "local_slot_num on a5; allowed: a2a3 only"
    slots = site.attrs.get("slot_num")
    most = slots if isinstance(slots, int) else default_slots(site.attrs.get("dir_mask"))
    if not 0 < local <= most:
        yield None, f"local_slot_num = {local}; allowed: 1 to slot_num ({most})"
    if not any(name in site.values for name in BUFFERS.values()):
        yield None, "local_slot_num without a consumer buffer; allowed: for slots that are tiles"


@_forbid(
    "epilogue",
    "acc_push_epilogue with dir_mask = 1 and nosplit = true, in a conversion of the profile",
    invalid_if=present("acc_push_epilogue", assign(nosplit=False)),
)
def _epilogue_end(site: Site) -> Iterator[Finding]:
    """Accumulators are converted on whole, one-way pipes, in ways that the profile has."""
    epilogue = site.attrs.get("acc_push_epilogue")
    if not isinstance(epilogue, AccPushEpilogue):
        return
    if site.attrs.get("dir_mask") != TO_VECTOR:
        yield None, f"acc_push_epilogue with dir_mask = {site.attrs.get('dir_mask')}; allowed: 1"
    if site.attrs.get("nosplit") is not True:
        yield None, "acc_push_epilogue without nosplit = true; allowed: whole tiles only"
    if epilogue.quant in _ONLY_A5 and site.profile.name == "a2a3":
        yield None, f"quant = {epilogue.quant.name.lower()} on a2a3; allowed: a5 only"


END_RULES = (_slot_memory, _slots_in_memory, _slot_tensor, _local_count, _epilogue_end)


_PAGE = "PTO ISA page of the instruction"
PIPE_NUMBER = Attribute("id", int, None, "pipe whose accumulators are scaled")


def _unknown_result(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs.pop("out_type", None)
    attrs.pop("id", None)
    return True


result_known = require(
    "attribute-given",
    "id.given or out_type.given",
    why="the pipe, or the type of its results",
    source=f"{_PAGE}; {ISA_DIALECT}",
    invalid_if=_unknown_result,
)


_PAYLOADS = {"a2a3": ("i64", "u64"), "a5": ("f16", "bf16", "f32")}


def _bytes_of_pipe(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["id"] = 0
    types["fp"] = TileType(dtype("i8"), 1, 32, loc=Loc.SCALING)
    return True


payload = require(
    "payload",
    "fp.dtype in types",
    HARDWARE,
    when="id.given",
    let={"types": lambda site: _PAYLOADS[site.profile.name]},
    statement="with id the scales are i64 or u64 on a2a3, f16, bf16 or f32 on a5",
    source=ISA_DIALECT,
    invalid_if=_bytes_of_pipe,
)


_RESULTS = ("i8", "u8", "i16", "f16", "bf16")


out_type = require(
    "out-type", f"out_type in ({', '.join(_RESULTS)})", source=_PAGE, invalid_if=assign(out_type="f32")
)
