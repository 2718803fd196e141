"""Campaigns of the cube unit: kernels of everything that executes, equal bits, planted bugs."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Batched, Engine, Oracle
from pto_jax.generate.options import CUBE, CUBE_UNIT
from pto_jax.generate.programs import Case, cases, generate
from pto_jax.isa import cube as declared, cube_stores
from pto_jax.lowering import cube, quantise
from pto_jax.verifier.programs import verify_program
from tests.micro.cube_programs import Kernel


@cache
def programs(count: int) -> list[Case]:
    return list(cases(1, count, CUBE))


def compared(seed: int, index: int, machine: Any) -> Any:
    return compare_case(generate(seed, index, CUBE), Oracle(), machine)


def test_kernels_are_legal_and_their_text_says_the_same() -> None:
    for case in programs(60)[:12]:
        assert not [str(d) for d in verify_program(case.program, case.profile) if d.severity == "error"]
        assert pto.parse(str(case.program)) == case.program, case.index


def test_every_operation_of_the_cube_unit_is_generated() -> None:
    found = {op.name for case in programs(60) for op in case.program.walk()}
    moved = {"mte_gm_ub", "mte_ub_gm"}
    assert found & isa.micro_operations().keys() - moved == set(CUBE_UNIT)
    assert {o.name for o in (*declared.OPERATIONS, *cube_stores.OPERATIONS)} == set(CUBE_UNIT)


def test_kernels_have_the_order_that_they_need() -> None:
    for case in programs(60)[:20]:
        assert not pto.races(case.program, "a5"), case.index


@pytest.mark.variants(2)
@pytest.mark.parametrize("index", range(4))
def test_what_is_traced_gives_equal_bits(index: int) -> None:
    outcome = compared(7, index, Engine("jit", code="numpy"))
    assert outcome.kind == "equal", outcome.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "machine",
    [Engine("jit"), Batched(), pytest.param(Engine("eager"), marks=pytest.mark.nightly)],
    ids=lambda m: m.name,
)
def test_a_kernel_gives_equal_bits_on_every_executor(machine: Any) -> None:
    outcome = compared(8, 0, machine)
    assert outcome.kind == "equal", outcome.message


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("block", range(10))
def test_many_kernels_give_equal_bits_without_optimisations(block: int) -> None:
    for index in range(20 * block, 20 * (block + 1)):
        machine = Batched(code="o0") if index % 2 else Engine("jit", code="o0")
        outcome = compared(9, index, machine)
        assert outcome.kind == "equal", (index, machine.name, outcome.message)


@pytest.mark.parametrize("mode", ["round_even", "round_away"])
def test_a_factor_that_overflows_in_tf32_saturates(mode: str) -> None:
    kernel, sizes = Kernel({"a": "f32", "b": "f32", "c": "f32"}), (1, 1, 1)
    made = kernel.product(
        "mad", *kernel.factors("a", "b", sizes), sizes, end=f"disable_gemv sat tf32_mode({mode})"
    )
    kernel.store(made, kernel.gm("c"), (1, 1), "nz2nd")
    top, zero = np.full((1, 1), np.finfo(np.float32).max), np.zeros((1, 1), np.float32)
    arrays = {"a": top.reshape(-1), "b": zero.reshape(-1), "c": zero.reshape(-1)}
    assert kernel.run(**arrays)["c"].ravel() == 0
    assert np.asarray(pto.compile(kernel.program(), warn=False)(**arrays)["c"]) == 0


def _flipped(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: jnp.flip(rule(*arguments), axis=-1)


BUGS: dict[str, Callable[..., Any]] = {
    "_grouped": lambda rule: lambda total, width: rule(total, width).at[-1, -1].set(0),
    "_finite": lambda rule: lambda words, d: words,
    "field": lambda rule: lambda quant, bit, width: rule(quant, bit, width - 1),
    "_scales": _flipped,
    "_in_groups": lambda rule: lambda m, n, width: np.ones_like(rule(m, n, width)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = cube if hasattr(cube, name) else quantise
    monkeypatch.setattr(module, name, BUGS[name](getattr(module, name)))
    for cached in (cube._product, cube._conversion):
        cached.cache_clear()
    machine = Engine("jit", code="numpy")
    assert any(compared(10, index, machine).kind == "different" for index in range(60))
    for cached in (cube._product, cube._conversion):
        cached.cache_clear()
