"""Batches over a mesh whose axes are explicit: kernels that store, fragments, instructions."""

from __future__ import annotations

from collections.abc import Iterator
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
