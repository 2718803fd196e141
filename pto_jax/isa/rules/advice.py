"""The usual fix behind a rule on tile types: what error messages propose, as code that can be copied.

Programs that Python code made get Python code, all others the text of the language.
"""

from dataclasses import replace
from enum import IntEnum

from ...ir import BLayout, TileType, element_order
from ..declare import Site

_BLOCK_BITS = 256
#: What stands in messages between what is allowed and the fix.
USUAL = "; usual fix: "


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


def in_python(t: TileType) -> str:
    """The arguments of the builder's ``alloc_tile`` and ``tile_type`` that give a tile type.

    >>> from pto_jax.ir import F32
    >>> in_python(TileType(F32, 16, 1, v_row=13, blayout=BLayout.COL_MAJOR))
    '"f32", 16, 1, valid=(13, 1), blayout="col_major"'
    """
    parts = [f'"{t.dtype}"', str(t.rows), str(t.cols)]
    if not t.is_full:
        parts.append(f"valid={t.valid}")
    outer, inner, box = element_order(t.loc)
    default = TileType(t.dtype, t.rows, t.cols, slayout=inner, blayout=outer, fractal=box)
    layout = ("slayout", "blayout") if (t.blayout, t.slayout) != (outer, inner) else ()
    if layout:
        default = replace(
            default, blayout=TileType(t.dtype, 1, 1).blayout, slayout=TileType(t.dtype, 1, 1).slayout
        )
    for key in ("loc", "blayout", "slayout", "fractal", "pad", "compact"):
        value = getattr(t, key)
        if value != getattr(default, key):
            parts.append(f'{key}="{value.name.lower()}"' if isinstance(value, IntEnum) else f"{key}={value}")
    return ", ".join(parts)


def row_major_instead(site: Site, operand: str) -> str | None:
    """How a tile that is not row_major is handed to an instruction that takes row_major tiles only.

    The bytes of a column of numbers are those of a row: ``treshape`` names them anew and nothing moves.
    """
    t, value = site.tile(operand), site.values.get(operand)
    if t is None or value is None or t.boxed or t.conv is not None:
        return None
    python = site.op.span is not None and site.op.span.python
    if t.cols != 1 or t.rows == 1 or site.instruction.lanes != "same":
        wide = replace(t, cols=_whole(t.cols, t), blayout=BLayout.ROW_MAJOR)
        return _allocated(value.name, wide) if python else f"allocate {value} as {spelled(wide)}"
    if t.rows % _unit(t):
        row = _row(t, _whole(t.rows, t))
        return (
            _allocated(value.name, row) if python else f"allocate {value} as a row of numbers, {spelled(row)}"
        )
    row = _row(t, t.rows)
    line = (
        f"{value.name}_row = pto.treshape({value.name}, type=pto.tile_type({in_python(row)}))"
        if python
        else f"{value}_row = pto.treshape {value} : {spelled(t)} -> {spelled(row)}"
    )
    return f"compute on the same bytes as a row: {line}"


def made_anew(t: TileType) -> str:
    """The expression that makes a tile; a type where sizes are given beside it."""
    listed = in_python(t)
    return f"its type as pto.tile_type({listed})" if None in t.valid else f"pto.alloc_tile({listed})"


def _allocated(name: str, t: TileType) -> str:
    """The statement that allocates a tile; one of a dynamic region is allocated by its type."""
    if None in t.valid:
        return f"allocate {name} by its type, pto.tile_type({in_python(t)})"
    return f"{name} = {made_anew(t)}"


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


def in_blocks(t: TileType) -> TileType:
    """The tile type that :func:`aligned` describes."""
    if t.cols == 1 and t.rows > 1:
        return replace(t, rows=_whole(t.rows, t), blayout=BLayout.COL_MAJOR)
    if t.layout == "ND" or t.rows == 1:
        return replace(t, cols=_whole(t.cols, t))
    return replace(t, rows=_whole(t.rows, t))


def in_boxes(t: TileType) -> TileType:
    """A tile of whole boxes, the data in a part of it."""
    rows, cols = t.box
    return replace(t, rows=-(-t.rows // rows) * rows if t.rows != 1 else 1, cols=-(-t.cols // cols) * cols)


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
