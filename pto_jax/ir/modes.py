"""Enumerations of configuration, pipes and communication; the values are those of the C++ headers."""

from enum import IntEnum
from typing import NamedTuple


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
