"""Sums of codes scaled and biased: the last instructions of a layer.

Exact numerics compute them in float64 on CPUs, where float32 subnormals are lost. Where the exponents of the
operands tell that there can be none, float32 gives the same bits in a fraction of the time.
"""

from functools import partial
from typing import Any

import numpy as np
from jax import Array, lax

from .. import ops
from ..ir import F32
from ..lowering.numerics_native import NativeFloat
from . import formats, tiling

#: Exponent fields of the smallest sums that are not zero: of integers, and of products of e4m3 codes.
_LEAST = {"int8": 127, "fp8": 127 - 18}


def scaled(how: formats.Settings, total: Array, row: Array, column: Array, bias: Array | None) -> Array:
    """``total * row * column + bias`` of tiles, as instructions compute it, each rounded to float32.

    ``total`` is [down, across, m, n] in int32 (format int8) or float32 (fp8), the others float32: ``row``
    [down, 1, m, 1], ``column`` and ``bias`` [1, across, 1, n].
    """
    operands = (total, row, column, *(() if bias is None else (bias,)))

    def instructions(*operands: Array) -> Any:
        return tiling.each(partial(_tile, how), *operands)

    def attempted(*operands: Array) -> Any:
        return lax.cond(_normal(how, *operands[1:]), _native, instructions, *operands)

    if how.numerics == "fast":
        return instructions(*operands)  # type: ignore[no-any-return]
    result: Array = lax.platform_dependent(*operands, cpu=attempted, default=instructions)
    return result


def _tile(how: formats.Settings, total: Array, row: Array, column: Array, bias: Array | None = None) -> Array:
    """One tile by instructions."""
    if total.dtype == np.int32:
        total = ops.tcvt(total, dst="f32", **how.options).array
    result = ops.tcolexpandmul(ops.trowexpandmul(total, row, **how.options), column, **how.options)
    if bias is not None:
        result = ops.tcolexpandadd(result, bias, **how.options)
    words: Array = result.array
    return words


def _native(total: Array, row: Array, column: Array, bias: Array | None = None) -> Array:
    """The same in float32, each operation rounded by itself, NaN canonical."""
    a = NativeFloat(F32)
    result = a.mul(a.mul(lax.convert_element_type(total, np.float32), row), column)
    return result if bias is None else a.add(result, bias)


def _normal(how: formats.Settings, row: Array, column: Array, bias: Array | None = None) -> Array:
    """Whether no operand, product or sum can be a float32 subnormal."""
    first, second = _field(row), _field(column)
    scaled = np.int32(_LEAST[how.format.name]) + first
    products = scaled + second - np.int32(127)
    normal = (lax.min(first, second) > 0) & (scaled >= np.int32(127 + 1))
    if bias is None:
        return normal & (products >= np.int32(127 + 1))
    # A sum is a multiple of the last place of the smaller operand.
    return normal & (products >= np.int32(127 + 1 + 23)) & (_field(bias) >= np.int32(1 + 23))


def _field(x: Array) -> Array:
    """A lower bound of the exponent fields of the numbers that are not zero; 255 if there are none."""
    words = lax.bitcast_convert_type(x, np.uint32)
    keys = (words << np.uint32(1)) - np.uint32(1)
    least = lax.reduce(keys, np.uint32(0xFFFFFFFF), lax.min, tuple(range(x.ndim)))
    return lax.convert_element_type(least >> np.uint32(24), np.int32)
