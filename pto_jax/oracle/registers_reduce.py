"""NumPy rules of reductions of registers, and of histograms."""

import numpy as np

from ..ir import REGISTER_BYTES, DType
from ..isa.micro import MicroCall
from ..isa.rules.registers import BLOCK, element
from . import arithmetic as lane
from .numbers import Array, decode, encode, infinity
from .registers import lane_rule, larger, smaller, zeroed


def first_of(count: int, *words: Array) -> Array:
    """Lanes from the first one on, zeros after them."""
    made = np.concatenate([w.reshape(-1) for w in words])
    return np.concatenate([made, np.zeros(count - len(made), made.dtype)])


def tree_sum(d: DType, words: Array) -> Array:
    """Sums along the last axis: neighbours first, then neighbours among the sums; every sum is rounded.

    Of an odd number of sums the last one waits for the next round.

    >>> from pto_jax.ir import I32
    >>> int(tree_sum(I32, np.arange(5, dtype=np.uint32))[0])
    10
    """
    while words.shape[-1] > 1:
        pairs = words.shape[-1] // 2 * 2
        sums = lane.add(d, words[..., 0:pairs:2], words[..., 1:pairs:2])
        words = np.concatenate([sums, words[..., pairs:]], axis=-1)
    return words


@lane_rule("vcadd")
def _sum(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    """Narrow integers are summed in the wider type of the result."""
    source, target = element(call.types[0]), element(call.results[0])
    active = zeroed(mask, words)
    if source != target:
        active = encode(decode(active, source), target)
    return (first_of(REGISTER_BYTES // target.word.itemsize, tree_sum(target, active)),)


@lane_rule("vcgadd")
def _block_sums(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    sums = tree_sum(element(call.types[0]), _blocks(zeroed(mask, words)))
    return (first_of(len(words), sums),)


def _blocks(words: Array) -> Array:
    return words.reshape(-1, BLOCK // words.dtype.itemsize)


@lane_rule("vcpadd")
def _pair_sums(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    active = zeroed(mask, words)
    return (first_of(len(words), lane.add(element(call.types[0]), active[0::2], active[1::2])),)


def neutral(d: DType, largest: bool) -> Array:
    """The word that no other is beyond: an infinity or a limit of integers."""
    if d.is_float:
        return np.asarray(infinity(d) | (largest << (d.bits - 1)), d.word)
    return np.asarray(d.min_int if largest else d.max_int).astype(d.word)


def extreme(d: DType, words: Array, largest: bool) -> Array:
    """The extremes along the last axis, which stays."""
    better = larger if largest else smaller
    found = words[..., :1]
    for k in range(1, words.shape[-1]):
        found = better(d, found, words[..., k : k + 1])
    # Of a single word too a NaN is the canonical one.
    return better(d, found, found)


def _position(d: DType, words: Array, best: Array) -> int:
    """The first lane that compares equal to the extreme, or that is NaN as it is."""
    numbers, wanted = decode(words, d), decode(best, d)
    return int(np.argmax((numbers == wanted) | (np.isnan(numbers) & np.isnan(wanted))))


@lane_rule("vcmax", "vcmin")
def _extreme(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    d, largest = element(call.types[0]), call.name == "vcmax"
    filled = np.where(mask, words, neutral(d, largest))
    best = extreme(d, filled, largest)
    position = np.array([_position(d, filled, best)], d.word)
    return (first_of(len(words), best, position),)


@lane_rule("vcgmax", "vcgmin")
def _block_extremes(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    d, largest = element(call.types[0]), call.name == "vcgmax"
    filled = np.where(mask, words, neutral(d, largest))
    return (first_of(len(words), extreme(d, _blocks(filled), largest)),)


@lane_rule("vcbmax", "vcbmin")
def _extreme_lanes(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    d, largest = element(call.types[0]), call.name == "vcbmax"
    filled = np.where(mask, words, neutral(d, largest))
    best = extreme(d, filled, largest)
    numbers, wanted = decode(words, d), decode(best, d)
    return first_of(len(words), best), mask & ((numbers == wanted) | (np.isnan(numbers) & np.isnan(wanted)))


@lane_rule("dhistv2", "chistv2")
def _histogram(call: MicroCall, counts: Array, samples: Array, mask: Array, part: Array) -> tuple[Array, ...]:
    """Counts of values from 128 times ``part`` on; cumulative ones count all values up to each."""
    bins = np.bincount(samples[mask], minlength=256)
    bins = np.cumsum(bins) if call.name == "chistv2" else bins
    first = len(counts) * int(part)
    return (counts + bins[first : first + len(counts)].astype(counts.dtype),)
