"""Every operation as a function that builds it, by its name in the text or that of the C++ intrinsic.

``functions.pyi`` lists them for type checkers and editors; ``python -m tools.stubs`` writes it.
"""

from collections.abc import Callable
from typing import Any

from .instructions import find, names


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return find(name)


def __dir__() -> list[str]:
    return sorted(names())
