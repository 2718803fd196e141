"""The kernel that merges lists on GPUs, in Pallas' interpreter, against the steps as a loop."""

from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.ir import F16, F32, I16, U32, DType, dtype
from pto_jax.lowering import irregular_sort, merging_gpu, primitives
from pto_jax.lowering.bits import x64

BATCH, RECORDS = 3, 24
NAN = {F16: 0x7E00, F32: 0x7FC00000}


def _values(d: DType, seed: int) -> Any:
    """Words of which many are equal, and some are NaN; no list of them descends."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 6, (BATCH, RECORDS)).astype(d.word) << d.word.type(d.bits - 4)
    return jnp.asarray(np.where(rng.random(words.shape) < 0.1, d.word.type(NAN.get(d, 1)), words))


def _job(grouped: bool, limit: int) -> Any:
    """Four lists per element of the batch; some of the lists of no group are empty, and one is short."""
    if grouped:
        begin, length, group = np.tile(np.arange(4) * 3, (BATCH, 1)), np.full((BATCH, 4), 3), 12
    else:
        begin, group = np.tile(np.arange(4) * 6, (BATCH, 1)), 0
        length = np.array([[6, 6, 6, 6], [2, 0, 6, 1], [0, 0, 0, 0]])
    sizes = (np.full(BATCH, limit), np.full(BATCH, group))
    return tuple(jnp.asarray(x.astype(np.int32)) for x in (begin, length, *sizes))


@pytest.mark.variants(0)
@pytest.mark.parametrize("limit", [RECORDS, 7])
@pytest.mark.parametrize(
    ("grouped", "exhausted"),
    [(True, False), (False, True), (False, False)],
    ids=["grouped", "exhausted", "all"],
)
@pytest.mark.parametrize("d", [F32, F16, I16, U32], ids=str)
def test_the_kernel_merges_as_the_loop_does(d: DType, grouped: bool, exhausted: bool, limit: int) -> None:
    values, job = _values(d, limit), _job(grouped, limit)
    with x64():
        expected = jax.vmap(
            lambda v, a, b, c, e: irregular_sort._stepwise(
                v, d, irregular_sort.Merge(a, b, c, e, grouped, exhausted), RECORDS
            )
        )(values, *job)
        shape = merging_gpu.Shape(RECORDS, RECORDS, d, grouped, exhausted)
        got = merging_gpu.merged(values, job, shape, interpret=True)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))
    assert len(np.unique(np.asarray(got)[0])) > 3


@pytest.mark.variants(0)
@pytest.mark.parametrize(
    ("grouped", "exhausted", "count"),
    [(True, False, 24), (False, True, 24), (False, False, 24), (False, False, 9)],
    ids=["grouped", "exhausted", "all", "fewer"],
)
def test_the_kernel_ranks_lists_that_descend(grouped: bool, exhausted: bool, count: int) -> None:
    job = _job(grouped, 12 if grouped else 20)
    if not grouped:
        job = (job[0], jnp.asarray(np.array([[6] * 4, [2, 3, 6, 1], [6, 4, 5, 6]], np.int32)), *job[2:])
    size = 3 if grouped else 6
    values = np.random.default_rng(3).integers(-4, 4, (BATCH, RECORDS // size, size)).astype(np.float32)
    values = -np.sort(-values, axis=2).reshape(BATCH, RECORDS)
    # One element of the batch has a list that rises, another a NaN: they alone go by steps.
    values[0, 1], values[1, 8] = 9, np.nan
    with x64():
        words = jnp.asarray(values.view(np.uint32))
        begin, length, limit, group = job
        each = [
            irregular_sort.Merge(begin[i], length[i], limit[i], group[i], grouped, exhausted)
            for i in range(BATCH)
        ]
        assert [bool(irregular_sort._descends(words[i], F32, each[i])) for i in range(BATCH)] == [
            False,
            False,
            True,
        ]
        expected = [irregular_sort._stepwise(words[i], F32, each[i], count) for i in range(BATCH)]
        shape = merging_gpu.Shape(RECORDS, count, F32, grouped, exhausted)
        got = merging_gpu.merged(words, job, shape, interpret=True)
    np.testing.assert_array_equal(np.asarray(got), np.stack([np.asarray(w) for w in expected]))


@pytest.mark.variants(0)
@pytest.mark.parametrize("name", ["i8", "u32", "f32", "i64", "i32", "u64"])
def test_lists_that_descend_are_merged_as_by_steps(name: str) -> None:
    d, rng = dtype(name), np.random.default_rng(0)
    values = rng.integers(0, 1 << 64, (4, 6), np.uint64, endpoint=False).astype(d.word).view(d.numpy)
    values[:, 3:5] = values[0, 0]
    values = -np.sort(-values.astype(np.float32)) if d.is_float else np.sort(values)[:, ::-1]
    with x64():
        words = jnp.asarray(np.ascontiguousarray(values).astype(d.numpy).view(d.word).reshape(-1))
        begin, length, limit, group = (x[0] for x in _job(False, RECORDS))
        job = irregular_sort.Merge(begin, length, limit, group)
        assert irregular_sort._descends(words, d, job)
        order, taken = irregular_sort.merged(words, d, job, RECORDS)
        expected = np.asarray(irregular_sort._stepwise(words, d, job, RECORDS))
    np.testing.assert_array_equal(np.concatenate([order, taken]), expected)


@pytest.mark.variants(1)
@pytest.mark.parametrize("triton", [True, False])
def test_code_for_cuda_is_the_kernel_where_triton_is(triton: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primitives, "_has_triton", lambda: triton)
    values, (begin, length, limit, group) = _values(F32, 0), _job(False, RECORDS)

    def merge(values: Any) -> Any:
        job = irregular_sort.Merge(begin[0], length[0], limit[0], group[0])
        with x64():
            return irregular_sort.merged(values[0], F32, job, RECORDS)

    traced = jax.jit(merge).trace(values)
    with nullcontext() if triton else pytest.warns(pto.PtoWarning, match="merge: code for GPUs without"):
        cuda = str(traced.lower(lowering_platforms=("cuda",)).as_text())
    assert ("pto_merge" in cuda) == triton
    assert "pto_merge" not in str(traced.lower(lowering_platforms=("cpu",)).as_text())
