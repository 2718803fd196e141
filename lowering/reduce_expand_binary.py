"""Arithmetic with one operand expanded: a value (or block) per row, or a row for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from . import formulas, masks, reduce_expand
from .numerics import Float, Integer, Num
from .region import all_ones, computed, fit, flush, known, mask, merge, operand, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import UInt

    from .arrays import Words

#: A formula on two numbers, and a selection by the words of two operands.
Formula: TypeAlias = Callable[[Float | Integer, Num, Num], Num]
Selection: TypeAlias = "Callable[[Float | Integer, UInt[Array, '...'], UInt[Array, '...']], Words]"


def _exponential(a: Float | Integer, x: Num, y: Num) -> Num:
    """exp(x - y); the difference is rounded to the element type first."""
    assert not isinstance(a, Integer)
    return a.evaluate(jnp.exp, a.round_to_type(a.sub(x, y)))


def _named(operation: str) -> Formula:
    return lambda a, x, y: getattr(a, operation)(x, y)


_FORMULAS: Mapping[str, Formula] = {
    **{operation: _named(operation) for operation in ("add", "sub", "mul", "div")},
    "expdif": _exponential,
}
_SELECTIONS: Mapping[str, Selection] = {"max": formulas.maximum, "min": formulas.minimum}


def _repeated(c: Context, inputs: Inputs, name: str) -> UInt[Array, "rows _"]:
    """A source's words over dst's lanes, or one column of it: columns are taken modulo its valid columns.

    A whole tile, a column of scalars and a block of 32 bytes are the same rule.
    """
    t, lanes, (rows, cols) = c.tile(name), masks.lanes(inputs, name), c.tile("dst").shape
    fill = all_ones(t.dtype)
    covered = name in c.covered
    inside = mask(t, lanes) if c.semantics.out_of_region == "ones" and not covered else None
    words = lanes.words if inside is None else jnp.where(inside, lanes.words, fill)
    words = flush(c, fit(words, (rows, t.cols), fill), t.dtype)
    if covered and t.cols >= cols:
        return words[:, :cols]
    if t.cols == 1:
        return words
    if t.v_col is not None:
        width = max(t.v_col, 1)
        words = words[:, :width]
        # Reading modulo the block lane by lane (jnp.tile) keeps XLA from vectorising what follows.
        return words if width == 1 else jnp.concatenate([words] * -(-cols // width), axis=1)[:, :cols]
    period = jnp.maximum(sizes(t, lanes)[1], np.int32(1))
    column = lax.broadcasted_iota(np.int32, (cols,), 0)
    return jnp.take(words, column % period, axis=1, mode="clip")


def _row_operands(c: Context, inputs: Inputs) -> tuple[UInt[Array, "rows _"], UInt[Array, "rows _"]]:
    return _repeated(c, inputs, "src0"), _repeated(c, inputs, "src1")


def _column_operands(c: Context, inputs: Inputs) -> tuple[Words, UInt[Array, "1 cols"]]:
    return operand(c, inputs, "src0"), flush(c, reduce_expand.first_row(c, inputs, "src1"), c.dtype("src1"))


def _arithmetic_rule(
    name: str, words: Callable[[Context, Inputs], tuple[UInt[Array, "..."], UInt[Array, "..."]]], f: Formula
) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> Outputs:
        a, given = c.arithmetic(), zip(("src0", "src1"), words(c, inputs), strict=True)
        numbers = ((known(c, inputs, name), w) for name, w in given)
        return computed(c, inputs, f(a, *(a.decode(w) if n is None else n for n, w in numbers)))


def _selection_rule(
    name: str, words: Callable[[Context, Inputs], tuple[UInt[Array, "..."], UInt[Array, "..."]]], f: Selection
) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> Outputs:
        new = f(c.arithmetic(), *words(c, inputs))
        return {"dst": merge(c, inputs, flush(c, new, c.dtype("dst")))}


for _along, _operands in (("row", _row_operands), ("col", _column_operands)):
    for _name, _formula in _FORMULAS.items():
        _arithmetic_rule(f"t{_along}expand{_name}", _operands, _formula)
    for _name, _selection in _SELECTIONS.items():
        _selection_rule(f"t{_along}expand{_name}", _operands, _selection)
