"""Benchmarks of kernels that are compiled: bandwidth, exact over fast, calls, streams of tiles."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import bench_programs as programs
from benchmarks.bench_run import COLS, ROUNDS, ROWS, TILES, Run, least, median, paired, wait
from pto_jax import text
from pto_jax.api import load
from pto_jax.examples import EXAMPLES
from pto_jax.generate.rank_texts import Text
from pto_jax.ir import Program
from pto_jax.lowering.numerics import Numerics
from pto_jax.runtime.kernel import Kernel, compile
from pto_jax.runtime.ranks import RankKernel
from pto_jax.runtime.tiles import tile

#: Calls that are timed together, as one takes microseconds.
CALLS = 200
#: Tiles that are streamed, and how many times as many a longer stream has.
STREAM, LONGER = 1024, 8
#: Examples whose accesses depend on arguments, on a loop, and on nothing.
CHECKED = ("softmax", "masked_tile", "gqa_decode", "grid_reduction", "gemm_splitk", "rmsnorm")


def _batched(program: Program, numerics: Numerics) -> Callable[..., Any]:
    return jax.jit(jax.vmap(compile(program, numerics=numerics, warn=False)))


def _inputs(n: int, dtype: Any = np.float32) -> list[jax.Array]:
    rng = np.random.default_rng(0)
    shape = (TILES, ROWS * COLS)
    return [jnp.asarray(rng.standard_normal(shape, np.float32).astype(dtype)) for _ in range(n)]


def add_relu_convert(run: Run) -> None:
    """Load two f32 tiles, taddreluconv to f16, store: share of the copy bandwidth, exact and fast."""
    x, y = _inputs(2)
    z = jnp.zeros(x.shape, jnp.float16)
    moved = 2 * x.nbytes + z.nbytes
    bandwidth = run.bandwidth
    targets: dict[Numerics, str] = {"exact": ">= 0.8", "fast": ""}
    for numerics, target in targets.items():
        seconds = median(_batched(programs.add_relu_convert(), numerics), x, y, z)
        share = moved / seconds / bandwidth
        run.add(f"add_relu_convert {numerics}", share, "of copy bandwidth", target, "higher")


def exact_over_fast(run: Run) -> None:
    """Time of exact over fast numerics for one and two instructions and a chain of eight."""
    x, y = _inputs(2)
    z = jnp.zeros(x.shape, jnp.float32)
    for name, instructions in programs.CHAINS.items():
        exact, fast = (_batched(programs.chain(instructions), n) for n in ("exact", "fast"))
        ratio = paired(exact, fast, x, y, z)[2]
        target = "<= 1.3" if len(instructions) <= 2 else "<= 2"
        run.add(f"exact / fast, {name}", ratio, "x", target, "lower")


def tile_cost(run: Run) -> None:
    """Nanoseconds per tile of the add_relu_convert kernel as the batch grows."""
    x, y = _inputs(2)
    z = jnp.zeros(x.shape, jnp.float16)
    call, sizes, costs = _batched(programs.add_relu_convert(), "exact"), (128, 1024, TILES), []
    for tiles in sizes:
        costs.append(median(call, x[:tiles], y[:tiles], z[:tiles]) / tiles)
        run.add(f"cost per tile, batch of {tiles}", costs[-1] * 1e9, "ns")
    run.add(f"cost per tile, {TILES} over {sizes[0]}", costs[-1] / costs[0], "x", "", "lower")


def call_overhead(run: Run) -> None:
    """A call with arrays that are there, over the call of a jitted jnp function on the same shapes."""
    x = jnp.zeros((1, 8), jnp.float32)
    add = jax.jit(lambda a, b: a + b)
    fragment = compile(text.parse(programs.FRAGMENT), warn=False)
    a, flat = tile(x), jnp.zeros(ROWS * COLS, jnp.float32)
    kernel, function = compile(programs.chain(programs.ADDITION), warn=False), programs.function()
    calls: dict[str, Callable[[], Any]] = {
        "jnp": lambda: add(x, x),
        "jnp of a kernel's size": lambda: add(flat, flat),
        "a kernel": lambda: kernel(flat, flat, flat),
        "a fragment": lambda: fragment(a, a),
        "an instruction of pto.ops": lambda: function(a, a),
    }

    def often(call: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: [call() for _ in range(CALLS)][-1]

    seconds = dict(zip(calls, least(*map(often, calls.values())), strict=True))
    run.add("call of a jitted jnp function", seconds["jnp"] / CALLS * 1e6, "us")
    for name, other in (
        ("a kernel", "jnp of a kernel's size"),
        ("a fragment", "jnp"),
        ("an instruction of pto.ops", "jnp"),
    ):
        run.add(f"call of {name}", seconds[name] / seconds[other], "x a jnp call", "<= 3", "lower")


def access_checks(run: Run) -> None:
    """Processor time of calls of shipped examples that check their accesses, over calls that do not."""
    for name in CHECKED:
        example = EXAMPLES[name]
        values, program = example.arguments(), load(example.path)
        kernels = [compile(program, warn=False, grid=example.grid, checks=c) for c in (None, False)]
        args = [jnp.asarray(values[a.name]) for a in kernels[0].arguments]
        calls = (partial(_waited, kernel, args) for kernel in kernels)
        checked, plain = least(*calls, rounds=5 * ROUNDS, clock=time.process_time)
        run.add(f"{name}, accesses checked", checked / plain, "x unchecked", "<= 1.1", "lower")


def _waited(kernel: Kernel, args: list[Any]) -> None:
    for _ in range(CALLS // 10):
        wait(kernel(*args))


def map_cost(run: Run) -> None:
    """Kernel.map of arrays: cost per tile of a stream, and what a tile of a longer stream costs over it."""
    kernel = compile(programs.add_relu_convert(), warn=False)
    x = np.random.default_rng(0).standard_normal((STREAM, ROWS * COLS), np.float32)
    longer = np.tile(x, (LONGER, 1))
    streams = (partial(kernel.map, {"x": rows, "y": rows}) for rows in (x, longer))
    one, more = least(*streams)
    run.add(f"Kernel.map, {len(x)} tiles", one / len(x) * 1e9, "ns per tile")
    run.add(
        f"Kernel.map, cost per tile of {len(longer)} over {len(x)}", more / one / LONGER, "x", "", "lower"
    )


def _ring(rows: int, cols: int) -> str:
    """Every block of a rank puts its part into the next rank's window and waits for what comes."""
    numbers = {"rank": "i32", "n": "i32", "__pypto_spmd_block_idx": "i32"}
    k = Text({"x": "f32", "y": "f32", "s": "i32", "ctx": "i64"}, numbers)
    block, count = k.index("%__pypto_spmd_block_idx"), k.index("%n")
    peer = k.of("remui", k.of("addi", k.index("%rank"), 1), count)
    at, shape = k.of("muli", block, rows * cols), (rows, cols)
    k.put(k.view(k.peer("%y", peer), "f32", shape, at), k.view("%x", "f32", shape, at), shape, "f32")
    k.fence()
    k.notify(k.peer("%s", peer), block)
    k.wait("%s", block)
    return str(k)


def ranks(run: Run) -> None:
    """A ring of 8 ranks with 4 blocks each over jnp's ppermute of the same data."""
    count, grid = 8, 4
    places = [(i, (i + 1) % count) for i in range(count)]

    def moved(v: jax.Array) -> jax.Array:
        result: jax.Array = jax.lax.ppermute(v, "ranks", places)  # type: ignore[no-untyped-call]
        return result

    permute = jax.jit(jax.vmap(moved, axis_name="ranks"))
    for rows, cols in ((16, 64), (64, 64)):
        kernel: RankKernel = compile(
            text.parse(_ring(rows, cols)),
            ranks=count,
            grid=grid,
            shared=("y", "s"),
            context={"ctx": "y"},
            warn=False,
            partial_launch=True,
        )
        x = jnp.asarray(np.random.default_rng(0).standard_normal((count, grid * rows * cols)), jnp.float32)
        values = {"x": x, "y": jnp.zeros_like(x), "s": np.zeros((count, grid), np.int32)}
        call = partial(kernel, **values, rank=list(range(count)), n=count)
        ours, by_hand = least(call, partial(permute, x), rounds=400)
        run.add(f"ring of 8 ranks, {rows}x{cols} over ppermute", ours / by_hand, "x jnp's time", "<= 3")
