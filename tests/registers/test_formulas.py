"""Every operation on registers against a formula written down here: boundary values, NaNs, partial masks."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.ir import dtype
from pto_jax.isa.micro import MicroCall

from .calls import check, data, image_of, mask, mask_for, masks, rooms as rooms, scalar, vreg
from .test_rooms_agree import one

Words = NDArray[Any]
pytestmark = pytest.mark.usefixtures("rooms")


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def f32(words: Words, name: str) -> Words:
    """The values of float words, exactly."""
    return words.view(dtype(name).numpy).astype(np.float32)


def words_of(values: Words, name: str) -> Words:
    """Words of values rounded once to a type, NaN canonical; integers keep low bits."""
    d = dtype(name)
    if d.is_integer:
        return values.astype(d.word)
    words = np.asarray(values).astype(d.numpy).view(d.word)
    return np.where(np.isnan(values), d.word.type(d.canonical_nan), words)


def values(words: Words, name: str) -> Words:
    d = dtype(name)
    return f32(words, name) if d.is_float else words.view(d.numpy)


def active(flags: Words, words: Words) -> Words:
    return np.where(flags, words, words.dtype.type(0))


def larger(a: Words, b: Words) -> Words:
    """NumPy's maximum, which keeps NaN; of zeros the positive one."""
    return np.where((a == 0) & (b == 0) & (a.dtype.kind == "f"), a + b, np.maximum(a, b))


def smaller(a: Words, b: Words) -> Words:
    return -larger(-a, -b) if a.dtype.kind == "f" else np.minimum(a, b)


def quotient(a: Words, b: Words) -> Words:
    """Integers as Python divides them, towards zero; nothing is said of a zero divisor."""
    if a.dtype.kind == "f":
        return a / b
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return np.array([abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0 for x, y in pairs])


def rounded_exp(x: Words) -> Words:
    return np.exp(x.astype(np.float64)).astype(np.float32)


TWO: dict[str, Callable[..., Words]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vmul": lambda a, b: a * b,
    "vdiv": quotient,
    "vmax": larger,
    "vmin": smaller,
    "vprelu": lambda a, b: np.where(a >= 0, a, a * b),
}
SCALED = {
    "vadds": TWO["vadd"],
    "vmuls": TWO["vmul"],
    "vmaxs": larger,
    "vmins": smaller,
    "vlrelu": TWO["vprelu"],
}
ONE: dict[str, Callable[..., Words]] = {
    "vneg": lambda a: -a,
    "vrelu": lambda a: larger(a, np.zeros_like(a)),
    "vexp": lambda a: np.exp(a.astype(np.float64)),
    "vln": lambda a: np.log(a.astype(np.float64)),
    "vsqrt": lambda a: np.sqrt(a.astype(np.float64)),
    "vrsqrt": lambda a: 1 / np.sqrt(a.astype(np.float64)),
}
_ALL = ("si8", "ui8", "i16", "ui16", "i32", "ui32", "si64", "f16", "bf16", "f32")
_REAL = ("f16", "f32")
TYPES = {
    "vmul": ("si16", "ui16", "i32", "ui32", "f16", "bf16", "f32"),
    "vdiv": ("si16", "i32", *_REAL),
    "vprelu": _REAL,
    "vlrelu": _REAL,
    "vneg": ("si8", "i16", "i32", *_REAL),
    "vrelu": ("si32", *_REAL),
}


def _cases(table: dict[str, Callable[..., Words]], types: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(n, t) for n in table for t in TYPES.get(n, types)]


@pytest.mark.parametrize(("name", "t"), [*_cases(TWO, _ALL), *_cases(SCALED, _ALL[:6] + _ALL[7:])])
def test_two_operands(name: str, t: str) -> None:
    d, single = dtype(t), name in SCALED
    lanes = vreg(t).lanes
    call = one(name, t, f"*{t}" if single else t)
    for k, image in enumerate(masks(lanes, (name, t))):
        a, b = (data(d, lanes, (name, t, k, i)) for i in range(2))
        b = b[k] if single else b
        got = check(call, a, np.asarray(b), image)[0]
        formula = SCALED[name] if single else TWO[name]
        expected = words_of(formula(values(a, t), values(np.asarray(b), t)), t)
        flags = image[:: 256 // lanes]
        keeps = name in ("vprelu", "vlrelu")
        expected = np.where(values(a, t) >= 0, a, expected) if keeps else expected
        np.testing.assert_array_equal(got, active(flags, expected))


@pytest.mark.parametrize(("name", "t"), _cases(ONE, _REAL))
def test_one_operand(name: str, t: str) -> None:
    lanes = vreg(t).lanes
    for k, image in enumerate(masks(lanes, (name, t))):
        a = data(dtype(t), lanes, (name, t, k))
        got = check(one(name, t), a, image)[0]
        expected = words_of(ONE[name](values(a, t)), t)
        if name == "vneg" and dtype(t).is_float:
            expected = a ^ dtype(t).word.type(1 << (dtype(t).bits - 1))
        np.testing.assert_array_equal(got, active(image[:: 256 // lanes], expected))


def test_absolute_values_keep_the_minimum_and_the_sign_of_zero() -> None:
    everything = np.ones(256, bool)
    a = np.resize(np.array([-128, -127, -1, 0, 1, 127], np.int8), 256).view(np.uint8)
    got = check(one("vabs", "si8"), a, everything)[0].view(np.int8)
    assert got[:6].tolist() == [-128, 127, 1, 0, 1, 127]
    x = np.resize(np.array([-2.5, -0.0, 0.0, -np.inf, 3.0], np.float32), 64)
    got = check(one("vabs", "f32"), x.view(np.uint32), everything)[0].view(np.float32)
    assert got[:5].tolist() == [2.5, 0.0, 0.0, np.inf, 3.0] and np.signbit(got[1])


@pytest.mark.parametrize("t", ["ui8", "f16", "hif8", "i32"])
def test_bits(t: str) -> None:
    lanes, table = vreg(t).lanes, {"vand": np.bitwise_and, "vor": np.bitwise_or, "vxor": np.bitwise_xor}
    for (name, operation), image in itertools.product(table.items(), masks(lanes, t)):
        a, b = (data(dtype(t), lanes, (name, i)) for i in range(2))
        got = check(one(name, t, t), a, b, image)[0]
        np.testing.assert_array_equal(got, active(image[:: 256 // lanes], operation(a, b)))
        inverse = check(one("vnot", t), a, image)[0]
        np.testing.assert_array_equal(inverse, active(image[:: 256 // lanes], ~a))


@pytest.mark.parametrize("t", ["i8", "si8", "ui16", "si32", "i32"])
def test_shifts(t: str) -> None:
    """Only a type that has a sign extends it."""
    d, lanes = dtype(t), vreg(t).lanes
    a = data(d, lanes, t)
    counts = np.arange(lanes) % d.bits
    image = image_of(np.arange(lanes) % 5 != 2)
    flags = image[:: 256 // lanes]
    signed = t.startswith("si")
    for k in (0, 1, d.bits - 1):
        left = check(one("vshls", t, "*i16"), a, np.uint16(k), image)[0]
        np.testing.assert_array_equal(left, active(flags, (a.astype(np.uint64) << k).astype(d.word)))
        right = check(one("vshrs", t, "*i16"), a, np.uint16(k), image)[0]
        wide = a.view(d.numpy if signed else d.word).astype(np.int64)
        np.testing.assert_array_equal(right, active(flags, (wide >> k).astype(d.word)))
    by_lane = one("vshr", t, f"si{d.bits}")
    wide = a.view(d.numpy if signed else d.word).astype(np.int64)
    got = check(by_lane, a, counts.astype(d.word), image)[0]
    np.testing.assert_array_equal(got, active(flags, (wide >> counts).astype(d.word)))
    got = check(one("vshl", t, f"si{d.bits}"), a, counts.astype(d.word), image)[0]
    expected = (a.astype(np.uint64) << counts.astype(np.uint64)).astype(d.word)
    np.testing.assert_array_equal(got, active(flags, expected))


def test_multiply_add_rounds_once_in_the_order_of_each_operation() -> None:
    rng = np.random.default_rng(5)
    image = image_of(np.arange(64) % 7 != 3)
    a, b, c = ((rng.uniform(1, 2, 64) * rng.choice([-1, 1], 64)).astype(np.float32) for _ in range(3))
    a[:2], b[:2], c[:2] = 1 + 2**-12, 1 + 2**-12, (2**-60, -(2**-60))
    wide = [v.astype(np.longdouble) for v in (a, b, c)]
    words = [v.view(np.uint32) for v in (a, b, c)]
    for name, (x, y, z) in {"vmula": (1, 2, 0), "vmadd": (0, 1, 2)}.items():
        got = check(one(name, "f32", "f32", "f32"), *words, image)[0]
        exact = (wide[x] * wide[y] + wide[z]).astype(np.float32).view(np.uint32)
        np.testing.assert_array_equal(got, active(image[::4], exact))
    got = check(one("vaxpy", "f32", "f32", "*f32"), words[0], words[2], words[1][0], image)[0]
    exact = (wide[0] * wide[1][0] + wide[2]).astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal(got, active(image[::4], exact))
    assert got[0] != ((a[0] * b[0]) + c[0]).view(np.uint32)


def test_multiply_add_of_halves_rounds_once() -> None:
    """65504 * 1.0005 + tiny: exact in longdouble, so that its rounding to f16 is the only one."""
    lanes = 128
    a, b, c = (data(dtype("f16"), lanes, ("fma", i)) for i in range(3))
    finite = np.isfinite(f32(a, "f16")) & np.isfinite(f32(b, "f16")) & np.isfinite(f32(c, "f16"))
    a, b, c = (np.where(finite, v, np.uint16(0x3C01)) for v in (a, b, c))
    x, y, z = (v.view(np.float16).astype(np.longdouble) for v in (a, b, c))
    got = check(one("vmula", "f16", "f16", "f16"), c, a, b, np.ones(256, bool))[0]
    np.testing.assert_array_equal(got, words_of((x * y + z).astype(np.float16), "f16"))


def test_integers_wrap_in_multiply_add() -> None:
    acc, a, b = (data(dtype("i16"), 128, ("mla", i)) for i in range(3))
    got = check(one("vmula", "i16", "i16", "i16"), acc, a, b, np.ones(256, bool))[0]
    np.testing.assert_array_equal(got, (acc.astype(np.int64) + a.astype(np.int64) * b).astype(np.uint16))


@pytest.mark.parametrize("name", ["vaddc", "vaddcs", "vsubc", "vsubcs"])
def test_carries(name: str) -> None:
    a, b = (data(dtype("u32"), 64, ("carry", i)) for i in range(2))
    b[::4] = a[::4]
    given, (*_, image) = image_of(np.arange(64) % 3 == 0), masks(64, name)
    flags, carry_in = image[::4], given[::4] if name.endswith("s") else np.full(64, name == "vsubc")
    wide, m = [v.astype(object) for v in (a, b)], mask(32)
    call_masks = (m, m) if name.endswith("s") else (m,)
    operands = (a, b, given, image) if name.endswith("s") else (a, b, image)
    total, carry = check(
        MicroCall(name, (vreg("ui32"), vreg("ui32"), *call_masks), (vreg("ui32"), m)), *operands
    )
    if name.startswith("vadd"):
        exact = wide[0] + wide[1] + carry_in.astype(int)
        out = exact >= 2**32
    else:
        exact = wide[0] - wide[1] - (1 - carry_in.astype(int))
        out = exact >= 0
    np.testing.assert_array_equal(total, active(flags, (exact % 2**32).astype(np.uint32)))
    np.testing.assert_array_equal(carry, image_of(out.astype(bool) & flags))


@pytest.mark.parametrize("t", ["i32", "ui32"])
def test_wide_products(t: str) -> None:
    a, b = (data(dtype(t), 64, ("mull", i)) for i in range(2))
    *_, image = masks(64, t)
    product = values(a, t).astype(object) * values(b, t).astype(object)
    low, high = check(MicroCall("vmull", (vreg(t), vreg(t), mask(32)), (vreg(t), vreg(t))), a, b, image)
    np.testing.assert_array_equal(low, active(image[::4], (product % 2**32).astype(np.uint32)))
    np.testing.assert_array_equal(high, active(image[::4], ((product >> 32) % 2**32).astype(np.uint32)))


@pytest.mark.parametrize("t", ["f16", "f32"])
@pytest.mark.parametrize("part", ["EVEN", "ODD"])
def test_exponentials_of_differences(t: str, part: str) -> None:
    lanes = vreg(t).lanes
    x, m = (data(dtype(t), lanes, ("expdif", part, i)) for i in range(2))
    *_, image = masks(lanes, part)
    a, b, flags = values(x, t), values(m, t), image[:: 256 // lanes]
    if t == "f16":
        a, b, flags = (v[part == "ODD" :: 2] for v in (a, b, flags))
    got = check(one("vexpdif", t, t, result="f32", part=part), x, m, image)[0]
    np.testing.assert_array_equal(got, active(flags, words_of(rounded_exp(a - b), "f32")))


# -- comparison and selection ------------------------------------------------------------------------

COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
           "ge": np.greater_equal}  # fmt: skip


@pytest.mark.parametrize("mode", COMPARE)
@pytest.mark.parametrize("t", ["i8", "ui8", "si16", "ui16", "i32", "f16", "bf16", "f32"])
def test_comparisons(mode: str, t: str) -> None:
    """Integers without a sign compare as signed ones, NaN is only unequal, zeros are equal."""
    r, m, lanes = vreg(t), mask_for(t), vreg(t).lanes
    a, b = (data(r.dtype, lanes, (mode, i)) for i in range(2))
    b[::3] = a[::3]
    a[:2], b[:2] = (0, 1 << (r.dtype.bits - 1)), (1 << (r.dtype.bits - 1), 0)
    *_, seed = masks(lanes, mode)
    flags = seed[:: 256 // lanes]
    got = check(MicroCall("vcmp", (r, r, m), (m,), {"mode": mode}), a, b, seed)[0]
    np.testing.assert_array_equal(got, image_of(COMPARE[mode](values(a, t), values(b, t)) & flags))
    got = check(MicroCall("vcmps", (r, scalar(t), m), (m,), {"mode": mode}), a, b[3], seed)[0]
    np.testing.assert_array_equal(got, image_of(COMPARE[mode](values(a, t), values(b[3:4], t)) & flags))


@pytest.mark.parametrize("t", ["i8", "f16", "f32"])
def test_selection(t: str) -> None:
    r, lanes = vreg(t), vreg(t).lanes
    a, b = (data(r.dtype, lanes, ("sel", i)) for i in range(2))
    for image in masks(lanes, t):
        got = check(MicroCall("vsel", (r, r, mask_for(t)), (r,)), a, b, image)[0]
        np.testing.assert_array_equal(got, np.where(image[:: 256 // lanes], a, b))


# -- reductions --------------------------------------------------------------------------------------


def neighbours(v: Words) -> Words:
    while len(v) > 1:
        v = (v[0::2] + v[1::2]).astype(v.dtype)
    return v


@pytest.mark.parametrize("t", ["f16", "f32"])
def test_float_sums_add_neighbours_and_round_every_time(t: str) -> None:
    d, lanes = dtype(t), vreg(t).lanes
    for k, image in enumerate(masks(lanes, ("sum", t))):
        a = data(d, lanes, ("sum", t, k)) if k else words_of(np.linspace(0.1, 3.3, lanes) ** 3, t)
        x = active(image[:: 256 // lanes], a).view(d.numpy)
        whole = check(one("vcadd", t), a, image)[0]
        np.testing.assert_array_equal(whole[:1], words_of(neighbours(x), t))
        assert not whole[1:].any()
        blocks = check(one("vcgadd", t), a, image)[0]
        expected = np.concatenate([neighbours(part) for part in x.reshape(8, -1)])
        np.testing.assert_array_equal(blocks[:8], words_of(expected, t))
        assert not blocks[8:].any()
        pairs = check(one("vcpadd", t), a, image)[0]
        np.testing.assert_array_equal(pairs[: lanes // 2], words_of(x[0::2] + x[1::2], t))
        assert not pairs[lanes // 2 :].any()


def test_the_order_of_a_sum_is_not_from_left_to_right() -> None:
    x = np.tile(np.array([1.0, 2.0**24, 1.0, -(2.0**24)], np.float32), 16)
    got = check(one("vcadd", "f32"), x.view(np.uint32), np.ones(256, bool))[0].view(np.float32)[0]
    left = np.float32(0)
    for v in x:
        left = left + v
    assert got == 16.0 and left == 0.0


@pytest.mark.parametrize(
    ("t", "wide"), [("i8", "i16"), ("ui8", "ui16"), ("si16", "si32"), ("ui16", "ui32"), ("i32", "i32")]
)
def test_narrow_integers_are_summed_in_the_wider_type(t: str, wide: str) -> None:
    lanes = vreg(t).lanes
    for image in masks(lanes, t):
        a = data(dtype(t), lanes, ("sum", t))
        got = check(one("vcadd", t, result=wide), a, image)[0]
        total = sum(int(v) for v in values(a, t)[image[:: 256 // lanes]])
        assert got[0] == total % 2 ** dtype(wide).bits and not got[1:].any() and len(got) == vreg(wide).lanes


@pytest.mark.parametrize("t", ["i8", "ui8", "si16", "i32", "f16", "f32"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_and_the_first_lane_that_has_them(t: str, name: str) -> None:
    d, lanes = dtype(t), vreg(t).lanes
    limit = (
        {"max": -np.inf, "min": np.inf}[name] if d.is_float else {"max": d.min_int, "min": d.max_int}[name]
    )
    for k, image in enumerate(masks(lanes, (name, t))):
        a = data(d, lanes, (name, t, k))
        if d.is_float and k != 3:
            a = np.where(np.isnan(values(a, t)), d.word.type(0), a)
        flags = image[:: 256 // lanes]
        x = np.where(flags, values(a, t), np.asarray(limit, values(a, t).dtype))
        best = {"max": np.max, "min": np.min}[name](x)
        place = np.argmax(np.isnan(x)) if d.is_float and np.isnan(best) else np.argmax(x == best)
        got = check(one(f"vc{name}", t), a, image)[0]
        np.testing.assert_array_equal(got[:1], words_of(np.array([best]), t))
        assert got[1] == place and not got[2:].any()
        blocks = check(one(f"vcg{name}", t), a, image)[0]
        expected = {"max": np.max, "min": np.min}[name](x.reshape(8, -1), axis=1)
        if d.is_float:
            # Of zeros of both signs the larger is +0.
            choose = larger if name == "max" else smaller
            zeros = [np.float32(0)] * 8
            for b in range(8):
                row = x.reshape(8, -1)[b]
                zeros[b] = row[0]
                for v in row[1:]:
                    zeros[b] = choose(np.asarray(zeros[b]), np.asarray(v))[()]
            expected = np.array(zeros)
        np.testing.assert_array_equal(blocks[:8], words_of(expected, t))
        assert not blocks[8:].any()
        call = MicroCall(f"vcb{name}", (vreg(t), mask_for(t)), (vreg(t), mask_for(t)))
        value, where = check(call, a, image)
        assert value[0] == got[0] and not value[1:].any()
        same = np.isnan(x) if d.is_float and np.isnan(best) else x == best
        np.testing.assert_array_equal(where, image_of(same & flags))


def test_histograms_count_the_values_of_their_half() -> None:
    rng = np.random.default_rng(9)
    samples, counts = rng.integers(0, 256, 256).astype(np.uint8), rng.integers(0, 9, 128).astype(np.uint16)
    counts[5] = 0xFFFF
    *_, image = masks(256, "histogram")
    types = (vreg("ui16"), vreg("ui8"), mask(8), scalar("i32"))
    for half in (0, 1):
        bins = np.arange(128 * half, 128 * half + 128)
        number = [int((samples[image] == b).sum()) for b in bins]
        got = check(MicroCall("dhistv2", types, (vreg("ui16"),)), counts, samples, image, np.uint32(half))[0]
        np.testing.assert_array_equal(got, (counts + np.array(number)).astype(np.uint16))
        number = [int((samples[image] <= b).sum()) for b in bins]
        got = check(MicroCall("chistv2", types, (vreg("ui16"),)), counts, samples, image, np.uint32(half))[0]
        np.testing.assert_array_equal(got, (counts + np.array(number)).astype(np.uint16))


# -- rearrangement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("t", ["ui8", "f16", "i32", "si64"])
def test_interleaving_and_its_inverse(t: str) -> None:
    r = vreg(t)
    a, b = (data(r.dtype, r.lanes, ("intlv", i)) for i in range(2))
    low, high = check(MicroCall("vintlv", (r, r), (r, r)), a, b)
    both = np.empty(2 * r.lanes, r.dtype.word)
    both[0::2], both[1::2] = a, b
    np.testing.assert_array_equal(np.concatenate([low, high]), both)
    even, odd = check(MicroCall("vdintlv", (r, r), (r, r)), low, high)
    np.testing.assert_array_equal(even, a)
    np.testing.assert_array_equal(odd, b)
    for part, half, lanes in (("LOWER", low, even), ("HIGHER", high, odd)):
        got = check(MicroCall("vintlvv2", (r, r), (r,), {"part": part}), a, b)[0]
        np.testing.assert_array_equal(got, half)
        got = check(MicroCall("vdintlvv2", (r, r), (r,), {"part": part}), low, high)[0]
        np.testing.assert_array_equal(got, lanes)


@pytest.mark.parametrize("t", ["ui8", "f16", "f32"])
def test_lanes_are_picked_squeezed_and_counted(t: str) -> None:
    r = vreg(t)
    words = data(r.dtype, r.lanes, "pick")
    index = np.random.default_rng(3).integers(0, r.lanes, r.lanes).astype(r.dtype.word)
    got = check(MicroCall("vselr", (r, vreg(f"ui{r.dtype.bits}")), (r,)), words, index)[0]
    np.testing.assert_array_equal(got, words[index])
    for image in masks(r.lanes, "squeeze"):
        flags = image[:: 256 // r.lanes]
        got = check(one("vsqz", t), words, image)[0]
        kept = [w for w, f in zip(words, flags, strict=True) if f]
        np.testing.assert_array_equal(got, kept + [0] * (r.lanes - len(kept)))
        number = {8: "si8", 16: "si16", 32: "si32"}[r.dtype.bits]
        got = check(one("vusqz", number), words, image)[0]
        assert got.tolist() == [int(flags[:i].sum()) for i in range(r.lanes)]


def test_packs_and_unpacks() -> None:
    wide = data(dtype("i32"), 64, "pack")
    for part, rest in (("LOWER", slice(64, 128)), ("HIGHER", slice(0, 64))):
        got = check(MicroCall("vpack", (vreg("i32"),), (vreg("ui16"),), {"part": part}), wide)[0]
        place = slice(0, 64) if part == "LOWER" else slice(64, 128)
        assert (got[place] == wide.astype(np.uint16)).all() and not got[rest].any()
    narrow = data(dtype("i16"), 128, "unpack")
    for number in (0, 1):
        half = narrow[64 * number : 64 * number + 64]
        types = (vreg("i16"), scalar("i64"))
        got = check(MicroCall("vsunpack", types, (vreg("i32"),)), narrow, np.uint64(number))[0]
        np.testing.assert_array_equal(got.view(np.int32), half.view(np.int16).astype(np.int32))
        got = check(MicroCall("vzunpack", types, (vreg("i32"),)), narrow, np.uint64(number))[0]
        np.testing.assert_array_equal(got, half.astype(np.uint32))


def test_bits_are_reinterpreted() -> None:
    words = data(dtype("f32"), 64, "cast")
    for t in ("ui8", "f16", "si32", "si64"):
        got = check(MicroCall("vbitcast", (vreg("f32"),), (vreg(t),)), words)[0]
        assert got.tobytes() == words.tobytes()


@pytest.mark.parametrize("t", ["si8", "f16", "i32", "f32"])
def test_lanes_are_made_from_scalars(t: str) -> None:
    r = vreg(t)
    words = data(r.dtype, r.lanes, "scalar")
    got = check(MicroCall("vbr", (scalar(t),), (r,)), words[3])[0]
    np.testing.assert_array_equal(got, np.full(r.lanes, words[3]))
    for image in masks(r.lanes, "dup"):
        flags = image[:: 256 // r.lanes]
        got = check(MicroCall("vdup", (scalar(t), mask_for(t)), (r,)), words[3], image)[0]
        np.testing.assert_array_equal(got, active(flags, np.full(r.lanes, words[3])))
        for position, lane in (("LOWEST", 0), ("HIGHEST", -1)):
            call = MicroCall("vdup", (r, mask_for(t)), (r,), {"position": position})
            np.testing.assert_array_equal(
                check(call, words, image)[0], active(flags, np.full(r.lanes, words[lane]))
            )


def test_a_wider_scalar_gives_its_low_bits() -> None:
    got = check(MicroCall("vbr", (scalar("i32"),), (vreg("ui8"),)), np.uint32(0x12345678))[0]
    assert (got == 0x78).all()


@pytest.mark.parametrize("t", ["si8", "si16", "si32", "f16", "f32"])
def test_lanes_count_up_and_down(t: str) -> None:
    r, base = vreg(t), 5
    for order, sign in (("ASC", 1), ("DESC", -1)):
        first = words_of(np.array([base], np.float32 if r.dtype.is_float else np.int64), t)[0]
        got = check(MicroCall("vci", (scalar(t),), (r,), {"order": order}), first)[0]
        exact = base + sign * np.arange(r.lanes)
        np.testing.assert_array_equal(
            got, words_of(exact.astype(np.float64) if r.dtype.is_float else exact, t)
        )


# -- masks -------------------------------------------------------------------------------------------


def _made(width: int) -> Any:
    """A width of masks, with the operations that make them."""
    return pytest.param(
        width, marks=pytest.mark.instructions(*(f"{n}_b{width}" for n in ("pset", "pge", "plt", "pltm")))
    )


@pytest.mark.parametrize("width", [_made(width) for width in (8, 16, 32)])
def test_patterns_and_counts_make_masks(width: int) -> None:
    m, lanes = mask(width), 2048 // width
    first = {"PAT_ALL": lanes, "PAT_ALLF": 0, "PAT_H": lanes // 2, "PAT_Q": lanes // 4}
    first |= {f"PAT_VL{k}": min(k, lanes) for k in (1, 2, 3, 4, 8, 16, 32, 64, 128)}
    expected = {name: np.arange(lanes) < count for name, count in first.items()}
    expected |= {f"PAT_M{k}": np.arange(lanes) % k == 0 for k in (3, 4)}
    for (pattern, flags), name in itertools.product(expected.items(), ("pset", "pge")):
        got = check(MicroCall(f"{name}_b{width}", (), (m,), {"pattern": pattern}))[0]
        np.testing.assert_array_equal(got, image_of(flags), pattern)
    for n in (0, 1, lanes - 1, lanes, lanes + 1, 3 * lanes, 2**32 - 1):
        got, left = check(MicroCall(f"plt_b{width}", (scalar("i32"),), (m, scalar("i32"))), np.uint32(n))
        np.testing.assert_array_equal(got, image_of(np.arange(lanes) < n))
        assert left == (0 if n < lanes else n - lanes)
    for loop, bound in ((0, 5), (1, lanes), (2, 2 * lanes + 3), (1, -1)):
        call = MicroCall(f"pltm_b{width}", (scalar("i16"), scalar("i32")), (m,))
        got = check(call, np.uint16(loop), np.int32(bound).view(np.uint32))[0]
        np.testing.assert_array_equal(got, image_of(np.arange(lanes) + loop * lanes < bound))


def test_masks_are_packed_unpacked_and_carried() -> None:
    bits = np.random.default_rng(1).integers(0, 2, 256).astype(bool)
    m = mask(16)
    for part, half in (("LOWER", slice(0, 128)), ("HIGHER", slice(128, 256))):
        expected = np.zeros(256, bool)
        expected[half] = bits[0::2]
        np.testing.assert_array_equal(
            check(MicroCall("ppack", (m,), (m,), {"part": part}), bits)[0], expected
        )
        expected = np.zeros(256, bool)
        expected[0::2] = bits[half]
        np.testing.assert_array_equal(
            check(MicroCall("punpack", (m,), (m,), {"part": part}), bits)[0], expected
        )
    np.testing.assert_array_equal(check(MicroCall("pbitcast", (m,), (mask(32),)), bits)[0], bits)


def test_masks_are_joined_under_a_governing_mask() -> None:
    a, b, g = np.random.default_rng(2).integers(0, 2, (3, 256)).astype(bool)
    m = mask(32)
    expected = {"pand": a & b & g, "por": (a | b) & g, "pxor": (a ^ b) & g, "psel": np.where(g, a, b)}
    for name, bits in expected.items():
        np.testing.assert_array_equal(check(MicroCall(name, (m, m, m), (m,)), a, b, g)[0], bits)
    np.testing.assert_array_equal(check(MicroCall("pnot", (m, m), (m,)), a, g)[0], ~a & g)


@pytest.mark.parametrize("width", [8, 16, 32])
def test_masks_are_interleaved_by_lane(width: int) -> None:
    a, b = np.random.default_rng(width).integers(0, 2, (2, 256)).astype(bool)
    m, size = mask(width), width // 8
    low, high = check(MicroCall(f"pintlv_b{width}", (m, m), (m, m)), a, b)
    lanes = 256 // size
    for i in range(lanes):
        for k, source in enumerate((a, b)):
            place = (2 * i + k) * size
            got = np.concatenate([low, high])[place : place + size]
            np.testing.assert_array_equal(got, source[i * size : (i + 1) * size])
    even, odd = check(MicroCall(f"pdintlv_b{width}", (m, m), (m, m)), low, high)
    np.testing.assert_array_equal(even, a)
    np.testing.assert_array_equal(odd, b)
