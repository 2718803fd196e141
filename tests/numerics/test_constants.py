"""Constants in a program: XLA simplifies arithmetic with them, which must not change a bit.

A sum with a constant zero, for one, is replaced by the other operand although -0 + +0 is +0.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import TileType

TILE = TileType(pto.dtype("f32"), 16, 64)
TEXT = "!pto.tile<f32, 16, 64>"
SCALAR_FIRST_AND_LAST = (
    *(f"pto.{n} ins(%a, %s : {TEXT}, f32) outs(%d : {TEXT})" for n in ("tadds", "tsubs", "tmuls", "tdivs")),
    f"pto.tdivs ins(%s, %a : f32, {TEXT}) outs(%d : {TEXT})",
    f"pto.taddsc ins(%a, %s, %a : {TEXT}, f32, {TEXT}) outs(%d : {TEXT})",
    f"pto.tsubsc ins(%a, %s, %a : {TEXT}, f32, {TEXT}) outs(%d : {TEXT})",
)


def _operand() -> np.ndarray[Any, np.dtype[np.float32]]:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (16, 64), np.uint32)
    special = np.array([0, 1 << 31, 1, (1 << 31) + 1, 0x3F800000, 0x7F800000, 0x7FC00000], np.uint32)
    return np.where(rng.random((16, 64)) < 0.4, rng.choice(special, (16, 64)), words).view(np.float32)


def _program(constant: str) -> pto.Program:
    """Every instruction with the constant as a scalar, and as a tile filled with it, on either side."""
    lines = [f"%s = arith.constant {constant} : f32", f"pto.texpands ins(%s : f32) outs(%e : {TEXT})"]
    lines += [line.replace("%d", f"%d{i}") for i, line in enumerate(SCALAR_FIRST_AND_LAST)]
    for name in ("tadd", "tsub", "tmul", "tdiv"):
        for i, pair in enumerate(("%a, %e", "%e, %a")):
            lines.append(f"pto.{name} ins({pair} : {TEXT}, {TEXT}) outs(%{name}{i} : {TEXT})")
    return pto.parse("\n".join(lines))


@pytest.mark.variants(1)
@pytest.mark.parametrize("constant", ["0.0", "-0.0", "1.0", "-1.0", "3.0", "0.1", "1.0e-40"])
def test_constants_change_no_bit(constant: str) -> None:
    program = _program(constant)
    kernel = pto.compile(program, profile="cpu_sim")
    a = _operand()
    found = jax.jit(lambda x: kernel(a=x))(a)
    fresh = np.zeros(TILE.shape, np.float32)
    tiles = {v.name: oracle.OracleTile(TILE, fresh.copy()) for v in program.functions[0].args}
    wanted = oracle.run(program, {**tiles, "a": oracle.OracleTile(TILE, a)}, profile="cpu_sim")
    for name, tile in wanted.items():
        got, expected = np.asarray(found[name]), np.asarray(tile.data).view(np.float32)
        same = (got.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(got) & np.isnan(expected))
        assert same.all(), name


def test_naive_sums_with_a_constant_zero_lose_the_sign() -> None:
    minus_zero = np.full(8, -0.0, np.float32)
    assert np.signbit(jax.jit(lambda x: x + jnp.float32(0.0))(minus_zero)).all()
    assert not np.signbit(minus_zero + np.float32(0.0)).any()
