"""Combining two tiles of which each may be valid in a part of the destination only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp

from pto_jax.ir import CmpMode
from pto_jax.isa.irregular_partial import SRC0_WINS

from . import formulas, irregular_storage, masks, region
from .numerics import Float, Integer
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from .arrays import Mask, Word, Words


def _words(c: Context, inputs: Inputs, name: str) -> Words:
    """A source's stored words over the destination's lanes."""
    words = masks.lanes(inputs, name).words
    return region.fit(words, c.tile("dst").shape, words.dtype.type(0))


def _index(c: Context, inputs: Inputs, name: str) -> Words:
    """:func:`_words` with the profile's fill outside the tile's own region."""
    words = _words(c, inputs, name)
    if c.semantics.out_of_region != "ones":
        return words
    own = irregular_storage.inside(c, inputs, name, c.tile("dst").shape)
    return jnp.where(own, words, region.all_ones(c.dtype(name)))


def _either(second: Mask, y: Words) -> Words:
    return jnp.where(second, y, y.dtype.type(0))


def _never_wins(c: Context, lowest: bool) -> Word:
    """On a5 the word of the lowest or the largest finite number, elsewhere zero."""
    d = c.dtype("dst")
    if c.profile != "a5":
        return jnp.asarray(d.word.type(0))
    if d.is_integer:
        return jnp.asarray(d.word.type((d.min_int if lowest else d.max_int) & ((1 << d.bits) - 1)))
    largest = (((1 << d.exponent) - 1) << d.mantissa) - 1
    return jnp.asarray(d.word.type(largest | (lowest << (d.bits - 1))))


def _partial(
    name: str,
    combine: Callable[[Float | Integer, Words, Words], Words],
    neither: Callable[[Context], Word] | None = None,
) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> Outputs:
        shape, d = c.tile("dst").shape, c.dtype("dst")
        first, second = (irregular_storage.inside(c, inputs, n, shape) for n in ("src0", "src1"))
        x, y = (_words(c, inputs, n) for n in ("src0", "src1"))
        both = region.flush(c, combine(c.arithmetic(), region.flush(c, x, d), region.flush(c, y, d)), d)
        one = jnp.where(first, x, _either(second, y))
        if neither is not None:
            one = jnp.where(first | second, one, neither(c))
        return {"dst": region.merge(c, inputs, jnp.where(first & second, both, one))}


_partial("tpartadd", lambda a, x, y: formulas.binary(a, "add", x, y))
_partial("tpartmul", lambda a, x, y: formulas.binary(a, "mul", x, y))
_partial("tpartmax", formulas.maximum, lambda c: _never_wins(c, lowest=True))
_partial("tpartmin", formulas.minimum, lambda c: _never_wins(c, lowest=False))


def _partial_arg(name: str, mode: CmpMode) -> None:
    @rule(name)
    def apply(c: Context, inputs: Inputs) -> Outputs:
        """The value tiles' regions decide which index is taken, those of index tiles what it is."""
        shape, d, a = c.tile("dst").shape, c.dtype("dst"), c.arithmetic()
        first, second = (irregular_storage.inside(c, inputs, n, shape) for n in ("src0", "src1"))
        x, y = (region.flush(c, _words(c, inputs, n), d) for n in ("src0", "src1"))
        taken = first & (~second | _first_wins(c.profile, a, mode, x, y))
        value = jnp.where(taken, x, _either(second, y))
        i, j = (_index(c, inputs, n) for n in ("src0Idx", "src1Idx"))
        index = jnp.where(taken, i, _either(second, j))
        index = region.fit(index, c.tile("dstIdx").shape, index.dtype.type(0))
        return {
            "dst": region.merge(c, inputs, value),
            "dstIdx": region.merge(c, inputs, index, "dstIdx", region="dst"),
        }


def _first_wins(profile: str, a: Float | Integer, mode: CmpMode, x: Words, y: Words) -> Mask:
    match SRC0_WINS[profile]:
        case "better":
            return a.compare_words(mode, x, y)
        case "equal":
            return a.compare_words(mode, x, y) | a.compare_words(CmpMode.EQ, x, y)
        case "unless worse":
            return ~a.compare_words(mode, y, x)


_partial_arg("tpartargmax", CmpMode.GT)
_partial_arg("tpartargmin", CmpMode.LT)
