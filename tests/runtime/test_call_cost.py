"""Calls with arrays that are there are one compiled function: nothing is traced or dispatched again."""

import gc
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.examples import EXAMPLES
from pto_jax.garbage import SELDOM, seldom_collected
from pto_jax.lowering import platforms
from pto_jax.runtime import execution, kernel as kernels
from tests.runtime.launch_texts import ROW, TILE as FILLED, VIEW, Y, kernel as launched, store

X = jnp.ones((8, 8), jnp.float32)
TILE = pto.tile(X)
PART = pto.tile(X, valid=(4, 8))
ADD = pto.compile(pto.parse("%d = tadd %a, %b : !pto.tile<8x8xf32>"))
CALLS: dict[str, Callable[[], Any]] = {
    "fragment of arrays": lambda: ADD(X, X)["d"],
    "fragment of tiles": lambda: ADD(TILE, TILE)["d"],
    "fragment of numpy arrays": lambda: ADD(np.ones((8, 8), np.float32), X)["d"],
    "op of arrays": lambda: pto.ops.tadd(X, X),
    "op of tiles": lambda: pto.ops.tadd(TILE, PART),
    "op with a number": lambda: pto.ops.tadds(X, 1.0),
    "op with a type": lambda: pto.ops.tcvt(X, dst="i32"),
    "op with a destination": lambda: pto.ops.tadds(X, 1, dst=PART),
    "op with attributes": lambda: pto.ops.tcvt(X, dst="i32", rmode="FLOOR", profile="a5", numerics="fast"),
    "op with checks": lambda: pto.ops.tadd(X, X, checks=True)[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_prepares_nothing_in_python(name: str) -> None:
    first = CALLS[name]()
    with (
        mock.patch.object(kernels.Kernel, "_run", side_effect=AssertionError("prepared again")),
        mock.patch("pto_jax.runtime.op_functions._call", side_effect=AssertionError("prepared again")),
        jax.no_tracing(),
    ):
        assert CALLS[name]() == first


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_a_tile_of_a_numpy_array_needs_no_program_for_its_shape(dtype: str) -> None:
    x = np.arange(11 * 13).reshape(11, 13).astype(pto.dtype(dtype).numpy)
    with jax.no_tracing():
        made = pto.tile(x, dtype=dtype)
    before, x[:] = x.copy(), 0
    np.testing.assert_array_equal(np.asarray(made.array), before)


def test_numbers_may_change_without_a_trace() -> None:
    for number in (1.0, 2.5, -0.0, 0.0):
        with jax.no_tracing() if number != 1.0 else mock.MagicMock():
            found = pto.ops.tmuls(X, number).array
        assert (found == number).all() and (np.signbit(found) == np.signbit(np.float32(number))).all()


def test_numbers_that_the_type_cannot_hold_are_still_refused() -> None:
    x = jnp.ones((1, 16), jnp.int16)
    pto.ops.tadds(x, 5)
    with pytest.raises(pto.ArgumentError, match="got 70000; allowed: numbers that i16 holds"):
        pto.ops.tadds(x, 70000)


def test_errors_have_no_frames_of_a_trace() -> None:
    for call in (lambda: ADD(X, X[:4]), lambda: pto.ops.tadd(X, X[:4])):
        with pytest.raises(pto.PtoError) as caught:
            call()
        assert not getattr(caught.value, "__notes__", None) and caught.value.__cause__ is None


def test_results_of_a_fragment_keep_their_order() -> None:
    kernel = pto.compile(pto.parse("%z = tneg %a : !pto.tile<8x8xf32>\n%b = tabs %a : !pto.tile<8x8xf32>"))
    assert list(kernel(X)) == list(kernel(np.asarray(X).tolist())) == ["z", "b"]


@pytest.mark.variants(1)
@pytest.mark.parametrize(("name", "most"), {"softmax": 1400, "rmsnorm": 1150, "swiglu_ffn": 1200}.items())
def test_programs_have_no_more_operations_of_xla_than_they_had(name: str, most: int) -> None:
    """Each takes time to compile, and all of them are compiled before the first result."""
    example = EXAMPLES[name]
    kernel = pto.compile(pto.parse(example.path.read_text()), grid=example.grid, warn=False)
    arguments = example.arguments()
    values = [arguments[a.name] for a in kernel.arguments]
    code: Any = jax.jit(lambda *values: kernel(*values)).lower(*values).compiler_ir("hlo")
    assert code.as_hlo_text().count(" = ") <= most


@pytest.fixture(name="thresholds")
def _thresholds() -> Iterator[Callable[[], int]]:
    before = gc.get_threshold()
    yield lambda: gc.get_threshold()[0]
    gc.set_threshold(*before)


def test_garbage_is_seldom_collected_while_a_kernel_is_traced(
    thresholds: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    launch: Any = getattr(execution, "launch")  # noqa: B009 - not one of its exports

    def observed(*args: Any) -> Any:
        seen.append(thresholds())
        return launch(*args)

    monkeypatch.setattr(execution, "launch", observed)
    gc.set_threshold(701)
    kernel = pto.compile(pto.parse("%d = tadd %a, %b : !pto.tile<2x8xf32>"))
    kernel(np.ones((2, 8), np.float32), np.ones((2, 8), np.float32))
    assert set(seen) == {SELDOM} and thresholds() == 701


def test_a_collector_that_is_off_or_seldom_or_changed_meanwhile_stays_so(
    thresholds: Callable[[], int],
) -> None:
    for before, inside in ((0, 0), (SELDOM + 1, SELDOM + 1), (700, SELDOM)):
        gc.set_threshold(before)
        with pytest.raises(ZeroDivisionError), seldom_collected(), seldom_collected():
            assert thresholds() == inside
            _ = 1 / 0
        assert thresholds() == before
    with seldom_collected():
        gc.set_threshold(5000)
    assert thresholds() == 5000


def test_one_execution_is_compiled_without_optimisations_on_cpus() -> None:
    program = pto.load(EXAMPLES["vector_add"].path)
    x, z = np.arange(4096, dtype=np.float32).reshape(64, 64), np.zeros((64, 64), np.float32)
    for numerics, options in (("exact", {str(platforms.unoptimised())}), ("fast", set())):
        kernel = pto.compile(program, numerics=numerics, grid=4)  # type: ignore[call-overload]
        results, requested = [], []
        for call in (kernel.once, kernel.checked):
            with mock.patch.object(jax, "jit", wraps=jax.jit) as jitted:
                results.append(call(x, x, z)["z"])
            given = (c.kwargs.get("compiler_options") for c in jitted.call_args_list)
            requested.append({str(o) for o in given if o is not None})
        assert requested == [options, set()]
        np.testing.assert_array_equal(*results)
    many = np.zeros((1 << 20) + 4096, np.float32)
    with mock.patch.object(pto.Kernel, "checked") as checked:
        pto.compile(program, grid=4).once(many, x, z)
    assert checked.called


def test_what_words_an_error_of_one_execution_is_compiled_so_too() -> None:
    view = VIEW.replace("%c64", "%rows")
    program = launched(view, FILLED, ROW, store(), arguments="%y: !pto.ptr<f32>, %rows: index")
    launch = pto.compile(program, grid=3, checks=True)
    with mock.patch.object(jax, "jit", wraps=jax.jit) as jitted, pytest.raises(pto.ExecutionError):
        launch.once(Y, 64)
    ways = [c for c in jitted.call_args_list if getattr(c.args[0], "func", None) is execution.execute]
    assert {"compiler_options": platforms.unoptimised()} in [c.kwargs for c in ways]


def test_one_execution_inside_a_trace_is_part_of_it() -> None:
    """XLA has options for the whole of what is compiled."""
    x = np.ones((8, 8), np.float32)
    traced = jax.jit(lambda y: ADD.once(x, x)["d"].array + y)(x)
    mapped = jax.vmap(lambda y: ADD.once(x, y)["d"].array)(x[None])
    assert (traced == 3).all() and (mapped == 2).all()


def test_one_execution_of_a_program_without_arguments() -> None:
    assert pto.compile(pto.parse("%n = pto.get_block_idx\n")).once() == {}
