"""NumPy rules of transfers of bytes between global memory and the unified buffer."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ..interpreter import Pointer
from ..ir import dtype
from ..isa.micro import MicroCall
from .arithmetic import computed, larger, smaller
from .micro import Memory, memory_rule, signed
from .numbers import Array

_COMBINED = {"add": computed(lambda x, y: x + y), "max": larger, "min": smaller}
#: A loop of a transfer: trips, and the strides of source and destination in bytes.
Loop = tuple[int, int, int]


def _loops(n: Any, s: Any, d: Any, more: dict[str, Any]) -> list[Loop]:
    """The loops of a grouped transfer from the outer one to the bursts."""
    found = [(signed(n), signed(s), signed(d))]
    for k in range(1, 5):
        if f"c{k}" in more:
            found.insert(0, (signed(more[f"c{k}"]), signed(more[f"s{k}"]), signed(more[f"d{k}"])))
    return found


def _bursts(loops: list[Loop]) -> Iterator[tuple[int, int]]:
    """Where bursts begin, in source and destination, in order."""
    for trips in product(*(range(max(0, count)) for count, _, _ in loops)):
        pairs = list(zip(trips, loops, strict=True))
        yield sum(t * s for t, (_, s, _) in pairs), sum(t * d for t, (_, _, d) in pairs)


def _copy(memory: Memory, source: Any, target: Any, length: int, loops: list[Loop], call: MicroCall) -> None:
    span = np.arange(length)
    for start, end in _bursts(loops):
        data = memory.read(source, start + span)
        if isinstance(target, Pointer) and call.attributes.get("atomic"):
            data = _combined(memory.read(target, end + span), data, call)
        memory.write(target, end + span, data)


def _combined(old: Array, new: Array, call: MicroCall) -> Array:
    d = dtype(call.attributes["atomic_type"])
    words = (v.view(d.word) for v in (np.ascontiguousarray(old), np.ascontiguousarray(new)))
    return np.asarray(_COMBINED[call.attributes["atomic"]](d, *words)).view(np.uint8)


@memory_rule("mte_gm_ub")
def _load(  # noqa: PLR0913 - operands
    call: MicroCall, memory: Memory, gm: Any, ub: Any, l2: Any, len: Any, n: Any, s: Any, d: Any, **more: Any
) -> tuple[()]:
    length, loops = signed(len), _loops(n, s, d, more)
    if "pad" not in more:
        _copy(memory, gm, ub, length, loops, call)
        return ()
    word = np.frombuffer(np.asarray(more["pad"]).tobytes(), np.uint8)
    left, right = (max(0, signed(more[n])) * word.size if n in more else 0 for n in ("left", "right"))
    _padded(memory, gm, ub, (length, left, right), loops, word)
    return ()


def _padded(
    memory: Memory, gm: Any, ub: Any, sizes: tuple[int, int, int], loops: list[Loop], word: Array
) -> None:
    """Each burst between its pads, filled up to a block of 32 bytes."""
    length, left, right = sizes
    whole = -(-(left + length + right) // 32) * 32
    for start, end in _bursts(loops):
        data = np.resize(word, whole)
        data[left : left + length] = memory.read(gm, start + np.arange(length))
        memory.write(ub, end + np.arange(whole), data)


@memory_rule("mte_ub_gm")
def _store(
    call: MicroCall, memory: Memory, ub: Any, gm: Any, len: Any, n: Any, s: Any, d: Any, **more: Any
) -> tuple[()]:
    _copy(memory, ub, gm, signed(len), _loops(n, s, d, more), call)
    return ()


@memory_rule("mte_ub_ub")
def _move(call: MicroCall, memory: Memory, src: Any, dst: Any, len: Any, n: Any, s: Any, d: Any) -> tuple[()]:
    length = signed(len) * 32
    _copy(memory, src, dst, length, [(signed(n), length + signed(s) * 32, length + signed(d) * 32)], call)
    return ()


def _outer(call: MicroCall, way: str) -> list[Loop]:
    """The two loops that registers give."""
    loops = call.attributes["loops"]
    sizes = loops.get(f"loop_size_{way}", (1, 1))
    strides = [loops.get(f"loop{k}_stride_{way}", (0, 0)) for k in (2, 1)]
    return [(count, *stride) for count, stride in zip(sizes, strides, strict=True)]


@memory_rule("copy_gm_to_ubuf")
def _raw_load(  # noqa: PLR0913 - operands
    call: MicroCall, memory: Memory, gm: Any, ub: Any, sid: Any, n: Any, len: Any, left: Any, right: Any,
    select: Any, l2: Any, gm_stride: Any, ub_stride: Any,
) -> tuple[()]:  # fmt: skip
    loops = [*_outer(call, "outtoub"), (signed(n), signed(gm_stride), signed(ub_stride))]
    size = ub.dtype.storage_bits // 8
    if not signed(select):
        _copy(memory, gm, ub, signed(len), loops, call)
        return ()
    word = np.uint64(call.attributes["pad_value"] & (1 << 64) - 1).reshape(1).view(np.uint8)[:size]
    sizes = signed(len), signed(left) * size, signed(right) * size
    _padded(memory, gm, ub, sizes, loops, word)
    return ()


@memory_rule("copy_ubuf_to_gm")
def _raw_store(  # noqa: PLR0913 - operands
    call: MicroCall, memory: Memory, ub: Any, gm: Any, sid: Any, n: Any, len: Any, l2: Any,
    gm_stride: Any, ub_stride: Any,
) -> tuple[()]:  # fmt: skip
    loops = [*_outer(call, "ubtoout"), (signed(n), signed(ub_stride), signed(gm_stride))]
    _copy(memory, ub, gm, signed(len), loops, call)
    return ()
