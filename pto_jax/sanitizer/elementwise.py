"""Rules of undefined bits of elementwise instructions, comparisons, selections and conversions."""

import numpy as np

from ..ir import Loc
from ..oracle.numbers import decode
from ..oracle.step import places_in_rows, places_in_stream, selected, write_rows, write_stream
from . import shadow
from .shadow import all_bits
from .step import ShadowStep, bit_by_bit, conjunction, disjunction, divided, lanewise, shadow_rule, shifted


def compare(step: ShadowStep) -> None:
    """A bit of the mask per lane; one origin serves all bits of a mask."""
    region = step.valid("src0")
    origin_ids = np.broadcast_to(step.all_sources(region), region)
    marked, scalar = step.marked(origin_ids), not step.is_tile("src1")
    if step.policy.simulator and scalar:
        t = step.type("src0")
        bits = np.zeros(t.shape, np.bool_)
        bits[: region[0], : region[1]] = origin_ids != 0
        write_stream(marked, bits, t.cols)
    else:
        write_rows(marked, origin_ids != 0, clear=step.policy.simulator)


def select(step: ShadowStep, yes: str, no: str, stream: bool) -> None:
    """A lane takes the definedness of the choice it makes, if that is defined.

    ``stream`` says that the bits of the mask follow each other across the ends of rows.
    """
    places = (places_in_stream if stream else places_in_rows)(step)
    rows, cols, bit = places
    chosen = selected(step.real, places)
    mask = step.bits("mask", rows, cols)
    unknown = (mask >> bit.astype(mask.dtype)) & 1 == 1
    words = np.where(chosen, step.bits_over(yes), step.bits_over(no))
    origin_ids = np.where(chosen, step.raw(yes), step.raw(no))
    d = step.dtype()
    step.put_bits(
        np.where(unknown, d.word.type(all_bits(d)), words),
        np.where(unknown, step.gather("mask", rows, cols), origin_ids),
    )


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


shadow_rule(*"tprelu tsubrelu tmuladddst tfusedmuladd tfusedmuladdrelu taddc tsubc".split())(
    lambda step: lanewise(step)
)
shadow_rule("taddrelu", "taddreluconv", "tsubreluconv", "tadddeqrelu")(lambda step: lanewise(step))


@shadow_rule("tcmp")
def _compare(step: ShadowStep) -> None:
    compare(step)


@shadow_rule("tsel")
def _select(step: ShadowStep) -> None:
    select(step, "src0", "src1", stream=step.policy.simulator)


@shadow_rule("tcvt")
def _convert(step: ShadowStep) -> None:
    rows, cols = step.region
    if step.policy.simulator:
        (rows, cols), t = step.valid("src"), step.type()
        rows, cols = min(rows, t.rows), min(cols, t.cols)
    elif step.dtype().packed:
        cols -= cols % 2
    source, target = step.dtype("src"), step.dtype()
    numbers = cols * target.numbers
    origins = step.raw("src", (rows, -(-numbers // source.numbers)))
    if source.pair_of:
        origins = np.repeat(origins, 2, axis=1)[:, :numbers]
    if target.pair_of:
        origins = shadow.first(origins[:, 0::2], origins[:, 1::2])
    step.put(origins, (rows, cols))


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
def _scalar_select(step: ShadowStep) -> None:
    select(step, "src", "scalar", stream=False)


@shadow_rule("texpands")
def _expand_scalar(step: ShadowStep) -> None:
    whole = step.type().loc == Loc.MAT and not step.policy.simulator
    step.define(step.type().shape if whole else None)
