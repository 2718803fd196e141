"""Rules as one expression: statement, check, message, run-time test and breaking edit follow from it.

    require("alias-size", "dst.bytes <= src.bytes", source=PAGE)
    require("fp-place", "fp.loc == scaling", HARDWARE)
    require("location", "it.loc in (vec, mat)", HARDWARE, it=("dst", "src"))
    require("columns-sum", "dst.valid_cols == src0.valid_cols + src1.valid_cols", SIMULATOR, run_time=True)

``OPERAND.QUANTITY`` is a fact about an operand (:data:`QUANTITIES`), a bare name an attribute of the
operation or a word: an element type, a memory, a layout, a member of an enumeration. The left side of the
first comparison is what a message reports, the right side is what it allows. A rule does not object to what
is not known, and ``when`` limits it to some operations. ``let`` names values that functions of the site
compute. Rules of several findings, or with words for each case, are functions (:func:`.forbid.forbid`).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from ...ir import AddressSpace, AttrValue, BLayout, Language, Loc, Pad, Pipe, SLayout, TileType, Type, dtype
from ...profiles import PROFILE_NAMES, Profile, ProfileName
from ..declare import AttrMap, Breaker, Constraint, Finding, Fix, RegionRule, Site
from .forbid import HEADERS, Types, as_columns, forbid
from .typesets import element_type, same_element, with_dtype

#: Parameters of tile types by the name of a layout.
_LAYOUTS = {
    "ND": "row_major, none_box",
    "DN": "col_major, none_box",
    "NZ": "col_major, boxes row_major",
    "ZN": "row_major, boxes col_major",
    "ZZ": "row_major, boxes row_major",
    "NN": "col_major, boxes col_major",
}


class _Unknown(Exception):
    """A fact that is not known, or that the operation does not have."""


@dataclass(frozen=True)
class Facts:
    """What an expression sees of an operation: types, attributes, valid sizes, constants, the profile."""

    types: Mapping[str, Type]
    attrs: Mapping[str, AttrValue]
    valid: Mapping[str, tuple[Any, Any]]
    profile: str = ""
    site: Site | None = None

    def tile(self, name: str) -> TileType:
        """The type of a tile."""
        t = self.types.get(name)
        if not isinstance(t, TileType):
            raise _Unknown
        return t

    def size(self, name: str, axis: int) -> Any:
        """Valid rows (0) or columns (1)."""
        n = self.valid.get(name, (None, None))[axis]
        if n is None:
            raise _Unknown
        return n

    def element(self, name: str) -> str:
        """The name of the element type of an operand of any kind."""
        d = element_type(self.types.get(name))
        if d is None:
            raise _Unknown
        return d.name

    def constant(self, name: str) -> int:
        """The value of a scalar operand."""
        value = self.site.constant(name) if self.site is not None else None
        if value is None:
            raise _Unknown
        return value

    def attribute(self, name: str) -> Any:
        """The value of an attribute, the name of a member of an enumeration."""
        value = self.attrs[name]
        declared = self.site.instruction.attribute(name) if self.site is not None else None
        if value is None or (declared is not None and not declared.takes(value)):
            raise _Unknown
        if isinstance(value, Pipe):
            return f"PIPE_{value.name}"
        if isinstance(value, AddressSpace):
            return value.name.lower()
        return value if isinstance(value, bool) else getattr(value, "name", value)

    def given(self, name: str) -> bool:
        """Whether the operation has an operand, or a value of an attribute."""
        return self.attrs.get(name) is not None or name in (self.site.values if self.site else self.types)


@dataclass(frozen=True)
class Quantity:
    """A fact about an operand: its noun, how it is read, and how a message reports it of ``{name}``."""

    noun: str
    read: Callable[[Facts, str], Any]
    report: str

    def of(self, name: str, value: Any) -> str:
        """The clause that a message begins with."""
        report = self.report.replace(" a {value}", " an {value}") if str(value) == "acc" else self.report
        noun = self.noun[:-1] if value == 1 else self.noun
        return report.format(name=name, value=value, noun=noun)


def _count(noun: str, read: Callable[[Facts, str], Any]) -> Quantity:
    return Quantity(noun, read, "{name} has {value} {noun}")


def _word(noun: str, read: Callable[[Facts, str], Any]) -> Quantity:
    return Quantity(noun, read, "{name} has {noun} {value}")


def _of_elements(read: Callable[[Facts, str], Any]) -> Quantity:
    return Quantity("bits", read, "{name} has elements of {value} {noun}")


class Extent(tuple[int | None, int | None]):
    """Rows and columns, None for one that is not known; comparisons leave that one out."""

    __slots__ = ()

    def __ge__(self, other: object) -> bool:
        pairs = zip(self, other, strict=True) if isinstance(other, Extent) else ()
        return all(a is None or b is None or a >= b for a, b in pairs)

    def __str__(self) -> str:
        return "x".join("?" if n is None else str(n) for n in self)


class _Signless(str):
    """The name of an element type that a signless integer of the text, as in ``i32``, may stand for."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and same_element(dtype(str(self)), dtype(str(other)))


QUANTITIES: Mapping[str, Quantity] = {
    "rows": _count("rows", lambda f, n: f.tile(n).rows),
    "cols": _count("columns", lambda f, n: f.tile(n).cols),
    "valid_rows": _count("valid rows", lambda f, n: f.size(n, 0)),
    "valid_cols": _count("valid columns", lambda f, n: f.size(n, 1)),
    "bytes": _count("bytes", lambda f, n: f.tile(n).bytes),
    "elements": _count("elements", lambda f, n: f.tile(n).elements),
    "shape": Quantity("size", lambda f, n: Extent(f.tile(n).shape), "{name} is {value}"),
    "region": _word("valid region", lambda f, n: Extent((f.size(n, 0), f.size(n, 1)))),
    "sizes": _word("valid region", lambda f, n: Extent(f.valid.get(n, (None, None)))),
    "element": _word("element type", lambda f, n: _Signless(f.element(n))),
    "width": _of_elements(lambda f, n: dtype(f.element(n)).storage_bits),
    "valid_elements": _count("valid elements", lambda f, n: f.size(n, 0) * f.size(n, 1)),
    "dtype": _word("element type", lambda f, n: f.element(n)),
    "bits": _of_elements(lambda f, n: dtype(f.element(n)).bits),
    "integer": Quantity(" has an integer type", lambda f, n: dtype(f.element(n)).is_integer, "{name}{noun}"),
    "loc": Quantity("memory", lambda f, n: f.tile(n).loc.name.lower(), "{name} is a {value} tile"),
    "layout": _word("layout", lambda f, n: f.tile(n).layout),
    "blayout": _word("blayout", lambda f, n: f.tile(n).blayout.name.lower()),
    "slayout": _word("slayout", lambda f, n: f.tile(n).slayout.name.lower()),
    "pad": _word("pad", lambda f, n: f.tile(n).pad.name.lower()),
    "fractal": _word("fractal", lambda f, n: f.tile(n).fractal),
    "convolution": Quantity(
        " is a convolution tile", lambda f, n: f.tile(n).conv is not None, "{name}{noun}"
    ),
    "value": Quantity("", lambda f, n: f.constant(n), "{name} is {value}"),
    "given": Quantity("presence", lambda f, n: f.given(n), "{name} is given"),
}


#: Values of an expression that functions compute, None where they are not known.
Let: TypeAlias = "Mapping[str, Callable[[Site], Any]]"


class _Operand:
    """An operand in an expression."""

    __slots__ = ("facts", "name")

    def __init__(self, facts: Facts, name: str) -> None:
        self.facts, self.name = facts, name

    def __getattr__(self, quantity: str) -> Any:
        return QUANTITIES[quantity].read(self.facts, self.name)


class _Names(dict[str, Any]):
    """The names of an expression."""

    def __init__(self, facts: Facts, operands: frozenset[str], it: str | None, let: Let) -> None:
        super().__init__()
        self.facts, self.operands, self.it, self.let = facts, operands, it, let

    def __missing__(self, name: str) -> Any:
        if name in self.let:
            value = self.let[name](self.facts.site) if self.facts.site is not None else None
            if value is None:
                raise _Unknown
            return value
        if name in self.operands:
            return _Operand(self.facts, self.it if name == "it" and self.it else name)
        if name == "profile":
            return self.facts.profile
        return self.facts.attribute(name) if name in self.facts.attrs else name


def _measured(tree: ast.expr) -> Iterator[tuple[str, str]]:
    """The operands of an expression and the quantities of each, in order."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr


@dataclass(frozen=True)
class Expression:
    """An expression of the language of rules."""

    text: str

    @cached_property
    def tree(self) -> ast.expr:
        """Its syntax tree."""
        return ast.parse(self.text, mode="eval").body

    @cached_property
    def operands(self) -> frozenset[str]:
        """The operands that it has a quantity of."""
        return frozenset(name for name, _ in _measured(self.tree))

    @cached_property
    def _code(self) -> Any:
        return compile(self.text, f"<rule {self.text}>", "eval")

    def value(self, facts: Facts, it: str | None = None, let: Let = MappingProxyType({})) -> Any:
        """Its value; raises :class:`_Unknown` where a fact is missing."""
        return eval(self._code, {"__builtins__": {}}, _Names(facts, self.operands, it, let))


_IS = {ast.Eq: "", ast.NotEq: "not ", ast.In: "one of ", ast.NotIn: "none of "}
_LIMITS = {ast.LtE: "at most ", ast.GtE: "at least ", ast.Lt: "less than ", ast.Gt: "more than "}


def _words(tree: ast.expr, it: str) -> str:
    """A part of an expression in words."""
    match tree:
        case ast.Attribute(ast.Name(name), "given"):
            return f"{it if name == 'it' else name} is given"
        case ast.UnaryOp(ast.Not(), ast.Attribute(ast.Name(name), "given")):
            return f"no {it if name == 'it' else name}"
        case ast.Attribute(ast.Name(name), "value" | "integer" | "convolution" as quantity):
            return (it if name == "it" else name) + QUANTITIES[quantity].noun
        case ast.Attribute(ast.Name(name), quantity):
            return f"the {QUANTITIES[quantity].noun} of {it if name == 'it' else name}"
        case ast.UnaryOp(ast.Not(), operand):
            return f"not ({_words(operand, it)})"
        case ast.BoolOp(op, values):
            return (" and " if isinstance(op, ast.And) else " or ").join(_words(v, it) for v in values)
        case ast.Compare(left, [op], [right]):
            several = isinstance(left, ast.Attribute) and QUANTITIES[left.attr].noun.endswith("s")
            word = {**_IS, **_LIMITS}[type(op)]
            return f"{_words(left, it)} {'are' if several else 'is'} {word}{_words(right, it)}"
        case ast.Tuple(elements):
            return ", ".join(_words(e, it) for e in elements)
        case ast.BinOp(left, ast.Add(), right):
            return f"{_words(left, it)} plus {_words(right, it)}"
        case ast.Name(name):
            return f"{name} ({_LAYOUTS[name]})" if name in _LAYOUTS else name
    return ast.unparse(tree)


def _allowed(
    test: ast.expr, it: str, value: Callable[[ast.expr], Any] | None = None, let: Container[str] = ()
) -> str:
    """What a comparison allows: with the numbers of one operation, or in words for all of them."""

    def shown(tree: ast.expr) -> str:
        words = _words(tree, it)
        if value is not None and isinstance(tree, ast.Name) and tree.id in let:
            v = value(tree)
            return str(v) if isinstance(v, int | str | Extent) else ", ".join(map(str, v)) or "nothing"
        return words if value is None or not any(_measured(tree)) else f"{value(tree)}, {words}"

    match test:
        case ast.BoolOp(op, [first, *others]):
            joint = ", or " if isinstance(op, ast.Or) else " and "
            subject = ast.dump(_subject(first))
            parts = [_allowed(first, it, value, let)]
            for other in others:
                same = ast.dump(_subject(other)) == subject or isinstance(other, ast.Attribute)
                about = "" if same else f" for {_words(_subject(other), it)}"
                parts.append(_allowed(other, it, value, let) + about)
            return joint.join(parts)
        case ast.Compare(ast.BinOp(_, ast.Mod(), unit), [ast.Eq()], [ast.Constant(0)]):
            return f"a multiple of {shown(unit)}"
        case ast.Compare(low, [ast.LtE(), ast.LtE()], [_, high]):
            return f"{shown(low)} to {value(high) if value is not None else shown(high)}"
        case ast.Compare(_, [op], [right]):
            return _LIMITS.get(type(op), "not " if isinstance(op, ast.NotEq | ast.NotIn) else "") + shown(
                right
            )
    return _words(test, it)


def _given(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Attribute) and tree.attr == "given"


def _subject(test: ast.expr) -> ast.expr:
    """The operand's quantity, or the attribute, that a message reports."""
    match test:
        case ast.BoolOp(_, [first, *_]):
            return _subject(first)
        case ast.Compare(_, [_, _], [subject, _]) | ast.Compare(ast.BinOp(subject, ast.Mod(), _)):
            return subject
        case ast.Compare(left):
            return left
        case ast.UnaryOp(_, operand):
            return operand
    return test


@dataclass(frozen=True)
class Rule:
    """A condition on operations, of operands ``it`` in turn where there are some."""

    text: str
    when: str | Callable[[Site], bool] = ""
    it: tuple[str, ...] = ()
    why: str = ""
    let: Let = field(default_factory=dict)

    def __call__(self, site: Site) -> Iterator[Finding]:
        """The findings about an operation."""
        facts = Facts(site.types, site.attrs, site.valid, site.profile.name, site)
        for operand, test in self.broken(facts):
            yield self.finding(facts, operand, test)

    @cached_property
    def condition(self) -> Expression:
        """The expression that holds for legal operations."""
        return Expression(self.text)

    @cached_property
    def guard(self) -> Expression | None:
        """The expression that limits the rule to some operations."""
        return Expression(self.when) if isinstance(self.when, str) and self.when else None

    def _applies(self, facts: Facts, it: str | None) -> bool:
        if callable(self.when):
            return facts.site is not None and self.when(facts.site)
        return self.guard is None or bool(self.guard.value(facts, it, self.let))

    @property
    def statement(self) -> str:
        """The rule in words."""
        names = ", ".join(self.it)
        parts = dict[str, list[str]]()
        for test in self.tests:
            subject = _subject(test.tree)
            about = "" if _given(subject) else f"{_words(subject, names).removeprefix('the ')}: "
            parts.setdefault(about, []).append(_allowed(test.tree, names))
        statement = "; ".join(about + " and ".join(allowed) for about, allowed in parts.items())
        where = f", where {_words(self.guard.tree, 'the operand')}" if self.guard is not None else ""
        return statement + (f" ({self.why})" if self.why else "") + where

    @cached_property
    def tests(self) -> tuple[Expression, ...]:
        """The expressions that the condition joins by "and"."""
        match self.condition.tree:
            case ast.BoolOp(ast.And(), values):
                return tuple(Expression(ast.unparse(value)) for value in values)
        return (self.condition,)

    def broken(self, facts: Facts) -> Iterator[tuple[str | None, Expression]]:
        """The operands that break the rule (None: it is about an attribute), each with the broken test."""
        for name in self.it or (None,):
            for test in self.tests:
                if self._breaks(test, facts, name):
                    operand = name or self.operand
                    yield operand if operand in facts.types else None, test
                    break

    def _breaks(self, test: Expression, facts: Facts, it: str | None) -> bool:
        try:
            return self._applies(facts, it) and not test.value(facts, it, self.let)
        except _Unknown:
            return False

    @cached_property
    def measured(self) -> list[tuple[str, str]]:
        """The operands of the condition, each with a quantity that it has of it."""
        pairs = list(_measured(self.condition.tree))
        return [(n, q) for name, q in pairs for n in (self.it if name == "it" else (name,))]

    @property
    def operand(self) -> str | None:
        """The operand that messages are about."""
        return next((name for name, _ in _measured(_subject(self.condition.tree))), None)

    def finding(self, facts: Facts, operand: str | None, broken: Expression) -> Finding:
        """What a message says: the operand, what it has, and what is allowed."""

        def value(tree: ast.expr) -> Any:
            return Expression(ast.unparse(tree)).value(facts, operand, self.let)

        test = broken.tree
        subject, name = _subject(test), operand or ""
        match subject:
            case ast.Attribute(ast.Name(given), "given"):
                got = f"{given} is {'given' if isinstance(test, ast.UnaryOp) else 'missing'}"
            case ast.Attribute(_, quantity):
                got = QUANTITIES[quantity].of(name, value(subject))
            case _:
                got = f"{ast.unparse(subject)} is {value(subject)}"
        # All that is asked of the subject, not the broken part alone.
        same = [t.tree for t in self.tests if ast.dump(_subject(t.tree)) == ast.dump(subject)]
        allowed = " and ".join(_allowed(tree, name, value, self.let) for tree in same)
        return operand, got, allowed + (f" ({self.why})" if self.why else "")

    def sizes_test(self, sizes: Mapping[str, tuple[Any, Any]], types: Mapping[str, TileType]) -> Any:
        """Whether sizes of an execution break a comparison; one truth value of the kind the sizes are."""
        facts = Facts(types, {}, sizes)
        match self.condition.tree:
            case ast.Compare(left, [op], [right]):
                a, b = (Expression(ast.unparse(side)).value(facts) for side in (left, right))
                return _BROKEN[type(op)](a, b)
        raise TypeError(self.text)


_BROKEN: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.ne,
    ast.LtE: operator.gt,
    ast.GtE: operator.lt,
}


def require(
    rule: str,
    condition: str,
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES,
    *,
    when: str | Callable[[Site], bool] = "",
    it: tuple[str, ...] = (),
    why: str = "",
    let: Let = MappingProxyType({}),
    statement: str = "",
    source: str = HEADERS,
    invalid_if: Breaker | None = None,
    severity: Literal["error", "warning"] = "error",
    run_time: bool = False,
    region: RegionRule | None = None,
    fix: Fix | None = None,
    on_lanes: bool = True,
    since: Language | None = None,
    until: Language | None = None,
) -> Constraint:
    """A constraint of one expression; ``why`` is a reason that its messages end with.

    >>> rule = require("bias-columns", "bias.cols >= dst.valid_cols", why="a number for each")
    >>> rule.allowed
    'columns of bias: at least the valid columns of dst (a number for each)'
    """
    meant = Rule(condition, when, it, why, let)

    if run_time and region is None:
        region = RegionRule("custom", tuple(sorted(meant.condition.operands)), meant.sizes_test)
    return forbid(
        rule,
        statement or (lambda: meant.statement),
        profiles,
        source=source,
        invalid_if=invalid_if or _breaker(meant),
        severity=severity,
        region=region,
        stage="run-time" if run_time else "static",
        fix=fix,
        on_lanes=on_lanes,
        since=since,
        until=until,
    )(meant)


#: A quantity in the text of a rule, which nobody need parse before it is judged.
_QUANTITY = re.compile(r"[^\W\d]\w*\.([^\W\d]\w*)")


def _breaker(rule: Rule) -> Breaker | None:
    """The first edit of an operand or attribute of the condition that makes a legal sample break the rule."""
    quantities = set(_QUANTITY.findall(rule.text))
    if quantities and quantities <= {"value", "given"}:
        return None

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        for changed_types, changed_attrs in _changes(rule, types, attrs):
            regions = {n: t.valid for n, t in changed_types.items() if isinstance(t, TileType)}
            if any(rule.broken(Facts(changed_types, changed_attrs, regions, profile.name))):
                types.update(changed_types)
                attrs.update(changed_attrs)
                return True
        return False

    return breaks


def _changes(rule: Rule, types: Types, attrs: AttrMap) -> Iterator[tuple[Types, AttrMap]]:
    """Samples that differ from a legal one in one operand, or in one attribute."""
    for name, quantity in rule.measured:
        for t in _others(types[name], quantity) if name in types else ():
            if t != types[name]:
                yield {**types, name: t}, attrs
    nodes = list(ast.walk(rule.condition.tree))
    subject = _subject(rule.condition.tree)
    numbers = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, int)]
    for node in nodes:
        if isinstance(node, ast.Name) and (node.id in attrs or node is subject):
            for other in _other_values(attrs.get(node.id), numbers):
                yield types, {**attrs, node.id: other}


def _other_values(value: AttrValue, numbers: list[int]) -> list[AttrValue]:
    """Values of an attribute: the members of its enumeration, or what is next to the numbers of a rule."""
    if isinstance(value, IntEnum):
        return list(type(value))
    return [not value] if isinstance(value, bool) else [n + step for n in numbers for step in (1, -1)]


def _others(t: Type, quantity: str) -> Iterator[Type]:
    """Types that differ in a quantity from another one, the usual ones first."""
    if quantity in ("dtype", "element", "bits", "width"):
        yield from (with_dtype(t, dtype(name)) for name in ("f16", "f32", "i32", "u8", "i8", "u64"))
    elif isinstance(t, TileType):
        for change in _CHANGES[quantity]:
            other = change(t)
            if other is not None:
                yield other


def _sized(t: TileType, rows: int, cols: int) -> TileType | None:
    """A tile of another size, valid as far as it was."""
    if rows < 1 or cols < 1 or not t.is_static:
        return None
    return replace(t, rows=rows, cols=cols, v_row=min(t.v_row or 0, rows), v_col=min(t.v_col or 0, cols))


def _valid(t: TileType, rows: int, cols: int) -> TileType | None:
    """A tile with another valid region, where its region is static and the new one fits."""
    if not t.is_static:
        return None
    v_row, v_col = (t.v_row or 0) + rows, (t.v_col or 0) + cols
    return t.with_valid(v_row, v_col) if 0 <= v_row <= t.rows and 0 <= v_col <= t.cols else None


def _placed(loc: Loc, t: TileType) -> TileType:
    return replace(t, loc=loc)


_Change: TypeAlias = "Callable[[TileType], TileType | None]"
_ROWS: tuple[_Change, ...] = (
    lambda t: _sized(t, 4 * t.rows, t.cols),
    lambda t: _sized(t, 1, t.cols),
    lambda t: _sized(t, t.rows + 1, t.cols),
)
_COLUMNS: tuple[_Change, ...] = (
    lambda t: _sized(t, t.rows, 4 * t.cols),
    lambda t: _sized(t, t.rows, 256 // t.dtype.storage_bits),
    lambda t: _sized(t, t.rows, t.cols + 256 // t.dtype.storage_bits),
)
_VALID_ROWS: tuple[_Change, ...] = (lambda t: _valid(t, -1, 0), lambda t: _valid(t, 1, 0))
_VALID_COLUMNS: tuple[_Change, ...] = (lambda t: _valid(t, 0, -1), lambda t: _valid(t, 0, 1))
_ORDERS: tuple[_Change, ...] = (
    as_columns,
    lambda t: replace(t, blayout=BLayout.ROW_MAJOR),
    lambda t: replace(t, slayout=SLayout.ROW_MAJOR) if not t.rows % 16 else None,
    lambda t: replace(t, slayout=SLayout.NONE_BOX),
)
#: Edits that change a quantity of a tile.
_CHANGES: Mapping[str, tuple[_Change, ...]] = {
    "rows": _ROWS,
    "cols": _COLUMNS,
    "bytes": _ROWS + _COLUMNS,
    "elements": _ROWS + _COLUMNS,
    "valid_elements": _VALID_COLUMNS,
    "shape": _ROWS + _COLUMNS,
    "valid_rows": _VALID_ROWS,
    "valid_cols": _VALID_COLUMNS,
    "region": _VALID_ROWS + _VALID_COLUMNS,
    "sizes": _VALID_ROWS + _VALID_COLUMNS,
    "loc": tuple(partial(_placed, loc) for loc in (Loc.MAT, Loc.VEC, Loc.ACC, Loc.LEFT)),
    "layout": _ORDERS,
    "blayout": _ORDERS[:2],
    "slayout": _ORDERS[2:],
    "pad": (lambda t: replace(t, pad=Pad.NULL), lambda t: replace(t, pad=Pad.MAX)),
    "fractal": (lambda t: replace(t, fractal=32),),
    "convolution": (),
    "value": (),
    "given": (),
}
