"""Placement of transfers in global memory: every layout, static and run-time windows, batches."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax import ir, isa
from pto_jax.interpreter import View
from pto_jax.isa.samples.operations import Sample, legal_samples
from pto_jax.lowering import Semantics, memory
from pto_jax.lowering.bits import x64
from pto_jax.lowering.memory_layouts import Window, fetch
from pto_jax.lowering.rules import Context, GlobalMemory, Lanes, jitted
from pto_jax.profiles import PROFILES, Profile, profile
from pto_jax.vectors.conformance import run_case_engine, run_case_oracle
from pto_jax.vectors.manifest import Case, GmOperand, Role, Rule, TileOperand

pytestmark = pytest.mark.instructions("tload", "tstore")

RNG = np.random.default_rng(17)
Words = NDArray[Any]
Five = tuple[int, int, int, int, int]
#: Indices of tile element (r, c) in a window of dimensions d; the last entry is a place in a block.
INDICES: dict[ir.GlobalLayout, Callable[[Five, int, int], tuple[int, ...]]] = {
    ir.GlobalLayout.ND: lambda d, r, c: (
        r // (d[1] * d[2] * d[3]), r // (d[2] * d[3]) % d[1], r // d[3] % d[2], r % d[3], c),
    ir.GlobalLayout.DN: lambda d, r, c: (
        c // (d[1] * d[2] * d[4]), c // (d[2] * d[4]) % d[1], c // d[4] % d[2], r, c % d[4]),
    ir.GlobalLayout.NZ: lambda d, r, c: (c // d[4] // d[1], c // d[4] % d[1], r // d[3], r % d[3], c % d[4]),
    ir.GlobalLayout.MX_A_ZZ: lambda d, r, c: (0, r // 16, c // 2, r % 16, c % 2),
    ir.GlobalLayout.MX_A_ND: lambda d, r, c: (0, 0, r, c // 2, c % 2),
    ir.GlobalLayout.MX_A_DN: lambda d, r, c: (0, 0, c // 2, r, c % 2),
    ir.GlobalLayout.MX_B_NN: lambda d, r, c: (0, c // 16, r // 2, c % 16, r % 2),
    ir.GlobalLayout.MX_B_ND: lambda d, r, c: (0, 0, r // 2, c, r % 2),
    ir.GlobalLayout.MX_B_DN: lambda d, r, c: (0, 0, c, r // 2, r % 2),
    ir.GlobalLayout.NC1HWC0: lambda d, r, c: (
        r // (d[2] * d[3]), c // d[4], r // d[3] % d[2], r % d[3], c % d[4]),
    ir.GlobalLayout.NDC1HWC0: lambda d, r, c: (
        r // (d[3] * d[4]), c // (d[2] * 8), c // 8 % d[2], r // d[4] % d[3], r % d[4], c % 8),
    ir.GlobalLayout.NCHW: lambda d, r, c: (0, r // (d[3] * d[4]), c, r // d[4] % d[3], r % d[4]),
}  # fmt: skip
#: Layout, dimensions, rows and columns.
WINDOWS: list[tuple[ir.GlobalLayout, Five, int, int]] = [
    (ir.GlobalLayout.ND, (2, 1, 2, 3, 5), 12, 5),
    (ir.GlobalLayout.DN, (2, 1, 2, 5, 3), 5, 12),
    (ir.GlobalLayout.NZ, (2, 2, 3, 4, 4), 12, 16),
    (ir.GlobalLayout.MX_A_ZZ, (1, 2, 2, 16, 2), 32, 4),
    (ir.GlobalLayout.MX_A_ND, (1, 1, 6, 2, 2), 6, 4),
    (ir.GlobalLayout.MX_A_DN, (1, 1, 2, 6, 2), 6, 4),
    (ir.GlobalLayout.MX_B_NN, (1, 2, 2, 16, 2), 4, 32),
    (ir.GlobalLayout.MX_B_ND, (1, 1, 2, 6, 2), 4, 6),
    (ir.GlobalLayout.MX_B_DN, (1, 1, 6, 2, 2), 4, 6),
    (ir.GlobalLayout.NC1HWC0, (2, 3, 2, 2, 8), 8, 24),
    (ir.GlobalLayout.NDC1HWC0, (1, 2, 2, 2, 3), 6, 32),
    (ir.GlobalLayout.NCHW, (1, 2, 3, 2, 2), 8, 3),
]


def view(shape: tuple[Any, ...], strides: tuple[Any, ...], layout: ir.GlobalLayout, offset: Any = 0) -> View:
    return View("x", ir.F32, offset, shape, strides, layout)


def strides_of(shape: tuple[int, ...], gap: int, inner: int) -> Five:
    """Row-major strides with elements of ``inner`` words and ``gap`` unused words after each dimension."""
    steps, step = [], inner
    for extent in reversed(shape):
        steps.append(step)
        step = step * extent + gap
    a, b, c, d, e = reversed(steps)
    return a, b, c, d, e


@pytest.mark.variants(1)
@pytest.mark.parametrize(("layout", "shape", "rows", "cols"), WINDOWS)
def test_elements_are_where_the_indices_of_the_layout_say(
    layout: ir.GlobalLayout, shape: Five, rows: int, cols: int
) -> None:
    strides = strides_of(shape, 3, 8 if layout == ir.GlobalLayout.NDC1HWC0 else 1)
    steps = (*strides, 1)
    where = np.array([
        [sum(i * s for i, s in zip(INDICES[layout](shape, r, c), steps, strict=False)) for c in range(cols)]
        for r in range(rows)
    ]) + 5  # fmt: skip
    size = int(where.max()) + 7
    x = RNG.integers(0, 2**32, (2, size), dtype=np.uint32)
    t = ir.TileType(ir.F32, rows, cols)
    tiles = RNG.integers(0, 2**32, (2, rows, cols), dtype=np.uint32)

    def both(x: Any, tile: Any, at: Any, shape: Any, strides: Any) -> tuple[Any, Any]:
        window = Window.of(view(shape, strides, layout, at))
        return fetch(x, window, t.shape), memory.put(
            t, Lanes(tile), window, GlobalMemory(view((), (), layout), x)
        )

    expected = x.copy()
    expected[:, where] = tiles
    with x64():
        static = jax.jit(jax.vmap(lambda x, tile: both(x, tile, 5, shape, strides)))
        dynamic = jax.jit(jax.vmap(both, (0, 0, None, None, None)))
        sizes = [tuple(np.int64(n) for n in numbers) for numbers in (shape, strides)]
        moving = jax.jit(jax.vmap(lambda x, tile, at: both(x, tile, at, shape, strides)))
        for read, written in (
            static(x, tiles),
            moving(x, tiles, np.array([5, 5])),
            dynamic(x, tiles, np.int64(5), *sizes),
        ):
            np.testing.assert_array_equal(read, x[:, where])
            np.testing.assert_array_equal(written, expected)


def test_static_windows_are_read_and_written_without_computed_addresses() -> None:
    t = ir.TileType(ir.F32, 32, 16, blayout=ir.BLayout.COL_MAJOR, slayout=ir.SLayout.ROW_MAJOR)
    window = Window.of(view((1, 2, 2, 16, 8), (0, 300, 128, 8, 1), ir.GlobalLayout.NZ, 9))

    def both(x: Any, tile: Any) -> Any:
        return fetch(x, window, t.shape), memory.put(
            t, Lanes(tile), window, GlobalMemory(view((), (), ir.GlobalLayout.NZ), x)
        )

    x, tile = np.zeros(600, np.uint32), np.zeros(t.shape, np.uint32)
    with x64():
        text = str(jax.make_jaxpr(both)(x, tile))
    assert "gather" not in text and "scatter" not in text


@pytest.mark.parametrize("at", [0, 1, -5, 7, 399, -(2**40), 2**40])
def test_windows_that_leave_the_buffer_read_zero_there(at: int) -> None:
    given = (view((1, 1, 1, 4, 5), (0, 0, 0, 11, 2), ir.GlobalLayout.ND, n) for n in (at, np.int64(at)))
    static, moving = (Window.of(v) for v in given)
    x = RNG.integers(1, 2**32, 60, dtype=np.uint32)
    with x64():
        read = [fetch(jnp.asarray(x), w, (4, 8)) for w in (static, moving)]
    where = at + np.arange(4)[:, None] * 11 + np.arange(8) * 2
    inside = (where >= 0) & (where < 60) & (np.arange(8) < 5)
    for found in read:
        np.testing.assert_array_equal(found, np.where(inside, x[np.where(inside, where, 0)], 0))


# -- what transfers do, engine and interpreter -------------------------------------------------------


def _samples() -> Iterator[Any]:
    """Transfers of every pair of layouts; plain ones per element type are in other tests, and a2a3 does
    nothing of its own."""
    for name in ("tload", "tstore", "tprefetch"):
        for p in (PROFILES["cpu_sim"], PROFILES["a5"]):
            for i, sample in enumerate(legal_samples(isa.instructions()[name], p)):
                if "layout" in sample.attrs or (name == "tprefetch" and i < 3):
                    yield pytest.param(sample, p, id=f"{name}-{p.name}-{i}")


def _case(sample: Sample) -> Case:
    """The sample on random bytes, its window with gaps between the elements of each dimension."""
    operands: list[Any] = []
    for name, t in sample.types.items():
        role: Role = "out" if name == "dst" else "in"
        if isinstance(t, ir.TileType):
            raw = RNG.integers(0, 256, t.bytes, dtype=np.uint8)
            operands.append(TileOperand(name, role, t, raw, None, None))
            continue
        assert isinstance(t, ir.PartitionViewType)
        layout = sample.attrs.get("layout", ir.GlobalLayout.ND)
        assert isinstance(layout, ir.GlobalLayout)
        dims = tuple(n or 1 for n in t.dims)
        dims = (1,) * (5 - len(dims)) + dims
        inner = 32 // t.dtype.word.itemsize if layout == ir.GlobalLayout.NDC1HWC0 else 1
        steps = strides_of(dims, 1, inner)
        size = inner + sum((n - 1) * s for n, s in zip(dims, steps, strict=True))
        raw = RNG.integers(0, 256, size * t.dtype.word.itemsize, dtype=np.uint8)
        operands.append(GmOperand(name, role, t.dtype, dims, steps, layout, size, raw, None))
    operands.sort(key=lambda o: o.name != "dst")
    return Case("case", sample.instruction.name, "", {}, tuple(operands), frozenset(), Rule(), "samples")


@pytest.mark.slow
@pytest.mark.parametrize(("sample", "p"), list(_samples()))
def test_transfers_of_every_pair_of_layouts(sample: Sample, p: Profile) -> None:
    case = _case(sample)
    found, expected = run_case_engine(case, p), run_case_oracle(case, p)
    assert found.keys() == expected.keys() == {"dst"}
    np.testing.assert_array_equal(found["dst"], expected["dst"])


def _load(c: Context, dst: Lanes, view: View, buffer: Any) -> Any:
    return memory.tload(c, {"dst": dst}, GlobalMemory(view, buffer))


def test_what_a_store_in_nz_leaves_a_load_brings_back_for_every_valid_region() -> None:
    full = ir.TileType(
        ir.F16, 32, 48, None, None, ir.Loc.MAT, ir.BLayout.COL_MAJOR, ir.SLayout.ROW_MAJOR, pad=ir.Pad.MAX
    )
    c = Context("tload", (("dst", full),), (), (), Semantics(profile("cpu_sim")))
    nz = View("x", ir.F16, 2, (1, 2, 2, 16, 16), (0, 520, 256, 16, 1), ir.GlobalLayout.NZ)
    tiles = RNG.integers(0, 2**16, (4, 32, 48), dtype=np.uint16)
    rows, cols = np.array([32, 7, 0, 17], np.int32), np.array([32, 31, 9, 16], np.int32)

    def there_and_back(tile: Any, v_row: Any, v_col: Any, buffer: Any) -> tuple[Any, Any]:
        lanes = Lanes(tile, v_row, v_col)
        stored = memory.put(full, lanes, Window.of(nz), GlobalMemory(nz, buffer))
        return stored, _load(c, lanes._replace(words=tile ^ tile), nz, stored)

    buffer = RNG.integers(0, 2**16, 1040, dtype=np.uint16)
    with x64():
        stored, back = jax.jit(jax.vmap(there_and_back, (0, 0, 0, None)))(tiles, rows, cols, buffer)
    for i, (v_row, v_col) in enumerate(zip(rows, cols, strict=True)):
        expected = np.full((32, 48), 0x7C00, np.uint16)
        expected[:v_row, :v_col] = tiles[i, :v_row, :v_col]
        np.testing.assert_array_equal(back[i], expected)
        assert (np.asarray(stored[i]) != buffer).sum() <= v_row * v_col


# -- convolution tiles -------------------------------------------------------------------------------


def _context(name: str, arch: str, attrs: dict[str, ir.AttrValue] | None = None, **types: Any) -> Context:
    form = tuple(n for n in types if n != "dst")
    return Context(name, tuple(types.items()), tuple((attrs or {}).items()), form, Semantics(profile(arch)))


def test_images_come_back_from_blocks_of_channels() -> None:
    plain = ir.conv_tile(ir.U8, ir.Conv(ir.GlobalLayout.GNCHW, (2, 2, 37, 2, 3)), ir.Loc.VEC)
    blocked = ir.conv_tile(ir.U8, ir.Conv(ir.GlobalLayout.GNC1HWC0, (2, 2, 2, 2, 3, 32)), ir.Loc.VEC)
    forth = jitted(_context("ttrans", "a5", dst=blocked, src=plain))
    back = jitted(_context("ttrans", "a5", dst=plain, src=blocked))

    def run(x: Any, filler: Any) -> tuple[Any, Any]:
        middle = forth({"dst": Lanes(filler), "src": Lanes(x)})["dst"]
        return middle, back({"dst": Lanes(x ^ x), "src": Lanes(middle)})["dst"]

    x = RNG.integers(0, 256, (3, *plain.shape), dtype=np.uint8)
    filler = RNG.integers(0, 256, (3, *blocked.shape), dtype=np.uint8)
    middle, found = jax.jit(jax.vmap(run))(x, filler)
    np.testing.assert_array_equal(found, x)
    shape = (3, 2, 2, 2, 2, 3, 32)
    np.testing.assert_array_equal(
        np.asarray(middle).reshape(shape)[:, :, :, 1, ..., 5:], filler.reshape(shape)[:, :, :, 1, ..., 5:]
    )


@pytest.mark.parametrize(
    ("layout", "shape", "conv"),
    [
        (ir.GlobalLayout.NHWC, (1, 2, 2, 3, 11), ir.Conv(ir.GlobalLayout.NC1HWC0, (2, 2, 2, 3, 8))),
        (ir.GlobalLayout.NCHW, (1, 5, 11, 2, 3), ir.Conv(ir.GlobalLayout.FRACTAL_Z, (12, 1, 16, 8))),
        (ir.GlobalLayout.NCDHW, (5, 11, 2, 1, 3), ir.Conv(ir.GlobalLayout.FRACTAL_Z_3D, (12, 1, 16, 8))),
    ],
)
def test_loads_that_convert_images_take_run_time_sizes(
    layout: ir.GlobalLayout, shape: Five, conv: ir.Conv
) -> None:
    t = ir.conv_tile(ir.F32, conv)
    c = _context("tload", "a5", dst=t)
    strides = strides_of(shape, 2, 1)
    x = RNG.integers(1, 2**32, 2 + shape[0] * strides[0], dtype=np.uint32)

    def load(x: Any, at: Any, shape: Any, strides: Any) -> Any:
        return _load(c, Lanes(jnp.zeros(t.shape, np.uint32)), view(shape, strides, layout, at), x)

    with x64():
        static = jax.jit(lambda x: load(x, 1, shape, strides))(x)
        sizes = [tuple(np.int64(n) for n in numbers) for numbers in (shape, strides)]
        dynamic = jax.jit(load)(x, np.int64(1), *sizes)
    np.testing.assert_array_equal(static, dynamic)
    # Every element of the window is somewhere, and the rest of the blocks is zero.
    where = 1 + sum(i * s for i, s in zip(np.indices(shape), strides, strict=True))
    np.testing.assert_array_equal(
        np.sort(np.asarray(static).ravel())[-where.size :], np.sort(x[where].ravel())
    )
    assert np.count_nonzero(static) == where.size


def test_image_to_column_times_weights_is_the_convolution() -> None:
    geometry = ir.Geometry(filter=(2, 3), stride=(2, 1), dilation=(1, 2), padding=(2, 1, 0, 1))
    image = ir.conv_tile(ir.I32, ir.Conv(ir.GlobalLayout.NC1HWC0, (2, 2, 4, 5, 8), geometry))
    left = ir.TileType(ir.I32, 32, 96, 24, 96, ir.Loc.LEFT, ir.BLayout.COL_MAJOR, ir.SLayout.ROW_MAJOR)
    index = ir.ScalarType(ir.dtype("index"))
    attrs: dict[str, ir.AttrValue] = {"mode": ir.FmatrixMode.FMATRIX_A_AUTO}
    c = _context("timg2col", "a5", attrs, dst=left, src=image, posM=index, posK=index)
    x = RNG.integers(0, 100, (2, 2, 4, 5, 8), dtype=np.uint32)
    weights = RNG.integers(0, 100, (2, 2, 3, 8, 4), dtype=np.uint32)

    def columns(m: Any, k: Any) -> Any:
        dst = Lanes(jnp.zeros(left.shape, np.uint32))
        words = jitted(c)({"dst": dst, "src": Lanes(jnp.asarray(x.reshape(1, -1))), "posM": m, "posK": k})
        return words["dst"]

    with x64():
        starts = np.array([0, 1, 0], np.uint64), np.array([0, 0, 8], np.uint64)
        matrices = np.asarray(jax.jit(jax.vmap(columns))(*starts))
    padded = np.pad(x, ((0, 0), (0, 0), (0, 1), (2, 1), (0, 0)))
    expected = np.zeros((2, 2, 4, 4), np.uint32)
    for y, oy in enumerate((0, 2)):
        for ox in range(4):
            window = padded[:, :, oy : oy + 2, ox : ox + 5 : 2, :]
            expected[:, y, ox] = np.tensordot(window, weights, 4)
    found = matrices[0, :24] @ weights.reshape(96, 4)
    np.testing.assert_array_equal(found[:16], expected.reshape(16, 4))
    np.testing.assert_array_equal(matrices[1, :15], matrices[0, 1:16])
    np.testing.assert_array_equal(matrices[2, :, :88], matrices[0, :, 8:])
