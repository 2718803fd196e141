"""Gathering by index, by a repeating pattern, and of the indices of matches."""

import numpy as np

from ..ir import CmpMode, GatherAxis, MaskPattern
from ..isa.rules.irregular_patterns import period
from . import masks, storage
from .numbers import Array, decode
from .step import Step, rule


@rule("tgather")
def _tgather(step: Step) -> None:
    if "indices" in step.operands:
        _by_index(step)
    elif "kValue" in step.operands:
        _matches(step)
    else:
        _by_pattern(step)


def _by_index(step: Step) -> None:
    """The flat index is logical, row by row over the physical source; out of range gives zero."""
    source = step.stored("src").reshape(-1)
    index = decode(step.raw("indices"), step.dtype("indices")).astype(np.int64)
    inside = (index >= 0) & (index < source.size)
    found = source[np.where(inside, index, 0)]
    step.put(np.where(inside, found, np.zeros_like(found)))


def chosen(step: Step, count: int) -> Array:
    """Which of the first ``count`` positions the pattern takes."""
    pattern = step.attrs["maskPattern"]
    assert isinstance(pattern, MaskPattern)
    n, k = period(pattern)
    return np.asarray(np.arange(count) % n == k)


def _by_pattern(step: Step) -> None:
    t, (rows, cols) = step.type(), step.valid("src")
    words = step.raw("src", (rows, cols))
    if step.attrs["axis"] == GatherAxis.GATHER_ROW:
        packed = words[:, chosen(step, cols)].reshape(-1)[: t.elements]
        step.scatter(packed, np.arange(len(packed)))
    else:
        picked = words[chosen(step, rows)][: t.rows, : t.cols]
        step.put(picked, region=picked.shape)


def _matches(step: Step) -> None:
    """Numbers of the elements of each row that compare true, and how many they are."""
    t, source, mode = step.type(), step.type("src"), step.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    offset = step.attrs["offset"]
    assert isinstance(offset, int)
    values = step.values("src", step.valid("src"))
    hits = masks.compare(mode, values, step.values("kValue"))
    for row, found in enumerate(hits):
        columns = np.flatnonzero(found)
        if "cdst" in step.operands and row < step.type("cdst").elements:
            step.scatter(np.array([len(columns)], np.uint32), np.array([row]), "cdst")
        if row < t.rows:
            numbers = (offset + row * source.cols + columns[: t.cols]).astype(np.uint32)
            step.scatter(numbers, storage.map_of(t)[row, : len(numbers)])
