"""A model step without a board: kernels of a folder executed in order, with buffers that they share."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import runner
from tests.text.emitted import file, tile, view

BLOCKS = "__pypto_spmd_block_idx, __pypto_spmd_block_num"
#: The block b of the grid multiplies rows [16 b, 16 b + 16) of x by a third.
SCALED = (
    file(
        "int64_t v8 = (int64_t)v5; int64_t v9 = (int64_t)((uint64_t)v8 * (uint64_t)256);"
        + view("v12", "v1 + v9")
        + view("v13", "v2 + v9")
        + tile("v10")
        + "TLOAD(v10, v12); set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0); wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);"
        "TMULS(v10, v10, v94); set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);"
        "wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);"
        "TSTORE(v13, v10);",
        args="__gm__ float *v1, __gm__ float *v2, int32_t v5, int32_t v6",
    )
    + f'extern "C" void kernel_entry(__gm__ int64_t *args) {{ k(x, y, {BLOCKS}); }}'
)
TILE, WHOLE = "!pto.tile<f32, 16, 16>", "!pto.tensor_view<16x16xf32>"
ADDED = f"""func.func @add(%x: {WHOLE}, %s: f32, %y: {WHOLE}) {{
  %a = pto.alloc_tile : {TILE}
  %b = pto.alloc_tile : {TILE}
  pto.tload ins(%x : {WHOLE}) outs(%a : {TILE})
  pto.tadds ins(%a, %s : {TILE}, f32) outs(%b : {TILE})
  pto.tstore ins(%b : {TILE}) outs(%y : {WHOLE})
  return
}}
"""
STEP: dict[str, Any] = {
    "profile": "a2a3",
    "buffers": {"h": {"shape": [32, 16], "type": "f32"}},
    "launches": [
        {"kernel": "aiv/scaled.cpp", "blocks": 2, "arguments": {"x": "x", "y": "h"}},
        {"kernel": "added.pto", "arguments": [{"buffer": "h", "offset": 256}, 0.5, "y"]},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "aiv").mkdir()
    (tmp_path / "aiv/scaled.cpp").write_text(SCALED)
    (tmp_path / "added.pto").write_text(ADDED)
    describe(tmp_path)
    return tmp_path


def describe(folder: Path, **changed: Any) -> None:
    (folder / "launches.json").write_text(json.dumps(STEP | changed))


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    x = np.arange(512, dtype=np.float32).reshape(32, 16)
    return {"x": x, "y": np.zeros((16, 16), np.float32)}


@pytest.mark.parametrize("executor", ["engine", "interpreter"])
def test_kernels_see_what_those_before_them_wrote(folder: Path, executor: Any) -> None:
    given = arrays()
    seen: list[tuple[int, str, tuple[str, ...]]] = []
    out = runner.run(
        folder,
        given,
        executor=executor,
        observer=lambda i, launch, written: seen.append((i, launch.kernel, written)),
    )
    expected = given["x"] * np.float32(0.333333343)
    np.testing.assert_array_equal(out["h"], expected)
    np.testing.assert_array_equal(out["y"], expected[16:] + np.float32(0.5))
    assert seen == [(0, "aiv/scaled.cpp", ("h",)), (1, "added.pto", ("y",))]
    # What the caller gave stays as it is.
    assert not given["y"].any()


def test_a_description_may_be_given(folder: Path) -> None:
    step = runner.Step((runner.Launch("added.pto", {"x": runner.Part("x"), "s": 1, "y": runner.Part("y")}),))
    given = {"x": np.ones((16, 16), np.float32), "y": np.zeros(256, np.float32)}
    assert set(runner.run(folder, given, step)["y"]) == {2.0}


HALVES = f"""func.func @halves(%x: {WHOLE}, %__pypto_spmd_subblock_idx: i32, %y: !pto.tensor_view<64x16xf32>,
    %__pypto_spmd_block_idx: i32) attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %core = arith.index_cast %__pypto_spmd_subblock_idx : i32 to index
  %block = arith.index_cast %__pypto_spmd_block_idx : i32 to index
  %first = arith.muli %block, %c2 : index
  %part = arith.addi %first, %core : index
  %row = arith.muli %part, %c16 : index
  %w = pto.partition_view %y, offsets = [%row, %c0], sizes = [%c16, %c16] :
    !pto.tensor_view<64x16xf32> -> !pto.partition_tensor_view<16x16xf32>
  %a = pto.alloc_tile : {TILE}
  %s = arith.sitofp %__pypto_spmd_subblock_idx : i32 to f32
  pto.tload ins(%x : {WHOLE}) outs(%a : {TILE})
  pto.tadds ins(%a, %s : {TILE}, f32) outs(%a : {TILE})
  pto.tstore ins(%a : {TILE}) outs(%w : !pto.partition_tensor_view<16x16xf32>)
  return
}}
"""


@pytest.mark.parametrize("executor", ["engine", "interpreter"])
def test_every_vector_core_of_every_block_has_its_number(tmp_path: Path, executor: Any) -> None:
    (tmp_path / "halves.pto").write_text(HALVES)
    step = runner.Step((runner.Launch("halves.pto", [runner.Part("x"), runner.Part("y")], blocks=2),))
    given = {"x": np.zeros((16, 16), np.float32), "y": np.full((64, 16), 9, np.float32)}
    found = runner.run(tmp_path, given, step, executor=executor)["y"]
    np.testing.assert_array_equal(found[:, 0], np.repeat([0, 1, 0, 1], 16))


class Shared:
    """Stands for a tensor of a library that is not installed, which shares its memory."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **given: Any) -> Any:
        return self.array.__dlpack__(**given)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Copied:
    """Stands for one that gives a copy as an array of NumPy."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.array, dtype)


@pytest.mark.parametrize("kind", [Shared, Copied])
def test_arrays_of_other_libraries_are_taken_by_their_protocols(folder: Path, kind: Any) -> None:
    given = arrays()
    out = runner.run(folder, {name: kind(a) for name, a in given.items()})
    np.testing.assert_array_equal(out["h"], given["x"] * np.float32(0.333333343))
    # The memory of the other library stays as it is.
    assert not given["y"].any() and out["y"].any() and type(out["y"]) is np.ndarray


#: A change of the description, and what the error says.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"launches": []}, "launches: got []; allowed: a list of one launch or more"),
    ({"steps": 3}, "a key of the description: got 'steps'; allowed: launches, buffers, profile"),
    ({"profile": "a7"}, "profile: got 'a7'; allowed: cpu_sim, a2a3, a5"),
    ({"buffers": {"h": {"shape": [0]}}}, "buffers.h.shape: got [0]; allowed: a list of extents"),
    ({"buffers": {"h": {"shape": [4], "type": "f99"}}}, "buffers.h.type: "),
    ({"launches": [{"kernel": 3}]}, "launches[0].kernel: got 3; allowed: the name of a file"),
    (
        {"launches": [{"kernel": "added.pto", "blocks": 0, "arguments": []}]},
        "launches[0].blocks: got 0; allowed: a number from 1 to 65535",
    ),
    (
        {"launches": [{"kernel": "none.pto", "arguments": []}]},
        "launches[0] (none.pto): {folder}/none.pto: no such file",
    ),
    (
        {"launches": [{"kernel": "added.pto", "arguments": [], "entry": "f"}]},
        "launches[0] (added.pto): entry: got 'f'",
    ),
    (
        {"launches": [{"kernel": "added.pto", "arguments": ["x", 1]}]},
        "launches[0] (added.pto): arguments: got 2; allowed: 3: x, s, y; "
        'try: "arguments": {"x": "x", "s": 1, "y": "..."}',
    ),
    (
        {"buffers": {"h": {"shape": [True, 16]}}},
        "buffers.h.shape: got [True, 16]; allowed: a list of extents",
    ),
    (
        {"buffers": {"x": {"shape": [4]}}},
        "buffer x: got float32[32, 16]; allowed: f32[4], as the description",
    ),
    (
        {"launches": [{"kernel": "added.pto", "arguments": [{"buffer": "x", "offset": True}, 1, "y"]}]},
        "launches[0].arguments[0]: got {'buffer': 'x', 'offset': True}",
    ),
    (
        {"launches": [{"kernel": "added.pto", "arguments": ["z", 1, "y"]}]},
        "launches[0] (added.pto): argument x: got the buffer 'z'; allowed: x, y, h",
    ),
    (
        {"launches": [{"kernel": "added.pto", "arguments": ["x", "y", "y"]}]},
        "buffer y is argument y, which is written, and s; allowed: another buffer",
    ),
    (
        {"launches": [{"kernel": "added.pto", "arguments": ["x", "h", "y"]}]},
        "argument s: got the buffer 'h'; allowed: a number, f32",
    ),
    (
        {"launches": [{"kernel": "added.pto", "arguments": [2, 1, "y"]}]},
        "argument x: got the number 2; allowed: a buffer, tensor_view<16x16xf32>",
    ),
    (
        {"launches": [{"kernel": "added.pto", "arguments": [{"buffer": "x", "offset": 999}, 1, "y"]}]},
        "got offset 999; allowed: 0 to 512, the size of x",
    ),
    (
        {"launches": [{"kernel": "added.pto", "arguments": [{"buffer": "x", "offset": 400}, 1, "y"]}]},
        "got 112 elements; allowed: 256 or more",
    ),
]


@pytest.mark.parametrize(("changed", "message"), WRONG)
def test_what_is_wrong_is_one_error(folder: Path, changed: dict[str, Any], message: str) -> None:
    describe(folder, **changed)
    with pytest.raises((pto.FileError, pto.ArgumentError)) as caught:
        runner.run(folder, arrays())
    assert message.replace("{folder}", str(folder)) in str(caught.value)


@pytest.mark.parametrize("buffers", [None, [1], "x"])
def test_buffers_have_names(folder: Path, buffers: Any) -> None:
    with pytest.raises(pto.ArgumentError, match=r"arrays: got .*; allowed: arrays by the names of buffers"):
        runner.run(folder, buffers)
    with pytest.raises(pto.ArgumentError, match=r"folder: got 3; allowed: the path of a folder"):
        runner.run(3, arrays())  # type: ignore[arg-type]


def test_an_array_of_another_type_is_named_with_its_launch(folder: Path) -> None:
    with pytest.raises(
        pto.ArgumentError, match=r"^launches\[0\] \(aiv/scaled.cpp\): k: argument 'x': got an a"
    ):
        runner.run(folder, {**arrays(), "x": np.zeros((32, 16))})


def test_text_that_is_no_json_and_an_unknown_executor_are_refused(folder: Path) -> None:
    (folder / "launches.json").write_text("{")
    with pytest.raises(pto.FileError, match=r"launches.json:1: got no JSON"):
        runner.run(folder, arrays())
    with pytest.raises(pto.ArgumentError, match="executor 'board'; allowed: engine, interpreter"):
        runner.run(folder, arrays(), executor="board")  # type: ignore[arg-type]


def test_a_number_that_an_integer_does_not_hold_is_refused(tmp_path: Path) -> None:
    text = "func.func @f(%n: i32, %y: !pto.ptr<i32>) {\n  %c0 = arith.constant 0 : index\n"
    text += "  pto.store_scalar %n, %y[%c0] : !pto.ptr<i32>, i32\n  return\n}\n"
    (tmp_path / "k.pto").write_text(text)
    for executor in ("engine", "interpreter"):
        for number, held in ((3, True), (2.5, False), (2**31, False)):
            launch = {"kernel": "k.pto", "arguments": [number, "y"]}
            (tmp_path / "launches.json").write_text(json.dumps({"launches": [launch]}))
            if held:
                assert runner.run(tmp_path, {"y": np.zeros(1, np.int32)}, executor=executor)["y"][0] == 3
            else:
                with pytest.raises(pto.ArgumentError, match="argument n"):
                    runner.run(tmp_path, {"y": np.zeros(1, np.int32)}, executor=executor)
