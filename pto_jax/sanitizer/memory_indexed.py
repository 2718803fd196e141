"""Definedness of transfers by index."""

import numpy as np

from ..ir import GatherOob, ScatterAtomicOp, ScatterOob
from ..oracle.memory_indexed import combines_at_row, index_places, is_by_row, named_lanes, resolved, table_of
from ..oracle.numbers import Array
from .shadow import as_words, first
from .step import ShadowStep, shadow_rule

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
