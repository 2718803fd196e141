"""Vector scopes that a text leaves out: those that the assembler makes, and what none can hold."""

from dataclasses import replace

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.analysis.resolve import resolve
from pto_jax.generate.options import MICRO
from pto_jax.generate.programs import generate
from pto_jax.ir import Op
from tests.micro.programs import executed, kernel

R = "!pto.vreg<64xf32>"
M = "!pto.mask<b32>"
P = "!pto.ptr<f32, ub>"
MASK = f'%m = pto.pset_b32 "PAT_VL16" : {M}'
COUNT = f"%n = arith.constant 70 : i32\n%m, %r = pto.plt_b32 %n : i32 -> {M}, i32"
LAST = f"%l, %none = pto.plt_b32 %r : i32 -> {M}, i32"
BARRIER = "pto.barrier #pto.pipe<PIPE_ALL>"


def load(name: str, at: str = "%c0") -> str:
    return f"%{name} = pto.vlds %x_ub[{at}] : {P} -> {R}"


def double(name: str, of: str, mask: str = "m") -> str:
    return f"%{name} = pto.vadd %{of}, %{of}, %{mask} : {R}, {R}, {M} -> {R}"


def store(name: str, at: str = "%c64", mask: str = "m") -> str:
    return f"pto.vsts %{name}, %x_ub[{at}], %{mask} : {R}, {P}, {M}"


#: Bodies that one scope can hold.
BODIES = {
    "straight": [MASK, load("v"), double("w", "v"), store("w")],
    "a number between": [MASK, load("v"), "%k = arith.addi %c64, %c64 : index", store("v", "%k")],
    "a count that goes on": [
        COUNT,
        LAST,
        load("v"),
        double("w", "v", "l"),
        store("w"),
    ],
    "a loop that carries a register": [
        MASK,
        load("v"),
        f"%s = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %v) -> ({R}) {{",
        double("w", "acc"),
        f"scf.yield %w : {R}",
        "}",
        store("s"),
    ],
    "a branch": [
        MASK,
        load("v"),
        "%less = arith.cmpi slt, %c1, %c2 : index",
        "scf.if %less {",
        store("v"),
        "}",
    ],
}


def text(lines: list[str], *, scope: bool = False) -> str:
    """A kernel of the lines, in a scope of the text or in none."""
    whole = kernel("\n".join(lines), {"x": "f32"})
    return whole if scope else whole.replace("    pto.vecscope {\n", "").replace("\n    }\n", "\n", 1)


def names(lines: list[str], *, scope: bool = False) -> list[str]:
    """The operations of a kernel after its scopes have been added."""
    return [op.name for op in resolve(pto.parse(text(lines, scope=scope))).program.walk()]


def scopes(lines: list[str]) -> list[Op]:
    program = resolve(pto.parse(text(lines))).program
    return [op for op in program.walk() if op.name == "vecscope"]


def errors(lines: list[str]) -> list[str]:
    found = pto.verify(pto.parse(text(lines)), profile="a5")
    return [f"{d.instruction}: {d.message}" for d in found if d.severity == "error"]


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", BODIES)
def test_what_can_share_a_scope_gets_one(name: str) -> None:
    lines = BODIES[name]
    assert sorted(names(lines)) == sorted(names(lines, scope=True))
    x = np.arange(1024, dtype=np.float32)
    bare, scoped = (executed(text(lines, scope=scope), {"x": x}) for scope in (False, True))
    assert bare["x"].tobytes() == scoped["x"].tobytes() != x.tobytes()


def test_the_text_is_printed_as_it_was_written() -> None:
    program = pto.parse(text(BODIES["straight"]))
    pto.verify(program, raise_on_error=True)
    assert "vecscope" not in str(program)


def test_masks_of_constants_are_computed_again_behind_a_barrier() -> None:
    lines = [MASK, load("v"), store("v"), BARRIER, load("w", "%c64"), double("d", "w"), store("d", "%c128")]
    first, second = scopes(lines)
    assert [op.name for op in second.regions[0].ops] == ["pset_b32", "vlds", "vadd", "vsts"]
    x = np.arange(1024, dtype=np.float32)
    after = executed(text(lines), {"x": x})["x"]
    np.testing.assert_array_equal(after[128:144], 2 * x[:16])
    assert first.regions[0].ops[0] is not second.regions[0].ops[0]


def test_a_chain_of_registers_is_computed_again_in_its_order() -> None:
    dup = f"%one_f = arith.constant 1.5 : f32\n%a = pto.vdup %one_f, %m : f32, {M} -> {R}"
    lines = [MASK, dup, double("b", "a"), store("b"), BARRIER, double("d", "b"), store("d", "%c128")]
    x = np.zeros(1024, np.float32)
    after = executed(text(lines), {"x": x})["x"]
    assert (after[64], after[128], after[144]) == (3, 6, 0)


def test_a_loop_with_a_barrier_has_its_scopes_inside() -> None:
    loop = "%n = scf.for %i = %c0 to %c4 step %c1 iter_args(%k = %c0) -> (index) {"
    lines = [loop, MASK, load("v", "%k"), store("v", "%k"), BARRIER]
    lines += ["%next = arith.addi %k, %c64 : index", "scf.yield %next : index", "}"]
    (scope,) = scopes(lines)
    assert [op.name for op in scope.regions[0].ops] == ["pset_b32", "vlds", "vsts"]
    assert not errors(lines)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([MASK, load("v"), BARRIER, store("v")], f"vlds: %v is {R[5:]} outside a vector scope"),
        (
            [
                COUNT,
                load("v"),
                store("v"),
                BARRIER,
                "%k = arith.index_cast %r : i32 to index",
                load("w", "%k"),
            ],
            f"plt_b32: %m is {M[5:]} outside a vector scope",
        ),
        (
            [COUNT, LAST, load("v"), store("v", mask="l"), BARRIER, load("w"), store("w", mask="l")],
            f"plt_b32: %l is {M[5:]} outside a vector scope",
        ),
        (
            [MASK, "scf.for %i = %c0 to %c4 step %c1 {", load("v"), store("v"), BARRIER, "}"],
            f"pset_b32: %m is {M[5:]} outside a vector scope",
        ),
    ],
    ids=["a load", "a count", "a mask of a count", "a mask before a loop with a barrier"],
)
def test_what_no_scope_can_hold_is_an_error(lines: list[str], message: str) -> None:
    found = errors(lines)
    assert any(m.startswith(message) and "no scope can hold all that uses it" in m for m in found), found


@pytest.mark.parametrize("barrier", [True, False])
def test_accesses_of_a_scope_that_is_left_out_are_judged(barrier: bool) -> None:
    order = ['pto.mem_bar "VST_VLD"'] if barrier else []
    lines = [BARRIER, MASK, load("v"), store("v", "%c0"), *order, load("w"), store("w"), BARRIER]
    kinds = [finding.kind for finding in pto.races(pto.parse(text(lines)))]
    assert kinds == ([] if barrier else ["race"])


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["sprsti", "sprsts", "sprclr", "vsqz"])
def test_generated_scopes_that_are_left_out_can_be_made(name: str) -> None:
    options = replace(MICRO, only=frozenset({name}), statements=3)
    for index in range(40):
        program = generate(3201, index, options).program
        assert [d for d in pto.verify(program, "a5") if d.severity == "error"] == []


@pytest.mark.parametrize(
    "line",
    [
        'pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
        "pto.tsync ins(%part : !pto.partition_tensor_view<32x32xf32>)",
        "pto.barrier #pto.pipe<PIPE_ALL>",
    ],
)
@pytest.mark.parametrize("scope", ["pto.vecscope {", "pto.strict_vecscope() { ^bb0():"])
def test_a_scope_without_an_operation_on_registers_is_checked_too(scope: str, line: str) -> None:
    body = f"{scope}\n{line}\n}}" + (" : () -> ()" if "strict" in scope else "")
    text = f"func.func @k(%part: !pto.partition_tensor_view<32x32xf32>) {{\n{body}\nreturn\n}}"
    messages = [d.message for d in pto.verify(pto.parse(text), profile="a5") if d.severity == "error"]
    assert messages[0].startswith("stands in a vector scope"), messages


STRICT = """pto.strict_vecscope(%x_ub, %x, %c0, %c64) {
    ^bb0(%x: !pto.ptr<f32, ub>, %x_3: !pto.ptr<f32, gm>, %c0: index, %c64: index):
      %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %both:2 = scf.for %one = %c0 to %c64 step %c64 iter_args(%x_ub = %x, %size = %m)
          -> (!pto.ptr<f32, ub>, !pto.mask<b32>) {
        %v, %c1 = pto.vlds %x_ub[%c64] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>, !pto.ptr<f32, ub>
        %w = pto.vneg %v, %size : !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
        pto.vsts %w, %c1[%one], %size : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
        scf.yield %c1, %size : !pto.ptr<f32, ub>, !pto.mask<b32>
      }
      %v = pto.vlds %both#0[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
      pto.vsts %v, %x[%c0], %both#1 : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
    } : (!pto.ptr<f32, ub>, !pto.ptr<f32, gm>, index, index) -> ()"""


def strict(generic: bool) -> str:
    text = kernel("", {"x": "f32"}).replace("pto.vecscope {\n\n    }", STRICT)
    assert STRICT in text
    if not generic:
        return text
    for short, long in (
        ("pto.strict_vecscope(%x_ub, %x, %c0, %c64) {", '"pto.strict_vecscope"(%x_ub, %x, %c0, %c64) ({'),
        ("} : (!pto.ptr<f32, ub>, !pto.ptr<f32, gm>, i", "}) : (!pto.ptr<f32, ub>, !pto.ptr<f32, gm>, i"),
    ):
        assert short in text
        text = text.replace(short, long)
    return text


@pytest.mark.variants(0)
@pytest.mark.parametrize("generic", [False, True])
def test_a_strict_scope_may_use_names_from_outside_for_its_own_values(generic: bool) -> None:
    text = strict(generic)
    x = np.arange(1024, dtype=np.float32)
    result = executed(text, {"x": x}, everywhere=True)["x"]
    np.testing.assert_array_equal(result, np.r_[-x[:64], -x[:64], x[128:]])
    # Every name is one value: text that is printed has others, and reads as the same program.
    printed = str(pto.parse(text))
    assert "%x_2: !pto.ptr<f32, vec>" in printed and pto.parse(printed) == pto.parse(text)


@pytest.mark.parametrize("name", ["x", "x_3", "m"])
def test_names_of_a_strict_scope_are_defined_once(name: str) -> None:
    text = strict(False).replace("%v = pto.vlds %both#0", f"%{name} = pto.vlds %both#0")
    line = next(n for n, t in enumerate(text.split("\n"), 1) if "^bb0" in t)
    where = line + 1 if name == "m" else line
    with pytest.raises(pto.ParseError, match=rf"second definition of %{name}.* on line {where}, column"):
        pto.parse(text)


def test_scopes_in_the_generic_form() -> None:
    body = '%m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>'
    text = kernel(body, {"x": "f32"})
    generic = text.replace("pto.vecscope {", '"pto.vecscope"() ({').replace(
        f"{body}\n    }}", f"{body}\n    }}) : () -> ()"
    )
    assert pto.parse(generic) == pto.parse(text)
    wrong = strict(True).replace("%x_3: !pto.ptr<f32, gm>, ", "")
    with pytest.raises(pto.ParseError, match=r"4 captured value"):
        pto.parse(wrong)
