"""What executes traces: NumPy operation by operation, and XLA with and without optimisations."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from pto_jax.cases.code import CODES, Code, executed
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Batched, Oracle
from pto_jax.devices.machines import machine
from pto_jax.errors import ArgumentError
from pto_jax.generate.options import MICRO, STRAIGHT
from pto_jax.generate.programs import Case, generate
from pto_jax.lowering.bits import x64
from pto_jax.lowering.platforms import by_platform
from pto_jax.profiles import A2A3
from pto_jax.text import parse


def doubled_until_large(x: Any) -> Any:
    """Numbers of a batch that need different numbers of trips, among them none."""
    return lax.while_loop(
        lambda c: c[0] < 100, lambda c: (c[0] * 2, c[1] + 1), (x, jnp.zeros((2,), jnp.int32))
    )


def either(x: Any) -> Any:
    return lax.cond(x > 5, lambda y: y + 1, lambda y: y * 3, x)


def running_sums(x: Any) -> Any:
    return lax.scan(lambda total, v: (total + v, total * v), x, jnp.arange(4, dtype=jnp.int32), reverse=True)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("function", (doubled_until_large, either, running_sums))
def test_control_flow_of_a_batch_gives_what_xla_gives(code: Code, function: Callable[[Any], Any]) -> None:
    numbers = np.array([3, 200, 50, 1], np.int32)
    expected = jax.tree.leaves(jax.jit(jax.vmap(function))(numbers))
    for one, other in zip(
        expected, jax.tree.leaves(executed(code, jax.vmap(function), numbers)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_batch_without_calls_executes_no_trip() -> None:
    none = np.zeros(0, np.int32)
    assert executed("numpy", jax.vmap(doubled_until_large), none)[0].shape == (0,)


def test_code_for_a_platform_is_traced_once() -> None:
    traces = []

    def doubled(x: Any) -> Any:
        traces.append(x)
        return 2 * x

    with x64():
        result = executed("numpy", jax.vmap(by_platform(doubled)), np.arange(3, dtype=np.int32))
    np.testing.assert_array_equal(result, [0, 2, 4])
    assert len(traces) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ("jit:numpy", "vmap:numpy", "vmap:cuda", "jit:o0"))
def test_executors_give_the_bits_of_the_interpreter(name: str) -> None:
    small = replace(MICRO, statements=2, turns=1)
    for case in (generate(3, 1, STRAIGHT), generate(41, 4, small)):
        outcome = compare_case(case, Oracle(), machine(name))
        assert outcome.kind == "equal", (name, case.index, outcome.message)


def test_names_say_the_code() -> None:
    assert [machine(n).name for n in ("jit", "jit:numpy:a5", "vmap:cuda")] == [
        "engine:jit",
        "engine:jit:a5:numpy",
        "engine:vmap:cuda",
    ]
    with pytest.raises(ArgumentError, match="executor: got o0 and numpy; allowed: one of o0, numpy, cuda"):
        machine("jit:numpy:o0")
    with pytest.raises(ArgumentError, match="o1 after jit; allowed: o0 numpy cuda cpu_sim a2a3 a5"):
        machine("jit:o1")


def test_a_case_without_inputs_is_executed_in_batches() -> None:
    tile = "!pto.tile_buf<vec, 1x8xi32>"
    program = parse(
        f"""func.func @k() attributes {{pto.entry}} {{
          %a = pto.alloc_tile : {tile}
          %c = arith.constant 1 : i32
          pto.texpands ins(%c : i32) outs(%a : {tile})
          return
        }}"""
    )
    case = Case("1", 1, 0, A2A3, program, {}, {})
    assert compare_case(case, Oracle(), Batched()).kind == "undefined"
