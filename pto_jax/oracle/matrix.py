"""NumPy rules of products: an ascending fold over k in the accumulator's type.

Each step of a block-scaled product scales in float64 and rounds the running sum to f32.
"""

from collections.abc import Callable

import numpy as np

from ..ir import F32, RoundMode
from ..isa.matrix import ROUNDING_STATE, SHORT_MANTISSA, STARTED
from ..isa.rules.block_scales import SCALE_PLACES, unstored
from ..isa.rules.matrix import SCALE_GROUP, groups
from . import layout, memory, quantise
from .numbers import Array, decode, encode, flush
from .step import Step, not_executable, rule

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


@rule("tmov.fp")
def _move(step: Step) -> None:
    parameters = quantise.row_parameters(step, np.arange(step.region[1])[None, :])
    step.put(quantise.outgoing(step, step.raw("src"), step.dtype(), parameters))


@rule("textract_fp")
def _extract(step: Step) -> None:
    words, columns = layout.window(step)
    step.put(quantise.outgoing(step, words, step.dtype(), quantise.row_parameters(step, columns)))


@rule("tinsert_fp")
def _insert(step: Step) -> None:
    region = step.valid("src")
    parameters = quantise.row_parameters(step, np.arange(region[1])[None, :])
    layout.insert(step, quantise.outgoing(step, step.raw("src", region), step.dtype(), parameters))


@rule("tstore_fp")
def _store(step: Step) -> None:
    rows, cols = step.valid("src")
    columns = np.arange(cols)[None, :]
    if step.policy.simulator and step.type("src").blayout.name == "COL_MAJOR":
        # The simulator picks the word by row in tiles of this block layout.
        columns = np.arange(rows)[:, None]
    memory.store(step, quantise.row_parameters(step, columns))


rule("tmatmul.mx", "tgemv.mx")(lambda step: finish(step, scaled_products(step)))

rule("tmatmul.mx.acc", "tgemv.mx.acc")(lambda step: accumulate(step, scaled_products))


@rule("tmatmul.mx.bias", "tgemv.mx.bias")
def _mx_with_bias(step: Step) -> None:
    finish(step, scaled_products(step))
    add_bias(step)


def scaled_products(step: Step, first: Array | None = None) -> Array:
    """The M x N sums from ``first`` (zeros), as f32 values."""
    m, k, n = extents(step)
    for name in ("a_scale", "b_scale"):
        if step.type(name).loc not in SCALE_PLACES:
            raise not_executable(step.op, unstored(name, step.type(name)))
    return scaled_sum(
        step.values("a", (m, k)),
        step.values("b", (k, n)),
        step.values("a_scale", (m, groups(k))),
        step.values("b_scale", (groups(k), n)),
        first,
    )


def scaled_sum(a: Array, b: Array, a_scale: Array, b_scale: Array, first: Array | None = None) -> Array:
    """``a @ b`` with one scale of each side per 32 consecutive k; every value is a float64.

    >>> half = np.full((1, 1), 0.5)
    >>> scaled_sum(np.ones((1, 3)), np.ones((3, 1)), half, half)
    array([[0.75]], dtype=float32)
    """
    total = np.zeros((len(a), b.shape[1]), np.float32) if first is None else first
    for k in range(len(b)):
        g = k // SCALE_GROUP
        scale = a_scale[:, g : g + 1] * b_scale[g : g + 1]
        total = (total + a[:, k : k + 1] * b[k : k + 1] * scale).astype(np.float32)
    return total
