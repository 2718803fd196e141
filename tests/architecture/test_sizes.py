"""Sizes that can be read at once: functions of up to 40 lines, and files that are worth opening."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.graph import ROOT, modules, write_tree

#: Lines of a function without its docstring, and the fewest of a file.
MOST, LEAST = 40, 60

#: Longer functions by their reason.
LONG = {
    "one option after the other": {
        "cli.commands.parser", "cli.fuzz.add", "cli.races.add", "cli.replay.add_emit",
    },
    "one keyword after the other": {
        "extension.lanes.instruction", "isa.common.tile_instruction", "isa.rules.handles.custom",
        "runtime.kernel.compile", "runtime.rank_launches.launches",
    },
}  # fmt: skip
