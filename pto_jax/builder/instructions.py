"""Every operation as a Python function, by its name."""

from collections.abc import Callable
from functools import cache
from typing import Any

from .. import isa
from ..text.formats import TWO_SPELLINGS, find_format, format_names
from . import calls, custom

Function = Callable[..., Any]
#: Operations that the control flow of the builder makes.
_STRUCTURE = ("scf.", "return", "arith.constant")


@cache
def names() -> dict[str, str]:
    """Every operation that is a function here: its Python name and its name in programs.

    >>> names()["tmatmul_acc"]
    'tmatmul.acc'
    """
    entries = [*isa.instructions(), *(n for n in format_names() if not n.startswith(_STRUCTURE))]
    return {name.replace(".", "_"): name for name in entries}


@cache
def find(name: str) -> Function:
    """The function that builds an instruction, by its text name or that of the C++ intrinsic.

    Raises AttributeError for a name that no instruction has.

    >>> find("TADD").__name__, find("tmatmul_acc").__name__
    ('tadd', 'tmatmul_acc')
    """
    low = name.lower()
    instruction = isa.find(name) if name in (low, name.upper()) else None
    key = instruction.name if instruction is not None else names().get(low if name == name.upper() else name)
    if key is None:
        raise AttributeError(f"no instruction is called {name!r}; builder.names() lists them")
    fmt = find_format(key)
    declared = isa.find(key)
    if fmt is not None and key not in TWO_SPELLINGS:
        return custom.custom_function(fmt, declared)
    assert declared is not None
    return calls.tile_function(declared)
