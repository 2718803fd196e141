"""The usual fix behind a rule on tile types: what error messages propose, as text that can be copied."""

from dataclasses import replace
from enum import IntEnum

from ...ir import BLayout, TileType
from ..declare import Site

_BLOCK_BITS = 256


def spelled(t: TileType) -> str:
    """A tile type as programs write it, without the parameters that have their default.

    >>> from pto_jax.ir import F32
    >>> spelled(TileType(F32, 16, 1, v_row=None, blayout=BLayout.COL_MAJOR))
    '!pto.tile_buf<vec, 16x1xf32, valid=?x1, blayout=col_major>'
    """
    parts = [t.loc.name.lower(), f"{t.rows}x{t.cols}x{t.dtype}"]
    if not t.is_full:
        parts.append("valid=" + "x".join("?" if n is None else str(n) for n in t.valid))
    default = TileType(t.dtype, t.rows, t.cols)
    for key in ("blayout", "slayout", "fractal", "pad", "compact"):
        value = getattr(t, key)
        if value != getattr(default, key):
            parts.append(f"{key}={value.name.lower() if isinstance(value, IntEnum) else value}")
    return f"!pto.tile_buf<{', '.join(parts)}>"


def row_major_instead(site: Site, operand: str) -> str | None:
    """How a tile that is not row_major is handed to an instruction that takes row_major tiles only.

    The bytes of a column of numbers are those of a row: ``treshape`` names them anew and nothing moves.
    """
    t, value = site.tile(operand), site.values.get(operand)
    if t is None or value is None or t.boxed or t.conv is not None:
        return None
    if t.cols != 1 or t.rows == 1 or site.instruction.lanes != "same":
        wide = replace(t, cols=_whole(t.cols, t), blayout=BLayout.ROW_MAJOR)
        return f"allocate {value} as {spelled(wide)}"
    if t.rows % _unit(t):
        return f"allocate {value} as a row of numbers, {spelled(_row(t, _whole(t.rows, t)))}"
    line = f"{value}_row = pto.treshape {value} : {spelled(t)} -> {spelled(_row(t, t.rows))}"
    return f"compute on the same bytes as a row: {line}"


def _row(column: TileType, cols: int) -> TileType:
    """A row for the numbers of a column."""
    valid = column.v_row if column.is_static else cols
    return replace(column, rows=1, cols=cols, v_row=1, v_col=valid, blayout=BLayout.ROW_MAJOR)


def aligned(t: TileType) -> str:
    """Physical sizes whose rows or columns are whole blocks of 32 bytes, the data in a part of them.

    >>> from pto_jax.ir import F32
    >>> aligned(TileType(F32, 13, 37))
    'cols=40 with v_col=37'
    >>> aligned(TileType(F32, 13, 1))
    'one number per row is a column: blayout=col_major, rows=16 with v_row=13'
    """
    if t.cols == 1 and t.rows > 1:
        column = "" if t.layout == "DN" else "one number per row is a column: blayout=col_major, "
        return (column + _rounded("rows", t.rows, t.v_row, t)).removesuffix(", ")
    if t.layout == "ND" or t.rows == 1:
        return _rounded("cols", t.cols, t.v_col, t)
    return _rounded("rows", t.rows, t.v_row, t)


def _rounded(axis: str, n: int, valid: int | None, t: TileType) -> str:
    size = _whole(n, t)
    if size == n:
        return ""
    return f"{axis}={size}" + (f" with v_{axis[:3]}={valid}" if valid is not None else "")


def _unit(t: TileType) -> int:
    """Elements in a block of 32 bytes; 4-bit elements count a byte each, as in the header."""
    return _BLOCK_BITS // t.dtype.word_bits


def _whole(n: int, t: TileType) -> int:
    """A number of elements rounded up to whole blocks."""
    return -(-n // _unit(t)) * _unit(t)


def largest(t: TileType, capacity: int) -> str | None:
    """The largest tile of the same columns that fits into so many bytes, else of the same rows.

    >>> from pto_jax.ir import F32
    >>> largest(TileType(F32, 1024, 64), 196608), largest(TileType(F32, 1, 65536), 196608)
    ('768x64', '1x49152')
    """
    if t.conv is not None or t.rows < 1 or t.cols < 1:
        return None
    elements = capacity * 8 // t.dtype.storage_bits
    column_major = not t.boxed and t.blayout == BLayout.COL_MAJOR
    row_step, col_step = t.box if t.boxed else (_unit(t), 1) if column_major else (1, _unit(t))
    rows = elements // t.cols // row_step * row_step
    if rows:
        return f"{rows}x{t.cols}"
    cols = elements // t.rows // col_step * col_step
    return f"{t.rows}x{cols}" if cols else None
