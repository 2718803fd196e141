"""Integer constants as far as a program shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .ir import Op

_FOLDED: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.minsi": min,
    "arith.maxsi": max,
}
_UNCHANGED = frozenset({"arith.index_cast", "arith.extsi", "arith.trunci"})
#: Larger results would depend on the width of the type; they are treated as unknown.
_RANGE = range(-(1 << 31), 1 << 31)


def fold(op: Op, constants: Mapping[str, int]) -> int | None:
    """The integer an operation yields when it is known, else None."""
    if len(op.results) != 1:
        return None
    if op.name == "arith.constant":
        value = op.attrs.get("value")
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    args = [constants[v.name] for v in op.ins if v.name in constants]
    if len(args) != len(op.ins):
        return None
    if op.name in _UNCHANGED and len(args) == 1:
        return args[0] if args[0] in _RANGE else None
    if op.name in _FOLDED and len(args) == 2:
        value = _FOLDED[op.name](*args)
        return value if value in _RANGE else None
    return None
