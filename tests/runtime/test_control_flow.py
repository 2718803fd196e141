"""Loops, branches and calls: every way of executing them gives the reference interpreter's bits."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import pto_jax as pto
from pto_jax import oracle
from tests.runtime.loops import RNG, T, V, W, add, data, kernel_text, load, run_all_ways, store

ROW = "%r = arith.muli %i, %c4 : index"
CASES = {
    "accumulates": f"""
      scf.for %i = %c0 to %n step %c1 {{
        {ROW}
        {load("a", "%r")}
        {add("acc", "a", "acc")}
      }}
      {store()}""",
    "steps": f"""
      scf.for %i = %m to %n step %c2 {{
        {ROW}
        {load("a", "%r")}
        {add("acc", "a", "acc")}
      }}
      {store()}""",
    "nested": f"""
      scf.for %j = %c0 to %m step %c1 {{
        scf.for %i = %c0 to %n step %c1 {{
          {ROW}
          {load("a", "%r")}
          %f = arith.cmpi slt, %i, %j : index
          scf.if %f {{
            {add("acc", "a", "acc")}
          }} else {{
            pto.tsub ins(%acc, %a : {T}, {T}) outs(%acc : {T})
          }}
        }}
      }}
      {store()}""",
    "carries scalars": f"""
      %s:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %c1, %q = %half) -> (index, f32) {{
        %p2 = arith.addi %p, %i : index
        %q2 = arith.addf %q, %half : f32
        scf.yield %p2, %q2 : index, f32
      }}
      %s0 = arith.remsi %s#0, %c4 : index
      {load("a", "%s0")}
      pto.tmuls ins(%a, %s#1 : {T}, f32) outs(%acc : {T})
      {store()}""",
    "swaps two tiles": f"""
      {load("a", "%c0")}
      %s:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %a, %q = %b) -> ({T}, {T}) {{
        pto.tadds ins(%p, %half : {T}, f32) outs(%q : {T})
        {add("q", "acc", "acc")}
        scf.yield %q, %p : {T}, {T}
      }}
      pto.tadd ins(%s#0, %acc : {T}, {T}) outs(%acc : {T})
      {store()}""",
    "carries a new tile": f"""
      {load("a", "%c0")}
      %s = scf.for %i = %c0 to %n step %c1 iter_args(%p = %acc) -> ({T}) {{
        %sum = pto.tadd %p, %a : {T}, {T} -> {T}
        %more = pto.tadd %sum, %b : {T}, {T} -> {T}
        scf.yield %more : {T}
      }}
      {store("s")}""",
    "a branch chooses a tile": f"""
      {load("a", "%c4")}
      %f = arith.cmpi slt, %n, %c3 : index
      %t = scf.if %f -> ({T}) {{ scf.yield %a : {T} }} else {{ scf.yield %b : {T} }}
      pto.tadds ins(%t, %half : {T}, f32) outs(%t : {T})
      {add("a", "b", "acc")}
      {store()}""",
    "a branch makes a tile": f"""
      {load("a", "%c4")}
      %f = arith.cmpi slt, %n, %c3 : index
      %t = scf.if %f -> ({T}) {{
        %u = pto.tadd %a, %b : {T}, {T} -> {T}
        scf.yield %u : {T}
      }} else {{ scf.yield %b : {T} }}
      pto.tadds ins(%t, %half : {T}, f32) outs(%acc : {T})
      {add("acc", "b", "acc")}
      {store()}""",
    "a branch chooses a view": f"""
      %f = arith.cmpi slt, %n, %c3 : index
      %t = scf.if %f -> ({W}) {{ scf.yield %vx : {W} }} else {{ scf.yield %vy : {W} }}
      %w = pto.partition_view %t, offsets = [%c0, %c0], sizes = [%c4, %c8] : {W} -> {V}
      pto.tload ins(%w : {V}) outs(%a : {T})
      pto.tadds ins(%a, %half : {T}, f32) outs(%a : {T})
      pto.tstore ins(%a : {T}) outs(%w : {V})""",
    "an if without else": f"""
      %f = arith.cmpi eq, %n, %m : index
      scf.if %f {{ {load("acc", "%c4")} }}
      {store()}""",
    "while": f"""
      %s:2 = scf.while (%i = %c0, %p = %c1) : (index, index) -> (index, index) {{
        %f = arith.cmpi slt, %p, %n : index
        scf.condition(%f) %i, %p : index, index
      }} do {{
        ^bb0(%i: index, %p: index):
        %i2 = arith.addi %i, %c1 : index
        %p2 = arith.addi %p, %i2 : index
        {load("a", "%i2")}
        {add("acc", "a", "acc")}
        scf.yield %i2, %p2 : index, index
      }}
      {load("a", "%s#0")}
      {add("acc", "a", "acc")}
      {store()}""",
    "switch": f"""
      %s = scf.index_switch %n -> index
      case 1 {{ scf.yield %c8 : index }}
      case 3 {{
        {add("b", "b", "acc")}
        scf.yield %c4 : index
      }}
      default {{ scf.yield %c0 : index }}
      {load("a", "%s")}
      {add("acc", "a", "acc")}
      {store()}""",
    "region": f"""
      %s = scf.execute_region -> index {{
        {load("acc", "%c4")}
        scf.yield %c8 : index
      }}
      {load("a", "%s")}
      {add("acc", "a", "acc")}
      {store()}""",
    "valid shape set in a loop": f"""
      %d = pto.alloc_tile valid_row = %c4 valid_col = %c8 : !pto.tile_buf<vec, 4x8xf32, valid=?x?>
      pto.texpands ins(%half : f32) outs(%d : !pto.tile_buf<vec, 4x8xf32, valid=?x?>)
      scf.for %i = %c0 to %n step %c1 {{
        %left = arith.subi %c4, %i : index
        pto.set_validshape %d, %left, %c8 : !pto.tile_buf<vec, 4x8xf32, valid=?x?>
        pto.tadds ins(%d, %half : !pto.tile_buf<vec, 4x8xf32, valid=?x?>, f32)
          outs(%d : !pto.tile_buf<vec, 4x8xf32, valid=?x?>)
      }}
      pto.tadds ins(%d, %half : !pto.tile_buf<vec, 4x8xf32, valid=?x?>, f32)
          outs(%d : !pto.tile_buf<vec, 4x8xf32, valid=?x?>)
      pto.set_validshape %d, %c4, %c8 : !pto.tile_buf<vec, 4x8xf32, valid=?x?>
      pto.tstore ins(%d : !pto.tile_buf<vec, 4x8xf32, valid=?x?>) outs(%wy : {V})""",
    "an allocation keeps its contents": f"""
      scf.for %i = %c0 to %n step %c1 {{
        %own = pto.alloc_tile : {T}
        %first = arith.cmpi eq, %i, %c0 : index
        scf.if %first {{ pto.texpands ins(%half : f32) outs(%own : {T}) }}
        {add("own", "b", "own")}
        {add("own", "acc", "acc")}
      }}
      {store()}""",
    "addresses move": f"""
      %far = arith.constant 256 : i64
      %near = arith.constant 64 : i64
      %h = pto.alloc_tile addr = %near : {T}
      pto.texpands ins(%half : f32) outs(%h : {T})
      scf.for %i = %c0 to %n step %c1 {{
        %odd = arith.andi %i, %c1 : index
        %f = arith.cmpi eq, %odd, %c0 : index
        %at = arith.select %f, %far, %near : i64
        %t = pto.tassign %h, %at : {T} -> {T}
        {ROW}
        {load("a", "%r")}
        {add("a", "a", "t")}
        {add("acc", "h", "acc")}
      }}
      {store()}""",
}  # fmt: skip


@pytest.mark.variants(0)
@pytest.mark.parametrize("name", CASES)
def test_every_way_of_execution_agrees(name: str) -> None:
    x, y = data()
    text = kernel_text(CASES[name])
    for n, m in ((0, 1), (1, 0), (3, 2), (4, 4)):
        run_all_ways(text, x, y, n, m)
    program = pto.parse(text)
    counts = np.array([2, 0, 4, 1]), np.array([2, 3, 0, 1])
    batched = jax.vmap(pto.compile(program), in_axes=(None, None, 0, 0))(x, y, *counts)
    for i, (n, m) in enumerate(zip(*counts, strict=True)):
        for key, array in oracle.run(program, (x, y, int(n), int(m))).items():
            assert np.asarray(batched[key][i]).tobytes() == array.tobytes(), (key, n, m)


def test_under_shard_map() -> None:
    text = kernel_text(CASES["nested"])
    program = pto.parse(text)
    kernel = pto.compile(program)
    mesh = Mesh(np.array(jax.devices()[:2]), ("d",))
    xs, ys = RNG.normal(size=(4, 32, 8)).astype(np.float32), RNG.normal(size=(4, 4, 8)).astype(np.float32)
    n, m = np.array([3, 0, 2, 4]), np.array([1, 2, 3, 2])
    split = PartitionSpec("d")  # type: ignore[no-untyped-call]
    run = jax.jit(
        jax.shard_map(jax.vmap(lambda *a: kernel(*a)["y"]), mesh=mesh, in_specs=split, out_specs=split)
    )
    found = np.asarray(run(xs, ys, n, m))
    for i in range(4):
        expected = oracle.run(program, (xs[i], ys[i], int(n[i]), int(m[i])))["y"]
        assert found[i].tobytes() == expected.tobytes()


def test_rules_broken_inside_a_loop_are_reported_once_with_their_place() -> None:
    text = kernel_text(f"""
      scf.for %i = %c0 to %n step %c1 {{
        %f = arith.cmpi eq, %i, %c3 : index
        scf.if %f {{
          %d = pto.alloc_tile valid_row = %m valid_col = %c8 : !pto.tile_buf<vec, 4x8xf32, valid=?x?>
        }}
      }}
      {store("b")}""")
    x, y = data()
    kernel = pto.compile(pto.parse(text), checks=True)
    for n, m, broken in ((3, 9, False), (4, 9, True), (4, 4, False)):
        problems = kernel(x, y, n, m)[1].problems()
        assert [(p.instruction, p.rule) for p in problems] == [("alloc_tile", "region")] * broken
    with pytest.raises(pto.ExecutionError, match="valid region"):
        kernel.eager(x, y, 4, 9)


ENDLESS = kernel_text(f"""
      %s = scf.while (%i = %c0) : (index) -> (index) {{
        %f = arith.cmpi ne, %i, %n : index
        scf.condition(%f) %i : index
      }} do {{
        ^bb0(%i: index):
        %i2 = arith.addi %i, %c1 : index
        scf.yield %i2 : index
      }}
      {store("b")}""")


def test_endless_loops_are_stopped() -> None:
    x, y = data()
    program = pto.parse(ENDLESS)
    kernel = pto.compile(program, max_steps=50)
    assert np.asarray(kernel(x, y, 50, 0)["y"]).tobytes() == y.tobytes()
    for run in (kernel, kernel.eager, lambda *a: oracle.run(program, a, max_steps=50)):
        with pytest.raises(pto.ExecutionError, match=r"scf\.while: .*at most") as caught:
            run(x, y, 51, 0)
        assert caught.value.diagnostics[0].span is not None
    with pytest.raises(pto.ArgumentError, match="max_steps: got 0"):
        pto.compile(program, max_steps=0)


def test_a_loop_needs_a_positive_step() -> None:
    text = kernel_text(f"scf.for %i = %c0 to %n step %m {{ {add('b', 'b', 'b')} }}\n{store('b')}")
    x, y = data()
    program = pto.parse(text)
    ways: tuple[Any, ...] = (pto.compile(program).eager, lambda *a: oracle.run(program, a))
    for run in ways:
        with pytest.raises(pto.ExecutionError, match="positive step"):
            run(x, y, 3, 0)
    outputs, report = pto.compile(program, checks=True)(x, y, 3, 0)
    assert [p.rule for p in report.problems()] == ["step"]
    assert np.asarray(outputs["y"]).tobytes() == y.tobytes()


def test_a_carried_tile_is_not_also_written_in_place() -> None:
    text = kernel_text(f"""
      %s = scf.for %i = %c0 to %n step %c1 iter_args(%p = %acc) -> ({T}) {{
        {add("b", "b", "p")}
        %sum = pto.tadd %p, %b : {T}, {T} -> {T}
        scf.yield %sum : {T}
      }}
      {store("s")}""")
    x, y = data()
    with pytest.raises(pto.NotExecutableError, match="allowed: one of the two"):
        pto.compile(pto.parse(text))(x, y, 20, 0)


def test_loops_are_traced_once_whatever_their_length() -> None:
    """A loop of known length is a loop of the traced program, unless it is very short."""
    x, y = data()
    traces = []
    for trips in (1000, 2000):
        text = kernel_text(CASES["accumulates"].replace("%n", "%trips")).replace(
            "%c32 =", f"%trips = arith.constant {trips} : index\n%c32 ="
        )
        kernel = pto.compile(pto.parse(text))
        traces.append(str(jax.make_jaxpr(lambda *a, kernel=kernel: kernel(*a))(x, y, 0, 0)))
    assert "2000:i64[]" in traces[1] and len(traces[0]) == len(traces[1])


#: Where a merge of lists stands: its counts are a vector, which these operations hand on.
FLOWS = {
    "if": "scf.if %taken {{\n{merge}\n}}",
    "switch": "scf.index_switch %n\ncase 1 {{\n{merge}\nscf.yield\n}}\ndefault {{\nscf.yield\n}}",
    "for": "scf.for %i = %zero to %n step %one {{\n{merge}\n}}",
}


@pytest.mark.variants(1)
@pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")
@pytest.mark.parametrize("name", FLOWS)
def test_counts_of_a_merge_leave_branches_and_loops(name: str) -> None:
    source, made = "!pto.tile_buf<vec, 1x8xf32>", "!pto.tile_buf<vec, 1x16xf32>"
    merge = (
        f"pto.tmrgsort ins(%a, %b, %t : {source}, {source}, {made}) outs(%d, %counts : {made}, vector<4xi16>)"
    )
    kernel = pto.compile(pto.parse(FLOWS[name].format(merge=merge)), profile="a5")
    records = np.array([[9, 0, 7, 0, 5, 0, 3, 0]], np.float32)
    arguments = {"a": records, "b": records - 1, "d": np.zeros((1, 16), np.float32)}
    arguments |= {"counts": np.full(4, 7, np.int16), "t": arguments["d"]}
    numbers: dict[str, Any] = {"taken": True, "n": 1, "zero": 0, "one": 1}
    for taken in (True, False):
        numbers |= {"taken": taken, "n": int(taken)}
        given = {a.name: {**arguments, **numbers}[a.name] for a in kernel.arguments}
        batch: Any = jax.vmap(lambda a, given=given: kernel(**{**given, "a": a})["counts"])
        expected = [4, 4, 0, 0] if taken else [7, 7, 7, 7]
        for counts in (kernel(**given)["counts"], kernel.eager(**given)["counts"], *batch(records[None])):
            assert counts.dtype == np.int16 and counts.tolist() == expected
