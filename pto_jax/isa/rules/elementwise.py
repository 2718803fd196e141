"""Rules of elementwise instructions: scratch sizes, and what a precision is legal with."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.types import Precision
from ...profiles import Profile
from ..declare import AttrMap, Finding, Site
from .constraints import element_type
from .forbid import Types, forbid
from .typesets import HALVES


def tmp_of_remainder(site: Site) -> tuple[int, int] | None:
    """A2/A3 trem: one row of the destination's row stride and two bits blocks per 64 elements."""
    dst = site.tile("dst")
    return None if dst is None else (1, dst.cols + 2 * -(-dst.cols // 64))


def _other_precision(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    d = element_type(types.get("dst"))
    if d is None or d.name in HALVES:
        return False
    attrs["precision"] = Precision.HIGH_PRECISION if d.is_integer else Precision.DEFAULT
    return True


@forbid(
    "precision-types",
    "bf16 with HIGH_PRECISION only, integers with DEFAULT only",
    ("a5",),
    invalid_if=_other_precision,
)
def precision_types(site: Site) -> Iterator[Finding]:
    """On A5 the power functions take bf16 with HIGH_PRECISION only, integers with DEFAULT only."""
    d, precision = element_type(site.types.get("dst")), site.attrs.get("precision")
    if d is None:
        return
    if d.name == "bf16" and precision != Precision.HIGH_PRECISION:
        yield "dst", "bf16 with precision DEFAULT; allowed on a5: precision HIGH_PRECISION"
    if d.is_integer and precision == Precision.HIGH_PRECISION:
        yield "dst", f"{d} with precision HIGH_PRECISION; allowed on a5: precision DEFAULT"
