"""Integers at their limits, and comparisons of words, which agree with IEEE comparisons of their values."""

import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import isa, ops
from pto_jax.ir import BF16, F16, F32, CmpMode, DType
from pto_jax.lowering.bits import x64
from pto_jax.lowering.numerics import ExactFloat

TYPES = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]


def data(d: str, seed: int) -> NDArray[Any]:
    """Random patterns and every pair of edge values, as a 1 x 2048 row."""
    dtype = pto.dtype(d).numpy
    limits = np.iinfo(str(dtype))
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**64, 2048, dtype=np.uint64).astype(dtype)
    edges = np.array([0, 1, 2, 3, limits.max, limits.max - 1, limits.min, limits.min // 2], dtype)
    if limits.min < 0:
        edges[-1] = -1
    first, second = np.meshgrid(edges, edges)
    values[:64] = (first if seed == 0 else second).reshape(-1)
    return values[None]


def run(name: str, *sources: NDArray[Any], jit: bool) -> NDArray[Any]:
    function = getattr(ops, name)

    def call(*tiles: Any) -> Any:
        return function(*tiles, profile="cpu_sim")

    tiles = [pto.tile(x) for x in sources]
    return np.asarray(jax.jit(lambda: call(*tiles))() if jit else call(*tiles))


@pytest.mark.variants(3)
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("d", TYPES)
def test_sums_differences_and_products_wrap(d: str, jit: bool) -> None:
    x, y = data(d, 0), data(d, 1)
    with np.errstate(over="ignore"):
        expected = {"tadd": x + y, "tsub": x - y, "tmul": x * y, "tneg": -x}
    for name, value in expected.items():
        if d in types_of(name):
            sources = (x,) if name == "tneg" else (x, y)
            assert (run(name, *sources, jit=jit) == value).all(), name


def types_of(name: str) -> set[str]:
    return {row[0] for row in isa.instructions()[name].types["cpu_sim"]}


def divided(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Truncated quotient (all ones by zero, wrapped at the smallest number by -1) and remainder."""
    pairs = list(zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True))
    quotients = [-1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    bits = 8 * x.dtype.itemsize
    wrapped = np.array([q % 2**bits for q in quotients], np.uint64).astype(f"u{bits // 8}").view(x.dtype)
    rest = [a if b == 0 else a - b * q for (a, b), q in zip(pairs, quotients, strict=True)]
    return wrapped.reshape(x.shape), np.array(rest, x.dtype).reshape(x.shape)


@pytest.mark.variants(6)
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("d", TYPES)
def test_division_never_traps(d: str, jit: bool) -> None:
    x, y = data(d, 0), data(d, 1)
    quotient, rest = divided(x, y)
    if d in types_of("tdiv"):
        assert (run("tdiv", x, y, jit=jit) == quotient).all()
    if d in types_of("tfmod"):
        assert (run("tfmod", x, y, jit=jit) == rest).all()
    if d in types_of("trem"):
        signed = np.iinfo(x.dtype).min < 0
        adjust = (rest != 0) & ((rest < 0) != (y < 0)) if signed else np.zeros(x.shape, bool)
        assert (run("trem", x, y, jit=jit) == np.where(adjust, rest + y, rest)).all()


@pytest.mark.variants(6)
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("d", TYPES)
def test_shift_counts_are_taken_modulo_the_promoted_width(d: str, jit: bool) -> None:
    x = data(d, 0)
    bits = 8 * x.dtype.itemsize
    counts = np.resize(np.arange(2 * max(bits, 32)), x.shape).astype(x.dtype)
    modulus = max(bits, 32)
    pairs = list(zip(x.reshape(-1).tolist(), (int(c) % modulus for c in counts.reshape(-1)), strict=True))
    left = np.array([(a << c) % 2**bits for a, c in pairs], np.uint64).astype(f"u{bits // 8}").view(x.dtype)
    right = np.array([a >> c for a, c in pairs], x.dtype)
    if d in types_of("tshl"):
        assert (run("tshl", x, counts, jit=jit) == left).all()
        assert (run("tshr", x, counts, jit=jit) == right).all()


_VALUES: dict[CmpMode, Callable[[Any, Any], Any]] = {
    CmpMode.EQ: operator.eq,
    CmpMode.NE: operator.ne,
    CmpMode.LT: operator.lt,
    CmpMode.LE: operator.le,
    CmpMode.GT: operator.gt,
    CmpMode.GE: operator.ge,
}


def _special_words(d: DType) -> np.ndarray:
    """Zeros, the subnormals' and normals' limits, infinities and NaNs of both signs."""
    infinity = ((1 << d.exponent) - 1) << d.mantissa
    normal = 1 << d.mantissa
    codes = [0, 1, 2, normal - 1, normal, normal + 1, infinity - 1, infinity, infinity + 1]
    codes += [(1 << (d.bits - 1)) - 1, infinity | normal >> 1]
    return np.array([c | s << (d.bits - 1) for c in codes for s in (0, 1)], d.word)


@pytest.mark.parametrize("d", [F32, F16, BF16], ids=lambda d: d.name)
def test_words_compare_as_values(d: DType) -> None:
    words = _special_words(d)
    x, y = (w.reshape(-1) for w in np.meshgrid(words, words))
    with np.errstate(invalid="ignore"):
        u, v = (w.view(d.numpy).astype(np.float64) for w in (x, y))
    a = ExactFloat(d)
    with x64():
        found = jax.jit(lambda x, y: [a.compare_words(m, x, y) for m in _VALUES])(x, y)
        zero = jax.jit(lambda x: [a.compare_words(m, x, d.word.type(0)) for m in _VALUES])(x)
    for mode, of_both, of_zero in zip(_VALUES, found, zero, strict=True):
        np.testing.assert_array_equal(of_both, _VALUES[mode](u, v), mode.name)
        np.testing.assert_array_equal(of_zero, _VALUES[mode](u, 0.0), f"{mode.name} 0")
