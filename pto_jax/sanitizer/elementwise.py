"""Definedness of elementwise and tile-scalar instructions, selections and conversions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.types import Loc
from ..oracle import masks
from ..oracle.numbers import Array, decode
from .shadow import all_bits, first
from .step import ShadeStep, shades

BY_ZERO = "division by zero"
TOO_FAR = "shift by the width of the type or more"

_PLAIN = """
tadd tsub tmul tmax tmin tpow tabs tneg trelu texp tlog tsqrt trsqrt tprelu tsubrelu tmuladddst
tfusedmuladd tfusedmuladdrelu taddc tsubc taddreluconv tsubreluconv tadddeqrelu tadds tsubs tmuls tmaxs
tmins tlrelu taddsc tsubsc tpows taxpy
""".split()


@shades(*_PLAIN)
def lanes(step: ShadeStep) -> None:
    """A lane is defined where that lane of every source is."""
    step.put(step.all_sources())


# -- what the pages forbid ---------------------------------------------------------------------------


def by_zero(step: ShadeStep, divisor: Array) -> Array:
    """Codes of integer lanes whose divisor, given as words, is zero."""
    if not step.is_integer():
        return np.zeros((1, 1), np.int32)
    zero = decode(divisor, step.dtype()) == 0
    return np.where(zero, np.int32(step.origin(BY_ZERO)), np.int32(0))


@shades("tdiv", "trem", "tfmod")
def _divide(step: ShadeStep) -> None:
    step.put(first(step.all_sources(), by_zero(step, step.real.words("src1"))))


@shades("tdivs")
def _divide_scalar(step: ShadeStep) -> None:
    divisor = [n for n in step.form if n in ("src", "scalar")][1]
    step.put(first(step.all_sources(), by_zero(step, step.real.words(divisor))))


@shades("trems", "tfmods")
def _remainder_scalar(step: ShadeStep) -> None:
    """The simulator leaves the destination alone when a float divisor is zero."""
    divisor = step.real.words("scalar")
    if step.policy.simulator and not step.is_integer() and not decode(divisor, step.dtype()).any():
        return
    step.put(first(step.all_sources(), by_zero(step, divisor)))


@shades("trecip")
def _reciprocal(step: ShadeStep) -> None:
    step.put(first(step.all_sources(), by_zero(step, step.real.words("src"))))


@shades("tshl", "tshr", "tshls", "tshrs")
def _shift(step: ShadeStep) -> None:
    d = step.dtype()
    count = decode(step.real.words("src1" if step.is_tile("src1") else "scalar"), d)
    far = (count < 0) | (count >= d.bits)
    step.put(first(step.all_sources(), np.where(far, np.int32(step.origin(TOO_FAR)), np.int32(0))))


# -- bits --------------------------------------------------------------------------------------------


def _operands(step: ShadeStep) -> tuple[str, str]:
    return ("src0", "src1") if step.is_tile("src0") else ("src", "scalar")


@shades("tand", "tands")
def _and(step: ShadeStep) -> None:
    """A zero bit decides."""
    _bitwise(step, lambda word: word)


@shades("tor", "tors")
def _or(step: ShadeStep) -> None:
    """A one bit decides."""
    _bitwise(step, lambda word: ~word)


@shades("txor", "txors")
def _xor(step: ShadeStep) -> None:
    a, b = (step.bits_over(n) for n in _operands(step))
    step.put_bits(a | b, step.all_sources())


@shades("tnot")
def _not(step: ShadeStep) -> None:
    step.put_bits(step.bits_over("src"), step.all_sources())


def _bitwise(step: ShadeStep, passing: Callable[[Array], Array]) -> None:
    """``passing`` gives the bits of an operand that let the other one through."""
    names = _operands(step)
    a, b = (step.bits_over(n) for n in names)
    x, y = (passing(step.real.raw(n)) for n in names)
    step.put_bits((a & b) | (a & y) | (b & x), step.all_sources())


# -- comparison and selection ------------------------------------------------------------------------


@shades("tcmp", "tcmps")
def _compare(step: ShadeStep) -> None:
    """A bit of the mask per lane; one origin serves all bits of a mask."""
    region = step.valid("src0")
    codes = np.broadcast_to(step.all_sources(region), region)
    marked, scalar = step.marked(codes), not step.is_tile("src1")
    if step.policy.simulator and scalar:
        t = step.type("src0")
        bits = np.zeros(t.shape, np.bool_)
        bits[: region[0], : region[1]] = codes != 0
        masks.write_stream(marked, bits, t.cols)
    else:
        masks.write_rows(marked, codes != 0, clear=step.policy.simulator)


@shades("tsel", "tsels")
def _select(step: ShadeStep) -> None:
    """A lane takes the definedness of the choice it makes, if that is defined."""
    stream = step.policy.simulator and step.instruction.name == "tsel"
    places = (masks.places_in_stream if stream else masks.places_in_rows)(step)
    rows, cols, bit = places
    yes, no = ("src0", "src1") if step.is_tile("src0") else ("src", "scalar")
    chosen = masks.selected(step.real, places)
    mask = step.bits("mask", rows, cols)
    unknown = (mask >> bit.astype(mask.dtype)) & 1 == 1
    words = np.where(chosen, step.bits_over(yes), step.bits_over(no))
    codes = np.where(chosen, step.raw(yes), step.raw(no))
    d = step.dtype()
    step.put_bits(
        np.where(unknown, d.word.type(all_bits(d)), words),
        np.where(unknown, step.gather("mask", rows, cols), codes),
    )


@shades("tcvt")
def _convert(step: ShadeStep) -> None:
    rows, cols = step.region
    if step.policy.simulator:
        (rows, cols), t = step.valid("src"), step.type()
        rows, cols = min(rows, t.rows), min(cols, t.cols)
    elif step.dtype().packed:
        cols -= cols % 2
    step.put(step.raw("src", (rows, cols)), (rows, cols))


@shades("texpands")
def _expand_scalar(step: ShadeStep) -> None:
    whole = step.type().loc == Loc.MAT and not step.policy.simulator
    step.define(step.type().shape if whole else None)
