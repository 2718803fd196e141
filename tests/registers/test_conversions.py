"""Conversions between element types in registers against roundings written down here."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.ir import dtype
from pto_jax.isa.rules.registers import PARTS

from .calls import check, data, image_of, masks, rooms as rooms, vreg
from .test_rooms_agree import CONVERSIONS, conversion, one

Words = NDArray[Any]
pytestmark = pytest.mark.usefixtures("rooms")

#: The whole number that a rounding takes for a fraction.
WHOLE: dict[str, Callable[[Fraction], int]] = {
    "R": round,
    "A": lambda x: math.floor(abs(x) + Fraction(1, 2)) * (1 if x > 0 else -1),
    "H": lambda x: math.ceil(abs(x) - Fraction(1, 2)) * (1 if x > 0 else -1),
    "F": math.floor,
    "C": math.ceil,
    "Z": math.trunc,
    "O": lambda x: (
        math.trunc(x) if x.denominator == 1 or math.trunc(x) % 2 else math.trunc(x) + (1 if x > 0 else -1)
    ),
}
#: Bits of the fraction, smallest normal exponent, and largest finite value of floats.
FORMAT = {
    "f32": (23, -126, float(np.finfo(np.float32).max)),
    "f16": (10, -14, 65504.0),
    "bf16": (7, -126, float.fromhex("0x1.fep127")),
    "f8e4m3": (3, -6, 448.0),
    "f8e5m2": (2, -14, 57344.0),
}
_F4 = {
    "f4e1m2x2": [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75],
    "f4e2m1x2": [0, 0.5, 1, 1.5, 2, 3, 4, 6],
}


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def hif8_value(code: int) -> float:
    """Decoding of the public golden script of special values, in other words."""
    sign, body = (-1.0 if code & 0x80 else 1.0), code & 0x7F
    if body == 0:
        return math.nan if code & 0x80 else 0.0
    if body == 0x6F:
        return sign * math.inf
    if body < 8:
        return sign * 2.0 ** (body - 23)
    width = 0 if body < 0x10 else 1 if body < 0x20 else 2 if body < 0x40 else 3 if body < 0x60 else 4
    prefix = {0: 4, 1: 3, 2: 2, 3: 2, 4: 2}[width]
    fraction = 7 - prefix - width
    exponent = 0
    if width:
        field = (body >> fraction) & ((1 << width) - 1)
        size = field | (1 << (width - 1))
        exponent = -size if field >> (width - 1) else size
    return sign * 2.0**exponent * (1 + (body & ((1 << fraction) - 1)) / (1 << fraction))


def value_of(word: int, t: str) -> float | int:
    """The number that a word stands for."""
    if t == "hif8":
        return hif8_value(word)
    d = dtype(t)
    number = np.array([word], d.word).view(d.numpy)[0]
    return float(number) if d.is_float else int(number)


def quantum(x: Fraction, t: str) -> Fraction:
    """The distance of neighbouring numbers of a format around a number."""
    fraction, least, _ = FORMAT[t]
    exponent = max(math.floor(math.log2(abs(x))) if x else least, least)
    while Fraction(2) ** (exponent + 1) <= abs(x):
        exponent += 1
    while exponent > least and Fraction(2) ** exponent > abs(x):
        exponent -= 1
    return Fraction(2) ** (exponent - fraction)


def to_float(x: float | int, t: str, rounding: str, saturate: bool) -> int:
    """The word of a number in a float format."""
    d = dtype(t)
    if math.isnan(x):
        return 0 if saturate else d.canonical_nan
    limit = FORMAT[t][2]
    if math.isinf(x):
        rounded = x
    else:
        step = quantum(Fraction(x), t)
        rounded = float(WHOLE[rounding](Fraction(x) / step) * step)
    if abs(rounded) > limit:
        rounded = math.copysign(limit if saturate else math.inf, rounded)
    if math.isinf(rounded) and t == "f8e4m3":
        return d.canonical_nan | (0x80 if rounded < 0 else 0)
    sign = math.copysign(1, x) if isinstance(x, float) else (x > 0) - (x < 0) or 1
    return int(np.array([math.copysign(rounded, sign)]).astype(d.numpy).view(d.word)[0])


def to_integer(x: float | int, t: str, rounding: str, saturate: bool, source: str) -> int:
    """The word of a number in an integer type; floats that do not fit are left out by the tests."""
    d = dtype(t)
    if isinstance(x, float):
        if math.isnan(x):
            return 0
        whole: float | int = x if math.isinf(x) else WHOLE[rounding](Fraction(x))
        if not saturate and d.bits < 32:
            return int(int(min(max(whole, -(2**31)), 2**31 - 1)) % 2**d.bits)
        return int(int(min(max(whole, d.min_int), d.max_int)) % 2**d.bits)
    negative = dtype(source).is_signed and not d.is_signed and d.bits > dtype(source).bits
    x = min(max(x, d.min_int), d.max_int) if saturate or negative else x
    return int(x % 2**d.bits)


def expected(word: int, s: str, t: str, rounding: str, saturate: bool) -> int:
    x = value_of(word, s)
    return (
        to_float(x, t, rounding, saturate) if dtype(t).is_float else to_integer(x, t, rounding, saturate, s)
    )


_DIRECT = [
    row
    for row in CONVERSIONS
    if "hif8" not in row[:2] and not row[0].startswith("f4") and not row[1].startswith("f4")
]


@pytest.mark.parametrize("row", _DIRECT, ids=lambda row: f"{row[0]}-{row[1]}")
def test_lanes_are_rounded_saturated_and_placed(row: tuple[str, str, str, bool, int]) -> None:
    s, t, letters, saturates, ways = row
    source, target = vreg(s), vreg(t)
    part = {1: None, 2: "ODD", 4: "P2"}[ways]
    image = image_of(np.random.default_rng(7).integers(0, 4, source.lanes) > 0)
    flags = image[:: 256 // source.lanes]
    for letter, sat in itertools.product(letters or " ", ("SAT", "NOSAT") if saturates else ("",)):
        words = data(source.dtype, source.lanes, (s, t, letter, sat))
        attributes = {"rnd": letter if letters else "", "sat": sat, "part": part}
        call = conversion(s, t, **{k: v for k, v in attributes.items() if v})
        made = [expected(int(w), s, t, letter.strip() or "R", sat == "SAT") if f else 0
                for w, f in zip(words, flags, strict=True)]  # fmt: skip
        got = check(call, words, image)[0]
        wanted = np.zeros(target.lanes, object)
        at = PARTS[part] if part else 0
        if target.lanes > source.lanes:
            wanted[at :: target.lanes // source.lanes] = made
        else:
            wanted[:] = made[at :: source.lanes // target.lanes]
        assert got.tolist() == wanted.tolist(), call.attributes


@pytest.mark.parametrize("part", ["P0", "P1", "P2", "P3"])
def test_every_code_of_hif8_is_decoded(part: str) -> None:
    codes, everything = np.arange(256, dtype=np.uint8), np.ones(256, bool)
    got = check(conversion("hif8", "f32", part=part), codes, everything)[0].view(np.float32)
    expected = [hif8_value(int(c)) for c in codes[PARTS[part] :: 4]]
    np.testing.assert_array_equal(got, np.array(expected, np.float32))


@pytest.mark.parametrize("s", ["f32", "f16"])
@pytest.mark.parametrize("letter", ["A", "H"])
def test_hif8_is_the_nearest_code_and_ties_go_by_the_letter(s: str, letter: str) -> None:
    ways, lanes = {"f32": 4, "f16": 2}[s], vreg(s).lanes
    part = "P1" if ways == 4 else "ODD"
    table = {c: hif8_value(c) for c in range(128) if c != 0x6F}
    midpoints = sorted(table.values())
    ties = [(a + b) / 2 for a, b in itertools.pairwise(midpoints)]
    numbers = np.array([*table.values(), *ties, 1e-9, 40000.0, 50000.0]).astype(dtype(s).numpy)
    numbers = np.concatenate([numbers, -numbers])
    for start in range(0, len(numbers), lanes):
        x = np.resize(numbers[start : start + lanes], lanes)
        call = conversion(s, "hif8", rnd=letter, sat="SAT", part=part)
        got = check(call, x.view(dtype(s).word), np.ones(256, bool))[0][1::ways]
        for number, code in zip(x.astype(float), got, strict=True):
            size = abs(number)
            best = min(table, key=lambda c: (abs(table[c] - size), -table[c] if letter == "A" else table[c]))
            sign = 0x80 if number < 0 and best else 0
            assert code == best | sign, (number, code, best)


@pytest.mark.parametrize("t", _F4)
def test_pairs_of_four_bits(t: str) -> None:
    """The values of the public golden script: to nearest even, beyond the largest the largest."""
    values = [(sign * float(v), k | (8 if sign < 0 else 0)) for sign in (1, -1) for k, v in enumerate(_F4[t])]
    ties = {
        "f4e1m2x2": [(0.625, 2), (0.875, 4), (9.0, 7)],
        "f4e2m1x2": [(0.75, 2), (1.25, 2), (1.75, 4), (9.0, 7)],
    }
    pairs = [
        *values,
        *ties[t],
        *((-v, k | 8) for v, k in ties[t]),
        (math.inf, 7),
        (-math.inf, 15),
        (math.nan, 0),
    ]
    x = np.resize(np.array([v for v, _ in pairs], np.float32), 128).astype(ml_dtypes.bfloat16)
    codes = np.resize(np.array([k for _, k in pairs], np.uint8), 128)
    image = image_of(np.arange(128) % 5 != 1)
    kept = np.where(np.arange(128) % 5 != 1, codes, 0)
    for k in range(4):
        got = check(conversion("bf16", t, rnd="R", part=f"P{k}"), x.view(np.uint16), image)[0]
        expected = np.zeros(256, np.uint8)
        expected[k::4] = kept[0::2] | kept[1::2] << 4
        np.testing.assert_array_equal(got, expected)
        back = check(conversion(t, "bf16", part=f"P{k}"), got, np.ones(256, bool))[0].view(ml_dtypes.bfloat16)
        table = np.array([*_F4[t], *(-v for v in _F4[t])])
        np.testing.assert_array_equal(back.astype(float), table[kept])


@pytest.mark.parametrize("t", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("letter", "RAFCZ")
def test_floats_become_whole_numbers(t: str, letter: str) -> None:
    r = vreg(t)
    *_, image = masks(r.lanes, (t, letter))
    words = data(r.dtype, r.lanes, (t, letter))
    got = check(one("vtrc", t, rnd=letter), words, image)[0]
    for word, result, flag in zip(words, got, image[:: 256 // r.lanes], strict=True):
        x = value_of(int(word), t)
        whole = x if math.isnan(x) or math.isinf(x) else math.copysign(WHOLE[letter](Fraction(x)), x)
        expected = to_float(whole, t, "R", saturate=False) if flag else 0
        assert result == expected, (x, result, expected)


@pytest.mark.parametrize("part", ["EVEN", "ODD"])
def test_a_product_is_rounded_before_it_is_narrowed(part: str) -> None:
    x, scale = data(dtype("f32"), 64, "scale"), np.float32(1.3)
    *_, image = masks(64, "scale")
    call = one("vmulscvt", "f32", "*f32", result="f16", rnd="A", part=part)
    got = check(call, x, scale.view(np.uint32), image)[0]
    product = x.view(np.float32) * scale
    expected = np.zeros(128, np.uint16)
    lanes = [
        to_float(float(p), "f16", "A", saturate=False) if f else 0
        for p, f in zip(product, image[::4], strict=True)
    ]
    expected[part == "ODD" :: 2] = lanes
    np.testing.assert_array_equal(got, expected)


def test_ties_of_the_public_cases() -> None:
    """1.0625 and 1.1875 to e4m3: away 0x39 and 0x3A, toward zero 0x38 and 0x39, to even 0x38 and 0x3A."""
    x = np.resize(np.array([1.0625, 1.1875, -1.0625, -1.1875], np.float32), 64).view(np.uint32)
    expected = {"A": [0x39, 0x3A], "H": [0x38, 0x39], "R": [0x38, 0x3A], "Z": [0x38, 0x39]}
    for letter, codes in expected.items():
        call = conversion("f32", "f8e4m3", rnd=letter, sat="SAT", part="P0")
        got = check(call, x, np.ones(256, bool))[0][0:16:4]
        assert got.tolist() == [*codes, *(c | 0x80 for c in codes)], letter
