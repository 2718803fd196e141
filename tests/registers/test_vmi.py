"""Operations on logical registers: any number of lanes, masks of a bit per lane, groups."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.ir import F32, I1, dtype
from pto_jax.isa import micro_operations
from pto_jax.isa.micro import Lanes, MicroCall

from .calls import check, compiled, data, interpreted, rooms as rooms, same, scalar, vreg
from .test_conversions import to_float, value_of
from .test_formulas import active, larger, neighbours, values, words_of

Words = NDArray[Any]
pytestmark = pytest.mark.usefixtures("rooms")
LANES = 24


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def flags(seed: int, lanes: int = LANES) -> Words:
    return np.random.default_rng(seed).integers(0, 3, lanes) > 0


def mask(lanes: int = LANES) -> Lanes:
    return Lanes(I1, lanes=lanes)


def logical(name: str, *types: str, lanes: int = LANES, result: str = "", masked: bool = True) -> MicroCall:
    """Registers of a number of lanes, and scalars (marked by ``*``)."""
    operands = tuple(scalar(t[1:]) if t.startswith("*") else vreg(t, lanes) for t in types)
    masks = (mask(lanes),) if masked else ()
    return MicroCall(f"vmi.{name}", (*operands, *masks), (vreg(result or types[0], lanes),))


@pytest.mark.parametrize("t", ["i8", "si16", "ui32", "f16", "bf16", "f32"])
@pytest.mark.parametrize("masked", [True, False])
def test_arithmetic_has_any_number_of_lanes_and_an_optional_mask(t: str, masked: bool) -> None:
    a, b = (data(dtype(t), LANES, (t, i)) for i in range(2))
    chosen = flags(1) if masked else np.ones(LANES, bool)
    given = (chosen,) if masked else ()
    x, y = values(a, t), values(b, t)
    for name, exact in (("vadd", x + y), ("vsub", x - y), ("vmax", larger(x, y))):
        got = check(logical(name, t, t, masked=masked), a, b, *given)[0]
        np.testing.assert_array_equal(got, active(chosen, words_of(exact, t)))
    got = check(logical("vadds", t, f"*{t}", masked=masked), a, b[3], *given)[0]
    np.testing.assert_array_equal(got, active(chosen, words_of(x + y[3:4], t)))


_SAME = "vmul vdiv vmin vprelu"
_ONE = "vneg vrelu vexp vln vsqrt vabs"


@pytest.mark.variants(1)
@pytest.mark.parametrize("t", ["f16", "bf16", "f32"])
def test_other_arithmetic_is_that_of_registers(t: str) -> None:
    lanes = vreg(t).lanes
    a, b, c = (data(dtype(t), lanes, ("same", t, i)) for i in range(3))
    image = np.zeros(256, bool)
    chosen = flags(2, lanes)
    image[:: 256 // lanes] = chosen
    cases: list[tuple[str, tuple[str, ...], tuple[Words, ...]]] = [
        *((n, (t, t), (a, b)) for n in _SAME.split()),
        *((n, (t,), (a,)) for n in _ONE.split()),
        *((n, (t, f"*{t}"), (a, b[5])) for n in ("vmuls", "vmaxs", "vmins", "vlrelu")),
        ("vmula", (t, t, t), (a, b, c)),
        ("vaxpy", (t, t, f"*{t}"), (a, b, c[7])),
    ]
    for name, types, operands in cases:
        if t not in micro_operations()[name].elements["T"]:
            continue
        got = check(logical(name, *types, lanes=lanes), *operands, chosen)[0]
        call = logical(name, *types, lanes=lanes)
        physical = MicroCall(name, (*call.types[:-1], dtype(t).bits), call.results)
        np.testing.assert_array_equal(got, check(physical, *operands, image)[0], name)
        every = check(logical(name, *types, lanes=lanes, masked=False), *operands)[0]
        np.testing.assert_array_equal(got, active(chosen, every), name)


@pytest.mark.parametrize("t", ["i32", "si32"])
def test_shifts_and_carries_are_those_of_registers(t: str) -> None:
    a, b = (data(dtype(t), LANES, ("carry", i)) for i in range(2))
    counts = (np.arange(LANES) % 32).astype(np.uint32)
    wide = values(a, t) if t == "si32" else a
    for name, right, by, exact in (
        ("vshr", "si32", counts, wide >> counts),
        ("vshl", "si32", counts, a << counts),
        ("vshrs", "*i16", np.uint16(3), wide >> 3),
        ("vshls", "*i16", np.uint16(3), a << np.uint32(3)),
    ):
        got = check(logical(name, t, right, masked=False), a, by)[0]
        np.testing.assert_array_equal(got, exact.astype(np.uint32), name)
        got = check(logical(name, t, right), a, by, flags(3))[0]
        np.testing.assert_array_equal(got, active(flags(3), exact.astype(np.uint32)), name)
    r, m = vreg(t, LANES), mask()
    exact = a.astype(object) + b.astype(object)
    total, carry = check(MicroCall("vmi.vaddc", (r, r, m), (r, m)), a, b, flags(4))
    np.testing.assert_array_equal(total, active(flags(4), (exact % 2**32).astype(np.uint32)))
    np.testing.assert_array_equal(carry, (exact >= 2**32).astype(bool) & flags(4))
    total, carry = check(MicroCall("vmi.vaddcs", (r, r, m, m), (r, m)), a, b, flags(5), flags(4))
    exact = exact + flags(5).astype(int)
    np.testing.assert_array_equal(total, active(flags(4), (exact % 2**32).astype(np.uint32)))
    low, high = check(MicroCall("vmi.vmull", (r, r, m), (r, r)), a, b, flags(4))
    product = values(a, t).astype(object) * values(b, t).astype(object)
    np.testing.assert_array_equal(low, active(flags(4), (product % 2**32).astype(np.uint32)))
    np.testing.assert_array_equal(high, active(flags(4), ((product >> 32) % 2**32).astype(np.uint32)))


def test_bits_of_registers_and_of_masks() -> None:
    a, b = (data(dtype("ui16"), LANES, i) for i in range(2))
    for name, operation in (("vand", np.bitwise_and), ("vor", np.bitwise_or), ("vxor", np.bitwise_xor)):
        got = check(logical(name, "ui16", "ui16"), a, b, flags(1))[0]
        np.testing.assert_array_equal(got, active(flags(1), operation(a, b)))
        call = MicroCall(f"vmi.{name}", (mask(), mask()), (mask(),))
        np.testing.assert_array_equal(check(call, flags(1), flags(2))[0], operation(flags(1), flags(2)))
    got = check(logical("vnot", "ui16"), a, flags(1))[0]
    np.testing.assert_array_equal(got, active(flags(1), ~a))
    np.testing.assert_array_equal(check(MicroCall("vmi.vnot", (mask(),), (mask(),)), flags(1))[0], ~flags(1))


def test_the_sign_of_bf16_is_cleared() -> None:
    words = np.resize(np.array([0x8000, 0xBF80, 0x3F80, 0xFF80], np.uint16), LANES)
    got = check(logical("vabs", "bf16", masked=False), words)[0]
    assert got[:4].tolist() == [0, 0x3F80, 0x3F80, 0x7F80]


ORDERED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
           "ge": np.greater_equal}  # fmt: skip


@pytest.mark.variants(4)
@pytest.mark.parametrize("t", ["i8", "si8", "ui16", "f16", "f32"])
@pytest.mark.parametrize("scalar_operand", [False, True])
def test_comparisons_and_integers_without_a_sign(t: str, scalar_operand: bool) -> None:
    a, b = (data(dtype(t), LANES, ("cmp", i)) for i in range(2))
    b[::3] = a[::3]
    b = b[3] if scalar_operand else b
    unsigned = f"u{t}" if t == "i8" else t
    x, y = values(a, unsigned), values(np.asarray(b), unsigned)
    nan = np.isnan(x) | np.isnan(y) if dtype(t).is_float else np.zeros(LANES, bool)
    expected = {name: compare(x, y) for name, compare in ORDERED.items()}
    if dtype(t).is_float:
        expected |= {f"o{n}": compare(x, y) & ~nan for n, compare in ORDERED.items() if n != "ne"}
        expected["one"] = (x != y) & ~nan
    r, m = vreg(t, LANES), mask()
    for mode, holds in expected.items():
        name = "vmi.vcmps" if scalar_operand else "vmi.vcmp"
        call = MicroCall(name, (r, scalar(t) if scalar_operand else r, m), (m,), {"cmp": mode})
        np.testing.assert_array_equal(check(call, a, b, flags(6))[0], holds & flags(6), mode)


def test_selection_takes_the_mask_first() -> None:
    r = vreg("f16", LANES)
    a, b = (data(dtype("f16"), LANES, i) for i in range(2))
    got = check(MicroCall("vmi.vsel", (mask(), r, r), (r,)), flags(1), a, b)[0]
    np.testing.assert_array_equal(got, np.where(flags(1), a, b))
    index = np.random.default_rng(1).integers(0, LANES, LANES).astype(np.uint16)
    got = check(MicroCall("vmi.vselr", (r, vreg("ui16", LANES)), (r,)), a, index)[0]
    np.testing.assert_array_equal(got, a[index])


def test_positions_of_64_bits_count_modulo_the_lanes() -> None:
    t = vreg("ui64", 12)
    words, index = np.arange(12, dtype=np.uint64), np.arange(12, dtype=np.uint64) + np.uint64(2**64 - 12)
    got = check(MicroCall("vmi.vselr", (t, t), (t,)), words, index)[0]
    assert got.tolist() == [(2**64 - 12 + i) % 12 for i in range(12)]


def test_lanes_by_turns() -> None:
    r = vreg("ui8", LANES)
    a, b = (data(dtype("ui8"), LANES, i) for i in range(2))
    low, high = check(MicroCall("vmi.vintlv", (r, r, mask()), (r, r)), a, b, flags(1))
    both = np.stack([a, b], axis=1).reshape(-1)
    np.testing.assert_array_equal(np.concatenate([low, high]), both)
    even, odd = check(MicroCall("vmi.vdintlv", (r, r, mask()), (r, r)), low, high, flags(1))
    np.testing.assert_array_equal(even, a)
    np.testing.assert_array_equal(odd, b)


@pytest.mark.parametrize("t", ["f16", "f32"])
def test_exponentials_of_differences_keep_the_lanes(t: str) -> None:
    a, b = (data(dtype(t), LANES, ("exp", i)) for i in range(2))
    exact = np.exp((values(a, t) - values(b, t)).astype(np.float64))
    got = check(logical("vexpdif", t, t, result="f32"), a, b, flags(1))[0]
    np.testing.assert_array_equal(got, active(flags(1), words_of(exact, "f32")))


def test_lanes_from_scalars_and_slots() -> None:
    r = vreg("i32", LANES)
    base = np.uint32(7)
    plain = 7 + np.arange(LANES)
    np.testing.assert_array_equal(check(MicroCall("vmi.vci", (scalar("i32"),), (r,)), base)[0], plain)
    call = MicroCall("vmi.vci", (scalar("i32"),), (r,), {"group": 3, "order": "DESC"})
    np.testing.assert_array_equal(check(call, base)[0], np.tile(7 - np.arange(8), 3).astype(np.uint32))
    got = check(MicroCall("vmi.vbrc", (scalar("i32"),), (r,)), base)[0]
    assert (got == 7).all()
    slots = np.array([3, 5, 9], np.uint32)
    for name in ("vmi.vbrc", "vmi.group_broadcast"):
        got = check(MicroCall(name, (vreg("i32", 3),), (r,), {"group": 3}), slots)[0]
        np.testing.assert_array_equal(got, np.repeat(slots, 8))
    one = np.array([4], np.uint32)
    assert (check(MicroCall("vmi.vbrc", (vreg("i32", 1),), (r,)), one)[0] == 4).all()


def test_conversions_keep_the_lanes() -> None:
    x = data(F32, LANES, "convert")
    for target, letter in (("f16", "R"), ("bf16", "Z"), ("f8e4m3", "A"), ("f8e5m2", "H")):
        attributes = {"rounding": letter, "saturate": "SAT"}
        call = MicroCall("vmi.vcvt", (vreg("f32", LANES),), (vreg(target, LANES),), attributes)
        expected = [to_float(value_of(int(w), "f32"), target, letter, saturate=True) for w in x]
        np.testing.assert_array_equal(check(call, x)[0], expected)
    narrow = data(dtype("i8"), LANES, "extend")
    for name, kind in (("extsi", np.int8), ("extui", np.uint8)):
        call = old(name, "i8", "i32")
        np.testing.assert_array_equal(
            check(call, narrow)[0].view(np.int32), narrow.view(kind).astype(np.int32)
        )
    wide = data(dtype("ui16"), LANES, "narrow")
    got = check(old("trunci", "ui16", "ui8"), wide)[0]
    np.testing.assert_array_equal(got, wide.astype(np.uint8))


def old(name: str, source: str, target: str, saturate: str = "NOSAT") -> MicroCall:
    attributes = {"rounding": "R", "saturate": saturate}
    return MicroCall(f"vmi.{name}", (vreg(source, LANES),), (vreg(target, LANES),), attributes)


def test_older_names_convert_too() -> None:
    x = np.array([1.5, -2.5, 0.25, 100.0] * (LANES // 4), np.float32)
    half = x.astype(np.float16)
    assert check(old("truncf", "f32", "f16"), x.view(np.uint32))[0].view(np.float16).tolist() == half.tolist()
    assert check(old("extf", "f16", "f32"), half.view(np.uint16))[0].view(np.float32).tolist() == x.tolist()
    whole = check(old("fptosi", "f32", "si32", "SAT"), x.view(np.uint32))[0].view(np.int32)
    assert whole[:4].tolist() == [2, -2, 0, 100]
    assert check(old("fptoui", "f16", "ui8", "SAT"), half.view(np.uint16))[0][:4].tolist() == [2, 0, 0, 100]
    back = check(old("sitofp", "si32", "f32"), whole.view(np.uint32))[0].view(np.float32)
    assert back[:4].tolist() == [2, -2, 0, 100]


def test_pairs_of_bf16_become_pairs_of_four_bits() -> None:
    x = np.array([0.5, -1.0, 1.75, 0.25], np.float32)
    words = (x.view(np.uint32) >> 16).astype(np.uint16)
    pairs = (words[0::2].astype(np.uint32) | words[1::2].astype(np.uint32) << 16).astype(np.uint32)
    call = MicroCall(
        "vmi.vcvt", (vreg("bf16x2", 2),), (vreg("f4e1m2x2", 2),), {"rounding": "R", "saturate": "NOSAT"}
    )
    got = check(call, pairs)[0]
    assert got.tolist() == [0x2 | 0xC << 4, 0x7 | 0x1 << 4]
    call = MicroCall(
        "vmi.vcvt", (vreg("f4e1m2x2", 2),), (vreg("bf16x2", 2),), {"rounding": "R", "saturate": "NOSAT"}
    )
    assert check(call, got)[0].tolist() == pairs.tolist()
    cast = MicroCall("vmi.vinterpret_cast", (vreg("bf16x2", 2),), (vreg("bf16", 4),))
    assert check(cast, pairs)[0].tolist() == words.tolist()


_EXTREMES = ("vcmax", "vcmin", *(f"group_reduce_{n}{kind}" for n in ("max", "min") for kind in "fi"))


@pytest.mark.instructions(
    *(f"vmi.{n}" for n in ("vcadd", "group_reduce_addf", "group_reduce_addi", *_EXTREMES))
)
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("t", ["si16", "f16", "f32"])
def test_reductions_of_groups(groups: int, t: str) -> None:
    a = data(dtype(t), LANES, ("reduce", groups, t))
    a = a if not dtype(t).is_float else np.where(np.isfinite(values(a, t)), a, a.dtype.type(0))
    r, out = vreg(t, LANES), vreg(t, groups)
    x = np.where(flags(8), values(a, t), 0).astype(values(a, t).dtype).reshape(groups, -1)
    for name in ("vcadd", "group_reduce_addi" if t == "si16" else "group_reduce_addf"):
        call = MicroCall(f"vmi.{name}", (r, mask()), (out,), {"group": groups, "num_groups": groups})
        got = check(call, a, flags(8))[0]
        sums = [tree(part if t == "si16" else part.astype(dtype(t).numpy)) for part in x]
        np.testing.assert_array_equal(got, words_of(np.array(sums), t))
    d = dtype(t)
    for name, choose, fill in (
        ("max", np.max, -np.inf if d.is_float else d.min_int),
        ("min", np.min, np.inf if d.is_float else d.max_int),
    ):
        y = np.where(flags(8), values(a, t), np.asarray(fill, values(a, t).dtype)).reshape(groups, -1)
        expected = words_of(choose(y, axis=1), t)
        for spelled in (f"vc{name}", f"group_reduce_{name}{'f' if d.is_float else 'i'}"):
            attributes = {"group": groups, "num_groups": groups}
            got = check(MicroCall(f"vmi.{spelled}", (r, mask()), (out,), attributes), a, flags(8))[0]
            assert (values(got, t) == values(expected, t)).all()


def tree(v: Words) -> Any:
    """Neighbours first; a last one alone waits."""
    while len(v) > 1:
        even = len(v) // 2 * 2
        v = np.concatenate([(v[0:even:2] + v[1:even:2]).astype(v.dtype), v[even:]])
    return v[0]


def test_sums_of_a_power_of_two_of_lanes_are_those_of_registers() -> None:
    x = np.linspace(0.1, 3.3, 64).astype(np.float32) ** 3
    call = MicroCall("vmi.vcadd", (vreg("f32", 64), mask(64)), (vreg("f32", 1),))
    got = check(call, x.view(np.uint32), np.ones(64, bool))[0].view(np.float32)
    assert got[0] == neighbours(x)[0]


def test_histograms_of_all_values() -> None:
    samples = np.random.default_rng(2).integers(0, 256, 40).astype(np.uint8)
    counts = np.arange(256, dtype=np.uint16)
    types = (vreg("ui16", 256), vreg("ui8", 40), mask(40))
    chosen = samples[flags(3, 40)]
    for name, holds in (("vdhist", np.equal), ("vchist", np.less_equal)):
        got = check(MicroCall(f"vmi.{name}", types, (vreg("ui16", 256),)), counts, samples, flags(3, 40))[0]
        expected = [int(counts[b]) + int(holds(chosen, b).sum()) for b in range(256)]
        np.testing.assert_array_equal(got, expected)


def test_masks_of_counts_and_patterns() -> None:
    every = np.arange(LANES)
    for n in (-1, 0, 5, LANES, LANES + 3):
        count = np.int64(n)
        call = MicroCall("vmi.create_mask", (scalar("i64"),), (mask(),))
        np.testing.assert_array_equal(check(call, count.astype(np.uint64))[0], every < n)
        for attributes in ({"num_groups": 3, "group_size": 8}, {"num_groups": 3}):
            call = MicroCall("vmi.create_group_mask", (scalar("i64"),), (mask(),), attributes)
            np.testing.assert_array_equal(check(call, count.astype(np.uint64))[0], every % 8 < n)
    call = MicroCall("vmi.plt", (scalar("i32"),), (mask(), scalar("i32")))
    for n in (0, 5, LANES, 30):
        got, left = check(call, np.uint32(n))
        np.testing.assert_array_equal(got, every < n)
        assert left == max(0, n - LANES)
    for name, pattern, expected in (
        ("pset", "ALL", every >= 0),
        ("pge", "VL3", every < 3),
        ("pge", "VL24", every < 24),
    ):
        got = check(MicroCall(f"vmi.{name}", (), (mask(),), {"pattern": f"PAT_{pattern}"}))[0]
        np.testing.assert_array_equal(got, expected)


def test_a_mask_that_the_text_lists() -> None:
    for text, expected in (("dense<[true, false, true]>", [True, False, True]), ("dense<true>", [True] * 3)):
        value = {"value": f"{text} : tensor<3xi1>"}
        got = check(MicroCall("vmi.constant_mask", (), (mask(3),), value))[0]
        assert got.tolist() == expected


@pytest.mark.parametrize("t", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("name", ["vcmax", "vcmin", "vcadd"])
def test_groups_of_one_lane_have_the_same_nan_on_every_executor(name: str, t: str) -> None:
    words = data(dtype(t), LANES, name) | dtype(t).word.type(dtype(t).canonical_nan | 1)
    call = logical(name, t)
    call = MicroCall(call.name, call.types, call.results, {"group": LANES})
    same(call, compiled(call, words, flags(1)), interpreted(call, words, flags(1)))
