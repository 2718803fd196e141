"""Spellings of indexed transfers and of accesses to single elements."""

import pytest

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
