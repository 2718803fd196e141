"""NumPy rules of operations that make, move and count lanes of registers and bits of masks."""

import numpy as np

from ..ir import REGISTER_BYTES
from ..isa.micro import MicroCall
from ..isa.rules.registers import element, lanes
from .micro import rule
from .numbers import Array, decode, encode
from .registers import image, lane_rule, zeroed

# -- registers ---------------------------------------------------------------------------------------


def interleaved(a: Array, b: Array) -> tuple[Array, Array]:
    """The lanes of two sources by turns: their first halves, then their second ones."""
    both = np.stack([a, b], axis=-1).reshape(-1)
    return both[: len(a)], both[len(a) :]


def separated(a: Array, b: Array) -> tuple[Array, Array]:
    """The even and the odd lanes of two sources one after the other."""
    both = np.concatenate([a, b])
    return both[0::2], both[1::2]


lane_rule("vintlv")(lambda call, a, b: interleaved(a, b))
lane_rule("vdintlv")(lambda call, a, b: separated(a, b))


def _half(call: MicroCall) -> int:
    return 1 if call.attributes["part"] == "HIGHER" else 0


lane_rule("vintlvv2")(lambda call, a, b: interleaved(a, b)[_half(call) : _half(call) + 1])
lane_rule("vdintlvv2")(lambda call, a, b: separated(a, b)[_half(call) : _half(call) + 1])


@lane_rule("vselr")
def _pick(call: MicroCall, words: Array, index: Array) -> tuple[Array, ...]:
    """Positions count modulo the number of lanes."""
    return (words[index.astype(np.int64) % len(words)],)


@lane_rule("vsqz")
def _squeeze(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    kept = words[mask]
    return (np.concatenate([kept, np.zeros(len(words) - len(kept), words.dtype)]),)


@lane_rule("vusqz")
def _count_before(call: MicroCall, words: Array, mask: Array) -> tuple[Array, ...]:
    return ((np.cumsum(mask) - mask).astype(words.dtype),)


@lane_rule("vpack")
def _pack(call: MicroCall, words: Array) -> tuple[Array, ...]:
    low = words.astype(element(call.results[0]).word)
    rest = np.zeros_like(low)
    return (np.concatenate([rest, low] if _half(call) else [low, rest]),)


@lane_rule("vsunpack", "vzunpack")
def _unpack(call: MicroCall, words: Array, part: Array) -> tuple[Array, ...]:
    source, target = element(call.types[0]), element(call.results[0])
    half = len(words) // 2
    chosen = words[half:] if int(part) else words[:half]
    signed = np.dtype(f"{'i' if call.name == 'vsunpack' else 'u'}{source.word_bits // 8}")
    return (chosen.view(signed).astype(target.word),)


@lane_rule("vbitcast")
def _reinterpret(call: MicroCall, words: Array) -> tuple[Array, ...]:
    return (np.ascontiguousarray(words).view(element(call.results[0]).word),)


@lane_rule("vbr")
def _broadcast(call: MicroCall, value: Array) -> tuple[Array, ...]:
    t = lanes(call.results[0])
    return (np.full(t.lanes, value.reshape(-1)[0]).astype(t.dtype.word),)


@lane_rule("vdup")
def _duplicate(call: MicroCall, source: Array, mask: Array) -> tuple[Array, ...]:
    chosen = source.reshape(-1)[-1 if call.attributes.get("position") == "HIGHEST" else 0]
    return (zeroed(mask, np.full(len(mask), chosen).astype(element(call.results[0]).word)),)


@lane_rule("vci")
def _count_up(call: MicroCall, base: Array) -> tuple[Array, ...]:
    t = lanes(call.results[0])
    d = t.dtype
    step = np.arange(t.lanes)
    step = -step if call.attributes.get("order") == "DESC" else step
    if d.is_float:
        return (encode(decode(base, d) + step.astype(np.float32), d),)
    return (base.astype(d.word) + step.astype(d.word),)


# -- masks -------------------------------------------------------------------------------------------

_WIDTHS = (8, 16, 32)


def _width(call: MicroCall) -> int:
    """Bytes per lane of the mask that an operation makes, or reorders."""
    bits = call.results[0]
    assert isinstance(bits, int), bits
    return bits // 8


@rule("ppack")
def _pack_mask(call: MicroCall, bits: Array) -> tuple[Array, ...]:
    even, none = bits[0::2], np.zeros(REGISTER_BYTES // 2, np.bool_)
    return (np.concatenate([none, even] if _half(call) else [even, none]),)


@rule("punpack")
def _unpack_mask(call: MicroCall, bits: Array) -> tuple[Array, ...]:
    return (image(bits[REGISTER_BYTES // 2 :] if _half(call) else bits[: REGISTER_BYTES // 2]),)


rule("pbitcast")(lambda call, bits: (bits,))
rule("pand")(lambda call, a, b, mask: (a & b & mask,))
rule("por")(lambda call, a, b, mask: ((a | b) & mask,))
rule("pxor")(lambda call, a, b, mask: ((a ^ b) & mask,))
rule("pnot")(lambda call, a, mask: (~a & mask,))
rule("psel")(lambda call, a, b, mask: (np.where(mask, a, b),))


@rule(*(f"pintlv_b{width}" for width in _WIDTHS))
def _interleave_masks(call: MicroCall, a: Array, b: Array) -> tuple[Array, ...]:
    """Lanes keep the bits that they have in the image."""
    low, high = _by_lane(a, _width(call)), _by_lane(b, _width(call))
    both = np.stack([low, high], axis=1).reshape(-1)
    return both[:REGISTER_BYTES], both[REGISTER_BYTES:]


@rule(*(f"pdintlv_b{width}" for width in _WIDTHS))
def _separate_masks(call: MicroCall, a: Array, b: Array) -> tuple[Array, ...]:
    both = _by_lane(np.concatenate([a, b]), _width(call))
    return both[0::2].reshape(-1), both[1::2].reshape(-1)


def _by_lane(bits: Array, width: int) -> Array:
    return bits.reshape(-1, width)
