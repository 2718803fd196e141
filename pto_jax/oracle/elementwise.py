"""Elementwise tile-tile instructions of one operation."""

from __future__ import annotations

import numpy as np

from . import arithmetic as lane
from .step import lanewise

_PAIR = ("src0", "src1")

lanewise("tadd", _PAIR, lane.add)
lanewise("tsub", _PAIR, lane.subtract)
lanewise("tmul", _PAIR, lane.multiply)
lanewise("tdiv", _PAIR, lane.divide)
lanewise("tmax", _PAIR, lane.larger)
lanewise("tmin", _PAIR, lane.smaller)
lanewise("tand", _PAIR, lane.bitwise(np.bitwise_and))
lanewise("tor", _PAIR, lane.bitwise(np.bitwise_or))
lanewise("txor", _PAIR, lane.bitwise(np.bitwise_xor))
lanewise("tshl", _PAIR, lane.shift_left)
lanewise("tshr", _PAIR, lane.shift_right)
lanewise("trem", _PAIR, lane.floored_remainder)
lanewise("tfmod", _PAIR, lane.truncated_remainder)
lanewise("tpow", ("base", "exp"), lane.power)

lanewise("tabs", ("src",), lane.absolute)
lanewise("tneg", ("src",), lane.negate)
lanewise("tnot", ("src",), lane.bitwise(np.bitwise_not))
lanewise("trelu", ("src",), lane.relu)
lanewise("trecip", ("src",), lane.reciprocal)
lanewise("texp", ("src",), lane.precise(np.exp))
lanewise("tlog", ("src",), lane.precise(np.log))
lanewise("tsqrt", ("src",), lane.precise(np.sqrt))
lanewise("trsqrt", ("src",), lane.precise(lambda x: 1.0 / np.sqrt(x)))
