"""Copies that fill what is not valid with a pad value."""

import jax.numpy as jnp
import numpy as np

from pto_jax.ir import Loc

from . import irregular_storage, masks, memory, region
from .rules import Context, Inputs, Outputs, rule


def _pad(c: Context) -> np.unsignedinteger:
    """The word to fill with: the low bits of padValue, else what dst's type says."""
    t, custom = c.tile("dst"), c.attrs.get("padValue")
    if isinstance(custom, int):
        return t.dtype.word.type(custom & ((1 << t.dtype.storage_bits) - 1))
    return memory.pad_word(t.dtype, t.pad, c.profile)


@rule("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _tfillpad(c: Context, inputs: Inputs) -> Outputs:
    """The simulator fills all of dst, hardware the rows that are valid in it; nothing if dst is empty."""
    t, old = c.tile("dst"), masks.lanes(inputs, "dst").words
    words = masks.lanes(inputs, "src").words
    kept = region.fit(irregular_storage.inside(c, inputs, "src"), t.shape, np.bool_(False))
    new = jnp.where(kept, region.fit(words, t.shape, old.dtype.type(0)), _pad(c))
    if t.valid == t.shape and t.elements:
        return {"dst": new}
    v_row, v_col = region.sizes(t, masks.lanes(inputs, "dst"))
    written = (v_row > np.int32(0)) & (v_col > np.int32(0))
    if c.profile != "cpu_sim" and t.loc == Loc.VEC:
        written = written & (irregular_storage.iota(t.shape, 0) < v_row)
    return {"dst": jnp.where(written, new, old)}
