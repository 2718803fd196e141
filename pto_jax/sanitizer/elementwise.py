"""Definedness of elementwise tile-tile instructions of one operation."""

from __future__ import annotations

from .lanes import bit_by_bit, conjunction, disjunction, divided, lanewise, shifted
from .step import sharing

_sharing = sharing(__name__)
_sharing("tadd tsub tmul tmax tmin tpow tabs tneg trelu texp tlog tsqrt trsqrt", lanewise)
_sharing("tdiv trem tfmod", divided, "src1")
_sharing("trecip", divided, "src")
_sharing("tshl tshr", shifted, "src1")
_sharing("tand", conjunction, "src0", "src1")
_sharing("tor", disjunction, "src0", "src1")
_sharing("txor", bit_by_bit, "src0", "src1")
_sharing("tnot", bit_by_bit, "src")
