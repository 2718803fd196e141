"""Instructions keep their own roundings when XLA sees them in one computation.

Kernels run inside an outer jit that has no arguments but the data: a guard that needs a run-time value of
its own would become a constant there. Every test has a naive formula beside it that fails on the same
data, so that the data is known to show the fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import isa, oracle
from pto_jax.ir import FRAGMENT, Function, Op, Program, Region, Value, attrs
from pto_jax.isa.samples import legal_samples
from pto_jax.profiles import CPU_SIM
from pto_jax.types import ScalarType, TileType

Words = NDArray[np.uint32]
ROWS, COLS = 32, 64


def _random(seed: int, low: int, high: int, shape: tuple[int, ...] = (ROWS, COLS)) -> NDArray[np.float32]:
    """Random float32 values with biased exponents in [low, high)."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, shape, np.uint32) & np.uint32(0x807FFFFF)
    return (words | (rng.integers(low, high, shape).astype(np.uint32) << np.uint32(23))).view(np.float32)


def _differ(got: Any, wanted: NDArray[np.float32]) -> int:
    """Lanes with different bits, any NaN equal to any NaN."""
    found = np.asarray(got, np.float32)
    same = (found.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(found) & np.isnan(wanted))
    return int((~same).sum())


MULTIPLY_ADD = "%p = tmul %a, %b : !pto.tile<f32, 64, 64>\n%d = tadd %p, %c : !pto.tile<f32, 64, 64>"


def test_a_multiply_and_an_add_round_separately() -> None:
    kernel = pto.compile(pto.parse(MULTIPLY_ADD))
    a, b, c = (_random(i, 120, 134, (16, 64, 64)) for i in range(3))
    wanted = a * b + c
    assert wanted.size == 2**16
    assert _differ(jax.jit(lambda x, y, z: x * y + z)(a, b, c), wanted) > 1000

    def call(x: Any, y: Any, z: Any) -> Any:
        return kernel(x, y, z)["d"].array

    assert _differ(jax.jit(jax.vmap(call))(a, b, c), wanted) == 0
    assert _differ(jax.vmap(call)(a, b, c), wanted) == 0
    alone = jax.jit(call)
    assert _differ(np.stack([alone(*tiles) for tiles in zip(a, b, c, strict=True)]), wanted) == 0


def test_the_users_own_arithmetic_around_a_kernel_does_not_leak_in() -> None:
    kernel = pto.compile(pto.parse("%d = tmul %a, %b : !pto.tile<f32, 64, 64>"))
    a, b = (_random(i, 120, 134, (64, 64)) for i in range(2))

    @jax.jit
    def around(x: Any, y: Any) -> Any:
        product = kernel(x, y)["d"].array
        return product, product + y

    product, total = around(a, b)
    assert _differ(product, a * b) == 0
    assert _differ(total, a * b + b) == 0


@pytest.mark.parametrize("name", ["tadd", "tsub", "tmul", "tdiv"])
@pytest.mark.parametrize(("low", "high"), [(0, 2), (0, 256), (40, 90)])
def test_subnormal_operands_and_results_are_exact(name: str, low: int, high: int) -> None:
    kernel = pto.compile(pto.parse(f"%d = {name} %a, %b : !pto.tile<f32, {ROWS}, {COLS}>"))
    a, b = _random(1, low, high), _random(2, low, high)
    operation = {"tadd": np.add, "tsub": np.subtract, "tmul": np.multiply, "tdiv": np.divide}[name]
    with np.errstate(all="ignore"):
        wanted = operation(a, b)
    assert _differ(jax.jit(lambda x, y: kernel(x, y)["d"].array)(a, b), wanted) == 0


def test_naive_arithmetic_flushes_the_subnormals_of_these_tests() -> None:
    a, b = _random(1, 0, 2), _random(2, 0, 2)
    assert _differ(jax.jit(jnp.add)(a, b), a + b) > 100


def test_bfloat16_chains_keep_no_excess_precision() -> None:
    text = "%s = tadd %a, %b : !pto.tile<bf16, 32, 64>\n%d = tsub %s, %a : !pto.tile<bf16, 32, 64>"
    kernel = pto.compile(pto.parse(text), profile="a5")
    bf16 = pto.dtype("bf16").numpy
    a, b = (_random(i, 124, 134).astype(bf16) for i in range(2))
    single = (a.astype(np.float32) + b.astype(np.float32)).astype(bf16).astype(np.float32)
    wanted = (single - a.astype(np.float32)).astype(bf16)
    got = jax.jit(lambda x, y: kernel(x, y)["d"].array)(a, b)
    assert np.array_equal(np.asarray(got).view(np.uint16), wanted.view(np.uint16))


def _float_rules() -> Iterator[str]:
    """Instructions that compute float32 tiles from float32 tiles and scalars."""
    for name, instruction in isa.instructions().items():
        if instruction.cls not in ("elementwise", "tile_scalar"):
            continue
        for sample in legal_samples(instruction, CPU_SIM):
            if {t.dtype.name for t in sample.types.values() if hasattr(t, "dtype")} == {"f32"}:
                yield name
                break


def _between_multiplies(name: str) -> Program:
    """``t = a * b; u = RULE(t, b ...); v = u * a``, with fresh tiles for everything written."""
    instruction = isa.instructions()[name]
    t = TileType(pto.dtype("f32"), ROWS, COLS)

    def tile(called: str) -> Value:
        return Value(called, t)

    form = min(instruction.forms, key=len)
    tiles = iter(["t", "b", "a", "b"])
    ins = tuple(
        Value("s", ScalarType(t.dtype)) if instruction.operand(n).kind == "scalar" else tile(next(tiles))
        for n in form
    )
    inout = instruction.destinations[0].role == "inout"
    target = "t" if inout else "u"
    given = attrs({"rmode": isa.instructions()["tcvt"].attributes[0].default} if name == "tcvt" else {})
    ops = (
        Op("tmul", (tile("a"), tile("b")), (tile("t"),), form="dps"),
        Op(name, ins, (tile(target),), attributes=given, form="dps"),
        Op("tmul", (tile(target), tile("a")), (tile("v"),), form="dps"),
    )
    names = dict.fromkeys(v.name for op in ops for v in (*op.ins, *op.outs))
    args = tuple(Value(n, ScalarType(t.dtype) if n == "s" else t) for n in names)
    results = tuple(dict.fromkeys(v.name for op in ops for v in op.outs))
    return Program((Function(FRAGMENT, args, Region(ops)),), fragment=True, fragment_results=results)


@pytest.mark.parametrize("name", list(_float_rules()))
def test_every_rule_between_multiplies_on_subnormals(name: str) -> None:
    program = _between_multiplies(name)
    kernel = pto.compile(program, profile="cpu_sim")
    ulp = isa.instructions()[name].ulp.get("f32", 0)
    for seed, (low, high) in enumerate([(0, 3), (60, 68), (120, 136)]):
        a, b, s = _random(seed, low, high), _random(seed + 9, 118, 130), np.float32(1.2345678)
        takes_scalar = any(x.name == "s" for x in kernel.arguments)

        @jax.jit
        def outer(x: Any, y: Any, scalar: bool = takes_scalar, value: Any = s) -> Any:
            return kernel(a=x, b=y, **({"s": value} if scalar else {}))

        found = outer(a, b)
        tiles = {v.name: v.type for v in program.functions[0].args}
        given: dict[str, Any] = {"a": a, "b": b, "s": s}
        arguments = {
            n: oracle.OracleTile(t, given.get(n, np.zeros((ROWS, COLS), np.float32)))
            if isinstance(t, TileType)
            else given[n]
            for n, t in tiles.items()
        }
        wanted = oracle.run(program, arguments, profile="cpu_sim")
        for result, tile in wanted.items():
            got, expected = np.asarray(found[result]), np.asarray(tile.data).view(np.float32)
            if ulp:
                # The last multiply may spread one unit in the last place of its operand over two.
                np.testing.assert_allclose(got, expected, rtol=3 * 2.0**-23, atol=3 * 2.0**-149)
            else:
                assert _differ(got, expected) == 0, f"{result}, exponents {low} to {high}"
