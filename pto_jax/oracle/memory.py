"""Transfers between global memory and tiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..dtypes import DType
from ..errors import Diagnostic, ExecutionError
from ..types import AtomicType, BLayout, GlobalLayout, Loc, Pad, ReluPreMode, TileType
from ..walk import View
from . import storage
from .layout import cast_words
from .numbers import Array, infinity
from .step import Step, not_executable, require_plain, rule

#: Tiles are padded up to the end of the transfer block they are loaded in.
BLOCK_BYTES = 32


@rule("tload")
def _tload(step: Step) -> None:
    """Bits move; the simulator first fills the whole tile, hardware pads to the end of a block."""
    t, view = step.type(), _view(step, "src")
    if t.dtype.storage_bits != view.dtype.storage_bits:
        raise not_executable(
            step.op, f"is not executed from {view.dtype} to {t.dtype}; elements of one size are"
        )
    rows, cols = step.region
    pad = pad_word(t, wide=step.policy.simulator)
    if step.policy.simulator:
        everything = np.arange(t.elements)
        step.scatter(np.full(everything.shape, pad), everything)
    elif t.pad != Pad.NULL:
        step.put(np.full((1, 1), pad), padded_region(t, rows, cols))
    memory = step.memory(view.buffer)
    step.put(storage.read_words(memory, _positions(step, view, (rows, cols), memory), view.dtype))


@rule("tstore")
def _tstore(step: Step) -> None:
    """The valid region moves; where element types differ the simulator casts, hardware copies bits."""
    require_plain(step, atomicType=AtomicType.ATOMIC_NONE, reluPreMode=ReluPreMode.NO_RELU)
    if step.type("src").loc == Loc.ACC:
        raise not_executable(step.op, "is not executed for accumulator tiles; vec and mat tiles are")
    view, region = _view(step, "dst"), step.valid("src")
    words = _as_stored(step, step.raw("src", region), view.dtype)
    memory = step.memory(view.buffer)
    storage.write_words(memory, _positions(step, view, region, memory), words, view.dtype)


def _view(step: Step, name: str) -> View:
    """A view operand with the layout that the instruction gives it."""
    view, given = step.view(name), step.attrs.get("layout")
    view = replace(view, layout=given) if isinstance(given, GlobalLayout) else view
    if view.layout not in (None, GlobalLayout.ND, GlobalLayout.DN):
        raise not_executable(step.op, f"is not executed on layout {view.layout.name}; ND and DN are")
    return view


def _as_stored(step: Step, words: Array, target: DType) -> Array:
    source = step.dtype("src")
    if step.policy.simulator:
        return cast_words(words, source, target)
    if source.storage_bits != target.storage_bits:
        raise not_executable(step.op, f"is not executed from {source} to {target}; elements of one size are")
    return words


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
    """The valid region extended to the next block boundary along the tile's rows (or columns)."""
    per_block = max(1, BLOCK_BYTES * 8 // t.dtype.storage_bits)
    if t.blayout == BLayout.ROW_MAJOR:
        return rows, min(t.cols, -(-cols // per_block) * per_block)
    return min(t.rows, -(-rows // per_block) * per_block), cols


def _positions(step: Step, view: View, region: tuple[int, int], memory: Array) -> Array:
    """Element positions in the buffer of every lane of a transfer; all must be inside it."""
    lanes = _window_lanes(view)
    if all(region) and any(n > limit for n, limit in zip(region, lanes, strict=True)):
        message = f"the window has {lanes[0]}x{lanes[1]} lanes; {region[0]}x{region[1]} are transferred"
        raise ExecutionError(Diagnostic("error", message, step.op.span, step.op.name, rule="bounds"))
    at = global_map(view, *np.ogrid[tuple(map(slice, region))])
    at = np.broadcast_to(at, region)
    available = len(memory) * 8 // view.dtype.storage_bits
    if at.size and (at.min() < 0 or at.max() >= available):
        message = (
            f"buffer {view.buffer} has {available} elements of {view.dtype}; "
            f"elements {at.min()} to {at.max()} are addressed"
        )
        raise ExecutionError(Diagnostic("error", message, step.op.span, step.op.name, rule="bounds"))
    return at


def _window_lanes(view: View) -> tuple[int, int]:
    """Rows and columns of a tile that a view has elements for."""
    n = [1] * (5 - len(view.shape)) + [int(n) for n in view.shape]
    lead = n[0] * n[1] * n[2]
    return (n[3], lead * n[4]) if view.layout == GlobalLayout.DN else (lead * n[3], n[4])


def global_map(view: View, r: Array, c: Array) -> Array:
    """Position of logical element (r, c) of a view; shapes of fewer dimensions count as five.

    ND runs through the leading dimensions along the rows, DN along the columns.
    """
    missing = 5 - len(view.shape)
    s = [1] * missing + [int(n) for n in view.shape]
    t = [0] * missing + [int(n) for n in view.strides]
    if missing == 4:
        t[3] = 0
    columns = view.layout == GlobalLayout.DN
    split, inner = (c, s[4]) if columns else (r, s[3])
    block, within = split // max(inner, 1), split % max(inner, 1)
    plane, depth = max(s[2], 1), max(s[1], 1)
    last = (r, within) if columns else (within, c)
    index = (block // (plane * depth), block // plane % depth, block % plane, *last)
    return np.asarray(sum(i * n for i, n in zip(index, t, strict=True)) + int(view.offset))
