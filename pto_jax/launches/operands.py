"""Handles, views and scalars where lanes have taken different ways."""

from dataclasses import fields, replace
from typing import Any

from ..interpreter import Operand, Pointer, Scalar, TileRef, View
from ..interpreter.abstract import Unknown
from .numbers import Lanes, choose


def merged(condition: Scalar, yes: Operand, no: Operand) -> Operand:
    """What a name stands for after two arms, or after a trip that not every lane took."""
    if yes is no:
        return yes
    if isinstance(yes, View | Pointer | TileRef) and type(yes) is type(no):
        parts = {f.name: _part(condition, getattr(yes, f.name), getattr(no, f.name)) for f in fields(yes)}
        if isinstance(yes, View) and isinstance(no, View) and yes.root != no.root:
            parts["buffer"] = None  # a window of one view or of another
        return replace(yes, **parts)
    if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
        return tuple(merged(condition, a, b) for a, b in zip(yes, no, strict=True))
    return choose(condition, yes, no)


def _part(condition: Scalar, yes: Any, no: Any) -> Any:
    """A field of a handle or view; None where it is not one thing."""
    if isinstance(yes, int | Lanes | Unknown | tuple):
        return merged(condition, yes, no)
    return yes if yes == no else None


def unsettled(operand: Operand) -> Operand:
    """What a loop carries of which nobody knows how often it runs."""
    if isinstance(operand, tuple):
        return tuple(map(unsettled, operand))
    if isinstance(operand, View):
        return replace(operand, offset=Unknown(), shape=tuple(Unknown() for _ in operand.shape))
    if isinstance(operand, Pointer):
        return replace(operand, offset=Unknown())
    if isinstance(operand, TileRef):
        return replace(operand, v_row=Unknown(), v_col=Unknown())
    return operand if operand is None else Unknown()
