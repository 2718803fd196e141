"""Parameter words of quantisation as operands: one for a whole tile, or a row of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...ir.dtypes import dtype
from ...ir.types import Loc, ScalarType, TileType, Type
from ...profiles import Profile
from ..declare import AttrMap, Constraint, Finding, Operand, Site
from .constraints import HARDWARE, HEADERS, element_type, size

_Types = dict[str, Type]
VERIFIER = "PTOAS verifier"
#: Element types that hold a word.
WORDS = ("u64", "i64")

FP = Operand("fp", "in", dtype=None, note="row of 64-bit parameter words, one per column", holds="parameters")
WORD = Operand(
    "preQuantScalar",
    "in",
    "scalar",
    None,
    optional=True,
    note="64-bit parameter word",
    holds="parameters",
)


def word_type() -> Constraint:
    """A parameter word for a whole tile is a 64-bit integer."""

    def check(site: Site) -> Iterator[Finding]:
        d = element_type(site.types.get("preQuantScalar"))
        if d is not None and d.name not in WORDS:
            yield "preQuantScalar", f"preQuantScalar has type {d}; allowed: a 64-bit word, i64 or u64"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        if "preQuantScalar" not in types:
            return False
        types["preQuantScalar"] = ScalarType(dtype("f32"))
        return True

    return Constraint("word-type", "preQuantScalar is i64 or u64", check, source=HEADERS, breaks=breaks)


def parameter_rules(used: Callable[[Site], int | None], what: str) -> tuple[Constraint, ...]:
    """The rules on a row of parameter words; ``used`` says how many of them the operation reads."""
    return (_fp_place(), _fp_type(), _fp_columns(used, what), _fp_region(used, what))


def _fp_place() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        t = site.tile("fp")
        if t is not None and t.loc != Loc.SCALING:
            yield "fp", f"fp is a {t.loc.name.lower()} tile; allowed on {site.profile.name}: scaling"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get("fp")
        if not isinstance(t, TileType):
            return False
        types["fp"] = replace(t, loc=Loc.VEC)
        return True

    return Constraint(
        "fp-place", "fp in scaling", check, HARDWARE, source=f"{HEADERS}; {VERIFIER}", breaks=breaks
    )


def _fp_type() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        d = element_type(site.types.get("fp"))
        if d is not None and d.name not in WORDS:
            yield "fp", f"fp has element type {d}; allowed, but only words of i64 or u64 are executed"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get("fp")
        if not isinstance(t, TileType):
            return False
        types["fp"] = t.with_dtype(dtype("f32"))
        return True

    return Constraint(
        "fp-type",
        "fp holds 64-bit words",
        check,
        severity="warning",
        source=f"{HEADERS}; PTOAS programs give other types",
        breaks=breaks,
        on_lanes=False,
    )


def _fp_columns(used: Callable[[Site], int | None], what: str) -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        t, need = site.tile("fp"), used(site)
        if t is not None and need is not None and t.cols < need:
            yield "fp", f"fp has {t.cols} columns; allowed: at least {need}, {what}"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get("fp")
        if not isinstance(t, TileType):
            return False
        types["fp"] = replace(t, rows=1, cols=4, v_row=1, v_col=4)
        return types["fp"] != t

    return Constraint(
        "fp-columns", f"fp has a column for {what}", check, source=f"page of the instruction; {HEADERS}",
        breaks=breaks,
    )  # fmt: skip


def _fp_region(used: Callable[[Site], int | None], what: str) -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        t, need, (rows, cols) = site.tile("fp"), used(site), site.valid.get("fp", (None, None))
        if t is None or need is None or t.cols < need:
            return
        if rows == 0 or (cols is not None and cols < need):
            yield (
                "fp",
                f"fp has valid region {size(rows)}x{size(cols)}, {need} words are read; allowed, but words "
                "outside it have no reliable value",
            )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get("fp")
        if not isinstance(t, TileType):
            return False
        types["fp"] = t.with_valid(1, 1)
        return True

    return Constraint(
        "fp-region",
        f"the valid region of fp has a word for {what}",
        check,
        severity="warning",
        source="page of the instruction",
        breaks=breaks,
    )
