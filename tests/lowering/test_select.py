"""Selections: what neither recorded cases nor random operands show."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import TileType


def test_a_simulated_selection_reads_ones_where_the_mask_has_no_row() -> None:
    """One stream over the valid region: with a byte per mask row the ninth lane's bit is in a second row."""
    tile = "!pto.tile_buf<vec, 1x32xui8, valid=?x?>"
    program = pto.parse(f"pto.tsel ins(%m, %a, %b : {tile}, {tile}, {tile}) outs(%d : {tile})")
    given = {"m": (0, 1), "a": (1, 9), "b": (2, 9), "d": (0, 9)}
    engine, reference = {}, {}
    for argument in program.functions[0].args:
        (value, cols), t = given[argument.name], argument.type
        assert isinstance(t, TileType)
        words = np.full(t.shape, value, np.uint8)
        engine[argument.name] = pto.Tile(jnp.asarray(words), jnp.int32(1), jnp.int32(cols), t)
        reference[argument.name] = oracle.OracleTile(t, words, 1, cols)
    expected = oracle.run(program, reference, profile="cpu_sim")["d"].data
    got = pto.compile(program, profile="cpu_sim")(**engine)["d"].words
    assert np.asarray(got)[0, :10].tolist() == expected[0, :10].tolist() == [2] * 8 + [1, 0]
