"""Page TADDReluConv: its requirements, one test each, in the page's order."""

from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.verifier.programs import Limits, verify_program
from tests.seeds.tadd import random_values
from tests.tables import every

Array = np.ndarray[Any, Any]

PROFILES = ("cpu_sim", "a2a3", "a5")
ALL_TYPES = (
    "f32 f16 bf16 i8 u8 i16 u16 i32 u32 i64 u64 f8e4m3 f8e5m2 hif8 f8e8m0 f4e2m1x2 f4e1m2x2 i4".split()
)
#: Source and destination types, as the page lists them.
PAIRS = [("f32", "f16"), ("f16", "i8"), ("i16", "i8")]
NUMPY: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "i16": np.int16, "i8": np.int8}

#: Every spelling the page prints.
SSA = "%dst = pto.taddreluconv %src0, %src1 : (!pto.tile<...>, !pto.tile<...>) -> !pto.tile<...>"
DPS = (
    "pto.taddreluconv ins(%src0, %src1 : !pto.tile_buf<...>, !pto.tile_buf<...>) "
    "outs(%dst : !pto.tile_buf<...>)"
)
ASSEMBLY = "%dst = taddreluconv %src0, %src1 : !pto.tile<...>"
PRINTED = {
    "Synchronous form": ASSEMBLY,
    "AS Level 1 (SSA)": SSA,
    "AS Level 2 (DPS)": DPS,
    "Auto Mode": f"# Auto mode: compiler/runtime-managed placement and scheduling.\n{SSA}",
    "Manual Mode": (
        "# Manual mode: resources must be bound explicitly before issuing the instruction.\n"
        "# Optional for tile operands:\n"
        "# pto.tassign %arg0, @tile(0x1000)\n"
        "# pto.tassign %arg1, @tile(0x2000)\n"
        f"{SSA}"
    ),
    "PTO Assembly Form, AS Level 2 (DPS)": f"# AS Level 2 (DPS)\n{DPS}",
}


def errors(text: str, profile: str, fixes: int = 10) -> list[str]:
    found = verify_program(pto.parse(text), pto.profile(profile), limits=Limits(fixes=fixes))
    return [str(d) for d in found if d.severity == "error"]


def ssa(src0: str, src1: str, dst: str) -> str:
    """A fragment with three tile types given by their parameters."""
    types = f"(!pto.tile<{src0}>, !pto.tile<{src1}>) -> !pto.tile<{dst}>"
    return f"%dst = pto.taddreluconv %src0, %src1 : {types}"


def run(a: Array, b: Array, d: str, profile: str = "a2a3") -> Array:
    dst = pto.TileType(pto.dtype(d), *a.shape)
    return np.asarray(pto.ops.taddreluconv(pto.tile(a), pto.tile(b), dst=dst, profile=profile))


def expected(a: Array, b: Array, d: str) -> Array:
    """convert(max(0, src0 + src1)): the float sum rounded to the source type, the i16 sum exact."""
    with np.errstate(all="ignore"):
        total = a.astype(np.int32) + b.astype(np.int32) if a.dtype == np.int16 else a + b
        positive = np.where(total < 0, total.dtype.type(0), total)
        if d == "f16":
            narrow = positive.astype(np.float16)
            return np.where(np.isinf(narrow), np.float16(65504), narrow)
        number = np.where(np.isnan(positive), 0, positive)
        found: Array = np.minimum(np.rint(number), 127).astype(np.int8)
    return found


def same(got: Array, want: Array) -> None:
    """Equal values and signs of zero, any NaN being equal to any other."""
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    assert not np.signbit(got[~np.isnan(got.astype(np.float32))]).any()


# --- Introduction, math interpretation ---------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("source", "d"), PAIRS)
def test_dst_is_convert_of_max_of_zero_and_the_sum(source: str, d: str, profile: str) -> None:
    a, b = (random_values(NUMPY, n, source, (128, 256)) for n in (1, 2))
    same(run(a, b, d, profile), expected(a, b, d))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("addend", [0.0, -0.0, 0.5, -3.0, 127.0, 60000.0, np.inf, -np.inf, np.nan])
def test_every_half_plus_a_constant(addend: float, profile: str) -> None:
    every = np.arange(65536, dtype=np.uint16).view(np.float16).reshape(256, 256)
    other = np.full_like(every, addend)
    got = run(every, other, "i8", profile)
    same(got, expected(every, other, "i8"))
    assert got.min() == 0


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("addend", [0, 1, -1, 127, 128, 32767, -32768])
def test_every_i16_plus_a_constant(addend: int, profile: str) -> None:
    every = np.arange(65536, dtype=np.uint16).view(np.int16).reshape(256, 256)
    other = np.full_like(every, addend)
    got = run(every, other, "i8", profile)
    want = [min(max(0, x + addend), 127) for x in range(-32768, 32768)]
    np.testing.assert_array_equal(np.roll(got.reshape(-1), 32768), want)


@pytest.mark.parametrize("profile", PROFILES)
def test_i16_sums_do_not_wrap_before_the_clamp(profile: str) -> None:
    a, b = (np.full((8, 32), x, np.int16) for x in (32767, 1))
    assert (run(a, b, "i8", profile) == 127).all()
    a, b = (np.full((8, 32), x, np.int16) for x in (-32768, -1))
    assert (run(a, b, "i8", profile) == 0).all()


@pytest.mark.parametrize("profile", PROFILES)
def test_floating_point_down_casts_saturate(profile: str) -> None:
    sums: list[float] = [65504, 65519.996, 65520, 65536, 1e10, 3.4e38, np.inf]
    a = np.zeros((8, 32), np.float32)
    a[0, : len(sums)] = sums
    got = run(a, np.zeros_like(a), "f16", profile)
    assert got[0, : len(sums)].tolist() == [65504.0] * len(sums)
    high = np.full((8, 32), np.finfo(np.float32).max)
    assert (run(high, high, "f16", profile) == 65504).all()
    halves = np.full((8, 32), 65504, np.float16)
    assert (run(halves, halves, "i8", profile) == 127).all()


@pytest.mark.parametrize("profile", PROFILES)
def test_every_tie_between_two_halves_rounds_to_the_even_one(profile: str) -> None:
    """Half of every middle in each source: their sum is exact."""
    codes = np.arange(0x7BFF, dtype=np.uint16)
    low, high = (c.view(np.float16).astype(np.float32) for c in (codes, codes + np.uint16(1)))
    middle = np.zeros((124, 256), np.float32)
    middle.reshape(-1)[: codes.size] = (low + high) / 2
    got = run(middle / 2, middle / 2, "f16", profile).view(np.uint16).reshape(-1)[: codes.size]
    np.testing.assert_array_equal(got, codes + codes % 2)
    above = run(np.nextafter(middle, np.float32(1e9)), np.zeros_like(middle), "f16", profile)
    np.testing.assert_array_equal(above.view(np.uint16).reshape(-1)[: codes.size], codes + 1)


@pytest.mark.parametrize("profile", PROFILES)
def test_halves_between_integers_round_to_the_even_one(profile: str) -> None:
    ties = np.zeros((8, 32), np.float16)
    ties[0, :8] = [0.5, 1.5, 2.5, 3.5, 125.5, 126.5, 127.5, -0.5]
    got = run(ties, np.zeros_like(ties), "i8", profile)
    assert got[0, :8].tolist() == [0, 2, 2, 4, 126, 126, 127, 0]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_float_sum_is_rounded_to_the_source_type_first(profile: str) -> None:
    """The exact sum lies above a tie of the destination, the rounded one on it."""
    a, b = (np.full((8, 32), x, np.float32) for x in (2049, 2**-14))
    assert (run(a, b, "f16", profile) == 2048).all()
    c, d = (np.full((8, 32), x, np.float16) for x in (66.5, 2**-6))
    assert (run(c, d, "i8", profile) == 66).all()


@pytest.mark.parametrize("profile", PROFILES)
def test_relu_gives_positive_zero_and_keeps_nan(profile: str) -> None:
    a = np.zeros((8, 32), np.float32)
    a[0, :5] = [-1, -0.0, -np.inf, np.nan, -1e-45]
    got = run(a, np.full_like(a, -0.0), "f16", profile).view(np.uint16)
    assert got[0, :5].tolist() == [0, 0, 0, 0x7E00, 0]
    assert run(a.astype(np.float16), np.zeros((8, 32), np.float16), "i8", profile)[0, 3] == 0


def test_subnormal_results_are_exact() -> None:
    codes = np.arange(1024, dtype=np.uint16).reshape(8, 128)
    a = codes.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(run(a, np.zeros_like(a), "f16").view(np.uint16), codes)
    assert not run(np.full((8, 32), 1e-45, np.float32), np.zeros((8, 32), np.float32), "f16").any()


@pytest.mark.parametrize(("source", "d"), PAIRS)
def test_user_visible_semantics_are_identical_on_every_profile(source: str, d: str) -> None:
    """Bit for bit, NaN included."""
    a, b = (random_values(NUMPY, n, source, (64, 256)) for n in (3, 4))
    results = [run(a, b, d, p).tobytes() for p in PROFILES]
    assert results[0] == results[1] == results[2]


# --- Assembly syntax ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED.keys())
def test_printed_spelling_parses_as_printed(text: str) -> None:
    program = pto.parse(text)
    (op,) = program.walk()
    assert op.name == "taddreluconv" and program.fragment_results == ("dst",)
    assert [v.name for v in op.ins] == ["src0", "src1"]
    assert bool(op.outs) == ("outs" in text)
    assert "..." in str(program)
    assert pto.parse(str(program)) == program


@pytest.mark.parametrize("text", [ASSEMBLY, SSA, DPS])
def test_types_left_open_are_not_given_for_verify(text: str) -> None:
    found = pto.verify(pto.parse(text))
    assert {(d.rule, d.severity, d.operand) for d in found} == {
        ("type-given", "error", n) for n in ("dst", "src0", "src1")
    }
    assert all("not given" in d.message for d in found)


def test_an_open_destination_type_comes_from_the_tile_given_for_it() -> None:
    a, b = (random_values(NUMPY, n, "f32", (8, 32)) for n in (5, 6))
    out = pto.compile(pto.parse(DPS))(pto.tile(a), pto.tile(b), pto.tile(np.zeros((8, 32), np.float16)))
    same(np.asarray(out["dst"]), expected(a, b, "f16"))
    for text in (ASSEMBLY, SSA):
        with pytest.raises(pto.VerifyError, match="got no type, and none follows from the sources"):
            pto.compile(pto.parse(text))(pto.tile(a), pto.tile(b))
    same(np.asarray(pto.ops.taddreluconv(pto.tile(a), pto.tile(b))), expected(a, b, "f16"))


def test_all_forms_compute_the_same() -> None:
    a, b = (random_values(NUMPY, n, "f32", (16, 16)) for n in (7, 8))
    wide, narrow = "!pto.tile<f32, 16, 16>", "!pto.tile<f16, 16, 16>"
    for text in (
        f"%dst = taddreluconv %src0, %src1 : {wide}, {wide} -> {narrow}",
        f"%dst = pto.taddreluconv %src0, %src1 : ({wide}, {wide}) -> {narrow}",
        f"pto.taddreluconv ins(%src0, %src1 : {wide}, {wide}) outs(%dst : {narrow})",
        f"pto.taddreluconv %dst, %src0, %src1 : {narrow}, {wide}, {wide}",
    ):
        out = pto.compile(pto.parse(text))(src0=a, src1=b)["dst"]
        same(np.asarray(out), expected(a, b, "f16"))


# --- Constraints -------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_only_the_listed_type_pairs_are_supported(profile: str) -> None:
    for source, d in product(ALL_TYPES, repeat=2):
        found = errors(ssa(f"16x64x{source}", f"16x64x{source}", f"16x64x{d}"), profile, fixes=0)
        assert (found == []) == ((source, d) in PAIRS), (source, d, found)
        if found:
            beside = [to for first, to in PAIRS if first == source]
            allowed = f"allowed from {source}: {', '.join(beside)}" if beside else "f16/f32, i8/f16, i8/i16"
            assert any(f"dst: {d}" in e and allowed in e for e in found), (source, d, found)


@pytest.mark.parametrize("profile", PROFILES)
def test_unsupported_pairs_are_not_executed(profile: str) -> None:
    for source, d in product(NUMPY, repeat=2):
        if (source, d) not in PAIRS:
            x = np.ones((8, 32), NUMPY[source])
            with pytest.raises(pto.VerifyError, match="not supported"):
                run(x, x, d, profile)
            with pytest.raises(pto.VerifyError, match="not supported"):
                pto.compile(pto.parse(ssa(f"8x32x{source}", f"8x32x{source}", f"8x32x{d}")), profile=profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_sources_must_have_the_same_element_type(profile: str) -> None:
    for first, second in product(ALL_TYPES, repeat=2):
        found = errors(ssa(f"16x64x{first}", f"16x64x{second}", "16x64xi8"), profile, fixes=0)
        named = [e for e in found if f"src1 has element type {second}, src0 has {first}" in e]
        assert bool(named) == (first != second), (first, second, found)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("which", ["src0", "src1", "dst"])
def test_all_tiles_must_be_row_major(which: str, profile: str) -> None:
    types = {n: f"{d}, 32, 32" for n, d in (("src0", "f32"), ("src1", "f32"), ("dst", "f16"))}
    types[which] += ", col_major"
    found = errors(ssa(*types.values()), profile)
    assert len(found) == 1 and f"operand {which}" in found[0]
    assert "col_major" in found[0] and "row_major" in found[0]


@every("profile", PROFILES)
@every("which", ["src0", "src1", "dst"])
@every("loc", ["mat", "left", "right", "acc"])
def test_all_tiles_must_live_in_vec(loc: str, which: str, profile: str) -> None:
    types = {n: f"32x32x{d}" for n, d in (("src0", "f32"), ("src1", "f32"), ("dst", "f16"))}
    types[which] += f", loc={loc}"
    found = [e for e in errors(ssa(*types.values()), profile) if f"{loc} tile" in e]
    assert len(found) == 1 and f"operand {which}" in found[0] and "vec" in found[0]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("v_row", "v_col"), [(0, 64), (16, 0), (0, 0)])
def test_static_valid_row_and_valid_col_must_be_positive(v_row: int, v_col: int, profile: str) -> None:
    types = [f"16x64x{d}, v_row={v_row}, v_col={v_col}" for d in ("f32", "f32", "f16")]
    found = errors(ssa(*types), profile)
    assert len(found) == 1 and f"{v_row}x{v_col}" in found[0] and "at least one row and column" in found[0]
    with pytest.raises(pto.VerifyError, match="at least one"):
        pto.compile(pto.parse(ssa(*types)), profile=profile)
    assert errors(ssa(*(t.replace("=0", "=1") for t in types)), profile) == []


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("region", ["12x64", "16x60"])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["src0", "src1", "dst"])
def test_static_valid_shapes_must_match(which: int, region: str, profile: str) -> None:
    types = ["16x64xf32", "16x64xf32", "16x64xf16"]
    assert errors(ssa(*types), profile) == []
    types[which] += f", valid={region}"
    found = errors(ssa(*types), profile)
    assert found
    assert all("equal valid regions" in e and region in e and "16x64" in e for e in found)


FULL = np.ones((16, 64), np.float32)
OLD = np.full((16, 64), 9, np.float16)
DYNAMIC = ssa(*(f"16x64x{d}, valid=?x?" for d in ("f32", "f32", "f16")))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("regions", "said"),
    [
        ([(0, 64)] * 3, "at least one valid row"),
        ([(16, 0)] * 3, "at least one valid row"),
        ([(12, 64), (16, 64), (16, 64)], "equal valid regions"),
        ([(16, 64), (16, 60), (16, 64)], "equal valid regions"),
        ([(16, 64), (16, 64), (12, 60)], "equal valid regions"),
    ],
)
def test_run_time_valid_regions_are_checked_when_executed(
    regions: list[tuple[int, int]], said: str, profile: str
) -> None:
    a, b = (pto.tile(FULL, valid=r) for r in regions[:2])
    dst = pto.tile(OLD, valid=regions[2])
    with pytest.raises(pto.ExecutionError, match=said):
        pto.ops.taddreluconv(a, b, dst=dst, profile=profile)


def test_run_time_valid_regions_are_checked_when_a_program_runs_eagerly() -> None:
    k = pto.compile(pto.parse(DYNAMIC))
    full = pto.tile(FULL, valid=(16, 64))
    with pytest.raises(pto.ExecutionError, match=r"<text>:1:1: error: taddreluconv.*equal valid regions"):
        k.eager(full, pto.tile(FULL, valid=(12, 60)))
    empty = pto.tile(FULL, valid=(0, 64))
    with pytest.raises(pto.ExecutionError, match=r"<text>:1:1: error: taddreluconv.*at least one"):
        k.eager(empty, empty)
    np.testing.assert_array_equal(np.asarray(k.eager(full, full)["dst"]), np.full((16, 64), 2, np.float16))


def test_a_checked_kernel_reports_the_batch_indices_of_empty_and_of_unequal_regions() -> None:
    k = pto.compile(pto.parse(DYNAMIC), checks=True)

    def tiles(rows: list[int]) -> pto.Tile:
        made: pto.Tile = jax.vmap(lambda r: pto.tile(FULL, valid=(r, 64)))(np.array(rows, np.int32))
        return made

    _, report = jax.vmap(k)(tiles([16, 0, 5, 3]), tiles([16, 0, 4, 3]))
    said = sorted(d.message for d in report.problems())
    assert len(said) == 2
    assert "at least one valid row" in said[0] and said[0].endswith("batch index 1")
    assert "equal valid regions" in said[1] and said[1].endswith("batch index 2")


def test_only_the_valid_region_is_written() -> None:
    a, b, old = (random_values(NUMPY, n, d, (16, 64)) for n, d in ((9, "f32"), (10, "f32"), (11, "f16")))
    tiles = [pto.tile(x, valid=(5, 9)) for x in (a, b, old)]
    got = np.asarray(pto.ops.taddreluconv(tiles[0], tiles[1], dst=tiles[2]))
    want = old.copy()
    want[:5, :9] = expected(a, b, "f16")[:5, :9]
    np.testing.assert_array_equal(got[:5, :9], want[:5, :9])
    outside = np.ones(old.shape, bool)
    outside[:5, :9] = False
    np.testing.assert_array_equal(got.view(np.uint16)[outside], old.view(np.uint16)[outside])


# --- Examples ----------------------------------------------------------------------------------------


def test_auto_example() -> None:
    """Tile<Vec, float, 16, 16> sources, Tile<Vec, half, 16, 16> destination."""
    a, b = (random_values(NUMPY, n, "f32", (16, 16)) for n in (12, 13))
    same(run(a, b, "f16"), expected(a, b, "f16"))


def manual_program() -> pto.Program:
    """The manual example between loads and a store: tiles bound to 0x1000, 0x2000 and 0x3000."""
    lines = [
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        "%c16 = arith.constant 16 : index",
    ]
    tiles = {n: f"!pto.tile_buf<{d}, 16, 16>" for n, d in (("src0", "f32"), ("src1", "f32"), ("dst", "f16"))}
    windows = {}
    for i, (name, t) in enumerate(tiles.items()):
        d = "f16" if name == "dst" else "f32"
        view, windows[name] = f"!pto.tensor_view<?x?x{d}>", f"!pto.partition_tensor_view<16x16x{d}>"
        lines += [
            f"%v{name} = pto.make_tensor_view %g{name}, shape = [%c16, %c16], strides = [%c16, %c1] : {view}",
            f"%p{name} = pto.partition_view %v{name}, offsets = [%c0, %c0], sizes = [%c16, %c16] "
            f": {view} -> {windows[name]}",
            f"%a{name} = arith.constant {0x1000 * (i + 1)} : i64",
            f"%{name} = pto.alloc_tile : {t}",
            f"pto.tassign %{name}, %a{name} : {t}, i64",
        ]
    lines += [f"pto.tload ins(%p{n} : {windows[n]}) outs(%{n} : {tiles[n]})" for n in ("src0", "src1")]
    lines += [
        f"taddreluconv %dst, %src0, %src1 : {tiles['dst']}, {tiles['src0']}, {tiles['src1']}",
        f"pto.tstore ins(%dst : {tiles['dst']}) outs(%pdst : {windows['dst']})",
        "return",
    ]
    arguments = "%gsrc0: !pto.ptr<f32>, %gsrc1: !pto.ptr<f32>, %gdst: !pto.ptr<f16>"
    return pto.parse(f"func.func @example_manual({arguments}) {{\n" + "\n".join(lines) + "\n}\n")


@pytest.mark.parametrize("profile", PROFILES)
def test_manual_example(profile: str) -> None:
    program = manual_program()
    assert pto.verify(program, profile=profile) == []
    a, b = (random_values(NUMPY, n, "f32", (16, 16)) for n in (14, 15))
    out = pto.compile(program, profile=profile)(a, b, np.zeros((16, 16), np.float16))
    same(np.asarray(out["gdst"]), expected(a, b, "f16"))
