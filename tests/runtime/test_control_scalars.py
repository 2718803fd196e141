"""Scalars of memory, callees and modes under control flow."""

from __future__ import annotations

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
