"""Movement between tiles."""

from __future__ import annotations

from jax import Array

from . import convert
from .region import elementwise
from .rules import Context


@elementwise("tmov", "src", moves=True)
def _tmov(c: Context, x: Array) -> Array:
    """A logical copy; differing element types convert as a C++ cast does."""
    return convert.cast(x, c.dtype("src"), c.dtype("dst"))
