"""Values of lockstep programs from counters: the same integer operations in NumPy and in JAX.

Everything is a function of 32-bit hashes, so that a register can be filled on the device where it is used
and again by NumPy when its program is looked at alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..generate.values import MANTISSAS
from ..ir import DType

#: An array of NumPy or JAX, and the module that computes with it.
Array = Any
Module = Any

U32 = np.uint32
_STEP, _OTHER = U32(0x9E3779B9), U32(0x5BD1E995)
#: What numbers are made by: any bits; special values; near one, or small integers; near the ends of the
#: range; half way between numbers of a narrower type. A tile has one of them on every lane, a mixture of
#: all, the same with most lanes zero, or one number on every lane.
RECIPES = ("bits", "specials", "near", "edge", "ties", "mixed", "sparse", "constant")
_LANE_RECIPES, _SPARSE, _CONSTANT = 5, 6, 7
_SPECIALS = 32
_CUTS = 8


def mix(x: Array) -> Array:
    """A bijective hash of uint32 arrays.

    >>> [hex(int(n)) for n in mix(np.arange(1, 3, dtype=np.uint32))]
    ['0x688990c0', '0xd1132181']
    """
    x = x ^ (x >> U32(16))
    x = x * U32(0x7FEB352D)
    x = x ^ (x >> U32(15))
    x = x * U32(0x846CA68B)
    return x ^ (x >> U32(16))


def origin(seed: int) -> NDArray[np.uint64]:
    """Where the counter of a seed begins, as a uint64 array of no dimensions."""
    return np.array((seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % (1 << 64), np.uint64)


def key(start: Array, index: Array) -> tuple[Array, Array]:
    """Two uint32 words for every program: ``start`` is an :func:`origin`, ``index`` a uint64 array."""
    x = index + start
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return (x & np.uint64(0xFFFFFFFF)).astype(U32), (x >> np.uint64(32)).astype(U32)


def stream(keys: tuple[Array, Array], number: Array) -> Array:
    """The hash with a number of every program; keys and numbers broadcast."""
    low, high = keys
    return mix(mix(low + number * _STEP) ^ high)


@dataclass(frozen=True)
class Formats:
    """Parameters of some element types as arrays, for formulas that work on all of them."""

    dtypes: tuple[DType, ...]

    def _array(self, values: Sequence[int]) -> NDArray[np.uint32]:
        return np.array(values, U32)

    @cached_property
    def mask(self) -> NDArray[np.uint32]:
        """All bits of an element, uint32 [types] as all of the following."""
        return self._array([(1 << d.bits) - 1 for d in self.dtypes])

    @cached_property
    def sign(self) -> NDArray[np.uint32]:
        """The highest bit of an element, as a mask."""
        return self._array([1 << (d.bits - 1) for d in self.dtypes])

    @cached_property
    def mantissa(self) -> NDArray[np.uint32]:
        """Mantissa bits of formats with fields, 0 otherwise."""
        return self._array([d.mantissa if has_fields(d) else 0 for d in self.dtypes])

    @cached_property
    def bias(self) -> NDArray[np.uint32]:
        """Exponent bias of formats with fields, 0 otherwise."""
        return self._array([d.bias if has_fields(d) else 0 for d in self.dtypes])

    @cached_property
    def top(self) -> NDArray[np.uint32]:
        """The largest exponent field of formats with fields, 0 otherwise."""
        return self._array([(1 << d.exponent) - 1 if has_fields(d) else 0 for d in self.dtypes])

    @cached_property
    def cuts(self) -> NDArray[np.uint32]:
        """Mantissa bits that a format has more than narrower ones, uint32 [types, 8]; 1 without fields."""
        more = [[d.mantissa - m for m in MANTISSAS if has_fields(d) and m < d.mantissa] for d in self.dtypes]
        return np.array([np.resize(bits or [1], _CUTS) for bits in more], U32)

    @cached_property
    def low(self) -> NDArray[np.uint32]:
        """What is subtracted from small integers: 20 where there are negative ones."""
        return self._array([20 if d.is_signed else 0 for d in self.dtypes])

    @cached_property
    def specials(self) -> NDArray[np.uint32]:
        """The special values, uint32 [types, 32]."""
        return np.array([_specials(d) for d in self.dtypes], U32)


def has_fields(d: DType) -> bool:
    """Whether a float format has a mantissa and an exponent of its own."""
    return d.is_float and d.exponent > 1 and d.mantissa > 0


def _specials(d: DType) -> list[int]:
    top, sign = (1 << d.bits) - 1, 1 << (d.bits - 1)
    patterns = [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, top, top >> 1, sign, top - 1, sign + 1, (top >> 1) - 1]
    if has_fields(d):
        m, infinity = d.mantissa, ((1 << d.exponent) - 1) << d.mantissa
        one = d.bias << m
        patterns = [0, 1, (1 << m) - 1, 1 << m, (1 << m) + 1, one, one + 1, one - 1, one + (1 << m)]
        patterns += [one - (1 << m), infinity - 1, infinity, infinity | 1, infinity | 1 << (m - 1)]
        patterns += [infinity - (1 << m), sign - 1]
    if len(patterns) * 2 == _SPECIALS:
        patterns = [w for n in patterns for w in (n, n ^ sign if d.is_float else n)]
    return patterns


def fill(xp: Module, formats: Formats, kind: Array, recipe: Array, hashed: Array) -> Array:
    """Words of types ``kind`` by one of the first five recipes, from one hash each; all broadcast.

    Kinds are numbers in ``formats``; ``xp`` is the module that computes, NumPy or JAX's.
    """

    def of(table: NDArray[Any]) -> Array:
        return xp.asarray(table)[kind]

    other = mix(hashed ^ _OTHER)
    sign, mantissa, top = of(formats.sign), of(formats.mantissa), of(formats.top)
    fraction = hashed & ((U32(1) << mantissa) - U32(1))
    small = other % U32(9)
    cut = U32(1) + small
    # Half way between numbers of a format that values are converted to, or of any other.
    cut = xp.where(
        (other >> U32(4)) % U32(4) == U32(0), cut, xp.asarray(formats.cuts)[kind, other % U32(_CUTS)]
    )
    tie = (fraction >> cut << cut) | (U32(1) << (cut - U32(1)))
    tie = xp.where(cut > mantissa, fraction, tie)
    near = of(formats.bias) + small - xp.minimum(of(formats.bias), U32(4))
    ends = xp.where((other & U32(1)) == U32(0), top - U32(1) - (small & U32(1)), small & U32(3))
    exponent = xp.where(recipe == U32(3), ends, near)
    floats = (hashed & sign) | (exponent << mantissa) | xp.where(recipe == U32(4), tie, fraction)
    extremes = xp.where((other & U32(64)) == U32(0), sign + small, sign - U32(1) - small)
    integers = xp.where(recipe == U32(3), extremes, other % U32(41) - of(formats.low))
    mixed = xp.where(top == U32(0), integers, floats)
    special = xp.asarray(formats.specials)[kind, (other >> U32(9)) & U32(_SPECIALS - 1)]
    bits = xp.where(recipe == U32(0), hashed, xp.where(recipe == U32(1), special, mixed))
    return bits & of(formats.mask)


@dataclass(frozen=True, eq=False)
class Pool:
    """Tiles that registers are filled from, for some element types.

    ``words`` uint32 [types, TILES, 2 * words of a register], every tile twice in a row, so that it can be
    read from any word on; ``free``, the bits of them that may be inverted without making another kind of
    number. Types of ``packed`` registers have two elements in a word.
    """

    words: NDArray[np.uint32]
    free: NDArray[np.uint32]


#: Tiles of each type in a pool, and the recipes they are made by, in turn.
TILES = 64
_TILE_RECIPES = (5, 0, 5, 2, 5, 1, 5, 3, 5, 4, 5, 2, 6, 5, 7, 5)


def pool(formats: Formats, kinds: NDArray[Any], packed: NDArray[np.bool_], words: int, start: Array) -> Pool:
    """The pool of a seed (its :func:`origin`) for registers of types ``kinds``."""
    here = np.arange(TILES, dtype=U32)
    number = here + U32(TILES) * np.arange(len(kinds), dtype=U32)[:, None]
    keys = stream(key(start, np.full(1, 2**64 - 1, np.uint64)), number)
    halves = [_pool_tiles(formats, kinds, keys ^ U32(half), words) for half in (0, 0x3C6EF372)]
    both = [
        first | np.where(packed[:, None, None], second << U32(16), U32(0))
        for first, second in zip(*halves, strict=True)
    ]
    doubled = (np.concatenate([a, a], axis=-1) for a in both)
    return Pool(*doubled)


def _pool_tiles(
    formats: Formats, kinds: NDArray[Any], keys: Array, words: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    recipe = np.array(_TILE_RECIPES, U32)[np.arange(TILES) % len(_TILE_RECIPES)][:, None]
    place = np.where(recipe == _CONSTANT, U32(0), np.arange(words, dtype=U32))
    hashed = mix(keys[..., None] + place * _STEP)
    lane = np.where(recipe < _LANE_RECIPES, recipe, hashed % U32(_LANE_RECIPES))
    of = kinds[:, None, None]
    tiles = fill(np, formats, of, lane, mix(hashed ^ _OTHER))
    sign = np.where(formats.top > 0, formats.sign, U32(0))[of]
    fraction = ((U32(1) << formats.mantissa) - U32(1))[of]
    some = np.where(sign > 0, fraction, U32(3))
    free = np.choose(lane.astype(np.intp), [formats.mask[of], sign, sign | some, some, sign])
    dense = (recipe != _SPARSE) | (hashed >> U32(28) == 0)
    return np.where(dense, tiles, U32(0)), np.where(dense, free, U32(0)).astype(U32)


def pick(keys: Array, words: int) -> tuple[Array, Array, Array]:
    """Which tile of a pool each register takes, the word it is read from, and the bits to invert."""
    return keys % U32(TILES), (keys >> U32(8)) % U32(words), mix(keys ^ _OTHER)
