"""Copies that fill what is not valid with a pad value."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from pto_jax.ir import Loc

from .irregular_storage import inside, iota
from .masks import lanes
from .memory import pad_word
from .region import fit, sizes
from .rules import Context, Inputs, Outputs, rule


def _pad(c: Context) -> np.unsignedinteger:
    """The word to fill with: the low bits of padValue, else what dst's type says."""
    t, custom = c.tile("dst"), c.attrs.get("padValue")
    if isinstance(custom, int):
        return t.dtype.word.type(custom & ((1 << t.dtype.storage_bits) - 1))
    return pad_word(t.dtype, t.pad, c.profile)


@rule("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def _tfillpad(c: Context, inputs: Inputs) -> Outputs:
    """The simulator fills all of dst, hardware the rows that are valid in it; nothing if dst is empty."""
    t, old = c.tile("dst"), lanes(inputs, "dst").words
    words = lanes(inputs, "src").words
    kept = fit(inside(c, inputs, "src"), t.shape, np.bool_(False))
    new = jnp.where(kept, fit(words, t.shape, old.dtype.type(0)), _pad(c))
    v_row, v_col = sizes(t, lanes(inputs, "dst"))
    written = (v_row > np.int32(0)) & (v_col > np.int32(0))
    if c.profile != "cpu_sim" and t.loc == Loc.VEC:
        written = written & (iota(t.shape, 0) < v_row)
    return {"dst": jnp.where(written, new, old)}
