"""Comparison, selection and conversion of tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import lax

from pto_jax.ir import CmpMode, RoundMode, SaturationMode, unpaired
from pto_jax.isa.rules.conversions import conversion

from . import bits, convert, irregular_storage, masks
from .region import fit, flush, mask, merge, operand, read, sizes
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from .arrays import Word, Words


@rule("tcmp")
def _tcmp(c: Context, inputs: Inputs) -> Outputs:
    a, mode = c.arithmetic("src0"), c.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    source = masks.lanes(inputs, "src0")
    words, other = (operand(c, inputs, name, over="src0") for name in ("src0", "src1"))
    flags = a.compare_words(mode, words, other)
    inside = mask(c.tile("src0"), source)
    return {"dst": masks.store_rows(c, inputs, flags if inside is None else flags & inside)}


@rule("tsel")
def _tsel(c: Context, inputs: Inputs) -> Outputs:
    x, y = read(c, inputs, "src0"), read(c, inputs, "src1")
    words = read(c, inputs, "mask", over="mask")
    chosen = (
        masks.stream_bits(c, inputs, words)
        if c.profile == "cpu_sim"
        else masks.unpack(words, c.tile("dst").shape)
    )
    return {"dst": merge(c, inputs, jnp.where(chosen, x, y))}


def _numbers(c: Context, inputs: Inputs) -> Words | Word:
    """The source's words, one for each number; those of a destination of pairs as the source has them."""
    if c.dtype("src").pair_of:
        return bits.unpack(irregular_storage.source(c, inputs, "src"))
    return irregular_storage.source(c, inputs, "src") if c.dtype("dst").pair_of else operand(c, inputs, "src")


@rule("tcvt")
def _tcvt(c: Context, inputs: Inputs) -> Outputs:
    """Hardware iterates over dst's valid region, the simulator over src's."""
    src, dst, mode = unpaired(c.dtype("src")), unpaired(c.dtype("dst")), c.attrs["rmode"]
    given = c.attrs["sat_mode"]
    assert isinstance(mode, RoundMode) and (given is None or isinstance(given, SaturationMode))
    how = conversion(c.profile, src.name, dst.name)
    saturate = how.saturation(given, tmp=c.has("tmp")) == SaturationMode.ON
    words, new = _numbers(c, inputs), None
    simulated = c.profile == "cpu_sim"
    if c.semantics.numerics == "fast" and not (simulated and (saturate or dst.is_integer)):
        new = convert.fast(words, src, dst, None if simulated else how.rounding(mode), saturate)
    if new is None and simulated:
        new = convert.simulated(words, src, dst, mode, saturate)
    elif new is None:
        new = convert.hardware(words, src, dst, how, mode, saturate)
    new = flush(c, new, dst)
    if simulated:
        return {"dst": merge(c, inputs, new, region="src")}
    if dst != c.dtype("dst"):
        return {"dst": merge(c, inputs, fit(bits.pack(new), c.tile("dst").shape, np.uint8(0)))}
    if dst.packed:
        # Hardware converts whole bytes: the last column of an odd number of them stays as it was.
        old = masks.lanes(inputs, "dst")
        cols = sizes(c.tile("dst"), old)[1]
        pairs = lax.broadcasted_iota(np.int32, new.shape, 1) < cols // np.int32(2) * np.int32(2)
        new = jnp.where(pairs, new, old.words)
    return {"dst": merge(c, inputs, new)}
