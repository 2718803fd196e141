"""Element formats: decoding and encoding against ml_dtypes, NumPy and the format definitions."""

import ctypes
import ctypes.util
import platform
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import BF16, F4E1M2, F4E2M1, F8E4M3, F8E5M2, F8E8M0, F16, F32, HIF8, I4, DType, RoundMode
from pto_jax.oracle.numbers import decode, encode, flush, integral, small_float, ties_to_odd

Array = NDArray[Any]
PEERS = [
    (F8E4M3, ml_dtypes.float8_e4m3fn),
    (F8E5M2, ml_dtypes.float8_e5m2),
    (F8E8M0, ml_dtypes.float8_e8m0fnu),
    (F4E2M1, ml_dtypes.float4_e2m1fn),
]


def _codes(d: DType) -> Array:
    return np.arange(1 << d.bits, dtype=np.uint8)


@pytest.mark.parametrize(("d", "peer"), PEERS, ids=lambda p: getattr(p, "name", ""))
def test_every_small_code_decodes_like_ml_dtypes(d: DType, peer: Any) -> None:
    expected = _codes(d).view(peer).astype(np.float64)
    np.testing.assert_array_equal(decode(_codes(d), d), expected)


def test_e1m2_is_quarters() -> None:
    np.testing.assert_array_equal(decode(_codes(F4E1M2)[:8], F4E1M2), np.arange(8) / 4)
    np.testing.assert_array_equal(decode(_codes(F4E1M2)[8:], F4E1M2), -np.arange(8) / 4)


@pytest.mark.parametrize("d", [F8E4M3, F8E5M2, HIF8, F4E2M1, F4E1M2, F8E8M0], ids=str)
def test_every_finite_code_encodes_back(d: DType) -> None:
    codes = _codes(d)
    numbers = ~np.isnan(decode(codes, d))
    np.testing.assert_array_equal(encode(decode(codes, d), d)[numbers], codes[numbers])


@pytest.mark.parametrize(("d", "peer"), [*PEERS[:2], PEERS[3]], ids=lambda p: getattr(p, "name", ""))
def test_small_encoding_rounds_like_ml_dtypes(d: DType, peer: Any) -> None:
    magnitudes = small_float(d).magnitudes[np.isfinite(small_float(d).magnitudes)]
    middles = (magnitudes[1:] + magnitudes[:-1]) / 2
    x = np.concatenate([magnitudes, middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9), [1e6]])
    x = np.concatenate([x, -x])
    # Through float32 where that is exact enough not to round twice.
    x = x[x == x.astype(np.float32)]
    np.testing.assert_array_equal(encode(x, d), x.astype(np.float32).astype(peer).view(np.uint8))


@pytest.mark.parametrize(
    ("d", "x", "plain", "saturated"),
    [
        (F8E4M3, 464.0, 0x7E, 0x7E),
        (F8E4M3, 465.0, 0x7F, 0x7E),
        (F8E4M3, -np.inf, 0xFF, 0xFE),
        (F8E5M2, 61440.0, 0x7C, 0x7B),
        (F8E5M2, np.inf, 0x7C, 0x7B),
        (HIF8, 65536.0, 0x6F, 0x6E),
        (HIF8, -1e9, 0xEF, 0xEE),
        (F4E2M1, 100.0, 0x7, 0x7),
        (F4E1M2, -100.0, 0xF, 0xF),
        (F16, 65520.0, 0x7C00, 0x7BFF),
        (F16, -np.inf, 0xFC00, 0xFBFF),
        (BF16, 3.4e38, 0x7F80, 0x7F7F),
        (F32, 1e39, 0x7F800000, 0x7F7FFFFF),
    ],
)
def test_overflow(d: DType, x: float, plain: int, saturated: int) -> None:
    values = np.array([x])
    assert encode(values, d)[0] == plain
    assert encode(values, d, saturate=True)[0] == saturated


@pytest.mark.parametrize("d", [F32, F16, BF16, F8E4M3, F8E5M2, HIF8], ids=str)
def test_nan_is_canonical(d: DType) -> None:
    nans = np.array([np.nan, -np.nan])
    assert (encode(nans, d) == d.canonical_nan).all()
    assert (encode(nans, d, saturate=True) == d.canonical_nan).all()


def test_hif8_format() -> None:
    expected = {
        0x00: 0.0,
        0x01: 2.0**-22,
        0x07: 2.0**-16,
        0x7E: 2.0**-15,
        0x08: 1.0,
        0x0F: 1.875,
        0x10: 2.0,
        0x18: 0.5,
        0x20: 4.0,
        0x2F: 15.0,
        0x30: 0.25,
        0x6E: 32768.0,
        0x6F: np.inf,
        0xEF: -np.inf,
        0x88: -1.0,
    }
    codes = np.array(list(expected), np.uint8)
    np.testing.assert_array_equal(decode(codes, HIF8), list(expected.values()))
    assert np.isnan(decode(np.array([0x80], np.uint8), HIF8)[0])
    positive = decode(np.arange(128, dtype=np.uint8), HIF8)
    assert len(np.unique(positive)) == 128


def test_hif8_has_no_negative_zero() -> None:
    assert encode(np.array([-0.0, -1e-30]), HIF8).tolist() == [0, 0]


def test_hif8_ties() -> None:
    middle = np.array([1.0 + 1 / 16, 1.0 + 3 / 16])
    assert decode(encode(middle, HIF8), HIF8).tolist() == [1.0, 1.25]
    assert decode(encode(middle, HIF8, mode=RoundMode.ROUND), HIF8).tolist() == [1.125, 1.25]


@pytest.mark.parametrize("d", [F16, BF16], ids=str)
def test_sixteen_bit_ties_go_to_even(d: DType) -> None:
    finite = np.arange(0, ((1 << d.exponent) - 1) << d.mantissa, dtype=np.uint16)
    values = decode(finite, d).astype(np.float64)
    middles = (values[1:] + values[:-1]) / 2
    even = np.where(finite[:-1] % 2 == 0, finite[:-1], finite[1:])
    np.testing.assert_array_equal(encode(middles, d), even)
    np.testing.assert_array_equal(encode(np.nextafter(middles, np.inf), d), finite[1:])
    np.testing.assert_array_equal(encode(np.nextafter(middles, 0), d), finite[:-1])
    np.testing.assert_array_equal(encode(-middles, d), even | 0x8000)


def test_bf16_from_float32_matches_ml_dtypes() -> None:
    words = np.random.default_rng(1).integers(0, 1 << 32, 20000, dtype=np.uint32)
    x = words.view(np.float32)
    x = x[~np.isnan(x)]
    np.testing.assert_array_equal(encode(x, BF16), x.astype(ml_dtypes.bfloat16).view(np.uint16))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (RoundMode.RINT, [1.0, 1.0 + 2**-10, -1.0]),
        (RoundMode.ROUND, [1.0 + 2**-10, 1.0 + 2**-10, -1.0 - 2**-10]),
        (RoundMode.FLOOR, [1.0, 1.0, -1.0 - 2**-10]),
        (RoundMode.CEIL, [1.0 + 2**-10, 1.0 + 2**-10, -1.0]),
        (RoundMode.TRUNC, [1.0, 1.0, -1.0]),
        (RoundMode.ODD, [1.0 + 2**-10, 1.0 + 2**-10, -1.0 - 2**-10]),
    ],
)
def test_rounding_modes_of_f16(mode: RoundMode, expected: list[float]) -> None:
    x = np.array([1.0 + 2**-11, 1.0 + 0.75 * 2**-10, -1.0 - 2**-11])
    assert decode(encode(x, F16, mode=mode), F16).tolist() == expected


def test_integral_keeps_what_lies_just_below_a_half() -> None:
    below = np.nextafter(0.5, 0)
    assert integral(np.array([below, 0.5, -0.5, 2.5]), RoundMode.ROUND).tolist() == [0.0, 1.0, -1.0, 3.0]


def test_ties_to_odd() -> None:
    assert ties_to_odd(np.array([0.5, 1.5, 2.5, -0.5, 1.3])).tolist() == [1.0, 1.0, 3.0, -1.0, 1.0]


def test_i4_sign_extends() -> None:
    assert decode(np.array([0x07, 0x08, 0x0F], np.uint8), I4).tolist() == [7, -8, -1]
    assert encode(np.array([-1, 7, -8], np.int8), I4).tolist() == [0x0F, 0x07, 0x08]


@pytest.mark.parametrize(
    ("d", "words", "expected"),
    [
        (F32, [0x00000001, 0x807FFFFF, 0x00800000, 0x7FC00000], [0, 0x80000000, 0x00800000, 0x7FC00000]),
        (F16, [0x0001, 0x83FF, 0x0400], [0, 0x8000, 0x0400]),
        (BF16, [0x0001, 0x807F, 0x0080], [0, 0x8000, 0x0080]),
    ],
)
def test_flush_keeps_signs(d: DType, words: list[int], expected: list[int]) -> None:
    assert flush(np.array(words, d.word), d).tolist() == expected


def _flush_in_this_thread() -> None:
    """What code that is compiled with -ffast-math does when it is loaded."""
    library, environment = ctypes.CDLL(ctypes.util.find_library("m")), (ctypes.c_uint32 * 8)()
    library.fegetenv(environment)
    environment[7] |= 0x8040
    library.fesetenv(environment)


@pytest.mark.skipif((platform.machine(), platform.system()) != ("x86_64", "Linux"), reason="the C library's")
def test_the_interpreter_refuses_a_thread_that_flushes_subnormal_numbers() -> None:
    negated = pto.parse("%z = tneg %x : !pto.tile<1x8xf32>")
    x = oracle.OracleTile(pto.tile_type("f32", 1, 8), np.zeros((1, 8), np.float32))

    def flushed() -> None:
        _flush_in_this_thread()
        oracle.run(negated, (x,))

    with ThreadPoolExecutor(1) as threads:
        threads.submit(oracle.run, negated, (x,)).result()
        with pytest.raises(pto.ExactnessError, match=r"NumPy computes 2\^-126 / 2 as zero in this thread"):
            threads.submit(flushed).result()
