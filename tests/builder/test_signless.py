"""Unsigned numbers of a program: the arith dialect computes on signless integers, between casts."""

import operator
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax import builder as b
from pto_jax.generate import programs as generator
from pto_jax.generate.options import PRESETS
from pto_jax.ir import Op
from pto_jax.isa.signless import computes_on_signless, on_signless, unsigned_of
from pto_jax.isa.traits import CAST
from pto_jax.verifier.scalars import _RULES

UNSIGNED = ("u8", "u16", "u32", "u64")
TYPES = (*UNSIGNED, "i8", "i16", "i32", "i64", "index", "f32", "f16", "i1")
_UNSIGNED_ARITH = re.compile(r"arith\.(?!select)\w+[^\n]*\bui\d+")


#: Operations on two numbers, as the builder and as NumPy have them.
BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "+": (operator.add, operator.add),
    "-": (operator.sub, operator.sub),
    "*": (operator.mul, operator.mul),
    "//": (operator.floordiv, operator.floordiv),
    "%": (operator.mod, operator.mod),
    "&": (operator.and_, operator.and_),
    "|": (operator.or_, operator.or_),
    "^": (operator.xor, operator.xor),
    "<<": (operator.lshift, operator.lshift),
    ">>": (operator.rshift, operator.rshift),
    "minimum": (b.minimum, np.minimum),
    "maximum": (b.maximum, np.maximum),
    "ceildiv": (b.ceildiv, lambda x, y: x // y + (x % y != 0).astype(x.dtype)),
    "floordiv": (b.floordiv, operator.floordiv),
    "select": (lambda x, y: b.select(x > y, x, y), np.maximum),
    "-x": (lambda x, y: -x, lambda x, y: np.negative(x)),
    "~x": (lambda x, y: ~x, lambda x, y: np.invert(x)),
    "constant": (lambda x, y: b.constant(200, x.type), lambda x, y: x.dtype.type(200)),
}
COMPARED = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def _checked(program: pto.Program) -> None:
    text = str(program)
    assert not _UNSIGNED_ARITH.search(text), text
    assert pto.parse(text) == program
    assert pto.verify(program) == [] and pto.verify(pto.parse(text)) == []
    assert not [op for op in program.walk() if unsigned_of(op)]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("d", UNSIGNED)
def test_operations_of_the_builder_have_the_values_of_unsigned_numbers(d: str, name: str) -> None:
    build, reference = BINARY[name]

    @b.kernel(types={"p": b.ptr(d), "x": d, "y": d})
    def k(p: Any, x: Any, y: Any) -> None:
        b.store_scalar(build(x, y), p, 0)
        b.store_scalar(build(x, 3), p, 1)

    _checked(k.program)
    t = pto.ir.dtype(d).numpy
    x, y = t.type((1 << 8 * t.itemsize) - 6), t.type(5)
    with np.errstate(over="ignore"):
        expected = [reference(x, y), reference(x, t.type(3))]
    arrays = {"p": np.zeros(2, t), "x": x, "y": y}
    np.testing.assert_array_equal(pto.oracle.run(k.program, arrays)["p"], expected)
    np.testing.assert_array_equal(k(*arrays.values())["p"], expected)


@pytest.mark.parametrize("d", UNSIGNED)
def test_comparisons_of_the_builder_are_those_of_unsigned_numbers(d: str) -> None:
    @b.kernel(types={"p": b.ptr("i32"), "x": d, "y": d})
    def k(p: Any, x: Any, y: Any) -> None:
        for i, compared in enumerate(COMPARED):
            with b.if_(compared(x, y)):
                b.store_scalar(1, p, i)
            with b.if_(compared(7, y)):
                b.store_scalar(1, p, i + len(COMPARED))

    _checked(k.program)
    t = pto.ir.dtype(d).numpy
    x, y = t.type((1 << 8 * t.itemsize) - 1), t.type(7)
    expected = [int(c(a, y)) for a in (x, y) for c in COMPARED]
    arrays = {"p": np.zeros(2 * len(COMPARED), np.int32), "x": x, "y": y}
    np.testing.assert_array_equal(pto.oracle.run(k.program, arrays)["p"], expected)
    np.testing.assert_array_equal(k(*arrays.values())["p"], expected)


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("d", UNSIGNED)
def test_casts_of_the_builder_go_through_signless_integers(d: str, target: str) -> None:
    @b.kernel(types={"p": b.ptr(d), "x": d})
    def k(p: Any, x: Any) -> None:
        b.store_scalar(b.cast(b.cast(x, target), d), p, 0)

    _checked(k.program)
    t = pto.ir.dtype(d).numpy
    x = t.type(1 if target == "i1" else 77)
    arrays = {"p": np.zeros(1, t), "x": x}
    assert pto.oracle.run(k.program, arrays)["p"][0] == x == np.asarray(k(*arrays.values())["p"])[0]


def test_values_of_a_branch_and_of_a_loop_are_seen_where_they_are_used() -> None:
    @b.kernel(types={"p": b.ptr("u8"), "x": "u8", "n": "index"})
    def k(p: Any, x: Any, n: Any) -> None:
        with b.if_(n > 1):
            b.store_scalar(x // 2, p, 0)
        b.store_scalar(x // 3, p, 1)
        loop = b.range(n, carried=[x])
        for _i, s in loop:
            loop.give(s // 2)
        b.store_scalar(loop.result, p, 2)

    _checked(k.program)
    arrays = {"p": np.zeros(3, np.uint8), "x": np.uint8(201), "n": 3}
    np.testing.assert_array_equal(pto.oracle.run(k.program, arrays)["p"], [100, 67, 25])
    np.testing.assert_array_equal(k(*arrays.values())["p"], [100, 67, 25])


def test_a_bound_of_a_loop_has_a_sign() -> None:
    def bounded(text: str) -> pto.Program:
        @b.kernel(types={"x": "u32"})
        def k(x: Any) -> None:
            for _i in b.range(eval(text, {"pto": pto, "x": x})):
                pass

        program: pto.Program = k.program
        return program

    with pytest.raises(pto.BuildError, match="range: got x: u32; allowed: index") as caught:
        bounded("x")
    assert bounded(caught.value.fix).functions


#: Every operation of the dialect that has integers, with its operands and its result: ``T`` is unsigned.
TEXTS = {
    **{
        n.removeprefix("arith."): f"%r = {n} %x, %y : T"
        for n in (f"arith.{w}" for w in
                  "addi subi muli divui ceildivui remui andi ori xori shli shrui minui maxui".split())
    },
    "constant": "%r = arith.constant 3 : T",
    "cmpi": "%r = arith.cmpi ugt, %x, %y : T",
    "index_castui": "%r = arith.index_castui %x : T to index",
    "extui": "%r = arith.extui %x : T to i64",
    "trunci": "%r = arith.trunci %x : T to i4",
    "uitofp": "%r = arith.uitofp %x : T to f32",
    "fptoui": "%r = arith.fptoui %f : f32 to T",
    "bitcast": "%r = arith.bitcast %x : T to f16",
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_with_unsigned_arithmetic_has_a_warning_whose_fix_can_be_pasted(name: str) -> None:
    line = (
        TEXTS[name]
        .replace(": T", ": U")
        .replace("to T", "to U")
        .replace("U", "ui8" if name == "extui" else "ui16")
    )
    line = line.replace(" to i4", " to i8")
    head = "func.func @k(%x: ui16, %y: ui16, %f: f32) {\n"
    head = head.replace("ui16", "ui8") if name == "extui" else head
    program = pto.parse(f"{head}  {line}\n  return\n}}\n")
    (warning,) = pto.verify(program)
    assert (warning.severity, warning.rule) == ("warning", "signless")
    assert "refuses here; allowed: signless integers" in warning.message
    repaired = pto.parse(f"{head}{warning.fix}\n  return\n}}\n")
    assert pto.verify(repaired) == [] and not _UNSIGNED_ARITH.search(str(repaired))


def test_every_operation_on_integers_is_in_the_table_or_keeps_its_sign() -> None:
    signed = {n for n in _RULES if re.search("si$|sitofp|fptosi|index_cast$", n)}
    floats = {n for n in _RULES if n.endswith("f")}
    assert {f"arith.{n}" for n in TEXTS} == {n for n in _RULES if computes_on_signless(n)} - signed - floats


def test_both_fixes_of_a_text_can_be_pasted_at_once() -> None:
    text = """\
func.func @k(%p: !pto.ptr<ui8>, %0: ui8) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 200 : ui8
  %q = arith.divui %0, %c3 : ui8
  pto.store_scalar %q, %p[%c0] : !pto.ptr<ui8>, ui8
  return
}
"""
    program = pto.parse(text)
    lines = text.splitlines()
    for warning in pto.verify(program):
        assert warning.span is not None
        lines[warning.span.line - 1] = warning.fix
    repaired = pto.parse("\n".join(lines) + "\n")
    assert pto.verify(repaired) == []
    arrays = {"p": np.zeros(1, np.uint8), "0": np.uint8(201)}
    for p in (program, repaired):
        assert pto.oracle.run(p, arrays)["p"][0] == 1
        with warnings.catch_warnings(action="ignore"):
            assert np.asarray(pto.compile(p)(*arrays.values())["p"])[0] == 1


LOOP = """\
func.func @k(%p: !pto.ptr<i32>, %n: T, %m: T) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %sum = scf.for %i = %m to %n step %m iter_args(%s = %zero) -> (i32) : T {
    %w = arith.index_castui %i : T to index
    %x = arith.index_cast %w : index to i32
    %t = arith.addi %s, %x : i32
    scf.yield %t : i32
  }
  pto.store_scalar %sum, %p[%c0] : !pto.ptr<i32>, i32
  return
}
"""


@pytest.mark.parametrize("d", ["u8", "u16", "u32"])
def test_a_text_with_an_unsigned_loop_has_a_warning_whose_fix_counts_the_same(d: str) -> None:
    text = LOOP.replace(": T", f": {d.replace('u', 'ui')}")
    lines = text.splitlines()
    program = pto.parse(text)
    (loop, *others) = pto.verify(program)
    assert (loop.severity, loop.rule, loop.instruction) == ("warning", "signless", "scf.for")
    for warning in (loop, *others):
        assert warning.span is not None
        lines[warning.span.line - 1] = warning.fix
    repaired = pto.parse("\n".join(lines) + "\n")
    assert pto.verify(repaired) == []
    # Beyond the largest number with a sign.
    n = {"u8": 250, "u16": 60000, "u32": 4_000_000_000}[d]
    number = np.dtype(f"uint{d[1:]}").type
    arrays = {"p": np.zeros(1, np.int32), "n": number(n), "m": number(n // 5)}
    expected = np.uint32(n // 5 * 10 % (1 << 32)).view(np.int32)
    for tried in (program, repaired):
        with warnings.catch_warnings(action="ignore"):
            result = np.asarray(pto.compile(tried)(*arrays.values())["p"])[0]
        assert pto.oracle.run(tried, arrays)["p"][0] == result == expected


def test_unsigned_constants_of_emitted_code_are_casts() -> None:
    source = """\
__global__ AICORE void k(__gm__ uint16_t *v1, uint16_t v2) {
    Tile<TileType::Vec, uint16_t, 16, 64, BLayout::RowMajor, 16, 64> v5;
    TASSIGN(v5, 0);
    TADDS(v5, v5, 3);
}
"""
    program = pto.parse(source, language="c++")
    assert [op.name for op in program.walk() if op.name.startswith(("arith", "builtin"))]
    assert not [op for op in program.walk() if unsigned_of(op)]


def test_generated_programs_compute_on_signless_integers() -> None:
    options = replace(PRESETS["cores"], scalars=0.9)
    programs = [generator.generate(5, index, options).program for index in range(30)]
    casts = [op for program in programs for op in program.walk() if op.name == CAST]
    assert casts and not [op for program in programs for op in program.walk() if unsigned_of(op)]


def test_an_operation_without_unsigned_numbers_is_itself() -> None:
    op = Op("arith.addi")
    assert on_signless(op, str) == (op,)
