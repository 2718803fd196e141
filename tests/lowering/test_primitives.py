"""Each name of JAX's interface for extensions does what the package needs of it."""

from typing import Any

import jax
import numpy as np

from pto_jax.lowering import primitives


def _batch(operands: Any, axes: Any) -> Any:
    return _triple.bind(*operands), axes[0]


_triple: Any = primitives.primitive(
    "triple",
    evaluate=lambda x: 3 * x,
    types=lambda x: x,
    batch=_batch,
    lower={primitives.EVERY: primitives.lowered(lambda x: [3 * x])},
)


def _jvp(operands: Any, tangents: Any) -> Any:
    return _triple.bind(*operands), _triple.bind(tangents[0])


primitives.differentiate(_triple, _jvp, lambda cotangent, x: [_triple.bind(cotangent)])


def test_a_primitive_is_executed_traced_and_batched() -> None:
    x = np.arange(4, dtype=np.float32)
    for call in (
        _triple.bind,
        jax.jit(_triple.bind),
        jax.vmap(_triple.bind),
        jax.jit(jax.vmap(_triple.bind)),
    ):
        np.testing.assert_array_equal(np.asarray(call(x)), 3 * x)


def test_a_primitive_has_the_derivative_that_is_defined() -> None:
    assert jax.jvp(_triple.bind, (1.0,), (2.0,)) == (3.0, 6.0)
    assert jax.grad(_triple.bind)(1.0) == 3.0


def test_a_lowering_is_chosen_by_platform() -> None:
    two = primitives.primitive(
        "two",
        evaluate=lambda x: x,
        types=lambda x: x,
        batch=_batch,
        lower={
            primitives.EVERY: primitives.lowered(lambda x: [x + 1]),
            "cpu": primitives.lowered(lambda x: [x + 2]),
        },
    )
    traced = jax.jit(two.bind).trace(np.float32(0))
    constants = {p: "1.0" in traced.lower(lowering_platforms=(p,)).as_text() for p in ("cpu", "cuda")}
    assert constants == {"cpu": False, "cuda": True}


def test_a_symbolic_zero_is_told_from_a_tangent() -> None:
    pair = primitives.primitive(
        "pair", evaluate=lambda x, y: x, types=lambda x, y: x, batch=_batch,
        lower={primitives.EVERY: primitives.lowered(lambda x, y: [x])},
    )  # fmt: skip
    zeros: list[bool] = []

    def jvp(operands: Any, tangents: Any) -> Any:
        zeros.extend(map(primitives.is_zero_tangent, tangents))
        return pair.bind(*operands), tangents[0]

    primitives.differentiate(pair, jvp, lambda *_: [])
    jax.jvp(lambda x: pair.bind(x, 1.0), (1.0,), (2.0,))
    assert zeros == [False, True]


def test_vmap_passes_a_numpy_array_on() -> None:
    wide = np.arange(3, dtype=np.int64)
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(primitives.untraced(x))
        return x

    jax.vmap(keep)(wide)
    jax.jit(keep)(wide)
    assert kept[0] is not None and kept[0].dtype == np.int64
    assert kept[1] is None


def test_equations_of_a_trace_are_executed_one_by_one() -> None:
    traced = jax.make_jaxpr(lambda x: (jax.lax.sin(x) + 1.0, x))(np.float32(0))
    assert isinstance(traced, primitives.ClosedJaxpr) and isinstance(traced.jaxpr, primitives.Jaxpr)
    sine, plus = traced.jaxpr.eqns
    assert isinstance(plus.invars[1], primitives.Literal) and plus.invars[1].val == 1.0
    assert primitives.by_jax(plus, [*primitives.by_jax(sine, [np.float32(0)]), np.float32(1)])[0] == 1.0
    assert primitives.jaxpr_as_fun(traced)(np.float32(0))[0] == 1.0


def test_an_axis_is_added_to_a_type() -> None:
    wider: Any = primitives.unmapped_aval(5, 0, jax.typeof(np.zeros((2, 3), np.float32)))
    assert wider.shape == (5, 2, 3)
