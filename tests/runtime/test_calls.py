"""Calling kernels: arguments, outputs, memoisation, and errors for what does not fit."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pto_jax as pto

Source = Callable[..., Any]
X = np.arange(64, dtype=np.float32)


def add_scalar(source: Source, d: str = "f32", arch: str = "a3") -> pto.Program:
    """z = x + s on 64 elements; i and n take part in nothing."""
    s = source(f"%x: !pto.ptr<{d}>, %z: !pto.ptr<{d}>, %s: {d}, %i: i32, %n: index", arch=arch)
    s.view("%a", "%x", (4, 16), (16, 1)).view("%b", "%z", (4, 16), (16, 1))
    s.tile("%t", d, 4, 16).load("%a", "%t").op("tadds", "%t", f"%s: {d}", out="%t").store("%t", "%b")
    program: pto.Program = s.program
    return program


@pytest.fixture(name="kernel")
def _kernel(source: Source) -> pto.Kernel:
    return pto.compile(add_scalar(source))


def test_arguments_by_position_and_by_name(kernel: pto.Kernel) -> None:
    by_position = kernel(X, 0 * X, 2.0, 1, 1)["z"]
    by_name = kernel(X, n=1, i=1, z=0 * X, s=2.0)["z"]
    assert (np.asarray(by_position) == X + 2).all() and (by_position == by_name).all()


def test_an_argument_may_be_called_self(source: Source) -> None:
    s = source("%self: !pto.ptr<f32>").view("%a", "%self", (8, 8), (8, 1)).tile("%t", "f32", 8, 8)
    s.load("%a", "%t").op("tneg", "%t", out="%t").store("%t", "%a")
    assert (np.asarray(pto.compile(s.program)(self=X)["self"]) == -X).all()


@pytest.mark.parametrize("shape", [(64,), (8, 8), (2, 4, 8, 1), (100,), (10, 10)])
def test_any_shape_with_enough_elements(kernel: pto.Kernel, shape: tuple[int, ...]) -> None:
    z = np.full(shape, 5, np.float32)
    out = np.asarray(kernel(X.reshape(4, 16), z, 2.0, 1, 1)["z"])
    assert out.shape == shape and out.dtype == np.float32
    assert (out.reshape(-1)[:64] == X + 2).all() and (out.reshape(-1)[64:] == 5).all()


def test_lists_and_numbers_are_converted(kernel: pto.Kernel) -> None:
    out = kernel(X.tolist(), [0] * 64, 2, np.int32(1), np.int8(1))["z"]
    assert (np.asarray(out) == X + 2).all()


@pytest.mark.parametrize("method", ["__call__", "eager", "with_state"])
def test_inputs_are_never_modified(kernel: pto.Kernel, method: str) -> None:
    x, z, jz = X.copy(), np.zeros(64, np.float32), jnp.zeros(64)
    getattr(kernel, method)(x, z, 2.0, 1, 1)
    getattr(kernel, method)(x, jz, 2.0, 1, 1)
    assert (x == X).all() and not z.any() and not np.asarray(jz).any()


def test_tiles_do_not_share_memory_with_the_array_they_came_from() -> None:
    space = np.full(64 + 16, 7, np.uint32)
    aligned = space[(-space.ctypes.data % 64) // 4 :][:64].reshape(8, 8)
    made = pto.tile(aligned)
    aligned[:] = 0
    assert (np.asarray(made) == 7).all()


def test_outputs_are_ordered_by_first_write(source: Source) -> None:
    s = source("%a: !pto.ptr<f32>, %b: !pto.ptr<f32>, %c: !pto.ptr<f32>").tile("%t", "f32", 8, 8)
    for pointer in "abc":
        s.view(f"%{pointer}w", f"%{pointer}", (8, 8), (8, 1))
    s.load("%bw", "%t").store("%t", "%cw").store("%t", "%aw").store("%t", "%cw")
    kernel = pto.compile(s.program)
    assert kernel.outputs == ("c", "a") == tuple(kernel(X, X, X))
    assert [(a.name, a.written) for a in kernel.arguments] == [("a", True), ("b", False), ("c", True)]


def test_arguments_are_described(kernel: pto.Kernel) -> None:
    found = [(a.name, str(a.type), a.min_elements, a.written) for a in kernel.arguments]
    assert found[:2] == [("x", "ptr<f32>", 64, False), ("z", "ptr<f32>", 64, True)]
    assert [a[0] for a in found[2:]] == ["s", "i", "n"] and kernel.outputs == ("z",)


def test_compile_is_memoised_and_kernels_are_hashable(source: Source) -> None:
    first, second = (pto.compile(add_scalar(source)) for _ in range(2))
    assert first is second and {first: 1}[second] == 1
    assert pto.compile(add_scalar(source), profile="a2a3") is first
    others = [
        pto.compile(add_scalar(source), **options)
        for options in (
            {"profile": "a5"}, {"numerics": "fast"}, {"checks": True},
            {"out_of_region": "backing"}, {"subnormals": "flush"},
        )
    ]  # fmt: skip
    assert len({first, *others}) == 6


def test_repeated_calls_trace_once(kernel: pto.Kernel) -> None:
    traces: list[int] = []

    @jax.jit
    def outer(x: Any, s: Any) -> Any:
        traces.append(1)
        return kernel(x, x, s, 1, 1)["z"]

    kernel(X, X, 1.0, 1, 1)
    with jax.log_compiles(False), _no_tracing():
        for value in (2.0, 3.0, np.float32(4)):
            kernel(X + 1, X, value, 5, 6)
    for value in (1.0, 2.0):
        outer(X, value)
    assert traces == [1]


class _no_tracing:
    """Fails when the interpreter, which only tracing runs, executes anything."""

    def __enter__(self) -> None:
        from pto_jax.interpreter import Interpreter

        self.interpreter, self.run = Interpreter, Interpreter.run

        def fail(*args: Any, **kwargs: Any) -> Any:
            raise AssertionError("the program was traced again")

        Interpreter.run = fail  # type: ignore[method-assign]

    def __exit__(self, *exc: object) -> None:
        self.interpreter.run = self.run  # type: ignore[method-assign]


def test_the_trace_guard_can_fail(kernel: pto.Kernel) -> None:
    with _no_tracing(), pytest.raises(AssertionError, match="traced again"):
        kernel(np.zeros((16, 4), np.float32), X, 1.0, 1, 1)


FP = [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)]


@pytest.mark.parametrize(("d", "given"), FP)
def test_narrow_floats_and_raw_words_are_taken_as_they_are(source: Source, d: str, given: Any) -> None:
    kernel = pto.compile(add_scalar(source, d, "a5"))
    x = np.arange(64).astype(given)
    for array in (x, jnp.asarray(x), x.view(np.uint16)):
        out = np.asarray(kernel(array, array, 2.0, 1, 1)["z"])
        assert out.dtype == array.dtype and (out.view(given) == x + given(2)).all()


@pytest.mark.parametrize(
    ("d", "given"),
    [
        ("f8e4m3", ml_dtypes.float8_e4m3fn),
        ("f8e5m2", ml_dtypes.float8_e5m2),
        ("hif8", np.uint8),
        ("f4e2m1x2", np.uint8),
        ("i64", np.uint64),
        ("u16", np.int16),
    ],
)
def test_moves_keep_every_pattern_of_every_type(source: Source, d: str, given: Any) -> None:
    cols = 64
    s = source(f"%x: !pto.ptr<{d}>, %z: !pto.ptr<{d}>", arch="a5")
    s.view("%a", "%x", (4, cols), (cols, 1)).view("%b", "%z", (4, cols), (cols, 1))
    s.tile("%t", d, 4, cols).load("%a", "%t").store("%t", "%b")
    count = 4 * cols // (2 if pto.dtype(d).packed else 1)
    x = np.resize(np.arange(256, dtype=np.uint8), count * np.dtype(given).itemsize).view(given)
    out = np.asarray(pto.compile(s.program)(x, np.zeros_like(x))["z"])
    assert out.dtype == given and (out.view(np.uint8) == x.view(np.uint8)).all()


class _Bad:
    def __repr__(self) -> str:
        return "bad"


BAD_ARGUMENTS = [
    ({"x": X.astype(np.float64)}, "argument 'x': got an array of float64; allowed: f32"),
    ({"x": X.astype(np.int64)}, "argument 'x': got an array of int64; allowed: f32"),
    ({"x": X[:63]}, "argument 'x': got 63 elements; allowed: at least 64, which the program's views need"),
    ({"x": [[1.0], [2.0, 3.0]]}, "argument 'x': got the list .*; allowed: f32"),
    ({"x": None}, "argument 'x': got None; allowed: an array"),
    ({"x": _Bad()}, r"argument 'x': got \w+\._Bad; allowed: an array"),
    ({"x": np.array([None] * 64)}, "argument 'x': got an array of object"),
    ({"s": "two"}, "argument 's': got the text 'two'; allowed: a number"),
    ({"s": 1e39}, r"argument 's': got 1e\+39; allowed: numbers that f32 holds"),
    ({"s": 10**400}, "argument 's': got an integer of 1329 bits"),
    ({"s": True}, "argument 's': got the bool True"),
    ({"s": np.ones(3, np.float32)}, r"argument 's': got shape \(3,\); allowed: a scalar f32"),
    ({"s": np.float64(1)}, "argument 's': got an array of float64"),
    ({"i": 1.0}, "argument 'i': got the float 1.0; allowed: i32"),
    ({"i": 2**31}, "argument 'i': got 2147483648; allowed: numbers that i32 holds"),
    ({"i": -(2**31) - 1}, "argument 'i': got -2147483649; allowed: numbers that i32 holds"),
    ({"i": False}, "argument 'i': got the bool False"),
    ({"i": np.int64(1)}, "argument 'i': got an array of int64; allowed: i32"),
    ({"i": np.bool_(True)}, "argument 'i': got an array of bool"),
    ({"n": 1.5}, "argument 'n': got the float 1.5; allowed: index"),
    ({"n": np.float32(1)}, "argument 'n': got float32; allowed: index"),
    ({"n": 2**63}, "argument 'n': got 9223372036854775808; allowed: numbers that i64 holds"),
    ({"n": np.arange(2)}, r"argument 'n': got shape \(2,\)"),
]


@pytest.mark.parametrize(("change", "message"), BAD_ARGUMENTS)
def test_arguments_that_do_not_fit(kernel: pto.Kernel, change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"x": X, "z": X, "s": 1.0, "i": 1, "n": 1}
    with pytest.raises(pto.ArgumentError, match=message):
        kernel(**(good | change))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X, X, 1.0), {}, "got x, z, s; allowed: also i, n"),
        ((X, X, 1.0, 1, 1, 1), {}, "got 6 arguments; allowed: 5: x, z, s, i, n"),
        ((X, X, 1.0, 1), {"n": 1, "q": 2}, "got the argument 'q'; allowed: x, z, s, i, n"),
        ((X, X, 1.0, 1, 1), {"x": X}, "argument 'x' is given twice"),
    ],
)
def test_missing_extra_and_duplicate_arguments(
    kernel: pto.Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        kernel(*args, **kwargs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"entry": "other"}, "entry: got 'other'; allowed: main"),
        ({"profile": "a9"}, "unknown profile 'a9'; allowed: cpu_sim, a2a3, a5"),
        ({"profile": ["a5"]}, r"unknown profile \['a5'\]; allowed: cpu_sim, a2a3, a5"),
        ({"numerics": "loose"}, "numerics: got 'loose'; allowed: exact, fast"),
        ({"out_of_region": "zeros"}, "out_of_region: got 'zeros'; allowed: ones, backing"),
        ({"subnormals": "drop"}, "subnormals: got 'drop'; allowed: keep, flush"),
    ],
)
def test_unknown_options(source: Source, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        pto.compile(add_scalar(source), **options)


def test_illegal_programs_do_not_compile(source: Source) -> None:
    s = source("%x: !pto.ptr<f32>").tile("%t", "f32", 8, 8).tile("%u", "f16", 8, 16)
    s.op("tneg", "%t", out="%u")
    with pytest.raises(pto.VerifyError, match="tneg"):
        pto.compile(s.program)


def test_fragments_take_tiles_and_arrays() -> None:
    kernel = pto.compile(pto.parse("%d = tadd %a, %b : !pto.tile<2x8xf32>"))
    ones = np.ones((2, 8), np.float32)
    for arguments in ((ones, ones), (pto.tile(ones), ones), (ones.view(np.uint32), pto.tile(ones))):
        result = kernel(*arguments)["d"]
        assert isinstance(result, pto.Tile) and (np.asarray(result) == 2).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((2, 8), np.int32), "argument 'a': got an array of int32; allowed: f32"),
        (np.ones((2, 9), np.float32), r"argument 'a': got shape \(2, 9\); allowed: vec"),
        (np.ones(16, np.float32), r"argument 'a': got shape \(16,\)"),
        (pto.tile(np.ones((2, 8), np.int32)), "argument 'a': got a tile vec 2x8xi32; allowed: vec"),
        (
            pto.tile(np.ones((2, 8), np.float32), valid=(1, 8)),
            r"valid region of 1x8; allowed: the whole 2x8 tile",
        ),
        (jax.vmap(pto.tile)(np.ones((3, 2, 8), np.float32)), r"batch of tiles of shape \(3,\).*jax.vmap"),
    ],
)
def test_tiles_that_do_not_fit(given: Any, message: str) -> None:
    kernel = pto.compile(pto.parse("%d = tadd %a, %b : !pto.tile<2x8xf32>"))
    with pytest.raises(pto.ArgumentError, match=message):
        kernel(given, np.ones((2, 8), np.float32))


def test_open_fragments_take_their_types_from_the_arguments() -> None:
    kernel = pto.compile(pto.parse("tadd %dst, %src0, %src1"))
    for d in (np.float32, np.int16):
        out = kernel(src0=np.ones((2, 16), d), src1=np.ones((2, 16), d))["dst"]
        assert np.asarray(out).dtype == d and (np.asarray(out) == 2).all()
    with pytest.raises(pto.VerifyError, match="tadd"):
        kernel(src0=np.ones((2, 16), np.float32), src1=np.ones((2, 16), np.int16))


def test_fragments_transfer_between_views_and_tiles() -> None:
    text = "tload %t, %v : !pto.tile<2x8xf32>, !pto.partition_tensor_view<2x8xf32>"
    kernel = pto.compile(pto.parse(text))
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    assert (np.asarray(kernel(v=x)["t"]) == x).all()
    with pytest.raises(pto.ArgumentError, match=r"got shape \(16,\); allowed: partition"):
        kernel(v=x.reshape(-1))
