"""Convolution tiles: flat buffers that hold the elements of a feature map or of filter weights.

A convolution tile is a :class:`~pto_jax.ir.types.TileType` of one row whose field ``conv`` says how the
elements are ordered (plain row-major over ``shape``) and what image-to-column is told about the
convolution.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod

from .dtypes import DType
from .enums import GlobalLayout

#: Number of dimensions a convolution tile may have, per layout.
CONV_RANKS: Mapping[GlobalLayout, tuple[int, ...]] = {
    GlobalLayout.NCHW: (4,),
    GlobalLayout.GNCHW: (5,),
    GlobalLayout.NCDHW: (5,),
    GlobalLayout.NC1HWC0: (5,),
    GlobalLayout.GNC1HWC0: (6,),
    GlobalLayout.NDC1HWC0: (6,),
    GlobalLayout.FRACTAL_Z: (4, 5),
    GlobalLayout.FRACTAL_Z_3D: (4,),
}
#: Layouts whose last dimension is a block of channels.
BLOCKED = (
    GlobalLayout.NC1HWC0,
    GlobalLayout.GNC1HWC0,
    GlobalLayout.NDC1HWC0,
    GlobalLayout.FRACTAL_Z,
    GlobalLayout.FRACTAL_Z_3D,
)
_LARGEST = (1 << 16) - 1


def block_channels(d: DType) -> int:
    """Channels of one 32-byte block (C0).

    >>> from pto_jax.ir import F16, F4E2M1
    >>> block_channels(F16), block_channels(F4E2M1)
    (16, 64)
    """
    return 256 // d.storage_bits


@dataclass(frozen=True, slots=True)
class Geometry:
    """What image-to-column needs to know of a convolution.

    Pairs are (height, width); ``padding`` is left, right, top, bottom; ``fmap`` None means the sizes of
    the tile; ``pad_value`` is the word of taps outside the image; ``channels`` 0 means all of them;
    ``repeat`` is stride, count, mode.
    """

    fmap: tuple[int, int] | None = None
    filter: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    channels: int = 0
    repeat: tuple[int, int, int] = (0, 1, 0)


@dataclass(frozen=True, slots=True)
class Conv:
    """Layout, dimensions and geometry of a convolution tile."""

    layout: GlobalLayout
    shape: tuple[int, ...]
    geometry: Geometry = Geometry()

    @property
    def elements(self) -> int:
        """The number of elements of the tile."""
        return prod(self.shape)

    @property
    def image(self) -> tuple[int, int]:
        """Height and width of the feature map the tile holds."""
        inner = self.shape[:-1] if self.layout in BLOCKED else self.shape
        return inner[-2], inner[-1]


#: State of image-to-column: height, width, left, right, top, bottom padding, word of outside taps.
Registers = tuple[int, int, int, int, int, int, int]


def registers(conv: Conv) -> Registers:
    """What the registers of image-to-column hold once they are loaded from a tile.

    >>> registers(Conv(GlobalLayout.NC1HWC0, (1, 2, 3, 4, 8), Geometry(padding=(1, 1, 0, 0))))
    (3, 4, 1, 1, 0, 0, 0)
    """
    g = conv.geometry
    height, width = g.fmap or conv.image
    return (height, width, *g.padding, g.pad_value)


def geometry_text(g: Geometry) -> list[str]:
    """The parameters of a geometry that differ from the defaults, as ``key=value``.

    >>> geometry_text(Geometry(filter=(3, 3), pad_value=0x3C00))
    ['filter=3x3', 'pad_value=0x3c00']
    """
    plain, parts = Geometry(), []
    for name in _KEYS:
        value = getattr(g, name)
        if value == getattr(plain, name):
            continue
        if isinstance(value, tuple):
            parts.append(f"{name}={'x'.join(map(str, value))}")
        else:
            parts.append(f"{name}={value:#x}" if name == "pad_value" else f"{name}={value}")
    return parts


_KEYS = tuple(f.name for f in fields(Geometry))
_COUNTS = {"fmap": 2, "filter": 2, "stride": 2, "dilation": 2, "padding": 4, "repeat": 3}


def read_geometry(given: Mapping[str, str]) -> Geometry | str:
    """A geometry from its parameters as text, or what is wrong with them.

    >>> read_geometry({"filter": "3x3", "padding": "1x1x1x1"}).padding
    (1, 1, 1, 1)
    >>> read_geometry({"filter": "3"})
    'found filter=3; allowed: 2 sizes, as in filter=1x1'
    """
    values: dict[str, object] = {}
    for key, text in given.items():
        if key not in _KEYS:
            return f"found the unknown key '{key}'; allowed: {', '.join(_KEYS)}"
        if key in _COUNTS:
            parts, count = text.split("x"), _COUNTS[key]
            if len(parts) != count or not all(p.isdigit() and int(p) <= _LARGEST for p in parts):
                return f"found {key}={text}; allowed: {count} sizes, as in {key}={'x'.join('1' * count)}"
            values[key] = tuple(map(int, parts))
            continue
        number = _number(text)
        if number is None or not 0 <= number < 1 << 32:
            return f"found {key}={text}; allowed: a number of 32 bits"
        values[key] = number
    return Geometry(**values)  # type: ignore[arg-type]


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def read_config(params: str) -> Geometry | str:
    """The geometry that the parameters of ``!pto.fmatrix_config<...>`` give.

    >>> read_config("fmap=4x5, pad_value=7").fmap
    (4, 5)
    """
    given: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in params.split(","))):
        key, equal, value = (t.strip() for t in part.partition("="))
        if not equal or key in given:
            return f"found '{part}'; allowed: key=value, each key once"
        given[key] = value
    return read_geometry(given)
