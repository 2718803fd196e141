"""Benchmarks of what comes before the first result: reading, verifying, tracing, compiling."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import bench_programs as programs
from benchmarks.bench_run import COLS, ROWS, Run, wait
from pto_jax import text, verify
from pto_jax.cli import options
from pto_jax.editors.documents import Document, Settings
from pto_jax.errors import PtoError
from pto_jax.examples import EXAMPLES
from pto_jax.lowering import rules
from pto_jax.runtime.kernel import compile

#: Instructions of the texts whose costs are compared.
LENGTHS = (100, 400, 1600)


def _forget() -> None:
    """Drop what was compiled."""
    jax.clear_caches()  # type: ignore[no-untyped-call]
    rules.jitted.cache_clear()


def _by_hand(count: int) -> float:
    """Seconds to the first result of a jnp function of as many operations."""
    x = np.ones((ROWS, COLS), np.float32)
    operations = (jnp.add, jnp.multiply, jnp.maximum, jnp.subtract, jnp.minimum, jnp.divide)

    def chain(a: jax.Array, b: jax.Array) -> jax.Array:
        for i in range(count):
            a = operations[i % len(operations)](a, b)
        return a

    _forget()
    start = time.perf_counter()
    wait(jax.jit(chain)(x, x))
    return time.perf_counter() - start


def editor(run: Run) -> None:
    """An editor's answers on all examples as one text of a thousand lines, over reading and verifying it."""
    source = "module {\n" + "\n".join(e.path.read_text() for e in EXAMPLES.values()) + "}\n"
    place, least = source.rindex("%out_window") + 2, dict[str, float]()
    asked = {"diagnostics": Settings(), "hover": place, "definition": place, "completions": place}
    for i in range(5):
        # Each time another text, as after a change.
        changed = source.replace("module {", "module {" + " " * i, 1)
        start = time.process_time()
        verify(text.parse(changed, "<bench>"))
        least["parse and verify"] = min(least.get("parse and verify", 9.9), time.process_time() - start)
        for name, argument in asked.items():
            document = Document("<bench>", changed)
            start = time.process_time()
            getattr(document, name)(argument if name == "diagnostics" else place + i)
            least[name] = min(least.get(name, 9.9), time.process_time() - start)
    for name in asked:
        run.add(f"editor, {name}", least[name] / least["parse and verify"], "x parse and verify", "<= 2")


def compile_time(run: Run) -> None:
    """Seconds to parse, verify, trace, lower and compile a straight-line kernel of 100 instructions."""
    source = programs.straight(100)
    x = jnp.zeros(ROWS * COLS, jnp.float32)
    by_hand = _by_hand(100)
    _forget()
    start = time.perf_counter()
    program = text.parse(source, "<bench>")
    parsed = time.perf_counter()
    kernel = compile(program, warn=False)
    verified = time.perf_counter()
    wait(kernel(x, x, x))
    total = time.perf_counter() - start
    run.add("100 instructions: parse", parsed - start, "s")
    run.add("100 instructions: verify", verified - parsed, "s")
    run.add("100 instructions: parse to first result", total, "s", "<= 2")
    run.add("100 instructions: first result", total / by_hand, "x jnp's", "", "lower")


def compile_curve(run: Run) -> None:
    """Seconds from text to first result per instruction, as a straight-line text grows."""
    x = np.zeros(ROWS * COLS, np.float32)
    each = []
    for count in LENGTHS:
        source = programs.straight(count)
        _forget()
        start = time.perf_counter()
        wait(compile(text.parse(source, "<bench>"), warn=False)(x, x, x))
        seconds = time.perf_counter() - start
        each.append(seconds / count)
        run.add(f"text of {count} instructions to first result", seconds, "s")
    for count, seconds in zip(LENGTHS[1:], each[1:], strict=True):
        name = f"cost per instruction, {count} over {LENGTHS[0]}"
        run.add(name, seconds / each[0], "x", "<= 2", "lower")


#: Runs in a process of its own, so that nothing is compiled yet; imports and the start of the device and
#: of the reader's tables are not counted.
_FIRST_RESULT = """
import sys, time, numpy as np, jax
import pto_jax.runtime.kernel
from pto_jax import text
from benchmarks import bench_programs
jax.block_until_ready(jax.numpy.zeros(1) + 1)
pto_jax.runtime.kernel.compile(text.parse("%d = tadd %a, %b : !pto.tile<1x8xf32>", "<first>"))
x = np.zeros(256 * 64, np.float32)
source = bench_programs.looped_program()
start = time.perf_counter()
program = text.parse(source, "<bench>")
kernel = pto_jax.runtime.kernel.compile(program, warn=False)
jax.block_until_ready(kernel(x, x, np.int64(16)))
print(time.perf_counter() - start)
"""


def compile_loops(run: Run) -> None:
    """Seconds from text to first result of 100 instructions in loops, median of new processes."""
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        kept = {**options.KEEP_COMPILED, "JAX_COMPILATION_CACHE_DIR": folder}
        plain = {k: v for k, v in os.environ.items() if k not in kept}
        for name, target, environment, times in (
            ("cold", "<= 2", plain, 3),
            ("filling JAX's cache", "", {**os.environ, **kept}, 1),
            ("with JAX's cache", "", {**os.environ, **kept}, 7),
        ):
            seconds[name] = statistics.median(_first_result(environment) for _ in range(times))
            run.add(f"100 instructions in loops, {name}", seconds[name], "s", target)
    share = seconds["with JAX's cache"] / seconds["cold"]
    run.add("100 instructions in loops, cached over cold", share, "x", "", "lower")


def _first_result(environment: dict[str, str]) -> float:
    """Seconds that a new process measures."""
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_RESULT], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PtoError(f"compile_loops: the process ended with {done.returncode}: {done.stderr[-500:]}")
    return float(done.stdout)
