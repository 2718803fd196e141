"""Page TADDSC: its requirements, one test each, in the page's order."""

from itertools import product
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto
from tests.seeds.tadd import errors, random_values
from tests.tables import every

Array = np.ndarray[Any, Any]

PROFILES = ("cpu_sim", "a2a3", "a5")
HARDWARE = ("a2a3", "a5")
NUMPY: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    **{f"{kind}{bits}": f"{kind}{bits // 8}" for kind in "iu" for bits in (8, 16, 32, 64)},
}
#: The page's types; the simulator also has the other types its vectors record.
PAGE_TYPES = ("i32", "i16", "f16", "f32")
NO_ARITHMETIC = ("f8e4m3", "f8e5m2", "hif8", "f8e8m0", "f4e2m1x2", "f4e1m2x2", "i4")
SUPPORTED = [("cpu_sim", d) for d in NUMPY] + [*product(HARDWARE, PAGE_TYPES)]

#: Every spelling the page prints.
SSA = "%dst = pto.taddsc %src0, %scalar, %src1 : (!pto.tile<...>, dtype, !pto.tile<...>) -> !pto.tile<...>"
DPS = (
    "pto.taddsc ins(%src0, %scalar, %src1 : !pto.tile_buf<...>, dtype, !pto.tile_buf<...>) "
    "outs(%dst : !pto.tile_buf<...>)"
)
ASSEMBLY = "%dst = taddsc %src0, %scalar, %src1 : !pto.tile<...>, f32, !pto.tile<...>"
PRINTED = {
    "Synchronous form": ASSEMBLY,
    "AS Level 1 (SSA), IR Level 1 (SSA)": SSA,
    "AS Level 2 (DPS), IR Level 2 (DPS)": DPS,
    "Auto Mode": f"# Auto mode: compiler/runtime-managed placement and scheduling.\n{SSA}",
    "Manual Mode": (
        "# Manual mode: bind resources explicitly before issuing the instruction.\n"
        "# Optional for tile operands:\n"
        "# pto.tassign %arg0, @tile(0x1000)\n"
        "# pto.tassign %arg1, @tile(0x2000)\n"
        f"{SSA}"
    ),
    "PTO Assembly Form, AS Level 2 (DPS)": f"# AS Level 2 (DPS)\n{DPS}",
}


def ssa(src0: str, scalar: str, src1: str, dst: str) -> str:
    """A fragment with three tile types given by their parameters, and a scalar type."""
    types = f"(!pto.tile<{src0}>, {scalar}, !pto.tile<{src1}>) -> !pto.tile<{dst}>"
    return f"%dst = pto.taddsc %src0, %scalar, %src1 : {types}"


def of_type(d: str, profile: str = "cpu_sim") -> str:
    return ssa(f"16x64x{d}", d, f"16x64x{d}", f"16x64x{d}")


def expected(a: Array, scalar: Any, b: Array) -> Array:
    """src0 + scalar + src1 from left to right; types of 16 bits round once at the end, integers wrap."""
    wide: Any = np.float32 if a.dtype.kind not in "iu" else a.dtype
    with np.errstate(all="ignore"):
        total = (a.astype(wide) + np.asarray(scalar, a.dtype).astype(wide)) + b.astype(wide)
        found: Array = total.astype(a.dtype)
    return found


def same(got: Any, want: Array) -> None:
    """Equal bits, any NaN being equal to any other."""
    found = np.asarray(got)
    assert found.dtype == want.dtype
    if want.dtype.kind in "iu":
        np.testing.assert_array_equal(found, want)
        return
    nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), nan)
    words = f"u{want.dtype.itemsize}"
    np.testing.assert_array_equal(found.view(words)[~nan], want.view(words)[~nan])


# --- Introduction, math interpretation ---------------------------------------------------------------


@pytest.mark.variants(6)
@pytest.mark.parametrize(("profile", "d"), SUPPORTED)
def test_dst_is_src0_plus_scalar_plus_src1(profile: str, d: str) -> None:
    a, b = (random_values(NUMPY, n, d) for n in (1, 2))
    for scalar in random_values(NUMPY, 3, d, (1, 3))[0]:
        out = pto.ops.taddsc(pto.tile(a), np.asarray(scalar), pto.tile(b), profile=profile)
        same(out, expected(a, scalar, b))


def test_the_sum_is_formed_from_left_to_right() -> None:
    a, b = (pto.tile(np.full((8, 32), x, np.float32)) for x in (1.0, -1e8))
    left = np.asarray(pto.ops.taddsc(a, 1e8, b))
    assert (left == (np.float32(1) + np.float32(1e8)) + np.float32(-1e8)).all() and (left == 0).all()
    right = np.asarray(pto.ops.taddsc(b, 1e8, a))
    assert (right == 1).all()


def test_half_sums_round_once() -> None:
    """2049 is no f16: rounding after the first sum would lose the one."""
    a, b = (pto.tile(np.full((8, 32), x, np.float16)) for x in (2048, 1))
    assert (np.asarray(pto.ops.taddsc(a, 1.0, b)) == 2050).all()
    high, low = (pto.tile(np.full((8, 32), x, np.float16)) for x in (65504, -65504))
    assert (np.asarray(pto.ops.taddsc(high, 65504.0, low)) == 65504).all()


@pytest.mark.parametrize(("d", "limit"), [("i16", 2**15), ("i32", 2**31)])
@pytest.mark.parametrize("profile", PROFILES)
def test_integers_wrap(d: str, limit: int, profile: str) -> None:
    a = pto.tile(np.full((8, 32), limit - 1, NUMPY[d]))
    one = pto.tile(np.full((8, 32), 1, NUMPY[d]))
    assert (np.asarray(pto.ops.taddsc(a, 5, one, profile=profile)) == -limit + 5).all()


# --- Assembly syntax ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED.keys())
def test_printed_spelling_parses_as_printed(text: str) -> None:
    program = pto.parse(text)
    (op,) = program.walk()
    assert op.name == "taddsc" and program.fragment_results == ("dst",)
    assert [v.name for v in op.ins] == ["src0", "scalar", "src1"]
    assert bool(op.outs) == ("outs" in text)
    printed = str(program)
    assert "..." in printed and ("dtype" in printed) == ("dtype" in text)
    assert pto.parse(printed) == program


@pytest.mark.parametrize("text", [ASSEMBLY, SSA, DPS])
def test_types_left_open_are_not_given_for_verify_and_taken_from_the_arguments_by_compile(text: str) -> None:
    program = pto.parse(text)
    found = pto.verify(program)
    assert {d.rule for d in found} == {"type-given"}
    missing = {"dst", "src0", "src1"} | ({"scalar"} if "dtype" in text else set())
    assert {d.operand for d in found} == missing
    assert all("not given" in d.message and d.severity == "error" for d in found)
    x = random_values(NUMPY, 4, "f32")
    same(pto.compile(program)(pto.tile(x), 0.5, pto.tile(x))["dst"], expected(x, 0.5, x))


def test_dtype_stands_for_the_element_type_of_the_tiles() -> None:
    x = random_values(NUMPY, 5, "i16")
    k = pto.compile(pto.parse(SSA))
    same(k(pto.tile(x), 7, pto.tile(x))["dst"], expected(x, 7, x))
    with pytest.raises(pto.PtoError, match="i16"):
        k(pto.tile(x), 7.5, pto.tile(x))


def test_a_written_scalar_type_must_fit_the_tiles() -> None:
    x = pto.tile(random_values(NUMPY, 6, "i16"))
    with pytest.raises(pto.VerifyError, match=r"f32.*i16"):
        pto.compile(pto.parse(ASSEMBLY))(x, 7.0, x)


def test_all_forms_compute_the_same() -> None:
    a, b, old = (random_values(NUMPY, n, "f32") for n in (7, 8, 9))
    given = {"src0": pto.tile(a), "scalar": -2.5, "src1": pto.tile(b)}
    first = "taddsc %dst, %src0, %scalar, %src1 : !pto.tile<...>"
    for text in (ASSEMBLY, SSA, DPS, first, f"pto.{first}, !pto.tile<...>, dtype, !pto.tile<...>"):
        # A destination whose type is left open needs a tile that gives it.
        dst = {} if "%dst =" in text else {"dst": pto.tile(old)}
        same(pto.compile(pto.parse(text))(**given, **dst)["dst"], expected(a, -2.5, b))


# --- Constraints -------------------------------------------------------------------------------------


@every("profile", PROFILES)
@every("d", [*NUMPY, *NO_ARITHMETIC])
def test_dtype_must_be_one_of_the_listed(d: str, profile: str) -> None:
    legal = (profile, d) in SUPPORTED
    text = of_type(d)
    found = errors(text, profile)
    assert (found == []) == legal
    if legal:
        return
    assert any(d in e and "allowed" in e for e in found)
    with pytest.raises(pto.VerifyError):
        pto.compile(pto.parse(text), profile=profile)
    if profile in HARDWARE:
        (row,) = [e for e in found if "are not supported" in e]
        listed = row.split("allowed: ")[1].partition("; try: ")[0].split(", ")
        assert sorted(listed) == sorted(PAGE_TYPES)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("which", ["src0", "src1", "dst"])
def test_tile_layout_must_be_row_major(which: str, profile: str) -> None:
    types = {n: f"f32, 16, 64{', col_major' if n == which else ''}" for n in ("src0", "src1", "dst")}
    found = errors(ssa(types["src0"], "f32", types["src1"], types["dst"]), profile)
    if profile == "cpu_sim":
        assert found == []
        return
    assert len(found) == 1 and f"operand {which}" in found[0]
    assert "col_major" in found[0] and "row_major" in found[0]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loc", ["mat", "left", "right", "acc"])
def test_tile_location_must_be_vector(loc: str, profile: str) -> None:
    for types in product(("", f", loc={loc}"), repeat=3):
        found = errors(
            ssa(*(f"16x64xf32{t}" if i != 1 else "f32" for i, t in enumerate(spread(types)))), profile
        )
        placed = [e for e in found if f"{loc} tile" in e]
        assert len(placed) == sum(map(bool, types)) and all("vec" in e for e in placed)


def spread(types: tuple[str, ...]) -> tuple[str, str, str, str]:
    src0, src1, dst = types
    return src0, "", src1, dst


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("valid", "word"), [("17x64", "v_row=17"), ("16x65", "v_col=65"), ("16x100", "v_col=100")]
)
def test_static_valid_bounds(valid: str, word: str, profile: str) -> None:
    """ValidRow <= Rows and ValidCol <= Cols."""
    tile = f"16x64xf32, valid={valid}"
    found = errors(ssa(tile, "f32", tile, tile), profile)
    for name in ("%src0", "%src1", "%dst"):
        assert any(name in e and word in e and "16x64 tile" in e for e in found)
    with pytest.raises(pto.VerifyError, match=word):
        pto.compile(pto.parse(ssa(tile, "f32", tile, tile)), profile=profile)
    assert errors(ssa(*["16x64xf32, valid=16x63", "f32", *["16x64xf32, valid=16x63"] * 2]), profile) == []


def test_run_time_valid_bounds() -> None:
    with pytest.raises(pto.ArgumentError, match="17 valid rows"):
        pto.tile(np.zeros((16, 64), np.float32), valid=(17, 64))
    with pytest.raises(pto.ArgumentError, match="65 valid cols"):
        pto.tile(np.zeros((16, 64), np.float32), valid=(16, 65))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["src0", "src1", "dst"])
@pytest.mark.parametrize("region", ["12x64", "16x60", "12x60"])
def test_static_valid_regions_must_be_equal(region: str, which: int, profile: str) -> None:
    types = ["16x64xf32"] * 3
    assert errors(ssa(types[0], "f32", types[1], types[2]), profile) == []
    types[which] += f", valid={region}"
    found = errors(ssa(types[0], "f32", types[1], types[2]), profile)
    assert found
    assert all("equal valid regions" in e and region in e and "16x64" in e for e in found)
    with pytest.raises(pto.VerifyError, match="equal valid regions"):
        pto.compile(pto.parse(ssa(types[0], "f32", types[1], types[2])), profile=profile)


DYNAMIC = ssa(*["16x64xf32, valid=?x?", "f32", *["16x64xf32, valid=?x?"] * 2])
FULL = np.ones((16, 64), np.float32)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("region", [(12, 64), (16, 60)])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["src0", "src1", "dst"])
def test_run_time_valid_regions_must_be_equal_when_executed(
    which: int, region: tuple[int, int], profile: str
) -> None:
    tiles = [pto.tile(FULL, valid=region if i == which else (16, 64)) for i in range(3)]
    with pytest.raises(pto.ExecutionError, match="equal valid regions"):
        pto.ops.taddsc(tiles[0], 1.0, tiles[1], dst=tiles[2], profile=profile)
    equal = pto.tile(FULL, valid=region)
    out = np.asarray(pto.ops.taddsc(equal, 1.0, equal, dst=equal, profile=profile))
    assert out[0, 0] == 3 and out[15, 63] == 1


def test_run_time_valid_regions_must_be_equal_when_a_program_runs_eagerly() -> None:
    k = pto.compile(pto.parse(DYNAMIC + "\n"))
    small, full = pto.tile(FULL, valid=(12, 60)), pto.tile(FULL, valid=(16, 64))
    with pytest.raises(pto.ExecutionError, match=r"<text>:1:1: error: taddsc.*equal valid regions"):
        k.eager(full, 1.0, small)
    same(k.eager(full, 1.0, full)["dst"], np.full((16, 64), 3, np.float32))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_jitted_kernel_computes_the_formula_on_unequal_regions(profile: str) -> None:
    """The destination's region decides; the lanes missing in src1 read as everywhere else."""
    k = pto.compile(pto.parse(DYNAMIC), profile=profile)
    full = pto.tile(FULL, valid=(16, 64))
    out = np.asarray(jax.jit(k)(full, 1.0, pto.tile(FULL, valid=(12, 60)))["dst"])
    assert (out[:12, :60] == 3).all()
    outside = np.ones((16, 64), bool)
    outside[:12, :60] = False
    assert (out[outside] == 3).all() if profile == "cpu_sim" else np.isnan(out[outside]).all()


def test_the_report_of_a_checked_kernel_names_instruction_line_and_batch_index() -> None:
    k = pto.compile(pto.parse("# the rule\n" + DYNAMIC), checks=True)
    rows = np.array([16, 12, 16, 3], np.int32)
    full = jax.vmap(lambda r: pto.tile(FULL, valid=(16 + 0 * r, 64)))(rows)
    part = jax.vmap(lambda r: pto.tile(FULL, valid=(r, 64)))(rows)
    outputs, report = jax.vmap(k, in_axes=(0, None, 0))(full, 1.0, part)
    assert outputs["dst"].words.shape == (4, 16, 64)
    (problem,) = report.problems()
    assert problem.instruction == "taddsc" and problem.severity == "error"
    assert problem.span is not None and problem.span.line == 2
    assert "equal valid regions" in problem.message and "batch index 1, 3" in problem.message
    with pytest.raises(pto.ExecutionError, match="batch index 1, 3"):
        report.raise_if_broken()
    _, fine = jax.vmap(k, in_axes=(0, None, 0))(full, 1.0, full)
    assert fine.problems() == []


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("tile", "scalar"),
    [("f32", "f16"), ("f16", "f32"), ("f32", "i32"), ("i32", "f32"), ("i32", "i16"), ("i16", "index")],
)
def test_scalar_type_must_match_the_tile_data_type(tile: str, scalar: str, profile: str) -> None:
    text = ssa(f"16x64x{tile}", scalar, f"16x64x{tile}", f"16x64x{tile}")
    found = errors(text, profile)
    assert len(found) == 1 and "operand scalar" in found[0]
    assert f"type {scalar}" in found[0] and f"scalar of type {tile}" in found[0]
    with pytest.raises(pto.VerifyError):
        pto.compile(pto.parse(text), profile=profile)


def test_a_scalar_argument_of_another_type_is_rejected() -> None:
    x = pto.tile(FULL)
    for scalar in (np.float16(1), np.int32(1), np.asarray(1, np.int64)):
        with pytest.raises(pto.PtoError, match="f32"):
            pto.ops.taddsc(x, scalar, x)
    k = pto.compile(pto.parse(of_type("f32")))
    with pytest.raises(pto.ArgumentError, match=r"scalar.*float16.*f32"):
        k(FULL, np.float16(1), FULL)
    with pytest.raises(pto.ArgumentError, match=r"source 1 \(scalar\): got a tile .*allowed: a number"):
        pto.ops.taddsc(x, x, x)


@pytest.mark.parametrize("value", [1.5, 2**31, -(2**31) - 1, 10**400], ids=["1.5", "max", "min", "huge"])
def test_a_number_that_is_no_value_of_the_type_is_rejected(value: Any) -> None:
    x = pto.tile(np.ones((16, 64), np.int32))
    with pytest.raises(pto.PtoError, match="i32"):
        pto.compile(pto.parse(of_type("i32")))(x, value, x)
    with pytest.raises(pto.PtoError, match="i32"):
        pto.ops.taddsc(x, value, x)


def test_type_mismatches_between_tiles_are_rejected() -> None:
    for profile in PROFILES:
        for i in range(3):
            types = ["16x64xf32"] * 3
            types[i] = "16x64xf16"
            found = errors(ssa(types[0], "f32", types[1], types[2]), profile)
            assert any("f16" in e and "f32" in e and "element type" in e for e in found)


# --- Valid region ------------------------------------------------------------------------------------


@pytest.mark.variants(4)
@pytest.mark.parametrize(("profile", "d"), [(p, d) for p, d in SUPPORTED if d in PAGE_TYPES])
def test_valid_rows_and_cols_of_dst_are_the_iteration_domain(profile: str, d: str) -> None:
    a, b, old = (random_values(NUMPY, n, d) for n in (10, 11, 12))
    tiles = [pto.tile(x, valid=(5, 9)) for x in (a, b, old)]
    out = pto.ops.taddsc(tiles[0], 3, tiles[1], dst=tiles[2], profile=profile)
    want = old.copy()
    want[:5, :9] = expected(a, 3, b)[:5, :9]
    same(out, want)
    words = f"u{old.dtype.itemsize}"
    outside = np.ones(old.shape, bool)
    outside[:5, :9] = False
    np.testing.assert_array_equal(np.asarray(out).view(words)[outside], old.view(words)[outside])


# --- Examples ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_cpp_example(profile: str) -> None:
    """``TADDSC(out, a, 2.0f, b)`` on Tile<TileType::Vec, float, 16, 16>, as a function and as a program."""
    x, y = (np.random.default_rng(n).standard_normal((16, 16), np.float32) for n in (13, 14))
    want = expected(x, 2.0, y)
    same(pto.ops.taddsc(pto.tile(x), 2.0, pto.tile(y), profile=profile), want)
    text = "%two = arith.constant 2.0 : f32\ntaddsc %out, %a, %two, %b : !pto.tile<f32, 16, 16>"
    out = pto.compile(pto.parse(text), profile=profile)(a=x, b=y)
    assert "out" in out
    same(out["out"], want)


def test_scalars_are_traced_and_batch() -> None:
    k = pto.compile(pto.parse(of_type("f32")))
    x = random_values(NUMPY, 15, "f32", (16, 64))
    scalars = np.array([0.5, -1e30, 3.0], np.float32)
    out = jax.vmap(k, in_axes=(None, 0, None))(x, scalars, x)["dst"]
    for i, scalar in enumerate(scalars):
        same(np.asarray(out.words)[i].view(np.float32), expected(x, scalar, x))
