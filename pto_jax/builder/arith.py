"""Scalars of the program and arithmetic on them."""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ..errors import Diagnostic, with_article
from ..files import user_code
from ..ir import F32, I1, I64, INDEX, AttrValue, DType, ScalarType, Type, VectorType
from ..isa.memory_scalar import TGETVAL
from ..isa.signless import computes_on_signless, signless_type
from ..isa.traits import CAST, cast_name
from . import instead
from .argument_types import as_type, element
from .body import Node, canonical_float, current
from .places import Place, fail, here
from .public import public
from .values import Handle, NoAttributeError, TileHandle, View, described

#: Operation on signed integers and index, on unsigned integers, on floats.
_BINARY: dict[str, tuple[str, str, str]] = {
    "+": ("addi", "addi", "addf"),
    "-": ("subi", "subi", "subf"),
    "*": ("muli", "muli", "mulf"),
    "/": ("", "", "divf"),
    "//": ("divsi", "divui", ""),
    "%": ("remsi", "remui", "remf"),
    "&": ("andi", "andi", ""),
    "|": ("ori", "ori", ""),
    "^": ("xori", "xori", ""),
    "<<": ("shli", "shli", ""),
    ">>": ("shrsi", "shrui", ""),
    "minimum": ("minsi", "minui", "minimumf"),
    "maximum": ("maxsi", "maxui", "maximumf"),
    "ceildiv": ("ceildivsi", "ceildivui", ""),
    "floordiv": ("floordivsi", "divui", ""),
}
_COMPARE: dict[str, tuple[str, str, str]] = {
    "<": ("slt", "ult", "olt"),
    "<=": ("sle", "ule", "ole"),
    ">": ("sgt", "ugt", "ogt"),
    ">=": ("sge", "uge", "oge"),
    "==": ("eq", "eq", "oeq"),
    "!=": ("ne", "ne", "une"),
}
#: Functions of NumPy that its operators call, for numbers of NumPy beside scalars of the program.
_UFUNCS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "left_shift": "<<",
    "right_shift": ">>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}
#: Operands that are indices whatever the instruction.
_INDICES = ("offsets", "switch")
#: What there is for numbers of the program.
_ALLOWED = (
    "operators, pto.minimum, pto.maximum, pto.select and pto.cast; pto.if_, pto.range and pto.while_ for "
    "statements; keyword-only parameters for numbers that Python computes with"
)
#: No float holds an integer of this size.
_FLOATS_END = 1 << 1024
_I1 = ScalarType(I1)


_Operator: TypeAlias = "Callable[[Scalar, Any], Scalar]"


def _operators(symbol: str) -> tuple[_Operator, _Operator]:
    """The methods of an operator: with the scalar on the left, and on the right."""
    # Tiles and views answer themselves.
    return (
        lambda a, b: NotImplemented if isinstance(b, TileHandle | View) else binary(symbol, a, b),
        lambda a, b: binary(symbol, b, a),
    )


def _comparison(symbol: str) -> _Operator:
    return lambda a, b: NotImplemented if isinstance(b, TileHandle | View) else compare(symbol, a, b)


class Scalar(Handle):
    """A number of the program: ``index``, an integer, a float or a truth value.

    Operators build ``arith`` operations; Python numbers on the other side become constants of its type.
    ``//`` and ``%`` truncate toward zero, as in C. Comparisons give an ``i1``; there is no Python truth
    value, so that ``if`` and ``and`` are :func:`if_`, ``&``, ``|`` and :func:`select`.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("f", {"n": "index"}) as f:
    ...     n, = f.args
    ...     inside = (n * 2 + 1 < 16) & (n >= 0)
    >>> str(inside.type), [op.name for op in program.program.walk() if op.name != "arith.constant"]
    ('i1', ['arith.muli', 'arith.addi', 'arith.cmpi', 'arith.cmpi', 'arith.andi', 'return'])
    """

    type: ScalarType
    __slots__ = ()

    __add__, __radd__ = _operators("+")
    __sub__, __rsub__ = _operators("-")
    __mul__, __rmul__ = _operators("*")
    __floordiv__, __rfloordiv__ = _operators("//")
    __truediv__, __rtruediv__ = _operators("/")
    __mod__, __rmod__ = _operators("%")
    __and__, __rand__ = _operators("&")
    __or__, __ror__ = _operators("|")
    __xor__, __rxor__ = _operators("^")
    __lshift__, __rlshift__ = _operators("<<")
    __rshift__, __rrshift__ = _operators(">>")

    def __neg__(self) -> Scalar:
        return negative(self)

    def __invert__(self) -> Scalar:
        return binary("^", self, True if self.type.dtype.name == "i1" else -1)

    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    __eq__ = _comparison("==")  # type: ignore[assignment]
    __ne__ = _comparison("!=")  # type: ignore[assignment]
    __hash__ = object.__hash__

    def objection(self, written: user_code.Expression | None) -> tuple[str, str, str]:
        """Refuse what Python computes before the program runs; the fix is the operation of the program."""
        mine = self.spelled(written)
        text, fix = (written.text, _of_program(written, mine, self.type.dtype)) if written else (mine, "")
        allowed = "" if fix else _ALLOWED
        if written is not None and written.statement == "while":
            allowed = "pto.while_(values), a loop whose number of passes its values decide"
        return f"{text}: {mine} is known when the program runs", allowed, fix

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse what asks for the number when the program is built; an argument can be known then."""
        written = user_code.expression()
        message, allowed, fix = self.objection(written)
        name = self.spelled(written)
        if written is not None and allowed is _ALLOWED:
            fix = self.owner.constant_of(self, name)
            if fix:
                allowed = f"a keyword-only parameter, which {self.owner.name}.specialise({name}=...) sets"
                allowed = "a loop of Python" if fix.startswith("for ") else allowed
        fail(message, written.span if written is not None else None, allowed=allowed, fix=fix)

    __array__ = __array_function__ = refuse
    __jax_array__ = property(refuse)

    def __format__(self, spec: str) -> str:
        if spec:
            message = f"{self.label}: got the format {spec!r}; the number is known when the program runs"
            fail(message, fix=instead.printed(self.label, self.type))
        return str(self)

    __bool__ = __int__ = __float__ = __round__ = __index__ = refuse

    def __pos__(self) -> Scalar:
        return self

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **_: Any) -> Any:
        """Operators with a number of NumPy are those of the program; functions of arrays are refused."""
        lone = [isinstance(v, np.generic | np.ndarray) and not np.ndim(v) for v in inputs]
        numbers = [v.item() if one else v for v, one in zip(inputs, lone, strict=True)]
        written = user_code.expression()
        called = written is not None and isinstance(written.tree, ast.Call)
        symbol = _UFUNCS.get(function.__name__, "")
        if symbol and not called and all(isinstance(v, Handle) or is_number(v) for v in numbers):
            return (compare if symbol in _COMPARE else binary)(symbol, *numbers)
        return self.refuse()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        written = user_code.expression()
        tree = written.tree if written is not None else None
        mine = ast.unparse(tree.value) if isinstance(tree, ast.Attribute) else self.label
        d = "i32" if self.type.dtype.is_float else "f32"
        fix = {"dtype": f"{mine}.type.dtype", "astype": f'pto.cast({mine}, "{d}")', "item": mine}.get(
            name, ""
        )
        message = f"got the attribute {name!r} of the number {mine}"
        allowed = "type, name, and operators"
        raise NoAttributeError(Diagnostic("error", message, here().span, allowed=allowed, fix=fix))


#: Functions of Python, NumPy and ``math`` by what the builder has for as many arguments.
_CALLS = {
    "abs": "pto.maximum({0}, -{0})",
    "divmod": "({0} // {1}, {0} % {1})",
    "float": 'pto.cast({0}, "f32")',
    "sorted": "[pto.minimum({0}, {1}), pto.maximum({0}, {1})]",
    "where": "pto.select({0}, {1}, {2})",
    "minimum": "pto.minimum({0}, {1})",
    "maximum": "pto.maximum({0}, {1})",
}
#: Functions that give the integer of a number.
_INTEGERS = ("int", "round", "floor", "ceil", "trunc", "rint", "index")


def _called(tree: ast.Call, d: DType) -> str:
    """The operation of the program for a call of a function of Python, "" where there is none."""
    name = ast.unparse(tree.func).rpartition(".")[2]
    args = tree.args[0].elts if [*map(type, tree.args)] in ([ast.List], [ast.Tuple]) else tree.args  # type: ignore[attr-defined]
    texts = list(map(ast.unparse, args))
    if name in ("min", "max") and len(texts) > 1:
        return functools.reduce(lambda a, b: f"pto.{name}imum({a}, {b})", texts)
    if name == "range":
        return f"pto.{ast.unparse(tree)}"
    if name in _INTEGERS and texts and (not d.is_float or name in ("int", "trunc")):
        return f'pto.cast({texts[0]}, "index")' if d.is_float else texts[0]
    template = _CALLS.get(name, "")
    return template.format(*texts) if len(set(re.findall(r"{\d}", template))) == len(texts) else ""


def _of_program(written: user_code.Expression, mine: str, d: DType) -> str:
    """The operation of the program for an expression of Python on a number of it, "" where there is none."""
    tree = written.choice or written.tree
    match tree:
        case ast.Call():
            tiles = any(isinstance(v, TileHandle) for v in written.named())
            return _called(tree, d) if not tiles else ""
        case ast.Compare(left, [ast.In()], [ast.Tuple(values) | ast.List(values)]) if values:
            return " | ".join(f"({ast.unparse(left)} == {ast.unparse(v)})" for v in values)
        case ast.IfExp(test, body, other):
            if any(isinstance(v, TileHandle) for v in written.named()):
                return ""
            return f"pto.select({ast.unparse(test)}, {ast.unparse(body)}, {ast.unparse(other)})"
        case ast.UnaryOp(ast.Not(), operand):
            return f"~({ast.unparse(operand)})"
        case ast.BoolOp(op, values):
            return (" & " if isinstance(op, ast.And) else " | ").join(f"({ast.unparse(v)})" for v in values)
        case ast.Compare(left, [_, _] as ops, [middle, right]):
            first = ast.Compare(left, ops[:1], [middle])
            return f"({ast.unparse(first)}) & ({ast.unparse(ast.Compare(middle, ops[1:], [right]))})"
        case ast.BinOp(ast.Constant(2), ast.Pow(), right):
            return f"1 << {ast.unparse(right)}"
        case ast.BinOp(left, ast.Pow(), ast.Constant(int(power))) if 2 <= power <= 4:
            return " * ".join([ast.unparse(left)] * power)
        case ast.Subscript(value, index):
            return mine if ast.unparse(value) == mine else _chosen(value, ast.unparse(index))
    if written.statement in ("if", "elif"):
        return f"with pto.if_({ast.unparse(tree)}{'' if isinstance(tree, ast.Compare) else ' != 0'}):"
    return ""


def _chosen(values: ast.expr, index: str) -> str:
    """The choice of one of several numbers by a number of the program, "" of other objects."""
    match values:
        case ast.List(listed) | ast.Tuple(listed):
            pairs = [(str(i), v) for i, v in enumerate(listed)]
        case ast.Dict(keys, listed) if all(isinstance(k, ast.Constant) and is_number(k.value) for k in keys):
            pairs = [(ast.unparse(k), v) for k, v in zip(keys, listed, strict=True) if k is not None]
        case _:
            return ""
    if not pairs or not all(isinstance(v, ast.Constant) and is_number(v.value) for _, v in pairs):
        return ""
    # Numbers of one type: floats where one is.
    numbers = [ast.literal_eval(v) for _, v in pairs]
    texts = [repr(float(n) if any(isinstance(m, float) for m in numbers) else n) for n in numbers]
    result = texts.pop()
    for (key, _), text in reversed(list(zip(pairs, texts, strict=False))):
        result = f"pto.select({index} == {key}, {text}, {result})"
    return result


def literal(value: Any, d: DType, what: str, instruction: str | None = None) -> AttrValue:
    """A Python number as the value of a constant of an element type."""
    result: AttrValue = None
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        result = bool(value) if d == I1 else None
    elif isinstance(value, Integral) and d != I1:
        number = operator.index(value)
        if d.is_float:
            # An integer beyond all floats is one that the type does not hold.
            return float(number) if abs(number) < _FLOATS_END else _unfit(value, d, what, instruction)
        result = number if -(1 << (d.bits - 1)) <= number < 1 << d.bits else None
    elif isinstance(value, Real) and d.is_float:
        return canonical_float(float(value))
    return _unfit(value, d, what, instruction) if result is None else result


def _unfit(value: Any, d: DType, what: str, instruction: str | None) -> NoReturn:
    allowed = "True or False" if d == I1 else f"{with_article(d)} value or a number that fits {d}"
    fail(f"{what}: got {value!r:.60}", allowed=allowed, fix=meant(value, d), instruction=instruction)


def meant(value: Any, d: DType) -> str:
    """The number of a type that another one, or a text, stands for; "" where there is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return ""
    if d == I1:
        return str(number != 0)
    return repr(number) if d.is_float else str(int(number)) if number.is_integer() else ""


def is_number(value: object) -> bool:
    """Whether a Python object is a number that can become a constant."""
    return isinstance(value, Real) or type(value).__name__ in ("bool_", "bool")


def as_scalar(value: Any, d: DType, what: str, instruction: str | None = None) -> Handle:
    """A scalar operand: a value of the program, or a Python number as a constant of type ``d``."""
    if isinstance(value, Handle) and isinstance(value.type, ScalarType):
        if d == INDEX and value.type.dtype != INDEX and what in _INDICES:
            fix = f'pto.cast({value.label}, "index")' if value.label.isidentifier() else ""
            fail(f"{what}: got {described(value)}", allowed="an index", fix=fix, instruction=instruction)
        return value
    if not is_number(value):
        _no_scalar(value, what, d, instruction)
    return current().constant(literal(value, d, what, instruction), ScalarType(d))


def _no_scalar(value: Any, what: str, d: DType = INDEX, instruction: str | None = None) -> NoReturn:
    """Refuse a value that is no scalar; of a tile the fix is its first element."""
    label = value.label if isinstance(value, TileHandle) else ""
    first, own = f"pto.{TGETVAL}({label}, 0)", getattr(getattr(value, "type", None), "dtype", d)
    fix = first if own == d else f"{first} > 0" if d == I1 else f'pto.cast({first}, "{d}")'
    fix = fix if label.isidentifier() and what != "select" else _whole(value, d)
    if isinstance(value, tuple | list) and len(value) and isinstance(value[-1], Scalar):
        fix = "one of them, as in: for i, value in loop:"
    allowed = "a scalar or a Python number"
    written = user_code.expression() if what in _BINARY or what in _COMPARE else None
    what = written.text if written is not None else what
    fail(f"{what}: got {described(value)}", allowed=allowed, fix=fix, instruction=instruction)


def _whole(value: Any, d: DType) -> str:
    """The number that a text stands for, "" for other values."""
    if not isinstance(value, str):
        return ""
    try:
        return str(int(value, 0))
    except ValueError:
        return meant(value, d)


def dtype_of(value: Any, what: str = "scalar") -> DType:
    """The element type of a scalar; of Python numbers index, f32 and i1."""
    if isinstance(value, Handle):
        if isinstance(value.type, ScalarType):
            return value.type.dtype
        _no_scalar(value, what)
    if isinstance(value, bool):
        return I1
    return INDEX if isinstance(value, Integral) else F32


@public
def constant(value: Any, type: Any = None) -> Scalar:
    """A constant at this place of the program; operands that are Python numbers need none.

    Without a ``type`` it is an index, f32 or i1, as the Python number is. A list with a vector type
    (``"vector<4xi16>"``) makes a vector. BuildError for a number that the type does not hold.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f") as f:
    ...     print(b.constant(3).type, b.constant(0.5, "f16").type, b.constant([1, 2], "vector<2xi16>").type)
    index f16 vector<2xi16>
    """
    place = here()
    t = as_type(type) if type is not None else ScalarType(dtype_of(value))
    result: AttrValue
    if isinstance(t, VectorType):
        count = math.prod(t.dims)
        items = list(value) if isinstance(value, list | tuple) else [value] * count
        if len(items) != count:
            fail(f"constant: got {len(items)} numbers for {t}", place.span, allowed=f"{count}")
        result = tuple(literal(v, t.dtype, "constant") for v in items)
    elif isinstance(t, ScalarType):
        result = literal(value, t.dtype, "constant")
    else:
        fail(f"constant: got the type {t}", place.span, allowed="a scalar or vector type")
    return _emit("arith.constant", (), t, place, {"value": result})


def _emit(
    name: str,
    ins: tuple[Handle, ...],
    t: Type,
    place: Place,
    attributes: dict[str, AttrValue] | None = None,
) -> Scalar:
    body = current()
    inner = signless_type(t) if computes_on_signless(name) else t
    if computes_on_signless(name):
        ins = tuple(_signless(handle, place) for handle in ins)
    node = Node(name, ins, attributes=attributes or {}, span=place.span)
    body.emit(node)
    result: Any = body.define(inner, place.target() if inner == t else None)
    node.results.append(result)
    scalar: Scalar = result
    return scalar if inner == t else _seen_as(scalar, t, place)


def _signless(handle: Handle, place: Place) -> Handle:
    """An operand of the arith dialect: of an unsigned integer the signless one of its bits."""
    body, t = current(), signless_type(handle.type)
    if t == handle.type:
        return handle
    same_bits = body.signless.get(body.use(handle))
    if same_bits is None or not same_bits.block.open:
        same_bits = _seen_as(handle, t, Place(place.span))
        body.signless[handle] = same_bits
    return same_bits


def _seen_as(handle: Handle, t: Type, place: Place) -> Scalar:
    """An integer as one of another sign, with the same bits."""
    result = _emit(CAST, (handle,), t, place)
    current().signless[result] = handle
    return result


def _pair(symbol: str, left: Any, right: Any) -> tuple[Handle, Handle, DType]:
    """Two operands of one type; a Python number takes the type of the other."""
    first, second = isinstance(left, Handle), isinstance(right, Handle)
    d = dtype_of(left if first or not second else right, symbol)
    if first and second and dtype_of(right, symbol) != d:
        fail(
            f"{symbol}: got {described(left)}, and {described(right)}",
            allowed="one type",
            fix=_of_one_type(symbol, d, dtype_of(right)),
        )
    number = right if first else left
    if first != second and isinstance(number, float) and not d.is_float:
        result = user_code.expression()
        tree = result.tree if result is not None else None
        fix = ""
        sides = user_code.sides(tree)
        if sides:
            sides[second] = f'pto.cast({sides[second]}, "f32")'
            fix = f"{sides[0]} {symbol} {sides[1]}"
        fail(f"{symbol}: got {number} beside {with_article(d)}", allowed=f"numbers that fit {d}", fix=fix)
    return as_scalar(left, d, symbol), as_scalar(right, d, symbol), d


def _of_one_type(symbol: str, left: DType, right: DType) -> str:
    """The operation of the user's code with one side converted: to the float where there is one."""
    result = user_code.expression()
    sides = user_code.sides(result.tree if result is not None else None)
    if not sides:
        return ""
    at, target = (0, right) if right.is_float and not left.is_float else (1, left)
    sides[at] = f'pto.cast({sides[at]}, "{target}")'
    return f" {symbol} ".join(sides)


def _column(d: DType) -> int:
    return 2 if d.is_float else 1 if d.kind == "uint" else 0


def binary(symbol: str, left: Any, right: Any) -> Scalar:
    """An operation of the table above on two scalars of one type."""
    place = here()
    a, b, d = _pair(symbol, left, right)
    name = _BINARY[symbol][_column(d)]
    if not name:
        words = "floats" if d.is_integer or d in (I1, INDEX) else "integers and index"
        result = user_code.expression()
        tree = result.tree if result is not None else None
        text, fix = symbol, ""
        if isinstance(tree, ast.BinOp):
            text = ast.unparse(tree)
            fix = ast.unparse(ast.BinOp(tree.left, ast.FloorDiv(), tree.right)) if symbol == "/" else ""
        fail(f"{text}: got {with_article(d)}", place.span, allowed=words, fix=fix)
    return _emit(f"arith.{name}", (a, b), ScalarType(d), place)


def compare(symbol: str, left: Any, right: Any) -> Scalar:
    """A comparison of two scalars of one type; comparisons of floats are false where one is NaN."""
    place = here()
    a, b, d = _pair(symbol, left, right)
    name = "arith.cmpf" if d.is_float else "arith.cmpi"
    return _emit(name, (a, b), _I1, place, {"predicate": _COMPARE[symbol][_column(d)]})


def negative(value: Scalar) -> Scalar:
    """``-value``: ``arith.negf`` of a float, otherwise the subtraction from zero, in the value's type."""
    d = dtype_of(value)
    if d.is_float:
        return _emit("arith.negf", (value,), value.type, here())
    return binary("-", 0, value)


@public
def minimum(left: Any, right: Any) -> Scalar:
    """The smaller of two scalars of one type, one of which may be a Python number; NaN where one is NaN.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index"}) as f:
    ...     b.minimum(f.args[0], 16)
    <Scalar %0: index>
    """
    return binary("minimum", left, right)


@public
def maximum(left: Any, right: Any) -> Scalar:
    """The larger of two scalars of one type, one of which may be a Python number; NaN where one is NaN.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"x": "f32"}) as f:
    ...     b.maximum(f.args[0], 0.5)
    <Scalar %0: f32>
    """
    return binary("maximum", left, right)


@public
def ceildiv(left: Any, right: Any) -> Scalar:
    """A quotient of integers of one type, rounded up; BuildError for floats.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index"}) as f:
    ...     b.ceildiv(f.args[0], 64)
    <Scalar %0: index>
    """
    return binary("ceildiv", left, right)


@public
def floordiv(left: Any, right: Any) -> Scalar:
    """A quotient of integers of one type, rounded down; BuildError for floats.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index"}) as f:
    ...     b.floordiv(f.args[0], 64)
    <Scalar %0: index>
    """
    return binary("floordiv", left, right)


@public
def select(condition: Any, yes: Any, no: Any) -> Scalar:
    """One of two scalars of one type, by a condition of type i1; BuildError for another type.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index"}) as f:
    ...     b.select(f.args[0] > 8, f.args[0], 8)
    <Scalar %0: index>
    """
    place = here()
    condition_value = as_scalar(condition, I1, "select")
    if dtype_of(condition_value) != I1:
        fix = f"{condition_value.label} != 0" if condition_value.label.isidentifier() else ""
        fail(f"select: got the condition {described(condition_value)}", place.span, allowed="i1", fix=fix)
    a, b, d = _pair("select", yes, no)
    return _emit("arith.select", (condition_value, a, b), ScalarType(d), place)


@public
def cast(value: Any, dtype: str | DType) -> Scalar:
    """A scalar as another type: widened, truncated, rounded, or read as its bits.

    Between a float and index the value passes through i64. BuildError for anything but a scalar.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("f", {"n": "index"}) as f:
    ...     x = b.cast(f.args[0], "f32")
    >>> [op.name for op in program.program.walk()]
    ['arith.index_cast', 'arith.sitofp', 'return']
    """
    place = here()
    target = element(dtype)
    if isinstance(value, TileHandle):
        fail(f"cast: got {described(value)}", allowed="a scalar or a Python number",
             fix=instead.converted(value.label, value.type, target))  # fmt: skip
    source = dtype_of(value, "cast")
    handle = as_scalar(value, source, "cast")
    if source == target:
        assert isinstance(handle, Scalar)
        return handle
    if source.is_float != target.is_float and INDEX in (source, target):
        handle = _emit(cast_name(source, I64), (handle,), ScalarType(I64), Place(place.span))
        source = I64
    if signless_type(ScalarType(source)) == signless_type(ScalarType(target)):
        return _seen_as(handle, ScalarType(target), place)
    return _emit(cast_name(source, target), (handle,), ScalarType(target), place)
