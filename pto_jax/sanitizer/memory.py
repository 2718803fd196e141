"""Definedness of transfers between global memory and tiles."""

from __future__ import annotations

import numpy as np

from ..interpreter import View
from ..ir.types import AtomicType, GatherOob, Pad, ScatterAtomicOp, ScatterOob
from ..oracle.memory import padded_region, positions_of, view_of
from ..oracle.memory_indexed import combines_at_row, index_places, is_by_row, named_lanes, resolved, table_of
from ..oracle.memory_layouts import image_positions
from ..oracle.numbers import Array
from ..oracle.quantise import has_relu
from ..oracle.storage import map_of
from .layout import parameters
from .shadow import Shade, as_words, first
from .step import ShadeStep, shades

OUT_OF_TABLE = "index beyond the table"


def _global(step: ShadeStep, view: View) -> Shade:
    shade: Shade = step.machine.memory[view.buffer]
    return shade


@shades("tload")
def _load(step: ShadeStep) -> None:
    """Lanes that only a pad value reaches are defined where there is one.

    Without one the simulator clears them, which no page promises: they are as defined as they were.
    """
    t, view = step.type(), view_of(step, "src")
    if t.conv is not None:
        step.moved("src")
        return
    region = step.region
    if t.pad != Pad.NULL and step.policy.simulator:
        step.scatter(np.zeros(1, np.int32), np.arange(t.elements))
    elif t.pad != Pad.NULL:
        step.define(padded_region(t, *region))
    shade, memory = _global(step, view), step.memory(view.buffer)
    at = positions_of(step, view, region, memory)
    step.put_bits(shade.words(at, view.dtype), shade.codes(at, view.dtype))


@shades("tstore", "tstore_fp")
def _store(step: ShadeStep) -> None:
    view, region = view_of(step, "dst"), step.valid("src")
    memory, d = step.memory(view.buffer), view.dtype
    conv = step.type("src").conv
    if conv is not None:
        codes = step.stored("src").reshape(-1)
        at, _, _ = image_positions(step, conv, view)
        _sent(step, view, at, as_words(codes, d), codes)
        return
    codes = step.raw("src", region)
    words = step.bits_over("src", region)
    at = positions_of(step, view, region, memory)
    plain = step.dtype("src").storage_bits == d.storage_bits and not has_relu(step)
    if not plain or step.dtype("src") != d or "fp" in step.operands:
        columns = np.arange(region[1])[None, :]
        if step.policy.simulator and step.type("src").blayout.name == "COL_MAJOR":
            columns = np.arange(region[0])[:, None]
        codes = np.broadcast_to(first(codes, parameters(step, columns)), region)
        words = as_words(codes, d)
    if step.attrs.get("atomicType") == AtomicType.ATOMIC_ADD:
        _add(step, view, at, first(codes, _global(step, view).codes(at, d)))
        return
    _sent(step, view, at, words, codes)


def _sent(step: ShadeStep, view: View, at: Array, words: Array, codes: Array) -> None:
    step.sink("memory", "src", codes)
    _global(step, view).write(at, words, codes, view.dtype)


def _add(step: ShadeStep, view: View, at: Array, codes: Array) -> None:
    """Several lanes may meet in one element; one that is undefined makes it undefined."""
    step.sink("memory", "src", codes)
    order = np.argsort(codes.reshape(-1) != 0, kind="stable")
    flat, new = at.reshape(-1)[order], codes.reshape(-1)[order]
    _global(step, view).write(flat, as_words(new, view.dtype), new, view.dtype)


@shades("tprefetch")
def _prefetch(step: ShadeStep) -> None:
    """The destination is scratch."""
    step.lose("scratch of a prefetch", map_of(step.type()))


# -- by index ----------------------------------------------------------------------------------------


@shades("mgather")
def _gather(step: ShadeStep) -> None:
    by_row, view = is_by_row(step, "dst"), step.view("src")
    table, shade, d = table_of(step, "src", by_row), _global(step, view), view.dtype
    indices = _indices(step, step.region, by_row)
    count = len(shade.bits) * 8 // d.storage_bits
    at = np.full(step.region, -1, np.int64)
    for i, j, n in named_lanes(step.real, "dst", by_row):
        k = resolved(step.real, n, table.capacity)
        place = -1 if k is None else table.position(k, j)
        at[i, j] = place if 0 <= place < count else -1
    poisoned = first(indices, _lost(step, "dst", by_row, table.capacity))
    words = np.where(at < 0, 0, shade.words(np.maximum(at, 0), d))
    codes = np.where(at < 0, 0, shade.codes(np.maximum(at, 0), d))
    step.put_bits(np.where(poisoned != 0, as_words(poisoned, d), words), first(poisoned, codes))


def _indices(step: ShadeStep, region: tuple[int, int], by_row: bool) -> Array:
    """Codes of the index of every lane."""
    if by_row:
        codes = np.broadcast_to(step.gather("indexes", *index_places(step, region[0]))[:, None], region)
        step.sink("index", "indexes", codes[:, :1])
        return codes
    codes = step.raw("indexes", region)
    step.sink("index", "indexes", codes)
    return codes


def _lost(step: ShadeStep, data: str, by_row: bool, capacity: int) -> Array:
    """Codes of lanes whose index lies beyond the table, where no mode says what that means."""
    lost = np.zeros(step.valid(data), np.int32)
    mode = step.attrs["gatherOob" if data == "dst" else "scatterOob"]
    assert isinstance(mode, GatherOob | ScatterOob)
    if mode.name == "UNDEFINED":
        origin = step.origin(OUT_OF_TABLE)
        for i, j, n in named_lanes(step.real, data, by_row):
            lost[i, j] = origin if n >= capacity else 0
    return lost


@shades("mscatter")
def _scatter(step: ShadeStep) -> None:
    by_row, view, region = is_by_row(step, "src"), step.view("dst"), step.valid("src")
    table, shade, d = table_of(step, "dst", by_row), _global(step, view), view.dtype
    sent, words = step.raw("src", region), step.bits_over("src", region)
    _indices(step, region, by_row)
    step.sink("index", "indexes", _lost(step, "src", by_row, table.capacity))
    step.sink("memory", "src", sent)
    combines = step.attrs["scatterAtomicOp"] != ScatterAtomicOp.NONE
    at_row = combines_at_row(step, by_row)
    count = len(shade.bits) * 8 // d.storage_bits
    for i, j, n in named_lanes(step.real, "src", by_row):
        k = resolved(step.real, n, table.capacity)
        place = -1 if k is None else table.position(k, j)
        if k is None or not 0 <= place < count:
            continue
        word, code = words[i : i + 1, j], sent[i : i + 1, j]
        if combines:
            read = table.offset + k if at_row else place
            old = shade.codes(np.array([read]), d) if read < count else np.zeros(1, np.int32)
            code = first(code, old)
            word = as_words(code, d)
        shade.write(np.array([place]), word, code, d)
