"""The registers of image-to-column, as configuration instructions leave them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..ir import FmatrixMode, Geometry, OpaqueType, Registers, TileType, Type, read_config, registers

_AUTOMATIC = (FmatrixMode.FMATRIX_A_AUTO, FmatrixMode.FMATRIX_B_AUTO)


def _is_b(mode: FmatrixMode) -> bool:
    return mode in (FmatrixMode.FMATRIX_B_AUTO, FmatrixMode.FMATRIX_B_MANUAL)


@dataclass(frozen=True)
class ImageState:
    """Sizes and paddings of the feature maps A and B, and the padding value of both; None: not loaded."""

    a: tuple[int, ...] | None = None
    b: tuple[int, ...] | None = None
    pad_value: int | None = None

    def configured(
        self, loads: Literal["sizes", "padding"] | None, mode: FmatrixMode, source: Type
    ) -> ImageState:
        """After the sizes of a feature map or the padding value are loaded from a tile or a configuration.

        A configuration without the sizes of a feature map loads none.
        """
        loaded = _loaded(source)
        if mode in _AUTOMATIC or loaded is None:
            return self
        if loads == "sizes" and loaded[0] and loaded[1]:
            return self._with_sizes(mode, loaded[:6])
        return replace(self, pad_value=loaded[6]) if loads == "padding" else self

    def _with_sizes(self, mode: FmatrixMode, sizes: tuple[int, ...]) -> ImageState:
        return replace(self, b=sizes) if _is_b(mode) else replace(self, a=sizes)

    def registers(self, mode: FmatrixMode, source: Type) -> tuple[ImageState, Registers | None]:
        """What an image-to-column of a feature map sees; automatic modes load its geometry first."""
        if not isinstance(source, TileType) or source.conv is None:
            return self, None
        own = registers(source.conv)
        loaded = replace(self._with_sizes(mode, own[:6]), pad_value=own[6]) if mode in _AUTOMATIC else self
        sizes = (loaded.b if _is_b(mode) else loaded.a) or own[:6]
        height, width, left, right, top, bottom = sizes
        value = own[6] if loaded.pad_value is None else loaded.pad_value
        return loaded, (height, width, left, right, top, bottom, value)


def _loaded(source: Type) -> Registers | None:
    """The registers that a source stands for, None where it carries no geometry."""
    if isinstance(source, TileType):
        return None if source.conv is None else registers(source.conv)
    geometry = read_config(source.params) if isinstance(source, OpaqueType) and source.params else ""
    if not isinstance(geometry, Geometry):
        return None
    height, width = geometry.fmap or (0, 0)
    return (height, width, *geometry.padding, geometry.pad_value)
