"""NumPy rules of loads, stores, indexed transfers and the prefetch hint, with layouts of global memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np

from ..errors import ExecutionError, objection
from ..interpreter import View
from ..ir import (
    AtomicType,
    BLayout,
    Coalesce,
    Conv,
    DType,
    GatherOob,
    GlobalLayout,
    Loc,
    Pad,
    ReluPreMode,
    ScatterAtomicOp,
    ScatterOob,
    SLayout,
    TileType,
    block_channels,
)
from ..isa.rules.memory_indexed import coalescing
from . import arithmetic, quantise, storage
from .arithmetic import add
from .numbers import Array, decode, flush, infinity
from .step import Lane, Step, not_executable, require_plain, rule

_G = GlobalLayout
_Ints = tuple[int, int, int, int, int]


def dims_of(view: View) -> _Ints:
    """Extents of a view as five dimensions, missing leading ones 1."""
    extents = [int(n) for n in view.shape]
    a, b, c, d, e = [1] * (5 - len(extents)) + extents
    return a, b, c, d, e


def strides_of(view: View) -> _Ints:
    """Strides in elements brought to rank 5: 0 for the missing leading dimensions."""
    steps = [int(n) for n in view.strides]
    a, b, c, d, e = [0] * (5 - len(steps)) + steps
    return a, b, c, d, e


def window_lanes(view: View) -> tuple[int, int]:
    """Rows and columns of a tile that a view has elements for."""
    a, b, c, d, e = dims_of(view)
    match view.layout:
        case _G.DN:
            return d, a * b * c * e
        case _G.NZ:
            return c * d, a * b * e
        case _G.MX_A_ZZ:
            return b * 16, c * 2
        case _G.MX_B_NN:
            return c * 2, b * 16
        case _G.MX_A_ND:
            return c, d * 2
        case _G.MX_A_DN:
            return d, c * 2
        case _G.MX_B_ND:
            return c * 2, d
        case _G.MX_B_DN:
            return d * 2, c
        case _G.NC1HWC0:
            return a * c * d, b * e
        case _G.NDC1HWC0:
            return a * d * e, b * c * block_channels(view.dtype)
        case _G.NCHW:
            return a * b * d * e, c
        case _G.NCDHW:
            return a * c * d * e, b
    return a * b * c * d, e


def _indices(view: View, r: Array, c: Array) -> tuple[tuple[Array, ...], Array]:
    """Five indices of logical element (r, c), and how many elements further it lies."""
    _, d1, d2, d3, d4 = (max(n, 1) for n in dims_of(view))
    zero, block = r * 0, block_channels(view.dtype)
    match view.layout:
        case None | _G.ND | _G.NHWC:
            indices = (r // (d1 * d2 * d3), r // (d2 * d3) % d1, r // d3 % d2, r % d3, c)
        case _G.DN:
            indices = (c // (d1 * d2 * d4), c // (d2 * d4) % d1, c // d4 % d2, r, c % d4)
        case _G.NZ:
            indices = (c // d4 // d1, c // d4 % d1, r // d3, r % d3, c % d4)
        case _G.MX_A_ZZ:
            indices = (zero, r // 16, c // 2, r % 16, c % 2)
        case _G.MX_A_ND:
            indices = (zero, zero, r, c // 2, c % 2)
        case _G.MX_A_DN:
            indices = (zero, zero, c // 2, r, c % 2)
        case _G.MX_B_NN:
            indices = (zero, c // 16, r // 2, c % 16, r % 2)
        case _G.MX_B_ND:
            indices = (zero, zero, r // 2, c, r % 2)
        case _G.MX_B_DN:
            indices = (zero, zero, c, r // 2, r % 2)
        case _G.NC1HWC0:
            indices = (r // (d2 * d3), c // d4, r // d3 % d2, r % d3, c % d4)
        case _G.NDC1HWC0:
            indices = (r // (d3 * d4), c // (d2 * block), c // block % d2, r // d4 % d3, r % d4)
            return indices, c % block
        case _G.NCHW:
            indices = (r // (d1 * d3 * d4), r // (d3 * d4) % d1, c, r // d4 % d3, r % d4)
        case _G.NCDHW:
            indices = (r // (d2 * d3 * d4), c, r // (d3 * d4) % d2, r // d4 % d3, r % d4)
        case other:
            raise KeyError(other)
    return indices, zero


def global_map(view: View, r: Array, c: Array) -> Array:
    """Position in the buffer of logical element (r, c) of a view."""
    indices, further = _indices(view, r, c)
    return placed(view, indices, strides_of(view)) + further


def placed(view: View, indices: Sequence[Array], strides: Sequence[int]) -> Array:
    """Positions in the buffer of elements by their indices, one array per dimension.

    They are Python's own numbers where 64 bits could not hold them.
    """
    farthest = sum(abs(n) * int(np.max(i, initial=0)) for i, n in zip(indices, strides, strict=True))
    if farthest + abs(int(view.offset)) >= 1 << 62:
        indices = [np.asarray(i).astype(object) for i in indices]
    moved = sum(i * n for i, n in zip(indices, strides, strict=True))
    return np.asarray(moved + int(view.offset))


def require_layout(step: Step, view: View) -> None:
    """NotExecutableError for layouts of which no element order is known."""
    try:
        global_map(view, np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64))
    except KeyError:
        assert view.layout is not None
        name = view.layout.name.lower()
        raise not_executable(step.op, f"is not executed between a tile and layout {name}") from None


def check_bounds(step: Step, view: View, at: Array, memory: Array) -> None:
    """ExecutionError where an addressed element is outside the buffer."""
    if at.size:
        require_inside(step, view, at.min(), at.max(), len(memory) * 8 // view.dtype.storage_bits)


def require_inside(step: Step, view: View, first: int, last: int, available: int) -> None:
    """ExecutionError where positions are outside the buffer of a view."""
    if first < 0 or last >= available:
        got = f"got elements {first} to {last} of {view.buffer}"
        message = objection(got, f"the buffer of {available} elements of {view.dtype}")
        raise ExecutionError(step.op.error("bounds", message))


# -- convolution tiles -------------------------------------------------------------------------------


def load_convolution(step: Step, view: View) -> None:
    """Read a view into the convolution tile dst; ExecutionError where it leaves the buffer."""
    conv = step.type().conv
    assert conv is not None
    at, present, kept = image_positions(step, conv, view)
    memory = step.memory(view.buffer)
    check_bounds(step, view, at[present], memory)
    words = np.zeros(conv.elements, step.dtype().word)
    words[present] = storage.read_words(memory, at[present], view.dtype)
    written = np.flatnonzero(~kept)
    step.scatter(words[written], written)


def store_convolution(step: Step, view: View) -> None:
    """Write the convolution tile src to a view; ExecutionError where it leaves the buffer."""
    conv = step.type("src").conv
    assert conv is not None
    at, _, _ = image_positions(step, conv, view)
    memory = step.memory(view.buffer)
    check_bounds(step, view, at, memory)
    storage.write_words(memory, at, step.stored("src").reshape(-1), view.dtype)


def image_positions(step: Step, conv: Conv, view: View) -> tuple[Array, Array, Array]:
    """For each element of a convolution tile: its place in the buffer, and two flags.

    The flags tell whether it has a place, and whether the tile keeps what it holds there.
    """
    element = np.unravel_index(np.arange(conv.elements), conv.shape)
    layout = conv.layout if view.layout is None else view.layout
    everywhere = np.ones(conv.elements, bool)
    if layout != conv.layout:
        return _converted_positions(step, conv, view, layout)
    _require_shape(step, conv, view)
    further = 0
    if layout == _G.NDC1HWC0:
        *element, further = element  # type: ignore[assignment]
    elif len(element) == 4:
        element = (element[0] // dims_of(view)[1], element[0] % dims_of(view)[1], *element[1:])
    return placed(view, element, strides_of(view)) + further, everywhere, ~everywhere


def _require_shape(step: Step, conv: Conv, view: View) -> None:
    have = dims_of(view)
    fits = have == conv.shape[:5]
    if len(conv.shape) == 4:
        fits = (have[0] * have[1], *have[2:]) == conv.shape
    if not fits:
        dims = "x".join(map(str, have))
        message = f"a window of {dims} and a convolution tile of {'x'.join(map(str, conv.shape))}"
        raise ExecutionError(step.op.error("bounds", message))


def _converted_positions(
    step: Step, conv: Conv, view: View, layout: GlobalLayout
) -> tuple[Array, Array, Array]:
    """Elements by image, channel, depth and position, as a plain layout of five dimensions has them."""
    dims, c0 = dims_of(view), conv.shape[-1]
    order = {_G.NHWC: "dnhwc", _G.NCHW: "dnchw", _G.NCDHW: "ncdhw"}.get(layout)
    if order is None:
        pair = f"{layout.name.lower()} to {conv.layout.name.lower()}"
        raise not_executable(step.op, f"is not executed from {pair}")
    size = dict(zip(order, dims, strict=True))
    i = np.unravel_index(np.arange(conv.elements), conv.shape)
    if conv.layout == _G.NC1HWC0:
        place = {"n": i[0], "c": i[1] * c0 + i[4], "d": 0 * i[0], "h": i[2], "w": i[3]}
    elif conv.layout == _G.NDC1HWC0:
        place = {"n": i[0], "d": i[1], "c": i[2] * c0 + i[5], "h": i[3], "w": i[4]}
    else:
        blocks = -(-size["c"] // c0)
        outer = {"d": size["d"], "c1": blocks, "h": size["h"], "w": size["w"]}
        if prod(outer.values()) != conv.shape[0]:
            _require_shape(step, conv, view)
        d, c1, h, w = np.unravel_index(i[0], tuple(outer.values()))
        place = {"n": i[1] * conv.shape[2] + i[2], "c": c1 * c0 + i[3], "d": d, "h": h, "w": w}
    absent = place["n"] >= size["n"]
    present = ~absent & np.logical_and.reduce([place[k] < size[k] for k in "cdhw"])
    return placed(view, [place[k] for k in order], strides_of(view)), present, absent


@rule("tprefetch")
def _prefetch(step: Step) -> None:
    """The simulator copies linearly with the pitch of the tile; hardware promises nothing."""
    if not step.policy.simulator:
        return
    t, view, (rows, cols) = step.type(), step.view("src"), step.region
    r, c = np.ogrid[:rows, :cols]
    positions = (r * t.cols + c).reshape(-1)
    memory = step.memory(view.buffer)
    at = placed(view, [positions], [1])
    inside = (at >= 0) & (at < len(memory) * 8 // view.dtype.storage_bits)
    step.scatter(storage.read_words(memory, at[inside].astype(np.int64), view.dtype), positions[inside])


#: Tiles are padded up to the end of the transfer block they are loaded in.
BLOCK_BYTES = 32


@rule("tload")
def _tload(step: Step) -> None:
    """Bits move; the simulator first fills the whole tile, hardware pads to the end of a block."""
    t, view = step.type(), view_of(step, "src")
    if t.dtype.storage_bits != view.dtype.storage_bits:
        raise not_executable(
            step.op, f"is not executed from {view.dtype} to {t.dtype}; elements of one size are"
        )
    if t.conv is not None:
        load_convolution(step, view)
        return
    require_layout(step, view)
    rows, cols = step.region
    pad = pad_word(t, wide=step.policy.simulator)
    if step.policy.simulator:
        everything = np.arange(t.elements)
        step.scatter(np.full(everything.shape, pad), everything)
    elif t.pad != Pad.NULL:
        step.put(np.full((1, 1), pad), padded_region(t, rows, cols))
    memory = step.memory(view.buffer)
    step.put(storage.read_words(memory, positions_of(step, view, (rows, cols), memory), view.dtype))


@rule("tstore")
def _tstore(step: Step) -> None:
    if step.type("src").conv is not None:
        require_plain(step, atomicType=AtomicType.ATOMIC_NONE, reluPreMode=ReluPreMode.NO_RELU)
        store_convolution(step, view_of(step, "dst"))
        return
    store(step, quantise.scalar_parameter(step))


def store(step: Step, parameters: Array | None) -> None:
    """The valid region is converted, then placed or added."""
    view, region = view_of(step, "dst"), step.valid("src")
    require_layout(step, view)
    words = _as_stored(step, step.raw("src", region), view.dtype, parameters)
    memory = step.memory(view.buffer)
    positions = positions_of(step, view, region, memory)
    if step.attrs.get("atomicType") == AtomicType.ATOMIC_ADD:
        _add(step, memory, positions, words, view.dtype)
    else:
        storage.write_words(memory, positions, words, view.dtype)


def _add(step: Step, memory: Array, positions: Array, words: Array, d: DType) -> None:
    """Add to elements of a buffer; several lanes of one element add in row-major order."""
    flushes = step.policy.flush_subnormals
    flat, new = positions.reshape(-1), np.broadcast_to(words, positions.shape).reshape(-1)
    turns = _turns(flat)
    for turn in range(int(turns.max(initial=-1)) + 1):
        at, terms = flat[turns == turn], new[turns == turn]
        old = storage.read_words(memory, at, d)
        total = add(d, flush(old, d), flush(terms, d)) if flushes else add(d, old, terms)
        storage.write_words(memory, at, flush(total, d) if flushes else total, d)


def _turns(positions: Array) -> Array:
    """How many earlier lanes have the same position, for each."""
    order = np.argsort(positions, kind="stable")
    same = np.concatenate([[False], positions[order][1:] == positions[order][:-1]])
    index = np.arange(len(positions))
    start = np.maximum.accumulate(np.where(same, 0, index))
    turns = np.empty_like(index)
    turns[order] = index - start
    return turns


def view_of(step: Step, name: str) -> View:
    """A view operand with the layout that the instruction gives it.

    On a5 a view without one has the fractals of a vec tile in NZ order.
    """
    view, layout = step.view(name), step.attrs.get("layout")
    if isinstance(layout, GlobalLayout):
        return replace(view, layout=layout)
    t = step.type("src" if name == "dst" else "dst")
    fractal = view.layout is None and t.loc == Loc.VEC and t.layout == "NZ"
    return replace(view, layout=GlobalLayout.NZ) if fractal and step.policy.profile.name == "a5" else view


def _as_stored(step: Step, words: Array, target: DType, parameters: Array | None) -> Array:
    """Accumulators convert, and on the simulator all tiles do; hardware copies the bits of others."""
    source = step.dtype("src")
    if step.policy.simulator or step.type("src").loc == Loc.ACC or parameters is not None:
        return quantise.outgoing(step, words, target, parameters)
    if source.storage_bits != target.storage_bits:
        raise not_executable(step.op, f"is not executed from {source} to {target}; elements of one size are")
    return quantise.clamped(words, source) if quantise.has_relu(step) else words


def pad_word(t: TileType, *, wide: bool) -> np.generic:
    """Bits that a tile's pad value stands for.

    Floats of 8 bits and less know only zero, and so do 64-bit integers unless ``wide``.
    """
    d = t.dtype
    if t.pad in (Pad.NULL, Pad.ZERO) or d.bits < 8 or (d.is_float and d.bits == 8):
        return d.word.type(0)
    if d.bits == 64 and not wide:
        return d.word.type(0)
    if d.is_float:
        sign = 1 << (d.bits - 1) if t.pad == Pad.MIN else 0
        return d.word.type(sign | infinity(d))
    limit = d.max_int if t.pad == Pad.MAX else d.min_int
    return d.word.type(limit & ((1 << d.bits) - 1))


def padded_region(t: TileType, rows: int, cols: int) -> tuple[int, int]:
    """The valid region extended to the next block boundary, along the elements that follow each other."""
    per_block = max(1, BLOCK_BYTES * 8 // t.dtype.storage_bits)
    along_rows = t.slayout == SLayout.ROW_MAJOR if t.boxed else t.blayout == BLayout.ROW_MAJOR
    if along_rows:
        return rows, min(t.cols, -(-cols // per_block) * per_block)
    return min(t.rows, -(-rows // per_block) * per_block), cols


def positions_of(step: Step, view: View, region: tuple[int, int], memory: Array) -> Array:
    """Element positions in the buffer of every lane of a transfer; all must be inside it."""
    lanes = window_lanes(view)
    if all(region) and any(n > limit for n, limit in zip(region, lanes, strict=True)):
        message = f"the window has {lanes[0]}x{lanes[1]} lanes; {region[0]}x{region[1]} are transferred"
        raise ExecutionError(step.op.error("bounds", message))
    at = global_map(view, *np.ogrid[tuple(map(slice, region))])
    at = np.broadcast_to(at, region)
    check_bounds(step, view, at, memory)
    return at.astype(np.int64)


#: What a table of any rank counts as.
_RANK = 5


@dataclass(frozen=True)
class _Table:
    """A table in global memory, as the indices of one instruction address it."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    by_row: bool
    fractal: bool
    simulator: bool

    @property
    def capacity(self) -> int:
        """How many indices name something."""
        if not self.by_row:
            return prod(self.shape)
        if self.fractal:
            return self.shape[2] * self.shape[3]
        return self.shape[3] if self.simulator else prod(self.shape[:4])

    def position(self, n: int, column: int) -> int:
        """Element of the buffer that an index and the column of a lane name."""
        d, s = self.shape, self.strides
        if self.fractal:
            width = d[0] * d[1] * d[4]
            r, c = (n, column) if self.by_row else divmod(n, width)
            q = c // d[4]
            at = (q // d[1], q % d[1], r // d[3], r % d[3], c % d[4])
            return self.offset + sum(i * k for i, k in zip(at, s, strict=True))
        if self.by_row:
            return self.offset + n * s[3] + column * s[4]
        return self.offset + n


def table_of(step: Step, name: str, by_row: bool) -> _Table:
    """The view of an operand as a table, brought to rank 5."""
    view: View = step.view(name)
    missing = _RANK - len(view.shape)
    return _Table(
        int(view.offset),
        (1,) * missing + tuple(map(int, view.shape)),
        (0,) * missing + tuple(map(int, view.strides)),
        by_row,
        step.policy.profile.name == "a2a3" and view.layout == GlobalLayout.NZ,
        step.policy.simulator,
    )


_Lanes: TypeAlias = Iterator[tuple[int, int, int]]


def named_lanes(step: Step, data: str, by_row: bool) -> _Lanes:
    """Row, column and index of every valid lane of the data tile, in row order."""
    rows, cols = step.valid(data)
    if by_row:
        numbers = _numbers(step, *index_places(step, rows))
        yield from ((i, j, numbers[i]) for i in range(rows) for j in range(cols))
        return
    numbers = _numbers(step, *np.indices((rows, cols)).reshape(2, -1))
    yield from ((i, j, numbers[i * cols + j]) for i in range(rows) for j in range(cols))


def index_places(step: Step, count: int) -> tuple[Array, Array]:
    """Row and column of the first elements of the index tile's storage; beyond the tile where it is short."""
    t = step.type("indexes")
    places = {int(at): place for place, at in np.ndenumerate(storage.map_of(t))}
    places_of_indices = [places.get(i, (t.rows, t.cols)) for i in range(count)]
    rows, cols = np.array(places_of_indices, np.int64).reshape(-1, 2).T
    return rows, cols


def _numbers(step: Step, rows: Array, cols: Array) -> list[int]:
    """Elements of the index tile as unsigned numbers."""
    width = 64 if step.policy.simulator else 32
    signed = decode(step.gather("indexes", rows, cols), step.dtype("indexes"))
    return [int(n) & ((1 << width) - 1) for n in signed]


def resolved(step: Step, n: int, capacity: int) -> int | None:
    """The index that counts, or None where nothing is transferred."""
    mode = step.attrs["gatherOob" if step.is_tile("dst") else "scatterOob"]
    assert isinstance(mode, GatherOob | ScatterOob)
    if capacity == 0:
        return None
    if n < capacity or mode.name == "UNDEFINED":
        return n
    return {"CLAMP": capacity - 1, "WRAP": n % capacity}.get(mode.name)


def is_by_row(step: Step, data: str) -> bool:
    """Whether an index names a row of the table and not an element."""
    profile = step.policy.profile.name
    picked = coalescing(step.attrs, profile, step.type("indexes"), step.type(data))
    return picked == Coalesce.ROW


@rule("mgather")
def _mgather(step: Step) -> None:
    by_row, view = is_by_row(step, "dst"), step.view("src")
    table, elements = table_of(step, "src", by_row), _elements(step, view)
    values = np.zeros(step.region, elements.dtype)
    for i, j, n in named_lanes(step, "dst", by_row):
        k = resolved(step, n, table.capacity)
        if k is not None:
            values[i, j] = elements[_reached(step, view, table.position(k, j), len(elements))]
    step.put(values)


def _reached(step: Step, view: View, at: int, available: int) -> int:
    """A position in the buffer of a view; ExecutionError outside of it."""
    require_inside(step, view, at, at, available)
    return at


def _elements(step: Step, view: View) -> Array:
    """Every element of the buffer a view lies in, as words."""
    memory = step.memory(view.buffer)
    count = len(memory) * 8 // view.dtype.storage_bits
    return storage.read_words(memory, np.arange(count), view.dtype)


_COMBINE: dict[object, Lane] = {
    ScatterAtomicOp.ADD: arithmetic.add,
    ScatterAtomicOp.MAX: arithmetic.larger,
    ScatterAtomicOp.MIN: arithmetic.smaller,
}


@rule("mscatter")
def _mscatter(step: Step) -> None:
    by_row, view = is_by_row(step, "src"), step.view("dst")
    table, elements = table_of(step, "dst", by_row), _elements(step, view)
    words, atomic = step.raw("src", step.valid("src")), step.attrs["scatterAtomicOp"]
    combine, row_number = _combiner(step, atomic), combines_at_row(step, by_row)
    for i, j, n in named_lanes(step, "src", by_row):
        k = resolved(step, n, table.capacity)
        if k is None:
            continue
        at = _reached(step, view, table.position(k, j), len(elements))
        read = table.offset + k if row_number else at
        old = elements[read : read + 1] if read < len(elements) else np.zeros(1, elements.dtype)
        elements[at] = combine(old, words[i : i + 1, j])[0]
    storage.write_words(step.memory(view.buffer), np.arange(len(elements)), elements, view.dtype)


def combines_at_row(step: Step, by_row: bool) -> bool:
    """Whether the old element is that of the row's number: so the simulator's row form of max and min."""
    limits = (ScatterAtomicOp.MAX, ScatterAtomicOp.MIN)
    return by_row and step.policy.simulator and step.attrs["scatterAtomicOp"] in limits


def _combiner(step: Step, atomic: object) -> Callable[[Array, Array], Array]:
    """What becomes of a table's word and a stored one."""
    lane, d = _COMBINE.get(atomic), step.dtype("src")
    if lane is None:
        return lambda old, new: new
    return lambda old, new: step.flushed(lane(d, step.flushed(old, "src"), step.flushed(new, "src")), "src")
