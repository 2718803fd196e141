"""Rules on the instructions that set the scales of quantising pushes."""

from collections.abc import Iterator

from ...ir import Loc, TileType, dtype
from ...profiles import Profile
from ..changes import DIALECT
from ..declare import Attribute, AttrMap, Finding, Site
from .constraints import HARDWARE
from .forbid import Types, assign, forbid

_PAGE = "PTO ISA page of the instruction"
PIPE_NUMBER = Attribute("id", int, None, "pipe whose accumulators are scaled")


def _unknown_result(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs.pop("out_type", None)
    attrs.pop("id", None)
    return True


@forbid(
    "attribute-given",
    "out_type or id is given",
    source=f"{_PAGE}; {DIALECT}",
    invalid_if=_unknown_result,
)
def result_known(site: Site) -> Iterator[Finding]:
    """Without the number of a pipe nothing says what the results are."""
    if site.attrs.get("out_type") is None and site.attrs.get("id") is None:
        yield None, "out_type and id are missing; allowed: id = N, the pipe, or out_type"


_PAYLOADS = {"a2a3": ("i64", "u64"), "a5": ("f16", "bf16", "f32")}


def _bytes_of_pipe(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["id"] = 0
    types["fp"] = TileType(dtype("i8"), 1, 32, loc=Loc.SCALING)
    return True


@forbid(
    "payload",
    "with id the scales are i64 or u64 on a2a3, f16, bf16 or f32 on a5",
    HARDWARE,
    source=DIALECT,
    invalid_if=_bytes_of_pipe,
)
def payload(site: Site) -> Iterator[Finding]:
    """What the scales of a pipe are: parameter words on a2a3, numbers on a5."""
    t, names = site.tile("fp"), _PAYLOADS[site.profile.name]
    if t is not None and site.attrs.get("id") is not None and t.dtype.name not in names:
        yield "fp", f"fp has element type {t.dtype}; allowed on {site.profile.name}: {', '.join(names)}"


_RESULTS = ("i8", "u8", "i16", "f16", "bf16")


@forbid(
    "out-type", f"out_type is one of {', '.join(_RESULTS)}", source=_PAGE, invalid_if=assign(out_type="f32")
)
def out_type(site: Site) -> Iterator[Finding]:
    """The attribute out_type names an element type of results."""
    found = site.attrs.get("out_type")
    if found is not None and found not in _RESULTS:
        yield None, f"out_type is {found}; allowed: {', '.join(_RESULTS)}"
