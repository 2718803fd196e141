"""Windows of lines whose beginnings only execution knows, and what XLA makes of transfers."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import pto_jax as pto
from pto_jax.examples import example
from pto_jax.lowering.bits import x64
from pto_jax.lowering.memory_layouts import Lines

SIZE, SHAPE = 40, (4, 6)
#: Offset and stride of lines: apart, overlapping, equal, backwards, partly and wholly outside.
PLACES = [(0, 10), (3, 7), (2, 2), (5, 0), (30, -9), (-3, 9), (10, 12), (36, 1), (-50, 20), (2**40, 3)]


def _lines(offset: Any, stride: Any, count: Any, length: Any, by_row: bool) -> Lines:
    number = np.arange(SHAPE[0 if by_row else 1], dtype=np.int64)
    return Lines(offset + number * stride, count, length, by_row)


@jax.jit
def _both(buffer: Any, words: Any, offset: Any, stride: Any, count: Any, length: Any) -> Any:
    found = [_lines(offset, stride, count, length, by_row) for by_row in (True, False)]
    return [(lines.read(buffer, SHAPE), lines.write(buffer, words, words.dtype, True)) for lines in found]


@pytest.mark.variants(1)
@pytest.mark.parametrize(("offset", "stride"), PLACES)
def test_lines_are_read_and_written_in_their_order_inside_the_buffer_only(offset: int, stride: int) -> None:
    buffer, words = (
        np.arange(1, SIZE + 1, dtype=np.uint32),
        np.arange(101, 125, dtype=np.uint32).reshape(SHAPE),
    )
    count, length = 3, 5
    with x64():
        numbers = [np.int64(n) for n in (offset, stride, count, length)]
        found = _both(buffer, words, *numbers)
        batched = jax.vmap(_both, in_axes=(0, 0, 0, None, None, None))(
            *(jnp.stack([x, x]) for x in (buffer, words, numbers[0])), *numbers[1:]
        )
    for by_row, results, many in zip((True, False), found, batched, strict=True):
        read, written = np.zeros(SHAPE, np.uint32), buffer.copy()
        for line in range(count):
            for i in range(length):
                at, lane = offset + line * stride + i, (line, i) if by_row else (i, line)
                if all(n < side for n, side in zip(lane, SHAPE, strict=True)) and 0 <= at < SIZE:
                    read[lane], written[at] = buffer[at], words[lane]
        for got, several, expected in zip(results, many, (read, written), strict=True):
            np.testing.assert_array_equal(got, expected)
            np.testing.assert_array_equal(several, [expected, expected])


@pytest.mark.variants(0)
@pytest.mark.parametrize(
    ("numerics", "name"),
    [
        ("exact", "rmsnorm"),
        ("fast", "softmax"),
        ("exact", "masked_tile"),
        ("fast", "grid_reduction"),
        ("fast", "rmsnorm"),
        ("exact", "softmax"),
        ("fast", "masked_tile"),
        ("exact", "grid_reduction"),
    ],
)
def test_a_batch_of_affine_windows_is_moved_by_lines(name: str, numerics: Any) -> None:
    shipped = example(name)
    kernel = pto.compile(pto.load(shipped.path), numerics=numerics, grid=shipped.grid)
    given = [shipped.arguments()[a.name] for a in kernel.arguments]
    axes = [0 if value.ndim else None for value in given]
    batch = [np.stack([value, value]) if value.ndim else value for value in given]
    text = jax.jit(jax.vmap(kernel, in_axes=axes)).lower(*batch).compile().as_text()
    assert text is not None and " scatter(" not in text
    # Of a gather, whole lines are taken at once.
    taken = re.findall(r" gather\(.*slice_sizes=\{(?:\d+,)*(\d+)\}", text)
    assert len(taken) == text.count(" gather(") and all(int(width) > 1 for width in taken)


def test_lines_vary_over_a_mesh_as_what_they_are_made_of() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))
    buffer, words = np.arange(1, SIZE + 1, dtype=np.uint32), np.arange(24, dtype=np.uint32).reshape(SHAPE)
    with x64():
        counts = np.array([1, 4], np.int64)

        def part(buffer: Any, words: Any, count: Any) -> Any:
            lines = _lines(np.int64(30), np.int64(3), count[0], np.int64(6), True)
            return lines.read(buffer, SHAPE)[None], lines.write(buffer, words, words.dtype, True)[None]

        whole, split = PartitionSpec(), PartitionSpec("i")  # type: ignore[no-untyped-call]
        mapped = jax.shard_map(part, mesh=mesh, in_specs=(whole, whole, split), out_specs=split)
        read, written = jax.jit(mapped)(buffer, words, counts)
    assert (np.count_nonzero(read, axis=(1, 2)) == [6, 6 + 6 + 4 + 1]).all()
    for count, one in zip(counts, np.asarray(written), strict=True):
        expected = buffer.copy()
        for line in range(count):
            end = min(SIZE, 36 + 3 * line)
            expected[30 + 3 * line : end] = words[line, : end - 30 - 3 * line]
        np.testing.assert_array_equal(one, expected)
