"""Rules and sample operands that irregular instructions share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from ...ir.dtypes import DType, dtype
from ...ir.types import BLayout, ScalarType, SLayout, TileType, Type
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import AttrMap, Breaker, Constraint, Finding, Instruction, Operand, Site
from ..samples.operations import Sample
from .advice import row_major_instead
from .constraints import HEADERS, size
from .typesets import Row

_Types = dict[str, Type]
Want = tuple[int | None, int | None]
A5_AND_SIMULATOR: tuple[ProfileName, ...] = ("cpu_sim", "a5")


def plain(
    names: tuple[str, ...], profiles: tuple[ProfileName, ...] = PROFILE_NAMES, source: str = HEADERS
) -> Constraint:
    """Tiles whose storage order is their row-major order; single rows and columns are, either way."""

    def check(site: Site) -> Iterator[Finding]:
        for name in names:
            t = site.tile(name)
            if t is None or (t.layout == "ND" or (not t.boxed and 1 in t.shape)):
                continue
            found = f"{t.blayout.name.lower()} with {t.slayout.name.lower()}"
            yield name, f"{name} is {found}; allowed on {site.profile.name}: row_major with none_box"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        for name in names:
            t = types.get(name)
            if isinstance(t, TileType) and not t.dtype.packed:
                types[name] = replace(t, blayout=BLayout.ROW_MAJOR, slayout=SLayout.ROW_MAJOR)
                return True
        return False

    listed = ", ".join(names)
    return Constraint(
        "layout",
        f"{listed}: row_major with none_box",
        check,
        profiles,
        source=source,
        breaks=breaks,
        fix=row_major_instead,
    )


def single_row(names: tuple[str, ...]) -> Constraint:
    """Tiles of one physical row."""

    def check(site: Site) -> Iterator[Finding]:
        for name in names:
            t = site.tile(name)
            if t is not None and t.rows != 1:
                yield name, f"{name} has {t.rows} rows; allowed: 1"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(names[0])
        if not isinstance(t, TileType):
            return False
        types[names[0]] = replace(t, rows=2, v_row=1)
        return True

    return Constraint("one-row", f"{', '.join(names)}: one row", check, source=HEADERS, breaks=breaks)


def one_of(attribute: str, allowed: tuple[int, ...], source: str) -> Constraint:
    """An integer attribute with few legal values."""
    words = " or ".join(map(str, allowed))

    def check(site: Site) -> Iterator[Finding]:
        value = site.attrs.get(attribute)
        if value is not None and value not in allowed:
            yield None, f"{attribute} is {value}; allowed: {words}"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        attrs[attribute] = max(allowed) + 1
        return True

    return Constraint(f"{attribute}-value", f"{attribute} is {words}", check, source=source, breaks=breaks)


def room(
    name: str,
    needed: Callable[[Site], Want],
    text: str,
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES,
    source: str = HEADERS,
    severity: Literal["error", "warning"] = "error",
    breaks: Breaker | None = None,
) -> Constraint:
    """A tile with at least the physical rows and columns ``needed`` computes (None: not known)."""

    def check(site: Site) -> Iterator[Finding]:
        t, (rows, cols) = site.tile(name), needed(site)
        if t is not None and (t.rows < (rows or 0) or t.cols < (cols or 0)):
            yield (
                name,
                f"{name} is {t.rows}x{t.cols}; allowed: {text}, at least {size(rows)}x{size(cols)}",
            )

    return Constraint(
        f"{name}-room",
        f"{name} holds {text}",
        check,
        profiles,
        severity=severity,
        source=source,
        breaks=breaks or one_block(name),
    )


def one_block(name: str) -> Breaker:
    """Shrinks a tile to a row of 32 bytes."""

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(name)
        if not isinstance(t, TileType):
            return False
        cols = 256 // t.dtype.storage_bits
        types[name] = replace(t, rows=1, cols=cols, v_row=1, v_col=cols)
        return types[name] != t

    return breaks


def scratch_bytes(name: str, needed: Callable[[Site], int | None], text: str) -> Constraint:
    """The scratch tile A2/A3 uses takes at least the bytes ``needed`` computes."""

    def check(site: Site) -> Iterator[Finding]:
        t, want = site.tile(name), needed(site)
        if t is not None and want is not None and t.bytes < want:
            yield name, f"scratch tile {name} takes {t.bytes} bytes; A2/A3 needs {text}: at least {want}"

    return Constraint(
        "tmp-size",
        f"scratch tile {name} holds {text}",
        check,
        ("a2a3",),
        severity="warning",
        source=HEADERS,
        breaks=one_block(name),
        on_lanes=False,
    )


def matches(
    rule: str,
    statement: str,
    check: Callable[[Site], Iterator[Finding]],
    breaks: Breaker,
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES,
    source: str = HEADERS,
) -> Constraint:
    """A rule of one instruction."""
    return Constraint(rule, statement, check, profiles, source=source, breaks=breaks)


def retyped(name: str, wrong: str) -> Breaker:
    """Gives a tile another element type."""

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(name)
        if not isinstance(t, TileType):
            return False
        types[name] = t.with_dtype(dtype(wrong))
        return True

    return breaks


def shrunk(name: str, *, rows: int = 0, cols: int = 0) -> Breaker:
    """Takes rows and columns away from a tile's valid region."""

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(name)
        if not isinstance(t, TileType) or t.v_row is None or t.v_col is None:
            return False
        if t.v_row <= rows or t.v_col <= cols:
            return False
        types[name] = t.with_valid(t.v_row - rows, t.v_col - cols)
        return True

    return breaks


# -- samples -----------------------------------------------------------------------------------------


def row_cols(d: DType, blocks: int = 1) -> int:
    """Columns of a row that takes a number of 32-byte blocks."""
    return blocks * 256 // d.storage_bits


def sample(
    instruction: Instruction,
    form: tuple[str, ...],
    types: Mapping[str, Type],
    attrs: Mapping[str, object] | None = None,
    constants: Mapping[str, tuple[int, ...]] | None = None,
) -> Sample:
    """A sample operation; constant operands get scalar types where none is given."""
    given = dict(types)
    for name in constants or {}:
        declared: Operand = instruction.operand(name)
        given.setdefault(name, ScalarType(dtype(declared.dtype or "i32")))
    return Sample(instruction, given, form, dict(attrs or {}), dict(constants or {}))  # type: ignore[arg-type]


def first_of(rows: tuple[Row, ...], sizes: tuple[int, ...]) -> tuple[Row, ...]:
    """The first row whose leading type has each of some widths."""
    chosen = (next((r for r in rows if dtype(r[0]).bits == bits), None) for bits in sizes)
    return tuple(r for r in chosen if r is not None)
