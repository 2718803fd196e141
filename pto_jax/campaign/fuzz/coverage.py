"""What programs have in them: cells of instruction x element type x attribute x region kind x layout."""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from functools import lru_cache

from ... import isa
from ...generate.options import layout_name
from ...ir.program import AttrValue, Op, Program, Value
from ...ir.types import TileType

#: Numbers of attributes up to this one are cells of their own; those beyond share one.
_LARGEST = 16


def of_program(program: Program) -> Counter[str]:
    """Cells of a program, ``instruction|dtype|attribute|region|layout``, with how often each occurs.

    The element type is that of the result. Each attribute gives a cell, ``-`` stands for none. The region
    kind (``full``, ``partial``, ``empty``, ``dynamic``, ``-`` without tiles) and the layout are those of
    the first tile, results before sources.

    >>> import pto_jax as pto
    >>> dict(of_program(pto.parse("tneg %dst, %src : !pto.tile<16x16xf32>")))
    {'tneg|f32|-|full|row': 1}
    """
    cells: Counter[str] = Counter()
    for op in program.walk():
        cells.update(_cells(op))
    return cells


def _cells(op: Op) -> tuple[str, ...]:
    operands = (*op.destinations, *op.ins)
    tile = next((v.type for v in operands if isinstance(v.type, TileType)), None)
    attributes = tuple((n, _shown(v)) for n, v in op.attributes)
    return _named(op.name, _element(operands), attributes, tile)


@lru_cache(maxsize=1 << 16)
def _named(
    name: str, element: str, attributes: tuple[tuple[str, str], ...], tile: TileType | None
) -> tuple[str, ...]:
    if name not in isa.instructions():
        return ()
    region = "-" if tile is None else _region(tile)
    layout = "-" if tile is None else layout_name(tile)
    listed = [f"{n}={v}" for n, v in attributes] or ["-"]
    return tuple(f"{name}|{element}|{a}|{region}|{layout}" for a in listed)


def _element(operands: tuple[Value, ...]) -> str:
    """Element type of the first operand that has one; results come first."""
    types = (getattr(v.type, "dtype", None) for v in operands)
    return next((d.name for d in types if d is not None), "-")


def _region(tile: TileType) -> str:
    if not tile.is_static:
        return "dynamic"
    if 0 in tile.valid:
        return "empty"
    return "full" if tile.is_full else "partial"


def _shown(value: AttrValue) -> str:
    """A value of an attribute as part of a cell: without the bar that parts them, of few kinds."""
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value) if abs(value) <= _LARGEST else "other"
    return value[:32].replace("|", "/") if isinstance(value, str) else type(value).__name__.lower()
