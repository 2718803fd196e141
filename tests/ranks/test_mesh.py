"""Ranks as a mesh axis: devices of one process, and two processes, give the bits of the leading axis."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from tests.ports import two_hosts
from tests.ranks.protocols import PROTOCOLS, compiled, ring, values

#: Protocols whose order is static.
STATIC = [name for name in PROTOCOLS if name != "expert exchange"]


def on_mesh(kernel: Any, arrays: dict[str, Any], **numbers: Any) -> dict[str, Any]:
    """The results with the ranks spread over the devices."""
    mesh = jax.make_mesh((2,), ("r",), axis_types=(jax.sharding.AxisType.Auto,))
    over = PartitionSpec("r")  # type: ignore[no-untyped-call]

    def own(given: dict[str, Any]) -> Any:
        return kernel(**given, **numbers)

    found: dict[str, Any] = jax.jit(jax.shard_map(own, mesh=mesh, in_specs=over, out_specs=over))(arrays)
    return found


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", STATIC)
def test_devices_of_a_mesh_give_the_bits_of_both_other_forms(name: str) -> None:
    k = PROTOCOLS[name]()
    given = values(k)
    numbers = {n: given.pop(n) for n in ("rank", "n") if n in given}
    kernel = compiled(k, 4, "compiled")
    sharded, leading = on_mesh(kernel, given, **numbers), kernel(**given, **numbers)
    interpreted = compiled(k)(**given, **numbers)
    for buffer, array in interpreted.items():
        assert (
            np.asarray(sharded[buffer]).tobytes() == array.tobytes() == np.asarray(leading[buffer]).tobytes()
        )


@pytest.mark.variants(1)
@pytest.mark.parametrize("in_context", [True, False])
def test_batches_and_ranks_may_be_explicit_axes(in_context: bool) -> None:
    k = PROTOCOLS[STATIC[0]]()
    given = values(k)
    numbers = {n: given.pop(n) for n in ("rank", "n") if n in given}
    kernel = compiled(k, 4, "compiled")
    mesh = jax.make_mesh((2,), ("r",), axis_types=(jax.sharding.AxisType.Explicit,))
    over: Any = NamedSharding(mesh, PartitionSpec("r"))  # type: ignore[no-untyped-call]
    batch = {n: np.stack([a, a]) for n, a in given.items()}
    with jax.set_mesh(mesh) if in_context else nullcontext():
        ranks = kernel(**jax.device_put(given, over), **numbers)
        batches = jax.vmap(lambda given: kernel(**given, **numbers))(jax.device_put(batch, over))
    for buffer, array in compiled(k)(**given, **numbers).items():
        for found in (ranks[buffer], *np.asarray(batches[buffer])):
            assert np.asarray(found).tobytes() == array.tobytes()


HOST = """
import sys
import jax, numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec as P
import pto_jax as pto

address, process, program = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(address, 2, process, initialization_timeout=120)
kernel = pto.compile(pto.load(program), ranks=4, shared=("y", "s"), context={"ctx": "y"}, warn=False)
mesh = jax.make_mesh((4,), ("r",), axis_types=(jax.sharding.AxisType.Auto,))
over = NamedSharding(mesh, P("r"))

def spread(a):
    return jax.make_array_from_callback(a.shape, over, lambda index: a[index])

x = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
given = [spread(a) for a in (x, np.zeros_like(x), np.zeros((4, 1), np.int32))]
call = jax.shard_map(
    lambda x, y, s: kernel(x, y, s, np.arange(4), 4)["y"], mesh=mesh, in_specs=P("r"), out_specs=P("r")
)
y = multihost_utils.process_allgather(jax.jit(call)(*given), tiled=True)
print(process, bool((np.asarray(y) == np.roll(x, 1, 0)).all()))
jax.distributed.shutdown()
"""


@pytest.mark.slow
def test_two_processes_are_two_ranks_each(tmp_path: Path) -> None:
    program = tmp_path / "ring.pto"
    program.write_text(str(ring()))
    assert [out.split()[-2:] for out in two_hosts(HOST, str(program))] == [["0", "True"], ["1", "True"]]
