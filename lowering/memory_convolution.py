"""Loads of convolution tiles from windows of another layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.errors import Diagnostic, NotExecutableError
from pto_jax.interpreter import Scalar, View
from pto_jax.ir import Conv, GlobalLayout

from . import memory_blocks, memory_layouts
from .machine.addresses import NEAR, Positions, begin, distance, wide

if TYPE_CHECKING:
    from jaxtyping import Int64

    from .arrays import Words

#: Dimensions of a window: g n c d h w as usual.
_WINDOWS = {GlobalLayout.NHWC: "gnhwc", GlobalLayout.NCHW: "gnchw", GlobalLayout.NCDHW: "ncdhw"}
#: Dimensions of a tile: N and C count blocks of images and channels, k is all that is not in a block.
_TILES = {
    GlobalLayout.NC1HWC0: "nChwc",
    GlobalLayout.NDC1HWC0: "ndChwc",
    GlobalLayout.FRACTAL_Z: "kNnc",
    GlobalLayout.FRACTAL_Z_3D: "kNnc",
}


@dataclass(frozen=True)
class Converted:
    """A window whose elements fill a convolution tile by what they are: image, channel, place."""

    offset: Scalar
    shape: dict[str, Scalar]
    strides: dict[str, Scalar]
    conv: Conv

    @property
    def is_static(self) -> bool:
        """Whether offset, shape and strides of the window are all known."""
        return all(isinstance(n, int) for n in (self.offset, *self.shape.values(), *self.strides.values()))

    def lanes(self) -> tuple[int, int]:
        """No lane is beyond the window: one without a source keeps what it holds."""
        return NEAR, NEAR

    def meets(self, shape: tuple[int, int]) -> bool | None:
        """Not known: always None."""
        return None

    def block(self) -> memory_blocks.Block | None:
        """Never a block: always None."""
        return None

    def moving_block(self) -> memory_blocks.Block | None:
        """Never a block: always None."""
        return None

    def addresses(self, shape: tuple[int, int]) -> Int64[Array, "rows cols"] | Int64[np.ndarray, "rows cols"]:
        """Places without a source have the address of the window's first element."""
        start, index = begin(self.offset, tuple(self.strides.values())), self._indices()
        further: Positions = np.int64(0)
        for name, i in index.items():
            further = further + distance(i, self.strides[name])
        inside, _ = self._kinds(index)
        where = inside * further + start
        placed: Array | np.ndarray = where.reshape(shape)
        return placed

    def filled(self, fetched: Words, old: Words) -> Words:
        """The tile's words: what the window has, zero to the end of a block of channels, else as before."""
        inside, written = (jnp.asarray(m).reshape(old.shape) for m in self._kinds(self._indices()))
        return jnp.where(inside, fetched, jnp.where(written, old.dtype.type(0), old))

    def _kinds(self, index: dict[str, Scalar]) -> tuple[Scalar, Scalar]:
        """Places with a source, and those in blocks of channels that have any."""
        blocks = np.int64(self.conv.shape[-1])
        channels = (wide(self.shape["c"]) + blocks - np.int64(1)) // blocks * blocks
        written: Scalar = index["c"] < channels
        for name in "ndhw":
            written = written & (index[name] < wide(self.shape[name]))
        return written & (index["c"] < wide(self.shape["c"])), written

    def _indices(self) -> dict[str, Scalar]:
        """What each element of the tile is, by the dimensions of the window."""
        letters, extents = _TILES[self.conv.layout], self.conv.shape
        numbers = np.unravel_index(np.arange(self.conv.elements, dtype=np.int64), extents)
        index: dict[str, Scalar] = dict.fromkeys("ncdhw", np.int64(0))
        index |= {n: i.astype(np.int64) for n, i in zip(letters, numbers, strict=True)}
        blocks = np.int64(extents[-1])
        if "k" in index:
            index["n"] = index.pop("N") * np.int64(extents[2]) + index["n"]
            sizes = {n: wide(memory_layouts.positive(self.shape[n])) for n in "chw"}
            sizes["C"] = (sizes["c"] + blocks - np.int64(1)) // blocks
            rest = index.pop("k")
            for name in ("w", "h", "C"):
                index[name], rest = rest % sizes[name], rest // sizes[name]
            index["d"] = rest
        index["c"] = index.pop("C") * blocks + index["c"]
        return index


def converted(view: View, layout: GlobalLayout, conv: Conv) -> Converted:
    """The window of a view in another layout than the tile's."""
    if layout not in _WINDOWS or conv.layout not in _TILES:
        message = f"layout {layout.name.lower()} into a {conv.layout.name.lower()} tile is not executed"
        raise NotExecutableError(Diagnostic("error", message))
    lead = memory_layouts.RANK - len(view.shape)
    names = _WINDOWS[layout]
    given = zip(names, (1,) * lead + view.shape, (0,) * lead + view.strides, strict=True)
    shape: dict[str, Scalar] = dict.fromkeys("gncdhw", 1)
    strides: dict[str, Scalar] = dict.fromkeys("gncdhw", 0)
    for name, extent, stride in given:
        shape[name], strides[name] = extent, stride
    return Converted(view.offset, shape, strides, conv)
