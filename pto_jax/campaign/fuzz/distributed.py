"""Processes of one campaign on several machines: which of them this one is.

They meet once, through ``jax.distributed``, in a process of its own that holds no accelerator; each goes
on alone with its blocks.
"""

import json
import os
import subprocess
import sys
import zlib

from ...errors import ArgumentError
from .identity import identity
from .plan import Plan

#: Seconds in which all processes must have begun.
MEETING = 300


def agreed(coordinator: str, process: int | None, processes: int | None, plan: Plan) -> tuple[int, int]:
    """Number of this process and how many there are, once all of them are there with the same plan.

    On a cluster that JAX knows, both numbers may be None. Raises ArgumentError when the plans of the
    processes differ or do not meet.
    """
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal():
        raise ArgumentError(f"--coordinator {coordinator}: allowed: HOST:PORT")
    message = {"coordinator": coordinator, "process": process, "processes": processes, "plan": _mark(plan)}
    command = [sys.executable, "-m", "pto_jax.campaign.fuzz.meeting", json.dumps(message)]
    # What the processes compute comes from elsewhere; here they only count each other.
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=2 * MEETING)
    except subprocess.TimeoutExpired:
        raise ArgumentError(f"the processes did not meet at {coordinator} within {2 * MEETING} s") from None
    # A process may end badly after it has answered, when another one has left before.
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not answers:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise ArgumentError(f"the processes do not meet at {coordinator}: {reason}")
    # What JAX's libraries print by themselves may follow on the line.
    answer, _ = json.JSONDecoder().raw_decode(answers[-1])
    if not answer["equal"]:
        raise ArgumentError("the processes have different options, programs or versions; allowed: the same")
    return int(answer["process"]), int(answer["processes"])


def _mark(plan: Plan) -> int:
    """A number that differs for different campaigns."""
    return zlib.crc32(json.dumps(identity(plan), sort_keys=True).encode())
