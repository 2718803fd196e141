"""Definedness of elementwise tile-tile instructions of one operation."""

from .lanes import bit_by_bit, conjunction, disjunction, divided, lanewise, shifted
from .step import shadow_rule

shadow_rule(*"tadd tsub tmul tmax tmin tpow tabs tneg trelu texp tlog tsqrt trsqrt".split())(
    lambda step: lanewise(step)
)
shadow_rule("tdiv", "trem", "tfmod")(lambda step: divided(step, "src1"))
shadow_rule("trecip")(lambda step: divided(step, "src"))
shadow_rule("tshl", "tshr")(lambda step: shifted(step, "src1"))
shadow_rule("tand")(lambda step: conjunction(step, "src0", "src1"))
shadow_rule("tor")(lambda step: disjunction(step, "src0", "src1"))
shadow_rule("txor")(lambda step: bit_by_bit(step, "src0", "src1"))
shadow_rule("tnot")(lambda step: bit_by_bit(step, "src"))
