"""Comparison rules: bits, NaNs, signed zeros, ULP distances, and what a report says."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax import ir
from pto_jax.vectors.compare import EXACT, compare_operand, compare_words, is_nan, number, ulp_distance
from pto_jax.vectors.manifest import Rule, TileOperand

ONE_ULP = Rule(ulp=1)
NAN_EQUAL = Rule(ulp=0, any_nan=True)


def words(d: ir.DType, *bits: int) -> NDArray[Any]:
    return np.array(bits, dtype=d.word)


def equal(d: ir.DType, a: int, b: int, rule: Rule) -> bool:
    return compare_words("dst", d, words(d, a), words(d, b), rule).equal


def test_bits_decide_by_default() -> None:
    assert equal(ir.F32, 0x3F800000, 0x3F800000, EXACT)
    assert not equal(ir.F32, 0x3F800000, 0x3F800001, EXACT)
    assert not equal(ir.F32, 0x7FC00000, 0xFFC00001, EXACT)
    assert not equal(ir.F32, 0x00000000, 0x80000000, NAN_EQUAL)


@pytest.mark.parametrize(
    ("d", "a", "b"),
    [
        (ir.F32, 0x7FC00000, 0xFF800001),
        (ir.F16, 0x7E00, 0xFC01),
        (ir.BF16, 0x7FC0, 0xFF81),
        (ir.F8E5M2, 0x7D, 0xFF),
        (ir.F8E4M3, 0x7F, 0xFF),
    ],
)
def test_any_nan_equals_any_nan_where_the_rule_says_so(d: ir.DType, a: int, b: int) -> None:
    assert equal(d, a, b, NAN_EQUAL)
    assert not equal(d, a, b, EXACT)


def test_a_nan_never_equals_a_number() -> None:
    assert not equal(ir.F32, 0x7FC00000, 0x7F800000, Rule(ulp=1 << 22))
    assert not equal(ir.F8E4M3, 0x7F, 0x7E, ONE_ULP)


def test_ulp_bounds_cross_exponents_but_not_the_sign_of_zero() -> None:
    assert equal(ir.F32, 0x3F7FFFFF, 0x3F800000, ONE_ULP)
    assert not equal(ir.F32, 0x3F7FFFFF, 0x3F800001, ONE_ULP)
    assert equal(ir.F32, 0x00000000, 0x00000001, ONE_ULP)
    assert not equal(ir.F32, 0x00000000, 0x80000000, Rule(ulp=5))


@pytest.mark.parametrize("d", [ir.F32, ir.F16, ir.BF16, ir.F8E4M3, ir.F8E5M2])
def test_neighbouring_values_are_one_ulp_apart(d: ir.DType) -> None:
    bits = words(d, 1, 2, (1 << d.mantissa) - 1, 3 << d.mantissa)
    assert ulp_distance(d, bits, bits + d.word.type(1)).tolist() == [1, 1, 1, 1]
    sign = 1 << (d.bits - 1)
    assert ulp_distance(d, words(d, sign | 5), words(d, 3)).tolist() == [9]


@pytest.mark.parametrize(
    ("d", "t"),
    [
        (ir.F16, np.float16),
        (ir.BF16, ml_dtypes.bfloat16),
        (ir.F8E4M3, ml_dtypes.float8_e4m3fn),
        (ir.F8E5M2, ml_dtypes.float8_e5m2),
        (ir.F8E8M0, ml_dtypes.float8_e8m0fnu),
    ],
)
def test_nan_patterns_are_those_of_the_format(d: ir.DType, t: Any) -> None:
    every = np.arange(1 << d.bits, dtype=np.uint64).astype(d.word)
    np.testing.assert_array_equal(is_nan(d, every), np.isnan(every.view(t).astype(np.float32)))


def test_shape_and_type_mismatch_is_a_failure() -> None:
    short = compare_words("dst", ir.F32, words(ir.F32, 1, 2), words(ir.F32, 1))
    other = compare_words("dst", ir.F32, words(ir.F32, 1), words(ir.F16, 1))
    assert not short and "got uint32[1], expected uint32[2]" in str(short)
    assert not other and "got uint16[1]" in str(other)


def test_the_report_names_the_first_difference_in_hex_and_as_numbers() -> None:
    t = ir.TileType(ir.F32, 2, 2, blayout=ir.BLayout.COL_MAJOR)
    want = words(ir.F32, 0, 0, 0x3F800000, 0x40000000)
    got = words(ir.F32, 0, 0, 0x3F800003, 0x41000000)
    found = compare_words("dst", ir.F32, want, got, ONE_ULP, tile=t)
    assert (found.different, found.elements, found.max_ulp) == (2, 4, 1 << 24)
    assert found.first is not None and found.first.position == (0, 1) and found.first.ulp == 3
    assert str(found).startswith(
        "2 of 4 elements differ, first dst (0, 1): expected 0x3f800000 (1.0), got 0x3f800003"
    )


def test_undefined_elements_are_skipped() -> None:
    skip = np.array([True, False])
    found = compare_words("dst", ir.I8, words(ir.I8, 1, 2), words(ir.I8, 9, 2), skip=skip)
    assert found.equal and found.elements == 1


@pytest.mark.parametrize(
    ("d", "bits", "value"),
    [
        (ir.F4E2M1, 0x7, 6.0),
        (ir.F4E2M1, 0x9, -0.5),
        (ir.F4E1M2, 0x7, 1.75),
        (ir.F4E1M2, 0x3, 0.75),
        (ir.I4, 0xF, -1),
        (ir.I8, 0x80, -128),
        (ir.F16, 0x7BFF, 65504.0),
        (ir.HIF8, 0x12, None),
    ],
)
def test_bits_are_shown_as_numbers(d: ir.DType, bits: int, value: float | None) -> None:
    assert number(d, bits) == value


def operand(before: list[int], after: list[int]) -> TileOperand:
    t = ir.TileType(ir.F32, 1, len(after), 1, 1)
    raw_before, raw_after = (np.array(w, np.uint32).view(np.uint8) for w in (before, after))
    return TileOperand("dst", "out", t, raw_before, raw_after, None)


def test_elements_left_alone_must_keep_their_bits() -> None:
    nan, other_nan = 0x7FC00000, 0x7FC00001
    left_alone = operand([1, nan, 3, 4], [2, nan, 3, 4])
    assert compare_operand(left_alone, np.array([2, nan, 3, 4], np.uint32).view(np.uint8), NAN_EQUAL)
    assert not compare_operand(
        left_alone, np.array([2, other_nan, 3, 4], np.uint32).view(np.uint8), NAN_EQUAL
    )
    written = operand([1, 5, 3, 4], [2, nan, 3, 4])
    assert compare_operand(written, np.array([2, other_nan, 3, 4], np.uint32).view(np.uint8), NAN_EQUAL)


def test_raw_bytes_of_another_size_are_a_failure() -> None:
    found = compare_operand(operand([1], [1]), np.zeros(3, np.uint8), EXACT)
    assert not found and "expected 4 raw bytes" in str(found)
