"""A kernel over any number of tiles: arrays, memory maps, iterators, chunk by chunk, on several hosts."""

import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from tests.ports import two_hosts

X = np.random.default_rng(0).standard_normal((23, 4, 8)).astype(np.float32)
NEGATED = pto.compile(pto.parse("%d = tneg %a : !pto.tile<4x8xf32>"))
OPEN = pto.compile(pto.parse("%d = tneg %a : !pto.tile_buf<vec, 4x8xf32, valid=?x?>"))
ELEMENT = pto.compile(
    pto.parse("%v = tgetval ins(%a, %n : !pto.tile<4x8xf32>, index) outs : f32\n%d = tadds %a, %v"),
    checks=True,
)


@pto.kernel(types=(pto.ptr("f32"), pto.ptr("f32"), "f32", "index"))
def scaled(x: Any, y: Any, factor: Any, rows: Any) -> None:
    t = pto.alloc_tile("f32", 4, 8, valid=(rows, 8))
    pto.tload(t, pto.partition_view(pto.GlobalTensor(x, (4, 8)), [0, 0], [rows, 8]))
    pto.tmuls(t, t, factor)
    pto.tstore(pto.partition_view(pto.GlobalTensor(y, (4, 8)), [0, 0], [rows, 8]), t)


SCALED = scaled.compile()
ROWS = np.arange(23, dtype=np.int64) % 5


def expected(factor: float) -> np.ndarray[Any, Any]:
    inside = np.arange(4)[None, :, None] < ROWS[:, None, None]
    return np.where(inside, X * np.float32(factor), np.float32(0))


@pytest.mark.parametrize("chunk", [None, 1, 5, 23, 100])
def test_arrays_in_chunks_with_a_short_last_one(chunk: int | None) -> None:
    found = NEGATED.map(X, chunk=chunk)["d"]
    assert isinstance(found, pto.Tile) and found.shape == X.shape
    np.testing.assert_array_equal(np.asarray(found), -X)


@pytest.mark.slow
def test_arguments_by_name_by_position_and_in_common() -> None:
    by_name = SCALED.map({"x": X, "rows": ROWS}, shared={"factor": 3}, chunk=7)
    np.testing.assert_array_equal(by_name["y"].reshape(X.shape), expected(3))
    factors = np.full(23, 3, np.float32)
    by_position = SCALED.map((X, 0 * X, factors, ROWS), chunk=4)["y"]
    np.testing.assert_array_equal(by_position, expected(3))


@pytest.mark.slow
def test_every_tile_has_a_valid_region_of_its_own() -> None:
    region = np.stack([ROWS, np.full(23, 8)], axis=1)
    found = OPEN.map({"a": X, "a.valid": region}, chunk=6)["d"]
    np.testing.assert_array_equal(found.valid_rows, ROWS)
    for i, rows in enumerate(ROWS):
        np.testing.assert_array_equal(np.asarray(found)[i, :rows], -X[i, :rows])
    tiles = jax.vmap(lambda x, r: pto.tile(x, valid=(r, 8)))(X, ROWS)
    assert OPEN.map(tiles, chunk=6)["d"] == found


def test_memory_maps_larger_than_a_chunk(tmp_path: Path) -> None:
    source = np.memmap(tmp_path / "in", np.float32, "w+", shape=X.shape)
    source[:] = X
    target = np.memmap(tmp_path / "out", np.float32, "w+", shape=X.shape)
    result = SCALED.map(
        {"x": np.memmap(tmp_path / "in", np.float32, "r", shape=X.shape), "rows": ROWS},
        shared={"factor": 2.0},
        chunk=4,
        out=target,
    )
    assert result["y"] is target
    target.flush()
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out", np.float32).reshape(X.shape), expected(2))


def test_private_memory_maps_keep_what_was_written(tmp_path: Path) -> None:
    X.tofile(tmp_path / "in")
    private = np.memmap(tmp_path / "in", np.float32, "c", shape=X.shape)
    private[:] = 1
    assert (np.asarray(NEGATED.map(private, chunk=4)["d"]) == -1).all() and (private == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [None, 4])
def test_iterators_of_single_calls(chunk: int | None) -> None:
    found = SCALED.map(({"x": x, "rows": r} for x, r in zip(X, ROWS, strict=True)),
                       shared={"factor": 3.0}, chunk=chunk)  # fmt: skip
    np.testing.assert_array_equal(found["y"].reshape(X.shape), expected(3))
    out = np.empty((23, 4, 8), np.float32)
    NEGATED.map(iter(X), out={"d": out}, chunk=chunk)
    np.testing.assert_array_equal(out, -X)
    listed = NEGATED.map([pto.tile(x) for x in X], chunk=chunk)["d"]
    np.testing.assert_array_equal(np.asarray(listed), -X)


def test_an_iterator_may_reuse_its_array() -> None:
    one = np.empty(X.shape[1:], np.float32)

    def read() -> Iterator[Any]:
        for x in X:
            one[:] = x
            yield one

    np.testing.assert_array_equal(np.asarray(NEGATED.map(read(), chunk=5)["d"]), -X)


def test_all_devices_take_part() -> None:
    assert len(jax.local_devices()) == 2, "tests/conftest.py"
    seen: list[tuple[int, int | None]] = []
    NEGATED.map(X, chunk=4, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 23) for n in (4, 8, 12, 16, 20, 23)]


def test_progress_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    NEGATED.map(X, chunk=23, progress=True)
    assert "23 of 23, 0 s left" in capsys.readouterr().err


def test_types_that_jax_narrows_stay_wide() -> None:
    kernel = pto.compile(pto.parse("%d = tneg %a : !pto.tile<1x8xi64>"), profile="cpu_sim")
    x = np.arange(24, dtype=np.int64).reshape(3, 1, 8) + (1 << 40)
    np.testing.assert_array_equal(np.asarray(kernel.map(x)["d"]), -x)


def test_a_broken_rule_names_the_index_in_the_whole_batch() -> None:
    indices = np.zeros(23, np.int64)
    indices[[9, 11]] = 32
    out = np.zeros_like(X)
    with pytest.raises(
        pto.ExecutionError,
        match=r"got offset 32; allowed: an element of the tile, 0 to 31; batch index 9, 11",
    ):
        ELEMENT.map({"a": X, "n": indices}, chunk=8, out=out)
    assert out[:8].any() and not out[8:].any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SCALED.map({"x": X, "rows": ROWS[:3]}, shared={"factor": 1}),
         "'x' has 23 entries, 'rows' 3; allowed: equally many; try: .*shared="),
        (lambda: SCALED.map({"x": X, "rows": 3}), "'rows' has no leading axis; try: .*shared="),
        (lambda: SCALED.map({"z": X}), "no argument is called 'z'; allowed: x, y, factor, rows"),
        (lambda: SCALED.map(X, shared={"z": 1}), "shared: no argument is called 'z'"),
        (lambda: SCALED.map({"x": X}, shared={"factor": 1}), "scaled: got .*; allowed: also rows"),
        (lambda: NEGATED.map(X, chunk=0), "chunk: got 0; allowed: a positive number"),
        (lambda: NEGATED.map(X[:0]), "batch: got no entries"),
        (lambda: NEGATED.map(iter(())), "batch: got no entries"),
        (lambda: NEGATED.map(3), "batch: got int; allowed: a dictionary"),
        (lambda: NEGATED.map(X, out=np.zeros(3)), r"out: 'd': got float64\[3\]; allowed: float32"),
        (lambda: NEGATED.map(X, out={"e": X}), "out: got 'e'; allowed: an array for each result: d"),
        (lambda: NEGATED.map([X[0], X[1, :2]]), r"item 1: a is float32\[2, 8\], that of item 0 .*\[4, 8\]"),
        (lambda: NEGATED.map([X[0], {"b": X[1]}]), "item 1: no argument is called 'b'; allowed: a"),
        (lambda: NEGATED.map(X[:, :2]), r"argument 'a': got shape \(2, 8\)"),
    ],
)  # fmt: skip
def test_errors_say_what_fits(call: Any, message: str) -> None:
    with pytest.raises(pto.ArgumentError, match=message):
        call()


@pytest.mark.slow
def test_a_file_larger_than_the_memory_that_is_used(tmp_path: Path) -> None:
    """256 MiB in and out; the process grows by less than a quarter of one of them."""
    script = tmp_path / "stream.py"
    script.write_text(
        "import resource, sys\nimport numpy as np, pto_jax as pto\n"
        "kernel = pto.compile(pto.parse('%d = tneg %a : !pto.tile<64x64xf32>'))\n"
        "x = np.memmap('in', np.float32, 'w+', shape=(16384, 64, 64))\n"
        "y = np.memmap('out', np.float32, 'w+', shape=(16384, 64, 64))\n"
        "kernel.map(x[:512], out=y[:512], chunk=256)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "kernel.map(x, out=y, chunk=256)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 64


def test_chunks_follow_from_the_bytes_of_a_call() -> None:
    from pto_jax.runtime import streaming

    sizes = [streaming._chunk({"a": np.zeros((1, n), np.float32)}, None) for n in (8, 4096, 1 << 26)]
    assert sizes == [streaming.CACHED // 64, streaming.CACHED // 32768, 1]
    assert streaming._chunk({"a": np.zeros((1, 8), np.float32)}, 10) == 5


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


@pytest.mark.nightly
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
