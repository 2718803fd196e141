"""One hour on a device: everything about it that no other machine can tell.

``python -m tools.device_hour [--device gpu|cpu] [--minutes N] [--json FILE] [--batch N...] [--only KIND...]``
compares bits first (float formulas, shipped examples, lockstep programs and layers with this machine's CPU,
one operation per declaration with the interpreter), then measures: launches per call from the profiler, the
bandwidth of a copy, times of examples and layers in exact and fast numerics and of jnp. Every result is
written to the JSON file as soon as it is there; the same command goes on from it. The table of all results
is printed at the end. Exit status: 0 all done and equal, 1 something differs, 2 wrong use, 3 time is up.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import bench_examples
from benchmarks.bench_run import wait
from pto_jax import isa, nn
from pto_jax.errors import ArgumentError, PtoError, brief
from pto_jax.examples import EXAMPLES
from pto_jax.files.write import write_text
from pto_jax.lockstep.stream import Runner
from pto_jax.lockstep.tables import table
from pto_jax.lowering.numerics import Numerics
from pto_jax.profiles import PROFILES
from pto_jax.testing import device_check, differential

#: What is done, in the order of what it is worth when time runs out.
KINDS = ("formulas", "examples", "lockstep", "layers", "launches", "copy", "times", "declarations")
BATCHES = (1, 256, 4096)
NUMERICS: tuple[Numerics, ...] = ("exact", "fast")
#: Programs in lockstep, rows and sizes of a layer, bytes of a copy, and calls of which the least time counts.
PROGRAMS, ROWS, SIZES, COPIED, CALLS = 65_536, 257, (1000, 333), 1 << 28, 7
#: Layers by format: what :func:`pto_jax.nn.linear` multiplies in.
FORMATS = ("int8", "fp8", "mx", "f16", "bf16", "f32")

#: What a step finds, as JSON has it; "different" counts lanes or arrays that differ.
Result = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One thing to do: its kind, its name in tables, and the function that does it on a device."""

    kind: str
    name: str
    do: Callable[[Any], Result]

    @property
    def key(self) -> str:
        """What results are kept under."""
        return f"{self.kind}: {self.name}"


def steps(batches: Sequence[int], kinds: Sequence[str] = KINDS) -> Iterator[Step]:
    """All steps of some kinds, in the order of :data:`KINDS`."""
    listed: dict[str, list[tuple[str, Callable[[Any], Result]]]] = {
        "formulas": [(c.name, partial(_formula, c)) for c in device_check.EXACTNESS],
        "examples": [(f"{n}, batch {b}", partial(_example, n, b)) for b in batches for n in EXAMPLES],
        "lockstep": [(name, partial(_lockstep, name)) for name in PROFILES],
        "layers": [(f, partial(_layer, f)) for f in FORMATS],
        "launches": [(f"{n}, {m}", partial(_launches, n, m)) for n in EXAMPLES for m in NUMERICS],
        "copy": [(f"{COPIED >> 20} MiB", _copy)],
        "times": [(f"{n}, batch {b}", partial(_times, n, b)) for b in batches for n in EXAMPLES],
        "declarations": [(n, partial(_declaration, n)) for n in _computing()],
    }
    for kind in KINDS:
        if kind in kinds:
            for name, do in listed[kind]:
                yield Step(kind, name, do)


def _computing() -> list[str]:
    return [n for n, i in isa.instructions().items() if i.executable and differential.computes(i)]


# -- bits --------------------------------------------------------------------------------------------


def _formula(check: device_check.Exactness, device: Any) -> Result:
    outcome, note = device_check.check_exactness(check, 0, device)
    return _outcome(outcome) | {"note": note}


def _declaration(name: str, device: Any) -> Result:
    total = device_check.Outcome()
    for sample, profile in device_check.samples([name]):
        total.add(device_check.check_sample(sample, profile, 0, device))
    return _outcome(total)


def _outcome(outcome: device_check.Outcome) -> Result:
    # An operation that raises has no lanes, and is a failure all the same.
    different = max(outcome.different, len(outcome.failures))
    result: Result = {"lanes": outcome.lanes, "different": different, "ulp": outcome.ulp}
    return result | ({"failures": outcome.failures[:3]} if outcome.failures else {})


def _example(name: str, batch: int, device: Any) -> Result:
    results = []
    for place in (device, _cpu()):
        with jax.default_device(place):
            values = bench_examples.batch(EXAMPLES[name], batch).values()
            results.append(jax.device_get(bench_examples.calls(EXAMPLES[name], "exact")[0](*values)))
    return _compared(*results)


def _lockstep(profile: str, device: Any) -> Result:
    runner = Runner(table(profile), "switch", 1)
    words = []
    for place in (device, _cpu()):
        with jax.default_device(place):
            words.append(runner.digests(0, 0, PROGRAMS).words)
    return {"lanes": PROGRAMS, "different": int((words[0] != words[1]).sum())}


def _layer(format: str, device: Any) -> Result:
    x, weights = _operands()
    results = []
    for place in (device, _cpu()):
        with jax.default_device(place):
            results.append(jax.device_get(jax.jit(partial(_linear, format))(x, weights)))
    with jax.default_device(device):
        times = {
            "us": _least(jax.jit(partial(_linear, format)), x, weights),
            "jnp us": _least(jax.jit(jnp.matmul), x, weights),
        }
    return _compared({"y": results[0]}, {"y": results[1]}) | times


@cache
def _operands() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    inner, outer = SIZES
    shapes = (ROWS, inner), (inner, outer)
    return tuple(rng.standard_normal(s, np.float32) for s in shapes)  # type: ignore[return-value]


def _linear(format: str, x: Any, weights: Any) -> Any:
    return nn.linear(x, weights, format=format)  # type: ignore[arg-type]


def _compared(ours: Mapping[str, Any], here: Mapping[str, Any]) -> Result:
    pairs = [(np.asarray(ours[n]), np.asarray(here[n])) for n in here]
    return {
        "lanes": sum(a.size for a, _ in pairs),
        "different": sum(int((_words(a) != _words(b)).any(-1).sum()) for a, b in pairs),
    }


def _words(a: Any) -> Any:
    """The bytes of every element, along a last axis."""
    return np.ascontiguousarray(a).view(np.uint8).reshape(a.size, a.itemsize)


def _cpu() -> Any:
    return jax.devices("cpu")[0]


# -- times -------------------------------------------------------------------------------------------


def _times(name: str, batch: int, device: Any) -> Result:
    times: Result = {}
    with jax.default_device(device):
        values = list(bench_examples.batch(EXAMPLES[name], batch).values())
        for numerics in NUMERICS:
            ours, by_hand = bench_examples.calls(EXAMPLES[name], numerics)
            times[f"{numerics} us"] = _least(ours, *values)
            times["jnp us"] = _least(by_hand, *values)
    return times


def _copy(device: Any) -> Result:
    with jax.default_device(device):
        x = jnp.zeros(COPIED // 4, jnp.float32)
        seconds = _least(jax.jit(lambda x: x + 1), x) / 1e6
    return {"GB/s": 2 * COPIED / seconds / 1e9}


def _least(call: Callable[..., Any], *args: Any) -> float:
    """Microseconds of the fastest of some calls; the first compiles."""
    wait(call(*args))
    taken = []
    for _ in range(CALLS):
        started = time.perf_counter()
        wait(call(*args))
        taken.append(time.perf_counter() - started)
    return min(taken) * 1e6


def _launches(name: str, numerics: Numerics, device: Any) -> Result:
    """Kernels of one call, counted by JAX's profiler; a CPU launches none."""
    with jax.default_device(device), tempfile.TemporaryDirectory() as folder:
        values = list(bench_examples.batch(EXAMPLES[name], BATCHES[1]).values())
        call = bench_examples.calls(EXAMPLES[name], numerics)[0]
        wait(call(*values))
        with jax.profiler.trace(folder):
            wait(call(*values))
        return {"launches": sum(_kernels(Path(folder)).values())}


def _kernels(folder: Path) -> Counter[str]:
    """How often the streams of a GPU executed each kernel of a profile."""
    kernels: Counter[str] = Counter()
    for path in folder.rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
            if plane.name.startswith("/device:GPU"):
                for line in plane.lines:
                    if line.name.startswith("Stream"):
                        kernels.update(event.name for event in line.events)
    return kernels


# -- the hour ----------------------------------------------------------------------------------------


def run(todo: Sequence[Step], device: Any, file: Path | None, seconds: float) -> dict[str, Result]:
    """Do what the file does not have yet, until the time is up; returns all results by the steps' keys."""
    results = _kept(file, device)
    end = time.monotonic() + seconds
    for number, step in enumerate(todo, 1):
        if step.key in results or time.monotonic() > end:
            continue
        started = time.monotonic()
        try:
            result = step.do(device)
        except Exception as error:
            # What this device cannot do must not hide what it can.
            result = {"error": brief(error), "different": 1}
        results[step.key] = result | {"seconds": round(time.monotonic() - started, 2)}
        print(f"{number} of {len(todo)} {step.key}: {_shown(result)}", file=sys.stderr, flush=True)
        if file is not None:
            write_text(file, json.dumps({"device": _named(device), "results": results}, indent=1) + "\n")
    return results


def _kept(file: Path | None, device: Any) -> dict[str, Result]:
    if file is None or not file.exists():
        return {}
    try:
        content = json.loads(file.read_text())
        named, results = content["device"], dict(content["results"])
    except (ValueError, TypeError, KeyError):
        raise ArgumentError(
            f"--json {file}: got a file of another kind", allowed="a file of this command", fix="another name"
        ) from None
    if named != _named(device):
        got = f"--json {file}: got results of {named}"
        raise ArgumentError(got, allowed=f"those of {_named(device)}", fix="another name")
    return results


def _named(device: Any) -> str:
    return f"{device.platform} ({device.device_kind}), JAX {jax.__version__}"


def _shown(result: Result) -> str:
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in result.items()
        if name != "seconds"
    )


def report(todo: Sequence[Step], found: Mapping[str, Result], device: Any) -> str:
    """The table of all results."""
    lines = [f"# {_named(device)}", ""]
    for kind in KINDS:
        those = [s for s in todo if s.kind == kind]
        if those:
            done = [s for s in those if s.key in found]
            differ = sum(bool(found[s.key].get("different")) for s in done)
            lines += [f"## {kind}: {len(done)} of {len(those)} done, {differ} differ", ""]
            lines += [f"- {s.name}: {_shown(found[s.key])}" for s in done]
            lines.append("")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Do the steps and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.device_hour", description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("gpu", "cpu"), help="default: JAX's default device")
    parser.add_argument("--minutes", type=float, default=55, metavar="N", help="time (default: 55)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="results so far, and where to go on")
    parser.add_argument("--batch", type=int, nargs="+", default=BATCHES, metavar="N", help="sizes of batches")
    parser.add_argument("--only", nargs="+", default=KINDS, choices=KINDS, metavar="KIND", help=str(KINDS))
    args = parser.parse_args(argv)
    try:
        if args.minutes <= 0 or min(args.batch) < 1:
            raise ArgumentError("--minutes, --batch: got a number that is not positive", allowed="1 or more")
        device = device_check.select_device(args.device)
        todo = list(steps(args.batch, args.only))
        results = run(todo, device, args.json, 60 * args.minutes)
    except PtoError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    print(report(todo, results, device))
    if any(results[s.key].get("different") for s in todo if s.key in results):
        return 1
    return 0 if all(s.key in results for s in todo) else 3


if __name__ == "__main__":
    sys.exit(main())
