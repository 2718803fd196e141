"""Scalar operations: the types each of them takes, one finding per operation."""

import math
from collections.abc import Callable, Collection
from dataclasses import replace

from ..errors import Diagnostic
from ..ir import (
    FRAGMENT,
    I1,
    INDEX,
    DType,
    Function,
    MemRefType,
    Op,
    Program,
    PtrType,
    Region,
    ScalarType,
    Type,
    UnknownType,
    Value,
    VectorType,
)
from ..isa.signless import on_signless, unsigned_of
from ..isa.traits import CAST
from ..text import print_program
from ..text.formats import PREDICATES
from ..text.type_text import print_type

_Rule = Callable[[Op], str | None]
#: Operations on integers as signed ones: their operands, or their result.
_SIGNED: dict[str, str] = dict.fromkeys(
    "divsi ceildivsi floordivsi remsi minsi maxsi shrsi extsi sitofp".split(), "ins"
)
_SIGNED["fptosi"] = "results"
_INTEGER = """
    addi subi muli divsi divui ceildivsi ceildivui floordivsi remsi remui andi ori xori shli shrsi shrui
    minsi minui maxsi maxui
""".split()
_FLOAT = "addf subf mulf divf remf minimumf maximumf minnumf maxnumf".split()


def _unrealized(op: Op) -> str | None:
    """A cast between integers of one width, or of a memref to a pointer to its elements."""
    if len(op.ins) == len(op.results) == 1:
        source, result = op.ins[0].type, op.results[0].type
        if isinstance(source, MemRefType) and isinstance(result, PtrType):
            same = source.dtype == result.dtype and source.space in (None, result.space)
            return None if same else f"{source} to {result}; allowed: a pointer to its elements in its space"
    return _WHOLE_CAST(op)


def arith_finding(op: Op) -> Diagnostic | None:
    """What is wrong with an operation of the arith dialect, or a cast between integers of one width.

    >>> from pto_jax.ir import F32
    >>> a, r = Value("a", ScalarType(F32)), Value("r", ScalarType(F32))
    >>> arith_finding(Op("arith.addi", (a, a), results=(r,))).message
    '%a is f32; allowed: an integer or index'
    """
    rule = _RULES.get(op.name)
    if rule is None:
        operations = ", ".join(sorted(n.removeprefix("arith.") for n in _RULES if n != CAST))
        return op.error("supported", f"is not supported by this version; of arith it has: {operations}")
    finding = rule(op) or _sign(op)
    return op.error("scalar-types", finding) if finding is not None else None


def sign_finding(op: Op, names: Callable[[], Collection[str]]) -> Diagnostic | None:
    """A warning where a program computes on unsigned integers, which the parser of the assembler refuses.

    ``names`` are those of the values of its function.

    >>> from pto_jax.ir import dtype
    >>> a, r = (Value(n, ScalarType(dtype("u8"))) for n in "ar")
    >>> op = Op("arith.divui", (a, a), results=(r,))
    >>> print(sign_finding(op, lambda: "ar").fix)
    %r_a_i8 = builtin.unrealized_conversion_cast %a : ui8 to i8
    %r_i8 = arith.divui %r_a_i8, %r_a_i8 : i8
    %r = builtin.unrealized_conversion_cast %r_i8 : i8 to ui8
    """
    unsigned = next(iter(unsigned_of(op)), None)
    if unsigned is None:
        return None

    def fresh(name: str) -> str:
        while name in names():
            name += "_"
        return name

    # Of a loop the fix is its head, in front of its body.
    lines = on_signless(replace(op, regions=tuple(replace(r, ops=()) for r in op.regions)), fresh)
    program = Program((Function(FRAGMENT, tuple(dict.fromkeys(op.ins)), Region(lines)),), fragment=True,
                      has_module=False)  # fmt: skip
    message = f"{unsigned} is {print_type(unsigned.type)}, which the parser of the assembler refuses here"
    allowed = "signless integers, seen as unsigned ones by casts"
    return Diagnostic(
        "warning",
        message,
        op.span,
        op.name,
        rule="signless",
        allowed=allowed,
        fix=f"\n{print_program(program).strip().removesuffix('}').rstrip()}",
    )


def _sign(op: Op) -> str | None:
    """A finding where an operation or a predicate on signed integers has an unsigned one."""
    name = op.name.removeprefix("arith.")
    predicate = str(op.attrs.get("predicate")) if name == "cmpi" else ""
    signed = predicate.startswith("s")
    values = getattr(op, "ins" if signed else _SIGNED.get(name, ""), ())
    unsigned = next((v for v in values if (d := _dtype(v)) is not None and not _is_signed(d)), None)
    if unsigned is None:
        return None
    fix = f"u{predicate[1:]}" if signed else f"arith.{name.removeprefix('floor').replace('si', 'ui', 1)}"
    return f"{unsigned} is {unsigned.type}; allowed: a signed integer or index; try: {fix}"


def _dtype(value: Value) -> DType | None:
    return value.type.dtype if isinstance(value.type, ScalarType) else None


def _is_integer(d: DType) -> bool:
    return d.is_integer or d in (I1, INDEX)


def _is_signed(d: DType) -> bool:
    return _is_integer(d) and (d.kind != "uint" or d == I1)


def _kind(value: Value, test: Callable[[DType], bool], words: str) -> str | None:
    """A finding unless a value is a scalar that passes the test; open types pass."""
    if isinstance(value.type, UnknownType):
        return None
    d = _dtype(value)
    return None if d is not None and test(d) else f"{value} is {value.type}; allowed: {words}"


def _counted(sources: int, rule: _Rule) -> _Rule:
    """A rule on operations with so many operands and one result."""

    def counted(op: Op) -> str | None:
        if len(op.ins) == sources and len(op.results) == 1:
            return rule(op)
        return f"{len(op.ins)} operand(s) and {len(op.results)} result(s); allowed: {sources} and 1"

    return counted


def _one_type(values: tuple[Value, ...]) -> str | None:
    typed = [v for v in values if not isinstance(v.type, UnknownType)]
    for v in typed[1:]:
        if v.type != typed[0].type:
            return f"{v} is {v.type}, {typed[0]} is {typed[0].type}; allowed: one type for both"
    return None


def _first(*texts: str | None) -> str | None:
    return next((f for f in texts if f is not None), None)


def _uniform(sources: int, test: Callable[[DType], bool], words: str) -> _Rule:
    def rule(op: Op) -> str | None:
        values = (*op.ins, *op.results)
        return _first(*(_kind(v, test, words) for v in values), _one_type(values))

    return _counted(sources, rule)


def _compare(test: Callable[[DType], bool], words: str) -> _Rule:
    def rule(op: Op) -> str | None:
        predicate, allowed = op.attrs.get("predicate"), PREDICATES[op.name]
        if predicate not in allowed:
            return f"predicate {predicate}; allowed: {', '.join(allowed)}"
        return _first(
            *(_kind(v, test, words) for v in op.ins),
            _one_type(op.ins),
            _kind(op.results[0], lambda d: d == I1, "i1"),
        )

    return _counted(2, rule)


def _select(op: Op) -> str | None:
    condition = _kind(op.ins[0], lambda d: d == I1, "i1, as the condition")
    return _first(condition, _one_type((*op.ins[1:], *op.results)))


def _cast(
    source: Callable[[DType], bool],
    target: Callable[[DType], bool],
    words: tuple[str, str],
    fits: Callable[[DType, DType], bool],
    relation: str,
) -> _Rule:
    def rule(op: Op) -> str | None:
        value, result = op.ins[0], op.results[0]
        wrong = _first(_kind(value, source, words[0]), _kind(result, target, words[1]))
        a, b = _dtype(value), _dtype(result)
        if wrong is not None or a is None or b is None or fits(a, b):
            return wrong
        return f"{a} to {b}; allowed: {relation}"

    return _counted(1, rule)


def _constant(op: Op) -> str | None:
    value, t = op.attrs.get("value"), op.results[0].type
    if isinstance(t, VectorType):
        count = len(value) if isinstance(value, tuple) else 0
        expected = math.prod(t.dims)
        return None if count == expected else f"{count} numbers for {t}; allowed: {expected}"
    if isinstance(t, UnknownType):
        return None
    return _fits(value, t)


def _fits(value: object, t: Type) -> str | None:
    if not isinstance(t, ScalarType):
        return f"a number of type {t}; allowed: index, an integer or a float type"
    d = t.dtype
    if d == I1:
        return None if isinstance(value, bool) else f"{value} of type i1; allowed: true, false"
    if d.is_float:
        return (
            None
            if isinstance(value, float)
            else f"{value} of type {d}; allowed: a number with a decimal point"
        )
    if not isinstance(value, int) or isinstance(value, bool):
        return f"{value} of type {d}; allowed: an integer"
    if not -(1 << (d.bits - 1)) <= value < 1 << d.bits:
        return f"{value} does not fit {d}"
    return None


def _whole(d: DType) -> bool:
    return d.is_integer or d == I1


def _real(d: DType) -> bool:
    return d.is_float


_NUMBERS, _REALS = "an integer or index", "a float"
_ONE_INDEX = "index to or from an integer"
_WHOLE_CAST = _cast(_whole, _whole, ("an integer", "an integer"), lambda a, b: a.bits == b.bits, "one width")
_RULES: dict[str, _Rule] = {
    "arith.constant": _counted(0, _constant),
    **{f"arith.{n}": _uniform(2, _is_integer, _NUMBERS) for n in _INTEGER},
    **{f"arith.{n}": _uniform(2, _real, _REALS) for n in _FLOAT},
    "arith.negf": _uniform(1, _real, _REALS),
    "arith.cmpi": _compare(_is_integer, _NUMBERS),
    "arith.cmpf": _compare(_real, _REALS),
    "arith.select": _counted(3, _select),
    **{
        f"arith.{n}": _cast(
            _is_integer,
            _is_integer,
            (_NUMBERS, _NUMBERS),
            lambda a, b: (a == INDEX) != (b == INDEX),
            _ONE_INDEX,
        )
        for n in ("index_cast", "index_castui")
    },
    **{
        f"arith.{n}": _cast(
            _whole, _whole, ("an integer", "an integer"), lambda a, b: a.bits < b.bits, "a wider integer"
        )
        for n in ("extsi", "extui")
    },
    "arith.trunci": _cast(
        _whole, _whole, ("an integer", "an integer"), lambda a, b: a.bits > b.bits, "a narrower integer"
    ),
    "arith.extf": _cast(_real, _real, (_REALS, _REALS), lambda a, b: a.bits < b.bits, "a wider float"),
    "arith.truncf": _cast(_real, _real, (_REALS, _REALS), lambda a, b: a.bits > b.bits, "a narrower float"),
    **{
        f"arith.{n}": _cast(_whole, _real, ("an integer", _REALS), lambda a, b: True, "")
        for n in ("sitofp", "uitofp")
    },
    **{
        f"arith.{n}": _cast(_real, _whole, (_REALS, "an integer"), lambda a, b: True, "")
        for n in ("fptosi", "fptoui")
    },
    "arith.bitcast": _cast(
        lambda d: d != INDEX,
        lambda d: d != INDEX,
        ("an integer or a float", "an integer or a float"),
        lambda a, b: a.bits == b.bits,
        "types of one width",
    ),
    CAST: _unrealized,
}
