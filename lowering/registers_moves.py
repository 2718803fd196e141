"""JAX rules of operations that make, move and count lanes of registers and bits of masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, REGISTER_BYTES
from pto_jax.isa.rules.registers import element, lanes

from . import bits, formulas
from .micro import RegisterCall, image, rule
from .numerics import Integer
from .registers import lane_rule, zeroed

if TYPE_CHECKING:
    from jaxtyping import Bool, Shaped

    from .registers import Active, Lanes

    #: The image of a mask.
    Image = Bool[Array, " bytes"]

# -- registers ---------------------------------------------------------------------------------------


def interleaved(x: Shaped[Array, "..."], y: Shaped[Array, "..."]) -> tuple[Shaped[Array, "..."], ...]:
    """The lanes of two sources by turns: their first halves, then their second ones."""
    both = jnp.stack([x, y], axis=1).reshape(-1, *x.shape[1:])
    return both[: x.shape[0]], both[x.shape[0] :]


def separated(x: Shaped[Array, "..."], y: Shaped[Array, "..."]) -> tuple[Shaped[Array, "..."], ...]:
    """The even and the odd lanes of two sources one after the other."""
    both = jnp.concatenate([x, y])
    return both[0::2], both[1::2]


lane_rule("vintlv")(lambda call, x, y: interleaved(x, y))
lane_rule("vdintlv")(lambda call, x, y: separated(x, y))


def _half(call: RegisterCall) -> int:
    return 1 if call.attributes["part"] == "HIGHER" else 0


lane_rule("vintlvv2")(lambda call, x, y: (interleaved(x, y)[_half(call)],))
lane_rule("vdintlvv2")(lambda call, x, y: (separated(x, y)[_half(call)],))


@lane_rule("vselr")
def _pick(call: RegisterCall, words: Lanes, index: Lanes) -> tuple[Lanes, ...]:
    """Positions count modulo the number of lanes."""
    position = lax.rem(lax.convert_element_type(index, np.uint64), np.uint64(words.shape[0]))
    return (bits.elements_at(words, lax.convert_element_type(position, np.int32)),)


def _before(mask: Active) -> Array:
    """How many active lanes there are below each."""
    active = lax.convert_element_type(mask, np.int32)
    return lax.cumsum(active) - active


@lane_rule("vsqz")
def _squeeze(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    position = jnp.where(mask, _before(mask), np.int32(words.shape[0]))
    return (jnp.zeros_like(words).at[position].set(words, mode="drop"),)


@lane_rule("vusqz")
def _count_before(call: RegisterCall, words: Lanes, mask: Active) -> tuple[Lanes, ...]:
    return (lax.convert_element_type(_before(mask), words.dtype),)


@lane_rule("vpack")
def _pack(call: RegisterCall, words: Lanes) -> tuple[Lanes, ...]:
    low = lax.convert_element_type(words, element(call.results[0]).word)
    rest = jnp.zeros_like(low)
    return (jnp.concatenate([rest, low] if _half(call) else [low, rest]),)


@lane_rule("vsunpack", "vzunpack")
def _unpack(call: RegisterCall, words: Lanes, part: Array) -> tuple[Lanes, ...]:
    half = words.shape[0] // 2
    chosen = bits.where(part != part.dtype.type(0), words[half:], words[:half])
    if call.name == "vsunpack":
        chosen = lax.bitcast_convert_type(chosen, np.dtype(f"i{words.dtype.itemsize}"))
    return (lax.convert_element_type(chosen, element(call.results[0]).word),)


@lane_rule("vbitcast")
def _reinterpret(call: RegisterCall, words: Lanes) -> tuple[Lanes, ...]:
    return (bits.recast(words, element(call.results[0]).word),)


@lane_rule("vbr")
def _broadcast(call: RegisterCall, value: Lanes) -> tuple[Lanes, ...]:
    t = lanes(call.results[0])
    low = lax.convert_element_type(value.reshape(-1)[0], t.dtype.word)
    return (jnp.full(t.lanes, low),)


@lane_rule("vdup")
def _duplicate(call: RegisterCall, source: Lanes, mask: Active) -> tuple[Lanes, ...]:
    chosen = source.reshape(-1)[-1 if call.attributes.get("position") == "HIGHEST" else 0]
    low = lax.convert_element_type(chosen, element(call.results[0]).word)
    return (zeroed(mask, jnp.broadcast_to(low, mask.shape)),)


@lane_rule("vci")
def _count_up(call: RegisterCall, base: Lanes) -> tuple[Lanes, ...]:
    t = lanes(call.results[0])
    d = t.dtype
    step = np.arange(t.lanes)
    step = -step if call.attributes.get("order") == "DESC" else step
    if d.is_integer:
        return (lax.convert_element_type(base, d.word) + step.astype(d.word),)
    a = call.arithmetic(F32)
    assert not isinstance(a, Integer)
    words = jnp.broadcast_to(bits.to_single(base, d), step.shape)
    steps = jnp.asarray(step.astype(np.float32).view(np.uint32))
    return (formulas.narrow(formulas.binary(a, "add", words, steps), d),)


# -- masks -------------------------------------------------------------------------------------------

_WIDTHS = (8, 16, 32)


def _width(call: RegisterCall) -> int:
    """Bytes per lane of the mask that an operation makes, or reorders."""
    width = call.results[0]
    assert isinstance(width, int), width
    return width // 8


@rule("ppack")
def _pack_mask(call: RegisterCall, flags: Image) -> tuple[Image, ...]:
    even = flags[0::2]
    none = jnp.zeros_like(even)
    return (jnp.concatenate([none, even] if _half(call) else [even, none]),)


@rule("punpack")
def _unpack_mask(call: RegisterCall, flags: Image) -> tuple[Image, ...]:
    half = REGISTER_BYTES // 2
    return (image(flags[half:] if _half(call) else flags[:half]),)


rule("pbitcast")(lambda call, flags: (flags,))
rule("pand")(lambda call, x, y, mask: (x & y & mask,))
rule("por")(lambda call, x, y, mask: ((x | y) & mask,))
rule("pxor")(lambda call, x, y, mask: ((x ^ y) & mask,))
rule("pnot")(lambda call, x, mask: (~x & mask,))
rule("psel")(lambda call, x, y, mask: (jnp.where(mask, x, y),))


@rule(*(f"pintlv_b{width}" for width in _WIDTHS))
def _interleave_masks(call: RegisterCall, x: Image, y: Image) -> tuple[Image, ...]:
    """Lanes keep the bits that they have in the image."""
    return _flat(interleaved(*(v.reshape(-1, _width(call)) for v in (x, y))))


@rule(*(f"pdintlv_b{width}" for width in _WIDTHS))
def _separate_masks(call: RegisterCall, x: Image, y: Image) -> tuple[Image, ...]:
    return _flat(separated(*(v.reshape(-1, _width(call)) for v in (x, y))))


def _flat(lanes: tuple[Array, ...]) -> tuple[Image, ...]:
    return tuple(v.reshape(-1) for v in lanes)
