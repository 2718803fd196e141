"""What is folded before execution is what the scalars of the interpreter give."""

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

from pto_jax.analysis import addresses
from pto_jax.grids import numbers
from pto_jax.ir import I1, I8, I16, I32, I64, INDEX, U8, U16, U32, U64, DType
from pto_jax.oracle import scalars
from tests.tables import every

OPERATIONS = sorted({*addresses._SIGNED, *addresses._UNSIGNED})
CASTS = {"index_cast": I64, "index_castui": I64, "trunci": I8, "extui": I64, "extsi": I64}


def assert_folded(operation: str, source: DType, pairs: Iterable[tuple[int, int]]) -> None:
    name, result = f"arith.{operation}", I1 if operation.startswith("cmpi") else CASTS.get(operation, source)
    for pair in pairs:
        args = pair[:1] if operation in CASTS else pair
        found, expected = (
            addresses.fold(name, args, source, result),
            scalars.compute(name, args, source, result),
        )
        assert (found, type(found)) == (expected, type(expected)), (name, args, source)


def test_every_integer_operation_of_the_interpreter_is_folded() -> None:
    comparisons = {
        f"cmpi.{p}" for p in ("eq", "ne", *(s + o for s in "su" for o in ("lt", "le", "gt", "ge")))
    }
    assert {*OPERATIONS} == {*scalars._INTEGER, *CASTS, *comparisons} == {*numbers._FORMULAS}


@pytest.mark.slow
@every("source", [I1, I8, U8], ids=str)
@every("operation", OPERATIONS)
def test_small_integers_are_folded_exhaustively(operation: str, source: DType) -> None:
    """All values against all edges and shift counts, and every value against itself."""
    values = (False, True) if source == I1 else range(source.min_int, source.max_int + 1)
    others = [n for n in values if abs(n) < 4 or n in (8, 9, -9) or n in (source.min_int, source.max_int)]
    if operation in CASTS:
        others = others[:1]
    assert_folded(operation, source, [*itertools.product(values, others), *zip(values, values, strict=True)])


@pytest.mark.variants(0)
@pytest.mark.parametrize("source", [I8, U8], ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_pairs_of_bytes_are_folded(operation: str, source: DType) -> None:
    values = range(source.min_int, source.max_int + 1)
    assert_folded(operation, source, itertools.product(values, values))


@pytest.mark.variants(1)
@pytest.mark.parametrize("source", [I16, U16, I32, U32, I64, U64, INDEX], ids=str)
def test_wide_integers_are_folded_at_their_edges_and_at_random(source: DType) -> None:
    rng = np.random.default_rng(source.bits)
    edges = [
        scalars.wrap(n, source) for b in (0, 1, 8, 31, 32, 63) for n in ((1 << b) - 1, 1 << b, -(1 << b))
    ]
    randoms = [scalars.wrap(int(n), source) for n in rng.integers(-(1 << 63), (1 << 63) - 1, 40)]
    pairs = [
        *itertools.product(edges, edges),
        *itertools.product(randoms, edges[:6]),
        *itertools.pairwise(randoms),
    ]
    for operation in OPERATIONS:
        assert_folded(operation, source, pairs)
