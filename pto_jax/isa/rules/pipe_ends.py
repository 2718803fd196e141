"""Rules on one initialisation of a pipe: which slots it names, how many, and what is done to accumulators."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.modes import AccPushEpilogue, PushQuant
from ...ir.types import TensorViewType, Type
from ...profiles import Profile
from ..declare import AttrMap, Constraint, Finding, Site
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


def slot_memory() -> Constraint:
    """Which operands say where slots lie: local buffers by direction, or slots in global memory alone."""

    def check(site: Site) -> Iterator[Finding]:
        mask, given = site.attrs.get("dir_mask"), site.values
        if not isinstance(mask, int) or mask not in (1, 2, 3):
            return
        wanted = [name for bit, name in BUFFERS.items() if mask & bit]
        local = [name for name in BUFFERS.values() if name in given]
        if "gm_slot_tensor" in given:
            if "gm_slot_buffer" in given:
                yield "gm_slot_buffer", "gm_slot_buffer beside gm_slot_tensor; allowed: one of them"
            if not local:
                return
            if mask != TO_VECTOR or local != [BUFFERS[TO_VECTOR]]:
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

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        if attrs.get("dir_mask") != TO_VECTOR or "gm_slot_tensor" in types:
            return False
        attrs["dir_mask"] = TO_CUBE
        return True

    return Constraint(
        "slot-memory",
        "a consumer buffer for each direction of dir_mask, or gm_slot_tensor",
        check,
        source=DIALECT,
        breaks=breaks,
    )


def slots_in_memory() -> Constraint:
    """Cores of a2a3 meet in global memory only."""

    def check(site: Site) -> Iterator[Finding]:
        if "gm_slot_buffer" not in site.values and "gm_slot_tensor" not in site.values:
            yield (
                None,
                "no slots in global memory; allowed, but cores of a2a3 meet there: gm_slot_buffer or "
                "gm_slot_tensor",
            )

    return Constraint(
        "slot-global",
        "slots in global memory",
        check,
        ("a2a3",),
        severity="warning",
        source=DIALECT,
        on_lanes=False,
    )


def slot_tensor() -> Constraint:
    """A slot has the size of the view that describes it, or twice that where it is split."""

    def check(site: Site) -> Iterator[Finding]:
        t, size = site.types.get("gm_slot_tensor"), site.attrs.get("slot_size")
        if not isinstance(t, TensorViewType) or t.dtype is None or not isinstance(size, int):
            return
        elements = 1
        for n in t.dims:
            if n is None:
                return
            elements *= n
        count = elements * t.dtype.bits // 8
        if size not in (count, 2 * count):
            yield (
                "gm_slot_tensor",
                f"gm_slot_tensor has {count} bytes, slot_size is {size}; allowed: {count} or {2 * count}",
            )

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        if "gm_slot_tensor" not in types:
            return False
        attrs["slot_size"] = 96
        return True

    return Constraint(
        "slot-bytes",
        "slot_size is that of gm_slot_tensor, or twice it",
        check,
        source=DIALECT,
        breaks=breaks,
    )


def local_count() -> Constraint:
    """The attribute local_slot_num is for tiles on a2a3, and between 1 and slot_num."""

    def check(site: Site) -> Iterator[Finding]:
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

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs["local_slot_num"] = 99
        return True

    return Constraint(
        "local-slots",
        "local_slot_num between 1 and slot_num, on a2a3",
        check,
        source=DIALECT,
        breaks=breaks,
    )


def epilogue_end() -> Constraint:
    """Accumulators are converted on whole, one-way pipes, in ways that the profile has."""

    def check(site: Site) -> Iterator[Finding]:
        epilogue = site.attrs.get("acc_push_epilogue")
        if not isinstance(epilogue, AccPushEpilogue):
            return
        if site.attrs.get("dir_mask") != TO_VECTOR:
            yield None, f"acc_push_epilogue with dir_mask = {site.attrs.get('dir_mask')}; allowed: 1"
        if site.attrs.get("nosplit") is not True:
            yield None, "acc_push_epilogue without nosplit = true; allowed: whole tiles only"
        if epilogue.quant in _ONLY_A5 and site.profile.name == "a2a3":
            yield None, f"quant = {epilogue.quant.name.lower()} on a2a3; allowed: a5 only"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        if "acc_push_epilogue" not in attrs:
            return False
        attrs["nosplit"] = False
        return True

    return Constraint(
        "epilogue",
        "acc_push_epilogue with dir_mask = 1 and nosplit = true, in a conversion of the profile",
        check,
        source=DIALECT,
        breaks=breaks,
    )


END_RULES = (slot_memory(), slots_in_memory(), slot_tensor(), local_count(), epilogue_end())
