"""Mistakes of authors of kernels in Python: one error at their line, with a fix that works when pasted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pto_jax as pto

X = np.arange(1024, dtype=np.float32).reshape(16, 64)


def _kernel(body: Callable[[Any, Any, Any], Any]) -> pto.Program:
    @pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32"), "n": "index"})
    def k(x: Any, y: Any, n: Any) -> None:
        body(x, y, n)

    program: pto.Program = k.program
    return program


def _refused(call: Callable[[], Any]) -> pto.PtoError:
    with pytest.raises(pto.PtoError) as caught:
        call()
    return caught.value


#: What is written in a kernel, its message, and how the fix is used.
BODIES = {
    "a shape of a pointer": (
        lambda x, y, n: x.shape, "got the attribute 'shape' of the pointer x, which has no shape"),
    "an element of a pointer": (lambda x, y, n: x[3], "x[...]: got the pointer x"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES)
def test_a_pointer_is_no_array(body: Any, message: str) -> None:
    error = _refused(lambda: _kernel(body))
    assert message in str(error) and __file__ in str(error) and "\n" not in error.fix
    assert list(_kernel(lambda x, y, n: eval(error.fix, {"pto": pto, "x": x})).walk())


def test_a_pointer_answers_what_python_asks_of_objects() -> None:
    seen = []
    _kernel(lambda x, y, n: seen.append((hasattr(x, "shape"), hasattr(x, "__len__"), x.name)))
    assert seen == [(False, True, "x")]


@pytest.mark.parametrize("body", [lambda t: list(t), lambda t: len(t)], ids=["iterated", "counted"])
def test_fixes_of_tiles_have_names_of_the_author(body: Any) -> None:
    def named(x: Any, y: Any, n: Any) -> None:
        t = pto.alloc_tile("f32", 16, 64)
        body(t)

    error = _refused(lambda: _kernel(named))
    assert _kernel(lambda x, y, n: eval(error.fix, {"pto": pto, "t": pto.alloc_tile("f32", 16, 64)}))
    assert _refused(lambda: _kernel(lambda x, y, n: body(pto.alloc_tile("f32", 16, 64)))).fix == ""


def test_a_type_of_numpy_and_a_negative_extent_are_refused() -> None:
    error = _refused(lambda: pto.kernel(types={"x": np.float32})(lambda x: None).program)
    assert "x: got the class float32; allowed: a type" in str(error)
    assert "got the extent -1; allowed: 0 or more" in str(_refused(lambda: pto.tensor_view("f32", -1)))


def test_a_wrong_option_is_an_error_at_the_line_of_the_author() -> None:
    error = _refused(lambda: pto.kernel(types={"x": pto.ptr("f32")}, kind="cub")(lambda x: None).program)
    assert str(error).startswith(f"{__file__}:") and error.fix == 'kind="cube"'


def test_batches_of_map_are_one_tuple() -> None:
    kernel = pto.compile(pto.parse("%z = tadd %x, %y : !pto.tile<f32, 16, 64>"))
    batch = np.stack([X, X])
    error = _refused(lambda: kernel.map(batch, batch))
    assert "map: got 2 batches; allowed: one, with all arguments" in str(error)
    results = eval(error.fix, {"kernel": kernel, "x": batch, "y": batch})
    np.testing.assert_array_equal(results["z"], 2 * batch)
    assert "chunk: got 'a'; allowed: a positive number" in str(_refused(lambda: kernel.map(batch, chunk="a")))  # type: ignore[arg-type]


def test_the_interpreter_names_elements_beyond_a_buffer() -> None:
    program = _kernel(lambda x, y, n: pto.tload(pto.alloc_tile("f32", 16, 64), pto.GlobalTensor(x, (16, 64))))
    error = _refused(lambda: pto.oracle.run(program, {"x": X[:2], "y": X, "n": 3}))
    assert "tload: got elements 0 to 1023 of x; allowed: the buffer of 128 elements of f32" in str(error)


def _view(p: Any) -> Any:
    return pto.partition_view(pto.make_tensor_view(p, [16, 64], [64, 1]), [0, 0], [16, 64])


#: Calls with operands in a wrong order, number or spelling, and the whole call that the fix becomes.
CALLS = {
    "destination last, load": (lambda t, v: pto.tload(v, t), "pto.tload(t, v)"),
    "destination last, store": (lambda t, v: pto.tstore(t, v), "pto.tstore(v, t)"),
    "no destination": (lambda t, v: pto.tadd(t, t), "pto.tadd(t, t, t)"),
    "no destination, a keyword": (lambda t, v: pto.tcvt(t, rmode="FLOOR"), "pto.tcvt(t, t, rmode='FLOOR')"),
    "scalar first": (lambda t, v: pto.tadds(t, 1.0, t), "pto.tadds(t, t, 1.0)"),
    "an attribute by its value": (lambda t, v: pto.tcvt(t, t, round="FLOOR"), 'rmode="FLOOR"'),
    "an attribute with a typo": (lambda t, v: pto.tcvt(t, t, rmod="FLOOR"), 'rmode="FLOOR"'),
}  # fmt: skip


@pytest.mark.parametrize(("call", "fix"), CALLS.values(), ids=CALLS)
def test_calls_in_a_wrong_order_are_written_in_the_right_one(call: Any, fix: str) -> None:
    def body(x: Any, y: Any, n: Any) -> None:
        t = pto.alloc_tile("f32", 16, 64)
        call(t, _view(y))

    error = _refused(lambda: _kernel(body))
    assert error.fix == fix and "; allowed: " in str(error) and __file__ in str(error)
    text = fix if fix.startswith("pto.") else f"pto.tcvt(t, t, {fix})"
    names = {"pto": pto}
    fixed = lambda x, y, n: eval(text, names | {"t": pto.alloc_tile("f32", 16, 64), "v": _view(y)})  # noqa: E731
    assert list(_kernel(fixed).walk())


def test_sizes_and_types_of_other_languages_have_a_fix() -> None:
    half = _refused(lambda: _kernel(lambda x, y, n: pto.alloc_tile("f32", 16, 128 / 2)))
    assert half.fix == "64" and "cols: got 64.0; allowed: a positive Python integer" in str(half)
    pointer = _refused(lambda: pto.kernel(types={"x": "f32*"})(lambda x: None))
    assert pointer.fix == 'pto.ptr("f32")' and eval(pointer.fix) == pto.ptr("f32")
