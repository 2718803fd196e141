"""Expressions of a C++ kernel as operations on scalars and pointers."""

from __future__ import annotations

import re

from .. import ir
from .cpp_body import Body, Thing, scalar_of
from .cpp_names import members, plain
from .cpp_tokens import MAX_DEPTH
from .cpp_values import (
    BOOL,
    INT,
    SCALARS,
    CType,
    Named,
    Number,
    Pointer,
    View,
    rounded,
)

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
_INTEGRAL = re.compile(r"(0[xX][0-9A-Fa-f]+|\d+)([uUlL]*)\Z")
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
        found = self._binary(self._unary(), 0)
        if self.words.text == "?":
            found = self._chosen(found, at)
        self.words.depth -= 1
        return found

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
            return literal(text)
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
        known = self.known.get(name)
        if known is not None:
            return known
        if words.text == "(":
            return self._called(name, at)
        if name in ("true", "false"):
            return Number(BOOL, number=int(name == "true"))
        if name == "static_cast" and words.text == "<":
            return self._static_cast(at)
        found = members().get(plain(name))
        return found if found is not None else self.find(name, at)

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


def literal(text: str) -> Number:
    """The scalar of a number in the text."""
    whole = _INTEGRAL.match(text)
    if whole is not None:
        value = int(whole[1], 16) if whole[1][:2].lower() == "0x" else int(whole[1])
        unsigned = "u" in whole[2].lower()
        wide = "l" in whole[2].lower() or value >= 1 << (32 if unsigned else 31)
        return Number(CType(ir.INDEX if wide else ir.I32, unsigned), number=value)
    return Number(CType(ir.F32), number=rounded(text.rstrip("fFlL")))


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
