"""Products of tiles: an ascending fold over k in the accumulator's type."""

from collections.abc import Callable

import numpy as np

from ..ir import F32, RoundMode
from ..isa.matrix import ROUNDING_STATE, SHORT_MANTISSA, STARTED
from .numbers import Array, decode, encode, flush
from .step import Step, rule

rule("tmatmul", "tgemv")(lambda step: finish(step, products(step)))

rule("tmatmul.acc", "tgemv.acc")(lambda step: accumulate(step, products))


@rule("tmatmul.bias", "tgemv.bias")
def _with_bias(step: Step) -> None:
    finish(step, products(step))
    add_bias(step)


def extents(step: Step) -> tuple[int, int, int]:
    """M and K from the left tile's valid sizes, N from the right tile's."""
    m, k = step.valid("a")
    return m, k, step.valid("b")[1]


def products(step: Step, first: Array | None = None) -> Array:
    """The M x N sums from ``first`` (zeros), as values of the accumulator's type."""
    m, k, n = extents(step)
    a, b = _factor(step, "a", (m, k)), _factor(step, "b", (k, n))
    if step.dtype().is_integer:
        return a.astype(np.int32) @ b.astype(np.int32) + (0 if first is None else first)
    a, b = a.astype(np.float64), b.astype(np.float64)
    total = np.zeros((m, n), np.float32) if first is None else first
    for i in range(k):
        total = fused(a[:, i : i + 1], b[i : i + 1], total)
    return total


def _factor(step: Step, name: str, region: tuple[int, int]) -> Array:
    words = step.words(name, region)
    mode = step.attrs.get(ROUNDING_STATE)
    bits = SHORT_MANTISSA.get(step.policy.profile.name)
    if isinstance(mode, RoundMode) and bits is not None and step.dtype(name) == F32:
        words = shortened(words, bits, mode)
    return decode(words, step.dtype(name))


def shortened(words: Array, mantissa: int, mode: RoundMode) -> Array:
    """f32 words whose fraction keeps ``mantissa`` bits: to nearest, ties away (ROUND) or to even (RINT).

    >>> [hex(w) for w in shortened(np.array([0x3F800800, 0x3F801800], np.uint32), 11, RoundMode.RINT)]
    ['0x3f800000', '0x3f802000']
    """
    dropped = np.uint32(23 - mantissa)
    half = np.uint32(1) << (dropped - np.uint32(1))
    tie = half if mode == RoundMode.ROUND else half - np.uint32(1) + ((words >> dropped) & np.uint32(1))
    kept = (words + tie) >> dropped << dropped
    finite = np.isfinite(words.view(np.float32))
    return np.where(finite, kept, words)


def fused(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` rounded once to f32; ``a`` and ``b`` are f32 values held in float64.

    The product is exact in float64. The sum is rounded to odd there: the last bit of an inexact sum is
    set, so that rounding it to f32 decides as the exact value would.

    >>> x = np.array([1 + 2**-12])
    >>> fused(x, x, np.array([2**-60], np.float32)) == 1 + 2**-11 + 2**-23
    array([ True])
    """
    product, addend = np.broadcast_arrays(a * b, c.astype(np.float64))
    total = product + addend
    share = total - product
    rest = (product - (total - share)) + (addend - share)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (rest != 0) & (bits & 1 == 0)
    away = (rest > 0) == (total > 0)
    odd = np.where(inexact, bits + np.where(away, 1, -1), bits)
    return np.asarray(odd.view(np.float64).astype(np.float32))


def finish(step: Step, total: Array) -> None:
    """Write the M x N corner of the destination."""
    step.store(encode(total, step.dtype()), total.shape)


def accumulate(step: Step, sums: Callable[..., Array]) -> None:
    """Sums that begin with the old accumulator, or that it is added to when they are finished.

    A finished sum is a value of its own: in flush mode a subnormal one is added as zero.
    """
    m, _, n = extents(step)
    old, d = step.values("acc", (m, n)), step.dtype()
    if step.policy.profile.name in STARTED:
        finish(step, sums(step, old))
        return
    finished = encode(sums(step), d)
    finish(step, old + decode(flush(finished, d) if step.policy.flush_subnormals else finished, d))


def add_bias(step: Step) -> None:
    """Add the bias row over the destination's own valid region."""
    rows, cols = step.region
    old = step.values("dst", (rows, cols))
    step.store(encode(old + step.values("bias", (1, cols)), step.dtype()), (rows, cols))
