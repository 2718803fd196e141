"""Recipes for the values of generated inputs, as raw words of an element type."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ..ir import DType

_General = Literal[
    "uniform", "bits", "specials", "ties", "overflow", "mixed", "sorted", "constant", "sparse", "rare"
]
#: ``positive`` numbers are normal and small; ``counts`` are 0 to one less than the width of the type.
Recipe = _General | Literal["positive", "counts"]
#: The recipes for values of any kind.
RECIPES: tuple[_General, ...] = get_args(_General)
#: The recipes of which one is drawn for each tile: the one that has all kinds of values side by side is as
#: frequent as the others together.
MOSTLY_MIXED: tuple[_General, ...] = (*RECIPES, *[r for r in RECIPES for _ in RECIPES[2:] if r == "mixed"])
#: Mantissa bits of the formats that values are converted to.
MANTISSAS = (10, 7, 3, 2, 1)
_Words: TypeAlias = NDArray[Any]
_Maker: TypeAlias = Callable[[np.random.Generator, DType, tuple[int, ...]], _Words]


def words(rng: np.random.Generator, d: DType, shape: tuple[int, ...], recipe: Recipe) -> _Words:
    """Raw words of a type by a recipe; types without exponent and mantissa fields have random bits instead.

    >>> from pto_jax.ir import F16
    >>> words(np.random.default_rng(1), F16, (1, 4), "constant").dtype
    dtype('uint16')
    """
    return (_MAKERS[recipe](rng, d, shape) & np.uint64((1 << d.bits) - 1)).astype(d.word)


def positions(rng: np.random.Generator, d: DType, shape: tuple[int, ...], count: int) -> _Words:
    """Raw words of an integer type that number ``count`` places, as far as the type goes."""
    count = min(count, 1 << (d.bits - d.is_signed))
    return rng.integers(0, count, shape, np.uint64).astype(d.word)


def _has_fields(d: DType) -> bool:
    return d.is_float and d.exponent > 1 and d.mantissa > 0


def _bits(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    return rng.integers(0, (1 << d.bits) - 1, shape, np.uint64, endpoint=True)


def _float(rng: np.random.Generator, d: DType, exponent: _Words, mantissa: _Words) -> _Words:
    sign = rng.integers(0, 2, exponent.shape, np.uint64) << np.uint64(d.bits - 1)
    top = (1 << d.exponent) - 1
    fields = np.clip(exponent, 0, top).astype(np.uint64) << np.uint64(d.mantissa)
    return np.asarray(sign | fields | mantissa & np.uint64((1 << d.mantissa) - 1))


def _uniform(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    if not d.is_float:
        low, high = (0, min(40, 1 << d.bits)) if d.kind == "uint" else (-20, 21)
        return np.asarray(rng.integers(low, high, shape, np.int64).astype(np.uint64))
    if not _has_fields(d):
        return _bits(rng, d, shape)
    return _float(rng, d, d.bias + rng.integers(-4, 5, shape), _bits(rng, d, shape))


def _specials(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    top, sign = (1 << d.bits) - 1, 1 << (d.bits - 1)
    numbers = [0, 1, 2, 3, 7, 31, top, top >> 1, sign, top - 1]
    if _has_fields(d):
        m, infinity = d.mantissa, ((1 << d.exponent) - 1) << d.mantissa
        numbers = [0, 1, (1 << m) - 1, 1 << m, d.bias << m, (d.bias + 1) << m, (d.bias - 1) << m]
        numbers += [infinity - 1, infinity, infinity | 1, infinity | 1 << (m - 1), sign - 1]
        numbers += [n | sign for n in numbers]
    words = rng.choice(np.array(numbers, np.uint64), shape)
    return np.where(rng.random(shape) < 0.3, _uniform(rng, d, shape), words)


def _ties(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    """Numbers half way between two of a narrower type, and their neighbours."""
    if not _has_fields(d):
        step = np.uint64(1) << rng.integers(0, d.bits, shape).astype(np.uint64)
        return np.asarray((_bits(rng, d, shape) & ~(step - np.uint64(1))) + step)
    anywhere = rng.integers(1, d.mantissa + 1, shape)
    narrower = [d.mantissa - m for m in MANTISSAS if m < d.mantissa] or [1]
    cut = np.where(rng.random(shape) < 0.7, rng.choice(narrower, shape), anywhere).astype(np.uint64)
    half = np.uint64(1) << (cut - np.uint64(1))
    mantissa = _bits(rng, d, shape) & ~((np.uint64(1) << cut) - np.uint64(1)) | half
    mantissa = mantissa + rng.integers(0, 2, shape).astype(np.uint64) * (rng.random(shape) < 0.3)
    return _float(rng, d, d.bias + rng.integers(-2, 12, shape), mantissa.astype(np.uint64))


def _mixed(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    """Lanes by all the recipes that make single numbers."""
    results = [_MAKERS[r](rng, d, shape) for r in ("uniform", "bits", "specials", "ties", "overflow")]
    return np.asarray(np.choose(rng.integers(0, len(results), shape), results))


def _overflow(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    if not _has_fields(d):
        near = rng.integers(0, 4, shape).astype(np.uint64)
        edge = np.uint64(1 << (d.bits - 1))
        return np.asarray(np.where(rng.random(shape) < 0.5, edge - np.uint64(1) - near, edge + near))
    top = (1 << d.exponent) - 2
    extreme = np.where(rng.random(shape) < 0.7, top, 1) - rng.integers(0, 2, shape)
    return _float(rng, d, extreme, _bits(rng, d, shape))


def _sorted(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    words = _uniform(rng, d, shape) & np.uint64((1 << d.bits) - 1)
    sign = np.uint64(1 << (d.bits - 1))
    negative = (words & sign) != 0
    key = words.astype(np.float64)
    if d.is_float:
        key = np.where(negative, -(words & ~sign).astype(np.float64), key)
    elif d.is_signed:
        key = np.where(negative, key - 2.0 * float(sign), key)
    order = np.argsort(key, axis=-1, kind="stable")
    order = order[..., ::-1] if rng.random() < 0.5 else order
    return np.take_along_axis(words, order, axis=-1)


def _constant(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    make = _MAKERS[("uniform", "bits", "specials")[int(rng.integers(0, 3))]]
    return np.full(shape, make(rng, d, (1,))[0], np.uint64)


def _sparse(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    return np.where(rng.random(shape) < 0.1, _uniform(rng, d, shape), np.uint64(0))


def _rare(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    """Ordinary numbers, and in one line of four a NaN, an infinity or a zero among them."""
    words = _uniform(rng, d, shape)
    if not _has_fields(d):
        return words
    infinity = ((1 << d.exponent) - 1) << d.mantissa
    numbers = [infinity, infinity | 1 << (d.mantissa - 1), infinity | 1, 0]
    special = rng.choice(np.array([n | s for n in numbers for s in (0, 1 << (d.bits - 1))], np.uint64), shape)
    lines = max(1, shape[-1] if shape else 1)
    return np.where(rng.random(shape) < 0.25 / lines, special, words)


def _positive(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    if not d.is_float:
        return np.asarray(rng.integers(1, min(20, 1 << (d.bits - 1)), shape, np.uint64))
    if not _has_fields(d):
        return np.full(shape, 1, np.uint64)
    return _float(rng, d, d.bias + rng.integers(-2, 3, shape), _bits(rng, d, shape)) & np.uint64(
        (1 << (d.bits - 1)) - 1
    )


def _counts(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> _Words:
    anywhere = rng.integers(0, d.bits, shape, np.uint64)
    return np.where(rng.random(shape) < 0.3, np.uint64(d.bits - 1), anywhere)


_MAKERS: dict[str, _Maker] = {
    "uniform": _uniform,
    "bits": _bits,
    "specials": _specials,
    "ties": _ties,
    "overflow": _overflow,
    "mixed": _mixed,
    "sorted": _sorted,
    "constant": _constant,
    "sparse": _sparse,
    "rare": _rare,
    "positive": _positive,
    "counts": _counts,
}
