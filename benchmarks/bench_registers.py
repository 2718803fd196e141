"""Benchmark of loops of vector registers: the time of a sum of 64 KiB over that of a tile instruction."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.bench_run import Run, least
from pto_jax import text
from pto_jax.ir import Program
from pto_jax.lowering.numerics import Numerics
from pto_jax.runtime.kernel import compile

#: Elements of a buffer, 64 KiB of them, as rows and columns of a tile; buffers of a batch.
SIDE, BATCH = 128, 256
ELEMENTS = SIDE * SIDE
_G = "!pto.ptr<f32, gm>"
_HEAD = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @sum(%x: {_G}, %y: {_G}, %z: {_G}) attributes {{pto.kernel}} {{
"""
_P, _V, _M = "!pto.ptr<f32, ub>", "!pto.vreg<64xf32>", "!pto.mask<b32>"
_SUM = f"""  %a = pto.vlds %x_ub[%i] : {_P} -> {_V}
  %b = pto.vlds %y_ub[%i] : {_P} -> {_V}
  %s = pto.vadd %a, %b, %m : {_V}, {_V}, {_M} -> {_V}
  pto.vsts %s, %z_ub[%i], %m : {_V}, {_P}, {_M}
"""
_ALL = f'%m = pto.pset_b32 "PAT_ALL" : {_M}\n'
#: Loops over the elements, by how they count.
LOOPS = {
    "an index": f"{_ALL}scf.for %i = %c0 to %elements step %c64 {{\n{_SUM}}}",
    "a mask of what is left": f"""%n0 = arith.constant {ELEMENTS} : i32
%left = scf.for %i = %c0 to %elements step %c64 iter_args(%n = %n0) -> (i32) {{
  %m, %rest = pto.plt_b32 %n : i32 -> {_M}, i32
{_SUM}  scf.yield %rest : i32
}}""",
    "rows and columns": f"""{_ALL}scf.for %r = %c0 to %side step %c1 {{
  %row = arith.muli %r, %side : index
  scf.for %c = %c0 to %side step %c64 {{
    %i = arith.addi %row, %c : index
{_SUM}  }}
}}""",
    "pointers that move": f"""{_ALL}%ends:3 = scf.for %i = %c0 to %elements step %c64
  iter_args(%p = %x_ub, %q = %y_ub, %r = %z_ub) -> ({_P}, {_P}, {_P}) {{
  %a, %p1 = pto.vlds %p[%c64] : {_P} -> {_V}, {_P}
  %b, %q1 = pto.vlds %q[%c64] : {_P} -> {_V}, {_P}
  %s = pto.vadd %a, %b, %m : {_V}, {_V}, {_M} -> {_V}
  %r1 = pto.vsts %s, %r[%c64], %m : {_V}, {_P}, {_M} -> {_P}
  scf.yield %p1, %q1, %r1 : {_P}, {_P}, {_P}
}}""",
}


def _constants(**numbers: int) -> str:
    return "".join(f"%{name} = arith.constant {n} : index\n" for name, n in numbers.items())


def looped(loop: str) -> Program:
    """A kernel that adds two buffers by a loop of registers."""
    lines = [_constants(c0=0, c1=1, c64=64, side=SIDE, elements=ELEMENTS)]
    lines += [
        f"%{name} = arith.constant {n} : i64" for name, n in (("no", 0), ("one", 1), ("size", 4 * ELEMENTS))
    ]
    for k, name in enumerate("xyz"):
        lines.append(f"%{name}_at = arith.constant {4 * k * ELEMENTS} : i64")
        lines.append(f"%{name}_ub = pto.castptr %{name}_at : i64 -> {_P}")
    lines += [
        f"pto.mte_gm_ub %{name}, %{name}_ub, %no, %size nburst(%one, %size, %size) : {_G}, {_P}, "
        "i64, i64, i64, i64, i64"
        for name in "xy"
    ]
    lines.append(f"pto.vecscope {{\n{loop}\n}}")
    lines.append(
        f"pto.mte_ub_gm %z_ub, %z, %size nburst(%one, %size, %size) : {_P}, {_G}, i64, i64, i64, i64"
    )
    return text.parse(_HEAD + "\n".join([*lines, "return", "}", "}"]), "<bench>")


def tiled() -> Program:
    """The same sum as one instruction on tiles."""
    view, tile = f"!pto.partition_tensor_view<{SIDE}x{SIDE}xf32>", f"!pto.tile_buf<vec, {SIDE}x{SIDE}xf32>"
    lines = [_constants(c0=0, c1=1, side=SIDE)]
    for name in "xyz":
        whole = "!pto.tensor_view<?x?xf32>"
        lines += [
            f"%v{name} = pto.make_tensor_view %{name}, shape = [%side, %side], strides = [%side, %c1]"
            f" : {whole}",
            f"%p{name} = pto.partition_view %v{name}, offsets = [%c0, %c0], sizes = [%side, %side]"
            f" : {whole} -> {view}",
            f"%t{name} = pto.alloc_tile : {tile}",
        ]
    lines += [f"pto.tload ins(%p{name} : {view}) outs(%t{name} : {tile})" for name in "xy"]
    lines.append(f"pto.tadd ins(%tx, %ty : {tile}, {tile}) outs(%tz : {tile})")
    lines.append(f"pto.tstore ins(%tz : {tile}) outs(%pz : {view})")
    return text.parse(_HEAD.replace(", gm>", ">") + "\n".join([*lines, "return", "}", "}"]), "<bench>")


def register_loops(run: Run) -> None:
    """A sum of 64 KiB by loops of vector registers, over the sum of tiles, in a batch of 256."""
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.standard_normal((BATCH, ELEMENTS), np.float32)) for _ in range(2))
    z = jnp.zeros_like(x)

    def call(program: Program, numerics: Numerics) -> Callable[[], Any]:
        kernel = jax.jit(jax.vmap(compile(program, numerics=numerics, warn=False)))
        return lambda: kernel(x, y, z)

    kinds: tuple[Numerics, ...] = ("exact", "fast")
    for numerics in kinds:
        tile, *loops = least(*(call(p, numerics) for p in (tiled(), *map(looped, LOOPS.values()))))
        for name, seconds in zip(LOOPS, loops, strict=True):
            run.add(f"registers by {name}, {numerics}", seconds / tile, "x a tile", "<= 3", "lower")
