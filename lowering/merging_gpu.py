"""Kernels for GPUs: merges of sorted lists, and products of floats.

XLA's loops launch a kernel per step on a GPU, so each operation is one Triton kernel. A program of the merge
has one element of the batch. It checks that its lists descend; then the position of a record is the number of
records before it, which a binary search in each list counts. Other lists are merged step by step, with their
numbers in registers.

A program of the product has a block of rows and columns and runs through K with ``fma.rn.f32``, the step of
the ascending fold, with the sums in registers. Operands that float32 cannot represent are multiplied and
added in float64 and rounded to float32 after every step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pto_jax.errors import PtoWarning
from pto_jax.ir import BF16, F16, F32, DType

from . import bits, primitives

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, Shaped, UInt, UInt8, UInt32


_like: Any = jax.ShapeDtypeStruct
_ZERO, _ONE, _NONE = np.int32(0), np.int32(1), np.int32(-1)
#: Records that a program has in its threads at a time.
LANES = 128


def kernel(own: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """A function that launches a kernel of its own; XLA's code with the same bits where JAX has no Triton."""

    def run(*args: Any) -> Any:
        if primitives.lowers_triton():
            return own(*args)
        warnings.warn(
            f"{own.__name__}: code for GPUs without its Triton kernel, which JAX {jax.__version__} does not "
            "generate here; the results are the same, at the cost of a launch per step instead of one in all",
            PtoWarning,
            stacklevel=2,
        )
        return otherwise(*args)

    return run


class Shape(NamedTuple):
    """Records that there are and that are wanted, their type, and what :class:`merging.Merge` says."""

    records: int
    wanted: int
    type: DType
    grouped: bool
    exhausted: bool


class _Lists(NamedTuple):
    """The lists of a program: the key at places, how to write what is there in order, and its job."""

    key: Callable[[Any], Any]
    write: Callable[..., None]
    begin: Sequence[Any]
    length: Sequence[Any]
    limit: Any
    group: Any


def merged(
    values: UInt[Array, "batch records"],
    job: tuple[Int32[Array, "batch ..."], ...],
    shape: Shape,
    interpret: bool = False,
) -> Int32[Array, "batch _"]:
    """Positions of the wanted records in merged order, -1 for none, then the records taken per list.

    ``job`` is begin and length [batch, lists], limit and group [batch], as in :class:`merging.Merge`.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    batch, lists = len(values), job[0].shape[1]
    # Half the memory where it suffices.
    kind = np.int16 if max(shape.records, shape.wanted) <= np.iinfo(np.int16).max else np.int32
    result: Array = pl.pallas_call(
        partial(_merge, shape, lists),
        # The last column is for what nobody asks for.
        out_shape=_like((batch, shape.wanted + lists + 1), kind),
        grid=(batch,),
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(num_warps=LANES // 32),
        name="pto_merge",
    )(values, *job)
    return lax.convert_element_type(result[:, :-1], np.int32)


def _merge(shape: Shape, lists: int, *refs: Any) -> None:
    from jax.experimental import pallas as pl

    row = pl.program_id(0)
    values, begin, length, limit, group, order = refs
    last, size = np.int32(shape.records - 1), shape.wanted + lists

    def write(place: Any, number: Any, some: Any = None) -> None:
        place = place if some is None else jnp.where(some, place, np.int32(size))
        order[row, place] = lax.convert_element_type(number, order.dtype)

    job = _Lists(
        lambda place: _key(values[row, jnp.clip(place, _ZERO, last)], shape.type),
        write,
        [begin[row, i] for i in range(lists)],
        [length[row, i] for i in range(lists)],
        limit[row],
        group[row],
    )
    rises = _rises(shape, job)
    at_once, stepwise = _at_once(shape, job, rises), _stepwise(shape, job, rises)
    for i, (one, other) in enumerate(zip(at_once, stepwise, strict=True)):
        advance = _ZERO if shape.grouped else jnp.where(rises, other, one)
        write(np.int32(shape.wanted + i), advance)


def _key(words: Any, d: DType) -> Any:
    """Integers in the order of values; the greatest one for every NaN."""
    if d.is_float:
        key = bits.ordered(words, d)
        return jnp.where(bits.is_nan(words, d), _nan(key), key)
    key = lax.bitcast_convert_type(words, np.dtype(f"i{words.dtype.itemsize}"))
    # Triton has no constant beyond those of signed integers.
    return key if d.is_signed else key ^ key.dtype.type(np.iinfo(key.dtype).min)


def _nan(key: Any) -> Any:
    return key.dtype.type(np.iinfo(key.dtype).max)


# -- lists that descend ------------------------------------------------------------------------------


class _Places(NamedTuple):
    """Of records by number: where their group begins, and their places in each list, -1 in others."""

    base: Any
    places: Sequence[Any]
    listed: Any


def _places(shape: Shape, job: _Lists, number: Any) -> _Places:
    base = number - lax.rem(number, job.group) if shape.grouped else lax.full_like(number, 0)
    places, listed = [], number < _ZERO
    for begin, length in zip(job.begin, job.length, strict=True):
        after = number - base - begin
        inside = (after >= _ZERO) & (after < length)
        places.append(jnp.where(inside, after, _NONE))
        listed = listed | inside
    if shape.grouped:
        listed = listed & (number < jnp.minimum(job.limit, np.int32(shape.records)))
    return _Places(base, places, listed)


def _chunks(size: int) -> np.int32:
    return np.int32(-(-size // LANES))


def _numbers(chunk: Any) -> Any:
    first = lax.convert_element_type(chunk, np.int32) * np.int32(LANES)
    return first + lax.broadcasted_iota(np.int32, (LANES,), 0)


def _rises(shape: Shape, job: _Lists) -> Any:
    """Whether some list has a NaN or a value that is greater than the one before."""

    def look(chunk: Any, rises: Any) -> Any:
        number = _numbers(chunk)
        places, key = _places(shape, job, number), job.key(number)
        greater = key > job.key(number - _ONE)
        for place in places.places:
            greater = greater & (place != _ZERO)
        if shape.type.is_float:
            greater = greater | (key == _nan(key))
        return jnp.maximum(rises, jnp.max(lax.convert_element_type(greater & places.listed, np.int32)))

    return lax.fori_loop(_ZERO, _chunks(shape.records), look, _ZERO) != _ZERO


def _rank(shape: Shape, job: _Lists, number: Any, places: _Places) -> Any:
    """The places of records in merged order, if all lists descend."""
    key, rank, after = job.key(number), places.base, number < _ZERO
    for i, place in enumerate(places.places):
        # Equal records of the lists before a record's own go before it.
        before = _before(shape, job, i, places.base, key, ~after & (place == _NONE))
        rank = rank + jnp.where(place == _NONE, before, place)
        after = after | (place != _NONE)
    return rank


def _before(shape: Shape, job: _Lists, i: int, base: Any, key: Any, equal: Any) -> Any:
    """How many records of a list have a greater key, or an equal one where those count too."""
    low, high = lax.full_like(base, 0), lax.full_like(base, 0) + job.length[i]

    def halve(_: Any, bounds: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bounds
        middle = lax.shift_right_arithmetic(low + high, _ONE)
        other = job.key(base + job.begin[i] + middle)
        ahead, some = (other > key) | (equal & (other == key)), low < high
        return jnp.where(some & ahead, middle + _ONE, low), jnp.where(some & ~ahead, middle, high)

    return lax.fori_loop(_ZERO, np.int32(shape.records.bit_length()), halve, (low, high))[0]


def _at_once(shape: Shape, job: _Lists, rises: Any) -> list[Any]:
    """Write the order of lists that descend, if none rises; the records taken per list."""
    total = job.limit
    if not shape.grouped:
        total = job.length[0]
        for n in job.length[1:]:
            total = total + n
    total = jnp.minimum(total, np.int32(shape.records))
    end = _end(shape, job, total)

    def write(chunk: Any, taken: Any) -> Any:
        number = _numbers(chunk)
        places = _places(shape, job, number)
        rank = _rank(shape, job, number, places)
        # Every place is written once, as the threads of a program do not wait for each other.
        job.write(rank, jnp.where(rank < end, number, _NONE), places.listed & (rank < np.int32(shape.wanted)))
        beyond = (number >= total) & (number < np.int32(shape.wanted))
        job.write(number, lax.full_like(number, -1), beyond)
        own = [(p != _NONE) & (rank < end) for p in places.places]
        return tuple(
            t + jnp.sum(lax.convert_element_type(o, np.int32), dtype=np.int32)
            for t, o in zip(taken, own, strict=True)
        )

    chunks = jnp.where(rises, _ZERO, _chunks(max(shape.records, shape.wanted)))
    return list(lax.fori_loop(_ZERO, chunks, write, (_ZERO,) * len(job.begin)))


def _end(shape: Shape, job: _Lists, total: Any) -> Any:
    """How many records are taken of lists that descend."""
    end = jnp.minimum(jnp.minimum(job.limit, total), np.int32(shape.wanted))
    for begin, length in zip(job.begin, job.length, strict=True) if shape.exhausted else ():
        number = begin + length - _ONE
        rank = _rank(shape, job, number, _places(shape, job, number))
        # An empty list has no record left once the first record is taken.
        end = jnp.minimum(end, jnp.where(length > _ZERO, rank, _ZERO) + _ONE)
    return end


# -- any lists ---------------------------------------------------------------------------------------


def _stepwise(shape: Shape, job: _Lists, rises: Any) -> list[Any]:
    """Write the order of any lists, if one rises; the records taken per list."""
    lists = len(job.begin)

    def step(number: Any, state: Any) -> Any:
        *counts, stopped = state
        number = lax.convert_element_type(number, np.int32)
        first = job.begin
        if shape.grouped:
            counts = [jnp.where(lax.rem(number, job.group) == _ZERO, _ZERO, t) for t in counts]
            first = [s + number - lax.rem(number, job.group) for s in first]
        places = [f + t for f, t in zip(first, counts, strict=True)]
        left = [t < n for t, n in zip(counts, job.length, strict=True)]
        incumbent = [job.key(p) for p in places]
        challenger = incumbent
        if shape.type.is_float:
            least = incumbent[0].dtype.type(np.iinfo(incumbent[0].dtype).min)
            challenger = [jnp.where(k == _nan(k), least, k) for k in incumbent]
        best, some = greatest(left, challenger, incumbent)
        go = some & (number < job.limit) & (stopped == _ZERO)
        place = places[0]
        for i in range(1, lists):
            place = jnp.where(best == np.int32(i), places[i], place)
        job.write(number, jnp.where(go, place, _NONE))
        counts = [jnp.where(go & (best == np.int32(i)), t + _ONE, t) for i, t in enumerate(counts)]
        if shape.exhausted:
            for t, n in zip(counts, job.length, strict=True):
                stopped = jnp.where(go & (t == n), _ONE, stopped)
        return (*counts, stopped)

    steps = jnp.where(rises, np.int32(shape.wanted), _ZERO)
    *counts, _ = lax.fori_loop(_ZERO, steps, step, (_ZERO,) * (lists + 1))
    return list(counts)


def greatest(left: Any, challenger: Any, incumbent: Any) -> tuple[Any, Any]:
    """The list whose record goes next, int32, and whether there is one.

    ``left`` says which lists have a record left; all three are arrays of the lists, or a kernel's numbers.
    """
    # Derived from an input: shard_map tracks over which axes it varies.
    best: Any = lax.convert_element_type(left[0], np.int32) * _ZERO
    some, value = left[0], incumbent[0]
    for i in range(1, len(left)):
        better = left[i] & (~some | (challenger[i] > value))
        best = jnp.where(better, np.int32(i), best)
        value = jnp.where(better, incumbent[i], value)
        some = some | better
    return best, some


#: Rows and columns of a program's block, at most.
ROWS, COLUMNS = 32, 64
#: Types whose words the kernel converts to float32, which is exact.
_CONVERTED = (F32, F16, BF16)
#: ``(x, y, z) -> x * y + z`` with one rounding, of float32 blocks.
Fused = Callable[[Any, Any, Any], Any]
#: ``(pair, number) -> column and row`` of a left and a right factor.
Lines = Callable[[int, Any], tuple[Any, Any]]
#: ``(number of the step, lines, tables, sums) -> sums`` of blocks.
Step = Callable[[Any, Lines, Any, Any], Any]


def fused(x: Float32[Array, "*s"], y: Float32[Array, "*s"], z: Float32[Array, "*s"]) -> Float32[Array, "*s"]:
    """``fma.rn.f32``; Triton would round the product of ``x * y + z`` by itself."""
    from jax.experimental.pallas import triton

    (result,) = triton.elementwise_inline_asm(
        "fma.rn.f32 $0, $1, $2, $3;",
        args=[x, y, z],
        constraints="=f,f,f,f",
        pack=1,
        result_shape_dtypes=[_like(z.shape, np.float32)],
    )
    return result


def fold(
    x: UInt[Array, "batch M K"],
    y: UInt[Array, "batch K N"],
    types: tuple[DType, DType] = (F32, F32),
    fma: Fused = fused,
    interpret: bool = False,
    start: UInt32[Array, "batch M N"] | None = None,
) -> UInt32[Array, "batch M N"]:
    """float32 words of the fold ``s = fma(x[i, k], y[k, j], s)`` from +0 or words, NaN canonical."""
    # The values of other types are looked up in a table.
    x, y = (w if d in _CONVERTED else bits.to_single(w, d) for w, d in zip((x, y), types, strict=True))
    return _launched(partial(_fused_step, fma, types), [(x, y)], (), interpret, start)


def fold_scaled(
    x: UInt8[Array, "batch M K"],
    x_scales: UInt8[Array, "batch M groups"],
    y: UInt8[Array, "batch K N"],
    y_scales: UInt8[Array, "batch groups N"],
    types: tuple[DType, DType, DType],
    group: int,
    interpret: bool = False,
    start: UInt32[Array, "batch M N"] | None = None,
) -> UInt32[Array, "batch M N"]:
    """:func:`fold` of elements times scales, each of a ``group`` along K; types are of x, y and scales.

    Scaled elements are float64 and their products have at most 24 significant bits. So a float64 sum of a
    product and a float32 number rounds to float32 as the exact sum does, whether or not the product was
    rounded before. Words are decoded in the kernel, by a table of every type's values.
    """
    tables = [jnp.asarray(bits.value_table(d)) for d in types]
    step = partial(_scaled_step, types, group)
    return _launched(step, [(x, y), (x_scales, y_scales)], tables, interpret, start)


def _launched(
    step: Step,
    pairs: Sequence[tuple[Shaped[Array, "batch M _"], Shaped[Array, "batch _ N"]]],
    tables: Sequence[Shaped[Array, " codes"]],
    interpret: bool,
    start: UInt32[Array, "batch M N"] | None,
) -> UInt32[Array, "batch M N"]:
    """The sums after all steps, which are as many as the first pair has columns and rows."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (batch, m, k), n = pairs[0][0].shape, pairs[0][1].shape[2]
    # Blocks are powers of two.
    rows, columns = min(_power(m), ROWS), min(_power(n), COLUMNS)
    left = [jnp.pad(x, ((0, 0), (0, -m % rows), (0, 0))).swapaxes(1, 2) for x, _ in pairs]
    right = [jnp.pad(y, ((0, 0), (0, 0), (0, -n % columns))) for _, y in pairs]
    first = [] if start is None else [jnp.pad(start, ((0, 0), (0, -m % rows), (0, -n % columns)))]
    shape = (batch, left[0].shape[2], right[0].shape[2])
    total = pl.pallas_call(
        partial(_block, k, (rows, columns), len(pairs), step, len(first)),
        out_shape=_like(shape, np.uint32),
        grid=(batch, shape[1] // rows, shape[2] // columns),
        out_specs=pl.BlockSpec((1, rows, columns), lambda b, i, j: (b, i, j)),
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(),
        name="pto_product",
    )(*left, *right, *first, *tables)
    result: Array = total[:, :m, :n]
    return result


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _fused_step(fma: Fused, types: tuple[DType, DType], at: Any, lines: Lines, tables: Any, sums: Any) -> Any:
    del tables
    x, y = (jnp.broadcast_to(_decoded(w, d), sums.shape) for w, d in zip(lines(0, at), types, strict=True))
    return fma(x, y, sums)


def _decoded(words: Any, d: DType) -> Any:
    """float32 values of words; float32 words of what the kernel does not convert."""
    values = lax.bitcast_convert_type(words, (d if d in _CONVERTED else F32).numpy)
    return lax.convert_element_type(values, np.float32)


def _scaled_step(
    types: tuple[DType, DType, DType], group: int, at: Any, lines: Lines, tables: Any, sums: Any
) -> Any:
    def value(words: Any, which: int) -> Any:
        codes = np.int32((1 << types[which].bits) - 1)
        return tables[which][lax.convert_element_type(words, np.int32) & codes]

    scales = (value(words, 2) for words in lines(1, lax.div(at, np.int32(group))))
    x, y = (
        value(words, i) * scale for i, (words, scale) in enumerate(zip(lines(0, at), scales, strict=True))
    )
    return lax.convert_element_type(x * y + lax.convert_element_type(sums, np.float64), np.float32)


def _block(k: int, shape: tuple[int, int], count: int, step: Step, started: int, *refs: Any) -> None:
    """One block of the sums; left factors are [batch, K, M], so that a step reads lines of both."""
    from jax.experimental import pallas as pl

    left, right, others, total = refs[:count], refs[count : 2 * count], refs[2 * count : -1], refs[-1]
    first, tables = others[:started], others[started:]
    batch, i, j = (pl.program_id(axis) for axis in range(3))
    rows, columns = (pl.ds(place * np.int32(size), size) for place, size in zip((i, j), shape, strict=True))

    def lines(pair: int, at: Any) -> tuple[Any, Any]:
        return left[pair][batch, at, rows][:, None], right[pair][batch, at, columns][None, :]

    def add(at: Any, sums: Any) -> Any:
        # A loop of known length counts in 64 bits.
        return step(lax.convert_element_type(at, np.int32), lines, tables, sums)

    begin = lax.bitcast_convert_type(first[0][batch, rows, columns], np.float32) if started else None
    sums = lax.fori_loop(
        np.int32(0), np.int32(k), add, jnp.zeros(shape, np.float32) if begin is None else begin
    )
    words = lax.bitcast_convert_type(sums, np.uint32)
    total[0] = jnp.where(sums != sums, np.uint32(F32.canonical_nan), words)
