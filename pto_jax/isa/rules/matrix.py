"""Constraints of the matrix instructions: places, layouts, shapes and sizes of their tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...ir.types import BLayout, Loc, MemRefType, SLayout, TileType, Type
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import AttrMap, Breaker, Constraint, Finding, RegionRule, Site, Sizes
from .constraints import HARDWARE, HEADERS, non_empty, size

_PAGE = "pages tmatmul, tgemv and their forms"
_Types = dict[str, Type]
#: Consecutive k that share one block scale.
SCALE_GROUP = 32
#: Largest M, K and N of one hardware multiplication.
LARGEST = 4095


@dataclass(frozen=True)
class Role:
    """What a tile operand of a multiplication has to be."""

    loc: Loc
    blayout: BLayout
    slayout: SLayout
    fractal: int | None = None

    @property
    def order(self) -> str:
        """The element order in the words of messages."""
        inner = f" with {self.slayout.name.lower()} boxes" if self.slayout else ", not boxed"
        return f"{self.blayout.name.lower()}{inner}" + (f" of {self.fractal} bytes" if self.fractal else "")


_ROW, _COL = BLayout.ROW_MAJOR, BLayout.COL_MAJOR
_ACC = Role(Loc.ACC, _COL, SLayout.ROW_MAJOR)
ROLES: Mapping[str, Role] = {
    "dst": _ACC,
    "acc": _ACC,
    "a": Role(Loc.LEFT, _COL, SLayout.ROW_MAJOR),
    "b": Role(Loc.RIGHT, _ROW, SLayout.COL_MAJOR),
    "bias": Role(Loc.BIAS, _ROW, SLayout.NONE_BOX),
    "a_scale": Role(Loc.SCALELEFT, _ROW, SLayout.ROW_MAJOR, 32),
    "b_scale": Role(Loc.SCALERIGHT, _COL, SLayout.COL_MAJOR, 32),
}


def extents(site: Site) -> tuple[int | None, int | None, int | None]:
    """M and K from the left tile's valid sizes, N from the right tile's."""
    m, k = site.valid.get("a", (None, None))
    return m, k, site.valid.get("b", (None, None))[1]


def groups(k: int) -> int:
    """Scales along ``k`` elements."""
    return -(-k // SCALE_GROUP)


def _placed() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        for name, t in site.tiles():
            wanted = ROLES[name].loc
            if t.loc != wanted:
                yield name, f"{name} is a {t.loc.name.lower()} tile; allowed: {wanted.name.lower()}"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["a"]
        types["a"] = replace(t, loc=Loc.MAT) if isinstance(t, TileType) else t
        return True

    places = "a in left, b in right, dst and acc in acc, bias in bias, scales in scaleleft and scaleright"
    return Constraint("location", places, check, source=f"{_PAGE}; {HEADERS}", breaks=breaks)


def _written_order(site: Site) -> Iterator[tuple[str, TileType]]:
    """Tile operands whose type says how they are laid out; a memref does not."""
    for name, t in site.tiles():
        if not isinstance(site.values[name].type, MemRefType):
            yield name, t


def _ordered(left: BLayout | None, profiles: tuple[ProfileName, ...]) -> Constraint:
    """Layouts; ``left`` is the block order of the left tile where it matters."""

    def check(site: Site) -> Iterator[Finding]:
        for name, t in _written_order(site):
            role = ROLES[name]
            free = name == "a" and left is None
            agrees = (free or t.blayout == role.blayout) and t.slayout == role.slayout
            if not agrees or (role.fractal is not None and t.fractal != role.fractal):
                allowed = "boxes row_major" if free else role.order
                found = f"{t.layout} with fractal {t.fractal}" if role.fractal else t.layout
                yield name, f"{name} has layout {found}; allowed on {site.profile.name}: {allowed}"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["dst"]
        if isinstance(t, TileType):
            types["dst"] = replace(t, blayout=_ROW, slayout=SLayout.COL_MAJOR)
        return True

    listed = "b ZN, dst and acc NZ, bias ND, scales ZZ and NN with fractal 32"
    return Constraint(
        "layout",
        f"a {'NZ' if left is not None else 'NZ or ZZ'}, {listed}",
        check,
        profiles,
        source=f"{_PAGE}; {HEADERS}",
        breaks=breaks,
    )


def _left_order() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        for name, t in _written_order(site):
            if name == "a" and t.boxed and t.blayout != site.profile.left_blayout:
                wanted = site.profile.left_blayout.name.lower()
                yield (
                    "a",
                    f"a has blayout {t.blayout.name.lower()}, the left buffer of {site.profile.name} is "
                    f"{wanted}; allowed, the type only names the order a move into it produces",
                )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["a"]
        if isinstance(t, TileType):
            other = _ROW if profile.left_blayout == _COL else _COL
            types["a"] = replace(t, blayout=other)
        return True

    return Constraint(
        "left-layout",
        "a has the order of the left buffer",
        check,
        HARDWARE,
        severity="warning",
        source="pto_tile.hpp (tile aliases); PTOAS (the profile overrides the order written for left)",
        breaks=breaks,
        on_lanes=False,
    )


def _shapes(vector: bool) -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        a, b, dst, acc = (site.tile(n) for n in ("a", "b", "dst", "acc"))
        if a is None or b is None or dst is None:
            return
        if a.cols != b.rows:
            yield "b", f"b has {b.rows} rows, a has {a.cols} columns; allowed: equally many"
        spare = vector and site.profile.name in HARDWARE and dst.rows > a.rows
        if dst.cols != b.cols or (dst.rows != a.rows and not spare):
            wanted = f"{a.rows}x{b.cols}, the rows of a and the columns of b"
            yield "dst", f"dst is {dst.rows}x{dst.cols}; allowed: {wanted}"
        if acc is not None and acc.shape != dst.shape:
            yield "acc", f"acc is {acc.rows}x{acc.cols}, dst is {dst.rows}x{dst.cols}; allowed: one shape"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["dst"]
        types["dst"] = replace(t, cols=2 * t.cols) if isinstance(t, TileType) else t
        return True

    return Constraint(
        "shapes",
        "physical shapes: a M x K, b K x N, dst and acc M x N"
        + (" (on hardware also more rows, which stay)" if vector else ""),
        check,
        source=_PAGE,
        breaks=breaks,
    )


def _regions() -> Constraint:
    """Valid sizes that disagree: nothing is repaired, M, K and N come from a and b alone."""

    def check(site: Site) -> Iterator[Finding]:
        m, k, n = extents(site)
        scales = None if k is None else groups(k)
        wanted = {"b": (k, None), "acc": (m, n), "a_scale": (m, scales), "b_scale": (scales, n)}
        for name, need in wanted.items():
            have = site.valid.get(name, (None, None))
            if any(h is not None and w is not None and h < w for h, w in zip(have, need, strict=True)):
                found = f"{size(have[0])}x{size(have[1])}"
                yield (
                    name,
                    f"{name} has valid region {found} in a multiplication with M, K, N = {size(m)}, "
                    f"{size(k)}, {size(n)}; allowed, lanes outside it have no reliable value",
                )
        v_row, v_col = site.valid.get("dst", (None, None))
        if (None not in (v_row, m) and v_row != m) or (None not in (v_col, n) and v_col != n):
            yield (
                "dst",
                f"dst has valid region {size(v_row)}x{size(v_col)}; allowed, but the product is written "
                f"to its {size(m)}x{size(n)} corner",
            )

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["dst"]
        if not isinstance(t, TileType) or t.v_col in (None, 0):
            return False
        types["dst"] = t.with_valid(t.v_row, (t.v_col or 0) - 1)
        return True

    return Constraint(
        "regions",
        "valid regions: a M x K, b K x N, dst and acc M x N, scales M x K/32 and K/32 x N",
        check,
        severity="warning",
        source=_PAGE,
        breaks=breaks,
    )


def _largest() -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        for name, what, n in zip("aab", "MKN", extents(site), strict=True):
            if n is not None and n > LARGEST:
                yield name, f"{what} is {n}; allowed on {site.profile.name}: 1 to {LARGEST}"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        n = LARGEST + 1
        edits = {"a": (None, n), "b": (n, None), "a_scale": (None, groups(n)), "b_scale": (groups(n), None)}
        for name, (rows, cols) in edits.items():
            t = types.get(name)
            if not isinstance(t, TileType):
                continue
            if t.dtype.bits > 8:
                return False
            t = replace(t, rows=rows or t.rows, cols=cols or t.cols)
            types[name] = t.with_valid(rows or t.v_row, cols or t.v_col)
        return True

    return Constraint(
        "size-limit",
        f"M, K and N at most {LARGEST}",
        check,
        HARDWARE,
        stage="run-time",
        source=f"{_PAGE}; {HEADERS}",
        breaks=breaks,
        region=RegionRule("custom", ("a", "b"), _too_large),
    )


def _too_large(sizes: Sizes, types: Mapping[str, TileType]) -> Any:
    (m, k), (_, n) = sizes["a"], sizes["b"]
    return (m > LARGEST) | (k > LARGEST) | (n > LARGEST)


def common(strict: tuple[ProfileName, ...], *, vector: bool = False) -> tuple[Constraint, ...]:
    """Rules of every multiplication.

    ``strict`` names the profiles that fix the order of the left tile; ``vector``: the left tile is a row.
    """
    lenient = tuple(p for p in PROFILE_NAMES if p not in strict)
    order = (_ordered(None, lenient), _left_order()) if lenient else ()
    filled = replace(non_empty(("a", "b", "dst"), _PAGE), profiles=HARDWARE)
    fixed = (_ordered(_COL, strict),) if strict else ()
    rows = (filled,) if vector else ()
    return (_placed(), *order, *fixed, _shapes(vector), _regions(), _largest(), *rows)


def one_row() -> Constraint:
    """The left tile of a vector-matrix product has one valid row."""

    def check(site: Site) -> Iterator[Finding]:
        m = extents(site)[0]
        if m is not None and m > 1:
            yield "a", f"a has {m} valid rows; allowed: 1"

    def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["a"]
        if not isinstance(t, TileType) or t.rows < 2:
            return False
        types["a"] = t.with_valid(2, t.v_col)
        return True

    return Constraint(
        "one-row",
        "a has one valid row",
        check,
        stage="run-time",
        source="page tgemv",
        breaks=breaks,
        region=RegionRule("custom", ("a",), _several_rows),
    )


def _several_rows(sizes: Sizes, types: Mapping[str, TileType]) -> Any:
    return sizes["a"][0] > 1


def bias_rules() -> tuple[Constraint, Constraint, Constraint]:
    """The bias is one row with a column for each valid column of dst."""

    def rows(site: Site) -> Iterator[Finding]:
        t = site.tile("bias")
        if t is not None and t.rows != 1:
            yield "bias", f"bias has {t.rows} rows; allowed: 1"

    def holds(site: Site) -> Iterator[Finding]:
        t, cols = site.tile("bias"), site.valid.get("dst", (None, None))[1]
        if t is not None and cols is not None and t.cols < cols:
            yield "bias", f"bias has {t.cols} columns; allowed: at least the {cols} valid columns of dst"

    def valid(site: Site) -> Iterator[Finding]:
        t, cols = site.tile("bias"), site.valid.get("dst", (None, None))[1]
        (v_row, v_col) = site.valid.get("bias", (None, None))
        short = cols is not None and v_col is not None and v_col < cols
        if t is not None and cols is not None and t.cols >= cols and (v_row == 0 or short):
            yield (
                "bias",
                f"bias has valid region {size(v_row)}x{size(v_col)} for {cols} valid columns of dst; "
                "allowed, lanes outside it have no reliable value",
            )

    def edit(rows: int = 1, cols: int | None = None, v_col: int | None = None) -> Breaker:
        def breaks(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
            t = types["bias"]
            if not isinstance(t, TileType):
                return False
            types["bias"] = replace(t, rows=rows, cols=cols or t.cols, v_col=v_col or t.v_col)
            return types["bias"] != t

        return breaks

    return (
        Constraint("bias-row", "bias has one row", rows, source=_PAGE, breaks=edit(rows=2)),
        Constraint(
            "bias-columns",
            "bias has a column for each valid column of dst",
            holds,
            source=_PAGE,
            breaks=edit(cols=8, v_col=8),
        ),
        Constraint(
            "bias-region",
            "the valid region of bias covers the valid columns of dst",
            valid,
            severity="warning",
            source=_PAGE,
            breaks=edit(v_col=1),
        ),
    )


def scale_rules() -> tuple[Constraint, Constraint]:
    """Block scales: whole groups of 64 k, and a scale for every group of 32."""

    def multiple(site: Site) -> Iterator[Finding]:
        t = site.tile("a")
        if t is not None and t.cols % (2 * SCALE_GROUP):
            yield "a", f"a has {t.cols} columns; allowed: a multiple of {2 * SCALE_GROUP}"

    def covers(site: Site) -> Iterator[Finding]:
        m, k, n = extents(site)
        scales = None if k is None else groups(k)
        for name, need in (("a_scale", (m, scales)), ("b_scale", (scales, n))):
            t = site.tile(name)
            if t is not None and any(w is not None and h < w for h, w in zip(t.shape, need, strict=True)):
                yield (
                    name,
                    f"{name} is {t.rows}x{t.cols}; allowed: at least {size(need[0])}x{size(need[1])}, one "
                    f"scale per {SCALE_GROUP} elements along K",
                )

    def narrow(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        a, b = types["a"], types["b"]
        if isinstance(a, TileType) and isinstance(b, TileType):
            types["a"] = replace(a, cols=SCALE_GROUP, v_col=SCALE_GROUP)
            types["b"] = replace(b, rows=SCALE_GROUP, v_row=SCALE_GROUP)
        return True

    def drop(types: _Types, attrs: AttrMap, profile: Profile) -> bool:
        t = types["b_scale"]
        types["b_scale"] = replace(t, rows=1, v_row=1) if isinstance(t, TileType) else t
        return True

    return (
        Constraint(
            "k-multiple",
            f"the columns of a are a multiple of {2 * SCALE_GROUP}",
            multiple,
            source=f"page tmatmul-mx; {HEADERS}",
            breaks=narrow,
        ),
        Constraint(
            "scales-cover",
            f"a scale for every row and {SCALE_GROUP} k of a, and for every {SCALE_GROUP} k and column of b",
            covers,
            source=f"page tmatmul-mx; {HEADERS}",
            breaks=drop,
        ),
    )
