"""Constraints on where lanes come from: physical coverage, valid regions, masks and scratch tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...ir.types import TileType, Type
from ...profiles import Profile, ProfileName
from ..declare import AttrMap, Breaker, Constraint, Finding, Site
from .constraints import HARDWARE, OVERVIEW, SIMULATOR, size

_Types = dict[str, Type]
Extent = tuple[int | None, int | None]
#: What a lane outside a source's valid region reads as, per profile option.
OUTSIDE = {
    "ones": "all-one bytes",
    "backing": "whatever bits are stored",
    "poison": "an undefined value",
}


def _beyond(have: int, want: int | None) -> bool:
    return want is not None and have < want


def covers(sources: tuple[str, ...], domain: str) -> tuple[Constraint, Constraint, Constraint]:
    """The three region rules of a source that is read at the lanes of ``domain``.

    A lane beyond the physical tile is an error, a lane beyond the valid region a warning, a larger
    valid region a warning that says it is ignored.
    """
    return (_physical(sources, domain), _reads_outside(sources, domain), _differs(sources, domain))


def _lacks_lanes(site: Site, name: str, domain: str) -> bool:
    t, (want_r, want_c) = site.tile(name), site.valid.get(domain, (None, None))
    return t is not None and (_beyond(t.rows, want_r) or _beyond(t.cols, want_c))


def _physical(sources: tuple[str, ...], domain: str) -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        want_r, want_c = site.valid.get(domain, (None, None))
        for name in sources:
            t = site.tile(name)
            if t is not None and _lacks_lanes(site, name, domain):
                yield (
                    name,
                    f"{name} is {t.rows}x{t.cols} and has no lane for every element of the valid region "
                    f"{size(want_r)}x{size(want_c)} of {domain}; allowed: a tile at least that large "
                    "(no implicit "
                    "broadcasting: expand it with trowexpand or tcolexpand first)",
                )

    return Constraint(
        "no-broadcast",
        f"{', '.join(sources)}: physically at least the valid region of {domain} (no implicit broadcasting)",
        check,
        source=f"{OVERVIEW} (shared constraints)",
        breaks=_halve(sources),
    )


def _halve(names: tuple[str, ...]) -> Breaker:
    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(names[-1])
        if not isinstance(t, TileType) or t.rows < 2:
            return False
        types[names[-1]] = replace(t, rows=1, v_row=1)
        return True

    return breaks


def _reads_outside(sources: tuple[str, ...], domain: str) -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        want = site.valid.get(domain, (None, None))
        for name in sources:
            have = site.valid.get(name, (None, None))
            if _lacks_lanes(site, name, domain):
                continue
            if any(h is not None and _beyond(h, w) for h, w in zip(have, want, strict=True)):
                yield (
                    name,
                    f"the valid region {_text(have)} of {name} does not cover the {_text(want)} of "
                    f"{domain}; lanes "
                    f"outside it read as {OUTSIDE[site.profile.out_of_region]} on {site.profile.name}; "
                    f"allowed, but no value may be relied on",
                )

    return Constraint(
        "region-covers",
        f"valid regions of {', '.join(sources)} that cover the one of {domain}; other lanes have no "
        "reliable value",
        check,
        severity="warning",
        source=f"{OVERVIEW} (valid region model)",
        breaks=_shrink(sources, -1),
    )


def _differs(sources: tuple[str, ...], domain: str) -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        want = site.valid.get(domain, (None, None))
        for name in sources:
            have = site.valid.get(name, (None, None))
            pairs = [(h, w) for h, w in zip(have, want, strict=True) if h is not None and w is not None]
            if any(h > w for h, w in pairs) and not any(h < w for h, w in pairs):
                yield (
                    name,
                    f"the valid region {_text(have)} of {name} is larger than the {_text(want)} of {domain}; "
                    f"allowed, the lanes beyond {domain}'s are not read",
                )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(domain)
        if not isinstance(t, TileType) or t.v_row is None or t.v_row < 2:
            return False
        types[domain] = t.with_valid(t.v_row - 1, t.v_col)
        return True

    return Constraint(
        "region-larger",
        f"valid regions of {', '.join(sources)} no larger than the one of {domain}; further lanes "
        "are not read",
        check,
        severity="warning",
        source=OVERVIEW,
        breaks=breaks,
        on_lanes=False,
    )


def _shrink(names: tuple[str, ...], by: int) -> Breaker:
    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(names[-1])
        if not isinstance(t, TileType) or t.v_row is None or t.v_row + by < 0:
            return False
        types[names[-1]] = t.with_valid(t.v_row + by, t.v_col)
        return True

    return breaks


def _text(extent: Extent) -> str:
    return f"{size(extent[0])}x{size(extent[1])}"


def equal_shape(a: str, b: str, profiles: tuple[ProfileName, ...], source: str) -> Constraint:
    """Two tiles have the same physical rows and columns."""

    def check(site: Site) -> Iterator[Finding]:
        s, t = site.tile(a), site.tile(b)
        if s is not None and t is not None and s.shape != t.shape:
            yield b, f"{b} is {t.rows}x{t.cols}, {a} is {s.rows}x{s.cols}; allowed: equal rows and columns"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(b)
        if not isinstance(t, TileType):
            return False
        types[b] = replace(t, rows=t.rows * 2)
        return True

    return Constraint(
        "shape-equal",
        f"{a} and {b} have equal rows and columns",
        check,
        profiles,
        source=source,
        breaks=breaks,
    )


def mask_holds(mask: str, domain: str, *, stream: bool) -> tuple[Constraint, ...]:
    """A packed mask that is read has a bit for every lane of the domain.

    ``stream``: the simulator reads the bits as one stream over the mask's valid columns, eight per
    element; elsewhere (and without it) each row starts at its own mask row.
    """

    def by_rows(site: Site) -> Iterator[Finding]:
        m, (rows, cols) = site.tile(mask), site.valid.get(domain, (None, None))
        if m is not None and (_beyond(m.rows, rows) or _beyond(m.cols * m.dtype.bits, cols)):
            yield (
                mask,
                f"{mask} is {m.rows}x{m.cols} of {m.dtype}, {m.cols * m.dtype.bits} bits per row; "
                "allowed: a row of at "
                f"least {size(cols)} bits for each of the {size(rows)} valid rows of {domain}",
            )

    def by_stream(site: Site) -> Iterator[Finding]:
        m, (rows, cols) = site.tile(mask), site.valid.get(domain, (None, None))
        per_row = site.valid.get(mask, (None, None))[1]
        if m is None or rows is None or cols is None or per_row is None:
            return
        if m.rows * per_row * 8 < rows * cols:
            yield (
                mask,
                f"{mask} holds {m.rows}x{per_row} groups of 8 bits; allowed: at least {rows}x{cols} "
                "bits, one per "
                f"valid element of {domain}",
            )

    source = "recorded simulator vectors; instruction page (mask encoding)"
    rule, statement = "mask-holds", f"{mask} has a bit for every valid element of {domain}"
    if not stream:
        return (Constraint(rule, statement, by_rows, source=source, breaks=_halve((mask,))),)
    return (
        Constraint(rule, statement, by_rows, HARDWARE, source=source, breaks=_halve((mask,))),
        Constraint(rule, statement, by_stream, SIMULATOR, source=source, breaks=_halve((mask,))),
    )


def mask_receives(
    mask: str, source_name: str, profiles: tuple[ProfileName, ...]
) -> tuple[Constraint, Constraint]:
    """A packed mask that is written has a row for every valid row compared, and room for its bits."""

    def rows(site: Site) -> Iterator[Finding]:
        m, (want, _) = site.tile(mask), site.valid.get(source_name, (None, None))
        if m is not None and _beyond(m.rows, want):
            yield (
                mask,
                f"{mask} has {m.rows} rows; allowed: at least the {size(want)} valid rows of {source_name}",
            )

    def room(site: Site) -> Iterator[Finding]:
        m, (_, cols) = site.tile(mask), site.valid.get(source_name, (None, None))
        words = site.valid.get(mask, (None, None))[1]
        if m is not None and cols is not None and words is not None and words * m.dtype.bits < cols:
            yield (
                mask,
                f"{mask} has {words} valid columns of {m.dtype} for the {cols} bits of a row; the "
                "bits beyond them "
                "are dropped or land outside the valid region",
            )

    def shrink_columns(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        m = types.get(mask)
        if not isinstance(m, TileType):
            return False
        types[mask] = m.with_valid(m.v_row, 1)
        return True

    page = "instruction page (mask encoding)"
    return (
        Constraint(
            "mask-rows",
            f"{mask} has a row for every valid row of {source_name}",
            rows,
            profiles,
            source=page,
            breaks=_halve((mask,)),
        ),
        Constraint(
            "mask-room",
            f"the valid columns of {mask} hold a bit for every valid column of {source_name}",
            room,
            profiles,
            severity="warning",
            source=page,
            breaks=shrink_columns,
        ),
    )


def scratch(
    name: str, needed: Callable[[Site], tuple[int, int] | None], rule_text: str, source: str
) -> Constraint:
    """The scratch tile A2/A3 uses has at least the valid rows and columns ``needed`` computes."""

    def check(site: Site) -> Iterator[Finding]:
        t, want = site.tile(name), needed(site)
        rows, cols = site.valid.get(name, (None, None))
        if t is None or want is None or rows is None or cols is None:
            return
        if rows < want[0] or cols < want[1]:
            yield (
                name,
                f"scratch tile {name} has {rows}x{cols} valid elements; A2/A3 needs {rule_text}: at least "
                f"{want[0]}x{want[1]}",
            )

    return Constraint(
        "tmp-size",
        f"scratch tile {name} holds {rule_text}",
        check,
        ("a2a3",),
        severity="warning",
        source=source,
        breaks=_empty(name),
        on_lanes=False,
    )


def valid_region(name: str) -> Callable[[Site], tuple[int, int] | None]:
    """The valid rows and columns of a tile, None where they are not known."""

    def of(site: Site) -> tuple[int, int] | None:
        rows, cols = site.valid.get(name, (None, None))
        return None if rows is None or cols is None else (rows, cols)

    return of


def _empty(name: str) -> Breaker:
    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types.get(name)
        if not isinstance(t, TileType):
            return False
        types[name] = t.with_valid(0, 0)
        return True

    return breaks
