"""Page pto.tadd, sections up to the side effects: their requirements, one test each, in the page's order."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from tests.seeds.tadd import (
    HARDWARE,
    PRINTED,
    PROFILES,
    TABLE,
    Array,
    check_sum,
    errors,
    manual_program,
    random_words,
    ssa,
    type_of,
    warnings,
    words,
)

#: Element types NumPy computes in directly.
NUMPY: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    **{f"{kind}{bits}": f"{kind}{bits // 8}" for kind in "iu" for bits in (8, 16, 32, 64)},
}
ONE_BYTE_FLOATS: dict[str, Any] = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
SUPPORTED = [(p, d) for d, row in TABLE.items() for p, legal in zip(PROFILES, row, strict=True) if legal]

FORMS = {
    "assembly": "%dst = tadd %src0, %src1 : !pto.tile<f32, 16, 16>",
    "assembly, destination first": "pto.tadd %dst, %src0, %src1 : !pto.tile<f32, 16, 16>",
    "ssa": "%dst = pto.tadd %src0, %src1 : "
    "(!pto.tile<f32, 16, 16>, !pto.tile<f32, 16, 16>) -> !pto.tile<f32, 16, 16>",
    "ssa without parentheses": "%dst = pto.tadd %src0, %src1 : "
    "!pto.tile<f32, 16, 16>, !pto.tile<f32, 16, 16> -> !pto.tile<f32, 16, 16>",
    "dps": "pto.tadd ins(%src0, %src1 : !pto.tile_buf<f32, 16, 16>, !pto.tile_buf<f32, 16, 16>)\n"
    "          outs(%dst : !pto.tile_buf<f32, 16, 16>)",
}


def nan_lanes(words_: Array, d: str) -> Array:
    numbers: Array = np.isnan(words_.view(NUMPY[d]).astype(np.float32))
    return numbers


def encode(values: Array, kind: Any) -> Array:
    """Codes of a one-byte float type nearest to exact values, ties to the even code.

    Beyond the largest finite value by half a step or more: NaN where there is no infinity, else infinity.
    """
    codes = np.arange(0x80, dtype=np.uint8)
    decoded = codes.view(kind).astype(np.float64)
    finite = codes[np.isfinite(decoded)]
    levels = decoded[np.isfinite(decoded)]
    last = levels[-1] + (levels[-1] - levels[-2])
    middles = (np.append(levels[1:], last) + levels) / 2
    size = np.abs(values)
    index = np.searchsorted(middles, size, side="left")
    tie = (index < len(middles)) & (middles[np.minimum(index, len(middles) - 1)] == size)
    index = np.where(tie & (index % 2 == 1), index + 1, index)
    overflow = codes[np.isinf(decoded)][0] if np.isinf(decoded).any() else np.uint8(0x7F)
    found = np.append(finite, overflow)[np.minimum(index, len(finite))]
    signed: Array = found | np.where(np.signbit(values), 0x80, 0).astype(np.uint8)
    return signed


# --- Mechanism ---------------------------------------------------------------------------------------


@pytest.mark.variants(8)
@pytest.mark.parametrize(("profile", "d"), [(p, d) for p, d in SUPPORTED if d in NUMPY])
def test_dst_is_the_sum_of_the_lanes_of_src0_and_src1(profile: str, d: str) -> None:
    kind = np.dtype(NUMPY[d])
    a, b = (random_words(n, kind.itemsize * 8).view(kind) for n in (1, 2))
    got = words(pto.ops.tadd(pto.tile(a, dtype=d), pto.tile(b, dtype=d), profile=profile))
    with np.errstate(all="ignore"):
        # f32 has more than twice the digits of bf16, so that rounding twice is rounding once.
        want = (a.astype(np.float32) + b.astype(np.float32)).astype(kind) if d == "bf16" else a + b
    bits = want.view(got.dtype)
    if d not in ("f32", "f16", "bf16"):
        np.testing.assert_array_equal(got, bits)
        return
    nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(nan_lanes(got, d), nan)
    np.testing.assert_array_equal(got[~nan], bits[~nan])
    assert 0 < nan.sum() < nan.size


@pytest.mark.parametrize("profile", ["cpu_sim", "a5"])
@pytest.mark.parametrize("d", ONE_BYTE_FLOATS)
def test_every_pair_of_one_byte_floats_rounds_once_to_nearest_even(d: str, profile: str) -> None:
    kind = ONE_BYTE_FLOATS[d]
    a, b = (g.astype(np.uint8) for g in np.meshgrid(np.arange(256), np.arange(256), indexing="ij"))
    t, u = (pto.tile(x, dtype=d) for x in (a, b))
    got = words(pto.ops.tadd(t, u, profile=profile))
    with np.errstate(all="ignore"):
        exact = a.view(kind).astype(np.float64) + b.view(kind).astype(np.float64)
    expected = encode(exact, kind)
    nan = np.isnan(exact) | np.isnan(expected.view(kind).astype(np.float64))
    np.testing.assert_array_equal(got[~nan], expected[~nan])
    np.testing.assert_array_equal(got[nan], pto.dtype(d).canonical_nan)


def test_sources_are_read_at_the_coordinates_of_the_destination() -> None:
    rows, cols = np.meshgrid(np.arange(16), np.arange(64), indexing="ij")
    a, b = (pto.tile(x.astype(np.int32)) for x in (rows * 1000, cols))
    np.testing.assert_array_equal(np.asarray(pto.ops.tadd(a, b)), rows * 1000 + cols)


@pytest.mark.parametrize("profile", PROFILES)
def test_sources_of_another_physical_shape_are_read_at_the_same_coordinates(profile: str) -> None:
    wide = np.arange(32 * 128, dtype=np.int32).reshape(32, 128)
    b = np.arange(16 * 64, dtype=np.int32).reshape(16, 64) * 7
    dst = type_of("i32", (16, 64), (12, 60))
    full = pto.tile(np.full((16, 64), 5, np.int32), type=dst)
    got = np.asarray(pto.ops.tadd(pto.tile(wide), pto.tile(b), dst=full, profile=profile))
    want = np.full((16, 64), 5, np.int32)
    want[:12, :60] = wide[:12, :60] + b[:12, :60]
    np.testing.assert_array_equal(got, want)


@pytest.mark.variants(10)
@pytest.mark.parametrize(
    ("profile", "d", "dynamic"),
    [
        pytest.param(*row, dynamic, marks=() if i % 2 == dynamic else pytest.mark.slow)
        for i, row in enumerate(SUPPORTED)
        for dynamic in (False, True)
    ],
)
def test_only_the_valid_region_of_dst_is_the_iteration_domain(profile: str, d: str, dynamic: bool) -> None:
    bits = pto.dtype(d).bits
    a, b, old = (pto.tile(random_words(n, bits), dtype=d) for n in (3, 4, 5))
    region = (5, 7)
    dst = (
        pto.tile(words(old), dtype=d, valid=region)
        if dynamic
        else pto.tile(words(old), type=type_of(d, (8, 32), region))
    )
    got = words(pto.ops.tadd(a, b, dst=dst, profile=profile))
    want = words(old).copy()
    want[:5, :7] = words(pto.ops.tadd(a, b, profile=profile))[:5, :7]
    np.testing.assert_array_equal(got, want)
    assert (got[:5, :7] != words(old)[:5, :7]).any()


@pytest.mark.parametrize("region", [(0, 0), (0, 32), (1, 1), (8, 31), (8, 32)])
def test_the_domain_is_valid_row_times_valid_col(region: tuple[int, int]) -> None:
    a = pto.tile(np.full((8, 32), 20, np.int32))
    dst = pto.tile(np.full((8, 32), -1, np.int32), valid=region)
    got = np.asarray(pto.ops.tadd(a, a, dst=dst))
    want = np.full((8, 32), -1)
    want[: region[0], : region[1]] = 40
    np.testing.assert_array_equal(got, want)


@pytest.mark.variants(8)
@pytest.mark.parametrize("profile", HARDWARE)
@pytest.mark.parametrize("d", list(NUMPY))
def test_moved_lanes_outside_a_source_are_all_one_bits(d: str, profile: str) -> None:
    bits = pto.dtype(d).bits
    source = pto.tile(random_words(6, bits) >> np.uint8(1), dtype=d, valid=(5, 9))
    got = words(pto.ops.tmov(source, dst=type_of(d, (8, 32)), profile=profile))
    want = np.full((8, 32), 2**bits - 1, got.dtype)
    want[:5, :9] = words(source)[:5, :9]
    np.testing.assert_array_equal(got, want)


@pytest.mark.variants(4)
@pytest.mark.parametrize("profile", HARDWARE)
@pytest.mark.parametrize("which", [0, 1], ids=["src0", "src1"])
@pytest.mark.parametrize("d", ["f32", "f16", "bf16"])
def test_a_float_lane_outside_a_source_reads_nan(d: str, which: int, profile: str) -> None:
    ones = np.ones((8, 32), NUMPY[d])
    tiles = [pto.tile(ones), pto.tile(ones)]
    tiles[which] = pto.tile(ones, valid=(5, 9))
    got = np.asarray(pto.ops.tadd(*tiles, dst=type_of(d, (8, 32)), profile=profile)).astype(np.float32)
    assert (got[:5, :9] == 2).all()
    outside = np.ones((8, 32), bool)
    outside[:5, :9] = False
    assert np.isnan(got[outside]).all()


@pytest.mark.variants(6)
@pytest.mark.parametrize("which", [0, 1], ids=["src0", "src1"])
@pytest.mark.parametrize(("profile", "d"), [(p, d) for p, d in SUPPORTED if p in HARDWARE and d[0] in "iu"])
def test_an_integer_lane_outside_a_source_reads_minus_one_or_the_maximum(
    profile: str, d: str, which: int
) -> None:
    value = np.full((8, 32), 100, NUMPY[d])
    tiles = [pto.tile(value), pto.tile(value)]
    tiles[which] = pto.tile(value, valid=(5, 9))
    got = np.asarray(pto.ops.tadd(*tiles, dst=type_of(d, (8, 32)), profile=profile)).astype(np.int64)
    all_ones = 2 ** pto.dtype(d).bits - 1 if d.startswith("u") else -1
    want = np.full((8, 32), 99)
    want[:5, :9] = np.array(200).astype(NUMPY[d])
    np.testing.assert_array_equal(got, want)
    seen = np.asarray(pto.ops.tmov(tiles[which], dst=type_of(d, (8, 32)), profile=profile))
    assert int(seen[7, 31]) == all_ones


def test_u8_255_and_i32_minus_one_take_part_in_comparisons() -> None:
    wide = type_of("u8", (8, 32))
    u = pto.tile(np.full((8, 32), 3, np.uint8), valid=(1, 1))
    got = np.asarray(pto.ops.tmax(u, pto.tile(np.full((8, 32), 254, np.uint8)), dst=wide, profile="a5"))
    assert got[0, 0] == 254 and (got[1:] == 255).all()
    i = pto.tile(np.full((8, 32), 3, np.int32), valid=(1, 1))
    other = pto.tile(np.full((8, 32), -2, np.int32))
    for profile in HARDWARE:
        out = np.asarray(pto.ops.tmax(i, other, dst=type_of("i32", (8, 32)), profile=profile))
        assert out[0, 0] == 3 and (out[1:] == -1).all()


@pytest.mark.variants(5)
@pytest.mark.parametrize(("profile", "d"), [x for x in SUPPORTED if x[0] == "cpu_sim"])
def test_the_simulator_reads_the_backing_bits(profile: str, d: str) -> None:
    bits = pto.dtype(d).bits
    a, b = (pto.tile(random_words(n, bits), dtype=d) for n in (7, 8))
    small = pto.tile(words(a), dtype=d, valid=(5, 9))
    got = words(pto.ops.tadd(small, b, dst=type_of(d, (8, 32)), profile=profile))
    np.testing.assert_array_equal(got, words(pto.ops.tadd(a, b, profile=profile)))
    moved = words(pto.ops.tmov(small, dst=type_of(d, (8, 32)), profile=profile))
    np.testing.assert_array_equal(moved, words(a))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_partly_covered_source_is_accepted_with_a_warning_that_says_what_is_read(profile: str) -> None:
    text = ssa("16x64xf32, valid=12x64", "16x64xf32", "16x64xf32")
    assert errors(text, profile) == []
    found = warnings(text, profile)
    assert len(found) == 1 and "src0" in found[0]
    assert ("all-one" in found[0]) == (profile in HARDWARE)


# --- Syntax ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED.keys())
def test_printed_spelling_parses_as_printed(text: str) -> None:
    program = pto.parse(text)
    (op,) = program.walk()
    (given,) = program.fragment_results
    assert op.name == "tadd" and given in ("dst", "result")
    assert [v.name for v in op.ins] == ["src0", "src1"]
    assert [v.name for v in op.destinations] == [given]
    assert bool(op.outs) == ("outs" in text)
    assert ("..." in text) == ("..." in str(program))
    assert pto.parse(str(program)) == program


@pytest.mark.parametrize("text", [t for t in PRINTED.values() if "..." in t])
def test_types_left_open_are_not_given_for_verify_and_taken_from_the_arguments_by_compile(text: str) -> None:
    found = pto.verify(pto.parse(text))
    assert {d.rule for d in found} == {"type-given"} and len(found) == 3
    assert all("not given" in d.message and d.severity == "error" for d in found)
    k = pto.compile(pto.parse(text))
    for kind in (np.float32, np.int16):
        x: Array = np.arange(8 * 32).reshape(8, 32).astype(kind)
        out = k(pto.tile(x), pto.tile(x))["dst"]
        np.testing.assert_array_equal(np.asarray(out), x + x)
    with pytest.raises(pto.VerifyError, match="u16"):
        k(pto.tile(np.ones((8, 32), np.uint16)), pto.tile(np.ones((8, 32), np.uint16)))


def test_all_forms_compute_the_same() -> None:
    a, b = (random_words(n, 32, (16, 16)).view(np.float32) for n in (9, 10))
    want = words(pto.ops.tadd(pto.tile(a), pto.tile(b)))
    for form, text in FORMS.items():
        out = pto.compile(pto.parse(text))(src0=a, src1=b)
        assert list(out) == ["dst"], form
        np.testing.assert_array_equal(words(out["dst"]), want, err_msg=form)


def test_the_forms_say_the_same_to_the_verifier() -> None:
    said = [
        [(d.got, d.allowed) for d in pto.verify(pto.parse(t.replace("f32", "i64")), profile="a5")]
        for t in FORMS.values()
    ]
    assert all(s == said[0] for s in said) and len(said[0]) == 1 and "i64" in said[0][0][0]


# --- Inputs, expected outputs, side effects ----------------------------------------------------------

EVENT = "pto.{0}_event [#pto.pipe_event_type<{1}>, #pto.pipe_event_type<{2}>, #pto.event<EVENT_ID0>]"
FLAG = "pto.{0}_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("pto.tsync", "pto.tsync"),
        (
            EVENT.format("record", "TLOAD", "TVEC") + "\n" + EVENT.format("wait", "TLOAD", "TVEC"),
            EVENT.format("record", "TVEC", "TSTORE_VEC") + "\n" + EVENT.format("wait", "TVEC", "TSTORE_VEC"),
        ),
        (FLAG.format("set") + "\n" + FLAG.format("wait"), "pto.barrier <PIPE_ALL>"),
    ],
    ids=["none", "tsync", "events", "flags"],
)
def test_wait_events_are_optional_synchronisation_without_effect_on_values(before: str, after: str) -> None:
    program = manual_program(before=before, after=after)
    assert pto.verify(program) == []
    check_sum(program, "a2a3")


def test_no_side_effects_beyond_the_destination_tile() -> None:
    """Sources and an unrelated tile keep every bit, NaN payloads included."""
    program = pto.parse(
        "%seen = pto.tmov %other : (!pto.tile<f32, 16, 16>) -> !pto.tile<f32, 16, 16>\n" + FORMS["dps"]
    )
    names = ("other", "src0", "src1", "dst")
    given = {n: random_words(i, 32, (16, 16)) for i, n in enumerate(names)}
    for profile in PROFILES:
        k = pto.compile(program, profile=profile)
        outputs, state = k.with_state(**{n: pto.tile(w, dtype="f32") for n, w in given.items()})
        for n in ("other", "src0", "src1"):
            np.testing.assert_array_equal(words(state.tiles[n]), given[n])
        assert (words(outputs["dst"]) != given["dst"]).any()
