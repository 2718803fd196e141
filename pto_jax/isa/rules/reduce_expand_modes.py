"""Which source of a row-expanding instruction is expanded, and what that demands of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...ir import BLayout, DType, TileType, dims_text
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import AttrMap, Breaker, Check, Constraint, Finding, RegionRule, RegionTest, Site, Sizes
from .constraints import HARDWARE, SIMULATOR, size
from .forbid import Types, edit, forbid

_PAGE = "page pto.trowexpandadd (constraints)"
_SOURCES = ("src0", "src1")
_TILES = ("dst", *_SOURCES)
_TileTypes = Mapping[str, TileType]
Extent = tuple[int | None, int | None]


def block_columns(d: DType) -> int:
    """Elements of a 32-byte block.

    >>> from pto_jax.ir import F16
    >>> block_columns(F16)
    16
    """
    return 256 // d.storage_bits


def tmp_bytes(rows: int) -> int:
    """Bytes of scratch that A2/A3 needs in mode 1 for a number of valid rows of dst.

    >>> [tmp_bytes(r) for r in (1, 8, 9, 240, 255, 256)]
    [256, 256, 512, 7680, 8192, 7680]
    """
    return -(-rows // 8) * 256 if rows < 256 else 30 * 256


def _by_column(t: TileType) -> bool:
    return t.blayout == BLayout.COL_MAJOR


def _equal(a: Extent, b: Extent) -> bool | None:
    """Whether two valid regions are equal, None where that is only known at run time."""
    if any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True)):
        return False
    return None if None in (*a, *b) else True


def _full(site: Site) -> tuple[bool | None, ...]:
    """For each source whether it has dst's valid region."""
    dst = site.region("dst")
    return tuple(_equal(site.region(s), dst) for s in _SOURCES)


def _roles(site: Site) -> tuple[str, str] | None:
    """The full and the expanded source, as far as types show them."""
    match _full(site):
        case (True, False) | (None, False):
            return "src0", "src1"
        case (False, True) | (False, None):
            return "src1", "src0"
        case _:
            return None


def _regions(site: Site) -> str:
    return ", ".join(f"{n} {dims_text(site.region(n))}" for n in _TILES)


def _differ(a: tuple[Any, Any], b: tuple[Any, Any]) -> Any:
    return (a[0] != b[0]) | (a[1] != b[1])


def _same(a: tuple[Any, Any], b: tuple[Any, Any]) -> Any:
    return (a[0] == b[0]) & (a[1] == b[1])


def _per_role(sizes: Sizes, bad: Mapping[tuple[str, str], Any]) -> Any:
    """``bad[full, expanded]`` for the roles that the sizes give the sources."""
    result: Any = False
    for (full, expanded), broken in bad.items():
        assigned = _same(sizes[full], sizes["dst"]) & _differ(sizes[expanded], sizes["dst"])
        result = result | (assigned & broken)
    return result


_ROLES = (("src0", "src1"), ("src1", "src0"))


def _forbid(
    rule: str,
    statement: str,
    test: RegionTest,
    invalid_if: Breaker,
    *,
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES,
    operands: tuple[str, ...] = _TILES,
    source: str = _PAGE,
) -> Callable[[Check], Constraint]:
    """A rule that execution checks again by ``test``."""
    return forbid(
        rule,
        statement,
        profiles,
        source=source,
        invalid_if=invalid_if,
        stage="run-time",
        region=RegionRule("custom", operands, test),
    )


def _on_source(change: Callable[[TileType], TileType | None], *, full: bool = False) -> Breaker:
    """The expanded source of a sample, or the full one, is another tile."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        name = next(s for s in _SOURCES if (s == _expanded(types)) != full)
        return edit(name, change)(types, attrs, profile)

    return breaks


def _expanded(types: Types) -> str:
    """The expanded source of a sample."""
    dst = types["dst"]
    return next(s for s in _SOURCES if types[s] != dst)


# -- one source has the valid region of dst ---------------------------------------------------------------

_ONE = "exactly one source with dst's valid region"


def _neither(sizes: Sizes, types: _TileTypes) -> Any:
    return _differ(sizes["src0"], sizes["dst"]) & _differ(sizes["src1"], sizes["dst"])


@_forbid(
    "full-operand",
    f"{_ONE} (the full operand; the other one is expanded)",
    _neither,
    edit("dst", lambda t: None if t.v_col is None else t.with_valid(t.v_row, t.v_col - 1)),
)
def _full_operand(site: Site) -> Iterator[Finding]:
    if _full(site) == (False, False):
        yield None, f"no source has the valid region of dst ({_regions(site)})"


def _both(sizes: Sizes, types: _TileTypes) -> Any:
    rows, cols = sizes["dst"]
    filled = (rows != 0) | (cols != 0)
    return _same(sizes["src0"], sizes["dst"]) & _same(sizes["src1"], sizes["dst"]) & filled


def _break_both(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    if "tmp" in types:
        return False
    types[_expanded(types)] = types["dst"]
    return True


@_forbid("one-full-operand", _ONE, _both, _break_both, profiles=HARDWARE)
def _one_full_operand(site: Site) -> Iterator[Finding]:
    if _full(site) == (True, True) and site.valid.get("dst") != (0, 0):
        yield (
            None,
            f"both sources have the valid region of dst ({_regions(site)}); allowed: exactly one. "
            "The value is that of the lane-wise operation",
        )


# -- the full source is row_major -------------------------------------------------------------------------


def _columns(sizes: Sizes, types: _TileTypes) -> Any:
    column = {s: _by_column(types[s]) for s in _SOURCES}
    one = _per_role(sizes, {(full, other): column[full] for full, other in _ROLES})
    return one | (_both(sizes, types) & (column["src0"] and column["src1"]))


@_forbid(
    "full-layout",
    "the source with dst's valid region has blayout row_major",
    _columns,
    _on_source(lambda t: replace(t, blayout=BLayout.COL_MAJOR), full=True),
)
def _full_layout(site: Site) -> Iterator[Finding]:
    roles = _roles(site)
    candidates = [roles[0]] if roles else list(_SOURCES) if _full(site) == (True, True) else []
    tiles = [site.tile(n) for n in candidates]
    if tiles and all(t is not None and _by_column(t) for t in tiles):
        yield candidates[0], f"{candidates[0]} has dst's valid region and blayout col_major"


# -- the expanded source is a column, or a block of 32 bytes per row --------------------------------------


def _vector_columns(t: TileType) -> int:
    return 1 if _by_column(t) else block_columns(t.dtype)


def _misfits(sizes: Sizes, types: _TileTypes) -> Any:
    def misfit(name: str) -> Any:
        return _differ(sizes[name], (sizes["dst"][0], _vector_columns(types[name])))

    return _per_role(sizes, {(full, other): misfit(other) for full, other in _ROLES})


@_forbid(
    "expanded-operand",
    "the other source has dst's valid rows, and 1 valid column (col_major) or 32 bytes (row_major)",
    _misfits,
    _on_source(lambda t: None if t.v_row is None else t.with_valid(t.v_row - 1, t.v_col)),
)
def _expanded_operand(site: Site) -> Iterator[Finding]:
    roles = _roles(site)
    t = site.tile(roles[1]) if roles else None
    if roles is None or t is None:
        return
    have, rows = site.valid[roles[1]], site.region("dst")[0]
    if _equal(have, (rows, _vector_columns(t))) is False:
        layout = "col_major" if _by_column(t) else "row_major"
        yield (
            roles[1],
            f"the expanded operand {roles[1]} is {layout} with the valid region {dims_text(have)}; allowed: "
            f"{size(rows)} valid rows as in dst, and 1 valid column (col_major: a scalar per row) or "
            f"{block_columns(t.dtype)} (row_major: a block of 32 bytes per row)",
        )


# -- the scratch tile -------------------------------------------------------------------------------------


def _in_mode_2(sizes: Sizes, types: _TileTypes) -> Any:
    return _per_role(sizes, {(full, other): not _by_column(types[other]) for full, other in _ROLES})


def _break_tmp_mode(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    def blocks(t: TileType) -> TileType | None:
        return TileType(t.dtype, t.rows, block_columns(t.dtype)) if _by_column(t) else None

    return "tmp" in types and _on_source(blocks)(types, attrs, profile)


@_forbid(
    "tmp-mode",
    "tmp only where the expanded operand is col_major (mode 1)",
    _in_mode_2,
    _break_tmp_mode,
    operands=(*_TILES, "tmp"),
    profiles=("cpu_sim", "a2a3"),
    source="page pto.trowexpandadd (temporary tile)",
)
def _tmp_mode(site: Site) -> Iterator[Finding]:
    roles = _roles(site)
    t = site.tile(roles[1]) if roles else None
    if "tmp" in site.values and roles is not None and t is not None and not _by_column(t):
        yield "tmp", f"tmp with a row_major expanded operand {roles[1]} (mode 2)"


def _too_small(sizes: Sizes, types: _TileTypes) -> Any:
    rows, have = sizes["dst"][0], types["tmp"].bytes
    return ((rows < 256) & (rows > have // 256 * 8)) | ((rows >= 256) & (have < tmp_bytes(256)))


@_forbid(
    "tmp-size",
    "tmp holds a 32-byte block per row: ceil(R / 8) * 256 bytes for R < 256 valid rows, else 7680",
    _too_small,
    edit("tmp", lambda t: TileType(t.dtype, 1, block_columns(t.dtype))),
    profiles=("a2a3",),
    operands=("dst", "tmp"),
    source="page pto.trowexpandadd (temporary tile)",
)
def tmp_size(site: Site) -> Iterator[Finding]:
    """The scratch tile of A2/A3 holds a block per row."""
    t, rows = site.tile("tmp"), site.region("dst")[0]
    if t is not None and rows is not None and t.bytes < tmp_bytes(rows):
        allowed = f"at least {tmp_bytes(rows)} (8192 always suffice)"
        yield "tmp", f"tmp has {t.bytes} bytes; allowed for {rows} valid rows of dst: {allowed}"


#: The page of the sum says so of every chip; the assembler takes any tmp of the others on A5.
TMP_MODE_OF_A5 = replace(_tmp_mode, profiles=("a5",))
#: What every row-expanding instruction demands of its sources.
ROW_BROADCAST: tuple[Constraint, ...] = (
    _full_operand,
    _one_full_operand,
    replace(_one_full_operand, profiles=SIMULATOR, severity="warning"),
    _full_layout,
    _expanded_operand,
    _tmp_mode,
)


def uses_hidden_scratch(site: Site) -> bool:
    """Mode 1 without tmp: A2/A3 spreads the scalars into bytes of the unified buffer that it reserves."""
    tiles = [site.tile(s) for s in _SOURCES]
    return "tmp" not in site.values and any(t is not None and _by_column(t) for t in tiles)
