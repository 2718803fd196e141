"""Byte ranges of tile handles, and integer operations on constants.

The interpreter folds constants with these operations, the verifier derives addresses and sizes. They agree
with the scalars of every executor: a division by zero and a shift by more than the width have a value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from ..ir import (
    I1,
    INDEX,
    BLayout,
    DType,
    Loc,
    Op,
    PartitionViewType,
    PtrType,
    ScalarType,
    TensorViewType,
    TileType,
    Type,
    Value,
)
from ..isa.traits import CAST

#: Bytes in a handle whose conditions are remembered; a choice of choices doubles their number.
MOST_CHOICES = 16


@dataclass(frozen=True)
class Bytes:
    """Bytes of an on-chip buffer: a range where the address is known, else those of one handle.

    ``root`` names the allocation; ``window`` the window of it, which is at ``rows`` and ``cols`` unless only
    execution tells where. ``order`` is the position in the text of the operation that placed them.

    Of a handle that branches choose, ``either`` has the bytes it may denote and ``by`` names the condition:
    what is chosen by one condition, while that is the same, is chosen alike. Without a name, the choices have
    nothing to do with each other.
    """

    root: str
    loc: Loc
    range: tuple[int, int] | None = None
    rows: tuple[int, int] | None = None
    cols: tuple[int, int] | None = None
    window: str = ""
    order: int = field(default=0, compare=False)
    either: tuple[Bytes, ...] = ()
    by: str = ""

    @property
    def chosen(self) -> tuple[Bytes, ...]:
        """The bytes of each handle that this one may be."""
        return self.either or (self,)

    @property
    def _placed(self) -> tuple[Bytes, ...]:
        """The bytes that it may be, without the conditions that choose them."""
        return tuple(b for one in self.either for b in one._placed) or (self,)

    @property
    def choices(self) -> int:
        """Bytes in it, those of each branch of each condition counted for themselves."""
        return sum(one.choices for one in self.either) or 1

    def overlaps(self, other: Bytes) -> bool:
        """Whether both may have a byte in common; windows at unknown places of one tile count as apart."""
        return any(
            one.overlaps(two) if one.either or two.either else one._meets(two)
            for one, two in self._pairs(other)
        )

    def certainly_overlaps(self, other: Bytes) -> bool:
        """Whether both have a byte in common whatever is chosen."""
        return all(
            one.certainly_overlaps(two) if one.either or two.either else one._meets(two)
            for one, two in self._pairs(other)
        )

    def _pairs(self, other: Bytes) -> Iterable[tuple[Bytes, Bytes]]:
        """What both may be at the same time."""
        if self.by and self.by == other.by:
            return zip(self.either, other.either, strict=True)
        return product(self.chosen, other.chosen)

    def _meets(self, other: Bytes) -> bool:
        if self.root == other.root:
            if not self.window or not other.window or self.window == other.window:
                return True
            return _meet(self.rows, other.rows) and _meet(self.cols, other.cols)
        return self.loc == other.loc and _meet(self.range, other.range)

    def joined(self, other: Bytes) -> Bytes | None:
        """What a handle denotes that denotes these bytes on one path and the others on another one.

        A handle that is placed anew on one of them counts as placed there; None for two kinds of memory.
        """
        if self.root == other.root and self.window == other.window and not (self.either or other.either):
            return max(self, other, key=lambda b: b.order)
        return self.or_else(other)

    def or_else(self, other: Bytes, by: str = "") -> Bytes | None:
        """These bytes or the others, as the condition ``by`` says; None for two kinds of memory."""
        if self == other or self.loc != other.loc:
            return self if self == other else None
        placed = tuple(dict.fromkeys((*self._placed, *other._placed)))
        if not by or self.choices + other.choices > MOST_CHOICES:
            return Bytes(" or ".join(b.root for b in placed), self.loc, either=placed)
        both = self, other
        return Bytes(" or ".join(b.root for b in both), self.loc, either=both, by=by)

    def __str__(self) -> str:
        if self.either:
            return " or ".join(dict.fromkeys(map(str, self.either)))
        place = self.loc.name.lower()
        return f"{place} bytes [{self.range[0]}, {self.range[1]})" if self.range else f"in {place}"


def _meet(a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool:
    return a is not None and b is not None and a[0] < b[1] and b[0] < a[1]


def window_of(op: Op, result: Value, source: Value, whole: Bytes, numbers: Mapping[str, int]) -> Bytes:
    """The bytes of ``result``, a window of ``source``, whose bytes are ``whole``.

    ``numbers`` are the scalars that are known. A window of a window counts as the outer one.
    """
    if whole.either:
        windows = tuple(window_of(op, result, source, one, numbers) for one in whole.either)
        return replace(whole, either=windows)
    sizes = op.attrs.get("sizes", result.type.valid if isinstance(result.type, TileType) else None)
    if whole.window or not isinstance(sizes, tuple) or len(sizes) != 2:
        return whole
    starts = [numbers.get(v.name) for v in op.group("offsets") or op.ins[1:]]
    spans = [
        (at, at + n) if at is not None and isinstance(n, int) else None
        for at, n in zip(starts, sizes, strict=False)
    ]
    if len(spans) != 2 or None in spans:
        return replace(whole, window=result.name)
    window = replace(whole, window=result.name, rows=spans[0], cols=spans[1])
    return replace(window, range=_narrowed(window, source.type))


def _narrowed(window: Bytes, source: object) -> tuple[int, int] | None:
    """The byte range of a window of whole rows or columns of an unboxed tile, else that of the tile."""
    t, extent = source, window.range
    if not isinstance(t, TileType) or extent is None or t.boxed or t.dtype.bits % 8:
        return extent
    lines = window.rows if t.blayout == BLayout.ROW_MAJOR else window.cols
    pitch = (t.cols if t.blayout == BLayout.ROW_MAJOR else t.rows) * t.dtype.bits // 8
    return (extent[0] + lines[0] * pitch, extent[0] + lines[1] * pitch) if lines is not None else extent


def scalar_dtype(t: Type) -> DType:
    """Element type of a scalar value's type."""
    if isinstance(t, ScalarType):
        return t.dtype
    if isinstance(t, PtrType | TensorViewType | PartitionViewType | TileType):
        return t.dtype
    return INDEX


def _quotient(a: int, b: int) -> int:
    """Truncated towards zero; all ones for a zero divisor, as instructions give it."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b) if b else a


def _ceiling(a: int, b: int) -> int:
    return -(-a // b) if b else -1


_COMPARISONS: dict[str, Callable[[int, int], int]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge
}  # fmt: skip
#: Formulas of operands as signed integers (those of an unsigned type have no sign).
_SIGNED: dict[str, Callable[..., int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "divsi": _quotient,
    "ceildivsi": _ceiling,
    "floordivsi": lambda a, b: a // b if b else -1,
    "remsi": _remainder,
    "minsi": min,
    "maxsi": max,
    "andi": operator.and_,
    "ori": operator.or_,
    "xori": operator.xor,
    "shli": operator.lshift,
    "shrsi": operator.rshift,
    "index_cast": int,
    "trunci": int,
    # A true i1 is the number -1.
    "extsi": lambda a: -int(a) if isinstance(a, bool) else a,
    "cmpi.eq": operator.eq,
    "cmpi.ne": operator.ne,
    **{f"cmpi.s{name}": formula for name, formula in _COMPARISONS.items()},
}
#: Formulas of the bit patterns of operands.
_UNSIGNED: dict[str, Callable[..., int]] = {
    "divui": _quotient,
    "ceildivui": _ceiling,
    "remui": _remainder,
    "minui": min,
    "maxui": max,
    "shrui": operator.rshift,
    "index_castui": int,
    "extui": int,
    **{f"cmpi.u{name}": formula for name, formula in _COMPARISONS.items()},
}
_SHIFTS = ("shli", "shrsi", "shrui")


def wrapped(value: int, d: DType) -> int:
    """An integer reduced to the range of its type, two's complement."""
    if d == I1:
        return bool(value & 1)
    bits = d.bits
    low = int(value) & ((1 << bits) - 1)
    return low - (1 << bits) if d.kind != "uint" and low >> (bits - 1) else low


def fold(name: str, args: Sequence[object], source: DType, result: DType) -> int | None:
    """The result of an operation on operands of type ``source`` when all are Python integers, else None.

    Shift counts are taken modulo the width.

    >>> from ..ir import I8
    >>> fold("arith.shrui", (-2, 9), I8, I8), fold("arith.remui", (-1, 10), I8, I8)
    (127, 5)
    """
    operation = name.removeprefix("arith.")
    signed = _SIGNED.get(operation)
    formula = signed or _UNSIGNED.get(operation)
    numbers = [a for a in args if isinstance(a, int)]
    if len(numbers) < len(args) or (formula is None and operation != "select"):
        return None
    if formula is None:
        condition, yes, no = numbers
        return wrapped(yes if condition else no, result)
    operands = [wrapped(n, source) for n in numbers]
    if operation in _SHIFTS:
        operands[1] %= source.bits
    if signed is None:
        operands = [n & ((1 << source.bits) - 1) for n in operands]
    return wrapped(formula(*operands), result)


def operation(op: Op) -> str:
    """The name of a scalar operation, comparisons with their predicate."""
    return f"{op.name}.{op.attrs['predicate']}" if op.name in ("arith.cmpi", "arith.cmpf") else op.name


def fold_op(op: Op, constants: Mapping[str, int]) -> int | None:
    """The integer an operation yields when ``constants`` give its operands, else None."""
    if len(op.results) != 1 or not op.name.startswith(("arith.", CAST)):
        return None
    if op.name == "arith.constant":
        value = dict(op.attributes).get("value")
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    args = [constants[v.name] for v in op.ins if v.name in constants]
    if len(args) != len(op.ins):
        return None
    if op.name == CAST:
        return wrapped(args[0], scalar_dtype(op.results[0].type)) if len(args) == 1 else None
    return fold(operation(op), args, scalar_dtype(op.ins[-1].type), scalar_dtype(op.results[0].type))
