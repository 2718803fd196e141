"""What compiling says without failing: the verifier's warnings, and flags that cost exactness."""

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ..errors import ArgumentError, Diagnostic, PtoWarning

_LISTED = 5
_shown: set[tuple[object, ...]] = set()
#: With the first flag of XLA, LLVM may reorder and approximate; without the second it also drops what exact
#: arithmetic does for NaN, and sums, products, quotients and roots have other bits.
_FAST_MATH, _HONOUR_NANS = "xla_cpu_enable_fast_math", "xla_cpu_fast_math_honor_nans"


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


@dataclass(frozen=True)
class LostExactness:
    """What a setting does to exact numerics: it breaks them for certain, or may."""

    certain: bool
    found: str
    fix: str


def lost_exactness(flags: str) -> LostExactness | None:
    """What XLA_FLAGS do to exact numerics; None where they do nothing.

    >>> lost_exactness("--xla_cpu_enable_fast_math=false") is None
    True
    >>> lost_exactness("--xla_cpu_enable_fast_math").certain
    False
    """
    fast, without_nans = _fast_math(flags)
    fix = f'remove --{_FAST_MATH}=true from XLA_FLAGS, or numerics="fast"'
    if without_nans:
        found = (
            f"XLA_FLAGS has --{_FAST_MATH}=true with --{_HONOUR_NANS}=false, under which numerics='exact' "
            "cannot keep its bits"
        )
        return LostExactness(True, found, fix)
    if fast:
        found = f"XLA_FLAGS has --{_FAST_MATH}=true, under which numerics='exact' does not guarantee its bits"
        return LostExactness(False, found, fix)
    return None


def require_exact() -> None:
    """Refuse exact numerics where XLA_FLAGS make them impossible; warn where they are not guaranteed."""
    lost = lost_exactness(os.environ.get("XLA_FLAGS", ""))
    if lost is None:
        return
    said = f"{lost.found}; usual fix: {lost.fix}"
    if lost.certain:
        raise ArgumentError(said)
    warn_once((_FAST_MATH,), [said])


@lru_cache(maxsize=8)
def _fast_math(flags: str) -> tuple[bool, bool]:
    """Whether fast math is on, and whether it ignores NaN."""
    settings: dict[str, str] = {}
    for word in flags.split():
        name, _, value = word.lstrip("-").partition("=")
        settings[name] = value.lower() or "true"
    fast = settings.get(_FAST_MATH) in ("true", "1")
    return fast, fast and settings.get(_HONOUR_NANS) in ("false", "0")
