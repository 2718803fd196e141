"""Constraints that many instructions share: element types, places, layouts and valid regions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from ...ir.dtypes import TILE_DTYPES, DType, dtype, find_dtype
from ...ir.types import (
    BLayout,
    Loc,
    MemRefType,
    PartitionViewType,
    PtrType,
    ScalarType,
    TensorViewType,
    TileType,
    Type,
)
from ...profiles import Profile, ProfileName
from ..declare import AttrMap, Breaker, Constraint, Finding, Operand, RegionRule, Site
from .advice import row_major_instead
from .typesets import Rows, TypeTable

HARDWARE: tuple[ProfileName, ...] = ("a2a3", "a5")
SIMULATOR: tuple[ProfileName, ...] = ("cpu_sim",)
OVERVIEW = "Tile Instruction Set overview"
HEADERS = "pto-isa headers of the backend"

_Types = dict[str, Type]


def element_type(t: Type | None) -> DType | None:
    """The element type of any typed value, None where it has none or it is not known."""
    if isinstance(t, TileType | ScalarType | PtrType | TensorViewType | PartitionViewType | MemRefType):
        return t.dtype
    return None


def with_dtype(t: Type, d: DType) -> Type:
    """The same kind of value with another element type."""
    if isinstance(t, TileType | ScalarType | PtrType | TensorViewType | PartitionViewType | MemRefType):
        return replace(t, dtype=d)
    return t


def same_element(a: DType, b: DType) -> bool:
    """Equal types, or a signless integer of the text (``i32``) standing for an unsigned one."""
    return a == b or (a.is_integer and b.is_integer and a.bits == b.bits and "i1" not in (a.name, b.name))


def bind_vars(site: Site) -> tuple[dict[str, tuple[str, DType]], list[Finding]]:
    """The element type of every type variable, and tile operands that contradict each other."""
    bound: dict[str, tuple[str, DType]] = {}
    clashes: list[Finding] = []
    for operand in site.instruction.operands:
        d = element_type(site.types.get(operand.name))
        if d is None or operand.kind == "scalar" or operand.dtype not in site.instruction.type_vars:
            continue
        first, expected = bound.setdefault(operand.dtype, (operand.name, d))
        if d != expected:
            clashes.append(
                (
                    operand.name,
                    f"{operand.name} has element type {d}, {first} has {expected}; allowed: one element type "
                    "for both (no implicit conversion)",
                )
            )
    return bound, clashes


def _check_same_types(site: Site) -> Iterator[Finding]:
    yield from bind_vars(site)[1]


def _check_type_row(site: Site) -> Iterator[Finding]:
    bound, clashes = bind_vars(site)
    legal = site.instruction.types.get(site.profile.name, ())
    if clashes or not bound:
        return
    found = [bound[v][1].name if v in bound else None for v in site.instruction.type_vars]
    if any(all(f in (None, r) for f, r in zip(found, row, strict=True)) for row in legal):
        return
    where = ", ".join(f"{bound[v][0]}: {bound[v][1]}" for v in site.instruction.type_vars if v in bound)
    yield (
        next(iter(bound.values()))[0],
        f"element types ({where}) are not supported on {site.profile.name}; allowed: "
        f"{describe_rows(site, legal)}",
    )


def describe_rows(site: Site, legal: Rows) -> str:
    """The type rows in words, in the order of the type variables."""
    if not legal:
        return "nothing (the instruction does not exist there)"
    if len(site.instruction.type_vars) == 1:
        return ", ".join(r[0] for r in legal)
    names = "/".join(_representative(site, v) for v in site.instruction.type_vars)
    return f"{names} = " + ", ".join("/".join(r) for r in legal)


def _representative(site: Site, var: str) -> str:
    return next((o.name for o in site.instruction.operands if o.dtype == var and o.kind != "scalar"), var)


def _tile_operands(operands: tuple[Operand, ...]) -> dict[str, list[str]]:
    by_var: dict[str, list[str]] = {}
    for operand in operands:
        if operand.kind != "scalar" and operand.dtype is not None:
            by_var.setdefault(operand.dtype, []).append(operand.name)
    return by_var


def _breaks_same_types(operands: tuple[Operand, ...]) -> Breaker:
    shared = [names for names in _tile_operands(operands).values() if len(names) > 1]

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        for names in shared:
            present = [n for n in names if isinstance(types.get(n), TileType)]
            if len(present) < 2:
                continue
            old = element_type(types[present[-1]])
            types[present[-1]] = with_dtype(
                types[present[-1]], dtype("f16" if old != dtype("f16") else "f32")
            )
            return True
        return False

    return breaks


def _breaks_type_row(operands: tuple[Operand, ...], variables: tuple[str, ...], table: TypeTable) -> Breaker:
    by_var = _tile_operands(operands)

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        legal = table.get(profile.name, ())
        now = [element_type(types.get(by_var[v][0])) for v in variables]
        for i, var in enumerate(variables):
            for d in TILE_DTYPES:
                row = tuple(d.name if j == i else str(x) for j, x in enumerate(now))
                if row in legal or d.packed or not profile.has_dtype(d):
                    continue
                for operand in operands:
                    if operand.dtype == var and operand.name in types:
                        types[operand.name] = with_dtype(types[operand.name], d)
                return True
        return False

    return breaks


def same_types(operands: tuple[Operand, ...]) -> Constraint:
    """Tile operands of one type variable have one element type."""
    return Constraint(
        "types-equal",
        "tile operands of one type variable have one element type",
        _check_same_types,
        source=f"{OVERVIEW}; instruction page",
        breaks=_breaks_same_types(operands),
    )


def type_row(operands: tuple[Operand, ...], variables: tuple[str, ...], table: TypeTable) -> Constraint:
    """The element types are a row of the instruction's type table."""
    return Constraint(
        "types",
        "the element types are a row of the type table of the profile",
        _check_type_row,
        source=f"instruction page; {HEADERS}; recorded simulator vectors",
        breaks=_breaks_type_row(operands, variables, table),
    )


def _scalar_expected(site: Site, operand: Operand) -> tuple[str, DType] | None:
    fixed = find_dtype(operand.dtype) if operand.dtype else None
    if fixed is not None:
        return "the instruction", fixed
    return bind_vars(site)[0].get(operand.dtype or "")


def _check_scalar_types(site: Site) -> Iterator[Finding]:
    for operand in site.instruction.operands:
        d = element_type(site.types.get(operand.name))
        if operand.kind != "scalar" or operand.dtype is None or d is None:
            continue
        expected = _scalar_expected(site, operand)
        if expected is not None and not same_element(d, expected[1]):
            yield (
                operand.name,
                f"scalar {operand.name} has type {d}, {expected[0]} has element type {expected[1]}; "
                f"allowed: a scalar of type {expected[1]} (no implicit conversion)",
            )


def scalar_types(operands: tuple[Operand, ...]) -> Constraint:
    """Scalars have the element type of the tiles they are combined with."""
    names = [o.name for o in operands if o.kind == "scalar" and o.dtype is not None]

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        scalar = next((n for n in names if n in types), None)
        if scalar is None:
            return False
        old = element_type(types[scalar])
        types[scalar] = ScalarType(dtype("f16" if old != dtype("f16") else "f32"))
        return True

    return Constraint(
        "scalar-type",
        "a scalar has the element type of the tiles it is combined with",
        _check_scalar_types,
        source="instruction pages (common constraints)",
        breaks=breaks,
    )


def fixed_type(
    name: str, allowed: tuple[str, ...], profiles: tuple[ProfileName, ...], source: str
) -> Constraint:
    """An operand outside the type table (a mask, a scratch tile) has one of some element types."""

    def check(site: Site) -> Iterator[Finding]:
        d = element_type(site.types.get(name))
        if d is not None and d.name not in allowed:
            yield name, f"{name} has element type {d}; allowed on {site.profile.name}: {', '.join(allowed)}"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        if name not in types:
            return False
        wrong = next(d for d in TILE_DTYPES if d.name not in allowed and d.bits >= 8)
        types[name] = with_dtype(types[name], wrong)
        return True

    statement = f"{name} has element type {' or '.join(allowed)}"
    return Constraint(f"{name}-type", statement, check, profiles, source=source, breaks=breaks)


def same_as(name: str, other: str, profiles: tuple[ProfileName, ...], source: str) -> Constraint:
    """A scratch tile has the element type of another operand."""

    def check(site: Site) -> Iterator[Finding]:
        d, e = element_type(site.types.get(name)), element_type(site.types.get(other))
        if d is not None and e is not None and d != e:
            yield name, f"{name} has element type {d}, {other} has {e}; allowed: one element type for both"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        if name not in types:
            return False
        old = element_type(types[name])
        types[name] = with_dtype(types[name], dtype("f32" if old != dtype("f32") else "f16"))
        return True

    statement = f"{name} has the element type of {other}"
    return Constraint(f"{name}-type", statement, check, profiles, source=source, breaks=breaks)


def in_vec(operands: tuple[Operand, ...], profiles: tuple[ProfileName, ...] = HARDWARE) -> Constraint:
    """Tile operands live in the unified buffer (location vec)."""
    return place(operands, (Loc.VEC,), profiles)


def place(
    operands: tuple[Operand, ...], locs: tuple[Loc, ...], profiles: tuple[ProfileName, ...]
) -> Constraint:
    """Tile operands live in one of some places."""
    words = " or ".join(loc.name.lower() for loc in locs)
    names = [o.name for o in operands if o.kind == "tile"]

    def check(site: Site) -> Iterator[Finding]:
        for name, t in site.tiles():
            if name in names and t.loc not in locs:
                yield name, f"{name} is a {t.loc.name.lower()} tile; allowed on {site.profile.name}: {words}"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        for name in names:
            t = types.get(name)
            if isinstance(t, TileType):
                types[name] = replace(t, loc=next(p for p in (Loc.MAT, Loc.ACC, Loc.LEFT) if p not in locs))
                return True
        return False

    return Constraint(
        "location",
        f"{', '.join(names)} in {words}",
        check,
        profiles,
        source=f"instruction pages; {HEADERS}",
        breaks=breaks,
    )


def row_major(operands: tuple[Operand, ...], profiles: tuple[ProfileName, ...] = HARDWARE) -> Constraint:
    """Tile operands have the block layout row_major; the inner layout is not restricted."""
    names = [o.name for o in operands if o.kind == "tile"]

    def check(site: Site) -> Iterator[Finding]:
        for name, t in site.tiles():
            if name in names and t.blayout != BLayout.ROW_MAJOR:
                yield name, f"{name} has blayout col_major; allowed on {site.profile.name}: row_major"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        for name in names:
            t = types.get(name)
            if isinstance(t, TileType) and not t.boxed and t.rows * t.dtype.storage_bits % 256 == 0:
                types[name] = replace(t, blayout=BLayout.COL_MAJOR)
                return True
        return False

    return Constraint(
        "layout",
        f"{', '.join(names)} have blayout row_major (slayout is free)",
        check,
        profiles,
        source=f"pto.tadd page (target-profile restrictions); {HEADERS}",
        breaks=breaks,
        fix=row_major_instead,
    )


def equal_valid(operands: tuple[str, ...], source: str) -> Constraint:
    """All operands named have the same valid region; checked again on run-time sizes."""
    listed = ", ".join(operands)

    def check(site: Site) -> Iterator[Finding]:
        present = [n for n in operands if n in site.valid]
        for a, b in pairwise(present):
            (ra, ca), (rb, cb) = site.valid[a], site.valid[b]
            differ = (None not in (ra, rb) and ra != rb) or (None not in (ca, cb) and ca != cb)
            if (
                differ
                and _could_cover(site.tile(a), site.valid[b])
                and _could_cover(site.tile(b), site.valid[a])
            ):
                here, there = f"{size(rb)}x{size(cb)}", f"{size(ra)}x{size(ca)}"
                yield b, f"{b} has valid region {here}, {a} has {there}; allowed: equal valid regions"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(operands[-1])
        if not isinstance(t, TileType) or t.v_row in (None, 0, 1):
            return False
        types[operands[-1]] = t.with_valid((t.v_row or 0) - 1, t.v_col)
        return True

    return Constraint(
        "valid-equal",
        f"{listed}: equal valid regions",
        check,
        stage="run-time",
        source=source,
        breaks=breaks,
        region=RegionRule("equal-valid", operands),
    )


def _could_cover(t: TileType | None, region: tuple[int | None, int | None]) -> bool:
    """Whether a tile is physically large enough; where it is not, a rule on shapes reports it."""
    return t is not None and t.rows >= (region[0] or 0) and t.cols >= (region[1] or 0)


def non_empty(operands: tuple[str, ...], source: str) -> Constraint:
    """The operands have at least one valid lane; checked again on run-time sizes."""

    def check(site: Site) -> Iterator[Finding]:
        for name in operands:
            r, c = site.valid.get(name, (None, None))
            if r == 0 or c == 0:
                yield (
                    name,
                    f"{name} has the empty valid region {size(r)}x{size(c)}; allowed: at least one "
                    "row and column",
                )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        for name, t in types.items():
            if isinstance(t, TileType):
                types[name] = t.with_valid(0, t.v_col)
        return True

    return Constraint(
        "non-empty",
        "at least one valid row and column",
        check,
        stage="run-time",
        source=source,
        breaks=breaks,
        region=RegionRule("non-empty", operands),
    )


def no_half(operands: tuple[str, ...], source: str) -> Constraint:
    """The operands have valid lanes, or neither valid rows nor columns; checked again on run-time sizes."""

    def check(site: Site) -> Iterator[Finding]:
        for name in operands:
            r, c = site.valid.get(name, (1, 1))
            if (r == 0) != (c == 0) and None not in (r, c):
                yield name, f"{name} has the valid region {size(r)}x{size(c)}; allowed: 0x0 or no 0"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types[operands[-1]]
        types[operands[-1]] = t.with_valid(t.v_row, 0) if isinstance(t, TileType) else t
        return True

    return Constraint(
        "no-half",
        "valid rows and columns, or neither",
        check,
        stage="run-time",
        source=source,
        breaks=breaks,
        region=RegionRule("no-half", operands),
    )


def size(n: int | None) -> str:
    """A valid size in words: ``?`` when it is only known at run time."""
    return "?" if n is None else str(n)
