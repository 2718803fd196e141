"""Rules of irregular instructions: sequences, random numbers, histograms, gathers, scatters, partial tiles.

The helpers at the top read operands, turn words into positions, and see tiles as flat storage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import I32, CmpMode, DType, GatherAxis, MaskPattern, PrintFormat, ScatterAxis
from pto_jax.isa.irregular import counted_byte
from pto_jax.isa.irregular_partial import SRC0_WINS
from pto_jax.isa.rules.irregular import period

from . import bits, convert, formulas, region
from .machine import storage
from .numerics import Float, Integer
from .region import fit, flush, lanes, merge, sizes
from .rules import Context, Inputs, Lanes, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Int32, UInt, UInt32

    from .bits import Flat, Mask, Size, Word, Words


def iota(shape: tuple[int, ...], axis: int) -> Int32[Array, "..."]:
    """int32 numbers along one axis."""
    return lax.broadcasted_iota(np.int32, shape, axis)


def source(c: Context, inputs: Inputs, name: str, shape: tuple[int, int] | None = None) -> Words:
    """A source's words over ``shape`` (default: its own), with the profile's fill outside its valid region.

    Unlike :func:`region.read` it does not rely on the destination's region to be inside.
    """
    t = c.tile(name)
    shape = shape or t.shape
    fill = region.all_ones(t.dtype)
    words = region.fit(region.lanes(inputs, name).words, shape, fill)
    if c.semantics.out_of_region != "ones":
        return words
    inside = region.mask(t, region.lanes(inputs, name), shape)
    return words if inside is None else jnp.where(inside, words, fill)


def inside(c: Context, inputs: Inputs, name: str, shape: tuple[int, int] | None = None) -> Mask:
    """Lanes of ``shape`` inside a tile's valid region, as an array even where that is every lane."""
    shape = shape or c.tile(name).shape
    mask = region.mask(c.tile(name), region.lanes(inputs, name), shape)
    return jnp.ones(shape, np.bool_) if mask is None else mask


def positions(words: UInt[Array, "*shape"], dtype: DType, size: int) -> Int32[Array, "*shape"]:
    """Integer words as int32 positions; negative ones and those not below ``size`` become ``size``."""
    wide = lax.convert_element_type(convert.integer(words, dtype), np.int64)
    legal = (wide >= np.int64(0)) & (wide < np.int64(size))
    return lax.convert_element_type(jnp.where(legal, wide, np.int64(size)), np.int32)


def flat(c: Context, inputs: Inputs, name: str) -> Flat:
    """A tile's words in storage order."""
    return storage.to_physical(region.lanes(inputs, name).words, c.tile(name))


def store_first(c: Context, inputs: Inputs, name: str, values: UInt[Array, "..."], count: Size) -> Words:
    """Words [rows, cols] of a tile whose first ``count`` elements in storage order are ``values``.

    The other elements keep what they hold; values that do not fit are dropped.
    """
    old = flat(c, inputs, name)
    line = region.fit(values.reshape(1, -1), (1, old.shape[0]), old.dtype.type(0))[0]
    return storage.to_logical(jnp.where(iota(old.shape, 0) < count, line, old), c.tile(name))


def scalar(inputs: Inputs, name: str) -> Word:
    """The 0-d word of a scalar operand."""
    word = inputs[name]
    assert not isinstance(word, Lanes)
    return word


def pattern(c: Context) -> tuple[np.int32, np.int32]:
    """The pair (n, k) of the operation's mask pattern: element i takes part where ``i % n == k``."""
    mask_pattern = c.attrs["maskPattern"]
    assert isinstance(mask_pattern, MaskPattern)
    n, k = period(mask_pattern)
    return np.int32(n), np.int32(k)


_U32 = np.uint32

# -- sequences and triangles -------------------------------------------------------------------------


@rule("tci")
def _tci(c: Context, inputs: Inputs) -> Outputs:
    """The valid rows of dst do not matter."""
    t, a, old = c.tile("dst"), c.arithmetic(), region.lanes(inputs, "dst")
    start, number = region.flush(c, scalar(inputs, "start"), t.dtype), iota(t.shape, 1)
    steps = convert.cast(lax.bitcast_convert_type(number, _U32), I32, t.dtype)
    combine = a.sub if c.attrs["descending"] else a.add
    new = region.flush(c, a.encode(combine(a.decode(start), a.decode(steps))), t.dtype)
    inside = (iota(t.shape, 0) == 0) & (number < region.sizes(t, old)[1])
    return {"dst": jnp.where(inside, new, old.words)}


@rule("ttri")
def _ttri(c: Context, inputs: Inputs) -> Outputs:
    t = c.tile("dst")
    d = t.dtype
    wide = lax.convert_element_type(
        convert.integer(scalar(inputs, "diagonal"), c.dtype("diagonal")), np.int64
    )
    difference = lax.convert_element_type(iota(t.shape, 1) - iota(t.shape, 0), np.int64)
    ones = difference >= wide if c.attrs["upperOrLower"] else difference <= wide
    one = d.word.type(d.bias << d.mantissa if d.is_float else 1)
    return {"dst": region.merge(c, inputs, jnp.where(ones, one, d.word.type(0)))}


# -- random numbers ----------------------------------------------------------------------------------

_LANES = 64
_CHUNK = 4 * _LANES


def advance(
    counter: Sequence[UInt32[Array, "*#shape"]], by: UInt32[Array, "*#shape"]
) -> list[UInt32[Array, "*#shape"]]:
    """A 128-bit counter (four uint32 words, lowest first) plus 32-bit numbers."""
    result, carry = [], by
    for word in counter:
        total = word + carry
        carry = lax.convert_element_type(total < carry, _U32)
        result.append(total)
    return result


def _high_low(
    x: UInt32[Array, "*shape"], factor: int
) -> tuple[UInt32[Array, "*shape"], UInt32[Array, "*shape"]]:
    """Both halves of a 64-bit product."""
    product = lax.convert_element_type(x, np.uint64) * np.uint64(factor)
    return lax.convert_element_type(product >> np.uint64(32), _U32), x * _U32(factor)


def philox(
    counter: Sequence[UInt32[Array, "*#shape"]], key: Sequence[UInt32[Array, "*#shape"]], rounds: int
) -> list[UInt32[Array, "*#shape"]]:
    """The four words of the Philox-4x32 blocks of counters."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        high0, low0 = _high_low(c0, 0xD2511F53)
        high1, low1 = _high_low(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _U32(0x9E3779B9), k1 + _U32(0xBB67AE85)
    return [c0, c1, c2, c3]


@rule("trandom")
def _trandom(c: Context, inputs: Inputs) -> Outputs:
    t = c.tile("dst")
    rows, cols = t.shape
    words = {
        n: lax.convert_element_type(scalar(inputs, n), _U32)
        for n in ("key0", "key1", "counter0", "counter1", "counter2", "counter3")
    }
    chunks, v_col = -(-cols // _CHUNK), region.sizes(t, region.lanes(inputs, "dst"))[1]
    row, chunk, lane = (iota((rows, chunks, _LANES), axis) for axis in range(3))
    used = (v_col + np.int32(_CHUNK - 1)) // np.int32(_CHUNK)
    if c.profile == "cpu_sim":
        steps = (row * used + chunk) * np.int32(cols // 4) + lane
    else:
        last = (v_col - np.int32(1)) % np.int32(_LANES) + np.int32(1)
        steps = row * (np.int32(_LANES) * (used - np.int32(1)) + last) + chunk * np.int32(_LANES) + lane
    counter = advance([words[f"counter{i}"] for i in range(4)], lax.bitcast_convert_type(steps, _U32))
    rounds = c.attrs["rounds"]
    assert isinstance(rounds, int)
    numbers = philox(counter, (words["key0"], words["key1"]), rounds)
    # The simulator stores word q of lane l at column 64 q + l of a chunk, A5 at 4 l + q.
    line = jnp.stack(numbers, axis=2 if c.profile == "cpu_sim" else 3).reshape(rows, chunks * _CHUNK)
    return {"dst": region.merge(c, inputs, line[:, :cols])}


# -- histograms --------------------------------------------------------------------------------------

_BINS = 256


def _byte(words: UInt[Array, "*shape"], number: int) -> Int32[Array, "*shape"]:
    shifted = words >> words.dtype.type(8 * number)
    return lax.convert_element_type(shifted & words.dtype.type(0xFF), np.int32)


@rule("thistogram")
def _thistogram(c: Context, inputs: Inputs) -> Outputs:
    t, src, filters = c.tile("dst"), c.tile("src"), c.tile("idx")
    words, old = region.lanes(inputs, "src").words, region.lanes(inputs, "dst").words
    v_row, v_col = region.sizes(src, region.lanes(inputs, "src"))
    counted, highest = int(counted_byte(src.dtype.bits, c.attrs)), src.dtype.bits // 8 - 1
    # One filter byte per row for 16-bit elements, one per byte above the counted one for 32 bits.
    needed = src.rows if src.dtype.bits == 16 else highest
    index = source(c, inputs, "idx", (max(filters.rows, needed), filters.cols))
    passed = iota(src.shape, 1) < v_col
    for number in range(counted + 1, highest + 1):
        key = index[:needed, :1] if src.dtype.bits == 16 else index[highest - number, 0]
        passed = passed & (_byte(words, number) == lax.convert_element_type(key, np.int32))
    value = jnp.where(passed, _byte(words, counted), np.int32(_BINS))
    below = value[:, :, None] <= iota((1, 1, _BINS), 2)
    counts = jnp.sum(lax.convert_element_type(below, _U32), axis=1, dtype=_U32)
    new = region.fit(counts, t.shape, _U32(0))
    mask = (iota(t.shape, 0) < v_row) & (iota(t.shape, 1) < np.int32(_BINS))
    return {"dst": jnp.where(mask, new, old)}


# -- printing ----------------------------------------------------------------------------------------

_FIELDS = {
    PrintFormat.WIDTH8_PRECISION4: (8, 4),
    PrintFormat.WIDTH8_PRECISION2: (8, 2),
    PrintFormat.WIDTH10_PRECISION6: (10, 6),
}


def _text(word: np.generic, d: DType, width: int, digits: int) -> str:
    if d.is_float and d.bits <= 8:
        return f"{bits.value_table(d)[int(word)]:g}"
    value = word.view(d.numpy)
    if d.is_integer:
        return f"{int(value):{width}d}"
    return f"{float(value):{width}.{digits}f}" if d.bits == 32 else f"{float(value):g}"


def _show(d: DType, width: int, digits: int, words: Words, rows: Size, cols: Size) -> None:
    """Print a tile on the host."""
    region = np.asarray(words)[: max(int(rows), 0), : max(int(cols), 0)]
    lines = [f"TPRINT {int(rows)}x{int(cols)}"]
    lines += [" ".join(_text(word, d, width, digits) for word in row) for row in region]
    print("\n".join(lines), flush=True)


@rule("tprint")
def _tprint(c: Context, inputs: Inputs) -> Outputs:
    """Printing by the host when the values are there; no outputs.

    JAX promises no order, neither between the tiles of a batch nor between prints.
    """
    format = c.attrs["format"]
    assert isinstance(format, PrintFormat)
    tile = region.lanes(inputs, "src")
    show = partial(_show, c.dtype("src"), *_FIELDS[format])
    jax.debug.callback(show, tile.words, *region.sizes(c.tile("src"), tile))
    return {}


@rule("tgather")
def _tgather(c: Context, inputs: Inputs) -> Outputs:
    if c.has("indices"):
        return {"dst": _by_index(c, inputs)}
    if c.has("kValue"):
        return _matches(c, inputs)
    if c.attrs.get("axis") == GatherAxis.GATHER_COL:
        return {"dst": _picked_rows(c, inputs)}
    return {"dst": _packed(c, inputs)}


def _by_index(c: Context, inputs: Inputs) -> Words:
    """Indices address the source's storage, whatever of it is valid."""
    words = lanes(inputs, "src").words.reshape(-1)
    index = source(c, inputs, "indices", c.tile("dst").shape)
    where = positions(index, c.dtype("indices"), words.shape[0])
    return merge(c, inputs, words.at[where].get(mode="fill", fill_value=0))


def _packed(c: Context, inputs: Inputs) -> Words:
    """The picked elements of all valid rows, from the start of dst's storage on."""
    n, k = pattern(c)
    v_row, v_col = sizes(c.tile("src"), lanes(inputs, "src"))
    words, old = lanes(inputs, "src").words, flat(c, inputs, "dst")
    per_row = jnp.maximum((v_col + n - np.int32(1) - k) // n, np.int32(0))
    place = iota(old.shape, 0)
    divisor = jnp.maximum(per_row, np.int32(1))
    row, column = place // divisor, place % divisor * n + k
    elements = words.at[row, column].get(mode="fill", fill_value=0)
    return storage.to_logical(jnp.where(place < v_row * per_row, elements, old), c.tile("dst"))


def _picked_rows(c: Context, inputs: Inputs) -> Words:
    n, k = pattern(c)
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    picked = lanes(inputs, "src").words[int(k) :: int(n)]
    v_row, v_col = sizes(c.tile("src"), lanes(inputs, "src"))
    mask = (iota(t.shape, 0) * n + k < v_row) & (iota(t.shape, 1) < v_col)
    return jnp.where(mask, fit(picked, t.shape, old.dtype.type(0)), old)


def _matches(c: Context, inputs: Inputs) -> Outputs:
    """Numbers of the matching elements, packed at the start of each row, and how many they are."""
    t, src, a = c.tile("dst"), c.tile("src"), c.arithmetic("src")
    mode, offset = c.attrs["cmpMode"], c.attrs.get("offset") or 0
    assert isinstance(mode, CmpMode) and isinstance(offset, int)
    x, k = (flush(c, w, src.dtype) for w in (lanes(inputs, "src").words, scalar(inputs, "kValue")))
    matches = a.compare_words(mode, x, k) & inside(c, inputs, "src")
    columns = lax.sort(jnp.where(matches, iota(src.shape, 1), np.int32(src.cols)), dimension=1)
    counts = jnp.sum(lax.convert_element_type(matches, np.int32), axis=1, dtype=np.int32)
    first = lax.convert_element_type(iota(src.shape, 0) * np.int32(src.cols), np.uint32)
    first = first + np.uint32(offset & 0xFFFFFFFF)
    numbers = fit(first + lax.convert_element_type(columns, np.uint32), t.shape, np.uint32(0))
    v_row = sizes(src, lanes(inputs, "src"))[0]
    count = fit(counts[:, None], (t.rows, 1), np.int32(0))
    mask = (iota(t.shape, 0) < v_row) & (iota(t.shape, 1) < count)
    result = {"dst": jnp.where(mask, numbers, lanes(inputs, "dst").words)}
    if c.has("cdst"):
        totals = lax.convert_element_type(counts, c.dtype("cdst").word)
        result["cdst"] = store_first(c, inputs, "cdst", totals, jnp.minimum(v_row, np.int32(src.rows)))
    return result


_BLOCK_BYTES = 32


@rule("tgatherb")
def _tgatherb(c: Context, inputs: Inputs) -> Outputs:
    """Whole blocks only on the simulator, the valid part of a last block on hardware."""
    t, old = c.tile("dst"), region.lanes(inputs, "dst")
    size = t.dtype.word_bits // 8
    per_block = _BLOCK_BYTES // size
    stored = storage.regroup(flat(c, inputs, "src"), 8)
    blocks = -(-t.cols // per_block)
    begin = source(c, inputs, "offset", (t.rows, blocks))
    begin = jnp.repeat(begin, per_block, axis=1)[:, : t.cols]
    column = iota(t.shape, 1)
    last = stored.shape[0] - _BLOCK_BYTES
    inside_block = (begin <= np.uint32(max(last, 0))) & np.bool_(last >= 0)
    byte = jnp.where(inside_block, begin, np.uint32(0))
    byte = lax.convert_element_type(byte, np.int32) + column % np.int32(per_block) * np.int32(size)
    parts = stored.at[byte[:, :, None] + iota((1, 1, size), 2)].get(mode="fill", fill_value=0)
    new = storage.regroup(parts.reshape(-1), size * 8).reshape(t.shape)
    if c.profile == "cpu_sim":
        whole = region.sizes(t, old)[1] // np.int32(per_block) * np.int32(per_block)
        inside_block = inside_block & (column < whole)
    return {"dst": region.merge(c, inputs, jnp.where(inside_block, new, old.words))}


@rule("tscatter")
def _tscatter(c: Context, inputs: Inputs) -> Outputs:
    """Hardware clears the whole destination first, but for a copy of every element."""
    old = region.lanes(inputs, "dst").words
    if c.profile != "cpu_sim":
        if c.attrs.get("maskPattern") == MaskPattern.P1111:
            return {"dst": region.merge(c, inputs, source(c, inputs, "src", c.tile("dst").shape))}
        old = jnp.zeros_like(old)
    if c.has("indexes"):
        return {"dst": _scattered(c, inputs, old)}
    spread = _rows if c.attrs.get("axis") == ScatterAxis.SCATTER_COL else _elements
    return {"dst": jnp.where(inside(c, inputs, "dst"), spread(c, inputs), old)}


def _scattered(c: Context, inputs: Inputs, old: Words) -> Words:
    """The destination's words after the scatter, [rows, cols].

    The writer with the highest row-major number wins: the maximum does not depend on the order in which a
    scatter is carried out.
    """
    t, shape = c.tile("dst"), c.tile("indexes").shape
    stored = storage.to_physical(old, t)
    where = positions(region.lanes(inputs, "indexes").words, c.dtype("indexes"), stored.shape[0])
    where = jnp.where(inside(c, inputs, "indexes"), where, np.int32(stored.shape[0])).reshape(-1)
    writers = jnp.full(stored.shape, np.int32(-1)).at[where].max(iota(where.shape, 0), mode="drop")
    values = source(c, inputs, "src", shape).reshape(-1)
    new = values[jnp.maximum(writers, np.int32(0))]
    return storage.to_logical(jnp.where(writers >= np.int32(0), new, stored), t)


def _elements(c: Context, inputs: Inputs) -> Words:
    """Columns that fit the pattern take the source's elements in order, the others 0.

    The simulator's order runs on through the whole source, except where every column fits.
    """
    (n, k), t, src = pattern(c), c.tile("dst"), c.tile("src")
    words, row, column = _spread(c, inputs, src.shape), iota(t.shape, 0), iota(t.shape, 1)
    number = column // n
    if c.profile == "cpu_sim" and n > 1:
        v_col = region.sizes(t, region.lanes(inputs, "dst"))[1]
        number = number + row * ((v_col + n - np.int32(1) - k) // n)
        row, number = number // np.int32(src.cols), number % np.int32(src.cols)
    elements = words.at[row, number].get(mode="fill", fill_value=0)
    return jnp.where(column % n == k, elements, words.dtype.type(0))


def _spread(c: Context, inputs: Inputs, shape: tuple[int, int]) -> Words:
    """The source over ``shape``; on hardware what it has no valid element for stays zero."""
    words = source(c, inputs, "src", shape)
    if c.profile == "cpu_sim":
        return words
    return jnp.where(inside(c, inputs, "src", shape), words, words.dtype.type(0))


def _rows(c: Context, inputs: Inputs) -> Words:
    """Rows that fit the pattern take the source's rows in order, the others 0."""
    (n, k), t = pattern(c), c.tile("dst")
    words = _spread(c, inputs, (-(-t.rows // int(n)), t.cols))
    words = region.fit(jnp.repeat(words, int(n), axis=0), t.shape, words.dtype.type(0))
    return jnp.where(iota(t.shape, 0) % n == k, words, words.dtype.type(0))


def _words(c: Context, inputs: Inputs, name: str) -> Words:
    """A source's stored words over the destination's lanes."""
    words = region.lanes(inputs, name).words
    return region.fit(words, c.tile("dst").shape, words.dtype.type(0))


def _index(c: Context, inputs: Inputs, name: str) -> Words:
    """:func:`_words` with the profile's fill outside the tile's own region."""
    words = _words(c, inputs, name)
    if c.semantics.out_of_region != "ones":
        return words
    own = inside(c, inputs, name, c.tile("dst").shape)
    return jnp.where(own, words, region.all_ones(c.dtype(name)))


def _either(second: Mask, y: Words) -> Words:
    return jnp.where(second, y, y.dtype.type(0))


def _never_wins(c: Context, lowest: bool) -> Word:
    """On a5 the word of the lowest or the largest finite number, elsewhere zero."""
    d = c.dtype("dst")
    if c.profile != "a5":
        return jnp.asarray(d.word.type(0))
    if d.is_integer:
        return jnp.asarray(d.word.type((d.min_int if lowest else d.max_int) & ((1 << d.bits) - 1)))
    largest = (((1 << d.exponent) - 1) << d.mantissa) - 1
    return jnp.asarray(d.word.type(largest | (lowest << (d.bits - 1))))


def _partial(
    name: str,
    combine: Callable[[Float | Integer, Words, Words], Words],
    neither: Callable[[Context], Word] | None = None,
) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> Outputs:
        shape, d = c.tile("dst").shape, c.dtype("dst")
        first, second = (inside(c, inputs, n, shape) for n in ("src0", "src1"))
        x, y = (_words(c, inputs, n) for n in ("src0", "src1"))
        both = region.flush(c, combine(c.arithmetic(), region.flush(c, x, d), region.flush(c, y, d)), d)
        one = jnp.where(first, x, _either(second, y))
        if neither is not None:
            one = jnp.where(first | second, one, neither(c))
        return {"dst": region.merge(c, inputs, jnp.where(first & second, both, one))}


_partial("tpartadd", lambda a, x, y: formulas.binary(a, "add", x, y))
_partial("tpartmul", lambda a, x, y: formulas.binary(a, "mul", x, y))
_partial("tpartmax", formulas.maximum, lambda c: _never_wins(c, lowest=True))
_partial("tpartmin", formulas.minimum, lambda c: _never_wins(c, lowest=False))


def _partial_arg(name: str, mode: CmpMode) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> Outputs:
        """The value tiles' regions decide which index is taken, those of index tiles what it is."""
        shape, d, a = c.tile("dst").shape, c.dtype("dst"), c.arithmetic()
        first, second = (inside(c, inputs, n, shape) for n in ("src0", "src1"))
        x, y = (_words(c, inputs, n) for n in ("src0", "src1"))
        compared = (region.flush(c, words, d) for words in (x, y))
        first_wins = first & (~second | _first_wins(c.profile, a, mode, *compared))
        value = jnp.where(first_wins, x, _either(second, y))
        i, j = (_index(c, inputs, n) for n in ("src0Idx", "src1Idx"))
        index = jnp.where(first_wins, i, _either(second, j))
        index = region.fit(index, c.tile("dstIdx").shape, index.dtype.type(0))
        return {
            "dst": region.merge(c, inputs, value),
            "dstIdx": region.merge(c, inputs, index, "dstIdx", region="dst"),
        }


def _first_wins(profile: str, a: Float | Integer, mode: CmpMode, x: Words, y: Words) -> Mask:
    match SRC0_WINS[profile]:
        case "better":
            return a.compare_words(mode, x, y)
        case "equal":
            return a.compare_words(mode, x, y) | a.compare_words(CmpMode.EQ, x, y)
        case "unless worse":
            return ~a.compare_words(mode, y, x)


_partial_arg("tpartargmax", CmpMode.GT)
_partial_arg("tpartargmin", CmpMode.LT)
