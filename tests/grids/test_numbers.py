"""Arithmetic on the scalars of many blocks is that of the interpreter, lane by lane."""

import numpy as np
import pytest

from pto_jax.grids import numbers
from pto_jax.grids.numbers import NOWHERE, Lanes, address, compute, spread
from pto_jax.interpreter.abstract import Unknown
from pto_jax.ir import I1, I8, I32, I64, INDEX, U8, DType
from pto_jax.oracle import scalars

EDGES = np.array([0, 1, 2, 3, 7, -1, -2, -7, 63, 64, 127, -128, 1 << 31, -(1 << 31), (1 << 62) + 5])
CASTS = ("index_cast", "index_castui", "trunci", "extui", "extsi")


def operands(source: DType) -> tuple[np.ndarray, np.ndarray]:
    first, second = (n.reshape(-1) for n in np.meshgrid(EDGES, EDGES))
    wrapped = np.array([scalars.wrap(int(n), source) for n in EDGES], np.int64)
    table = dict(zip(EDGES.tolist(), wrapped, strict=True))
    return tuple(np.array([table[n] for n in side.tolist()]) for side in (first, second))  # type: ignore[return-value]


@pytest.mark.parametrize("source", [I8, U8, I32, I64, INDEX, I1], ids=str)
def test_lanes_compute_as_the_interpreter_does(source: DType) -> None:
    first, second = operands(source)
    for operation in sorted(numbers._FORMULAS):
        casts = operation in CASTS
        arguments = [first] if casts else [first, second]
        result = I1 if operation.startswith("cmpi") else I32 if casts else source
        name = f"arith.{operation}"
        found = compute(name, [Lanes(a) for a in arguments], source, result)
        expected = [int(scalars.compute(name, lane, source, result)) for lane in zip(*arguments, strict=True)]
        np.testing.assert_array_equal(np.broadcast_to(spread(found, 1), len(expected)), expected, operation)


def test_what_agrees_is_a_number_again_and_what_is_unknown_stays_so() -> None:
    lanes = Lanes(np.arange(4))
    assert compute("arith.muli", (lanes, 0), INDEX, INDEX) == 0
    assert compute("arith.cmpi.slt", (lanes, 9), INDEX, I1) is True
    chosen = compute("arith.select", (Lanes(np.array([1, 0, 1, 0])), lanes, 7), INDEX, INDEX)
    assert chosen.values.tolist() == [0, 7, 2, 7]
    for a in (Unknown(), 1.5):
        assert isinstance(compute("arith.addi", (lanes, a), INDEX, INDEX), Unknown)
    assert isinstance(compute("arith.addf", (1.5, 2.0), INDEX, INDEX), Unknown)


def test_lanes_of_a_loop_meet_those_around_it() -> None:
    blocks, trips = Lanes(np.arange(3)), Lanes(np.arange(2).reshape(1, 2))
    found = compute("arith.addi", (compute("arith.muli", (blocks, 10), INDEX, INDEX), trips), INDEX, INDEX)
    assert found.values.tolist() == [[0, 1], [10, 11], [20, 21]]


def test_addresses_do_not_wrap() -> None:
    found = address(5, Lanes(np.array([1, 1 << 58, -(1 << 58)])), 64)
    assert found.values.tolist() == [69, NOWHERE, NOWHERE]
    assert address(NOWHERE, Lanes(np.array([0, 1])), 1) == NOWHERE
