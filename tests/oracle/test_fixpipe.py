"""Accumulators on their way out: parameter words, clamps, columns, additions and profiles."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.errors import NotExecutableError
from pto_jax.ir import Loc, ReluPreMode, TileType, dtype
from pto_jax.oracle.numbers import decode

Run = Callable[..., oracle.OracleTile]
Scalar = Callable[[int | float, str], Any]


def word(scale: float, *, offset: int = 0, signed: bool = False, shift: int = 1) -> int:
    bits = int(np.float32(scale).view(np.uint32))
    return bits | (shift - 1) << 32 | offset << 37 | signed << 46


def accumulator(values: list[float], d: str = "f32") -> oracle.OracleTile:
    t = TileType(dtype(d), 1, len(values), loc=Loc.ACC)
    return oracle.OracleTile(t, np.array([values], t.dtype.numpy))


def empty(d: str, cols: int = 8) -> oracle.OracleTile:
    t = TileType(dtype(d), 1, cols)
    return oracle.OracleTile(t, np.zeros((1, cols), t.dtype.numpy))


def row(words: list[int]) -> oracle.OracleTile:
    t = TileType(dtype("u64"), 1, len(words), loc=Loc.SCALING)
    return oracle.OracleTile(t, np.array([words], np.uint64))


def values(result: oracle.OracleTile) -> NDArray[Any]:
    d = result.type.dtype
    return decode(np.asarray(result.data).view(d.word)[0], d).astype(np.float64)


NAN, INF = float("nan"), float("inf")
SAMPLES = [0.5, 1.5, -2.5, 300.0, -300.0, NAN, INF, -0.0]


@pytest.mark.parametrize(
    ("d", "w", "expected"),
    [
        ("i8", word(1, signed=True), [0, 2, -2, 127, -128, 0, 127, 0]),
        ("u8", word(1), [0, 2, 0, 255, 0, 0, 255, 0]),
        ("i8", word(1), [0, 2, 0, -1, 0, 0, -1, 0]),
        ("u8", word(1, signed=True), [0, 2, 254, 127, 128, 0, 127, 0]),
        ("u8", word(2, offset=10), [11, 13, 5, 255, 0, 0, 255, 10]),
        ("u8", word(-1, offset=511), [0, 0, 1, 0, 254, 0, 0, 0]),
        ("i8", word(1, offset=200, signed=True), [127, 127, 127, 127, -56, 0, 127, 127]),
        ("i8", word(1, offset=492, signed=True), [-20, -18, -22, 127, -128, 0, 127, -20]),
        ("i8", word(1, offset=1, signed=True), [1, 3, -1, 127, -128, 0, 127, 1]),
        # The short float drops the low bits of the scale.
        ("u8", word(100) | 0x1FFF, [50, 150, 0, 255, 0, 0, 255, 0]),
    ],
)
def test_bytes_are_scaled_shifted_rounded_and_clamped(
    run_one: Run, scalar: Scalar, d: str, w: int, expected: list[int]
) -> None:
    operands = {"src": accumulator(SAMPLES), "preQuantScalar": scalar(w, "u64"), "dst": empty(d)}
    for profile in ("a2a3", "a5"):
        assert values(run_one("tmov", operands, profile=profile)).tolist() == expected


@pytest.mark.parametrize(
    ("d", "saturate", "expected"),
    [
        ("f16", False, [65504.0, -65504.0, NAN, INF]),
        ("f16", True, [65504.0, -65504.0, 0.0, 65504.0]),
        ("bf16", False, [99840.0, -99840.0, NAN, INF]),
        ("hif8", False, [32768.0, -32768.0, NAN, INF]),
        ("f8e4m3", False, [448.0, -448.0, NAN, NAN]),
        ("f32", True, [1e5, -1e5, 0.0, float(np.finfo(np.float32).max)]),
    ],
)
def test_floats_are_clamped_where_finite(
    run_one: Run, scalar: Scalar, d: str, saturate: bool, expected: list[float]
) -> None:
    operands = {
        "src": accumulator([1e5, -1e5, NAN, INF]),
        "preQuantScalar": scalar(word(1), "i64"),
        "dst": empty(d, 4),
    }
    got = values(run_one("tmov", operands, {"saturateInf": saturate}, profile="a5"))
    np.testing.assert_array_equal(got, expected)


def test_integers_become_halves_with_every_infinity_clamped(run_one: Run) -> None:
    source = accumulator([1000, -1000, 0, 3], "i32")
    fp = row([word(100), word(INF), word(INF), word(0.1)])
    got = values(run_one("tmov.fp", {"src": source, "fp": fp, "dst": empty("f16", 4)}))
    assert got[0] == 65504 and got[1] == -65504 and np.isnan(got[2])
    # The short scale keeps ten bits of the mantissa of 0.1.
    assert got[3] == np.float16(3 * 0.0999755859375)


def test_the_offset_of_the_simulator_is_unsigned_and_added_before_the_rounding(
    run_one: Run, scalar: Scalar
) -> None:
    for offset, expected in ((511, [127] * 4), (1, [2, 2, -2, -99])):
        word_ = word(1, offset=offset, signed=True)
        fp = {"src": accumulator([0.5, 1.5, -2.5, -100]), "fp": row([word_] * 4), "dst": empty("i8", 4)}
        assert values(run_one("tmov.fp", fp, profile="cpu_sim")).tolist() == expected


def test_the_simulator_scales_on_the_way_to_short_floats(run_one: Run, scalar: Scalar) -> None:
    for d in ("f16", "bf16"):
        for name in ("tmov.fp", "textract_fp", "tinsert_fp"):
            operands: dict[str, Any] = {"src": accumulator([1, 3]), "fp": row([word(2), word(0.5)])}
            operands["dst"] = empty(d, 2)
            if name != "tmov.fp":
                operands |= {"indexRow": scalar(0, "i64"), "indexCol": scalar(0, "i64")}
            assert values(run_one(name, operands, profile="cpu_sim")).tolist() == [2, 1.5]


def test_shifts_saturate_on_hardware_and_wrap_on_the_simulator(run_one: Run, scalar: Scalar) -> None:
    source = accumulator([65536, -3, 131070, 1 << 30], "i32")
    operands = {"src": source, "preQuantScalar": scalar(word(5, shift=1), "u64"), "dst": empty("i16", 4)}
    assert values(run_one("tmov", operands, profile="a2a3")).tolist() == [32767, -2, 32767, 32767]
    clamped = run_one("tmov", operands, {"reluPreMode": ReluPreMode.NORMAL_RELU}, profile="a2a3")
    assert values(clamped).tolist() == [32767, 0, 32767, 32767]
    fp = {"src": source, "fp": row([word(5, shift=1)] * 4), "dst": empty("i16", 4)}
    assert values(run_one("tmov.fp", fp, profile="cpu_sim")).tolist() == [-32768, -2, -1, 0]


@pytest.mark.parametrize(
    ("bits", "value"),
    [
        (0, 0.0),
        (1 << 18, 0.0),
        (1, (1 + 1 / 1024) * 2.0**-127),
        (127 << 10, 1.0),
        (1 << 18 | 128 << 10 | 512, -3.0),
        (255 << 10 | 7, INF),
    ],
)
def test_short_scales(bits: int, value: float) -> None:
    from pto_jax.oracle.quantise import scale

    assert scale(np.array([bits << 13 | 0x1FFF], np.uint64), short=True)[0] == np.float32(value)


def test_a_scalar_word_is_ignored_by_moves_of_the_simulator(run_one: Run, scalar: Scalar) -> None:
    operands = {
        "src": accumulator([1.0, 2.0, -3.0, NAN]),
        "preQuantScalar": scalar(word(7), "u64"),
        "dst": empty("f16", 4),
    }
    np.testing.assert_array_equal(values(run_one("tmov", operands)), [1.0, 2.0, -3.0, NAN])
    assert values(run_one("tmov", operands, profile="a5"))[:3].tolist() == [7.0, 14.0, -21.0]


def test_two_kinds_of_relu(run_one: Run) -> None:
    relu = {"reluPreMode": ReluPreMode.NORMAL_RELU}
    source = accumulator([NAN, -0.0, -1e-30, 2.0])
    moved = run_one("tmov", {"src": source, "dst": empty("f16", 4)}, relu)
    assert np.asarray(moved.data).view(np.uint16)[0].tolist() == [0x7E00, 0x8000, 0x8000, 0x4000]
    text = "pto.textract ins(%s, %r, %c : !pto.tile<1x16xf32>, index, index) outs(%d : !pto.tile<1x16xf16>)"
    program = pto.parse(text + " {reluPreMode = #pto<relu_pre_mode normal_relu>}")
    given = {
        "s": accumulator([NAN, -0.0, -1e-30, 2.0] * 4),
        "r": 0,
        "c": 0,
        "d": empty("f16", 16),
    }
    window = oracle.run(program, given, profile="cpu_sim")["d"]
    assert np.asarray(window.data).view(np.uint16)[0, :4].tolist() == [0, 0, 0, 0x4000]


def test_parameters_of_another_type_are_refused(run_one: Run) -> None:
    fp = oracle.OracleTile(TileType(dtype("f16"), 1, 16, loc=Loc.SCALING), np.zeros((1, 16), np.float16))
    with pytest.raises(NotExecutableError, match="parameters of type f16"):
        run_one("tmov.fp", {"src": accumulator([1.0] * 8), "fp": fp, "dst": empty("i8")})


STORE = """
func.func @f(%p : !pto.ptr<{d}>, %fp : !pto.tile_buf<scaling, 1x16xui64>, %s : {tile}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = arith.constant 16 : index
  %cols = arith.constant 16 : index
  %pitch = arith.constant {pitch} : index
  %v = pto.make_tensor_view %p, shape = [%rows, %cols], strides = [%pitch, %c1] : !pto.tensor_view<16x16x{d}>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%rows, %cols]
    : !pto.tensor_view<16x16x{d}> -> !pto.partition_tensor_view<16x16x{d}>
  {op} ins({ins}) outs(%w : !pto.partition_tensor_view<16x16x{d}>) {attrs}
  return
}}
"""
ACC = (
    "!pto.tile_buf<loc=acc, dtype=f32, rows=16, cols=16, v_row=16, v_col=16, blayout=col_major, "
    "slayout=row_major, fractal=1024, pad=0>"
)
FP = "!pto.tile_buf<scaling, 1x16xui64>"


def store(op: str, d: str, memory: NDArray[Any], source: NDArray[Any], **options: Any) -> NDArray[Any]:
    profile, pitch = options.pop("profile", "a2a3"), options.pop("pitch", 16)
    ins = f"%s, %fp : {ACC}, {FP}" if op.endswith("fp") else f"%s : {ACC}"
    text = STORE.format(d=d, tile=ACC, op=op, ins=ins, pitch=pitch, attrs=options.pop("attrs", ""))
    program = pto.parse(text)
    args = program.functions[0].args
    words = [[word(1 << c, signed=True) for c in range(16)]]
    given = {
        "p": memory,
        "fp": oracle.OracleTile(args[1].type, np.array(words, np.uint64)),  # type: ignore[arg-type]
        "s": oracle.OracleTile(args[2].type, source),  # type: ignore[arg-type]
    }
    return np.asarray(oracle.run(program, given, profile=profile)["p"])


@pytest.mark.parametrize(("profile", "axis"), [("cpu_sim", 0), ("a2a3", 1), ("a5", 1)])
def test_stores_take_the_word_of_the_column_or_on_the_simulator_of_the_row(profile: str, axis: int) -> None:
    got = store("pto.tstore_fp", "i8", np.zeros(256, np.int8), np.ones((16, 16), np.float32), profile=profile)
    powers = np.minimum(2.0 ** np.arange(16), 127).astype(np.int8)
    expected = np.broadcast_to(powers[:, None] if axis == 0 else powers[None, :], (16, 16))
    np.testing.assert_array_equal(got.reshape(16, 16), expected)


def test_stores_add_in_the_type_of_the_window_in_row_major_order() -> None:
    add = "{atomicType = #pto<atomic_type atomic_add>}"
    source = np.full((16, 16), 1.0, np.float32)
    source[0] = 2048.0
    plain = store("pto.tstore", "f16", np.ones(256, np.float16), source, attrs=add)
    # 1 + 2048 is no half, and the tie goes to the even neighbour.
    assert plain[0] == 2048.0 and plain[-1] == 2.0
    # All rows of a window with pitch 0 share their elements: 0 + 2048, then fifteen times + 1.
    shared = store("pto.tstore", "f16", np.zeros(16, np.float16), source, attrs=add, pitch=0)
    assert shared.tolist() == [2048.0] * 16


def test_stores_clamp_before_they_convert() -> None:
    relu = "{reluPreMode = #pto<relu_pre_mode normal_relu>, stPhase = #pto<st_phase final>}"
    source = np.tile(np.array([NAN, -0.0, -5.0, 1e6], np.float32), (16, 4))
    got = store("pto.tstore", "f16", np.zeros(256, np.float16), source, attrs=relu)
    assert got.view(np.uint16)[:4].tolist() == [0, 0, 0, 0x7C00]
