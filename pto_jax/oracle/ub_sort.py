"""NumPy rules of sorting and merging records in the unified buffer."""

from typing import Any

import numpy as np

from ..isa.micro import MicroCall
from ..isa.ub_sort import GROUP, LISTS, RECORD
from .irregular_sort import Records, descending, merge, record_of
from .micro import Memory, memory_rule, signed
from .numbers import Array


@memory_rule("vbitsort")
def _sort(call: MicroCall, memory: Memory, dst: Any, src: Any, idx: Any, repeats: Any) -> tuple[()]:
    d = src.dtype
    for group in range(max(0, signed(repeats))):
        scores = memory.read(src, _span(group, GROUP * d.word.itemsize)).view(d.word)
        indices = memory.read(idx, _span(group, GROUP * 4)).view(np.uint32)
        order = descending(scores, np.arange(GROUP), d)
        made = [record_of(scores[k], indices[k], d) for k in order]
        memory.write(dst, _span(group, GROUP * RECORD), np.concatenate(made).view(np.uint8))
    return ()


def _span(group: int, size: int) -> Array:
    return np.arange(group * size, (group + 1) * size)


@memory_rule("vmrgsort4")
def _merge(call: MicroCall, memory: Memory, dst: Any, count: Any, config: Any, **sources: Any) -> tuple[()]:
    d, lists = dst.dtype, []
    for k in range(LISTS):
        chosen = int(config) >> 8 + k & 1
        length = (int(count) >> 16 * k & 0xFFFF) if chosen else 0
        words = memory.read(sources[f"src{k}"], np.arange(length * RECORD)).view(d.word)
        lists.append(Records(words, d))
    total = sum(len(one.records) for one in lists)
    merged = merge(
        [one for one in lists if not one.empty], total, stop_when_empty=bool(int(config) >> 12 & 1)
    )
    if merged:
        data = np.concatenate(merged).view(np.uint8)
        memory.write(dst, np.arange(len(data)), data)
    for k, one in enumerate(lists):
        memory.state[f"VMS4_{k}"] = one.taken
    return ()


@memory_rule("get_vms4_sr")
def _taken(call: MicroCall, memory: Memory) -> tuple[Any, ...]:
    return tuple(np.uint16(memory.state[f"VMS4_{k}"]) for k in range(LISTS))
