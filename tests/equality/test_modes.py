"""The same bits from every way to execute an instruction, for every declaration, type row and profile.

Each sample runs on a batch of random bit patterns with a different valid region per element: once through
``jit(shard_map(vmap(kernel)))`` on two devices, element by element eagerly, and in the reference
interpreter. Instructions with a declared ULP bound may differ from the interpreter by that bound, never
between modes of the engine.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from numpy.typing import NDArray

from pto_jax import isa, oracle
from pto_jax.arrays import x64
from pto_jax.dtypes import DType
from pto_jax.engine import Kernel, choices
from pto_jax.ir import Program, Region, Value
from pto_jax.isa.samples import Sample, legal_samples, to_program
from pto_jax.profiles import PROFILES, Profile
from pto_jax.testing.compare import is_nan, ulp_distance
from pto_jax.tiles import Tile
from pto_jax.types import TileType

BATCH = 4
#: Valid regions of destinations per batch element: full, partial, empty, odd.
REGIONS = ((32, 64), (5, 17), (0, 9), (31, 63))
#: Where a rule allows it, sources get other regions, some smaller than the destination's.
SOURCE_REGIONS = ((32, 64), (5, 17), (7, 3), (30, 64))
#: Instructions whose rules make equal regions a condition, or that iterate over a source's region.
SAME_REGIONS = frozenset({"tcvt", "taddsc", "tsubsc", "taddreluconv", "tsubreluconv", "tcmp", "tcmps"})
Given = dict[str, tuple[Any, NDArray[Any], NDArray[np.int32] | None]]


def _computes(instruction: isa.Instruction) -> bool:
    operands = instruction.operands
    return (
        instruction.syntax == "tile"
        and any(o.role in ("out", "inout") for o in operands)
        and not any(o.kind in ("gm", "ptr") for o in operands)
    )


def _samples() -> Iterator[Any]:
    for name, instruction in isa.instructions().items():
        if _computes(instruction):
            for profile in PROFILES.values():
                if next(legal_samples(instruction, profile), None) is not None:
                    yield pytest.param(instruction, profile, id=f"{name}-{profile.name}")


def _open_regions(program: Program) -> Program:
    """The program with every full tile's valid region made a run-time value."""

    def opened(v: Value) -> Value:
        if isinstance(v.type, TileType) and v.type.is_full:
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


def _inputs(rng: np.random.Generator, program: Program, name: str) -> Given:
    given: Given = {}
    for a in program.functions[0].args:
        t = a.type
        if not isinstance(t, TileType):
            given[a.name] = (t, random_words(rng, t.dtype, (BATCH,)), None)  # type: ignore[union-attr]
            continue
        regions = None
        if not t.is_static:
            same = a.name in program.fragment_results or name in SAME_REGIONS
            listed = REGIONS if same else SOURCE_REGIONS
            regions = np.array([(min(r, t.rows), min(c, t.cols)) for r, c in listed], np.int32)
        given[a.name] = (t, random_words(rng, t.dtype, (BATCH, *t.shape)), regions)
    return given


def _arguments(given: Given, index: int | slice = slice(None)) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    with x64():
        for name, (t, words, regions) in given.items():
            arguments[name] = jnp.asarray(words[index])
            if isinstance(t, TileType):
                sizes = None if regions is None else jnp.asarray(regions[index])
                rows, cols = (None, None) if sizes is None else (sizes[..., 0], sizes[..., 1])
                arguments[name] = Tile(arguments[name], rows, cols, t)
    return arguments


def _reference(program: Program, given: Given, index: int, profile: Profile) -> dict[str, NDArray[Any]]:
    arguments: dict[str, Any] = {}
    for name, (t, words, regions) in given.items():
        if isinstance(t, TileType):
            sizes = (None, None) if regions is None else map(int, regions[index])
            arguments[name] = oracle.OracleTile(t, words[index].copy(), *sizes)
        else:
            arguments[name] = words[index].view(t.dtype.numpy)
    results = oracle.run(program, arguments, profile=profile)
    return {n: np.ascontiguousarray(r.data).view(r.type.dtype.word) for n, r in results.items()}


def _everywhere(kernel: Kernel, arguments: dict[str, Any]) -> dict[str, Any]:
    """jit(shard_map(vmap(kernel))) over two devices."""
    mesh = jax.make_mesh((2,), ("tiles",), axis_types=(jax.sharding.AxisType.Auto,))
    over = PartitionSpec("tiles")  # type: ignore[no-untyped-call]
    mapped = jax.shard_map(jax.vmap(lambda a: kernel(**a)), mesh=mesh, in_specs=(over,), out_specs=over)
    result: dict[str, Any] = jax.jit(mapped)(arguments)
    return result


def _assert_equal(d: DType, got: NDArray[Any], wanted: NDArray[Any], ulp: int, what: str) -> None:
    different = got != wanted
    if d.is_float and ulp:
        different &= ~(ulp_distance(d, got, wanted) <= ulp)
    if d.is_float:
        different &= ~(is_nan(d, got) & is_nan(d, wanted))
    if different.any():
        r, c = np.argwhere(different)[0]
        raise AssertionError(
            f"{what}: {different.sum()} lanes differ, first ({r}, {c}): "
            f"{got[r, c]:#x}, wanted {wanted[r, c]:#x}"
        )


def _check(sample: Sample, profile: Profile, eager: bool) -> None:
    instruction = sample.instruction
    program = _open_regions(to_program(sample))
    kernel = Kernel(program, program.functions[0].name, choices(profile, "exact", None, "keep"))
    label = f"{instruction.name} {[str(t) for t in sample.types.values()]}"
    given = _inputs(np.random.default_rng(zlib.crc32(label.encode())), program, instruction.name)
    batched = _everywhere(kernel, _arguments(given))
    for b in range(BATCH):
        reference = _reference(program, given, b, profile)
        single = kernel.eager_unchecked(**_arguments(given, b)) if eager else {}
        for name, wanted in reference.items():
            d = batched[name].type.dtype
            got = np.asarray(batched[name].words[b])
            ulp = instruction.ulp.get(d.name, 0)
            _assert_equal(d, got, wanted, ulp, f"{label}, batch {b}, engine and interpreter")
            if eager:
                np.testing.assert_array_equal(
                    np.asarray(single[name].words), got, f"{label}, batch {b}, eager"
                )


@pytest.mark.parametrize(("instruction", "profile"), list(_samples()))
def test_every_mode_gives_the_same_bits(instruction: isa.Instruction, profile: Profile) -> None:
    # Eager execution compiles apart from the batch; one type row per instruction and profile shows it.
    for index, sample in enumerate(legal_samples(instruction, profile)):
        _check(sample, profile, eager=index == 0)
