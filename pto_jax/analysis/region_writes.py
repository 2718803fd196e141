"""What the regions of an operation write, by the names around it: as if every path were taken."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ..ir import Op, TileType, Value
from ..isa.effects import aliased, entered, placed

#: A name around the regions, or the number of the operation that allocates a tile inside them.
Origin: TypeAlias = str | int


@dataclass(frozen=True)
class RegionWrites:
    """The tiles that regions allocate, and everything that they write, in text order."""

    allocations: tuple[Op, ...]
    origins: tuple[Origin, ...]


def region_writes(op: Op, written: Callable[[Op], Iterable[Value]]) -> RegionWrites:
    """What the regions of an operation write; ``written`` gives the values that one operation writes.

    Handles are followed to what they are handles of; the first trip of a loop stands for all.

    >>> from pto_jax.api import parse
    >>> from pto_jax.isa import effects
    >>> t = "!pto.tile<16x16xf32>"
    >>> body = f"%v = pto.bitcast %a : {t} -> {t} pto.tneg ins(%b : {t}) outs(%v : {t})"
    >>> (branch,) = parse(f"scf.if %c {{ {body} }}").functions[0].body.ops
    >>> region_writes(branch, effects.written).origins
    ('a',)
    """
    allocations: list[Op] = []
    origins: dict[str, Origin] = {}
    found: dict[Origin, None] = {}
    for inner in op.walk():
        pair, place = aliased(inner), placed(inner)
        for name, source in entered(inner) if pair is None else (pair,):
            origins[name.name] = origins.get(source.name, source.name)
        if place is not None and place[0] in inner.results and isinstance(place[0].type, TileType):
            origins[place[0].name] = len(allocations)
            allocations.append(inner)
        for value in written(inner):
            found.setdefault(origins.get(value.name, value.name))
    return RegionWrites(tuple(allocations), tuple(found))
