"""NumPy rules of masks of a pattern or of a count."""

import numpy as np

from ..isa.micro import MicroCall
from .micro import rule, signed
from .numbers import Array


def _mask(call: MicroCall, chosen: "Array") -> Array:
    """The image of lanes, by their numbers."""
    bits = call.results[0]
    assert isinstance(bits, int)
    image = np.zeros(256, np.bool_)
    image[np.asarray(chosen, np.int64) * (bits // 8)] = True
    return image


def _lanes(call: MicroCall) -> int:
    bits = call.results[0]
    assert isinstance(bits, int)
    return 2048 // bits


def _pattern(call: MicroCall) -> tuple[Array, ...]:
    pattern, lanes = str(call.attributes["pattern"]).removeprefix("PAT_"), _lanes(call)
    every = np.arange(lanes)
    if pattern.startswith("VL"):
        return (_mask(call, every[: int(pattern[2:])]),)
    if pattern.startswith("M"):
        return (_mask(call, every[:: int(pattern[1:])]),)
    count = {"ALL": lanes, "ALLF": 0, "H": lanes // 2, "Q": lanes // 4}[pattern]
    return (_mask(call, every[:count]),)


def _count(call: MicroCall, count: Array) -> tuple[Array, ...]:
    left, lanes = int(count), _lanes(call)
    return _mask(call, np.arange(min(left, lanes))), np.asarray(max(0, left - lanes), np.uint32)


def _rest(call: MicroCall, trip: Array, bound: Array) -> tuple[Array, ...]:
    lanes = np.arange(_lanes(call))
    return (_mask(call, lanes[lanes + signed(trip) * len(lanes) < signed(bound)]),)


for _bits in (8, 16, 32):
    rule(f"pset_b{_bits}", f"pge_b{_bits}")(_pattern)
    rule(f"plt_b{_bits}")(_count)
    rule(f"pltm_b{_bits}")(_rest)
