"""Instructions that users add."""

import re
import sys
from collections.abc import Callable
from functools import lru_cache

from ..errors import ArgumentError
from .declare import Instruction

_ADDED: dict[str, Instruction] = {}
_PACKAGE = __name__.partition(".")[0]
_Cache = type(lru_cache(lambda: None))
_NAME = re.compile(r"t[a-z][a-z0-9_]*")


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
    forget()


def remove(name: str) -> None:
    """Take an added instruction out of the table again."""
    del _ADDED[name]
    forget()


def forget() -> None:
    """Drop what functions of the package remember.

    Legal samples, compiled kernels, names and all else may have been made with another table.
    """
    for name, module in list(sys.modules.items()):
        if name == _PACKAGE or name.startswith(f"{_PACKAGE}."):
            for value in vars(module).values():
                if isinstance(value, _Cache):
                    value.cache_clear()
