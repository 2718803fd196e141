"""Reductions and expansions in JAX: order, roundings, NaN and zeros under every transformation."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.ir import F32, I32, BLayout, DType, TileType, from_numpy
from pto_jax.lowering import folds, numerics
from pto_jax.lowering.bits import x64

ROWS, COLS = 16, 32
Words = NDArray[Any]


def _result_type(name: str, d: DType, rows: int, cols: int) -> TileType:
    if name.startswith("trow"):
        return TileType(d, rows, 1, blayout=BLayout.COL_MAJOR)
    return TileType(d, 1, cols)


def _reduction(
    name: str, d: DType, shape: tuple[int, int] = (ROWS, COLS), result: DType | None = None, **options: Any
) -> Callable[..., Any]:
    """The instruction as a function of one tile's array, and optionally its valid sizes."""
    source = TileType(d, *shape)
    target = _result_type(name, result or d, *shape)

    def apply(array: Any, *valid: Any) -> Any:
        t = source.with_valid(None, None) if valid else source
        made = pto.tile(array, valid=valid or None, type=t)
        given = pto.tile(jnp.zeros(target.shape, target.dtype.numpy), type=target)
        return getattr(pto.ops, name)(made, dst=given, **{"profile": "cpu_sim", **options}).array.reshape(-1)

    return apply


def _fold(x: Words, axis: int, product: bool = False) -> Words:
    """The ascending left fold of the array in its own type, one line at a time."""
    lines = np.moveaxis(x, axis, 0)
    total = np.full(lines.shape[1:], 1 if product else 0, x.dtype)
    with np.errstate(all="ignore"):
        for line in lines.astype(np.float32):
            wide = total.astype(np.float32)
            total = (wide * line if product else wide + line).astype(x.dtype)
    return total


def _assert_bits(got: Any, expected: Words) -> None:
    got = np.asarray(got)
    assert got.dtype == expected.dtype
    nan = np.isnan(got) & np.isnan(expected)
    word = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(np.where(nan, 0, got.view(word)), np.where(nan, 0, expected.view(word)))


def _random(dtype: Any, count: int = 8, spread: float = 3.0) -> Words:
    """Values over many binades, so that every order of a sum rounds differently."""
    rng = np.random.default_rng(11)
    values = rng.standard_normal((count, ROWS, COLS)) * 2.0 ** rng.uniform(
        -spread, spread, (count, ROWS, COLS)
    )
    return values.astype(np.float32).astype(dtype)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["trowmax", "trowmin", "trowsum", "tcolmax", "tcolprod"])
def test_nan_lines_give_the_same_batched_and_alone(name: str) -> None:
    x = _random(np.float32, 6)
    x[1, 3, :], x[2, :, 5], x[3, 2, 0], x[4, 2, 9] = np.nan, np.nan, np.nan, np.nan
    x[5] = np.nan
    reduce = _reduction(name, F32)
    batched = np.asarray(jax.jit(jax.vmap(reduce))(x))
    for i, tile in enumerate(x):
        np.testing.assert_array_equal(np.asarray(reduce(tile)).view(np.uint32), batched[i].view(np.uint32))
    assert np.isnan(batched[5]).all() and np.isnan(batched[1]).any() == (name != "tcolmax")
    if name == "trowmax":
        assert np.isnan(batched[3, 2]) and not np.isnan(batched[4, 2])


#: Each half precision is quick along one axis.
SLOW_FOLDS = {("tcolsum", np.float16), ("tcolprod", np.float16), ("trowprod", ml_dtypes.bfloat16)}


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(n, d, marks=pytest.mark.slow if (n, d) in SLOW_FOLDS else ())
        for n in ("trowsum", "tcolsum", "trowprod", "tcolprod")
        for d in (np.float32, np.float16, ml_dtypes.bfloat16)
    ],
)
def test_floats_fold_in_ascending_order(name: str, dtype: Any) -> None:
    axis, product = (2 if name.startswith("trow") else 1), name.endswith("prod")
    x = _random(dtype, spread=1.0 if product else 6.0)
    got = np.asarray(jax.jit(jax.vmap(_reduction(name, from_numpy(dtype))))(x))
    wide = x.astype(np.float32) if name == "trowsum" else x
    _assert_bits(got, _fold(wide, axis, product).astype(dtype))
    if name == "trowsum" and dtype == np.float32:
        halves = _fold(x[:, :, ::2], 2) + _fold(x[:, :, 1::2], 2)
        assert (halves != got).any(), "the data must tell orders apart"


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["trowsum", "tcolsum", "tcolprod"])
def test_subnormals_are_kept(name: str) -> None:
    rng = np.random.default_rng(3)
    words = rng.integers(0, 1 << 25, (4, ROWS, COLS)).astype(np.uint32) | (
        rng.integers(0, 2, (4, ROWS, COLS)).astype(np.uint32) << np.uint32(31)
    )
    x = words.view(np.float32)
    if name == "tcolprod":
        x = np.where(np.arange(ROWS)[:, None] == 0, x, np.float32(0.9)).astype(np.float32)
    got = np.asarray(jax.jit(jax.vmap(_reduction(name, F32)))(x))
    expected = _fold(x, 2 if name == "trowsum" else 1, name == "tcolprod")
    assert (np.abs(expected) < np.finfo(np.float32).tiny).any() and expected.any()
    _assert_bits(got, expected)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["trowsum", "tcolsum", "trowprod", "tcolmax", "trowmin"])
def test_dynamic_regions_under_vmap_equal_cropped_tiles(name: str) -> None:
    x = _random(np.float32, 5)
    x[:, 9:, :], x[:, :, 20:] = np.nan, np.inf
    x[0, 0, 0] = -0.0
    valid = np.array([(9, 20), (1, 1), (3, 20), (9, 7), (5, 13)], np.int32)
    got = np.asarray(jax.jit(jax.vmap(_reduction(name, F32)))(x, valid[:, 0], valid[:, 1]))
    along = name.startswith("trow")
    for i, (rows, cols) in enumerate(valid):
        part = x[i, :rows, :cols]
        if name.endswith(("sum", "prod")):
            expected = _fold(part, 1 if along else 0, name.endswith("prod"))
        else:
            expected = part.max(0) if name == "tcolmax" else part.min(1)
        _assert_bits(got[i, : expected.size], expected)
        np.testing.assert_array_equal(got[i, expected.size :], 0)


@pytest.mark.slow
def test_empty_regions_follow_the_profile() -> None:
    x = np.full((1, ROWS, COLS), 5, np.float32)
    none, all_cols = np.zeros(1, np.int32), np.full(1, COLS, np.int32)
    target = TileType(F32, 1, COLS)

    def reduce(name: str, profile: str) -> float:
        def apply(array: Any, rows: Any, cols: Any) -> Any:
            made = pto.tile(array, valid=(rows, cols))
            old = pto.tile(jnp.full(target.shape, 7, np.float32), type=target)
            return getattr(pto.ops, name)(made, dst=old, profile=profile).array

        return float(jax.vmap(apply)(x, none, all_cols)[0, 0, 0])

    found = {n: reduce(n, "cpu_sim") for n in ("tcolsum", "tcolprod", "tcolmax", "tcolmin")}
    assert found == {"tcolsum": 0, "tcolprod": 1, "tcolmax": 5, "tcolmin": 7}
    assert reduce("tcolsum", "a5") == reduce("tcolprod", "a2a3") == 7


def test_jit_inside_jit_and_constants_change_nothing() -> None:
    x = _random(np.float32, 4)
    single = _reduction("tcolsum", F32)
    inner = jax.jit(jax.vmap(single))
    expected = _fold(x, 1)
    _assert_bits(jax.jit(lambda y: inner(jax.jit(lambda z: z)(y)))(x), expected)
    _assert_bits(
        jax.jit(lambda: jnp.stack([single(jnp.asarray(x[0])), single(jnp.asarray(x[1]))]))(), expected[:2]
    )


@pytest.mark.parametrize("rows", [1, ROWS])
def test_negative_zeros_add_up_to_positive_zero(rows: int) -> None:
    """A compiler that takes 0 + x for x gets the sign wrong."""
    t = TileType(F32, ROWS, COLS, v_row=rows)
    made = pto.tile(np.full((ROWS, COLS), -0.0, np.float32), type=t)
    out = pto.ops.tcolsum(made, dst=TileType(F32, 1, COLS))
    np.testing.assert_array_equal(np.asarray(out.words), 0)


def test_first_of_equal_values_and_leading_nan_win() -> None:
    x = np.ones((ROWS, COLS), np.float32)
    x[0, :3], x[1, :3] = (-0.0, 0.0, -1.0), (0.0, -0.0, -1.0)
    x[:2, 3:] = -2
    x[2, 0], x[3, 4], x[4, :2] = np.nan, np.nan, (5, 5)
    index, value = TileType(I32, ROWS, 1, blayout=BLayout.COL_MAJOR), _result_type("trowmax", F32, ROWS, COLS)
    values, positions = pto.ops.trowargmax(pto.tile(x), dst=(value, index), profile="cpu_sim")
    words = np.asarray(values.words).reshape(-1)
    np.testing.assert_array_equal(np.asarray(positions).reshape(-1)[:5], 0)
    np.testing.assert_array_equal(words[:2], [0x80000000, 0])
    assert np.isnan(np.asarray(values).reshape(-1)[2]) and np.asarray(values)[3, 0] == 1
    np.testing.assert_array_equal(
        np.asarray(pto.ops.trowmax(pto.tile(x), dst=value).words).reshape(-1), words
    )


@pytest.mark.slow
def test_binary_column_sums_are_trees_on_hardware_only() -> None:
    """Seven rows: three pairs, and an odd row at the first and second level."""
    x = _random(np.float32, 1, spread=8.0)[0, :7]
    a, b, c = x[0] + x[1], x[2] + x[3], x[4] + x[5]
    wanted = {
        "cpu_sim": _fold(x, 0),
        "a2a3": ((a + x[6]) + b) + c,
        "a5": (a + b) + (c + x[6]),
    }
    tmp = pto.tile(np.zeros((4, COLS), np.float32))
    target = TileType(F32, 1, COLS)
    for profile, expected in wanted.items():
        for made in (
            pto.tile(x),
            pto.tile(np.pad(x, ((0, 4), (0, 0)), constant_values=np.nan), valid=(7, COLS)),
        ):
            out = pto.ops.tcolsum(made, tmp, dst=target, isBinary=True, profile=profile)
            _assert_bits(np.asarray(out)[0], expected)
    assert len({w.tobytes() for w in wanted.values()}) == 3


@pytest.mark.slow
def test_fast_numerics_are_close_to_exact_ones() -> None:
    x = np.abs(_random(np.float32, 2))
    for name in ("trowsum", "tcolprod", "trowmax"):
        exact, fast = (np.asarray(jax.vmap(_reduction(name, F32, numerics=n))(x)) for n in ("exact", "fast"))
        np.testing.assert_allclose(fast, exact, rtol=1e-5)


@pytest.mark.slow
def test_expanded_columns_repeat_with_the_dynamic_width_of_the_block() -> None:
    x = np.arange(8 * 32, dtype=np.float32).reshape(8, 32)
    block = np.arange(8 * 16, dtype=np.float32).reshape(8, 16) * 100

    def add(width: Any) -> Any:
        full = pto.tile(x, valid=(8, 32))
        return pto.ops.trowexpandadd(full, pto.tile(block, valid=(8, width)), profile="cpu_sim").array

    got = np.asarray(jax.vmap(add)(np.array([8, 1], np.int32)))
    np.testing.assert_array_equal(got[0], x + np.tile(block[:, :8], (1, 4)))
    np.testing.assert_array_equal(got[1], x + block[:, :1])


@pytest.mark.variants(1)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("cols", [5, 64, 101])
def test_one_reduction_finds_what_the_first_strict_extreme_is(cols: int, largest: bool) -> None:
    draw = np.random.default_rng(cols)
    choices = np.array(
        [0, 1 << 31, 1, (1 << 31) + 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800000], np.uint32
    )
    words = choices[draw.integers(0, len(choices), (4096, cols))]
    words[:2048] = choices[draw.integers(0, 3, (2048, cols))]
    a = numerics.arithmetic(F32)
    with x64():
        found = jax.jit(lambda w: folds.extreme(a, w, largest, cols, 1))(words)
        expected = jax.jit(lambda w: folds.first_extreme(w.T, F32, largest, cols)[1])(words)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_integers_of_rows_of_any_width_are_all_combined_once() -> None:
    draw = np.random.default_rng(8)
    # Up to 15 in one part, then in two to eight parts, with and without a rest.
    rows = [draw.integers(0, 1 << 32, (3, cols), np.uint32) for cols in (1, 15, 16, 17, 39, 63, 64, 71, 100)]
    fold = jax.jit(lambda rows, name: [folds.integer_fold(name, r, 1) for r in rows], static_argnums=1)
    with x64():
        sums, products = fold(rows, "add"), fold(rows, "mul")
    for row, total, product in zip(rows, sums, products, strict=True):
        np.testing.assert_array_equal(total, row.sum(1, dtype=np.uint32))
        np.testing.assert_array_equal(product, row.prod(1, dtype=np.uint32))
