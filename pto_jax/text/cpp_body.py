"""The operations that a kernel in C++ becomes: names of values, constants, conversions of scalars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from .. import ir
from ..errors import with_article
from .cpp_tokens import Words
from .cpp_values import (
    BOOL,
    INT64,
    SCALARS,
    CType,
    Named,
    Number,
    Pipe,
    Pointer,
    Sizes,
    Unplaced,
    View,
    rounded,
)

#: What a name or an expression stands for.
Thing: TypeAlias = "Number | Pointer | Sizes | View | Unplaced | Named | Pipe | ir.AttrValue"
Groups: TypeAlias = "tuple[tuple[str, int], ...]"
#: Predicates of comparisons: of signed and unsigned integers, and of floats.
_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_UNSIGNED = {**_SIGNED, "<": "ult", "<=": "ule", ">": "ugt", ">=": "uge"}
_FLOAT = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}


class Body:
    """The body of one function while it is read."""

    def __init__(self, words: Words) -> None:
        self.words = words
        #: What each C++ name stands for here, and the operations of the region that is read.
        self.known: dict[str, Thing] = {}
        self.ops: list[ir.Op] = []
        #: Constants stand at the top of the function; the words at which values are used have the span.
        self.constants: list[ir.Op] = []
        self._values: dict[tuple[str, str], ir.Value] = {}
        #: The C++ names of constants and where they are declared.
        self.declared_at: dict[tuple[str, str], tuple[str, int]] = {}
        self._taken: set[str] = set()
        #: The C++ variable that the present statement computes, for the names of parts of its expression.
        self.stem = "t"

    # -- names ---------------------------------------------------------------------------------------

    def fresh(self, *wanted: str | None) -> str:
        """The first of some names that no value has yet, else the last one with a number; takes it."""
        names = [name for name in wanted if name]
        for name in names:
            if name not in self._taken:
                self._taken.add(name)
                return name
        return self._numbered(names[-1])

    def _numbered(self, stem: str) -> str:
        number = 0
        while f"{stem}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{stem}_{number}")
        return f"{stem}_{number}"

    def find(self, name: str, index: int) -> Thing:
        """What a C++ name stands for; ParseError where it stands for nothing."""
        found = self.known.get(name)
        if found is None:
            state = "has no value on every way here" if name in self.known else "is not defined here"
            self.words.fail(f"got '{name}', which {state}", index)
        return found

    # -- operations ----------------------------------------------------------------------------------

    def emit(
        self,
        name: str,
        ins: Iterable[ir.Value] = (),
        *,
        at: int,
        outs: tuple[ir.Value, ...] = (),
        results: tuple[ir.Value, ...] = (),
        attributes: Mapping[str, ir.AttrValue] | None = None,
        groups: Groups = (),
        regions: tuple[ir.Region, ...] = (),
    ) -> None:
        """Add an operation; ``at`` is the word that it stands at."""
        attrs = tuple(sorted(attributes.items())) if attributes else ()
        span = self.words.place(at)
        form: ir.Form = "dps" if outs and not groups else "custom"
        self.ops.append(ir.Op(name, tuple(ins), outs, results, attrs, regions, groups, form, span))

    def result(
        self,
        name: str,
        ins: Iterable[ir.Value],
        t: ir.Type,
        *,
        at: int,
        attributes: Mapping[str, ir.AttrValue] | None = None,
        groups: Groups = (),
        names: tuple[str | None, ...] = (),
    ) -> ir.Value:
        """Add an operation with one result, which is returned."""
        value = ir.Value(self.fresh(*names) if names else self.part(), t, self.words.place(at))
        self.emit(name, ins, at=at, results=(value,), attributes=attributes, groups=groups)
        return value

    def part(self) -> str:
        """A name for a part of the present expression."""
        return self.fresh(f"{self.stem}_0") if f"{self.stem}_0" not in self._taken else self.fresh(self.stem)

    def renamed(self, value: ir.Value, before: int, *names: str | None) -> ir.Value:
        """The value with one of the names, where the last operation since ``before`` of them made it."""
        if len(self.ops) == before or self.ops[-1].results != (value,):
            return value
        self._taken.discard(value.name)
        renamed = replace(value, name=self.fresh(*names))
        self.ops[-1] = replace(self.ops[-1], results=(renamed,))
        return renamed

    def mention(self, value: ir.Value, index: int) -> ir.Value:
        """A use of a value at a word."""
        return ir.Value(value.name, value.type, self.words.place(index))

    # -- scalars -------------------------------------------------------------------------------------

    def constant(self, number: float, d: ir.DType, at: int | None = None) -> ir.Value:
        """A constant of an element type, one for all uses of it in the function."""
        if isinstance(number, int) and d != ir.I1 and d.kind != "uint":
            # Unsigned numbers of C++ are the same bits.
            number = (number + (1 << d.bits - 1)) % (1 << d.bits) - (1 << d.bits - 1)
        key = (repr(number), d.name)
        value = self._values.get(key)
        if value is None:
            plain = str(number).replace("-", "m") if isinstance(number, int) else "st"
            t = ir.ScalarType(d)
            suffix = "" if d == ir.INDEX else f"_{d.name}"
            name, place = self.declared_at.get(key, (None, self.words.index if at is None else at))
            span = self.words.place(place)
            value = self._values[key] = ir.Value(self.fresh(name, f"c{plain}{suffix}"), t, span)
            shown: ir.AttrValue = bool(number) if d == ir.I1 else math.nan if number != number else number
            attributes = (("value", shown),)
            self.constants.append(ir.Op("arith.constant", (), (), (value,), attributes, span=span))
        return value

    def value(self, number: Number, at: int) -> ir.Value:
        """The value that a scalar is."""
        if number.value is None:
            assert number.number is not None
            return self.constant(number.number, number.type.dtype, at=at)
        if number.value.type != ir.ScalarType(number.type.dtype):
            self.words.fail(
                f"got {with_article(number.value.type)} in an expression; no operation computes with it", at
            )
        return number.value

    def index(self, thing: Thing, at: int) -> ir.Value:
        """A scalar as a size, an offset or an index."""
        return self.value(self.converted(self.number(thing, at), INT64, at), at)

    def number(self, thing: Thing, at: int) -> Number:
        """A scalar; anything else is a ParseError."""
        if isinstance(thing, Number):
            return thing
        return self.words.fail("got something that is no scalar; allowed: a scalar", at)

    def condition(self, thing: Thing, at: int) -> ir.Value:
        """A scalar as the condition of a branch."""
        return self.value(self.converted(self.number(thing, at), BOOL, at), at)

    def compared(self, sign: str, left: Number, right: Number, at: int) -> Number:
        """A comparison of two scalars of one type."""
        ins = (self.value(left, at), self.value(right, at))
        is_float = left.type.is_float
        table = _FLOAT if is_float else _UNSIGNED if left.type.unsigned else _SIGNED
        name, t = "arith.cmpf" if is_float else "arith.cmpi", ir.ScalarType(ir.I1)
        return Number(BOOL, self.result(name, ins, t, at=at, attributes={"predicate": table[sign]}))

    def converted(self, number: Number, to: CType, at: int) -> Number:
        """A scalar as another type, as C++ converts it."""
        source = number.type
        if source == to:
            return number
        if number.value is None:
            return Number(to, number=self._folded(number, to, at))
        if source.dtype == to.dtype:
            return Number(to, number.value)
        if to.dtype == ir.I1:
            return self.compared("!=", number, Number(source, number=0), at)
        name = _conversion(source, to)
        if name is None:
            kinds = f"{source.dtype.name} to {to.dtype.name}"
            self.words.fail(f"got a conversion from {kinds}, which no operation of programs stands for", at)
        return Number(to, self.result(name, (number.value,), ir.ScalarType(to.dtype), at=at))

    def _folded(self, number: Number, to: CType, at: int) -> int | float:
        """The value of a constant in another type."""
        assert number.number is not None
        if to.is_float:
            return rounded(repr(number.number))
        if to.dtype == ir.I1:
            return int(bool(number.number))
        if isinstance(number.number, float) and not abs(number.number) < 2.0 ** (to.dtype.bits - 1):
            self.words.fail(f"got {number.number}, which does not fit {to.dtype.name}", at)
        bits = to.dtype.bits
        whole = int(number.number) % (1 << bits)
        return whole - (1 << bits) if whole >> (bits - 1) and not to.unsigned else whole


def _conversion(source: CType, to: CType) -> str | None:
    """The operation that converts a scalar of one type to another one."""
    a, b = source.dtype, to.dtype
    sign = "u" if source.unsigned or a == ir.I1 else "s"
    if a.is_float and b.is_float:
        name = "arith.extf" if b.bits > a.bits else "arith.truncf" if b.bits < a.bits else None
    elif a.is_float:
        name = f"arith.fpto{'u' if to.unsigned else 's'}i" if b != ir.INDEX else None
    elif b.is_float:
        name = f"arith.{sign}itofp" if a != ir.INDEX else None
    elif ir.INDEX in (a, b):
        name = "arith.index_castui" if sign == "u" and b == ir.INDEX else "arith.index_cast"
    else:
        name = f"arith.ext{sign}i" if b.bits > a.bits else "arith.trunci"
    return name


def scalar_of(d: ir.DType) -> CType | None:
    """The scalar type of C++ for an element type: what a load gives, None for types without arithmetic."""
    if d in (ir.I64, ir.U64):
        return CType(ir.INDEX, d == ir.U64)
    if d.name.startswith("u"):
        return SCALARS.get(f"uint{d.bits}_t")
    return next((c for c in SCALARS.values() if c.dtype == d), None)
