"""Several instructions in one program: what a compiler fuses, it may be tempted to round less often."""

from collections.abc import Iterator

import numpy as np

from pto_jax.api import parse
from pto_jax.ir import Program, TileType
from pto_jax.profiles import A5, CPU_SIM
from pto_jax.testing.differential import BATCH, Case, Given, open_regions, random_words

_T = "!pto.tile<32x64x{d}>"
_COLUMN = "!pto.tile_buf<vec, 32x1x{d}, blayout=col_major>"
#: Sums of products, of sums and of rows, in every order: each result is one of the program's.
TEXT = f"""
%p = tmul %a, %b : {_T}
%s = tadd %p, %c : {_T}
%q = tmul %s, %b : {_T}
%e = tsub %q, %p : {_T}
%m = tmax %e, %s : {_T}
%v = tdiv %m, %b : {_T}
%w = tadd %v, %p : {_T}
%r = trowsum %q, %a : ({_T}, {_T}) -> {_COLUMN}
%x = trowexpandmul %w, %r : ({_T}, {_COLUMN}) -> {_T}
%y = tadd %x, %e : {_T}
%z = tmul %y, %y : {_T}
"""


def chains(seed: int) -> Iterator[Case]:
    """A chain per element type whose arithmetic is the device's own; of float32 also on parts of tiles."""
    for d, profile, parts in (
        ("f32", A5, False),
        ("f32", A5, True),
        ("f16", CPU_SIM, False),
        ("bf16", CPU_SIM, False),
    ):
        program = parse(TEXT.replace("{d}", d))
        program = open_regions(program) if parts else program
        name = f"chain of {d}{', parts of tiles' if parts else ''}"
        yield Case(name, profile, program, _given(program, seed))


def _given(program: Program, seed: int) -> dict[str, Given]:
    """Random operands with ordinary numbers in most places, so that few sums are NaN."""
    rng, operands = np.random.default_rng(seed), dict[str, Given]()
    for a in program.functions[0].args:
        t = a.type
        assert isinstance(t, TileType)
        shape, d = (BATCH, *t.shape), t.dtype
        near = rng.integers(d.bias - 3, d.bias + 4, shape).astype(np.uint64) << np.uint64(d.mantissa)
        fraction = rng.integers(0, 1 << d.bits, shape, np.uint64) & np.uint64(
            (1 << d.mantissa) - 1 | 1 << d.bits - 1
        )
        rare = rng.random(shape) < 0.02
        words = np.where(rare, random_words(rng, d, shape), near | fraction).astype(d.word)
        regions = None
        if not t.is_static:
            regions = np.array([(32, 64), (31, 64), (17, 63), (5, 64)], np.int32)
            regions = np.minimum(regions, np.array(t.shape, np.int32))
        operands[a.name] = Given(t, words, regions)
    return operands
