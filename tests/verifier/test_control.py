"""Scalar operations and control flow: every type mistake is one error that says what is allowed."""

from collections.abc import Callable

import pytest

from pto_jax import ir
from pto_jax.errors import Diagnostic
from pto_jax.profiles import profile
from pto_jax.text import parse, print_program
from pto_jax.verifier.programs import verify_program

Check = Callable[..., list[Diagnostic]]
NUMBERS = {
    "i": ir.I32,
    "j": ir.I64,
    "s": ir.I16,
    "b": ir.I8,
    "c": ir.I1,
    "n": ir.INDEX,
    "f": ir.F32,
    "h": ir.F16,
}
ARGS = ", ".join(f"%{name}: {d.name}" for name, d in NUMBERS.items())


def wrap(body: str) -> str:
    return f"func.func @f({ARGS}) {{\n{body}\nreturn\n}}"


INTEGER = (
    "addi subi muli divsi divui ceildivsi ceildivui floordivsi remsi remui andi ori xori shli shrsi shrui "
    "minsi minui maxsi maxui"
).split()
FLOAT = "addf subf mulf divf remf minimumf maximumf minnumf maxnumf".split()
LEGAL = [
    *(f"arith.{op} %{v}, %{v} : {NUMBERS[v].name}" for op in INTEGER for v in "ijsbcn"),
    *(f"arith.{op} %{v}, %{v} : {NUMBERS[v].name}" for op in FLOAT for v in "fh"),
    *(f"arith.cmpi {p}, %i, %i : i32" for p in "eq ne slt sle sgt sge ult ule ugt uge".split()),
    "arith.cmpi eq, %n, %n : index",
    *(f"arith.cmpf {p}, %f, %f : f32" for p in "oeq ogt une uno ord".split()),
    *(f"arith.select %c, %{v}, %{v} : {NUMBERS[v].name}" for v in "infc"),
    *(f"arith.{op} %i : i32 to index" for op in ("index_cast", "index_castui")),
    "arith.index_cast %n : index to i64",
    *(f"arith.{op} %b : i8 to i64" for op in ("extsi", "extui")),
    "arith.trunci %j : i64 to i8",
    "arith.extf %h : f16 to f32",
    "arith.truncf %f : f32 to f16",
    *(f"arith.{op} %i : i32 to f16" for op in ("sitofp", "uitofp")),
    *(f"arith.{op} %f : f32 to i8" for op in ("fptosi", "fptoui")),
    "arith.bitcast %f : f32 to i32",
    "arith.negf %f : f32",
]


def test_every_operation_takes_the_types_it_is_defined_for(check: Check) -> None:
    body = "\n".join(f"%r{i} = {text}" for i, text in enumerate(LEGAL))
    assert check(wrap(body)) == []


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("arith.addi %f, %f : f32", "an integer or index"),
        ("arith.minsi %h, %h : f16", "an integer or index"),
        ("arith.addf %i, %i : i32", "a float"),
        ("arith.negf %n : index", "a float"),
        ("arith.cmpi eq, %f, %f : f32", "an integer or index"),
        ("arith.cmpf oeq, %i, %i : i32", "a float"),
        ("arith.index_cast %i : i32 to i64", "index to or from an integer"),
        ("arith.index_cast %f : f32 to index", "an integer or index"),
        ("arith.extsi %j : i64 to i32", "a wider integer"),
        ("arith.extsi %i : i32 to index", "an integer"),
        ("arith.trunci %s : i16 to i16", "a narrower integer"),
        ("arith.extf %f : f32 to f16", "a wider float"),
        ("arith.truncf %h : f16 to f32", "a narrower float"),
        ("arith.sitofp %f : f32 to f16", "an integer"),
        ("arith.fptosi %f : f32 to f16", "an integer"),
        ("arith.bitcast %f : f32 to i16", "types of one width"),
    ],
)
def test_a_wrong_type_is_one_error(check: Check, text: str, allowed: str) -> None:
    (found,) = check(wrap(f"%r = {text}"))
    assert found.rule == "scalar-types" and f"allowed: {allowed}" in found.message
    assert found.span is not None and found.span.line == 2


GOOD = [
    "%r = scf.for %k = %n to %n step %n iter_args(%a = %f) -> (f32) { scf.yield %a : f32 }",
    "scf.for %k = %i to %i step %i : i32 { %x = arith.addi %k, %i : i32 }",
    "%r = scf.if %c -> (f32) { scf.yield %f : f32 } else { scf.yield %f : f32 }",
    "scf.if %c { }",
    "%r:2 = scf.while (%a = %i, %e = %f) : (i32, f32) -> (f32, i32) { scf.condition(%c) %e, %a : f32, i32 } "
    "do { ^bb0(%p: f32, %q: i32): scf.yield %q, %p : i32, f32 }",
    "%r, %r2 = scf.execute_region -> (f32, i32) { scf.yield %f, %i : f32, i32 }",
    "%r = scf.index_switch %n -> (i32) case 2 { scf.yield %i : i32 } default { scf.yield %i : i32 }",
    "scf.index_switch %n case -1 { } case 7 { } default { }",
]


@pytest.mark.parametrize("text", GOOD)
def test_control_flow_is_accepted_and_printed_back(check: Check, text: str) -> None:
    assert check(wrap(text)) == []
    program = parse(wrap(text))
    assert parse(print_program(program)) == program


def value(name: str, d: ir.DType = ir.INDEX) -> ir.Value:
    return ir.Value(name, ir.ScalarType(d))


def end(*values: ir.Value, name: str = "scf.yield") -> ir.Op:
    return ir.Op(name, values)


def loop(
    *ops: ir.Op,
    inits: tuple[ir.Value, ...] = (),
    args: tuple[ir.Value, ...] = (),
    results: tuple[ir.Value, ...] = (),
) -> ir.Op:
    bounds = (value("n"), value("n"), value("n"))
    groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", len(inits)))
    return ir.Op(
        "scf.for", (*bounds, *inits), (), results, (), (ir.Region(ops, (value("k"), *args)),), groups
    )


def op(
    name: str,
    ins: tuple[ir.Value, ...],
    *regions: ir.Region,
    results: tuple[ir.Value, ...] = (),
    **more: ir.AttrValue,
) -> ir.Op:
    return ir.Op(name, ins, (), results, ir.attrs(more), regions)


N, M, F, C, R = value("n"), value("i", ir.I32), value("f", ir.F32), value("c", ir.I1), value("r", ir.F32)
A = value("a", ir.F32)
EMPTY = ir.Region(())
BAD: dict[str, tuple[ir.Op, str]] = {
    "carried value of another type": (
        loop(end(value("a", ir.F16)), inits=(F,), args=(value("a", ir.F16),), results=(R,)),
        "carried-types",
    ),
    "yield of another type": (loop(end(M), inits=(F,), args=(A,), results=(R,)), "carried-types"),
    "yield of too few": (loop(end(), inits=(F,), args=(A,), results=(R,)), "carried-types"),
    "no yield": (loop(inits=(F,), args=(A,), results=(R,)), "terminator"),
    "result of another type": (
        loop(end(A), inits=(F,), args=(A,), results=(value("r", ir.I32),)),
        "carried-types",
    ),
    "float bound": (
        ir.Op(
            "scf.for", (F, F, F), regions=(ir.Region((), (A,)),), groups=(("lb", 1), ("ub", 1), ("step", 1))
        ),
        "bounds",
    ),
    "bounds of two types": (
        ir.Op(
            "scf.for",
            (N, M, N),
            regions=(ir.Region((), (value("k"),)),),
            groups=(("lb", 1), ("ub", 1), ("step", 1)),
        ),
        "bounds",
    ),
    "condition that is no truth value": (op("scf.if", (M,), EMPTY), "condition"),
    "result without else": (op("scf.if", (C,), ir.Region((end(F),)), results=(R,)), "regions"),
    "branch of another type": (
        op("scf.if", (C,), ir.Region((end(F),)), ir.Region((end(M),)), results=(R,)),
        "carried-types",
    ),
    "while without condition": (op("scf.while", (), EMPTY, EMPTY), "terminator"),
    "condition passes another type": (
        op(
            "scf.while",
            (F,),
            ir.Region((end(C, M, name="scf.condition"),), (A,)),
            ir.Region((end(value("b", ir.F32)),), (value("b", ir.F32),)),
            results=(R,),
        ),
        "carried-types",
    ),
    "region without result": (op("scf.execute_region", (), EMPTY, results=(R,)), "terminator"),
    "switch on an integer": (op("scf.index_switch", (M,), EMPTY, cases=()), "condition"),
    "case twice": (op("scf.index_switch", (N,), EMPTY, EMPTY, EMPTY, cases=(1, 1)), "cases"),
    "missing default": (op("scf.index_switch", (N,), EMPTY, cases=(1,)), "regions"),
    "unknown operation": (op("scf.forall", ()), "supported"),
    "yield in a function": (end(), "terminator"),
    "return in a loop": (loop(end(name="return")), "terminator"),
    "work after a yield": (loop(end(), op("scf.execute_region", (), EMPTY)), "terminator"),
}


def program_of(body: ir.Op) -> ir.Program:
    args = (N, M, F, C)
    return ir.Program((ir.Function("f", args, ir.Region((body, ir.Op("return")))),))


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_in_a_program_built_in_python_is_one_error(name: str) -> None:
    body, rule = BAD[name]
    errors = [d for d in verify_program(program_of(body), profile("a5")) if d.severity == "error"]
    assert [d.rule for d in errors] == [rule], errors
    assert "allowed" in errors[0].message or rule == "supported"


def test_a_constant_step_is_positive(check: Check) -> None:
    body = "%z = arith.constant 0 : index\nscf.for %k = %n to %n step %z { }"
    assert [d.rule for d in check(wrap(body))] == ["step"]


def test_a_tile_is_handed_over_as_it_is_defined(check: Check) -> None:
    t, u = "!pto.tile_buf<vec, 16x64xf32>", ir.TileType(ir.F32, 16, 64)
    body = f"%x = pto.alloc_tile : {t}\n%y = pto.alloc_tile : {t}\n" + (
        f"%r = scf.if %c -> ({t}) {{ scf.yield %x : {t} }} else {{ scf.yield %y : {t} }}\n"
        f"pto.tneg ins(%r : {t}) outs(%x : {t})"
    )
    assert check(wrap(body)) == []
    x, r = ir.Value("x", u), ir.Value("r", u.with_valid(8, 64))
    made = (
        ir.Op("alloc_tile", results=(x,)),
        op("scf.if", (C,), ir.Region((end(x),)), ir.Region((end(x),)), results=(r,)),
    )
    program = ir.Program((ir.Function("f", (C,), ir.Region((*made, ir.Op("return")))),))
    assert [d.rule for d in verify_program(program, profile("a5"))] == ["carried-types"]


def test_a_name_of_a_sibling_region_is_no_constant(check: Check) -> None:
    """A constant in one branch says nothing about the same name in another."""
    t = "!pto.tile_buf<vec, 16x64xf32>"
    body = (
        "scf.if %c { %x = arith.constant 16 : i64 } else { %x = arith.addi %j, %j : i64\n"
        f"%t = pto.alloc_tile addr = %x : {t} }}"
    )
    assert check(wrap(body)) == []
