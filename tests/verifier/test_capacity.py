"""Tiles that a tool places fit on chip together, by the lifetimes that follow from the program."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest

from pto_jax.api import parse
from pto_jax.errors import Diagnostic
from pto_jax.profiles import profile
from pto_jax.verifier.programs import Build, verify_program

KIB = 1024


def tile_type(kib: int, rows: int = 8, loc: str = "vec") -> str:
    """A tile of f32 that takes so many KiB."""
    return f"!pto.tile_buf<{loc}, {rows}x{kib * KIB // 4 // rows}xf32>"


def program(body: str, others: str = "", arch: str = "a3") -> str:
    return f"""module attributes {{pto.target_arch = "{arch}"}} {{
  {others}
  func.func @k(%x: !pto.ptr<f32>, %flag: i1) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    {body}
    return
  }}
}}"""


def allocs(kib: int, *names: str, loc: str = "vec") -> str:
    return "\n    ".join(f"%{n} = pto.alloc_tile : {tile_type(kib, loc=loc)}" for n in names)


def fill(kib: int, *names: str) -> str:
    t = tile_type(kib)
    return "\n    ".join(f"pto.texpands ins(%one : f32) outs(%{n} : {t})" for n in names)


def add(kib: int, a: str, b: str, c: str) -> str:
    t = tile_type(kib)
    return f"pto.tadd ins(%{a}, %{b} : {t}, {t}) outs(%{c} : {t})"


ONE = "%one = arith.constant 1.0 : f32"


def capacity(text: str, name: str = "a2a3", level: int | None = None) -> list[Diagnostic]:
    found = verify_program(parse(text), profile(name), build=Build(level))
    assert {d.rule for d in found if d.severity == "error"} <= {"capacity"}, [str(d) for d in found]
    return [d for d in found if d.rule == "capacity"]


def needed(found: Sequence[Diagnostic]) -> int:
    (one,) = found
    size = re.search(r"take (\d+) bytes", one.message)
    assert size is not None
    return int(size[1])


def test_the_message_names_the_tiles_alive_their_sum_the_capacity_and_a_way_out() -> None:
    text = program(
        "\n    ".join((ONE, allocs(100, "a", "b", "c"), fill(100, "a", "b"), add(100, "a", "b", "c")))
    )
    (found,) = capacity(text)
    assert found.instruction == "tadd"
    assert f"take {200 * KIB} bytes of the vec buffer: %a {100 * KIB} (" in found.message
    assert f"%b {100 * KIB} (" in found.message and "%c" not in found.message
    assert f"allowed on a2a3: {192 * KIB}" in found.message and "1/2 of the rows" in found.message


@pytest.mark.parametrize(("name", "fits"), [("a2a3", False), ("a5", True), ("cpu_sim", True)])
def test_capacity_is_that_of_the_profile(name: str, fits: bool) -> None:
    text = program("\n    ".join((ONE, allocs(100, "a", "b"), fill(100, "a", "b"), add(100, "a", "b", "a"))))
    assert (capacity(text, name) == []) == fits


@pytest.mark.parametrize("level", [None, 1, 2])
def test_every_level_at_which_a_tool_places_tiles_is_checked(level: int | None) -> None:
    text = program("\n    ".join((ONE, allocs(100, "a", "b"), fill(100, "a", "b"), add(100, "a", "b", "a"))))
    assert needed(capacity(text, level=level)) == 200 * KIB


def test_tiles_with_addresses_are_not_counted() -> None:
    body = [ONE, "%z = arith.constant 0 : i64"]
    body += [f"%{n} = pto.alloc_tile addr = %z : {tile_type(100)}" for n in "ab"]
    text = program("\n    ".join((*body, fill(100, "a"), fill(100, "b"), add(100, "a", "b", "a"))))
    assert capacity(text) == []


def test_a_tile_is_alive_from_its_first_write_to_its_last_read() -> None:
    names = [f"t{i}" for i in range(8)]
    steps = [ONE, allocs(100, *names), fill(100, "t0")]
    steps += [add(100, a, a, b) for a, b in pairwise(names)]
    assert capacity(program("\n    ".join(steps))) == []
    assert needed(capacity(program("\n    ".join((*steps, add(100, "t0", "t7", "t1")))))) == 200 * KIB


def test_a_destination_takes_the_place_of_a_source_that_ends() -> None:
    text = program(
        "\n    ".join(
            (ONE, allocs(100, "a", "b"), fill(100, "a"), add(100, "a", "a", "b"), add(100, "b", "b", "b"))
        )
    )
    assert capacity(text) == []


def test_windows_reshapes_and_casts_keep_their_tile_alive() -> None:
    t = tile_type(100)
    views = {
        "treshape": f"%v = pto.treshape %a : {t} -> !pto.tile_buf<vec, 16x1600xf32>",
        "bitcast": f"%v = pto.bitcast %a : {t} -> !pto.tile_buf<vec, 8x3200xi32>",
        "subview": f"%v = pto.subview %a[%c0, %c0] sizes [8, 32] : {t} -> !pto.tile_buf<vec, 8x32xf32>",
    }
    for name, view in views.items():
        made = re.findall(r"-> (.*)$", view)[0]
        use = f"pto.tneg ins(%v : {made}) outs(%v : {made})"
        body = [ONE, allocs(100, "a", "b"), fill(100, "a"), view, fill(100, "b"), add(100, "b", "b", "b")]
        assert capacity(program("\n    ".join(body))) == [], name
        assert needed(capacity(program("\n    ".join((*body, use))))) == 200 * KIB, name


def test_a_tile_that_a_loop_reads_is_alive_in_all_of_it() -> None:
    inner = "\n".join((fill(100, "b"), add(100, "b", "b", "b")))

    def body(first: str, last: str) -> str:
        return program(
            "\n    ".join(
                (
                    ONE,
                    allocs(100, "a", "b"),
                    fill(100, "a"),
                    "scf.for %i = %c0 to %c4 step %c1 {",
                    first,
                    inner,
                    last,
                    "}",
                )
            )
        )

    assert needed(capacity(body(add(100, "a", "a", "a"), ""))) == 200 * KIB
    assert capacity(body("", "")) == []
    assert capacity(body(fill(100, "a"), "")) == []


def test_branches_do_not_live_at_the_same_time() -> None:
    def branch(name: str) -> str:
        return "\n".join((allocs(150, name), fill(150, name), add(150, name, name, name)))

    text = program("\n    ".join((ONE, "scf.if %flag {", branch("a"), "} else {", branch("b"), "}")))
    assert capacity(text) == []
    same = program("\n    ".join((ONE, "scf.if %flag {", branch("a"), "} else {", branch("a"), "}")))
    assert capacity(same) == []


def test_what_a_called_function_needs_comes_on_top() -> None:
    t = tile_type(100)
    helper = f"""func.func @h(%p: {t}) {{
    {ONE}
    {allocs(100, "q")}
    {fill(100, "q")}
    {add(100, "p", "q", "p")}
    return
  }}"""
    call = f"func.call @h(%a) : ({t}) -> ()"
    text = program(
        "\n    ".join((ONE, allocs(100, "a"), fill(100, "a"), call, add(100, "a", "a", "a"))), helper
    )
    (found,) = capacity(text)
    assert needed([found]) == 200 * KIB and "%q" in found.message and "%a" in found.message
    assert capacity(program(ONE, helper)) == []


def test_all_slots_of_a_multi_tile_are_alive_while_one_is() -> None:
    t = tile_type(50)

    def text(count: int) -> str:
        return program(
            "\n    ".join(
                (
                    ONE,
                    f"%m = pto.alloc_multi_tile : !pto.multi_tile_buf<{t}, count={count}>",
                    f"%s = pto.multi_tile_get %m[%c1] : !pto.multi_tile_buf<{t}, count={count}> -> {t}",
                    fill(50, "s"),
                    add(50, "s", "s", "s"),
                )
            )
        )

    assert capacity(text(3)) == []
    assert needed(capacity(text(4))) == 200 * KIB
