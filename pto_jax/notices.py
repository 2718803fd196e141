"""What compiling says without failing: the verifier's warnings, and flags that cost exactness."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache

from .errors import ArgumentError, Diagnostic, PtoWarning

_LISTED = 5
_shown: set[tuple[object, ...]] = set()
#: Flags of XLA that allow LLVM to change what exact arithmetic relies on; without the first, none acts.
_FAST_MATH = "xla_cpu_enable_fast_math"
_HONOURS = tuple(f"xla_cpu_fast_math_honor_{what}" for what in ("nans", "infs", "division", "functions"))


def warn_once(key: tuple[object, ...], messages: Sequence[str]) -> None:
    """Issue PtoWarnings at the line of the user's that led here, once per key and process."""
    if key in _shown:
        return
    level = _users_level()
    for message in messages:
        warnings.warn(message, PtoWarning, stacklevel=level)
    # Where a filter makes an error of it, the next time is an error too.
    _shown.add(key)


def warn_of(findings: Sequence[Diagnostic], key: tuple[object, ...]) -> None:
    """The verifier's warnings about a program that is compiled, the first few of many."""
    listed = [str(d) for d in findings[:_LISTED]]
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


def require_exact() -> None:
    """Refuse exact numerics where XLA_FLAGS make them impossible; warn where they are not guaranteed."""
    broken, fast = _fast_math(os.environ.get("XLA_FLAGS", ""))
    fix = f'usual fix: remove --{_FAST_MATH}=true from XLA_FLAGS, or numerics="fast"'
    if broken is not None:
        raise ArgumentError(
            f"XLA_FLAGS has --{_FAST_MATH}=true with {broken}, under which numerics='exact' cannot keep its "
            f"bits; {fix}"
        )
    if fast:
        unsure = (
            f"XLA_FLAGS has --{_FAST_MATH}=true, under which the bits of numerics='exact' are not guaranteed"
        )
        warn_once((_FAST_MATH,), [f"{unsure}; {fix}"])


@lru_cache(maxsize=8)
def _fast_math(flags: str) -> tuple[str | None, bool]:
    """The setting that breaks exactness, and whether fast math is on at all."""
    settings: dict[str, str] = {}
    for word in flags.split():
        name, _, value = word.lstrip("-").partition("=")
        settings[name] = value.lower() or "true"
    on = settings.get(_FAST_MATH) in ("true", "1")
    broken = next((f for f in _HONOURS if settings.get(f) in ("false", "0")), None)
    return (f"--{broken}=false" if on and broken else None), on
