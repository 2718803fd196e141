"""Arithmetic with one operand expanded: a value (or block) per row, or a row for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from . import formulas, masks
from .numerics import Float, Integer
from .reduce_expand import first_row
from .region import all_ones, fit, flush, mask, merge, operand, sizes
from .rules import Context, Inputs, rule

#: A formula on the words of two operands.
Binary = Callable[[Float | Integer, Array, Array], Array]


def _exponential(a: Float | Integer, x: Array, y: Array) -> Array:
    """exp(x - y); the difference is rounded to the element type first."""
    assert not isinstance(a, Integer)
    return a.out(a.evaluate(jnp.exp, a.step(a.sub(a.num(x), a.num(y)))))


def _named(operation: str) -> Binary:
    return lambda a, x, y: formulas.binary(a, operation, x, y)


_OPERATIONS: Mapping[str, Binary] = {
    **{operation: _named(operation) for operation in ("add", "sub", "mul", "div")},
    "max": formulas.maximum,
    "min": formulas.minimum,
    "expdif": _exponential,
}


def _repeated(c: Context, inputs: Inputs, name: str) -> Array:
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


def _row_rule(name: str, operation: Binary) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> dict[str, Array]:
        x, y = (_repeated(c, inputs, source) for source in ("src0", "src1"))
        return {"dst": _result(c, inputs, operation, x, y)}


def _column_rule(name: str, operation: Binary) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> dict[str, Array]:
        vector = flush(c, first_row(c, inputs, "src1"), c.dtype("src1"))
        return {"dst": _result(c, inputs, operation, operand(c, inputs, "src0"), vector)}


def _result(c: Context, inputs: Inputs, operation: Binary, x: Array, y: Array) -> Array:
    return merge(c, inputs, flush(c, operation(c.arithmetic(), x, y), c.dtype("dst")))


for _name, _operation in _OPERATIONS.items():
    _row_rule(f"trowexpand{_name}", _operation)
    _column_rule(f"tcolexpand{_name}", _operation)
