"""Scratch tiles: how large a written one is, and where an operation has none or needs one.

The assembler of August 2026 rejects tiles that are too small; texts of earlier versions get a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from ...ir import Precision
from ...profiles import Profile, ProfileName
from ..changes import DIALECT
from ..declare import AttrMap, Breaker, Constraint, Finding, Site
from .constraints import HARDWARE, HEADERS, element_type, size
from .forbid import Types, edit, forbid, one_block, retile

#: Rows and columns, None where nothing is needed or known.
Want = tuple[int, int] | None
_A2A3: tuple[ProfileName, ...] = ("a2a3",)
Severity = Literal["error", "warning"]


def scratch(
    name: str,
    needed: Callable[[Site], Want],
    text: str,
    source: str,
    *,
    severity: Severity = "error",
    profiles: tuple[ProfileName, ...] = _A2A3,
) -> Constraint:
    """The scratch tile has at least the valid rows and columns ``needed`` computes."""

    @forbid(
        "tmp-size",
        f"scratch tile {name} holds {text}",
        profiles,
        severity=severity,
        source=f"{source}; {DIALECT}",
        invalid_if=retile(name, v_row=0, v_col=0),
        on_lanes=False,
        since="2026-08",
    )
    def rule(site: Site) -> Iterator[Finding]:
        t, want = site.tile(name), needed(site)
        rows, cols = site.region(name)
        if t is None or want is None or rows is None or cols is None:
            return
        if rows < want[0] or cols < want[1]:
            found = f"scratch tile {name} has {rows}x{cols} valid elements"
            yield name, f"{found}; allowed on {site.profile.name}: {text}, at least {want[0]}x{want[1]}"

    return rule


def scratch_bytes(
    name: str,
    needed: Callable[[Site], int | None],
    text: str,
    invalid_if: Breaker | None = None,
    profiles: tuple[ProfileName, ...] = _A2A3,
    severity: Severity = "error",
) -> Constraint:
    """The scratch tile takes at least the bytes ``needed`` computes."""

    @forbid(
        "tmp-bytes",
        f"scratch tile {name} holds {text}",
        profiles,
        severity=severity,
        source=f"{HEADERS}; {DIALECT}",
        invalid_if=invalid_if or one_block(name),
        on_lanes=False,
        since="2026-08",
    )
    def rule(site: Site) -> Iterator[Finding]:
        t, want = site.tile(name), needed(site)
        if t is not None and want is not None and t.bytes < want:
            found = f"scratch tile {name} takes {t.bytes} bytes"
            yield name, f"{found}; allowed on {site.profile.name}: {text}, at least {want}"

    return rule


def valid_region(name: str) -> Callable[[Site], Want]:
    """The valid rows and columns of a tile, None where they are not known."""

    def of(site: Site) -> Want:
        rows, cols = site.region(name)
        return None if rows is None or cols is None else (rows, cols)

    return of


def bytes_of(name: str) -> Callable[[Site], int | None]:
    """The bytes of a tile."""

    def of(site: Site) -> int | None:
        t = site.tile(name)
        return None if t is None else t.bytes

    return of


def same_region(other: str, profiles: tuple[ProfileName, ...], needed: Callable[[Site], bool]) -> Constraint:
    """Tmp has the valid region of another operand, as the assembler demands, where ``needed`` says so."""

    @forbid(
        "tmp-region",
        f"tmp has the valid region of {other}",
        profiles,
        source=DIALECT,
        invalid_if=edit("tmp", lambda t: None if not t.v_row else t.with_valid(t.v_row - 1, t.v_col)),
        on_lanes=False,
        since="2026-08",
    )
    def rule(site: Site) -> Iterator[Finding]:
        have, want = site.region("tmp"), site.region(other)
        known = (*have, *want)
        if site.tile("tmp") is None or not needed(site) or None in known or have == want:
            return
        text = ["x".join(map(size, region)) for region in (have, want)]
        yield "tmp", f"tmp has valid region {text[0]}, {other} has {text[1]}; allowed: equal valid regions"

    return rule


def none_for_integers(operand: str) -> Constraint:
    """Integers are computed without scratch, and the assembler takes none for them."""

    @forbid(
        "tmp-integers",
        "no tmp where the element type is an integer",
        HARDWARE,
        source=DIALECT,
        on_lanes=False,
        since="2026-08",
    )
    def rule(site: Site) -> Iterator[Finding]:
        d = element_type(site.types.get(operand))
        if d is not None and d.is_integer and "tmp" in site.values:
            yield "tmp", f"tmp with elements of type {d}; allowed: tmp with floats, integers without"

    return rule


def _high(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["precision"] = Precision.HIGH_PRECISION
    return "tmp" not in types


@forbid(
    "tmp-precision",
    "tmp with HIGH_PRECISION",
    HARDWARE,
    source=DIALECT,
    invalid_if=_high,
    on_lanes=False,
    since="2026-08",
)
def precise_with_tmp(site: Site) -> Iterator[Finding]:
    """The precise form has tmp."""
    if site.attrs.get("precision") == Precision.HIGH_PRECISION and "tmp" not in site.values:
        yield None, "precision HIGH_PRECISION without tmp; allowed: with tmp"
