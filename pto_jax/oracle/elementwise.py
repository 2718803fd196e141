"""Elementwise tile-tile instructions of one operation."""

import numpy as np

from ..ir import Precision
from ..isa.common import divides_in_software
from . import arithmetic as lane
from .step import Lane, Step, lanewise, rule

_PAIR = ("src0", "src1")
_lanewise = lanewise(__name__)

_lanewise("tadd", _PAIR, lane.add)
_lanewise("tsub", _PAIR, lane.subtract)
_lanewise("tmul", _PAIR, lane.multiply)
_lanewise("tmax", _PAIR, lane.larger)
_lanewise("tmin", _PAIR, lane.smaller)
_lanewise("tand", _PAIR, lane.bitwise(np.bitwise_and))
_lanewise("tor", _PAIR, lane.bitwise(np.bitwise_or))
_lanewise("txor", _PAIR, lane.bitwise(np.bitwise_xor))
_lanewise("tshl", _PAIR, lane.shift_left)
_lanewise("tshr", _PAIR, lane.shift_right)
_lanewise("tfmod", _PAIR, lane.truncated_remainder)
_lanewise("tpow", ("base", "exp"), lane.power)

_lanewise("tabs", ("src",), lane.absolute)
_lanewise("tneg", ("src",), lane.negate)
_lanewise("tnot", ("src",), lane.bitwise(np.bitwise_not))
_lanewise("trelu", ("src",), lane.relu)
_lanewise("texp", ("src",), lane.precise(np.exp))
_lanewise("tlog", ("src",), lane.precise(np.log))
_lanewise("tsqrt", ("src",), lane.precise(np.sqrt))
_ROOT = lane.precise(np.sqrt)
_RECIPROCAL_ROOT = lane.precise(lambda x: 1.0 / np.sqrt(x))


@rule("trsqrt")
def _trsqrt(step: Step) -> None:
    """The precise form of a5 rounds the root and then its reciprocal."""
    d, x = step.dtype(), step.words("src")
    if step.policy.profile.name == "a5" and step.attrs.get("precision") == Precision.HIGH_PRECISION:
        step.store(lane.reciprocal(d, _ROOT(d, x)))
    else:
        step.store(_RECIPROCAL_ROOT(d, x))


def _dividing(name: str, sources: tuple[str, ...], compute: Lane, routine: Lane) -> None:
    @rule(name)
    def execute(step: Step) -> None:
        """Of integers that a profile divides by a routine, the routine's result."""
        d = step.dtype()
        chosen = routine if divides_in_software(step.policy.profile.name, d) else compute
        step.store(chosen(d, *(step.words(n) for n in sources)))


_dividing("tdiv", _PAIR, lane.divide, lane.routine_divide)
_dividing("trem", _PAIR, lane.floored_remainder, lane.routine_remainder)
_dividing("trecip", ("src",), lane.reciprocal, lane.routine_reciprocal)
