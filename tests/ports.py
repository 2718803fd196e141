"""Ports for tests in which processes meet."""

from __future__ import annotations

import random
import socket

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
