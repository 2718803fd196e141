"""Undefined lanes of registers, masks and bytes that micro-operations store."""

from collections.abc import Callable

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.sanitizer.sanitize import sanitize

from .expansion import Micro, Tile, program, scope

R, K = "!pto.vreg<64xf32>", "!pto.mask<b32>"
pytestmark = pytest.mark.filterwarnings("ignore::pto_jax.PtoWarning")


def findings(write: Callable[[Micro], None], loaded: int = 50, stored: int = 50) -> str:
    """What is said of a scope between a load of some columns of one tile and the store of another."""
    tiles = {"a": Tile("f32", 2, 64, 1, loaded), "d": Tile("f32", 2, 64, 1, stored)}
    text = program(tiles, 1, scope(tiles, write))
    ones = np.ones((2, 64), np.float32)
    found = sanitize(pto.parse(text), {"a_g": ones, "d_g": ones.copy()}, profile="a5")
    return "" if not found.diagnostics else str(found)


def stored(m: Micro, value: str, count: int = 50) -> None:
    m.store(value, "d", 0, 0, m.first("f32", count))


def test_lanes_that_are_stored_must_be_defined() -> None:
    def copy(m: Micro) -> None:
        stored(m, m.load("a", 0, 0))

    assert findings(copy) == ""
    said = findings(copy, loaded=40)
    assert "undefined data reaches global memory" in said and "10 of 50 lanes" in said
    assert "never written (alloc_tile at" in said


def test_computed_lanes_depend_on_their_own_operands_only() -> None:
    def double(m: Micro) -> None:
        x = m.load("a", 0, 0)
        stored(m, m.op(f"vadd {x}, {x}, {m.first('f32', 64)}", f"{R}, {R}, {K} -> {R}"))

    assert findings(double) == ""
    assert "10 of 50 lanes" in findings(double, loaded=40)


def test_inactive_lanes_are_zero_whatever_the_operands_are() -> None:
    def some(m: Micro) -> None:
        x = m.load("a", 0, 0)
        stored(m, m.op(f"vexp {x}, {m.first('f32', 40)}", f"{R}, {K} -> {R}"))

    assert findings(some, loaded=40) == ""


def test_moved_lanes_take_their_definedness_along() -> None:
    def turned(m: Micro) -> None:
        x, zero = m.load("a", 0, 0), m.op(f"vbr {m.constant('0.0', 'f32')}", f"f32 -> {R}")
        low, _ = m.op(f"vintlv {x}, {zero}", f"{R}, {R} -> {R}, {R}", 2)
        stored(m, low)

    assert findings(turned, loaded=25) == ""
    assert "1 of 50 lanes" in findings(turned, loaded=24)


def test_a_selection_drops_what_it_does_not_choose() -> None:
    def chosen(m: Micro) -> None:
        x, zero = m.load("a", 0, 0), m.op(f"vbr {m.constant('0.0', 'f32')}", f"f32 -> {R}")
        mask = m.first("f32", 30)
        stored(m, m.op(f"vsel {x}, {zero}, {mask}", f"{R}, {R}, {K} -> {R}"))

    assert findings(chosen, loaded=30) == ""
    assert "2 of 50 lanes" in findings(chosen, loaded=28)


def test_masks_of_undefined_comparisons_are_undefined() -> None:
    def compared(m: Micro) -> None:
        x, every = m.load("a", 0, 0), m.first("f32", 64)
        mask = m.op(f'vcmp {x}, {x}, {every}, "eq"', f"{R}, {R}, {K} -> {K}")
        one = m.op(f"vbr {m.constant('1.0', 'f32')}", f"f32 -> {R}")
        stored(m, m.op(f"vmuls {one}, {m.constant('2.0', 'f32')}, {mask}", f"{R}, f32, {K} -> {R}"))

    assert findings(compared) == ""
    assert "10 of 50 lanes" in findings(compared, loaded=40)


def test_a_sum_is_undefined_with_any_active_lane() -> None:
    def total(count: int) -> Callable[[Micro], None]:
        def write(m: Micro) -> None:
            x = m.load("a", 0, 0)
            stored(m, m.op(f"vcadd {x}, {m.first('f32', count)}", f"{R}, {K} -> {R}"))

        return write

    assert findings(total(40), loaded=40) == ""
    assert "lanes" in findings(total(41), loaded=40)


@pytest.mark.parametrize(("count", "wrong"), [(31, False), (32, True), (-1, True)])
def test_counts_of_shifts_beyond_the_width_give_nothing(count: int, wrong: bool) -> None:
    def shifted(m: Micro) -> None:
        i = "!pto.vreg<64xi32>"
        words = m.op(f"vbitcast {m.load('a', 0, 0)}", f"{R} -> {i}")
        mask = m.first("f32", 50)
        left = m.op(f"vshls {words}, {m.constant(count, 'i16')}, {mask}", f"{i}, i16, {K} -> {i}")
        stored(m, m.op(f"vbitcast {left}", f"{i} -> {R}"))

    assert bool(findings(shifted)) == wrong


def test_lanes_of_logical_registers() -> None:
    def doubled(m: Micro) -> None:
        v, zero = "!pto.vmi.vreg<50xf32>", m.constant(0, "index")
        x = m.op(f"vmi.vload %a_p[{zero}]", f"!pto.ptr<f32, ub> -> {v}")
        y = m.op(f"vmi.vadd {x}, {x}", f"{v}, {v} -> {v}")
        m.op(f"vmi.vstore {y}, %d_p[{zero}]", f"{v}, !pto.ptr<f32, ub>", 0)

    assert findings(doubled) == ""
    assert "10 of 50 lanes" in findings(doubled, loaded=40)


def test_lanes_by_turns_and_in_blocks() -> None:
    """Of two registers the first one has the even lanes; a mask keeps undefined lanes out of memory."""
    v, k, p = "!pto.vmi.vreg<24xf32>", "!pto.vmi.mask<24xpred>", "!pto.ptr<f32, ub>"

    def turned(m: Micro, masked: int = 24, strides: str = "") -> None:
        zero = m.constant(0, "index")
        even, odd = (f"%{n}{len(m.lines)}" for n in ("even", "odd"))
        m.lines.append(
            f'{even}, {odd} = pto.vmi.vload %a_p[{zero}] {{dist_mode = "dintlv"}} : {p} -> {v}, {v}'
        )
        mask = m.op(f"vmi.create_mask {m.constant(masked, 'index')}", f"index -> {k}")
        if strides:
            numbers = ", ".join(m.constant(int(n), "i16") for n in strides)
            m.op(f"vmi.vstore {odd}, %d_p[{zero}], {numbers}, {mask}", f"{v}, {p}, {k}", 0)
        else:
            m.op(f'vmi.vstore {odd}, {even}, %d_p[{zero}], {mask} {{dist_mode = "dintlv"}}',
                 f"{v}, {v}, {p}, {k}", 0)  # fmt: skip

    assert findings(turned, stored=48) == ""
    assert "8 of 48 lanes" in findings(turned, loaded=40, stored=48)
    assert findings(lambda m: turned(m, 20), loaded=40, stored=40) == ""
    assert "4 of 24 lanes" in findings(lambda m: turned(m, 24, "10"), loaded=40, stored=24)
    assert findings(lambda m: turned(m, 20, "10"), loaded=40, stored=20) == ""


# -- where undefined data comes from -----------------------------------------------------------------

HEAD = """module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {
func.func @k(%x: !pto.ptr<i32, gm>, %y: !pto.ptr<i32, gm>) attributes {pto.kernel} {
%zero = arith.constant 0 : i64
%one = arith.constant 1 : i64
%far = arith.constant 4096 : i64
%size = arith.constant 256 : i64
%p = pto.castptr %zero : i64 -> !pto.ptr<i32, ub>
%q = pto.castptr %far : i64 -> !pto.ptr<i32, ub>
"""
LOAD = (
    "pto.mte_gm_ub %x, %p, %zero, %size nburst(%one, %size, %size) : "
    "!pto.ptr<i32, gm>, !pto.ptr<i32, ub>, i64, i64, i64, i64, i64\n"
)
STORE = (
    "pto.mte_ub_gm %q, %y, %size nburst(%one, %size, %size) : "
    "!pto.ptr<i32, ub>, !pto.ptr<i32, gm>, i64, i64, i64, i64\nreturn\n}\n}\n"
)
V, M = "!pto.vreg<64xi32>", "!pto.mask<b32>"


def storing(*lines: str) -> str:
    """A scope that stores %r, computed from %v."""
    return "\n".join(
        [
            "pto.vecscope {",
            "%c0 = arith.constant 0 : index",
            f'%m = pto.pset_b32 "PAT_ALL" : {M}',
            f"%v = pto.vlds %p[%c0] : !pto.ptr<i32, ub> -> {V}",
            *lines,
            f"pto.vsts %r, %q[%c0], %m : {V}, !pto.ptr<i32, ub>, {M}",
            "}\n",
        ]
    )


@pytest.mark.parametrize(
    "body, lanes, origin",
    [
        (LOAD, "64 of 64", "never written (mte_ub_gm at"),
        (storing(f"%r = pto.vadd %v, %v, %m : {V}, {V}, {M} -> {V}"), "64 of 64", "never written (vlds at"),
        (
            LOAD + storing(f"%r = pto.vdiv %v, %v, %m : {V}, {V}, {M} -> {V}"),
            "1 of 64 lanes, (0)",
            "division by zero (vdiv at",
        ),
        (
            LOAD + storing(f"%w = pto.vshl %v, %v, %m : {V}, {V}, {M} -> {V}",
                         f"%r = pto.vneg %w, %m : {V}, {M} -> {V}"),
            "32 of 64",
            "shift by the width of the type or more (vshl at",
        ),
    ],
    ids=["a transfer", "a load", "a quotient", "a shift before another operation"],
)  # fmt: skip
def test_a_finding_counts_elements_and_names_where_they_come_from(body: str, lanes: str, origin: str) -> None:
    words = {"x": np.arange(64, dtype=np.int32), "y": np.zeros(64, np.int32)}
    (found,) = pto.sanitize(pto.parse(HEAD + body + STORE), words, profile="a5").diagnostics
    assert f"reaches global memory: y, {lanes}" in found.message and origin in found.message, found.message
