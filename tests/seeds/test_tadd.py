"""Page pto.tadd: its requirements, one test each, in the page's order."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto

Array = np.ndarray[Any, Any]

PROFILES = ("cpu_sim", "a2a3", "a5")
HARDWARE = ("a2a3", "a5")
#: Element types NumPy computes in directly.
NUMPY: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    **{f"{kind}{bits}": f"{kind}{bits // 8}" for kind in "iu" for bits in (8, 16, 32, 64)},
}
ONE_BYTE_FLOATS: dict[str, Any] = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
#: The page's table, then what it leaves open: unsigned types on A5, hif8 on the simulator only.
TABLE = {
    "f32": (True, True, True),
    "f16": (True, True, True),
    "bf16": (True, True, True),
    "i32": (True, True, True),
    "i16": (True, True, True),
    "i8": (True, False, True),
    "u8": (True, False, True),
    "i64": (True, False, False),
    "u64": (True, False, False),
    "f8e4m3": (True, False, True),
    "f8e5m2": (True, False, True),
    "u16": (True, False, True),
    "u32": (True, False, True),
    "hif8": (True, False, False),
    "f8e8m0": (False, False, False),
    "f4e2m1x2": (False, False, False),
    "f4e1m2x2": (False, False, False),
    "i4": (False, False, False),
}
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

#: Every spelling the page prints, with the names it reads and the names it gives.
PRINTED = {
    "Assembly Form (PTO-AS)": "%dst = tadd %src0, %src1 : !pto.tile<...>",
    "AS Level 1 - SSA Form": (
        "%dst = pto.tadd %src0, %src1 : (!pto.tile<...>, !pto.tile<...>) -> !pto.tile<...>"
    ),
    "AS Level 2 - DPS Form": (
        "pto.tadd ins(%src0, %src1 : !pto.tile_buf<...>, !pto.tile_buf<...>)\n"
        "          outs(%dst : !pto.tile_buf<...>)"
    ),
    "MLIR - SSA Form": (
        "%result = pto.tadd %src0, %src1 : "
        "(!pto.tile<f32, 16, 16>, !pto.tile<f32, 16, 16>) -> !pto.tile<f32, 16, 16>"
    ),
    "MLIR - DPS Form": (
        "pto.tadd ins(%src0, %src1 : !pto.tile_buf<f32, 16, 16>, !pto.tile_buf<f32, 16, 16>)\n"
        "          outs(%result : !pto.tile_buf<f32, 16, 16>)"
    ),
}


def errors(text: str, profile: str, portable: bool = False) -> list[str]:
    found = pto.verify(pto.parse(text), profile=profile, portable=portable)
    return [str(d) for d in found if d.severity == "error"]


def warnings(text: str, profile: str) -> list[str]:
    return [str(d) for d in pto.verify(pto.parse(text), profile=profile) if d.severity == "warning"]


def ssa(src0: str, src1: str, dst: str) -> str:
    """A fragment with three tile types given by their parameters."""
    return f"%dst = pto.tadd %src0, %src1 : (!pto.tile<{src0}>, !pto.tile<{src1}>) -> !pto.tile<{dst}>"


def random_words(seed: int, bits: int, shape: tuple[int, int] = (8, 32)) -> Array:
    """Words over the whole range: NaN, infinities, subnormals and extremes are among them."""
    return np.random.default_rng(seed).integers(0, 2**bits, shape, dtype=f"u{bits // 8}", endpoint=False)


def type_of(d: str, shape: tuple[int, int], valid: tuple[int, int] | None = None) -> pto.TileType:
    rows, cols = shape
    v_row, v_col = valid or shape
    return pto.TileType(pto.dtype(d), rows, cols, v_row, v_col)


def words(t: pto.Tile) -> Array:
    return np.asarray(t.words)


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
    nan = np.isnan(exact)
    np.testing.assert_array_equal(got[~nan], encode(exact[~nan], kind))
    assert np.isnan(got[nan].view(kind).astype(np.float32)).all()


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


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("profile", "d"), SUPPORTED)
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


@pytest.mark.parametrize("profile", HARDWARE)
@pytest.mark.parametrize("d", list(NUMPY))
def test_moved_lanes_outside_a_source_are_all_one_bits(d: str, profile: str) -> None:
    bits = pto.dtype(d).bits
    source = pto.tile(random_words(6, bits) >> np.uint8(1), dtype=d, valid=(5, 9))
    got = words(pto.ops.tmov(source, dst=type_of(d, (8, 32)), profile=profile))
    want = np.full((8, 32), 2**bits - 1, got.dtype)
    want[:5, :9] = words(source)[:5, :9]
    np.testing.assert_array_equal(got, want)


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
        [d.message for d in pto.verify(pto.parse(t.replace("f32", "i64")), profile="a5")]
        for t in FORMS.values()
    ]
    assert all(s == said[0] for s in said) and len(said[0]) == 1 and "i64" in said[0][0]


# --- Inputs, expected outputs, side effects ----------------------------------------------------------

TILE = "!pto.tile_buf<f32, 16, 16>"
POINTER = "!pto.ptr<f32>"
VIEW = "!pto.tensor_view<?x?xf32>"
WINDOW = "!pto.partition_tensor_view<16x16xf32>"
ALLOCATED = "".join(f"%{n} = pto.alloc_tile : {TILE}\n" for n in ("src0", "src1", "dst"))
EVENT = "pto.{0}_event [#pto.pipe_event_type<{1}>, #pto.pipe_event_type<{2}>, #pto.event<EVENT_ID0>]"
FLAG = "pto.{0}_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]"


ADD = f"pto.tadd ins(%src0, %src1 : {TILE}, {TILE}) outs(%dst : {TILE})"


def manual_program(
    placement: str = ALLOCATED, before: str = "", add: str = ADD, after: str = "", others: str = ""
) -> pto.Program:
    """Load two tiles, add them, store the sum; ``placement`` allocates %src0, %src1 and %dst."""
    windows = "".join(
        f"""%v{n} = pto.make_tensor_view %{n}, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
        %p{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%c16, %c16] : {VIEW} -> {WINDOW}
        """
        for n in ("ga", "gb", "gc")
    )
    return pto.parse(f"""
      {others}
      func.func @manual(%ga: {POINTER}, %gb: {POINTER}, %gc: {POINTER}) attributes {{pto.entry}} {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c16 = arith.constant 16 : index
        {windows}
        {placement}
        pto.tload ins(%pga : {WINDOW}) outs(%src0 : {TILE})
        pto.tload ins(%pgb : {WINDOW}) outs(%src1 : {TILE})
        {before}
        {add}
        {after}
        pto.tstore ins(%dst : {TILE}) outs(%pgc : {WINDOW})
        return
      }}""")


def check_sum(program: pto.Program, profile: str) -> None:
    rng = np.random.default_rng(11)
    x, y, z = (rng.standard_normal((16, 16), np.float32) for _ in range(3))
    out = pto.compile(program, profile=profile)(x, y, z)
    assert list(out) == ["gc"]
    np.testing.assert_array_equal(np.asarray(out["gc"]), x + y)


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


# --- Constraints and exceptions ----------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("types", "named"),
    [
        (("f32", "f16", "f32"), ("f32", "f16")),
        (("f16", "f32", "f32"), ("f32", "f16")),
        (("f32", "f32", "i32"), ("f32", "i32")),
        (("i32", "i32", "i16"), ("i32", "i16")),
        (("i32", "u32", "i32"), ("i32", "u32")),
        (("f16", "bf16", "f16"), ("f16", "bf16")),
    ],
    ids=lambda x: "-".join(x),
)
def test_verifier_rejects_type_mismatches(
    types: tuple[str, ...], named: tuple[str, ...], profile: str
) -> None:
    text = ssa(*(f"16x64x{d}" for d in types))
    found = errors(text, profile)
    assert found
    for message in found:
        assert "element type" in message and all(f" {d}" in message for d in named)
    with pytest.raises(pto.VerifyError, match="element type"):
        pto.compile(pto.parse(text), profile=profile)


def test_operations_on_tiles_of_different_types_are_rejected() -> None:
    a, b = pto.tile(np.ones((8, 32), np.float32)), pto.tile(np.ones((8, 32), np.int32))
    with pytest.raises(pto.VerifyError, match=r"i32.*f32|f32.*i32"):
        pto.ops.tadd(a, b)
    with pytest.raises(pto.VerifyError, match=r"f16.*f32|f32.*f16"):
        pto.ops.tadd(a, a, dst=type_of("f16", (8, 32)))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loc", ["mat", "left", "right", "acc"])
def test_tile_type_of_the_destination_must_be_one_the_vector_pipeline_has(loc: str, profile: str) -> None:
    text = ssa("16x64xf32", "16x64xf32", f"16x64xf32, loc={loc}")
    found = [e for e in errors(text, profile) if "vec" in e]
    assert bool(found) == (profile in HARDWARE)
    assert all(f"{loc} tile" in e and "operand dst" in e for e in found)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("small", ["16x8xf32", "1x64xf32", "8x64xf32", "16x56xf32"])
@pytest.mark.parametrize("which", [0, 1], ids=["src0", "src1"])
def test_shapes_without_a_lane_for_every_element_are_rejected(small: str, which: int, profile: str) -> None:
    types = ["16x64xf32", "16x64xf32", "16x64xf32"]
    types[which] = small
    found = errors(ssa(*types), profile)
    assert len(found) == 1
    assert f"operand src{which}" in found[0] and "broadcasting" in found[0] and small[:-4] in found[0]


def test_a_partition_view_is_no_tile() -> None:
    text = (
        "%dst = pto.tadd %src0, %src1 : (!pto.tile<16x64xf32>, "
        "!pto.partition_tensor_view<16x64xf32>) -> !pto.tile<16x64xf32>"
    )
    for profile in PROFILES:
        (found,) = errors(text, profile)
        assert "operand src1" in found and "partition_tensor_view<16x64xf32>" in found and "a tile" in found


def test_reading_destination_lanes_outside_its_valid_region_is_reported() -> None:
    """Undefined behaviour: a warning on each profile, an error for portable programs."""
    text = (
        "%sum = pto.tadd %a, %b : (!pto.tile<16x64xf32>, !pto.tile<16x64xf32>)"
        " -> !pto.tile<16x64xf32, valid=12x64>\n"
        "%out = pto.tadd %sum, %b : (!pto.tile<16x64xf32, valid=12x64>, !pto.tile<16x64xf32>)"
        " -> !pto.tile<16x64xf32>"
    )
    for profile in PROFILES:
        assert errors(text, profile) == []
        (found,) = [w for w in warnings(text, profile) if "does not cover" in w]
        assert found.startswith("<text>:2:") and "12x64" in found
    portable = errors(text, "a2a3", portable=True)
    assert len(portable) == 1 and portable[0].startswith("<text>:2:")


@pytest.mark.parametrize("profile", PROFILES)
def test_lanes_of_a_fresh_destination_outside_its_valid_region(profile: str) -> None:
    a = pto.tile(np.ones((8, 32), np.float32))
    got = words(pto.ops.tadd(a, a, dst=type_of("f32", (8, 32), (5, 9)), profile=profile))
    want = np.full((8, 32), 0 if profile == "cpu_sim" else 0xFFFFFFFF, np.uint32)
    want[:5, :9] = np.float32(2).view(np.uint32)
    np.testing.assert_array_equal(got, want)


# --- Target-profile restrictions ---------------------------------------------------------------------


@pytest.mark.parametrize(("d", "profile"), [*product(TABLE, PROFILES)])
def test_target_profile_table(d: str, profile: str) -> None:
    legal = TABLE[d][PROFILES.index(profile)]
    text = ssa(*[f"16x64x{d}"] * 3)
    found = errors(text, profile)
    if legal:
        assert found == []
        pto.compile(pto.parse(text), profile=profile)
        return
    assert any(d in e and "allowed" in e for e in found)
    with pytest.raises(pto.VerifyError):
        pto.compile(pto.parse(text), profile=profile)


@pytest.mark.parametrize("d", [d for d in TABLE if not all(TABLE[d])])
def test_a_portable_program_uses_only_types_every_profile_has(d: str) -> None:
    found = errors(ssa(*[f"16x64x{d}"] * 3), "cpu_sim", portable=True)
    assert any("not portable" in e for e in found) or not any(TABLE[d])
    assert found


@pytest.mark.parametrize("d", ["f8e4m3", "f8e5m2", "hif8"])
def test_simulated_small_floats_come_with_a_warning(d: str) -> None:
    found = warnings(ssa(*[f"16x64x{d}"] * 3), "cpu_sim")
    assert found and all("portable" in w and d in w for w in found)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("layout", ["col_major, none_box", "col_major, row_major", "col_major, col_major"])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["src0", "src1", "dst"])
def test_row_major_is_required_of_every_operand_on_hardware_and_of_none_on_the_simulator(
    which: int, layout: str, profile: str
) -> None:
    types = ["f32, 16, 64"] * 3
    types[which] += f", {layout}"
    found = errors(ssa(*types), profile)
    if profile == "cpu_sim":
        assert found == []
        return
    assert len(found) == 1
    assert f"operand {('src0', 'src1', 'dst')[which]}" in found[0]
    assert "col_major" in found[0] and f"allowed on {profile}: row_major" in found[0]


def test_layouts_do_not_change_values_on_the_simulator() -> None:
    layouts = ["row_major", "col_major", "col_major, row_major", "row_major, col_major"]
    a, b = (random_words(n, 16, (32, 32)).view(np.int16) for n in (13, 14))
    for first, second in pairwise(layouts):
        text = ssa(f"i16, 32, 32, {first}", f"i16, 32, 32, {second}", f"i16, 32, 32, {first}")
        out = pto.compile(pto.parse(text), profile="cpu_sim")(a, b)["dst"]
        np.testing.assert_array_equal(np.asarray(out), a + b)


# --- Examples ----------------------------------------------------------------------------------------

AUTO = """
func.func private @add_tiles(%dst: !pto.tile<f32, 16, 16>, %src0: !pto.tile<f32, 16, 16>,
                             %src1: !pto.tile<f32, 16, 16>) {
  tadd %dst, %src0, %src1 : !pto.tile<f32, 16, 16>
  return
}
"""


def test_auto_mode_example() -> None:
    """``add_tiles(dst, src0, src1)`` as a function on tiles, and called from a program."""
    x, y = (np.random.default_rng(n).standard_normal((16, 16), np.float32) for n in (15, 16))
    out = pto.ops.tadd(pto.tile(x), pto.tile(y), dst=pto.tile(np.zeros((16, 16), np.float32)))
    np.testing.assert_array_equal(np.asarray(out), x + y)
    call = f"func.call @add_tiles(%dst, %src0, %src1) : ({TILE}, {TILE}, {TILE}) -> ()"
    check_sum(manual_program(add=call, others=AUTO), "a2a3")


ADDRESSES = "".join(
    f"%addr_{n} = arith.constant {address} : i64\n"
    for n, address in (("src0", 0x1000), ("src1", 0x2000), ("dst", 0x3000))
)
PLACEMENTS = {
    "alloc_tile": ADDRESSES
    + "".join(f"%{n} = pto.alloc_tile addr = %addr_{n} : {TILE}\n" for n in ("src0", "src1", "dst")),
    "tassign": ADDRESSES
    + ALLOCATED
    + "".join(f"pto.tassign %{n}, %addr_{n} : {TILE}, i64\n" for n in ("src0", "src1", "dst")),
    "tassign with a result": ADDRESSES
    + ALLOCATED.replace(" = ", "_here = ")
    + "".join(
        f"%{n} = pto.tassign %{n}_here, %addr_{n} : {TILE} -> {TILE}\n" for n in ("src0", "src1", "dst")
    ),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("placement", PLACEMENTS.values(), ids=PLACEMENTS.keys())
def test_manual_mode_example(placement: str, profile: str) -> None:
    """TASSIGN to 0x1000, 0x2000, 0x3000; TLOAD, TLOAD, TSYNC, TADD, TSYNC, TSTORE."""
    program = manual_program(placement, before="pto.tsync", after="pto.tsync")
    assert pto.verify(program, profile=profile) == []
    check_sum(program, profile)


def test_manual_placement_decides_what_is_shared() -> None:
    """With src1 bound to the address of src0 the second load replaces the first operand."""
    program = manual_program(PLACEMENTS["alloc_tile"].replace("8192", "4096"))
    x, y = (np.random.default_rng(n).standard_normal((16, 16), np.float32) for n in (17, 18))
    out = pto.compile(program)(x, y, np.zeros((16, 16), np.float32))["gc"]
    np.testing.assert_array_equal(np.asarray(out), y + y)


@pytest.mark.parametrize("name", ["MLIR - SSA Form", "MLIR - DPS Form"])
@pytest.mark.parametrize("profile", PROFILES)
def test_mlir_examples_run(name: str, profile: str) -> None:
    program = pto.parse(PRINTED[name])
    assert pto.verify(program, profile=profile) == []
    x, y = (np.random.default_rng(n).standard_normal((16, 16), np.float32) for n in (19, 20))
    out = pto.compile(program, profile=profile)(x, y)
    assert list(out) == ["result"] and out["result"].type.shape == (16, 16)
    np.testing.assert_array_equal(np.asarray(out["result"]), x + y)
