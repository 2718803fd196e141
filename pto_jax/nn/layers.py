"""Layers whose products are PTO instructions, with straight-through gradients.

The value is that of the PTO program, the derivative that of a reference in plain JAX. Exact numerics scale
and bias the sums of codes in float64 on CPUs, where float32 subnormals are lost. Where the exponents of the
operands exclude subnormals, float32 gives the same bits in a fraction of the time.
"""

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero

from .. import ops, profiles
from ..errors import ArgumentError, DifferentiationError, nearest
from ..files import user_code
from ..garbage import seldom_collected
from ..ir import F32, dtype
from ..isa.matrix import STARTED
from ..lowering import bits, matrix
from ..lowering.bits import x64
from ..lowering.numerics import Arithmetic, arithmetic
from ..lowering.rules import Semantics
from ..runtime.interchange import received
from ..runtime.kernel import Kernel
from ..runtime.tiles import Tile
from . import quantisation
from .quantisation import (
    GROUP,
    Block,
    Name as FormatName,
    Numerics,
    Quantised,
    Settings,
    block_of,
    floats,
    lanewise,
    quantise,
    scale_of,
    settings,
    single,
)
from .tiling import cut, each, joined, names, of_sizes, on_each_part, partition, spec_of, stored, whole_along

#: Exponent fields of the smallest sums that are not zero: of integers, and of products of e4m3 codes.
_LEAST = {"int8": 127, "fp8": 127 - 18}
#: Numbers that are added up, from which on scaling their sum is a small part of a layer.
_DEEP = 512
#: Rows of a block where the number of rows is a symbol of ``jax.export``.
SYMBOLIC_ROWS = 32


def scaled(
    how: Settings, total: Array, row: Array, column: Array, bias: Array | None, depth: int = 0
) -> Array:
    """``total * row * column + bias``, as instructions compute it, each rounded to float32.

    ``total`` is [M, N] in int32 (format int8) or float32 (fp8), the others float32: ``row`` [M, 1],
    ``column`` and ``bias`` [1, N]. On CPUs float32 arithmetic where it gives the same bits saves time only
    while products of few numbers, ``depth``, are added up; code for both takes twice as long to compile.
    """
    operands = (total, row, column, *(() if bias is None else (bias,)))
    exact, native = (partial(_scaled_in, arithmetic(F32, native=n)) for n in (False, True))

    def attempted(*operands: Array) -> Any:
        return lax.cond(_normal(how, *operands[1:]), native, exact, *operands)

    if how.numerics == "fast":
        return _scaled_in(arithmetic(F32, "fast"), *operands)
    on_cpu = attempted if depth < _DEEP else exact
    result: Array = lax.platform_dependent(*operands, cpu=on_cpu, cuda=native, default=exact)
    return result


def _scaled_in(a: Arithmetic, total: Array, row: Array, column: Array, bias: Array | None = None) -> Array:
    """The same in an arithmetic: each operation is rounded by itself, NaN canonical."""
    with x64():
        # Sums of integers are rounded as tcvt rounds them.
        singles = (lax.convert_element_type(v, np.float32) for v in (total, row, column))
        x, y, z = (a.decode(lax.bitcast_convert_type(v, np.uint32)) for v in singles)
        result = a.mul(a.mul(x, y), z)
        if bias is not None:
            result = a.add(result, a.decode(lax.bitcast_convert_type(bias, np.uint32)))
        return lax.bitcast_convert_type(a.encode(result), np.float32)


def _normal(how: Settings, row: Array, column: Array, bias: Array | None = None) -> Array:
    """Whether no operand, product or sum can be a float32 subnormal."""
    first, second = _field(row), _field(column)
    scaled = np.int32(_LEAST[how.format.name]) + first
    products = scaled + second - np.int32(127)
    normal = (lax.min(first, second) > 0) & (scaled >= np.int32(127 + 1))
    if bias is None:
        return normal & (products >= np.int32(127 + 1))
    # A sum is a multiple of the last place of the smaller operand.
    return normal & (products >= np.int32(127 + 1 + 23)) & (_field(bias) >= np.int32(1 + 23))


def _field(x: Array) -> Array:
    """A lower bound of the exponent fields of the numbers that are not zero; 255 if there are none."""
    words = lax.bitcast_convert_type(x, np.uint32)
    keys = (words << np.uint32(1)) - np.uint32(1)
    least = lax.reduce(keys, np.uint32(0xFFFFFFFF), lax.min, tuple(range(x.ndim)))
    return lax.convert_element_type(least >> np.uint32(24), np.int32)


def straight_through(kernel: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the values of ``kernel`` and the derivative of ``reference``.

    ``kernel`` is a compiled :class:`pto_jax.Kernel` or any function that calls kernels or
    :mod:`pto_jax.ops`; ``reference`` a differentiable JAX function of the same arguments. Both give the same
    results: pytrees of one structure with arrays of the same shapes, where a Tile counts as its array, and
    the reference of a ``Kernel`` with one result may give the bare array. Element types of results may
    differ between float types: derivatives are converted. Integer and boolean arguments and results have no
    derivative.

    The function takes and gives what ``kernel`` does, with arrays in place of tiles. It works under jit,
    vmap, scan and shard_map, in forward and reverse mode of any order. Where results do not correspond,
    differentiating raises DifferentiationError.

    >>> import pto_jax as pto
    >>> half = straight_through(lambda x: pto.ops.tcvt(x, dst="f16").array, lambda x: x)
    >>> x = jnp.full((1, 16), 1.0001, jnp.float32)
    >>> half(x)[0, 0].item(), jax.grad(lambda x: half(x).astype(x.dtype).sum())(x)[0, 0].item()
    (1.0, 1.0)
    """
    for what, given in (("kernel", kernel), ("reference", reference)):
        if not callable(given):
            raise ArgumentError(
                f"straight_through: {what}: got {given!r:.40}",
                allowed="a function of arrays",
                fix=f"{what}=lambda x: x",
            )
    name = str(getattr(kernel, "__name__", None) or getattr(kernel, "entry", type(kernel).__name__))

    # Unlike a custom_vjp, a custom_jvp serves both modes.
    @jax.custom_jvp
    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _arrays(kernel(*args, **kwargs))

    @call.defjvp
    def _derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
        results = call(*primals)
        expected, moved = jax.jvp(lambda a, k: _arrays(reference(*a, **k)), primals, tangents)
        if isinstance(kernel, Kernel) and len(results) == 1 and not isinstance(expected, dict):
            expected, moved = (dict.fromkeys(results, x) for x in (expected, moved))
        return results, _matched(name, results, expected, moved)

    def function(*args: Any, **kwargs: Any) -> Any:
        taken: Any = call(*jax.tree.map(lambda x: received(x, name), (args, kwargs)))
        return taken

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Values of {name}, derivative of {getattr(reference, '__name__', 'its reference')}."
    return function


def _arrays(results: Any) -> Any:
    return jax.tree.map(
        lambda r: r.array if isinstance(r, Tile) else r, results, is_leaf=lambda r: isinstance(r, Tile)
    )


def _matched(name: str, results: Any, expected: Any, moved: Any) -> Any:
    """The reference's tangents in the element types of the kernel's results."""
    structure: Any = jax.tree.structure(results)
    if structure != jax.tree.structure(expected):
        raise DifferentiationError(
            f"{name}: the reference gives {_shown(expected)}, the kernel {_shown(results)}",
            fix="a reference whose results have the kernel's structure",
        )
    leaves = [jax.tree_util.tree_leaves_with_path(results), jax.tree.leaves(expected), jax.tree.leaves(moved)]
    tangents = [_tangent(name, *each) for each in zip(*leaves, strict=True)]
    return jax.tree.unflatten(structure, tangents)


def _tangent(name: str, result: tuple[Any, Any], target: Any, moved: Any) -> Any:
    path, value = result
    what = f"{name}: result{jax.tree_util.keystr(path)}"
    actual, expected = jnp.result_type(value), jnp.result_type(target)
    if np.shape(value) != np.shape(target):
        raise DifferentiationError(
            f"{what} has shape {np.shape(value)}, the reference gives {np.shape(target)}",
            fix="a reference with results of the kernel's shapes",
        )
    floats = [jnp.issubdtype(d, np.inexact) for d in (actual, expected)]
    if floats == [False, True]:
        raise DifferentiationError(
            f"{what} is {actual}, which has no derivative, the reference gives {expected}",
            fix="a kernel that gives floats, such as codes times their scale",
        )
    if floats == [True, False]:
        raise DifferentiationError(
            f"{what} is {actual}, the reference gives {expected}, which has no derivative",
            fix="a reference that gives floats",
        )
    return moved.astype(actual) if floats[0] else moved


def _shown(results: Any) -> str:
    return str(jax.tree.map(lambda r: f"{jnp.result_type(r)}{list(np.shape(r))}", results))


def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    format: FormatName | None = None,
    profile: profiles.ProfileName | None = None,
    scale: Any = None,
    w_scale: Any = None,
    numerics: Numerics = "exact",
) -> Array:
    """``x @ w + bias`` in a number format of the hardware, computed by PTO instructions.

    ``x`` [..., K] and ``w`` [K, N] are arrays of float32, float16 or bfloat16, ``bias`` [N]; the result is
    [..., N] in the type of x. ``w`` may also be stored: the codes and scales of
    ``quantise(w, axis=0, format=...)``, which give the bits that ``w`` itself gives. All sizes are allowed:
    matrices are padded with zeros and cut into tiles of at most 128 rows, 256 bytes along K and 256 columns,
    which every profile's buffers hold.

    ``format``
        By default "int8", or that of stored weights. "int8": codes with a scale, int32 sums. "fp8": e4m3
        codes with a scale, float32 sums. "mx": MXFP8, e4m3 codes whose groups of 32 along K share a power
        of two, float32 sums. "f16", "bf16", "f32": converted, float32 sums. Float sums of several
        tiles along K are added in float32, in order. What is beyond the largest number of f16, bf16 or the
        codes, an infinity included, becomes that number; under a given scale NaN is 0 in "int8".
    ``profile``
        The first of "a2a3", "a5", "cpu_sim" that has the format; "fp8" is one of a5.
    ``scale``, ``w_scale``
        Scales of x and w for "int8" and "fp8", as :func:`calibrate` gives them: of x one number, or
        [..., 1] for one per row (the default, from the magnitudes); of w one number, or [1, N] for one per
        column (the default, at least 2^-100 over the largest code: 6.2e-33 for "int8"; NaN and infinity
        where the values have one). They count as constants.
    ``numerics``
        "exact" or "fast", as for :func:`pto_jax.compile`.

    The gradient is that of ``x @ w + bias`` (:func:`pto_jax.straight_through`); of stored weights that with
    respect to x, bias and float32 scales, and with respect to codes DifferentiationError. Leading sizes of x
    may be symbols of ``jax.export``: the rows are then computed in blocks of 32. Under vmap over x alone the
    batch is more rows of one product. Over explicit mesh axes rows of x and columns of w may be sharded, and
    the result is as they are; K is whole. Raises ArgumentError for shapes and shardings that do not fit,
    formats that the profile does not have, and scales of formats without.

    >>> x, w = jnp.ones((3, 5)), jnp.full((5, 2), 0.5)
    >>> linear(x, w, format="bf16").tolist()
    [[2.5, 2.5], [2.5, 2.5], [2.5, 2.5]]
    >>> linear(x, quantise(w, axis=0)).shape
    (3, 2)
    """
    is_stored, name = isinstance(w, Quantised), format or "int8"
    if is_stored:
        (w, w_scale), name = quantisation.weights_of(w, format, w_scale)
    how = settings("linear", name, profile, numerics)
    x = floats("linear: x", x, symbolic=True)
    w = _constant(w) if is_stored else floats("linear: w", w)
    if is_stored and how.format.name == "mx":
        w_scale = _constant(w_scale)
    if x.ndim < 1 or w.ndim != 2 or x.shape[-1] != w.shape[0] or 0 in w.shape:
        turned = w.ndim == 2 and x.ndim and x.shape[-1] == w.shape[1]
        raise ArgumentError(
            f"linear: got x {list(x.shape)} and w {list(w.shape)}",
            allowed="x [..., K] and w [K, N], K and N from 1 up",
            fix=f"{user_code.argument('w', 1)}.T" if turned else "",
        )
    if isinstance(bias, str):
        close = nearest(bias, get_args(FormatName)) or "int8"
        got = f"linear: bias: got {bias!r}"
        raise ArgumentError(got, allowed="an array [N], or no bias", fix=f'format="{close}"')
    if bias is not None:
        bias = floats("linear: bias", bias)
        if bias.shape != w.shape[1:]:
            fix = f"bias[:{w.shape[1]}]" if bias.ndim == 1 and bias.shape[0] > w.shape[1] else ""
            fix = fix or f"jnp.zeros({w.shape[1]}, jnp.float32)"
            allowed = f"[N], here {[w.shape[1]]}"
            raise ArgumentError(f"linear: got bias {list(bias.shape)}", allowed=allowed, fix=fix)
    if how.format.largest is None and (scale is not None or (w_scale is not None and not is_stored)):
        raise ArgumentError(f"linear: format {format!r} has no scales of its own", allowed="scale=None")
    scales = (
        None if scale is None else scale_of("linear: scale", scale, (*x.shape[:-1], 1)),
        w_scale if w_scale is None or is_stored else scale_of("linear: w_scale", w_scale, (1, w.shape[1])),
    )
    whole_along("linear: x", x, (-1,), "K")
    whole_along("linear: w", w, (0,), "K")
    if both := sorted(names(spec_of(x)) & names(spec_of(w))):
        raise ArgumentError(
            (f"linear: got x {jax.typeof(x)} and w {jax.typeof(w)}, both sharded over {', '.join(both)}"),
            allowed="rows of x and columns of w over different mesh axes",
            fix="jax.sharding.reshard(w, jax.P(None, None))",
        )
    if all(isinstance(n, int) for n in x.shape):
        return _layer(how, is_stored)(x, w, bias, *scales)
    return _in_blocks(how, is_stored, x, w, bias, *scales)


@jax.custom_jvp
def _constant(codes: Array) -> Array:
    """Codes, whose derivative is an error where it is asked for."""
    return codes


@partial(_constant.defjvp, symbolic_zeros=True)
def _(codes: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    if not isinstance(tangents[0], SymbolicZero) and jnp.issubdtype(codes[0].dtype, np.inexact):
        raise DifferentiationError(
            "linear: w: codes have no derivative",
            allowed="derivatives with respect to x, bias and float32 scales",
            fix="jax.lax.stop_gradient(w), or float weights, which the layer quantises: linear(x, w)",
        )
    return codes[0], tangents[0]


def _in_blocks(
    how: Settings, is_stored: bool, x: Array, w: Array, bias: Any, scale: Any, w_scale: Any
) -> Array:
    """The layer of rows whose number is a symbol: blocks of a number of rows, the last one padded."""
    count = reduce(operator.mul, x.shape[:-1])
    blocks = (count + SYMBOLIC_ROWS - 1) // SYMBOLIC_ROWS

    def divided(rows: Array, fill: float) -> Array:
        padding = ((0, blocks * SYMBOLIC_ROWS - count), (0, 0))
        padded = jnp.pad(rows.reshape(count, -1), padding, constant_values=fill)
        return padded.reshape(blocks, SYMBOLIC_ROWS, rows.shape[-1])

    parts = [divided(x, 0)]
    if scale is not None:
        parts.append(divided(jnp.broadcast_to(scale, (*x.shape[:-1], 1)), 1))
    block = straight_through(partial(_forward, how, is_stored), partial(_reference, is_stored))

    def one(x: Array, scale: Array | None = None) -> Any:
        return block(x, w, bias, scale, w_scale)

    result: Array = jax.vmap(one)(*parts)
    return result.reshape(blocks * SYMBOLIC_ROWS, -1)[:count].reshape(*x.shape[:-1], w.shape[1])


@lru_cache
def _layer(how: Settings, is_stored: bool) -> Callable[..., Array]:
    """The layer as a function of arrays; stored weights are codes and their scales."""

    def whole(x: Array, w: Array, *others: Array | None) -> Any:
        *rows, _ = spec_of(x)
        columns = spec_of(w)[1]
        wide = ((columns,), (*rows, None), (None, columns))  # bias, scale, w_scale
        specs = (
            partition(()) if a is None else of_sizes(s, a.shape) for a, s in zip(others, wide, strict=True)
        )
        inputs = (partition((*rows, None)), partition((None, columns)), *specs)
        return on_each_part(
            partial(_forward, how, is_stored), (x, w, *others), inputs, partition((*rows, columns))
        )

    forward = custom_vmap(whole)

    @forward.def_vmap
    def _(axis_size: int, batched: Sequence[Any], x: Array, *others: Any) -> tuple[Array, bool]:
        """A batch of x is more rows of one product: by itself each would be padded to a tile."""
        w, bias, scale, w_scale = others
        if not batched[0] or any(batched[i] for i in (1, 2, 4)):
            axes = tuple(0 if b else None for b in batched)
            return jax.vmap(whole, axes)(x, *others), True
        if batched[3] and scale is not None:
            scale = scale.reshape(axis_size, *(1,) * (x.ndim - scale.ndim), *scale.shape[1:])
        return forward(x, w, bias, scale, w_scale), True

    return jax.jit(straight_through(forward, partial(_reference, is_stored)))


def _reference(
    is_stored: bool, x: Array, w: Array, bias: Array | None, scale: Array | None, w_scale: Array | None
) -> Array:
    if is_stored and w_scale is not None:
        factor = w_scale.astype(np.float32)
        if w_scale.dtype == jnp.float8_e8m0fnu:
            factor = jnp.repeat(factor, GROUP, axis=0)[: w.shape[0]]
        w = lax.stop_gradient(w.astype(np.float32)) * factor
    product = jnp.matmul(x, w.astype(x.dtype))
    if bias is None:
        return product
    return product + lax.expand_dims(bias.astype(x.dtype), range(product.ndim - 1))


@seldom_collected()
def _forward(
    how: Settings,
    is_stored: bool,
    x: Array,
    w: Array,
    bias: Array | None,
    scale: Array | None,
    w_scale: Array | None,
) -> Array:
    if not x.size:
        return jnp.zeros((*x.shape[:-1], w.shape[1]), x.dtype)
    # Integer products, and what depends on a condition, are computed once in any case.
    turns = x.reshape(-1)[0] != jnp.zeros((), x.dtype)
    once: Any = partial(stored, turns=turns) if how.format.name != "int8" else lambda arrays: arrays
    x = once(x)
    rows = x.reshape(-1, x.shape[-1])
    if scale is not None:
        scale = jnp.broadcast_to(scale, (*x.shape[:-1], 1)).reshape(-1, 1)
    a, b = _operands(how, is_stored, rows, w, scale, w_scale)
    codes = once((a.codes, b.codes))
    a, b = Quantised(codes[0], a.scale), Quantised(codes[1], b.scale)
    block = block_of(how.format, rows.shape[0], rows.shape[1], w.shape[1])
    result = _product(how, a, b, block)
    line = None if bias is None else single(how, bias)[None]
    if how.format.largest is not None:
        row = jnp.broadcast_to(a.scale, (len(rows), 1))
        column = jnp.broadcast_to(b.scale, (1, w.shape[1]))
        result = scaled(how, result, row, column, line, x.shape[-1])
    elif line is not None:
        tiles = cut(result, block.m, block.n), cut(line, 1, block.n)
        sums = each(lambda t, b: ops.tcolexpandadd(t, b, **how.options).array, *tiles)
        result = joined(sums, *result.shape)
    if x.dtype != np.float32:
        to = {"float16": "f16", "bfloat16": "bf16"}[str(x.dtype)]
        result = lanewise(lambda t: ops.tcvt(t, dst=to, **how.options), result)
    layer: Array = once(result).reshape(*x.shape[:-1], w.shape[1])
    return layer


def _operands(
    how: Settings, is_stored: bool, x: Array, w: Array, scale: Array | None, w_scale: Array | None
) -> tuple[Quantised, Quantised]:
    """Codes of x [M, K] and w [K, N], as words where their product is one."""
    if how.format.largest is not None and scale is None and w_scale is None:
        pair = quantisation.rows_and_columns(how, x, w)
    else:
        weights = Quantised(w, w_scale) if is_stored and w_scale is not None else _operand(how, w, w_scale, 0)
        pair = _operand(how, x, scale, 1), weights
    if not _is_whole(how):
        return pair
    a, b = (Quantised(bits.raw(q.codes), q.scale) for q in pair)
    return a, b


def _is_whole(how: Settings) -> bool:
    """Whether all tiles are one product of floats: sums of a tile start from those of the one before."""
    return how.profile in STARTED and how.format.name not in ("int8", "f32")


def _operand(how: Settings, x: Array, scale: Array | None, axis: int) -> Quantised:
    """Codes of a matrix whose scales are shared along ``axis``; in formats without scales a conversion."""
    if how.format.name in ("int8", "fp8", "mx"):
        return quantise(x, scale, format=how.format.name, axis=axis, **how.options)
    if how.format.name == "f32":
        return Quantised(single(how, x), x)
    codes = lanewise(lambda t: ops.tcvt(t, dst=how.format.element, **how.options), single(how, x))
    return Quantised(codes, x)


def _sides(how: Settings, x: Quantised, block: Block, side: int) -> tuple[Array, ...]:
    """Tiles of codes, in format mx also of exponents: [rows, 1, K, ...] at the left, [1, columns, K, ...]."""
    parts = [(x.codes, block.k)]
    if how.format.name == "mx":
        parts.append((bits.raw(x.scale), block.k // GROUP))
    if side == 0:
        return tuple(cut(p, block.m, k)[:, None] for p, k in parts)
    return tuple(cut(p, k, block.n).swapaxes(0, 1)[None] for p, k in parts)


def _product(how: Settings, a: Quantised, b: Quantised, block: Block) -> Array:
    """The sums [M, N] of products of codes along K, added up as ``tmatmul`` and ``tmatmul_acc`` do.

    Sums of integers modulo 2^32 have no order, so that those of all tiles are one product, and so they are
    where sums of a tile start from those of the one before.
    """
    if how.format.name == "int8":
        contracted = ((1,), (0,)), ((), ())
        return lax.dot_general(a.codes, b.codes, contracted, preferred_element_type=np.int32)
    if _is_whole(how):
        with x64():
            return lax.bitcast_convert_type(_sums(how, a, b), np.float32)
    left, right = _sides(how, a, block, 0), _sides(how, b, block, 1)
    tiles = each(partial(_total, how, len(left)), *left, *right)
    return joined(tiles, a.codes.shape[0], b.codes.shape[1])


def _sums(how: Settings, a: Quantised, b: Quantised) -> Array:
    """float32 words of the sums, which start from those of the tile before."""
    d = dtype(how.format.element)
    if how.format.name == "mx":
        return matrix.scaled_sums(a.codes, b.codes, [bits.raw(q.scale) for q in (a, b)], (d, d))
    semantics = Semantics(profiles.profile(how.profile), how.numerics)
    return matrix.sums(semantics, a.codes, b.codes, (d, d))


def _total(how: Settings, count: int, *operands: Array) -> Array:
    """The sums of one tile of the result: products along K, added up."""
    left, right = operands[:count], operands[count:]
    sources = [*left, *right]
    multiply, add = (
        (ops.tmatmul_mx, ops.tmatmul_mx_acc) if how.format.name == "mx" else (ops.tmatmul, ops.tmatmul_acc)
    )
    total: Array = multiply(*(s[0] for s in sources), **how.options).array
    if len(sources[0]) > 1:
        total = lax.scan(
            lambda t, s: (add(t, *s, **how.options).array, None), total, tuple(s[1:] for s in sources)
        )[0]
    return total
