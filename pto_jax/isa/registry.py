"""Instructions that users add, and what is remembered of the table of instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar

from ..errors import ArgumentError
from .declare import Instruction

P = ParamSpec("P")
T = TypeVar("T")

_ADDED: dict[str, Instruction] = {}
_FORGET: list[Callable[[], None]] = []
_NAME = re.compile(r"t[a-z][a-z0-9_]*")


def derived(function: Callable[P, T]) -> Callable[P, T]:
    """A function of the table of instructions, remembered until an instruction is added."""
    remembered = lru_cache(maxsize=None)(function)
    _FORGET.append(remembered.cache_clear)
    return remembered  # type: ignore[return-value]


def added() -> dict[str, Instruction]:
    """The instructions that were added, by name."""
    return _ADDED


def add(instruction: Instruction, known: Callable[[], dict[str, Instruction]]) -> None:
    """Add an instruction to the table that ``known`` gives.

    Raises ArgumentError where the name is no name of an instruction, or is one already.
    """
    name = instruction.name
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            f"found the name {name!r}; allowed: 't', then lowercase letters, digits and underscores (tcosh)"
        )
    if name in known():
        raise ArgumentError(f"there is an instruction {name}; usual fix: another name")
    _ADDED[name] = instruction
    _forget()


def remove(name: str) -> None:
    """Take an added instruction out of the table again."""
    del _ADDED[name]
    _forget()


def _forget() -> None:
    for forget in _FORGET:
        forget()
