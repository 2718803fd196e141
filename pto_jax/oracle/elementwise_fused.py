"""Elementwise tile-tile instructions of several steps: sums of three, fused multiply-adds, ReLU forms."""

import numpy as np

from ..ir import F32
from . import arithmetic as lane
from .numbers import Array, decode, encode
from .step import Lane, Step, lanewise, rule

_PAIR = ("src0", "src1")
_FUSED = ("src0", "dst", "src1")
_lanewise = lanewise(__name__)

_lanewise("tprelu", _PAIR, lane.leaky)
_lanewise("taddrelu", _PAIR, lane.add_relu)
_lanewise("tsubrelu", _PAIR, lane.subtract_relu)
_lanewise("tmuladddst", ("src0", "src1", "dst"), lane.multiply_add_rounded)
_lanewise("tfusedmuladdrelu", _FUSED, lane.multiply_add_relu)


@rule("tfusedmuladd")
def _tfusedmuladd(step: Step) -> None:
    """The simulator evaluates f16 in f32 and rounds once; hardware rounds the product too."""
    compute = lane.multiply_add if step.policy.simulator else lane.multiply_add_rounded
    step.store(compute(step.dtype(), *(step.words(n) for n in _FUSED)))


rule("taddc")(lambda step: _with_carry(step, lane.add_saturating, lane.add_add))

rule("tsubc")(lambda step: _with_carry(step, lane.subtract_saturating, lane.subtract_add))


def _with_carry(step: Step, saturating: Lane, three: Lane) -> None:
    """Two sources saturate, three wrap."""
    sources = [step.words(n) for n in ("src0", "src1", "src2") if n in step.operands]
    step.store((three if len(sources) == 3 else saturating)(step.dtype(), *sources))


rule("taddreluconv")(lambda step: _narrow_relu(step, step.values("src0"), step.values("src1"), 1))

rule("tsubreluconv")(lambda step: _narrow_relu(step, step.values("src0"), step.values("src1"), -1))


def _narrow_relu(step: Step, a: Array, b: Array, sign: int) -> None:
    """Sum in the source type (i16 unwrapped), ReLU that keeps NaN, saturating narrowing."""
    source, target = step.dtype("src0"), step.dtype()
    if source.is_integer:
        step.store(encode(np.clip(a.astype(np.int32) + sign * b.astype(np.int32), 0, target.max_int), target))
        return
    total = decode(encode(a + sign * b, source), source)
    positive = np.where((total > 0) | np.isnan(total), total, total.dtype.type(0))
    if target.is_float:
        step.store(encode(positive, target, saturate=True))
        return
    nearest = np.rint(np.nan_to_num(positive, nan=0.0, posinf=target.max_int))
    step.store(encode(np.minimum(nearest, target.max_int).astype(np.int64), target))


@rule("tadddeqrelu")
def _tadddeqrelu(step: Step) -> None:
    """Sum, scale in f32, narrow, ReLU; hardware scales by powers of two around it and saturates."""
    source, target = step.dtype("src0"), step.dtype()
    scale = decode(step.scalar("deqScale", F32), F32)
    a, b = step.values("src0"), step.values("src1")
    if source.is_integer:
        wide = np.int32 if source.bits <= 32 else np.int64
        a, b = a.astype(wide), b.astype(wide)
    total = decode(encode(a + b, source), source) if source.is_float else a + b
    total = total.astype(np.float32)
    if step.policy.simulator:
        step.store(lane.strict_relu(target, encode(total * scale, target)))
        return
    scaled = ((total * np.float32(2**-17)) * scale) * np.float32(2**17)
    positive = np.where(scaled > 0, scaled, np.float32(0))
    step.store(encode(positive, target, saturate=True))
