"""Rules on tile types and element types themselves, whatever instruction uses them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ... import ir
from ...errors import Severity
from ...profiles import Profile
from . import constraints, typesets
from .constraints import ON_A5, USUAL, aligned, in_blocks, in_boxes, largest, made_anew

_BLOCK = 32
#: The rules on whole blocks, which are rules on tiles that are made, not on other handles.
ALIGNMENT, BOXES = "tile-alignment", "tile-boxes"
#: Element types the overview lists for A5 only; ``f8e8m0`` holds block scales.
A5_ONLY = frozenset((*typesets.BYTE_FLOATS, *typesets.NIBBLE_FLOATS, *typesets.PAIRS, "f8e8m0"))


@dataclass(frozen=True)
class TypeFinding:
    """What is wrong with a type: ``rule`` identifies the rule, ``message`` says what is allowed."""

    rule: str
    message: str
    severity: Severity = "error"
    fixed: ir.TileType | None = None

    def written(self, *, python: bool) -> str:
        """The message with the usual fix in the language of the program."""
        if self.fixed is None or (not python and USUAL in self.message):
            return self.message
        if not python:
            return f"{self.message}{USUAL}{constraints.spelled(self.fixed)}"
        return f"{self.message.partition(USUAL)[0]}{USUAL}{made_anew(self.fixed)}"


def _never(t: ir.TileType, profile: Profile) -> bool:
    return False


@dataclass(frozen=True)
class TypeRule:
    """A rule on tile types, as documentation prints it; tiles that are ``tolerated`` only get a warning."""

    name: str
    statement: str
    check: Callable[[ir.TileType, Profile], Iterator[str]]
    source: str = "pto-isa pto_tile.hpp (static checks, equal on all profiles)"
    tolerated: Callable[[ir.TileType, Profile], bool] = _never
    fix: Callable[[ir.TileType, Profile], ir.TileType | None] | None = None

    def findings(self, t: ir.TileType, profile: Profile) -> Iterator[TypeFinding]:
        """What breaks the rule in a tile type: warnings for a tolerated type, else errors."""
        severity: Severity = "warning" if self.tolerated(t, profile) else "error"
        for message in self.check(t, profile):
            fixed = self.fix(t, profile) if self.fix is not None else None
            yield TypeFinding(self.name, message, severity, fixed)


def _sizes(t: ir.TileType, profile: Profile) -> Iterator[str]:
    if t.rows < 1 or t.cols < 1:
        yield f"{t.rows}x{t.cols} tile; allowed: at least one row and column"


def _valid(t: ir.TileType, profile: Profile) -> Iterator[str]:
    for name, valid, limit in (("v_row", t.v_row, t.rows), ("v_col", t.v_col, t.cols)):
        if valid is not None and not 0 <= valid <= limit:
            yield f"{name}={valid} of a {t.rows}x{t.cols} tile; allowed: 0 to {limit}"


def _within(t: ir.TileType, profile: Profile) -> ir.TileType:
    """A tile whose valid region ends with it."""
    rows, cols = (
        None if n is None else max(0, min(n, most)) for n, most in zip(t.valid, t.shape, strict=True)
    )
    return t.with_valid(rows, cols)


def _fractal(t: ir.TileType, profile: Profile) -> Iterator[str]:
    if t.fractal not in ir.FRACTALS:
        yield f"fractal={t.fractal}; allowed: {', '.join(str(f) for f in ir.FRACTALS)}"


def _alignment(t: ir.TileType, profile: Profile) -> Iterator[str]:
    if t.boxed or t.rows < 1 or t.cols < 1 or t.conv is not None:
        return
    # A single row is the same bytes in either order, and programs write such tiles as col_major.
    row_major = t.layout == "ND" or t.rows == 1
    count, what = (t.cols, "row of a row_major") if row_major else (t.rows, "column of a col_major")
    # The header counts a byte for each 4-bit element.
    stored = count * t.dtype.word_bits
    block = _BLOCK // 2 if t.dtype.pair_of or (t.dtype.packed and t.dtype.is_float) else _BLOCK
    if stored % (block * 8):
        size = f"one {what} tile ({count} x {t.dtype}) takes {stored / 8:g} bytes"
        yield f"{size}; allowed: a multiple of {block}; try: {aligned(t)}"


def _single_column(t: ir.TileType, profile: Profile) -> bool:
    """Compilers print filters and indices as one col_major column of any length; tools round it up."""
    return t.cols == 1 and t.layout == "DN"


def _unchecked(t: ir.TileType, profile: Profile) -> bool:
    """Tiles that are larger than their buffer in programs that run.

    Compilers print scaling tiles as large as the data they scale; hardware tests of A2/A3 have right tiles of
    up to 128 KiB.
    """
    twice = t.loc == ir.Loc.RIGHT and profile.name == "a2a3" and t.bytes <= 2 * profile.capacity[t.loc]
    return t.loc == ir.Loc.SCALING or twice


def _boxes(t: ir.TileType, profile: Profile) -> Iterator[str]:
    if not t.boxed or t.fractal not in ir.FRACTALS:
        return
    box_rows, box_cols = t.box
    if t.cols % box_cols:
        cols = -(-t.cols // box_cols) * box_cols
        yield (
            f"{t.cols} columns with boxes of {box_rows}x{box_cols}; allowed: a multiple of {box_cols}; "
            f"try: cols={cols} with v_col={t.cols}"
        )
    # Other boxes than those of NZ would have elements behind the last byte of the tile.
    inside = t.layout == "NZ" or t.rows % t.stored_box[0] == 0
    free = t.loc == ir.Loc.VEC or t.fractal == 32 or t.rows == 1 or t.compact != ir.Compact.NULL
    if t.rows % box_rows and not (free and inside):
        rows, one = -(-t.rows // box_rows) * box_rows, "" if t.layout in ("ZN", "NN") else ", or 1"
        yield (
            f"{t.rows} rows with boxes of {box_rows}x{box_cols}; allowed: a multiple of {box_rows}{one}; "
            f"try: rows={rows} with v_row={t.rows}"
        )


def _convolution(t: ir.TileType, profile: Profile) -> Iterator[str]:
    conv = t.conv
    if conv is None:
        return
    layout, rank, c0 = conv.layout.name.lower(), len(conv.shape), ir.block_channels(t.dtype)
    if conv.layout not in ir.CONV_RANKS:
        names = ", ".join(g.name.lower() for g in ir.CONV_RANKS)
        yield f"convolution tile of layout {layout}; allowed: {names}"
    elif rank not in ir.CONV_RANKS[conv.layout]:
        words = " or ".join(map(str, ir.CONV_RANKS[conv.layout]))
        yield f"convolution tile of layout {layout} with {rank} dimensions; allowed: {words}"
    elif conv.layout in ir.BLOCKED and conv.shape[-1] != c0:
        yield f"{layout} tile of {t.dtype} with blocks of {conv.shape[-1]} channels; allowed: {c0}"
    if min(conv.shape, default=0) < 1 or t.shape != (1, conv.elements) or not t.is_full or t.layout != "ND":
        yield "convolution tile that is not one row of all its elements; allowed: positive dimensions"
    if t.loc not in (ir.Loc.VEC, ir.Loc.MAT):
        yield f"convolution tile in {t.loc.name.lower()}; allowed: vec, mat"


def _capacity(t: ir.TileType, profile: Profile) -> Iterator[str]:
    capacity, place = profile.capacity[t.loc], t.loc.name.lower()
    if capacity == 0:
        yield f"{place} tile; allowed on {profile.name}: {', '.join(_places(profile))}"
    elif t.bytes > capacity:
        fits = largest(t, capacity)
        advice = f"; the largest that fits: {fits}" if fits else ""
        yield f"tile of {t.bytes} bytes; allowed in the {place} buffer of {profile.name}: {capacity}{advice}"


def _fitting(t: ir.TileType, profile: Profile) -> ir.TileType | None:
    """The largest tile of the same columns or rows in its buffer."""
    fits = largest(t, profile.capacity[t.loc]) if profile.capacity[t.loc] else None
    if fits is None:
        return None
    rows, cols = map(int, fits.split("x"))
    valid = (None if n is None else min(n, m) for n, m in zip(t.valid, (rows, cols), strict=True))
    return replace(t, rows=rows, cols=cols).with_valid(*valid)


def _places(profile: Profile) -> list[str]:
    return [loc.name.lower() for loc, capacity in profile.capacity.items() if capacity]


#: Every rule on tile types, in the order they are reported.
TYPE_RULES: tuple[TypeRule, ...] = (
    TypeRule("tile-size", "rows and columns are positive", _sizes),
    TypeRule("tile-valid", "static valid sizes lie between 0 and the physical sizes", _valid, fix=_within),
    TypeRule("tile-fractal", "fractal is 512, 1024 or 32", _fractal),
    TypeRule(
        ALIGNMENT,
        "a row (row_major) or column (col_major) is a multiple of 32 bytes (16 for 4-bit floats); a warning "
        "for a single column",
        _alignment,
        tolerated=_single_column,
        fix=lambda t, _: in_blocks(t),
    ),
    TypeRule(
        BOXES,
        "boxed tiles consist of whole boxes; rows are free in vec and MX scale tiles",
        _boxes,
        fix=lambda t, _: in_boxes(t),
    ),
    TypeRule(
        "tile-convolution",
        "convolution tiles have a layout of theirs, its number of dimensions and whole blocks of channels",
        _convolution,
        "pto-isa pto_tile.hpp (ConvTile); page ConvTile",
    ),
    TypeRule(
        "tile-capacity",
        "the tile fits into its on-chip buffer, which exists on the profile; a warning for scaling tiles and "
        "for right tiles of up to 128 KiB on a2a3",
        _capacity,
        "pto-isa buffer_limits.hpp; pto-isa system tests of textract",
        _unchecked,
        _fitting,
    ),
)


def check_element_type(d: ir.DType, profile: Profile) -> Iterator[TypeFinding]:
    """Whether values of an element type exist on a profile."""
    if d.name not in A5_ONLY:
        return
    if profile.fp8 == "no":
        yield TypeFinding(
            "type-exists", f"element type {d} does not exist on {profile.name}; allowed: "
            f"{', '.join(t.name for t in ir.TILE_DTYPES if t.name not in A5_ONLY)}; try: {ON_A5}"
        )  # fmt: skip
    elif profile.fp8 == "warn":
        yield TypeFinding(
            "type-exists",
            f"element type {d} on {profile.name} is not portable: it is guaranteed on a5 only",
            "warning",
        )


@lru_cache(maxsize=1024)
def check_type(t: ir.Type, profile: Profile) -> tuple[TypeFinding, ...]:
    """Everything that is wrong with a type on a profile."""
    d = constraints.element_type(t)
    findings = list(check_element_type(d, profile)) if d is not None else []
    if isinstance(t, ir.TileType):
        findings += [finding for r in TYPE_RULES for finding in r.findings(t, profile)]
    return tuple(findings)


_LOCS = {
    ir.AddressSpace.VEC: ir.Loc.VEC,
    ir.AddressSpace.MAT: ir.Loc.MAT,
    ir.AddressSpace.LEFT: ir.Loc.LEFT,
    ir.AddressSpace.RIGHT: ir.Loc.RIGHT,
    ir.AddressSpace.ACC: ir.Loc.ACC,
    ir.AddressSpace.BIAS: ir.Loc.BIAS,
    ir.AddressSpace.SCALING: ir.Loc.SCALING,
}


def tile_of_memref(t: ir.MemRefType) -> ir.TileType | None:
    """The row-major tile a local memref stands for: leading dimensions are rows, the last one columns."""
    loc = _LOCS.get(t.space) if t.space is not None else None
    if loc is None or not t.dims or any(d is None for d in t.dims):
        return None
    rows = 1
    for d in t.dims[:-1]:
        rows *= d or 0
    return ir.TileType(t.dtype, rows, t.dims[-1] or 0, loc=loc)


def describe(t: ir.Type) -> str:
    """A type in an error message."""
    if isinstance(t, ir.TileType):
        return f"a tile ({t})"
    if isinstance(t, ir.MemRefType):
        return f"a memref of {'x'.join(constraints.size(d) for d in t.dims)}x{t.dtype}"
    return str(t)
