"""Rules on windows between particular places: element types out of accumulators, layouts in vec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..dtypes import F32
from ..profiles import Profile
from ..types import BLayout, Loc, SLayout, TileType, Type
from .declare import AttrMap, Constraint, Finding, Site

_DIALECT = "PTOAS verifier"


def converted_accumulator() -> Constraint:
    """A2/A3 move accumulators out of place only with a conversion."""

    def check(site: Site) -> Iterator[Finding]:
        dst, src = site.tile("dst"), site.tile("src")
        if dst is None or src is None or src.loc != Loc.ACC or src.dtype != dst.dtype:
            return
        yield (
            "src",
            f"src and dst have element type {src.dtype}; allowed on {site.profile.name} from acc: f32 to f16 "
            "or bf16, or a quantised type",
        )

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        dst, src = types["dst"], types["src"]
        if not isinstance(dst, TileType) or not isinstance(src, TileType) or src.loc != Loc.ACC:
            return False
        types["dst"] = dst.with_dtype(F32)
        return True

    return Constraint(
        "acc-types",
        "an acc tile is converted on the way: f32 to f16 or bf16, or quantised",
        check,
        ("a2a3",),
        source=_DIALECT,
        breaks=breaks,
    )


def unboxed_vec() -> Constraint:
    """A5 takes windows between vec tiles out of row-major tiles without boxes."""

    def check(site: Site) -> Iterator[Finding]:
        tiles = dict(site.tiles())
        if len(tiles) < 2 or any(t.loc != Loc.VEC for t in tiles.values()):
            return
        for name, t in tiles.items():
            if t.layout != "ND":
                yield (
                    name,
                    f"{name} has layout {t.layout}; allowed on {site.profile.name} from vec to vec: ND",
                )

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        src = types["src"]
        if not isinstance(src, TileType) or src.loc != Loc.VEC or src.dtype.storage_bits > 32:
            return False
        types["src"] = replace(src, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)
        return True

    return Constraint(
        "vec-layout",
        "windows of vec tiles in vec tiles are ND",
        check,
        ("a5",),
        source=_DIALECT,
        breaks=breaks,
    )
