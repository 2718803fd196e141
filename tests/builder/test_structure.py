"""Functions, regions, names and sections of built programs."""

import subprocess
import sys
from typing import Any

import numpy as np

import pto_jax as pto
from pto_jax import builder as b
from pto_jax.ir import KernelKind, OpaqueType

VEC = b.tile_type("f32", 16, 16)
ACC = b.tile_type("f32", 16, 16, loc="acc")


def lines(builder: pto.Builder) -> list[str]:
    """The operations of the text, read back and found equal."""
    assert pto.parse(str(builder)) == builder.program
    return [line.strip() for line in str(builder).splitlines()[2:-2]]


@b.kernel(types=[b.ptr("f32")], kind="cube", entry=False)
def cube(p: Any) -> None:
    buffer = b.import_reserved_buffer(name="fifo", peer_func=vector)
    b.aic_initialize_pipe(p, buffer, 0, dir_mask=1, slot_size=1024)
    acc = b.alloc_tile(ACC)
    pushed = b.tpush_to_aiv(acc, split=1)
    b.tsync(pushed)


@b.kernel(types=[b.ptr("f32")], kind="vector", entry=False)
def vector(p: Any) -> None:
    buffer = b.reserve_buffer(name="fifo", size=8192, location="vec", auto=True)
    b.aiv_initialize_pipe(p, buffer, 0, dir_mask=1, slot_size=1024)
    tile = b.tpop_from_aic(type=b.tile_type("f32", 8, 16), split=1)
    b.tneg(tile, tile)
    b.tfree_from_aic(split=1)


@b.kernel(types=[b.ptr("f32")])
def both(p: Any) -> None:
    cube(p)
    vector(p)


def test_kernels_of_both_cores_meet_in_a_pipe() -> None:
    assert [f.name for f in both.program.functions] == ["cube", "vector", "both"]
    kinds = [f.attrs.get("pto.kernel_kind") for f in both.program.functions]
    assert kinds == [KernelKind.CUBE, KernelKind.VECTOR, None]
    assert [f.name for f in both.program.entries] == ["both"]
    assert pto.parse(str(both)) == both.program
    assert [d for d in both.verify("a2a3") if d.severity == "error"] == []
    assert "pto.tsync ins(%acc" in str(both) and "peer_func = @vector" in str(both)


def test_a_kernel_called_twice_is_one_function() -> None:
    builder = pto.Builder()
    with builder.function("first", {"p": b.ptr("f32")}) as f:
        vector(*f.args)
        vector(*f.args)
    with builder.function("second", {"p": b.ptr("f32")}, entry=False) as f:
        vector(*f.args)
        b.call("third", f.args[0])
    assert [f.name for f in builder.program.functions] == ["vector", "first", "second"]


def test_sections_and_loops_of_integers() -> None:
    builder = pto.Builder(arch="a3")
    with builder.function("f", {"t": VEC, "n": "i32"}) as f:
        t, n = f.args
        with b.section("vector"):
            for i in b.range(n):
                b.tadds(t, t, b.cast(i, "f32"))
        with b.section(KernelKind.CUBE):
            b.barrier("M")
    text = lines(builder)
    assert "scf.for %i = %c0_i32 to %n step %c1_i32 : i32 {" in text
    assert [line for line in text if "section" in line] == ["pto.section.vector {", "pto.section.cube {"]
    assert str(builder).startswith('module attributes {pto.target_arch = "a3"} {')


def test_while_switch_and_regions() -> None:
    builder = pto.Builder()
    with builder.function("f", {"n": "index"}, entry=False) as f:
        (n,) = f.args
        loop = b.while_(n, True)
        with loop.test() as (count, on):
            loop.condition((count > 1) & on, count)
        with loop.do() as (count,):
            loop.give(count // 2, count != 3)
        choice = b.switch(loop.result)
        with choice.case(1):
            choice.give(n)
        with choice.default():
            choice.give(0)
        with b.region() as region:
            region.give(choice.result, ~n)
        b.return_(region.results)
    function = builder.program.functions[0]
    assert [str(t) for t in function.results] == ["index", "index"]
    assert [op.name for op in function.walk() if op.name.startswith("scf.")] == [
        "scf.while", "scf.condition", "scf.yield", "scf.index_switch", "scf.yield", "scf.yield",
        "scf.execute_region", "scf.yield",
    ]  # fmt: skip
    lines(builder)
    assert [d for d in pto.verify(builder.program) if d.rule != "entry"] == []


def test_names_come_from_python_or_are_given() -> None:
    builder = pto.Builder()
    with builder.function("f", {"n": "index"}) as f:
        (n,) = f.args
        total: Any = n + 1
        total = total * 2
        total += 3
        rest = (
            n
            - total
        )  # fmt: skip
        b.alloc_tile("f32", 8, 8, named="tile")
        pair = [b.constant(1.0), b.constant(2.0, "f16")]
        total = b.cast(rest, "f32")
        n = b.constant([1, 2, 3, 4], "vector<4xi16>")
    assert len(pair) == 2
    assert [line.split(" = ")[0] for line in lines(builder)[3:-1]] == [
        "%total", "%total_1", "%total_2", "%rest", "%tile", "%0", "%1", "%2", "%total_3", "%n_1",
    ]  # fmt: skip


def test_events_are_values_where_they_are_waited_for() -> None:
    builder = pto.Builder()
    with builder.function("f", {"t": VEC, "v": "!pto.partition_tensor_view<16x16xf32>"}) as f:
        t, v = f.args
        load = b.tload(t, v)
        unused = b.tneg(t, t, wait=(load, [load]))
        b.tstore(v, t, wait=b.trelu(t, t))
        b.tsync(op="TSTORE_VEC")
        b.tsync(load, t)
        b.tsync([b.tneg(t, t) for _ in range(9)])
    ops = list(builder.program.functions[0].walk())
    assert ops[0].results[0].type == OpaqueType("event") and str(ops[0].results[0]) == "%load"
    assert isinstance(unused, b.Event) and ops[2].name == "tneg" and not ops[2].results
    waits = [op for op in ops if op.name == "tsync"]
    assert [len(op.ins) for op in waits] == [1, 1, 0, 2, 8, 1]
    lines(builder)
    assert pto.verify(builder.program, "a5") == []


@b.kernel
def annotated(p: "!pto.ptr<i32>", n: int, x: "f32", at: b.ptr("i32")) -> None:  # type: ignore # noqa
    b.store_scalar(b.cast(n, "i32"), p, 0)


def test_annotations_give_types() -> None:
    assert [str(t) for _, t in annotated.arguments] == ["ptr<i32>", "index", "f32", "ptr<i32>"]
    assert repr(annotated) == "<kernel @annotated(p: ptr<i32>, n: index, x: f32, at: ptr<i32>)>"
    out = annotated(np.zeros(1, np.int32), 5, 0.0, np.zeros(1, np.int32), profile="cpu_sim")
    assert out["p"].tolist() == [5]


def test_packed_strides_of_known_and_unknown_extents() -> None:
    builder = pto.Builder()
    with builder.function("f", {"p": b.ptr("f32"), "n": "index"}) as f:
        p, n = f.args
        assert b.GlobalTensor(p, (2, 3, n, 8)).shape == (2, 3, None, 8)
        flat = b.GlobalTensor(p + n, [n], layout="nd")
        assert str(flat) == "%flat"
    assert {"%0 = arith.muli %n, %c8 : index", "%1 = arith.muli %c3, %0 : index"} <= set(lines(builder))


def test_building_printing_and_verifying_need_no_jax() -> None:
    code = (
        "import sys, pto_jax as pto\n"
        "with (program := pto.Builder()).function('f', {'t': '!pto.tile<f32, 8, 8>'}) as f:\n"
        "    pto.tneg(f.args[0], f.args[0])\n"
        "assert pto.verify(program.program) == [] and 'tneg' in str(program)\n"
        "print([m for m in ('jax', 'jaxlib') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
