"""Facts on numbers, held against the interpreter, which knows none of them."""

import ast
import importlib
import inspect
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax import isa, oracle
from pto_jax.campaign.report.measure import drawn, measured, reference, rounded
from pto_jax.ir import F32, DType, PartitionViewType, ScalarType, TileType, dtype
from pto_jax.isa.declare import Instruction
from pto_jax.isa.rules.constraints import element_type
from pto_jax.isa.samples.operations import Sample, legal_samples, to_program
from pto_jax.isa.semantics import REAL, Formula
from pto_jax.profiles import CPU_SIM
from pto_jax.testing.differential import random_words
from pto_jax.vectors.compare import is_nan, ulp_distance
from tests.tables import every

TABLE = isa.instructions()
Words = NDArray[Any]
FLOATS = ("f32", "f16", "bf16")
NAMES = pytest.mark.parametrize("name", [n for n, i in TABLE.items() if i.lane_wise])


def run(sample: Sample, words: Mapping[str, Words], dst: str | None = None) -> Words:
    """Words of the interpreter's result; ``dst`` is the source that is the destination too."""
    program = to_program(sample)
    if dst is not None:
        (function,) = program.functions
        (op,) = function.body.ops
        there = next(v for v in op.ins if v.name == dst)
        body = replace(function.body, ops=(replace(op, outs=(there,), results=()),))
        arguments = tuple(a for a in function.args if a.name != "dst")
        function = replace(function, body=body, args=arguments)
        program = replace(program, functions=(function,), fragment_results=(dst,))
    given: dict[str, Any] = {}
    for a in program.functions[0].args:
        t = a.type
        assert isinstance(t, TileType | ScalarType), t
        given[a.name] = words[a.name].view(t.dtype.numpy)
        if isinstance(t, TileType):
            given[a.name] = oracle.OracleTile(t, words[a.name].copy())
    with np.errstate(all="ignore"):
        result = oracle.run(program, given, profile=CPU_SIM)[dst or "dst"]
    return np.asarray(result.data).view(words[dst or "dst"].dtype)


def operands(sample: Sample, seed: int = 0) -> dict[str, Words]:
    """Random words for the operands of a sample, those of divisors and shift counts in range."""
    rng = np.random.default_rng(zlib.crc32(f"{sample.instruction.name} {sample.form}".encode(), seed))
    found: dict[str, Words] = {}
    for name, t in sample.types.items():
        assert isinstance(t, TileType | ScalarType), t
        shape = t.shape if isinstance(t, TileType) else ()
        d = t.dtype
        words = np.asarray(random_words(rng, d, shape))
        if isinstance(t, ScalarType) and d.is_float:
            words = rounded(d, np.asarray(1.375))
        if name == divisor_of(sample):
            words = np.where((words & d.word.type((1 << (d.bits - 1)) - 1)) == 0, d.word.type(1), words)
        if name == sample.instruction.shift_count:
            words = words % d.word.type(d.bits)
        found[name] = words
    return found


def divisor_of(sample: Sample) -> str | None:
    """The operand that integers are divided by: of those that can be, the last of an overload."""
    return next((n for n in reversed(sample.form) if n in sample.instruction.divisor), None)


def samples(instruction: Instruction) -> Iterator[Sample]:
    """Samples without global memory, one per element type of the destination and overload."""
    seen: set[object] = set()
    for sample in legal_samples(instruction, CPU_SIM):
        d = element_type(sample.types["dst"])
        if any(isinstance(t, PartitionViewType) for t in sample.types.values()) or (d, sample.form) in seen:
            continue
        seen.add((d, sample.form))
        yield sample


# -- facts and operands --------------------------------------------------------------------------------


def test_facts_name_sources() -> None:
    for name, i in TABLE.items():
        sources = {o.name for o in i.operands if o.role == "in"}
        named = {*i.divisor, *i.positive, *(n for listed in i.in_place.values() for n in listed)}
        named |= {i.shift_count} if i.shift_count is not None else set()
        assert named <= sources, name


def test_divisors_and_shift_counts_can_be_integers() -> None:
    divided = {n: i.divisor for n, i in TABLE.items() if i.divisor}
    shifted = {n: (i.shift_count,) for n, i in TABLE.items() if i.shift_count is not None}
    assert len(divided) == 9
    assert set(shifted) == {"tshl", "tshr", "tshls", "tshrs"}
    for name, listed in (*divided.items(), *shifted.items()):
        i = TABLE[name]
        for operand in listed:
            assert operand is not None
            column = i.type_vars.index(i.operand(operand).dtype or "")
            types = {dtype(row[column]) for rows in i.types.values() for row in rows}
            assert any(d.is_integer for d in types), (name, operand)
            assert name in divided or all(d.is_integer for d in types), name


@pytest.mark.parametrize("name", [n for n, i in TABLE.items() if i.divisor])
def test_zeros_of_a_divisor_give_all_ones_or_the_dividend(name: str) -> None:
    """An integer zero in another operand does not."""
    for sample in samples(TABLE[name]):
        d = element_type(sample.types["dst"])
        assert d is not None
        divisor = divisor_of(sample)
        assert divisor is not None
        if not d.is_integer or isinstance(sample.types[divisor], ScalarType):
            continue
        words = operands(sample)
        words[divisor] = np.zeros_like(words[divisor])
        ones = d.word.type((1 << d.bits) - 1)
        result = run(sample, words)
        quotient = TABLE[name].formulas[0].operation in ("div", "recip")
        expected = ones if quotient else words[next(n for n in sample.form if n != divisor)]
        assert (result == expected).all(), sample.types


# -- formulas ------------------------------------------------------------------------------------------


def wrapped(d: DType, values: Any) -> NDArray[Any]:
    """Python integers as an integer type holds them."""
    low = np.asarray(values, object) & ((1 << d.bits) - 1)
    signed: NDArray[Any] = np.where(low >> (d.bits - 1) == 1, low - (1 << d.bits), low)
    return signed if d.is_signed else low


def toward_zero(a: Any, b: Any) -> Any:
    quotient = abs(a) // abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def remainder(a: Any, b: Any) -> Any:
    return a - toward_zero(a, b) * b


def floored(a: Any, b: Any) -> Any:
    return a - a // b * b


INTEGER: Mapping[str, Callable[..., Any]] = {
    **REAL,
    "div": toward_zero,
    "recip": lambda a: toward_zero(a * 0 + 1, a),
    "fmod": remainder,
    "rem": floored,
}


def is_complete(formula: Formula, d: DType) -> bool:
    """Whether a formula says all about values of a type, to this test."""
    functions = INTEGER if d.is_integer else REAL
    real_only = {"pow", "exp", "log", "sqrt", "rsqrt"}
    known = formula.functions <= set(functions) and not (d.is_integer and formula.functions & real_only)
    return formula.complete and known and (d.is_integer or d.name in FLOATS)


def value(formula: Formula, d: DType, numbers: Mapping[str, Words]) -> Words:
    """Words of a formula's value on words, in the order of the text."""
    with np.errstate(all="ignore"):
        if not d.is_integer:
            return reference(formula, d, numbers)
        shape = np.broadcast_shapes(*(w.shape for w in numbers.values()))
        exact = {
            n: wrapped(d, np.broadcast_to(w, shape or (1, 1)).astype(object)) for n, w in numbers.items()
        }
        result = formula.evaluate(exact, INTEGER, lambda x: wrapped(d, x))
        return (np.asarray(result, object) & ((1 << d.bits) - 1)).astype(d.word)


def apart(instruction: Instruction, d: DType, got: Words, expected: Words) -> NDArray[np.bool_]:
    """Lanes that differ by more than the declared bound; a NaN equals every NaN."""
    different = got != expected
    if d.is_float:
        nan = is_nan(d, got), is_nan(d, expected)
        different &= ~(nan[0] & nan[1])
        different &= nan[0] | nan[1] | (ulp_distance(d, got, expected) > instruction.ulp.get(d.name, 0))
    return np.asarray(different)


def formula_differs(sample: Sample, formula: Formula, d: DType) -> bool:
    words = operands(sample)
    read = [n for n in sample.form if sample.instruction.operand(n).role != "tmp"]
    read += [o.name for o in sample.instruction.operands if o.role == "inout"]
    expected = np.broadcast_to(value(formula, d, {n: words[n] for n in read}), words["dst"].shape)
    return bool(apart(sample.instruction, d, run(sample, words), expected).any())


@NAMES
def test_complete_formulas_are_what_the_interpreter_computes(name: str) -> None:
    for sample in samples(TABLE[name]):
        d, formula = element_type(sample.types["dst"]), TABLE[name].formula(sample.form)
        assert d is not None
        if formula is not None and is_complete(formula, d):
            assert not formula_differs(sample, formula, d), (formula, sample.types)


def test_most_lane_wise_instructions_have_a_complete_formula() -> None:
    lane_wise = {n: i for n, i in TABLE.items() if i.lane_wise}
    without = {n for n, i in lane_wise.items() if not any(is_complete(f, F32) for f in i.formulas)}
    integers = {"tand", "tor", "txor", "tnot", "tands", "tors", "txors", "tshl", "tshr", "tshls", "tshrs"}
    assert without - integers == {
        *("taddreluconv", "tsubreluconv", "tadddeqrelu"),
        *("tcvt", "taddrelu", "tsubrelu", "taxpy", "tfusedmuladd"),
    }


def test_a_wrong_formula_is_seen() -> None:
    (sample,) = (s for s in samples(TABLE["tmuladddst"]) if element_type(s.types["dst"]) == dtype("f16"))
    (formula,) = TABLE["tmuladddst"].formulas
    assert not formula_differs(sample, formula, dtype("f16"))
    assert formula_differs(sample, Formula(formula.text, "f32"), dtype("f16"))
    assert formula_differs(sample, Formula("src0 * src1 - dst"), dtype("f16"))


def test_the_prose_says_the_formula() -> None:
    for name, i in TABLE.items():
        for formula in i.formulas if i.lane_wise else ():
            if formula.spelled({n: n for n in formula.names}) is not None and "first" not in formula.names:
                assert f"dst = {formula.shown or formula.text}" in i.semantics.replace("[i,j]", ""), name


def test_traces_spell_a_formula_where_it_is_an_expression() -> None:
    def spelled(name: str, *form: str) -> str | None:
        read = [*form, *(o.name for o in TABLE[name].operands if o.role == "inout")]
        formula = TABLE[name].formula(form)
        assert formula is not None
        return formula.spelled(dict(zip(read, "ABC", strict=False)))

    assert spelled("tsub", "src0", "src1") == "A - B"
    assert spelled("taddc", "src0", "src1", "src2") == "(A + B) + C"
    assert spelled("taddc", "src0", "src1") == "A + B clamped to the finite range of the element type"
    assert spelled("tfusedmuladd", "src0", "src1") == "A * C + B"
    assert spelled("taxpy", "src", "scalar") == "C + A * B"
    assert spelled("tpow", "base", "exp") == "A ^ B"
    assert spelled("tor", "src0", "src1") == "A | B on the raw bits"
    assert spelled("texpands", "scalar") == "A in every valid lane"
    assert spelled("tmax", "src0", "src1") is None
    assert spelled("texp", "src") is None
    assert spelled("tdivs", "scalar", "src") is None


# -- accuracy ------------------------------------------------------------------------------------------


def test_everything_with_a_bound_has_a_formula() -> None:
    bounded = [i for i in TABLE.values() if i.accuracy.bounds]
    assert len(bounded) == 13
    for i in bounded:
        assert all(f.functions <= set(REAL) for f in i.formulas) and i.formulas, i.name


@pytest.mark.parametrize("name", measured())
def test_the_interpreter_is_within_the_bound_of_the_reference(name: str) -> None:
    i, rng = TABLE[name], np.random.default_rng(3)
    seen = set()
    for sample in samples(i):
        d, formula = element_type(sample.types["dst"]), i.formula(sample.form)
        assert d is not None
        assert formula is not None
        read = [n for n in sample.form if i.operand(n).role != "tmp"]
        shapes = {t.shape for n in ("dst", *read) if isinstance(t := sample.types[n], TileType)}
        if d.name not in i.accuracy.bounds or len(shapes) > 1:
            continue
        words = operands(sample)
        for operand, r in zip(read, i.accuracy.ranges, strict=True):
            words[operand] = np.asarray(drawn(r, rng, d, words[operand].shape))
        expected = reference(formula, d, {n: words[n] for n in read})
        assert ulp_distance(d, run(sample, words), expected).max() <= i.accuracy.bounds[d.name], d
        seen.add(d.name)
    assert "expdif" in name or {"f32", "f16"} <= seen


# -- lanes, moves, places ------------------------------------------------------------------------------


def changed(sample: Sample, operand: str, where: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each lane of the result changes when some lanes of an operand do."""
    before, other = operands(sample), operands(sample, 1)
    after = {**before, operand: np.where(where, other[operand], before[operand])}
    different: NDArray[np.bool_] = run(sample, before) != run(sample, after)
    return different


@NAMES
def test_a_lane_depends_on_that_lane_of_the_sources(name: str) -> None:
    sources = [o.name for o in TABLE[name].operands if o.kind == "tile" and o.role in ("in", "inout")]
    moved = set()
    for sample in list(samples(TABLE[name]))[:3]:
        for source in sources:
            t = sample.types.get(source)
            if isinstance(t, TileType):
                where = np.random.default_rng(4).random(t.shape) < 0.5
                lanes = changed(sample, source, where)
                assert not lanes[~where].any(), source
                moved |= {source} if lanes.any() else set()
    assert moved == set(sources)


@pytest.mark.parametrize("name", [n for n, i in TABLE.items() if i.lanes == "line"])
def test_a_lane_depends_on_lanes_of_its_line(name: str) -> None:
    """A lane of a source changes lanes of one row, or of one column."""
    for sample in list(samples(TABLE[name]))[:3]:
        for operand in (o for o in TABLE[name].operands if o.role == "in"):
            t = sample.types.get(operand.name)
            if isinstance(t, TileType):
                where = np.zeros(t.shape, np.bool_)
                where[t.rows // 2, 0] = True
                rows, cols = np.nonzero(changed(sample, operand.name, where))
                assert len(set(rows)) <= 1 or len(set(cols)) <= 1, operand


@pytest.mark.slow
@every("name", [n for n, i in TABLE.items() if i.in_place.get("cpu_sim")])
def test_a_destination_may_be_the_declared_source(name: str) -> None:
    executed = 0
    for sample in samples(TABLE[name]):
        dst = sample.types["dst"]
        for source in TABLE[name].in_place["cpu_sim"]:
            t = sample.types.get(source)
            if t != dst or TABLE[name].operand("dst").role == "inout":
                continue
            words = operands(sample)
            assert (run(sample, words, source) == run(sample, words)).all(), (source, dst)
            executed += 1
    others = ("tcmp", "tcmps", "tcvt", "taddreluconv", "tsubreluconv", "tadddeqrelu")
    accumulating = any(o.role == "inout" for o in TABLE[name].operands)
    assert executed or name in others or accumulating


@pytest.mark.parametrize("name", [n for n, i in TABLE.items() if i.moves])
def test_moved_elements_are_elements_of_the_sources(name: str) -> None:
    i, executed = TABLE[name], 0
    for sample in samples(i):
        types = {n: element_type(t) for n, t in sample.types.items() if i.operand(n).holds == "numbers"}
        tiles = [n for n in types if isinstance(sample.types[n], TileType) and n != "tmp"]
        plain = not sample.attrs and not any(i.operand(n).holds == "parameters" for n in sample.form)
        if not plain or len({types[n] for n in tiles}) > 1 or sample.constants:
            continue
        words = operands(sample)
        sources = [words[n] for n in sample.types if n != "tmp" and i.operand(n).holds == "numbers"]
        result = run(sample, words)
        assert np.isin(result, np.concatenate([w.reshape(-1) for w in sources])).all(), sample.types
        executed += 1
    assert executed or name in ("tload", "tstore", "textract", "tinsert")


# -- names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [
        "pto_jax.campaign.fuzz.pool",
        "pto_jax.campaign.report.coverage",
        "pto_jax.campaign.report.measure",
        "pto_jax.cases.ulp",
        "pto_jax.runtime.debug.trace_text",
        "pto_jax.generate.operations",
        "pto_jax.isa.check",
        "pto_jax.isa.reference",
        "pto_jax.isa.rules.constraints",
        "pto_jax.isa.semantics",
        "pto_jax.lockstep.opcodes",
        "pto_jax.lockstep.tables",
        "pto_jax.runtime.op_types",
        "pto_jax.testing.differential",
    ],
)
def test_facts_are_asked_and_not_listed(module: str) -> None:
    """No string of a module that asks for facts names an instruction."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in prose]
    listed = {word for n in texts if isinstance(n.value, str) for word in n.value.split()}
    assert not listed & set(TABLE)
