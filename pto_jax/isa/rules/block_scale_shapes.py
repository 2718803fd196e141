"""Block-scaled quantisation in the assembler's form: where the tiles of groups have their elements.

The assembler takes the forms that the headers of A5 compute without writing outside of a tile.
"""

from collections.abc import Iterator

from ...ir import F16, F32, QuantScaleAlg, TileType
from ..declare import Finding, Site
from .block_scales import GROUP, grouped_down
from .constraints import size

#: Elements of 16 bits that a vector has.
_VECTOR = 128


def assembled_shapes(site: Site) -> Iterator[Finding]:
    """What the assembler's form of the instruction demands of its tiles beside room for the groups."""
    src, exp, down = site.tile("src"), site.tile("exp"), grouped_down(site)
    yield from _static(site)
    yield from _one_per_group(site, down)
    if src is None or exp is None:
        return
    if down:
        yield from _exponents_down(site, src, exp)
        yield from _pairs_down(site, src)
    else:
        yield from (_in_one_row(site, src) if exp.rows == 1 else _row_by_row(src))
    yield from _padding(site, src)


def _static(site: Site) -> Iterator[Finding]:
    for name, t in site.tiles():
        if None in t.valid:
            found = f"{name} has valid region {size(t.v_row)}x{size(t.v_col)}"
            yield name, f"{found}; allowed: sizes that its type states"


def _one_per_group(site: Site, down: bool) -> Iterator[Finding]:
    rows, cols = site.region("src")
    for name, t in site.named("max", "scaling"):
        have = site.region(name)
        if rows is None or cols is None or None in have:
            continue
        wanted = (rows // GROUP, cols)
        if down and have != wanted:
            found = f"{name} has valid region {have[0]}x{have[1]}"
            yield name, f"{found}; allowed: {wanted[0]}x{wanted[1]}, one per group"
        elif not down and have[0] != 1 and have[1] != t.cols:
            yield name, f"{name} has {t.cols} columns, {have[1]} of them valid; allowed: all, or one row"


def _exponents_down(site: Site, src: TileType, exp: TileType) -> Iterator[Finding]:
    if not site.attrs.get("interleave"):
        if exp.cols != src.cols:
            yield "exp", f"exp has {exp.cols} columns, src {src.cols}; allowed along rows: equal columns"
        return
    pairs = (src.rows // 64, -(-2 * src.cols // 32) * 32)
    if exp.shape != pairs:
        found = f"exp is {exp.rows}x{exp.cols}, src {src.rows}x{src.cols}"
        yield "exp", f"{found}; allowed with interleave: {pairs[0]}x{pairs[1]}, two columns for each"
    if src.dtype == F32:
        yield "src", "src has element type f32 with interleave; allowed: f16, bf16"


def _pairs_down(site: Site, src: TileType) -> Iterator[Finding]:
    """Codes of 4 bits lie in rows as long as those of the source."""
    dst = site.tile("dst")
    if dst is None or not dst.dtype.pair_of:
        return
    if 2 * dst.cols != src.cols:
        yield "dst", f"dst has {dst.cols} columns of pairs, src {src.cols}; allowed: half as many"
    elif src.dtype == F16 and dst.cols % 32:
        yield "dst", f"dst has {dst.cols} columns of pairs from f16 along rows; allowed: a multiple of 32"


def _in_one_row(site: Site, src: TileType) -> Iterator[Finding]:
    cols, scaling = site.region("src")[1], site.tile("scaling")
    if cols is not None and cols != src.cols:
        found = f"src has {src.cols} columns, {cols} of them valid, exp is one row"
        yield "src", f"{found}; allowed: all columns valid, or a row of exponents each"
    if src.dtype != F32 and site.attrs.get("quantScaleAlg") == QuantScaleAlg.NV:
        found = f"exponents of {src.dtype} in one row with quantScaleAlg nv"
        yield "exp", f"{found}; allowed: ocp, or a row each"
    least = _factors(site, src)
    if scaling is not None and scaling.elements < least:
        found = f"scaling has {scaling.elements} elements"
        yield "scaling", f"{found}; allowed: at least {least}, with padding"


def _row_by_row(src: TileType) -> Iterator[Finding]:
    if src.dtype != F32:
        yield "src", f"src has element type {src.dtype}, exp a row each; allowed: f32, or exp of one row"


def _factors(site: Site, src: TileType) -> int:
    """Factors of exponents in one row: whole vectors, twice as many where the loop is unrolled."""
    rows, cols = site.region("src")
    valid, wide = (rows or 0) * (cols or 0), src.dtype == F32
    unrolled = wide and src.elements > 1024 and src.elements % 256 == valid % 256 == 0
    vector = 64 if wide else _VECTOR
    return -(-valid // GROUP * (1 + unrolled) // vector) * vector


def _padding(site: Site, src: TileType) -> Iterator[Finding]:
    """The columns behind the valid ones of 16-bit sources are cleared vector by vector."""
    rows, cols = site.region("src")
    if src.dtype == F32 or rows is None or cols is None or cols >= src.cols or _VECTOR % src.cols:
        return
    if rows * src.cols % _VECTOR:
        found = f"src has {rows} rows of {src.cols} elements, {cols} of them valid"
        yield "src", f"{found}; allowed: rows that are whole vectors of {_VECTOR} elements, or all valid"
