"""How C++ spells the names, types and constants of a program."""

import math
import re
from dataclasses import dataclass, field

from ... import errors, ir
from ...text.cpp_names import camel, location

#: Names a program may use that mean something else in C++.
_TAKEN = frozenset(
    """alignas and asm auto bool break case catch char class const continue default delete do double else enum
    explicit export extern false float for friend goto half if inline int long main mutable namespace new not
    operator or private protected public register return short signed sizeof static struct switch template
    this throw true try typedef typename union unsigned using virtual void volatile while xor pto
    std""".split()
)


def refuse(op: ir.Op | None, message: str) -> errors.NotExecutableError:
    """A program that cannot be written in C++, with the place in it."""
    span, name = (op.span, op.name) if op is not None else (None, None)
    return errors.NotExecutableError(errors.Diagnostic("error", message, span, name, rule="emit"))


def identifier(name: str) -> str:
    """A C++ identifier for a name of a program; different names give different ones.

    >>> identifier("x1"), identifier("for"), identifier("0"), identifier("r#1")
    ('x1', 'for_', 'v0_', 'r_1_')
    """
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    if plain[0].isdigit():
        plain = f"v{plain}_"
    elif plain != name or plain in _TAKEN or plain.isupper() or plain.endswith("_"):
        plain += "_"
    return plain


def literal(value: object, d: ir.DType) -> str:
    """A constant of an element type.

    >>> literal(0.75, ir.F32), literal(-3, ir.INDEX), literal(float("inf"), ir.F32)
    ('0x1.8000000000000p-1f', 'int64_t{-3}', 'std::numeric_limits<float>::infinity()')
    """
    if d.name == "i1":
        return "true" if value else "false"
    if not d.is_float:
        assert isinstance(value, int)
        number = value % (1 << d.bits) if d.kind == "uint" else value
        if number == -(1 << 63):
            return "std::numeric_limits<int64_t>::min()"
        return f"{d.cpp}{{{number}{'u' if d.kind == 'uint' else ''}{'ll' if abs(number) >> 31 else ''}}}"
    assert isinstance(value, int | float)
    text = float(value).hex() + "f"
    if math.isnan(value):
        text = "std::numeric_limits<float>::quiet_NaN()"
    elif math.isinf(value):
        text = ("-" if value < 0 else "") + "std::numeric_limits<float>::infinity()"
    return text if d.name == "f32" else f"static_cast<{d.cpp}>({text})"


def valid_sizes(t: ir.TileType) -> tuple[int | None, int | None]:
    """The valid sizes that a C++ type states; an empty extent is one that execution gives."""
    rows, cols = (n or None for n in t.valid)
    return rows, cols


def tile(t: ir.TileType, op: ir.Op | None = None) -> str:
    """The C++ type of a tile, with as many template arguments as it needs.

    >>> tile(ir.TileType(ir.F32, 16, 16))
    'Tile<TileType::Vec, float, 16, 16>'
    >>> tile(ir.TileType(ir.F16, 16, 32, None, None, blayout=ir.BLayout.COL_MAJOR))
    'Tile<TileType::Vec, half, 16, 32, BLayout::ColMajor, DYNAMIC, DYNAMIC>'
    """
    if t.conv is not None:
        raise refuse(op, f"has a convolution tile ({t}), which is not written in C++")
    if t.compact == ir.Compact.ROW_PLUS_ONE:
        raise refuse(op, f"has a tile with padded rows ({t}), which is not written in C++")
    rows, cols = ("DYNAMIC" if n is None else str(n) for n in valid_sizes(t))
    listed = [
        f"TileType::{location(t.loc)}",
        t.dtype.cpp,
        str(t.rows),
        str(t.cols),
        f"BLayout::{camel(t.blayout.name)}",
        rows,
        cols,
        f"SLayout::{camel(t.slayout.name)}",
        str(t.fractal),
        f"PadValue::{camel(t.pad.name)}",
        f"CompactMode::{camel(t.compact.name)}",
    ]
    plain = ir.TileType(t.dtype, t.rows, t.cols)
    defaults = [*listed[:4], "BLayout::RowMajor", str(plain.rows), str(plain.cols)]
    defaults += ["SLayout::NoneBox", "512", "PadValue::Null", "CompactMode::Null"]
    while len(listed) > 4 and listed[-1] == defaults[len(listed) - 1]:
        listed.pop()
    return f"Tile<{', '.join(listed)}>"


@dataclass
class Aliases:
    """Short names for the tile types of a program, in order of first use."""

    types: dict[str, str] = field(default_factory=dict)

    def of(self, t: ir.TileType, op: ir.Op | None = None) -> str:
        """The short name of a tile type, made where it has none; errors name the place of ``op``."""
        spelled = tile(t, op)
        if spelled not in self.types:
            stem = f"{location(t.loc)}{camel(t.dtype.name)}_{t.rows}x{t.cols}"
            taken = set(self.types.values())
            name, number = stem, 2
            while name in taken:
                name, number = f"{stem}_{number}", number + 1
            self.types[spelled] = name
        return self.types[spelled]

    def lines(self) -> list[str]:
        """The declarations of the names."""
        return [f"using {name} = {spelled};" for spelled, name in self.types.items()]
