"""JAX rules of the cube unit: fractals as axes of memory, products of matrices, stores of accumulators.

What an operation moves is a box of words: axes of a count and a pitch in bytes each. A box whose words lie
close together is one run of memory, reshaped and transposed; others are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.ir import F32, HIF8, DType, RoundMode, dtype
from pto_jax.isa.cube import (
    ACC_ROW,
    BIASES,
    FEW,
    FIELDS,
    FRACTAL,
    FRAGMENT,
    GROUP,
    KEEPS_NAN,
    KEEPS_OVERFLOW,
    PARAMETERS,
    ROW,
    SIDE,
    WORD,
    Fractals,
    channels,
    extents_of,
    fractals,
    fragments,
    is_row,
    is_transposed,
    number_of,
    widened,
)
from pto_jax.isa.cube_stores import QUANTISATIONS, is_vector
from pto_jax.isa.micro import Lanes, MicroCall
from pto_jax.isa.rules import block_scales

from . import bits, canary, convert, matrix, quantise
from .micro import memory_rule, regrouped
from .numerics import Integer
from .platforms import by_platform
from .rules import Semantics
from .ub_memory import Loop, combine, integer, known, loops_of, plain, put, transfer

if TYPE_CHECKING:
    from jaxtyping import Bool, Shaped, UInt

    from .machine.local_memory import Place
    from .machine.tile_memory import TileMemory

#: A box is one run of memory where this has at most so many times the words of the box.
MAX_GAPS = 8
#: Fraction bits of tf32.
_TF32 = 10
_ROUNDINGS = {"round_even": RoundMode.RINT, "round_away": RoundMode.ROUND}


# -- boxes of memory ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """Words of ``width`` bits in memory: count and pitch in bytes of each axis, and the first byte.

    Pitches and the first byte that only execution knows are multiples of ``aligned`` bytes.
    """

    width: int
    axes: tuple[tuple[int, Any], ...]
    start: Any = 0
    aligned: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The words along each axis."""
        return tuple(count for count, _ in self.axes)

    @property
    def pitches(self) -> tuple[Any, ...]:
        """The pitch of each axis."""
        return tuple(pitch for _, pitch in self.axes)

    def unit(self, place: Place) -> int:
        """Bits of the words of memory that the box is made of."""
        steps = (n if isinstance(n, int) else self.aligned for n in (self.start, *self.pitches))
        return int(min(self.width, place.unit(self.width // 8, *steps)))

    def split(self, unit: int) -> Box:
        """The same box of smaller words."""
        if unit == self.width:
            return self
        return replace(self, width=unit, axes=(*self.axes, (self.width // unit, unit // 8)))

    @property
    def reach(self) -> int:
        """The words from the first to the last one."""
        return 1 + int(sum((count - 1) * pitch for count, pitch in self.axes)) * 8 // self.width

    @cached_property
    def positions(self) -> Any:
        """Where the words are, counted in words."""
        at: Any = np.zeros(self.shape, np.int64) + self.start * 8 // self.width
        for axis, (count, pitch) in enumerate(self.axes):
            steps = np.arange(count, dtype=np.int64) * (pitch * 8 // self.width)
            at = at + steps.reshape([-1 if k == axis else 1 for k in range(len(self.axes))])
        return at

    @cached_property
    def run(self) -> Run | None:
        """The box as a run of memory; None where words are far apart, in each other's place, or anywhere."""
        if not all(isinstance(n, int) for n in (self.start, *self.pitches)):
            return None
        axes = [
            (pitch * 8 // self.width, count, k) for k, (count, pitch) in enumerate(self.axes) if count > 1
        ]
        axes.sort(reverse=True)
        extents: list[int] = []
        outer = 0
        for pitch, count, _ in axes:
            extents.append(count if not extents else outer // pitch if pitch and not outer % pitch else 0)
            if extents[-1] < count or pitch <= 0:
                return None
            outer = pitch
        extents.append(max(1, outer))
        if prod(extents) > MAX_GAPS * prod(self.shape):
            return None
        return Run(tuple(k for _, _, k in axes), tuple(extents))


@dataclass(frozen=True)
class Run:
    """A run of memory as an array: the axes of a box from the largest pitch on, and extents with gaps."""

    order: tuple[int, ...]
    extents: tuple[int, ...]


def load(place: Place, box: Box) -> UInt[Array, "..."]:
    """The words of a box."""
    unit = box.unit(place)
    parts = box.split(unit)
    words = _loaded(place, parts)
    return words if parts is box else regrouped(words.reshape(-1), box.width).reshape(box.shape)


def _loaded(place: Place, box: Box) -> UInt[Array, "..."]:
    if not prod(box.shape):
        return jnp.zeros(box.shape, f"u{box.width // 8}")
    run = box.run
    if run is None:
        return place.gather(box.positions, box.width)
    words = place.read(box.reach, box.width, box.start * 8 // box.width)
    words = jnp.pad(words, (0, prod(run.extents) - box.reach)).reshape(run.extents)
    cut = words[(*(slice(0, box.axes[k][0]) for k in run.order), 0)]
    return cut.transpose(np.argsort(run.order)).reshape(box.shape)


def store(
    place: Place,
    box: Box,
    words: UInt[Array, "..."],
    there: Bool[np.ndarray, "..."] | None = None,
) -> None:
    """Replace the words of a box, those that are ``there``."""
    unit = box.unit(place)
    parts = box.split(unit)
    if parts is not box:
        words = regrouped(words.reshape(-1), unit).reshape(parts.shape)
        there = None if there is None else np.broadcast_to(there[..., None], parts.shape)
    if not prod(parts.shape):
        return
    there = np.ones(parts.shape, bool) if there is None else there
    run = parts.run
    if run is None:
        put(place, parts.positions, words, there)
        return
    flat, mask = (_spread(v, run, parts)[: parts.reach] for v in (words, there))
    place.write(flat, None if mask.all() else jnp.asarray(mask), parts.start * 8 // parts.width)


def _spread(values: Any, run: Run, box: Box) -> Any:
    """The values of a box as those of its run, zeros in the gaps."""
    xp: Any = np if isinstance(values, np.ndarray) else jnp
    inner = values.reshape([box.axes[k][0] for k in sorted(run.order)])
    ordered = inner.transpose([sorted(run.order).index(k) for k in run.order])[..., None]
    gaps = [(0, extent - size) for extent, size in zip(run.extents, ordered.shape, strict=True)]
    return xp.pad(ordered, gaps).reshape(-1)


def _bits(place: Place) -> int:
    return int(place.dtype.word_bits)


def _sizes(call: MicroCall, **values: Any) -> tuple[int, ...]:
    """Numbers that have to be known before a program is compiled: those of elements."""
    return tuple(known(call, f"number {name}", integer(value)) for name, value in values.items())


def _strides(*values: Any) -> tuple[Any, ...]:
    """Numbers that may be known only by execution: those of distances."""
    return tuple(integer(value) for value in values)


# -- staging -----------------------------------------------------------------------------------------------


@memory_rule("mte_gm_l1")
def _load_bytes(
    call: MicroCall, machine: TileMemory, gm: Place, l1: Place, len: Any, n: Any, s: Any, d: Any, **more: Any
) -> tuple[()]:
    return transfer(plain(call), machine, gm, l1, integer(len), loops_of(n, s, d, more))


def _units(
    call: MicroCall, machine: TileMemory, source: Place, target: Place, unit: int, burst: Sequence[Any],
    around: Sequence[Loop] = (),
) -> tuple[()]:  # fmt: skip
    """A copy of bursts of units with gaps behind them: length, count, and both gaps."""
    length, count, s, d = (integer(v) for v in burst)
    loop = Loop(count, (length + s) * unit, (length + d) * unit)
    return transfer(plain(call), machine, source, target, length * unit, [*around, loop])


def _copy(
    call: MicroCall, machine: TileMemory, first: str, second: str, unit: int = ROW, **operands: Any
) -> tuple[()]:
    """A copy of bursts of units; strides of loops around them are bytes."""
    burst = [operands[name] for name in ("len", "n", "s", "d")]
    around = loops_of(operands["n"], operands["s"], operands["d"], operands)[:-1]
    return _units(call, machine, operands[first], operands[second], unit, burst, around)


memory_rule("mte_l1_ub", "copy_cbuf_to_ubuf")(partial(_copy, first="l1", second="ub"))
memory_rule("mte_ub_l1", "copy_ubuf_to_cbuf")(partial(_copy, first="ub", second="l1"))
memory_rule("copy_gm_to_cbuf")(partial(_copy, first="gm", second="l1"))
memory_rule("mte_l1_fb")(partial(_copy, first="src", second="dst", unit=PARAMETERS))


@memory_rule("mte_l1_bt")
def _load_bias(
    call: MicroCall, machine: TileMemory, src: Place, dst: Place, len: Any, n: Any, s: Any, d: Any
) -> tuple[()]:
    wider = widened(call)
    if wider == 1:
        return _units(call, machine, src, dst, BIASES, (len, n, s, d))
    (length, count), (before, behind) = _sizes(call, len=len, n=n), _strides(s, d)
    width = _bits(src)
    row = (length * BIASES * 8 // width, width // 8)
    words = load(src, Box(width, ((count, (length + before) * BIASES), row), aligned=BIASES))
    target = ((count, (length + behind) * BIASES * wider), (row[0], WORD))
    store(dst, Box(32, target, aligned=BIASES), bits.to_single(words, src.dtype))
    return ()


@memory_rule("raw_fill_l1")
def _fill(
    call: MicroCall, machine: TileMemory, dst: Place, offset: Any, value: Any, repeats: Any, length: Any,
    gap: Any,
) -> tuple[()]:  # fmt: skip
    (times, blocks), (start, behind) = _sizes(call, repeats=repeats, length=length), _strides(offset, gap)
    width = int(call.attributes["fill_word_bits"])
    word = getattr(value, "word", value)
    word = regrouped(jnp.asarray(word).reshape(1), width)[0]
    box = Box(width, ((times, (blocks + behind) * ROW), (blocks * ROW * 8 // width, width // 8)), start)
    store(dst, box, jnp.broadcast_to(word, box.shape))
    return ()


@memory_rule("mte_gm_l1_frac")
def _load_matrix(  # noqa: PLR0913 - operands
    call: MicroCall, machine: TileMemory, gm: Place, l1: Place, n: Any, d: Any, s: Any, g: Any, d2: Any,
    d3: Any, d4: Any, l2: Any, small: Any, s2: Any = 0,
) -> tuple[()]:  # fmt: skip
    rows, cols, groups, few = _sizes(call, n=n, d=d, g=g, small=small)
    inner, outer, row, col, group = _strides(s, s2, d2, d3, d4)
    width = _bits(gm)
    size = width // 8
    pitches = (inner, size) if call.attributes["mode"] == "nd2nz" else (size, inner)
    words = load(gm, Box(width, ((groups, outer), (rows, pitches[0]), (cols, pitches[1]))))
    if few:
        count = -(-rows * FEW * size // ROW) * ROW // size
        words = jnp.pad(words, ((0, 0), (0, 0), (0, FEW - cols))).reshape(groups, -1)
        words = jnp.pad(words, ((0, 0), (0, count - rows * FEW)))
        store(l1, Box(width, ((groups, group * ROW), (count, size)), aligned=ROW), words)
        return ()
    c0 = ROW // size
    blocks = -(-cols // c0)
    words = jnp.pad(words, ((0, 0), (0, 0), (0, blocks * c0 - cols))).reshape(groups, rows, blocks, c0)
    axes = ((groups, group * ROW), (rows, row * ROW), (blocks, col * ROW), (c0, size))
    store(l1, Box(width, axes, aligned=ROW), words)
    return ()


@memory_rule("mte_l1_l0a", "mte_l1_l0b", "load_cbuf_to_ca", "load_cbuf_to_cb")
def _load_fractals(call: MicroCall, machine: TileMemory, src: Place, dst: Place, **numbers: Any) -> tuple[()]:
    places = _fractals(call, fractals, numbers)
    width, begin = _bits(src), (places.first_col * places.source_pitch + places.first_row) * FRACTAL
    size, pitch = width // 8, places.source_pitch * FRACTAL
    if not is_transposed(call):
        rows, whole = (places.rows, FRACTAL), (FRACTAL // size, size)
        words = load(src, Box(width, (rows, (places.cols, pitch), whole), begin, FRACTAL))
        axes = (rows, (places.cols, places.target_pitch * FRACTAL), whole)
        store(dst, Box(width, axes, aligned=FRACTAL), words)
        return ()
    c0, row = channels(call), (ROW // size, size)
    high, wide = places.rows * SIDE, places.cols * c0
    words = _numbers(load(src, Box(width, ((places.cols, pitch), (high, ROW), row), begin, FRACTAL)), c0)
    flat = words.transpose(1, 0, 2).reshape(high // c0, c0, wide // SIDE, SIDE)
    target = ((high // c0, places.target_pitch * FRACTAL), (SIDE, ROW), row)
    box, turned = Box(width, ((wide // SIDE, FRACTAL), *target), aligned=FRACTAL), flat.transpose(2, 0, 3, 1)
    if c0 * size > ROW:
        turned = bits.pack(turned.reshape(-1, c0)).reshape(box.shape)
    store(dst, box, turned)
    return ()


def _numbers(words: UInt[Array, "... n"], count: int) -> UInt[Array, "... {count}"]:
    """Rows of so many numbers, where two of them may share a byte."""
    if words.shape[-1] == count:
        return words
    return bits.unpack(words.reshape(-1, words.shape[-1])).reshape(*words.shape[:-1], -1)[..., :count]


@memory_rule("mte_l1_l0a_mx", "mte_l1_l0b_mx")
def _load_scales(call: MicroCall, machine: TileMemory, src: Place, dst: Place, **numbers: Any) -> tuple[()]:
    places = _fractals(call, fragments, numbers)
    begin = (places.first_row * places.source_pitch + places.first_col) * FRAGMENT
    row = (places.cols * FRAGMENT, 1)
    words = load(src, Box(8, ((places.rows, places.source_pitch * FRAGMENT), row), begin, FRAGMENT))
    store(dst, Box(8, ((places.rows, places.target_pitch * FRAGMENT), row), aligned=FRAGMENT), words)
    return ()


def _fractals(
    call: MicroCall,
    of: Callable[[MicroCall, dict[str, int | None]], Fractals | None],
    numbers: dict[str, Any],
) -> Fractals:
    values = {n: integer(numbers[n]) for n in FIELDS if n in numbers}
    counts = extents_of(values)
    _sizes(call, **{n: values[n] for n in counts})
    places = of(call, values)
    assert places is not None
    return places


# -- products ----------------------------------------------------------------------------------------------


def _left(call: MicroCall, place: Place, m: int, k: int) -> UInt[Array, "m k"]:
    if is_row(call, m):
        width = _bits(place)
        count = -(-k * ROW * 8 // (channels(call) * width))
        return _numbers(load(place, Box(width, ((1, ROW), (count, width // 8)))), k)
    return _factor(place, channels(call), m, k)


def _factor(place: Place, c0: int, rows: int, k: int) -> UInt[Array, "rows k"]:
    """A factor of fractals of ``c0`` numbers along K, these in their rows."""
    width = _bits(place)
    high = -(-rows // SIDE) * SIDE
    blocks = -(-k // c0)
    words = load(place, Box(width, ((blocks, high * ROW), (high, ROW), (ROW * 8 // width, width // 8))))
    words = _numbers(words, c0)
    return words.transpose(1, 0, 2).reshape(high, blocks * c0)[:rows, :k]


def _accumulators(m: int, n: int) -> Box:
    """The accumulators of a product in groups of 16 columns."""
    pitch = -(-m // SIDE) * SIDE * ACC_ROW
    return Box(32, ((-(-n // SIDE), pitch), (m, ACC_ROW), (SIDE, WORD)))


def _grouped(total: Shaped[Array, "m n"], width: int) -> Shaped[Array, "groups m width"]:
    """Columns in groups, zeros behind the last one."""
    m, n = total.shape
    groups = -(-n // width)
    padded = jnp.pad(total, ((0, 0), (0, groups * width - n)))
    return padded.reshape(m, groups, width).transpose(1, 0, 2)


def _in_groups(m: int, n: int, width: int) -> Bool[np.ndarray, "groups m width"]:
    """Which elements of groups of columns are columns."""
    groups = -(-n // width)
    columns = np.arange(groups * width).reshape(groups, 1, width)
    return np.broadcast_to(columns < n, (groups, m, width))


def _scales(place: Place, rows: int, k: int) -> UInt[Array, "rows groups"]:
    """The block scales of a factor."""
    count = -(-k // GROUP)
    pairs, blocks = -(-count // 2), -(-rows // SIDE)
    box = Box(8, ((blocks, pairs * FRAGMENT), (pairs, FRAGMENT), (SIDE, 2), (2, 1)))
    words = load(place, box).transpose(0, 2, 1, 3).reshape(blocks * SIDE, pairs * 2)
    return words[:rows, :count]


def _keeps(call: MicroCall) -> bool:
    """Whether infinities and NaN are kept: by the operation's word, or by the control register."""
    word = call.attributes.get("saturate")
    return word == "nosat" if word else bool(call.attributes["control"] >> KEEPS_OVERFLOW & 1)


def _finite(words: UInt[Array, "..."], d: DType) -> UInt[Array, "..."]:
    """Infinities as the largest numbers of a type, NaN as zero."""
    values = bits.decode(words, d)
    top = bits.encode(jnp.asarray(np.float64(convert.largest(d))), d)
    most = jnp.where(values > 0, top, top | bits.dtype_sign(d))
    numbers = jnp.where(jnp.isinf(values), most, words)
    return jnp.where(jnp.isnan(values), d.word.type(0), numbers)


@dataclass(frozen=True)
class Product:
    """What decides the sums of a product: element types, the rounding to tf32, and what is kept."""

    left: DType
    right: DType
    rounding: RoundMode | None
    keeps: bool
    semantics: Semantics

    def factor(self, words: UInt[Array, "..."], d: DType) -> UInt[Array, "..."]:
        """A factor as it is multiplied."""
        if d.is_integer:
            return words
        words = words if self.rounding is None else matrix.shortened(words, _TF32, self.rounding)
        words = words if self.keeps or d.packed else _finite(words, d)
        return bits.to_single(words, HIF8) if d == HIF8 else words


@lru_cache(maxsize=256)
def _product(p: Product) -> Callable[..., UInt[Array, "m n"]]:
    """The sums of factors, of block scales where there are four arrays, from accumulators or with a bias."""

    def run(x: Array, y: Array, scales: Sequence[Array], start: Array | None, bias: Array | None) -> Array:
        x, y = p.factor(x, p.left), p.factor(y, p.right)
        if scales:
            total = matrix.scaled_sums(x, y, scales, (p.left, p.right), start)
        else:
            total = matrix.sums(p.semantics, x, y, (p.left, p.right), start)
        d = F32 if p.left.is_float else dtype("i32")
        a = p.semantics.arithmetic(d)
        if start is not None and d != F32:
            total = total + start
        if bias is not None:
            total = a.encode(a.add(a.decode(total), a.decode(jnp.broadcast_to(bias, total.shape))))
        return total if p.keeps or d != F32 else _finite(total, F32)

    if p.left.is_float and p.semantics.numerics == "exact":
        return by_platform(run, before=canary.require)
    return jax.jit(run)


@memory_rule("mad", "mad_acc", "mad_bias", "mad_mx", "mad_mx_acc", "mad_mx_bias")
def _multiply(
    call: MicroCall, machine: TileMemory, lhs: Place, rhs: Place, dst: Place, m: Any, n: Any, k: Any,
    **more: Any,
) -> tuple[()]:  # fmt: skip
    rows, cols, depth = _sizes(call, m=m, n=n, k=k)
    x, y = _left(call, lhs, rows, depth), _factor(rhs, channels(call, 1), cols, depth).T
    scales: list[Array] = []
    if "lhs_scale" in more:
        scales = [_scales(more["lhs_scale"], rows, depth), _scales(more["rhs_scale"], cols, depth).T]
    box = _accumulators(rows, cols)
    start = None
    if "acc" in call.name:
        start = load(dst, box).transpose(1, 0, 2).reshape(rows, -1)[:, :cols]
    bias = load(more["bias"], Box(32, ((cols, WORD),))) if "bias" in more else None
    rounding = _ROUNDINGS.get(str(call.attributes.get("tf32")))
    keeps = _keeps(call) or lhs.dtype.is_integer
    types = number_of(call, 0), number_of(call, 1)
    product = _product(Product(*types, rounding, keeps, machine.semantics))
    total = product(x, y, scales, start, bias)
    store(dst, box, _grouped(total, SIDE), _in_groups(rows, cols, SIDE))
    return ()


# -- stores of accumulators --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conversion:
    """What decides how accumulators are converted.

    ``kind`` is that of :class:`pto_jax.isa.cube_stores.Quantisation`; ``vector``: 64-bit words of parameters;
    ``relu``: the mode; ``saturates`` and ``keeps_nan``: what becomes of what is beyond the range.
    """

    source: DType
    target: DType
    kind: str
    vector: bool
    relu: str
    saturates: bool
    keeps_nan: bool
    semantics: Semantics


@lru_cache(maxsize=256)
def _conversion(c: Conversion) -> Callable[..., UInt[Array, "m n"]]:
    """Accumulators as words of the target; quantisation, slopes and clip may be None."""

    def run(words: Array, quant: Array | None, slope: Array | None, clip: Array | None) -> Array:
        if c.target.is_float:
            return _as_floats(c, words, quant, slope, clip)
        return _as_integers(c, words, quant, clip)

    if c.semantics.numerics == "exact" and F32 in (c.source, c.target):
        return by_platform(run, before=canary.require)
    return jax.jit(run)


def _scaled(c: Conversion, words: Array, quant: Array | None) -> Array:
    """Accumulators as float32 words, times the scale where there is one."""
    single = words if c.source == F32 else bits.encode32(convert.to_float64(words, c.source))
    if c.kind not in ("scale", "byte") or quant is None:
        return single
    a = c.semantics.arithmetic(F32)
    assert not isinstance(a, Integer)
    scale = quantise.scale_of(quant, short=True) if c.vector else quant
    return a.encode(a.mul(a.decode(single), a.decode(jnp.broadcast_to(scale, single.shape))))


def _as_floats(
    c: Conversion, words: Array, quant: Array | None, slope: Array | None, clip: Array | None
) -> Array:
    single = _scaled(c, words, quant)
    value = bits.decode32(single)
    if c.relu == "normal_relu":
        single = jnp.where(value > 0, single, np.uint32(0))
    elif slope is not None:
        a = c.semantics.arithmetic(F32)
        steep = a.encode(a.mul(a.decode(single), a.decode(jnp.broadcast_to(slope, single.shape))))
        single = jnp.where(value >= 0, single, steep)
    if clip is not None:
        limit = jnp.broadcast_to(bits.to_single(clip, c.target), single.shape)
        single = jnp.where(bits.decode32(single) > bits.decode32(limit), limit, single)
    if c.target == F32:
        return single
    result = bits.narrow(single, c.target, saturate=c.saturates)
    if c.saturates and not c.keeps_nan:
        return jnp.where(bits.is_nan(single, F32), c.target.word.type(0), result)
    return result


def _as_integers(c: Conversion, words: Array, quant: Array | None, clip: Array | None) -> Array:
    value = lax.convert_element_type(convert.integer(words, c.source) if c.source != F32 else words, np.int64)
    if c.kind == "byte":
        assert quant is not None
        value = _bytes(c, _scaled(c, words, quant), quant)
    elif c.kind == "shift":
        assert quant is not None
        shift = quantise.field(quant, block_scales.SHIFT_BIT, block_scales.SHIFT_WIDTH)
        distance = lax.convert_element_type(shift, np.int64) + 1
        value = jnp.clip(value >> distance, -(1 << 15), (1 << 15) - 1)
    if c.relu == "normal_relu":
        value = jnp.maximum(value, 0)
    if clip is not None:
        value = jnp.minimum(value, clip)
    return convert.integer_words(value, c.target)


def _bytes(c: Conversion, single: Array, quant: Array) -> Array:
    """Scaled values as 8-bit integers."""
    signed: Any = c.target.is_signed
    if c.vector:
        signed = quantise.field(quant, block_scales.SIGNED_BIT, 1) == np.uint64(1)
    total = quantise.byte(quantise.with_offset(bits.decode32(single), quant if c.vector else None), signed)
    return lax.convert_element_type(total, np.int64)


def _payload(value: Any, n: int, width: int, t: Lanes | int | None) -> Array | None:
    """A payload: words per column from parameter memory, or a scalar as a float32 word."""
    if value is None:
        return None
    if hasattr(value, "pointer"):
        return load(value, Box(width, ((n, width // 8),)))
    assert isinstance(t, Lanes)
    return bits.to_single(jnp.asarray(getattr(value, "word", value)), t.dtype)


def _clip(value: Any, target: DType) -> Any:
    """The largest result: a float word of the target, or a number."""
    if value is None or target.is_float:
        return value
    if isinstance(value, int):
        return np.int64(value)
    width = value.dtype.itemsize
    kind = np.dtype(f"{'i' if target.is_signed else 'u'}{width}")
    return lax.convert_element_type(lax.bitcast_convert_type(value, kind), np.int64)


def _converted(
    call: MicroCall, machine: TileMemory, words: Array, target: DType, n: int, more: dict[str, Any]
) -> Array:
    """Accumulators as the words that are stored."""
    mode = str(call.attributes.get("quant_mode", ""))
    kind = QUANTISATIONS[mode].kind if mode else ""
    relu = str(call.attributes.get("relu_mode", "no_relu"))
    keeps_nan = "nan" in call.attributes or bool(
        "saturate" not in call.attributes and call.attributes["control"] >> KEEPS_NAN & 1
    )
    source = call.types[0]
    assert isinstance(source, Lanes)
    conversion = Conversion(
        source.dtype, target, kind, is_vector(mode), relu, not _keeps(call), keeps_nan, machine.semantics
    )
    quant = _payload(more.get("quant"), n, 64, _type_of(call, more, "quant"))
    slope = _payload(more.get("relu"), n, 32, _type_of(call, more, "relu"))
    return _conversion(conversion)(words, quant, slope, _clip(more.get("clip"), target))


def _type_of(call: MicroCall, more: dict[str, Any], name: str) -> Lanes | int | None:
    """The type of an optional operand."""
    if name not in more:
        return None
    return call.types[[*_FIXED[call.name], *(n for n in _OPTIONAL if n in more)].index(name)]


_OPTIONAL = ("core", "quant", "relu", "clip", "layout_value", "loop_count", "loop_source", "loop_target")
_COMMON = ("src", "dst", "m", "n", "src_stride", "dst_stride")
_FIXED = {"mte_l0c_l1": _COMMON, "mte_l0c_gm": (*_COMMON, "sid", "l2"), "mte_l0c_ub": _COMMON}


@memory_rule("mte_l0c_l1", "mte_l0c_gm", "mte_l0c_ub")
def _store(
    call: MicroCall, machine: TileMemory, src: Place, dst: Place, m: Any, n: Any, src_stride: Any,
    dst_stride: Any, **more: Any,
) -> tuple[()]:  # fmt: skip
    (rows, cols), (before, behind) = _sizes(call, m=m, n=n), _strides(src_stride, dst_stride)
    loop: tuple[Any, ...] = (1, 0, 0)
    if "loop_count" in more:
        trips = _sizes(call, loop_count=more["loop_count"])
        loop = (*trips, *_strides(more["loop_source"], more["loop_target"]))
    layout = str(call.attributes.get("layout", "nz2nd"))
    value = _sizes(call, layout_value=more["layout_value"])[0] if "layout_value" in more else 0
    axes = ((loop[0], loop[1] * ACC_ROW), (-(-cols // SIDE), before * ACC_ROW), (rows, ACC_ROW), (SIDE, WORD))
    words = (
        load(src, Box(32, axes, aligned=ACC_ROW))
        .transpose(0, 2, 1, 3)
        .reshape(loop[0], rows, -1)[:, :, :cols]
    )
    words = _converted(call, machine, words, dst.dtype, cols, more)
    group = 8 if layout == "nz2nz" and value else SIDE
    targets = [(dst, words)]
    match call.attributes.get("split"):
        case "split_m":
            targets = [(dst, words[:, : rows // 2]), (more["other"], words[:, rows // 2 :])]
        case "split_n":
            targets = [(dst, words[..., : cols // 2]), (more["other"], words[..., cols // 2 :])]
    for place, part in targets:
        _put(call, machine, place, part, (layout, group), (loop[2], behind))
    return ()


def _put(
    call: MicroCall,
    machine: TileMemory,
    place: Place,
    words: Array,
    layout: tuple[str, int],
    steps: Sequence[Any],
) -> None:
    """Store results in a layout; ``steps`` are the strides of the loop and of rows or groups in elements."""
    width = words.dtype.itemsize * 8
    size = width // 8
    count, rows, cols = words.shape
    outer, (name, group), stride = (count, steps[0] * size), layout, steps[1] * size
    there = None
    match name:
        case "nz2dn":
            box = Box(width, (outer, (rows, size), (cols, stride)), aligned=size)
        case "nz2nz":
            groups = -(-cols // group)
            box = Box(width, (outer, (rows, group * size), (groups, stride), (group, size)), aligned=size)
            words = jnp.pad(words, ((0, 0), (0, 0), (0, groups * group - cols))).reshape(box.shape)
            there = np.broadcast_to(np.arange(groups * group).reshape(groups, group) < cols, box.shape)
        case _:
            box = Box(width, (outer, (rows, stride), (cols, size)), aligned=size)
    if call.name == "mte_l0c_gm" and call.attributes.get("atomic"):
        there = np.ones(box.shape, bool) if there is None else there
        combine(call, machine, place, box.positions, words, there)
    else:
        store(place, box, words, there)
