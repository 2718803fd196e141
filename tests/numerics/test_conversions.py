"""``tcvt`` against conversions written down here, on every code of the 16-bit formats, and on 2^18 random
f32 numbers and all kinds of ties in every rounding mode."""

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.ir import RoundMode, SaturationMode
from pto_jax.isa.rules.conversions import conversion

F64 = NDArray[np.float64]
ROWS, COLS = 64, 1024
ALL = np.arange(2**16, dtype=np.uint16).reshape(ROWS, COLS)
ARRAY = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
#: Mantissa bits, smallest normal exponent, largest finite value.
FORMAT = {
    "f16": (10, -14, 65504.0),
    "bf16": (7, -126, float.fromhex("0x1.fep127")),
    "f8e4m3": (3, -6, 448.0),
    "f8e5m2": (2, -14, 57344.0),
}


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def convert(x: Any, d: str, profile: str = "a5", **attributes: Any) -> NDArray[Any]:
    """Raw words of a batch of tiles after one conversion."""
    target = pto.TileType(pto.dtype(d), *x.shape[-2:])

    def one(words: Any) -> Any:
        return pto.ops.tcvt(pto.tile(words), dst=target, profile=profile, **attributes).words

    return np.asarray(jax.jit(jax.vmap(one) if x.ndim == 3 else one)(x))


def same_floats(got: NDArray[Any], wanted: Any, d: str) -> None:
    """Bit for bit; NaNs only have to be NaNs."""
    values, expected = got.view(ARRAY[d]), np.asarray(wanted).astype(ARRAY[d])
    word = got.dtype
    nan = np.isnan(values.astype(np.float32)) & np.isnan(expected.astype(np.float32))
    different = (got != expected.view(word)) & ~nan
    assert not different.any(), f"{different.sum()} differ, first {np.argwhere(different)[0]}"


@pytest.mark.variants(5)
@pytest.mark.parametrize(
    ("source", "d", "profile"),
    [
        ("f16", "f32", "a5"), ("bf16", "f32", "a5"), ("bf16", "f16", "a5"), ("f16", "bf16", "cpu_sim"),
        ("bf16", "f16", "cpu_sim"), ("f16", "f8e4m3", "cpu_sim"), ("f16", "f8e5m2", "cpu_sim"),
        ("bf16", "f8e4m3", "cpu_sim"), ("bf16", "f8e5m2", "cpu_sim"),
    ],
)  # fmt: skip
def test_every_16_bit_code_to_every_float(source: str, d: str, profile: str) -> None:
    x = ALL.view(ARRAY[source])
    off = {} if d == "f32" else {"sat_mode": SaturationMode.OFF}
    same_floats(convert(x, d, profile, **off), x.astype(np.float32).astype(ARRAY[d]), d)


@pytest.mark.variants(8)
@pytest.mark.parametrize(
    ("source", "d", "mode", "saturate"),
    [
        # By turns one of the two ways to treat what is out of range.
        pytest.param(*pair, mode, saturate, marks=() if (i + j) % 2 == saturate else pytest.mark.slow)
        for i, pair in enumerate(
            [("f16", "i8"), ("f16", "u8"), ("f16", "i16"), ("f16", "i32"), ("bf16", "i32")]
        )
        for j, mode in enumerate(["RINT", "ROUND", "FLOOR", "CEIL", "TRUNC"])
        for saturate in (False, True)
    ],
)
def test_every_16_bit_code_to_every_integer(source: str, d: str, mode: str, saturate: bool) -> None:
    x = ALL.view(ARRAY[source])
    whole = rounded(x.astype(np.float64), 1.0, RoundMode[mode])
    limits = np.iinfo(str(pto.dtype(d).numpy) if saturate else "int32")
    clamped = np.clip(np.nan_to_num(whole, nan=0.0, posinf=2**40, neginf=-(2**40)), limits.min, limits.max)
    sat = SaturationMode.ON if saturate else SaturationMode.OFF
    got = convert(x, d, rmode=mode, sat_mode=sat).view(pto.dtype(d).numpy)
    assert (got == clamped.astype(np.int64).astype(pto.dtype(d).numpy)).all()


@pytest.mark.parametrize(
    ("d", "array"), [("f8e4m3", ml_dtypes.float8_e4m3fn), ("f8e5m2", ml_dtypes.float8_e5m2)]
)
def test_every_8_bit_code_to_f32(d: str, array: Any) -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(1, 256)
    same_floats(convert(codes.view(array), "f32"), codes.view(array).astype(np.float32), "f32")


def rounded(value: F64, quantum: Any, mode: RoundMode) -> F64:
    """A multiple of ``quantum``; ODD sets the last bit of inexact results."""
    q = value / quantum
    down = np.trunc(q)
    match mode:
        case RoundMode.RINT:
            whole = np.rint(q)
        case RoundMode.ROUND:
            whole = np.copysign(np.floor(np.abs(q) + 0.5), q)
        case RoundMode.FLOOR:
            whole = np.floor(q)
        case RoundMode.CEIL:
            whole = np.ceil(q)
        case RoundMode.ODD:
            whole = np.where((down != q) & (down % 2 == 0), down + np.copysign(1.0, q), down)
        case _:
            whole = down
    return np.asarray(np.copysign(whole, value) * quantum)


def reference(x: NDArray[np.float32], d: str, mode: RoundMode, saturate: bool) -> F64:
    mantissa, smallest, largest = FORMAT[d]
    value = x.astype(np.float64)
    exponent = np.maximum(np.frexp(value)[1] - 1, smallest)
    result = rounded(value, np.ldexp(1.0, exponent - mantissa), mode)
    over = np.abs(result) > largest
    beyond = largest if saturate else np.nan if d == "f8e4m3" else np.inf
    return np.where(
        np.isnan(value), np.nan, np.where(over | np.isinf(value), np.copysign(beyond, value), result)
    )


def numbers(d: str) -> NDArray[np.float32]:
    """2^18 random patterns, of which a quarter lies in the format's range and a quarter next to ties."""
    rng = np.random.default_rng(23)
    mantissa, smallest, _ = FORMAT[d]
    words = rng.integers(0, 2**32, (4, ROWS, COLS), dtype=np.uint64).astype(np.uint32)
    exponents = rng.integers(max(smallest - mantissa - 2, -149) + 127, 127 + 18, (2, ROWS, COLS))
    fields = np.clip(exponents, 0, 254).astype(np.uint32) << np.uint32(23)
    words[1:3] = (words[1:3] & np.uint32(0x807FFFFF)) | fields
    drop = np.uint32(23 - mantissa)
    tie = (words[2] >> drop << drop) | (np.uint32(1) << (drop - np.uint32(1)))
    words[2] = tie + rng.integers(-1, 2, (ROWS, COLS)).astype(np.int32).view(np.uint32)
    tiny = rng.integers(0, 64, (ROWS, COLS)) * 2.0 ** (smallest - mantissa - 3)
    words[3, :, : COLS // 2] = tiny.astype(np.float32).view(np.uint32)[:, : COLS // 2]
    return words.view(np.float32)


def _modes() -> list[Any]:
    cases = []
    for d in FORMAT:
        how = conversion("a5", "f32", d)
        for mode in how.modes:
            choices = (True, False) if how.saturation_selectable else (True,)
            cases += [pytest.param(d, mode, s, id=f"{d}-{mode.name}-{s}") for s in choices]
    return cases


@pytest.mark.variants(5)
@pytest.mark.parametrize(("d", "mode", "saturate"), _modes())
def test_f32_in_every_rounding_mode(d: str, mode: RoundMode, saturate: bool) -> None:
    x = numbers(d)
    attributes: dict[str, Any] = {"rmode": mode}
    if conversion("a5", "f32", d).saturation_selectable:
        attributes["sat_mode"] = SaturationMode.ON if saturate else SaturationMode.OFF
    same_floats(convert(x, d, **attributes), reference(x, d, mode, saturate), d)


@pytest.mark.parametrize("d", FORMAT)
def test_the_reference_agrees_with_ml_dtypes(d: str) -> None:
    x = numbers(d)
    expected = reference(x, d, RoundMode.RINT, saturate=False).astype(np.float32)
    same_floats(x.astype(ARRAY[d]).view(pto.dtype(d).word), expected, d)


def test_hif8_is_the_nearest_code() -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(1, 256)
    target = pto.TileType(pto.dtype("f32"), 1, 256)
    decoded = pto.ops.tcvt(pto.tile(codes, dtype="hif8"), dst=target, profile="a5")
    values = np.asarray(decoded)[0].astype(np.float64)
    finite = np.isfinite(values)
    assert finite.sum() == 253 and np.unique(values[finite]).size == 253
    rng = np.random.default_rng(29)
    x = (rng.standard_normal((32, 64)) * 2.0 ** rng.integers(-24, 15, (32, 64))).astype(np.float32)
    x = np.clip(x, -32768, 32768)  # beyond lies infinity
    got = values[convert(x, "hif8")]
    best = np.abs(values[finite][:, None, None] - x).min(axis=0)
    assert (np.abs(got - x) == best).all()


def test_subnormal_sources_convert_exactly() -> None:
    words = np.arange(1, ROWS * COLS + 1, dtype=np.uint32).reshape(ROWS, COLS) * np.uint32(127)
    x = words.view(np.float32)
    same_floats(convert(x, "bf16", rmode="RINT"), x.astype(ml_dtypes.bfloat16), "bf16")
    assert not convert(x, "i32", rmode="RINT").any() and (convert(x, "i32", rmode="CEIL") == 1).all()


def near_ties(precision: int, bits: int) -> list[int]:
    """Integers of ``bits`` bits next to the middle of two neighbours of a format."""
    rng = np.random.default_rng(31)
    base = rng.integers(2 ** (precision - 1), 2**precision, 512).tolist()
    middle = [(2 * b + 1) << (bits - precision - 1) for b in base]
    return [s * (m + e) for m in middle for e in (-1, 0, 1) for s in (1, -1)]


def nearest(value: int, precision: int) -> float:
    """Rounded to ``precision`` significant bits, ties to even."""
    magnitude = abs(value)
    drop = max(magnitude.bit_length() - precision, 0)
    kept, rest, half = magnitude >> drop, magnitude & ((1 << drop) - 1), (1 << drop) >> 1
    if drop and (rest > half or (rest == half and kept & 1)):
        kept += 1
    return float((kept << drop) * (1 if value >= 0 else -1))


@pytest.mark.parametrize(
    ("source", "d", "precision", "bits"),
    [("i64", "f32", 24, 62), ("i32", "f32", 24, 31), ("i16", "f16", 11, 15)],
)
def test_integers_round_once(source: str, d: str, precision: int, bits: int) -> None:
    """A 64-bit integer that passed through f64 would round twice."""
    values = near_ties(precision, bits)
    row = np.array(values, np.int64).astype(pto.dtype(source).numpy).reshape(1, -1)
    made = pto.ops.tcvt(pto.tile(row), dst=pto.TileType(pto.dtype(d), *row.shape), rmode="RINT", profile="a5")
    assert np.asarray(made).astype(np.float64)[0].tolist() == [nearest(v, precision) for v in values]
    if source == "i64":
        assert row.astype(np.float64).astype(np.float32)[0].tolist() != [nearest(v, 24) for v in values]


def test_64_bit_integers_narrow_and_widen() -> None:
    row = np.array([[2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 5, -5, 2**32 + 7, 0]], np.int64)
    saturated = convert_integers(row, "i32", SaturationMode.ON)
    assert saturated.tolist() == np.clip(row, -(2**31), 2**31 - 1).tolist()
    assert convert_integers(row, "i32", SaturationMode.OFF).tolist() == row.astype(np.int32).tolist()
    assert convert_integers(saturated, "i64", None).tolist() == saturated.tolist()


def convert_integers(x: NDArray[Any], d: str, mode: SaturationMode | None) -> NDArray[Any]:
    attributes = {} if mode is None else {"sat_mode": mode}
    target = pto.TileType(pto.dtype(d), *x.shape)
    return np.asarray(pto.ops.tcvt(pto.tile(x), dst=target, profile="a5", **attributes))
