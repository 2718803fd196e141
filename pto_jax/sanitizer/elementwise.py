"""Definedness of elementwise tile-tile instructions of one operation."""

from __future__ import annotations

from .lanes import bit_by_bit, conjunction, disjunction, divided, lanewise, shifted
from .step import ShadowStep, shadow_rule

_PLAIN = "tadd tsub tmul tmax tmin tpow tabs tneg trelu texp tlog tsqrt trsqrt".split()


@shadow_rule(*_PLAIN)
def _lanes(step: ShadowStep) -> None:
    lanewise(step)


@shadow_rule("tdiv", "trem", "tfmod")
def _divide(step: ShadowStep) -> None:
    divided(step, "src1")


@shadow_rule("trecip")
def _reciprocal(step: ShadowStep) -> None:
    divided(step, "src")


@shadow_rule("tshl", "tshr")
def _shift(step: ShadowStep) -> None:
    shifted(step, "src1")


@shadow_rule("tand")
def _and(step: ShadowStep) -> None:
    conjunction(step, "src0", "src1")


@shadow_rule("tor")
def _or(step: ShadowStep) -> None:
    disjunction(step, "src0", "src1")


@shadow_rule("txor")
def _xor(step: ShadowStep) -> None:
    bit_by_bit(step, "src0", "src1")


@shadow_rule("tnot")
def _not(step: ShadowStep) -> None:
    bit_by_bit(step, "src")
