"""Coverage cells of a program.

A cell is ``instruction|dtype|attribute|region|layout|operands|control``, its parts in the order of
:data:`PARTS`.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from ... import isa
from ...generate.options import Region, layout_name
from ...ir import Attrs, AttrValue, Op, Program, TileType, Value
from ...isa.declare import Instruction
from ...isa.effects import operands_of, traits_of
from ...isa.micro import MicroOperation

#: What the parts of a cell are.
PARTS = ("instruction", "type", "attribute", "region", "layout", "operands", "control")
#: Kinds of valid regions. A part is ``odd`` with an odd number of rows or columns, else ``partial``.
REGIONS: tuple[Region, ...] = get_args(Region)
#: What surrounds an operation, the innermost of it: nothing, a loop, a branch, a function that is called.
Control: TypeAlias = Literal["straight", "loop", "branch", "call"]
CONTROLS: tuple[Control, ...] = get_args(Control)
#: Optional operands of which none is there.
NO_OPERANDS = "none"
#: Numbers of attributes up to this one are cells of their own; those beyond share one.
_LARGEST = 16
_AROUND: dict[str, Control] = {"for": "loop", "while": "loop", "if": "branch", "switch": "branch"}


def of_program(program: Program) -> Counter[str]:
    """Cells of a program with how often each occurs.

    The element type is that of the result. Each attribute gives a cell, ``-`` stands for none. The region
    kind (one of :data:`REGIONS`, ``-`` without tiles) and the layout are those of the first tile, results
    before sources. ``operands`` are the optional ones that are there, joined by ``+``, ``-`` where none is
    declared; ``control`` is one of :data:`CONTROLS`.

    >>> import pto_jax as pto
    >>> dict(of_program(pto.parse("tneg %dst, %src : !pto.tile<16x16xf32>")))
    {'tneg|f32|-|full|row|-|straight': 1}
    """
    cells: Counter[str] = Counter()
    entries = {f.name for f in program.entries}
    for function in program.functions:
        outside: Control = "straight" if program.fragment or function.name in entries else "call"
        for op in function.body.ops:
            for inner, control in _with_control(op, outside):
                cells.update(_cells(inner, control))
    return cells


def _with_control(op: Op, around: Control) -> Iterator[tuple[Op, Control]]:
    yield op, around
    if not op.regions:
        return
    regions = traits_of(op).regions
    inside = _AROUND.get(regions.runs, around) if regions is not None else around
    for region in op.regions:
        for inner in region.ops:
            yield from _with_control(inner, inside)


def _cells(op: Op, control: Control) -> tuple[str, ...]:
    instruction = isa.find(op.name)
    values = (*op.destinations, *op.ins)
    if instruction is None:
        micro = isa.find_micro(op.name)
        return () if micro is None else _micro_cells(op, micro, values, control)
    tile = next((v.type for v in values if isinstance(v.type, TileType)), None)
    there = operands_of(op) if optional(instruction) else ()
    region = "-" if tile is None else region_of(tile)
    layout = "-" if tile is None else layout_name(tile)
    operands = operands_part(instruction, there)
    return named(
        (op.name, _element(values), region, layout, operands, control), attributes_part(op.attributes)
    )


def _micro_cells(
    op: Op, micro: MicroOperation, values: tuple[Value, ...], control: Control
) -> tuple[str, ...]:
    """Cells of a micro-operation, which has no region and no layout."""
    there = {*micro.values(op), *(n for n, _ in zip(micro.results, op.results, strict=False))}
    optional_ones = [w.removesuffix("?") for part in micro.words for w in part if w.endswith("?")]
    operands = "+".join(n for n in optional_ones if n in there) or (NO_OPERANDS if optional_ones else "-")
    parts = (op.name, _element(values), "-", "-", operands, control)
    return named(parts, attributes_part(op.attributes))


@lru_cache(maxsize=1 << 16)
def named(parts: tuple[str, str, str, str, str, str], attributes: tuple[str, ...]) -> tuple[str, ...]:
    """A cell for each attribute of an operation, whose other parts are given in the order of a cell.

    >>> named(("tcvt", "f16", "odd", "row", "-", "loop"), ("rmode=RINT", "sat=true"))[1]
    'tcvt|f16|sat=true|odd|row|-|loop'
    """
    name, element, *rest = parts
    return tuple("|".join((name, element, attribute, *rest)) for attribute in attributes)


def attributes_part(attributes: Attrs) -> tuple[str, ...]:
    """The attributes of an operation as parts of cells, ``-`` where it has none."""
    return tuple(f"{n}={shown(v)}" for n, v in attributes) or ("-",)


def optional(instruction: Instruction) -> tuple[str, ...]:
    """The optional operands of an instruction, in the order of their declaration."""
    return tuple(o.name for o in instruction.operands if o.optional)


def operands_part(instruction: Instruction, there: Collection[str]) -> str:
    """The part of a cell that says which optional operands are there."""
    choices = optional(instruction)
    return "+".join(n for n in choices if n in there) or NO_OPERANDS if choices else "-"


def region_of(tile: TileType) -> Region:
    """The kind of a tile's valid region."""
    rows, cols = tile.valid
    if rows is None or cols is None:
        return "dynamic"
    if 0 in tile.valid:
        return "empty"
    if tile.is_full:
        return "full"
    return "odd" if rows % 2 or cols % 2 else "partial"


def _element(operands: tuple[Value, ...]) -> str:
    """Element type of the first operand that has one; results come first."""
    types = (getattr(v.type, "dtype", None) for v in operands)
    return next((d.name for d in types if d is not None), "-")


def shown(value: AttrValue) -> str:
    """A value of an attribute as part of a cell: without the bar that parts them, of few kinds."""
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value) if abs(value) <= _LARGEST else "other"
    return value[:32].replace("|", "/") if isinstance(value, str) else type(value).__name__.lower()
