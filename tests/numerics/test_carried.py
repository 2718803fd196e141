"""Values that are carried from instruction to instruction instead of their words."""

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import oracle
from pto_jax.ir import F32, TileType

T = "!pto.tile<16x64xf32>"
COLUMN = "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>"
#: What reads words and what reads values follow each other in every order.
CHAIN = "".join(
    f"{line} : {types}\n"
    for line, types in (
        ("%s = tadd %a, %b", T),
        ("%d = tsub %a, %b", T),
        ("%m = tmax %s, %d", T),
        ("%n = tmin %m, %s", T),
        ("%p = tmul %n, %m", T),
        ("%o = tmax %a, %p", T),
        ("%r = trowsum %n, %n", f"({T}, {T}) -> {COLUMN}"),
        ("%x = trowmax %m, %m", f"({T}, {T}) -> {COLUMN}"),
        ("%e = trowexpandadd %p, %r", f"({T}, {COLUMN}) -> {T}"),
        ("%f = trowexpandsub %e, %x", f"({T}, {COLUMN}) -> {T}"),
        ("%g = tmin %f, %o", T),
        ("%h = tabs %g", T),
        ("%k = tadd %h, %f", T),
    )
)


def words(seed: int) -> NDArray[np.uint32]:
    """Random bit patterns: a third subnormal, a third near one, and lines of special values."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 2**32, (16, 64), dtype=np.uint64).astype(np.uint32)
    found[:, ::3] &= np.uint32(0x807FFFFF)
    found[:, 1::3] = (found[:, 1::3] & np.uint32(0x807FFFFF)) | np.uint32(0x3F800000)
    edges = np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001], np.uint32)
    edges = np.concatenate([edges, edges | np.uint32(0x80000000)])
    found[0], found[1] = np.resize(edges, 64), np.repeat(edges, 4)
    found[2], found[3] = np.uint32(0x80000000), np.roll(found[0], seed)
    return found


@pytest.mark.variants(2)
@pytest.mark.parametrize("seed", range(6))
def test_a_chain_traced_as_a_whole_gives_the_words_of_every_instruction(seed: int) -> None:
    program = pto.parse(CHAIN)
    tile, given = TileType(F32, 16, 64), {n: words(seed * 2 + i) for i, n in enumerate("ab")}
    tiles = {n: oracle.OracleTile(tile, w.copy()) for n, w in given.items()}
    wanted = oracle.run(program, tiles, profile="a5")
    got = jax.jit(pto.compile(program, profile="a5"))(**{n: w.view(np.float32) for n, w in given.items()})
    assert set(got) == set(wanted) and len(got) == 13
    for name, found in got.items():
        expected = wanted[name].data.view(np.uint32)
        np.testing.assert_array_equal(np.asarray(found.words), expected, err_msg=name)
