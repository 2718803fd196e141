"""The operations that a test executes, by what its text mentions: ``-k`` selects it by their names.

Tests of micro-operations are kernels with many of them, and tests of cores, pipes and ranks are programs with
many instructions. A name counts that stands in the strings of a test, of the functions that it calls, or of
the tables of its modules that it uses.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import pytest

#: The folders whose tests are of micro-operations, and what names of logical registers begin with.
MICRO, LOGICAL = ("tests/micro/", "tests/registers/"), "vmi."
#: The folders of programs on cores, pipes and ranks, the classes whose instructions are named there, and the
#: end of the names of signals between cores.
PROGRAMS, CLASSES, SIGNALS = ("tests/runtime/", "tests/ranks/"), ("pipes", "communication"), "_block"
#: The folders whose tests execute single instructions by their names.
SINGLE = ("tests/oracle/", "tests/isa/")
_WORDS = re.compile(r"[a-z]\w*(?:\.[a-z]\w*)*")


def executed(item: pytest.Item) -> frozenset[str]:
    """The names of operations in a test of theirs; none for other tests."""
    function = getattr(item, "obj", None)
    if not isinstance(function, FunctionType):
        return frozenset()
    if item.nodeid.startswith(MICRO):
        return _micro_operations(function)
    if item.nodeid.startswith(SINGLE):
        return _single(function)
    return _in_programs(function) if item.nodeid.startswith(PROGRAMS) else frozenset()


@cache
def _micro_operations(function: Callable[..., None]) -> frozenset[str]:
    from pto_jax import isa

    words = _words(function)
    if LOGICAL in {w + "." for w in words} or any(w.startswith(LOGICAL) for w in words):
        words |= {LOGICAL + w for w in words}
    return frozenset(words & set(isa.micro_operations()))


@cache
def _single(function: Callable[..., None]) -> frozenset[str]:
    from pto_jax import isa

    # Names of this function alone: tables of a module hold those of all instructions.
    return frozenset(isa.instructions().keys() & set(_of_code(function.__code__, {}, set())))


@cache
def _in_programs(function: Callable[..., None]) -> frozenset[str]:
    from pto_jax import isa

    table = isa.instructions()
    names = _words(function) & table.keys()
    return frozenset(n for n in names if table[n].cls in CLASSES or n.endswith(SIGNALS))


def _words(function: Callable[..., None]) -> set[str]:
    return {w.removeprefix("pto.") for text in _texts(function, set()) for w in _WORDS.findall(text)}


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
