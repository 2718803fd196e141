"""Rules of loads and stores between global memory and tiles.

Global memory is one flat array of words per buffer. A static window whose dimensions nest becomes slices and
reshapes; every other window becomes a gather or scatter of computed addresses. Elements outside the window or
the buffer read as zero and are not written. Stores whose elements may share an address write in row-major
order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.interpreter import Scalar, View
from pto_jax.ir import AtomicType, BLayout, Conv, DType, GlobalLayout, Loc, Pad, TileType

from . import canary, memory_layouts, platforms, quantise, region, slicing
from .bits import elements_at, from_words, moved_as, numbers_of, raw
from .machine import addresses, storage
from .machine.addresses import NEAR, Positions, begin, distance, wide
from .memory_layouts import Placed, Window, block_of, fetch, inner_block, within
from .region import flush
from .rules import Context, GlobalMemory, Inputs, Lanes, Result, memory_rule

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Int64, Shaped, UInt

    from .bits import Elements, Flat, Mask, Words
    from .machine.ranges import Range


#: Dimensions of a window: g n c d h w as usual.
_WINDOWS = {GlobalLayout.NHWC: "gnhwc", GlobalLayout.NCHW: "gnchw", GlobalLayout.NCDHW: "ncdhw"}
#: Dimensions of a tile: N and C count blocks of images and channels, k is all that is not in a block.
_TILES = {
    GlobalLayout.NC1HWC0: "nChwc",
    GlobalLayout.NDC1HWC0: "ndChwc",
    GlobalLayout.FRACTAL_Z: "kNnc",
    GlobalLayout.FRACTAL_Z_3D: "kNnc",
}


@dataclass(frozen=True)
class Converted:
    """A window whose elements fill a convolution tile by what they are: image, channel, place."""

    offset: Scalar
    shape: dict[str, Scalar]
    strides: dict[str, Scalar]
    conv: Conv

    @property
    def is_static(self) -> bool:
        """Whether offset, shape and strides of the window are all known."""
        return all(isinstance(n, int) for n in (self.offset, *self.shape.values(), *self.strides.values()))

    def lanes(self) -> tuple[int, int]:
        """No lane is beyond the window: one without a source keeps what it holds."""
        return NEAR, NEAR

    def meets(self, shape: tuple[int, int]) -> bool | None:
        """Not known: always None."""
        return None

    def block(self) -> memory_layouts.Block | None:
        """Never a block: always None."""
        return None

    def moving_block(self) -> memory_layouts.Block | None:
        """Never a block: always None."""
        return None

    def addresses(self, shape: tuple[int, int]) -> Int64[Array, "rows cols"] | Int64[np.ndarray, "rows cols"]:
        """Places without a source have the address of the window's first element."""
        start, index = begin(self.offset, tuple(self.strides.values())), self._indices()
        further: Positions = np.int64(0)
        for name, i in index.items():
            further = further + distance(i, self.strides[name])
        inside, _ = self._kinds(index)
        where = inside * further + start
        placed: Array | np.ndarray = where.reshape(shape)
        return placed

    def filled(self, fetched: Words, old: Words) -> Words:
        """The tile's words: what the window has, zero to the end of a block of channels, else as before."""
        inside, written = (jnp.asarray(m).reshape(old.shape) for m in self._kinds(self._indices()))
        return jnp.where(inside, fetched, jnp.where(written, old.dtype.type(0), old))

    def _kinds(self, index: dict[str, Scalar]) -> tuple[Scalar, Scalar]:
        """Places with a source, and those in blocks of channels that have any."""
        blocks = np.int64(self.conv.shape[-1])
        channels = (wide(self.shape["c"]) + blocks - np.int64(1)) // blocks * blocks
        written: Scalar = index["c"] < channels
        for name in "ndhw":
            written = written & (index[name] < wide(self.shape[name]))
        return written & (index["c"] < wide(self.shape["c"])), written

    def _indices(self) -> dict[str, Scalar]:
        """What each element of the tile is, by the dimensions of the window."""
        letters, extents = _TILES[self.conv.layout], self.conv.shape
        numbers = np.unravel_index(np.arange(self.conv.elements, dtype=np.int64), extents)
        index: dict[str, Scalar] = dict.fromkeys("ncdhw", np.int64(0))
        index |= {n: i.astype(np.int64) for n, i in zip(letters, numbers, strict=True)}
        blocks = np.int64(extents[-1])
        if "k" in index:
            index["n"] = index.pop("N") * np.int64(extents[2]) + index["n"]
            sizes = {n: wide(memory_layouts.positive(self.shape[n])) for n in "chw"}
            sizes["C"] = (sizes["c"] + blocks - np.int64(1)) // blocks
            rest = index.pop("k")
            for name in ("w", "h", "C"):
                index[name], rest = rest % sizes[name], rest // sizes[name]
            index["d"] = rest
        index["c"] = index.pop("C") * blocks + index["c"]
        return index


def converted(view: View, layout: GlobalLayout, conv: Conv) -> Converted:
    """The window of a view in another layout than the tile's."""
    if layout not in _WINDOWS or conv.layout not in _TILES:
        message = f"layout {layout.name.lower()} into a {conv.layout.name.lower()} tile is not executed"
        raise NotExecutableError(Diagnostic("error", message))
    lead = memory_layouts.RANK - len(view.shape)
    names = _WINDOWS[layout]
    sizes = zip(names, (1,) * lead + view.shape, (0,) * lead + view.strides, strict=True)
    shape: dict[str, Scalar] = dict.fromkeys("gncdhw", 1)
    strides: dict[str, Scalar] = dict.fromkeys("gncdhw", 0)
    for name, extent, stride in sizes:
        shape[name], strides[name] = extent, stride
    return Converted(view.offset, shape, strides, conv)


#: ``combine(context, dtype, old, new)``: the words that stay where new words meet old ones.
Combine: TypeAlias = "Callable[[Context, DType, Flat, Flat], Flat]"


def add(
    c: Context, dtype: DType, old: UInt[Array, "*shape"], new: UInt[Array, "*shape"]
) -> UInt[Array, "*shape"]:
    """Words of the sums, in the element type: one rounding, integers wrap."""
    if dtype.is_float and c.semantics.numerics == "exact":
        canary.require(platforms.expected())
    a = c.semantics.arithmetic(dtype)
    total = a.add(a.decode(flush(c, old, dtype)), a.decode(flush(c, new, dtype)))
    return flush(c, a.encode(total), dtype)


def accumulate(
    c: Context,
    dtype: DType,
    buffer: Flat,
    where: Int32[Array, " lanes"],
    new: UInt[Array, " lanes"],
    combine: Combine = add,
) -> Flat:
    """The buffer with every lane combined with its element, one after another where they share one.

    ``where`` and ``new`` are flat; positions at the buffer's end or beyond are not written. Sums of integers
    have no order; other lanes are taken in rounds, the n-th lane of every element together: one round where
    no two lanes meet.
    """
    if combine is add and is_number(dtype):
        return at_once("add", dtype, buffer, where, new)
    result: Array = _accumulate(c, dtype, buffer, where, new, combine)
    return result


def is_number(dtype: DType) -> bool:
    """Whether a word is an integer and nothing else."""
    return dtype.is_integer and dtype.bits == dtype.word_bits


def at_once(
    method: Literal["add", "max", "min"],
    dtype: DType,
    buffer: Flat,
    where: Int32[Array, " lanes"],
    new: UInt[Array, " lanes"],
) -> Flat:
    """The buffer with every lane combined in any order, for integers of whole words."""
    kind = np.dtype(dtype.numpy)
    place = from_words(buffer, kind).at[where]
    return raw(getattr(place, method)(from_words(new, kind), mode="drop"))


@partial(jax.jit, static_argnums=(0, 1, 5))
def _accumulate(
    c: Context,
    dtype: DType,
    buffer: Flat,
    where: Int32[Array, " lanes"],
    new: UInt[Array, " lanes"],
    combine: Combine,
) -> Flat:
    beyond = np.int32(buffer.shape[0])
    positions, order, first = _sorted(where)
    words = new[order]

    def going(carry: tuple[Bool[Array, " lanes"], Flat]) -> Bool[Array, ""]:
        return jnp.any(carry[0])

    def step(carry: tuple[Bool[Array, " lanes"], Flat]) -> tuple[Bool[Array, " lanes"], Flat]:
        turn, current = carry
        target = jnp.where(turn, positions, beyond)
        old = elements_at(current, target)
        current = current.at[target].set(combine(c, dtype, old, words), mode="drop")
        return jnp.concatenate([turn[:1] & False, turn[:-1]]) & ~first, current

    return lax.while_loop(going, step, (first & (positions < beyond), varying(buffer, new, where)))[1]


def varying(buffer: Flat, *operands: Shaped[Array, "..."]) -> Flat:
    """The buffer as a loop's carry: one that varies over a mesh as results of the operands do."""
    for operand in operands:
        nothing = jnp.max(operand ^ operand, initial=operand.dtype.type(0))
        buffer = buffer | lax.convert_element_type(nothing, buffer.dtype)
    return buffer


def overwrite(buffer: Flat, where: Int32[Array, " lanes"], new: UInt[Array, " lanes"]) -> Flat:
    """The buffer with every lane stored; the last one stays where several share an element."""
    positions, order, first = _sorted(where)
    last = jnp.concatenate([first[1:], jnp.ones(1, np.bool_)])
    target = jnp.where(last, positions, np.int32(buffer.shape[0]))
    return buffer.at[target].set(new[order], mode="drop")


def _sorted(
    where: Int32[Array, " lanes"],
) -> tuple[Int32[Array, " lanes"], Int32[Array, " lanes"], Bool[Array, " lanes"]]:
    """Positions in order, the lanes they belong to, and whether a place is the first one of its position."""
    positions, order = lax.sort((where, lax.iota(np.int32, where.shape[0])), num_keys=1, is_stable=True)
    first = jnp.concatenate([jnp.ones(1, np.bool_), positions[1:] != positions[:-1]])
    return positions, order, first


def pad_word(dtype: DType, pad: Pad, profile: str) -> np.unsignedinteger:
    """The word a pad value stands for.

    Float formats of 8 bits and less pad with zero, and so do 64-bit integers except on the simulator.
    """
    word = dtype.word.type
    narrow = dtype.is_float and dtype.bits < 16
    if pad in (Pad.NULL, Pad.ZERO) or narrow or (dtype.bits == 64 and profile != "cpu_sim"):
        return word(0)
    if dtype.is_float:
        infinity = ((1 << dtype.exponent) - 1) << dtype.mantissa
        return word(infinity | (0 if pad == Pad.MAX else 1 << (dtype.bits - 1)))
    value = dtype.max_int if pad == Pad.MAX else dtype.min_int
    return word(value & ((1 << dtype.word_bits) - 1))


def window_of(c: Context, view: View, tile: str) -> Placed:
    """The window of a transfer; a layout the instruction gives goes before the view's own.

    For a convolution tile it is one row. On a5 a view that says nothing has the order of a vec tile in NZ.
    """
    attribute, t = c.attrs.get("layout"), c.tile(tile)
    conv, layout = t.conv, attribute if isinstance(attribute, GlobalLayout) else view.layout
    if layout is None and c.profile == "a5" and t.loc == Loc.VEC and t.layout == "NZ":
        layout = GlobalLayout.NZ
    if conv is None:
        return Window.of(view, layout)
    layout = conv.layout if layout is None else layout
    if layout == conv.layout:
        return Window.of(view, layout, flat=True)
    return converted(view, layout, conv)


def is_inside(t: TileType, window: Placed, buffer: Flat) -> bool:
    """Whether a transfer of the tile's valid region is known to stay in the window and in the buffer."""
    block = window.block()
    if t.v_row is None or t.v_col is None or block is None or not block.within(buffer):
        return False
    return block.rows >= t.v_row and block.cols >= t.v_col


def exceeded(t: TileType, lanes: Lanes, window: Placed) -> Bool[Array, ""]:
    """Whether a transfer has more lanes than the window has elements for."""
    sizes, limits = region.sizes(t, lanes), map(addresses.wide, window.lanes())
    pairs = zip(sizes, limits, strict=True)
    some = lax.bitwise_and(*[lax.gt(n, np.int32(0)) for n in sizes])
    larger = lax.bitwise_or(*[lax.gt(lax.convert_element_type(n, np.int64), m) for n, m in pairs])
    return lax.bitwise_and(some, larger)


def always_inside(t: TileType, window: Placed, memory: GlobalMemory) -> bool:
    """Whether a transfer of the tile's valid region is in the window and the buffer, wherever it begins."""
    block, offsets = window.moving_block(), memory.offsets
    if t.v_row is None or t.v_col is None or block is None or offsets is None:
        return False
    inside = offsets.low >= 0 and offsets.high + block.span <= memory.buffer.shape[0]
    return inside and block.rows >= t.v_row and block.cols >= t.v_col


def transferred(t: TileType, lanes: Lanes, window: Placed) -> tuple[Int64[Array, ""], Int64[Array, ""]]:
    """The first and the last element of the buffer that a transfer of the valid region addresses."""
    corners = window.corners(region.sizes(t, lanes)) if isinstance(window, Window) else None
    if corners is not None:
        return corners
    moved: Scalar = True
    for number, limit in zip(np.indices(t.shape, np.int64, sparse=True), window.lanes(), strict=True):
        moved = moved & (number < addresses.wide(limit))
    inside = region.mask(t, lanes)
    return addresses.reach(window.addresses(t.shape), moved if inside is None else moved & inside)


@memory_rule("tload", regional=("dst",))
def tload(c: Context, inputs: Inputs, memory: GlobalMemory) -> Words | Result:
    """The new words of the destination tile."""
    t, dst, buffer = c.tile("dst"), region.lanes(inputs, "dst"), memory.buffer
    _require_in_bounds(c, "dst", dst, memory)
    window = window_of(c, memory.view, "dst")
    source = buffer if memory.constant is None else memory.constant
    fetched = _fetched(source, window, t.shape, memory.offsets)
    if isinstance(window, Converted):
        return window.filled(fetched, dst.words)
    inside = region.mask(t, dst)
    if inside is None:
        fast = c.semantics.numerics == "fast"
        return _alone(buffer, window, memory.view.dtype, fetched) if fast else fetched
    fill = pad_word(t.dtype, t.pad, c.profile)
    if c.profile == "cpu_sim":
        around: Words | np.number[Any] = fill
    elif t.pad == Pad.NULL:
        around = dst.words
    else:
        around = jnp.where(_tail(t, dst), fill, dst.words)
    loaded: Words | Result = region.surrounded(c, jnp.where(inside, fetched, around), fetched)
    return loaded


def _alone(buffer: Flat, window: Placed, dtype: DType, fetched: Words) -> Words:
    """What a window has of a buffer of elements of a type, where it is all of it, as a reshape by itself.

    That costs nothing, and in XLA's reductions much.
    """
    if fetched.size != buffer.size:
        return fetched
    block = window.block()
    if block is not None and block.is_all(buffer) and (block.rows, block.cols) == fetched.shape:
        numbers = numbers_of(buffer, dtype).reshape(fetched.shape)
        return raw(lax.optimization_barrier(numbers))  # type: ignore[no-untyped-call]
    alone: Array = lax.optimization_barrier(fetched)  # type: ignore[no-untyped-call]
    return alone


def _fetched(source: Elements, window: Placed, shape: tuple[int, int], offsets: Range | None) -> Words:
    """Words of a window's elements on a tile shape, of the words or the numbers of a buffer."""

    def gathered(source: Elements) -> Words:
        return raw(fetch(source, window, shape, offsets))

    inner = inner_block(window, shape, source, offsets)
    lines = _lines(window, shape, source) if inner is None else None
    if lines is None:
        return gathered(source)
    words: Array = lax.platform_dependent(source, cpu=partial(lines.read, shape=shape), default=gathered)
    return words


def _lines(
    window: Placed, shape: tuple[int, int], buffer: Elements, through_gaps: bool = False
) -> memory_layouts.Lines | None:
    """A window as lines where it is none of the windows that are one slice.

    ``through_gaps``: nor one that moves and has gaps, as a store would have to write what is in them.
    """
    if not isinstance(window, Window) or window.is_static:
        return None
    block = block_of(window, shape)[0]
    gaps = through_gaps and block is not None and not block.is_dense and not isinstance(window.offset, int)
    return memory_layouts.lines_of(window, shape, buffer) if block is None or gaps else None


def _require_in_bounds(c: Context, tile: str, lanes: Lanes, memory: GlobalMemory) -> None:
    """The run-time rules on a transfer: its window has the lanes, and the buffer the elements."""
    if memory.require is None:
        return
    t, window, buffer = c.tile(tile), window_of(c, memory.view, tile), memory.buffer
    if is_inside(t, window, buffer) or always_inside(t, window, memory):
        return
    allowed = f"transfers inside the window and the buffer of {buffer.shape[0]} elements"
    lanes_of = (*region.sizes(t, lanes), *window.lanes())
    got = "{}x{} lanes for a window of {}x{}"
    memory.require("in-bounds", allowed, exceeded(t, lanes, window), got, lanes_of)
    memory.require_elements(allowed, *transferred(t, lanes, window))


def _tail(t: TileType, lanes: Lanes) -> Mask:
    """Lanes from the end of each valid row (column, in column-major tiles) to the next 32 bytes."""
    block = np.int32(max(1, 32 * 8 // t.dtype.storage_bits))
    row, col = region.sizes(t, lanes)
    rows = lax.broadcasted_iota(np.int32, t.shape, 0)
    cols = lax.broadcasted_iota(np.int32, t.shape, 1)
    if t.blayout == BLayout.COL_MAJOR:
        return (cols < col) & (rows < (row + block - np.int32(1)) // block * block)
    return (rows < row) & (cols < (col + block - np.int32(1)) // block * block)


@memory_rule("tstore", regional=("src",))
def tstore(c: Context, inputs: Inputs, memory: GlobalMemory) -> Flat:
    """The buffer with the tile's valid region written through the window, or added to what is there."""
    view, buffer, src = memory.view, memory.buffer, region.lanes(inputs, "src")
    _require_in_bounds(c, "src", src, memory)
    t, window = c.tile("src"), window_of(c, view, "src")
    src = src._replace(words=quantise.stored(c, inputs, view.dtype))
    costly = c.semantics.numerics == "exact" and view.dtype.is_float
    if c.attrs.get("atomicType") != AtomicType.ATOMIC_ADD:
        return put(t, src, window, memory, costly)
    if window.meets(t.shape) is False:
        old = fetch(buffer, window, t.shape, memory.offsets)
        sums = add(c, view.dtype, old, src.words)
        return put(t, src._replace(words=sums), window, memory, costly)
    where, words = targets(t, src, window, buffer).reshape(-1), src.words.reshape(-1)
    total: Array = accumulate(c, view.dtype, buffer, *slicing.computed_before(where, words))
    return total


def put(t: TileType, src: Lanes, window: Placed, memory: GlobalMemory, costly: bool = False) -> Flat:
    """The buffer with words written from the tile's valid region through a window.

    ``costly`` as in :meth:`memory_layouts.Block.put_before`.
    """
    buffer, kind, independent = memory.buffer, moved_as(memory.view.dtype), memory.independent
    unmasked = region.mask(t, src) is None
    inner = inner_block(window, t.shape, buffer, memory.offsets) if unmasked else None
    if inner is not None and (inner.block.rows, inner.block.cols) == t.shape:
        words = from_words(src.words, kind)
        stored = inner.put(from_words(buffer, kind), words, window.offset, independent)
        if stored is not None:
            return raw(stored)
    lines = _lines(window, t.shape, buffer, through_gaps=True)
    if lines is None:
        elements = src._replace(words=from_words(src.words, kind))
        around = from_words(buffer if memory.passed is None else memory.passed, kind)
        stored = _put_block(t, elements, window, from_words(buffer, kind), independent, costly, around)
        if stored is not None:
            return raw(stored)
    else:
        write = partial(lines.limited(*region.sizes(t, src)).write, kind=kind, independent=independent)
        scattered = partial(_scatter, t, src, window, independent=independent)
        written: Array = lax.platform_dependent(buffer, src.words, cpu=write, default=scattered)
        return written
    return _scatter(t, src, window, buffer, src.words, independent)


def _scatter(t: TileType, src: Lanes, window: Placed, buffer: Flat, words: Words, independent: bool) -> Flat:
    """A store element by element."""
    where, words = targets(t, src, window, buffer).reshape(-1), words.reshape(-1)
    if not independent:
        where, words = slicing.computed_before(where, words)
    # Sorting pays only where lanes meet for certain; with strides of run time the scatter's order stands.
    if window.meets(t.shape):
        return overwrite(buffer, where, words)
    written: Array = _set_elements(buffer, words, where)
    return written


def _set_elements_of_batch(
    buffers: UInt[Array, "batch _"], words: UInt[Array, "batch lanes"], where: Int32[Array, " lanes"]
) -> UInt[Array, "batch _"]:
    """Buffers with elements replaced, at places with the number of the batch element.

    With places alone a scatter takes one lane of the whole batch at a time: XLA transposes the words for it.
    """
    batch = lax.broadcasted_iota(np.int32, words.shape, 0)
    return buffers.at[batch, where].set(words, mode="drop")


_by_batch = slicing.of_batches(_set_elements_of_batch, 2)
_set_elements = platforms.by_platform(
    lambda buffer, words, where: buffer.at[where].set(words, mode="drop"),
    cuda=lambda buffer, words, where: _by_batch(buffer[None], words[None], where)[0],
)


def targets(t: TileType, src: Lanes, window: Placed, buffer: Flat) -> Int32[Array, "rows cols"]:
    """int32 buffer positions of the tile's lanes; the buffer's size where nothing is written."""
    where, inside = within(window.addresses(t.shape), buffer), region.mask(t, src)
    return where if inside is None else jnp.where(inside, where, np.int32(buffer.shape[0]))


def _put_block(
    t: TileType,
    src: Lanes,
    window: Placed,
    buffer: Elements,
    independent: bool,
    costly: bool,
    around: Elements,
) -> Elements | None:
    """A store through a block as slice updates; None when it is not one.

    ``around`` are the same elements as those of the buffer, for a result that is no update.
    """
    block, own = block_of(window, t.shape)
    if block is None or not block.fits(t.shape) or block.span > buffer.shape[0]:
        return None
    shape = block.rows, block.cols
    if any(size is not None and size > n for size, n in zip(t.valid, shape, strict=True)):
        return None
    words, inside, start = src.words[: block.rows, : block.cols], region.mask(t, src, shape), window.offset
    if own is not None:
        own = own[: block.rows, : block.cols]
        inside = own if inside is None else inside & own
    if isinstance(start, int) and block.within(buffer):
        if inside is None:
            return block.put(buffer, words, independent)
        limits = [
            lax.min(size, addresses.limited(limit, extent))
            for size, limit, extent in zip(region.sizes(t, src), window.lanes(), shape, strict=True)
        ]
        return block.put_before(limits, buffer, words, independent, costly, around)
    if inside is None and block.is_dense:
        return storage.write(buffer, block.written(words), start, independent)
    old = storage.read(buffer, start, block.span)
    if inside is not None:
        words = jnp.where(inside, words, block.read(old))
    return storage.write(buffer, block.written(words, old), start, independent)
