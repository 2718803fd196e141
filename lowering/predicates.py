"""JAX rules of masks of a pattern or of a count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.isa.micro import MicroCall

from .micro import image, rule

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt


def _numbers(call: MicroCall) -> Any:
    """The numbers of the lanes of the mask that an operation makes."""
    bits = call.results[0]
    assert isinstance(bits, int)
    return np.arange(2048 // bits, dtype=np.int64)


def _pattern(call: MicroCall) -> tuple[Bool[Array, " 256"]]:
    lanes, name = _numbers(call), str(call.attributes["pattern"])[len("PAT_") :]
    if name in ("M3", "M4"):
        chosen = lanes % int(name[1]) == 0
    else:
        counts = {"ALL": 256, "ALLF": 0, "H": len(lanes) // 2, "Q": len(lanes) // 4}
        chosen = lanes < (counts[name] if name in counts else int(name.removeprefix("VL")))
    return (image(jnp.asarray(chosen)),)


def _below(call: MicroCall, count: UInt[Array, ""]) -> tuple[Array, ...]:
    lanes = _numbers(call)
    left = count.astype(np.int64)
    rest = jnp.maximum(left - len(lanes), 0).astype(np.uint32)
    return image(lanes < left), rest


def _left(call: MicroCall, trip: UInt[Array, ""], bound: UInt[Array, ""]) -> tuple[Array, ...]:
    lanes = _numbers(call)
    first, end = (
        lax.bitcast_convert_type(n, np.dtype(f"i{n.dtype.itemsize}")).astype(np.int64) for n in (trip, bound)
    )
    return (image(lanes + first * len(lanes) < end),)


for _bits in (8, 16, 32):
    rule(f"pset_b{_bits}", f"pge_b{_bits}")(_pattern)
    rule(f"plt_b{_bits}")(_below)
    rule(f"pltm_b{_bits}")(_left)
