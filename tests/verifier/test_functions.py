"""Functions, kernels, levels, and the handles that see the bytes of other tiles."""

from collections.abc import Callable

import pytest

from pto_jax.api import parse, verify
from pto_jax.errors import ArgumentError, Diagnostic
from pto_jax.ir import Function, Op, Program, Region

Check = Callable[..., list[Diagnostic]]
T = "!pto.tile_buf<vec, 16x64xf32>"
HELPER = "func.func private @inc(%a: i32) -> i32 { %r = arith.addi %a, %a : i32 return %r : i32 }"


def rules(found: list[Diagnostic]) -> list[str | None]:
    return [d.rule for d in found if d.severity == "error"]


def module(*functions: str) -> str:
    return "module {\n" + "\n".join(functions) + "\n}"


def entry(body: str, args: str = "%x: i32", attributes: str = "attributes {pto.entry}") -> str:
    return f"func.func @main({args}) {attributes} {{\n{body}\nreturn\n}}"


@pytest.mark.parametrize(
    ("functions", "rule"),
    [
        ((entry("%r = func.call @inc(%x) : (i32) -> i32"), HELPER), None),
        ((entry("%r = call @inc(%x) : (i32) -> i32", attributes=""), HELPER), None),
        ((entry("%r = call @inc(%x) : (i32) -> f32"), HELPER), "callee"),
        ((entry("%r = call @inc(%y) : (f32) -> i32", "%y: f32"), HELPER), "callee"),
        ((entry("call @inc(%x) : (i32) -> ()"), HELPER), "callee"),
        ((entry("call @other(%x) : (i32) -> ()"), HELPER), "callee"),
        ((HELPER,), None),
        ((HELPER.replace("-> i32 {", "-> i32 attributes {pto.kernel} {"),), "entry"),
        (("func.func private @main(i32) attributes {pto.entry}", HELPER), "entry"),
        (("func.func private @other(i32, !pto.ptr<f32>)", HELPER), None),
        ((entry("call @main(%x) : (i32) -> ()"),), "recursion"),
        (
            (HELPER.replace("%r : i32 }", "%x : f32 }").replace("%a: i32", "%a: i32, %x: f32"), entry("")),
            "return",
        ),
        (("func.func private @g(%a: i32) -> i32 { return }", entry("")), "return"),
        (("func.func private @g(%a: i32) -> i32 { }", entry("")), "return"),
    ],
)
def test_calls_and_returns(check: Check, functions: tuple[str, ...], rule: str | None) -> None:
    assert rules(check(module(*functions))) == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("body", "kind", "rule"),
    [
        ("pto.section.cube { }\npto.section.vector { }", "", None),
        ("pto.section.cube { pto.section.vector { } }", "", "kernel-kind"),
        ("pto.section.vector { }", "attributes {pto.kernel_kind = #pto.kernel_kind<cube>}", "kernel-kind"),
        ("", "attributes {pto.kernel_kind = #pto.kernel_kind<vector>}", None),
    ],
)
def test_kernels_and_sections(check: Check, body: str, kind: str, rule: str | None) -> None:
    assert rules(check(module(entry(body, attributes=kind)))) == ([rule] if rule else [])


ADDRESS = "%a = arith.constant 0 : i64\n"
PLACED = ADDRESS + f"%t = pto.alloc_tile addr = %a : {T}"
FREE = f"%t = pto.alloc_tile : {T}"
BOUND = PLACED + f"\n%u = pto.trelu %t : ({T}) -> {T}"
REBOUND = PLACED + f"\n%u = pto.tassign %t, %a : {T} -> {T}"


@pytest.mark.parametrize(
    ("body", "level", "auto_sync", "rule"),
    [
        (PLACED, None, False, None),
        (FREE, None, False, None),
        (PLACED, 3, False, None),
        (FREE, 3, False, "level"),
        (PLACED, 2, False, "level"),
        (FREE, 1, False, None),
        (BOUND, None, False, None),
        (BOUND, 3, False, "level"),
        (REBOUND, 3, False, None),
        (REBOUND, None, False, None),
        (REBOUND, 3, True, "level"),
    ],
)
def test_levels(body: str, level: int | None, auto_sync: bool, rule: str | None) -> None:
    found = verify(parse(module(entry(body))), "a5", level=level, auto_sync=auto_sync)
    assert rules(found) == ([rule] if rule else [])


def test_the_tiles_of_a_fragment_are_the_callers_at_every_level() -> None:
    for level in (1, 2, 3):
        assert rules(verify(parse(f"%d = tadd %a, %b : {T}"), "a5", level=level)) == []


def test_there_are_three_levels() -> None:
    with pytest.raises(ArgumentError, match="level: got 4; allowed: 1, 2, 3"):
        verify(parse(module(entry(FREE))), level=4)


@pytest.mark.parametrize(("auto", "rule"), [("true", None), ("false, base = 0", "manual-buffer")])
@pytest.mark.parametrize(
    "made", [FREE, BOUND, "%m = memref.alloc() : memref<16x64xf32, #pto.address_space<vec>>"]
)
def test_a_buffer_at_a_fixed_place_needs_fixed_tiles(
    check: Check, made: str, auto: str, rule: str | None
) -> None:
    buffer = f'%b = pto.reserve_buffer {{name = "f", size = 64, location = <vec>, auto = {auto}}} -> i32\n'
    kernel = "attributes {pto.kernel_kind = #pto.kernel_kind<vector>}"
    assert rules(check(module(entry(buffer + made, attributes=kernel)))) == ([rule] if rule else [])


GM = "memref<32x32xf16, #pto.address_space<gm>>"
VIEW = (
    "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c16 = arith.constant 16 : index\n"
    "%c64 = arith.constant 64 : index\n"
    "%v = pto.make_tensor_view %p, shape = [%c64, %c64], strides = [%c64, %c1] : !pto.tensor_view<2xf32>\n"
    f"%t = pto.alloc_tile : {T}\n"
)
BOXED = "!pto.tile_buf<vec, 32x32xf32, blayout=col_major, slayout=row_major>"
NARROW = "!pto.tile_buf<vec, 16x64xf32, valid=16x48>"
RECAST = (
    f"%r = memref.reinterpret_cast %g to offset: [%c0], sizes: [%c16, %c64], strides: [%c64, %c1] : {GM} to "
)
NZ = "!pto.tile_buf<mat, 32x32xf16, blayout=col_major, slayout=row_major>"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"%r = pto.treshape %t : {T} -> !pto.tile_buf<vec, 32x32xf32>", None),
        (f"%r = pto.treshape %t : {T} -> !pto.tile_buf<vec, 16x32xf32>", "alias-size"),
        (f"%r = pto.treshape %t : {T} -> !pto.tile_buf<mat, 32x32xf32>", "alias-space"),
        (
            f"%r = pto.treshape %t : {T} -> {BOXED}",
            "alias-boxes",
        ),
        (f"%r = pto.bitcast %t : {T} -> !pto.tile_buf<vec, 16x64xi32>", None),
        (f"%r = pto.bitcast %t : {T} -> {T}", "types-differ"),
        (f"%r = pto.bitcast %t : {T} -> !pto.tile_buf<vec, 16x32xi32>", "types-equal"),
        (f"%r = pto.subset %t[%c0, %c16] sizes [16, 32] : {T}", None),
        (f"%r = pto.subset %t[%c16, %c0] sizes [16, 32] : {T}", "window"),
        (f"%r = pto.subset %t[%c0] sizes [16, 32] : {T}", "window"),
        (f"%n = pto.alloc_tile : {NZ}\n%r = pto.subset %n[%c0, %c16] sizes [32, 16] : {NZ}", None),
        (f"%n = pto.alloc_tile : {NZ}\n%r = pto.subset %n[%c0, %c0] sizes [16, 16] : {NZ}", "window-boxes"),
        (f"%r = pto.subview %t, %c0, %c16 : ({T}, index, index) -> {NARROW}", None),
        (f"%r = pto.subview %t, %c16, %c0 : ({T}, index, index) -> {T}", "window"),
        ("%r = pto.subview %v, offsets = [%c0, %c16], sizes = [16, 16] : !pto.tensor_view<2xf32> -> "
         "!pto.tile_view<16x16xf32>", None),
        ("%r = pto.subview %v, offsets = [%c0, %c64], sizes = [16, 16] : !pto.tensor_view<2xf32> -> "
         "!pto.tile_view<16x16xf32>", "window"),
        ("%r = memref.alloc() : memref<4x16x16xf16, #pto.address_space<vec>>", None),
        ("%r = memref.alloc() : memref<64x64x64xf16, #pto.address_space<vec>>", "local-memref"),
        (f"%r = memref.alloc() : {GM}", "local-memref"),
        ("%r = memref.alloc() : memref<16x16xf16, #pto.address_space<vec>>\n"
         "memref.dealloc %r : memref<16x16xf16, #pto.address_space<vec>>", None),
        (RECAST + "memref<16x64xf16, strided<[64, 1], offset: ?>, #pto.address_space<gm>>", None),
        (RECAST + "memref<16x16xf16, strided<[64, 1], offset: ?>, #pto.address_space<gm>>", "extents"),
        ("%r = pto.get_block_idx\n%s = pto.get_block_num\n%q = pto.get_subblock_idx\n"
         "%u = pto.get_subblock_num\n"
         "%w = arith.addi %r, %s : i64", None),
        ('pto.print ins("%d", %c0 : index)\npto.trap', None),
    ],
)  # fmt: skip
def test_handles(check: Check, text: str, rule: str | None) -> None:
    body = module(entry(VIEW + text, f"%p: !pto.ptr<f32>, %g: {GM}"))
    assert rules(check(body)) == ([rule] if rule else [])


def test_a_fragment_needs_no_entry() -> None:
    program = Program((Function("fragment", (), Region((Op("return"),))),), fragment=True)
    assert verify(program) == []


def test_a_name_belongs_to_one_function() -> None:
    function = Function("f", (), Region((Op("return"),)), private=True)
    assert rules(verify(Program((function, function)))) == ["function"]


FIFO = '{name = "q", size = 4096, location = #pto.address_space<vec>, auto = true} -> i32'
IMPORT = '%q = pto.import_reserved_buffer {name = "q", peer_func = @peer} -> i32'
NAMED = 'func.func public @{}() attributes {{pto.ptodsl.logical_name = "helper"}} {{ return }}'


@pytest.mark.parametrize(
    ("body", "inner", "backend", "found"),
    [
        (IMPORT, "", "emitc", []),
        (IMPORT, "func.call @low() : () -> () ", "emitc", ["back-end"]),
        (IMPORT, "func.call @low() : () -> () ", "vpto", []),
        ("func.call @one() : () -> () ", "", "emitc", []),
        ("func.call @one() : () -> () func.call @two() : () -> () ", "", "emitc", ["back-end"]),
        ("func.call @one() : () -> () func.call @two() : () -> () ", "", "vpto", []),
    ],
)
def test_child_modules_of_two_back_ends(body: str, inner: str, backend: str, found: list[str]) -> None:
    """A peer is taken over without what it calls; wrappers have the logical names of functions."""
    helpers = NAMED.format("one") + NAMED.format("two")
    first = (
        f'module attributes {{pto.backend = "{backend}"}} {{ func.func @f() {{ {body} return }} {helpers} }}'
    )
    low = 'module attributes {pto.backend = "vpto"} { func.func public @low() { return } '
    peer = f"func.func public @peer() {{ {inner} %b = pto.reserve_buffer {FIFO} return }} }}"
    diagnostics = verify(parse(f"module {{ {first} {low} {peer} }}"), "a5")
    assert [d.rule for d in diagnostics if d.severity == "error"] == found


@pytest.mark.parametrize(
    "text", ['{pto.backend = "other"} {%s}', "{} {module attributes {pto.backend = 1} {%s}}"]
)
def test_a_back_end_is_one_that_the_assembler_has(text: str) -> None:
    program = parse("module attributes " + text % "func.func @f() { return }")
    (error,) = verify(program, "a5")
    assert error.rule == "back-end" and "allowed: emitc, vpto" in error.message
