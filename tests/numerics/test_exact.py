"""Facts about exact arithmetic that a naive lowering gets wrong.

Every test that guards against an optimisation of XLA has a twin which shows that the plain ``jnp`` formula
fails on the same data, so that the test would notice if it stopped testing anything.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto

Words = NDArray[np.uint32]
ROWS, COLS = 64, 1024
SHAPE = (ROWS, COLS)
CHAIN = "%p = tmul %a, %b : !pto.tile<64x1024xf32>\n%d = tadd %p, %c : !pto.tile<64x1024xf32>"


def normal(seed: int, low: int = -30, high: int = 30) -> NDArray[np.float32]:
    """2^16 random normal numbers with exponents in a range."""
    rng = np.random.default_rng(seed)
    mantissa = rng.uniform(1, 2, SHAPE) * rng.choice([-1, 1], SHAPE)
    return np.asarray(mantissa * 2.0 ** rng.integers(low, high, SHAPE), np.float32)


def mixed(seed: int) -> NDArray[np.float32]:
    """Random bit patterns, a third of them subnormal, with zeros, infinities and NaNs."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, SHAPE, dtype=np.uint64).astype(np.uint32)
    words[::3] &= np.uint32(0x807FFFFF)
    edges = [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001]
    words[0, : 2 * len(edges)] = [*edges, *(e | 0x80000000 for e in edges)]
    words[0] = np.resize(words[0, : 2 * len(edges)], COLS)
    words[1] = np.repeat(words[0, : 2 * len(edges)], COLS // (2 * len(edges)) + 1)[:COLS]
    return words.view(np.float32)


def canonical(values: Any) -> Words:
    """Bits with every NaN replaced by the canonical one."""
    array = np.asarray(values, np.float32)
    return np.where(np.isnan(array), np.uint32(0x7FC00000), array.view(np.uint32))


def same(got: Any, expected: Any) -> None:
    """Bit for bit; the engine's NaNs must already be canonical."""
    a, b = np.asarray(got), canonical(expected)
    words = a if a.dtype == np.uint32 else a.view(np.uint32)
    different = words != b
    assert not different.any(), f"{different.sum()} of {a.size} differ"


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


A, B, C = normal(1, -4, 4), normal(2, -4, 4), normal(3, -4, 4)
UNFUSED = A * B + C


def compiled(text: str, **options: Any) -> pto.Kernel:
    """On a5, whose vec buffer holds tiles of 2^16 numbers."""
    kernel: pto.Kernel = pto.compile(pto.parse(text), profile="a5", **options)
    return kernel


def op(name: str, *sources: Any, **options: Any) -> Any:
    tiles = [pto.tile(s) if isinstance(s, np.ndarray) else s for s in sources]
    return getattr(pto.ops, name)(*tiles, profile="a5", **options)


def chain(a: Any, b: Any, c: Any, **options: Any) -> Any:
    kernel = compiled(CHAIN, **options)
    return kernel(a, b, c)["d"].array


def test_products_and_sums_round_separately() -> None:
    same(chain(A, B, C), UNFUSED)


def test_products_and_sums_round_separately_inside_the_users_jit() -> None:
    """Constants, not arguments: whatever the kernel hides behind its inputs is a constant here."""
    same(jax.jit(lambda: chain(A, B, C))(), UNFUSED)
    same(jax.jit(lambda a: chain(a, B, C))(A), UNFUSED)


def test_products_and_sums_round_separately_under_vmap() -> None:
    kernel = compiled(CHAIN.replace("64x1024", "4x1024"))
    batched = jax.jit(jax.vmap(lambda a, b, c: kernel(a, b, c)["d"].array))
    same(np.asarray(batched(*(x.reshape(16, 4, COLS) for x in (A, B, C)))).reshape(SHAPE), UNFUSED)


def test_the_callers_arithmetic_does_not_fuse_into_the_kernel() -> None:
    single = compiled("%d = tadd %a, %b : !pto.tile<64x1024xf32>")

    @jax.jit
    def around(a: Any, b: Any, c: Any) -> Any:
        return single(a * b, c)["d"].array

    same(around(A, B, C), UNFUSED)
    product = compiled("%d = tmul %a, %b : !pto.tile<64x1024xf32>")
    same(jax.jit(lambda a, b, c: product(a, b)["d"].array + c)(A, B, C), UNFUSED)


def test_two_kernels_in_one_jit_do_not_fuse() -> None:
    mul, add = (compiled(f"%d = {n} %a, %b : !pto.tile<64x1024xf32>") for n in ("tmul", "tadd"))
    same(jax.jit(lambda a, b, c: add(mul(a, b)["d"], c)["d"].array)(A, B, C), UNFUSED)


def test_instructions_that_multiply_and_add_round_each_step() -> None:
    made = [pto.tile(x) for x in (A, B, C)]
    same(op("tmuladddst", made[0], made[1], dst=made[2]).array, UNFUSED)
    same(jax.jit(lambda: op("taxpy", made[0], 1.1, dst=made[2]).array)(), A * np.float32(1.1) + C)


def test_the_plain_formula_is_contracted() -> None:
    naive = np.asarray(jax.jit(lambda a, b, c: a * b + c)(A, B, C))
    assert (naive != UNFUSED).mean() > 0.1


X, Y = mixed(4), mixed(5)
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "tadd": lambda x, y: x + y,
    "tsub": lambda x, y: x - y,
    "tmul": lambda x, y: x * y,
    "tdiv": lambda x, y: x / y,
}
SMALL = [normal(6, -70, -60), normal(7, -70, -56), normal(8, -149, -126), normal(9, -140, 10)]


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_keeps_subnormals(name: str) -> None:
    kernel = compiled(f"%d = {name} %a, %b : !pto.tile<64x1024xf32>")
    for x, y in ((X, Y), (SMALL[0], SMALL[1]), (SMALL[2], SMALL[3])):
        expected = BINARY[name](x, y)
        same(kernel(x, y)["d"].array, expected)
        same(jax.jit(lambda x=x, y=y: kernel(x, y)["d"].array)(), expected)
    assert np.mean(np.abs(np.nan_to_num(SMALL[0] * SMALL[1])) < 2.0**-126) > 0.5


def test_functions_keep_subnormals() -> None:
    for x in (np.abs(X), np.abs(SMALL[2])):
        same(op("tsqrt", pto.tile(x)).array, np.sqrt(x))
    reciprocal = op("trecip", pto.tile(X)).array
    same(reciprocal, np.float32(1) / X)
    x = np.abs(X)
    exact = 1 / np.sqrt(x.astype(np.longdouble))
    found = np.asarray(op("trsqrt", pto.tile(x)).array)
    finite = np.isfinite(exact) & np.isfinite(found)
    error = np.abs(found[finite] - exact[finite]) / np.spacing(found[finite])
    assert error.max() <= 0.5000001 and finite.mean() > 0.6


def test_comparisons_see_subnormals() -> None:
    x, y = SMALL[2], np.roll(SMALL[2], 1)
    for name, expected in (("tmax", np.maximum(x, y)), ("tmin", np.minimum(x, y))):
        same(op(name, pto.tile(x), pto.tile(y)).array, expected)
    same(op("trelu", pto.tile(x)).array, np.where(x > 0, x, 0))
    same(op("tabs", pto.tile(x)).array, np.abs(x))
    mask = op("tcmps", pto.tile(x), 0.0, dst=pto.TileType(pto.dtype("u8"), 64, 128), cmpMode="GT")
    assert (np.unpackbits(np.asarray(mask), axis=1, bitorder="little") == (x > 0)).all()
    mask = op("tcmp", pto.tile(x), pto.tile(y), dst=pto.TileType(pto.dtype("u8"), 64, 128), cmpMode="LT")
    assert (np.unpackbits(np.asarray(mask), axis=1, bitorder="little") == (x < y)).all()


def test_conversions_see_subnormals() -> None:
    x = SMALL[2]
    up = op("tcvt", pto.tile(x), dst=pto.TileType(pto.dtype("i32"), 64, 1024), rmode="CEIL")
    assert (np.asarray(up) == np.ceil(x).astype(np.int32)).all() and np.asarray(up).any()
    half = np.arange(1, 1024, dtype=np.uint16).view(np.float16)[:1008].reshape(1, 1008)
    wide = op("tcvt", pto.tile(half), dst=pto.TileType(pto.dtype("f32"), 1, 1008))
    same(wide.array, half.astype(np.float32))


def test_the_plain_formulas_flush_subnormals() -> None:
    a, b = SMALL[2], np.roll(SMALL[2], 1)
    plain: list[tuple[Callable[[Any, Any], Any], Any]] = [
        (lambda x, y: x + y, a + b),
        (jnp.maximum, np.maximum(a, b)),
        (lambda x, y: jnp.sqrt(jnp.abs(x)), np.sqrt(np.abs(a))),
        (lambda x, y: jnp.ceil(x), np.ceil(a)),
        (lambda x, y: (x > y).astype(np.float32), (a > b).astype(np.float32)),
    ]
    for formula, expected in plain:
        assert (np.asarray(jax.jit(formula)(a, b)) != expected).mean() > 0.2


def bf16(seed: int) -> NDArray[Any]:
    return normal(seed, -3, 3).astype(ml_dtypes.bfloat16)


@pytest.mark.slow
def test_narrow_chains_keep_no_excess_precision() -> None:
    text = "%p = OP %a, %b : !pto.tile<64x1024xbf16>\n%d = tsub %p, %c : !pto.tile<64x1024xbf16>"
    a, b, c = (bf16(s) for s in (10, 11, 12))
    for op, first in (("tadd", a.astype(np.float32) + b), ("tmul", a.astype(np.float32) * b)):
        kernel = compiled(text.replace("OP", op))
        rounded = first.astype(np.float32).astype(ml_dtypes.bfloat16)
        expected = (rounded.astype(np.float32) - c.astype(np.float32)).astype(ml_dtypes.bfloat16)
        for out in (kernel(a, b, c)["d"], jax.jit(lambda k=kernel: k(a, b, c)["d"])()):
            assert (np.asarray(out) == expected).all()


def test_the_plain_bf16_formula_keeps_excess_precision() -> None:
    a, b, c = (bf16(s) for s in (10, 11, 12))
    naive = jax.jit(lambda a, b, c: (a + b).astype(np.float32) - c.astype(np.float32))(a, b, c)
    rounded = (a.astype(np.float32) + b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert (np.asarray(naive) != rounded.astype(np.float32) - c.astype(np.float32)).mean() > 0.1


NAN_WORDS = np.resize(
    np.array([0x7F800001, 0x7FC00001, 0xFFC00000, 0xFFFFFFFF, 0x7FABCDEF], np.uint32), (8, 48)
)


def test_moves_keep_nan_payloads() -> None:
    tile = pto.tile(NAN_WORDS, dtype="f32")
    other = pto.tile(np.ones((8, 48), np.float32))
    mask = pto.tile(np.full((8, 32), 0xFF, np.uint8))
    assert (np.asarray(op("tmov", tile, dst=tile.type).words) == NAN_WORDS).all()
    assert (np.asarray(jax.jit(lambda t: op("tmov", t, dst=t.type))(tile).words) == NAN_WORDS).all()
    assert (np.asarray(op("tsel", mask, tile, other, dst=tile.type).words) == NAN_WORDS).all()


@pytest.mark.slow
def test_nans_of_arithmetic_are_canonical() -> None:
    tile, one = pto.tile(NAN_WORDS, dtype="f32"), pto.tile(np.ones((8, 48), np.float32))
    for name in BINARY:
        for x, y in ((tile, one), (one, tile), (tile, tile)):
            for function in (getattr(pto.ops, name), jax.jit(getattr(pto.ops, name))):
                assert (np.asarray(function(x, y).words) == 0x7FC00000).all()
    for d, nan in (("f16", 0x7E00), ("bf16", 0x7FC0)):
        out = op("tcvt", tile, dst=pto.TileType(pto.dtype(d), 8, 48))
        assert (np.asarray(out.words) == nan).all()
    zero = pto.tile(np.zeros((8, 48), np.float32))
    assert (np.asarray(op("tdiv", zero, zero).words) == 0x7FC00000).all()


@pytest.mark.parametrize("name", BINARY)
def test_flush_mode_reads_and_writes_signed_zeros(name: str) -> None:
    def flushed(x: Any) -> Any:
        return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)

    kernel = compiled(f"%d = {name} %a, %b : !pto.tile<64x1024xf32>", subnormals="flush")
    for x, y in ((X, Y), (SMALL[0], SMALL[1])):
        same(kernel(x, y)["d"].array, flushed(BINARY[name](flushed(x), flushed(y))))


@pytest.mark.slow
def test_fast_numerics_are_close_on_normal_data() -> None:
    exact, fast = chain(A, B, C), chain(A, B, C, numerics="fast")
    tolerance = sum(np.spacing(np.abs(x)) for x in (A * B, C, UNFUSED))
    assert (np.abs(np.asarray(exact) - np.asarray(fast)) <= tolerance).all()
    for name, reference in BINARY.items():
        out = op(name, pto.tile(A), pto.tile(B), numerics="fast").array
        np.testing.assert_allclose(np.asarray(out), reference(A, B), rtol=3e-7)
    for name in ("texp", "tlog", "tsqrt", "trsqrt", "trecip"):
        x = pto.tile(np.abs(normal(13, -4, 4)))
        kept, quick = (op(name, x, numerics=n).array for n in ("exact", "fast"))
        np.testing.assert_allclose(np.asarray(quick), np.asarray(kept), rtol=1e-5, atol=1e-6)
