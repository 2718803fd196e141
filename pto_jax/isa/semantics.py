"""Arithmetic of instructions as data that programs read: facts of the declarations.

Analyses, generators, reports and emitters ask these instead of listing names of instructions.
"""

import ast
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np

from ..profiles import PROFILE_NAMES, ProfileName
from .assembly import Assembly
from .changes import Change
from .rules.typesets import FLOATS

#: Which lanes of the sources a lane of the destination depends on. ``same``: that lane (of an operand that
#: holds a mask, its bit); ``line``: lanes of its row or column; ``other``: lanes that valid regions and
#: positions in data decide; ``open``: lanes that more than these decide.
Lanes: TypeAlias = Literal["same", "line", "other", "open"]
#: Elements that keep their bits, where the element types agree and no attribute changes values. ``copy``: the
#: elements of one source, each at most once, at places that data do not decide; ``select``: elements of the
#: sources, chosen or repeated.
Moves: TypeAlias = Literal["copy", "select"]
#: What the numbers of an operand stand for: themselves, bits of a mask, positions in another operand, or
#: words that say how an accumulator is quantised.
Holds: TypeAlias = Literal["numbers", "mask", "positions", "parameters"]
#: Of each profile whose implementation reads and writes element by element: the tile sources that the
#: destination may be without changing a result.
InPlace: TypeAlias = "Mapping[ProfileName, tuple[str, ...]]"


@dataclass(frozen=True)
class Apart:
    """Tiles of one operation that share no bytes: ``operand`` with none of ``others``.

    ``profiles`` are those that read an operand again when they have written to another one, ``source`` says
    where that stands. It is said of operations whose source operands begin with ``form``, and of element
    types of ``operand`` (``dtypes``, empty: all).
    """

    operand: str
    others: tuple[str, ...]
    source: str
    profiles: tuple[ProfileName, ...] = ("a2a3",)
    form: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    def holds(self, form: tuple[str, ...], dtype: str) -> bool:
        """Whether it is said of operations with these source operands and this element type."""
        return form[: len(self.form)] == self.form and (not self.dtypes or dtype in self.dtypes)

    def __str__(self) -> str:
        which = [f"in ({', '.join(self.form)}, ...)"] if self.form else []
        which += [f"for {' '.join(self.dtypes)}"] if self.dtypes else []
        said = " ".join((f"{self.operand} shares no bytes with {', '.join(self.others)}", *which))
        return f"{said} ({', '.join(self.profiles)}; {self.source})"


def all_apart(names: Sequence[str], source: str) -> tuple[Apart, ...]:
    """Operands of which no two share bytes, on every profile."""
    pairs = ((name, tuple(names[:i])) for i, name in enumerate(names) if i)
    return tuple(Apart(name, others, source, PROFILE_NAMES) for name, others in pairs)


@dataclass(frozen=True)
class Range:
    """Operands of magnitude ``2**low`` to ``2**high``, of either sign where ``signed``.

    >>> Range(-7, 7).signed
    True
    """

    low: float
    high: float
    signed: bool = True


POSITIVE_NORMALS = Range(-14, 15, signed=False)
_FACTORS = (Range(-7, 7), Range(-7, 7))


@dataclass(frozen=True)
class Accuracy:
    """How far results may be from the formula's real value, rounded once to the element type.

    ``bounds`` gives the distance in ULP per element type, 0 where results are correctly rounded; element
    types without a bound, and all of :data:`EXACT`, follow documented steps of one rounding each, or move
    bits. ``ranges`` are operands for which results are normal numbers, in the order of the text: accuracy
    is measured there, and not measured where there are none.
    """

    bounds: Mapping[str, int] = field(default_factory=dict)
    ranges: tuple[Range, ...] = ()

    @cached_property
    def ulp(self) -> Mapping[str, int]:
        """The bounds of element types whose results need not be correctly rounded."""
        return {d: bound for d, bound in self.bounds.items() if bound}

    @property
    def text(self) -> str:
        """The accuracy in words.

        >>> within({"f32": 1}).text
        'f32 1 ULP'
        """
        bounds = ", ".join(f"{d} {n} ULP" for d, n in self.ulp.items())
        return bounds or "exact: bits moved, or one rounding per documented step"


EXACT = Accuracy()


def correctly_rounded(*ranges: Range) -> Accuracy:
    """The accuracy of a real function that is rounded once from its exact value."""
    return Accuracy(dict.fromkeys(FLOATS, 0), ranges)


def within(bounds: Mapping[str, int], *ranges: Range) -> Accuracy:
    """The accuracy of a real function evaluated to a number of ULP per element type."""
    return Accuracy(bounds, ranges)


QUOTIENT = correctly_rounded(*_FACTORS)

_Values: TypeAlias = "Callable[..., Any]"
_OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
    ast.USub: "neg",
    ast.Invert: "not",
    ast.Lt: "less",
    ast.Gt: "greater",
}


def _remainder(a: Any, b: Any) -> Any:
    """The truncated remainder, moved to the divisor's side by one addition."""
    r = np.fmod(a, b)
    return np.where((r != 0) & ((a < 0) != (b < 0)), r + b, r)


#: Operators and functions of formulas on arrays of real numbers.
REAL: dict[str, _Values] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "neg": operator.neg,
    "not": operator.invert,
    "less": operator.lt,
    "greater": operator.gt,
    "select": np.where,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "recip": lambda a: 1 / a,
    "pow": np.power,
    "fmod": np.fmod,
    "rem": _remainder,
    "relu": lambda a: np.where(a > 0, a, 0),
}
#: Names in formulas for operands in the order in which a program has them.
POSITIONAL = ("first", "second")


@dataclass(frozen=True)
class Formula:
    """The value of a lane as an expression of operands, in Python's grammar.

    Functions are those of :data:`REAL`: ``fmod`` and ``rem`` are the truncated and the floored remainder,
    ``relu(x)`` is ``x`` where it is greater than zero, else +0. Others (``convert``, ``clamp``) have a
    meaning that types decide. Integers wrap after every operation; floats are rounded to the type
    ``working``: ``element`` is that of the destination, ``f32`` at least f32, with one rounding to the
    destination's at the end. ``shown`` is the spelling of traces where it is not the expression.
    ``complete`` says that there is nothing to add to the formula.

    >>> f = Formula("src0 - src1")
    >>> sorted(f.names), f.operation, f.evaluate({"src0": 5, "src1": 3})
    (['src0', 'src1'], 'sub', 2)
    """

    text: str
    working: Literal["element", "f32"] = "element"
    shown: str | None = None
    complete: bool = True

    @cached_property
    def _tree(self) -> ast.expr:
        return ast.parse(self.text, mode="eval").body

    @cached_property
    def _plain(self) -> bool:
        kinds = (ast.BinOp, ast.UnaryOp, ast.Name, ast.operator, ast.unaryop, ast.Load)
        return all(isinstance(node, kinds) for node in ast.walk(self._tree))

    @cached_property
    def functions(self) -> frozenset[str]:
        """Names of the functions that are called."""
        calls = (n.func for n in ast.walk(self._tree) if isinstance(n, ast.Call))
        return frozenset(f.id for f in calls if isinstance(f, ast.Name))

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the operands, :data:`POSITIONAL` ones included."""
        named = (n.id for n in ast.walk(self._tree) if isinstance(n, ast.Name))
        return frozenset(named) - self.functions

    @property
    def operation(self) -> str:
        """The function or operator that is applied last; ``copy`` where there is none.

        >>> Formula("exp(a - b)").operation, Formula("a / b").operation
        ('exp', 'div')
        """
        return _operation(self._tree)

    def fits(self, operands: Collection[str]) -> bool:
        """Whether the formula is one of exactly these operands."""
        if self.names <= set(POSITIONAL):
            return len(self.names) == len(operands)
        return self.names == set(operands)

    def spelled(self, letters: Mapping[str, str]) -> str | None:
        """The formula with letters for its operands; None where it has no such spelling.

        It has one where it is an expression without functions, choices and constants, or ``shown`` is given.

        >>> Formula("src0 - src1").spelled({"src0": "A", "src1": "B"})
        'A - B'
        """
        if self.shown is None and (self.names != set(letters) or not self._plain):
            return None
        return re.sub(r"[A-Za-z_]\w*", lambda m: letters.get(m[0], m[0]), self.shown or self.text)

    def evaluate(
        self,
        operands: Mapping[str, Any],
        functions: Mapping[str, _Values] = REAL,
        rounded: Callable[[Any], Any] = lambda value: value,
    ) -> Any:
        """The formula's value on numbers or arrays; ``operands`` are in the order of the text.

        ``rounded`` is applied to every result but the last one. Raises KeyError for a function that
        ``functions`` lacks.
        """
        values = {**dict(zip(POSITIONAL, operands.values(), strict=False)), **operands}

        def value(node: ast.expr, last: bool = False) -> Any:
            if isinstance(node, ast.Name):
                return values[node.id]
            if isinstance(node, ast.Constant):
                return node.value
            result = functions[_operation(node)](*(value(a) for a in _arguments(node)))
            return result if last or isinstance(node, ast.Compare | ast.IfExp) else rounded(result)

        return value(self._tree, last=True)


def _operation(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        return _OPERATORS[type(node.op)]
    if isinstance(node, ast.Compare):
        return _OPERATORS[type(node.ops[0])]
    return "select" if isinstance(node, ast.IfExp) else "copy"


def _arguments(node: ast.expr) -> Sequence[ast.expr]:
    if isinstance(node, ast.Call):
        return node.args
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.UnaryOp):
        return (node.operand,)
    if isinstance(node, ast.Compare):
        return node.left, node.comparators[0]
    assert isinstance(node, ast.IfExp), ast.dump(node)
    return node.test, node.body, node.orelse


_OF_TWO = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "max": "{b} if {a} < {b} else {a}",
    "min": "{b} if {b} < {a} else {a}",
    "expdif": "exp({a} - {b})",
}


def of_two(operation: str, a: str = "src0", b: str = "src1") -> Formula:
    """The formula of an operation that tiles, scalars, expanded and partial tiles share.

    >>> of_two("max", "src", "scalar").text
    'scalar if src < scalar else src'
    """
    return Formula(_OF_TWO[operation].format(a=a, b=b))


class Facts(TypedDict, total=False):
    """The facts of a declaration as builders hand them on.

    The keys are fields of :class:`~pto_jax.isa.declare.Instruction`.
    """

    lanes: Lanes
    moves: Moves | None
    formulas: tuple[Formula, ...]
    accuracy: Accuracy
    divisor: tuple[str, ...]
    shift_count: str | None
    positive: tuple[str, ...]
    in_place: InPlace
    apart: tuple[Apart, ...]
    assembly: Assembly
    sized_by: tuple[str, ...]
    changes: tuple[Change, ...]
