"""Products of floats on GPUs: the ascending fold as one kernel, whose loop keeps the sums in registers.

A loop of XLA's is a launch per step on a GPU. Here a block of rows and columns is one Triton program that
runs through K with ``fma.rn.f32``, which is the step of the fold. Operands that float32 cannot hold are
multiplied and added in float64 and rounded to float32 after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import BF16, F16, F32, DType

from . import bits

if TYPE_CHECKING:
    from jaxtyping import Float32, Shaped, UInt, UInt8, UInt32

_like: Any = jax.ShapeDtypeStruct
#: Rows and columns of a program's block, at most.
ROWS, COLUMNS = 32, 64
#: Types whose words the kernel converts to float32, which is exact.
_CONVERTED = (F32, F16, BF16)
#: ``(x, y, z) -> x * y + z`` with one rounding, of float32 blocks.
Fused = Callable[[Any, Any, Any], Any]
#: ``(pair, number) -> column and row`` of a left and a right factor.
Lines = Callable[[int, Any], tuple[Any, Any]]
#: ``(number of the step, lines, tables, sums) -> sums`` of blocks.
Step = Callable[[Any, Lines, Any, Any], Any]


def fused(x: Float32[Array, "*s"], y: Float32[Array, "*s"], z: Float32[Array, "*s"]) -> Float32[Array, "*s"]:
    """``fma.rn.f32``; Triton would round the product of ``x * y + z`` by itself."""
    from jax.experimental.pallas import triton

    (result,) = triton.elementwise_inline_asm(
        "fma.rn.f32 $0, $1, $2, $3;",
        args=[x, y, z],
        constraints="=f,f,f,f",
        pack=1,
        result_shape_dtypes=[_like(z.shape, np.float32)],
    )
    return result


def fold(
    x: UInt[Array, "batch M K"],
    y: UInt[Array, "batch K N"],
    types: tuple[DType, DType] = (F32, F32),
    fma: Fused = fused,
    interpret: bool = False,
    start: UInt32[Array, "batch M N"] | None = None,
) -> UInt32[Array, "batch M N"]:
    """float32 words of the fold ``s = fma(x[i, k], y[k, j], s)`` from +0 or words, NaN canonical."""
    # The values of other types are looked up in a table.
    x, y = (w if d in _CONVERTED else bits.to_single(w, d) for w, d in zip((x, y), types, strict=True))
    return _launched(partial(_fused_step, fma, types), [(x, y)], (), interpret, start)


def fold_scaled(
    x: UInt8[Array, "batch M K"],
    x_scales: UInt8[Array, "batch M groups"],
    y: UInt8[Array, "batch K N"],
    y_scales: UInt8[Array, "batch groups N"],
    types: tuple[DType, DType, DType],
    group: int,
    interpret: bool = False,
    start: UInt32[Array, "batch M N"] | None = None,
) -> UInt32[Array, "batch M N"]:
    """:func:`fold` of elements times scales, each of a ``group`` along K; types are of x, y and scales.

    Scaled elements are float64 and their products have at most 24 significant bits. So a float64 sum of a
    product and a float32 number rounds to float32 as the exact sum does, whether or not the product was
    rounded before. Words are decoded in the kernel, by a table of every type's values.
    """
    tables = [jnp.asarray(bits.value_table(d)) for d in types]
    step = partial(_scaled_step, types, group)
    return _launched(step, [(x, y), (x_scales, y_scales)], tables, interpret, start)


def _launched(
    step: Step,
    pairs: Sequence[tuple[Shaped[Array, "batch M _"], Shaped[Array, "batch _ N"]]],
    tables: Sequence[Shaped[Array, " codes"]],
    interpret: bool,
    start: UInt32[Array, "batch M N"] | None,
) -> UInt32[Array, "batch M N"]:
    """The sums after all steps, which are as many as the first pair has columns and rows."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (batch, m, k), n = pairs[0][0].shape, pairs[0][1].shape[2]
    # Blocks are powers of two.
    rows, columns = min(_power(m), ROWS), min(_power(n), COLUMNS)
    left = [jnp.pad(x, ((0, 0), (0, -m % rows), (0, 0))).swapaxes(1, 2) for x, _ in pairs]
    right = [jnp.pad(y, ((0, 0), (0, 0), (0, -n % columns))) for _, y in pairs]
    first = [] if start is None else [jnp.pad(start, ((0, 0), (0, -m % rows), (0, -n % columns)))]
    shape = (batch, left[0].shape[2], right[0].shape[2])
    total = pl.pallas_call(
        partial(_block, k, (rows, columns), len(pairs), step, len(first)),
        out_shape=_like(shape, np.uint32),
        grid=(batch, shape[1] // rows, shape[2] // columns),
        out_specs=pl.BlockSpec((1, rows, columns), lambda b, i, j: (b, i, j)),
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(),
        name="pto_product",
    )(*left, *right, *first, *tables)
    result: Array = total[:, :m, :n]
    return result


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _fused_step(fma: Fused, types: tuple[DType, DType], at: Any, lines: Lines, tables: Any, sums: Any) -> Any:
    del tables
    x, y = (jnp.broadcast_to(_decoded(w, d), sums.shape) for w, d in zip(lines(0, at), types, strict=True))
    return fma(x, y, sums)


def _decoded(words: Any, d: DType) -> Any:
    """float32 values of words; float32 words of what the kernel does not convert."""
    values = lax.bitcast_convert_type(words, (d if d in _CONVERTED else F32).numpy)
    return lax.convert_element_type(values, np.float32)


def _scaled_step(
    types: tuple[DType, DType, DType], group: int, at: Any, lines: Lines, tables: Any, sums: Any
) -> Any:
    def value(words: Any, which: int) -> Any:
        codes = np.int32((1 << types[which].bits) - 1)
        return tables[which][lax.convert_element_type(words, np.int32) & codes]

    scales = (value(words, 2) for words in lines(1, lax.div(at, np.int32(group))))
    x, y = (
        value(words, i) * scale for i, (words, scale) in enumerate(zip(lines(0, at), scales, strict=True))
    )
    return lax.convert_element_type(x * y + lax.convert_element_type(sums, np.float64), np.float32)


def _block(k: int, shape: tuple[int, int], count: int, step: Step, started: int, *refs: Any) -> None:
    """One block of the sums; left factors are [batch, K, M], so that a step reads lines of both."""
    from jax.experimental import pallas as pl

    left, right, others, total = refs[:count], refs[count : 2 * count], refs[2 * count : -1], refs[-1]
    first, tables = others[:started], others[started:]
    batch, i, j = (pl.program_id(axis) for axis in range(3))
    rows, columns = (pl.ds(place * np.int32(size), size) for place, size in zip((i, j), shape, strict=True))

    def lines(pair: int, at: Any) -> tuple[Any, Any]:
        return left[pair][batch, at, rows][:, None], right[pair][batch, at, columns][None, :]

    def add(at: Any, sums: Any) -> Any:
        # A loop of known length counts in 64 bits.
        return step(lax.convert_element_type(at, np.int32), lines, tables, sums)

    begin = lax.bitcast_convert_type(first[0][batch, rows, columns], np.float32) if started else None
    sums = lax.fori_loop(
        np.int32(0), np.int32(k), add, jnp.zeros(shape, np.float32) if begin is None else begin
    )
    words = lax.bitcast_convert_type(sums, np.uint32)
    total[0] = jnp.where(sums != sums, np.uint32(F32.canonical_nan), words)
