"""JAX rules of reductions of registers, and of histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import REGISTER_BYTES, CmpMode, DType
from pto_jax.isa.rules.registers import BLOCK, element

from . import bits, convert, formulas
from .micro import RegisterCall
from .numerics import Float, Integer
from .registers import lane_rule, larger, smaller, zeroed

if TYPE_CHECKING:
    from jaxtyping import Int32, UInt

    from .registers import Active, Lanes


def first_of(count: int, *words: UInt[Array, "..."]) -> Lanes:
    """Lanes from the first one on, zeros after them."""
    made = jnp.concatenate([w.reshape(-1) for w in words])
    return jnp.pad(made, (0, count - made.shape[0]))


def _folded(
    words: UInt[Array, "*rows lanes"], join: Callable[[Array, Array], Array]
) -> UInt[Array, "*rows one"]:
    """Neighbours joined, then neighbours among the results; a last one alone waits for the next round."""
    while words.shape[-1] > 1:
        pairs = words.shape[-1] // 2 * 2
        joined = join(words[..., 0:pairs:2], words[..., 1:pairs:2])
        words = jnp.concatenate([joined, words[..., pairs:]], axis=-1)
    return words


def tree_sum(a: Float | Integer, words: UInt[Array, "*rows lanes"]) -> UInt[Array, "*rows one"]:
    """Sums along the last axis: neighbours first, then neighbours among the sums; every sum is rounded."""
    return _folded(words, lambda x, y: formulas.binary(a, "add", x, y))


@lane_rule("vcadd")
def _sum(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    """Narrow integers are summed in the wider type of the result."""
    source, target = element(call.types[0]), element(call.results[0])
    active = zeroed(mask, words)
    if source != target:
        active = convert.integer_words(convert.integer(active, source), target)
    total = tree_sum(call.arithmetic(target), active)
    return (first_of(REGISTER_BYTES // target.word.itemsize, total),)


@lane_rule("vcgadd")
def _block_sums(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    sums = tree_sum(call.arithmetic(element(call.types[0])), _blocks(zeroed(mask, words)))
    return (first_of(words.shape[0], sums),)


def _blocks(words: Lanes) -> UInt[Array, "blocks lanes"]:
    return words.reshape(-1, BLOCK // words.dtype.itemsize)


@lane_rule("vcpadd")
def _pair_sums(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    a, active = call.arithmetic(element(call.types[0])), zeroed(mask, words)
    return (first_of(words.shape[0], formulas.binary(a, "add", active[0::2], active[1::2])),)


def neutral(d: DType, largest: bool) -> np.unsignedinteger:
    """The word that no other is beyond: an infinity or a limit of integers."""
    if d.is_float:
        infinity = ((1 << d.exponent) - 1) << d.mantissa
        return d.word.type(infinity | (1 << (d.bits - 1) if largest else 0))
    return d.word.type((d.min_int if largest else d.max_int) & ((1 << d.bits) - 1))


def extreme(a: Float | Integer, words: UInt[Array, "*rows lanes"], largest: bool) -> UInt[Array, "*rows one"]:
    """The extremes along the last axis, which stays."""
    better = larger if largest else smaller
    return _folded(words, lambda x, y: better(a, x, y))


def same_number(a: Float | Integer, words: Lanes, best: Lanes) -> Active:
    """Lanes that compare equal to a word, or that are NaN as it is."""
    equal = a.compare_words(CmpMode.EQ, words, jnp.broadcast_to(best, words.shape))
    if isinstance(a, Integer):
        return equal
    return equal | (bits.is_nan(words, a.dtype) & bits.is_nan(best, a.dtype))


def _position(flags: Active) -> Int32[Array, " one"]:
    """The first lane that is set."""
    count = np.int32(flags.shape[0])
    places = jnp.where(flags, lax.iota(np.int32, flags.shape[0]), count)
    found: Array = lax.reduce(places, count, lax.min, (0,))
    return found.reshape(1)


def _searched(call: RegisterCall, words: Lanes, mask: Active, largest: bool) -> tuple[Lanes, Lanes, Active]:
    """The extreme of the active lanes, and the lanes that have it, neutral ones among them."""
    a = call.arithmetic(element(call.types[0]))
    filled = bits.where(mask, words, neutral(a.dtype, largest))
    best = extreme(a, filled, largest)
    return filled, best, same_number(a, filled, best)


@lane_rule("vcmax", "vcmin")
def _extreme(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    _, best, found = _searched(call, words, mask, call.name == "vcmax")
    position = lax.convert_element_type(_position(found), words.dtype)
    return (first_of(words.shape[0], best, position),)


@lane_rule("vcgmax", "vcgmin")
def _block_extremes(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    a, largest = call.arithmetic(element(call.types[0])), call.name == "vcgmax"
    filled = bits.where(mask, words, neutral(a.dtype, largest))
    return (first_of(words.shape[0], extreme(a, _blocks(filled), largest)),)


@lane_rule("vcbmax", "vcbmin")
def _extreme_lanes(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Array, ...]:
    _, best, found = _searched(call, words, mask, call.name == "vcbmax")
    return first_of(words.shape[0], best), mask & found


@lane_rule("dhistv2", "chistv2")
def _histogram(
    call: RegisterCall, counts: Lanes, samples: Lanes, mask: Active, part: Array
) -> tuple[Lanes, ...]:
    """Counts of values from 128 times ``part`` on; cumulative ones count all values up to each."""
    bins = lax.iota(np.int32, counts.shape[0])
    bins = bins + lax.convert_element_type(part, np.int32) * np.int32(counts.shape[0])
    values = lax.convert_element_type(samples, np.int32)
    hits = values[:, None] <= bins if call.name == "chistv2" else values[:, None] == bins
    number: Array = lax.reduce(
        lax.convert_element_type(hits & mask[:, None], np.int32), np.int32(0), lax.add, (0,)
    )
    return (counts + lax.convert_element_type(number, counts.dtype),)
