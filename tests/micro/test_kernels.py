"""Kernels as a user writes them from the public pages, against NumPy: alone, compiled, in a batch."""

from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.oracle.interpret import run

pytestmark = pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
RNG = np.random.default_rng(5)
F, V32, U, M = "!pto.vreg<64xf32>", "!pto.vreg<64xi32>", "!pto.vreg<64xui32>", "!pto.mask<b32>"
P = "!pto.ptr<f32, ub>"


def flags(first: str, then: str) -> str:
    return "".join(f'pto.{way}_flag["PIPE_{first}", "PIPE_{then}", "EVENT_ID0"]\n' for way in ("set", "wait"))


def kernel(
    loads: dict[str, tuple[str, int]], stores: dict[str, tuple[str, int]], scope: str, more: str = ""
) -> str:
    """A kernel that loads buffers, element type and size each, runs a scope and stores others.

    A buffer ``x`` is at ``%x`` in the unified buffer.
    """
    both = {**loads, **stores}
    arguments = ", ".join(
        [*(f"%{n}_g: !pto.ptr<{t}, gm>" for n, (t, _) in both.items()), *filter(None, [more])]
    )
    lines = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 64, 128)]
    lines += ["%i0 = arith.constant 0 : i64", "%i1 = arith.constant 1 : i64"]
    for k, (n, (t, size)) in enumerate(both.items()):
        lines.append(f"%{n}_at = arith.constant {8192 * k} : i64\n%{n}_n = arith.constant {size} : i64")
        lines.append(f"%{n} = pto.castptr %{n}_at : i64 -> !pto.ptr<{t}, ub>")
    lines += [
        f"pto.mte_gm_ub %{n}_g, %{n}, %i0, %{n}_n nburst(%i1, %{n}_n, %{n}_n) : "
        f"!pto.ptr<{t}, gm>, !pto.ptr<{t}, ub>, i64, i64, i64, i64, i64"
        for n, (t, _) in loads.items()
    ]
    lines += [flags("MTE2", "V"), f"pto.vecscope {{\n{scope}\n}}", flags("V", "MTE3")]
    lines += [
        f"pto.mte_ub_gm %{n}, %{n}_g, %{n}_n nburst(%i1, %{n}_n, %{n}_n) : "
        f"!pto.ptr<{t}, ub>, !pto.ptr<{t}, gm>, i64, i64, i64, i64"
        for n, (t, _) in stores.items()
    ]
    head = 'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {\n'
    return f"{head}func.func @k({arguments}) attributes {{pto.kernel}} {{\n" + "\n".join(
        [*lines, "return\n}\n}\n"]
    )


def executed(text: str, arguments: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """What the interpreter gives, after the other executors gave the same and nothing was found wrong."""
    program = pto.parse(text)
    assert not [d for d in pto.verify(program, "a5") if d.severity == "error"]
    assert not pto.sanitize(program, arguments, profile="a5").diagnostics
    assert not pto.races(program, "a5")
    expected, compiled = run(program, arguments, profile="a5"), pto.compile(program, "a5")
    batch = jax.jit(jax.vmap(lambda given: compiled(**given)))
    stacked = batch({n: np.stack([a, a]) for n, a in arguments.items()})
    for results in (compiled(**arguments), {n: np.asarray(a)[1] for n, a in stacked.items()}):
        for name, found in results.items():
            assert np.asarray(found).tobytes() == np.asarray(expected[name]).tobytes(), name
    return {n: np.asarray(a) for n, a in expected.items()}


def test_rotary_embedding() -> None:
    """Pairs of neighbours are turned; pointers go on from row to row."""
    scope = f"""%all = pto.pset_b32 "PAT_ALL" : {M}
%cv = pto.vlds %c[%c0] : {P} -> {F}
%sv = pto.vlds %s[%c0] : {P} -> {F}
%rows = arith.constant 4 : index
%ends:2 = scf.for %r = %c0 to %rows step %c1 iter_args(%p = %x, %q = %y) -> ({P}, {P}) {{
  %a, %b = pto.vldsx2 %p[%c0], "DINTLV_B32" : {P}, index -> {F}, {F}
  %ac = pto.vmul %a, %cv, %all : {F}, {F}, {M} -> {F}
  %bs = pto.vmul %b, %sv, %all : {F}, {F}, {M} -> {F}
  %lo = pto.vsub %ac, %bs, %all : {F}, {F}, {M} -> {F}
  %as = pto.vmul %a, %sv, %all : {F}, {F}, {M} -> {F}
  %bc = pto.vmul %b, %cv, %all : {F}, {F}, {M} -> {F}
  %hi = pto.vadd %as, %bc, %all : {F}, {F}, {M} -> {F}
  pto.vstsx2 %lo, %hi, %q[%c0], "INTLV_B32", %all : {F}, {F}, {P}, index, {M}
  %p2 = pto.addptr %p, %c128 : {P} -> {P}
  %q2 = pto.addptr %q, %c128 : {P} -> {P}
  scf.yield %p2, %q2 : {P}, {P}
}}"""
    loads = {"x": ("f32", 2048), "c": ("f32", 256), "s": ("f32", 256)}
    x = RNG.standard_normal((4, 128)).astype(np.float32)
    c, s = RNG.standard_normal((2, 64)).astype(np.float32)
    given = {"x_g": x.reshape(-1), "c_g": c, "s_g": s, "y_g": np.zeros(512, np.float32)}
    found = executed(kernel(loads, {"y": ("f32", 2048)}, scope), given)["y_g"]
    a, b = x[:, 0::2], x[:, 1::2]
    np.testing.assert_array_equal(found.reshape(4, 64, 2), np.stack([a * c - b * s, a * s + b * c], -1))


@pytest.mark.slow
def test_prefix_sums_by_doubling_steps() -> None:
    """A register and the width of the step are carried by a loop inside another one."""
    scope = f"""%all = pto.pset_b32 "PAT_ALL" : {M}
%z = arith.constant 0 : i32
%one = arith.constant 1 : i32
%six = arith.constant 6 : index
%rows = arith.index_cast %n : i32 to index
%lane = pto.vci %z : i32 -> {V32}
%none = pto.vdup %z, %all : i32, {M} -> {V32}
scf.for %r = %c0 to %rows step %c1 {{
  %o = arith.muli %r, %c64 : index
  %v = pto.vlds %x[%o] : !pto.ptr<i32, ub> -> {V32}
  %sums, %last = scf.for %k = %c0 to %six step %c1 iter_args(%acc = %v, %d = %one) -> ({V32}, i32) {{
    %back = arith.subi %z, %d : i32
    %at = pto.vadds %lane, %back, %all : {V32}, i32, {M} -> {V32}
    %has = pto.vcmps %at, %z, %all, "ge" : {V32}, i32, {M} -> {M}
    %inside = pto.vmaxs %at, %z, %all : {V32}, i32, {M} -> {V32}
    %place = pto.vbitcast %inside : {V32} -> {U}
    %moved = pto.vselr %acc, %place : {V32}, {U} -> {V32}
    %added = pto.vsel %moved, %none, %has : {V32}, {V32}, {M} -> {V32}
    %next = pto.vadd %acc, %added, %all : {V32}, {V32}, {M} -> {V32}
    %twice = arith.addi %d, %d : i32
    scf.yield %next, %twice : {V32}, i32
  }}
  pto.vsts %sums, %y[%o], %all : {V32}, !pto.ptr<i32, ub>, {M}
}}"""
    x = RNG.integers(-1000, 1000, (5, 64)).astype(np.int32)
    text = kernel({"x": ("i32", 1280)}, {"y": ("i32", 1280)}, scope, "%n: i32")
    given = {"x_g": x.reshape(-1), "y_g": np.zeros(320, np.int32), "n": np.int32(5)}
    np.testing.assert_array_equal(executed(text, given)["y_g"].reshape(5, 64), np.cumsum(x, 1))
