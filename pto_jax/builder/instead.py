"""The calls that stand in a kernel for what arrays have: operators, comparisons, attributes and methods."""

import ast
import json
from collections.abc import Sequence
from typing import Any

from .. import isa
from ..ir import F16, F32, DType, TileType
from ..isa.irregular import TPRINT

#: The operation of formulas that an operator stands for.
_OPERATIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "&": "and", "|": "or", "^": "xor",
               "<<": "shl", ">>": "shr", "**": "pow", "%": "rem"}  # fmt: skip
_COMMUTE = ("+", "*", "&", "|", "^")
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
#: Attributes of arrays by what a tile has.
_ATTRIBUTES = {
    "dtype": "type.dtype",
    "rows": "shape[0]",
    "cols": "shape[1]",
    "columns": "shape[1]",
    "size": "type.elements",
    "valid_rows": "valid[0]",
    "valid_cols": "valid[1]",
}
#: Methods of arrays by the instruction that reduces rows.
_REDUCTIONS = {"sum": "trowsum", "max": "trowmax", "min": "trowmin", "prod": "trowprod"}


def lane_wise(operation: str, kinds: tuple[str, ...]) -> str | None:
    """The instruction of one formula on sources of some kinds, as Python calls it.

    >>> lane_wise("add", ("tile", "scalar")), lane_wise("add", ("scalar", "scalar"))
    ('pto.tadds', None)
    """
    for instruction in isa.instructions().values():
        if instruction.lane_wise and any(
            f.operation == operation and f.complete for f in instruction.formulas
        ):
            for form in instruction.forms:
                if tuple(instruction.operand(n).kind for n in form) == kinds:
                    return f"pto.{instruction.name.replace('.', '_')}"
    return None


def number(text: str, tile: Any, scalar: Any = None) -> str:
    """A Python number or a scalar of the program as one of the element type of a tile.

    >>> number("1", F32), number("n", F32, 1)
    ('1.0', 'n')
    """
    d = getattr(tile, "dtype", tile)
    mine = getattr(scalar, "dtype", None)
    if mine is not None and mine != d:
        return f'pto.cast({text}, "{d}")'
    return f"{text}.0" if text.lstrip("-").isdigit() and getattr(d, "is_float", False) else text


def operation(symbol: str, mine: str, t: Any, text: str, other: Any, *, reflected: bool) -> str:
    """The calls that compute into a tile of type ``t`` what an operator asks for, "" where there are none.

    ``other`` is the type of the other operand, None for a Python number.

    >>> operation("-", "t", TileType(F32, 8, 8), "1", None, reflected=True)
    'pto.tneg(t, t); pto.tadds(t, t, 1.0)'
    """
    kind = "tile" if isinstance(other, TileType) else "scalar"
    text = number(text, t, other) if kind == "scalar" else text
    if symbol in _COMPARISONS:
        return _comparison(symbol, mine, t, text, kind)
    if symbol == "@":
        return _product(*((text, other, mine, t) if reflected else (mine, t, text, other)))
    name = _OPERATIONS.get(symbol, "")
    call = lane_wise(name, ("tile", kind)) or lane_wise(name, ("tile", kind, "tile"))
    if not reflected or symbol in _COMMUTE:
        return f"{call}({mine}, {mine}, {text})" if call is not None else ""
    if symbol == "-":
        negate, add = lane_wise("neg", ("tile",)), lane_wise("add", ("tile", "scalar"))
        return f"{negate}({mine}, {mine}); {add}({mine}, {mine}, {text})"
    first = lane_wise(name, ("scalar", "tile"))
    return f"{first}({mine}, {text}, {mine})" if first is not None else ""


# Instructions by name: what follows is code of users, which spells them.
def _comparison(symbol: str, mine: str, t: Any, text: str, kind: str) -> str:
    """A comparison into a mask of a bit per lane, whose rows are whole blocks of 32 bytes."""
    if not (isinstance(t, TileType) and mine.isidentifier()):
        return ""
    mask, columns = f"{mine}_mask", -(-t.cols // 256) * 32
    call = "tcmp" if kind == "tile" else "tcmps"
    return (
        f'{mask} = pto.alloc_tile("u8", {t.rows}, {columns}); '
        f'pto.{call}({mask}, {mine}, {text}, cmp_mode="{_COMPARISONS[symbol]}")'
    )


def _product(left: str, a: Any, right: str, b: Any) -> str:
    if not (isinstance(a, TileType) and isinstance(b, TileType) and a.cols == b.rows):
        return ""
    sums = "f32" if a.dtype.is_float else "i32"
    return (
        f'{left}_left = pto.alloc_tile("{a.dtype}", {a.rows}, {a.cols}, loc="left"); '
        f'{right}_right = pto.alloc_tile("{b.dtype}", {b.rows}, {b.cols}, loc="right"); '
        f'{left}_acc = pto.alloc_tile("{sums}", {a.rows}, {b.cols}, loc="acc"); '
        f"pto.tmatmul({left}_acc, {left}_left, {right}_right)"
    )


def printed(label: str, t: Any) -> str:
    """The call that prints a value: a number with its format, a tile as it is.

    >>> printed("x", F32)
    'pto.print("%f", x)'
    """
    if isinstance(t, TileType):
        return f"pto.{TPRINT.name}({label})"
    return f'pto.print("{"%f" if getattr(getattr(t, "dtype", t), "is_float", False) else "%d"}", {label})'


def formatted(call: ast.Call, types: Sequence[Any]) -> str:
    """A call with a format of the program in the place of an f-string with one number; "" for other calls."""
    text = call.args[0] if len(call.args) == 1 else None
    parts = text.values if isinstance(text, ast.JoinedStr) else []
    numbers = [p.value for p in parts if isinstance(p, ast.FormattedValue)]
    if len(numbers) != 1 or not types:
        return ""
    floats = getattr(getattr(types[0], "dtype", None), "is_float", False)
    label = "".join(str(p.value) if isinstance(p, ast.Constant) else "%f" if floats else "%d" for p in parts)
    return f"{ast.unparse(call.func)}({json.dumps(label)}, {ast.unparse(numbers[0])})"


def converted(mine: str, t: Any, other: DType) -> str:
    """The conversion of a tile into a new one of another element type."""
    if not (isinstance(t, TileType) and mine.isidentifier()):
        return ""
    return f'{mine}_{other} = pto.alloc_tile("{other}", {t.rows}, {t.cols}); pto.tcvt({mine}_{other}, {mine})'


def attribute(name: str, mine: str, t: Any) -> str:
    """What a tile, called ``mine``, has for an attribute or a method of arrays, "" where it has nothing.

    >>> attribute("dtype", "t", TileType(F32, 8, 8)), attribute("exp", "t", TileType(F32, 8, 8))
    ('t.type.dtype', 'pto.texp(t, t)')
    """
    if not isinstance(t, TileType):
        return ""
    if not mine.isidentifier():
        return f"pto.t{name}({mine}, {mine})" if isa.find(f"t{name}") is not None else ""
    if name in _ATTRIBUTES:
        return f"{mine}.{_ATTRIBUTES[name]}"
    if name in ("T", "transpose"):
        return f'{mine}_T = pto.alloc_tile("{t.dtype}", {t.cols}, {t.rows}); pto.ttrans({mine}_T, {mine})'
    if name == "astype":
        return converted(mine, t, F16 if t.dtype == F32 else F32)
    if name in _REDUCTIONS:
        return (
            f'{mine}_{name} = pto.alloc_tile("{t.dtype}", {t.rows}, 1, blayout="col_major"); '
            f'tmp = pto.alloc_tile("{t.dtype}", {t.rows}, {t.cols}); '
            f"pto.{_REDUCTIONS[name]}({mine}_{name}, {mine}, tmp)"
        )
    return f"pto.t{name}({mine}, {mine})" if isa.find(f"t{name}") is not None else ""
