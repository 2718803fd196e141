"""Values that no recorded case pins down: hardware profiles, corner cases, options."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pto_jax.errors import ArgumentError, ExecutionError
from pto_jax.ir import CmpMode, Loc, RoundMode, SaturationMode
from pto_jax.oracle import OracleTile

Run = Callable[..., OracleTile]
Make = Callable[..., Any]
I32_MIN, I32_MAX = -(2**31), 2**31 - 1


def _zeros(tile: Make, d: str, cols: int, rows: int = 1) -> OracleTile:
    result = tile(d, np.zeros((rows, cols)))
    assert isinstance(result, OracleTile)
    return result


@pytest.mark.parametrize(("profile", "lane"), [("a2a3", -1 + 5), ("a5", -1 + 5), ("cpu_sim", 9 + 5)])
def test_source_lanes_outside_the_valid_region(run_one: Run, tile: Make, profile: str, lane: int) -> None:
    a = tile("i32", np.full((2, 8), 9), valid=(2, 4))
    out = run_one(
        "tadd",
        {"src0": a, "src1": tile("i32", np.full((2, 8), 5)), "dst": _zeros(tile, "i32", 8, 2)},
        profile=profile,
    )
    assert out.data[0].tolist() == [14] * 4 + [lane] * 4


def test_out_of_region_option(run_one: Run, tile: Make) -> None:
    operands = {"src": tile("i16", [[3] * 16], valid=(1, 1)), "dst": _zeros(tile, "i16", 16)}
    assert run_one("tneg", operands, profile="a5", out_of_region="backing").data[0, 5] == -3
    assert run_one("tneg", operands, profile="cpu_sim", out_of_region="ones").data[0, 5] == 1
    with pytest.raises(ArgumentError, match="poison"):
        run_one("tneg", operands, out_of_region="poison")


def test_lanes_outside_the_destination_keep_their_bits(run_one: Run, tile: Make) -> None:
    dst = tile("f32", [[7.0] * 8], valid=(1, 3))
    out = run_one("tabs", {"src": tile("f32", [[-1.0] * 8]), "dst": dst}, profile="a2a3")
    assert out.data[0].tolist() == [1.0] * 3 + [7.0] * 5
    assert dst.data[0].tolist() == [7.0] * 8


@pytest.mark.parametrize("profile", ["cpu_sim", "a2a3", "a5"])
def test_integer_division_by_zero(run_one: Run, tile: Make, profile: str) -> None:
    a, zero = tile("i32", [[7, -7, I32_MIN, 0]]), tile("i32", [[0, 0, -1, 0]])
    operands = {"src0": a, "src1": zero, "dst": _zeros(tile, "i32", 4)}
    assert run_one("tdiv", operands, profile=profile).data.tolist() == [[-1, -1, I32_MIN, -1]]
    assert run_one("trem", operands, profile=profile).data.tolist() == [[7, -7, 0, 0]]
    assert run_one("tfmod", operands, profile=profile).data.tolist() == [[7, -7, 0, 0]]


def test_zero_scalar_divisor(run_one: Run, tile: Make, scalar: Make) -> None:
    def out(name: str, profile: str, d: str) -> list[Any]:
        operands = {"src": tile(d, [[5, -3]]), "scalar": scalar(0, d), "dst": tile(d, [[1, 2]])}
        values: list[Any] = run_one(name, operands, profile=profile).data[0].tolist()
        return values

    for name in ("trems", "tfmods"):
        assert out(name, "cpu_sim", "i32") == [1, 2]
        assert out(name, "a5", "i32") == [5, -3]
        assert np.isnan(out(name, "a5", "f32")).all()


def test_unsigned_quotient_by_zero_is_all_ones(run_one: Run, tile: Make) -> None:
    operands = {"src0": tile("u16", [[5]]), "src1": tile("u16", [[0]]), "dst": tile("u16", [[0]])}
    assert run_one("tdiv", operands).data[0, 0] == 0xFFFF


@pytest.mark.parametrize(
    ("d", "value", "count", "left", "right"),
    [
        ("i8", -128, 9, 0, -1),
        ("i8", 1, 33, 2, 0),
        ("u16", 0x8000, 17, 0, 0),
        ("i32", -8, 33, -16, -4),
        ("u64", 8, 65, 16, 4),
        ("i32", 1, -31, 2, 0),
    ],
)
def test_shift_counts_past_the_width(
    run_one: Run, tile: Make, d: str, value: int, count: int, left: int, right: int
) -> None:
    operands = {"src0": tile(d, [[value]]), "src1": tile(d, [[count]]), "dst": tile(d, [[0]])}
    assert run_one("tshl", operands).data[0, 0] == left
    assert run_one("tshr", operands).data[0, 0] == right


def test_two_source_sums_saturate(run_one: Run, tile: Make) -> None:
    def out(name: str, d: str, a: Any, b: Any) -> Any:
        return run_one(
            name, {"src0": tile(d, [a]), "src1": tile(d, [b]), "dst": _zeros(tile, d, len(a))}
        ).data[0]

    assert out("taddc", "i8", [127, -128, 5], [1, -1, -7]).tolist() == [127, -128, -2]
    assert out("tsubc", "u16", [1, 9], [2, 4]).tolist() == [0, 5]
    assert out("taddc", "u64", [2**64 - 1], [1]).tolist() == [2**64 - 1]
    assert out("tsubc", "i64", [-(2**63)], [1]).tolist() == [-(2**63)]
    floats = out("taddc", "f16", [65504, np.inf, -np.inf, np.nan], [65504, 1, 1, 1])
    assert floats[:3].tolist() == [65504, 65504, -65504] and np.isnan(floats[3])


@pytest.mark.parametrize("profile", ["cpu_sim", "a2a3", "a5"])
def test_add_relu_convert(run_one: Run, tile: Make, profile: str) -> None:
    def out(source: str, target: str, a: list[Any], b: list[Any]) -> Any:
        operands = {"src0": tile(source, [a]), "src1": tile(source, [b]), "dst": _zeros(tile, target, len(a))}
        return run_one("taddreluconv", operands, profile=profile).data[0]

    assert out("i16", "i8", [32767, -5, 3], [1, 2, 4]).tolist() == [127, 0, 7]
    wide = out("f32", "f16", [1e9, np.inf, -1.0, np.nan, -0.0], [0, 0, 0, 0, -0.0])
    assert wide[:3].tolist() == [65504, 65504, 0] and np.isnan(wide[3])
    assert not np.signbit(wide[4])
    assert out("f16", "i8", [60000, np.nan, 2.5, 3.5, -np.inf], [60000, 0, 0, 0, 0]).tolist() == [
        127,
        0,
        2,
        4,
        0,
    ]


def test_dequantising_add_saturates_on_hardware(run_one: Run, tile: Make, scalar: Make) -> None:
    operands = {
        "src0": tile("i32", [[2**30, 100]]),
        "src1": tile("i32", [[0, -300]]),
        "deqScale": scalar(1.0, "f32"),
        "dst": _zeros(tile, "f16", 2),
    }
    assert run_one("tadddeqrelu", operands, profile="cpu_sim").data.tolist() == [[np.inf, 0]]
    assert run_one("tadddeqrelu", operands, profile="a2a3").data.tolist() == [[65504, 0]]


def test_computed_nan_is_canonical_and_moved_nan_is_not(run_one: Run, tile: Make) -> None:
    odd = np.array([[0xFFC00123]], np.uint32)
    one = tile("f32", [[1.0]])
    nan = tile("f32", odd)
    dst = tile("f32", [[0.0]])
    words = {
        name: run_one(name, {"src0": nan, "src1": one, "dst": dst}).data.view(np.uint32)[0, 0]
        for name in ("tadd", "tmax")
    }
    assert words == {"tadd": 0x7FC00000, "tmax": 0xFFC00123}
    assert run_one("tneg", {"src": nan, "dst": dst}).data.view(np.uint32)[0, 0] == 0x7FC00123


@pytest.mark.parametrize("profile", ["a2a3", "a5"])
def test_hardware_mask_rows_are_aligned(run_one: Run, tile: Make, profile: str) -> None:
    a = np.tile(np.arange(16, dtype=np.float32), (2, 1))
    mask = tile("u8", np.full((2, 32), 0xAA), valid=(2, 2))
    sources = {"src0": tile("f32", a, valid=(2, 11)), "src1": tile("f32", np.full((2, 16), 4.0)), "dst": mask}
    written = run_one("tcmp", sources, {"cmpMode": CmpMode.GT}, profile=profile)
    assert written.data[0].tolist() == [0xE0, 0x07] + [0xAA] * 30
    chosen = run_one(
        "tsel",
        {"mask": written, "src0": tile("f32", a), "src1": tile("f32", -a), "dst": tile("f32", a * 0)},
        profile=profile,
    )
    assert chosen.data[1, :11].tolist() == [-0.0, -1, -2, -3, -4, 5, 6, 7, 8, 9, 10]


def test_scalar_comparison_is_exact_on_hardware(run_one: Run, tile: Make, scalar: Make) -> None:
    operands = {
        "src0": tile("f32", [[1e-10, 0.0] + [1.0] * 6]),
        "src1": scalar(0.0, "f32"),
        "dst": tile("u8", np.zeros((1, 32)), valid=(1, 1)),
    }
    assert run_one("tcmps", operands, {"cmpMode": CmpMode.EQ}, profile="cpu_sim").data[0, 0] == 0b11
    assert run_one("tcmps", operands, {"cmpMode": CmpMode.EQ}, profile="a5").data[0, 0] == 0b10


def test_integer_power_by_scalar(run_one: Run, tile: Make, scalar: Make) -> None:
    def out(profile: str, base: list[int], exponent: int) -> list[int]:
        operands = {
            "base": tile("i32", [base]),
            "exp": scalar(exponent, "i32"),
            "dst": _zeros(tile, "i32", len(base)),
        }
        values: list[int] = run_one("tpows", operands, profile=profile).data[0].tolist()
        return values

    assert out("cpu_sim", [2, 3, -2], 31) == [I32_MIN, I32_MIN, I32_MIN]
    assert out("a2a3", [2, 3, -2], 31) == [I32_MIN, (3**31 + 2**31) % 2**32 - 2**31, I32_MIN]
    assert out("cpu_sim", [0, 1, -1, 2], -1) == [I32_MIN, 1, -1, 0]
    assert out("a5", [0, 1, -1, 2], -1) == [0, 1, -1, 0]


def test_expanding_into_a_mat_tile(run_one: Run, tile: Make, scalar: Make) -> None:
    dst = tile("f32", np.zeros((2, 8)), valid=(1, 2), loc=Loc.MAT)
    operands = {"scalar": scalar(1.0, "f32"), "dst": dst}
    assert run_one("texpands", operands, profile="cpu_sim").data.sum() == 2
    assert run_one("texpands", operands, profile="a2a3").data.sum() == 16


def test_flushing_subnormals(run_one: Run, tile: Make) -> None:
    tiny = tile("f32", [[1e-40, -1e-40, 1.5e-38]])
    operands = {"src0": tiny, "src1": tile("f32", [[0.0, 0.0, -1.2e-38]]), "dst": _zeros(tile, "f32", 3)}
    kept = run_one("tadd", operands).data
    assert kept[0, 0] != 0 and 0 < kept[0, 2] < 1.1e-38
    flushed = run_one("tadd", operands, subnormals="flush").data
    assert flushed.tolist() == [[0, 0, 0]]
    moved = run_one("tmov", {"src": tiny, "dst": _zeros(tile, "f32", 3)}, subnormals="flush").data
    assert moved.tolist() == tiny.data.tolist()


def _convert(
    run: Run, tile: Make, pair: tuple[str, str], values: list[Any], profile: str, **attrs: Any
) -> Any:
    source, target = pair
    operands = {"src": tile(source, [values]), "dst": _zeros(tile, target, len(values))}
    return run("tcvt", operands, attrs, profile=profile).data[0]


ON, OFF = SaturationMode.ON, SaturationMode.OFF


def test_conversion_to_integers_saturates(run_one: Run, tile: Make) -> None:
    values = [3e9, -3e9, np.inf, np.nan, 2.5]
    simulated = _convert(run_one, tile, ("f32", "i32"), values, "cpu_sim", sat_mode=ON, rmode=RoundMode.RINT)
    assert simulated.tolist() == [I32_MAX, I32_MIN, I32_MAX, I32_MAX, 2]
    for profile in ("a2a3", "a5"):
        out = _convert(run_one, tile, ("f32", "i32"), values, profile, rmode=RoundMode.RINT)
        assert out.tolist() == [I32_MAX, I32_MIN, I32_MAX, 0, 2]


def test_conversion_to_integers_keeps_low_bits(run_one: Run, tile: Make) -> None:
    values = [300.0, np.inf, -np.inf, np.nan, -1.5]
    for profile in ("a2a3", "a5"):
        out = _convert(run_one, tile, ("f16", "i8"), values, profile, rmode=RoundMode.FLOOR)
        assert out.tolist() == [44, -1, 0, 0, -2]
        out = _convert(run_one, tile, ("f16", "u8"), values, profile, rmode=RoundMode.NONE)
        assert out.tolist() == [44, 255, 0, 0, 255]


def test_f32_to_f32_rounds_on_hardware(run_one: Run, tile: Make) -> None:
    values = [2.5, -2.5, np.inf, 1e-40]
    assert _convert(run_one, tile, ("f32", "f32"), values, "cpu_sim")[0] == 2.5
    out = _convert(run_one, tile, ("f32", "f32"), values, "a5", rmode=RoundMode.CEIL)
    assert out.tolist() == [3.0, -2.0, np.inf, 1.0]


def test_narrowing_modes_on_hardware(run_one: Run, tile: Make) -> None:
    x = [1.0 + 2**-11, 1e6]
    for mode, first in ((RoundMode.RINT, 1.0), (RoundMode.ODD, 1.0 + 2**-10), (RoundMode.CEIL, 1.0 + 2**-10)):
        assert _convert(run_one, tile, ("f32", "f16"), x, "a5", rmode=mode).tolist() == [first, 65504]
    assert _convert(run_one, tile, ("f32", "f16"), x, "a5", sat_mode=OFF).tolist() == [1.0, np.inf]
    assert _convert(run_one, tile, ("f32", "f16"), x, "a2a3", sat_mode=OFF).tolist() == [1.0, 65504]


def test_64_bit_integers_round_once_on_hardware(run_one: Run, tile: Make) -> None:
    value = (1 << 60) + (1 << 36) + 1
    out = _convert(run_one, tile, ("i64", "f32"), [value, -value], "a5", rmode=RoundMode.RINT)
    assert out.tolist() == [float((1 << 60) + (1 << 37)), -float((1 << 60) + (1 << 37))]
    floor = _convert(run_one, tile, ("i64", "f32"), [value, -value], "a5", rmode=RoundMode.FLOOR)
    assert floor.tolist() == [float(1 << 60), -float((1 << 60) + (1 << 37))]


def test_small_float_conversions(run_one: Run, tile: Make) -> None:
    values = [464.0, 1e9, np.nan, 0.3, -0.0]
    for profile in ("a5", "cpu_sim"):
        out = _convert(run_one, tile, ("f32", "f8e4m3"), values, profile, sat_mode=ON).view(np.uint8)
        assert out.tolist() == [0x7E, 0x7E, 0x7F, 0x2A, 0x80]
    out = _convert(run_one, tile, ("f32", "f8e4m3"), values, "cpu_sim", sat_mode=OFF).view(np.uint8)
    assert out.tolist() == [0x7E, 0x7F, 0x7F, 0x2A, 0x80]
    wide = _convert(run_one, tile, ("f8e5m2", "f32"), [np.inf, np.nan, -3.0], "cpu_sim", sat_mode=ON)
    assert wide.tolist() == [57344.0, 57344.0, -3.0]
    hif8 = _convert(run_one, tile, ("f32", "hif8"), [1.0625, -0.0, 1e9], "a5", rmode=RoundMode.TRUNC)
    assert hif8.tolist() == [0x09, 0x00, 0x6F]


@pytest.mark.parametrize(("mode", "first"), [(ON, 0x7B), (OFF, 0x7C)])
def test_a_saturating_copy_of_small_floats_keeps_no_infinity(
    run_one: Run, tile: Make, mode: SaturationMode, first: int
) -> None:
    out = _convert(run_one, tile, ("f8e5m2", "f8e5m2"), [np.inf, -3.0], "cpu_sim", sat_mode=mode)
    assert out.view(np.uint8).tolist() == [first, 0xC2]


def test_odd_last_column_of_packed_conversions(run_one: Run, tile: Make) -> None:
    src = tile("bf16", np.ones((1, 64)), valid=(1, 3))
    dst = tile("f4e2m1x2", np.full((1, 64), 5), valid=(1, 3))
    out = run_one("tcvt", {"src": src, "dst": dst}, profile="a5")
    assert out.data[0, :4].tolist() == [2, 2, 5, 5]


def test_unsupported_conversion_names_what_exists(run_one: Run, tile: Make) -> None:
    with pytest.raises(ExecutionError, match="allowed: on a2a3 from f16"):
        _convert(run_one, tile, ("f16", "u16"), [1.0], "a2a3")
