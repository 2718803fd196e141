"""Whole programs: definitions, functions, allocation, views, limits."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pto_jax.errors import Diagnostic
from pto_jax.ir import F32, Function, Op, Program, Region, TileType, Value
from pto_jax.profiles import profile
from pto_jax.verifier.programs import Limits, verify_program

Check = Callable[..., list[Diagnostic]]
T = "!pto.tile_buf<vec, 16x64xf32>"
DYNAMIC = "!pto.tile_buf<vec, 16x64xf32, valid=?x?>"
INDICES, ADDRESSES = (0, 1, 2, 16, 17, 32, 48, 60, 64, 65), (0, 16, 32, 2048, 4096, 196608)
CONSTANTS = "\n".join(
    [
        *(f"%c{n} = arith.constant {n} : index" for n in INDICES),
        *(f"%a{n} = arith.constant {n} : i64" for n in ADDRESSES),
    ]
)


def function(body: str, args: str = "%p: !pto.ptr<f32>", name: str = "f", attributes: str = "") -> str:
    return f"func.func @{name}({args}) {attributes} {{\n{CONSTANTS}\n{body}\nreturn\n}}"


def module(*functions: str) -> str:
    return "module {\n" + "\n".join(functions) + "\n}"


def rules(found: list[Diagnostic], severity: str = "error") -> list[str | None]:
    return [d.rule for d in found if d.severity == severity]


def alloc(text: str) -> str:
    return module(function(f"%t = pto.alloc_tile {text}"))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f": {T}", None),
        (f"addr = %a4096 : {T}", None),
        (f"addr = %a4096 valid_row = %c16 valid_col = %c60 : {DYNAMIC}", None),
        (f"addr = %a16 : {T}", "address-aligned"),
        (f"addr = %a196608 : {T}", "address-range"),
        (f"valid_row = %c16 : {DYNAMIC}", "valid-operands"),
        ("valid_row = %c16 valid_col = %c64 : !pto.tile_buf<vec, 16x64xf32, valid=?x64>", "valid-operands"),
        (f"valid_row = %c17 valid_col = %c64 : {DYNAMIC}", "valid-range"),
        (": !pto.tile_buf<vec, 16x1xf32>", "tile-alignment"),
        (": !pto.tile_buf<vec, 16x1xf32, blayout=col_major>", None),
        (": !pto.tile_buf<vec, 4x8xf32, blayout=col_major>", "tile-alignment"),
        (": !pto.tile_buf<vec, 16x64xf32, valid=17x64>", "tile-valid"),
        (": !pto.tile_buf<vec, 1024x64xf32>", "tile-capacity"),
        (": !pto.tile_buf<mat, 32x24xf16, blayout=col_major, slayout=row_major>", "tile-boxes"),
        (": !pto.tile_buf<mat, 24x32xf16, blayout=col_major, slayout=row_major>", "tile-boxes"),
        (": !pto.tile_buf<vec, 24x32xf16, blayout=col_major, slayout=row_major>", None),
        (": !pto.tile_buf<vec, 24x32xf16, blayout=row_major, slayout=row_major>", "tile-boxes"),
        (": !pto.tile_buf<vec, 8x32xf16, blayout=row_major, slayout=row_major>", None),
        (": !pto.tile_buf<vec, 1x32xf16, blayout=row_major, slayout=col_major>", "tile-boxes"),
        (": !pto.tile_buf<vec, 24x32xf16, blayout=col_major, slayout=col_major>", "tile-boxes"),
        (": !pto.tile_buf<mat, 32x32xf16, fractal=256>", "tile-fractal"),
        (": !pto.tile_buf<vec, 16x64xf8E4M3>", "type-exists"),
    ],
)
def test_allocations(check: Check, text: str, rule: str | None) -> None:
    assert rules(check(alloc(text))) == ([rule] if rule else [])


def test_constants_are_folded_but_never_guessed(check: Check) -> None:
    body = f"%x = arith.addi %a2048, %a16 : i64\n%t = pto.alloc_tile addr = %x : {T}"
    assert rules(check(module(function(body)))) == ["address-aligned"]
    unknown = f"%t = pto.alloc_tile addr = %x : {T}"
    assert check(module(function(unknown, "%x: i64"))) == []


def test_partial_overlaps_name_both_places(check: Check) -> None:
    body = f"%t = pto.alloc_tile addr = %a0 : {T}\n%u = pto.alloc_tile addr = %a2048 : {T}"
    fills = "\n".join(f"pto.texpands ins(%one : f32) outs(%{n} : {T})" for n in "tu")
    reads = {n: f"pto.tadds ins(%{n}, %one : {T}, f32) outs(%{n} : {T})" for n in "tu"}
    one = "%one = arith.constant 1.0 : f32"

    def found_in(*lines: str) -> list[Diagnostic]:
        findings = check(module(function("\n".join((one, *lines)))))
        return [d for d in findings if d.rule == "overlap"]

    (found,) = found_in(body, fills, reads["t"])
    assert (found.severity, found.rule, found.instruction) == ("warning", "overlap", "texpands")
    assert "%u at bytes [2048, 6144)" in found.message and "%t at [0, 4096)" in found.message
    assert "p.pto:" in found.message and found.span is not None
    assert found_in(body) == found_in(body, fills, reads["u"]) == []
    assert found_in(body, fills.splitlines()[0], reads["t"], fills.splitlines()[1], reads["u"]) == []
    view = "!pto.tile_buf<vec, 1024x1xf32, blayout=col_major>"
    same = f"%t = pto.alloc_tile addr = %a0 : {T}\n%u = pto.alloc_tile addr = %a0 : {view}"
    assert found_in(same, fills.replace(f"%u : {T}", f"%u : {view}"), reads["t"]) == []
    mat = "!pto.tile_buf<mat, 16x64xf32>"
    other = f"%t = pto.alloc_tile addr = %a0 : {T}\n%u = pto.alloc_tile addr = %a2048 : {mat}"
    assert found_in(other, fills.replace(f"%u : {T}", f"%u : {mat}"), reads["t"]) == []


def test_shared_bytes_are_a_warning_where_a_value_is_overwritten_before_its_last_read(check: Check) -> None:
    """In loops the last read may stand before the write."""
    body = f"""%one = arith.constant 1.0 : f32
%t = pto.alloc_tile addr = %a0 : {T}
%u = pto.alloc_tile addr = %a2048 : {T}
pto.texpands ins(%one : f32) outs(%t : {T})
scf.for %i = %c0 to %c32 step %c1 {{
  pto.tadds ins(%t, %one : {T}, f32) outs(%v : {T})
  WRITE
}}"""
    body = body.replace("scf.for", f"%v = pto.alloc_tile addr = %a8192 : {T}\nscf.for")
    body = "%a8192 = arith.constant 8192 : i64\n" + body
    write = f"pto.texpands ins(%one : f32) outs(%u : {T})"
    assert "overlap" in rules(check(module(function(body.replace("WRITE", write)))), "warning")
    again = write.replace("%u", "%t")
    renewed = body.replace("WRITE", f"{write}\n{again}")
    assert "overlap" not in rules(check(module(function(renewed))), "warning")


def view(shape: str, strides: str, kind: str, extra: str = "") -> str:
    lists = f"shape = [{shape}], strides = [{strides}]{extra}"
    return f"%v = pto.make_tensor_view %p, {lists} : !pto.tensor_view<{kind}>\n"


WHOLE = view("%c32, %c64", "%c64, %c1", "?x?xf32")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (WHOLE, None),
        (view("%c32, %c64", "%c64, %c1", "32x64xf32"), None),
        (view("%c32, %c64", "%c64, %c1", "2xf32"), None),
        (view("%c32, %c64", "%c64, %c1", "32x65xf32"), "extents"),
        (view("%c32, %c64", "%c64, %c1", "?x?xf16"), "types-equal"),
        (view("%c32, %c64", "%c64", "?x?xf32"), "ranks"),
        (view("%c32, %c64, %c1", "%c64, %c1, %c1", "?x?xf32"), "ranks"),
    ],
)
def test_views(check: Check, text: str, rule: str | None) -> None:
    assert set(rules(check(module(function(text))))) == ({rule} if rule else set())


def window(offsets: str, sizes: str, kind: str) -> str:
    return (
        f"{WHOLE}%w = pto.partition_view %v, offsets = [{offsets}], sizes = [{sizes}] : "
        "!pto.tensor_view<?x?xf32> -> "
        f"!pto.partition_tensor_view<{kind}>\n"
    )


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (window("%c0, %c0", "%c16, %c64", "16x64xf32"), None),
        (window("%c16, %c0", "%c16, %c64", "16x64xf32"), None),
        (window("%c17, %c0", "%c16, %c64", "16x64xf32"), "window"),
        (window("%c0, %c1", "%c16, %c64", "?x?xf32"), "window"),
        (window("%c0, %c0", "%c16, %c60", "16x64xf32"), "extents"),
        (window("%c0", "%c16, %c64", "16x64xf32"), "ranks"),
        (window("%c0, %c0", "%c16, %c64", "16x64xi32"), "types-equal"),
    ],
)
def test_windows(check: Check, text: str, rule: str | None) -> None:
    assert set(rules(check(module(function(text))))) == ({rule} if rule else set())


def test_dimensions_of_a_view(check: Check) -> None:
    text = WHOLE + "%n = pto.get_tensor_view_dim %v, %c2 : !pto.tensor_view<?x?xf32> -> index"
    assert rules(check(module(function(text)))) == ["dimension"]
    assert check(module(function(text.replace("%c2 ", "%c1 ")))) == []


def test_an_explicit_layout_agrees_with_the_strides(check: Check) -> None:
    text = view("%c32, %c64", "%c64, %c1", "?x?xf32", " {layout = #pto.layout<dn>}")
    assert rules(check(module(function(text))), "warning") == ["view-layout"]
    column = view("%c32, %c64", "%c1, %c32", "?x?xf32", " {layout = #pto.layout<dn>}")
    assert check(module(function(column))) == []


def test_pointers_keep_their_type(check: Check) -> None:
    assert check(module(function("%q = pto.addptr %p, %c16 : !pto.ptr<f32> -> !pto.ptr<f32>"))) == []
    wrong = module(function("%q = pto.addptr %p, %c16 : !pto.ptr<f32> -> !pto.ptr<f16>"))
    assert rules(check(wrong)) == ["types-equal"]


WINDOW = window("%c0, %c0", "%c16, %c64", "16x64xf32")
VIEW_TYPE = "!pto.partition_tensor_view<16x64xf32>"


def transfer(t: str, operands: str = "") -> str:
    return (
        f"{WINDOW}%t = pto.alloc_tile {operands} : {t}\npto.tload ins(%w : {VIEW_TYPE}) outs(%t : {t})\n"
        f"pto.tstore ins(%t : {t}) outs(%w : {VIEW_TYPE})"
    )


def test_transfers(check: Check) -> None:
    assert check(module(function(transfer(T)))) == []
    assert check(module(function(transfer(DYNAMIC, "valid_row = %c2 valid_col = %c60")))) == []
    smaller = check(module(function(transfer("!pto.tile_buf<vec, 16x64xf32, valid=12x60>"))))
    # What is loaded may be the first rows and columns of the window, what is stored fills it.
    assert rules(smaller) == ["window-size"]
    assert smaller[0].instruction == "tstore" and "1024 elements" in smaller[0].message
    turned = check(module(function(transfer("!pto.tile_buf<vec, 64x16xf32>"))))
    # The assembler counts what is stored only; what a load would take beyond its window is a warning.
    assert rules(turned) == ["window-size"]
    assert "window-lanes" in rules(turned, "warning")
    half = check(module(function(transfer("!pto.tile_buf<vec, 16x64xf16>"))))
    assert rules(half) == ["element-size"] * 2
    bits = check(module(function(transfer("!pto.tile_buf<vec, 16x64xi32>"))))
    assert rules(bits) == [] and rules(bits, "warning") == ["reinterprets"] * 2


def test_set_validshape(check: Check) -> None:
    body = (
        f"%t = pto.alloc_tile valid_row = %c16 valid_col = %c64 : {DYNAMIC}\n"
        f"pto.set_validshape %t, {{}} : {DYNAMIC}"
    )
    assert check(module(function(body.format("%c1, %c60")))) == []
    assert rules(check(module(function(body.format("%c17, %c60"))))) == ["valid-range"]
    static = f"%t = pto.alloc_tile : {T}\npto.set_validshape %t, %c1, %c1 : {T}"
    assert rules(check(module(function(static)))) == ["valid-dynamic"]


def test_known_valid_regions_are_used_and_forgotten(check: Check) -> None:
    alloc_small = (
        f"%t = pto.alloc_tile valid_row = %c2 valid_col = %c64 : {DYNAMIC}\n%d = pto.alloc_tile : {T}\n"
    )
    use = f"pto.tneg ins(%t : {DYNAMIC}) outs(%d : {T})\n"
    assert "region-covers" in rules(check(module(function(alloc_small + use))), "warning")
    full = alloc_small + f"pto.set_validshape %t, %c16, %c64 : {DYNAMIC}\n" + use
    assert "region-covers" not in rules(check(module(function(full))), "warning")
    change = f"scf.if %q {{\npto.set_validshape %t, %c16, %c64 : {DYNAMIC}\n}}\n"
    changed = check(module(function(alloc_small + change + use, "%q: i1")))
    assert "region-covers" not in rules(changed, "warning")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"%t = pto.alloc_tile : {T}\n%t2 = pto.tassign %t, %a4096 : {T} -> {T}", None),
        (f"%t = pto.alloc_tile : {T}\n%t2 = pto.tassign %t, %a16 : {T} -> {T}", "address-aligned"),
        (f"%t = pto.alloc_tile : {T}\n%t2 = pto.tassign %t, %a196608 : {T} -> {T}", "address-range"),
    ],
)
def test_tassign(check: Check, text: str, rule: str | None) -> None:
    assert rules(check(module(function(text)))) == ([rule] if rule else [])


def test_entries_return_nothing(check: Check) -> None:
    text = "module {{\nfunc.func @f() -> i32 {} {{\n%c = arith.constant 1 : i32\nreturn %c : i32\n}}\n}}"
    assert check(text.format("")) == []
    (found,) = check(text.format("attributes {hacc.entry}"))
    assert found.rule == "entry" and "@f returns i32" in found.message


def test_calls(check: Check) -> None:
    g = "func.func @g(%x: index) -> index {\nreturn %x : index\n}"
    entry = "attributes {pto.entry}"
    good = function("%y = func.call @g(%c1) : (index) -> (index)", attributes=entry)
    assert check(module(good, g)) == []
    unknown = function("func.call @h(%c1) : (index) -> ()", attributes=entry)
    (found,) = check(module(unknown, g))
    assert found.rule == "callee" and "@h" in found.message and "@g" in found.message
    count = function("%y = func.call @g() : () -> (index)", attributes=entry)
    assert rules(check(module(count, g))) == ["callee"]
    kind = function("%y = func.call @g(%a16) : (i64) -> (index)", attributes=entry)
    assert rules(check(module(kind, g))) == ["callee"]


def test_recursion_is_found_through_other_functions(check: Check) -> None:
    f = "func.func @f() attributes {pto.entry} {\nfunc.call @g() : () -> ()\nreturn\n}"
    g = "func.func @g() {\nfunc.call @h() : () -> ()\nreturn\n}"
    h = "func.func @h() {\nfunc.call @g() : () -> ()\nreturn\n}"
    found = check(module(f, g, h))
    assert rules(found) == ["recursion"] * 2 and "@g in @h" in found[1].message


def test_values_have_one_type_and_one_definition() -> None:
    tile = TileType(F32, 16, 64)
    a, b = Value("a", tile), Value("b", tile)
    wide = replace(a, type=replace(tile, rows=32))
    ops = (
        Op("alloc_tile", results=(b,)),
        Op("tneg", (wide,), (b,)),
        Op("tneg", (Value("c", tile),), (b,)),
        Op("alloc_tile", results=(b,)),
    )
    program = Program((Function("f", (a,), Region(ops)),))
    found = verify_program(program, profile("a5"))
    messages = [d.message for d in found if d.rule == "defined"]
    assert "%a is used as vec 32x64xf32 valid 16x64 but defined as vec 16x64xf32" in messages
    assert "%c is not defined here" in messages
    assert "%b is defined twice; allowed: one definition per name" in messages and len(messages) == 3


def test_control_flow_is_entered(check: Check) -> None:
    bad = f"%t = pto.alloc_tile addr = %a16 : {T}"
    loop = f"scf.for %i = %c0 to %c2 step %c1 {{\n{bad}\n}}"
    section = f"pto.section.vector {{\n{loop}\n}}"
    assert rules(check(module(function(section)))) == ["address-aligned"]


def test_several_findings_come_in_source_order(check: Check) -> None:
    body = (
        f"%t = pto.alloc_tile addr = %a16 : {T}\n%u = pto.alloc_tile valid_row = %c1 : {T}\n"
        f"%v = pto.alloc_tile addr = %a196608 : {T}"
    )
    found = check(module(function(body)))
    assert rules(found) == ["address-aligned", "valid-operands", "address-range"]
    lines = [d.span.line for d in found if d.span is not None]
    assert lines == sorted(lines) and len(lines) == 3


def test_portable_programs(check: Check) -> None:
    whole = "pto.{op} ins(%a, %b : {t}, {t}) outs(%d : {t})"

    def sum_of(dtype: str, op: str = "tadd") -> str:
        return whole.format(op=op, t=f"!pto.tile_buf<vec, 16x64x{dtype}>")

    assert check(sum_of("f32"), "a5", portable=True) == []
    (found,) = check(sum_of("i8"), "a5", portable=True)
    assert found.message.startswith("not portable: a2a3: ") and found.severity == "error"
    assert [d.severity for d in check(sum_of("i8"), "a5")] == []
    small = "!pto.tile_buf<vec, 16x64xf32, valid=12x60>"
    outside = f"pto.tadd ins(%a, %b : {T}, {small}) outs(%d : {T})"
    (region,) = check(outside, "cpu_sim", portable=True)
    assert region.severity == "error" and region.rule == "region-covers"
    everywhere = check(whole.format(op="tadd", t="!pto.tile_buf<mat, 16x64xf32>"), "a5", portable=True)
    assert {d.message.split(":")[1].strip() for d in everywhere} == {"a2a3, a5"}


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(operations=5), "operations; allowed: 5"),
        (Limits(nesting=2), "nested 3 deep; allowed: 2"),
        (Limits(elements=100), "elements in total; allowed: 100"),
    ],
)
def test_limits(check: Check, limits: Limits, message: str) -> None:
    inner = f"scf.for %i = %c0 to %c2 step %c1 {{\nscf.if %q {{\n%t = pto.alloc_tile : {T}\n}}\n}}"
    (found,) = check(module(function(inner, "%q: i1")), limits=limits)
    assert found.rule == "limits" and message in found.message


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]\npto.wait_flag[<PIPE_MTE2>, <PIPE_V>, "
            "<EVENT_ID0>]",
            None,
        ),
        ("pto.barrier <PIPE_ALL>", None),
        (
            "pto.record_event [#pto.pipe_event_type<TLOAD>, #pto.pipe_event_type<TVEC>, "
            "#pto.event<EVENT_ID0>]",
            None,
        ),
        ("pto.sync.set <PIPE_FIX>, 0", None),
        ("pto.barrier_sync [#pto.pipe_event_type<TVEC>]", None),
    ],
)
def test_synchronisation(check: Check, text: str, rule: str | None) -> None:
    assert rules(check(module(function(text)), "a5")) == ([rule] if rule else [])


def test_buffer_tokens_belong_to_a5(check: Check) -> None:
    text = module(
        function("pto.get_buf[#pto.pipe_event_type<TLOAD>, 0]\npto.rls_buf[#pto.pipe_event_type<TLOAD>, 0]")
    )
    assert check(text, "a5") == []
    assert rules(check(text, "a2a3"), "warning") == ["profile"] * 2


def test_a_long_program_is_checked_quickly(check: Check) -> None:
    body = "\n".join(f"%t{i} = pto.alloc_tile addr = %a16 : {T}" for i in range(400))
    assert rules(check(module(function(body)))) == ["address-aligned"] * 400


def test_tiles_of_a_block_scaled_quantisation_lie_apart(check: Check) -> None:
    types = {"x": "16x32xf32", "c": "16x32xui8", "e": "1x32xui8, valid=1x16", "m": "1x16xf32"}
    tiles = {n: f"!pto.tile_buf<vec, {t}>" for n, t in {**types, "f": "1x64xf32, valid=1x16"}.items()}
    at = {"x": 0, "c": 2048, "e": 3072, "m": 3328, "f": 3584}

    def program(**places: int) -> str:
        made = "".join(
            f"%p{n} = arith.constant {a} : i64\n%{n} = pto.alloc_tile addr = %p{n} : {tiles[n]}\n"
            for n, a in {**at, **places}.items()
        )
        outs = ", ".join(tiles[n] for n in "cemf")
        quantised = f"pto.tquant.mx ins(%x : {tiles['x']}) outs(%c, %e, %m, %f : {outs})"
        return f"func.func @f() {{ {made}{quantised} {{quant_type = #pto<quant_type MXFP8>}} return }}"

    assert rules(check(program(), "a5")) == []
    for broken in (program(c=1024), program(f=2048)):
        assert rules(check(broken, "a5")) == ["overlap"]
