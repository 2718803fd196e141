"""Products in the reference interpreter: rounding of every step, regions, modes, block scales."""

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import DType, RoundMode, TileType, dtype
from pto_jax.isa.matrix import operand_types
from pto_jax.oracle.matrix import fused, scaled_sum, shortened
from pto_jax.profiles import profile
from pto_jax.vectors.cases import to_logical
from pto_jax.vectors.manifest import Case, TileOperand, load_file

Run = Callable[..., oracle.OracleTile]
GOLDEN = Path(__file__).parents[1] / "golden"
PLAIN = ("f32", "f32", "f32")


def single(x: Fraction) -> np.float32:
    """A fraction rounded to f32, to nearest even."""
    if x == 0:
        return np.float32(0)
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    if abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = round(x / step) * step
    return np.float32(math.copysign(math.inf, x) if abs(rounded) >= 2**128 else float(rounded))


def operands(count: int, seed: int) -> NDArray[np.float32]:
    """Values whose products and sums meet every rounding case: near cancellation, ties, subnormals."""
    rng = np.random.default_rng(seed)
    exponents = rng.choice([0, 1, 2, 64, 103, 115, 126, 127, 128, 139, 150, 190, 254], count)
    fraction = rng.choice([0, 1, 0x400000, 0x7FFFFF, 0x555555, 0x000800], count)
    words = rng.integers(0, 2, count) << 31 | exponents << 23 | fraction
    return np.asarray(words.astype(np.uint32).view(np.float32))


def test_a_fused_step_is_rounded_once() -> None:
    a, b = operands(3000, 1), operands(3000, 2)
    product = a.astype(np.float64) * b
    near = product * np.where(np.arange(3000) % 2, -1.0, 2.0**-24)
    with np.errstate(over="ignore"):
        c = np.where(np.arange(3000) % 3 == 0, near.astype(np.float32), operands(3000, 3))
        c = np.where(np.isfinite(c), c, np.float32(1))
        got = fused(a.astype(np.float64), b.astype(np.float64), c)
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    exact = (Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in triples)
    expected = [single(x) for x in exact]
    np.testing.assert_array_equal(got, np.array(expected))
    assert (np.abs(got[got != 0]) < 2.0**-126).sum() > 30


def test_a_sum_in_float64_would_round_twice() -> None:
    x = np.array([1 + 2.0**-12])
    (once,) = fused(x, x, np.array([2.0**-60], np.float32))
    assert once == 1 + 2.0**-11 + 2.0**-23
    assert once != np.float32(x[0] * x[0] + 2.0**-60)


@pytest.mark.parametrize(
    ("word", "mode", "bits", "expected"),
    [
        (0x3F800800, RoundMode.ROUND, 11, 0x3F801000),
        (0x3F800800, RoundMode.RINT, 11, 0x3F800000),
        (0x3F801800, RoundMode.RINT, 11, 0x3F802000),
        (0xBF8007FF, RoundMode.ROUND, 11, 0xBF800000),
        (0x3F801000, RoundMode.RINT, 10, 0x3F800000),
        (0x3F801000, RoundMode.ROUND, 10, 0x3F802000),
        (0x7F7FFFFF, RoundMode.RINT, 10, 0x7F800000),
        (0x00000FFF, RoundMode.ROUND, 11, 0x00001000),
        (0xFF800000, RoundMode.ROUND, 11, 0xFF800000),
        (0x7FC00001, RoundMode.ROUND, 10, 0x7FC00001),
    ],
)
def test_short_operands(word: int, mode: RoundMode, bits: int, expected: int) -> None:
    (found,) = shortened(np.array([word], np.uint32), bits, mode)
    assert found == expected


def tiles(
    form: tuple[str, ...], row: tuple[str, ...] = PLAIN, k: int = 32, name: str = "cpu_sim", **data: Any
) -> dict[str, oracle.OracleTile]:
    """Zero-filled tiles of a product with M = N = 16, some given: ``a=array`` or ``a=(array, valid)``.

    Bytes are raw words.
    """
    types = operand_types((*form, "dst"), row, (16, k, 16), profile(name))
    found = {}
    for operand, t in types.items():
        assert isinstance(t, TileType)
        words = np.zeros(t.shape, t.dtype.word)
        given, valid = data.get(operand, ()), None
        if isinstance(given, tuple):
            given, valid = given if given else (None, None)
        if given is not None:
            given = np.asarray(given)
            given = given if given.dtype == np.uint8 else given.astype(t.dtype.numpy).view(t.dtype.word)
            words[: given.shape[0], : given.shape[1]] = given
        found[operand] = oracle.OracleTile(t.with_valid(*(valid or t.shape)), words)
    return found


def values(result: oracle.OracleTile) -> NDArray[Any]:
    return np.asarray(result.data).view(result.type.dtype.numpy)


def test_the_sum_ascends_from_positive_zero(run_one: Run) -> None:
    a = [[2.0**24, 1.0, 1.0, -(2.0**24)], [-0.0, -0.0, 0, 0]]
    b = np.ones((4, 1))
    result = values(run_one("tmatmul", tiles(("a", "b"), a=a, b=b)))
    assert result[0, 0] == 0.0
    assert not np.signbit(result[1, 0])


def test_the_accumulator_is_added_to_the_finished_sum(run_one: Run) -> None:
    given = tiles(("acc", "a", "b"), a=[[1.0, 1.0]], b=np.ones((2, 1)), acc=[[2.0**24]])
    assert values(run_one("tmatmul.acc", given))[0, 0] == 2.0**24 + 2


def test_nan_and_infinity_follow_the_products(run_one: Run) -> None:
    a = [[np.inf, 1.0], [np.inf, 0.0], [3e38, 3e38]]
    b = [[1.0, 0.0], [1.0, 1.0]]
    result = run_one("tmatmul", tiles(("a", "b"), a=a, b=b))
    np.testing.assert_array_equal(values(result)[:3, 0], [np.inf, np.inf, np.inf])
    assert result.data.view(np.uint32)[0, 1] == 0x7FC00000
    np.testing.assert_array_equal(values(result)[2, 1], np.float32(3e38))


def test_integer_sums_wrap(run_one: Run) -> None:
    given = tiles(("acc", "a", "b"), ("i32", "i8", "i8"), a=[[-128]], b=[[-128]], acc=[[2**31 - 1]])
    assert values(run_one("tmatmul.acc", given))[0, 0] == 2**31 - 1 + 2**14 - 2**32


def test_exactly_the_corner_is_written(run_one: Run) -> None:
    given = tiles(
        ("a", "b"),
        a=(np.ones((16, 32)), (3, 5)),
        b=(np.ones((32, 16)), (5, 2)),
        dst=(np.full((16, 16), 7.0), (2, 9)),
    )
    expected = np.full((16, 16), 7.0)
    expected[:3, :2] = 5.0
    np.testing.assert_array_equal(values(run_one("tmatmul", given)), expected)


def test_the_bias_covers_the_valid_region_of_the_destination(run_one: Run) -> None:
    given = tiles(
        ("a", "b", "bias"),
        a=(np.ones((16, 32)), (3, 5)),
        b=(np.ones((32, 16)), (5, 2)),
        bias=np.arange(16.0).reshape(1, 16),
        dst=(np.full((16, 16), 7.0), (2, 4)),
    )
    expected = np.full((16, 16), 7.0)
    expected[:3, :2] = 5.0
    expected[:2, :4] += np.arange(4.0)
    np.testing.assert_array_equal(values(run_one("tmatmul.bias", given)), expected)


@pytest.mark.parametrize(("name", "expected"), [("cpu_sim", 5.0), ("a2a3", np.nan), ("a5", np.nan)])
def test_missing_rows_of_the_right_tile_follow_the_profile(run_one: Run, name: str, expected: float) -> None:
    given = tiles(("a", "b"), name=name, a=(np.ones((16, 32)), (1, 5)), b=(np.ones((32, 16)), (4, 16)))
    np.testing.assert_array_equal(values(run_one("tmatmul", given, profile=name))[0], np.float32(expected))


def test_no_k_gives_zero(run_one: Run) -> None:
    given = tiles(("a", "b"), a=(None, (2, 0)), b=(None, (0, 2)), dst=np.ones((16, 16)))
    np.testing.assert_array_equal(values(run_one("tmatmul", given))[:2, :3], [[0, 0, 1]] * 2)


@pytest.mark.parametrize(("name", "kept"), [("cpu_sim", 23), ("a2a3", 11), ("a5", 10)])
def test_modes_shorten_operands_until_they_are_switched_off(name: str, kept: int) -> None:
    a, b, dst = (t.type for t in tiles(("a", "b"), name=name).values())
    product = f"pto.tmatmul ins(%a, %b : {a_text(a)}, {a_text(b)}) outs(%{{0}} : {a_text(dst)})\n"
    text = (
        "pto.sethf32mode {enable = true, mode = CAST_ROUND}\n" + product.format("on")
        + "pto.settf32mode {enable = false}\n" + product.format("off")
    )  # fmt: skip
    x = np.float32(1 + 2.0**-10 + 2.0**-11 + 2.0**-12)
    given = tiles(("a", "b"), name=name, a=[[x]], b=[[1.0]])
    arguments = {"a": given["a"], "b": given["b"], "on": given["dst"], "off": given["dst"]}
    found = oracle.run(pto.parse(text), arguments, profile=name)
    assert values(found["off"])[0, 0] == x
    assert values(found["on"])[0, 0] == np.round(float(x) * 2**kept + 2.0**-20) / 2.0**kept


def a_text(t: TileType) -> str:
    return (
        f"!pto.tile_buf<loc={t.loc.name.lower()}, dtype={t.dtype}, rows={t.rows}, cols={t.cols}, "
        f"blayout={t.blayout.name.lower()}, slayout={t.slayout.name.lower()}, fractal={t.fractal}>"
    )


def test_scales_multiply_their_32_elements(run_one: Run) -> None:
    given = tiles(
        ("a", "a_scale", "b", "b_scale"),
        ("f32", "f8e4m3", "f8e5m2"),
        64,
        a=np.ones((1, 64)),
        b=np.ones((64, 1)),
        a_scale=np.array([[128, 130]], np.uint8),
        b_scale=np.array([[127], [126]], np.uint8),
    )
    assert values(run_one("tmatmul.mx", given))[0, 0] == 32 * 2 + 32 * 8 * 0.5


def test_special_codes_are_special(run_one: Run) -> None:
    given = tiles(
        ("a", "a_scale", "b", "b_scale"),
        ("f32", "f8e5m2", "f8e5m2"),
        64,
        a=np.array([[0x7C], [0x3C], [0x3C]], np.uint8),
        b=np.array([[0x3C, 0x7F]], np.uint8),
        a_scale=np.array([[127], [127], [255]], np.uint8),
        b_scale=np.array([[127, 127]], np.uint8),
    )
    found = values(run_one("tmatmul.mx", given))[:3, :2]
    np.testing.assert_array_equal(found, [[np.inf, np.nan], [1, np.nan], [np.nan, np.nan]])


def simulated(d: DType, words: NDArray[Any]) -> NDArray[np.float64]:
    """What the simulator's decoders make of codes: every exponent is an ordinary one, zero has no sign."""
    if d.name == "f8e8m0":
        return np.asarray(np.ldexp(1.0, words.astype(np.int64) - 127))
    code = (words & ((1 << (d.bits - 1)) - 1)).astype(np.int64)
    exponent, fraction = code >> d.mantissa, code & ((1 << d.mantissa) - 1)
    unit = np.ldexp(1.0, np.maximum(exponent, 1) - d.bias - d.mantissa)
    size = (fraction + ((exponent > 0) << d.mantissa)) * unit
    return np.asarray(np.where((words >> (d.bits - 1) & 1 == 1) & (size != 0), -size, size))


def recorded(case: Case, name: str) -> NDArray[np.float64]:
    operand = case.operand(name)
    assert isinstance(operand, TileOperand)
    t = operand.type
    return simulated(t.dtype, to_logical(t, operand.before)[: t.v_row, : t.v_col])


def accumulators(case: Case) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What is added to the finished sum, and the recorded result."""
    outs = [o for o in case.operands if isinstance(o, TileOperand) and o.role in ("out", "inout")]
    names = {o.name: o for o in case.operands if isinstance(o, TileOperand)}
    t, after = outs[0].type, outs[0].after
    assert after is not None
    rows, cols = t.v_row or 0, t.v_col or 0
    added = names.get("c_in") or names.get("bias")
    more = np.zeros((1, 1), np.float32)
    if added is not None:
        more = to_logical(added.type, added.before).view(np.float32)[:rows, :cols]
    return more, to_logical(t, after).view(np.float32)[:rows, :cols]


@pytest.mark.parametrize("file", ["tmatmul_mx", "tgemv_mx"])
def test_excluded_cases_differ_in_the_decoding_alone(file: str) -> None:
    for case in load_file(GOLDEN / f"{file}.npz"):
        with np.errstate(over="ignore", invalid="ignore"):
            total = scaled_sum(*(recorded(case, n) for n in ("a", "b", "a_scale", "b_scale")))
            more, expected = accumulators(case)
            np.testing.assert_array_equal(total + more, expected, case.id)


def test_four_bit_types_are_decoded() -> None:
    d = dtype("f4e1m2x2")
    np.testing.assert_array_equal(
        simulated(d, np.arange(8, dtype=np.uint8)), oracle.numbers.decode(np.arange(8, dtype=np.uint8), d)
    )


def test_a_fresh_result_has_the_rows_of_a_and_the_columns_of_b() -> None:
    given = tiles(("a", "b"), a=(np.ones((16, 32)), (3, 5)), b=(np.ones((32, 16)), (5, 2)))
    a, b, dst = (given[n].type for n in ("a", "b", "dst"))
    open_dst = a_text(dst).replace("rows=16,", "rows=16, v_row=?, v_col=?,", 1)
    text = f"%c = pto.tmatmul %a, %b : ({a_text(a)}, {a_text(b)}) -> {open_dst}"
    found = oracle.run(pto.parse(text), {"a": given["a"], "b": given["b"]}, profile="cpu_sim")["c"]
    assert (found.v_row, found.v_col) == (3, 2)
