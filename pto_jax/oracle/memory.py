"""Transfers between global memory and tiles."""

from dataclasses import replace

import numpy as np

from ..errors import Diagnostic, ExecutionError
from ..interpreter import View
from ..ir import AtomicType, BLayout, DType, GlobalLayout, Loc, Pad, ReluPreMode, SLayout, TileType
from . import memory_layouts, quantise, storage
from .arithmetic import add
from .numbers import Array, flush, infinity
from .step import Step, not_executable, require_plain, rule

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
        memory_layouts.load_convolution(step, view)
        return
    memory_layouts.require_layout(step, view)
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
        memory_layouts.store_convolution(step, view_of(step, "dst"))
        return
    store(step, quantise.scalar_parameter(step))


def store(step: Step, parameters: Array | None) -> None:
    """The valid region is converted, then placed or added."""
    view, region = view_of(step, "dst"), step.valid("src")
    memory_layouts.require_layout(step, view)
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
        at, given = flat[turns == turn], new[turns == turn]
        old = storage.read_words(memory, at, d)
        made = add(d, flush(old, d), flush(given, d)) if flushes else add(d, old, given)
        storage.write_words(memory, at, flush(made, d) if flushes else made, d)


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
    view, given = step.view(name), step.attrs.get("layout")
    if isinstance(given, GlobalLayout):
        return replace(view, layout=given)
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
    lanes = memory_layouts.window_lanes(view)
    if all(region) and any(n > limit for n, limit in zip(region, lanes, strict=True)):
        message = f"the window has {lanes[0]}x{lanes[1]} lanes; {region[0]}x{region[1]} are transferred"
        raise ExecutionError(Diagnostic("error", message, step.op.span, step.op.name, rule="bounds"))
    at = memory_layouts.global_map(view, *np.ogrid[tuple(map(slice, region))])
    at = np.broadcast_to(at, region)
    memory_layouts.check_bounds(step, view, at, memory)
    return at.astype(np.int64)
