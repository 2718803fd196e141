"""The kernel for products on GPUs, in Pallas' interpreter, against the fold in float64."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.ir.dtypes import BF16, F8E4M3, F8E5M2, F16, DType
from pto_jax.lowering import bits, products, products_gpu
from pto_jax.lowering.words import x64


def fused(x: Any, y: Any, z: Any) -> Any:
    """What ``fma.rn.f32`` computes: the float64 sum rounded to odd, then to float32."""
    with x64():
        wide = [bits.decode32(jax.lax.bitcast_convert_type(v, np.uint32)) for v in (x, y, z)]
        words = bits.encode32(products.odd_sum(wide[0] * wide[1], wide[2]))
        return jax.lax.bitcast_convert_type(words, np.float32)


def words(shape: tuple[int, ...], seed: int, exponents: tuple[int, int]) -> NDArray[np.uint32]:
    """Random float32 words with biased exponents in a range, some infinite, NaN or zero."""
    rng = np.random.default_rng(seed)
    fields = rng.integers(*exponents, shape).astype(np.uint32) << np.uint32(23)
    found = (rng.integers(0, 2**32, shape, np.uint64).astype(np.uint32) & np.uint32(0x807FFFFF)) | fields
    special = rng.random(shape) < 0.002
    return np.where(
        special, rng.choice(np.array([0, 0x80000000, 0x7F800000, 0x7FC00000], np.uint32), shape), found
    )


@pytest.mark.parametrize(
    "exponents", [(0, 255), *(pytest.param(e, marks=pytest.mark.slow) for e in ((120, 134), (50, 70)))]
)
@pytest.mark.parametrize(
    "shape", [pytest.param((2, 16, 16, 16), marks=pytest.mark.slow), (1, 33, 7, 70), (3, 1, 5, 1)]
)
def test_the_kernel_is_the_fold(shape: tuple[int, int, int, int], exponents: tuple[int, int]) -> None:
    batch, m, k, n = shape
    x, y = (jax.numpy.asarray(words(s, i, exponents)) for i, s in enumerate([(batch, m, k), (batch, k, n)]))
    got = products_gpu.fold(x, y, fma=fused, interpret=True)
    with x64():
        wanted = products._careful(products.Precision(46, exact=False), x, y)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))


@pytest.mark.parametrize(
    "types", [pytest.param((F16, F16), marks=pytest.mark.slow), (BF16, BF16), (F8E4M3, F8E5M2)], ids=str
)
def test_the_kernel_decodes_narrow_types(types: tuple[DType, DType]) -> None:
    rng = np.random.default_rng(0)
    shapes = (2, 16, 32), (2, 32, 16)
    x, y = (
        jax.numpy.asarray(rng.integers(0, 1 << d.bits, shape).astype(d.word))
        for d, shape in zip(types, shapes, strict=True)
    )
    got = products_gpu.fold(x, y, types, fma=fused, interpret=True)
    with x64():
        singles = (bits.to_single(w, d) for w, d in zip((x, y), types, strict=True))
        wanted = products._careful(products.Precision(46, exact=False), *singles)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))


@pytest.mark.parametrize("exponents", [(-140, 140), (-60, -40)])
@pytest.mark.parametrize("shape", [(2, 16, 32, 16), (1, 33, 7, 70)])
def test_the_kernel_of_wide_operands_is_the_fold(
    shape: tuple[int, int, int, int], exponents: tuple[int, int]
) -> None:
    batch, m, k, n = shape
    rng = np.random.default_rng(0)

    def scaled(*shape: int) -> NDArray[np.float64]:
        """Elements of three fraction bits times powers of two, some infinite, NaN or a zero."""
        values = np.ldexp(
            rng.integers(8, 16, shape) * rng.choice([-1.0, 1.0], shape), rng.integers(*exponents, shape)
        )
        specials = rng.choice([0.0, -0.0, np.inf, np.nan], shape)
        return np.where(rng.random(shape) < 0.01, specials, values)

    with x64():
        x, y = jax.numpy.asarray(scaled(batch, m, k)), jax.numpy.asarray(scaled(batch, k, n))
        singles = [bits.encode32(o) for o in (x, y)]
        got = products_gpu.fold_wide(singles[0], singles[1], x, y, interpret=True)
        wanted = products._careful(products.Precision(6, exact=True), *singles, x, y)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))


@pytest.mark.parametrize(("exact", "kernel"), [(True, True), (False, False)])
def test_code_for_cuda_is_the_kernel_where_sums_of_wide_operands_round_once(
    exact: bool, kernel: bool
) -> None:
    x, y = words((16, 16), 1, (120, 134)), words((16, 16), 2, (120, 134))

    def product(x: Any, y: Any) -> Any:
        with x64():
            both = bits.decode32(x), bits.decode32(y)
            return products.fold(x, y, products.Precision(46, exact), wide=both)

    traced = jax.jit(product).trace(x, y)
    text = str(traced.lower(lowering_platforms=("cuda",)).as_text())
    assert ("pto_product" in text) == kernel and ("stablehlo.while" in text) != kernel
    assert "pto_product" not in str(traced.lower(lowering_platforms=("cpu",)).as_text())


def test_rounding_to_the_grid_of_float32_keeps_words_in_between() -> None:
    """XLA for GPUs drops a conversion to float32 and back, which is all that :func:`settle32` has."""
    values = np.array([1 + 2.0**-30, -(2.0**-149) * 1.5, 3e38, 1e39, 0.0, -0.0, np.nan, 2.0**-126])
    with x64():
        plain, apart = (
            np.asarray(f(jax.numpy.asarray(values))) for f in (bits.settle32, bits.settle32_apart)
        )
        text = str(jax.jit(bits.settle32_apart).lower(values).as_text())
    np.testing.assert_array_equal(
        plain.view(np.uint64)[values == values], apart.view(np.uint64)[values == values]
    )
    assert np.isnan(apart[6]) and "bitcast_convert" in text and "stablehlo.select" in text
