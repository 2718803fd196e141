"""Whatever the text: a program or a ParseError, in reasonable time."""

import random

import pytest
from hypothesis import given, settings, strategies as st

from pto_jax.errors import ParseError
from pto_jax.text import parse, print_program
from pto_jax.text.lexer import MAX_CHARACTERS, MAX_DEPTH

PROGRAM = """\
// A small kernel.
module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %half = arith.constant 5.0e-1 : f32
    %v = pto.make_tensor_view %x, shape = [%n, %n], strides = [%n, %one] {layout = #pto.layout<nd>}
      : !pto.tensor_view<?x?xf32>
    %w = pto.partition_view %v, offsets = [%zero, %zero], sizes = [%n, %n]
      : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x16xf32>
    %t = pto.alloc_tile : !pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=16, v_row=16, v_col=16,
      blayout=row_major, slayout=none_box, fractal=512, pad=0>
    %m = pto.alloc_tile valid_row = %n : !pto.tile_buf<vec, 16x32xui8, valid=?x32>
    pto.tload ins(%w : !pto.partition_tensor_view<16x16xf32>) outs(%t : !pto.tile_buf<f32, 16, 16>)
    pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.wait_flag[#pto.pipe<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    %sum = scf.for %i = %zero to %n step %one iter_args(%acc = %half) -> (f32) {
      %c = arith.cmpi slt, %i, %one : index
      scf.if %c {
        pto.tadds ins(%t, %acc : !pto.tile_buf<f32, 16, 16>, f32) outs(%t : !pto.tile_buf<f32, 16, 16>)
      } else {
        pto.tcmps %m, %t, %acc {cmpMode = #pto<cmp gt>}
      }
      scf.yield %acc : f32
    }
    "pto.tneg"(%t, %t) : (!pto.tile<f32, 16, 16>, !pto.tile<f32, 16, 16>) -> ()
    pto.tprint ins(%t : !pto.tile_buf<f32, 16, 16>)
    %b = pto.reserve_buffer {name = "fi\\"fo", size = 8192, location = <vec>, auto = true} -> i32
    return
  }
}
"""
FRAGMENT = """\
# A page of instructions.
%a = tload %x[%r, %c] : (!pto.memref<...>, index, index) -> !pto.tile<...>
%b = pto.taddsc %a, %s, %a : (!pto.tile<...>, dtype, !pto.tile<...>) -> !pto.tile<...>
%d = tcmp %a, %b #cmp=lt
tstore %d, %x[%r, %c]
"""
PIECES = (
    *"<>{}()[]%\"#!@^:,=?-\\.xT`",
    "->", "0x", "1e5", "...", "²", "é", "\x00", "%r:2 =", "_", "pto.", "dtype", "//", "# ", "<...>", "{-#",
    "9" * 30, "true", "dense<", "array<i32: 1>", "scf.if", "func.func", "strided<[1]>", "!pto.tile<",
)  # fmt: skip


def outcome(text: str) -> bool:
    """Whether the text is accepted; then it must print and read back."""
    try:
        program = parse(text)
    except ParseError as error:
        (found,) = error.diagnostics
        assert found.span is not None and found.message
        return False
    printed = print_program(program)
    assert parse(printed) == program
    for form in ("as", "ssa", "dps"):
        parse(print_program(program, form))
    return True


def test_the_samples_are_accepted() -> None:
    assert outcome(PROGRAM)
    assert outcome(FRAGMENT)


def test_truncated_programs_are_refused() -> None:
    for cut in range(PROGRAM.index("module"), len(PROGRAM.rstrip()), 7):
        assert not outcome(PROGRAM[:cut])


def mutated(text: str, rng: random.Random) -> str:
    characters = list(text)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(characters))
        match rng.randrange(4):
            case 0:
                del characters[place]
            case 1:
                characters.insert(place, rng.choice(PIECES))
            case 2:
                characters[place] = chr(rng.randrange(1, 0x250))
            case _:
                start = rng.randrange(len(characters))
                characters[place:place] = characters[start : start + rng.randrange(1, 40)]
    return "".join(characters)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_programs_give_a_program_or_a_parse_error(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        outcome(mutated(rng.choice((PROGRAM, FRAGMENT)), rng))


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=12).map("".join))
def test_arbitrary_text_gives_a_program_or_a_parse_error(text: str) -> None:
    outcome(text)
    outcome(f"%d = tadd %a {text}")
    outcome(f"%t = pto.alloc_tile : !pto.tile_buf<{text}>")


def nested(levels: int) -> str:
    head = "scf.if %c {\n" * levels
    return f"func.func @f(%c: i1) {{\n{head}{'}' * levels}\nreturn\n}}\n"


def test_regions_nest_up_to_the_limit() -> None:
    assert outcome(nested(MAX_DEPTH - 1))
    with pytest.raises(ParseError, match=f"nested more than {MAX_DEPTH} levels deep"):
        parse(nested(MAX_DEPTH))
    with pytest.raises(ParseError, match="nested more than"):
        parse(nested(5000))


def test_the_innermost_region_reads_back() -> None:
    """The allocation is printed with another spelling of the type, which is then new in the region."""
    depth, tile = MAX_DEPTH - 1, "!pto.tile<f32, 1, 256>"
    head = f"func.func @f() {{\n%t = pto.alloc_tile : {tile}\n" + "pto.section.vector {\n" * depth
    program = parse(head + f"pto.tabs %t, %t : {tile}, {tile}" + "\n}" * (depth + 1))
    assert parse(print_program(program)) == program


@pytest.mark.parametrize("bracket", ["[", "{a = ", "<", "(", "#x<", "!pto.event<", "array<"])
def test_brackets_nest_up_to_the_limit(bracket: str) -> None:
    with pytest.raises(ParseError):
        parse("%d = tabs %a {key = " + bracket * 20000)
    with pytest.raises(ParseError):
        parse("%d = tabs %a : " + bracket * 20000)


def test_large_text_is_refused_at_once() -> None:
    with pytest.raises(ParseError, match="characters; at most"):
        parse(" " * (MAX_CHARACTERS + 1))


def test_numbers_of_any_length_are_handled() -> None:
    for digits in (19, 21, 5000):
        number = "9" * digits
        for text in (
            f"%c = arith.constant {number} : i64",
            f"%c = arith.constant {number}.5 : f32",
            f"%c = arith.constant 0x{number} : i64",
            f"%t = pto.alloc_tile : !pto.tile_buf<f32, {number}, 8>",
            f"%t = pto.alloc_tile : !pto.tile_buf<vec, 8x{number}xf32>",
            f"%t = pto.alloc_tile : !pto.tensor_view<?x{number}x{number}xf32>",
            f"%r:{number} = tabs %a",
            f"pto.tprint %r#{number}",
            f"pto.set_flag[<PIPE_V>, <PIPE_M>, <EVENT_ID{number}>]",
        ):
            outcome(text)


def test_string_without_an_end_is_found_quickly() -> None:
    with pytest.raises(ParseError, match="not closed"):
        parse('%d = tabs %a {key = "' + "a" * 100_000)


def test_digits_of_other_scripts_are_not_numbers() -> None:
    for digit in ("²", "½", "٣", "Ⅷ"):
        with pytest.raises(ParseError):
            parse(f"%c = arith.constant {digit} : i64")


def test_byte_order_mark_and_carriage_returns_are_passed_over() -> None:
    assert parse("\ufeff" + PROGRAM.replace("\n", "\r\n")) == parse(PROGRAM)
