"""Page pto.tadd, section Performance: the cycle model, one test per statement."""

import pytest

import pto_jax as pto
from pto_jax.cost import Path, cycles, estimate
from tests.tables import every

FLOATS = ("f32", "f16", "bf16")
INTEGERS = ("i32", "i16", "i8", "u8")
SHAPES = [(16, 64), (1, 8), (7, 9), (64, 64), (255, 3)]


def test_constants_of_the_formula() -> None:
    """Startup 14, completion 19 or 17, 2 per repeat, interval 18."""
    found = estimate("tadd", "f32", 16, 64).terms
    assert found == {"startup": 14, "completion": 19, "per_repeat": 2, "repeats": 128, "interval": 18}


@pytest.mark.parametrize(("dtypes", "completion"), [(FLOATS, 19), (INTEGERS, 17)])
def test_completion_latency_by_type_class(dtypes: tuple[str, ...], completion: int) -> None:
    for dtype in dtypes:
        assert estimate("tadd", dtype, 16, 64).terms["completion"] == completion


@every("shape", SHAPES)
@every("dtype", [*FLOATS, *INTEGERS])
def test_cycle_model(dtype: str, shape: tuple[int, int]) -> None:
    """14 + C + 2R + (R-1) x 18 with R = validRow x validCol / 8, for every element type."""
    r = -(-shape[0] * shape[1] // 8)
    c = 19 if dtype in FLOATS else 17
    assert cycles("tadd", dtype, *shape) == 14 + c + 2 * r + (r - 1) * 18


def test_repeats_follow_the_valid_region_and_not_the_tile() -> None:
    figure = estimate("tadd", "f32", 10, 40, rows=16, cols=64)
    assert figure.terms["repeats"] == 10 * 40 // 8


def test_example_throughput_estimate() -> None:
    """TADD on a 16x64 f32 tile with RowMajor layout: 2575 cycles."""
    figure = estimate("TADD", "f32", 16, 64, layout="RowMajor")
    assert figure.cycles == 14 + 19 + 256 + (128 - 1) * 18 == 2575
    report = pto.cost(pto.parse("%dst = tadd %src0, %src1 : !pto.tile<f32, 16, 64>"), profile="a2a3")
    assert report.serial == 2575 and report.model == "doc_formula"


@pytest.mark.parametrize(
    ("rows", "cols", "valid", "path"),
    [
        (16, 16, (16, 16), Path.SMALL),
        (4, 56, (4, 50), Path.SMALL),
        (16, 64, (16, 64), Path.CONTINUOUS),
        (16, 128, (9, 128), Path.CONTINUOUS),
        (1, 128, (1, 100), Path.CONTINUOUS),
        (16, 128, (16, 127), Path.GENERAL),
        (256, 32, (256, 31), Path.GENERAL),
    ],
)
def test_shape_dependent_paths(rows: int, cols: int, valid: tuple[int, int], path: Path) -> None:
    """Small tiles, column-aligned tiles, misaligned tiles; the page counts the continuous path only."""
    figure = estimate("tadd", "f32", *valid, rows=rows, cols=cols)
    assert figure.path is path and figure.lower_bound is (path is not Path.CONTINUOUS)
    assert ("lower bound" in str(figure)) is (path is not Path.CONTINUOUS)


@pytest.mark.parametrize(
    ("layout", "path"),
    [("RowMajor", Path.CONTINUOUS), ("ColMajor", Path.GENERAL), ("Zigzag", Path.GENERAL)],
)
def test_layout_impact(layout: str, path: Path) -> None:
    """RowMajor is best; ColMajor and Zigzag take the general path, whose repeats are higher."""
    figure = estimate("tadd", "f32", 16, 64, layout=layout)
    assert figure.path is path and figure.cycles == 2575
    assert figure.lower_bound is (layout != "RowMajor")


def test_the_figures_are_those_of_a2_and_a3() -> None:
    for profile in ("a5", "cpu_sim"):
        assert estimate("tadd", "f32", 16, 64, profile=profile).cycles is None
