"""How the types of a type list belong to operands that may outnumber them."""

from collections.abc import Sequence

from .. import isa
from ..ir import ScalarType, Type, UnknownType

Maybe = Type | None


def takes_scalar(name: str, index: int, count: int) -> bool | None:
    """Whether read operand ``index`` of ``count`` is a scalar by declaration; None when that is open."""
    declaration = isa.find(name)
    if declaration is None:
        return None
    kinds = {
        declaration.operand(form[index]).kind in ("scalar", "index")
        for form in declaration.forms
        if len(form) == count
    }
    return kinds.pop() if len(kinds) == 1 else None


def is_scalar(t: Maybe) -> bool:
    """Whether a type, as far as it is known, is that of a scalar."""
    return isinstance(t, ScalarType) or (isinstance(t, UnknownType) and t.kind == "scalar")


def distribute(
    name: str, written: Sequence[Type], known: Sequence[Maybe], destinations: int = 0
) -> list[Maybe] | None:
    """The written type of each operand, None for operands without one.

    ``known`` has the type of each operand as far as its definition gives it; the first
    ``destinations`` operands are destinations. A single type is the type of every tile, also where the only
    operand is a scalar. Returns None when the number of types fits no reading.
    """
    count = len(known)
    of_result = (
        count == 1 and not destinations and not is_scalar(known[0]) and not any(map(is_scalar, written))
    )
    if len(written) == count and not (of_result and takes_scalar(name, 0, 1)):
        return list(written)
    if not written:
        return [None] * count
    if len(written) > 1:
        return None
    only = written[0]
    out: list[Maybe] = []
    for i, definition in enumerate(known):
        scalar = takes_scalar(name, i - destinations, count - destinations) if i >= destinations else False
        if scalar is None:
            scalar = is_scalar(definition)
        out.append(only if scalar == is_scalar(only) else None)
    return out
