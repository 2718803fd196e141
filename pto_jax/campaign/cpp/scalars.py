"""Scalar operations as C++ expressions, with the results that ``arith`` defines."""

from ...analysis.constant_folding import scalar_dtype
from ...ir import DType, Op
from .spelling import literal, refuse

#: Helpers that the expressions below call.
PRELUDE = """\
template <typename T>
AICORE inline T quotient(T a, T b)
{
    if (b == 0 || (std::is_signed_v<T> && b == T(-1)))
        return b == 0 ? T(-1) : static_cast<T>(-static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
}
template <typename T>
AICORE inline T rest(T a, T b)
{
    return b == 0 ? a : std::is_signed_v<T> && b == T(-1) ? T(0) : static_cast<T>(a % b);
}
template <typename T>
AICORE inline T maximum(T a, T b)
{
    if (a != a || b != b)
        return static_cast<T>(a + b);
    return a == b ? (std::signbit(static_cast<float>(a)) ? b : a) : a > b ? a : b;
}
template <typename T>
AICORE inline T minimum(T a, T b)
{
    return static_cast<T>(-maximum(static_cast<T>(-a), static_cast<T>(-b)));
}
"""
_WRAPPING = {"addi": "+", "subi": "-", "muli": "*", "andi": "&", "ori": "|", "xori": "^"}
_FLOATS = {"addf": "+", "subf": "-", "mulf": "*", "divf": "/"}
_HELPERS = {"divsi": "quotient", "remsi": "rest", "maximumf": "maximum", "minimumf": "minimum"}
_UNSIGNED_HELPERS = {"divui": "quotient", "remui": "rest"}
_CASTS = frozenset({"index_cast", "extsi", "trunci", "extf", "truncf", "sitofp"})
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def expression(op: Op, names: list[str]) -> str:
    """The value of an ``arith`` operation, given its operands' C++ names."""
    name = op.name.removeprefix("arith.")
    result = scalar_dtype(op.results[0].type)
    if name == "constant":
        value = op.attrs["value"]
        if isinstance(value, tuple):
            raise refuse(op, "is a vector constant, which is not written in C++")
        return literal(value, result)
    source = scalar_dtype(op.ins[-1].type)
    if name == "select":
        return f"{names[0]} ? {names[1]} : {names[2]}"
    if name == "cmpi":
        return _compare(op, names, source)
    text = _of_two(name, names, source, result) if len(names) == 2 else None
    if text is not None:
        return text
    if name in ("extui", "index_castui") or (name == "uitofp" and source.bits < 64):
        return f"static_cast<{result.cpp}>({_unsigned(names[0], source)})"
    if name == "negf":
        return f"static_cast<{result.cpp}>(-{names[0]})"
    if name in _CASTS and not (source.name == "i1" and name in ("extsi", "sitofp")):
        return f"static_cast<{result.cpp}>({names[0]})"
    raise refuse(op, "is a scalar operation that is not written in C++")


def _of_two(name: str, names: list[str], source: DType, result: DType) -> str | None:
    """An operation on two operands of one type; None for what is not written in C++."""
    a, b = names
    if name in _WRAPPING and source.name == "i1":
        return f"({a} {_WRAPPING[name]} {b}) & 1"
    if name in _WRAPPING:
        first, second = f"static_cast<uint64_t>({a})", f"static_cast<uint64_t>({b})"
        return f"static_cast<{result.cpp}>({first} {_WRAPPING[name]} {second})"
    if name in _FLOATS:
        return f"static_cast<{result.cpp}>({a} {_FLOATS[name]} {b})"
    if name in _HELPERS:
        return f"{_HELPERS[name]}({a}, {b})"
    x, y = _unsigned(a, source), _unsigned(b, source)
    if name in _UNSIGNED_HELPERS:
        return f"static_cast<{result.cpp}>({_UNSIGNED_HELPERS[name]}({x}, {y}))"
    if name in ("maxsi", "minsi"):
        return f"{a} {'>' if name == 'maxsi' else '<'} {b} ? {a} : {b}"
    if name in ("maxui", "minui"):
        return f"{x} {'>' if name == 'maxui' else '<'} {y} ? {a} : {b}"
    return None


def _unsigned(name: str, d: DType) -> str:
    return name if d.name == "i1" else f"static_cast<uint{max(8, d.bits)}_t>({name})"


def _compare(op: Op, names: list[str], d: DType) -> str:
    predicate = str(op.attrs["predicate"])
    a, b = names
    if predicate.startswith("u"):
        a, b = _unsigned(a, d), _unsigned(b, d)
    return f"{a} {_COMPARE[predicate.lstrip('su') if predicate not in _COMPARE else predicate]} {b}"
