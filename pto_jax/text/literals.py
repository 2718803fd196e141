"""Constants as programs write them."""

import math
import struct

from .. import ir
from .dictionaries import print_float
from .type_text import print_type

_FLOAT_BITS = {"f16": ("<e", "<H", 0), "f32": ("<f", "<I", 0), "bf16": ("<f", "<I", 16)}


def constant_text(op: ir.Op) -> str:
    """The value of a constant, with its type unless that is plain: ``true``, ``8 : index``."""
    value = op.attrs["value"]
    t: ir.Type = op.results[0].type if op.results else ir.UnknownType()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        items = ", ".join(_number(v, t) for v in value)
        return f"dense<[{items}]> : {print_type(t)}"
    return f"{_number(value, t)} : {print_type(t)}"


def _number(value: object, t: ir.Type) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return _bits(value, t)
    if isinstance(value, float):
        return print_float(value)
    return str(int(value)) if isinstance(value, int) else str(value)


def _bits(value: float, t: ir.Type) -> str:
    """An infinity or NaN, which MLIR writes as the bits of its type."""
    name = t.dtype.name if isinstance(t, ir.ScalarType | ir.VectorType) else "f32"
    number, word, shift = _FLOAT_BITS.get(name, _FLOAT_BITS["f32"])
    (raw,) = struct.unpack(word, struct.pack(number, value))
    return f"0x{raw >> shift:X}"
