"""Products that float32 holds, added up in order in float32, against the fold in float64."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.ir import BF16, F8E4M3, F16, DType, dtype
from pto_jax.lowering import bits, products
from pto_jax.lowering.bits import x64

NARROW = products.Precision(None, exact=True)
#: Addends: both zeros, subnormals, numbers around them and around products, infinities and NaN.
STARTS = (0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x0C000001, 0x8D000000, 0x3F800000, 0xFF7FFFFF,
          0x7F800000, 0xFF800000, 0x7FC00000, 0xFFA00001)  # fmt: skip


def codes(d: DType, shape: tuple[int, ...], seed: int, finite: bool = True) -> NDArray[Any]:
    """Words of a type, a third of them zeros; the others all, or finite ones."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << d.bits, shape).astype(d.word)
    if finite:
        words = np.where(np.isfinite(words.view(d.numpy).astype(np.float32)), words, 0).astype(d.word)
    return np.where(rng.random(shape) < 0.3, words & d.word.type(1 << (d.bits - 1)), words).astype(d.word)


def starts(shape: tuple[int, ...]) -> NDArray[np.uint32]:
    return np.resize(np.array(STARTS, np.uint32), shape)


@pytest.mark.variants(1)
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("finite", [True, False])
@pytest.mark.parametrize("d", [F16, F8E4M3, dtype("f8e5m2")], ids=str)
def test_narrow_elements(d: DType, finite: bool, started: bool) -> None:
    x, y = codes(d, (2, 13, 37), 1, finite), codes(d, (2, 37, 21), 2, finite)
    x[0, 3], y[1, :, 5] = 0, 0
    start = starts((2, 13, 21)) if started else None
    with x64():
        singles = [bits.to_single(jnp.asarray(w), d) for w in (x, y)]
        result = jax.jit(products._narrow)(*singles, start)
        expected = jax.jit(lambda x, y, s: products._careful(NARROW, x, y, start=s))(*singles, start)
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))


@pytest.mark.variants(1)
@pytest.mark.parametrize("shape", [(3, 5, 33, 7), (1, 70, 40, 90), (1, 9, 16, 300), (1, 130, 17, 8)])
def test_blocks_of_sums(shape: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    batch, m, k, n = shape
    x, y = codes(F16, (batch, m, k), 3), codes(F16, (batch, k, n), 4)
    start = starts((batch, m, n))
    with x64():
        singles = [bits.to_single(jnp.asarray(w), F16) for w in (x, y)]
        expected = jax.jit(products._narrow)(*singles, start)
        monkeypatch.setattr(products, "CACHED", 512)
        monkeypatch.setattr(products, "BLOCK", 64)
        # Another function, as JAX keeps what it has traced.
        result = jax.jit(lambda *o: products._narrow(*o))(*singles, start)
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))


def bf16(values: NDArray[Any]) -> NDArray[np.uint16]:
    return np.asarray(values, np.float32).astype(BF16.numpy).view(np.uint16)


@pytest.mark.variants(0)
@pytest.mark.parametrize("special", ["none", "overflow", "subnormal product", "subnormal start", "infinity"])
def test_wide_exponents_are_certified(special: str) -> None:
    rng = np.random.default_rng(5)
    m, k, n = 32, 64, products.WIDE
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    start = rng.standard_normal((m, n)).astype(np.float32)
    match special:
        case "overflow":
            # The product alone is infinite, the sum with it is not.
            x[3, 0], y[0], start[3] = 2.0**64, 2.0**64, -(2.0**127)
            x[3, 1:] = 0
        case "subnormal product":
            x[3, :2], y[:2] = (2.0**-70, 0), 2.0**-70
            start[3] = 0
        case "subnormal start":
            x[3], start[3] = 0, 2.0**-140
        case "infinity":
            x[3, 5] = np.inf
    precision = products.Precision(14, exact=True)
    operands = [jnp.asarray(bf16(v)) for v in (x, y)]
    with x64():
        words = jnp.asarray(start.view(np.uint32))
        result = jax.jit(lambda x, y, s: products.fold(x, y, precision, (BF16, BF16), start=s))(
            *operands, words
        )
        singles = [bits.to_single(o, BF16)[None] for o in operands]
        expected = jax.jit(lambda x, y, s: products._careful(precision, x, y, start=s))(*singles, words[None])
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected)[0])
    if special == "overflow":
        assert np.isfinite(np.asarray(result).view(np.float32)[3]).all()
