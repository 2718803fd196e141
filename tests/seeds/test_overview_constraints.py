"""Page Tile Instruction Set, sections from the valid region model to the cases that are not allowed."""

import numpy as np
import pytest

import pto_jax as pto
from tests.seeds.overview import FP8, PROFILES, found, ssa
from tests.tables import every

HARDWARE = ("a2a3", "a5")


# --- Valid region model -------------------------------------------------------------------------------

COVERS = ssa("16x64xf32, valid=12x64", "16x64xf32", "16x64xf32")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_lane_is_read_whether_or_not_it_is_in_the_valid_region_of_its_source(profile: str) -> None:
    """The page leaves the value open on hardware, the pto.tadd page says all-one bits."""
    x = np.arange(8 * 32, dtype=np.int32).reshape(8, 32)
    small = pto.tile(x, valid=(5, 9))
    full = pto.TileType(pto.dtype("i32"), 8, 32)
    got = np.asarray(pto.ops.tsub(small, pto.tile(np.zeros_like(x)), dst=full, profile=profile))
    want = np.full_like(x, -1) if profile in HARDWARE else x.copy()
    want[:5, :9] = x[:5, :9]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("profile", PROFILES)
def test_programs_must_not_rely_on_out_of_region_lanes(profile: str) -> None:
    assert found(COVERS, profile) == []
    (warning,) = found(COVERS, profile, "warning")
    assert "no value may be relied on" in warning
    portable = found(COVERS, profile, portable=True)
    assert len(portable) == 1 and "src0" in portable[0]
    assert found(ssa(*["16x64xf32"] * 3), profile, portable=True) == []


# --- Constraints --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "src1"),
    [
        ("shape", "8x64xf32"),
        ("layout", "f32, 16, 64, col_major"),
        ("role", "16x64xf32, loc=mat"),
        ("valid region", "16x64xf32, valid=17x64"),
        ("element type", "16x64xi32"),
    ],
)
def test_legality_depends_on_more_than_dtype(part: str, src1: str) -> None:
    assert found(ssa("16x64xf32", "16x64xf32", "16x64xf32"), "a2a3") == []
    assert found(ssa("16x64xf32", src1, "16x64xf32"), "a2a3"), part


SCALES = {
    "scaleleft": "rows=16, cols=2, blayout=row_major, slayout=row_major",
    "scaleright": "rows=2, cols=16, blayout=col_major, slayout=col_major",
}


@pytest.mark.parametrize(("loc", "shape"), SCALES.items())
def test_mx_block_scale_tiles_are_gated_by_profile(loc: str, shape: str) -> None:
    alloc = f"%t = pto.alloc_tile : !pto.tile_buf<loc={loc}, dtype=f8e8m0, {shape}, fractal=32>"
    rejected = found(alloc, "a2a3")
    assert any(f"{loc} tile" in e and "allowed on a2a3: vec, mat, left, right" in e for e in rejected)
    assert any("f8e8m0" in e for e in rejected)
    assert found(alloc, "a5") == [] and found(alloc, "a5", "warning") == []
    assert found(alloc, "cpu_sim") == [] and any("a5 only" in w for w in found(alloc, "cpu_sim", "warning"))
    assert found(alloc, "a5", portable=True)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loc", ["left", "right"])
def test_left_and_right_tiles_of_ordinary_types_exist_everywhere(loc: str, profile: str) -> None:
    """Only the block-scale format is gated: matmul needs both on every profile."""
    inner = "row_major" if loc == "left" else "col_major"
    text = f"loc={loc}, dtype=f16, rows=16, cols=16, blayout=row_major, slayout={inner}"
    assert found(f"%t = pto.alloc_tile : !pto.tile_buf<{text}>", profile) == []


@pytest.mark.parametrize(
    ("size", "profiles"),
    [((1, 8), PROFILES), ((3, 40), PROFILES), ((120, 96), PROFILES), ((7, 512), PROFILES)],
)
def test_tile_instructions_work_on_whole_tiles_not_on_vector_registers(
    size: tuple[int, int], profiles: tuple[str, ...]
) -> None:
    x, y = (np.random.default_rng(n).standard_normal(size, np.float32) for n in (5, 6))
    for profile in profiles:
        np.testing.assert_array_equal(
            np.asarray(pto.ops.tadd(pto.tile(x), pto.tile(y), profile=profile)), x + y
        )


@every("profile", PROFILES)
@every("name", ["tadd", "tmul", "tmax", "tdiv", "taddc"])
@every("small", ["f32, 16, 1, col_major", "f32, 1, 64", "f32, 1, 8", "f32, 16, 8"])
@every("which", [0, 1], ids=["src0", "src1"])
def test_no_implicit_broadcasting(which: int, small: str, name: str, profile: str) -> None:
    types = ["f32, 16, 64"] * 3
    types[which] = small
    text = ssa(types[0], types[1], types[2], name)
    rejected = [e for e in found(text, profile) if "broadcasting" in e]
    assert len(rejected) == 1 and f"operand src{which}" in rejected[0] and "16x64" in rejected[0]
    with pytest.raises(pto.VerifyError, match="broadcasting"):
        pto.compile(pto.parse(text), profile=profile)


def test_no_implicit_broadcasting_of_tiles_given_to_functions() -> None:
    whole = np.ones((16, 64), np.float32)
    column = pto.TileType(pto.dtype("f32"), 16, 1, blayout=type(pto.tile(whole).type.blayout).COL_MAJOR)
    for small in (
        pto.tile(np.ones((1, 64), np.float32)),
        pto.tile(np.ones((16, 1), np.float32), type=column),
    ):
        for profile in PROFILES:
            with pytest.raises(pto.VerifyError, match="broadcasting"):
                pto.ops.tadd(pto.tile(whole), small, profile=profile)


@pytest.mark.parametrize("valid", [(16, 1), (1, 64)])
def test_a_valid_column_or_row_is_not_broadcast_either(valid: tuple[int, int]) -> None:
    x = np.random.default_rng(7).standard_normal((16, 64), np.float32)
    whole = pto.TileType(pto.dtype("f32"), 16, 64)
    out = np.asarray(pto.ops.tadd(pto.tile(x), pto.tile(x, valid=valid), dst=whole))
    rows, cols = valid
    np.testing.assert_array_equal(out[:rows, :cols], (x + x)[:rows, :cols])
    assert np.isnan(out[rows:]).all() and np.isnan(out[:, cols:]).all()


# --- Cases that are not allowed -----------------------------------------------------------------------


@pytest.mark.parametrize("src1", ["64x16xf32", "32x32xf32", "1x1024xf32"])
def test_no_implicit_reshaping(src1: str) -> None:
    for profile in PROFILES:
        assert found(ssa("16x64xf32", src1, "16x64xf32"), profile), src1


def test_no_valid_region_repair() -> None:
    """The destination keeps its own region, whatever the sources have."""
    small = pto.tile(np.ones((16, 64), np.float32), valid=(4, 4))
    dst = pto.tile(np.zeros((16, 64), np.float32), valid=(8, 32))
    out = pto.ops.tadd(small, small, dst=dst)
    assert (int(out.valid_rows), int(out.valid_cols)) == (8, 32)
    got = np.asarray(out)
    assert (got[:4, :4] == 2).all() and np.isnan(got[4:8, :32]).all() and not got[8:].any()


def test_support_gaps_of_a_target_are_not_universal_rules() -> None:
    """What one profile lacks is an error there and for portable programs, and fine on the others."""
    text = ssa(*["16x64xi8"] * 3)
    assert found(text, "a2a3") and found(text, "a5") == [] and found(text, "cpu_sim") == []
    (portable,) = found(text, "a5", portable=True)
    assert "not portable: a2a3" in portable


@pytest.mark.parametrize("d", FP8)
def test_fp8_element_types_are_for_a5(d: str) -> None:
    text = ssa(*[f"16x64x{d}"] * 3)
    assert any(f"element type {d} does not exist on a2a3" in e for e in found(text, "a2a3"))
    assert found(text, "a5") == [] and found(text, "a5", "warning") == []
    assert found(text, "cpu_sim") == []
    warned = found(text, "cpu_sim", "warning")
    assert warned and all("not portable" in w and d in w for w in warned)
    x = pto.tile(np.full((8, 32), 0x38, np.uint8), dtype=d)
    with pytest.raises(pto.VerifyError, match=d):
        pto.ops.tadd(x, x, profile="a2a3")
    pto.ops.tadd(x, x, profile="a5")
