"""Rules on the instructions that set the scales of quantising pushes."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.dtypes import dtype
from ...ir.types import Loc, TileType, Type
from ...profiles import Profile
from ..changes import DIALECT
from ..declare import Attribute, AttrMap, Constraint, Finding, Site
from .constraints import HARDWARE

_PAGE = "PTO ISA page of the instruction"
PIPE_NUMBER = Attribute("id", int, None, "pipe whose accumulators are scaled")


def result_known() -> Constraint:
    """Without the number of a pipe nothing says what the results are."""

    def check(site: Site) -> Iterator[Finding]:
        if site.attrs.get("out_type") is None and site.attrs.get("id") is None:
            yield None, "out_type and id are missing; allowed: id = N, the pipe, or out_type"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs.pop("out_type", None)
        attrs.pop("id", None)
        return True

    return Constraint(
        "attribute-given", "out_type or id is given", check, source=f"{_PAGE}; {DIALECT}", breaks=breaks
    )


def payload() -> Constraint:
    """What the scales of a pipe are: parameter words on a2a3, numbers on a5."""
    allowed = {"a2a3": ("i64", "u64"), "a5": ("f16", "bf16", "f32")}

    def check(site: Site) -> Iterator[Finding]:
        t, names = site.tile("fp"), allowed[site.profile.name]
        if t is not None and site.attrs.get("id") is not None and t.dtype.name not in names:
            yield "fp", f"fp has element type {t.dtype}; allowed on {site.profile.name}: {', '.join(names)}"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs["id"] = 0
        types["fp"] = TileType(dtype("i8"), 1, 32, loc=Loc.SCALING)
        return True

    return Constraint(
        "payload",
        "with id the scales are i64 or u64 on a2a3, f16, bf16 or f32 on a5",
        check,
        HARDWARE,
        source=DIALECT,
        breaks=breaks,
    )


def out_type() -> Constraint:
    """The attribute out_type names an element type of results."""
    allowed = ("i8", "u8", "i16", "f16", "bf16")

    def check(site: Site) -> Iterator[Finding]:
        found = site.attrs.get("out_type")
        if found is not None and found not in allowed:
            yield None, f"out_type is {found}; allowed: {', '.join(allowed)}"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs["out_type"] = "f32"
        return True

    return Constraint(
        "out-type", f"out_type is one of {', '.join(allowed)}", check, source=_PAGE, breaks=breaks
    )
