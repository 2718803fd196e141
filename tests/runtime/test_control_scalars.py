"""Scalars of memory, callees and modes under control flow."""

from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from tests.runtime.loops import RNG, T, V, W, add, data, kernel_text, load, run_all_ways, store

SCALARS = {
    "an element of a chosen tile": f"""
      %f = arith.cmpi slt, %n, %c3 : index
      {load("a", "%c4")}
      %t = scf.if %f -> ({T}) {{ scf.yield %a : {T} }} else {{ scf.yield %b : {T} }}
      pto.tsetval ins(%c3, %half : index, f32) outs(%t : {T})
      %v = pto.tgetval ins(%t, %m : {T}, index) outs : f32
      pto.tadds ins(%a, %v : {T}, f32) outs(%acc : {T})
      {add("acc", "b", "acc")}
      {store()}""",
    "an element behind a chosen pointer": f"""
      %f = arith.cmpi slt, %n, %c3 : index
      %p = scf.if %f -> (!pto.ptr<f32>) {{ scf.yield %x : !pto.ptr<f32> }}
        else {{ scf.yield %y : !pto.ptr<f32> }}
      %v = pto.load_scalar %p[%m] : !pto.ptr<f32> -> f32
      pto.tadds ins(%b, %v : {T}, f32) outs(%acc : {T})
      {store()}
      pto.store_scalar %v, %p[%c8] : !pto.ptr<f32>, f32""",
    "a sum in a scalar": f"""
      %s = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %half) -> (f32) {{
        %v = pto.load_scalar %x[%i] : !pto.ptr<f32> -> f32
        %more = arith.addf %sum, %v : f32
        scf.yield %more : f32
      }}
      pto.tadds ins(%b, %s : {T}, f32) outs(%acc : {T})
      {store()}""",
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", SCALARS)
def test_scalars_of_memory_under_control_flow(name: str) -> None:
    x, y = data()
    for n, m in ((0, 3), (3, 3), (4, 17)):
        run_all_ways(kernel_text(SCALARS[name]), x, y, n, m)


def test_a_helper_changes_its_own_handles_only() -> None:
    """A callee sees the storage of a tile; the valid shape it sets is that of its own handle."""
    dynamic = "!pto.tile_buf<vec, 4x8xf32, valid=?x?>"
    helper = f"""
    func.func @add_rows(%t: {dynamic}, %rows: index) -> index {{
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %half = arith.constant 0.5 : f32
      pto.set_validshape %t, %rows, %c8 : {dynamic}
      pto.tadds ins(%t, %half : {dynamic}, f32) outs(%t : {dynamic})
      %more = arith.addi %rows, %c1 : index
      return %more : index
    }}"""
    text = kernel_text(f"""
      %d = pto.alloc_tile valid_row = %c4 valid_col = %c8 : {dynamic}
      pto.texpands ins(%half : f32) outs(%d : {dynamic})
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%rows = %c0) -> (index) {{
        %next = func.call @add_rows(%d, %rows) : ({dynamic}, index) -> index
        pto.tadds ins(%d, %half : {dynamic}, f32) outs(%d : {dynamic})
        scf.yield %next : index
      }}
      pto.tstore ins(%d : {dynamic}) outs(%wy : {V})""")
    x, y = data()
    for n in (0, 1, 4):
        run_all_ways(f"module {{ {helper} {text} }}", x, y, n, 0)


F = "!pto.tile_buf<{loc}, 16x16xf32, blayout={b}, slayout={s}{more}>"
LEFT = F.format(loc="left", b="col_major", s="row_major", more="")
RIGHT = F.format(loc="right", b="row_major", s="col_major", more="")
ACC = F.format(loc="acc", b="col_major", s="row_major", more=", fractal=1024")
MAT = F.format(loc="mat", b="col_major", s="row_major", more="")
WINDOW = "!pto.partition_tensor_view<16x16xf32>"


def product(inside: str, after: str = "") -> str:
    return f"""module attributes {{pto.target_arch = "a3"}} {{
    func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) attributes {{pto.entry}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c16 = arith.constant 16 : index
      %vx = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : {W}
      %vy = pto.make_tensor_view %y, shape = [%c16, %c16], strides = [%c16, %c1] : {W}
      %wx = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c16] : {W} -> {WINDOW}
      %wy = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c16] : {W} -> {WINDOW}
      %m = pto.alloc_tile : {MAT}
      %l = pto.alloc_tile : {LEFT}
      %r = pto.alloc_tile : {RIGHT}
      %a = pto.alloc_tile : {ACC}
      pto.tload ins(%wx : {WINDOW}) outs(%m : {MAT})
      pto.tmov ins(%m : {MAT}) outs(%l : {LEFT})
      pto.tmov ins(%m : {MAT}) outs(%r : {RIGHT})
      pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%a : {ACC})
      scf.for %i = %c0 to %n step %c1 {{ {inside} }}
      {after}
      pto.tstore ins(%a : {ACC}) outs(%wy : {WINDOW})
      return
    }}
    }}"""


MULTIPLY = f"pto.tmatmul.acc ins(%a, %l, %r : {ACC}, {LEFT}, {RIGHT}) outs(%a : {ACC})"
ROUNDED = "pto.sethf32mode {enable = true, mode = CAST_RINT}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
def test_modes_set_in_a_loop_hold_in_it() -> None:
    x = RNG.normal(size=(16, 16)).astype(np.float32)
    run_all_ways(product(f"{ROUNDED}\n{MULTIPLY}"), x, np.zeros_like(x), 2)
    run_all_ways(product(MULTIPLY), x, np.zeros_like(x), 2)
    kernel = pto.compile(pto.parse(product(ROUNDED, MULTIPLY)))
    with pytest.raises(pto.NotExecutableError, match="a mode that was set under control flow"):
        kernel(x, np.zeros_like(x), 2)


@pytest.mark.instructions("trap")
def test_a_trap_ends_every_way_of_execution() -> None:
    text = kernel_text(f"%f = arith.cmpi eq, %n, %m : index\n scf.if %f {{ pto.trap }}\n {store('b')}")
    x, y = data()
    program = pto.parse(text)
    kernel = pto.compile(program)
    assert np.asarray(kernel(x, y, 1, 2)["y"]).tobytes() == y.tobytes()
    for run in (kernel, kernel.eager, lambda *a: oracle.run(program, a)):
        with pytest.raises(pto.ExecutionError, match="trap: "):
            run(x, y, 2, 2)


def test_scalars_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = kernel_text(f"""
      scf.for %i = %c0 to %n step %c1 {{ pto.print ins("i = %d", %i : index) }}
      pto.print ins("half %.2f", %half : f32)
      {store("b")}""")
    x, y = data()
    program = pto.parse(text)
    expected = "".join(f"i = {i}\n" for i in range(3)) + "half 0.50\n"
    for run in (pto.compile(program), pto.compile(program).eager, lambda *a: oracle.run(program, a)):
        run(x, y, 3, 0)
        jax.effects_barrier()  # type: ignore[no-untyped-call]
        assert sorted(capsys.readouterr().out.split("\n")) == sorted(expected.split("\n"))


@pytest.mark.slow
def test_a_batch_of_64_inputs_and_valid_sizes_has_the_bits_of_single_runs() -> None:
    """Rows and columns that are valid come as arguments; a loop moves the window; the kernel is text."""
    dynamic = "!pto.tile_buf<vec, 4x8xf32, valid=?x?>"
    text = kernel_text(f"""
      %t = pto.alloc_tile valid_row = %n valid_col = %m : {dynamic}
      %u = pto.alloc_tile valid_row = %n valid_col = %m : {dynamic}
      pto.texpands ins(%half : f32) outs(%u : {dynamic})
      scf.for %i = %c0 to %n step %c1 {{
        %r = arith.muli %i, %c4 : index
        %w = pto.partition_view %vx, offsets = [%r, %c0], sizes = [%n, %m]
          : {W} -> !pto.partition_tensor_view<?x?xf32>
        pto.tload ins(%w : !pto.partition_tensor_view<?x?xf32>) outs(%t : {dynamic})
        pto.tmul ins(%t, %u : {dynamic}, {dynamic}) outs(%t : {dynamic})
        pto.tadd ins(%u, %t : {dynamic}, {dynamic}) outs(%u : {dynamic})
      }}
      %wd = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%n, %m]
        : {W} -> !pto.partition_tensor_view<?x?xf32>
      pto.tstore ins(%u : {dynamic}) outs(%wd : !pto.partition_tensor_view<?x?xf32>)""")
    program = pto.parse(text)
    kernel = pto.compile(program)
    x, y = RNG.normal(size=(64, 32, 8)).astype(np.float32), RNG.normal(size=(64, 4, 8)).astype(np.float32)
    n, m = RNG.integers(0, 5, 64), RNG.integers(0, 9, 64)
    batch = np.asarray(jax.vmap(kernel)(x, y, n, m)["y"])
    for i in range(64):
        args = (x[i], y[i], int(n[i]), int(m[i]))
        assert batch[i].tobytes() == np.asarray(kernel(*args)["y"]).tobytes()
        assert batch[i].tobytes() == oracle.run(program, args)["y"].tobytes()


_CHOICES = """
func.func @f(%x: !pto.ptr<D>, %y: !pto.ptr<D>, %s: D, %n: index, %b: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %v = pto.load_scalar %x[%n] : !pto.ptr<D> -> D
  %k = arith.cmpi sgt, %n, %c1 : index
  %q = scf.if %k -> (D) { scf.yield %v : D } else { scf.yield %s : D }
  %w = arith.select %b, %q, %s : D
  %l = scf.for %i = %c0 to %n step %c1 iter_args(%a = %w) -> (D) {
    %e = pto.load_scalar %x[%i] : !pto.ptr<D> -> D
    %m = arith.cmpi sgt, %i, %c2 : index
    %g = arith.select %m, %e, %a : D
    scf.yield %g : D
  }
  pto.store_scalar %q, %y[%c0] : !pto.ptr<D>, D
  pto.store_scalar %w, %y[%c1] : !pto.ptr<D>, D
  pto.store_scalar %l, %y[%c2] : !pto.ptr<D>, D
  return
}"""


@pytest.mark.variants(1)
@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("d", ["bf16", "f16", "f32"])
def test_scalars_that_are_chosen_keep_the_bits_of_nan_and_subnormal_numbers(d: str, numerics: Any) -> None:
    program, dtype, size = pto.parse(_CHOICES.replace("D", d)), pto.dtype(d), 12
    rng = np.random.default_rng(0)
    exponent = dtype.canonical_nan & ~(1 << (dtype.mantissa - 1))
    x, y, s = (
        words ^ (words & dtype.word.type(exponent)) * (rng.random(words.shape) < 0.4).astype(dtype.word)
        | dtype.word.type(exponent) * (rng.random(words.shape) < 0.4).astype(dtype.word)
        for words in (
            rng.integers(0, 1 << dtype.bits, shape, dtype.word) for shape in ((size, 8), (size, 3), (size,))
        )
    )
    calls = [
        {"x": x[i], "y": y[i], "s": s[i].view(dtype.numpy), "n": i % 7, "b": i % 2 == 0} for i in range(size)
    ]
    expected = [oracle.run(program, call, profile="a5")["y"].view(dtype.word) for call in calls]
    kernel = pto.compile(program, "a5", numerics=numerics, checks=False, warn=False)
    batch = jax.tree.map(lambda *values: np.stack(values), *calls)
    results = {
        "vmap": jax.vmap(lambda call: kernel(**call))(batch)["y"],
        "call": np.stack([kernel(**call)["y"] for call in calls[:4]]),
        "eager": np.stack([kernel.eager(**call)["y"] for call in calls[:4]]),
    }
    for way, words in results.items():
        found = np.asarray(words).view(dtype.word)
        np.testing.assert_array_equal(found, np.stack(expected)[: len(found)], err_msg=way)
