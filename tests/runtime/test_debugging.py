"""``kernel.trace``, ``kernel.stop_at``, ``kernel.explain`` and instructions that print."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.run import generate_inputs
from pto_jax.examples import EXAMPLES

LOOP = """\
func.func @add_one(%t: !pto.tile<4x16xf32>) {
  %one = arith.constant 1.0 : f32
  pto.tadds ins(%t, %one : !pto.tile<4x16xf32>, f32) outs(%t : !pto.tile<4x16xf32>)
  return
}
func.func @main(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %xv = pto.make_tensor_view %x, shape = [%c4, %c16], strides = [%c16, %c1] : !pto.tensor_view<4x16xf32>
  %yv = pto.make_tensor_view %y, shape = [%c4, %c16], strides = [%c16, %c1] : !pto.tensor_view<4x16xf32>
  %t = pto.alloc_tile : !pto.tile<4x16xf32>
  pto.tload ins(%xv : !pto.tensor_view<4x16xf32>) outs(%t : !pto.tile<4x16xf32>)
  scf.for %i = %c0 to %n step %c1 {
    func.call @add_one(%t) : (!pto.tile<4x16xf32>) -> ()
  }
  pto.tstore ins(%t : !pto.tile<4x16xf32>) outs(%yv : !pto.tensor_view<4x16xf32>)
  %v = pto.load_scalar %y[%c0] : !pto.ptr<f32> -> f32
  pto.store_scalar %v, %y[%c1] : !pto.ptr<f32>, f32
  return
}
"""
X = np.arange(64, dtype=np.float32)


@pytest.fixture(scope="module")
def loop() -> pto.Kernel:
    return pto.compile(pto.parse(LOOP, file="loop.pto"))


def test_steps_have_operands_before_and_tiles_after(loop: pto.Kernel) -> None:
    trace = loop.trace(X, 0 * X, 3)
    adds = trace.at(3)
    assert [(s.instruction, s.function, s.location) for s in adds] == [("tadds", "add_one", "loop.pto:3")] * 3
    for i, step in enumerate(adds):
        assert step.operands["one"] == 1.0
        np.testing.assert_array_equal(np.asarray(step.operands["t"]).reshape(-1), X + i)
        np.testing.assert_array_equal(np.asarray(step.written["t"]).reshape(-1), X + i + 1)
        assert step.buffers == ()
    np.testing.assert_array_equal(trace.outputs["y"][2:], X[2:] + 3)


def test_steps_name_the_buffers_they_wrote_and_numbers_they_gave(loop: pto.Kernel) -> None:
    store, load, scalar = loop.trace(X, 0 * X, 0)[-3:]
    assert (store.instruction, store.buffers) == ("tstore", ("y",))
    assert (load.instruction, load.written, load.buffers) == ("load_scalar", {"v": 0.0}, ())
    assert (scalar.instruction, scalar.buffers) == ("store_scalar", ("y",))
    assert store.written == {"yv": "y[4x16 at 0, strides 16x1] f32"}


def test_tiles_of_a_step_have_the_valid_region_of_the_moment() -> None:
    kernel = pto.compile(pto.parse("%c = tadd %a, %b : !pto.tile<2x8xf32, valid=?x?>"))
    part = pto.tile(np.ones((2, 8), np.float32), valid=(1, 3))
    step = kernel.trace(part, part)[0]
    written = step.written["c"]
    assert (int(written.valid_rows), int(written.valid_cols)) == (1, 3)


def test_a_trace_keeps_the_steps_that_are_asked_for(loop: pto.Kernel) -> None:
    whole = loop.trace(X, 0 * X, 5)
    part = loop.trace(X, 0 * X, 5, start=3, limit=2)
    assert [s.number for s in part] == [3, 4]
    assert [str(s) for s in part] == [str(s) for s in whole[2:4]]
    assert (len(part), part.executed) == (2, whole.executed)
    assert str(part).endswith(f"... {whole.executed - 2} more instructions; start= and limit= choose others")
    np.testing.assert_array_equal(part.outputs["y"], whole.outputs["y"])


def test_a_trace_of_a_broken_rule_has_its_steps_and_the_error() -> None:
    kernel = pto.compile(pto.parse("%v = tgetval ins(%a, %n : !pto.tile<2x8xf32>, index) outs : f32"))
    trace = kernel.trace(np.ones((2, 8), np.float32), 99)
    assert len(trace) == 1 and isinstance(trace.error, pto.ExecutionError)
    assert "ExecutionError" in repr(trace) and "offset 99" in str(trace)
    with pytest.raises(pto.ExecutionError, match="offset 99"):
        _ = trace.outputs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pipe_linear", "vector_add"])
def test_blocks_and_cores_of_a_launch_are_steps(name: str) -> None:
    example = EXAMPLES[name]
    kernel = pto.compile(pto.load(example.path), grid=2, warn=False, partial_launch=True)
    values = generate_inputs(kernel, 0, example)  # pyright: ignore[reportArgumentType]
    trace = kernel.trace(**values)
    cores = {"pipe_linear": {"cube", "vector0", "vector1"}, "vector_add": {""}}
    assert ({s.core for s in trace}, {s.block for s in trace}) == (cores[name], {0, 1})
    expected = kernel(**values)
    assert all(np.array_equal(expected[n], trace.outputs[n]) for n in expected)


def test_the_state_before_a_line_has_tiles_numbers_and_buffers_as_passed(loop: pto.Kernel) -> None:
    state = loop.stop_at(3, 2)(X.reshape(4, 16), np.zeros((8, 8), np.float32), n=3)
    np.testing.assert_array_equal(np.asarray(state.tiles["t"]).reshape(-1), X + 1)
    assert state.scalars["one"] == 1.0 and state.scalars["main/i"] == 1
    assert state.buffers["x"].shape == (4, 16) and state.buffers["y"].shape == (8, 8)
    assert state.buffers["y"].dtype == np.float32
    assert repr(state) == "<State: 2 tiles, 7 scalars, 2 buffers>"
    assert "scalar %main/i = 1" in str(state) and "buffer x  float32[4, 16]" in str(state)


def test_buffers_of_packed_elements_keep_their_bytes() -> None:
    text = """func.func @k(%x: !pto.ptr<f4e2m1x2>, %i: index) attributes {pto.entry} {
      %a = pto.addptr %x, %i : !pto.ptr<f4e2m1x2> -> !pto.ptr<f4e2m1x2>
      %c = pto.addptr %a, %i : !pto.ptr<f4e2m1x2> -> !pto.ptr<f4e2m1x2>
      return
    }"""
    words = np.arange(8, dtype=np.uint8).reshape(2, 4)
    state = pto.compile(pto.parse(text), profile="a5").stop_at(3)(words, 2)
    np.testing.assert_array_equal(state.buffers["x"], words)


WRONG: dict[str, tuple[Callable[[pto.Kernel], object], str]] = {
    "a line without an operation": (
        lambda k: k.stop_at(4),
        r"main: stop_at\(4, 1\): no operation begins on line 4 of loop.pto; allowed: nearby 2 ",
    ),
    "too few executions": (
        lambda k: k.stop_at(3, 4)(X, 0 * X, 3),
        r"main: stop_at\(3, 4\): the program reached that line 3 times; allowed: counts up to 3",
    ),
    "no execution": (lambda k: k.stop_at(3)(X, 0 * X, 0), "the program reached that line never"),
    "a count of 0": (lambda k: k.stop_at(3, 0), "allowed: a line or 'FILE:LINE', and a count of 1 or more"),
    "a line that is no number": (lambda k: k.stop_at(2.5), "allowed: a line or 'FILE:LINE'"),  # type: ignore[arg-type]
    "another file": (lambda k: k.stop_at("other.pto:3"), "got the file other.pto; allowed: loop.pto"),
    "arguments that do not fit": (lambda k: k.trace(X), "allowed: also "),
    "a limit of 0": (
        lambda k: k.trace(X, 0 * X, 1, limit=0),
        "limit: got 0; allowed: an integer of 1 or more",
    ),
    "a trace under vmap": (
        lambda k: jax.vmap(k.trace, (0, 0, None))(np.stack([X, X]), np.stack([X, X]), 1),
        "trace: got arrays that jit, vmap or scan traces",
    ),
    "a stop under jit": (
        lambda k: jax.jit(k.stop_at(3))(X, 0 * X, 3),
        "stop_at: got arrays that jit, vmap or scan traces",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_call_is_one_clear_error(mistake: str, loop: pto.Kernel) -> None:
    call, message = WRONG[mistake]
    with pytest.raises(pto.ArgumentError, match=message):
        call(loop)


@pto.kernel(types=(pto.ptr("f32"), pto.ptr("f32")))
def negate(x: Any, y: Any) -> None:
    t = pto.alloc_tile("f32", 4, 16)
    pto.tload(t, pto.GlobalTensor(x, (4, 16)))
    pto.tneg(t, t)
    pto.tprint(t)
    pto.tstore(pto.GlobalTensor(y, (4, 16)), t)


def test_python_kernels_have_everything_that_compiled_ones_have() -> None:
    public = {n for n in dir(pto.Kernel) if not n.startswith("_")}
    assert {n for n in public if not hasattr(negate, n)} == set()
    assert public <= set(dir(negate))
    step = next(s for s in negate.trace(X, 0 * X) if s.instruction == "tneg")
    np.testing.assert_array_equal(np.asarray(step.written["t"]).reshape(-1), -X)
    assert step.line is not None
    np.testing.assert_array_equal(negate.stop_at(step.line)(X, 0 * X).tiles["t"].array.reshape(-1), X)
    assert negate.explain().instructions["tneg"] == 1


def _jitted(kernel: pto.Kernel, *args: Any) -> None:
    jax.jit(kernel)(*args)
    jax.effects_barrier()  # type: ignore[no-untyped-call]


EXECUTIONS: dict[str, Callable[..., object]] = {
    "call": lambda k, *args: k(*args),
    "eager": lambda k, *args: k.eager(*args),
    "trace": lambda k, *args: k.trace(*args),
    "jit": _jitted,
    "interpreter": lambda k, *args: pto.oracle.run(
        k.program, dict(zip((a.name for a in k.arguments), args, strict=True))
    ),
}


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_printed_tiles_and_scalars_are_shown(execution: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = """func.func @k(%x: !pto.ptr<f32>, %n: i32) attributes {pto.entry} {
      %c0 = arith.constant 0 : index
      %v = pto.load_scalar %x[%c0] : !pto.ptr<f32> -> f32
      pto.print ins("n = %d", %n : i32)
      pto.print ins("v = %f", %v : f32)
      pto.store_scalar %v, %x[%c0] : !pto.ptr<f32>, f32
      return
    }"""
    EXECUTIONS[execution](pto.compile(pto.parse(text)), X + 1.5, 3)
    EXECUTIONS[execution](negate.compile(), X, 0 * X)
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    out = capfd.readouterr().out
    assert "n = 3\n" in out and "v = 1.500000\n" in out
    assert "TPRINT 4x16\n -0.0000  -1.0000  -2.0000" in out


def test_an_explanation_has_types_sizes_memory_and_cost() -> None:
    example = EXAMPLES["int8_matmul"]
    page = pto.compile(pto.load(example.path), warn=False).explain()
    assert page.memory["mat"] == (12288, 524288)
    tile = next(t for t in page.tiles if t.name == "acc")
    assert (str(tile.type), tile.bytes, tile.line) == ("acc 32x64xi32 NZ", 8192, 69)
    assert page.cost is not None and page.cost.model == "doc_formula"
    text = str(page)
    assert "q  ptr<i8>, at least 4096 elements, read and written" in text
    assert "vec    49152 of 196608 bytes (25 %)" in text and "without a figure: " in text
    assert page._repr_html_().startswith("<pre>kernel @int8_matmul")


def test_memory_of_tiles_with_addresses_ends_behind_the_last_byte() -> None:
    page = pto.compile(pto.load(EXAMPLES["add_relu_convert"].path)).explain()
    assert page.memory == {"vec": (65536 + 64 * 128 * 2, 192 * 1024)}


def test_an_open_fragment_is_explained_without_sizes() -> None:
    page = pto.compile(pto.parse("%d = tadd %a, %b : !pto.tile<...>")).explain()
    assert (page.outputs, page.instructions, page.memory) == (("d",), {"tadd": 1}, {})


def test_a_line_of_python_is_stopped_before_its_instruction_not_before_its_number(tmp_path: Path) -> None:
    lines = ("t = pto.alloc_tile('f32', 8, 8)", "pto.tload(t, pto.GlobalTensor(x, (8, 8)))",
             "pto.tmuls(t, t, 2.0)", "pto.tstore(pto.GlobalTensor(y, (8, 8)), t)")  # fmt: skip
    file = tmp_path / "k.py"
    body = "".join(f"    {line}\n" for line in lines)
    types = '@pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32")})\n'
    file.write_text(f"import pto_jax as pto\n{types}def k(x, y):\n{body}")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    state = names["k"].stop_at(6)(x, 0 * x)
    np.testing.assert_array_equal(np.asarray(state.tiles["t"]), x)
