"""Rules of elementwise instructions: tile-tile, tile-scalar, fused, comparison, selection, conversion.

A fused instruction rounds after each of its documented steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import BF16, F16, F32, CmpMode, Loc, Precision, RoundMode, SaturationMode, unpaired
from pto_jax.isa.rules.conversions import conversion

from . import bits, convert, formulas, irregular, region
from .formulas import Arithmetic
from .numerics import Integer, Num
from .region import (
    choice,
    computed,
    elementwise,
    fit,
    flush,
    lanewise,
    mask,
    merge,
    number,
    numeric,
    operand,
    read,
    sizes,
)
from .rules import Context, Inputs, Outputs, rule

if TYPE_CHECKING:
    from jaxtyping import Float

    from .bits import Floats, Word, Words


_PAIR = ("src0", "src1")
_lanewise = lanewise(__name__)


def _arithmetic(name: str, operation: str) -> None:
    @numeric(name, "src0", "src1")
    def formula(a: Arithmetic, x: Num, y: Num) -> Num:
        return getattr(a, operation)(x, y)  # type: ignore[no-any-return]


for _name in ("add", "sub", "mul", "div"):
    _arithmetic(f"t{_name}", _name)


@rule("tmax")
def _tmax(c: Context, inputs: Inputs) -> Outputs:
    return choice(c, inputs, "src0", "src1", CmpMode.LT)


@rule("tmin")
def _tmin(c: Context, inputs: Inputs) -> Outputs:
    return choice(c, inputs, "src0", "src1", CmpMode.GT)


@elementwise("tnot", "src")
def _tnot(c: Context, x: Words) -> Words:
    return ~x


for _name, _formula in formulas.ON_BITS.items():
    _lanewise(f"t{_name}", _formula, _PAIR)
_lanewise("trem", formulas.floored_remainder, _PAIR)
_lanewise("tneg", formulas.negate, ("src",))


@numeric("tfmod", "src0", "src1")
def _tfmod(a: Arithmetic, x: Num, y: Num) -> Num:
    return a.fmod(x, y)


@elementwise("tpow", "base", "exp")
def _tpow(c: Context, x: Words, y: Words) -> Words:
    a = c.arithmetic()
    if isinstance(a, Integer):
        return formulas.integer_power(a, x, y)
    return formulas.float_power(a, x, y)


@elementwise("tabs", "src")
def _tabs(c: Context, x: Words) -> Words:
    a = c.arithmetic()
    negative = a.compare_words(CmpMode.LT, x, x.dtype.type(0))
    return jnp.where(negative, formulas.negate(a, x), x)


@elementwise("trelu", "src")
def _trelu(c: Context, x: Words) -> Words:
    a = c.arithmetic()
    return jnp.where(a.compare_words(CmpMode.LT, x, x.dtype.type(0)), x.dtype.type(0), x)


def _function(name: str, function: Callable[[Float[Array, "..."]], Float[Array, "..."]]) -> None:
    @numeric(name, "src")
    def formula(a: Arithmetic, x: Num) -> Num:
        return formulas.function(a, function, x)


@numeric("texp", "src")
def _texp(a: Arithmetic, x: Num) -> Num:
    return formulas.exponential(a, x)


_function("tlog", jnp.log)
_function("tsqrt", lax.sqrt)


@rule("trsqrt", keeps_doubts=True)
def _trsqrt(c: Context, inputs: Inputs) -> Outputs:
    """The precise form of a5 divides by the root, each rounded; the others round once."""
    a, x = c.arithmetic(), number(c, inputs, "src")
    if c.profile == "a5" and c.attrs.get("precision") == Precision.HIGH_PRECISION:
        return computed(c, inputs, a.div(a.const(1), a.round_to_type(formulas.function(a, lax.sqrt, x))))
    return computed(c, inputs, formulas.function(a, formulas.reciprocal_root, x))


@numeric("trecip", "src")
def _trecip(a: Arithmetic, x: Num) -> Num:
    return a.div(a.const(1), x)


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


@rule("tcmp")
def _tcmp(c: Context, inputs: Inputs) -> Outputs:
    a, mode = c.arithmetic("src0"), c.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    source = region.lanes(inputs, "src0")
    words, other = (operand(c, inputs, name, over="src0") for name in ("src0", "src1"))
    flags = a.compare_words(mode, words, other)
    inside = mask(c.tile("src0"), source)
    return {"dst": region.store_rows(c, inputs, flags if inside is None else flags & inside)}


@rule("tsel")
def _tsel(c: Context, inputs: Inputs) -> Outputs:
    x, y = read(c, inputs, "src0"), read(c, inputs, "src1")
    words = read(c, inputs, "mask", over="mask")
    mask = (
        region.stream_bits(c, inputs, words)
        if c.profile == "cpu_sim"
        else region.unpack(words, c.tile("dst").shape)
    )
    return {"dst": merge(c, inputs, jnp.where(mask, x, y))}


def _numbers(c: Context, inputs: Inputs) -> Words | Word:
    """The source's words, one for each number; those of a destination of pairs as the source has them."""
    if c.dtype("src").pair_of:
        return bits.unpack(irregular.source(c, inputs, "src"))
    return irregular.source(c, inputs, "src") if c.dtype("dst").pair_of else operand(c, inputs, "src")


@rule("tcvt", keeps_doubts=True)
def _tcvt(c: Context, inputs: Inputs) -> Outputs:
    """Hardware iterates over dst's valid region, the simulator over src's."""
    src, dst, mode = unpaired(c.dtype("src")), unpaired(c.dtype("dst")), c.attrs["rmode"]
    attribute = c.attrs["sat_mode"]
    assert isinstance(mode, RoundMode) and (attribute is None or isinstance(attribute, SaturationMode))
    how = conversion(c.profile, src.name, dst.name)
    saturate = how.saturation(attribute, tmp=c.has("tmp")) == SaturationMode.ON
    words, new = _numbers(c, inputs), None
    simulated = c.profile == "cpu_sim"
    if c.semantics.numerics == "fast" and not (simulated and (saturate or dst.is_integer)):
        new = convert.fast(words, src, dst, None if simulated else how.rounding(mode), saturate)
    if new is None and simulated:
        new = convert.simulated(words, src, dst, mode, saturate)
    elif new is None:
        new = convert.hardware(words, src, dst, how, mode, saturate)
    new = flush(c, new, dst)
    if c.semantics.doubting and src.is_float:
        # A NaN is in doubt, as every result of float32 arithmetic that is one.
        new = bits.where(bits.is_nan(words, src), bits.doubt(dst), new)
    if simulated:
        return {"dst": region.within(c, inputs, new, region="src")}
    if dst != c.dtype("dst"):
        return {"dst": merge(c, inputs, fit(bits.pack(new), c.tile("dst").shape, np.uint8(0)))}
    if dst.packed:
        # Hardware converts whole bytes: the last column of an odd number of them stays as it was.
        old = region.lanes(inputs, "dst")
        cols = sizes(c.tile("dst"), old)[1]
        pairs = lax.broadcasted_iota(np.int32, new.shape, 1) < cols // np.int32(2) * np.int32(2)
        new = jnp.where(pairs, new, old.words)
    return {"dst": region.within(c, inputs, new)}


_SCALED = ("src", "scalar")


def _scalar_arithmetic(name: str, operation: str) -> None:
    @numeric(name, "src", "scalar")
    def formula(a: Arithmetic, x: Num, s: Num) -> Num:
        return getattr(a, operation)(x, s)  # type: ignore[no-any-return]


for _operation in ("add", "sub", "mul"):
    _scalar_arithmetic(f"t{_operation}s", _operation)


@elementwise("tdivs", "src", "scalar")
def _tdivs(c: Context, x: Words, s: Word) -> Words:
    """The operand order of the text decides which one is divided."""
    if c.form[0] == "scalar":
        x, s = s, x
    return formulas.binary(c.arithmetic(), "div", x, s)


for _operation, _scalar_formula in formulas.ON_BITS.items():
    _lanewise(f"t{_operation}s", _scalar_formula, _SCALED)
_lanewise("tmaxs", formulas.maximum, _SCALED)
_lanewise("tmins", formulas.minimum, _SCALED)
_lanewise("tlrelu", formulas.leaky, _SCALED)


def _unless_zero(c: Context, s: Word, result: Words, old: Words) -> Words:
    """The simulator leaves the destination alone when the scalar divisor is zero."""
    if c.profile != "cpu_sim":
        return result
    a = c.arithmetic()
    return jnp.where(a.compare_words(CmpMode.EQ, s, s.dtype.type(0)), old, result)


@elementwise("trems", "src", "scalar", "dst")
def _trems(c: Context, x: Words, s: Word, old: Words) -> Words:
    return _unless_zero(c, s, formulas.floored_remainder(c.arithmetic(), x, s), old)


@elementwise("tfmods", "src", "scalar", "dst")
def _tfmods(c: Context, x: Words, s: Word, old: Words) -> Words:
    a = c.arithmetic()
    return _unless_zero(c, s, a.encode(a.fmod(a.decode(x), a.decode(s))), old)


@elementwise("tpows", "base", "exp")
def _tpows(c: Context, x: Words, s: Word) -> Words:
    """Integers go through a float64 power on the simulator; hardware multiplies exactly."""
    a = c.arithmetic()
    if not isinstance(a, Integer):
        return formulas.float_power(a, x, s)
    if c.profile != "cpu_sim":
        return formulas.integer_power(a, x, s)
    return formulas.host_power(a, x, s)


@elementwise("taxpy", "src", "scalar", "dst")
def _taxpy(c: Context, x: Words, s: Word, old: Words) -> Words:
    """Words of ``dst + src * scalar``.

    The product is rounded to the source type first, except bf16 into bf16. On a2a3 it is rounded to the
    destination's, on a5 f16 is rounded once at the end.
    """
    source, a = c.arithmetic("src"), c.arithmetic()
    product = source.mul(source.decode(x), source.decode(s))
    if isinstance(source, Integer) and isinstance(a, Integer):
        wide = source.widen(source.decode(x)) * source.widen(source.decode(s))
        return a.encode(a.narrow(wide + a.widen(a.decode(old))))
    if c.profile == "a5" and c.dtype("dst") == F16:
        assert not isinstance(a, Integer)
        return a.encode(a.evaluate(_accumulated, a.decode(old), source.decode(x), source.decode(s)))
    same = c.dtype("src") == c.dtype("dst")
    if not (same and c.dtype("src") == BF16) and (same or c.profile == "cpu_sim"):
        product = source.round_to_type(product)
    return a.encode(a.add(a.decode(old), product))


def _accumulated(old: Floats, x: Floats, factor: Floats) -> Floats:
    return old + x * factor


@rule("texpands")
def _texpands(c: Context, inputs: Inputs) -> Outputs:
    """Hardware fills the whole physical tile when it is a Mat tile."""
    value = read(c, inputs, "scalar")
    t = c.tile("dst")
    if t.loc == Loc.MAT and c.profile != "cpu_sim":
        return {"dst": jnp.broadcast_to(value, t.shape)}
    return {"dst": merge(c, inputs, value)}


def _with_scalar_first(name: str, first: str) -> None:
    @numeric(name, "src0", "scalar", "src1")
    def formula(a: Arithmetic, x: Num, s: Num, y: Num) -> Num:
        return a.add(getattr(a, first)(x, s), y)


_with_scalar_first("taddsc", "add")
_with_scalar_first("tsubsc", "sub")


@rule("tcmps")
def _tcmps(c: Context, inputs: Inputs) -> Outputs:
    a, mode = c.arithmetic("src0"), c.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    source = region.lanes(inputs, "src0")
    x, y = (operand(c, inputs, name, over="src0") for name in ("src0", "src1"))
    if c.profile == "cpu_sim" and mode in (CmpMode.EQ, CmpMode.NE):
        flags = region.near(c, mode, x, y)
    else:
        flags = a.compare_words(mode, x, y)
    inside = mask(c.tile("src0"), source)
    flags = flags if inside is None else flags & inside
    if c.profile != "cpu_sim":
        return {"dst": region.store_rows(c, inputs, flags)}
    return {"dst": region.reflow(c, inputs, flags)}


@rule("tsels")
def _tsels(c: Context, inputs: Inputs) -> Outputs:
    x, s = read(c, inputs, "src"), read(c, inputs, "scalar")
    words = read(c, inputs, "mask", over="mask")
    return {"dst": merge(c, inputs, jnp.where(region.unpack(words, c.tile("dst").shape), x, s))}
