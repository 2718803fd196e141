"""The generic form of instructions with optional operands, with and without the sizes of their segments."""

from collections.abc import Iterator

import pytest

from pto_jax import isa
from pto_jax.errors import ParseError
from pto_jax.isa.declare import Instruction
from pto_jax.text import parse
from pto_jax.text.generic_structure import segments_of
from tests.tables import every
from tests.text.test_spellings import only

TYPES = {
    "tile": "!pto.tile<16x16xf32>",
    "scalar": "i32",
    "index": "index",
    "gm": "!pto.partition_tensor_view<16x16xf32>",
    "vector": "vector<4xi16>",
}


def with_optional() -> list[str]:
    table = isa.instructions().items()
    return [n for n, i in table if i.syntax == "tile" and any(o.optional for o in i.operands)]


def overloads(instruction: Instruction) -> Iterator[tuple[list[int], list[str]]]:
    """The sizes of the segments and the operands of every overload that the generic form has."""
    parts = segments_of(instruction)
    for form in instruction.forms:
        expected = {*form, *(o.name for o in instruction.destinations_of(form))}
        sizes, names = [], list[str]()
        for i, part in enumerate(parts):
            later = {n for p in parts[i + 1 :] for n in p.operands}
            held = [n for n in part.operands if n in expected - later]
            sizes.append(len(held))
            names += held
        if set(names) == expected:
            yield sizes, names


def written(instruction: Instruction, names: list[str], attributes: str) -> str:
    operands = ", ".join(f"%{n}" for n in names)
    types = ", ".join(TYPES[instruction.operand(n).kind] for n in names)
    return f'"pto.{instruction.name}"({operands}) {attributes} : ({types}) -> ()'


@every("name", with_optional())
def test_operands_of_every_overload_are_the_declared_ones(name: str) -> None:
    instruction = isa.instructions()[name]
    found = list(overloads(instruction))
    assert len(found) >= len(instruction.forms) - (name == "tquant")
    for sizes, names in found:
        listed = ", ".join(map(str, sizes))
        for attributes in ("", f"{{operandSegmentSizes = array<i32: {listed}>}}"):
            op = only(parse(written(instruction, names, attributes)))
            bound = {n: v.name for n, v in isa.bind(instruction, op).values.items()}
            assert bound == {n: n for n in names}, attributes


def test_indices_of_a_gather_are_no_destination() -> None:
    op = only(parse('"pto.tgather"(%a, %d, %i) : (f32, f32, i32) -> ()'))
    assert [v.name for v in op.ins] == ["a", "i"]
    assert [v.name for v in op.outs] == ["d"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '"pto.tgather"(%a, %b, %c, %d) : () -> ()',
            "got 4 operand(s) of tgather that may be (src, dst, indices, tmp) or (src, dst, cdst, kValue); "
            "allowed: operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0> or array<i32: 1, 1, 1, 0, 0, 1>, "
            "the sizes of (src, dst, cdst, indices, tmp, k)",
        ),
        (
            '"pto.tcvt"(%a) : (!pto.tile<16x16xf32>) -> ()',
            "got 1 operand(s) of tcvt; allowed in the generic form without operandSegmentSizes: "
            "(src, dst) or (src, dst, tmp)",
        ),
        (
            '"pto.tcolsum"(%a, %b) {operandSegmentSizes = array<i32: 1, 1>} : () -> ()',
            "got operandSegmentSizes that do not divide 2 operands; allowed: one size for each of "
            "(src, tmp, dst)",
        ),
        (
            '"pto.tadd"(%a, %b, %c) {operandSegmentSizes = array<i32: 2, 0, 1>} : () -> ()',
            "got operandSegmentSizes that do not divide 3 operands; allowed: one size for each of "
            "(src0, src1, dst)",
        ),
    ],
)
def test_operands_without_one_assignment_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_wrong_numbers_of_operands_are_left_to_the_verifier() -> None:
    op = only(parse('"pto.tadd"(%a, %b, %c, %d) : () -> ()'))
    assert [v.name for v in op.ins] == ["a", "b", "c"]
    op = only(parse('"pto.tinterleave"(%a) : () -> ()'))
    assert (len(op.ins), len(op.outs)) == (0, 1)


_VIEW, _PIPE = "!pto.tensor_view<16x16xf32>", "{dir_mask = 1, slot_size = 1024, slot_num = 8}"


@pytest.mark.parametrize(
    ("generic", "custom"),
    [
        (
            f'%p = "pto.initialize_l2g2l_pipe"(%g) <{_PIPE[:-1]}, '
            f"operandSegmentSizes = array<i32: 1, 0, 0>}}> : ({_VIEW}) -> !pto.pipe",
            f"%p = pto.initialize_l2g2l_pipe {_PIPE} (%g : {_VIEW}) -> !pto.pipe",
        ),
        (
            f'%p = "pto.initialize_l2g2l_pipe"(%g, %a) <{_PIPE[:-1]}, '
            f"operandSegmentSizes = array<i32: 1, 1, 0>}}> : ({_VIEW}, i32) -> !pto.pipe",
            f"%p = pto.initialize_l2g2l_pipe {_PIPE} (%g : {_VIEW}, %a : i32) -> !pto.pipe",
        ),
        (
            '%p = "pto.alloc_tile"() : () -> !pto.tile<8x8xf32>',
            "%p = pto.alloc_tile : !pto.tile<8x8xf32>",
        ),
        (
            '"pto.syncall"(%g) <{mode = #pto.sync_all_mode<soft>, core_type = #pto.sync_core_type<mix>, '
            "operandSegmentSizes = array<i32: 1, 0>}> "
            ": (!pto.ptr<i32>) -> ()",
            "pto.syncall(%g : !pto.ptr<i32>) mode = #pto.sync_all_mode<soft>, "
            "core_type = #pto.sync_core_type<mix>",
        ),
    ],
)
def test_instructions_with_a_syntax_of_their_own_have_the_generic_form(generic: str, custom: str) -> None:
    assert parse(generic) == parse(custom)
    assert parse(str(parse(generic))) == parse(custom)


WINDOW, TILE = "!pto.partition_tensor_view<16x16xf32>", "!pto.tile_buf<acc, 16x16xf32>"


@pytest.mark.parametrize(
    ("name", "types", "sizes", "as_name", "sources"),
    [
        ("tload", (WINDOW, TILE), "1, 1, 0, 0, 0, 0", "tload", 1),
        ("tload", (WINDOW, TILE), "1, 1", "tload", 1),
        ("tstore", (TILE, WINDOW), "1, 1, 0", "tstore", 1),
        ("tstore", (TILE, WINDOW), "1, 1, 0, 0", "tstore", 1),
        ("tstore", (TILE, WINDOW, "i64"), "1, 1, 1", "tstore", 2),
        ("tstore", (TILE, WINDOW, "i64"), "1, 1, 0, 1", "tstore", 2),
        ("tstore", (TILE, WINDOW, "!pto.tile_buf<scaling, 1x16xui64>"), "1, 1, 1, 0", "tstore_fp", 2),
    ],
)
def test_sizes_of_segments_are_those_of_each_assembler(
    name: str, types: tuple[str, ...], sizes: str, as_name: str, sources: int
) -> None:
    operands = ", ".join(f"%v{i}" for i in range(len(types)))
    attributes = f"{{operandSegmentSizes = array<i32: {sizes}>}}"
    op = only(parse(f'"pto.{name}"({operands}) {attributes} : ({", ".join(types)}) -> ()'))
    assert (op.name, len(op.ins), [v.name for v in op.outs]) == (as_name, sources, ["v1"])


def test_segments_without_a_declared_operand_stay_empty() -> None:
    attributes = "{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>}"
    text = f'"pto.tload"(%a, %b, %c) {attributes} : ({WINDOW}, {TILE}, f32) -> ()'
    with pytest.raises(ParseError, match=r"one size for each of \(src, dst, pad_value"):
        parse(text)


def test_attributes_have_the_names_of_the_generic_form() -> None:
    attributes = '{autoAlloc = true, location = #pto.address_space<vec>, name = "b", size = 64 : i32}'
    op = only(parse(f'%0 = "pto.reserve_buffer"() {attributes} : () -> i32'))
    assert op.attrs["auto"] is True
