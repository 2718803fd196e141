"""Elementwise tile-tile instructions of one operation."""

from __future__ import annotations

import numpy as np

from . import arithmetic as lane
from .step import lanewise

_PAIR = ("src0", "src1")
_lanewise = lanewise(__name__)

_lanewise("tadd", _PAIR, lane.add)
_lanewise("tsub", _PAIR, lane.subtract)
_lanewise("tmul", _PAIR, lane.multiply)
_lanewise("tdiv", _PAIR, lane.divide)
_lanewise("tmax", _PAIR, lane.larger)
_lanewise("tmin", _PAIR, lane.smaller)
_lanewise("tand", _PAIR, lane.bitwise(np.bitwise_and))
_lanewise("tor", _PAIR, lane.bitwise(np.bitwise_or))
_lanewise("txor", _PAIR, lane.bitwise(np.bitwise_xor))
_lanewise("tshl", _PAIR, lane.shift_left)
_lanewise("tshr", _PAIR, lane.shift_right)
_lanewise("trem", _PAIR, lane.floored_remainder)
_lanewise("tfmod", _PAIR, lane.truncated_remainder)
_lanewise("tpow", ("base", "exp"), lane.power)

_lanewise("tabs", ("src",), lane.absolute)
_lanewise("tneg", ("src",), lane.negate)
_lanewise("tnot", ("src",), lane.bitwise(np.bitwise_not))
_lanewise("trelu", ("src",), lane.relu)
_lanewise("trecip", ("src",), lane.reciprocal)
_lanewise("texp", ("src",), lane.precise(np.exp))
_lanewise("tlog", ("src",), lane.precise(np.log))
_lanewise("tsqrt", ("src",), lane.precise(np.sqrt))
_lanewise("trsqrt", ("src",), lane.precise(lambda x: 1.0 / np.sqrt(x)))
