"""Every declared instruction as a Python function: the operation of its samples, and back from text."""

from collections.abc import Iterator
from typing import Any

import pytest

import pto_jax as pto
from pto_jax import builder as b, isa
from pto_jax.ir import F32, CmpMode, CoreType, Op, PartitionViewType, Pipe, PipeEventType, RoundMode, SyncMode
from pto_jax.isa.samples.operations import Sample, legal_samples, to_program
from pto_jax.profiles import PROFILES
from pto_jax.verifier.programs import check_op
from tests.tables import every


def samples(name: str) -> Iterator[tuple[str, Sample]]:
    """One sample for every operand list and set of attributes."""
    seen = set[object]()
    for profile in PROFILES.values():
        for sample in legal_samples(isa.instructions()[name], profile):
            key = (sample.form, frozenset(sample.types), frozenset(sample.attrs))
            if key not in seen:
                seen.add(key)
                yield profile.name, sample


def operation(program: pto.Program, name: str) -> Op:
    return [op for op in program.walk() if op.name == name][-1]


def built(sample: Sample, *, by_name: bool) -> pto.Program:
    """The sample as a call; constants are Python numbers."""
    made = operation(to_program(sample), sample.instruction.name)
    destinations = [o.name for o in sample.instruction.destinations if o.name in sample.types]
    given = [*(destinations if made.outs else []), *sample.form]
    builder = pto.Builder()
    arguments = {n: sample.types[n] for n in given if n not in sample.constants}
    with builder.function("sample", arguments) as f:
        values: dict[str, Any] = dict(zip(arguments, f.args, strict=True))
        for n, numbers in sample.constants.items():
            values[n] = list(numbers) if len(numbers) > 1 else numbers[0]
        keywords: dict[str, Any] = dict(sample.attrs)
        if made.results:
            types = [sample.types[n] for n in destinations]
            keywords["type"] = types if len(types) > 1 else types[0]
        if sample.instruction.name == "alloc_tile":
            b.alloc_tile(keywords["type"], **values)
        elif by_name:
            b.find(sample.instruction.name)(**{n: values[n] for n in given}, **keywords)
        else:
            b.find(sample.instruction.name.upper())(*(values[n] for n in given), **keywords)
    return builder.program


def meaning(op: Op) -> tuple[object, ...]:
    types = ([v.type for v in values] for values in (op.ins, op.outs, op.results))
    return (op.name, *types, op.attributes, op.groups)


@every("name", isa.instructions())
def test_every_instruction_is_built_and_read_back(name: str) -> None:
    for profile, sample in samples(name):
        program = built(sample, by_name=True)
        op, expected = operation(program, name), operation(to_program(sample), name)
        assert meaning(op) == meaning(expected)
        assert pto.parse(str(program)) == program
        assert op.span is not None and op.span.file == __file__
        found = check_op(op, PROFILES[profile])
        assert [d.rule for d in found] == [d.rule for d in check_op(expected, PROFILES[profile])]


#: Sources of one kind in another order, or destinations that are left out, tell overloads apart by name only.
AMBIGUOUS = ("tconcat", "trowargmax", "trowargmin", "tcolargmax", "tcolargmin")
PLAIN = [n for n, i in isa.instructions().items() if i.syntax == "tile" and n not in AMBIGUOUS]


@every("name", PLAIN)
def test_operands_by_position_are_those_by_name(name: str) -> None:
    for _, sample in samples(name):
        assert meaning(operation(built(sample, by_name=False), name)) == meaning(
            operation(to_program(sample), name)
        )


def test_names_of_the_text_and_of_the_intrinsics_find_the_same() -> None:
    assert b.TADD is b.find("TADD") and b.find("tadd").__name__ == "tadd"
    assert b.find("TMATMUL_ACC").__name__ == b.find("tmatmul.acc").__name__ == "tmatmul_acc"
    assert b.find("sync_set").__name__ == "sync_set" and b.find("memref_alloc").__name__ == "memref_alloc"
    assert "dst, src0, src1" in (b.tadd.__doc__ or "") and pto.TADD is b.TADD
    assert {"tadd", "alloc_tile", "arith_addi"} <= set(b.names())
    for module in (b, pto):
        with pytest.raises(AttributeError, match="tadx"):
            module.tadx  # noqa: B018


def test_attributes_take_members_names_and_spellings() -> None:
    builder = pto.Builder()
    f32, mask, half = b.tile_type("f32", 16, 16), b.tile_type("u8", 16, 32), b.tile_type("f16", 16, 16)
    with builder.function("f", {"t": f32, "m": mask, "h": half}) as f:
        t, m, h = f.args
        for mode in (CmpMode.LT, "lt", "LT"):
            builder.tcmp(m, t, t, cmpMode=mode)
        builder.tcmp(m, t, t, cmp_mode="lt")
        builder.tcvt(h, t, rmode="CAST_RINT", sat_mode=None)
        builder.barrier("PIPE_V")
        builder.barrier(pipe=Pipe.V)
    ops = list(builder.program.walk())
    assert [op.attributes for op in ops[:4]] == [(("cmpMode", CmpMode.LT),)] * 4
    assert ops[4].attrs == {"rmode": RoundMode.RINT} and ops[5].attributes == ops[6].attributes


def test_numbers_become_constants_of_the_type_the_operand_has() -> None:
    builder = pto.Builder()
    types = {"t": b.tile_type("bf16", 8, 16), "i": b.tile_type("i32", 8, 8), "p": b.ptr("f16")}
    with builder.function("f", types) as f:
        t, i, p = f.args
        builder.tadds(t, t, 1)
        builder.tadds(i, i, 2)
        builder.tassign(t, 64)
        builder.store_scalar(0.5, p, 3)
        builder.sync_wait("V", 3)
        builder.arith_muli(builder.constant(4, "i64"), 5)
    constants = [op for op in builder.program.walk() if op.name == "arith.constant"]
    assert [f"{v}: {v.type}" for op in constants for v in op.results] == [
        "%cst: bf16", "%c2_i32: i32", "%c64_i64: i64", "%cst_1: f16", "%c3: index", "%c5_i64: i64",
        "%0: i64",
    ]  # fmt: skip
    assert pto.parse(str(builder)) == builder.program


def test_results_are_asked_for_with_their_type() -> None:
    builder = pto.Builder()
    tile = b.tile_type("f32", 16, 16)
    with builder.function("f", {"t": tile, "a": "i64"}) as f:
        t, a = f.args
        total = builder.tadd(t, t, type=tile)
        moved = builder.tassign(t, a, type=tile)
        flat = builder.treshape(moved, type=b.tile_type("f32", 1, 256))
        part = builder.subset(total, [0, 0], [8, 16])
        builder.tneg(part, part)
        block = builder.get_block_idx()
        assert (str(total), str(moved), str(flat), str(part)) == ("%total", "%moved", "%flat", "%part")
        assert part.shape == (8, 16) and str(block.type) == "i64"
    assert pto.parse(str(builder)).function("f") is not None


def test_parts_of_a_syntax_are_told_apart_by_kind_name_and_list() -> None:
    builder = pto.Builder()
    view = PartitionViewType((4, 64), F32)
    types = {"x": view, "y": view, "t": b.tile_type("f32", 4, 64), "p": b.ptr("f32")}
    with builder.function("f", types) as f:
        x, y, t, p = f.args
        builder.tbroadcast(x, t, [x, y], root=0)
        builder.aic_initialize_pipe(p, 0, dir_mask=1, slot_size=1024)
        builder.aiv_initialize_pipe(64, 128, dir_mask=3, slot_size=1024)
        builder.set_cross_block("V", 3)
        builder.set_cross_block("V", id=3)
        builder.get_buf("PIPE_V", 1)
        builder.get_buf("tvec", 1)
        builder.syncall()
        with pytest.raises(pto.BuildError, match=r"got 'X'; allowed: TLOAD, .*PIPE_S"):
            builder.get_buf("X", 1)
        with pytest.raises(pto.BuildError, match="got 2 by position"):
            builder.aic_initialize_pipe(0, 1, 2, dir_mask=3, slot_size=1024)
    ops = [op for op in builder.program.walk() if op.name != "arith.constant"]
    assert [op.groups for op in ops[:3]] == [
        (("src", 1), ("staging", 1), ("members", 2)),
        (("gm_slot_buffer", 1), ("c2v_consumer_buf", 1)),
        (("c2v_consumer_buf", 1), ("v2c_consumer_buf", 1)),
    ]
    assert [(len(op.ins), op.attrs.get("event")) for op in ops[3:5]] == [(0, 3), (1, None)]
    assert [op.attrs["op_type"] for op in ops[5:7]] == [Pipe.V, PipeEventType.TVEC]
    assert ops[7].attrs == {"mode": SyncMode.HARD, "core": CoreType.AIV_ONLY}
    assert pto.parse(str(builder)) == builder.program


def types_of_results(write: Any) -> set[tuple[str, str]]:
    """Operations that a function writes, beside an array and a tile of i32, with the types of results."""
    builder = pto.Builder()
    with builder.function("f", {"tile": pto.TileType(pto.dtype("i32"), 1, 8), "at": "index"}) as f:
        array = b.declare_local_array(type="!pto.local_array<4xi32>")
        write(array, *f.args)
    return {(op.name, str(v.type)) for op in builder.program.walk() for v in op.results}


def test_types_of_numbers_and_results_follow_from_declarations_and_operands() -> None:
    def write(array: Any, tile: Any, at: Any) -> None:
        b.local_array_set(array, [at], 3)
        b.local_array_get(array, [at])
        b.tgetval(tile, at)
        b.tsetval(tile, at, 5)
        b.get_block_idx()
        b.tci(2, type=pto.TileType(pto.dtype("i32"), 1, 8))

    assert types_of_results(write) == {
        ("declare_local_array", "local_array<4xi32>"),
        ("arith.constant", "i32"),
        ("local_array_get", "i32"),
        ("tgetval", "i32"),
        ("get_block_idx", "i64"),
        ("tci", "vec 1x8xi32"),
    }


@pytest.mark.parametrize(
    "name", ["declare_struct", "declare_local_array", "declare_eventid_array", "alloc_multi_tile"]
)
def test_a_type_that_nothing_determines_is_asked_for(name: str) -> None:
    with pytest.raises(pto.BuildError, match=r"got no type for the result"):
        types_of_results(lambda array, tile, at: b.find(name)())
