"""Settings of JAX that execute functions otherwise change no bit of a kernel, an operation or a layer."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import nn
from pto_jax.lowering import rules
from pto_jax.runtime import kernel as kernels, op_functions

_VIEW = "!pto.tensor_view<?x?xf32>"
_PART = "!pto.partition_tensor_view<1x8xf32>"
_TILE = "!pto.tile_buf<vec, 1x8xf32>"
LOOP = pto.parse(f"""
func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %v = pto.make_tensor_view %x, shape = [%c8, %c8], strides = [%c8, %c1] : {_VIEW}
  %w = pto.make_tensor_view %y, shape = [%c8, %c8], strides = [%c8, %c1] : {_VIEW}
  %a = pto.alloc_tile : {_TILE}
  scf.for %i = %c0 to %n step %c1 {{
    %pv = pto.partition_view %v, offsets = [%i, %c0], sizes = [%c1, %c8] : {_VIEW} -> {_PART}
    %pw = pto.partition_view %w, offsets = [%i, %c0], sizes = [%c1, %c8] : {_VIEW} -> {_PART}
    pto.tload ins(%pv : {_PART}) outs(%a : {_TILE})
    pto.tdiv ins(%a, %a : {_TILE}, {_TILE}) outs(%a : {_TILE})
    pto.tadd ins(%a, %a : {_TILE}, {_TILE}) outs(%a : {_TILE})
    pto.tstore ins(%a : {_TILE}) outs(%pw : {_PART})
  }}
  return
}}""")
X, Y, N = jnp.linspace(1, 2, 64, dtype=jnp.float32), jnp.zeros(64, jnp.float32), jnp.int32(8)
A, W = X.reshape(8, 8), jnp.linspace(-1, 1, 32, dtype=jnp.float32).reshape(8, 4)


def kernel(**options: Any) -> pto.Kernel:
    found: pto.Kernel = pto.compile(LOOP, **options)
    return found


CALLS: dict[str, Callable[[], Any]] = {
    "kernel": lambda: kernel()(X, Y, N),
    "fast": lambda: kernel(numerics="fast")(X, Y, N),
    "checks": lambda: kernel(checks=True)(X, Y, N)[0],
    "eager": lambda: kernel().eager(X, Y, 8),
    "jit": lambda: jax.jit(kernel())(X, Y, N),
    "vmap": lambda: jax.vmap(kernel(), (None, None, 0))(X, Y, jnp.arange(3)),
    "map": lambda: kernel().map((np.asarray(X)[None], np.asarray(Y)[None], np.array([8]))),
    "op": lambda: pto.ops.tdiv(A, A).words,
    "op with a number": lambda: pto.ops.tmuls(A, 2.5).words,
    "op under vmap": lambda: jax.vmap(lambda a: pto.ops.tadd(a, a).words)(A[None]),
    "layer": lambda: nn.linear(A, W),
    "gradient": lambda: jax.grad(lambda w: nn.linear(A, w).sum())(W),
}


def both(*contexts: AbstractContextManager[Any]) -> ExitStack:
    stack = ExitStack()
    for context in contexts:
        stack.enter_context(context)
    return stack


SETTINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no jit": jax.disable_jit,
    "NaN looked for": lambda: jax.debug_nans(True),
    "NaN looked for without jit": lambda: both(jax.debug_nans(True), jax.disable_jit()),
    "infinities looked for": lambda: jax.debug_infs(True),
    "leaks looked for": jax.checking_leaks,
    "no rank promotion": lambda: jax.numpy_rank_promotion("raise"),
    "no type promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "precise products": lambda: jax.default_matmul_precision("highest"),
    "rough products": lambda: jax.default_matmul_precision("bfloat16"),
    "64 bits": lambda: jax.enable_x64(True),
    "compilation logged": lambda: jax.log_compiles(True),
    "no transfers": lambda: jax.transfer_guard_device_to_host("disallow"),
}


def words(tree: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


WANTED: dict[str, list[bytes]] = {}


def wanted(name: str) -> list[bytes]:
    if name not in WANTED:
        WANTED[name] = words(CALLS[name]())
    return WANTED[name]


def forget() -> None:
    """Trace and compile again."""
    jax.clear_caches()  # type: ignore[no-untyped-call]
    rules.jitted.cache_clear()
    kernels._kernel.cache_clear()
    kernels._jitted.cache_clear()
    op_functions._function_of.cache_clear()


@pytest.mark.variants(0)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_jax_changes_no_bit(setting: str, call: str) -> None:
    expected = wanted(call)
    forget()
    quiet = setting == "no transfers" and call in ("map", "eager")  # These hand numbers back.
    with nullcontext() if quiet else SETTINGS[setting]():
        found = CALLS[call]()
    assert words(found) == expected


def test_a_result_that_is_nan_is_one_error_where_nan_is_looked_for() -> None:
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        kernel()(jnp.zeros(64, jnp.float32), Y, N)


@pytest.mark.slow
def test_numbers_of_the_program_may_go_to_the_device_where_transfers_are_refused() -> None:
    expected = wanted("eager")
    forget()
    with jax.transfer_guard("disallow"):
        found = kernel().eager(X, Y, 8)
        kernel()(X, Y, N)
    assert words(found) == expected


def test_what_jax_batches_again_op_by_op_is_computed_as_a_whole() -> None:
    with jax.disable_jit():
        looped = jax.lax.fori_loop(0, 2, lambda _, a: pto.ops.tadd(a, a).array, A)
        scanned, _ = jax.lax.scan(lambda a, _: (pto.ops.tadd(a, a).array, None), A, None, length=2)
    assert (looped == 4 * A).all() and (scanned == 4 * A).all()
