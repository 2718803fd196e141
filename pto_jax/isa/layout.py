"""Layout and rearrangement: moves between tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..dtypes import dtype
from ..profiles import Profile
from ..types import AccToVecMode, Loc, Pipe, ReluPreMode, StPhase, TileType, Type
from .common import PAGES, REGIONS_MAY_DIFFER, SIMULATOR_VALUES
from .constraints import HEADERS, type_row, with_dtype
from .declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .memory import MOVED
from .regions import covers

_OPERANDS = (
    Operand("dst", "out"),
    Operand("src", "in", dtype=None),
    Operand("fp", "in", dtype=None, optional=True, note="scaling tile of a quantising move"),
    Operand("preQuantScalar", "in", "scalar", None, optional=True, note="accumulator source only"),
)


def _both_vec(site: Site) -> tuple[TileType, TileType] | None:
    dst, src = site.tile("dst"), site.tile("src")
    if dst is None or src is None or (dst.loc, src.loc) != (Loc.VEC, Loc.VEC):
        return None
    return dst, src


def _breaks_types(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
    if ("i4",) in MOVED[profile.name]:
        return False
    for name in ("dst", "src"):
        types[name] = with_dtype(types[name], dtype("i4"))
    return True


def _equal_elements() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        tiles = _both_vec(site)
        if tiles is not None and tiles[0].dtype != tiles[1].dtype:
            yield (
                "src",
                f"src has element type {tiles[1].dtype}, dst has {tiles[0].dtype}; allowed between "
                "vec tiles: one "
                "element type (tcvt converts)",
            )

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        t = types["src"]
        if not isinstance(t, TileType):
            return False
        types["src"] = with_dtype(t, dtype("f16" if t.dtype.name != "f16" else "f32"))
        return True

    return Constraint(
        "types-equal",
        "vec tiles have one element type",
        check,
        ("a2a3", "a5"),
        source=f"{PAGES}; {HEADERS}",
        breaks=breaks,
    )


def _equal_shapes() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        tiles = _both_vec(site)
        if tiles is None or tiles[0].shape == tiles[1].shape:
            return
        (r, c), (s, t) = tiles[0].shape, tiles[1].shape
        rows, cols = site.valid["dst"]
        if s >= (rows or 0) and t >= (cols or 0):
            yield (
                "src",
                f"src is {s}x{t}, dst is {r}x{c}; allowed between vec tiles on a2a3: equal rows and columns",
            )

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        t = types["src"]
        if not isinstance(t, TileType):
            return False
        types["src"] = replace(t, rows=t.rows * 2)
        return True

    return Constraint(
        "shape-equal",
        "vec tiles have equal rows and columns",
        check,
        ("a2a3",),
        source=HEADERS,
        breaks=breaks,
    )


INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction(
        "tmov",
        "layout",
        "Copy the valid region between tiles of any place and layout.",
        "dst(r, c) = src(r, c) through both physical layouts, so that any pair of layouts is a conversion.",
        _OPERANDS,
        MOVED,
        ("T",),
        (
            Attribute(
                "reluPreMode",
                ReluPreMode,
                ReluPreMode.NO_RELU,
                "clamp at zero",
                ("reluPreMode", "relu_pre_mode"),
            ),
            Attribute(
                "accToVecMode",
                AccToVecMode,
                None,
                "which vector core receives an accumulator",
                ("accToVecMode", "acc_to_vec_mode"),
            ),
            Attribute(
                "stPhase", StPhase, StPhase.UNSPECIFIED, "no effect on values", ("stPhase", "st_phase")
            ),
        ),
        (
            replace(type_row(_OPERANDS, ("T",), MOVED), breaks=_breaks_types),
            _equal_elements(),
            _equal_shapes(),
            *covers(("src",), "dst"),
        ),
        (("src",), ("src", "fp"), ("src", "preQuantScalar"), ("src", "fp", "preQuantScalar")),
        "dst",
        Pipe.V,
        decisions=(
            REGIONS_MAY_DIFFER,
            Decision(
                "Which pairs of places can be executed today?",
                "vec to vec; other pairs are read and verified, their values come with matrix instructions.",
                "scope of this version",
            ),
            Decision(
                "Does a move keep NaN bits?",
                "Yes: bits are copied.",
                SIMULATOR_VALUES,
            ),
        ),
        sources=("page tmov", HEADERS, SIMULATOR_VALUES),
    ),
)
