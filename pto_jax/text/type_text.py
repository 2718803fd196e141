"""Printing types: the long spelling of programs and the short one of the documentation pages."""

from collections.abc import Sequence
from typing import Literal

from .. import ir

#: ``long``: every parameter; ``short``: ``!pto.tile<f32, 16, 16>`` where that says the same.
Style = Literal["long", "short"]

_DTYPE_TEXT = {
    "u8": "ui8",
    "u16": "ui16",
    "u32": "ui32",
    "u64": "ui64",
    "f8e4m3": "f8E4M3FN",
    "f8e5m2": "f8E5M2",
    "f8e8m0": "!pto.f8E8M0",
    "hif8": "!pto.hif8",
    "f4e2m1_pair": "!pto.f4E2M1x2",
    "f4e1m2_pair": "!pto.f4E1M2x2",
    "bf16_pair": "!pto.bf16x2",
    "hif8_pair": "!pto.hif8x2",
}
#: Stands in a type list where the text gives no type for an operand.
NO_TYPE = "_"


def print_dtype(dtype: ir.DType, *, in_pairs: bool = True) -> str:
    """An element type in the assembler's spelling.

    ``in_pairs``: in vec and global memory, where its 4-bit types are pairs of numbers.
    """
    if in_pairs:
        return _DTYPE_TEXT.get(dtype.name, dtype.name)
    return dtype.name if dtype.pair_of else print_dtype(ir.paired(dtype))


def _size(n: int | None) -> str:
    return "?" if n is None else str(n)


def _shaped(dims: tuple[int | None, ...], dtype: ir.DType) -> str:
    return "x".join([*map(_size, dims), print_dtype(dtype)])


def _tile(t: ir.TileType, style: Style) -> str:
    if t.conv is not None:
        parts = [_shaped(t.conv.shape, t.dtype), f"layout={t.conv.layout.name.lower()}"]
        geometry = ir.geometry_text(t.conv.geometry)
        return f"!pto.conv_tile<{t.loc.name.lower()}, {', '.join([*parts, *geometry])}>"
    if style == "short" and t == ir.TileType(t.dtype, t.rows, t.cols):
        return f"!pto.tile<{print_dtype(t.dtype)}, {t.rows}, {t.cols}>"
    element = print_dtype(t.dtype, in_pairs=t.loc == ir.Loc.VEC)
    compact = f", compact={int(t.compact)}" if t.compact else ""
    return (
        f"!pto.tile_buf<loc={t.loc.name.lower()}, dtype={element}, rows={t.rows}, "
        f"cols={t.cols}, v_row={_size(t.v_row)}, v_col={_size(t.v_col)}, "
        f"blayout={t.blayout.name.lower()}, slayout={t.slayout.name.lower()}, fractal={t.fractal}, "
        f"pad={int(t.pad)}{compact}>"
    )


def _memref(t: ir.MemRefType) -> str:
    parts = [_shaped(t.dims, t.dtype)]
    if t.strides is not None:
        offset = f", offset: {_size(t.offset)}" if t.offset != 0 else ""
        parts.append(f"strided<[{', '.join(map(_size, t.strides))}]{offset}>")
    if t.space is not None:
        parts.append(f"#pto.address_space<{t.space.name.lower()}>")
    return f"memref<{', '.join(parts)}>"


def print_type(t: ir.Type, style: Style = "long") -> str:
    """A type as the reader takes it; a type that was left out is ``_``.

    >>> print_type(ir.TileType(ir.F32, 16, 16), "short")
    '!pto.tile<f32, 16, 16>'
    """
    match t:
        case ir.TileType():
            return _tile(t, style)
        case ir.ScalarType():
            return print_dtype(t.dtype)
        case ir.PtrType():
            space = "" if t.space == ir.AddressSpace.GM else f", {t.space.name.lower()}"
            in_pairs = t.space in (ir.AddressSpace.GM, ir.AddressSpace.VEC)
            return f"!pto.ptr<{t.written or print_dtype(t.dtype, in_pairs=in_pairs)}{space}>"
        case ir.TensorViewType():
            return f"!pto.tensor_view<{_shaped(t.dims, t.dtype)}>"
        case ir.PartitionViewType():
            return f"!pto.partition_tensor_view<{_shaped(t.dims, t.dtype)}>"
        case ir.MemRefType():
            return _memref(t)
        case ir.VectorType():
            return f"vector<{_shaped(t.dims, t.dtype)}>"
        case ir.OpaqueType():
            return f"!pto.{t.name}" + (f"<{t.params}>" if t.params else "")
        case ir.UnknownType():
            return t.text or NO_TYPE
        case ir.MultiTileType():
            return f"!pto.multi_tile_buf<{_tile(t.slot, style)}, count={t.count}>"
        case ir.LocalArrayType():
            return f"!pto.local_array<{_shaped(t.dims, t.dtype)}>"
        case ir.StructType():
            return f"!pto.struct<{', '.join(print_type(_field(f)) for f in t.fields)}>"
        case ir.VRegType() | ir.MaskType() | ir.AlignType():
            return f"!pto.{_register(t)}"


def _register(t: ir.VRegType | ir.MaskType | ir.AlignType) -> str:
    if isinstance(t, ir.AlignType):
        return "align"
    layout = f", {t.layout}" if t.layout else ""
    if isinstance(t, ir.MaskType):
        width = f"b{t.bits}" if t.bits else "pred"
        return f"vmi.mask<{t.lanes}x{width}{layout}>" if t.logical else f"mask<{width}>"
    sign = "s" if t.dtype.kind == "int" and not t.signless else ""
    prefix = "vmi." if t.logical else ""
    return f"{prefix}vreg<{t.lanes}x{sign}{print_dtype(t.dtype)}{layout}>"


def _field(f: ir.DType | ir.StructType) -> ir.Type:
    return f if isinstance(f, ir.StructType) else ir.ScalarType(f)


def print_types(types: Sequence[ir.Type], style: Style = "long") -> str:
    """Types as programs write them, separated by commas."""
    return ", ".join(print_type(t, style) for t in types)


def print_results(types: Sequence[ir.Type], style: Style = "long") -> str:
    """An arrow and the types behind it, in parentheses unless it is one; nothing for none."""
    if not types:
        return ""
    results = print_types(types, style)
    return f" -> {results}" if len(types) == 1 else f" -> ({results})"
