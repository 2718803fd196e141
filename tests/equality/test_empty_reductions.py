"""Reductions of sources without valid lanes: the engine and the interpreter agree on what is written."""

from __future__ import annotations

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.text.type_text import print_type

SIDE = 8
NAMES = [f"t{a}{o}" for a in ("row", "col") for o in ("sum", "prod", "max", "min", "argmax")]


@pytest.mark.variants(8)
@pytest.mark.parametrize("profile", ["cpu_sim", "a5"])
@pytest.mark.parametrize("name", [*NAMES, "tpairreducesum"])
def test_engine_and_interpreter_agree(name: str, profile: str) -> None:
    src = pto.TileType(pto.dtype("f32"), SIDE, SIDE, None, None)
    dst = pto.TileType(pto.dtype("i32" if "arg" in name else "f32"), SIDE, SIDE, None, None)
    program = pto.parse(f"pto.{name} ins(%s : {print_type(src)}) outs(%d : {print_type(dst)})")
    kernel = pto.compile(program, profile=profile)
    data = np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE) + 3
    old = np.full((SIDE, SIDE), 9, dst.dtype.numpy)
    for rows, cols in ((SIDE, 0), (0, SIDE), (0, 0), (3, 5)):
        region = (rows, 1) if name.startswith("trow") else (1, cols)
        region = (rows, cols) if name == "tpairreducesum" else region
        out = kernel(pto.tile(data, valid=(rows, cols)), pto.tile(old, valid=region))["d"]
        given = {"s": oracle.OracleTile(src, data, rows, cols), "d": oracle.OracleTile(dst, old, *region)}
        expected = oracle.run(program, given, profile=profile)["d"].data
        np.testing.assert_array_equal(np.asarray(out), expected, f"{rows}x{cols}")
