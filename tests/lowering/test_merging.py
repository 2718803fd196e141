"""Merging of record lists: the stable order where they descend, step by step where they do not."""

from typing import Any

import jax
import numpy as np
import pytest

from pto_jax.ir import F16, F32, DType
from pto_jax.lowering import irregular_sort
from pto_jax.lowering.bits import x64
from pto_jax.lowering.irregular_sort import Merge, merged

COUNT, CASES = 24, 60


def _lists(rng: np.random.Generator, d: DType, size: int) -> Any:
    """Descending lists of ``size`` records each, with equal values, and zeros of both signs."""
    x = rng.choice(np.array([-2, -1, -0.0, 0.0, 1e-7, 1, 3, np.inf], d.numpy), (CASES, COUNT // size, size))
    order = np.argsort(-x, axis=2, kind="stable")
    return np.take_along_axis(x, order, 2).reshape(CASES, COUNT)


def _jobs(rng: np.random.Generator, grouped: bool, size: int) -> tuple[Any, ...]:
    """Begin, length, limit and group of each case."""
    begin = np.broadcast_to(np.arange(4, dtype=np.int32) * size, (CASES, 4))
    if grouped:
        groups = rng.integers(0, COUNT // (4 * size) + 1, CASES).astype(np.int32)
        return begin, np.full_like(begin, size), groups * 4 * size, np.full(CASES, 4 * size, np.int32)
    length = rng.integers(0, size + 1, (CASES, 4)).astype(np.int32)
    return begin, length, rng.integers(0, COUNT + 1, CASES).astype(np.int32), np.zeros(CASES, np.int32)


@pytest.mark.variants(0)
@pytest.mark.parametrize(
    ("d", "grouped", "exhausted", "size"),
    [
        (F32, False, False, 6),
        (F16, False, True, 6),
        (F32, True, False, 3),
    ],
)
def test_one_sort_orders_lists_as_the_steps_do(d: DType, grouped: bool, exhausted: bool, size: int) -> None:
    rng = np.random.default_rng(0)
    x, job = _lists(rng, d, size), _jobs(rng, grouped, size)

    def each(order: Any) -> Any:
        def call(values: Any, begin: Any, length: Any, limit: Any, group: Any) -> Any:
            job = Merge(begin, length, limit, group, grouped, exhausted)
            return order(values, d, job, COUNT)

        return jax.jit(jax.vmap(call))

    with x64():
        steps, at_once, chosen = map(each, (irregular_sort._stepwise, irregular_sort._at_once, merged))
        expected = np.asarray(steps(x.view(d.word), *job))
        np.testing.assert_array_equal(at_once(x.view(d.word), *job), expected)
        # A batch with a NaN, or with a list that rises, goes the other way.
        for other in (np.nan, 2):
            y = x.copy()
            y[rng.integers(0, CASES, 9), rng.integers(0, COUNT, 9)] = other
            for values in (x, y):
                expected = np.asarray(steps(values.view(d.word), *job))
                np.testing.assert_array_equal(np.concatenate(chosen(values.view(d.word), *job), 1), expected)
    assert (expected[:, :COUNT] >= 0).any() and (expected[:, :COUNT] < 0).any()
