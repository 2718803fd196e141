"""Tiles that are read although nothing has written them, and kernels that store nothing."""

import pytest

from pto_jax.api import load, parse, verify
from pto_jax.errors import Diagnostic
from pto_jax.examples import EXAMPLES

T = "!pto.tile_buf<vec, 16x64xf32>"
W = "!pto.partition_tensor_view<16x64xf32>"
HEAD = f"""
func.func @f(%w: {W}, %given: {T}, %n: index, %c: i1, %x: i64) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %a0 = arith.constant 0 : i64
  %one = arith.constant 1.0 : f32
  %a = pto.alloc_tile : {T}
  %b = pto.alloc_tile : {T}
"""
RULES = ("unwritten", "stores-nothing")


def load_(tile: str) -> str:
    return f"pto.tload ins(%w : {W}) outs(%{tile} : {T})\n"


def neg(dst: str, src: str) -> str:
    return f"pto.tneg ins(%{src} : {T}) outs(%{dst} : {T})\n"


def store(tile: str) -> str:
    return f"pto.tstore ins(%{tile} : {T}) outs(%w : {W})\n"


def loop(body: str, trips: str = "%n") -> str:
    return f"scf.for %i = %c0 to {trips} step %c1 {{\n{body}}}\n"


def found(body: str, after: str = "") -> list[Diagnostic]:
    text = f"module {{\n{HEAD}{body}return\n}}\n{after}}}"
    return [d for d in verify(parse(text, "p.pto"), "a5") if d.rule in RULES]


AT = "%{} = pto.alloc_tile addr = {} : " + T + "\n"
WRITTEN = {
    "a load": load_("a") + store("a"),
    "an argument": store("given"),
    "through another handle": f"%h = pto.bitcast %a : {T} -> {T}\n" + load_("h") + store("a"),
    "through a window": f"%h = pto.subset %a[%c0, %c0] sizes [16, 16] : {T}\n"
    "pto.tneg ins(%h : !pto.tile_buf<vec, 16x16xf32>) outs(%h : !pto.tile_buf<vec, 16x16xf32>)\n".replace(
        "tneg ins(%h", "tneg ins(%g"
    ).replace("pto.tneg", f"%g = pto.subset %given[%c0, %c0] sizes [16, 16] : {T}\npto.tneg")
    + store("a"),
    "at the same address": AT.format("p", "%a0") + AT.format("q", "%a0") + load_("p") + store("q"),
    "at an address that only execution knows": AT.format("p", "%x") + store("p"),
    "on one path": f"scf.if %c {{\n{load_('a')}}}\n" + store("a"),
    "in a loop that may not run": loop(load_("a")) + store("a"),
    "one element": "pto.tsetval ins(%c0, %one : index, f32) outs(%a : " + T + ")\n" + store("a"),
    "as a window that an insertion fills": f"pto.tinsert ins(%given, %c0, %c0 : {T}, index, index) "
    f"outs(%a : {T})\n" + store("a"),
    "by scattered elements": f"%j = pto.alloc_tile : {T.replace('f32', 'i32')}\n"
    + f"%k = pto.bitcast %given : {T} -> {T.replace('f32', 'i32')}\n"
    + f"pto.tscatter ins(%given, %k : {T}, {T.replace('f32', 'i32')}) outs(%a : {T})\n"
    + store("a"),
    "by gathered blocks": f"%u = pto.bitcast %given : {T} -> {T.replace('f32', 'ui32')}\n"
    + f"pto.tgatherb ins(%given, %u : {T}, {T.replace('f32', 'ui32')}) outs(%a : {T})\n"
    + store("a"),
    "in an earlier trip": load_("b") + loop(f"scf.if %c {{\n{neg('b', 'a')}}}\n" + load_("a")) + store("b"),
    "through a carried handle": f"%r = scf.for %i = %c0 to %n step %c1 iter_args(%h = %a) -> ({T}) {{\n"
    + load_("h")
    + f"scf.yield %h : {T}\n}}\n"
    + store("a"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_tiles_that_some_path_writes_are_not_reported(name: str) -> None:
    assert [str(d) for d in found(WRITTEN[name])] == []


UNWRITTEN = {
    "at once": neg("b", "a") + store("b"),
    "written later": neg("b", "a") + load_("a") + store("b"),
    "in place": neg("a", "a") + store("a"),
    "stored": store("a"),
    "through another handle": f"%h = pto.bitcast %a : {T} -> {T}\n" + store("h"),
    "in a loop": loop(store("a")),
    "at another address": AT.format("p", "%a0") + load_("p") + store("a"),
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_a_tile_that_no_path_has_written_is_reported_once(name: str) -> None:
    (finding,) = found(UNWRITTEN[name])
    assert (finding.severity, finding.rule) == ("warning", "unwritten")
    assert "which nothing has written before" in finding.message and finding.span is not None


def test_an_accumulator_is_read_by_what_adds_to_it() -> None:
    left = "!pto.tile_buf<left, 16x16xf16, blayout=col_major, slayout=row_major>"
    right = "!pto.tile_buf<right, 16x16xf16, slayout=col_major>"
    acc = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
    head = f"func.func @g(%l: {left}, %r: {right}, %o: {acc}) {{\n%a = pto.alloc_tile : {acc}\n"
    first = f"pto.tmatmul ins(%l, %r : {left}, {right}) outs(%a : {acc})\n"
    more = f"pto.tmatmul.acc ins(%a, %l, %r : {acc}, {left}, {right}) outs(%a : {acc})\n"
    for body, rules in ((first + more, []), (more, ["unwritten"])):
        program = parse(f"{head}{body}return\n}}")
        assert [d.rule for d in verify(program, "a5") if d.rule in RULES] == rules


def test_calls_are_followed() -> None:
    helper = f"func.func private @h(%s: {T}, %d: {T}) {{\n{neg('d', 's')}return\n}}\n"
    call = f"func.call @h(%a, %b) : ({T}, {T}) -> ()\n"
    assert found(load_("a") + call + store("b"), helper) == []
    assert [d.rule for d in found(call + store("b"), helper)] == ["unwritten"]


@pytest.mark.parametrize(
    ("body", "silent"),
    [
        (load_("a") + neg("b", "a"), False),
        (load_("a"), False),
        (load_("a") + store("a"), True),
        (load_("a") + f"scf.if %c {{\n{store('a')}}}\n", True),
        ("", True),
    ],
)
def test_a_kernel_that_stores_nothing_is_named(body: str, silent: bool) -> None:
    listed = found(body)
    assert [d.rule for d in listed] == ([] if silent else ["stores-nothing"])
    assert silent or "@f stores to no argument, so that its result is empty" in listed[0].message


def test_a_tile_argument_is_no_result() -> None:
    (finding,) = found(load_("a") + neg("given", "a"))
    assert finding.rule == "stores-nothing"
    assert "@f writes its argument %given and stores nothing" in finding.message
    assert finding.message.endswith("allowed: a store into one of its buffers")
    assert found(load_("a") + neg("given", "a") + store("given")) == []
    for mark in ("", " attributes {pto.entry}"):
        alone = parse(f"func.func @g(%t: {T}){mark} {{\n{neg('t', 't')}return\n}}")
        assert not [d for d in verify(alone, "a5") if d.rule in RULES]


def test_shipped_examples_store_what_they_compute() -> None:
    for example in EXAMPLES.values():
        listed = [str(d) for d in verify(load(example.path)) if d.rule in (*RULES, "hazard", "token")]
        assert listed == [], example.name
