"""Rules on one initialisation of a pipe: which slots it names, how many, and what is done to accumulators."""

import math
from collections.abc import Iterator
from functools import partial

from ...ir import AccPushEpilogue, PushQuant, TensorViewType
from ..declare import Finding, Site
from .forbid import assign, forbid, present, where
from .pipes import DIALECT

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


_forbid = partial(forbid, source=DIALECT)


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
    mask, given = site.attrs.get("dir_mask"), site.values
    if not isinstance(mask, int) or mask not in (1, 2, 3):
        return
    wanted = [name for bit, name in BUFFERS.items() if mask & bit]
    local = [name for name in BUFFERS.values() if name in given]
    if "gm_slot_tensor" in given:
        if "gm_slot_buffer" in given:
            yield "gm_slot_buffer", "gm_slot_buffer beside gm_slot_tensor; allowed: one of them"
        if local and (mask != TO_VECTOR or local != [BUFFERS[TO_VECTOR]]):
            yield (
                "gm_slot_tensor",
                f"gm_slot_tensor with dir_mask = {mask} and {', '.join(local)}; allowed: alone, or with "
                "dir_mask = 1 and c2v_consumer_buf",
            )
        return
    missing = [name for name in wanted if name not in given]
    if missing:
        fix = "; usual fix: the address of a reserved buffer, or gm_slot_tensor for slots as views"
        yield None, f"dir_mask is {mask} and {', '.join(missing)} is missing; allowed: both given{fix}"


@_forbid("slot-global", "slots in global memory", ("a2a3",), severity="warning", on_lanes=False)
def _slots_in_memory(site: Site) -> Iterator[Finding]:
    """Cores of a2a3 meet in global memory only."""
    if "gm_slot_buffer" not in site.values and "gm_slot_tensor" not in site.values:
        allowed = "allowed, but cores of a2a3 meet there: gm_slot_buffer or gm_slot_tensor"
        yield None, f"no slots in global memory; {allowed}"


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
        found = f"gm_slot_tensor has {count} bytes, slot_size is {size}"
        yield "gm_slot_tensor", f"{found}; allowed: {count} or {2 * count}"


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
