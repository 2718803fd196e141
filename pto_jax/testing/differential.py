"""Random operands for single instructions, and the results of engine and interpreter.

One case is one legal operation (:mod:`pto_jax.isa.samples.operations`) on a batch of random bit patterns,
with a different valid region per batch element. The engine runs on the batch, the interpreter on its
elements.

>>> from pto_jax import isa
>>> from pto_jax.isa.samples.operations import legal_samples
>>> from pto_jax.profiles import A5
>>> case = make_case(next(legal_samples(isa.instructions()["tadd"], A5)), A5)
>>> result = jax.vmap(lambda tiles: case.kernel(**tiles))(arguments(case.given))
>>> bool(differing(case.dtype("dst"), np.asarray(result["dst"].words[1]), case.reference(1)["dst"]).any())
False
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from .. import oracle, profiles
from ..ir import DType, PartitionViewType, Program, Region, ScalarType, TileType, Value, VectorType
from ..isa.declare import Instruction
from ..isa.rules import memory_indexed
from ..isa.samples.operations import Sample, to_program
from ..lowering.bits import x64
from ..runtime.kernel import Kernel, choices
from ..runtime.tiles import Tile
from ..vectors.compare import is_nan, ulp_distance

#: Valid regions of destinations per batch element: full, partial, empty, odd.
REGIONS = ((32, 64), (5, 17), (0, 9), (31, 63))
#: Where a rule allows it, sources get other regions, some smaller than the destination's.
SOURCE_REGIONS = ((32, 64), (5, 17), (7, 3), (30, 64))
BATCH = len(REGIONS)
#: Lanes of a whole tile of most samples.
TILE_LANES = REGIONS[0][0] * REGIONS[0][1]


@dataclass(frozen=True)
class Given:
    """One argument of a batch.

    Raw words [batch, rows, cols], [batch] or [batch, elements], and a tile's valid sizes [batch, 2] where
    they are run-time values. Windows of global memory are whole buffers.
    """

    type: TileType | ScalarType | VectorType | PartitionViewType
    words: NDArray[Any]
    regions: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class Case:
    """One operation, or a program of several, under one profile, and a batch of operands for it.

    ``bounds`` gives by element type how far results may be from the interpreter's, in ULP.
    ``subnormals`` is what becomes of these.
    """

    label: str
    profile: profiles.Profile
    program: Program
    given: Mapping[str, Given]
    bounds: Mapping[str, int] = field(default_factory=dict)
    subnormals: profiles.Subnormals = "keep"

    @cached_property
    def kernel(self) -> Kernel:
        """The program in exact numerics."""
        entry = self.program.functions[0].name
        return Kernel(self.program, entry, choices(self.profile, "exact", None, self.subnormals))

    def dtype(self, result: str) -> DType:
        """The element type of a result, which an instruction may bind instead of taking it as an argument."""
        written = (v for op in self.program.walk() for v in op.destinations if v.name == result)
        t = next(written).type
        assert isinstance(t, TileType | VectorType | PartitionViewType)
        return t.dtype

    def ulp(self, result: str) -> int:
        """How far a result may be from the interpreter's, as the declaration says."""
        return self.bounds.get(self.dtype(result).name, 0)

    def reference(self, index: int) -> dict[str, NDArray[Any]]:
        """Raw words of every result of one batch element, computed by the interpreter."""
        values: dict[str, Any] = {}
        for name, g in self.given.items():
            if isinstance(g.type, TileType):
                sizes = (None, None) if g.regions is None else map(int, g.regions[index])
                values[name] = oracle.OracleTile(g.type, g.words[index].copy(), *sizes)
            else:
                values[name] = g.words[index].view(g.type.dtype.numpy)
        results = oracle.run(self.program, values, profile=self.profile, subnormals=self.subnormals)
        return {name: result_words(self.dtype(name), r) for name, r in results.items()}


def make_case(sample: Sample, profile: profiles.Profile, seed: int = 0, batch: int = BATCH) -> Case:
    """A sample with random operands; equal seeds give equal operands."""
    program, name = open_regions(to_program(sample)), label(sample)
    rng = np.random.default_rng(zlib.crc32(name.encode(), seed))
    operands = inputs(rng, program, sample.instruction, batch)
    places = memory_indexed.places_of(sample.attrs, profile.name, sample.types)
    if places is not None:
        operands["indexes"] = _below(operands["indexes"], places)
    return Case(name, profile, program, operands, sample.instruction.ulp)


def _below(given: Given, count: int) -> Given:
    """Integers below a number, as far as their type goes."""
    d = given.type.dtype
    count = min(count, 1 << (d.bits - d.is_signed))
    return replace(given, words=given.words % given.words.dtype.type(count))


def batch_of(lanes: int) -> int:
    """The smallest batch with so many lanes in whole tiles, besides those of all regions.

    >>> batch_of(65536), batch_of(1)
    (35, 4)
    """
    return BATCH - 1 + -(-lanes // TILE_LANES)


def label(sample: Sample) -> str:
    """The instruction of a sample and the types of its operands."""
    return f"{sample.instruction.name} {[str(t) for t in sample.types.values()]}"


def computes(instruction: Instruction) -> bool:
    """Whether an instruction turns tiles and scalars into tiles, without windows of global memory.

    It touches no global memory, or any place of it by index: that leaves nothing to the shape and place of
    windows.
    """
    return (
        instruction.syntax == "tile"
        and bool(instruction.destinations)
        and all(e.indexed for e in instruction.traits.effects if e.resource == "global")
    )


def open_regions(program: Program) -> Program:
    """The program with every full tile's valid region made a run-time value; convolution tiles have none."""

    def opened(v: Value) -> Value:
        if isinstance(v.type, TileType) and v.type.is_full and v.type.conv is None:
            return replace(v, type=v.type.with_valid(None, None))
        return v

    (function,) = program.functions
    ops = tuple(
        replace(
            op,
            ins=tuple(map(opened, op.ins)),
            outs=tuple(map(opened, op.outs)),
            results=tuple(map(opened, op.results)),
        )
        for op in function.body.ops
    )
    args = tuple(map(opened, function.args))
    return replace(program, functions=(replace(function, args=args, body=Region(ops)),))


def random_words(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    """Random bit patterns with many special values, and many values near 1 or small integers."""
    top = (1 << d.bits) - 1
    words = rng.integers(0, top, shape, np.uint64, endpoint=True)
    if d.is_float and d.bits >= 16:
        m, infinity = d.mantissa, ((1 << d.exponent) - 1) << d.mantissa
        special = [
            0,
            infinity,
            infinity - 1,
            infinity | 1,
            1,
            (1 << m) - 1,
            1 << m,
            d.bias << m,
            (d.bias + 3) << m,
        ]
        special += [s | 1 << (d.bits - 1) for s in special]
        exponents = rng.integers(d.bias - 6, d.bias + 12, shape).astype(np.uint64) << np.uint64(m)
        usual = exponents | (words & np.uint64(((1 << m) - 1) | 1 << (d.bits - 1)))
    else:
        special = [0, 1, 2, 3, top, top >> 1, (top >> 1) + 1, top - 1, 7 & top, 31 & top]
        usual = rng.integers(0, 20, shape).astype(np.uint64) & np.uint64(top)
    kind = rng.random(shape)
    words = np.where(kind < 0.3, rng.choice(np.array(special, np.uint64), shape), words)
    return np.where(kind > 0.8, usual, words).astype(d.word)


def batch_words(rng: np.random.Generator, d: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    """:func:`random_words` for a batch.

    Beyond the first elements, one of four has any bits, and one subnormals in half of its lanes.
    """
    first = random_words(rng, d, (min(shape[0], BATCH), *shape[1:]))
    if shape[0] <= BATCH:
        return first
    more = random_words(rng, d, (shape[0] - BATCH, *shape[1:]))
    bits = more[::4].shape
    more[::4] = rng.integers(0, (1 << d.bits) - 1, bits, np.uint64, endpoint=True).astype(d.word)
    if d.is_float and d.bits >= 16:
        tiny = d.word.type((1 << d.mantissa) - 1 | 1 << (d.bits - 1))
        half = rng.random(more[1::4].shape) < 0.5
        more[1::4] = np.where(half, more[1::4] & tiny, more[1::4])
    return np.concatenate([first, more])


def inputs(
    rng: np.random.Generator, program: Program, instruction: Instruction, batch: int = BATCH
) -> dict[str, Given]:
    """Random operands of a fragment with one instruction, for the whole batch; further tiles are full."""
    one_region = _needs_one_region(instruction)
    operands: dict[str, Given] = {}
    for a in program.functions[0].args:
        t = a.type
        if isinstance(t, ScalarType):
            operands[a.name] = Given(t, batch_words(rng, t.dtype, (batch,)))
            continue
        if isinstance(t, VectorType | PartitionViewType):
            *outer, last = (n or 1 for n in t.dims)
            dims = (*outer, -(-last // 2) if t.dtype.packed else last)
            operands[a.name] = Given(t, batch_words(rng, t.dtype, (batch, *dims)))
            continue
        assert isinstance(t, TileType), t
        regions = None
        if not t.is_static:
            same = a.name in program.fragment_results or one_region
            listed = (REGIONS if same else SOURCE_REGIONS) + (REGIONS[0],) * (batch - BATCH)
            regions = np.array([(min(r, t.rows), min(c, t.cols)) for r, c in listed], np.int32)
        operands[a.name] = Given(t, batch_words(rng, t.dtype, (batch, *t.shape)), regions)
    return operands


def _needs_one_region(instruction: Instruction) -> bool:
    """Whether a lane-wise instruction computes on one valid region.

    Its rules make equal valid regions a condition, or it iterates over a source's region.
    """
    rules = (c.region for c in instruction.constraints if c.region is not None)
    equal = any(rule.kind == "equal-valid" for rule in rules)
    return instruction.lanes == "same" and (equal or instruction.domain != "dst")


def batch_size(given: Mapping[str, Given]) -> int:
    """Elements of a batch."""
    return len(next(iter(given.values())).words)


def arguments(inputs: Mapping[str, Given], index: int | slice = slice(None)) -> dict[str, Any]:
    """Arguments of the kernel by name: those of one batch element, or of the batch (for vmap)."""
    values: dict[str, Any] = {}
    with x64():
        for name, g in inputs.items():
            # Unlike jnp.asarray, device_put compiles nothing.
            values[name] = jax.device_put(g.words[index])
            if isinstance(g.type, VectorType):
                values[name] = jax.device_put(g.words[index].view(g.type.dtype.numpy))
            elif isinstance(g.type, TileType):
                sizes = (None, None) if g.regions is None else (g.regions[index][..., i] for i in (0, 1))
                rows, cols = (size if size is None else jax.device_put(size) for size in sizes)
                values[name] = Tile(values[name], rows, cols, g.type)
    return values


def result_words(d: DType, result: Any, index: int | None = None) -> NDArray[Any]:
    """Raw words of a result, a vector as one row; ``index`` picks an element of a batch."""
    tile = isinstance(result, Tile | oracle.OracleTile)
    words = result if not tile else result.words if isinstance(result, Tile) else result.data
    array = np.asarray(words if index is None else words[index])
    return np.ascontiguousarray(array[None] if array.ndim == 1 else array).view(d.word)


def differing(d: DType, got: NDArray[Any], expected: NDArray[Any], ulp: int = 0) -> NDArray[np.bool_]:
    """Lanes that differ by more than ``ulp``. A NaN equals every NaN.

    >>> from pto_jax.ir import F16
    >>> differing(F16, np.array([0x7E00, 0x3C01], np.uint16), np.array([0xFE01, 0x3C00], np.uint16))
    array([False,  True])
    """
    different = got != expected
    if d.is_float and ulp:
        different &= ~(ulp_distance(d, got, expected) <= ulp)
    if d.is_float:
        different &= ~(is_nan(d, got) & is_nan(d, expected))
    return np.asarray(different)
