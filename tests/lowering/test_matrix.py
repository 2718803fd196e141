"""Products in the engine: order and rounding of the sums, XLA's product behind its checks, valid sizes."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from numpy.typing import NDArray

from pto_jax import isa
from pto_jax.ir import RoundMode, TileType
from pto_jax.isa.matrix import ROUNDING_STATE, operand_types
from pto_jax.isa.samples.operations import Sample, to_program
from pto_jax.lowering import products
from pto_jax.lowering.bits import x64
from pto_jax.lowering.products import Precision
from pto_jax.lowering.rules import Context, Lanes, jitted
from pto_jax.profiles import PROFILES
from pto_jax.runtime.kernel import Kernel, choices
from pto_jax.runtime.tiles import Tile
from pto_jax.testing.differential import open_regions

Matrix = NDArray[Any]
SINGLE = Precision(46, exact=False)
F32_ROW = ("f32", "f32", "f32")


def kernel(name: str, row: tuple[str, ...], extents: tuple[int, int, int], **choice: Any) -> Kernel:
    """One multiplication as a kernel; ``dynamic`` leaves the valid sizes to its arguments."""
    target = PROFILES[choice.get("profile", "cpu_sim")]
    instruction = isa.instructions()[name]
    form = instruction.forms[0]
    types = operand_types((*form, "dst"), row, extents, target)
    program = to_program(Sample(instruction, types, form, {}))
    program = open_regions(program) if choice.get("dynamic") else program
    options = choices(target, choice.get("numerics", "exact"), None, "keep")
    return Kernel(program, program.functions[0].name, options)


def tile_type(k: Kernel, name: str) -> TileType:
    t = next(a.type for a in k.arguments if a.name == name)
    assert isinstance(t, TileType)
    return t


def tile(k: Kernel, name: str, values: Matrix) -> Tile:
    """A tile argument with the given values."""
    t = tile_type(k, name)
    words = np.ascontiguousarray(values.astype(t.dtype.numpy)).view(t.dtype.word)
    return Tile(jnp.asarray(words), None, None, t)


def multiply(k: Kernel, **values: Matrix) -> Matrix:
    return np.asarray(k(**{n: tile(k, n, v) for n, v in values.items()})["dst"])


def product_of_words(k: Kernel, x: Array, y: Array) -> Array:
    tiles = {n: Tile(w, None, None, tile_type(k, n)) for n, w in (("a", x), ("b", y))}
    words: Array = k(**tiles)["dst"].words
    return words


def single(x: Fraction, sign: float) -> float:
    """A fraction rounded to float32; ``sign`` is that of a zero."""
    if x == 0:
        return math.copysign(0.0, sign)
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    exponent -= abs(x) < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, -126) - 23)
    return math.copysign(float(round(abs(x) / step) * step), x)


def exact_fold(a: Matrix, b: Matrix) -> Matrix:
    """The ascending fused fold of finite matrices, in rational arithmetic."""
    result = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i, j in np.ndindex(result.shape):
        total = 0.0
        for u, v in zip(a[i].tolist(), b[:, j].tolist(), strict=True):
            total = single(Fraction(u) * Fraction(v) + Fraction(total), u * v + total)
        result[i, j] = total
    return result


def integers(shape: tuple[int, ...], seed: int) -> Matrix:
    """Wide integers: sums of their products round at every step, and float64 holds them exactly."""
    rng = np.random.default_rng(seed)
    return rng.integers(-(1 << 15), 1 << 15, shape).astype(np.float32)


def integer_fold(a: Matrix, b: Matrix, fused: bool = True) -> Matrix:
    total = np.zeros((*a.shape[:-1], b.shape[-1]))
    for k in range(a.shape[-1]):
        product = a[..., k, None].astype(np.float64) * b[..., None, k, :]
        product = product if fused else product.astype(np.float32)
        total = (total + product).astype(np.float32).astype(np.float64)
    return total.astype(np.float32)


def same(got: Matrix, expected: Matrix) -> None:
    np.testing.assert_array_equal(got.view(np.uint32), expected.astype(np.float32).view(np.uint32))


def hard(shape: tuple[int, int], seed: int) -> Matrix:
    """float32 values whose products and sums cancel, tie and underflow."""
    rng = np.random.default_rng(seed)
    exponent = rng.choice([0, 1, 20, 60, 64, 103, 115, 126, 127, 139, 150], shape)
    fraction = rng.choice([0, 1, 0x400000, 0x7FFFFF, 0x555555, 0x000800], shape)
    words = rng.integers(0, 2, shape) << 31 | exponent << 23 | fraction
    return np.asarray(words.astype(np.uint32).view(np.float32))


def test_every_step_is_fused_and_rounded_once() -> None:
    a, b = hard((16, 32), 1), hard((32, 16), 2)
    same(multiply(kernel("tmatmul", F32_ROW, (16, 32, 16)), a=a, b=b), exact_fold(a, b))


def test_a_sum_just_beside_a_tie_is_not_rounded_twice() -> None:
    a, b = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    odd, step, x = 1 + 2.0**-23, 2.0**-24, 2.0**-16
    a[0, :2] = (odd, step * (1 + x))
    a[1, :2] = (odd, -step * (1 + x))
    b[:2, 0] = (1, 1 - x)
    # The exact sums miss a tie by 2^-56, which float64 does not show.
    assert odd + step * (1 - x * x) == 1 + 3 * step
    got = multiply(kernel("tmatmul", F32_ROW, (16, 16, 16)), a=a, b=b)
    same(got, exact_fold(a, b))
    assert (got[:2, 0] == np.float32(odd)).all()


@pytest.mark.slow
def test_the_order_of_the_sum_and_the_fusion_matter_and_hold() -> None:
    a, b = integers((3, 64, 64), 1), integers((3, 64, 64), 2)
    expected = integer_fold(a, b)
    for other in (
        integer_fold(a[..., ::-1], b[:, ::-1]),
        integer_fold(a, b, fused=False),
        (a.astype(np.float64) @ b).astype(np.float32),
    ):
        assert (other != expected).mean() > 0.2
    k = kernel("tmatmul", F32_ROW, (64, 64, 64))
    same(multiply(k, a=a[0], b=b[0]), expected[0])
    run = jax.jit(jax.vmap(partial(product_of_words, k)))
    same(np.asarray(run(a.view(np.uint32), b.view(np.uint32))), expected)


def native_and_careful(precision: Precision, *operands: Matrix) -> tuple[Matrix, Matrix]:
    with x64():
        native = jax.jit(partial(products._native, precision))(*operands)
        careful = jax.jit(partial(products._careful, precision))(*operands)
        return np.asarray(native), np.asarray(careful)


def attempt(precision: Precision, a: Matrix, b: Matrix) -> bool:
    with x64():
        return bool(jax.jit(partial(products._attempt, precision))((a, b))[1])


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["order", "accumulator"])
def test_an_xla_product_that_is_no_fold_is_not_taken(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (integers((2, 64, 64), s).view(np.uint32) for s in (1, 2))
    right = products.dot

    def dot(x: Array, y: Array) -> Array:
        if wrong == "order":
            return right(x[..., ::-1], y[:, ::-1])
        return jnp.matmul(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)

    monkeypatch.setattr(products, "dot", dot)
    assert not attempt(SINGLE, a, b)
    native, careful = native_and_careful(SINGLE, a, b)
    np.testing.assert_array_equal(native, careful)
    same(careful.view(np.float32), integer_fold(a.view(np.float32), b.view(np.float32)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "scales", [(2.0**-60, 2.0**-30), (2.0**-75, 2.0**-74), (2.0**-100, 2.0**-30), (2.0**-135, 2.0**90)]
)
def test_what_could_be_subnormal_is_computed_carefully(scales: tuple[float, float]) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((5, 64, 64)).astype(np.float32) for _ in range(2))
    a[3] *= np.float32(scales[0])
    b *= np.float32(scales[1])
    words = a.view(np.uint32), b.view(np.uint32)
    assert not attempt(SINGLE, *words)
    np.testing.assert_array_equal(*native_and_careful(SINGLE, *words))


def test_block_scaled_operands_beyond_float32_are_computed_carefully() -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.integers(-15, 16, (2, 64, 64)).astype(np.float64) for _ in range(2))
    x[1, 7] *= 2.0**127
    y[1] *= 2.0**-30
    with x64(), np.errstate(over="ignore"):
        single_x = x.astype(np.float32).view(np.uint32)
        single_x = np.where(np.isinf(single_x.view(np.float32)), np.uint32(1), single_x)
        operands = (single_x, y.astype(np.float32).view(np.uint32), x, y)
        native, careful = native_and_careful(Precision(6, exact=True), *operands)
    np.testing.assert_array_equal(native, careful)
    assert np.isfinite(careful.view(np.float32)).all()


def test_special_values() -> None:
    a, b = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    a[0, :2], b[:2, 0] = (math.inf, 1), (2, 3)
    a[1, :2] = (math.inf, -math.inf)
    a[2, 1] = math.nan
    a[3, :2] = (-0.0, -0.0)
    a[4, 15], b[15, 0] = -(2.0**-149), 1
    a[5, :2] = (3e38, -3e38)
    got = multiply(kernel("tmatmul", F32_ROW, (16, 16, 16)), a=a, b=b * np.float32(0.25))
    words = got.view(np.uint32)[:, 0]
    assert words[0] == 0x7F800000 and words[1] == words[2] == 0x7FC00000
    assert words[3] == 0 and words[4] == 0x80000000
    assert got[5, 0] == exact_fold(a[5:6], b * np.float32(0.25))[0, 0]
    # inf * 0 in the columns where b is zero
    assert (got.view(np.uint32)[0, 1:] == 0x7FC00000).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_half_precision_operands_accumulate_in_single(half: str) -> None:
    row = ("f32", half, half)
    k = kernel("tmatmul.acc", row, (16, 48, 16))
    values = tile_type(k, "a").dtype.numpy
    rng = np.random.default_rng(5)
    a, b = (
        (rng.standard_normal(s) * 2.0 ** rng.integers(-20, 9, s)).astype(values).astype(np.float32)
        for s in ((16, 48), (48, 16))
    )
    acc = rng.standard_normal((16, 16)).astype(np.float32)
    same(multiply(k, a=a, b=b, acc=acc, dst=np.zeros((16, 16))), exact_fold(a, b) + acc)


def test_integer_products_wrap() -> None:
    k = kernel("tmatmul.acc", ("i32", "i8", "i8"), (16, 32, 16))
    full = np.full((16, 32), -128, np.int8)
    acc = np.full((16, 16), 2**31 - 1, np.int32)
    got = multiply(k, a=full, b=full.T, acc=acc, dst=acc)
    assert (got == np.int32(-(2**31) + 32 * 2**14 - 1)).all()


@pytest.mark.slow
def test_valid_sizes_batch_and_what_lies_beyond_them_is_not_read() -> None:
    rng = np.random.default_rng(6)
    sizes = np.array([(16, 32, 16), (3, 17, 9), (1, 1, 1), (5, 0, 2), (0, 4, 4)], np.int32)
    a = rng.standard_normal((5, 16, 32)).astype(np.float32)
    b = rng.standard_normal((5, 32, 16)).astype(np.float32)
    for i, (m, k, n) in enumerate(sizes):
        a[i, m:] = a[i, :, k:] = b[i, k:] = b[i, :, n:] = math.nan
    program = kernel("tmatmul.bias", F32_ROW, (16, 32, 16), dynamic=True)
    types = {n: tile_type(program, n) for n in ("a", "b", "bias", "dst")}

    def run(x: Array, y: Array, size: Array) -> Array:
        m, k, n = size
        tiles = {
            "a": Tile(x, m, k, types["a"]),
            "b": Tile(y, k, n, types["b"]),
            "bias": Tile(jnp.full((1, 16), np.float32(2).view(np.uint32)), jnp.int32(1), n, types["bias"]),
            "dst": Tile(jnp.full((16, 16), np.uint32(7)), m, n, types["dst"]),
        }
        words: Array = program(**tiles)["dst"].words
        return words

    got = np.asarray(jax.jit(jax.vmap(run))(a.view(np.uint32), b.view(np.uint32), sizes))
    for i, (m, k, n) in enumerate(sizes):
        corner = exact_fold(a[i, :m, :k], b[i, :k, :n]) + np.float32(2)
        same(got[i, :m, :n].view(np.float32), corner)
        assert (got[i, m:] == 7).all() and (got[i, :, n:] == 7).all()


def test_products_compose_with_jit_in_jit_and_nested_vmap() -> None:
    a, b = integers((2, 2, 64, 64), 7), integers((2, 64, 64), 8)
    k = kernel("tmatmul", F32_ROW, (64, 64, 64))
    inner = jax.jit(partial(product_of_words, k))
    nested: Callable[..., Array] = jax.jit(jax.vmap(jax.vmap(inner, (0, None))))
    got = np.asarray(nested(a.view(np.uint32), b.view(np.uint32)))
    same(got, integer_fold(a, b[:, None]))


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("profile", "mode", "expected"),
    [
        ("a2a3", RoundMode.RINT, 1.0),
        ("a2a3", RoundMode.ROUND, 1 + 2.0**-11),
        ("a5", RoundMode.ROUND, 1.0),
        ("cpu_sim", RoundMode.ROUND, 1 + 2.0**-12),
        ("a2a3", None, 1 + 2.0**-12),
    ],
)
def test_the_f32_modes_shorten_operands(profile: str, mode: RoundMode | None, expected: float) -> None:
    target = PROFILES[profile]
    types = operand_types(("dst", "a", "b"), F32_ROW, (16, 16, 16), target)
    options = choices(target, "exact", None, "keep")
    operands = tuple((n, t) for n, t in types.items() if isinstance(t, TileType))
    context = Context("tmatmul", operands, ((ROUNDING_STATE, mode),), ("a", "b"), options)
    a = np.full((16, 16), 1 + 2.0**-12, np.float32).view(np.uint32)
    eye = np.eye(16, dtype=np.float32).view(np.uint32)
    with x64():
        inputs = {n: Lanes(jnp.asarray(w)) for n, w in (("a", a), ("b", eye), ("dst", eye))}
        got = np.asarray(jitted(context)(inputs)["dst"]).view(np.float32)
    assert (got == np.float32(expected)).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize("row", [F32_ROW, ("f32", "f16", "f16"), ("f32", "f8e4m3", "f8e5m2")])
def test_fast_products_are_close(row: tuple[str, ...]) -> None:
    rng = np.random.default_rng(9)
    a, b = (rng.integers(-8, 9, s).astype(np.float32) / 4 for s in ((16, 32), (32, 16)))
    exact, fast = (
        multiply(kernel("tmatmul", row, (16, 32, 16), profile="a5", numerics=n), a=a, b=b)
        for n in ("exact", "fast")
    )
    np.testing.assert_array_equal(exact, fast)


@pytest.mark.slow
def test_scales_cancel_beyond_the_range_of_float32() -> None:
    k = kernel("tmatmul.mx", ("f32", "f8e5m2", "f8e5m2"), (16, 64, 16))
    rng = np.random.default_rng(10)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((16, 64), (64, 16)))
    up, down = np.full((16, 2), 254, np.uint8), np.zeros((2, 16), np.uint8)
    tiles = {"a": tile(k, "a", a * 8192), "b": tile(k, "b", b)}
    scales = {"a_scale": up, "b_scale": down}
    tiles |= {n: Tile(jnp.asarray(w), None, None, tile_type(k, n)) for n, w in scales.items()}
    same(np.asarray(k(**tiles)["dst"]), exact_fold(a, b) * np.float32(8192))
    down[:, 3] = 255
    tiles["b_scale"] = Tile(jnp.asarray(down), None, None, tile_type(k, "b_scale"))
    got = np.asarray(k(**tiles)["dst"])
    assert np.isnan(got[:, 3]).all() and not np.isnan(got[:, :3]).any()
