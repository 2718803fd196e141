"""Views of global memory, transfers through them, and tiles that share on-chip bytes."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from numpy.typing import NDArray

import pto_jax as pto

Source = Callable[..., Any]
Agree = Callable[..., dict[str, Any]]
RNG = np.random.default_rng(11)
_START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _the_same_data_in_any_order() -> None:
    """Tests draw from one generator; each starts it anew, whatever ran before in this process."""
    RNG.bit_generator.state = _START


def words(count: int, d: str = "f32") -> NDArray[Any]:
    return RNG.integers(0, 2**32, count, dtype=np.uint64).astype(pto.dtype(d).word)


def two_views(
    source: Source, shape: Any, strides: Any, layout: str, rows: int, cols: int, arch: str, args: str = ""
) -> pto.Program:
    """Copies %x to %z through one tile and two views of the same form."""
    s = source(f"%x: !pto.ptr<f32>, %z: !pto.ptr<f32>{args}", arch=arch)
    s.view("%a", "%x", shape, strides, layout).view("%b", "%z", shape, strides, layout)
    s.tile("%t", "f32", rows, cols, layout="col_major" if layout == "dn" else "row_major")
    program: pto.Program = s.load("%a", "%t").store("%t", "%b").program
    return program


#: shape, strides (in elements); DN views run down their next-to-last dimension.
VIEWS = [
    ("nd", (8,), (1,)),
    ("nd", (8,), (3,)),
    ("nd", (4, 8), (8, 1)),
    ("nd", (4, 8), (19, 2)),
    ("nd", (2, 3, 8), (24, 8, 1)),
    ("nd", (2, 3, 8), (50, 9, 1)),
    ("nd", (2, 1, 3, 8), (24, 24, 8, 1)),
    ("nd", (2, 2, 1, 3, 8), (96, 48, 3, 8, 1)),
    ("nd", (2, 2, 2, 3, 8), (200, 100, 40, 9, 1)),
    ("nd", (3, 8), (0, 1)),
    ("dn", (8, 4), (1, 8)),
    ("dn", (8, 4), (2, 19)),
    ("dn", (3, 8, 2), (16, 1, 8)),
    ("dn", (2, 1, 2, 8, 3), (100, 60, 30, 1, 9)),
]


def extents(layout: str, shape: tuple[int, ...]) -> tuple[int, int]:
    full = (1,) * (5 - len(shape)) + shape
    lead = full[0] * full[1] * full[2]
    return (full[3], lead * full[4]) if layout == "dn" else (lead * full[3], full[4])


@pytest.mark.variants(2)
@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize(("layout", "shape", "strides"), VIEWS)
def test_views_of_every_rank_static_and_from_arguments(
    source: Source, agree: Agree, layout: str, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    rows, cols = extents(layout, shape)
    count = 3 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    x, z = words(count), words(count)
    out = agree(two_views(source, shape, strides, layout, rows, cols, "a3"), x, z, eager=False)
    names = [[f"%{letter}{i}" for i in range(len(shape))] for letter in "ns"]
    args = "".join(f", {n}: index" for part in names for n in part)
    dynamic = two_views(source, tuple(names[0]), tuple(names[1]), layout, rows, cols, "cpu_sim", args)
    kernel = pto.compile(dynamic)
    assert (np.asarray(kernel(x, z, *shape, *strides)["z"]) == out["z"]).all()


def windowed(source: Source, valid: Any = None, arch: str = "a3", pad: int = 0) -> pto.Program:
    """z[o:o+8, p:p+8] = x[o:o+8, p:p+8] of 12x20 matrices, the window's offsets as arguments."""
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %o: index, %p: index, %r: index", arch=arch)
    s.view("%a", "%x", (12, 20), (20, 1)).view("%b", "%z", (12, 20), (20, 1))
    s.window("%aw", "%av", ("%o", "%p"), (8, 8)).window("%bw", "%bv", ("%o", "%p"), (8, 8))
    s.tile("%t", "f32", 8, 8, valid=valid, pad=pad).load("%aw", "%t").store("%t", "%bw")
    program: pto.Program = s.program
    return program


@pytest.mark.variants(1)
@pytest.mark.parametrize(("o", "p", "r"), [(0, 0, 8), (4, 12, 8), (1, 7, 3), (2, 2, 0)])
def test_windows_with_dynamic_offsets(source: Source, agree: Agree, o: int, p: int, r: int) -> None:
    x, z = words(240), words(240)
    out = agree(windowed(source, ("%r", 8)), x, z, o, p, r)["z"].reshape(12, 20)
    expected = z.reshape(12, 20).copy()
    expected[o : o + r, p : p + 8] = x.reshape(12, 20)[o : o + r, p : p + 8]
    assert (out == expected).all()


@pytest.mark.variants(1)
@pytest.mark.parametrize(("o", "p"), [(10, 0), (-3, 0), (0, 2**40), (-(2**40), 5), (12, 0), (0, -1)])
def test_lanes_outside_the_buffer_read_zero_and_are_not_written(source: Source, o: int, p: int) -> None:
    x, z = words(240) | np.uint32(1), words(240)
    kernel = pto.compile(windowed(source, ("%r", 8)), checks=False)
    kept = kernel.eager_unchecked(x, z, o, p, 8)["z"]
    rows, cols = np.indices((8, 8))
    where = (o + rows) * 20 + p + cols
    inside = (where >= 0) & (where < 240)
    expected = z.copy()
    expected[where[inside]] = x[where[inside]]
    for out in (kept, kernel(x, z, o, p, 8)["z"]):
        assert (np.asarray(out) == expected).all()
    with pytest.raises(pto.ExecutionError, match=r"got elements .*the buffer of 240 elements"):
        kernel.with_state(x, z, o, p, 8)
    _, report = pto.compile(windowed(source, ("%r", 8)), checks=True)(x, z, o, p, 8)
    assert {(d.instruction, d.rule) for d in report.problems()} == {
        ("partition_view", "window"), ("tload", "in-bounds"), ("tstore", "in-bounds"),
    }  # fmt: skip


def test_out_of_bounds_loads_read_zero(source: Source) -> None:
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %o: index").tile("%t", "f32", 8, 8)
    s.view("%a", "%x", (8, 8), (8, 1)).view("%b", "%z", (8, 8), (8, 1))
    s.window("%aw", "%av", ("%o", 0), (8, 8)).load("%aw", "%t").store("%t", "%b")
    x = np.arange(1, 65, dtype=np.float32)
    out = np.asarray(pto.compile(s.program, checks=False)(x, x, 6)["z"]).reshape(8, 8)
    assert (out[:2] == x.reshape(8, 8)[6:]).all() and (out[2:] == 0).all()


@pytest.mark.parametrize("dynamic", [False, True])
def test_lanes_beyond_the_window_are_not_transferred(source: Source, dynamic: bool) -> None:
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %r: index, %n: index")
    s.view("%a", "%x", (8, 8), (8, 1)).view("%b", "%z", (8, 8), (8, 1))
    rows = "%n" if dynamic else 4
    s.window("%aw", "%av", (0, 0), (rows, 8)).window("%bw", "%bv", (0, 0), (rows, 8))
    s.tile("%t", "f32", 8, 8, valid=("%r", 8)).load("%aw", "%t").store("%t", "%b").store("%t", "%bw")
    x = np.arange(1, 65, dtype=np.float32)
    kernel = pto.compile(s.program, checks=True)
    out, report = kernel(x, -x, 6, 4)
    found = np.asarray(out["z"]).reshape(8, 8)
    expected = np.concatenate([x[:32], np.zeros(16), -x[48:]]).reshape(8, 8)
    assert (found == expected).all()
    assert [d.instruction for d in report.problems()] == ["tload", "tstore"]
    assert not kernel(x, -x, 4, 4)[1].problems()


@pytest.mark.variants(3)
@pytest.mark.parametrize("arch", ["a3", "a5", "cpu_sim"])
@pytest.mark.parametrize("pad", [0, 1, 2, 3])
@pytest.mark.parametrize("layout", ["row_major", "col_major"])
def test_loads_pad_as_the_profile_does(
    source: Source, agree: Agree, arch: str, pad: int, layout: str
) -> None:
    s = source("%x: !pto.ptr<i16>, %z: !pto.ptr<i16>, %r: index, %c: index", arch=arch)
    dn = layout == "col_major"
    kind, strides = ("dn", (1, 32)) if dn else ("nd", (32, 1))
    s.view("%a", "%x", (32, 32), strides, kind).view("%b", "%z", (32, 32), strides, kind)
    s.tile("%t", "i16", 32, 32, at=0, valid=("%r", "%c"), layout=layout, pad=pad)
    s.tile("%whole", "i16", 32, 32, at=0, layout=layout)
    s.load("%b", "%whole").load("%a", "%t").store("%whole", "%b")
    x, z = words(1024, "i16").view(np.int16), words(1024, "i16").view(np.int16)
    kernel = pto.compile(s.program)
    for r, c in ((5, 7), (0, 3), (32, 31), (17, 16)):
        out = agree(s.program, x, z, r, c, eager=False)["z"]
        assert (np.asarray(kernel(x, z, r, c)["z"]) == out).all()


@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize("valid", [(3, 8), (8, 5), (1, 1)])
def test_partial_stores_leave_the_rest(source: Source, agree: Agree, valid: tuple[int, int]) -> None:
    s = (
        source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>")
        .tile("%t", "f32", 8, 8)
        .tile("%p", "f32", 8, 8, valid=valid)
    )
    s.view("%a", "%x", (8, 8), (8, 1)).view("%b", "%z", (8, 8), (8, 1)).window("%bw", "%bv", (0, 0), valid)
    s.load("%a", "%t").op("tmov", "%t", out="%p").store("%p", "%bw")
    x, z = words(64), words(64)
    out = agree(s.program, x, z)["z"].reshape(8, 8)
    expected = z.reshape(8, 8).copy()
    expected[: valid[0], : valid[1]] = x.reshape(8, 8)[: valid[0], : valid[1]]
    assert (out == expected).all()


#: First tile, second tile (type, rows, cols, layout), byte address of the second.
SHARED = {
    "col_major-as-row_major": (("f32", 16, 1, "col_major"), ("f32", 1, 16, "row_major"), 0),
    "f32-as-u8": (("f32", 4, 8, "row_major"), ("u8", 4, 32, "row_major"), 0),
    "f32-as-f16": (("f32", 4, 8, "row_major"), ("f16", 4, 16, "row_major"), 0),
    "f16-col_major-as-f32": (("f16", 16, 4, "col_major"), ("f32", 4, 8, "row_major"), 0),
    "i64-as-i32": (("i64", 2, 4, "row_major"), ("i32", 2, 8, "row_major"), 0),
    "bf16-as-i16": (("bf16", 2, 16, "row_major"), ("i16", 2, 16, "row_major"), 0),
    "other-shape": (("f32", 4, 8, "row_major"), ("f32", 2, 16, "row_major"), 0),
    "smaller": (("f32", 4, 8, "row_major"), ("f32", 2, 8, "row_major"), 0),
    "partial": (("f32", 4, 8, "row_major"), ("f32", 4, 8, "row_major"), 32),
    "partial-other-type": (("f32", 4, 8, "row_major"), ("f16", 4, 16, "row_major"), 64),
    "partial-wider": (("i16", 2, 16, "row_major"), ("f32", 4, 8, "row_major"), 32),
}


@pytest.mark.variants(1)
@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize(
    ("name", "arch"),
    [
        pytest.param(name, arch, marks=() if (i + j) % 2 == 0 else pytest.mark.slow)
        for i, name in enumerate(SHARED)
        for j, arch in enumerate(["a3", "cpu_sim"])
    ],
)
@pytest.mark.filterwarnings("default")
def test_tiles_at_overlapping_addresses(source: Source, agree: Agree, name: str, arch: str) -> None:
    first, second, address = SHARED[name]
    s = source(
        ", ".join(
            f"%{n}: !pto.ptr<{d}>" for n, d in zip("xpyq", [first[0]] * 2 + [second[0]] * 2, strict=True)
        ),
        arch=arch,
    )
    for tile, t, at, pointers in (("%a", first, 0, "xp"), ("%b", second, address, "yq")):
        d, rows, cols, layout = t
        dn = layout == "col_major"
        s.tile(tile, d, rows, cols, at=at, layout=layout)
        for pointer in pointers:
            s.view(
                f"%{pointer}w",
                f"%{pointer}",
                (rows, cols),
                (1, rows) if dn else (cols, 1),
                "dn" if dn else "nd",
            )
    s.load("%xw", "%a").store("%b", "%qw").load("%yw", "%b").store("%a", "%pw")
    x, y = (words(t[1] * t[2], t[0]) for t in (first, second))
    out = agree(s.program, x, np.zeros_like(x), y, np.zeros_like(y))
    changed = out["p"].tobytes() != x.tobytes()
    assert changed and any(out["q"])


def three(source: Source) -> pto.Program:
    """Three tiles that overlap in a chain, and one apart."""
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<i32>, %f: !pto.ptr<f32>")
    s.view("%a", "%x", (4, 8), (8, 1)).view("%b", "%z", (4, 8), (8, 1)).view("%c", "%f", (4, 8), (8, 1))
    s.tile("%p", "f32", 4, 8, at=0).tile("%q", "i32", 4, 8, at=64).tile("%r", "f32", 4, 8, at=160)
    s.tile("%o", "f32", 4, 8, at=512)
    s.load("%a", "%p").op("tnot", "%q", out="%q").op("tneg", "%r", out="%r").store("%q", "%b")
    program: pto.Program = s.op("tadd", "%p", "%r", out="%o").store("%o", "%c").program
    return program


@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
def test_a_chain_of_overlaps(source: Source, agree: Agree) -> None:
    agree(three(source), words(32), words(32).view(np.int32), words(32))


def _primitives(jaxpr: Any) -> Iterator[tuple[str, Any]]:
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            yield equation.primitive.name, variable.aval
        for inner in jaxprs_in_params(equation.params):
            yield from _primitives(inner)


def _byte_arrays(program: pto.Program, *args: Any) -> set[str]:
    traced = jax.make_jaxpr(pto.compile(program))(*args)
    return {name for name, aval in _primitives(traced.jaxpr) if getattr(aval, "dtype", None) == np.uint8}


@pytest.mark.parametrize("addressed", [False, True])
def test_programs_that_never_reinterpret_have_typed_cells(source: Source, addressed: bool) -> None:
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>").view("%a", "%x", (8, 8), (8, 1))
    s.view("%b", "%z", (8, 8), (8, 1))
    for i, name in enumerate(("%t", "%u", "%v")):
        s.tile(name, "f32", 8, 8, at=(0, 256, 0)[i] if addressed else None)
    s.load("%a", "%t").op("tadd", "%t", "%t", out="%u").op("tmul", "%u", "%t", out="%v").store("%v", "%b")
    assert not _byte_arrays(s.program, words(64), words(64))


def test_reinterpreting_programs_do_have_byte_arrays(source: Source) -> None:
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<u8>").view("%a", "%x", (4, 8), (8, 1))
    s.view("%b", "%z", (4, 32), (32, 1)).tile("%t", "f32", 4, 8, at=0).tile("%u", "u8", 4, 32, at=0)
    s.load("%a", "%t").store("%u", "%b")
    assert _byte_arrays(s.program, words(32), words(128, "u8"))


def test_final_tiles_and_memory(source: Source, tmp_path: Any) -> None:
    s = source("%x: !pto.ptr<f32>, %z: !pto.ptr<f32>, %r: index").view("%a", "%x", (8, 8), (8, 1))
    s.view("%b", "%z", (8, 8), (8, 1)).tile("%t", "f32", 8, 8, valid=("%r", 8)).tile(
        "%u", "f16", 8, 16, at=64
    )
    s.load("%a", "%t").op("texpands", "%k: f16", out="%u").store("%t", "%b")
    s.lines.insert(0, "%k = arith.constant 2.0 : f16")
    kernel = pto.compile(s.program, profile="cpu_sim")
    x = np.arange(64, dtype=np.float32)
    outputs, state = kernel.with_state(x, 0 * x, 5)
    assert (np.asarray(outputs["z"]) == np.where(np.arange(64) < 40, x, 0)).all()
    assert set(state.tiles) == {"t", "u"} and (np.asarray(state.tiles["u"]) == 2).all()
    assert (int(state.tiles["t"].valid_rows), int(state.tiles["t"].valid_cols)) == (5, 8)
    state.save(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as stored:
        assert set(stored.files) >= {"tile/t", "tile/t/valid", "tile/u", "tile/u/valid"}
        assert stored["tile/u"].dtype == np.float16 and stored["tile/t/valid"].tolist() == [5, 8]
        assert (stored["tile/t"][:5] == x.reshape(8, 8)[:5]).all()
        assert any(name.startswith("cell/vec@64") for name in stored.files)
    with pytest.raises(pto.FileError, match="cannot be written"):
        state.save(tmp_path / "missing" / "state.npz")


def test_state_under_vmap(source: Source) -> None:
    kernel = pto.compile(windowed(source, ("%r", 8)))
    x = words(480).reshape(2, 240)
    _, state = jax.vmap(kernel.with_state, in_axes=(0, 0, None, None, 0))(x, x, 0, 0, np.array([3, 8]))
    assert state.tiles["t"].words.shape == (2, 8, 8) and np.asarray(state.tiles["t"].v_row).tolist() == [3, 8]
