"""Rules of reductions along rows or columns, of positions of extremes, and of expansions with arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, DType

from . import bits, convert, folds, formulas, platforms, region
from .numerics import ExactFloat, FastFloat, Float, Integer, Num
from .region import all_ones, computed, fit, flush, known, mask, merge, operand, sizes, within
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import UInt

    from .bits import Mask, Size, Words


#: What is reduced: every row into column 0, or every column into row 0.
Along: TypeAlias = Literal["row", "col"]
_BOTH: tuple[Along, ...] = ("row", "col")
_AXES: Mapping[Along, int] = {"row": 1, "col": 0}


def source_words(c: Context, inputs: Inputs, along: Along) -> tuple[Words, Size | int]:
    """The source's words, and how many of its lines along the reduced axis are valid."""
    lanes, t = region.lanes(inputs, "src"), c.tile("src")
    static, traced = (t.v_col, lanes.v_col) if along == "row" else (t.v_row, lanes.v_row)
    size = traced if static is None else static
    assert size is not None
    # From the words of the valid region alone XLA makes a launch more of the indexer on a GPU. The simulator
    # has a result of an empty region.
    alone = platforms.expected() == "cpu" and c.profile != "cpu_sim"
    return flush(c, lanes.valid if alone else lanes.words, t.dtype), size


def source_lines(c: Context, inputs: Inputs, along: Along) -> tuple[UInt[Array, "lines lanes"], Size | int]:
    """:func:`source_words` with the reduced axis first."""
    words, size = source_words(c, inputs, along)
    return words.T if along == "row" else words, size


def store_line(
    c: Context,
    inputs: Inputs,
    along: Along,
    line: UInt[Array, " places"],
    name: str = "dst",
    unless_empty: bool = True,
) -> Words:
    """The destination with ``line`` in column 0 over the source's valid rows (row 0, valid columns).

    The destination's own valid region does not matter. Where there is nothing to reduce the result of
    the empty reduction is stored only if ``unless_empty`` is false.
    """
    t, old = c.tile(name), region.lanes(inputs, name).words
    shape = (line.shape[0], 1) if along == "row" else (1, line.shape[0])
    new = fit(lax.reshape(line, shape), t.shape, line.dtype.type(0))
    inside = _line_mask(c, inputs, along, t.shape, unless_empty)
    return new if inside is None else bits.where(inside, new, old)


def _line_mask(
    c: Context, inputs: Inputs, along: Along, shape: tuple[int, int], unless_empty: bool
) -> Mask | None:
    """Where a line of results goes on a tile shape; None where that is everywhere."""
    source, lanes = c.tile("src"), region.lanes(inputs, "src")
    kept, reduced = source.valid if along == "row" else source.valid[::-1]
    length, width = shape if along == "row" else shape[::-1]
    if width == 1 and kept is not None and kept >= length and (reduced or not unless_empty):
        return None
    rows, cols = sizes(source, lanes)
    row, col = (lax.broadcasted_iota(np.int32, shape, axis) for axis in (0, 1))
    along_line, across = (lax.lt(row, rows), col) if along == "row" else (lax.lt(col, cols), row)
    inside = lax.bitwise_and(along_line, lax.eq(across, np.int32(0)))
    if unless_empty:
        inside = inside & ((cols if along == "row" else rows) > 0)
    return inside


def _accumulation(name: str, along: Along, operation: folds.Operation) -> None:
    @rule(name, keeps_doubts=operation == "add", regional=("src",))
    def apply(c: Context, inputs: Inputs) -> Outputs:
        dst = c.dtype("dst")
        wide = along == "row" and operation == "add" and dst.is_float
        result = _accumulate(c, inputs, along, operation, F32 if wide else dst)
        result = flush(c, convert.cast(result, F32 if wide else dst, dst), dst)
        return {"dst": store_line(c, inputs, along, result, unless_empty=c.profile != "cpu_sim")}


def _accumulate(
    c: Context, inputs: Inputs, along: Along, operation: folds.Operation, total: DType
) -> UInt[Array, " lanes"]:
    """Words of the sum or product of the source's lines, accumulated in the type ``total``."""
    a, source = c.semantics.arithmetic(total), c.dtype("src")
    words, size = source_words(c, inputs, along)
    axis = _AXES[along]
    if isinstance(a, Integer):
        one = folds.identity(operation, total)
        return folds.integer_fold(
            operation, folds.mask_lines(convert.cast(words, source, total), size, one, axis), axis
        )
    if c.attrs.get("isBinary") and c.profile != "cpu_sim":
        lines, size = source_lines(c, inputs, along)
        odd: Literal["first", "last"] = "first" if c.profile == "a2a3" else "last"
        return folds.tree_sum(a, lines, size, odd)
    own = c.arithmetic("src")
    assert not isinstance(own, Integer)

    def fold(words: Words) -> UInt[Array, " lanes"]:
        words = folds.mask_lines(words, size, folds.identity(operation, source), axis)
        return folds.left_fold(a, own, operation, words, axis)

    return fold(words) if isinstance(a, FastFloat) else platforms.apart(fold, words, size)


for _along in _BOTH:
    _accumulation(f"t{_along}sum", _along, "add")
    _accumulation(f"t{_along}prod", _along, "mul")


def _extreme(name: str, along: Along, largest: bool) -> None:
    @rule(name, regional=("src",))
    def apply(c: Context, inputs: Inputs) -> Outputs:
        source, dst = c.dtype("src"), c.dtype("dst")
        words, size = source_words(c, inputs, along)
        extremes = folds.extreme(c.arithmetic("src"), words, largest, size, _AXES[along])
        result = flush(c, convert.cast(extremes, source, dst), dst)
        return {
            "dst": store_line(c, inputs, along, result, unless_empty=c.profile != "cpu_sim" or not largest)
        }


for _along in _BOTH:
    _extreme(f"t{_along}max", _along, largest=True)
    _extreme(f"t{_along}min", _along, largest=False)


@rule("tpairreducesum")
def _tpairreducesum(c: Context, inputs: Inputs) -> Outputs:
    """The simulator clears the whole destination first and adds 0 to a column without a partner."""
    a, t, lanes = c.arithmetic(), c.tile("dst"), region.lanes(inputs, "dst")
    cols, simulated = sizes(t, lanes)[1], c.profile == "cpu_sim"
    lines = folds.mask_lines(operand(c, inputs, "src").T, cols, folds.identity("add", t.dtype))
    lines = jnp.pad(lines, ((0, t.cols % 2), (0, 0)))
    sums = formulas.binary(a, "add", lines[0::2], lines[1::2])
    if simulated and t.dtype.is_float:
        alone = lax.broadcasted_iota(np.int32, sums.shape, 0) * np.int32(2) + np.int32(1) == cols
        sums = jnp.where(alone, folds.positive_zero(sums, t.dtype), sums)
    zero = sums.dtype.type(0)
    pairs = (cols + np.int32(simulated)) // np.int32(2)
    new = fit(flush(c, folds.mask_lines(sums, pairs, zero), t.dtype).T, t.shape, zero)
    if not simulated:
        return {"dst": merge(c, inputs, new)}
    inside = mask(t, lanes)
    return {"dst": new if inside is None else jnp.where(inside, new, zero)}


def first_column(c: Context, inputs: Inputs, name: str) -> UInt[Array, "rows 1"]:
    """Column 0 of a source over dst's rows [rows, 1], filled as the profile says where it is not valid."""
    return _first(c, inputs, name, (c.tile("dst").rows, 1))


def first_row(c: Context, inputs: Inputs, name: str) -> UInt[Array, "1 cols"]:
    """Row 0 of a source over dst's columns [1, cols]."""
    return _first(c, inputs, name, (1, c.tile("dst").cols))


def _first(c: Context, inputs: Inputs, name: str, shape: tuple[int, int]) -> Words:
    lanes, t = region.lanes(inputs, name), c.tile(name)
    if c.semantics.out_of_region != "ones":
        return fit(lanes.words, shape, all_ones(t.dtype))
    words, inside = fit(lanes.valid, shape, all_ones(t.dtype)), mask(t, lanes, shape)
    return words if inside is None else jnp.where(inside, words, all_ones(t.dtype))


def _expansion(name: str, take: Callable[[Context, Inputs, str], Words]) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> Outputs:
        """Equal types move bits; the simulator also casts."""
        source, dst = c.dtype("src"), c.dtype("dst")
        words = take(c, inputs, "src")
        if source != dst:
            words = flush(c, convert.cast(flush(c, words, source), source, dst), dst)
        return {"dst": merge(c, inputs, words)}


_expansion("trowexpand", first_column)
_expansion("tcolexpand", first_row)


#: A formula on two numbers, and a selection by the words of two operands.
Formula: TypeAlias = Callable[[Float | Integer, Num, Num], Num]
Selection: TypeAlias = "Callable[[Float | Integer, UInt[Array, '...'], UInt[Array, '...']], Words]"


def _named(operation: str) -> Formula:
    return lambda a, x, y: getattr(a, operation)(x, y)


_FORMULAS: Mapping[str, Formula] = {
    **{operation: _named(operation) for operation in ("add", "sub", "mul", "div")},
    "expdif": formulas.exponential_of_difference,
}
#: Before these XLA would have a library repeat what it reduces.
_APART = (_FORMULAS["div"],)
_SELECTIONS: Mapping[str, Selection] = {"max": formulas.maximum, "min": formulas.minimum}


def _repeated(c: Context, inputs: Inputs, name: str) -> UInt[Array, "rows _"]:
    """A source's words over dst's lanes, or one column of it: columns are taken modulo its valid columns.

    A whole tile, a column of scalars and a block of 32 bytes are the same rule.
    """
    t, lanes, (rows, cols) = c.tile(name), region.lanes(inputs, name), c.tile("dst").shape
    fill = all_ones(t.dtype)
    covered = name in c.covered
    inside = mask(t, lanes) if c.semantics.out_of_region == "ones" and not covered else None
    words = lanes.valid if covered or inside is not None else lanes.words
    words = words if inside is None else jnp.where(inside, words, fill)
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
    return operand(c, inputs, "src0"), flush(c, first_row(c, inputs, "src1"), c.dtype("src1"))


def _arithmetic_rule(
    name: str, words: Callable[[Context, Inputs], tuple[UInt[Array, "..."], UInt[Array, "..."]]], f: Formula
) -> None:
    @rule(name, keeps_doubts=True, regional=("src0", "src1", "dst"))
    def apply(c: Context, inputs: Inputs) -> Outputs:
        a, sources = c.arithmetic(), zip(("src0", "src1"), words(c, inputs), strict=True)

        def number(name: str, words: UInt[Array, "..."]) -> Num:
            n = known(c, inputs, name)
            apart = isinstance(a, ExactFloat) or (f in _APART and platforms.expected() == "cpu")
            if apart and words.size < c.tile("dst").elements:
                words = bits.once(words)
            return a.decode(words) if n is None else n

        return computed(c, inputs, f(a, *(number(*g) for g in sources)))


def _selection_rule(
    name: str, words: Callable[[Context, Inputs], tuple[UInt[Array, "..."], UInt[Array, "..."]]], f: Selection
) -> None:
    @rule(name, regional=("src0", "src1", "dst"))
    def apply(c: Context, inputs: Inputs) -> Outputs:
        new = f(c.arithmetic(), *words(c, inputs))
        return {"dst": within(c, inputs, flush(c, new, c.dtype("dst")))}


for _broadcast_along, _operands in (("row", _row_operands), ("col", _column_operands)):
    for _name, _formula in _FORMULAS.items():
        _arithmetic_rule(f"t{_broadcast_along}expand{_name}", _operands, _formula)
    for _name, _selection in _SELECTIONS.items():
        _selection_rule(f"t{_broadcast_along}expand{_name}", _operands, _selection)


def _positions(name: str, along: Along, largest: bool) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> Outputs:
        source, unless_empty = c.dtype("src"), c.profile != "cpu_sim"
        lines, size = source_lines(c, inputs, along)
        index, value = folds.first_extreme(lines, source, largest, size)
        words = lax.convert_element_type(index, c.dtype("dst").word)
        results = {"dst": store_line(c, inputs, along, words, unless_empty=unless_empty)}
        if c.has("dstVal"):
            value = region.flush(c, value, source)
            results["dstVal"] = store_line(c, inputs, along, value, "dstVal", unless_empty)
        return results


_positions("trowargmax", "row", largest=True)
_positions("trowargmin", "row", largest=False)
_positions("tcolargmax", "col", largest=True)
_positions("tcolargmin", "col", largest=False)
