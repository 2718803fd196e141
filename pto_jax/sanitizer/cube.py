"""Definedness in the cube unit: sums and results that are undefined as a whole where an operand is.

Loads and copies move undefined bits by the interpreter's rules. Rules here take the shadow of memory, whose
reads are of undefined bits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..interpreter.operands import LocalPointer
from ..isa.cube import BIASES, WORD
from ..isa.micro import MicroCall
from ..oracle.cube import (
    bursts,
    element,
    left_at,
    pieces,
    right_at,
    scales_at,
    sums_at,
    whole_rows,
    write_words,
)
from ..oracle.micro import MEMORY_RULES, Memory, signed
from ..oracle.numbers import Array

#: Rules of operations that compute, by name.
RULES: dict[str, Callable[..., tuple[()]]] = {}


def _rule(*names: str) -> Callable[[Callable[..., tuple[()]]], Callable[..., tuple[()]]]:
    def register(function: Callable[..., tuple[()]]) -> Callable[..., tuple[()]]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def _undefined(memory: Memory, pointer: Any, offsets: Array, size: int) -> Array:
    """Which elements of some bytes have an undefined bit."""
    return np.asarray(memory.read(pointer, offsets[..., None] + np.arange(size)).any(-1))


def _put(memory: Memory, pointer: Any, offsets: Array, size: int, undefined: Array) -> None:
    """Elements as undefined or defined."""
    word = np.dtype(f"u{size}").type
    write_words(memory, pointer, offsets, np.where(undefined, ~word(0), word(0)))


@_rule("mad", "mad_bias", "mad_mx", "mad_mx_bias", "mad_acc", "mad_mx_acc")
def _multiply(  # noqa: PLR0913 - operands
    call: MicroCall, memory: Memory, lhs: Any, rhs: Any, dst: Any, m: Any, n: Any, k: Any, bias: Any = None,
    lhs_scale: Any = None, rhs_scale: Any = None,
) -> tuple[()]:  # fmt: skip
    """A sum is undefined where its row of one factor or its column of the other is, or what is added."""
    rows, cols, depth = signed(m), signed(n), signed(k)
    sizes = [element(call, at).word.itemsize for at in (0, 1)]
    left = np.asarray(_undefined(memory, lhs, left_at(call, rows, depth), sizes[0]).any(1))
    right = np.asarray(_undefined(memory, rhs, right_at(call, depth, cols), sizes[1]).any(0))
    if lhs_scale is not None:
        left |= _undefined(memory, lhs_scale, scales_at(rows, depth), 1).any(1)
        right |= _undefined(memory, rhs_scale, scales_at(cols, depth), 1).any(1)
    if bias is not None:
        right |= _undefined(memory, bias, np.arange(cols) * WORD, WORD)
    at = sums_at(rows, cols, whole_rows(rows))
    sums = left[:, None] | right[None, :]
    if call.name.endswith("_acc"):
        sums = sums | _undefined(memory, dst, at, WORD)
    _put(memory, dst, at, WORD, sums)
    return ()


@_rule("mte_l0c_l1", "mte_l0c_gm", "mte_l0c_ub")
def _store(call: MicroCall, memory: Memory, src: Any, **values: Any) -> tuple[()]:
    """A result is undefined where its accumulator is, or a parameter of its column."""
    for piece in pieces(call, **values):
        cols = np.arange(piece.source_at.shape[1])
        columns = np.zeros(len(cols), np.bool_)
        for name, size in (("quant", 8), ("relu", 4)):
            if isinstance(values.get(name), LocalPointer):
                columns |= _undefined(memory, values[name], cols * size, size)
        undefined = _undefined(memory, src, piece.source_at, WORD) | columns
        _put(memory, piece.target, piece.target_at, element(call, 1).word.itemsize, undefined)
    return ()


@_rule("raw_fill_l1")
def _fill(call: MicroCall, memory: Memory, value: Any, **values: Any) -> tuple[()]:
    """What is filled is defined."""
    MEMORY_RULES[call.name](call, memory, value=np.zeros_like(value), **values)
    return ()


@_rule("mte_l1_bt")
def _load_bias(call: MicroCall, memory: Memory, src: Any, dst: Any, **numbers: Any) -> tuple[()]:
    """An element that is widened is undefined where it has an undefined bit."""
    size, wide = (element(call, at).word.itemsize for at in (0, 1))
    run = bursts(BIASES, BIASES * wide // size, **numbers)
    at = np.arange(run.length // size)
    for start, end in run.starts:
        _put(memory, dst, end + at * wide, wide, _undefined(memory, src, start + at * size, size))
    return ()
