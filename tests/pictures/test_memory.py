"""Pictures of on-chip memory agree with the rule on capacity, and show reuse, overflow and loops."""

import re

import pytest

import pto_jax as pto
from pto_jax.analysis.resolve import resolve
from pto_jax.examples import EXAMPLES, example
from pto_jax.pictures import memory
from pto_jax.pictures.memory import Plot, _plots
from pto_jax.profiles import PROFILE_NAMES, profile, profile_of_program
from pto_jax.verifier.capacity import needs
from tests.verifier.test_capacity import ONE, add, allocs, capacity, fill, needed, program

FITS = program(
    "\n    ".join(
        [
            ONE,
            allocs(64, "a", "b", "c", "d"),
            fill(64, "a", "b"),
            add(64, "a", "b", "c"),
            add(64, "c", "b", "d"),
        ]
    )
)
OVER = program(
    "\n    ".join(
        [
            ONE,
            allocs(64, "a", "b", "c", "d"),
            fill(64, "a", "b", "c", "d"),
            add(64, "a", "b", "d"),
            add(64, "d", "c", "d"),
            add(64, "a", "d", "d"),
        ]
    )
)
LOOP = program(
    f"""{ONE}
    {allocs(8, "a", "b")}
    scf.for %i = %c0 to %c4 step %c1 {{
      {fill(8, "a")}
      scf.for %j = %c0 to %c4 step %c1 {{
        {add(8, "a", "a", "b")}
      }}
    }}"""
)


def plots(text: str, name: str = "a2a3") -> list[Plot]:
    parsed = pto.parse(text)
    resolved = resolve(parsed, profile(name))
    return [plot for f in resolved.program.functions for plot in _plots(resolved, profile(name), f)]


def test_bars_do_not_overlap_and_stay_within_what_the_rule_needs() -> None:
    (plot,) = plots(FITS)
    for i, bar in enumerate(plot.bars):
        for other in plot.bars[:i]:
            apart = bar.end <= other.start or other.end <= bar.start
            assert apart or not bar.meets(other), (bar.tile.name, other.tile.name)
    assert max(bar.end for bar in plot.bars) == max(plot.needed) == 128 * 1024
    picture = memory(pto.parse(FITS))
    assert "vec 128 of 192 KiB" in picture.label and "bytes used again" in picture.svg
    assert "beyond the capacity" not in picture.svg


def test_too_much_is_red_with_the_numbers_of_the_rule() -> None:
    (found,) = [d for d in pto.verify(pto.parse(OVER)) if d.severity == "error"]
    assert found.span is not None and needed(capacity(OVER)) == 256 * 1024
    picture = memory(pto.parse(OVER))
    assert f">256 of 192 KiB at line {found.span.line}<" in picture.svg
    assert 'class="over"' in picture.svg and "beyond the capacity" in picture.svg
    assert "256 of 256 KiB" in memory(pto.parse(OVER.replace("a3", "a5"))).label


def test_another_profile_has_another_capacity() -> None:
    assert "256 of 256 KiB" in memory(pto.parse(OVER), "a5").label
    assert "256 of 512 KiB" in memory(pto.parse(OVER), profile="cpu_sim").label


def test_one_tile_beyond_its_memory_and_an_address_beyond_it_are_drawn() -> None:
    large = program("\n    ".join([ONE, allocs(256, "a"), fill(256, "a")]))
    assert "256 of 192 KiB" in memory(pto.parse(large)).label
    address = "%at = arith.constant 131072 : i64\n    "
    placed = program("\n    ".join([ONE, address, allocs(128, "a"), fill(128, "a")]))
    placed = placed.replace("alloc_tile :", "alloc_tile addr = %at :")
    picture = memory(pto.parse(placed))
    assert (
        re.search(r">256 of 192 KiB at line \d+<", picture.svg) and "addresses of the program" in picture.svg
    )
    assert "bytes 131072 to 262143" in picture.svg


def test_loops_are_brackets_by_depth() -> None:
    (plot,) = plots(LOOP)
    assert [(first, last, depth) for first, last, _, depth in plot.loops] == [(0, 1, 0), (1, 1, 1)]
    assert memory(pto.parse(LOOP)).svg.count(">loop") == 2


def test_a_destination_takes_the_place_of_a_source_in_the_middle_of_an_operation() -> None:
    (plot,) = plots(FITS)
    spans = {bar.tile.name: bar.spans for bar in plot.bars}
    assert spans["a"][-1][1] == spans["c"][0][0] and spans["a"][-1][1] % 2 == 1


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_fit_and_show_every_tile(name: str) -> None:
    parsed = pto.load(example(name).path)
    picture = memory(parsed)
    assert "beyond the capacity" not in picture.svg
    target = profile_of_program(parsed)
    resolved = resolve(parsed, target)
    for function in resolved.program.functions:
        lifetimes, found = needs(resolved, target, function)
        used = {tile.name for need in found for tile in lifetimes.listed(need.used)}
        assert all(f"%{tile}: " in picture.svg for tile in used), function.name


def test_kernels_have_the_picture_of_their_program() -> None:
    kernel = pto.compile(pto.load(example("vector_add").path), profile="a5")
    assert memory(kernel).label == "on-chip memory of @vector_add on a5: vec 32 of 256 KiB"
    assert memory(kernel, "cpu_sim").label.endswith("of 512 KiB")


def test_scratch_slots_and_calls_are_hatched() -> None:
    called = memory(pto.load(example("softmax").path)).svg
    assert re.search(r"scratch of \w+ \d+", called) and "pipe slots, scratch, calls" in called


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_fragments_have_their_results(name: str) -> None:
    text = "%c = tadd %a, %b : !pto.tile<16x16xf32>\n%d = tneg %c : !pto.tile<16x16xf32>"
    assert "vec 2 of" in memory(pto.parse(text), name).label


def test_bad_input_is_one_error() -> None:
    wrong = "%c = tadd %a, %b : (!pto.tile<f16, 16, 64>, !pto.tile<f32, 16, 64>) -> !pto.tile<f32, 16, 64>"
    with pytest.raises(pto.VerifyError, match="src0 has element type f16"):
        memory(pto.parse(wrong))
    with pytest.raises(pto.ArgumentError, match="unknown profile 'a9'"):
        memory(pto.parse(FITS), "a9")
    with pytest.raises(pto.ArgumentError, match="got a str; allowed: a program or a kernel"):
        memory("x.pto")
    with pytest.raises(pto.ArgumentError, match="without operations"):
        memory(pto.Program(()))
    with pytest.raises(pto.ArgumentError, match="without tiles"):
        memory(
            pto.parse(
                "func.func @f(%n: index) attributes {pto.entry} { %m = arith.addi %n, %n : index return }"
            )
        )
