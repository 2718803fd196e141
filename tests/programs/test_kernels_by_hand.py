"""Kernels that an author writes by hand, in every executor, against formulas in NumPy."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto

pytestmark = pytest.mark.slow

Array: TypeAlias = NDArray[Any]
R = np.random.default_rng(7)
X = R.integers(-9, 9, (32, 16)).astype(np.float32)
ZERO = np.zeros_like(X)


def agree(kernel: Any, args: tuple[Any, ...], expected: Array, grid: int = 1) -> None:
    """All executors return the bits of a formula; neither the verifier nor the sanitizer has an objection."""
    assert pto.verify(kernel.program) == []
    assert pto.sanitize(kernel.program, args, grid=grid).findings == ()
    compiled = pto.compile(kernel.program, grid=grid)
    batch = tuple(np.stack([np.asarray(a)] * 2) for a in args)

    def unjitted() -> Mapping[str, Any]:
        with jax.disable_jit():
            result: Mapping[str, Any] = compiled(*args)
            return result

    runs: dict[str, Callable[[], Mapping[str, Any]]] = {
        "interpreter": lambda: pto.oracle.run(kernel.program, args, grid=grid),
        "call": lambda: compiled(*args),
        "eager": lambda: compiled.eager(*args),
        "jit": lambda: jax.jit(lambda *a: compiled(*a))(*args),
        "vmap": lambda: {n: v[1] for n, v in jax.jit(jax.vmap(lambda *a: compiled(*a)))(*batch).items()},
        "map": lambda: {n: v[1] for n, v in compiled.map(batch, chunk=1).items()},
        "disable_jit": unjitted,
    }
    for name, run in runs.items():
        (result,) = run().values()
        assert np.asarray(result).tobytes() == expected.tobytes(), name


#: Types of a kernel from one buffer to another.
BUFFERS: Mapping[str, Any] = {"x": pto.ptr("f32"), "y": pto.ptr("f32")}


def test_windows_of_windows_of_a_tile() -> None:
    @pto.kernel(types=BUFFERS)
    def k(x: Any, y: Any) -> None:
        t = pto.alloc_tile("f32", 16, 32)
        pto.tload(t, pto.GlobalTensor(x, (16, 32)))
        a = pto.subview(t, offsets=[4, 8], sizes=[8, 16])
        b = pto.subview(a, offsets=[2, 8], sizes=[4, 8])
        pto.tadds(b, b, 10.0)
        c = pto.subview(b, offsets=[1, 0], sizes=[2, 8])
        pto.tmuls(c, c, 2.0)
        pto.tadd(a, a, a)
        pto.tstore(pto.GlobalTensor(y, (16, 32)), t)

    x = X.reshape(16, 32)
    expected = x.copy()
    a = expected[4:12, 8:24]
    b = a[2:6, 8:16]
    b += 10
    b[1:3] *= 2
    a += a
    agree(k, (x, np.zeros_like(x)), expected)


@pytest.mark.parametrize("rows", [0, 13])
def test_bands_that_become_empty(rows: int) -> None:
    @pto.kernel(types={**BUFFERS, "rows": "index"})
    def k(x: Any, y: Any, rows: Any) -> None:
        vx, vy = (pto.GlobalTensor(p, (32, 16)) for p in (x, y))
        for i in pto.range(0, 32, 8):
            size = pto.minimum(pto.maximum(rows - i, 0), 8)
            t = pto.alloc_tile("f32", 8, 16, valid=(size, 16))
            pto.tload(t, pto.partition_view(vx, [i, 0], [size, 16]))
            pto.tmul(t, t, t)
            pto.tstore(pto.partition_view(vy, [i, 0], [size, 16]), t)

    expected = ZERO.copy()
    expected[:rows] = X[:rows] ** 2
    agree(k, (X, ZERO, rows), expected)


@pytest.mark.parametrize("limit", [0.0, 1e9])
def test_a_while_loop_carries_tiles_that_branches_choose(limit: float) -> None:
    @pto.kernel(types={**BUFFERS, "limit": "f32"})
    def k(x: Any, y: Any, limit: Any) -> None:
        a = pto.alloc_tile("f32", 32, 16)
        b = pto.alloc_tile("f32", 32, 16)
        pto.tload(a, pto.GlobalTensor(x, (32, 16)))
        loop = pto.while_(a, b, pto.constant(0, "index"))
        with loop.test() as (p, q, n):
            loop.condition((pto.tgetval(p, 17) < limit) & (n < 20), p, q, n)
        with loop.do() as (p, q, n):
            with pto.if_(n % 2 == 0) as branch:
                pto.tadd(q, p, p)
                branch.give(q, p)
            with pto.else_():
                pto.tadds(q, p, 1.0)
                branch.give(q, p)
            loop.give(branch.results[0], branch.results[1], n + 1)
        result, _, n = loop.results
        pto.tadds(result, result, pto.cast(n, "f32"))
        pto.tstore(pto.GlobalTensor(y, (32, 16)), result)

    tile, n = X + np.float32(0.25), 0
    given = tile.copy()
    while tile[1, 1] < np.float32(limit) and n < 20:
        tile, n = (tile + tile if n % 2 == 0 else tile + 1), n + 1
    agree(k, (given, ZERO, np.float32(limit)), tile + np.float32(n))


@pytest.mark.parametrize(("grid", "rows"), [(3, 32), (2, 0)])
def test_blocks_take_turns_in_place(grid: int, rows: int) -> None:
    @pto.kernel(types={"x": pto.ptr("f32"), "rows": "index"})
    def k(x: Any, rows: Any) -> None:
        block, blocks = (pto.cast(n, "index") for n in (pto.get_block_idx(), pto.get_block_num()))
        view = pto.make_tensor_view(x, [rows, 16], [16, 1])
        t = pto.alloc_tile("f32", 2, 16)
        loop = pto.while_(block * 2)
        with loop.test() as (row,):
            loop.condition(row + 2 <= rows, row)
        with loop.do() as (row,):
            window = pto.partition_view(view, [row, 0], [2, 16])
            pto.tload(t, window)
            pto.tmul(t, t, t)
            pto.tstore(window, t)
            loop.give(row + blocks * 2)

    expected = X.copy()
    expected[:rows] *= expected[:rows]
    agree(k, (X, rows), expected, grid)


@pytest.mark.parametrize("shift", [-5, 3])
def test_stores_into_what_is_loaded_next(shift: int) -> None:
    @pto.kernel(types={"x": pto.ptr("i16"), "n": "index"})
    def k(x: Any, n: Any) -> None:
        view = pto.make_tensor_view(x, [1, 200], [200, 1])
        t = pto.alloc_tile("i16", 1, 32)
        u = pto.alloc_tile("i16", 1, 32)
        for i in pto.range(0, n):
            pto.tload(t, pto.partition_view(view, [0, i * 8 + 8], [1, 32]))
            pto.tadds(u, t, 1)
            pto.tstore(pto.partition_view(view, [0, i * 8 + 8 + shift], [1, 32]), u)
            pto.tload(t, pto.partition_view(view, [0, i * 8 + 8 + shift], [1, 32]))
            pto.tadd(t, t, u)
            pto.tstore(pto.partition_view(view, [0, i * 8], [1, 32]), t)

    given = np.arange(200, dtype=np.int16)
    expected = given.copy()
    for i in range(0, 72, 8):
        u = expected[i + 8 : i + 40] + np.int16(1)
        expected[i + 8 + shift : i + 40 + shift] = u
        expected[i : i + 32] = 2 * u
    agree(k, (given, 9), expected)


def test_tiles_and_views_go_through_two_calls() -> None:
    tile, view = pto.tile_type("f32", 8, 16), pto.tensor_view("f32", None, 16)

    @pto.kernel(types={"t": tile, "v": view, "row": "index"}, entry=False)
    def inner(t: Any, v: Any, row: Any) -> None:
        u = pto.alloc_tile("f32", 8, 16)
        pto.tload(u, pto.partition_view(v, [row, 0], [8, 16]))
        with pto.if_(row % 16 == 0):
            pto.tadd(t, t, u)
        with pto.else_():
            pto.tsub(t, t, u)

    @pto.kernel(types={"t": tile, "v": view, "n": "index"}, entry=False)
    def outer(t: Any, v: Any, n: Any) -> None:
        for row in pto.range(0, n, 8):
            pto.call(inner, t, v, row)

    @pto.kernel(types={**BUFFERS, "n": "index"})
    def k(x: Any, y: Any, n: Any) -> None:
        t = pto.alloc_tile("f32", 8, 16)
        pto.texpands(t, 0.0)
        pto.call(outer, t, pto.make_tensor_view(x, [n, 16], [16, 1]), n)
        pto.tstore(pto.GlobalTensor(y, (8, 16)), t)

    expected = X[:8] - X[8:16] + X[16:24] - X[24:]
    agree(k, (X, np.zeros((8, 16), np.float32), 32), expected)
