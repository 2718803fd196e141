"""Types of PTO values: tiles, global-memory pointers and views, scalars; and all enumerations.

Numeric values of the enumerations are those of the C++ headers; the ones the text form numbers
differently (address spaces, pipes) have their own classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Literal, TypeAlias

from .dtypes import DType


class Loc(IntEnum):
    """TileType of the C++ interface: which on-chip buffer a tile lives in."""

    VEC = 0
    MAT = 1
    LEFT = 2
    RIGHT = 3
    ACC = 4
    BIAS = 5
    SCALING = 6
    SCALELEFT = 7
    SCALERIGHT = 8
    CTRL = 9


class AddressSpace(IntEnum):
    """Address spaces as the text form numbers them."""

    ZERO = 0
    GM = 1
    MAT = 2
    LEFT = 3
    RIGHT = 4
    ACC = 5
    VEC = 6
    BIAS = 7
    SCALING = 8


class BLayout(IntEnum):
    ROW_MAJOR = 0
    COL_MAJOR = 1


class SLayout(IntEnum):
    NONE_BOX = 0
    ROW_MAJOR = 1
    COL_MAJOR = 2


class Pad(IntEnum):
    NULL = 0
    ZERO = 1
    MAX = 2
    MIN = 3


class Compact(IntEnum):
    NULL = 0
    NORMAL = 1
    ROW_PLUS_ONE = 2
    ROW_ALIGNED_PADDING = 3


class GlobalLayout(IntEnum):
    """Layouts of a global-memory view."""

    ND = 0
    DN = 1
    NZ = 2
    SCALE = 3
    MX_A_ND = 4
    MX_A_DN = 5
    MX_A_ZZ = 6
    MX_B_ND = 7
    MX_B_DN = 8
    MX_B_NN = 9
    HIF4_A_ZZ = 10
    HIF4_B_NN = 11
    NC1HWC0 = 12
    GNC1HWC0 = 13
    NCHW = 14
    GNCHW = 15
    NHWC = 16
    NDC1HWC0 = 17
    NCDHW = 18
    FRACTAL_Z = 19
    FRACTAL_Z_S16S8 = 20
    FRACTAL_Z_3D = 21


class RoundMode(IntEnum):
    NONE = 0
    RINT = 1
    ROUND = 2
    FLOOR = 3
    CEIL = 4
    TRUNC = 5
    ODD = 6


class SaturationMode(IntEnum):
    ON = 0
    OFF = 1


class CmpMode(IntEnum):
    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5


class Precision(IntEnum):
    DEFAULT = 0
    HIGH_PRECISION = 1


class MaskPattern(IntEnum):
    P0101 = 1
    P1010 = 2
    P0001 = 3
    P0010 = 4
    P0100 = 5
    P1000 = 6
    P1111 = 7


class GatherAxis(IntEnum):
    """What a masked gather packs: elements of a row, or whole rows."""

    GATHER_ROW = 0
    GATHER_COL = 1


class ScatterAxis(IntEnum):
    """What a masked scatter spreads: elements of a row, or whole rows."""

    SCATTER_ROW = 0
    SCATTER_COL = 1


class HistByte(IntEnum):
    """The byte of an element that a histogram counts; 0 is the lowest."""

    BYTE_0 = 0
    BYTE_1 = 1
    BYTE_2 = 2
    BYTE_3 = 3


class QuantType(IntEnum):
    MXFP8 = 0
    MXFP4_E2M1 = 1
    INT8_SYM = 2
    INT8_ASYM = 3


class MxQuantAlg(IntEnum):
    """Element format and shared-exponent rule of block-scaled quantisation."""

    OCP_MX_FP8_E4M3 = 0
    NV_MX_FP8_E4M3 = 1
    OCP_MX_FP4_E2M1 = 2
    NV_MX_FP4_E2M1 = 3
    HIF4 = 4


class PrintFormat(IntEnum):
    """Field width and digits after the point of printed floats."""

    WIDTH8_PRECISION4 = 0
    WIDTH8_PRECISION2 = 1
    WIDTH10_PRECISION6 = 2


class AtomicType(IntEnum):
    ATOMIC_NONE = 0
    ATOMIC_ADD = 1


class ReluPreMode(IntEnum):
    NO_RELU = 0
    NORMAL_RELU = 1


class AccToVecMode(IntEnum):
    SINGLE_MODE_VEC0 = 0
    SINGLE_MODE_VEC1 = 1
    DUAL_MODE_SPLIT_M = 2
    DUAL_MODE_SPLIT_N = 3


class StPhase(IntEnum):
    UNSPECIFIED = 0
    PARTIAL = 2
    FINAL = 3


class AccPhase(IntEnum):
    """When a multiplication hands its accumulator over to the stores."""

    UNSPECIFIED = 0
    PARTIAL = 2
    FINAL = 3


class Pipe(IntEnum):
    """Pipelines as the text form numbers them (the simulator's own numbers differ)."""

    S = 0
    V = 1
    M = 2
    MTE1 = 3
    MTE2 = 4
    MTE3 = 5
    ALL = 6
    MTE4 = 7
    MTE5 = 8
    V2 = 9
    FIX = 10


class PipeEventType(IntEnum):
    """End points of high-level events."""

    TLOAD = 0
    TSTORE_ACC = 1
    TSTORE_VEC = 2
    TMOV_M2L = 3
    TMOV_M2S = 4
    TMOV_M2B = 5
    TMOV_M2V = 6
    TMOV_V2M = 7
    TMATMUL = 8
    TVEC = 9
    TVECWAIT_EVENT = 10


class KernelKind(IntEnum):
    CUBE = 0
    VECTOR = 1


LayoutName = Literal["ND", "DN", "NZ", "ZN", "ZZ", "NN"]
_LAYOUT_NAMES: dict[tuple[BLayout, SLayout], LayoutName] = {
    (BLayout.ROW_MAJOR, SLayout.NONE_BOX): "ND",
    (BLayout.COL_MAJOR, SLayout.NONE_BOX): "DN",
    (BLayout.COL_MAJOR, SLayout.ROW_MAJOR): "NZ",
    (BLayout.ROW_MAJOR, SLayout.COL_MAJOR): "ZN",
    (BLayout.ROW_MAJOR, SLayout.ROW_MAJOR): "ZZ",
    (BLayout.COL_MAJOR, SLayout.COL_MAJOR): "NN",
}
#: Fractal sizes in bytes: matrix operands, accumulators, MX scales.
FRACTALS = (512, 1024, 32)
#: Stands for a valid size known only at run time (``?`` in the text).
DYNAMIC = None


@dataclass(frozen=True)
class TileType:
    """Type of a tile: place, element type, physical shape, valid region and element order.

    ``v_row`` / ``v_col`` are the static valid sizes, or None when they are run-time values.
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

    def __post_init__(self) -> None:
        if self.v_row == -1:
            object.__setattr__(self, "v_row", self.rows)
        if self.v_col == -1:
            object.__setattr__(self, "v_col", self.cols)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.rows, self.cols)

    @property
    def elements(self) -> int:
        return self.rows * self.cols

    @property
    def valid(self) -> tuple[int | None, int | None]:
        return (self.v_row, self.v_col)

    @property
    def is_full(self) -> bool:
        """True when the whole physical tile is statically valid."""
        return self.valid == self.shape

    @property
    def is_static(self) -> bool:
        return self.v_row is not None and self.v_col is not None

    @property
    def boxed(self) -> bool:
        return self.slayout != SLayout.NONE_BOX

    @cached_property
    def layout(self) -> LayoutName:
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

    @property
    def bytes(self) -> int:
        """Size of the stored tile in bytes."""
        return self.dtype.storage_bytes(self.elements)

    def with_valid(self, v_row: int | None, v_col: int | None) -> TileType:
        return replace(self, v_row=v_row, v_col=v_col)

    def with_dtype(self, dtype: DType) -> TileType:
        return replace(self, dtype=dtype)

    def __str__(self) -> str:
        def size(n: int | None) -> str:
            return "?" if n is None else str(n)

        text = f"{self.loc.name.lower()} {self.rows}x{self.cols}x{self.dtype.name}"
        if not self.is_full:
            text += f" valid {size(self.v_row)}x{size(self.v_col)}"
        if self.layout != "ND":
            text += f" {self.layout}"
        return text


@dataclass(frozen=True)
class ScalarType:
    """A scalar: an element type, ``index`` or ``i1``."""

    dtype: DType

    def __str__(self) -> str:
        return self.dtype.name


@dataclass(frozen=True)
class PtrType:
    """Pointer into global memory (or, on ISA pages, into another address space)."""

    dtype: DType
    space: AddressSpace = AddressSpace.GM

    def __str__(self) -> str:
        return f"ptr<{self.dtype.name}>"


@dataclass(frozen=True)
class TensorViewType:
    """A global tensor of rank 1 to 5; None marks a dimension known at run time."""

    dims: tuple[int | None, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"tensor_view<{_dims(self.dims)}x{self.dtype.name}>"


@dataclass(frozen=True)
class PartitionViewType:
    """A window of a global tensor."""

    dims: tuple[int | None, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"partition_tensor_view<{_dims(self.dims)}x{self.dtype.name}>"


@dataclass(frozen=True)
class MemRefType:
    """An MLIR memref: a local tile (space vec, mat ...) or a global buffer."""

    dims: tuple[int | None, ...]
    dtype: DType
    space: AddressSpace | None = None
    strides: tuple[int | None, ...] | None = None
    offset: int | None = 0

    def __str__(self) -> str:
        return f"memref<{_dims(self.dims)}x{self.dtype.name}>"


@dataclass(frozen=True)
class VectorType:
    dims: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"vector<{_dims(self.dims)}x{self.dtype.name}>"


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
)
ViewType: TypeAlias = TensorViewType | PartitionViewType


def _dims(dims: tuple[int | None, ...]) -> str:
    return "x".join("?" if d is None else str(d) for d in dims)


def element_offset(t: TileType, r: int, c: int) -> int:
    """Position of element (r, c) in the tile's storage, in elements.

    Boxes are ordered by ``blayout``, elements inside a box by ``slayout``.

    >>> from pto_jax.dtypes import F16
    >>> nz = TileType(F16, 32, 32, blayout=BLayout.COL_MAJOR, slayout=SLayout.ROW_MAJOR)
    >>> element_offset(nz, 1, 0), element_offset(nz, 0, 16), element_offset(nz, 16, 0)
    (16, 512, 256)
    """
    if not t.boxed:
        pitch = t.cols + (1 if t.compact == Compact.ROW_PLUS_ONE else 0)
        return r * pitch + c if t.blayout == BLayout.ROW_MAJOR else c * t.rows + r
    ir, ic = t.box
    inner = (r % ir) * ic + c % ic if t.slayout == SLayout.ROW_MAJOR else (c % ic) * ir + r % ir
    if t.blayout == BLayout.ROW_MAJOR:
        return (r // ir) * t.cols * ir + (c // ic) * ir * ic + inner
    return (c // ic) * t.rows * ic + (r // ir) * ir * ic + inner
