"""Enumerations of the tile ISA, with the numeric values of the C++ headers.

Address spaces and pipes have other numbers in the text form and therefore their own classes.
"""

from enum import IntEnum
from typing import NamedTuple


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


#: Names of the hardware's buffers for the memories of tiles.
BUFFERS = {"L0A": "left", "L0B": "right", "L0C": "acc", "L1": "mat", "UB": "vec", "BT": "bias"}


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
    """Order of a tile's elements, or of its boxes where it is boxed."""

    ROW_MAJOR = 0
    COL_MAJOR = 1


class SLayout(IntEnum):
    """Order of the elements inside a box; ``NONE_BOX`` where a tile is not boxed."""

    NONE_BOX = 0
    ROW_MAJOR = 1
    COL_MAJOR = 2


class Pad(IntEnum):
    """Value that pads a tile: none asked for, zero, or the element type's largest or smallest value."""

    NULL = 0
    ZERO = 1
    MAX = 2
    MIN = 3


class Compact(IntEnum):
    """How the rows of a tile are padded in storage; ``ROW_PLUS_ONE``: by one element each."""

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
    """Rounding of a conversion; ``RINT`` is to nearest even, ``ROUND`` to nearest away from zero."""

    NONE = 0
    RINT = 1
    ROUND = 2
    FLOOR = 3
    CEIL = 4
    TRUNC = 5
    ODD = 6


class SaturationMode(IntEnum):
    """Whether a conversion clamps values outside the range of its result."""

    ON = 0
    OFF = 1


class CmpMode(IntEnum):
    """Comparisons of two values."""

    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5


class Precision(IntEnum):
    """Variants of an instruction that differ in precision."""

    DEFAULT = 0
    HIGH_PRECISION = 1


class MaskPattern(IntEnum):
    """Positions that a mask keeps, repeated along a row; the last digit stands for the first position."""

    P0101 = 1
    P1010 = 2
    P0001 = 3
    P0010 = 4
    P0100 = 5
    P1000 = 6
    P1111 = 7


class AtomicType(IntEnum):
    """Whether a store replaces the elements in global memory or adds to them."""

    ATOMIC_NONE = 0
    ATOMIC_ADD = 1


class ReluPreMode(IntEnum):
    """Whether what leaves an accumulator is clamped at zero first."""

    NO_RELU = 0
    NORMAL_RELU = 1


class AccToVecMode(IntEnum):
    """Which vector core receives an accumulator: one of the two, or a half of its rows or columns each."""

    SINGLE_MODE_VEC0 = 0
    SINGLE_MODE_VEC1 = 1
    DUAL_MODE_SPLIT_M = 2
    DUAL_MODE_SPLIT_N = 3


class StPhase(IntEnum):
    """Phase of a store from an accumulator; values do not depend on it."""

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
    """The kind of core that executes a kernel."""

    CUBE = 0
    VECTOR = 1


class AccPhase(IntEnum):
    """When a multiplication hands its accumulator over to the stores."""

    UNSPECIFIED = 0
    PARTIAL = 2
    FINAL = 3


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
    """Results of quantisation: block-scaled formats, or i8 without and u8 with a zero point."""

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


class QuantScaleAlg(IntEnum):
    """Shared-exponent rule of block-scaled quantisation."""

    OCP = 0
    NV = 1


class VecStoreMode(IntEnum):
    """The order in which a vector core stores a result: row by row, or in columns of boxes."""

    ND = 0
    NZ = 1


class MxGroupAxis(IntEnum):
    """The axis along which elements share an exponent: down the columns, or along the rows."""

    AXIS0 = 0
    AXIS1 = 1


class PrintFormat(IntEnum):
    """Field width and digits after the point of printed floats."""

    WIDTH8_PRECISION4 = 0
    WIDTH8_PRECISION2 = 1
    WIDTH10_PRECISION6 = 2


class Coalesce(IntEnum):
    """What one index of an indexed transfer picks: a row of the table, or an element."""

    ROW = 0
    ELEM = 1


class GatherOob(IntEnum):
    """What an indexed load does with an index outside the table."""

    UNDEFINED = 0
    CLAMP = 1
    WRAP = 2
    ZERO = 3


class ScatterOob(IntEnum):
    """What an indexed store does with an index outside the table."""

    UNDEFINED = 0
    SKIP = 1
    CLAMP = 2
    WRAP = 3


class ScatterAtomicOp(IntEnum):
    """How an indexed store combines with the table's element."""

    NONE = 0
    ADD = 1
    MAX = 2
    MIN = 3


class ScatterConflict(IntEnum):
    """Which element stays when several are stored to one place."""

    LAST = 0
    DEFAULT = 1


class FmatrixMode(IntEnum):
    """Feature-map register; only the manual ones are written."""

    FMATRIX_A_AUTO = 0
    FMATRIX_B_AUTO = 1
    FMATRIX_A_MANUAL = 2
    FMATRIX_B_MANUAL = 3


class CoreType(IntEnum):
    """Cores that take part in a barrier."""

    AIV_ONLY = 0
    AIC_ONLY = 1
    MIX = 2


class SyncMode(IntEnum):
    """Barrier by hardware flags, or by polling a counter in global memory."""

    HARD = 0
    SOFT = 1


class DmaEngine(IntEnum):
    """Engine of an asynchronous copy."""

    SDMA = 0
    URMA = 1
    RDMA = 2


class CollectiveEngine(IntEnum):
    """Engine of a collective."""

    AIV = 0
    CCU = 1


class NotifyOp(IntEnum):
    """How a remote flag changes."""

    ATOMIC_ADD = 0
    SET = 1


class WaitCmp(IntEnum):
    """Comparison of a flag; numbered differently from the comparisons of tiles."""

    EQ = 0
    NE = 1
    GT = 2
    GE = 3
    LT = 4
    LE = 5


class ReduceOp(IntEnum):
    """Operation of a reduction over processors."""

    SUM = 0
    MAX = 1
    MIN = 2


class GridDirection(IntEnum):
    """Neighbour of a core in the grid; the source of a received tile."""

    EAST = 0
    WEST = 1
    NORTH = 2
    SOUTH = 3
    SOURCE = 4


class GridSpan(IntEnum):
    """Cores that a broadcast in the grid reaches; none for a push to one neighbour."""

    NONE = 0
    ROW = 1
    COL = 2


class PushLayout(IntEnum):
    """Order of the elements in which an accumulator comes out of a pipe."""

    NZ2ND = 0
    NZ2DN = 1
    NZ2NZ = 2


class PushQuant(IntEnum):
    """How the elements of an accumulator are converted on their way into a pipe."""

    NO_CONVERT = 0
    F32_F16 = 1
    F32_BF16 = 2
    REQ8_SCALAR = 3
    REQ8_VEC = 4
    DEQF16_SCALAR = 5
    DEQF16_VEC = 6
    QF322B8_PRE_SCALAR = 7
    QF322B8_PRE_VEC = 8
    QF322F16_PRE_SCALAR = 9
    QF322BF16_PRE_SCALAR = 10
    QS322BF16_PRE_SCALAR = 11
    QS322BF16_PRE_VEC = 12
    QF322HIF8_PRE_SCALAR = 13
    QF322FP8_PRE_SCALAR = 14


class PushRelu(IntEnum):
    """What becomes of negative elements on their way into a pipe."""

    NO_RELU = 0
    NORMAL_RELU = 1


class AccPushEpilogue(NamedTuple):
    """What a pipe does to the accumulators that are pushed into it."""

    layout: PushLayout
    quant: PushQuant
    relu: PushRelu


class FenceScope(IntEnum):
    """Memory whose writes a fence completes."""

    GM = 0
    LOCAL_MEMORY = 1
    ALL = 2
