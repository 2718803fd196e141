"""Reading, converting and generating the arguments of ``pto-jax run``, without an engine."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pto_jax import ir
from pto_jax.cli.main import main
from pto_jax.cli.run import count_changed, describe_array, generate_inputs, random_values
from pto_jax.errors import ArgumentError, FileError
from pto_jax.examples import example
from pto_jax.files import load_arrays, save_arrays
from pto_jax.runtime.array_files import convert_input, read_inputs, storable


@dataclass(frozen=True)
class FakeArgument:
    name: str
    type: ir.Type
    min_elements: int | None = None
    read: bool = False


@dataclass(frozen=True)
class FakeKernel:
    arguments: tuple[FakeArgument, ...]
    outputs: tuple[str, ...] = field(default=())


def pointer(d: ir.DType, elements: int | None = 4) -> FakeArgument:
    return FakeArgument("x", ir.PtrType(d), elements)


def scalar(d: ir.DType) -> FakeArgument:
    return FakeArgument("n", ir.ScalarType(d))


KERNEL = FakeKernel((pointer(ir.F32), FakeArgument("n", ir.ScalarType(ir.INDEX))), ("x",))
GOOD: dict[str, Any] = {"x": np.zeros(4, np.float32), "n": np.asarray(3)}


def file(folder: Path, **arrays: Any) -> str:
    np.savez(folder / "in.npz", **arrays)
    return str(folder / "in.npz")


def test_arguments_are_found_by_name_and_by_number(tmp_path: Path) -> None:
    values, given = read_inputs(KERNEL, file(tmp_path, arg0=GOOD["x"], n=GOOD["n"]))
    assert given == {"x": "arg0", "n": "n"}
    assert values["x"].dtype == np.float32 and values["n"] == 3 and values["n"].shape == ()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"x": GOOD["x"]},
            r"got no array for argument n \(index\); it holds x; allowed: one that is called 'n' or 'arg1'",
        ),
        ({}, "got no array for argument x .*it holds nothing"),
        ({**GOOD, "y": 1}, "no argument is called 'y'; allowed: x, n"),
        ({**GOOD, "arg0": GOOD["x"]}, "argument x is given twice, as x and as arg0"),
        ({**GOOD, "x": np.zeros(4)}, "x: got float64; allowed: float32, or its bits"),
        ({**GOOD, "x": np.zeros(4, np.int32)}, "got int32; allowed: float32"),
        ({**GOOD, "n": np.zeros(2, int)}, r"n: got an array of shape \(2,\); allowed: a single index value"),
        ({**GOOD, "n": np.asarray(1.5)}, "n: got float64; allowed: a scalar of type index"),
    ],
)
def test_wrong_inputs_are_named(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=message) as caught:
        read_inputs(KERNEL, file(tmp_path, **arrays))
    assert "in.npz: " in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("d", "array"),
    [
        (ir.BF16, np.arange(4, dtype=np.uint16)),
        (ir.F8E4M3, np.arange(4, dtype=np.uint8)),
        (ir.HIF8, np.arange(4, dtype=np.uint8)),
        (ir.F4E2M1, np.arange(4, dtype=np.uint8)),
    ],
)
def test_types_npz_cannot_name_come_as_raw_words(d: ir.DType, array: Any) -> None:
    assert convert_input(pointer(d), array) is array
    floats = array.view(d.numpy)
    assert convert_input(pointer(d), floats) is floats


def test_bfloat16_saved_by_numpy_is_taken_back(tmp_path: Path) -> None:
    saved = np.asarray([1.5, -2, 3, 4], ml_dtypes.bfloat16)
    array = load_arrays(file(tmp_path, x=saved))["x"]
    np.testing.assert_array_equal(convert_input(pointer(ir.BF16), array).view(ml_dtypes.bfloat16), saved)


def test_words_of_another_width_are_refused() -> None:
    message = "got uint32; allowed: float16, or its bits as uint16, for f16"
    with pytest.raises(ArgumentError, match=message):
        convert_input(pointer(ir.F16), np.zeros(4, np.uint32))


def test_a_type_the_text_leaves_open_is_refused() -> None:
    with pytest.raises(ArgumentError, match="argument x: got the type <not given>; allowed: a pointer"):
        generate_inputs(FakeKernel((FakeArgument("x", ir.UnknownType()),)), 0, None)


@pytest.mark.parametrize(
    ("d", "value", "message"),
    [
        (ir.U8, 256, "got 256; allowed: 0 to 255, the range of u8"),
        (ir.I32, -(2**31) - 1, "allowed: -2147483648 to 2147483647, the range of i32"),
        (ir.I1, 2, "allowed: 0 to 1, the range of i1"),
        (ir.F32, "text", "got an array of <U4; allowed: an array of numbers"),
    ],
)
def test_scalars_are_checked_against_their_type(d: ir.DType, value: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        convert_input(scalar(d), np.asarray(value))


def test_scalars_take_their_declared_type() -> None:
    assert convert_input(scalar(ir.F32), np.asarray(0.1)).dtype == np.float32
    assert convert_input(scalar(ir.BF16), np.asarray(3)).dtype == ml_dtypes.bfloat16
    assert convert_input(scalar(ir.I32), np.asarray([7], np.uint8)).tolist() == 7


def test_generated_input_depends_on_the_seed_only() -> None:
    kernel = FakeKernel((pointer(ir.F32, 64), FakeArgument("z", ir.PtrType(ir.I32), 8)), ("z",))
    first, again, other = (generate_inputs(kernel, seed, None) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], other["x"])
    assert first["z"].tolist() == [0] * 8


IN_PLACE = """
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %z: !pto.ptr<f32>, %w: !pto.ptr<f32>)
  attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %v = pto.load_scalar %x[%c0] : !pto.ptr<f32> -> f32
  pto.store_scalar %v, %x[%c8] : !pto.ptr<f32>, f32
  pto.store_scalar %v, %z[%c8] : !pto.ptr<f32>, f32
  func.call @inner(%y, %w) : (!pto.ptr<f32>, !pto.ptr<f32>) -> ()
  return
}
func.func private @inner(%a: !pto.ptr<f32>, %b: !pto.ptr<f32>) {
  %c1 = arith.constant 1 : index
  %v = pto.load_scalar %a[%c1] : !pto.ptr<f32> -> f32
  pto.store_scalar %v, %a[%c1] : !pto.ptr<f32>, f32
  pto.store_scalar %v, %b[%c1] : !pto.ptr<f32>, f32
  return
}"""


def test_buffers_that_are_read_and_written_are_generated_and_zeros_are_called_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.pto").write_text(IN_PLACE)
    for more in ([], ["--trace"], ["--sanitize"]):
        assert main(["run", str(tmp_path / "k.pto"), *more]) == 0
        out = capsys.readouterr().out
        assert "input:   generated, seed 0: x f32[65536], y f32[65536], z f32[65536] zeros, " in out


def test_examples_bring_arguments_that_suit_them() -> None:
    kernel = FakeKernel(
        (FakeArgument("rows", ir.ScalarType(ir.INDEX)), FakeArgument("cols", ir.ScalarType(ir.INDEX)))
    )
    values = generate_inputs(kernel, 0, example("masked_tile"))
    assert (int(values["rows"]), int(values["cols"])) == (13, 45)


@pytest.mark.parametrize("d", ir.ALL_DTYPES, ids=str)
def test_values_of_every_type_can_be_generated_and_described(d: ir.DType) -> None:
    values = random_values(np.random.default_rng(0), d, (5,))
    assert values.dtype == d.numpy and values.shape == (5,)
    assert describe_array("x", values, d).startswith(f"x: {d}[5] = ")


def test_buffers_are_described_on_one_line() -> None:
    array = np.array([1, np.nan, -3, 4, 5, 6, 7], np.float32)
    assert describe_array("z", array, ir.F32) == "z: f32[7] = 1 nan -3 4 5 6 ...  min -3 max 7  nan 1"
    assert describe_array("z", array[:0], ir.F32) == "z: f32[0] empty"
    assert "no numbers  nan 1" in describe_array("z", array[1:2], ir.F32)
    signalling = np.array([0x7F800001, 0], np.uint32).view(np.float32)
    assert describe_array("z", signalling, ir.F32).endswith("min 0 max 0  nan 1")


def test_changed_elements_are_counted_by_their_bits() -> None:
    before = np.array([0.0, 1.0, np.nan], np.float32)
    after = np.array([-0.0, 1.0, np.nan], np.float32)
    assert count_changed(before, after) == "  changed 1 of 3"
    assert count_changed(None, after) == count_changed(before[:2], after) == ""


def test_arrays_are_saved_under_the_name_given(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    save_arrays(path, {"file": np.arange(3), "z": np.ones((2, 2), np.float16)})
    assert {k: v.shape for k, v in load_arrays(path).items()} == {"file": (3,), "z": (2, 2)}
    with pytest.raises(FileError, match="cannot be written"):
        save_arrays(str(tmp_path / "no" / "out.npz"), {})


@pytest.mark.parametrize("d", ir.ALL_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (2, 3)], ids=str)
def test_arrays_of_every_type_are_read_as_they_were_saved(
    d: ir.DType, shape: tuple[int, ...], tmp_path: Path
) -> None:
    words = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(d.word)
    save_arrays(str(tmp_path / "a.npz"), {"a": storable(words.view(d.numpy))})
    found = load_arrays(tmp_path / "a.npz")["a"]
    assert found.shape == shape and (found.view(d.word) == words).all()


def test_another_byte_order_is_swapped_and_structured_arrays_are_refused() -> None:
    swapped = convert_input(pointer(ir.F32), np.arange(4, dtype=">f4"))
    assert swapped.dtype == np.float32 and swapped.tolist() == [0, 1, 2, 3]
    for argument, fields in (
        (pointer(ir.F32), [("re", "f2"), ("im", "f2")]),
        (scalar(ir.BF16), [("a", "u2")]),
    ):
        with pytest.raises(ArgumentError, match="a structured array with the fields"):
            convert_input(argument, np.zeros(4, fields))
