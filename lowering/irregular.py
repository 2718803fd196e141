"""Irregular instructions that make values: sequences, triangles, random numbers, histograms; printing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import I32, DType, PrintFormat
from pto_jax.isa.irregular import counted_byte

from . import bits, convert, masks, region
from .irregular_storage import iota, scalar, source
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Int32, UInt, UInt32

    from .arrays import Size, Words

_U32 = np.uint32

# -- sequences and triangles -------------------------------------------------------------------------


@rule("tci")
def _tci(c: Context, inputs: Inputs) -> Outputs:
    """The valid rows of dst do not matter."""
    t, a, old = c.tile("dst"), c.arithmetic(), masks.lanes(inputs, "dst")
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
    chunks, v_col = -(-cols // _CHUNK), region.sizes(t, masks.lanes(inputs, "dst"))[1]
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
    made = philox(counter, (words["key0"], words["key1"]), rounds)
    # The simulator stores word q of lane l at column 64 q + l of a chunk, A5 at 4 l + q.
    line = jnp.stack(made, axis=2 if c.profile == "cpu_sim" else 3).reshape(rows, chunks * _CHUNK)
    return {"dst": region.merge(c, inputs, line[:, :cols])}


# -- histograms --------------------------------------------------------------------------------------

_BINS = 256


def _byte(words: UInt[Array, "*shape"], number: int) -> Int32[Array, "*shape"]:
    shifted = words >> words.dtype.type(8 * number)
    return lax.convert_element_type(shifted & words.dtype.type(0xFF), np.int32)


@rule("thistogram")
def _thistogram(c: Context, inputs: Inputs) -> Outputs:
    t, src, filters = c.tile("dst"), c.tile("src"), c.tile("idx")
    words, old = masks.lanes(inputs, "src").words, masks.lanes(inputs, "dst").words
    v_row, v_col = region.sizes(src, masks.lanes(inputs, "src"))
    counted, highest = int(counted_byte(src.dtype.bits, c.attrs)), src.dtype.bits // 8 - 1
    # One filter byte per row for 16-bit elements, one per byte above the counted one for 32 bits.
    needed = src.rows if src.dtype.bits == 16 else highest
    index = source(c, inputs, "idx", (max(filters.rows, needed), filters.cols))
    passed = iota(src.shape, 1) < v_col
    for number in range(counted + 1, highest + 1):
        wanted = index[:needed, :1] if src.dtype.bits == 16 else index[highest - number, 0]
        passed = passed & (_byte(words, number) == lax.convert_element_type(wanted, np.int32))
    value = jnp.where(passed, _byte(words, counted), np.int32(_BINS))
    below = value[:, :, None] <= iota((1, 1, _BINS), 2)
    counts = jnp.sum(lax.convert_element_type(below, _U32), axis=1, dtype=_U32)
    new = region.fit(counts, t.shape, _U32(0))
    written = (iota(t.shape, 0) < v_row) & (iota(t.shape, 1) < np.int32(_BINS))
    return {"dst": jnp.where(written, new, old)}


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
    shown = np.asarray(words)[: max(int(rows), 0), : max(int(cols), 0)]
    lines = [f"TPRINT {int(rows)}x{int(cols)}"]
    lines += [" ".join(_text(word, d, width, digits) for word in row) for row in shown]
    print("\n".join(lines), flush=True)


@rule("tprint")
def _tprint(c: Context, inputs: Inputs) -> Outputs:
    """Printing by the host when the values are there; no outputs.

    JAX promises no order, neither between the tiles of a batch nor between prints.
    """
    chosen = c.attrs["format"]
    assert isinstance(chosen, PrintFormat)
    tile = masks.lanes(inputs, "src")
    show = partial(_show, c.dtype("src"), *_FIELDS[chosen])
    jax.debug.callback(show, tile.words, *region.sizes(c.tile("src"), tile))
    return {}
