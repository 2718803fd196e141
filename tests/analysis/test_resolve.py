"""Programs are read once: what is shared, what is bound, and what is wrong with it."""

import subprocess
import sys
import weakref
from dataclasses import replace

from pto_jax import isa
from pto_jax.analysis import resolve as module
from pto_jax.analysis.resolve import REMEMBERED, resolve
from pto_jax.api import parse
from pto_jax.ir import TileType
from pto_jax.profiles import profile

TEXT = "%c = pto.tadd %a, %b : !pto.tile<16x16xf32>\n%d = pto.tneg %c : !pto.tile<16x16xf32>"


def test_an_operation_is_bound_once() -> None:
    program = parse(TEXT)
    add, _ = program.walk()
    first = resolve(program).of(add)
    assert resolve(program).of(add) is first
    assert resolve(program, profile("a5")).of(add) is first
    assert first.instruction is isa.instructions()["tadd"]
    assert {n: v.name for n, v in first.values.items()} == {"src0": "a", "src1": "b", "dst": "c"}
    assert [v.name for v in first.written("tile")] == ["c"] and list(first.written("global")) == []
    assert [(e.access, v.name) for e, v in first.accesses()] == [("read", "a"), ("read", "b"), ("write", "c")]


def test_equal_programs_have_operations_of_their_own() -> None:
    one, other = parse(TEXT, "one.pto"), parse(TEXT, "other.pto")
    assert one == other and resolve(one) is not resolve(other)
    spans = [next(iter(resolve(p).program.walk())).span for p in (one, other)]
    assert [s.file for s in spans if s is not None] == ["one.pto", "other.pto"]


def test_views_come_from_arguments_through_calls_and_branches() -> None:
    p, text = "!pto.ptr<f32>", ""
    text += f"func.func @f(%p: {p}, %q: {p}, %c: i1, %n: index) attributes {{pto.entry}} {{\n"
    text += f"%r = func.call @g(%p, %n) : ({p}, index) -> {p}\n"
    text += (
        f"%s = scf.if %c -> ({p}) {{\nscf.yield %r : {p}\n}} else {{\nscf.yield %q : {p}\n}}\nreturn\n}}\n"
    )
    text += f"func.func private @g(%a: {p}, %n: index) -> {p} {{\n"
    text += f"%b = pto.addptr %a, %n : {p} -> {p}\nreturn %b : {p}\n}}"
    resolved = resolve(parse(text))
    outer, inner = resolved.program.functions
    found = resolved.origins(outer)
    assert found["r"] == {"p"} and found["s"] == {"p", "q"}
    assert resolved.origins(inner)["b"] == {"a"}
    assert resolved.origins(outer) is found


def test_operands_that_do_not_fit_are_a_diagnostic_and_no_error() -> None:
    program = parse(TEXT)
    function = program.functions[0]
    add, neg = function.body.ops
    wrong = replace(add, ins=add.ins * 2)
    body = replace(function.body, ops=(wrong, neg))
    resolved = resolve(replace(program, functions=(replace(function, body=body),)))
    assert resolved.of(wrong).bound is None and resolved.of(wrong).values == {}
    (problem,) = resolved.diagnostics
    assert problem.rule == "operands" and problem.span == add.span


def test_types_are_completed_where_they_follow_from_others() -> None:
    resolved = resolve(parse("%b = pto.tneg %a : !pto.tile<16x16xf32>\n%d = tadd %b, %b"))
    assert not resolved.is_open
    _, add = resolved.program.functions[0].body.ops
    assert isinstance(resolved.of(add).values["dst"].type, TileType)
    assert resolve(parse("%d = tadd %a, %b")).is_open


def test_what_is_remembered_is_bounded() -> None:
    program = parse(TEXT)
    reference = weakref.ref(program)
    resolve(program)
    del program
    for _ in range(REMEMBERED):
        resolve(parse(TEXT))
    assert reference() is None
    assert module._remembered.cache_info().currsize <= REMEMBERED


def test_analysis_needs_no_jax() -> None:
    code = (
        "import sys; import pto_jax.analysis.resolve, pto_jax.verifier.programs; "
        "raise SystemExit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
