"""What users try first where they know NumPy and JAX: it works, or one error says what does."""

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import nn

TILE = pto.tile(np.arange(64, dtype=np.float32).reshape(8, 8))
X, W = np.ones((4, 8), np.float32), np.ones((8, 4), np.float32)


@pytest.mark.parametrize(
    "use",
    [
        *(
            lambda o=o: o(TILE, 1)
            for o in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt)
        ),
        lambda: 2 * TILE,
        lambda: TILE @ TILE,
        lambda: -TILE,
        lambda: abs(TILE),
        lambda: float(TILE),
    ],
)
def test_an_operator_on_a_tile_is_an_error_that_says_what_computes(use: Callable[[], Any]) -> None:
    with pytest.raises(
        pto.PtoError, match=r"a Tile \(vec 8x8xf32\) is not an array.*pto\.ops\.names.*TILE\.array"
    ):
        use()


def test_functions_of_jax_take_the_array_of_a_tile() -> None:
    np.testing.assert_array_equal(jnp.sum(TILE), np.sum(np.asarray(TILE)))
    np.testing.assert_allclose(jnp.exp(TILE), np.exp(np.asarray(TILE)), rtol=1e-6)
    np.testing.assert_array_equal(jax.jit(lambda t: jnp.negative(t))(TILE), -np.asarray(TILE))


def test_a_wrong_name_is_an_attribute_error_that_names_close_ones() -> None:
    for module in (pto, pto.ops):
        with pytest.raises(
            AttributeError, match=r"(attribute|instruction) 'tgelu'; did you mean .*trelu"
        ) as raised:
            _ = module.tgelu
        assert isinstance(raised.value, pto.PtoError)
        assert not hasattr(module, "tgelu")


def test_functions_on_arrays_inside_a_kernel_name_the_instruction_of_kernels() -> None:
    @pto.kernel(types={"x": pto.ptr("f32")})
    def k(x: Any) -> None:
        pto.ops.tabs(pto.alloc_tile("f32", 8, 8))  # type: ignore[arg-type]

    with pytest.raises(pto.ArgumentError, match=r"got the kernel tile .*; try: pto\.tabs"):
        _ = k.program


def test_layers_say_which_arrays_they_take() -> None:
    with pytest.raises(pto.ArgumentError, match=r"x: got .codes, scale.; allowed: an array of floats"):
        nn.linear(nn.quantise(X), W)
    fix = r"try: nn.quantise\(w, format='int8', axis=0\)"
    with pytest.raises(pto.ArgumentError, match=rf"w: got scales \[8, 1\] of codes .*{fix}"):
        nn.linear(X, nn.quantise(W))


@pto.kernel(types=(pto.ptr("f32"), pto.ptr("f32")))
def negate(x: Any, y: Any) -> None:
    t = pto.alloc_tile("f32", 8, 8)
    pto.tload(t, pto.GlobalTensor(x, (8, 8)))
    pto.tneg(t, t)
    pto.tstore(pto.GlobalTensor(y, (8, 8)), t)


def test_a_python_kernel_has_what_a_compiled_one_has() -> None:
    compiled, x = negate.compile(), np.ones(64, np.float32)
    assert negate.outputs == compiled.outputs == ("y",)
    assert negate.lower(x, x).as_text() == compiled.lower(x, x).as_text()
    rows = negate.map((np.stack([x, x]), np.stack([x, x])))
    np.testing.assert_array_equal(rows["y"], -np.ones((2, 64)))
    assert not hasattr(negate, "no_such_method")


def test_left_tiles_have_the_order_of_the_target() -> None:
    def product() -> None:
        left, right = (pto.alloc_tile("f16", 32, 32, loc=loc) for loc in ("left", "right"))
        pto.tmatmul(pto.alloc_tile("f32", 32, 32, loc="acc"), left, right)

    for arch, profile in ((None, "a2a3"), ("a3", "a2a3"), ("a5", "a5")):
        rules = {d.rule for d in pto.kernel(types={}, arch=arch)(product).verify(profile)}
        assert rules == {"unwritten"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "%a = pto.alloc_tile : !pto.tile_buf<left, 17x16xf16, slayout=row_major>",
            "try: rows=32 with v_row=17",
        ),
        ("%a = pto.alloc_tile : !pto.tile_buf<vec, 16x32xf8e4m3>", 'try: profile="a5"'),
        (
            "%c = arith.constant 1.0 : f16\npto.tadds ins(%a, %c : !pto.tile_buf<vec, 8x8xf32>, f16) "
            "outs(%a : !pto.tile_buf<vec, 8x8xf32>)",
            "operand scalar: scalar has type f16",
        ),
    ],
)
def test_messages_of_the_verifier_give_the_fix(text: str, message: str) -> None:
    found = pto.verify(pto.parse(text), "a2a3")
    assert any(message in str(d) for d in found), found


def test_a_rule_on_valid_regions_says_which_were_found() -> None:
    src = pto.tile(np.ones((8, 16), np.float32), valid=(3, 8))
    dst = pto.tile(np.ones((8, 16), np.float16), valid=(2, 8))
    with pytest.raises(pto.ExecutionError, match="got valid regions src 3x8, dst 2x8"):
        pto.ops.tcvt(src, dst=dst)


def test_python_habits_in_kernels_name_what_does_it() -> None:
    def smaller(n: Any) -> None:
        min(n, 16)

    def summed(n: Any, x: Any) -> None:
        total = n
        for i in pto.range(n):
            total = total + i
        pto.store_scalar(pto.cast(total, "f32"), x, 0)

    for function, message in (
        (smaller, r"try: pto\.minimum\(n, 16\)"),
        (summed, r"pto\.range\(n, carried=\[total\]\)"),
    ):
        types = {"n": "index", "x": pto.ptr("f32")}
        with pytest.raises(pto.BuildError, match=message):
            _ = pto.kernel(
                types={n: types[n] for n in function.__code__.co_varnames[: function.__code__.co_argcount]}
            )(function).program


def test_a_warning_about_a_kernel_in_python_names_its_line_once() -> None:
    @pto.kernel(types={})
    def product() -> None:
        left = pto.alloc_tile("f16", 32, 32, loc="left", blayout="col_major", slayout="row_major")
        pto.tmatmul(
            pto.alloc_tile("f32", 32, 32, loc="acc"), left, pto.alloc_tile("f16", 32, 32, loc="right")
        )

    with pytest.warns(pto.PtoWarning) as caught:
        product.compile()
    (warning,) = (w for w in caught if "operand a" in str(w.message))
    assert warning.filename == __file__ and __file__ not in str(warning.message)
    assert str(warning.message).startswith("tmatmul: operand a: ")
