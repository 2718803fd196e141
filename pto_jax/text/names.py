"""Which tile instructions the text knows, and how they are spelled."""

from collections.abc import Iterable
from functools import cache

from .. import isa
from ..isa import ALIASES
from ..isa.assembly import AS_DECLARED, Assembly


def assembly(name: str) -> Assembly:
    """How the operands of an instruction are spelled."""
    instruction = isa.find(name)
    return AS_DECLARED if instruction is None else instruction.assembly


def trailing(name: str) -> int | None:
    """The destinations that stand behind the sources of an instruction that binds no result.

    None where a destination stands first.
    """
    instruction = isa.find(name)
    return None if instruction is None else instruction.trailing


@cache
def instruction_names() -> frozenset[str]:
    """Every tile instruction the reader accepts, by canonical name."""
    return frozenset(isa.instructions())


def canonical(spelled: str) -> str:
    """The name without ``pto.`` and with documentation spellings replaced.

    >>> canonical("pto.tmatmul_mx_acc")
    'tmatmul.mx.acc'
    """
    name = spelled.removeprefix("pto.")
    return ALIASES.get(name, name)


def suggestion(name: str, names: Iterable[str], prefix: str = "") -> str:
    """`` (did you mean 'x' or 'y'?)``, or nothing when no known name is close."""
    import difflib

    close = difflib.get_close_matches(name, sorted(set(names)), n=3, cutoff=0.7)
    if not close:
        return ""
    return " (did you mean " + " or ".join(f"'{prefix}{c}'" for c in close) + "?)"
