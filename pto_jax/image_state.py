"""The registers of image-to-column, as configuration instructions leave them."""

from __future__ import annotations

from dataclasses import dataclass, field

from .convolution import Geometry, Registers, read_config, registers
from .isa.modes import FmatrixMode
from .types import OpaqueType, TileType, Type

_AUTOMATIC = (FmatrixMode.FMATRIX_A_AUTO, FmatrixMode.FMATRIX_B_AUTO)


def _is_b(mode: FmatrixMode) -> bool:
    return mode in (FmatrixMode.FMATRIX_B_AUTO, FmatrixMode.FMATRIX_B_MANUAL)


@dataclass
class ImageState:
    """Sizes and paddings of the feature maps A and B, and the padding value of both; None: not loaded."""

    sizes: dict[bool, tuple[int, ...]] = field(default_factory=dict)
    pad_value: int | None = None

    def configure(self, instruction: str, mode: FmatrixMode, source: Type) -> None:
        """What setfmatrix or set_img2col_padding loads from a tile or a configuration.

        A configuration without the sizes of a feature map loads none.
        """
        loaded = _loaded(source)
        if mode in _AUTOMATIC or loaded is None:
            return
        if instruction == "setfmatrix" and loaded[0] and loaded[1]:
            self.sizes[_is_b(mode)] = loaded[:6]
        elif instruction == "set_img2col_padding":
            self.pad_value = loaded[6]

    def registers(self, mode: FmatrixMode, source: Type) -> Registers | None:
        """What an image-to-column of a feature map sees; automatic modes load its geometry first."""
        if not isinstance(source, TileType) or source.conv is None:
            return None
        own = registers(source.conv)
        if mode in _AUTOMATIC:
            self.sizes[_is_b(mode)], self.pad_value = own[:6], own[6]
        height, width, left, right, top, bottom = self.sizes.get(_is_b(mode), own[:6])
        value = own[6] if self.pad_value is None else self.pad_value
        return height, width, left, right, top, bottom, value


def _loaded(source: Type) -> Registers | None:
    """The registers that a source stands for, None where it carries no geometry."""
    if isinstance(source, TileType):
        return None if source.conv is None else registers(source.conv)
    geometry = read_config(source.params) if isinstance(source, OpaqueType) and source.params else ""
    if not isinstance(geometry, Geometry):
        return None
    height, width = geometry.fmap or (0, 0)
    return (height, width, *geometry.padding, geometry.pad_value)
