"""Stores that add, through windows whose lanes may share elements."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto

Source = Callable[..., Any]
Agree = Callable[..., dict[str, Any]]
RNG = np.random.default_rng(5)
ARGS = "%x: !pto.ptr<{d}>, %z: !pto.ptr<{d}>, %r: index, %c: index, %s: index, %t: index"


def adding(source: Source, d: str, strides: tuple[Any, Any]) -> pto.Program:
    """Adds the valid part of a 4x16 tile to a window of z."""
    s = source(ARGS.format(d=d), arch="a3")
    s.view("%a", "%x", (4, 16), (16, 1)).view("%b", "%z", (4, 16), strides)
    s.tile("%v", d, 4, 16, valid=("%r", "%c")).load("%a", "%v")
    add = "{atomicType = #pto<atomic_type atomic_add>}"
    s.do(f"pto.tstore ins(%v : {s.types['%v']}) outs(%b : {s.types['%b']}) {add}")
    program: pto.Program = s.program
    return program


@pytest.mark.variants(2)
@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize("strides", [(16, 1), (5, 1), (5, 3), ("%s", "%t")])
def test_lanes_that_share_an_element_add_in_row_major_order(
    source: Source, agree: Agree, strides: tuple[Any, Any]
) -> None:
    x = (RNG.standard_normal(64) * 10.0 ** RNG.integers(-4, 5, 64)).astype(np.float32)
    z = RNG.standard_normal(80).astype(np.float32)
    steps = (3, 2) if isinstance(strides[0], str) else strides
    out = agree(adding(source, "f32", strides), x, z, 3, 13, *steps, eager=strides == (5, 1))["z"]
    expected = z.copy()
    for r, c in np.ndindex(3, 13):
        expected[r * steps[0] + c * steps[1]] += x[16 * r + c]
    np.testing.assert_array_equal(out.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("d", ["f16", "i16"])
def test_sums_are_in_the_element_type_of_the_window_also_in_a_batch(source: Source, d: str) -> None:
    kernel = pto.compile(adding(source, d, (7, 1)))
    kind = pto.dtype(d).numpy
    x, z = (RNG.integers(-(2**14), 2**14, (3, n)).astype(kind) for n in (64, 40))
    rows, cols = np.array([4, 2, 0], np.int32), np.array([16, 5, 9], np.int32)

    def run(*args: Any) -> Any:
        return kernel(*args, 7, 1)["z"]

    expected = z.copy()
    for b in range(3):
        for r, c in np.ndindex(rows[b], cols[b]):
            with np.errstate(over="ignore"):
                expected[b, 7 * r + c] += x[b, 16 * r + c]
    np.testing.assert_array_equal(np.asarray(jax.vmap(run)(x, z, rows, cols)), expected)
