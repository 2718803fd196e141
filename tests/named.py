"""The micro-operations that a test executes, by what its text mentions: ``-k`` selects it by their names.

Tests of micro-operations are kernels with many of them. A name counts that stands in the strings of a test,
of the functions that it calls, or of the tables of its modules that it uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import pytest

#: The folders whose tests are of micro-operations, and what names of logical registers begin with.
FOLDERS, LOGICAL = ("tests/micro/", "tests/registers/"), "vmi."
_WORDS = re.compile(r"[a-z]\w*(?:\.[a-z]\w*)*")


def executed(item: pytest.Item) -> frozenset[str]:
    """The names of micro-operations in a test of theirs; none for other tests."""
    function = getattr(item, "obj", None)
    if not item.nodeid.startswith(FOLDERS) or not isinstance(function, FunctionType):
        return frozenset()
    return _mentioned(function)


@cache
def _mentioned(function: Callable[..., None]) -> frozenset[str]:
    from pto_jax import isa

    words = {w.removeprefix("pto.") for text in _texts(function, set()) for w in _WORDS.findall(text)}
    if LOGICAL in {w + "." for w in words} or any(w.startswith(LOGICAL) for w in words):
        words |= {LOGICAL + w for w in words}
    return frozenset(words & set(isa.micro_operations()))


def _texts(thing: Any, seen: set[int]) -> Iterator[str]:
    """The strings in a value: in tables, and in functions of tests and what they use."""
    if isinstance(thing, str):
        yield thing
    elif id(thing) in seen:
        return
    elif isinstance(thing, dict | list | tuple | set | frozenset):
        seen.add(id(thing))
        parts = [*thing, *thing.values()] if isinstance(thing, dict) else thing
        for part in parts:
            yield from _texts(part, seen)
    elif isinstance(thing, FunctionType) and thing.__module__.startswith("tests."):
        seen.add(id(thing))
        yield from _of_code(thing.__code__, thing.__globals__, seen)


def _of_code(code: CodeType, names: dict[str, Any], seen: set[int]) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant, names, seen)
        else:
            yield from _texts(constant, seen)
    for name in code.co_names:
        yield from _texts(names.get(name), seen)
