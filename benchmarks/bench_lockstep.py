"""How fast lockstep execution is, for ``python -m benchmarks lockstep``."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from pto_jax.errors import PtoError
from pto_jax.lockstep.programs import STEPS
from pto_jax.lockstep.stream import CHUNK, Runner
from pto_jax.lockstep.tables import table

_ROUNDS = 5
_DEVICES_FLAG = "--xla_force_host_platform_device_count"


def rate(devices: int, mode: str = "switch") -> dict[str, float]:
    """The speed of the engine on a number of devices; every round has programs of its own.

    ``first`` is the seconds to the first result, ``wall`` and ``processor`` are the programs per second of
    wall-clock and of processor time in the best round.
    """
    assert mode in ("switch", "grouped")
    runner = Runner(table("a5"), "grouped" if mode == "grouped" else "switch", devices)
    count, rates = 4 * CHUNK * devices, {"wall": 0.0, "processor": 0.0}
    started = time.perf_counter()
    runner.digests(0, 0, 1)
    rates["first"] = time.perf_counter() - started
    for place in range(_ROUNDS):
        wall, processor = time.perf_counter(), time.process_time()
        runner.digests(0, place * count, count)
        rates["wall"] = max(rates["wall"], count / (time.perf_counter() - wall))
        rates["processor"] = max(rates["processor"], count / (time.process_time() - processor))
    return rates


def figures() -> Iterator[tuple[str, float, str, str]]:
    """Name, value, unit and target of every figure; host devices are those of processes of their own."""
    mix = table("a5")
    yield "opcodes in the mix", len(mix.opcodes), "opcodes", ">= 60"
    yield "instructions in the mix", len({o.name for o in mix.opcodes}), "instructions", ""
    yield "element types in the mix", len({k.type.dtype for k in mix.kinds}), "types", ">= 8"
    for devices in (1, 2):
        rates = _apart(devices)
        named = f"{STEPS} instructions, {mix.rows}x{mix.cols}, {devices} device(s)"
        yield f"{named}: to the first result", rates["first"], "s", "<= 60"
        target = ">= 100000" if devices == 2 else ""
        yield named, rates["wall"], "programs/s", target
        yield f"{named}, per processor second", rates["processor"], "programs/s", ""


def _apart(devices: int) -> dict[str, float]:
    code = f"import json; from {__name__} import rate; print(json.dumps(rate({devices})))"
    kept = [f for f in os.environ.get("XLA_FLAGS", "").split() if not f.startswith(_DEVICES_FLAG)]
    flags = " ".join([*kept, f"{_DEVICES_FLAG}={devices}"])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PtoError(f"lockstep: the process ended with {done.returncode}: {done.stderr[-500:]}")
    rates: dict[str, float] = json.loads(done.stdout)
    return rates
