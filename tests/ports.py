"""Processes that meet through ``jax.distributed``, and ports for them."""

import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import pto_jax as pto

#: Below those that systems give to connections: one of them could take a port before its listener does.
_PORTS = range(20_000, 32_000)


def free_address() -> str:
    """HOST:PORT of this machine where nobody listens."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        return f"127.0.0.1:{port}"


def two_hosts(code: str, *args: str) -> list[str]:
    """What two processes of two CPU devices print; ``code`` gets an address, its number and ``args``."""
    address, tree = free_address(), str(Path(pto.__file__).parent.parent)
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "PYTHONPATH": os.pathsep.join(filter(None, (tree, os.environ.get("PYTHONPATH")))),
    }
    hosts = [
        subprocess.Popen(
            [sys.executable, "-c", code, address, str(process), *args],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in (0, 1)
    ]
    try:
        said = [host.communicate(timeout=240) for host in hosts]
    finally:
        for host in hosts:
            host.kill()
            host.wait()
    assert [host.returncode for host in hosts] == [0, 0], said
    return [out for out, _ in said]
