"""Definedness of tile-scalar instructions."""

from ..ir import Loc
from ..oracle.numbers import decode
from .lanes import bit_by_bit, conjunction, disjunction, divided, lanewise, shifted
from .masks import compare, select
from .step import ShadowStep, shadow_rule

shadow_rule(*"tadds tsubs tmuls tmaxs tmins tlrelu taddsc tsubsc tpows taxpy".split())(
    lambda step: lanewise(step)
)
shadow_rule("tshls", "tshrs")(lambda step: shifted(step, "scalar"))
shadow_rule("tands")(lambda step: conjunction(step, "src", "scalar"))
shadow_rule("tors")(lambda step: disjunction(step, "src", "scalar"))
shadow_rule("txors")(lambda step: bit_by_bit(step, "src", "scalar"))
shadow_rule("tcmps")(lambda step: compare(step))


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
