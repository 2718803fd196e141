"""Fused lane-wise instructions: several steps with their documented roundings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from pto_jax.ir import F32

from . import formulas, region
from .formulas import Arithmetic
from .numerics import Integer, Num
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from .arrays import Word, Words


region.lanewise(__name__)("tprelu", formulas.leaky, ("src0", "src1"))


def _three_sources(name: str, first: str) -> None:
    @region.elementwise(name, "src0", "src1", "src2")
    def formula(c: Context, x: Words, y: Words, z: Words | None = None) -> Words:
        if z is None:
            return formulas.saturating(c.arithmetic(), first, x, y)
        return formulas.chain(c.arithmetic(), first, x, y, z)


_three_sources("taddc", "add")
_three_sources("tsubc", "sub")


@region.numeric("tmuladddst", "src0", "src1", "dst")
def _tmuladddst(a: Arithmetic, x: Num, y: Num, old: Num) -> Num:
    return a.add(a.round_to_type(a.mul(x, y)), old)


@rule("tfusedmuladd")
def _tfusedmuladd(c: Context, inputs: Inputs) -> Outputs:
    a = c.arithmetic()
    x, old, y = (region.number(c, inputs, n) for n in ("src0", "dst", "src1"))
    product = a.mul(x, old)
    if c.profile != "cpu_sim":
        product = a.round_to_type(product)
    return region.computed(c, inputs, a.add(product, y))


@region.elementwise("tfusedmuladdrelu", "src0", "dst", "src1")
def _tfusedmuladdrelu(c: Context, x: Words, old: Words, y: Words) -> Words:
    a = c.arithmetic()
    product = a.round_to_type(a.mul(a.decode(x), a.decode(old)))
    return formulas.positive(a, a.encode(a.add(product, a.decode(y))))


def _relu_of(name: str, operation: str) -> None:
    @region.elementwise(name, "src0", "src1")
    def formula(c: Context, x: Words, y: Words) -> Words:
        a = c.arithmetic()
        compute = getattr(a, operation)
        if isinstance(a, Integer) and a.dtype.bits < 32:
            # C++ promotes: the ReLU sees the full result, which is narrowed afterwards.
            wide = compute(a.widen(a.decode(x)), a.widen(a.decode(y)))
            return a.encode(a.narrow(jnp.maximum(wide, np.int32(0))))
        return formulas.positive(a, a.encode(compute(a.decode(x), a.decode(y))))


_relu_of("taddrelu", "add")
_relu_of("tsubrelu", "sub")


def _relu_convert(name: str, operation: str) -> None:
    @region.elementwise(name, "src0", "src1")
    def formula(c: Context, x: Words, y: Words) -> Words:
        return formulas.relu_convert(c.arithmetic("src0"), c.dtype("dst"), operation, x, y)


_relu_convert("taddreluconv", "add")
_relu_convert("tsubreluconv", "sub")


@region.elementwise("tadddeqrelu", "src0", "src1", "deqScale")
def _tadddeqrelu(c: Context, x: Words, y: Words, scale: Word) -> Words:
    """float32(src0 + src1) * scale, converted and clamped at zero.

    Hardware scales by 2^-17 before and 2^17 after and saturates; the simulator does neither.
    """
    source, single = c.arithmetic("src0"), c.semantics.arithmetic(F32)
    assert not isinstance(single, Integer)
    if isinstance(source, Integer):
        value = formulas.to_float(single, source.widen(source.decode(x)) + source.widen(source.decode(y)))
    else:
        total = source.round_to_type(source.add(source.decode(x), source.decode(y)))
        value = single.decode(source.words32(total))
    factor, target = single.decode(scale), c.dtype("dst")
    if c.profile == "cpu_sim":
        words = formulas.narrow(single.encode(single.mul(factor, value)), target)
        return formulas.positive(c.arithmetic(), words)
    scaled = single.mul(single.mul(value, single.const(2.0**-17)), factor)
    words = formulas.positive(single, single.encode(single.mul(scaled, single.const(2.0**17))))
    return formulas.narrow(words, target, saturate=True)
