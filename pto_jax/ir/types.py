"""Types of values: tiles, pointers, views, scalars, convolution tiles, local arrays and structures.

A convolution tile is a flat buffer of the elements of a feature map or of filter weights: a :class:`TileType`
of one row whose field ``conv`` has the order of the elements (plain row-major over ``shape``) and the
parameters of the convolution for image-to-column.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..errors import ArgumentError
from .dtypes import DType, ElementType, dtype as find_element
from .enums import AddressSpace, BLayout, Compact, GlobalLayout, Loc, Pad, SLayout
from .registers import AlignType, MaskType, VRegType


@dataclass(frozen=True)
class LocalArrayType:
    """An array of scalars with constant extents."""

    dims: tuple[int, ...]
    dtype: DType

    @property
    def elements(self) -> int:
        """How many scalars it has."""
        return prod(self.dims)

    def __str__(self) -> str:
        return f"local_array<{'x'.join(map(str, self.dims))}x{self.dtype.name}>"


@dataclass(frozen=True)
class StructType:
    """A structure of scalars and of further structures."""

    fields: tuple[Field, ...]

    def leaves(self, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], DType]]:
        """Every scalar with the numbers of the fields that lead to it, in the order of the text.

        >>> from .dtypes import F32, I8
        >>> [path for path, _ in StructType((I8, StructType((F32, I8)))).leaves()]
        [(0,), (1, 0), (1, 1)]
        """
        for i, part in enumerate(self.fields):
            if isinstance(part, StructType):
                yield from part.leaves((*path, i))
            else:
                yield (*path, i), part

    def leaf(self, path: Sequence[object]) -> DType | None:
        """The scalar that a path of field numbers ends at, None where it ends elsewhere."""
        return dict(self.leaves()).get(tuple(n for n in path if isinstance(n, int)))

    def __str__(self) -> str:
        return f"struct<{', '.join(f.name if isinstance(f, DType) else str(f) for f in self.fields)}>"


Field: TypeAlias = "DType | StructType"


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
    'got filter=3; allowed: 2 sizes, as in filter=1x1'
    """
    values: dict[str, object] = {}
    for key, text in given.items():
        if key not in _KEYS:
            return f"got the unknown key '{key}'; allowed: {', '.join(_KEYS)}"
        if key in _COUNTS:
            parts, count = text.split("x"), _COUNTS[key]
            if len(parts) != count or not all(p.isdigit() and int(p) <= _LARGEST for p in parts):
                return f"got {key}={text}; allowed: {count} sizes, as in {key}={'x'.join('1' * count)}"
            values[key] = tuple(map(int, parts))
            continue
        number = _number(text)
        if number is None or not 0 <= number < 1 << 32:
            return f"got {key}={text}; allowed: a number of 32 bits"
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
    settings: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in params.split(","))):
        key, equal, value = (t.strip() for t in part.partition("="))
        if not equal or key in settings:
            return f"got '{part}'; allowed: key=value, each key once"
        settings[key] = value
    return read_geometry(settings)


LayoutName = Literal["ND", "DN", "NZ", "ZN", "ZZ", "NN"]
_LAYOUT_NAMES: dict[tuple[BLayout, SLayout], LayoutName] = {
    (BLayout.ROW_MAJOR, SLayout.NONE_BOX): "ND",
    (BLayout.COL_MAJOR, SLayout.NONE_BOX): "DN",
    (BLayout.COL_MAJOR, SLayout.ROW_MAJOR): "NZ",
    (BLayout.ROW_MAJOR, SLayout.COL_MAJOR): "ZN",
    (BLayout.ROW_MAJOR, SLayout.ROW_MAJOR): "ZZ",
    (BLayout.COL_MAJOR, SLayout.COL_MAJOR): "NN",
}
#: Kinds of the enumerations in a tile type.
_KINDS = (Loc, BLayout, SLayout, Pad, Compact)
#: Fractal sizes in bytes: matrix operands, accumulators, MX scales.
FRACTALS = (512, 1024, 32)

_ROWS, _COLS = BLayout.ROW_MAJOR, BLayout.COL_MAJOR
_ORDERS: dict[Loc, tuple[BLayout, SLayout, int]] = {
    Loc.MAT: (_COLS, SLayout.ROW_MAJOR, 512),
    Loc.LEFT: (_COLS, SLayout.ROW_MAJOR, 512),
    Loc.RIGHT: (_ROWS, SLayout.COL_MAJOR, 512),
    Loc.ACC: (_COLS, SLayout.ROW_MAJOR, 1024),
    Loc.SCALELEFT: (_ROWS, SLayout.ROW_MAJOR, 32),
    Loc.SCALERIGHT: (_COLS, SLayout.COL_MAJOR, 32),
}


def element_order(loc: Loc) -> tuple[BLayout, SLayout, int]:
    """The element order of a tile by its place alone: block order, order inside a box, bytes of a box.

    >>> element_order(Loc.ACC)[2], element_order(Loc.VEC)[1].name
    (1024, 'NONE_BOX')
    """
    return _ORDERS.get(loc, (_ROWS, SLayout.NONE_BOX, 512))


@dataclass(frozen=True)
class TileType:
    """Type of a tile: place, element type, physical shape, valid region and element order.

    ``v_row`` / ``v_col`` are the static valid sizes, or None when they are run-time values. ``conv`` is
    given for convolution tiles, which are flat: one row of as many columns as they have elements.
    The element type may also be given by its name, or as an array type. :func:`pto_jax.tile_type` takes
    names for everything, and knows the element order that a place asks for.

    >>> str(TileType("f16", 16, 64)), str(TileType("i32", 4, 8, v_col=5))
    ('vec 16x64xf16', 'vec 4x8xi32 valid 4x5')
    """

    dtype: DType
    rows: int
    cols: int
    v_row: int | None = -1
    v_col: int | None = -1
    loc: Loc = Loc.VEC
    blayout: BLayout = BLayout.ROW_MAJOR
    slayout: SLayout = SLayout.NONE_BOX
    fractal: int = 512
    pad: Pad = Pad.NULL
    compact: Compact = Compact.NULL
    conv: Conv | None = None

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - keywords
            self,
            dtype: ElementType,
            rows: int,
            cols: int,
            v_row: int | None = -1,
            v_col: int | None = -1,
            loc: Loc = Loc.VEC,
            blayout: BLayout = BLayout.ROW_MAJOR,
            slayout: SLayout = SLayout.NONE_BOX,
            fractal: int = 512,
            pad: Pad = Pad.NULL,
            compact: Compact = Compact.NULL,
            conv: Conv | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        value: object = self.dtype
        if not isinstance(value, DType):
            object.__setattr__(self, "dtype", find_element(value))
        kinds = (type(self.loc), type(self.blayout), type(self.slayout), type(self.pad), type(self.compact))
        if kinds != _KINDS or type(self.rows) is not int or type(self.cols) is not int:
            self._check()
        if self.v_row == -1:
            object.__setattr__(self, "v_row", self.rows)
        if self.v_col == -1:
            object.__setattr__(self, "v_col", self.cols)

    def _check(self) -> None:
        names = ("loc", "blayout", "slayout", "pad", "compact")
        for name, kind in zip(names, _KINDS, strict=True):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ArgumentError(
                    f"TileType: {name}: got {value!r}",
                    allowed=f"a member of {kind.__name__}; pto.tile_type takes names",
                )
        for name in ("rows", "cols"):
            try:
                object.__setattr__(self, name, operator.index(getattr(self, name)))
            except TypeError:
                value = getattr(self, name)
                raise ArgumentError(f"TileType: {name}: got {value!r}", allowed="an integer") from None

    @property
    def shape(self) -> tuple[int, int]:
        """Physical rows and columns."""
        return (self.rows, self.cols)

    @property
    def elements(self) -> int:
        """The number of physical elements."""
        return self.rows * self.cols

    @property
    def valid(self) -> tuple[int | None, int | None]:
        """Static valid rows and columns, None where they are run-time values."""
        return (self.v_row, self.v_col)

    @property
    def is_full(self) -> bool:
        """True when the whole physical tile is statically valid."""
        return self.valid == self.shape

    @property
    def is_static(self) -> bool:
        """Whether both valid sizes are static."""
        return self.v_row is not None and self.v_col is not None

    @property
    def boxed(self) -> bool:
        """Whether the elements are stored in boxes."""
        return self.slayout != SLayout.NONE_BOX

    @cached_property
    def layout(self) -> LayoutName:
        """The name of the element order."""
        return _LAYOUT_NAMES[self.blayout, self.slayout]

    @cached_property
    def box(self) -> tuple[int, int]:
        """Rows and columns of the inner box; (1, 1) when the tile is not boxed."""
        if not self.boxed:
            return (1, 1)
        row_inner = self.slayout == SLayout.ROW_MAJOR
        if self.fractal == 1024:
            return (16, 16)
        if self.fractal == 32:
            return (16, 2) if row_inner else (2, 16)
        c0 = 32 * 8 // self.dtype.word_bits
        return (16, c0) if row_inner else (c0, 16)

    @cached_property
    def stored_box(self) -> tuple[int, int]:
        """The box by which elements are stored: boxes in rows of a tile that is smaller are as small.

        >>> from pto_jax.ir import U8
        >>> TileType(U8, 32, 4, slayout=SLayout.ROW_MAJOR).stored_box
        (16, 4)
        """
        rows, cols = self.box
        in_rows = self.boxed and self.layout == "ZZ"
        return (min(rows, self.rows), min(cols, self.cols)) if in_rows else (rows, cols)

    @property
    def bytes(self) -> int:
        """Size of the stored tile in bytes."""
        return self.dtype.storage_bytes(self.elements)

    def with_valid(self, v_row: int | None, v_col: int | None) -> TileType:
        """The type with other valid sizes, None for run-time values."""
        return replace(self, v_row=v_row, v_col=v_col)

    def is_laid_out_as(self, other: TileType) -> bool:
        """Whether two types differ in valid regions and padding at most.

        >>> TileType("f32", 4, 8, v_col=5).is_laid_out_as(TileType("f32", 4, 8))
        True
        """
        return replace(self, v_row=other.v_row, v_col=other.v_col, pad=other.pad) == other

    def with_dtype(self, dtype: DType) -> TileType:
        """The type with another element type."""
        return replace(self, dtype=dtype)

    def __str__(self) -> str:
        def size(n: int | None) -> str:
            return "?" if n is None else str(n)

        if self.conv is not None:
            dims = "x".join(map(str, self.conv.shape))
            return f"{self.loc.name.lower()} {self.conv.layout.name} {dims}x{self.dtype.name}"
        text = f"{self.loc.name.lower()} {self.rows}x{self.cols}x{self.dtype.name}"
        if not self.is_full:
            text += f" valid {size(self.v_row)}x{size(self.v_col)}"
        if self.layout != "ND":
            text += f" {self.layout}"
        return text


def conv_tile(d: DType, conv: Conv, loc: Loc = Loc.MAT) -> TileType:
    """A convolution tile.

    >>> from pto_jax.ir import F32, GlobalLayout
    >>> str(conv_tile(F32, Conv(GlobalLayout.NC1HWC0, (1, 2, 3, 4, 8))))
    'mat NC1HWC0 1x2x3x4x8xf32'
    """
    return TileType(d, 1, conv.elements, loc=loc, conv=conv)


@dataclass(frozen=True)
class ScalarType:
    """A scalar: an element type, ``index`` or ``i1``.

    >>> import pto_jax as pto
    >>> str(pto.ScalarType(pto.dtype("f32")))
    'f32'
    """

    dtype: DType

    def __str__(self) -> str:
        return self.dtype.name


@dataclass(frozen=True)
class MultiTileType:
    """Several tiles of one type, the ``slots``, in a row; ``count`` is how many there are."""

    slot: TileType
    count: int

    def __str__(self) -> str:
        return f"multi tile of {self.count} x ({self.slot})"


@dataclass(frozen=True)
class PtrType:
    """Pointer into global memory or into another address space.

    ``written`` is how the text spells an element type that has several spellings (``si16``).

    >>> import pto_jax as pto
    >>> str(pto.ptr("f16")), pto.ptr("f16") == pto.PtrType(pto.dtype("f16"))
    ('ptr<f16>', True)
    """

    dtype: DType
    space: AddressSpace = AddressSpace.GM
    written: str = field(default="", compare=False, repr=False)

    @property
    def with_space(self) -> str:
        """The type with what it points into, as short forms of the text have it.

        >>> from pto_jax.ir import F32
        >>> PtrType(F32, AddressSpace.VEC).with_space
        'ptr<f32, ub>'
        """
        space = "ub" if self.space == AddressSpace.VEC else self.space.name.lower()
        return f"ptr<{self.dtype.name}, {space}>"

    def __str__(self) -> str:
        return f"ptr<{self.dtype.name}>"


@dataclass(frozen=True)
class TensorViewType:
    """A global tensor of rank 1 to 5; None marks a dimension known at run time."""

    dims: tuple[int | None, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"tensor_view<{dims_text(self.dims)}x{self.dtype.name}>"


@dataclass(frozen=True)
class PartitionViewType:
    """A window of a global tensor."""

    dims: tuple[int | None, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"partition_tensor_view<{dims_text(self.dims)}x{self.dtype.name}>"


@dataclass(frozen=True)
class MemRefType:
    """An MLIR memref: a local tile (space vec, mat ...) or a global buffer."""

    dims: tuple[int | None, ...]
    dtype: DType
    space: AddressSpace | None = None
    strides: tuple[int | None, ...] | None = None
    offset: int | None = 0

    def __str__(self) -> str:
        return f"memref<{dims_text(self.dims)}x{self.dtype.name}>"


@dataclass(frozen=True)
class VectorType:
    """A vector outside tile memory."""

    dims: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"vector<{dims_text(self.dims)}x{self.dtype.name}>"


@dataclass(frozen=True)
class OpaqueType:
    """A type without data of its own: ``!pto.pipe``, ``!pto.event<...>``, ``!pto.eventid_array<4>``."""

    name: str
    params: str = ""

    def __str__(self) -> str:
        return f"!pto.{self.name}" + (f"<{self.params}>" if self.params else "")


@dataclass(frozen=True)
class UnknownType:
    """A type the text leaves open; ``text`` is how it was written ("" where nothing was)."""

    text: str = field(default="", compare=True)
    kind: Literal["tile", "scalar", "any"] = "any"

    def __str__(self) -> str:
        return self.text or "<not given>"


#: Types of values that users give as arrays.
ArrayType: TypeAlias = PtrType | MemRefType | TensorViewType | PartitionViewType | TileType | VectorType
Type: TypeAlias = (
    TileType
    | ScalarType
    | PtrType
    | TensorViewType
    | PartitionViewType
    | MemRefType
    | VectorType
    | OpaqueType
    | UnknownType
    | MultiTileType
    | LocalArrayType
    | StructType
    | VRegType
    | MaskType
    | AlignType
)


def dims_text(dims: Iterable[int | None]) -> str:
    """Extents as types have them, ``?`` for those that only execution knows."""
    return "x".join("?" if d is None else str(d) for d in dims)


def element_offset(t: TileType, r: int, c: int) -> int:
    """Position of element (r, c) in the tile's storage, in elements.

    Boxes are ordered by ``blayout``, elements inside a box by ``slayout``.

    >>> from pto_jax.ir import F16
    >>> nz = TileType(F16, 32, 32, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)
    >>> element_offset(nz, 1, 0), element_offset(nz, 0, 16), element_offset(nz, 16, 0)
    (16, 512, 256)
    """
    if not t.boxed:
        pitch = t.cols + (1 if t.compact == Compact.ROW_PLUS_ONE else 0)
        return r * pitch + c if t.blayout == BLayout.ROW_MAJOR else c * t.rows + r
    ir, ic = t.stored_box
    inner = (r % ir) * ic + c % ic if t.slayout == SLayout.ROW_MAJOR else (c % ic) * ir + r % ir
    if t.blayout == BLayout.ROW_MAJOR:
        return (r // ir) * t.cols * ir + (c // ic) * ir * ic + inner
    return (c // ic) * t.rows * ic + (r // ir) * ir * ic + inner
