"""Reductions and expansions in the reference interpreter: what the recorded vectors do not show."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import BLayout, TileType, dtype
from pto_jax.oracle import OracleTile
from pto_jax.text.type_text import print_type

Run = Callable[..., OracleTile]
Make = Callable[..., OracleTile]
PROFILES = ("cpu_sim", "a2a3", "a5")
HARDWARE = ("a2a3", "a5")


def destination(make: Make, d: str, rows: int, cols: int, old: float = 9) -> OracleTile:
    return make(d, np.full((rows, cols), old))


def words(tile: OracleTile) -> NDArray[Any]:
    found: NDArray[Any] = np.ascontiguousarray(tile.data).view(tile.type.dtype.word)
    return found


# -- order and accumulator --------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_row_sums_go_from_left_to_right(run_one: Run, tile: Make, profile: str) -> None:
    src = tile("f32", [[2.0**24, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0] * 7 + [2.0**24]])
    out = run_one("trowsum", {"src": src, "dst": destination(tile, "f32", 2, 8)}, profile=profile)
    np.testing.assert_array_equal(out.data[:, 0], [2.0**24, 2.0**24 + 8])
    assert (out.data[:, 1:] == 9).all()


@pytest.mark.parametrize("profile", PROFILES)
def test_halves_are_summed_in_single_precision_along_rows_only(
    run_one: Run, tile: Make, profile: str
) -> None:
    row = np.array([[2048.0, *[1.0] * 15]])
    across = run_one(
        "trowsum", {"src": tile("f16", row), "dst": destination(tile, "f16", 1, 16)}, profile=profile
    )
    assert across.data[0, 0] == 2064
    down = run_one(
        "tcolsum",
        {"src": tile("f16", np.repeat(row.T, 16, 1)), "dst": destination(tile, "f16", 1, 16)},
        profile=profile,
    )
    assert (down.data == 2048).all()


def test_products_round_at_every_step(run_one: Run, tile: Make) -> None:
    row = np.array([[60000.0, 60000.0, 2.0**-16, 2.0**-16, *[1.0] * 12]])
    out = run_one("trowprod", {"src": tile("f16", row), "dst": destination(tile, "f16", 1, 16)})
    assert np.isinf(out.data[0, 0])


@pytest.mark.parametrize("name", ["trowsum", "trowprod"])
def test_integers_wrap(run_one: Run, tile: Make, name: str) -> None:
    row = np.array([[30000, 30000, 3, *[1] * 13]], np.int16)
    out = run_one(name, {"src": tile("i16", row), "dst": destination(tile, "i16", 1, 16)})
    exact = int(row.astype(np.int64).sum() if name == "trowsum" else row.astype(np.int64).prod())
    assert out.data[0, 0] == (exact + 2**15) % 2**16 - 2**15


@pytest.mark.parametrize("profile", PROFILES)
def test_sums_in_pairs(run_one: Run, tile: Make, profile: str) -> None:
    values = np.random.default_rng(5).standard_normal((7, 8)).astype(np.float32) * 2.0**12
    values[::2] *= 2.0**-14
    src = tile("f32", values)
    out = run_one(
        "tcolsum",
        {"src": src, "tmp": destination(tile, "f32", 4, 8), "dst": destination(tile, "f32", 1, 8)},
        {"isBinary": True},
        profile=profile,
    )
    a, b, c, d, e, f, g = values
    sums = {
        "cpu_sim": lambda: (((((np.float32(0) + a + b) + c) + d) + e) + f) + g,
        # Three sums of pairs: the odd row joins an outer one, and so does the odd sum of the next level.
        "a2a3": lambda: (e + f) + ((g + (a + b)) + (c + d)),
        "a5": lambda: (g + (e + f)) + ((a + b) + (c + d)),
    }
    np.testing.assert_array_equal(words(out)[0], sums[profile]().view(np.uint32))


@pytest.mark.parametrize("profile", PROFILES)
def test_sums_start_at_plus_zero_and_pairs_do_not(run_one: Run, tile: Make, profile: str) -> None:
    src = tile("f32", np.full((4, 8), -0.0))

    def total(rows: int, *, pairs: bool) -> bool:
        given = {
            "src": OracleTile(src.type.with_valid(rows, 8), src.data),
            "tmp": destination(tile, "f32", 2, 8),
        }
        out = run_one(
            "tcolsum", {**given, "dst": destination(tile, "f32", 1, 8)}, {"isBinary": pairs}, profile=profile
        )
        return bool(np.signbit(out.data[0, 0]))

    assert not total(4, pairs=False) and not total(1, pairs=False)
    assert total(4, pairs=True) == (profile != "cpu_sim")
    assert total(1, pairs=True) == (profile == "a2a3")


# -- empty sources ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [("sum", 0), ("prod", 1), ("max", 5), ("min", 9)],
)
@pytest.mark.parametrize("along", ["row", "col"])
def test_lines_without_valid_lanes(run_one: Run, tile: Make, along: str, name: str, expected: int) -> None:
    empty = (4, 0) if along == "row" else (0, 4)
    src = tile("f32", np.full((4, 8), 5.0), valid=empty)
    for profile in PROFILES:
        out = run_one(f"t{along}{name}", {"src": src, "dst": destination(tile, "f32", 4, 8)}, profile=profile)
        want = np.full((4, 8), 9.0)
        lines = want[:, 0] if along == "row" else want[0, :4]
        lines[:] = expected if profile == "cpu_sim" else 9
        np.testing.assert_array_equal(out.data, want)


@pytest.mark.parametrize("name", ["trowsum", "trowmax", "trowmin", "tcolsum", "tcolprod"])
@pytest.mark.parametrize("profile", PROFILES)
def test_no_lines_at_all(run_one: Run, tile: Make, name: str, profile: str) -> None:
    empty = (0, 8) if name.startswith("trow") else (4, 0)
    src = tile("f32", np.full((4, 8), 5.0), valid=empty)
    out = run_one(name, {"src": src, "dst": destination(tile, "f32", 4, 8)}, profile=profile)
    assert (out.data == 9).all()


# -- extreme values and positions -------------------------------------------------------------------------


def test_an_extreme_value_keeps_its_bits(run_one: Run, tile: Make) -> None:
    src = tile("f32", np.array([[0x7F800001, 0, 0, 0, 0, 0, 0, 0], [0x80000000] + [0] * 7], np.uint32))
    out = run_one("trowmax", {"src": src, "dst": destination(tile, "f32", 2, 8)})
    np.testing.assert_array_equal(words(out)[:, 0], [0x7F800001, 0x80000000])


def positions(
    name: str, src: OracleTile, profile: str = "cpu_sim", index: str = "i32"
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values and positions of the form with two destinations."""
    shape = (src.type.rows, 8) if name.startswith("trow") else (1, src.type.cols)
    values = OracleTile(TileType(src.type.dtype, *shape), np.full(shape, 9, src.type.dtype.numpy))
    indices = OracleTile(TileType(dtype(index), *shape), np.full(shape, 77, dtype(index).numpy))
    types = [print_type(t.type) for t in (src, values, indices)]
    text = f"pto.{name} ins(%src : {types[0]}) outs(%values, %indices : {types[1]}, {types[2]})"
    given = {"src": src, "values": values, "indices": indices}
    out = oracle.run(pto.parse(text), given, profile=profile)
    return out["values"].data, out["indices"].data


@pytest.mark.parametrize("profile", PROFILES)
def test_values_come_first_and_the_lowest_position_wins(tile: Make, profile: str) -> None:
    data = np.array(
        [[3.0, 7.0, 7.0, 1.0, 1.0, 0.0, 0.0, 0.0], [np.nan, 9, 1, 1, 1, 1, 1, 1], [1, np.nan] + [2.0] * 6]
    )
    values, indices = positions("trowargmax", tile("f32", data), profile)
    np.testing.assert_array_equal(indices[:, 0], [1, 0, 2])
    np.testing.assert_array_equal(values[:, 0], [7.0, np.nan, 2.0])
    assert (indices[:, 1:] == 77).all() and (values[:, 1:] == 9).all()
    values, indices = positions("tcolargmin", tile("f32", np.repeat(data.T, 1, 0)[:, [0] * 8]), profile)
    assert (indices == 5).all() and (values == 0).all()


def test_positions_without_values_need_one_destination(run_one: Run, tile: Make) -> None:
    src = tile("i32", np.arange(64).reshape(8, 8))
    out = run_one("tcolargmax", {"src": src, "dst": destination(tile, "u32", 1, 8)}, profile="cpu_sim")
    assert (out.data == 7).all()


# -- pairs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_pairs_with_an_odd_number_of_columns(run_one: Run, tile: Make, profile: str) -> None:
    src = tile("f32", [[1.0, 2.0, 3.0, 4.0, -0.0, 8.0, 8.0, 8.0]] * 2, valid=(1, 5))
    dst = tile("f32", np.full((2, 8), 9.0), valid=(1, 5))
    out = run_one("tpairreducesum", {"src": src, "dst": dst}, profile=profile)
    rest = 0.0 if profile == "cpu_sim" else 9.0
    np.testing.assert_array_equal(out.data, [[3, 7, 0, 0, 0, *[rest] * 3], [rest] * 8])
    assert not np.signbit(out.data[0, 2])


# -- expansions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_lines_outside_the_vector_follow_the_region_option(run_one: Run, tile: Make, profile: str) -> None:
    src = tile("u8", np.full((4, 32), 3), valid=(2, 32))
    out = run_one("trowexpand", {"src": src, "dst": destination(tile, "u8", 4, 32)}, profile=profile)
    np.testing.assert_array_equal(out.data[:, 5], [3, 3, *[3 if profile == "cpu_sim" else 255] * 2])


@pytest.mark.parametrize("first", ["src0", "src1"])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_expanded_operand_keeps_its_side(run_one: Run, tile: Make, profile: str, first: str) -> None:
    full = tile("f32", np.full((8, 16), 8.0))
    column = tile("f32", np.full((8, 1), 2.0), blayout=BLayout.COL_MAJOR)
    given = {"src0": full, "src1": column} if first == "src0" else {"src0": column, "src1": full}
    for name, forward, backward in (("sub", 6, -6), ("div", 4, 0.25), ("expdif", np.exp(6), np.exp(-6))):
        out = run_one(f"trowexpand{name}", {**given, "dst": destination(tile, "f32", 8, 16)}, profile=profile)
        np.testing.assert_array_equal(out.data, np.float32(forward if first == "src0" else backward))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_difference_is_rounded_before_its_exponential(run_one: Run, tile: Make, profile: str) -> None:
    a, b = np.float16(8.0), np.float16(0.003)
    given = {"src0": tile("f16", np.full((4, 16), a)), "src1": tile("f16", np.full((1, 16), b))}
    out = run_one("tcolexpandexpdif", {**given, "dst": destination(tile, "f16", 4, 16)}, profile=profile)
    assert (out.data == np.float16(np.exp(np.float64(a - b)))).all()


@pytest.mark.parametrize("profile", HARDWARE)
def test_integer_division_by_zero_has_a_value(run_one: Run, tile: Make, profile: str) -> None:
    given = {"src0": tile("i32", np.full((4, 8), 5)), "src1": tile("i32", np.zeros((1, 8)))}
    out = run_one("tcolexpanddiv", {**given, "dst": destination(tile, "i32", 4, 8)}, profile=profile)
    assert (out.data == -1).all()


def test_flush_mode(run_one: Run, tile: Make) -> None:
    tiny = np.float32(2.0**-130)
    src = tile("f32", np.full((1, 8), tiny))
    for name in ("trowsum", "trowmax"):
        kept = run_one(name, {"src": src, "dst": destination(tile, "f32", 1, 8)})
        flushed = run_one(name, {"src": src, "dst": destination(tile, "f32", 1, 8)}, subnormals="flush")
        assert kept.data[0, 0] == (tiny * 8 if name == "trowsum" else tiny) and flushed.data[0, 0] == 0
    moved = run_one("tcolexpand", {"src": src, "dst": destination(tile, "f32", 2, 8)}, subnormals="flush")
    assert (moved.data == tiny).all()
