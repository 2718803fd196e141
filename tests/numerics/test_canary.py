"""Exact means exact: what compiled code has lost is seen by executing it, whatever made it so."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax.lowering import canary

FAST = {"xla_cpu_enable_fast_math": True}
ADD = "%d = tadd %a, %b : !pto.tile<4x8xf32>"
X = np.ones((4, 8), np.float32)


#: Fusions as users' programs have them, where the flags of the tests have others.
FUSIONS = {"xla_cpu_use_fusion_emitters": True} if "fusion_emitters" in os.environ["XLA_FLAGS"] else {}


@pytest.fixture
def anew() -> Iterator[None]:
    """Nothing is known of this process before the test, nor after it."""
    canary._failures.cache_clear()
    jax.clear_caches()  # type: ignore[no-untyped-call]
    yield
    canary._failures.cache_clear()


def compiled_with(**options: bool) -> Any:
    """The canary's compiler with options of XLA, which stand for flags: those are read once per process."""
    return mock.patch.object(
        canary, "jax", mock.Mock(wraps=jax, jit=partial(jax.jit, compiler_options=FUSIONS | options))
    )


@pytest.mark.slow
def test_everything_holds_here(anew: None) -> None:
    assert canary.failures("cpu") == ()


@pytest.mark.parametrize(
    ("without", "lost"),
    [
        ("", set()),
        ("nans", {"tests for NaN are left out"}),
        ("infs", {"tests for infinities are left out"}),
        ("division", set()),
        ("functions", set()),
    ],
)
def test_each_kind_of_fast_math_is_seen(anew: None, without: str, lost: set[str]) -> None:
    options = FAST | ({f"xla_cpu_fast_math_honor_{without}": False} if without else {})
    with compiled_with(**options):
        found = canary.failures("cpu")
    assert {"sums are reordered", "signs of zeros are ignored"} | lost == set(found)


@pytest.mark.variants(4)
@pytest.mark.parametrize("check", canary.CHECKS, ids=lambda c: c.name)
def test_a_wrong_word_fails_its_check(
    anew: None, check: canary.Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = mock.Mock(wraps=check, function=lambda *args: -check.function(*args) + 1, **vars_of(check))
    monkeypatch.setattr(canary, "CHECKS", tuple(wrong if c is check else c for c in canary.CHECKS))
    assert canary.failures("cpu") == (check.lost,)


def vars_of(check: canary.Check) -> dict[str, Any]:
    kept = ("arguments", "words", "lost", "platforms")
    return {name: getattr(check, name) for name in kept}


CALLS: dict[str, Callable[[], Any]] = {
    "a kernel": lambda: pto.compile(pto.parse(ADD))(X, X),
    "eager": lambda: pto.compile(pto.parse(ADD)).eager(X, X),
    "jit": lambda: jax.jit(pto.compile(pto.parse(ADD)))(X, X),
    "vmap": lambda: jax.vmap(pto.compile(pto.parse(ADD)))(X[None], X[None]),
    "map": lambda: pto.compile(pto.parse(ADD)).map((X[None], X[None])),
    "an operation": lambda: pto.ops.tadd(X, X),
    "a scalar": lambda: pto.compile(
        pto.parse(
            """func.func @f(%y: !pto.ptr<f32>, %v: f32) {
              %c0 = arith.constant 0 : index
              %w = arith.addf %v, %v : f32
              pto.store_scalar %w, %y[%c0] : !pto.ptr<f32>, f32
              return
            }"""
        )
    )(np.zeros(1, np.float32), np.float32(1)),
    "export": lambda: pto.compile(pto.parse(ADD)).export(),
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_exact_numerics_are_refused_where_they_cannot_hold(anew: None, call: Callable[[], Any]) -> None:
    pto_jax_caches_cleared()
    with (
        mock.patch.object(canary, "_failures", lambda *_: ("sums are reordered",)),
        pytest.raises(pto.ExactnessError, match="on cpu: sums are reordered; try: start Python"),
    ):
        call()
    jax.clear_caches()  # type: ignore[no-untyped-call]
    call()


def pto_jax_caches_cleared() -> None:
    """Compiled functions of earlier calls are none of this test's."""
    from pto_jax.lowering import rules
    from pto_jax.runtime import kernel, op_functions

    rules.jitted.cache_clear()
    kernel._kernel.cache_clear()
    kernel._jitted.cache_clear()
    op_functions._function_of.cache_clear()


def test_fast_numerics_and_integers_ask_for_nothing(anew: None) -> None:
    pto_jax_caches_cleared()
    whole = "%d = tadd %a, %b : !pto.tile<4x8xi32>"
    with mock.patch.object(canary, "_failures", lambda *_: ("sums are reordered",)):
        pto.compile(pto.parse(ADD), numerics="fast")(X, X)
        pto.compile(pto.parse(whole))(X.astype(np.int32), X.astype(np.int32))


def test_it_is_computed_once_by_many_threads_and_inside_transformations(anew: None) -> None:
    with mock.patch.object(canary, "_computed", wraps=canary._computed) as computed:
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(canary.failures, ["cpu"] * 32)) == {()}
        assert computed.call_count == 1
        canary._failures.cache_clear()

        def asked(x: Any) -> Any:
            assert canary.failures("cpu") == ()
            return x + 1

        jax.jit(jax.vmap(asked))(jnp.ones(3))
        with jax.disable_jit(), jax.debug_nans(True), jax.transfer_guard("disallow"):
            canary._failures.cache_clear()
            assert canary.failures("cpu") == ()
        assert computed.call_count == 3


def test_a_platform_that_is_not_here_is_not_judged(anew: None) -> None:
    assert canary.failures("rocm") == ()


SPELLINGS = {
    "a flag": "--xla_cpu_enable_fast_math=true",
    "a flag without a value": "--xla_cpu_enable_fast_math",
    "a quoted value": '--xla_cpu_enable_fast_math="true"',
    "a file": "FILE",
    "with NaN ignored": "--xla_cpu_enable_fast_math=true --xla_cpu_fast_math_honor_nans=false",
}


@pytest.mark.parametrize(
    "flags", [pytest.param(v, id=k, marks=[pytest.mark.slow] * (k != "a file")) for k, v in SPELLINGS.items()]
)
def test_flags_are_seen_whatever_names_them(flags: str, tmp_path: Path) -> None:
    file = tmp_path / "flags.txt"
    file.write_text(SPELLINGS["a flag"])
    code = "import numpy as np, pto_jax as pto; x = np.ones((4, 8), np.float32)\n"
    code += f"pto.compile(pto.parse({ADD!r}))(x, x)"
    environment = {**os.environ, "XLA_FLAGS": flags.replace("FILE", str(file)), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert 'ExactnessError: numerics="exact" cannot keep its bits on cpu: sums are reordered' in done.stderr


def test_flags_in_a_file_that_changed_are_not_those_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "flags.txt"
    monkeypatch.setenv("XLA_FLAGS", str(file))
    seen = set()
    for text in ("", "--xla_cpu_enable_fast_math=false", "--xla_cpu_enable_fast_math=true"):
        file.write_text(text)
        seen.add(int(canary._flags()))
    assert len(seen) == 3


def test_code_for_gpus_does_not_rest_on_what_only_the_cpu_keeps() -> None:
    assert {c.name for c in canary.checks("cpu")} - {c.name for c in canary.checks("cuda")} == {
        "rounding to float32",
        "NaN in sums",
    }


def test_it_names_updates_that_read_what_they_have_overwritten(monkeypatch: Any) -> None:
    (update,) = (c for c in canary.CHECKS if c.name == "updates")
    assert canary.failures("cpu") == ()
    unguarded = replace(update, function=lambda words: canary._updated(words, independent=True))
    monkeypatch.setattr(canary, "CHECKS", (unguarded,))
    canary._failures.cache_clear()
    lost = canary.failures("cpu")
    canary._failures.cache_clear()
    # Where this XLA is right, so is the update that nothing guards.
    assert bool(lost) is canary.overwrites("cpu")
    assert all(canary.UPDATE_BUG in text for text in lost)
