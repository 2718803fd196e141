"""Valid regions: masks, fills of out-of-region reads, and merging into a destination."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, CmpMode, DType, TileType

from . import bits
from .numerics import ExactFloat, NativeFloat, Num, Real
from .rules import VALUE, Context, Inputs, Lanes, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Shaped, UInt

    from .arrays import Mask, Size, Values, Word, Words


def sizes(t: TileType, lanes: Lanes) -> tuple[Size, Size]:
    """The tile's valid rows and columns as int32 scalars."""
    rows = jnp.asarray(np.int32(t.v_row)) if t.v_row is not None else lanes.v_row
    cols = jnp.asarray(np.int32(t.v_col)) if t.v_col is not None else lanes.v_col
    assert rows is not None and cols is not None
    return rows, cols


def mask(t: TileType, lanes: Lanes, shape: tuple[int, int] | None = None) -> Mask | None:
    """Lanes inside the tile's valid region over ``shape``, or None when that is every lane."""
    shape = shape or t.shape
    parts = []
    for axis, (static, traced) in enumerate(((t.v_row, lanes.v_row), (t.v_col, lanes.v_col))):
        size: Size | np.int32
        if static is not None:
            if static >= shape[axis]:
                continue
            size = np.int32(static)
        else:
            assert traced is not None
            size = traced
        line = lax.broadcasted_iota(np.int32, (shape[0], 1) if axis == 0 else (1, shape[1]), axis)
        parts.append(line < size)
    if not parts:
        return None
    return jnp.broadcast_to(parts[0] if len(parts) == 1 else parts[0] & parts[1], shape)


def fit(
    words: Shaped[Array, "height width"], shape: tuple[int, int], fill: np.generic
) -> Shaped[Array, "{shape[0]} {shape[1]}"]:
    """The words cropped or extended with ``fill`` to another physical shape."""
    rows, cols = words.shape
    if (rows, cols) == shape:
        return words
    words = words[: shape[0], : shape[1]]
    missing = [(0, shape[0] - words.shape[0]), (0, shape[1] - words.shape[1])]
    return jnp.pad(words, missing, constant_values=fill)


def read(context: Context, inputs: Inputs, name: str, over: str = "dst") -> Words | Word:
    """A source's words over the destination's lanes, with the profile's fill outside its valid region.

    Scalars come back as they are (0-d words).
    """
    lanes = inputs[name]
    if not isinstance(lanes, Lanes):
        return lanes
    t, shape = context.tile(name), context.tile(over).shape
    ones = context.semantics.out_of_region == "ones"
    fill = all_ones(t.dtype)
    words = fit(lanes.words, shape, fill)
    if not ones or name in context.covered:
        return words
    inside = mask(t, lanes, shape)
    return words if inside is None else jnp.where(inside, words, fill)


def all_ones(dtype: DType) -> np.unsignedinteger[Any]:
    """The word of an element whose stored bits are all ones."""
    word: np.unsignedinteger[Any] = dtype.word.type((1 << min(dtype.storage_bits, dtype.word_bits)) - 1)
    return word


def operand(context: Context, inputs: Inputs, name: str, over: str = "dst") -> Words | Word:
    """:func:`read` for instructions that compute: in flush mode subnormals come as signed zeros."""
    return flush(context, read(context, inputs, name, over), context.dtype(name))


def flush(context: Context, words: UInt[Array, "*shape"], dtype: DType) -> UInt[Array, "*shape"]:
    """Subnormal floats replaced by zeros of their sign, in flush mode only."""
    if context.semantics.subnormals == "keep" or not dtype.is_float or dtype.bits < 16:
        return words
    word = words.dtype.type
    field = word((1 << (dtype.bits - 1)) - (1 << dtype.mantissa))
    sign = word(1 << (dtype.bits - 1))
    return jnp.where((words & field) == word(0), words & sign, words)


def merge(
    context: Context, inputs: Inputs, new: UInt[Array, "..."], name: str = "dst", region: str = "dst"
) -> Words:
    """``new`` inside a region, the destination's old words elsewhere."""
    old = inputs[name]
    assert isinstance(old, Lanes)
    lanes = inputs[region]
    assert isinstance(lanes, Lanes)
    inside = mask(context.tile(region), lanes, context.tile(name).shape)
    new = jnp.broadcast_to(new, context.tile(name).shape)
    return new if inside is None else lax.select(inside, new, old.words)


#: Computes a destination's numbers from the numbers of the operands: ``formula(arithmetic, *numbers)``.
NumberFormula: TypeAlias = Callable[..., Num]


def numeric(name: str, *reads: str) -> Callable[[NumberFormula], NumberFormula]:
    """Register an arithmetic rule over dst's valid region; values are carried where that is possible."""

    def register(formula: NumberFormula) -> NumberFormula:
        def apply(context: Context, inputs: Inputs) -> Outputs:
            numbers = (number(context, inputs, n) for n in reads if context.has(n))
            result = formula(context.arithmetic(), *numbers)
            return computed(context, inputs, result)

        # The rule belongs to the file of its formula.
        apply.__module__ = formula.__module__
        rule(name)(apply)
        return formula

    return register


def computed(context: Context, inputs: Inputs, result: Num) -> Outputs:
    """The outputs of an instruction whose destination holds numbers."""
    a = context.arithmetic()
    if not _carries(context, inputs):
        return {"dst": merge(context, inputs, flush(context, a.encode(result), context.dtype("dst")))}
    assert isinstance(a, ExactFloat | NativeFloat)
    words, value = a.words_and_value(result)
    shape = context.tile("dst").shape
    return {"dst": merge(context, inputs, words), VALUE + "dst": jnp.broadcast_to(value, shape)}


def choice(context: Context, inputs: Inputs, first: str, second: str, mode: CmpMode) -> Outputs:
    """Outputs of a rule: the second operand where ``first mode second`` holds, else the first."""
    a = context.arithmetic()
    if all(carried(context, inputs, n) is not None for n in (first, second)):
        # Carried values have canonical NaN words, so encoding the chosen one gives its word.
        u, v = (number(context, inputs, n) for n in (first, second))
        return computed(context, inputs, a.where(a.compare(mode, u, v), v, u))
    x, y = (operand(context, inputs, n) for n in (first, second))
    words = bits.where(a.compare_words(mode, x, y), y, x)
    return {"dst": merge(context, inputs, flush(context, words, context.dtype("dst")))}


def _carries(context: Context, inputs: Inputs) -> bool:
    """Whether the result's value is known on every lane of the destination."""
    lanes = inputs["dst"]
    assert isinstance(lanes, Lanes)
    semantics = context.semantics
    exact = semantics.numerics == "exact" and semantics.subnormals == "keep"
    return (
        exact and context.carry and context.dtype("dst") == F32 and mask(context.tile("dst"), lanes) is None
    )


def number(context: Context, inputs: Inputs, name: str) -> Num:
    """A source as numbers over the destination's lanes: its carried value, else its decoded words."""
    value = known(context, inputs, name)
    return context.arithmetic(name).decode(operand(context, inputs, name)) if value is None else value


def known(context: Context, inputs: Inputs, name: str) -> Real | None:
    """The numbers of a source that arithmetic takes instead of its words."""
    value = carried(context, inputs, name)
    if value is None or not isinstance(context.arithmetic(name), ExactFloat):
        return None
    return Real(value)


def carried(context: Context, inputs: Inputs, name: str) -> Values | None:
    """The values of a source over the destination's lanes, where they are known."""
    lanes = inputs[name]
    if not isinstance(lanes, Lanes) or lanes.value is None:
        return None
    same = lanes.value.shape == context.tile("dst").shape
    covered = same and (name in context.covered or context.semantics.out_of_region != "ones")
    return lanes.value if covered else None


#: Computes a destination's words lane by lane from the words of the operands it names.
Formula: TypeAlias = "Callable[..., Words]"


def elementwise(name: str, *reads: str, moves: bool = False) -> Callable[[Formula], Formula]:
    """Register a lane-wise rule: ``formula(context, *words of reads)`` over dst's valid region.

    ``moves`` marks instructions that copy bits, which flush mode leaves alone.
    """

    def register(formula: Formula) -> Formula:
        def apply(context: Context, inputs: Inputs) -> Outputs:
            fetch = read if moves else operand
            result = formula(context, *(fetch(context, inputs, n) for n in reads if context.has(n)))
            if not moves:
                result = flush(context, result, context.dtype("dst"))
            return {"dst": merge(context, inputs, result)}

        # The rule belongs to the file of its formula.
        apply.__module__ = formula.__module__
        rule(name)(apply)
        return formula

    return register


def lanewise(module: str) -> Callable[[str, Callable[..., Words], tuple[str, ...]], None]:
    """What registers lane-wise rules of a class file, given its ``__name__``.

    It takes a name, ``formula(arithmetic, *words)``, and the operands whose words the formula has.
    """

    def register(name: str, formula: Callable[..., Words], reads: tuple[str, ...]) -> None:
        def of_words(context: Context, *words: UInt[Array, "..."]) -> Words:
            return formula(context.arithmetic(), *words)

        of_words.__module__ = module
        elementwise(name, *reads)(of_words)

    return register
