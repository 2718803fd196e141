"""Kernels under jit, vmap, shard_map and lax control flow, with JAX's default configuration."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.examples import EXAMPLES

Source = Callable[..., Any]
RNG = np.random.default_rng(7)
_START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _the_same_data_in_any_order() -> None:
    """Tests draw from one generator; each starts it anew, whatever ran before in this process."""
    RNG.bit_generator.state = _START


BATCH = 4


def fused(source: Source) -> pto.Program:
    """z = x * y + s in the leading r x c lanes of an 8x8 matrix."""
    s = source("%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %z: !pto.ptr<f32>, %s: f32, %r: index, %c: index")
    for pointer in "xyz":
        s.view(f"%{pointer}w", f"%{pointer}", (8, 8), (8, 1))
        s.tile(f"%{pointer}t", "f32", 8, 8, valid=("%r", "%c"))
    s.load("%xw", "%xt").load("%yw", "%yt").op("tmul", "%xt", "%yt", out="%zt")
    program: pto.Program = s.op("tadds", "%zt", "%s: f32", out="%zt").store("%zt", "%zw").program
    return program


def bits(count: int, *lead: int) -> NDArray[np.float32]:
    """Random patterns, so that contraction and flushing would show."""
    return RNG.integers(0, 2**32, (*lead, count), dtype=np.uint64).astype(np.uint32).view(np.float32)


def same(got: Any, expected: Any) -> None:
    a, b = np.asarray(got), np.asarray(expected)
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


@pytest.fixture(name="kernel", scope="module")
def _kernel() -> Any:
    return {}


@pytest.fixture(name="k")
def _k(kernel: dict[str, pto.Kernel], source: Source) -> pto.Kernel:
    return kernel.setdefault("k", pto.compile(fused(source)))


X, Y, Z = (bits(64, BATCH) for _ in range(3))
S = bits(1, BATCH)[:, 0]
ROWS, COLS = np.array([8, 5, 0, 3], np.int32), np.array([8, 3, 8, 7], np.int32)


def one_by_one(k: pto.Kernel) -> NDArray[Any]:
    return np.stack([np.asarray(k(X[b], Y[b], Z[b], S[b], ROWS[b], COLS[b])["z"]) for b in range(BATCH)])


@pytest.mark.slow
def test_one_call_agrees_with_the_interpreter(agree: Any, source: Source) -> None:
    for b in range(BATCH):
        agree(fused(source), X[b], Y[b], Z[b], float(S[b]), int(ROWS[b]), int(COLS[b]), eager=b == 1)


@pytest.mark.slow
def test_vmap_over_buffers_scalars_and_valid_sizes(k: pto.Kernel) -> None:
    same(jax.vmap(k)(X, Y, Z, S, ROWS, COLS)["z"], one_by_one(k))
    same(jax.jit(jax.vmap(k))(X, Y, Z, S, ROWS, COLS)["z"], one_by_one(k))


@pytest.mark.slow
def test_vmap_with_in_axes(k: pto.Kernel) -> None:
    got = jax.vmap(k, in_axes=(0, None, None, 0, None, 0))(X, Y[0], Z[0], S, 5, COLS)["z"]
    expected = [np.asarray(k(X[b], Y[0], Z[0], S[b], 5, COLS[b])["z"]) for b in range(BATCH)]
    same(got, np.stack(expected))
    transposed = jax.vmap(k, in_axes=(1, None, None, 0, None, 0))(X.T, Y[0], Z[0], S, 5, COLS)["z"]
    same(transposed, np.stack(expected))


def test_nested_vmap(k: pto.Kernel) -> None:
    args = [a.reshape(2, 2, *a.shape[1:]) for a in (X, Y, Z, S, ROWS, COLS)]
    same(jax.vmap(jax.vmap(k))(*args)["z"], one_by_one(k).reshape(2, 2, 64))


def test_inside_a_jitted_function_and_another_jit(k: pto.Kernel) -> None:
    inner = jax.jit(lambda x, y: k(x, y, Z[0], 1.5, 8, 8)["z"])

    @jax.jit
    def outer(x: Any, y: Any) -> Any:
        return inner(x, y), inner(y, x)

    first, second = outer(X[0], Y[0])
    same(first, k(X[0], Y[0], Z[0], 1.5, 8, 8)["z"])
    same(second, k(Y[0], X[0], Z[0], 1.5, 8, 8)["z"])


def test_shard_map_over_two_devices(k: pto.Kernel) -> None:
    assert len(jax.devices()) == 2
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    over = PartitionSpec("d")  # type: ignore[no-untyped-call]
    sharded = jax.shard_map(jax.vmap(k), mesh=mesh, in_specs=(over,) * 6, out_specs=over)
    same(jax.jit(sharded)(X, Y, Z, S, ROWS, COLS)["z"], one_by_one(k))


@pytest.mark.slow
def test_scan_fori_and_while(k: pto.Kernel) -> None:
    expected = Z[0]
    for b in range(BATCH):
        expected = np.asarray(k(X[b], Y[b], expected, S[b], ROWS[b], COLS[b])["z"])

    def step(carry: Any, given: Any) -> Any:
        z = k(given[0], given[1], carry, *given[2:])["z"]
        return z, z

    last, every = jax.lax.scan(step, jnp.asarray(Z[0]), (X, Y, S, ROWS, COLS))
    same(last, expected)
    same(every[-1], expected)

    def body(i: Any, carry: Any) -> Any:
        arrays = [jnp.asarray(a)[i] for a in (X, Y, S, ROWS, COLS)]
        return step(carry, arrays)[0]

    same(jax.jit(lambda z: jax.lax.fori_loop(0, BATCH, body, z))(Z[0]), expected)
    looped = jax.lax.while_loop(
        lambda c: c[0] < BATCH, lambda c: (c[0] + 1, body(c[0], c[1])), (0, jnp.asarray(Z[0]))
    )
    same(looped[1], expected)


def test_cond_and_switch(k: pto.Kernel) -> None:
    @jax.jit
    def choose(which: Any, x: Any, y: Any) -> Any:
        return jax.lax.cond(which > 0, lambda: k(x, y, x, 1.0, 8, 8)["z"], lambda: y)

    same(choose(1, X[0], Y[0]), k(X[0], Y[0], X[0], 1.0, 8, 8)["z"])
    same(choose(0, X[0], Y[0]), Y[0])


def test_checkpoint_and_stop_gradient_pass_through(k: pto.Kernel) -> None:
    remat: Any = jax.checkpoint(lambda x: k(x, Y[0], Z[0], 1.0, 8, 8)["z"])
    same(remat(X[0]), k(X[0], Y[0], Z[0], 1.0, 8, 8)["z"])

    def loss(w: Any) -> Any:
        x = jnp.ones(64) * jax.lax.stop_gradient(w)
        return jnp.sum(k(x, x, x, 0.0, 8, 8)["z"] * w)

    assert float(jax.grad(loss)(3.0)) == 64 * 9


LONG = np.array([[2**40 + 1, -(2**62), 2**63 - 1, -(2**63), 0, -1, 3, 2**33]], np.int64)


def long_kernel(source: Source, d: str = "i64") -> pto.Kernel:
    s = source(f"%x: !pto.ptr<{d}>, %z: !pto.ptr<{d}>", arch="cpu_sim")
    s.view("%a", "%x", (1, 8), (8, 1)).view("%b", "%z", (1, 8), (8, 1)).tile("%t", d, 1, 8)
    s.load("%a", "%t").op("tadd", "%t", "%t", out="%t").store("%t", "%b")
    return pto.compile(s.program)


def test_64_bit_buffers_need_no_configuration(source: Source) -> None:
    kernel = long_kernel(source)
    out = kernel(LONG, LONG)["z"]
    assert jax.config.jax_enable_x64 is False  # type: ignore[attr-defined]
    assert out.dtype == np.int64 and (np.asarray(out) == LONG + LONG).all()
    again = jax.jit(lambda a: kernel(a, a))(out)["z"]
    assert again.dtype == np.int64 and (np.asarray(again) == 4 * LONG).all()
    stacked = jax.vmap(kernel)(jax.vmap(lambda a: kernel(a, a)["z"])(out[None]), out[None])["z"]
    assert stacked.dtype == np.int64 and (np.asarray(stacked[0]) == 8 * LONG).all()
    assert jnp.arange(3).dtype == np.int32


def test_64_bit_tiles_need_no_configuration() -> None:
    made = pto.tile(LONG)
    total = pto.ops.tadd(made, made, profile="cpu_sim")
    assert np.asarray(total).dtype == np.int64 and (np.asarray(total) == 2 * LONG).all()
    assert total.array.dtype == np.int64
    jitted = jax.jit(lambda t: pto.ops.tadd(t, t, profile="cpu_sim"))(total)
    assert (np.asarray(jitted) == 4 * LONG).all() and jitted.array.dtype == np.int64
    assert jax.config.jax_enable_x64 is False  # type: ignore[attr-defined]


def test_narrowed_64_bit_data_is_an_error(source: Source) -> None:
    kernel, unsigned = long_kernel(source), long_kernel(source, "u64")
    message = "got an array of u?int32; allowed: [iu]64 .*JAX narrows 64-bit arrays"
    given: list[Callable[[], Any]] = [
        lambda: kernel(jnp.asarray(np.ones(8, np.int32)), LONG),
        lambda: jax.jit(lambda x: kernel(x, x))(LONG),
        lambda: jax.vmap(kernel)(LONG[None], LONG[None]),
        lambda: jax.jit(lambda x: unsigned(x, x))(LONG.view(np.uint64)),
        lambda: jax.jit(lambda x: pto.tile(x, dtype="i64"))(LONG),
    ]
    for call in given:
        with pytest.raises(pto.ArgumentError, match=message):
            call()


def test_with_x64_enabled_by_the_user(source: Source) -> None:
    kernel = long_kernel(source)
    with jax.enable_x64(True):
        out = jax.jit(lambda x: kernel(x, x)["z"] + 1)(LONG)
        assert out.dtype == np.int64 and (np.asarray(out) == 2 * LONG + 1).all()
        batched = jax.vmap(kernel)(LONG[None], LONG[None])["z"]
        assert (np.asarray(batched[0]) == 2 * LONG).all()


def test_the_callers_own_dtypes_stay_narrow(k: pto.Kernel) -> None:
    @jax.jit
    def f(x: Any) -> Any:
        z = k(x, x, x, 1, 8, 8)["z"]
        return z + 1, jnp.arange(3), jnp.float32(2) * 3

    z, counted, product = f(X[0])
    assert (z.dtype, counted.dtype, product.dtype) == (np.float32, np.int32, np.float32)
    assert jax.config.jax_enable_x64 is False  # type: ignore[attr-defined]


def test_eager_execution_gives_the_same_bits(k: pto.Kernel) -> None:
    for b in range(BATCH):
        args = (X[b], Y[b], Z[b], S[b], ROWS[b], COLS[b])
        same(k.eager(*args)["z"], k(*args)["z"])


def test_kernels_are_valid_static_arguments(k: pto.Kernel) -> None:
    @jax.jit(static_argnums=0)
    def call(kernel: pto.Kernel, x: Any) -> Any:
        return kernel(x, x, x, 1.0, 8, 8)["z"]

    same(call(k, X[0]), k(X[0], X[0], X[0], 1.0, 8, 8)["z"])


@pytest.mark.slow
def test_a_batch_of_nothing_has_results_of_its_shape(source: Source) -> None:
    kernel = pto.compile(fused(source))
    batch = np.zeros((0, 64), np.float32)
    mapped: Any = jax.vmap(lambda x, y, z: kernel(x, y, z, 2.0, 8, 8)["z"])
    assert mapped(batch, batch, batch).shape == (0, 64)
    topk = EXAMPLES["topk"]
    arguments = topk.inputs(np.random.default_rng(0))
    empty = {name: np.zeros((0, *np.shape(a)), np.asarray(a).dtype) for name, a in arguments.items()}
    kernel = pto.compile(pto.load(topk.path), grid=topk.grid)
    results: Any = jax.vmap(lambda a: kernel(**a))
    for name, result in results(empty).items():
        assert result.shape == (0, *np.shape(arguments[name]))
