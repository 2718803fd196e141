"""Pipes that places of operands decide on: transfers between the memories of a core."""

from ...ir import Loc, Pipe


def stored(source: Loc | None, target: Loc | None) -> Pipe | None:
    """What leaves the core: from accumulators on FIX, from elsewhere on MTE3."""
    if source is None:
        return None
    return Pipe.FIX if source == Loc.ACC else Pipe.MTE3


def moved(source: Loc | None, target: Loc | None) -> Pipe | None:
    """A move between two memories; within one memory the declared pipe holds.

    >>> moved(Loc.ACC, Loc.VEC).name, moved(Loc.MAT, Loc.LEFT).name, moved(Loc.VEC, Loc.VEC)
    ('FIX', 'MTE1', None)
    """
    return _moved(source, target, Pipe.FIX)


def inserted(source: Loc | None, target: Loc | None) -> Pipe | None:
    """A move into a part of a tile: what vector memory gives goes through MTE3."""
    return _moved(source, target, Pipe.MTE3)


def _moved(source: Loc | None, target: Loc | None, other: Pipe) -> Pipe | None:
    if source == target:
        return None
    if source == Loc.ACC:
        return Pipe.FIX
    if source == Loc.MAT:
        return Pipe.V if target == Loc.VEC else Pipe.MTE1
    return other
