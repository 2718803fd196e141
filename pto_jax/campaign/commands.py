"""The commands of campaigns: fuzz, replay, report, emit. Each has a module of its own.

A command module only defines its options; what needs JAX is imported when the command runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Protocol


class Adder(Protocol):
    """Adds a command with its one-line summary; gives the parser for its options."""

    def __call__(
        self, name: str, run: Callable[[argparse.Namespace], int], summary: str
    ) -> argparse.ArgumentParser: ...


def add(command: Adder) -> None:
    """Define the commands."""
    from . import commands_emit, commands_fuzz, commands_replay, commands_report

    for module in (commands_fuzz, commands_replay, commands_report, commands_emit):
        module.add(command)
