"""Accepted and rejected operations generated from the declarations."""

from dataclasses import replace

import pytest

from pto_jax.api import parse
from pto_jax.ir import LANGUAGES
from pto_jax.isa import Constraint, Instruction, instructions
from pto_jax.isa.samples.operations import Sample, legal_samples, to_program
from pto_jax.profiles import PROFILE_NAMES, ProfileName, profile
from pto_jax.verifier.programs import verify_program
from tests.tables import every

TABLE = instructions()
NAMES = sorted(TABLE)


def samples(name: str, profile_name: str) -> list[Sample]:
    return list(legal_samples(TABLE[name], profile(profile_name)))


def constraints(instruction: Instruction, profile_name: ProfileName) -> list[Constraint]:
    return [c for c in instruction.constraints if profile_name in c.profiles and c.breaks is not None]


def broken(sample: Sample, constraint: Constraint, profile_name: str) -> Sample | None:
    types, attrs = dict(sample.types), dict(sample.attrs)
    assert constraint.breaks is not None
    if not constraint.breaks(types, attrs, profile(profile_name)):
        return None
    assert (types, attrs) != (dict(sample.types), dict(sample.attrs))
    return replace(sample, types=types, attrs=attrs)


@pytest.mark.slow
@every("profile_name", PROFILE_NAMES)
@every("name", NAMES)
def test_samples_are_accepted(name: str, profile_name: str) -> None:
    found = samples(name, profile_name)
    assert bool(found) == exists(TABLE[name], profile_name)
    for sample in found:
        errors = [
            d for d in verify_program(to_program(sample), profile(profile_name)) if d.severity == "error"
        ]
        assert not errors, (sample.types, errors)


def exists(instruction: Instruction, profile_name: str) -> bool:
    """Whether a profile has the instruction: its type table, where there is one, has a row."""
    return not instruction.types or bool(instruction.types.get(profile(profile_name).name))


@pytest.mark.parametrize("name", [n for n in NAMES if not all(exists(TABLE[n], p) for p in PROFILE_NAMES)])
def test_what_a_profile_does_not_have_is_rejected_there(name: str) -> None:
    legal = [s for p in PROFILE_NAMES for s in samples(name, p)]
    for profile_name in PROFILE_NAMES:
        if not exists(TABLE[name], profile_name):
            for sample in legal:
                assert "types" in {d.rule for d in verify_program(to_program(sample), profile(profile_name))}


@pytest.mark.nightly
@pytest.mark.slow
@every("profile_name", PROFILE_NAMES)
@every("name", NAMES)
def test_every_constraint_rejects_what_breaks_it(name: str, profile_name: ProfileName) -> None:
    legal = samples(name, profile_name)
    for constraint in constraints(TABLE[name], profile_name) if exists(TABLE[name], profile_name) else ():
        cases = [b for s in legal if (b := broken(s, constraint, profile_name)) is not None]
        if not cases:
            assert not applies(TABLE[name], constraint, profile_name), constraint.rule
            continue
        assert any(rejected(case, constraint, profile_name) for case in cases), (
            constraint.rule,
            cases[0].types,
        )


def rejected(case: Sample, constraint: Constraint, profile_name: str) -> bool:
    """Whether the verifier reports this rule, and no error of another one."""
    language = LANGUAGES[0] if constraint.until is not None else None
    found = verify_program(replace(to_program(case), language=language), profile(profile_name))
    errors = {d.rule for d in found if d.severity == "error"}
    return (constraint.rule, constraint.severity) in {(d.rule, d.severity) for d in found} and errors <= {
        constraint.rule
    }


def applies(instruction: Instruction, constraint: Constraint, profile_name: ProfileName) -> bool:
    """Whether an operation can break the rule at all: every type that exists on cpu_sim and a2a3 moves,
    and the simulator's stores convert between sizes."""
    moves = instruction.name in ("tload", "tstore", "tmov") and constraint.rule == "types"
    converts = (instruction.name, constraint.rule) == ("tstore", "element-size") and profile_name == "cpu_sim"
    return not (converts or (moves and profile_name != "a5"))


def test_messages_say_what_is_allowed() -> None:
    for instruction in TABLE.values():
        for constraint in instruction.constraints:
            assert constraint.allowed, (instruction.name, constraint.rule)
            assert constraint.source, (instruction.name, constraint.rule)


NAMED = """
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c2 = arith.constant 2 : index
%c16 = arith.constant 16 : index
%c17 = arith.constant 17 : index
%c64 = arith.constant 64 : index
%a16 = arith.constant 16 : i64
%a32 = arith.constant 32 : i64
%end = arith.constant 1073741824 : i64
"""
FULL, OPEN = "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 16x64xf32, valid=?x?>"
PADDED = "!pto.tile_buf<vec, 16x64xf32, pad=max>"
VIEW = "!pto.tensor_view<16x64xf32>"
NZ = "!pto.tile_buf<mat, 16x64xf32, blayout=col_major, slayout=row_major>"
TENSOR = f"%v = pto.make_tensor_view %p, shape = [%c16, %c64], strides = [%c64, %c1] : {VIEW}\n"
OPENED = f"%t = pto.alloc_tile valid_row = %c16 valid_col = %c64 : {OPEN}\n"


def viewed(shape: str, strides: str, view: str = VIEW, extra: str = "") -> str:
    return f"%v = pto.make_tensor_view %p, shape = [{shape}], strides = [{strides}]{extra} : {view}"


def window(offsets: str, sizes: str, kind: str = "16x64xf32") -> str:
    return (
        f"{TENSOR}%w = pto.partition_view %v, offsets = [{offsets}], sizes = [{sizes}] : {VIEW} -> "
        f"!pto.partition_tensor_view<{kind}>"
    )


def indexed(op: str, layout: str = "dn") -> str:
    """An indexed transfer of a table, by default a column-major one."""
    index = "!pto.tile_buf<vec, 16x64xi32>"
    made = viewed("%c16, %c64", "%c64, %c1")
    if layout:
        made = viewed("%c16, %c64", "%c1, %c16", extra=f" {{layout = #pto.layout<{layout}>}}")
    tiles = f"%i = pto.alloc_tile : {index}\n%d = pto.alloc_tile : {FULL}\n"
    return f"{made}\n{tiles}{op.format(view=VIEW, index=index, data=FULL)}"


def scratched(name: str, sources: str, data: str, tmp: str) -> str:
    """An instruction on a tile of data and a tile of scratch, declared without its size being a rule."""
    types = {
        "full": f"!pto.tile_buf<vec, {data}>",
        "tmp": f"!pto.tile_buf<vec, {tmp}>",
        "index": "!pto.tile_buf<vec, 16x64xi32>",
        "masks": "!pto.tile_buf<vec, 16x32xui8>",
    }
    names = {"t": "full", "d": "full", "s": "tmp", "i": "index", "m": "masks"}
    made = "".join(f"%{n} = pto.declare_tile -> {types[t]}\n" for n, t in names.items())
    return f"{made}pto.{name} ins({sources.format(**types)}) outs(%d : {types['full']})"


#: Rules on constants and on lists of operands, which no edit of types or attributes breaks: the same
#: instruction in a program that breaks nothing else.
WRITTEN_OUT = {
    ("alloc_tile", "valid-operands"): f"%t = pto.alloc_tile valid_row = %c16 : {OPEN}",
    ("alloc_tile", "valid-range"): f"%t = pto.alloc_tile valid_row = %c17 valid_col = %c64 : {OPEN}",
    ("alloc_tile", "address-aligned"): f"%t = pto.alloc_tile addr = %a16 : {FULL}",
    ("alloc_tile", "address-range"): f"%t = pto.alloc_tile addr = %end : {FULL}",
    ("tassign", "address-aligned"): f"%t = pto.alloc_tile : {FULL}\npto.tassign %t, %a16 : {FULL}, i64",
    ("tassign", "address-range"): f"%t = pto.alloc_tile : {FULL}\npto.tassign %t, %end : {FULL}, i64",
    ("make_tensor_view", "ranks"): viewed("%c16, %c64", "%c64"),
    ("make_tensor_view", "extents"): viewed("%c17, %c64", "%c64, %c1"),
    ("make_tensor_view", "view-layout"): viewed(
        "%c16, %c64", "%c64, %c1", extra=" {layout = #pto.layout<dn>}"
    ),
    ("partition_view", "ranks"): window("%c0", "%c16, %c64"),
    ("partition_view", "extents"): window("%c0, %c0", "%c16, %c16"),
    ("partition_view", "window"): window("%c1, %c0", "%c16, %c64"),
    ("get_tensor_view_dim", "dimension"): f"{TENSOR}%n = pto.get_tensor_view_dim %v, %c2 : {VIEW} -> index",
    ("get_tensor_view_stride", "dimension"): (
        f"{TENSOR}%n = pto.get_tensor_view_stride %v, %c2 : {VIEW} -> index"
    ),
    ("set_validshape", "valid-dynamic"): (
        f"%t = pto.alloc_tile : {FULL}\npto.set_validshape %t, %c1, %c1 : {FULL}"
    ),
    **{
        (f"{core}_initialize_pipe", "slot-global"): f"""%slots = arith.constant 0 : i32
pto.section.{kind} {{
  pto.{core}_initialize_pipe {{dir_mask = 1, slot_size = 1024}} (c2v_consumer_buf = %slots : i32)
}}"""
        for core, kind in (("aic", "cube"), ("aiv", "vector"))
    },
    **{
        (name, "fills-nothing"): (
            f"%t = pto.alloc_tile : {PADDED}\npto.{name} ins(%t : {PADDED}) outs(%t : {PADDED})"
        )
        for name in ("tfillpad", "tfillpad_inplace", "tfillpad_expand")
    },
    ("set_validshape", "valid-range"): f"{OPENED}pto.set_validshape %t, %c17, %c1 : {OPEN}",
    ("subset", "window"): (
        f"%t = pto.alloc_tile : {FULL}\n%s = pto.subset %t[%c1, %c0] sizes [16, 32] : {FULL}"
    ),
    ("subview", "window"): f"%t = pto.alloc_tile : {FULL}\n%s = pto.subview %t[%c0] sizes [16, 64] : {FULL}",
    ("subview", "window-inside"): (
        f"%t = pto.alloc_tile : {FULL}\n%s = pto.subview %t[%c1, %c0] sizes [16, 32] : {FULL}"
    ),
    ("alloc_multi_tile", "address-aligned"): (
        "%m = pto.alloc_multi_tile addr = %a16 : !pto.multi_tile_buf<vec, 16x64xf32, count=2>"
    ),
    ("multi_tile_get", "slot"): (
        "%m = pto.alloc_multi_tile : !pto.multi_tile_buf<vec, 16x64xf32, count=2>\n"
        f"%s = pto.multi_tile_get %m[%c2] : !pto.multi_tile_buf<vec, 16x64xf32, count=2> -> {FULL}"
    ),
    ("local_array_get", "indices"): (
        "%a = pto.declare_local_array -> !pto.local_array<2xf32>\n"
        "%x = pto.local_array_get %a[%c2] : !pto.local_array<2xf32> -> f32"
    ),
    ("local_array_set", "indices"): (
        "%a = pto.declare_local_array -> !pto.local_array<2xi64>\n"
        "pto.local_array_set %a[%c1, %c1], %a16 : !pto.local_array<2xi64>, i64"
    ),
    ("tsubview", "window"): (
        f"%t = pto.alloc_tile : {FULL}\n%s = pto.subview %t, %c1, %c0 : ({FULL}, index, index) -> {FULL}"
    ),
    ("pointer_cast", "address-aligned"): (
        "%m = pto.pointer_cast(%a32, %a16) : memref<16x64xf32, #pto.address_space<vec>>"
    ),
    ("mgather", "index-view"): (
        f"{viewed('%c16, %c64', '%c64, %c1')}\n%d = pto.alloc_tile : {NZ}\n"
        f"pto.mgather ins(%v, %v : {VIEW}, {VIEW}) outs(%d : {NZ}) {{coalesce = #pto<coalesce row>}}"
    ),
    ("mgather", "table-layout"): indexed(
        "pto.mgather ins(%v, %i : {view}, {index}) outs(%d : {data}) {{coalesce = #pto<coalesce elem>}}"
    ),
    ("mscatter", "table-layout"): indexed("pto.mscatter ins(%d, %i : {data}, {index}) outs(%v : {view})"),
    ("tsel", "tmp-bytes"): scratched(
        "tsel", "%m, %t, %t, %s : {masks}, {full}, {full}, {tmp}", "16x64xi16", "1x2xi32"
    ),
    ("tpow", "tmp-integers"): scratched(
        "tpow", "%t, %t, %s : {full}, {full}, {tmp}", "16x64xi32", "16x64xi32"
    ),
    ("tpows", "tmp-integers"): (
        "%n = arith.constant 2 : i32\n"
        + scratched("tpows", "%t, %n, %s : {full}, i32, {tmp}", "16x64xi32", "16x64xi32")
    ),
    ("tgather", "tmp-given"): scratched("tgather", "%t, %i : {full}, {index}", "16x64xf32", "16x64xi32"),
    ("mgather", "coalesce-given"): indexed("pto.mgather ins(%v, %i : {view}, {index}) outs(%d : {data})", ""),
    ("mscatter", "coalesce-given"): indexed(
        "pto.mscatter ins(%d, %i : {data}, {index}) outs(%v : {view}) "
        "{{scatterOob = #pto<scatter_oob clamp>}}",
        "",
    ),
    ("tmrgsort", "block-length"): (
        "%n = arith.constant 63 : i32\n%t = pto.declare_tile -> !pto.tile_buf<vec, 1x256xf32>\n"
        "pto.tmrgsort ins(%t, %n : !pto.tile_buf<vec, 1x256xf32>, i32) "
        "outs(%t : !pto.tile_buf<vec, 1x256xf32>)"
    ),
    ("get_buf", "profile"): "pto.get_buf[#pto.pipe_event_type<TLOAD>, 0]",
    ("rls_buf", "profile"): "pto.rls_buf[#pto.pipe_event_type<TLOAD>, 0]",
}


def test_every_constraint_has_a_rejected_program() -> None:
    no_edit = {(i.name, c.rule) for i in TABLE.values() for c in i.constraints if c.breaks is None}
    assert no_edit == set(WRITTEN_OUT)


@every(("name", "rule"), WRITTEN_OUT)
def test_what_is_written_out_breaks_one_rule(name: str, rule: str) -> None:
    text = f"func.func @f(%p: !pto.ptr<f32>) {{{NAMED}{WRITTEN_OUT[name, rule]}\nreturn\n}}"
    (constraint,) = (c for c in TABLE[name].constraints if c.rule == rule)
    for profile_name in PROFILE_NAMES:
        found = verify_program(parse(text), profile(profile_name))
        expected = {(name, rule, constraint.severity)} if profile_name in constraint.profiles else set()
        # The texts are no whole kernels.
        broken = [d for d in found if d.rule not in ("unwritten", "stores-nothing", "token")]
        assert {(d.instruction, d.rule, d.severity) for d in broken} == expected
