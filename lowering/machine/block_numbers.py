"""Run-time scalars of blocks that are executed side by side.

A scalar that follows from the number of its block is a table of integers, one for each block, plus what is
the same in all of them. Where a table holds one integer only, the block does not count: an address relative
to the part of a buffer that belongs to a block is often a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pto_jax.grids.numbers import Integers, Lanes, address, compute, is_integer, spread
from pto_jax.interpreter import NOWHERE, Scalar
from pto_jax.interpreter.windows import advanced, scalar as folded
from pto_jax.ir import DType

if TYPE_CHECKING:
    from pto_jax.interpreter.machine import Machine

#: An integer that is the same in all blocks, or one for each.
Table: TypeAlias = int | Lanes


@dataclass(frozen=True, eq=False)
class Form:
    """``base + table[block]``, where the base is the same in all blocks."""

    base: Scalar
    table: Table


@dataclass
class BlockNumbers:
    """The forms of scalars, by the arrays that are these scalars."""

    _forms: dict[int, tuple[Scalar, Form]] = field(default_factory=dict)

    def note(self, array: Scalar, form: Form) -> None:
        """Remember the form of an array of shape ()."""
        self._forms[id(array)] = array, form

    def copy(self) -> BlockNumbers:
        """What is known now."""
        return BlockNumbers(dict(self._forms))

    def scalar(
        self, machine: Machine, name: str, args: Sequence[Scalar], source: DType, result: DType
    ) -> Form | None:
        """The form of the result of an ``arith`` operation, None where it has none that is known."""
        forms = self._of(args)
        if forms is None:
            return None
        table = compute(name, [f.table for f in forms], source, result)
        if not is_integer(table):
            return None
        if all(isinstance(f.base, int) and f.base == 0 for f in forms):
            return Form(0, table)
        # Modulo 2**64 base and table may be computed apart, where one of two factors is a number.
        scaled = name == "arith.muli" and any(isinstance(a, int) for a in args)
        if source.bits == result.bits == 64 and (scaled or name in ("arith.addi", "arith.subi")):
            bases = [a if scaled and isinstance(a, int) else f.base for a, f in zip(args, forms, strict=True)]
            return Form(folded(machine, name, bases, source, result), table)
        return None

    def address(self, machine: Machine, base: Scalar, index: Scalar, stride: Scalar) -> Form | None:
        """The form of ``base + index * stride``, None where it has none that is known."""
        forms = self._of((base, index)) if isinstance(stride, int) else None
        if forms is None:
            return None
        table = address(forms[0].table, forms[1].table, stride)
        if not is_integer(table) or (spread(table, 1) == NOWHERE).any():
            return None
        return Form(advanced(machine, forms[0].base, forms[1].base, stride), table)

    def _of(self, args: Sequence[Scalar]) -> list[Form] | None:
        """The forms of scalars, None where the block counts in none of them."""
        if not any(id(a) in self._forms for a in args):
            return None
        own = [Form(0, a) if isinstance(a, int) else Form(a, 0) for a in args]
        return [self._forms[id(a)][1] if id(a) in self._forms else f for a, f in zip(args, own, strict=True)]


def numbered(values: Integers) -> Form:
    """The form of a scalar that is known in every block, int64 [blocks]."""
    return Form(0, Lanes(values))
