"""Generated arguments of whole programs: shapes that fit, and values of several styles."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..ir import ArrayType, DType, MemRefType, Program, PtrType, TileType

#: Elements of a buffer whose extent only execution knows, and extent of a dimension that it knows.
UNKNOWN_ELEMENTS, UNKNOWN_EXTENT = 1 << 16, 64
#: Larger arrays repeat what was drawn; the period is prime, so that no two rows of a matrix are alike.
_PERIOD = 1_048_573
#: ``ordinary``: numbers a program is written for; ``special``: those with some infinities, NaNs,
#: subnormals, extremes; ``bits``: any bits; ``small``: as ordinary, with integers that may be positions.
Style = Literal["ordinary", "special", "small", "bits"]
STYLES: tuple[Style, ...] = ("ordinary", "special", "small", "bits")


def shape_of(t: ArrayType, min_elements: int | None) -> tuple[int, ...]:
    """The shape of an array for an argument; 4-bit elements are two to a byte.

    >>> from pto_jax.ir import F32, TensorViewType
    >>> shape_of(PtrType(F32), 12), shape_of(TensorViewType((3, None), F32), None)
    ((12,), (3, 64))
    """
    if isinstance(t, TileType):
        return t.shape
    if isinstance(t, PtrType):
        dims: tuple[int, ...] = (UNKNOWN_ELEMENTS if min_elements is None else min_elements,)
    elif isinstance(t, MemRefType) and min_elements is not None:
        dims = (min_elements,)
    else:
        dims = tuple(UNKNOWN_EXTENT if n is None else n for n in t.dims)
    return (*dims[:-1], -(-dims[-1] // 2)) if t.dtype.packed and dims else dims


def draw(rng: np.random.Generator, d: DType, shape: tuple[int, ...], style: Style) -> NDArray[Any]:
    """Values of an element type as the array type that stands for it; large arrays repeat them.

    >>> from pto_jax.ir import F16
    >>> draw(np.random.default_rng(0), F16, (2, 3), "special").dtype
    dtype('float16')
    """
    size = int(np.prod(shape, dtype=np.int64))
    if size > _PERIOD:
        return np.resize(draw(rng, d, (_PERIOD,), style), shape)
    if d.name == "i1":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if d.packed or style == "bits":
        return _of_words(d, _words(rng, d, shape))
    usual = _usual(rng, d, shape, style)
    if style != "special":
        return usual
    chosen = rng.random(shape) < 0.05
    return np.where(chosen, _of_words(d, _words(rng, d, shape)), usual).astype(d.numpy)


def draw_scalar(
    rng: np.random.Generator, d: DType, style: Style, pool: Sequence[int], late: bool = False
) -> NDArray[Any]:
    """A scalar argument as a 0-d array.

    Integers are sizes out of a ``pool`` (:func:`numbers`) or small; ``late`` says that such sizes were
    refused before.
    """
    if d.is_float or d.name == "i1":
        return draw(rng, d, (), style)
    wide = rng.random() < (0.1 if late else 0.6)
    return np.asarray(rng.choice(pool) if wide else rng.integers(0, 9)).astype(d.numpy)


def numbers(programs: Sequence[Program]) -> list[int]:
    """Positive integers that occur in the programs, which sizes may be compared with."""
    sizes = {1, 2, 3}
    for program in programs:
        for op in program.walk():
            value = op.attrs.get("value") if op.name == "arith.constant" else None
            if isinstance(value, int) and 0 < value <= 4096:
                sizes |= {value, value - 1}
            sizes |= {n for v in op.results if isinstance(v.type, TileType) for n in v.type.shape}
    return sorted(sizes)


def _usual(rng: np.random.Generator, d: DType, shape: tuple[int, ...], style: Style) -> NDArray[Any]:
    if d.is_float:
        if d.numpy == d.word:
            return _of_words(d, _words(rng, d, shape))
        return np.asarray(4.0 * rng.standard_normal(shape)).astype(d.numpy)
    low, high = (0, 8) if style == "small" else (0 if d.kind == "uint" else -100, 101)
    return np.asarray(rng.integers(low, high, shape)).astype(d.numpy)


def _words(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    """Random bits; half of them those of special values, where the type has some."""
    top = (1 << d.word_bits) - 1
    words = rng.integers(0, top, shape, np.uint64, endpoint=True)
    if d.packed:
        return words.astype(d.word)
    sign = 1 << (d.bits - 1)
    special = [0, 1, sign - 1, sign]
    if d.is_float and d.bits >= 16:
        infinity = ((1 << d.exponent) - 1) << d.mantissa
        quiet = infinity | 1 << (d.mantissa - 1)
        special = [0, 1, 1 << d.mantissa, (1 << d.mantissa) - 1, infinity - 1, infinity, infinity | 1, quiet]
        special += [s | sign for s in special]
    picked = rng.choice(np.array(special, np.uint64), shape)
    return np.where(rng.random(shape) < 0.5, picked, words).astype(d.word)


def _of_words(d: DType, words: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(words).view(d.numpy).reshape(np.shape(words))
