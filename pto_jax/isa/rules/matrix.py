"""Constraints of the matrix instructions: places, layouts, shapes and sizes of their tiles."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import with_article
from ...ir import BLayout, Loc, MemRefType, SLayout, TileType
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import AttrMap, Constraint, Finding, RegionRule, Site, Sizes
from .constraints import HARDWARE, HEADERS, size
from .forbid import Types, edit, forbid, retile
from .require import require

_PAGE = "pages tmatmul, tgemv and their forms"
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
    m, k = site.region("a")
    return m, k, site.region("b")[1]


def groups(k: int) -> int:
    """Scales along ``k`` elements."""
    return -(-k // SCALE_GROUP)


_EVERY_PAGE = f"{_PAGE}; {HEADERS}"


@forbid(
    "location",
    "a in left, b in right, dst and acc in acc, bias in bias, scales in scaleleft and scaleright",
    source=_EVERY_PAGE,
    invalid_if=retile("a", loc=Loc.MAT),
)
def _placed(site: Site) -> Iterator[Finding]:
    for name, t in site.tiles():
        expected = ROLES[name].loc
        if t.loc != expected:
            yield name, f"{name} is {with_article(t.loc.name.lower())} tile; allowed: {expected.name.lower()}"


def _written_order(site: Site) -> Iterator[tuple[str, TileType]]:
    """Tile operands whose type says how they are laid out; a memref does not."""
    for name, t in site.tiles():
        if not isinstance(site.values[name].type, MemRefType):
            yield name, t


def _ordered(left: BLayout | None, profiles: tuple[ProfileName, ...]) -> Constraint:
    """Layouts; ``left`` is the block order of the left tile where it matters."""
    any_left = "NZ" if left is not None else "NZ or ZZ"

    @forbid(
        "layout",
        f"a {any_left}, b ZN, dst and acc NZ, bias ND, scales ZZ and NN with fractal 32",
        profiles,
        source=_EVERY_PAGE,
        invalid_if=retile("dst", blayout=_ROW, slayout=SLayout.COL_MAJOR),
    )
    def rule(site: Site) -> Iterator[Finding]:
        for name, t in _written_order(site):
            role = ROLES[name]
            free = name == "a" and left is None
            agrees = (free or t.blayout == role.blayout) and t.slayout == role.slayout
            if not agrees or (role.fractal is not None and t.fractal != role.fractal):
                allowed = "boxes row_major" if free else role.order
                layout = f"{t.layout} with fractal {t.fractal}" if role.fractal else t.layout
                yield name, f"{name} has layout {layout}; allowed on {site.profile.name}: {allowed}"

    return rule


def _other_order(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    return retile("a", blayout=_ROW if profile.left_blayout == _COL else _COL)(types, attrs, profile)


@forbid(
    "left-layout",
    "a has the order of the left buffer",
    HARDWARE,
    severity="warning",
    source="pto_tile.hpp (tile aliases); PTOAS (the profile overrides the order written for left)",
    invalid_if=_other_order,
    on_lanes=False,
)
def _left_order(site: Site) -> Iterator[Finding]:
    for name, t in _written_order(site):
        if name == "a" and t.boxed and t.blayout != site.profile.left_blayout:
            expected = site.profile.left_blayout.name.lower()
            yield (
                "a",
                f"a has blayout {t.blayout.name.lower()}, the left buffer of {site.profile.name} is "
                f"{expected}; allowed, the type only names the order a move into it produces",
            )


def _shapes(vector: bool) -> Constraint:
    spare = " (on hardware also more rows, which stay)" if vector else ""

    @forbid(
        "shapes",
        f"a M x K, b K x N, dst and acc M x N{spare}, physically or as far as they are valid",
        source=_PAGE,
        invalid_if=edit("dst", lambda t: replace(t, cols=2 * t.cols, v_col=t.cols - 1)),
    )
    def rule(site: Site) -> Iterator[Finding]:
        a, b, dst, acc = (site.tile(n) for n in ("a", "b", "dst", "acc"))
        if a is None or b is None or dst is None:
            return
        (m, k), (inner, n), (rows, cols) = (site.valid.get(x, (None, None)) for x in ("a", "b", "dst"))
        if a.cols != b.rows and (k is None or k != inner):
            yield "b", f"b has {b.rows} rows, a has {a.cols} columns; allowed: equally many"
        higher = vector and site.profile.name in HARDWARE and dst.rows > a.rows
        wide = dst.cols != b.cols and (n is None or n != cols)
        if wide or (dst.rows != a.rows and not higher and (m is None or m != rows)):
            expected = f"{a.rows}x{b.cols}, the rows of a and the columns of b"
            yield "dst", f"dst is {dst.rows}x{dst.cols}; allowed: {expected}"
        if acc is not None and acc.shape != dst.shape:
            yield "acc", f"acc is {acc.rows}x{acc.cols}, dst is {dst.rows}x{dst.cols}; allowed: one shape"

    return rule


@forbid(
    "regions",
    "valid regions: a M x K, b K x N, dst and acc M x N, scales M x K/32 and K/32 x N",
    severity="warning",
    source=_PAGE,
    invalid_if=edit("dst", lambda t: t.with_valid(t.v_row, t.v_col - 1) if t.v_col else None),
)
def _regions(site: Site) -> Iterator[Finding]:
    """Valid sizes that disagree: nothing is repaired, M, K and N come from a and b alone."""
    m, k, n = extents(site)
    scales = None if k is None else groups(k)
    expected = {"b": (k, None), "acc": (m, n), "a_scale": (m, scales), "b_scale": (scales, n)}
    for name, need in expected.items():
        have = site.region(name)
        if any(h is not None and w is not None and h < w for h, w in zip(have, need, strict=True)):
            got = f"{size(have[0])}x{size(have[1])}"
            yield (
                name,
                f"{name} has valid region {got} in a multiplication with M, K, N = {size(m)}, "
                f"{size(k)}, {size(n)}; allowed, lanes outside it have no reliable value",
            )
    v_row, v_col = site.region("dst")
    if (None not in (v_row, m) and v_row != m) or (None not in (v_col, n) and v_col != n):
        yield (
            "dst",
            f"dst has valid region {size(v_row)}x{size(v_col)}; allowed, but the product is written "
            f"to its {size(m)}x{size(n)} corner",
        )


def _too_large(sizes: Sizes, types: Mapping[str, TileType]) -> Any:
    (m, k), (_, n) = sizes["a"], sizes["b"]
    return (m > LARGEST) | (k > LARGEST) | (n > LARGEST)


def _enlarged(types: Types, attrs: AttrMap, profile: Profile) -> bool:
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


@forbid(
    "size-limit",
    f"M, K and N at most {LARGEST}",
    HARDWARE,
    stage="run-time",
    source=_EVERY_PAGE,
    invalid_if=_enlarged,
    region=RegionRule("custom", ("a", "b"), _too_large),
)
def _largest(site: Site) -> Iterator[Finding]:
    for name, what, n in zip("aab", "MKN", extents(site), strict=True):
        if n is not None and n > LARGEST:
            yield name, f"{what} is {n}; allowed on {site.profile.name}: 1 to {LARGEST}"


@forbid(
    "empty",
    "M, K and N at least 1",
    HARDWARE,
    severity="warning",
    source=f"{_PAGE} (1 to {LARGEST}); the simulator multiplies nothing",
    invalid_if=edit("a", lambda t: t.with_valid(0, t.v_col)),
)
def _empty(site: Site) -> Iterator[Finding]:
    """Nothing to multiply: without K sums are zero, without M or N nothing is written."""
    for name, what, n in zip("aab", "MKN", extents(site), strict=True):
        if n == 0:
            yield (
                name,
                f"{what} is 0; allowed, but {site.profile.name} multiplies 1 to {LARGEST}: skip the product "
                "where its region is empty",
            )


def common(strict: tuple[ProfileName, ...], *, vector: bool = False) -> tuple[Constraint, ...]:
    """Rules of every multiplication.

    ``strict`` names the profiles that fix the order of the left tile; ``vector``: the left tile is a row.
    """
    lenient = tuple(p for p in PROFILE_NAMES if p not in strict)
    order = (_ordered(None, lenient), _left_order) if lenient else ()  # pyright: ignore[reportArgumentType]
    fixed = (_ordered(_COL, strict),) if strict else ()
    return (_placed, *order, *fixed, _shapes(vector), _regions, _largest, _empty)


one_row = require(
    "one-row",
    "a.valid_rows <= 1",
    run_time=True,
    source="page tgemv",
)


_bias_row = require("bias-row", "bias.rows == 1", source=_PAGE)


_bias_columns = require(
    "bias-columns",
    "bias.cols >= dst.valid_cols",
    source=_PAGE,
)


@forbid(
    "bias-region",
    "the valid region of bias covers the valid columns of dst",
    severity="warning",
    source=_PAGE,
    invalid_if=retile("bias", v_col=1),
)
def _bias_region(site: Site) -> Iterator[Finding]:
    t, cols = site.tile("bias"), site.region("dst")[1]
    v_row, v_col = site.region("bias")
    short = cols is not None and v_col is not None and v_col < cols
    if t is not None and cols is not None and t.cols >= cols and (v_row == 0 or short):
        yield (
            "bias",
            f"bias has valid region {size(v_row)}x{size(v_col)} for {cols} valid columns of dst; "
            "allowed, lanes outside it have no reliable value",
        )


#: The bias is one row with a column for each valid column of dst.
BIAS_RULES = (_bias_row, _bias_columns, _bias_region)


def _narrow(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    a, b = retile("a", cols=SCALE_GROUP, v_col=SCALE_GROUP), retile("b", rows=SCALE_GROUP, v_row=SCALE_GROUP)
    return a(types, attrs, profile) and b(types, attrs, profile)


_k_multiple = require(
    "k-multiple",
    f"a.cols % {2 * SCALE_GROUP} == 0",
    source=f"page tmatmul-mx; {HEADERS}",
    invalid_if=_narrow,
)


@forbid(
    "scales-cover",
    f"a scale for every row and {SCALE_GROUP} k of a, and for every {SCALE_GROUP} k and column of b",
    source=f"page tmatmul-mx; {HEADERS}",
    invalid_if=retile("b_scale", rows=1, v_row=1),
)
def _scales_cover(site: Site) -> Iterator[Finding]:
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


#: Block scales: whole groups of 64 k, and a scale for every group of 32.
SCALE_RULES = (_k_multiple, _scales_cover)
