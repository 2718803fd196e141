"""Gradients: one that is used is an error, one that is stopped outside or inside the call is none."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import pto_jax as pto

Source = Callable[..., Any]
Function = Callable[[Any], Any]
X = jnp.linspace(-2.0, 2.0, 64, dtype=jnp.float32)
ZERO = np.zeros(64, np.float32)


def _squares(source: Source, numerics: Any = "exact") -> pto.Kernel:
    """z = x * x + s."""
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %s: f32")
    s.view("%a", "%x", (8, 8), (8, 1)).view("%b", "%z", (8, 8), (8, 1)).tile("%t", "f32", 8, 8)
    s.load("%a", "%t").op("tmul", "%t", "%t", out="%t").op("tadds", "%t", "%s: f32", out="%t")
    kernel: pto.Kernel = pto.compile(s.store("%t", "%b").program, numerics=numerics)
    return kernel


@pytest.fixture(name="kernel", scope="module")
def _kernel(request: pytest.FixtureRequest) -> Any:
    made: dict[str, pto.Kernel] = {}

    def get(source: Source, numerics: str = "exact") -> pto.Kernel:
        return made.setdefault(numerics, made.get(numerics) or _squares(source, numerics))

    return get


def repeated(f: Function, x: Any) -> Any:
    """f three times, in a loop that reverse mode goes through."""
    return jax.lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]


def branched(f: Function, x: Any) -> Any:
    return jax.lax.cond(x[0] < 0, f, lambda x: x, x)


def sharded(f: Function, x: Any) -> Any:
    mesh = Mesh(np.array(jax.devices()[:2]), ("i",))
    spec = PartitionSpec("i")  # type: ignore[no-untyped-call]
    per_device: Any = jax.shard_map(lambda x: f(x[0])[None], mesh=mesh, in_specs=spec, out_specs=spec)
    return per_device(jnp.stack([x, x])).sum(0) / 2


#: Ways to use a derivative of f at x; each gives the sum over f's outputs or a product with ones.
WAYS: dict[str, Callable[[Function, Any], Any]] = {
    "grad": lambda f, x: jax.grad(lambda x: f(x).sum())(x),
    "vjp": lambda f, x: jax.vjp(f, x)[1](jnp.ones_like(x))[0],
    "linearize": lambda f, x: jax.linearize(f, x)[1](jnp.ones_like(x)),
    "jacrev": lambda f, x: jax.jacrev(f)(x).sum(0),
    "grad of jit": lambda f, x: jax.grad(lambda x: jax.jit(f)(x).sum())(x),
    "jit of grad": lambda f, x: jax.jit(jax.grad(lambda x: f(x).sum()))(x),
    "jit of jvp": lambda f, x: jax.jit(lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1])(x),
    "grad of vmap": lambda f, x: jax.grad(lambda x: jax.vmap(f)(x).sum())(x[None])[0],
    "vmap of grad": lambda f, x: jax.vmap(jax.grad(lambda x: f(x).sum()))(x[None])[0],
    "checkpoint": lambda f, x: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(x),
    "scan": lambda f, x: jax.grad(lambda x: repeated(f, x).sum())(x),
    "cond": lambda f, x: jax.grad(lambda x: branched(f, x).sum())(x),
    "shard_map": lambda f, x: jax.grad(lambda x: sharded(f, x).sum())(x),
    "second": lambda f, x: jax.grad(lambda x: jax.grad(lambda x: f(x).sum())(x * x).sum() + x.sum())(x),
}
#: Forward mode that is evaluated at once: whether the tangent is used later cannot be known.
AT_ONCE: dict[str, Callable[[Function, Any], Any]] = {
    "jvp": lambda f, x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1],
    "jacfwd": lambda f, x: jax.jacfwd(f)(x).sum(0),
}


@pytest.mark.variants(3)
@pytest.mark.parametrize("how", [*WAYS, *AT_ONCE])
def test_a_derivative_that_is_used_is_an_error(source: Source, kernel: Any, how: str) -> None:
    k = kernel(source)
    with pytest.raises(
        pto.DifferentiationError,
        match=r"argument 'x': PTO instructions have no derivative.*pto\.straight_through\(",
    ):
        (WAYS | AT_ONCE)[how](lambda x: k(x, ZERO, 1.0)["z"], X)


@pytest.mark.variants(5)
@pytest.mark.parametrize("how", WAYS)
def test_straight_through_stopped_outside_the_call(source: Source, kernel: Any, how: str) -> None:
    k = kernel(source)

    def f(x: Any) -> Any:
        return x + jax.lax.stop_gradient(k(x, ZERO, 1.0)["z"] - x)

    np.testing.assert_array_equal(WAYS[how](f, X), np.ones(64, np.float32))
    np.testing.assert_allclose(f(X), X * X + 1, rtol=1e-6)


@pytest.mark.parametrize("how", ["grad", *AT_ONCE])
def test_straight_through_stopped_on_the_argument_as_the_message_says(
    source: Source, kernel: Any, how: str
) -> None:
    k = kernel(source)

    def f(x: Any) -> Any:
        return x + jax.lax.stop_gradient(k(jax.lax.stop_gradient(x), ZERO, 1.0)["z"] - x)

    np.testing.assert_array_equal((WAYS | AT_ONCE)[how](f, X), np.ones(64, np.float32))


def test_a_scalar_argument_has_no_derivative_either(source: Source, kernel: Any) -> None:
    k = kernel(source)
    with pytest.raises(pto.DifferentiationError, match="argument 's'"):
        jax.grad(lambda s: k(X, ZERO, s)["z"].sum())(1.0)
    assert jax.grad(lambda s: s + jax.lax.stop_gradient(k(X, ZERO, s)["z"].sum() - s))(1.0) == 1


@pytest.mark.parametrize("call", ["eager", "fast", "checks"])
def test_every_way_to_execute_has_the_same_rule(source: Source, kernel: Any, call: str) -> None:
    k = kernel(source, "fast") if call == "fast" else kernel(source)
    made: dict[str, Function] = {
        "eager": lambda x: k.eager(x, ZERO, 1.0)["z"],
        "fast": lambda x: k(x, ZERO, 1.0)["z"],
        "checks": lambda x: dataclasses.replace(k, checks=True)(x, ZERO, 1.0)[0]["z"],
    }
    f = made[call]
    with pytest.raises(pto.DifferentiationError, match="the gradient stopped on the arguments"):
        jax.grad(lambda x: f(x).sum())(X)
    through = jax.grad(lambda x: (x + jax.lax.stop_gradient(f(x) - x)).sum())(X)
    np.testing.assert_array_equal(through, np.ones(64, np.float32))


def test_results_without_tangents_are_an_error_even_where_their_gradient_is_stopped(source: Source) -> None:
    """Integers and tiles carry no tangent that could tell whether a derivative is used."""
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<i32>").view("%a", "%x", (8, 8), (8, 1))
    s.view("%b", "%z", (8, 8), (8, 1)).tile("%t", "f32", 8, 8).tile("%i", "i32", 8, 8)
    k = pto.compile(s.load("%a", "%t").op("tcvt", "%t", out="%i").store("%i", "%b").program)
    wrong: list[Function] = [
        lambda x: k(x, np.zeros(64, np.int32))["z"].astype(np.float32),
        lambda x: pto.ops.tneg(pto.tile(x.reshape(8, 8))).array.reshape(-1),
        lambda x: pto.ops.tadds(pto.tile(np.ones((8, 8), np.float32)), x[0]).array.reshape(-1),
    ]
    for f in wrong:
        for g in (f, lambda x, f=f: x + jax.lax.stop_gradient(f(x) - x)):
            with pytest.raises(pto.DifferentiationError, match=r"straight through, .*; try: x \+ "):
                jax.grad(lambda x, g=g: g(x).sum())(X)
        stopped = jax.grad(lambda x, f=f: (x + jax.lax.stop_gradient(f(jax.lax.stop_gradient(x)))).sum())
        np.testing.assert_array_equal(stopped(X), np.ones(64, np.float32))
