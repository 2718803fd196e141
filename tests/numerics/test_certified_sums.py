"""Ordered float32 sums, computed in float32 where a certificate says that no sum is subnormal."""

from functools import cache
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.ir import BF16, F16, F32, DType
from pto_jax.lowering import folds
from pto_jax.lowering.bits import x64
from pto_jax.lowering.numerics import ExactFloat

_EXACT = ExactFloat(F32)
ROWS, COLS = 16, 40
KINDS = (
    "plain",
    "30 % subnormal",
    "subnormal",
    "around the certificate",
    "nan",
    "infinities",
    "zeros",
    "large",
)
TYPES = {
    "t": "!pto.tile_buf<vec, 16x40xf32>",
    "r": "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>",
    "c": "!pto.tile_buf<vec, 1x40xf32>",
    "v": "!pto.tensor_view<?x?xf32>",
    **{
        f"{n}p": f"!pto.partition_tensor_view<{s}xf32>"
        for n, s in (("t", "16x40"), ("r", "16x1"), ("c", "1x40"))
    },
}
TEXT = """func.func @sums(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %rows: !pto.ptr<f32>, %cols: !pto.ptr<f32>)
    attributes {{pto.entry, pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = arith.constant 16 : index
  %n = arith.constant 40 : index
  %xv = pto.make_tensor_view %x, shape = [%m, %n], strides = [%n, %c1] : {v}
  %yv = pto.make_tensor_view %y, shape = [%m, %n], strides = [%n, %c1] : {v}
  %rv = pto.make_tensor_view %rows, shape = [%m, %c1], strides = [%c1, %c1] : {v}
  %cv = pto.make_tensor_view %cols, shape = [%c1, %n], strides = [%n, %c1] : {v}
  %xw = pto.partition_view %xv, offsets = [%c0, %c0], sizes = [%m, %n] : {v} -> {tp}
  %yw = pto.partition_view %yv, offsets = [%c0, %c0], sizes = [%m, %n] : {v} -> {tp}
  %rw = pto.partition_view %rv, offsets = [%c0, %c0], sizes = [%m, %c1] : {v} -> {rp}
  %cw = pto.partition_view %cv, offsets = [%c0, %c0], sizes = [%c1, %n] : {v} -> {cp}
  %a = pto.alloc_tile : {t}
  %b = pto.alloc_tile : {t}
  %r = pto.alloc_tile : {r}
  %c = pto.alloc_tile : {c}
  pto.tload ins(%xw : {tp}) outs(%a : {t})
  pto.tload ins(%yw : {tp}) outs(%b : {t})
  pto.tmul ins(%a, %b : {t}, {t}) outs(%a : {t})
  pto.trowsum ins(%a, %b : {t}, {t}) outs(%r : {r})
  pto.tcolsum ins(%a : {t}) outs(%c : {c})
  pto.tstore ins(%r : {r}) outs(%rw : {rp})
  pto.tstore ins(%c : {c}) outs(%cw : {cp})
  return
}}
"""


def _values(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Numbers of a kind; products of them with numbers about 1 are of the kind too."""
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-8, 8, shape))
    chosen = rng.random(shape)
    match kind:
        case "30 % subnormal":
            x = np.where(chosen < 0.3, x * 2.0**-136, x)
        case "subnormal":
            x = x * 2.0**-136
        case "around the certificate":
            x = x * 2.0 ** -rng.choice([100, 101, 102, 103, 110, 120])
        case "nan":
            x = np.where(chosen < 0.02, np.nan, x)
        case "infinities":
            x = np.where(chosen < 0.02, np.inf, np.where(chosen > 0.98, -np.inf, x))
        case "zeros":
            x = np.where(chosen < 0.9, np.where(chosen < 0.7, -0.0, 0.0), x)
            x = np.where(rng.random(shape[:-1])[..., None] < 0.3, -0.0, x)
        case "large":
            x = x * 2.0**118
    return x.astype(np.float32)


def _words(x: NDArray[Any]) -> NDArray[np.uint32]:
    """The words of float32 numbers, NaN canonical."""
    words: NDArray[np.uint32] = np.where(np.isnan(x), np.uint32(0x7FC00000), x.view(np.uint32))
    return words


def _sums(products: NDArray[np.float32], axis: int) -> NDArray[np.uint32]:
    """What one addition after the other makes, from +0."""
    total = np.zeros_like(np.take(products, 0, axis))
    with np.errstate(all="ignore"):
        for i in range(products.shape[axis]):
            total = total + np.take(products, i, axis)
    return _words(total)


def agrees(kind: str, batch: int, rng: np.random.Generator, kernel: Any) -> None:
    """Check the sums of the products of a batch of tiles."""
    shape = (batch, ROWS, COLS)
    x, y = _values(kind, shape, rng), rng.uniform(0.5, 2, shape).astype(np.float32)
    with np.errstate(all="ignore"):
        products = x * y
    found = kernel(x, y, np.zeros((batch, ROWS), np.float32), np.zeros((batch, COLS), np.float32))
    for name, axis in (("rows", 2), ("cols", 1)):
        got = np.asarray(found[name])
        np.testing.assert_array_equal(_words(got), _sums(products, axis), f"{kind}, {name}")


@cache
def _kernels() -> tuple[pto.Kernel, Any]:
    """The kernel for one tile, and for a batch."""
    kernel = pto.compile(pto.parse(TEXT.format(**TYPES)), profile="cpu_sim", warn=False)
    return kernel, jax.jit(jax.vmap(kernel))


@pytest.mark.variants(0)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_products_are_those_of_the_additions_in_order(kind: str) -> None:
    rng, (kernel, batch) = np.random.default_rng(0), _kernels()
    agrees(kind, 8, rng, batch)
    agrees(kind, 1, rng, lambda *tile: {n: v[None] for n, v in kernel(*(a[0] for a in tile)).items()})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_sums_of_products(kind: str) -> None:
    rng, (_, batch) = np.random.default_rng(1), _kernels()
    for _ in range(8):
        agrees(kind, 256, rng, batch)


@pytest.mark.slow
def test_a_batch_of_numbers_that_are_large_enough_is_summed_in_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other way gives other bits here, so that the numbers tell which one computes."""
    monkeypatch.setattr(
        folds, "_careful_fold", lambda a, s, o, lines, axis, unroll: lines.sum(axis, lines.dtype) * 0 + 7
    )
    folds._certified_sums.cache_clear()
    x: Any = np.full((4, ROWS, COLS), 2.0**-102, np.float32)
    x[:, 0, 0] = -0.0
    tiny = x.copy()
    tiny[3, 2, 1] = np.float32(2.0**-102) * np.float32(1 - 2.0**-24)
    with x64():
        sums: Any = jax.vmap(lambda w: folds.left_fold(_EXACT, _EXACT, "add", w, 1))
        got, other = (np.asarray(sums(v.view(np.uint32))) for v in (x, tiny))
    folds._certified_sums.cache_clear()
    np.testing.assert_array_equal(got, _sums(x, 2))
    assert (other == 7).all()


@pytest.mark.slow
@pytest.mark.parametrize(("d", "native"), [(BF16, ml_dtypes.bfloat16), (F16, np.float16)])
def test_sums_of_short_floats(d: DType, native: Any) -> None:
    rng = np.random.default_rng(0)
    sums = [jax.jit(lambda x, i=i: folds.left_fold(_EXACT, ExactFloat(d), "add", x, i)) for i in (0, 1)]
    for kind in KINDS:
        with np.errstate(over="ignore"):
            x = _values(kind, (ROWS, COLS), rng).astype(native)
        for axis in (0, 1):
            with x64():
                got = sums[axis](x.view(np.uint16))
            np.testing.assert_array_equal(np.asarray(got), _sums(x.astype(np.float32), axis), kind)


@pytest.mark.variants(1)
@pytest.mark.parametrize("d", [F16, BF16, F32])
@pytest.mark.parametrize("count", [0, 1, 20])
def test_sums_of_negative_zeros_are_positive(d: DType, count: int) -> None:
    """Every sum begins with +0, in the type that it is accumulated in."""
    lines = np.full((count, 4), 1 << (d.bits - 1), d.word)
    with x64():
        got = folds.left_fold(ExactFloat(d), ExactFloat(d), "add", lines)
    assert np.asarray(got).tolist() == [0, 0, 0, 0]
