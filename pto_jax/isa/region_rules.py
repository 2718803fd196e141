"""Rules on valid regions in a form that engines evaluate on sizes known when a program runs."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..ir import TileType

#: Valid rows and columns per operand: numbers, or values of an engine that has ``!= <= | &`` for them.
Sizes: TypeAlias = "Mapping[str, tuple[Any, Any]]"
#: Whether sizes break a rule, given the tiles' types; one truth value of the kind the sizes are.
RegionTest: TypeAlias = "Callable[[Sizes, Mapping[str, TileType]], Any]"


def _numbers(t: TileType | None) -> int:
    """Numbers in an element of a tile, where its type is known."""
    return 1 if t is None else t.dtype.numbers


@dataclass(frozen=True)
class RegionRule:
    """A rule on run-time valid regions in a form an engine can evaluate on traced sizes.

    ``equal-valid``, ``equal-rows``, ``equal-cols``: all named operands have the same valid region, or
    that part of it; ``non-empty``: each of them has at least one valid lane; ``no-half``: none of them has
    valid rows without columns, or columns without rows. Operands that an operation
    leaves out do not take part. ``custom``: what ``test`` says, where all operands are present.
    """

    kind: Literal["equal-valid", "equal-rows", "equal-cols", "non-empty", "no-half", "custom"]
    operands: tuple[str, ...]
    test: RegionTest | None = None

    def applies(self, present: Container[str]) -> bool:
        """Whether the operation has the operands the rule is about."""
        named = [n in present for n in self.operands]
        return all(named) if self.kind == "custom" else any(named)

    def broken(self, sizes: Sizes, types: Mapping[str, TileType]) -> Any:
        """Whether the valid sizes of an operation's tiles break the rule.

        >>> RegionRule("equal-rows", ("dst", "src")).broken({"dst": (8, 1), "src": (7, 16)}, {})
        True
        """
        found: Any = False
        if not self.applies(sizes):
            return found
        if self.test is not None:
            return self.test(sizes, types)
        present = [(sizes[n][0], sizes[n][1] * _numbers(types.get(n))) for n in self.operands if n in sizes]
        if self.kind in ("non-empty", "no-half"):
            for rows, cols in present:
                no_row, no_col = rows <= 0, cols <= 0
                found = found | (no_row | no_col if self.kind == "non-empty" else no_row ^ no_col)
            return found
        for rows, cols in present[1:]:
            if self.kind != "equal-cols":
                found = found | (rows != present[0][0])
            if self.kind != "equal-rows":
                found = found | (cols != present[0][1])
        return found
