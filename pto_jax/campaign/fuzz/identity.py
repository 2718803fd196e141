"""What makes two stores parts of one campaign."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from ...cases.versions import versions
from ...extension import loaded
from ...files import read_bytes
from ...generate.programs import VERSION
from .plan import Plan

#: What is known about a campaign, and does not decide about its results.
INCIDENTAL = frozenset({"device", "started", "rejected", "bins"})


def identity(plan: Plan) -> dict[str, Any]:
    """Everything that the rows of a store depend on, as JSON values."""
    files = {file: _digest(file) for file in plan.programs}
    plain = {**plan.to_json(), "programs": files}
    if plan.goal is not None:
        plain["goal_digest"] = _digest(plan.goal)
    if loaded():
        plain["extensions"] = {file: _digest(file) for file in loaded()}
    return {
        **plain,
        # A store holds all blocks; earlier versions wrote stores of one of several processes.
        "process": 0,
        "processes": 1,
        "generator": VERSION,
        "versions": versions(),
    }


def differences(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], ignored: Iterable[str] = INCIDENTAL
) -> list[str]:
    """What differs, one text each.

    >>> differences({"seed": 1, "versions": {"jax": "0.10"}}, {"seed": 2, "versions": {"jax": "0.11"}})
    ['seed: 1, not 2', 'versions.jax: 0.10, not 0.11']
    """
    lines = []
    left = set(ignored) | {"schema"}
    for key in [k for k in dict.fromkeys((*wanted, *stored)) if k not in left]:
        a, b = stored.get(key), wanted.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            lines += [f"{key}.{text}" for text in differences(a, b, ())]
        elif a != b:
            lines.append(f"{key}: {_shown(a)}, not {_shown(b)}")
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _digest(file: str) -> str:
    return hashlib.sha256(read_bytes(file, regular=True)).hexdigest()[:16]
