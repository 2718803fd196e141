"""Sorting of blocks and merging of sorted lists of 8-byte records."""

import math
from typing import Any

import numpy as np

from ..ir import DType
from ..isa.irregular_sort import BLOCK, slots
from . import storage
from .numbers import Array, decode, encode, flush
from .step import Step, other_rule, rule


@rule("tsort32")
def _tsort32(step: Step) -> None:
    t, (rows, cols) = step.type(), step.valid("src")
    if step.policy.simulator and step.valid("idx") != (rows, cols):
        return
    width = slots(t.dtype.bits)
    words, indices = step.raw("src", (rows, cols)), _indices(step, rows, cols)
    compared = step.flushed(words, "src")
    for row in range(min(rows, t.rows)):
        for base in range(0, cols, BLOCK):
            end = min(base + BLOCK, cols)
            order = descending(compared[row, base:end], indices[row, base:end], step.dtype("src"))
            for k, column in enumerate(order):
                record = record_of(words[row, base + column], indices[row, base + column], t.dtype)
                _write(step, row, (base + k) * width, record)


@other_rule("filler-first", "tsort32")
def _filled(step: Step) -> None:
    """A short last block is filled up with the bits of -inf as a number, and index 0."""
    d, (rows, cols) = step.dtype("src"), step.valid("src")
    words, indices = step.raw("src", (rows, cols)), _indices(step, rows, cols)
    short = -cols % BLOCK
    filler = encode(np.full((rows, short), 0xFF800000 if d.bits == 32 else 0xFC00, np.float64), d)
    words = np.concatenate([words, filler.astype(words.dtype)], axis=1)
    indices = np.concatenate([indices, np.zeros((rows, short), indices.dtype)], axis=1)
    compared = step.flushed(words, "src")
    for row in range(min(rows, step.type().rows)):
        for base in range(0, cols, BLOCK):
            order = descending(compared[row, base : base + BLOCK], indices[row, base : base + BLOCK], d)
            for k, column in enumerate(order):
                record = record_of(words[row, base + column], indices[row, base + column], step.dtype())
                _write(step, row, (base + k) * slots(d.bits), record)


def _indices(step: Step, rows: int, cols: int) -> Array:
    """The index of every element; on hardware one valid row serves all rows."""
    if not step.policy.simulator and step.valid("idx")[0] == 1:
        return np.broadcast_to(step.raw("idx", (1, cols)), (rows, cols))
    return step.raw("idx", (rows, cols))


def descending(words: Array, indices: Array, d: DType) -> list[int]:
    """Positions by value descending, then index ascending; NaNs of either sign at the ends."""
    sign = d.word.type(1 << (d.bits - 1))

    def key(k: int) -> tuple[int, Any, int]:
        value = decode(words[k : k + 1], d)[0].item()
        if d.is_float and math.isnan(value):
            return (1 if words[k] & sign else -1, 0, int(indices[k]))
        return (0, -value, int(indices[k]))

    return sorted(range(len(words)), key=key)


def record_of(word: Any, index: Any, d: DType) -> Array:
    """The words of a record."""
    if d.bits == 32:
        return np.array([word, index], np.uint32)
    return np.array([word, 0, int(index) & 0xFFFF, int(index) >> 16], np.uint16)


def _write(step: Step, row: int, column: int, record: Array) -> None:
    t = step.type()
    if column + len(record) <= t.cols:
        step.scatter(record, storage.map_of(t)[row, column : column + len(record)])


# -- merging -----------------------------------------------------------------------------------------


class Records:
    """Records of one source and how many have been taken; ``flushes``: subnormal values compare as zeros."""

    def __init__(self, words: Array, d: DType, flushes: bool = False) -> None:
        width = slots(d.bits)
        self.records = words[: len(words) // width * width].reshape(-1, width)
        first = self.records[:, 0]
        self.values = decode(flush(first, d) if flushes else first, d).tolist() if len(first) else []
        self.taken = 0

    @property
    def empty(self) -> bool:
        """Whether all records have been taken."""
        return self.taken == len(self.records)


def merge(lists: list[Records], count: int, *, stop_when_empty: bool) -> list[Array]:
    """Up to ``count`` records, greatest value first; ties go to the lowest list."""
    merged: list[Array] = []
    while len(merged) < count:
        best = None
        for source in lists:
            if not source.empty and (best is None or source.values[source.taken] > best.values[best.taken]):
                best = source
        if best is None:
            break
        merged.append(best.records[best.taken])
        best.taken += 1
        if stop_when_empty and any(source.empty for source in lists):
            break
    return merged


@rule("tmrgsort")
def _tmrgsort(step: Step) -> None:
    d, cols = step.dtype(), step.region[1]
    if "blockLen" in step.operands:
        _merge_blocks(step, d, cols)
        return
    names = [n for n in step.form if n.startswith("src")]
    flushes = step.policy.flush_subnormals
    lists = [Records(step.gather(n, np.array([0]), np.arange(step.valid(n)[1])), d, flushes) for n in names]
    merged = merge(lists, cols // slots(d.bits), stop_when_empty=bool(step.attrs["exhausted"]))
    _store(step, 0, merged)
    counts = [source.taken for source in lists] + [0] * (4 - len(lists))
    step.made["executed"] = np.array(counts).astype(np.uint16)


def _merge_blocks(step: Step, d: DType, cols: int) -> None:
    length = int(step.operands["blockLen"]) & 0xFFFFFFFF
    if length == 0 or length % slots(d.bits):
        return
    words = step.gather("src0", np.array([0]), np.arange(cols))
    for base in range(0, cols - 4 * length + 1, 4 * length):
        parts = [words[s : s + length] for s in range(base, base + 4 * length, length)]
        lists = [Records(part, d, step.policy.flush_subnormals) for part in parts]
        _store(step, base, merge(lists, 4 * length // slots(d.bits), stop_when_empty=False))


def _store(step: Step, column: int, records: list[Array]) -> None:
    for k, record in enumerate(records):
        _write(step, 0, column + k * len(record), record)
