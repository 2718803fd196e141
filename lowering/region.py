"""Valid regions and packed masks: reads outside a region, merges into a destination, bits of comparisons.

Masks are little-endian: column j of a row is bit ``j % W`` of mask word ``j // W``. Hardware keeps mask rows
aligned with tile rows. The simulator does so in tcmp and tsels, but tcmps packs the whole physical source and
reflows it over the valid columns of the mask, and tsel reads one continuous bit stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, BLayout, CmpMode, DType, TileType

from . import bits, platforms
from .numerics import DoubtingFloat, ExactFloat, Integer, NativeFloat, Num, Real
from .rules import Context, Inputs, Lanes, Output, Outputs, Result, rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Shaped, UInt

    from .bits import Mask, Size, Values, Word, Words


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
        parts.append(lax.lt(line, lax.convert_element_type(size, np.int32)))
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
    if name in context.covered:
        return fit(lanes.valid if over == "dst" else lanes.words, shape, fill)
    if not ones:
        return fit(lanes.words, shape, fill)
    words, inside = fit(lanes.valid, shape, fill), mask(t, lanes, shape)
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


def within(
    context: Context,
    inputs: Inputs,
    new: UInt[Array, "..."],
    region: str = "dst",
    value: Values | None = None,
) -> Output:
    """:func:`merge` as a result; inside the destination's valid region it is ``new``."""
    words = merge(context, inputs, new, region=region)
    if region == "dst" and mask(context.tile("dst"), lanes(inputs, "dst")) is not None:
        return surrounded(context, words, jnp.broadcast_to(new, words.shape), value)
    return words if value is None else Result(words, value)


def surrounded(context: Context, words: Words, inside: Words, value: Values | None = None) -> Output:
    """The words of a destination that are those of ``inside`` in its valid region."""
    return Result(words, value, inside=inside) if context.carry else words


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
        rule(name, keeps_doubts=True, regional=(*reads, "dst"))(apply)
        return formula

    return register


def computed(context: Context, inputs: Inputs, result: Num) -> Outputs:
    """The outputs of an instruction whose destination holds numbers."""
    a = context.arithmetic()
    if not _carries(context):
        return {"dst": within(context, inputs, flush(context, a.encode(result), context.dtype("dst")))}
    assert isinstance(a, ExactFloat | NativeFloat)
    words, value = a.words_and_value(result)
    shape = context.tile("dst").shape
    return {"dst": within(context, inputs, words, value=jnp.broadcast_to(value, shape))}


def choice(context: Context, inputs: Inputs, first: str, second: str, mode: CmpMode) -> Outputs:
    """Outputs of a rule: the second operand where ``first mode second`` holds, else the first."""
    a = context.arithmetic()
    if all(carried(context, inputs, n) is not None for n in (first, second)):
        # Carried values have canonical NaN words, so encoding the chosen one gives its word.
        u, v = (number(context, inputs, n) for n in (first, second))
        return computed(context, inputs, a.where(a.compare(mode, u, v), v, u))
    x, y = (operand(context, inputs, n) for n in (first, second))
    words = bits.where(a.compare_words(mode, x, y), y, x)
    return {"dst": within(context, inputs, flush(context, words, context.dtype("dst")))}


def _carries(context: Context) -> bool:
    """Whether the result's value is handed on besides its words."""
    semantics = context.semantics
    exact = semantics.numerics == "exact" and semantics.subnormals == "keep"
    return exact and context.carry and context.dtype("dst") == F32


def number(context: Context, inputs: Inputs, name: str) -> Num:
    """A source as numbers over the destination's lanes: its carried value, else its decoded words."""
    value = known(context, inputs, name)
    return context.arithmetic(name).decode(operand(context, inputs, name)) if value is None else value


def known(context: Context, inputs: Inputs, name: str) -> Real | None:
    """The numbers of a source that arithmetic takes instead of its words."""
    value = carried(context, inputs, name)
    a = context.arithmetic(name)
    if value is None or not isinstance(a, ExactFloat):
        return None
    return Real(value, "single" if isinstance(a, DoubtingFloat) else "none")


def carried(context: Context, inputs: Inputs, name: str) -> Values | None:
    """The values of a source over the destination's lanes, where they are known."""
    lanes = inputs[name]
    if not isinstance(lanes, Lanes) or lanes.value is None:
        return None
    same = lanes.value.shape == context.tile("dst").shape
    everywhere = lanes.inside is None and context.semantics.out_of_region != "ones"
    return lanes.value if same and (name in context.covered or everywhere) else None


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
            return {"dst": within(context, inputs, result)}

        # The rule belongs to the file of its formula.
        apply.__module__ = formula.__module__
        rule(name, regional=(*reads, "dst"))(apply)
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


def lanes(inputs: Inputs, name: str) -> Lanes:
    """The words and valid sizes of the tile operand ``name``."""
    lanes = inputs[name]
    assert isinstance(lanes, Lanes)
    return lanes


def _cols(shape: tuple[int, ...]) -> Int32[Array, "..."]:
    return lax.broadcasted_iota(np.int32, shape, len(shape) - 1)


def _rows(shape: tuple[int, ...]) -> Int32[Array, "..."]:
    return lax.broadcasted_iota(np.int32, shape, 0)


def pack(flags: Mask, dtype: np.dtype) -> UInt[Array, "rows words"]:
    """Boolean [rows, cols] packed into words [rows, ceil(cols / W)]."""
    width = dtype.itemsize * 8
    rows, cols = flags.shape
    count = -(-cols // width)
    padded = jnp.pad(flags, ((0, 0), (0, count * width - cols))).reshape(rows, count, width)
    weights = lax.broadcasted_iota(dtype, (1, 1, width), 2)
    shifted = lax.convert_element_type(padded, dtype) << weights
    packed: Array = lax.reduce(shifted, dtype.type(0), lax.bitwise_or, (2,))
    return packed


def unpack(words: UInt[Array, "mask_rows mask_cols"], shape: tuple[int, int]) -> Mask:
    """Row-aligned mask words as boolean [rows, cols]."""
    width = words.dtype.itemsize * 8
    rows, cols = shape
    words = fit(words, (rows, -(-cols // width)), words.dtype.type(0))
    spread = jnp.repeat(words, width, axis=1)[:, :cols]
    shift = lax.convert_element_type(_cols((1, cols)) % np.int32(width), words.dtype)
    flags: Array = (spread >> shift) & words.dtype.type(1) != 0
    return flags


def store_rows(c: Context, inputs: Inputs, flags: Bool[Array, "src_rows src_cols"]) -> Words:
    """Row r of the flags into the leading words of mask row r.

    The a5 store whole predicates, whose bits behind the valid columns are zero.
    """
    t, source = c.tile("dst"), lanes(inputs, "src0")
    old = lanes(inputs, "dst").words
    packed = platforms.apart(lambda flags: pack(flags, old.dtype), flags, source.v_row)
    packed = fit(packed, t.shape, old.dtype.type(0))
    v_row, v_col = sizes(c.tile("src0"), source)
    width = old.dtype.itemsize * 8
    step = width if c.profile != "a5" else 256 if c.dtype("src0").bits == 8 else 128
    words = (v_col + np.int32(step - 1)) // np.int32(step) * np.int32(step // width)
    words = jnp.minimum(words, sizes(t, lanes(inputs, "dst"))[1])
    mask = (_rows(t.shape) < v_row) & (_cols(t.shape) < words)
    if c.profile != "cpu_sim":
        return jnp.where(mask, packed, old)
    # The simulator clears the tile first: all of it, or one column's worth of a column-major one.
    cleared = jnp.zeros_like(old)
    if t.blayout == BLayout.COL_MAJOR:
        cleared = jnp.where(_cols(t.shape) == 0, cleared, old)
    return jnp.where(mask, packed, cleared)


def near(
    c: Context, mode: CmpMode, x: UInt[Array, "*#lanes"], y: UInt[Array, "*#lanes"]
) -> Bool[Array, "*lanes"]:
    """The simulator's tcmps compares EQ and NE in float64 with a tolerance of 1e-9."""
    a = c.arithmetic("src0")
    if isinstance(a, Integer):
        u, v = (lax.convert_element_type(a.decode(w), np.float64) for w in (x, y))
    else:
        u, v = (lax.convert_element_type(a.single(a.decode(w)), np.float64) for w in (x, y))
    distance = lax.abs(u - v)
    if mode == CmpMode.EQ:
        return distance < np.float64(1e-9)
    return (u != u) | (v != v) | (distance > np.float64(1e-9))


def reflow(c: Context, inputs: Inputs, flags: Bool[Array, "src_rows src_cols"]) -> Words:
    """One byte stream over all physical source rows, dealt out over the mask's valid columns."""
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    cols = flags.shape[1] // 8
    stream = pack(flags[:, : cols * 8], np.dtype(np.uint8)).reshape(-1)
    v_row, v_col = sizes(t, lanes(inputs, "dst"))
    rows, columns = _rows(t.shape), _cols(t.shape)
    index = rows * v_col + columns
    inside = (rows < v_row) & (columns < v_col) & (index < np.int32(stream.size))
    picked = (
        stream[jnp.clip(index, 0, max(stream.size - 1, 0))] if stream.size else jnp.zeros(t.shape, np.uint8)
    )
    return jnp.where(inside, lax.convert_element_type(picked, old.dtype), old.dtype.type(0))


def stream_bits(c: Context, inputs: Inputs, mask: UInt[Array, "mask_rows mask_cols"]) -> Mask:
    """Selection bits as the simulator's tsel reads them, bool of the destination's shape [rows, cols].

    Bit n of one stream over the valid region is that of its n-th lane, a byte per mask element; rows that the
    mask does not have read as ones.
    """
    t = c.tile("dst")
    v_col = sizes(t, lanes(inputs, "dst"))[1]
    mask_cols = jnp.maximum(sizes(c.tile("mask"), lanes(inputs, "mask"))[1], np.int32(1))
    n = _rows(t.shape) * v_col + _cols(t.shape)
    k = n // np.int32(8)
    row, rows = k // mask_cols, np.int32(mask.shape[0])
    column = jnp.clip(k % mask_cols, 0, mask.shape[1] - 1)
    byte = lax.convert_element_type(mask[jnp.minimum(row, rows - np.int32(1)), column], np.int32)
    byte = jnp.where(row < rows, byte, np.int32(0xFF))
    return (byte >> (n % np.int32(8))) & np.int32(1) != 0
