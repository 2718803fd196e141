"""NumPy rules of the cube unit: staging, loads of fractals and scales, products, stores of accumulators.

Every access is to the bytes that the formulas of the reference give for an element: see the table of layouts
in the declarations.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..interpreter import Operand, Pointer
from ..ir import F32, DType, RoundMode, pack_pairs, unpack_pairs
from ..isa.cube import (
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
    channels,
    fractals,
    fragments,
    is_row,
    is_transposed,
    number_of,
)
from ..isa.cube_stores import QUANTISATIONS, is_vector
from ..isa.micro import Lanes, MicroCall
from ..isa.rules import block_scales
from . import quantise
from .convert import range_of
from .matrix import fused, scaled_sum, shortened
from .micro import Memory, memory_rule, signed
from .numbers import Array, decode, encode
from .ub_memory import combined, copy, loops_of

#: Bits of the fraction of a tf32 number, and the rounding of each mode.
_TF32 = 10
_ROUNDED = {"round_even": RoundMode.RINT, "round_away": RoundMode.ROUND}


def _up(size: int, unit: int) -> int:
    return -(-size // unit)


def element(call: MicroCall, at: int) -> DType:
    """The element type of a pointer among the operands."""
    t = call.types[at]
    assert isinstance(t, Lanes)
    return t.dtype


def words_at(memory: Memory, pointer: Operand, offsets: Array, d: DType) -> Array:
    """The words of the elements that begin at offsets."""
    size = d.word.itemsize
    data = memory.read(pointer, offsets[..., None] + np.arange(size))
    return np.ascontiguousarray(data).view(d.word)[..., 0]


def write_words(memory: Memory, pointer: Operand, offsets: Array, words: Array) -> None:
    """Replace the elements that begin at offsets."""
    size = words.dtype.itemsize
    data = np.ascontiguousarray(words)[..., None].view(np.uint8)
    memory.write(pointer, offsets[..., None] + np.arange(size), data)


# -- staging -----------------------------------------------------------------------------------------------


@memory_rule("mte_gm_l1")
def _stage(
    call: MicroCall, memory: Memory, gm: Any, l1: Any, len: Any, n: Any, s: Any, d: Any, **more: Any
) -> tuple[()]:
    copy(memory, gm, l1, signed(len), loops_of(n, s, d, more), call)
    return ()


def _copy_blocks(call: MicroCall, memory: Memory, first: str, second: str, **values: Any) -> tuple[()]:
    """Bursts of blocks of 32 bytes; strides are gaps behind a burst, those of loops are bytes."""
    length = signed(values["len"]) * ROW
    around = loops_of(values["n"], values["s"], values["d"], values)[:-1]
    source, target = (length + signed(values[stride]) * ROW for stride in "sd")
    loops = [*around, (signed(values["n"]), source, target)]
    copy(memory, values[first], values[second], length, loops, call)
    return ()


memory_rule("mte_l1_ub", "copy_cbuf_to_ubuf")(partial(_copy_blocks, first="l1", second="ub"))
memory_rule("mte_ub_l1", "copy_ubuf_to_cbuf")(partial(_copy_blocks, first="ub", second="l1"))
memory_rule("copy_gm_to_cbuf")(partial(_copy_blocks, first="gm", second="l1"))


@memory_rule("mte_gm_l1_frac")
def _stage_fractals(  # noqa: PLR0913 - operands
    call: MicroCall, memory: Memory, gm: Any, l1: Any, n: Any, d: Any, s: Any, g: Any, d2: Any, d3: Any,
    d4: Any, l2: Any, small: Any, s2: Any = 0,
) -> tuple[()]:  # fmt: skip
    rows, cols, size = signed(n), signed(d), element(call, 0).word.itemsize
    for group in range(signed(g)):
        source, target = group * signed(s2), group * signed(d4) * ROW
        for row in range(rows):
            along = np.arange(cols)
            if call.attributes["mode"] == "nd2nz":
                at = source + row * signed(s) + along * size
            else:
                at = source + along * signed(s) + row * size
            data = memory.read(gm, at[:, None] + np.arange(size)).reshape(-1)
            if bool(small):
                _few_channels(memory, l1, target, row, data, (rows, size))
            else:
                _row_of_fractals(memory, l1, target + row * signed(d2) * ROW, data, signed(d3) * ROW)
    return ()


def _row_of_fractals(memory: Memory, l1: Any, target: int, data: Array, pitch: int) -> None:
    """Bytes of a row, 32 in each column of fractals; zeros fill the last one."""
    for col in range(_up(len(data), ROW)):
        part = data[col * ROW : (col + 1) * ROW]
        burst = np.zeros(ROW, np.uint8)
        burst[: len(part)] = part
        memory.write(l1, target + col * pitch + np.arange(ROW), burst)


def _few_channels(
    memory: Memory, l1: Any, target: int, row: int, data: Array, sizes: tuple[int, int]
) -> None:
    """Bytes of a row of four channels right behind those of the row before, zeros behind the last row."""
    rows, size = sizes
    burst = np.zeros(FEW * size, np.uint8)
    burst[: len(data)] = data
    memory.write(l1, target + row * len(burst) + np.arange(len(burst)), burst)
    end = rows * len(burst)
    if row == rows - 1:
        rest = np.arange(end, _up(end, ROW) * ROW)
        memory.write(l1, target + rest, np.zeros(len(rest), np.uint8))


@memory_rule("raw_fill_l1")
def _fill(
    call: MicroCall, memory: Memory, dst: Any, offset: Any, value: Any, repeats: Any, length: Any, gap: Any
) -> tuple[()]:
    word = np.asarray(value).astype(f"u{call.attributes['fill_word_bits'] // 8}").reshape(1).view(np.uint8)
    run = np.resize(word, signed(length) * ROW)
    for k in range(signed(repeats)):
        begin = signed(offset) + k * (signed(length) + signed(gap)) * ROW
        memory.write(dst, begin + np.arange(len(run)), run)
    return ()


# -- loads of factors, scales, biases and parameters -------------------------------------------------------


@memory_rule("mte_l1_l0a", "mte_l1_l0b", "load_cbuf_to_ca", "load_cbuf_to_cb")
def _load_fractals(call: MicroCall, memory: Memory, src: Any, dst: Any, **numbers: Any) -> tuple[()]:
    taken = fractals(call, {name: signed(numbers[name]) for name in FIELDS if name in numbers})
    assert taken is not None
    whole = np.arange(FRACTAL)
    data = np.zeros((taken.rows, taken.cols, FRACTAL), np.uint8)
    for i in range(taken.rows):
        for j in range(taken.cols):
            number = (taken.first_col + j) * taken.source_pitch + taken.first_row + i
            data[i, j] = memory.read(src, number * FRACTAL + whole)
    if is_transposed(call):
        data = _transposed(data, number_of(call, 0))
    for i in range(data.shape[0]):
        for j in range(data.shape[1]):
            memory.write(dst, (j * taken.target_pitch + i) * FRACTAL + whole, data[i, j])
    return ()


def _transposed(data: Array, d: DType) -> Array:
    """Fractals of [rows, cols, bytes] transposed as one matrix of numbers."""
    words = unpack_pairs(data) if d.packed else data.view(d.word)
    rows, cols, count = words.shape
    lanes = count // SIDE
    matrix = np.zeros((rows * SIDE, cols * lanes), words.dtype)
    for i in range(rows):
        for j in range(cols):
            fractal = words[i, j].reshape(SIDE, lanes)
            matrix[i * SIDE : (i + 1) * SIDE, j * lanes : (j + 1) * lanes] = fractal
    matrix = matrix.T
    result = np.zeros((cols * lanes // SIDE, rows * SIDE // lanes, count), words.dtype)
    for i in range(result.shape[0]):
        for j in range(result.shape[1]):
            result[i, j] = matrix[i * SIDE : (i + 1) * SIDE, j * lanes : (j + 1) * lanes].reshape(-1)
    return np.asarray(pack_pairs(result) if d.packed else result.view(np.uint8))


@memory_rule("mte_l1_l0a_mx", "mte_l1_l0b_mx")
def _load_scales(call: MicroCall, memory: Memory, src: Any, dst: Any, **numbers: Any) -> tuple[()]:
    taken = fragments(call, {name: signed(numbers[name]) for name in FIELDS if name in numbers})
    assert taken is not None
    whole = np.arange(FRAGMENT)
    for i in range(taken.rows):
        for j in range(taken.cols):
            number = (taken.first_row + i) * taken.source_pitch + taken.first_col + j
            data = memory.read(src, number * FRAGMENT + whole)
            memory.write(dst, (i * taken.target_pitch + j) * FRAGMENT + whole, data)
    return ()


@dataclass(frozen=True)
class Bursts:
    """Where the bursts of a load begin, in source and destination, and their bytes in the source."""

    starts: tuple[tuple[int, int], ...]
    length: int


def bursts(unit: int, grown: int, len: Any, n: Any, s: Any, d: Any) -> Bursts:
    """Bursts of units with gaps behind them; a unit has ``grown`` bytes in the destination."""
    length, source, target = (signed(v) for v in (len, s, d))
    steps = ((length + source) * unit, (length + target) * grown)
    return Bursts(tuple((k * steps[0], k * steps[1]) for k in range(signed(n))), length * unit)


@memory_rule("mte_l1_bt")
def _load_bias(call: MicroCall, memory: Memory, src: Any, dst: Any, **numbers: Any) -> tuple[()]:
    source, target = element(call, 0), element(call, 1)
    times = target.word.itemsize // source.word.itemsize
    run = bursts(BIASES, BIASES * times, **numbers)
    for start, end in run.starts:
        words = memory.read(src, start + np.arange(run.length)).view(source.word)
        data = encode(decode(words, source), target) if source != target else words
        memory.write(dst, end + np.arange(run.length * times), data.view(np.uint8))
    return ()


@memory_rule("mte_l1_fb")
def _load_parameters(call: MicroCall, memory: Memory, src: Any, dst: Any, **numbers: Any) -> tuple[()]:
    run = bursts(PARAMETERS, PARAMETERS, **numbers)
    for start, end in run.starts:
        memory.write(dst, end + np.arange(run.length), memory.read(src, start + np.arange(run.length)))
    return ()


# -- products ----------------------------------------------------------------------------------------------


def left_at(call: MicroCall, m: int, k: int) -> Array:
    """The offsets of the bytes of the numbers of a left factor, [m, k]."""
    i, j = np.ogrid[:m, :k]
    lanes, bits = channels(call, 0), number_of(call, 0).storage_bits
    if is_row(call, m):
        return np.asarray(i + j * bits // 8)
    inside = i % SIDE * ROW + j % lanes * bits // 8
    return np.asarray((j // lanes * _up(m, SIDE) + i // SIDE) * FRACTAL + inside)


def right_at(call: MicroCall, k: int, n: int) -> Array:
    """The offsets of the bytes of the numbers of a right factor, [k, n]; rows of its fractals are columns."""
    i, j = np.ogrid[:k, :n]
    lanes, bits = channels(call, 1), number_of(call, 1).storage_bits
    inside = j % SIDE * ROW + i % lanes * bits // 8
    return np.asarray((i // lanes * _up(n, SIDE) + j // SIDE) * FRACTAL + inside)


def sums_at(m: int, n: int, pitch: int) -> Array:
    """The offsets of the elements of an accumulator whose columns of fractals have ``pitch`` rows."""
    i, j = np.ogrid[:m, :n]
    return np.asarray(j // SIDE * pitch * ACC_ROW + i * ACC_ROW + j % SIDE * WORD)


def scales_at(rows: int, k: int) -> Array:
    """The offsets of the block scales of ``rows`` rows of a left factor, [rows, groups]."""
    i, g = np.ogrid[:rows, : _up(k, GROUP)]
    pairs = _up(_up(k, GROUP), 2)
    return np.asarray((i // SIDE * pairs + g // 2) * FRAGMENT + i % SIDE * 2 + g % 2)


def whole_rows(m: int) -> int:
    """The rows of the fractals of a product."""
    return _up(m, SIDE) * SIDE


def _multiply(  # noqa: PLR0913 - operands
    call: MicroCall, memory: Memory, lhs: Any, rhs: Any, dst: Any, m: Any, n: Any, k: Any, *, adds: bool,
    bias: Any = None, lhs_scale: Any = None, rhs_scale: Any = None,
) -> tuple[()]:  # fmt: skip
    rows, cols, depth = signed(m), signed(n), signed(k)
    a = _factor(call, 0, words_at(memory, lhs, left_at(call, rows, depth), element(call, 0)), 1)
    b = _factor(call, 1, words_at(memory, rhs, right_at(call, depth, cols), element(call, 1)), 0)
    d, at = element(call, 2), sums_at(rows, cols, whole_rows(rows))
    first = decode(words_at(memory, dst, at, d), d) if adds else None
    if lhs_scale is None:
        total = _sum(a, b, d, first)
    else:
        scales = (
            _scale_values(memory, lhs_scale, scales_at(rows, depth)),
            _scale_values(memory, rhs_scale, scales_at(cols, depth)).T,
        )
        total = scaled_sum(a.astype(np.float64), b.astype(np.float64), *scales, first)
    if bias is not None:
        total = total + decode(words_at(memory, bias, np.arange(cols) * WORD, d), d)
    if d.is_float and _saturates(call):
        total = decode(_finite(encode(total, d), d), d)
    write_words(memory, dst, at, encode(total, d))
    return ()


memory_rule("mad", "mad_bias", "mad_mx", "mad_mx_bias")(partial(_multiply, adds=False))
memory_rule("mad_acc", "mad_mx_acc")(partial(_multiply, adds=True))


def _factor(call: MicroCall, at: int, words: Array, axis: int) -> Array:
    """The values of a factor: rounded to tf32, and without exceptional values where the product saturates.

    ``axis`` is that along K, where two numbers may share a byte.
    """
    d = number_of(call, at)
    if d.packed:
        halves = np.arange(words.shape[axis], dtype=np.uint8) % 2 * 4
        return decode(words >> np.expand_dims(halves, 1 - axis) & 15, d)
    if "tf32" in call.attributes:
        words = shortened(words, _TF32, _ROUNDED[str(call.attributes["tf32"])])
    return decode(_finite(words, d) if d.is_float and _saturates(call) else words, d)


def _sum(a: Array, b: Array, d: DType, first: Array | None) -> Array:
    """Products added one after another, each with one rounding."""
    if d.is_integer:
        total = a.astype(np.int32) @ b.astype(np.int32)
        return total if first is None else np.asarray(first + total)
    total = np.zeros((len(a), b.shape[1]), np.float32) if first is None else first
    for k in range(len(b)):
        total = fused(a[:, k : k + 1].astype(np.float64), b[k : k + 1].astype(np.float64), total)
    return total


def _scale_values(memory: Memory, pointer: Any, offsets: Array) -> Array:
    """Powers of two, 255 for NaN."""
    codes = memory.read(pointer, offsets).astype(np.int64)
    return np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 127))


def _finite(words: Array, d: DType) -> Array:
    """Words without exceptional values: infinities become the largest number, NaN zero."""
    values = decode(words, d)
    low, high = (encode(np.array([v]), d)[0] for v in range_of(d))
    words = np.where(np.isinf(values), np.where(values > 0, high, low), words)
    return np.where(np.isnan(values), d.word.type(0), words)


def _saturates(call: MicroCall) -> bool:
    """Whether an operation saturates, by its own word or the control register."""
    word = call.attributes.get("saturate")
    return word == "sat" if word else not call.attributes["control"] >> KEEPS_OVERFLOW & 1


# -- stores of accumulators --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A rectangle of an accumulator on its way: offsets in the accumulator and in the destination, [m, n]."""

    target: Operand
    source_at: Array
    target_at: Array


def pieces(  # noqa: PLR0913 - operands
    call: MicroCall, dst: Any, m: Any, n: Any, src_stride: Any, dst_stride: Any,
    other: Any = None, layout_value: Any = 0, loop_count: Any = 1, loop_source: Any = 0,
    loop_target: Any = 0, **more: Any,
) -> Iterator[Piece]:  # fmt: skip
    """The rectangles that a store writes, in order: those of two vector cores, in the loop around it."""
    rows, cols, size = signed(m), signed(n), element(call, 1).word.itemsize
    layout, value = str(call.attributes.get("layout", "nz2nd")), signed(layout_value)
    for trip in range(signed(loop_count)):
        from_, to = trip * signed(loop_source) * ACC_ROW, trip * signed(loop_target) * size
        at = from_ + sums_at(rows, cols, signed(src_stride))
        for target, part in _parts(call, dst, other, at):
            yield Piece(target, part, to + _target_at(layout, value, part.shape, signed(dst_stride)) * size)


def _parts(call: MicroCall, dst: Any, other: Any, at: Array) -> Iterator[tuple[Operand, Array]]:
    """The halves of a rectangle, one for each vector core, or all of it."""
    split, (m, n) = call.attributes.get("split"), at.shape
    halves = {"split_m": (at[: m // 2], at[m // 2 :]), "split_n": (at[:, : n // 2], at[:, n // 2 :])}
    yield from zip((dst, other), halves.get(str(split), (at,)), strict=False)


def _target_at(layout: str, value: int, shape: tuple[int, ...], stride: int) -> Array:
    """Where elements are written, in elements."""
    m, n = np.ogrid[: shape[0], : shape[1]]
    if layout == "nz2dn":
        return np.asarray(n * stride + m)
    if layout == "nz2nz":
        group = 8 if value else SIDE
        return np.asarray(n // group * stride + m * group + n % group)
    return np.asarray(m * stride + n)


@memory_rule("mte_l0c_l1", "mte_l0c_gm", "mte_l0c_ub")
def _store(call: MicroCall, memory: Memory, src: Any, **values: Any) -> tuple[()]:
    source, target = element(call, 0), element(call, 1)
    for piece in pieces(call, **values):
        words = words_at(memory, src, piece.source_at, source)
        result = Transform(call, memory, values).result(words, source, target)
        atomic = isinstance(piece.target, Pointer) and call.attributes.get("atomic")
        for at, row in _ordered(piece.target_at, result):
            if atomic:
                old = words_at(memory, piece.target, at, target)
                row = combined(old.view(np.uint8), row.view(np.uint8), call).view(target.word)
            write_words(memory, piece.target, at, row)
    return ()


def _ordered(places: Array, words: Array) -> Iterator[tuple[Array, Array]]:
    """Rows one after another, and the elements of a row where two of them have one place."""
    for at, row in zip(places, words, strict=True):
        size = at.size if np.unique(at).size == at.size else 1
        yield from ((at[k : k + size], row[k : k + size]) for k in range(0, at.size, max(1, size)))


@dataclass(frozen=True)
class Transform:
    """What happens to accumulators on their way: quantisation, ReLU, clip, conversion."""

    call: MicroCall
    memory: Memory
    operands: dict[str, Any]

    def result(self, words: Array, source: DType, target: DType) -> Array:
        """Words of an accumulator, [m, n], as words of the destination."""
        name = str(self.call.attributes.get("quant_mode"))
        kind = QUANTISATIONS[name].kind if name in QUANTISATIONS else "cast"
        relu = str(self.call.attributes.get("relu_mode", "no_relu"))
        if kind == "cast" and source == target and relu == "no_relu":
            return words
        values = decode(words, source)
        if not target.is_integer:
            values = values.astype(np.float32)
            if kind == "scale":
                values = values * self._scale(name, words.shape[1])
            return self._converted(self._activated(values, relu, target), target)
        if kind == "byte":
            values = self._byte(values.astype(np.float32), name, target)
        elif kind == "shift":
            field = self._field(self._quant_words(words.shape[1]), block_scales.SHIFT_BIT, 4)
            values = np.clip(values.astype(np.int64) >> (field + 1), -(1 << 15), (1 << 15) - 1)
        return encode(self._activated(values.astype(np.int64), relu, target), target)

    # -- parameters --------------------------------------------------------------------------------------

    def _quant_words(self, n: int) -> Array:
        """The 64-bit words of parameters of the columns."""
        data = self.memory.read(self.operands["quant"], np.arange(8 * n))
        return np.ascontiguousarray(data).view(np.uint64)

    def _number(self, name: str) -> Array:
        """The value of a scalar operand: a float as f32."""
        (value,) = self.memory.op.group(name)
        d = value.type.dtype  # type: ignore[union-attr]
        return np.asarray(decode(np.asarray(self.operands[name]).reshape(1), d)[0])

    def _scale(self, name: str, n: int) -> Array:
        if not is_vector(name):
            return self._number("quant").astype(np.float32)
        return quantise.scale(self._quant_words(n), short=True)

    @staticmethod
    def _field(words: Array, bit: int, width: int) -> Array:
        return ((words >> np.uint64(bit)) & np.uint64((1 << width) - 1)).astype(np.int64)

    # -- values ------------------------------------------------------------------------------------------

    def _byte(self, values: Array, name: str, target: DType) -> Array:
        """Scaled, rounded to nine bits, moved by the offset, and clamped to a byte of some sign."""
        y = np.rint(values * self._scale(name, values.shape[1])).clip(-256, 255)
        offset, negative = np.zeros(1, np.int64), np.array([target.is_signed])
        if is_vector(name):
            words = self._quant_words(values.shape[1])
            offset = self._field(words, block_scales.OFFSET_BIT, block_scales.OFFSET_WIDTH)
            offset = np.where(offset >= 256, offset - 512, offset)
            negative = self._field(words, block_scales.SIGNED_BIT, 1) == 1
        y = np.clip(y + offset, np.where(negative, -128, 0), np.where(negative, 127, 255))
        return np.where(np.isnan(y), 0, y).astype(np.int64)

    def _activated(self, x: Array, relu: str, target: DType) -> Array:
        """ReLU and then the limit."""
        if relu == "normal_relu":
            x = np.where(x > 0, x, x.dtype.type(0))
        elif relu != "no_relu":
            x = np.where(x >= 0, x, self._slope(relu, x.shape[1]) * x)
        if "clip" not in self.operands:
            return x
        # The limit of unsigned bytes is an unsigned number of 16 bits.
        limit = self._number("clip") if target.name != "u8" else np.int64(int(self.operands["clip"]))
        return np.where(x > limit, limit, x).astype(x.dtype)

    def _slope(self, relu: str, n: int) -> Array:
        if relu == "scalar_relu":
            return self._number("relu").astype(np.float32)
        data = self.memory.read(self.operands["relu"], np.arange(4 * n))
        return np.ascontiguousarray(data).view(np.float32)

    def _converted(self, values: Array, target: DType) -> Array:
        """To nearest even; what becomes of overflow, infinities and NaN is the store's choice."""
        if target == F32 or not _saturates(self.call):
            return encode(values, target)
        words = encode(values, target, saturate=True)
        attributes = self.call.attributes
        own = "saturate" in attributes
        keeps = "nan" in attributes if own else bool(attributes["control"] >> KEEPS_NAN & 1)
        return words if keeps else np.where(np.isnan(values), target.word.type(0), words)
