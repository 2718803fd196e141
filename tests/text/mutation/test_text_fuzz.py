"""The mutation fuzz of the text reader: a small run, that it finds what is planted, and what it found."""

import gc
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pto_jax.api import verify
from pto_jax.errors import Diagnostic, ParseError
from pto_jax.ir import Program
from pto_jax.text import parse, print_program
from tests.text.mutation import check as text_check
from tests.text.mutation.check import Finding, check
from tests.text.mutation.corpus import Corpus
from tests.text.mutation.fuzz import Found, Task, TextFuzzReport, damaged, fuzz, minimal, run
from tests.text.mutation.mutations import MAX_CHARACTERS, MUTATIONS, Mutation

CORPUS = Corpus(generated=40)
TILE = "!pto.tile_buf<vec, 16x64xf32>"


@pytest.mark.slow
@pytest.mark.nightly
def test_some_hundred_damaged_programs_give_programs_or_errors_with_a_place() -> None:
    report = fuzz(CORPUS, seed=1, indices=range(300))
    assert not report.causes, str(report)
    assert all(report.verdicts[v] > 10 for v in ("accepted", "rejected", "unreadable")), report.verdicts


@pytest.mark.slow
def test_undamaged_texts_are_programs() -> None:
    for number in range(0, len(CORPUS), 9):
        assert check(CORPUS[number], number) in ("accepted", "rejected"), CORPUS[number]


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The texts that were read while garbage was collected, which happens every few objects here."""
    seen: list[str] = []

    def read(text: str, name: str) -> Program:
        here.append(text)
        try:
            return parse(text, name)
        finally:
            here.pop()

    def note(phase: str, info: dict[str, int]) -> None:
        seen.extend(here)

    here: list[str] = []
    monkeypatch.setattr(text_check, "parse", read)
    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(5, 1, 1)
    yield seen
    gc.set_threshold(*before)
    gc.callbacks.remove(note)


def test_the_time_of_a_text_has_no_collection_of_garbage_in_it(collections: list[str]) -> None:
    text = f"%x = tabs %y : {TILE}\n"
    assert check(text) == "accepted" and not collections and gc.isenabled()
    vars(text_check)["parse"](text, "x.pto")
    assert collections


@pytest.mark.parametrize("mutation", list(dict.fromkeys(MUTATIONS)))
def test_every_mutation_changes_texts_and_takes_any(mutation: Mutation) -> None:
    rng = random.Random(5)
    text, other = CORPUS[0], CORPUS[4]
    assert sum(mutation(rng, text, other) != text for _ in range(20)) > 5
    for odd in ("", "\n", "%", "((((", '"', "\ud800"):
        for _ in range(20):
            assert len(mutation(rng, odd, odd)) < MAX_CHARACTERS


def test_inputs_depend_on_seed_and_number_only() -> None:
    again = Corpus(generated=40)
    assert [damaged(CORPUS, 3, n) for n in range(20)] == [damaged(again, 3, n) for n in range(20)]
    assert damaged(CORPUS, 3, 0) != damaged(CORPUS, 4, 0)


def test_a_planted_crash_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Program, profile: str, **options: Any) -> list[Diagnostic]:
        if any(op.name == "tmul" for op in program.walk()):
            raise KeyError("planted")
        return verify(program, profile, **options)

    monkeypatch.setattr(text_check, "verify", broken)
    text = f"// a\n%x = tabs %y : {TILE}\n%d = tmul %a, %b : {TILE}\n%e = tadd %d, %b : {TILE}\n"
    found = check(text)
    assert isinstance(found, Finding) and found.kind == "KeyError"
    small = minimal(text, found, 0)
    assert "tmul" in small and "tadd" not in small and len(small) < len(text) / 2
    report = TextFuzzReport()
    for index in (7, 3, 5):
        single = TextFuzzReport()
        single.add(Found(index, found, small))
        report.merge(single)
    assert report.causes[found.cause] == 3 and report.first[found.cause].index == 3
    assert "3 findings of 1 causes" in str(report) and repr(small) in str(report)


@pytest.mark.slow
@pytest.mark.nightly
def test_worker_processes_find_the_same() -> None:
    indices = range(100, 130)
    report = run(Task(2, indices, 40, ()), jobs=2, block=15)
    assert report.verdicts == fuzz(CORPUS, 2, indices).verdicts
    assert "30 inputs" in str(report) and "0 findings" in str(report)


def test_slow_texts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(text: str, file: str) -> object:
        while True:
            pass

    monkeypatch.setattr(text_check, "parse", slow)
    monkeypatch.setattr(text_check, "SECONDS", 0.02)
    found = check("tabs %a")
    assert isinstance(found, Finding) and found.kind == "slow"


# -- what the fuzz found -------------------------------------------------------------------------------


def test_a_window_written_to_a_view_is_a_finding_not_a_crash() -> None:
    text = f"""func.func @f(%x: !pto.ptr<f32>, %t: {TILE}) {{
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %v = pto.make_tensor_view %x, shape = [%c16], strides = [%c16] : !pto.tensor_view<?xf32>
  %w = pto.partition_view %v, offsets = [%c0], sizes = [%c16]
    : !pto.tensor_view<?xf32> -> !pto.partition_tensor_view<16xf32>
  pto.subview ins(%t : {TILE}) outs(%w : !pto.partition_tensor_view<16xf32>)
  return
}}"""
    assert any(d.severity == "error" for d in verify(parse(text), level=3))


def test_types_left_open_in_an_instruction_without_sources_are_findings() -> None:
    found = verify(parse("%d = pto.tci %t, %p : () -> pto.tile<f32, 1, 8>"))
    assert ["%t" in d.message or "%p" in d.message for d in found][-2:] == [True, True]


@pytest.mark.parametrize("spelling", ["vec, 8x8x{}", "{}, 8, 8", "loc=vec, dtype={}, rows=8, cols=8"])
@pytest.mark.parametrize("element", ["i1", "index"])
def test_no_spelling_of_a_tile_takes_elements_that_tiles_do_not_hold(spelling: str, element: str) -> None:
    with pytest.raises(ParseError, match="tiles hold numbers"):
        parse(f"%t = pto.alloc_tile : !pto.tile_buf<{spelling.format(element)}>")


def test_too_many_elements_in_total_have_a_place() -> None:
    text = f"%a = pto.alloc_tile : {TILE}\n%t = pto.alloc_tile : !pto.tile_buf<vec, 65536x65536xf32>"
    (found,) = [d for d in verify(parse(text)) if d.rule == "limits"]
    assert found.span is not None and found.span.line == 2
    assert parse(print_program(parse(text))) == parse(text)


def test_an_empty_region_that_is_nested_too_deep_has_a_place() -> None:
    (found,) = verify(parse("scf.if %q {\n" * 64 + "}\n" * 64))
    assert found.rule == "limits" and found.span is not None and found.span.line == 64


@pytest.mark.parametrize("address", ["i32", "index", "!pto.tile<f32, 8, 8>", "i64"])
def test_the_type_of_an_address_is_printed_where_it_is_not_i64(address: str) -> None:
    program = parse(f"%d = pto.tassign %t, %a : {TILE}, {address}")
    printed = print_program(program)
    assert parse(printed) == program
    assert (", i64" in printed) is False


def test_a_module_that_ends_after_its_brace_is_an_error_with_a_place() -> None:
    with pytest.raises(ParseError, match="got end of text"):
        parse('module attributes {pto.target_arch = "a5"} {')


@pytest.mark.parametrize(
    "body", ["vec, 1x{}xf32", "f32, {}, 1", "f32, 8, 8, v_row={}", "f32, 8, 8, valid={}x8"]
)
def test_no_spelling_of_a_tile_takes_a_size_of_more_than_31_bits(body: str) -> None:
    with pytest.raises(ParseError, match="2147483647"):
        parse(f"%t = pto.alloc_tile : !pto.tile_buf<{body.format(1 << 31)}>")


def test_a_chain_of_dimensions_without_an_end_is_read_quickly() -> None:
    found = check("%d = tabs %a : !pto.tile<" + "f320" + "x1" * 200 + ">")
    assert found == "unreadable"
    assert parse("%d = tabs %a : !pto.tile<MxNxdtype>").fragment
