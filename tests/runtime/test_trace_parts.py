"""Parts of traces compute what the whole trace computes, from what they need."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from pto_jax.runtime import judged_calls


def _while(x: Any, n: Any) -> Any:
    """A counter that decides, a number that follows it, and an array that nobody needs."""

    def body(state: Any) -> Any:
        i, number, array = state
        return i + 1, number * 3 + i, array + number

    _, number, array = lax.while_loop(lambda s: s[0] < n, body, (0, n, x))
    return array, number


def _scan(x: Any, n: Any) -> Any:
    (array, number), (rows, numbers) = lax.scan(
        lambda c, row: ((c[0] + row, c[1] * 2), (row, c[1])), (x[0], n), x, reverse=True
    )
    return (array, rows), (number, numbers)


def _cond(x: Any, n: Any) -> Any:
    return lax.cond(n > 2, lambda: (x + 1, n * 5), lambda: (x, n))


def _jit(x: Any, n: Any) -> Any:
    return jax.jit(lambda x, n: (x * 2, n * 7))(x, n)


def _nested(x: Any, n: Any) -> Any:
    def body(i: Any, state: Any) -> Any:
        return _jit(*_cond(*_while(state[0], state[1] % 5 + i)))

    return lax.fori_loop(0, n, body, (x, n))


def _delayed(x: Any, n: Any) -> Any:
    """What a loop hands on to another variable in the next trip is needed too."""
    a, _, _, array = lax.fori_loop(0, n, lambda i, s: (s[1], s[2], s[0] + i, s[3] + 1), (n, n * 2, n * 3, x))
    return array, a


def _batch(x: Any, n: Any) -> Any:
    """Loops of which each entry of a batch has its own number of trips."""

    def one(row: Any, limit: Any) -> Any:
        def body(s: Any) -> Any:
            return s[0] + 1, s[1] * 3 + s[0], s[2] + s[1]

        _, number, array = lax.while_loop(lambda s: s[0] < limit, body, (0, limit, row))
        return array, number

    return jax.vmap(one)(x, n + jnp.arange(len(x), dtype=jnp.int32))


FORMS = {f.__name__: f for f in (_while, _scan, _cond, _jit, _nested, _delayed, _batch)}


@pytest.mark.variants(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numbers", [True, False])
def test_parts_of_a_trace_are_computed_from_what_they_need(form: str, numbers: bool) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    for n in map(np.int32, (0, 2, 7)):
        traced = jax.make_jaxpr(FORMS[form])(x, n)
        results = FORMS[form](jnp.asarray(x), jnp.asarray(n))
        expected = [part == numbers for part in (0, 1) for _ in jax.tree.leaves(results[part])]
        needed = judged_calls.inputs(traced.jaxpr, expected)
        assert needed == [False, True] if numbers else needed[0]
        given = [v if used else None for v, used in zip((x, n), needed, strict=True)]
        parts = jax.jit(lambda *v, t=traced, w=expected: judged_calls.evaluate(t, v, w))(*given)
        for part, whole, w in zip(parts, jax.tree.leaves(results), expected, strict=True):
            assert (part is not None) == w
            if w:
                np.testing.assert_array_equal(part, whole)
