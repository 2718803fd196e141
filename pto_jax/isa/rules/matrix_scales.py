"""Scale tiles of block-scaled products in the form that compilers print."""

from collections.abc import Iterator
from dataclasses import replace

from ...ir import F16, Loc, SLayout, TileType
from ...profiles import Profile
from ..changes import DIALECT
from ..declare import AttrMap, Breaker, Constraint, Finding, Instruction, Site
from .forbid import Types, forbid

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

    They have the shape of the scales, one for 32 elements, or (before August 2026) that of the operand they
    scale. Such a tile stands for the scales without saying how they are stored.
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


def _printing(block: int) -> Breaker:
    """A tile of scales as compilers print it beside the data, one for a number of elements."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        data = types["a"]
        if not isinstance(data, TileType):
            return False
        cols = -(-data.cols // block)
        types["a_scale"] = TileType(
            F16, data.rows, cols, loc=Loc.SCALING, slayout=SLayout.ROW_MAJOR, fractal=BLOCK
        )
        return True

    return breaks


@forbid(
    "scale-form",
    "scales of f8e8m0 in scaleleft and scaleright; a warning for scaling tiles as compilers print them",
    ("cpu_sim", "a5"),
    severity="warning",
    source="PTOAS verifier and programs",
    invalid_if=_printing(BLOCK),
)
def _scale_form(site: Site) -> Iterator[Finding]:
    for name in printed_scales(site):
        yield (
            name,
            f"{name} is {site.tile(name)}, the form compilers print: its scales have no defined storage and "
            "the product is not portable; allowed, and executable with f8e8m0 in scaleleft and scaleright",
        )


@forbid(
    "scale-extents",
    "a scale for 32 elements along K",
    ("cpu_sim", "a5"),
    source=DIALECT,
    invalid_if=_printing(1),
    since="2026-08",
)
def _scale_extents(site: Site) -> Iterator[Finding]:
    for name in printed_scales(site):
        scale, data = site.tile(name), site.tile(_SCALED[name])
        if scale is not None and data is not None and scale.shape != (wanted := _one_for_32(name, data)):
            found = f"{name} is {scale.rows}x{scale.cols}, as large as {_SCALED[name]}"
            yield name, f"{found}; allowed: a scale for 32 elements, {wanted[0]}x{wanted[1]}"


def with_printed_scales(instruction: Instruction) -> Instruction:
    """The declaration that also accepts scale tiles as compilers print them, with a warning."""
    rules = ("location", "layout", "a_scale-type", "b_scale-type", "k-multiple", "scales-cover", "regions")
    made = [_tolerant(c) if c.rule in rules else c for c in instruction.constraints]
    return replace(instruction, constraints=(*made, _scale_form, _scale_extents))
