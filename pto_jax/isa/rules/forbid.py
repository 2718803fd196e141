"""Declaration of a rule: its statement, its check, and the edit that breaks it.

A rule reads as one piece::

    @forbid("fp-place", "fp in scaling", HARDWARE, source=HEADERS, invalid_if=retile("fp", loc=Loc.VEC))
    def fp_place(site: Site) -> Iterator[Finding]:
        t = site.tile("fp")
        if t is not None and t.loc != Loc.SCALING:
            yield "fp", f"fp is a {t.loc.name.lower()} tile; allowed on {site.profile.name}: scaling"

The edits turn a legal sample into one that breaks the rule: tests are generated from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from ...ir import BLayout, Language, TileType, Type, dtype
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import AttrMap, Breaker, Check, Constraint, Fix, RegionRule
from .typesets import element_type, with_dtype

HEADERS = "pto-isa headers of the backend"
#: Operand types of a sample by name, which edits change.
Types = dict[str, Type]


def forbid(
    rule: str,
    statement: str | Callable[[], str],
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES,
    *,
    source: str = HEADERS,
    invalid_if: Breaker | None = None,
    severity: Literal["error", "warning"] = "error",
    region: RegionRule | None = None,
    stage: Literal["static", "run-time"] = "static",
    fix: Fix | None = None,
    on_lanes: bool = True,
    since: Language | None = None,
    until: Language | None = None,
) -> Callable[[Check], Constraint]:
    """Make a constraint of the check it decorates; ``invalid_if`` makes a legal sample break the rule."""

    def constraint(check: Check) -> Constraint:
        return Constraint(
            rule,
            statement,
            check,
            profiles,
            stage,
            severity,
            source,
            invalid_if,
            region,
            fix=fix,
            on_lanes=on_lanes,
            since=since,
            until=until,
        )

    return constraint


def edit(name: str, change: Callable[[TileType], TileType | None]) -> Breaker:
    """The sample has another tile; None and the same tile mean that this sample gives no way."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        old = types.get(name)
        new = change(old) if isinstance(old, TileType) else None
        if new is None or new == old:
            return False
        types[name] = new
        return True

    return breaks


def retile(name: str, **parameters: Any) -> Breaker:
    """The tile has other parameters: rows, a place, a layout."""
    return edit(name, lambda t: replace(t, **parameters))


def give(name: str, t: Type) -> Breaker:
    """The operand, where the sample has it, is of another type."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        if name not in types:
            return False
        types[name] = t
        return True

    return breaks


def retype(name: str, *choices: str) -> Breaker:
    """The operand, where the sample has it, has another element type: the first choice that differs."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        old = element_type(types.get(name))
        new = next((d for d in map(dtype, choices) if d != old), None)
        if name not in types or new is None:
            return False
        types[name] = with_dtype(types[name], new)
        return True

    return breaks


def assign(**values: Any) -> Breaker:
    """Attributes have other values."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        attrs.update(values)
        return True

    return breaks


def where(there: Callable[[Types, AttrMap], bool], breaker: Breaker) -> Breaker:
    """What a breaker does, for samples of which something holds."""
    return lambda types, attrs, profile: there(types, attrs) and breaker(types, attrs, profile)


def present(name: str, breaker: Breaker) -> Breaker:
    """What a breaker does, for samples that have an operand or an attribute of a name."""
    return where(lambda types, attrs: name in types or name in attrs, breaker)


def absent(name: str, breaker: Breaker) -> Breaker:
    """What a breaker does, for samples that have no operand or attribute of a name."""
    return where(lambda types, attrs: name not in types and name not in attrs, breaker)


def together(*breakers: Breaker) -> Breaker:
    """What some breakers do, for samples of which all of them can do it."""
    return lambda types, attrs, profile: all(b(types, attrs, profile) for b in breakers)


def first_tile(names: tuple[str, ...], change: Callable[[TileType], TileType | None]) -> Breaker:
    """The first of some tiles that can be changed is."""
    edits = [edit(name, change) for name in names]
    return lambda types, attrs, profile: any(e(types, attrs, profile) for e in edits)


def every_tile(names: tuple[str, ...], change: Callable[[TileType], TileType | None]) -> Breaker:
    """Every one of some tiles that the sample has is another one."""
    edits = [edit(name, change) for name in names]

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        changed = [e(types, attrs, profile) for e in edits]
        return any(changed)

    return breaks


def shrunk(name: str, *, rows: int = 0, cols: int = 0) -> Breaker:
    """The valid region of the tile has fewer rows and columns, but some.

    >>> from pto_jax.ir import F32
    >>> from pto_jax.profiles import profile
    >>> types = {"dst": TileType(F32, 8, 8)}
    >>> shrunk("dst", rows=1)(types, {}, profile("a5")), types["dst"].valid
    (True, (7, 8))
    >>> shrunk("dst", cols=8)(types, {}, profile("a5")), shrunk("src", rows=1)(types, {}, profile("a5"))
    (False, False)
    """

    def change(t: TileType) -> TileType | None:
        if t.v_row is None or t.v_col is None or t.v_row <= rows or t.v_col <= cols:
            return None
        return t.with_valid(t.v_row - rows, t.v_col - cols)

    return edit(name, change)


def one_block(name: str) -> Breaker:
    """The tile is a row of 32 bytes."""

    def change(t: TileType) -> TileType:
        cols = 256 // t.dtype.storage_bits
        return replace(t, rows=1, cols=cols, v_row=1, v_col=cols)

    return edit(name, change)


def as_columns(t: TileType) -> TileType | None:
    """The tile in col_major order, where its columns are whole blocks of 32 bytes."""
    whole = not t.boxed and t.rows * t.dtype.storage_bits % 256 == 0
    return replace(t, blayout=BLayout.COL_MAJOR) if whole else None
