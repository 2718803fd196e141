"""What compiling says without failing: the verifier's warnings."""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace

from ..errors import Diagnostic, PtoWarning

_LISTED = 5
_shown: set[tuple[object, ...]] = set()


def warn_once(key: tuple[object, ...], messages: Sequence[str | Diagnostic]) -> None:
    """Issue PtoWarnings at the line of the user's that led here, once per key and process.

    A finding in a Python file has its own line.
    """
    if key in _shown:
        return
    level = _users_level()
    for message in messages:
        span = message.span if isinstance(message, Diagnostic) else None
        if isinstance(message, Diagnostic) and span is not None and span.file.endswith(".py"):
            text = str(replace(message, span=None)).removeprefix("warning: ")
            warnings.warn_explicit(text, PtoWarning, span.file, span.line)
        else:
            warnings.warn(str(message), PtoWarning, stacklevel=level)
    # Where a filter makes an error of it, the next time is an error too.
    _shown.add(key)


def warn_of(findings: Sequence[Diagnostic], key: tuple[object, ...]) -> None:
    """The verifier's warnings about a program that is compiled, the first few of many."""
    listed: list[str | Diagnostic] = [*findings[:_LISTED]]
    if len(findings) > _LISTED:
        listed.append(f"{len(findings) - _LISTED} more warnings; pto.verify lists all")
    warn_once(key, listed)


def _users_level() -> int:
    """The stack level, for the caller's call of warn, of the first frame outside this package and JAX."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("pto_jax", "jax")
