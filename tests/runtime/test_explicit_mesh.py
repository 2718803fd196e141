"""Batches over a mesh whose axes are explicit: kernels that store, fragments, instructions."""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import permutations
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import pto_jax as pto
from pto_jax.examples import EXAMPLES

STORING = pto.compile(pto.load(EXAMPLES["vector_add"].path))
FRAGMENT = pto.compile(pto.parse("%d = tadd %a, %b : !pto.tile<64x64xf32>"))
WAYS: dict[str, Any] = {
    "kernel": lambda x: STORING(x, x, x)["z"],
    "fragment": lambda x: FRAGMENT(x, x)["d"].array,
    "instruction": lambda x: pto.ops.tadd(x, x).array,
}


@pytest.fixture(name="batch")
def _batch() -> Iterator[Any]:
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Explicit,))
    x = np.random.default_rng(0).standard_normal((4, 64, 64)).astype(np.float32)
    with jax.set_mesh(mesh):
        yield jax.device_put(x, NamedSharding(mesh, PartitionSpec("i")))  # type: ignore[no-untyped-call]


@pytest.mark.variants(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("jit", [True, False])
def test_results_are_sharded_as_their_batch(batch: Any, way: str, jit: bool) -> None:
    call = jax.vmap(WAYS[way])
    found = (jax.jit(call) if jit else call)(batch)
    assert str(jax.typeof(found)) == "float32[4@i,64,64]"
    np.testing.assert_array_equal(np.asarray(found), 2 * np.asarray(batch))


#: Operations for which JAX asks for a sharding: of what a table gives, of merged axes, of several parts.
_OPEN: dict[str, tuple[Any, Any]] = {
    "table": (lambda x: pto.ops.tadd(x, x, profile="a5"), pto.dtype("f8e4m3").numpy),
    "sorted": (lambda x: pto.ops.tsort32(x, np.arange(64, dtype=np.uint32)[None]), np.dtype(np.float16)),
    "merged": (lambda x: pto.ops.tmrgsort(x, 64), np.dtype(np.float32)),
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", _OPEN)
@pytest.mark.parametrize("in_context", [True, False])
def test_the_compiler_shards_what_jax_would_ask_for(name: str, in_context: bool) -> None:
    call, dtype = _OPEN[name]
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Explicit,))
    x = np.linspace(-3, 3, 4 * 256).astype(dtype).reshape(4, 1, 256)[..., : 64 if name == "sorted" else 256]
    expected = np.stack([np.asarray(call(one)) for one in x])
    over: Any = NamedSharding(mesh, PartitionSpec("i"))  # type: ignore[no-untyped-call]
    with jax.set_mesh(mesh) if in_context else nullcontext():
        found = jax.jit(jax.vmap(call))(jax.device_put(x, over)).array
        assert "4@i" in str(jax.typeof(found))
    np.testing.assert_array_equal(np.asarray(found).view(np.uint8), expected.view(np.uint8))


_DATA = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)


def _of_mesh(axis: str | None) -> Any:
    """The data as an array of a mesh, sharded over an axis or whole on each device."""
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Explicit,))
    return jax.device_put(_DATA, NamedSharding(mesh, PartitionSpec(axis)))  # type: ignore[no-untyped-call]


_ARRAYS: dict[str, Any] = {
    "numpy": lambda: _DATA,
    "whole": lambda: _of_mesh(None),
    "parts": lambda: _of_mesh("i"),
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("order", list(permutations(_ARRAYS)), ids="-".join)
def test_one_kernel_takes_arrays_of_a_mesh_and_others(order: tuple[str, ...]) -> None:
    text = EXAMPLES["vector_add"].path.read_text()
    # A kernel of its own, which has compiled nothing.
    kernel = pto.compile(pto.parse(text, file="-".join(order)))
    for name in order:
        x = _ARRAYS[name]()
        np.testing.assert_array_equal(np.asarray(kernel(x, x, x)["z"]), 2 * _DATA)


_MASKED = pto.compile(
    pto.parse("%d = tadd %a, %b : !pto.tile<64x64xf32>\n%e = texp %d : !pto.tile<64x64xf32>")
)
_CALLS: dict[str, Any] = {
    "call": lambda x: _MASKED(x, x)["e"],
    "jit": lambda x: jax.jit(_MASKED)(x, x)["e"],
    "eager": lambda x: _MASKED.eager(x, x)["e"],
    "instruction": lambda x: pto.ops.texp(pto.ops.tadd(x, x)),
    "map": lambda x: _MASKED.map((x[None], x[None]))["e"],
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("axes", [AxisType.Explicit, AxisType.Auto])
@pytest.mark.parametrize("call", _CALLS)
def test_a_mesh_in_the_context_changes_nothing(call: str, axes: AxisType) -> None:
    expected = np.asarray(_CALLS["jit"](_DATA)).reshape(64, 64)
    mesh = jax.make_mesh((2,), ("i",), axis_types=(axes,))
    arrays = [_DATA]
    if axes == AxisType.Explicit:
        arrays += [_of_mesh(None), _of_mesh("i")]
    for x in arrays:
        with jax.set_mesh(mesh):
            found = np.asarray(_CALLS[call](x))
        np.testing.assert_array_equal(found.reshape(64, 64).view(np.uint32), expected.view(np.uint32))
