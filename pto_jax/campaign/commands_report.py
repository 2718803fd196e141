"""The command ``report``."""

from __future__ import annotations

from .commands import Adder


def add(command: Adder) -> None:
    """Define the command."""
