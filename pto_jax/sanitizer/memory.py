"""Rules of undefined bits of loads, stores, indexed transfers and the prefetch hint."""

import numpy as np

from ..interpreter import View
from ..ir import AtomicType, GatherOob, Pad, ScatterAtomicOp, ScatterOob
from ..oracle.memory import (
    combines_at_row,
    image_positions,
    index_places,
    is_by_row,
    named_lanes,
    padded_region,
    positions_of,
    resolved,
    table_of,
    view_of,
)
from ..oracle.numbers import Array
from ..oracle.quantise import has_relu
from ..oracle.storage import map_of
from .shadow import as_words, first
from .step import ShadowStep, shadow_rule


@shadow_rule("tload")
def _load(step: ShadowStep) -> None:
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
    shadow, memory = step.buffer_shadow(view), step.memory(view.buffer)
    at = positions_of(step, view, region, memory)
    step.put_bits(shadow.words(at, view.dtype), shadow.origin_ids(at, view.dtype))


@shadow_rule("tstore")
def store(step: ShadowStep) -> None:
    """The valid region goes to global memory, converted and added where the instruction says so."""
    view, region = view_of(step, "dst"), step.valid("src")
    memory, d = step.memory(view.buffer), view.dtype
    conv = step.type("src").conv
    if conv is not None:
        origin_ids = step.stored("src").reshape(-1)
        at, _, _ = image_positions(step, conv, view)
        _sent(step, view, at, as_words(origin_ids, d), origin_ids)
        return
    origin_ids = step.raw("src", region)
    words = step.bits_over("src", region)
    at = positions_of(step, view, region, memory)
    plain = step.dtype("src").storage_bits == d.storage_bits and not has_relu(step)
    if not plain or step.dtype("src") != d or "fp" in step.operands:
        columns = np.arange(region[1])[None, :]
        if step.policy.simulator and step.type("src").blayout.name == "COL_MAJOR":
            columns = np.arange(region[0])[:, None]
        origin_ids = np.broadcast_to(first(origin_ids, parameters(step, columns)), region)
        words = as_words(origin_ids, d)
    if step.attrs.get("atomicType") == AtomicType.ATOMIC_ADD:
        _add(step, view, at, first(origin_ids, step.buffer_shadow(view).origin_ids(at, d)))
        return
    _sent(step, view, at, words, origin_ids)


def _sent(step: ShadowStep, view: View, at: Array, words: Array, origin_ids: Array) -> None:
    step.sink("memory", "src", origin_ids)
    step.buffer_shadow(view).write(at, words, origin_ids, view.dtype)


def _add(step: ShadowStep, view: View, at: Array, origin_ids: Array) -> None:
    """Several lanes may meet in one element; one that is undefined makes it undefined."""
    step.sink("memory", "src", origin_ids)
    order = np.argsort(origin_ids.reshape(-1) != 0, kind="stable")
    flat, new = at.reshape(-1)[order], origin_ids.reshape(-1)[order]
    step.buffer_shadow(view).write(flat, as_words(new, view.dtype), new, view.dtype)


OUT_OF_TABLE = "index beyond the table"


@shadow_rule("mgather")
def _gather(step: ShadowStep) -> None:
    by_row, view = is_by_row(step, "dst"), step.view("src")
    table, shadow, d = table_of(step, "src", by_row), step.buffer_shadow(view), view.dtype
    indices = _indices(step, step.region, by_row)
    count = len(shadow.bits) * 8 // d.storage_bits
    at = np.full(step.region, -1, np.int64)
    for i, j, n in named_lanes(step.real, "dst", by_row):
        k = resolved(step.real, n, table.capacity)
        place = -1 if k is None else table.position(k, j)
        at[i, j] = place if 0 <= place < count else -1
    poisoned = first(indices, _lost(step, "dst", by_row, table.capacity))
    words = np.where(at < 0, 0, shadow.words(np.maximum(at, 0), d))
    origin_ids = np.where(at < 0, 0, shadow.origin_ids(np.maximum(at, 0), d))
    step.put_bits(np.where(poisoned != 0, as_words(poisoned, d), words), first(poisoned, origin_ids))


def _indices(step: ShadowStep, region: tuple[int, int], by_row: bool) -> Array:
    """Origin ids of the index of every lane."""
    if by_row:
        origin_ids = np.broadcast_to(step.gather("indexes", *index_places(step, region[0]))[:, None], region)
        step.sink("index", "indexes", origin_ids[:, :1])
        return origin_ids
    origin_ids = step.raw("indexes", region)
    step.sink("index", "indexes", origin_ids)
    return origin_ids


def _lost(step: ShadowStep, data: str, by_row: bool, capacity: int) -> Array:
    """Origin ids of lanes whose index lies beyond the table, where no mode says what that means."""
    lost = np.zeros(step.valid(data), np.int32)
    mode = step.attrs["gatherOob" if data == "dst" else "scatterOob"]
    assert isinstance(mode, GatherOob | ScatterOob)
    if mode.name == "UNDEFINED":
        origin = step.origin_of(OUT_OF_TABLE)
        for i, j, n in named_lanes(step.real, data, by_row):
            lost[i, j] = origin if n >= capacity else 0
    return lost


@shadow_rule("mscatter")
def _scatter(step: ShadowStep) -> None:
    by_row, view, region = is_by_row(step, "src"), step.view("dst"), step.valid("src")
    table, shadow, d = table_of(step, "dst", by_row), step.buffer_shadow(view), view.dtype
    sent, words = step.raw("src", region), step.bits_over("src", region)
    _indices(step, region, by_row)
    step.sink("index", "indexes", _lost(step, "src", by_row, table.capacity))
    step.sink("memory", "src", sent)
    combines = step.attrs["scatterAtomicOp"] != ScatterAtomicOp.NONE
    at_row = combines_at_row(step, by_row)
    count = len(shadow.bits) * 8 // d.storage_bits
    for i, j, n in named_lanes(step.real, "src", by_row):
        k = resolved(step.real, n, table.capacity)
        place = -1 if k is None else table.position(k, j)
        if k is None or not 0 <= place < count:
            continue
        word, origin_id = words[i : i + 1, j], sent[i : i + 1, j]
        if combines:
            read = table.offset + k if at_row else place
            old = shadow.origin_ids(np.array([read]), d) if read < count else np.zeros(1, np.int32)
            origin_id = first(origin_id, old)
            word = as_words(origin_id, d)
        shadow.write(np.array([place]), word, origin_id, d)


@shadow_rule("tprefetch")
def _prefetch(step: ShadowStep) -> None:
    """The destination is scratch."""
    step.lose("scratch of a prefetch", map_of(step.type()))


def is_plain(step: ShadowStep) -> bool:
    """Whether an instruction moves bits, and changes none of them."""
    quantises = step.is_tile("fp") or "preQuantScalar" in step.operands
    same = step.dtype("src") == step.dtype()
    return same and not quantises and not has_relu(step)


def parameters(step: ShadowStep, columns: Array) -> Array:
    """The words of the parameter row that quantise some columns."""
    if not step.is_tile("fp"):
        return np.zeros((1, 1), np.int32)
    return step.gather("fp", np.zeros((1, 1), np.int64), columns)
