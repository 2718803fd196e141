"""Definedness of tile-scalar instructions."""

from __future__ import annotations

from ..ir.types import Loc
from ..oracle.numbers import decode
from .lanes import bit_by_bit, conjunction, disjunction, divided, lanewise, shifted
from .masks import compare, select
from .step import ShadowStep, shadow_rule, sharing

_sharing = sharing(__name__)
_sharing("tadds tsubs tmuls tmaxs tmins tlrelu taddsc tsubsc tpows taxpy", lanewise)
_sharing("tshls tshrs", shifted, "scalar")
_sharing("tands", conjunction, "src", "scalar")
_sharing("tors", disjunction, "src", "scalar")
_sharing("txors", bit_by_bit, "src", "scalar")
_sharing("tcmps", compare)


@shadow_rule("tdivs")
def _divide(step: ShadowStep) -> None:
    divided(step, [n for n in step.form if n in ("src", "scalar")][1])


@shadow_rule("trems", "tfmods")
def _remainder(step: ShadowStep) -> None:
    """The simulator leaves the destination alone when a float divisor is zero."""
    divisor = step.real.words("scalar")
    if step.policy.simulator and not step.is_integer() and not decode(divisor, step.dtype()).any():
        return
    divided(step, "scalar")


@shadow_rule("tsels")
def _select(step: ShadowStep) -> None:
    select(step, "src", "scalar", stream=False)


@shadow_rule("texpands")
def _expand_scalar(step: ShadowStep) -> None:
    whole = step.type().loc == Loc.MAT and not step.policy.simulator
    step.define(step.type().shape if whole else None)
