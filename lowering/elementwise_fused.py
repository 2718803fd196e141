"""Fused lane-wise instructions: several steps with their documented roundings."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from pto_jax.ir.dtypes import F32

from . import formulas
from .formulas import Arithmetic
from .numerics import Integer, Num
from .region import elementwise, numeric
from .rules import Context


@elementwise("tprelu", "src0", "src1")
def _tprelu(c: Context, x: Array, slope: Array) -> Array:
    return formulas.leaky(c.arithmetic(), x, slope)


def _three_sources(name: str, first: str) -> None:
    @elementwise(name, "src0", "src1", "src2")
    def formula(c: Context, x: Array, y: Array, z: Array | None = None) -> Array:
        if z is None:
            return formulas.saturating(c.arithmetic(), first, x, y)
        return formulas.chain(c.arithmetic(), first, x, y, z)


_three_sources("taddc", "add")
_three_sources("tsubc", "sub")


@numeric("tmuladddst", "src0", "src1", "dst")
def _tmuladddst(a: Arithmetic, x: Num, y: Num, old: Num) -> Num:
    return a.add(a.step(a.mul(x, y)), old)


@numeric("tfusedmuladd", "src0", "dst", "src1")
def _tfusedmuladd(a: Arithmetic, x: Num, old: Num, y: Num) -> Num:
    return a.add(a.mul(x, old), y)


@elementwise("tfusedmuladdrelu", "src0", "dst", "src1")
def _tfusedmuladdrelu(c: Context, x: Array, old: Array, y: Array) -> Array:
    a = c.arithmetic()
    return formulas.positive(a, a.out(a.add(a.step(a.mul(a.num(x), a.num(old))), a.num(y))))


@elementwise("tsubrelu", "src0", "src1")
def _tsubrelu(c: Context, x: Array, y: Array) -> Array:
    a = c.arithmetic()
    if isinstance(a, Integer) and a.dtype.bits < 32:
        # C++ promotes: the ReLU sees the full difference, which is narrowed afterwards.
        wide = a.widen(a.num(x)) - a.widen(a.num(y))
        return a.out(a.narrow(jnp.maximum(wide, np.int32(0))))
    return formulas.positive(a, a.out(a.sub(a.num(x), a.num(y))))


@elementwise("taddrelu", "src0", "src1")
def _taddrelu(c: Context, x: Array, y: Array) -> Array:
    a = c.arithmetic()
    if isinstance(a, Integer):
        wide = a.widen(a.num(x)) + a.widen(a.num(y))
        return a.out(a.narrow(jnp.maximum(wide, np.int32(0))))
    return formulas.positive(a, a.out(a.add(a.num(x), a.num(y))))


def _relu_convert(name: str, operation: str) -> None:
    @elementwise(name, "src0", "src1")
    def formula(c: Context, x: Array, y: Array) -> Array:
        return formulas.relu_convert(c.arithmetic("src0"), c.dtype("dst"), operation, x, y)


_relu_convert("taddreluconv", "add")
_relu_convert("tsubreluconv", "sub")


@elementwise("tadddeqrelu", "src0", "src1", "deqScale")
def _tadddeqrelu(c: Context, x: Array, y: Array, scale: Array) -> Array:
    """float32(src0 + src1) * scale, converted and clamped at zero.

    Hardware scales by 2^-17 before and 2^17 after and saturates; the simulator does neither.
    """
    source, single = c.arithmetic("src0"), c.semantics.arithmetic(F32)
    assert not isinstance(single, Integer)
    if isinstance(source, Integer):
        value = formulas.to_float(single, source.widen(source.num(x)) + source.widen(source.num(y)))
    else:
        value = single.num(source.words32(source.step(source.add(source.num(x), source.num(y)))))
    factor, target = single.num(scale), c.dtype("dst")
    if c.profile == "cpu_sim":
        words = formulas.narrow(single.out(single.mul(factor, value)), target)
        return formulas.positive(c.arithmetic(), words)
    scaled = single.mul(single.mul(value, single.const(2.0**-17)), factor)
    words = formulas.positive(single, single.out(single.mul(scaled, single.const(2.0**17))))
    return formulas.narrow(words, target, saturate=True)
