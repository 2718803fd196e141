"""Scale tiles of block-scaled products in the form that compilers print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.dtypes import F16
from ...ir.types import BLayout, Loc, TileType, Type
from ...profiles import Profile
from ..declare import AttrMap, Constraint, Finding, Instruction, Site

_DIALECT = "PTOAS verifier and programs"
_SCALED = {"a_scale": "a", "b_scale": "b"}
#: Where the scales of a product have defined storage.
SCALE_PLACES = (Loc.SCALELEFT, Loc.SCALERIGHT)


def unstored(name: str, t: TileType) -> str:
    """Why a product with a scale tile elsewhere is not executed."""
    return f"{name} is {t}, whose scales have no defined storage; allowed: f8e8m0 in scaleleft or scaleright"


def printed_scales(site: Site) -> tuple[str, ...]:
    """Scale operands that are tiles in scaling of the shape of the operand they scale.

    Such a tile stands for the scales without saying how they are stored.
    """
    found = []
    for scale, data in _SCALED.items():
        s, d = site.tile(scale), site.tile(data)
        if s is not None and d is not None and s.loc == Loc.SCALING and s.shape == d.shape:
            found.append(scale)
    return tuple(found)


def _tolerant(rule: Constraint) -> Constraint:
    """The rule for tiles whose storage is known: it says nothing about printed scales."""

    def check(site: Site) -> Iterator[Finding]:
        printed = printed_scales(site)
        for operand, found in rule.check(site):
            if operand not in printed and not (rule.rule == "k-multiple" and printed):
                yield operand, found

    return replace(rule, check=check)


def _abstract() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        for name in printed_scales(site):
            t = site.tile(name)
            yield (
                name,
                f"{name} is {t}, the form compilers print: its scales have no defined storage and the "
                "product is not portable; allowed, and executable with f8e8m0 in scaleleft and scaleright",
            )

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        a = types.get("a")
        if not isinstance(a, TileType):
            return False
        types["a_scale"] = replace(a, loc=Loc.SCALING, dtype=F16, blayout=BLayout.ROW_MAJOR)
        return True

    return Constraint(
        "scale-form",
        "scales of f8e8m0 in scaleleft and scaleright; a warning for scaling tiles as compilers print them",
        check,
        ("cpu_sim", "a5"),
        severity="warning",
        source=_DIALECT,
        breaks=breaks,
    )


def with_printed_scales(instruction: Instruction) -> Instruction:
    """The declaration that also accepts scale tiles as compilers print them, with a warning."""
    rules = ("location", "layout", "a_scale-type", "b_scale-type", "k-multiple", "scales-cover", "regions")
    made = [_tolerant(c) if c.rule in rules else c for c in instruction.constraints]
    return replace(instruction, constraints=(*made, _abstract()))
