"""A second handle over a tile's storage reads and writes the same bytes through its own type."""

from __future__ import annotations

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle

VIEWS = (
    "vec, 16x8xf32",
    "vec, 8x16xi32",
    "vec, 8x32xi16",
    "vec, 8x16xf32, blayout=col_major",
)


@pytest.mark.parametrize("view", VIEWS)
def test_an_alias_sees_the_bytes_through_its_own_type(view: str) -> None:
    base, alias = "!pto.tile<f32, 8, 16>", f"!pto.tile_buf<{view}>"
    text = f"""
pto.tadd ins(%a, %a : {base}, {base}) outs(%t : {base})
%v = pto.talias %t : {base} -> {alias}
pto.tadd ins(%v, %v : {alias}, {alias}) outs(%v : {alias})
pto.tmov ins(%v : {alias}) outs(%u : {alias})
pto.tmul ins(%t, %a : {base}, {base}) outs(%w : {base})
"""
    program = pto.parse(text)
    kernel = pto.compile(program, profile="cpu_sim")
    a = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    found = kernel(a=a)
    given = {}
    for v in program.functions[0].args:
        assert isinstance(v.type, pto.TileType)
        zeros = np.zeros(v.type.shape, v.type.dtype.word)
        given[v.name] = oracle.OracleTile(v.type, a if v.name == "a" else zeros)
    wanted = oracle.run(program, given, profile="cpu_sim")
    for name in ("t", "u", "w"):
        expected = np.ascontiguousarray(wanted[name].data).view(wanted[name].type.dtype.word)
        np.testing.assert_array_equal(np.asarray(found[name].words), expected, name)


def test_a_layout_for_a_memref_that_is_no_local_memory() -> None:
    memref = "memref<16x16xf16, #pto.address_space<vec>>"
    kernel = pto.compile(pto.parse(f"%t = pto.bind_tile %m : {memref} -> {memref}"), warn=False)
    message = r"bind_tile: got a memref that is an argument; allowed: one that the function allocates"
    with pytest.raises(pto.NotExecutableError, match=message):
        kernel(np.zeros((16, 16), np.float16))
