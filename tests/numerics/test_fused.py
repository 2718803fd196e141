"""Every instruction on floats directly after a multiplication whose results are subnormal, and before
another one, all in one kernel inside the user's jit: neighbours that XLA would like to fuse."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import isa, oracle
from pto_jax.ir import FRAGMENT, DType, Function, Op, Program, Region, TileType, Type, Value, attrs
from pto_jax.isa.samples.operations import Sample, legal_samples
from pto_jax.lowering import RULES
from pto_jax.profiles import PROFILES
from pto_jax.runtime.kernel import Kernel, choices
from pto_jax.testing.differential import differing

SHAPES = [("f32", "a5"), ("f16", "cpu_sim"), ("bf16", "cpu_sim")]


def first_source(sample: Sample, d: str) -> str | None:
    """The first source tile of the element type."""
    for name in sample.form:
        t = sample.types[name]
        operand = sample.instruction.operand(name)
        if isinstance(t, TileType) and operand.role == "in" and operand.kind == "tile" and t.dtype.name == d:
            return name
    return None


@cache
def samples(d: str, profile: str) -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for name, instruction in isa.instructions().items():
        lane_wise = instruction.lanes == "same" and name in RULES
        for sample in legal_samples(instruction, PROFILES[profile]) if lane_wise else ():
            if first_source(sample, d) is not None:
                found.setdefault(name, sample)
    return found


def words(d: DType, shape: tuple[int, ...], seed: int, low: int, high: int) -> NDArray[Any]:
    """Random numbers with biased exponents in a range, as words; random patterns for other types."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 1 << d.bits, shape, dtype=np.uint64)
    if d.name in ("f32", "f16", "bf16"):
        keep = (1 << d.mantissa) - 1 | 1 << (d.bits - 1)
        raw = raw & np.uint64(keep) | rng.integers(low, high, shape).astype(np.uint64) << np.uint64(
            d.mantissa
        )
    return raw.astype(d.word)


@cache
def program(d: str, profile: str) -> tuple[Program, dict[str, Any]]:
    """One fragment with all instructions, and its arguments."""
    ops: list[Op] = []
    args: dict[str, Value] = {}
    given: dict[str, Any] = {}
    element = pto.dtype(d)
    half = 2 ** (element.exponent - 2)

    def argument(name: str, t: Type, low: int, high: int) -> Value:
        if name not in args:
            args[name] = Value(name, t)
            if isinstance(t, TileType):
                given[name] = words(t.dtype, t.shape, len(args), low, high)
            else:
                assert isinstance(t, pto.ScalarType)
                given[name] = np.asarray(3 if t.dtype.is_integer else 1.5, t.dtype.numpy)
        return args[name]

    for name, sample in samples(d, profile).items():
        source = first_source(sample, d)
        assert source is not None
        t = sample.types[source]
        x, y = (argument(f"{n}{t}", t, half - element.mantissa // 2, half) for n in "xy")
        product = Value(f"{name}.product", t)
        ops.append(Op("tmul", (x, y), (), (product,), form="ssa"))
        ins = [
            product if n == source else argument(f"{name}.{n}", sample.types[n], 0, 4) for n in sample.form
        ]
        outs = [
            argument(f"{name}.{o.name}", sample.types[o.name], 0, 4) for o in sample.instruction.destinations
        ]
        ops.append(Op(name, tuple(ins), tuple(outs), attributes=attrs(sample.attrs), form="dps"))
        if outs[0].type == t:
            factor = argument(f"w{t}", t, 2 * half - 8, 2 * half + 2)
            ops.append(Op("tmul", (outs[0], factor), (), (Value(f"{name}.after", t),), form="ssa"))
    results = tuple(v.name for op in ops for v in op.destinations)
    function = Function(FRAGMENT, tuple(args.values()), Region(tuple(ops)))
    return Program((function,), fragment=True, fragment_results=results, has_module=False), given


@cache
def answers(d: str, profile: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The engine's results and the interpreter's; the user's jit has no arguments but the factors, so
    nothing the kernel might hide behind an argument of its own survives as one."""
    built, given = program(d, profile)
    kernel = Kernel(built, FRAGMENT, choices(profile, "exact", None, "keep"))
    types = {v.name: v.type for v in built.functions[0].args}
    tiles: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for n, g in given.items():
        t = types[n]
        tiles[n] = pto.tile(g, type=t) if isinstance(t, TileType) else g
        plain[n] = oracle.OracleTile(t, g) if isinstance(t, TileType) else g
    factors = {n: t for n, t in tiles.items() if n[0] in "xyw" and n[1:].startswith("vec")}
    jitted = jax.jit(lambda factors: kernel(**(tiles | factors)))(factors)
    return jitted, oracle.run(built, plain, profile=profile)


def _parameters() -> Iterator[Any]:
    for d, profile in SHAPES:
        for name in samples(d, profile):
            yield pytest.param(d, profile, name, id=f"{name}-{d}")


@pytest.mark.slow
@pytest.mark.parametrize(("d", "profile", "name"), list(_parameters()))
def test_between_multiplications(d: str, profile: str, name: str) -> None:
    jitted, expected = answers(d, profile)
    sample = samples(d, profile)[name]
    results = [f"{name}.{o.name}" for o in sample.instruction.destinations]
    for result in (f"{name}.product", *results, f"{name}.after"):
        if result not in expected:
            continue
        t = expected[result].type
        reference = expected[result].data.view(t.dtype.word)
        ulp = sample.instruction.ulp.get(t.dtype.name, 0) if result in results else 0
        if result.endswith(".after") and sample.instruction.ulp.get(t.dtype.name, 0):
            continue
        different = differing(t.dtype, np.asarray(jitted[result].words), reference, ulp)
        assert not different.any(), f"{result}: {different.sum()} lanes differ"


@pytest.mark.slow
@pytest.mark.parametrize(("d", "profile"), SHAPES)
def test_the_products_are_subnormal(d: str, profile: str) -> None:
    element = pto.dtype(d)
    field = ((1 << element.exponent) - 1) << element.mantissa
    product = answers(d, profile)[1]["trelu.product"].data.view(element.word)
    assert np.mean((product & field) == 0) > 0.5 and np.mean(product & ~np.array(1 << (element.bits - 1))) > 0
    assert len(samples("f32", "a5")) > 30
