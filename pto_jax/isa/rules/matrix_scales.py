"""Scale tiles of block-scaled products in the form that compilers print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.dtypes import F16
from ...ir.types import BLayout, Loc, TileType, Type
from ..declare import Constraint, Finding, Instruction, Site
from .forbid import forbid, give

_SCALED = {"a_scale": "a", "b_scale": "b"}
#: Elements that share a scale.
BLOCK = 32
#: Where the scales of a product have defined storage.
SCALE_PLACES = (Loc.SCALELEFT, Loc.SCALERIGHT)


def unstored(name: str, t: TileType) -> str:
    """Why a product with a scale tile elsewhere is not executed."""
    return f"{name} is {t}, whose scales have no defined storage; allowed: f8e8m0 in scaleleft or scaleright"


def printed_scales(site: Site) -> tuple[str, ...]:
    """Scale operands that are tiles in scaling as compilers print them.

    They have the shape of the operand they scale, or (since August 2026) that of the scales: one for 32 of
    its elements. Such a tile stands for the scales without saying how they are stored.
    """
    found = []
    for scale, data in _SCALED.items():
        s, d = site.tile(scale), site.tile(data)
        if (
            s is not None
            and d is not None
            and s.loc == Loc.SCALING
            and s.shape in (d.shape, _one_for_32(scale, d))
        ):
            found.append(scale)
    return tuple(found)


def _one_for_32(scale: str, d: TileType) -> tuple[int, int]:
    """The extents of the scales of an operand, along its inner dimension."""
    if scale == "a_scale":
        return d.rows, -(-d.cols // BLOCK)
    return -(-d.rows // BLOCK), d.cols


def _tolerant(rule: Constraint) -> Constraint:
    """The rule for tiles whose storage is known: it says nothing about printed scales."""

    def check(site: Site) -> Iterator[Finding]:
        printed = printed_scales(site)
        for operand, found in rule.check(site):
            if operand not in printed and not (rule.rule == "k-multiple" and printed):
                yield operand, found

    return replace(rule, check=check)


@forbid(
    "scale-form",
    "scales of f8e8m0 in scaleleft and scaleright; a warning for scaling tiles as compilers print them",
    ("cpu_sim", "a5"),
    severity="warning",
    source="PTOAS verifier and programs",
    invalid_if=lambda types, attrs, profile: give("a_scale", _printed(types["a"]))(types, attrs, profile),
)
def _scale_form(site: Site) -> Iterator[Finding]:
    for name in printed_scales(site):
        yield (
            name,
            f"{name} is {site.tile(name)}, the form compilers print: its scales have no defined storage and "
            "the product is not portable; allowed, and executable with f8e8m0 in scaleleft and scaleright",
        )


def _printed(data: Type) -> Type:
    """A tile of scales as compilers print it beside the data."""
    assert isinstance(data, TileType)
    return replace(data, loc=Loc.SCALING, dtype=F16, blayout=BLayout.ROW_MAJOR)


def with_printed_scales(instruction: Instruction) -> Instruction:
    """The declaration that also accepts scale tiles as compilers print them, with a warning."""
    rules = ("location", "layout", "a_scale-type", "b_scale-type", "k-multiple", "scales-cover", "regions")
    made = [_tolerant(c) if c.rule in rules else c for c in instruction.constraints]
    return replace(instruction, constraints=(*made, _scale_form))
