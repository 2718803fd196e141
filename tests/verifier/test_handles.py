"""Windows, multi tiles, local storage, levels and modules: what verification rejects, and how."""

from collections.abc import Callable

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.api import parse, resolve_profile, verify
from pto_jax.errors import ArgumentError, Diagnostic, ExecutionError, ParseError

T, NZ = "!pto.tile_buf<vec, 16x16xf32>", "!pto.tile_buf<mat, 32x32xf32, blayout=col_major, slayout=row_major>"
OPEN = "!pto.tile_buf<vec, 16x16xf32, valid=?x?>"
P8 = "!pto.tile_buf<vec, 8x8xf32>"
M = "!pto.multi_tile_buf<vec, 16x16xf32, count=2>"
STRUCT = "!pto.struct<f32, !pto.struct<i8>>"
HEAD = """func.func @f(%x: !pto.ptr<f32>, %n: index, %i: i64, %v: f32, %b: i8) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c12 = arith.constant 12 : index
  %p16 = arith.constant 16 : i64
"""


def found(body: str, level: int | None = None) -> list[tuple[str | None, str]]:
    """The rules and severities of what verification finds in a body with a tile ``t``."""
    program = parse(f"{HEAD}%t = pto.alloc_tile : {T}\n%nz = pto.alloc_tile : {NZ}\n{body}\nreturn\n}}")
    return [(d.rule, d.severity) for d in verify(program, "a2a3", level=level)]


def window(text: str, source: str = T) -> str:
    return f"%s = pto.subview {'%nz' if source == NZ else '%t'}{text.format(source=source)}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (window("[%n, %n] sizes [8, 8] : {source}"), []),
        (window("[%c8, %c0] sizes [8, 16] valid [%c4, %n] : {source}"), []),
        (window("[%c0, %c0] sizes [8, 8] : {source} -> !pto.tile_buf<vec, 8x8xf32, valid=0x3>"), []),
        (window("[%c12, %c0] sizes [8, 8] : {source}"), [("window-inside", "warning")]),
        (
            window("[%c0, %c0] sizes [8, 8] : {source} -> !pto.tile_buf<vec, 8x8xf32, valid=?x8>"),
            [("valid-operands", "error")],
        ),
        (
            window(
                "[%c0, %c0] sizes [8, 8] valid [%c4, %c8] : {source} "
                "-> !pto.tile_buf<vec, 8x8xf32, valid=5x8>"
            ),
            [("valid-operands", "error")],
        ),
        (window("[%c0, %c0] sizes [8, 8] valid [%c12, %c8] : {source}"), [("valid-operands", "error")]),
        (
            window("[%c0, %c0] sizes [8, 8] : {source} -> !pto.tile_buf<vec, 8x8xf32, pad=1>"),
            [("types-equal", "error")],
        ),
        (window("[%c0, %n] sizes [16, 8] : {source}", NZ), []),
        (window("[%c8, %c0] sizes [16, 8] : {source}", NZ), [("window-boxes", "error")]),
        (window("[%c0, %c0] sizes [16, 4] : {source}", NZ), [("window-boxes", "error")]),
        (f"%m = pto.alloc_multi_tile : {M}\n%s = pto.multi_tile_get %m[%n] : {M} -> {T}", []),
        (
            f"%m = pto.alloc_multi_tile : {M}\n%s = pto.multi_tile_get %m[%c4] : {M} -> {T}",
            [("slot", "error")],
        ),
        (
            f"%m = pto.alloc_multi_tile : {M}\n%s = pto.multi_tile_get %m[%c0] : {M} -> {P8}",
            [("types-equal", "error")],
        ),
        (f"%m = pto.alloc_multi_tile addr = %p16 : {M}", [("address-aligned", "error")]),
        (
            f"%m = pto.alloc_multi_tile : {M}\nfunc.call @g(%m) : ({M}) -> ()",
            [("callee", "error"), ("direct", "error")],
        ),
        (f"%s = pto.declare_struct -> {STRUCT}\npto.struct_set %s[1, 0], %b : {STRUCT}, i8", []),
        (
            f"%s = pto.declare_struct -> {STRUCT}\npto.struct_set %s[1], %b : {STRUCT}, i8",
            [("types-equal", "error")],
        ),
        (
            f"%s = pto.declare_struct -> {STRUCT}\npto.struct_set %s[0], %b : {STRUCT}, i8",
            [("types-equal", "error")],
        ),
        ("%q = pto.inttoptr %i : i64 -> !pto.ptr<f32>\npto.store_scalar %v, %q[%n] : !pto.ptr<f32>, f32", []),
        (
            "%q = pto.inttoptr %i : i64 -> !pto.ptr<f32>\n"
            "%r = pto.addptr %q, %n : !pto.ptr<f32> -> !pto.ptr<f32>",
            [("integer-pointer", "error")],
        ),
        ("%h = pto.declare_tile -> !pto.tile_buf<vec, 16x1xf32>", []),
        ("%h = pto.alloc_tile : !pto.tile_buf<vec, 16x1xf32>", [("tile-alignment", "error")]),
    ],
)
def test_handles(body: str, expected: list[tuple[str, str]]) -> None:
    assert found(body) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!pto.multi_tile_buf<vec, 16x16xf32, count=1>", "got count=1; allowed: 2 to 16"),
        ("!pto.struct<f32, i1>", "got a field of type i1; allowed"),
        ("!pto.struct<>", "allowed: the type of a field"),
        ("!pto.local_array<?x4xf32>", "allowed: constant extents"),
        ("!pto.vreg<32xf32>", "got a register of 32 x f32; allowed: 64 lanes"),
        ("!pto.mask<b64>", "got a mask of !pto.mask<b64; allowed: b8, b16, b32"),
    ],
)
def test_types(text: str, message: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(f"func.func @f(%a: {text}) {{\n return\n}}")
    assert message in str(raised.value)


def test_code_below_tile_programs_is_named() -> None:
    with pytest.raises(
        ParseError, match=r"'pto.mad_raw' of cube code, which is not executed; allowed: those of"
    ):
        parse("pto.mad_raw %a, %b, %c : !pto.ptr<f16, l0a>")
    with pytest.raises(ParseError, match=r"'pto.syncthreads' of SIMT code, which is not executed"):
        parse("pto.syncthreads")
    with pytest.raises(ParseError, match=r"'pto.ub.vadd' of the A3 form of vector code"):
        parse("pto.ub.vadd %a")
    text = "func.func private @h(%t: i32) attributes {pto.tileop.helper} {\n return\n}"
    (finding,) = verify(parse(text), "a5")
    assert finding.rule == "tile-program"


RESERVED = (
    'func.func @f() {{ %b = pto.reserve_buffer {{name = "q", size = 256, '
    "location = #pto.address_space<vec>{}}} -> i32 return }}"
)


@pytest.mark.parametrize(
    ("attributes", "levels"),
    [(", auto = true", {1, 2}), (", auto = true, base = 0", set()), (", auto = false, base = 256", {3})],
)
def test_levels_of_reserved_buffers(attributes: str, levels: set[int]) -> None:
    program = parse(RESERVED.format(attributes))
    assert {n for n in (1, 2, 3) if not any(d.rule == "level" for d in verify(program, level=n))} == levels


def test_multi_tiles_have_addresses_at_level_3_only() -> None:
    without, placed = f"%m = pto.alloc_multi_tile : {M}", f"%m = pto.alloc_multi_tile addr = %a : {M}"
    head = "func.func @f() attributes {pto.entry} {\n%a = arith.constant 0 : i64\n"
    for body, levels in ((without, {1, 2}), (placed, {3})):
        program = parse(f"{head}{body}\nreturn\n}}")
        assert {n for n in (1, 2, 3) if not verify(program, level=n)} == levels


def test_windows_of_arguments_at_level_3() -> None:
    text = f"func.func @f(%t: {T}, %n: index) {{\n%s = pto.subview %t[%n, %n] sizes [8, 8] : {T}\nreturn\n}}"
    assert verify(parse(text), level=2) == []
    assert [d.rule for d in verify(parse(text), level=3)] == ["level"]


@pytest.mark.parametrize(
    ("attributes", "arch", "profile"),
    [
        ("", None, "a2a3"),
        ('pto.target_arch = "a5"', None, "a5"),
        ('pto.target_arch = "a5"', "a3", "a2a3"),
        ('"pto.device-spec" = "Ascend950PR"', "a3", "a5"),
        ('"pto.device-spec" = "Ascend910_9599"', None, "a5"),
        ('"pto.device-spec" = "Ascend910B3", pto.target_arch = "a5"', None, "a5"),
    ],
)
def test_profiles(attributes: str, arch: str | None, profile: str) -> None:
    program = parse(f"module attributes {{{attributes}}} {{ func.func @f() {{ return }} }}")
    assert resolve_profile(program, arch=arch).name == profile
    assert resolve_profile(program, "cpu_sim", arch=arch).name == "cpu_sim"
    with pytest.raises(ArgumentError, match="unknown architecture 'a4'; allowed: a2, a3, a5"):
        verify(program, arch="a4")


CHILD = 'module attributes {{pto.target_arch = "a5"}} {{ {} }}'


def modules(*children: str) -> list[Diagnostic]:
    program = parse("module { " + " ".join(CHILD.format(c) for c in children) + " }")
    assert parse(str(program)) == program and resolve_profile(program).name == "a5"
    return verify(program)


def test_child_modules() -> None:
    main = "func.func private @g(i32) func.func @f(%a: i32) { func.call @g(%a) : (i32) -> () return }"
    other = "func.func {} @g(%a: {}) {{ return }}"
    assert modules(main, other.format("public", "i32")) == []
    for text in (other.format("private", "i32"), other.format("public", "i64"), "func.func @h() { return }"):
        assert {d.rule for d in modules(main, text) if d.severity == "error"} >= {"function"}
    twice = other.format("public", "i32")
    assert {d.rule for d in modules(main, twice, twice)} == {"function"}


def test_blocks() -> None:
    text = """func.func @f(%c: i1) -> i32 {{
      %p16 = arith.constant 16 : i64
      %n = arith.constant 1 : i32
      cf.cond_br %c, ^a, ^b{}
    ^a:
      %t = pto.alloc_tile addr = %p16 : !pto.tile_buf<vec, 8x8xf32>
      cf.br ^b{}
    ^b{}:
      return %n : i32
    }}"""
    assert [d.rule for d in verify(parse(text.format("", "", "")))] == ["address-aligned"]
    given = [d.rule for d in verify(parse(text.format("(%c : i1)", "", "(%k: i1)")))]
    assert given == ["address-aligned", "branch"]
    with pytest.raises(ParseError, match=r"a branch to the unknown block \^b; allowed: \^a, \^d"):
        parse(text.format("", "", "").replace("^b:", "^d:"))
    with pytest.raises(ParseError, match=r"a second block \^a; allowed: one of each name"):
        parse(text.format("", "", "").replace("^b:", "^a:"))


def test_constants_that_break_a_rule_on_sizes_are_warnings() -> None:
    made = f"%k = pto.alloc_tile valid_row = %c4 valid_col = %c8 : {OPEN}\n"
    made += f"%l = pto.alloc_tile valid_row = %c8 valid_col = %c12 : {OPEN}\n"
    op = f"pto.tcolexpand ins(%k : {OPEN}) outs(%l : {OPEN})"
    assert ("equal-cols", "warning") in found(made + op)


@pytest.mark.parametrize(
    ("window", "numbers", "message"),
    [
        (
            f"%t[%r, %c] sizes [8, 8] : {T}",
            (12, 0),
            "offset 12 and size 8 in dimension 0 of %t, whose extent is 16",
        ),
        (f"%t[%r, %c] sizes [8, 8] : {T}", (0, -1), "offset -1 and size 8 in dimension 1 of %t"),
        (f"%t[%c0, %c0] sizes [8, 8] valid [%r, %c] : {T}", (9, 8), "9x8"),
    ],
)
def test_windows_that_leave_the_tile_when_executed(
    window: str, numbers: tuple[int, int], message: str
) -> None:
    shown = "!pto.tile_buf<vec, 8x8xf32, valid=?x?>" if "valid" in window else P8
    program = parse(f"""func.func @f(%x: !pto.ptr<f32>, %r: index, %c: index) attributes {{pto.entry}} {{
      %c0 = arith.constant 0 : index
      %one = arith.constant 1.0 : f32
      %t = pto.alloc_tile : {T}
      %s = pto.subview {window} -> {shown}
      pto.tadds ins(%s, %one : {shown}, f32) outs(%s : {shown})
      return
    }}""")
    arguments = {"x": np.zeros(8, np.float32), "r": numbers[0], "c": numbers[1]}
    kernel = pto.compile(program, warn=False)
    ways: tuple[Callable[[], object], ...] = (
        lambda: kernel.eager(**arguments),
        lambda: oracle.run(program, arguments),
    )
    for way in ways:
        with pytest.raises(ExecutionError) as raised:
            way()
        assert message in str(raised.value)
