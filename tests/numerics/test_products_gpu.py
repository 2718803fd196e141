"""The kernel for products on GPUs, in Pallas' interpreter, against the fold in float64."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.ir import BF16, F8E4M3, F8E5M2, F16, F32, DType, dtype
from pto_jax.lowering import bits, matrix, merging_gpu, primitives, products
from pto_jax.lowering.bits import x64

E8M0 = dtype("f8e8m0")


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "exponents", [(0, 255), *(pytest.param(e, marks=pytest.mark.slow) for e in ((120, 134), (50, 70)))]
)
@pytest.mark.parametrize(
    "shape", [pytest.param((2, 16, 16, 16), marks=pytest.mark.slow), (1, 33, 7, 70), (3, 1, 5, 1)]
)
def test_the_kernel_is_the_fold(shape: tuple[int, int, int, int], exponents: tuple[int, int]) -> None:
    batch, m, k, n = shape
    x, y = (jax.numpy.asarray(words(s, i, exponents)) for i, s in enumerate([(batch, m, k), (batch, k, n)]))
    got = merging_gpu.fold(x, y, fma=fused, interpret=True)
    with x64():
        expected = products._careful(products.Precision(46, exact=False), x, y)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


@pytest.mark.variants(0)
@pytest.mark.parametrize("types", [(F16, F16), (BF16, BF16), (F8E4M3, F8E5M2)], ids=str)
def test_the_kernel_decodes_narrow_types(types: tuple[DType, DType]) -> None:
    rng = np.random.default_rng(0)
    shapes = (2, 16, 32), (2, 32, 16)
    x, y = (
        jax.numpy.asarray(rng.integers(0, 1 << d.bits, shape).astype(d.word))
        for d, shape in zip(types, shapes, strict=True)
    )
    got = merging_gpu.fold(x, y, types, fma=fused, interpret=True)
    with x64():
        singles = (bits.to_single(w, d) for w, d in zip((x, y), types, strict=True))
        expected = products._careful(products.Precision(46, exact=False), *singles)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


@pytest.mark.nightly
@pytest.mark.slow
def test_the_kernels_start_from_words() -> None:
    given = [words(s, i, (120, 134)) for i, s in enumerate([(1, 9, 3), (1, 3, 5), (1, 9, 5)])]
    given[2][0, 0, :3] = (0x80000000, 0x7F800000, 0x7FC00001)
    with x64():
        x, y, start = map(jax.numpy.asarray, given)
        got = merging_gpu.fold(x, y, fma=fused, interpret=True, start=start)
        expected = products._careful(products.Precision(46, exact=False), x, y, start=start)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))
        codes = [jax.numpy.asarray((w & 0x77).astype(np.uint8)) for w in (x, y)]
        scales = [jax.numpy.full(shape, 127, np.uint8) for shape in ((1, 9, 1), (1, 1, 5))]
        types = (F8E4M3, F8E4M3, E8M0)
        got = merging_gpu.fold_scaled(
            codes[0], scales[0], codes[1], scales[1], types, 32, interpret=True, start=start
        )
        wide = [bits.decode32(bits.to_single(w, F8E4M3)) for w in codes]
        expected = products._careful(products.Precision(6, exact=True), *codes, *wide, start=start)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


SCALED = [(F8E4M3, F8E5M2), (F8E5M2, F8E5M2), (dtype("f4e2m1x2"), dtype("f4e1m2x2"))]


@pytest.mark.variants(0)
# Smaller scales make subnormal sums, which a CPU flushes where it interprets a kernel.
@pytest.mark.parametrize("scales", [(80, 250), (120, 134)])
@pytest.mark.parametrize("shape", [(2, 16, 64, 16), (1, 33, 39, 70), (3, 1, 5, 1)])
@pytest.mark.parametrize("types", SCALED, ids=str)
def test_the_kernel_of_scaled_elements_is_the_fold(
    types: tuple[DType, DType], shape: tuple[int, int, int, int], scales: tuple[int, int]
) -> None:
    (batch, m, k, n), rng = shape, np.random.default_rng(0)
    groups, (left, right) = -(-k // 32), types
    shapes = (batch, m, k), (batch, m, groups), (batch, k, n), (batch, groups, n)
    limits = (0, 1 << left.bits), scales, (0, 1 << right.bits), scales
    given = [rng.integers(*limit, size).astype(np.uint8) for limit, size in zip(limits, shapes, strict=True)]
    # Else every sum is NaN.
    given[0], given[2] = (
        np.where(np.isnan(bits.value_table(d)[w]) & (rng.random(w.shape) < 0.98), 0, w).astype(np.uint8)
        for w, d in zip(given[::2], types, strict=True)
    )
    with x64():
        operands = [jax.numpy.asarray(w) for w in given]
        x, x_scales, y, y_scales = operands
        got = merging_gpu.fold_scaled(
            x, x_scales, y, y_scales, types=(*types, E8M0), group=32, interpret=True
        )
        values = [
            bits.value_table(d)[w]
            * np.repeat(bits.value_table(E8M0)[s], 32, axis)[:, : w.shape[1], : w.shape[2]]
            for w, s, d, axis in zip(given[::2], given[1::2], types, (2, 1), strict=True)
        ]
        wide = map(jax.numpy.asarray, values)
        expected = products._careful(products.Precision(6, exact=True), *operands[::2], *wide)
        chosen = matrix._fold((*types, E8M0))(*operands)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))
    np.testing.assert_array_equal(np.asarray(chosen), np.asarray(expected))


def test_code_for_cuda_is_the_kernel_that_reads_the_words() -> None:
    """Nothing of a scaled factor is decoded outside of the kernel."""
    shapes = ((2, 16, 64), (2, 16, 2), (2, 64, 16), (2, 2, 16))
    words = [np.zeros(shape, np.uint8) for shape in shapes]

    def product(*words: Any) -> Any:
        with x64():
            return matrix._fold((F8E4M3, F8E4M3, E8M0))(*words)

    traced = jax.jit(product).trace(*words)
    cuda = str(traced.lower(lowering_platforms=("cuda",)).as_text())
    assert "pto_product" in cuda and "stablehlo.while" not in cuda
    assert "2x64x16xf64" not in cuda and "2x64x16xui32" not in cuda
    assert "pto_product" not in str(traced.lower(lowering_platforms=("cpu",)).as_text())


@pytest.mark.slow
@pytest.mark.parametrize("d", [F32, F16, F8E4M3], ids=str)
def test_without_triton_gpus_get_other_code_with_the_same_bits(
    d: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primitives, "lowers_triton", lambda: False)
    rng = np.random.default_rng(5)
    x, y = (
        jnp.asarray(rng.integers(0, 1 << d.bits, shape, dtype=np.uint64).astype(d.word))
        for shape in ((2, 5, 9), (2, 9, 6))
    )
    precision = matrix._PRECISIONS.get(d, matrix._NARROW)
    with x64():
        own = products._own(precision, (d, d), False, partial(products._prepared, (d, d), False))
        with pytest.warns(pto.PtoWarning, match="product: code for GPUs without its Triton kernel"):
            got = own((x, y), None)
        kernel = merging_gpu.fold(x, y, (d, d), fma=fused, interpret=True)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(kernel))


@pytest.mark.slow
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
