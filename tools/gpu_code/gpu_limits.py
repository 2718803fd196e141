"""What code for a GPU may show: approximations with their reason, launches, scratch memory.

The table beside this file has what instructions need beyond one launch and no scratch memory, on any target:
launches per call, and bytes of temporary memory per byte of arguments; and the same of the shipped examples.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def table() -> dict[str, Any]:
    """The table: approximations with instructions, PTX and reason; launches and scratch by instruction."""
    limits: dict[str, Any] = json.loads(Path(__file__).with_name("gpu_limits.json").read_text())
    return limits


def allowed(instruction: str, mark: str) -> bool:
    """Whether the code of an instruction may have a PTX instruction."""
    return any(mark in a["marks"] and instruction in a["instructions"] for a in table()["approximations"])


def launches(instruction: str) -> int:
    """Kernels that a call may launch."""
    number: int = table()["launches"].get(instruction, 1)
    return number


def scratch(instruction: str) -> float:
    """Bytes of temporary memory per byte of arguments."""
    ratio: float = table()["scratch"].get(instruction, 0.0)
    return ratio


def example(name: str) -> dict[str, float]:
    """Of a shipped example: launches in "exact" and "fast" numerics, and "scratch" per byte of arguments."""
    limits: dict[str, float] = table()["examples"].get(name, {"exact": 1, "fast": 1, "scratch": 0.0})
    return limits


def above_arguments(name: str) -> str | None:
    """Why a shipped example needs more scratch memory than its arguments take; None for one that may not."""
    reason: str | None = table()["above_arguments"].get(name)
    return reason
