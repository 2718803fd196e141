"""Quantisation of arrays to codes with scales, its inverse, and the number formats of layers."""

import ast
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from numbers import Real
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .. import ops, profiles
from ..errors import ArgumentError, is_number, nearest, one_of
from ..files import user_code
from ..ir import F32, dtype
from ..lowering import bits
from ..lowering.bits import once
from ..lowering.formulas import binary
from ..lowering.irregular_quant import grouped_codes, scaled_codes
from ..lowering.numerics import arithmetic
from ..lowering.platforms import by_platform
from ..profiles import ProfileName, profile as find_profile
from ..runtime.interchange import received
from .tiling import (
    VECTOR,
    cut,
    each,
    even,
    joined,
    names,
    of_sizes,
    on_each_part,
    partition,
    spec_of,
    vector_size,
    whole_along,
)

Name = Literal["int8", "fp8", "mx", "f16", "bf16", "f32"]
Numerics = Literal["exact", "fast"]
#: Rows, columns and depth of tiles are padded to multiples that every layout allows.
ROWS, COLUMNS, DEPTH = 16, 32, 64
#: Elements along K that share an exponent in the format "mx".
GROUP = 32


@dataclass(frozen=True)
class Format:
    """A number format: PTO element type of its codes, their bytes, the largest code, profiles that have it.

    ``largest`` is None where codes have no scale of their own choice.
    """

    name: Name
    element: str
    bytes: int
    largest: float | None
    profiles: tuple[ProfileName, ...]


_EVERY: tuple[ProfileName, ...] = ("a2a3", "a5", "cpu_sim")
FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("int8", "i8", 1, 127.0, _EVERY),
        Format("fp8", "f8e4m3", 1, 448.0, ("a5",)),
        Format("mx", "f8e4m3", 1, None, ("a5", "cpu_sim")),
        Format("f16", "f16", 2, None, _EVERY),
        Format("bf16", "bf16", 2, None, _EVERY),
        Format("f32", "f32", 4, None, _EVERY),
    )
}


@dataclass(frozen=True)
class Settings:
    """How numbers are quantised and multiplied: format, profile and numerics, all checked."""

    format: Format
    profile: ProfileName
    numerics: Numerics

    @property
    def options(self) -> dict[str, Any]:
        """Keywords of instructions."""
        return {"profile": self.profile, "numerics": self.numerics}


def settings(what: str, format: str, profile: str | None, numerics: str) -> Settings:
    """Checked settings; without a profile the first that has the format. ArgumentError for what is none."""
    match = FORMATS.get(format) if isinstance(format, str) else None
    if match is None:
        close = "mx" if str(format).lower().startswith("mx") else nearest(format, FORMATS)
        raise ArgumentError(
            f"{what}: format: got {format!r}", allowed=", ".join(FORMATS), fix=f'format="{close or "int8"}"'
        )
    if not isinstance(numerics, str) or numerics not in ("exact", "fast"):
        close = nearest(numerics, ("exact", "fast")) or "exact"
        raise ArgumentError(
            f"{what}: numerics: got {numerics!r}", allowed="exact, fast", fix=f'numerics="{close}"'
        )
    name = match.profiles[0] if profile is None else find_profile(profile).name
    if name not in match.profiles:
        raise ArgumentError(
            f"{what}: profile {name!r} has no products of format {format!r}",
            allowed=", ".join(match.profiles),
            fix=f"profile={match.profiles[0]!r}",
        )
    return Settings(match, name, "exact" if numerics == "exact" else "fast")


class Block(NamedTuple):
    """Rows, depth and columns of the tiles that one multiplication takes."""

    m: int
    k: int
    n: int


def block_of(format: Format, m: int, k: int, n: int) -> Block:
    """Tiles for a product of M x K and K x N that every profile's buffers hold.

    At most 128 rows, 256 bytes along K and 256 columns: 64 KiB of right tiles, 128 KiB of accumulators and of
    the vector tiles that hold them. Blocks of one extent are of nearly one size.
    """
    return Block(even(m, 128, ROWS), even(k, 256 // format.bytes, DEPTH), even(n, 256, COLUMNS))


Axis = int | tuple[int, ...] | None
_FLOATS = ("float32", "float16", "bfloat16")
#: Magnitudes below count as this one: a scale of zero, or one whose inverse is infinite, has no codes.
SMALLEST = 2.0**-100


class Quantised(NamedTuple):
    """Codes, and scales that broadcast to them: a value is its code times its scale.

    In format "mx" the scale is an array of e8m0 exponents (``float8_e8m0fnu``), one for 32 codes along an
    axis.

    >>> import numpy as np, pto_jax as pto
    >>> codes, scale = pto.nn.quantise(np.float32([[1.0, -2.0]]))
    >>> codes.tolist(), codes.dtype.name
    ([[64, -127]], 'int8')
    """

    codes: Array
    scale: Array


def calibrate(
    x: Any,
    *,
    format: Literal["int8", "fp8", "mx"] = "int8",
    axis: Axis = None,
    percentile: float | None = None,
    profile: profiles.ProfileName | None = None,
    numerics: Numerics = "exact",
) -> Array:
    """The scale under which the largest magnitude of an array becomes the largest code.

    ``x`` is a float array of any shape; values along ``axis`` share a scale (None: all of them; -1 for
    rows of activations, 0 for columns of weights [K, N]). The result is a float32 array that broadcasts to
    x: extents of 1 along ``axis``, shape () for None; magnitudes below 2^-100 count as 2^-100.
    With ``percentile`` (0 to 100) the magnitude that so many per cent are below, interpolated, counts
    instead of the largest; larger values saturate.

    The division is that of an instruction. For several batches take the maximum of their scales. Raises
    ArgumentError for formats without scales ("mx", "f16", "bf16", "f32"), and for elements that are no
    floats.

    >>> x = jnp.array([[1.0, -127.0], [0.5, 0.25]], jnp.float32)
    >>> calibrate(x).item(), calibrate(x, axis=-1).shape
    (1.0, (2, 1))
    """
    chosen = settings("calibrate", format, profile, numerics)
    if chosen.format.largest is None:
        raise ArgumentError(f"calibrate: format {format!r} has no scales", allowed="int8, fp8")
    percentile, axis = _percentile(percentile), _chosen_axes("calibrate", axis)
    x = floats("calibrate: x", x)
    if percentile is not None:
        whole_along("calibrate: x", x, _axes(axis, x.ndim), f"axis {axis}, whose percentile is asked for")
    return _calibrated(chosen, axis, percentile)(x)


def quantise(
    x: Any,
    scale: Any = None,
    *,
    format: Literal["int8", "fp8", "mx"] = "int8",
    axis: Axis = -1,
    profile: profiles.ProfileName | None = None,
    numerics: Numerics = "exact",
) -> Quantised:
    """Codes of an array and their scales.

    ``x`` is a float array of any shape. ``scale`` broadcasts to it (float32; from :func:`calibrate`);
    without one it follows from the magnitudes along ``axis``. Codes are x / scale, computed as the product
    with the inverse in float32, rounded to nearest even and saturated: int8 for "int8", float8_e4m3fn for
    "fp8". NaN is 0 in "int8" under a given scale. For "mx", groups of 32 along ``axis`` (one axis) share a
    power of two (OCP MXFP8, e4m3); the scale has a 32nd of the axis, rounded up, and ``scale`` cannot be
    given.

    Quantising is a PTO instruction per tile; its gradient is :func:`pto_jax.straight_through`'s business.
    Raises ArgumentError for formats that are no codes ("f16", "bf16", "f32": tcvt), elements that are no
    floats, and scales that do not broadcast.

    >>> codes, scale = quantise(jnp.array([[1.0, -127.0], [0.5, 0.25]], jnp.float32), 1.0)
    >>> codes.dtype.name, codes.tolist()
    ('int8', [[1, -127], [0, 0]])
    """
    chosen = settings("quantise", format, profile, numerics)
    axis, x = _chosen_axes("quantise", axis), floats("quantise: x", x)
    if chosen.format.name == "mx":
        if scale is not None:
            raise ArgumentError("quantise: format 'mx' finds its scales itself", allowed="scale=None")
        if not isinstance(axis, int):
            raise ArgumentError(f"quantise: axis: got {axis} for format 'mx'", allowed="one axis")
        whole_along("quantise: x", x, _axes(axis, x.ndim), f"axis {axis}, whose groups share a scale")
        return _quantised_mx(chosen, axis)(x)
    if chosen.format.largest is None:
        element = dtype(chosen.format.element).numpy.name
        got = f"quantise: format {format!r} has no codes"
        fix = f"{user_code.argument('x', 0)}.astype(jnp.{element})"
        raise ArgumentError(got, allowed="int8, fp8, mx", fix=fix)
    if scale is None:
        scale = _calibrated(chosen, axis, None)(x)
    return _quantised(chosen)(x, scale_of("quantise: scale", scale, x.shape))


def dequantise(
    codes: Any,
    scale: Any,
    *,
    axis: int = -1,
    profile: profiles.ProfileName | None = None,
    numerics: Numerics = "exact",
) -> Array:
    """The float32 values of codes: each code times its scale, rounded once.

    ``codes`` are int8 or float8_e4m3fn of any shape, ``scale`` a float32 array that broadcasts to them, or
    exponents (``float8_e8m0fnu``) for groups of 32 along ``axis``, as :func:`quantise` gives them.
    Raises ArgumentError for other elements, for scales that do not broadcast, and for exponents of groups
    along another axis.

    >>> dequantise(jnp.array([[1, -127]], jnp.int8), 0.5).tolist()
    [[0.5, -63.5]]
    """
    codes, scale = received(codes, "dequantise: codes"), received(scale, "dequantise: scale")
    format = {"int8": "int8", "float8_e4m3fn": "fp8"}.get(str(getattr(codes, "dtype", None)))
    if format is None:
        result = getattr(codes, "dtype", type(codes).__name__)
        raise ArgumentError(f"dequantise: codes are {result}", allowed="int8, float8_e4m3fn")
    if str(getattr(scale, "dtype", None)) == "float8_e8m0fnu":
        chosen, along = settings("dequantise", "mx", profile, numerics), _chosen_axes("dequantise", axis)
        if not isinstance(along, int):
            raise ArgumentError(f"dequantise: axis: got {axis} for format 'mx'", allowed="one axis")
        for what, a in (("codes", codes), ("scale", scale)):
            whole_along(
                f"dequantise: {what}", a, _axes(along, a.ndim), f"axis {along}, whose groups share a scale"
            )
        _check_groups(codes.shape, scale.shape, along)
        return _dequantised_mx(chosen, along)(codes, scale)
    chosen = settings("dequantise", format, profile, numerics)
    return _dequantised(chosen)(codes, scale_of("dequantise: scale", scale, codes.shape))


def _check_groups(codes: Sequence[int], scale: Sequence[int], axis: int) -> None:
    """Exponents of groups along another axis may broadcast, to other numbers."""
    expected = [_of_groups(codes, at) for at in range(len(codes))]
    at = _axes(axis, len(codes))[0]
    if tuple(scale) == expected[at]:
        return
    along = [i for i, shape in enumerate(expected) if shape == tuple(scale)]
    raise ArgumentError(
        f"dequantise: scale: got shape {tuple(scale)} for codes of shape {tuple(codes)}",
        allowed=f"{expected[at]}, a number for {GROUP} codes along axis {axis}",
        fix=f"nn.dequantise(codes, scale, axis={along[0]})" if along else "",
    )


def _of_groups(codes: Sequence[int], at: int) -> tuple[int, ...]:
    return tuple(-(-n // GROUP) if i == at else n for i, n in enumerate(codes))


# -- arguments -----------------------------------------------------------------------------------------


#: Positions of arrays in calls of layers.
_POSITIONS = {"x": 0, "w": 1}


def _call_on_values(name: str) -> str:
    """The user's call with the values of the codes that it gives for an argument."""
    result = user_code.expression()
    tree = result.tree if result is not None else None
    at = _POSITIONS.get(name, -1)
    if isinstance(tree, ast.Call) and 0 <= at < len(tree.args):
        values = ast.parse(f"pto.nn.dequantise(*{ast.unparse(tree.args[at])})", mode="eval").body
        listed = [*tree.args[:at], values, *tree.args[at + 1 :]]
        return ast.unparse(ast.Call(tree.func, listed, tree.keywords))
    return "pto.nn.dequantise(codes, scale)"


def floats(what: str, x: Any, *, symbolic: bool = False) -> Any:
    """An array of float elements, with sizes that may be symbols of ``jax.export`` if ``symbolic``.

    ArgumentError for others.
    """
    if isinstance(x, Quantised):
        raise ArgumentError(
            f"{what}: got (codes, scale)",
            allowed="an array of floats",
            fix=_call_on_values(what.rpartition(" ")[2]),
        )
    x = received(x, what)
    if not hasattr(x, "dtype"):
        try:
            x = np.asarray(x, np.float32)
        except (TypeError, ValueError):
            raise ArgumentError(f"{what}: got {one_of(x)}", allowed="an array of floats") from None
    if not symbolic and any(not isinstance(n, int) for n in x.shape):
        shape = ", ".join(map(str, x.shape))
        raise ArgumentError(
            f"{what}: got the shape ({shape})",
            allowed="sizes that are numbers, as tiles follow from them, except the batch of nn.linear",
            fix="one export for every size",
        )
    if str(x.dtype) not in _FLOATS:
        name = what.rpartition(" ")[2]
        fix = f"{user_code.argument(name, _POSITIONS.get(name))}.astype(jnp.float32)"
        raise ArgumentError(f"{what}: got an array of {x.dtype}", allowed=", ".join(_FLOATS), fix=fix)
    return x


def scale_of(what: str, scale: Any, shape: tuple[int, ...]) -> Any:
    """A float32 scale that broadcasts to a shape; ArgumentError for another."""
    scale = floats(what, scale, symbolic=True)
    # Sizes may be symbols, which NumPy does not compare.
    pairs = zip(reversed(np.shape(scale)), reversed(shape), strict=False)
    fits = len(np.shape(scale)) <= len(shape) and all(n in (1, m) for n, m in pairs)
    if not fits:
        raise ArgumentError(
            f"{what}: got shape {tuple(np.shape(scale))}", allowed=f"one that broadcasts to {tuple(shape)}"
        )
    return scale


def weights_of(w: Quantised, format: Name | None, w_scale: Any) -> tuple[Quantised, Name]:
    """Codes [K, N] and their scales as a layer takes them, and their format; ArgumentError for others."""
    codes, scale = (received(a, f"linear: w.{what}") for a, what in zip(w, ("codes", "scale"), strict=True))
    element, exponents = str(getattr(codes, "dtype", None)), str(getattr(scale, "dtype", None))
    names: dict[str, Name] = {"int8": "int8", "float8_e4m3fn": "fp8"}
    stored = "mx" if exponents == "float8_e8m0fnu" else names.get(element)
    if stored is None or (stored == "mx" and element != "float8_e4m3fn"):
        raise ArgumentError(
            f"linear: w: got codes of {element} with scales of {exponents}",
            allowed="int8 or float8_e4m3fn with float32, float8_e4m3fn with float8_e8m0fnu",
            fix="nn.quantise(w, axis=0)",
        )
    if format not in (None, stored):
        raise ArgumentError(
            f"linear: w: got codes of format {stored!r} for a layer of format {format!r}",
            fix=f"format={stored!r}, or the float weights, which the layer quantises",
        )
    if w_scale is not None:
        raise ArgumentError("linear: w_scale: got a scale for weights that have one", allowed="w_scale=None")
    shape, sizes = np.shape(scale), np.shape(codes)
    if len(sizes) != 2 or any(not isinstance(n, int) or n == 0 for n in sizes):
        raise ArgumentError(
            f"linear: w: got codes {list(sizes)}", allowed="[K, N] with sizes that are numbers"
        )
    allowed = [-(-sizes[0] // GROUP), sizes[1]] if stored == "mx" else [1, sizes[1]]
    one = stored != "mx" and all(n == 1 for n in shape)
    if list(shape) != allowed and not one:
        raise ArgumentError(
            (f"linear: w: got scales {list(shape)} of codes {list(sizes)}, which do not belong to columns"),
            allowed=f"{allowed}",
            fix=f"nn.quantise(w, format={stored!r}, axis=0)",
        )
    return Quantised(codes, scale if stored == "mx" else scale_of("linear: w.scale", scale, sizes)), stored


def _percentile(given: object) -> float | None:
    """A percentile as Python's number; ArgumentError for what is none."""
    if given is None:
        return None
    percentile = float(given) if isinstance(given, Real) else math.nan
    if not 0 <= percentile <= 100:
        raise ArgumentError(f"calibrate: percentile: got {given!r}", allowed="0 to 100")
    return percentile


def _chosen_axes(what: str, axis: Any) -> Axis:
    """An axis, several as a tuple, or None for all, in Python's numbers; ArgumentError for anything else."""
    if axis is None:
        return None
    axes = axis if isinstance(axis, list | tuple) else (axis,)
    if not all(is_number(a, -sys.maxsize) for a in axes):
        allowed = "a number, several, or None"
        raise ArgumentError(f"{what}: axis: got {axis!r}", allowed=allowed, fix="axis=-1")
    return tuple(map(int, axes)) if isinstance(axis, list | tuple) else int(axis)


def _axes(axis: Axis, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    axes = (axis,) if isinstance(axis, int) else axis
    if not all(-rank <= a < rank for a in axes):
        allowed = f"{-rank} to {rank - 1}" if rank else "None, or an array with axes"
        raise ArgumentError(f"axis: got {axis} for an array of {rank} axes", allowed=allowed)
    if len({a % rank for a in axes}) < len(axes):
        raise ArgumentError(f"axis: got {axis}", allowed="each axis once")
    return tuple(a % rank for a in axes)


def _specs(codes: Any, scale: Any) -> Any:
    """The specs of codes and scales, as results are."""
    return Quantised(codes, scale)


# -- tile by tile --------------------------------------------------------------------------------------


def lanewise(f: Callable[..., Any], x: Array) -> Array:
    """``f`` of every element of an array, whose result is a Tile of the tile it takes."""
    if x.size == 0:
        return jnp.zeros(x.shape, _dtype(f, x.dtype))
    width = even(x.size, VECTOR[1], COLUMNS)
    matrix = jnp.pad(x.reshape(-1), (0, -x.size % width)).reshape(-1, width)
    tiles = each(lambda t: f(t).array, cut(matrix, *vector_size(matrix.shape)))
    return joined(tiles, *matrix.shape).reshape(-1)[: x.size].reshape(x.shape)


def _dtype(f: Callable[..., Any], element: Any) -> Any:
    """The type of what ``f`` makes of a tile."""
    return jax.eval_shape(lambda t: f(t).array, jnp.zeros(vector_size((1, 1)), element)).dtype


def single(how: Settings, x: Array) -> Array:
    """An array as float32; the conversion is an instruction."""
    if x.dtype == np.float32:
        return x
    return lanewise(lambda t: ops.tcvt(t, dst="f32", **how.options), x)


@lru_cache
def _arithmetic(operation: Literal["mul", "div"], numerics: Numerics) -> Callable[..., Any]:
    """``x * y`` or ``x / y`` of float32 arrays that broadcast, as ``tmul`` and ``tdiv`` compute them."""

    def compute(native: bool, x: Array, y: Array) -> Array:
        words = (lax.bitcast_convert_type(v, np.uint32) for v in (x, y))
        result = binary(arithmetic(F32, numerics, native), operation, *words)
        return lax.bitcast_convert_type(result, np.float32)

    return by_platform(partial(compute, False), cuda=partial(compute, True))


@lru_cache
def _calibrated(how: Settings, axis: Axis, percentile: float | None) -> Callable[[Any], Array]:
    largest = how.format.largest
    assert largest is not None

    def part(x: Array, over: frozenset[str]) -> Array:
        x = single(how, x)
        axes = _axes(axis, x.ndim)
        if percentile is None or x.size == 0:
            result = _largest(x, axes)
        else:
            result = lax.max(
                jnp.percentile(jnp.abs(x), percentile, axes, keepdims=True), np.float32(SMALLEST)
            )
        if over:
            result = lax.pmax(result, tuple(sorted(over)))  # type: ignore[no-untyped-call]
        scale = _quotient(how, result, np.float32(largest))
        return scale.reshape(()) if axis is None else scale

    @jax.jit
    def run(x: Array) -> Any:
        axes, spec = _axes(axis, x.ndim), spec_of(x)
        kept = () if axis is None else (None if i in axes else a for i, a in enumerate(spec))
        over = names(spec[i] for i in axes)
        return on_each_part(partial(part, over=over), (lax.stop_gradient(x),), (spec,), partition(kept))

    return run


def _largest(x: Array, axes: tuple[int, ...]) -> Array:
    """The largest magnitude along axes, which become extents of 1, and at least ``SMALLEST``; NaN for a NaN.

    Magnitudes are in the order of their words, and those of NaN are the largest. Divided by a power of two
    all are finite, and their words those of float32 numbers, for which XLA:CPU has a function of a library.
    """
    smallest, power = np.float32(SMALLEST).view(np.uint32), np.uint32(16 << 23)
    words = jnp.maximum(lax.bitcast_convert_type(x, np.uint32) & np.uint32(0x7FFFFFFF), smallest) - power
    keys = lax.bitcast_convert_type(words, np.float32)
    largest = lax.expand_dims(lax.reduce(keys, (smallest - power).view(np.float32), lax.max, axes), axes)
    return lax.bitcast_convert_type(lax.bitcast_convert_type(largest, np.uint32) + power, np.float32)


def rows_and_columns(how: Settings, x: Array, w: Array) -> tuple[Quantised, Quantised]:
    """:func:`quantise` of the rows of x [M, K] and of the columns of w [K, N] in format int8 or fp8.

    Scales are computed together, which takes half as long to compile.
    """
    x, w = single(how, x), single(how, w)
    sides = [(len(x), 1), (1, w.shape[1])]
    largest = [_largest(v, (axis,)).reshape(-1) for v, axis in ((x, 1), (w, 0))]
    assert how.format.largest is not None
    scale = _quotient(how, jnp.concatenate(largest), np.float32(how.format.largest))
    inverse = _quotient(how, np.float32(1), scale)

    def side(v: Array, at: slice, shape: tuple[int, int]) -> Quantised:
        # As SMALLEST is, a subnormal number, or one times an inverse, has the code of its zero.
        codes = _codes(how.format, "fast", v, inverse[at].reshape(shape))
        return Quantised(codes, scale[at].reshape(shape))

    return side(x, slice(len(x)), sides[0]), side(w, slice(len(x), None), sides[1])


def _quotient(how: Settings, x: Any, y: Any) -> Array:
    """Quotients of a few numbers that many are multiplied by."""
    words = lax.bitcast_convert_type(_arithmetic("div", how.numerics)(x, y), np.uint32)
    return lax.bitcast_convert_type(once(words), np.float32)


def _codes(format: Format, numerics: Numerics, x: Array, inverse: Array) -> Array:
    """What tquant, or trowexpandmul and tcvt compute, of all elements at once."""
    words, factors = (lax.bitcast_convert_type(v, np.uint32) for v in (x, inverse))
    element = dtype(format.element)
    codes: Array = scaled_codes(numerics, words, factors, element)
    return lax.bitcast_convert_type(codes, element.numpy)


@lru_cache
def _quantised(how: Settings) -> Callable[[Any, Any], Quantised]:
    """The codes of an array in format int8 or fp8."""

    def part(x: Array, scale: Array) -> Quantised:
        x, scale = single(how, x), single(how, scale)
        codes = _codes(how.format, how.numerics, x, _quotient(how, np.float32(1), scale))
        return Quantised(codes, scale)

    @jax.jit
    def run(x: Array, scale: Array) -> Any:
        specs = (spec_of(x), of_sizes(spec_of(x), scale.shape))
        return on_each_part(part, [lax.stop_gradient(a) for a in (x, scale)], specs, _specs(*specs))

    return run


def _values(how: Settings, codes: Array, factor: Array) -> Array:
    """What tdequant, or tcvt and trowexpandmul compute, of all elements at once."""
    d = dtype(how.format.element)
    numbers = codes.astype(np.float32)
    if d.is_float:
        words = bits.to_single(bits.raw(codes), d)
        words = jnp.where(bits.is_nan(words, F32), np.uint32(F32.canonical_nan), words)
        numbers = lax.bitcast_convert_type(words, np.float32)
    values: Array = _arithmetic("mul", how.numerics)(numbers, factor)
    return values


@lru_cache
def _dequantised(how: Settings) -> Callable[[Any, Any], Array]:
    def part(codes: Array, scale: Array) -> Array:
        return _values(how, codes, single(how, scale))

    @jax.jit
    def run(codes: Array, scale: Array) -> Any:
        spec = spec_of(codes)
        return on_each_part(part, (codes, scale), (spec, of_sizes(spec, scale.shape)), spec)

    return run


# -- groups that share a power of two ------------------------------------------------------------------


@lru_cache
def _quantised_mx(how: Settings, axis: int) -> Callable[[Any], Quantised]:
    def part(x: Array) -> Quantised:
        # What tquant.mx computes, of all groups at once.
        at = _axes(axis, x.ndim)[0]
        size, groups = x.shape[at], -(-x.shape[at] // GROUP)
        words = lax.bitcast_convert_type(single(how, x), np.uint32)
        missing = [(0, groups * GROUP - size if i == at else 0) for i in range(x.ndim)]
        parts = jnp.pad(words, missing).reshape(*x.shape[:at], groups, GROUP, *x.shape[at + 1 :])
        codes, exponents = grouped_codes(parts, at + 1)
        flat = codes.reshape(*x.shape[:at], groups * GROUP, *x.shape[at + 1 :])
        codes = lax.slice_in_dim(flat, 0, size, axis=at)
        results = zip((codes, exponents.squeeze(at + 1)), (how.format.element, "f8e8m0"), strict=True)
        return Quantised(*(lax.bitcast_convert_type(w, dtype(d).numpy) for w, d in results))

    @jax.jit
    def run(x: Array) -> Any:
        spec = spec_of(x)
        return on_each_part(part, (lax.stop_gradient(x),), (spec,), _specs(spec, spec))

    return run


@lru_cache
def _dequantised_mx(how: Settings, axis: int) -> Callable[[Any, Any], Array]:
    def part(codes: Array, scale: Array) -> Array:
        at = _axes(axis, codes.ndim)[0]
        factor = lax.bitcast_convert_type(bits.to_single(bits.raw(scale), dtype("f8e8m0")), np.float32)
        spread = lax.slice_in_dim(jnp.repeat(factor, GROUP, axis=at), 0, codes.shape[at], axis=at)
        return _values(how, codes, spread)

    @jax.jit
    def run(codes: Array, scale: Array) -> Any:
        spec = spec_of(codes)
        return on_each_part(part, (codes, scale), (spec, spec), spec)

    return run
