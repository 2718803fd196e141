"""Expressions of a C++ kernel as operations on scalars and pointers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from .. import ir
from ..errors import with_article
from ..isa.signless import on_signless
from .cpp_names import members, plain
from .cpp_tokens import MAX_DEPTH, Words, digits
from .cpp_values import (
    BOOL,
    INT,
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
_FLOAT_ORDER = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}


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

    def fresh(self, *hints: str | None) -> str:
        """The first of some names that no value has yet, else the last one with a number; takes it."""
        names = [name for name in hints if name]
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
        value = self.known.get(name)
        if value is None:
            state = "has no value on every way here" if name in self.known else "is not defined here"
            self.words.fail(f"got '{name}', which {state}", index)
        return value

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
            constant = ir.Op("arith.constant", (), (), (value,), attributes, span=span)
            self.constants += on_signless(constant, self.fresh)
        return value

    def value(self, number: Number, at: int) -> ir.Value:
        """The value that a scalar is."""
        if number.value is None:
            assert number.number is not None
            return self.constant(number.number, number.type.dtype, at=at)
        if number.value.type != ir.ScalarType(number.type.dtype):
            got = f"got {with_article(number.value.type)} in an expression"
            self.words.fail(f"{got}; no operation computes with it", at)
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
        table = _FLOAT_ORDER if is_float else _UNSIGNED if left.type.unsigned else _SIGNED
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


#: Binary operators by how strongly they bind.
_LEVELS = {
    **dict.fromkeys(("||",), 1),
    **dict.fromkeys(("&&",), 2),
    **dict.fromkeys(("|",), 3),
    **dict.fromkeys(("^",), 4),
    **dict.fromkeys(("&",), 5),
    **dict.fromkeys(("==", "!="), 6),
    **dict.fromkeys(("<", ">", "<=", ">="), 7),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("*", "/", "%"), 10),
}
_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
_INTEGER = {"+": "addi", "-": "subi", "*": "muli", "/": "divsi", "%": "remsi"}
_INTEGER |= {"|": "ori", "&": "andi", "^": "xori", "||": "ori", "&&": "andi"}
_FLOAT = {"+": "addf", "-": "subf", "*": "mulf", "/": "divf"}
# Instructions by name: what functions of the C++ interface and loads are.
_QUERIES = {"get_block_idx": "get_block_idx", "get_block_num": "get_block_num"}
_QUERIES |= {"get_subblockid": "get_subblock_idx", "get_subblockdim": "get_subblock_num"}
#: The assembler's helper for the pointer of a view.
DATA = "PTOAS__GLOBAL_TENSOR_DATA"


class Expressions(Body):
    """Reads expressions; the operations that they need are added to the body."""

    def expression(self) -> Thing:
        """An expression, which may choose between two values."""
        self.words.depth += 1
        if self.words.depth > MAX_DEPTH:
            self.words.fail(f"got an expression nested more than {MAX_DEPTH} levels deep, the limit")
        at = self.words.index
        value = self._binary(self._unary(), 0)
        if self.words.text == "?":
            value = self._chosen(value, at)
        self.words.depth -= 1
        return value

    def scalar(self) -> Number:
        """An expression that is a scalar."""
        at = self.words.index
        return self.number(self.expression(), at)

    def _chosen(self, test: Thing, at: int) -> Number:
        """``c ? a : b``: a minimum or maximum where ``c`` compares the two integers."""
        self.words.take()
        before = len(self.ops)
        first = self.scalar()
        self.words.expect(":")
        second = self.scalar()
        self._unconditional(before, at)
        first, second, common = self._common(first, second, at)
        ins = (self.value(first, at), self.value(second, at))
        t = ir.ScalarType(common.dtype)
        compared = self.ops[before - 1] if before else None
        if isinstance(test, Number) and compared is not None and compared.results == (test.value,):
            name = _extreme(compared, ins)
            if name is not None:
                del self.ops[before - 1]
                return Number(common, self.result(name, ins, t, at=at))
        return Number(common, self.result("arith.select", (self.condition(test, at), *ins), t, at=at))

    def _unconditional(self, before: int, at: int) -> None:
        """Refuse loads since some operation, which are not done where the choice does not need them."""
        if any(not op.name.startswith("arith.") for op in self.ops[before:]):
            self.words.fail("got a choice between values that are loaded; allowed: values", at)

    def _binary(self, left: Thing, least: int) -> Thing:
        words = self.words
        while (level := _LEVELS.get(words.text, 0)) > least:
            at = words.index
            sign = words.take()
            before = len(self.ops)
            right = self._binary(self._unary(), level)
            if sign in ("&&", "||"):
                self._unconditional(before, at)
            left = self._combined(sign, left, right, at)
        return left

    def _combined(self, sign: str, left: Thing, right: Thing, at: int) -> Thing:
        if isinstance(left, Pointer):
            if sign != "+":
                self.words.fail(f"got '{sign}' behind a pointer; allowed: '+'", at)
            value = left.value
            offset = self.index(right, at)
            return Pointer(self.result("addptr", (value, offset), value.type, at=at))
        a, b = self.number(left, at), self.number(right, at)
        if sign in ("&&", "||"):
            a, b = self.converted(a, BOOL, at), self.converted(b, BOOL, at)
        a, b, common = self._common(a, b, at)
        if sign in _COMPARISONS:
            return self.compared(sign, a, b, at)
        if common.dtype == ir.I1 and sign not in ("&&", "||", "&", "|", "^"):
            a, b, common = self.converted(a, INT, at), self.converted(b, INT, at), INT
        table = _FLOAT if common.is_float else _INTEGER
        name = table.get(sign)
        if name is None:
            self.words.fail(f"got '{sign}' between numbers of type {common.dtype.name}", at)
        if common.unsigned and sign in "/%":
            name = name.replace("si", "ui")
        ins = (self.value(a, at), self.value(b, at))
        return Number(common, self.result(f"arith.{name}", ins, ir.ScalarType(common.dtype), at=at))

    def _common(self, a: Number, b: Number, at: int) -> tuple[Number, Number, CType]:
        """Two scalars in the type in which C++ computes with both."""
        common = _common_type(a.type, b.type)
        return self.converted(a, common, at), self.converted(b, common, at), common

    # -- operands ------------------------------------------------------------------------------------

    def _unary(self) -> Thing:
        words = self.words
        at, text = words.index, words.text
        if text == "(":
            return self._parenthesis()
        if text == "-":
            words.take()
            return self._negative(self.number(self._unary(), at), at)
        if text == "!":
            words.take()
            value = self.condition(self._unary(), at)
            ins = (value, self.constant(True, ir.I1))
            return Number(BOOL, self.result("arith.xori", ins, value.type, at=at))
        if text[:1].isdigit() or text[:1] == ".":
            words.take()
            number = digits(text)
            if number is None:
                words.fail(f"got the number '{text}'; allowed: numbers of C++, as in 12, 0x1fu, 1.5f", at)
            return literal(*number)
        return self._postfix(self._name())

    def _negative(self, number: Number, at: int) -> Number:
        if number.number is not None:
            return Number(number.type, number=-number.number)
        value = self.value(number, at)
        if number.type.is_float:
            return Number(number.type, self.result("arith.negf", (value,), value.type, at=at))
        zero = self.constant(0, number.type.dtype)
        return Number(number.type, self.result("arith.subi", (zero, value), value.type, at=at))

    def _parenthesis(self) -> Thing:
        """A cast ``(T)x``, or an expression in parentheses."""
        words = self.words
        at = words.index
        words.take()
        to = SCALARS.get(words.text)
        if to is not None and words.peek() == ")":
            words.take()
            words.take()
            return self.converted(self.number(self._unary(), at), to, at)
        inner = self.expression()
        words.expect(")")
        return self._postfix(inner)

    def _name(self) -> Thing:
        words = self.words
        at = words.index
        name = words.name()
        value = self.known.get(name)
        if value is not None:
            return value
        if words.text == "(":
            return self._called(name, at)
        if name in ("true", "false"):
            return Number(BOOL, number=int(name == "true"))
        if name == "static_cast" and words.text == "<":
            return self._static_cast(at)
        member = members().get(plain(name))
        return member if member is not None else self.find(name, at)

    def _static_cast(self, at: int) -> Number:
        words = self.words
        words.take()
        to = SCALARS.get(words.name())
        words.expect(">")
        words.expect("(")
        number = self.scalar()
        words.expect(")")
        if to is None:
            words.fail(f"got a cast to another type than a scalar; allowed: {', '.join(SCALARS)}", at)
        return self.converted(number, to, at)

    def _called(self, name: str, at: int) -> Thing:
        """A helper of the assembler, or a query."""
        words = self.words
        if name not in _QUERIES and name != DATA:
            words.fail(f"got a call of '{name}' in an expression; allowed: {DATA}, {', '.join(_QUERIES)}", at)
        words.take()
        if name == DATA:
            view = self.expression()
            words.expect(")")
            if not isinstance(view, View):
                words.fail(f"got {DATA} of something that is no view", at)
            return view.pointer
        words.expect(")")
        query = self.result(_QUERIES[name], (), ir.ScalarType(ir.I64), at=at)
        return self._element_scalar(query, ir.I64, at)

    def _postfix(self, thing: Thing) -> Thing:
        """``p[i]``, ``a[i]``, ``t.GetValue(i)``."""
        words = self.words
        while words.text in ("[", "."):
            at = words.index
            if words.take() == "[":
                offset = self.index(self.expression(), at)
                words.expect("]")
                thing = self._loaded(thing, offset, at)
            else:
                thing = self._got(thing, at)
        return thing

    def _loaded(self, thing: Thing, offset: ir.Value, at: int) -> Number:
        if isinstance(thing, Named) and isinstance(thing.value.type, ir.LocalArrayType):
            d = thing.value.type.dtype
            groups = (("array", 1), ("indices", 1))
            loaded = self.result(
                "local_array_get", (thing.value, offset), ir.ScalarType(d), at=at, groups=groups
            )
            return self._element_scalar(loaded, d, at)
        if not isinstance(thing, Pointer):
            self.words.fail("got an index of something that is neither a pointer nor an array", at)
        t = thing.value.type
        assert isinstance(t, ir.PtrType)
        loaded = self.result("load_scalar", (thing.value, offset), ir.ScalarType(t.dtype), at=at)
        return self._element_scalar(loaded, t.dtype, at)

    def _got(self, thing: Thing, at: int) -> Number:
        """``t.GetValue(i)``."""
        words = self.words
        if words.name() != "GetValue" or not isinstance(thing, Named):
            words.fail("got a member; allowed in expressions: GetValue of a tile", at + 1)
        t = thing.value.type
        words.expect("(")
        offset = self.index(self.expression(), at)
        words.expect(")")
        if not isinstance(t, ir.TileType):
            words.fail("got GetValue of something that is no tile", at + 1)
        got = self.result("tgetval", (thing.value, offset), ir.ScalarType(t.dtype), at=at + 1)
        return self._element_scalar(got, t.dtype, at)

    def _element_scalar(self, value: ir.Value, d: ir.DType, at: int) -> Number:
        """A loaded element as a scalar of C++; 64-bit integers become indices."""
        to = scalar_of(d)
        if to is None:
            self.words.fail(f"got a scalar of type {d.name}, which C++ does not compute with", at)
        if to.dtype == d:
            return Number(to, value)
        if d.bits == to.dtype.bits and to.dtype != ir.INDEX:
            return Number(to, value)
        return Number(to, self.result("arith.index_cast", (value,), ir.ScalarType(to.dtype), at=at))


def literal(value: int | str, suffix: str) -> Number:
    """The scalar of a number in the text: its value where it is whole, else its digits."""
    if isinstance(value, str):
        return Number(CType(ir.F32), number=rounded(value))
    unsigned = "u" in suffix.lower()
    wide = "l" in suffix.lower() or value >= 1 << (32 if unsigned else 31)
    return Number(CType(ir.INDEX if wide else ir.I32, unsigned), number=value)


def _common_type(a: CType, b: CType) -> CType:
    """The type in which C++ computes with two scalars."""
    if a == b:
        return a
    if a.is_float or b.is_float:
        floats = [c for c in (a, b) if c.is_float]
        return max(floats, key=lambda c: c.dtype.bits)
    ranked = sorted((INT, a, b), key=lambda c: (c.dtype.bits, c.unsigned))
    return ranked[-1]


def _extreme(compared: ir.Op, ins: tuple[ir.Value, ir.Value]) -> str | None:
    """The minimum or maximum that a choice between two compared integers is, None for others."""
    predicate = str(compared.attrs.get("predicate"))
    if compared.name != "arith.cmpi" or predicate[1:] not in ("lt", "le", "gt", "ge"):
        return None
    if ins not in (compared.ins, compared.ins[::-1]):
        return None
    least = (predicate[1] == "l") == (ins == compared.ins)
    return f"arith.{'min' if least else 'max'}{predicate[0]}i"
