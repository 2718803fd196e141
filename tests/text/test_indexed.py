"""Spellings of indexed transfers, of accesses to single elements, and of scratch behind a destination."""

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import parse, verify
from pto_jax.ir import Coalesce, GatherOob, Op, ScatterAtomicOp, ScatterConflict, ScatterOob

VIEW, MEMREF = "!pto.partition_tensor_view<16x32xf32>", "memref<16x32xf32, #pto.address_space<gm>>"
DATA, INDEX = "!pto.tile<f32, 16, 32>", "!pto.tile<i32, 16, 32>"


def read(text: str) -> Op:
    """The operation of a text, which also survives printing and breaks no rule but on what an index picks."""
    program = parse(text)
    assert parse(str(program)) == program
    if ":" in text:
        errors = {d.rule for d in verify(program, profile="a5") if d.severity == "error"}
        assert errors <= {"coalesce-given"}
    (op,) = program.functions[0].body.ops
    return op


@pytest.mark.parametrize(
    "text",
    [
        f"%d = mgather %m, %i : {MEMREF}, {INDEX} -> {DATA}",
        f"%d = pto.mgather %m, %i : ({VIEW}, {INDEX}) -> {DATA}",
        f"pto.mgather ins(%m, %i : {VIEW}, {INDEX}) outs(%d : {DATA})",
        f'"pto.mgather"(%m, %i, %d) : ({VIEW}, {INDEX}, {DATA}) -> ()',
        "%d = mgather %m, %i",
    ],
)
def test_gathers_name_the_table_first(text: str) -> None:
    op = read(text)
    assert [v.name for v in op.ins] == ["m", "i"] and [v.name for v in op.destinations] == ["d"]


@pytest.mark.parametrize(
    "text",
    [
        f"mscatter %s, %m, %i : {MEMREF}, {DATA}, {INDEX}",
        f"mscatter %s, %m, %i : {DATA}, {MEMREF}, {INDEX}",
        f"mscatter %s, %i, %m : {DATA}, {INDEX}, {VIEW}",
        f"pto.mscatter %s, %i, %m : ({DATA}, {INDEX}, {VIEW}) -> ()",
        f"pto.mscatter ins(%s, %i : {DATA}, {INDEX}) outs(%m : {MEMREF})",
        f'"pto.mscatter"(%s, %i, %m) : ({DATA}, {INDEX}, {VIEW}) -> ()',
        "mscatter %s, %m, %i",
        "pto.mscatter %s, %i, %m",
    ],
)
def test_scatters_name_the_table_second_in_assembly_and_last_elsewhere(text: str) -> None:
    op = read(text)
    assert [v.name for v in op.ins] == ["s", "i"] and [v.name for v in op.outs] == ["m"]


def test_modes_are_attributes() -> None:
    gather = read(
        f"pto.mgather ins(%m, %i : {VIEW}, {INDEX}) outs(%d : {DATA}) {{gatherOob = #pto<gather_oob zero>}}"
    )
    assert gather.attrs == {"gatherOob": GatherOob.ZERO}
    scatter = read(
        f"pto.mscatter ins(%s, %i : {DATA}, {INDEX}) outs(%m : {VIEW}) {{coalesce = #pto<coalesce elem>, "
        "scatterAtomicOp = #pto<scatter_atomic_op add>, scatterOob = #pto<scatter_oob skip>, "
        "scatterConflict = #pto<scatter_conflict default>}"
    )
    assert scatter.attrs == {
        "coalesce": Coalesce.ELEM,
        "scatterAtomicOp": ScatterAtomicOp.ADD,
        "scatterOob": ScatterOob.SKIP,
        "scatterConflict": ScatterConflict.DEFAULT,
    }


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        (f"%v = pto.tgetval ins(%t, %o : {DATA}, index) outs : f32", "t o", "v"),
        (f"pto.tsetval ins(%o, %v : index, f32) outs(%t : {DATA})", "o v", "t"),
        ("%v = pto.load_scalar %p[%o] : !pto.ptr<f32> -> f32", "p o", "v"),
        ("pto.store_scalar %v, %p[%o] : !pto.ptr<f32>, f32", "v p o", ""),
    ],
)
def test_single_elements(text: str, reads: str, writes: str) -> None:
    op = read(text)
    assert [v.name for v in op.ins] == reads.split() and [v.name for v in op.destinations] == writes.split()


F32, I8 = "!pto.tile_buf<vec, 8x32xf32>", "!pto.tile_buf<vec, 8x32xi8>"
COLUMN = "!pto.tile_buf<vec, 8x1xf32, blayout=col_major>"
LIST, MERGED = "!pto.tile_buf<vec, 1x64xf32>", "!pto.tile_buf<vec, 1x128xf32>"

QUANTISED = f"""
func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<i8>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %factor = arith.constant 2.0 : f32
  %v = pto.make_tensor_view %x, shape = [%c8, %c32], strides = [%c32, %c1] : !pto.tensor_view<8x32xf32>
  %w = pto.make_tensor_view %y, shape = [%c8, %c32], strides = [%c32, %c1] : !pto.tensor_view<8x32xi8>
  %a = pto.alloc_tile : {F32}
  %t = pto.alloc_tile : {F32}
  %s = pto.alloc_tile : {COLUMN}
  %o = pto.alloc_tile : {COLUMN}
  %d = pto.alloc_tile : {I8}
  pto.texpands ins(%factor : f32) outs(%s : {COLUMN})
  pto.texpands ins(%factor : f32) outs(%o : {COLUMN})
  pto.tload ins(%v : !pto.tensor_view<8x32xf32>) outs(%a : {F32})
  {{op}}
  pto.tstore ins(%d : {I8}) outs(%w : !pto.tensor_view<8x32xi8>)
  return
}}
"""


def operation(program: pto.Program, name: str) -> object:
    return next(op for op in program.walk() if op.name == name)


@pytest.mark.parametrize("offset", [False, True])
def test_quantisation_with_scratch_behind_its_destination(offset: bool) -> None:
    sources = ("%a, %s, %o", f"{F32}, {COLUMN}, {COLUMN}") if offset else ("%a, %s", f"{F32}, {COLUMN}")
    kind = "INT8_ASYM" if offset else "INT8_SYM"
    attribute = f"{{quant_type = #pto<quant_type {kind}>}}"
    op = f"pto.tquant ins({' : '.join(sources)}) outs(%d, %t : {I8}, {F32}) {attribute}"
    program = pto.parse(QUANTISED.replace("{op}", op))
    assert pto.parse(str(program)) == program and "outs(%d, %t" in str(program)
    for profile in ("a2a3", "a5"):
        assert not [d for d in pto.verify(program, profile=profile, level=2) if d.severity == "error"]
    bare = pto.parse(QUANTISED.replace("{op}", op.replace("%d, %t", "%d").replace(f"{I8}, {F32}", I8)))
    assert bare != program
    x = np.linspace(-70, 70, 256, dtype=np.float32).reshape(8, 32)
    y = np.zeros((8, 32), np.int8)
    expected = pto.compile(bare, "a5", warn=not offset)(x, y)["y"]
    np.testing.assert_array_equal(pto.compile(program, "a5", warn=not offset)(x, y)["y"], expected)
    np.testing.assert_array_equal(pto.oracle.run(program, (x, y), profile="a5")["y"], expected)


def merge(sources: str) -> str:
    return (
        f"func.func @f(%e: vector<4xi16>) {{\n  %a = pto.declare_tile -> {LIST}\n"
        f"  %b = pto.declare_tile -> {LIST}\n  %d = pto.declare_tile -> {MERGED}\n"
        f"  pto.tmrgsort ins({sources}) outs(%d, %e : {MERGED}, vector<4xi16>)\n  return\n}}\n"
    )


def test_merges_say_that_they_have_no_scratch() -> None:
    text = merge(f"%a, %b no_tmp {{exhausted = true}} : {LIST}, {LIST}")
    program = pto.parse(text)
    assert pto.parse(str(program)) == program and "%a, %b no_tmp {exhausted = true}" in str(program)
    assert operation(program, "tmrgsort") == operation(pto.parse(str(program)), "tmrgsort")
    for profile in ("a2a3", "a5"):
        assert not pto.verify(program, profile=profile, level=2)
        assert [d.rule for d in pto.verify(program, profile=profile, level=3)] == ["tmp-given"]
    three = pto.parse(merge(f"%a, %b, %d : {LIST}, {LIST}, {MERGED}"))
    assert operation(three, "tmrgsort") != operation(program, "tmrgsort")


def test_a_word_that_other_instructions_do_not_have() -> None:
    with pytest.raises(pto.ParseError, match="no_tmp"):
        pto.parse(f"pto.tadd ins(%a, %b no_tmp : {LIST}, {LIST}) outs(%d : {LIST})")
