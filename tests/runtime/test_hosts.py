"""Several hosts: processes that meet through ``jax.distributed`` each map their part of a batch."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.ports import two_hosts

#: What each process executes: address of the first one, its own number, files of tiles and of results.
HOST = """
import sys, zlib
import jax, numpy as np
from jax.experimental import multihost_utils
import pto_jax as pto

address, process, given, results = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
jax.distributed.initialize(address, 2, process, initialization_timeout=120)
assert (jax.process_count(), jax.local_device_count(), jax.device_count()) == (2, 2, 4)
tiles, out = np.load(given, mmap_mode="r"), np.load(results, mmap_mode="r+")
kernel = pto.compile(pto.parse("%d = texp %a : !pto.tile<4x8xf32>\\n%e = tmul %d, %d"))
first, end = (len(tiles) * n // jax.process_count() for n in (process, process + 1))
found = kernel.map(tiles[first:end], chunk=3)["e"]
out[first:end] = found.array
out.flush()
# Every process has the results of all only when all of them have written.
multihost_utils.sync_global_devices("written")
everything = multihost_utils.process_allgather(np.uint32(zlib.crc32(np.load(results).tobytes())))
print(process, first, end, *everything)
jax.distributed.shutdown()
"""


@pytest.mark.slow
def test_two_processes_map_a_batch_together(tmp_path: Path) -> None:
    import pto_jax as pto

    tiles = np.random.default_rng(0).standard_normal((17, 4, 8)).astype(np.float32)
    given, results = tmp_path / "given.npy", tmp_path / "results.npy"
    np.save(given, tiles)
    np.save(results, np.full_like(tiles, np.nan))
    said = two_hosts(HOST, str(given), str(results))
    found = np.load(results)
    kernel = pto.compile(pto.parse("%d = texp %a : !pto.tile<4x8xf32>\n%e = tmul %d, %d"))
    expected = np.asarray(kernel.map(tiles)["e"])
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
    # Each has a part, the parts are all, and both have seen both.
    checksum = str(zlib.crc32(found.tobytes()))
    lines = [out.split()[-5:] for out in said]
    assert [line[:3] for line in lines] == [["0", "0", "8"], ["1", "8", "17"]]
    assert all(line[3:] == [checksum, checksum] for line in lines)
