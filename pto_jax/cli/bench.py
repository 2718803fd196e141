"""Benchmarks: ratios inside one run, always with the copy bandwidth measured in the same run.

``pto-jax bench [NAME...] [--json OUT]``. Times are medians of several calls after a warm-up; bandwidth
counts every byte that a case must read and write once.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import examples, text
from ..errors import ArgumentError, PtoError
from ..files import write_text
from ..ir.program import Program
from ..lowering import rules
from ..lowering.numerics import Numerics
from ..runtime.kernel import Kernel, compile
from . import bench_examples
from .options import KEEP_COMPILED

ROUNDS = 9
TILES = 4096
ROWS = COLS = 64


@dataclass(frozen=True)
class Figure:
    """One measured number; ``target`` is what the design asks for, empty when it asks for nothing."""

    name: str
    value: float
    unit: str
    target: str = ""

    def __str__(self) -> str:
        target = f"   (wanted {self.target})" if self.target else ""
        return f"  {self.name:<44}{self.value:>12.3f} {self.unit}{target}"


@dataclass
class Run:
    """One benchmark run: the machine's copy bandwidth is measured once, next to the cases."""

    figures: list[Figure] = field(default_factory=list)
    _bandwidth: float | None = None

    def add(self, name: str, value: float, unit: str, target: str = "") -> None:
        """Keep a figure and print it."""
        self.figures.append(Figure(name, value, unit, target))
        print(self.figures[-1], flush=True)

    @property
    def bandwidth(self) -> float:
        """Bytes per second that XLA copies (reads and writes counted) at the size of the tile batch."""
        if self._bandwidth is None:
            words = jnp.asarray(np.arange(TILES * ROWS * COLS * 2, dtype=np.uint32))
            seconds = median(jax.jit(lambda x: x ^ np.uint32(1)), words)
            self._bandwidth = 2 * words.nbytes / seconds
            self.add("copy bandwidth", self._bandwidth / 1e9, "GB/s")
        return self._bandwidth


def _wait(x: Any) -> None:
    jax.block_until_ready(x)  # type: ignore[no-untyped-call]


def median(f: Callable[..., Any], *args: Any) -> float:
    """Median seconds of a call, compiled and warm."""
    _wait(f(*args))
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        _wait(f(*args))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def paired(f: Callable[..., Any], g: Callable[..., Any], *args: Any) -> tuple[float, float, float]:
    """Median seconds of two calls taken in turn, and the median of their ratios."""
    _wait((f(*args), g(*args)))
    seconds: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        pair = []
        for call in (f, g):
            start = time.perf_counter()
            _wait(call(*args))
            pair.append(time.perf_counter() - start)
        seconds.append((pair[0], pair[1]))
    first, second = (statistics.median(t) for t in zip(*seconds, strict=True))
    return first, second, statistics.median(a / b for a, b in seconds)


def _program(body: list[str], buffers: dict[str, str], tiles: dict[str, str]) -> Program:
    """A kernel over ROWS x COLS buffers: views of every buffer, tiles, and the given instructions."""
    args = ", ".join(f"%{n}: !pto.ptr<{d}>" for n, d in buffers.items())
    lines = [
        'module attributes {"pto.target_arch" = "a3"} {',
        f"  func.func @bench({args}) {{",
        "    %c0 = arith.constant 0 : index",
        "    %c1 = arith.constant 1 : index",
        f"    %r = arith.constant {ROWS} : index",
        f"    %c = arith.constant {COLS} : index",
    ]
    for n, d in buffers.items():
        view, window = f"!pto.tensor_view<?x?x{d}>", _window(d)
        lines += [
            f"    %v{n} = pto.make_tensor_view %{n}, shape = [%r, %c], strides = [%c, %c1] : {view}",
            f"    %p{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%r, %c]"
            f" : {view} -> {window}",
        ]
    lines += [f"    %{n} = pto.alloc_tile : {_tile(d)}" for n, d in tiles.items()]
    return text.parse(
        "\n".join([*lines, *(f"    {line}" for line in body), "    return", "  }", "}"]), "<bench>"
    )


def _window(d: str) -> str:
    return f"!pto.partition_tensor_view<{ROWS}x{COLS}x{d}>"


def _tile(d: str) -> str:
    return f"!pto.tile_buf<vec, {ROWS}x{COLS}x{d}>"


def _load(tile: str, buffer: str, d: str) -> str:
    return f"pto.tload ins(%p{buffer} : {_window(d)}) outs(%{tile} : {_tile(d)})"


def _store(tile: str, buffer: str, d: str) -> str:
    return f"pto.tstore ins(%{tile} : {_tile(d)}) outs(%p{buffer} : {_window(d)})"


def _apply(name: str, sources: str, out: str, d: str, to: str) -> str:
    listed = ", ".join(f"%{s}" for s in sources)
    types = ", ".join(_tile(d) for _ in sources)
    return f"pto.{name} ins({listed} : {types}) outs(%{out} : {_tile(to)})"


def _batched(program: Program, numerics: Numerics) -> tuple[Kernel, Callable[..., Any]]:
    kernel = compile(program, numerics=numerics, warn=False)
    return kernel, jax.jit(jax.vmap(kernel))


def _inputs(n: int, dtype: Any = np.float32) -> list[jax.Array]:
    rng = np.random.default_rng(0)
    shape = (TILES, ROWS * COLS)
    return [jnp.asarray(rng.standard_normal(shape, np.float32).astype(dtype)) for _ in range(n)]


# Instructions by name: these are the programs that are measured.
def add_relu_convert(run: Run) -> None:
    """Load two f32 tiles, taddreluconv to f16, store: share of the copy bandwidth, exact and fast."""
    body = [_load("a", "x", "f32"), _load("b", "y", "f32"), _apply("taddreluconv", "ab", "d", "f32", "f16")]
    body.append(_store("d", "z", "f16"))
    program = _program(body, {"x": "f32", "y": "f32", "z": "f16"}, {"a": "f32", "b": "f32", "d": "f16"})
    x, y = _inputs(2)
    z = jnp.zeros(x.shape, jnp.float16)
    moved = 2 * x.nbytes + z.nbytes
    bandwidth = run.bandwidth
    targets: dict[Numerics, str] = {"exact": ">= 0.8", "fast": ""}
    for numerics, target in targets.items():
        seconds = median(_batched(program, numerics)[1], x, y, z)
        run.add(f"add_relu_convert {numerics}", moved / seconds / bandwidth, "of copy bandwidth", target)


def exact_over_fast(run: Run) -> None:
    """Time of exact over fast numerics for one and two instructions and a chain of eight."""
    chains = {
        "tadd": ["tadd"],
        "tmul": ["tmul"],
        "tmul tadd": ["tmul", "tadd"],
        "chain of 8": ["tmul", "tadd"] * 4,
    }
    x, y = _inputs(2)
    z = jnp.zeros(x.shape, jnp.float32)
    for name, instructions in chains.items():
        body = [_load("a", "x", "f32"), _load("b", "y", "f32")]
        body += [_apply(i, "ab", "a", "f32", "f32") for i in instructions]
        body.append(_store("a", "z", "f32"))
        program = _program(body, dict.fromkeys("xyz", "f32"), dict.fromkeys("ab", "f32"))
        exact, fast = (_batched(program, n)[1] for n in ("exact", "fast"))
        ratio = paired(exact, fast, x, y, z)[2]
        run.add(f"exact / fast, {name}", ratio, "x", "<= 1.3" if len(instructions) <= 2 else "<= 3")


def tile_cost(run: Run) -> None:
    """Nanoseconds per tile of the add_relu_convert kernel as the batch grows."""
    body = [_load("a", "x", "f32"), _load("b", "y", "f32"), _apply("taddreluconv", "ab", "d", "f32", "f16")]
    body.append(_store("d", "z", "f16"))
    program = _program(body, {"x": "f32", "y": "f32", "z": "f16"}, {"a": "f32", "b": "f32", "d": "f16"})
    x, y = _inputs(2)
    z = jnp.zeros(x.shape, jnp.float16)
    call = _batched(program, "exact")[1]
    for tiles in (128, 1024, TILES):
        seconds = median(call, x[:tiles], y[:tiles], z[:tiles])
        run.add(f"cost per tile, batch of {tiles}", seconds / tiles * 1e9, "ns")


def compile_time(run: Run) -> None:
    """Seconds to parse, verify, trace, lower and compile a straight-line kernel of 100 instructions."""
    body = [_load("a", "x", "f32"), _load("b", "y", "f32")]
    names = ("tadd", "tmul", "tmax", "tsub", "tmin", "tdiv")
    body += [_apply(names[i % len(names)], "ab", "a", "f32", "f32") for i in range(97)]
    body.append(_store("a", "z", "f32"))
    source = str(_program(body, dict.fromkeys("xyz", "f32"), dict.fromkeys("ab", "f32")))
    x = jnp.zeros(ROWS * COLS, jnp.float32)
    jax.clear_caches()  # type: ignore[no-untyped-call]
    rules.jitted.cache_clear()
    start = time.perf_counter()
    program = text.parse(source, "<bench>")
    parsed = time.perf_counter()
    kernel = compile(program, warn=False)
    verified = time.perf_counter()
    _wait(kernel(x, x, x))
    total = time.perf_counter()
    run.add("100 instructions: parse", parsed - start, "s")
    run.add("100 instructions: verify", verified - parsed, "s")
    run.add("100 instructions: parse to first result", total - start, "s", "<= 2")


def looped_program(loops: int = 4, body: int = 22) -> str:
    """A kernel of about 100 instructions in loops whose trips an argument gives."""
    lines = [
        'module attributes {"pto.target_arch" = "a3"} {',
        "  func.func @looped(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {",
        *(f"    %c{n} = arith.constant {n} : index" for n in (0, 1, 16, 64, 256)),
    ]
    view, window = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<16x64xf32>"
    tile, column = "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>"
    for b in "xy":
        lines.append(
            f"    %v{b} = pto.make_tensor_view %{b}, shape = [%c256, %c64], strides = [%c64, %c1] : {view}"
        )
    lines += [f"    %{t} = pto.alloc_tile : {tile}" for t in "ab"]
    lines.append(f"    %r = pto.alloc_tile : {column}")
    names = (
        *("tadd", "tmul", "tmax", "trowsum", "trowexpandsub", "texp", "tsub", "tmin"),
        *("trowmax", "trowexpandadd"),
    )
    for _ in range(loops):
        lines += ["    scf.for %i = %c0 to %n step %c1 {", "      %row = arith.muli %i, %c16 : index"]
        for b in "xy":
            lines.append(
                f"      %w{b} = pto.partition_view %v{b}, offsets = [%row, %c0], sizes = [%c16, %c64]"
                f" : {view} -> {window}"
            )
        lines.append(f"      pto.tload ins(%wx : {window}) outs(%a : {tile})")
        for i in range(body - 2):
            name = names[i % len(names)]
            if name in ("trowsum", "trowmax"):
                operands = f"ins(%a, %b : {tile}, {tile}) outs(%r : {column})"
            elif name.startswith("trowexpand"):
                operands = f"ins(%a, %r : {tile}, {column}) outs(%b : {tile})"
            elif name == "texp":
                operands = f"ins(%b : {tile}) outs(%b : {tile})"
            else:
                operands = f"ins(%a, %b : {tile}, {tile}) outs(%a : {tile})"
            lines.append(f"      pto.{name} {operands}")
        lines += [f"      pto.tstore ins(%a : {tile}) outs(%wy : {window})", "    }"]
    return "\n".join([*lines, "    return", "  }", "}"])


#: Runs in a process of its own, so that nothing is compiled yet; imports and the start of the device and
#: of the reader's tables are not counted.
_FIRST_RESULT = """
import sys, time, numpy as np, jax
import pto_jax.runtime.kernel
from pto_jax.cli import bench
jax.block_until_ready(jax.numpy.zeros(1) + 1)
pto_jax.runtime.kernel.compile(bench.text.parse("%d = tadd %a, %b : !pto.tile<1x8xf32>", "<first>"))
x = np.zeros(256 * 64, np.float32)
source = bench.looped_program()
start = time.perf_counter()
program = bench.text.parse(source, "<bench>")
kernel = pto_jax.runtime.kernel.compile(program, warn=False)
jax.block_until_ready(kernel(x, x, np.int64(16)))
print(time.perf_counter() - start)
"""


def compile_loops(run: Run) -> None:
    """Seconds from text to first result of 100 instructions in loops, median of new processes."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {**KEEP_COMPILED, "JAX_COMPILATION_CACHE_DIR": folder}
        plain = {k: v for k, v in os.environ.items() if k not in kept}
        for name, target, environment, times in (
            ("cold", "<= 2", plain, 3),
            ("filling the persistent cache", "", {**os.environ, **kept}, 1),
            ("with the persistent cache", "<= 0.3", {**os.environ, **kept}, 7),
        ):
            seconds = statistics.median(_first_result(environment) for _ in range(times))
            run.add(f"100 instructions in loops, {name}", seconds, "s", target)


def _first_result(environment: dict[str, str]) -> float:
    """Seconds that a new process measures."""
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_RESULT], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PtoError(f"compile_loops: the process ended with {done.returncode}: {done.stderr[-500:]}")
    return float(done.stdout)


def shipped_examples(run: Run) -> None:
    """Every shipped example, batched, over the same computation by hand in jnp: fast and exact."""
    for name, example in examples.EXAMPLES.items():
        values = bench_examples.batch(example)
        for numerics, target in bench_examples.TARGETS.items():
            found = bench_examples.ratio(example, values, numerics)
            run.add(f"{name} {numerics}", found, "x jnp's time", target)


def lockstep(run: Run) -> None:
    """Distinct random programs per second, made, executed and hashed in lockstep."""
    from ..lockstep.speed import figures

    for name, value, unit, target in figures():
        run.add(name, value, unit, target)


def campaign(run: Run) -> None:
    """Campaigns of a fixed seed: cases per second, time to the first, a worker's memory, coverage."""
    from ..campaign.fuzz.measure import DECLINING, measured
    from ..campaign.fuzz.plan import Plan, in_lockstep

    usual = in_lockstep(Plan(tested="lockstep"))
    nothing = "python:pto_jax.campaign.fuzz.measure:Nothing"
    # Braces are doubled, as in a command line with placeholders.
    script = DECLINING.replace("{", "{{").replace("}", "}}")
    server = f"dut-server:{shlex.join([sys.executable, '-S', '-c', script])}"
    device = in_lockstep(Plan(tested=server))
    straight = ("straight",)
    for name, plan, workers, target in (
        ("default", usual, 1, ""),
        (
            "lockstep, a server that costs nothing, 2 workers",
            replace(device, count=2 * device.batch),
            2,
            ">= 1000",
        ),
        ("a device that costs nothing", Plan(count=512, tested=nothing), 1, ""),
        ("oracle twice", Plan(count=256, tested="interpreter", presets=straight), 1, ""),
        ("oracle and engine", Plan(count=64, batch=16, presets=straight), 1, ""),
    ):
        result = measured(plan, workers)
        run.add(f"campaign, {name}: rate", result.rate, "cases/s", target)
        run.add(f"campaign, {name}: to the first result", result.first, "s")
        run.add(f"campaign, {name}: peak of the worker", result.memory / (1 << 20), "MiB")
        run.add(f"campaign, {name}: coverage", result.cells, "cells")


CASES: dict[str, Callable[[Run], None]] = {
    "add_relu_convert": add_relu_convert,
    "exact_over_fast": exact_over_fast,
    "tile_cost": tile_cost,
    "compile_time": compile_time,
    "compile_loops": compile_loops,
    "examples": shipped_examples,
    "lockstep": lockstep,
    "campaign": campaign,
}


def main(names: list[str], json_out: str | None) -> int:
    """Run the named benchmarks (all without names); the exit status of the command."""
    unknown = [n for n in names if n not in CASES]
    if unknown:
        raise ArgumentError(f"no benchmark {', '.join(unknown)}; known: {', '.join(CASES)}")
    device = jax.devices()[0]
    print(f"device: {device.device_kind}, {jax.device_count()} device(s); jax {jax.__version__}")
    run = Run()
    for name in names or CASES:
        print(f"{name}: {(CASES[name].__doc__ or '').splitlines()[0]}", flush=True)
        CASES[name](run)
    if json_out:
        listed = [vars(f) for f in run.figures]
        write_text(json_out, json.dumps({"device": device.device_kind, "figures": listed}, indent=1) + "\n")
    return 0
