"""What the declarations say: coverage of the recorded vectors, overloads, texts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pto_jax.ir import Op, ScalarType, TileType, Value, find_dtype
from pto_jax.isa import Instruction, bind, instructions
from pto_jax.isa.check import check_op
from pto_jax.profiles import PROFILE_NAMES, profile
from tests.tables import every

TABLE = instructions()
GOLDEN = Path(__file__).resolve().parents[1] / "golden"

ELEMENTWISE = (
    "tadd tsub tmul tdiv tmax tmin tand tor txor tshl tshr trem tfmod tpow tabs tneg tnot trelu texp "
    "tlog tsqrt trsqrt trecip tcmp tsel tprelu taddc tsubc tmuladddst tfusedmuladd tfusedmuladdrelu "
    "tsubrelu taddrelu taddreluconv tsubreluconv tadddeqrelu tcvt"
).split()
TILE_SCALAR = (
    "tadds tsubs tmuls tdivs tmaxs tmins tands tors txors tshls tshrs trems tfmods tpows tlrelu taxpy "
    "texpands tcmps tsels taddsc tsubsc"
).split()
_EXPANDED = [f"expand{operation}" for operation in ("", *"add sub mul div max min expdif".split())]
_REDUCED = "sum prod max min argmax argmin".split()
REDUCE_EXPAND = [
    "tpairreducesum",
    *(f"t{a}{name}" for a in ("row", "col") for name in (*_REDUCED, *_EXPANDED)),
]
OTHERS = (
    "tload tstore tmov tassign tsync talias record_event wait_event set_flag wait_flag set_flag_dyn "
    "wait_flag_dyn barrier barrier_sync sync.set sync.wait get_buf rls_buf alloc_tile "
    "make_tensor_view partition_view get_tensor_view_dim set_validshape addptr"
).split()
#: The simulator has no implementation of these, so there are no vectors.
NO_VECTORS = ("taddrelu", "taddreluconv", "tsubreluconv")
#: Profiles that do not have an instruction.
LACKING = {"taddrelu": {"a5"}}

WITH_VECTORS = [n for n in (*ELEMENTWISE, *TILE_SCALAR, *REDUCE_EXPAND) if n not in NO_VECTORS]


def test_every_instruction_of_the_class_is_declared() -> None:
    assert len(ELEMENTWISE) == 37 and len(TILE_SCALAR) == 21
    assert {n for n, i in TABLE.items() if i.cls == "elementwise"} == set(ELEMENTWISE)
    assert {n for n, i in TABLE.items() if i.cls == "tile_scalar"} == set(TILE_SCALAR)
    assert {n for n, i in TABLE.items() if i.cls == "reduce_expand"} == set(REDUCE_EXPAND)
    assert len(REDUCE_EXPAND) == 29
    assert set(TABLE) >= {*ELEMENTWISE, *TILE_SCALAR, *OTHERS}


def cases(name: str) -> list[dict[str, Any]]:
    with np.load(GOLDEN / f"{name}.npz") as archive:
        found: list[dict[str, Any]] = json.loads(str(archive["manifest"]))
    return found


@every("name", WITH_VECTORS)
def test_simulator_types_cover_the_recorded_vectors(name: str) -> None:
    instruction = TABLE[name]
    legal = set(instruction.types["cpu_sim"])
    seen = {recorded_row(instruction, case["operands"]) for case in cases(name)}
    assert seen and seen <= legal, seen - legal


def recorded_row(instruction: Instruction, operands: list[dict[str, Any]]) -> tuple[str, ...]:
    """The element types of a case by type variable; operands are matched as an overload of the text is."""
    names = [o["name"] for o in operands if o["role"] in ("out", "inout")]
    sources = [o for o in operands if o["role"] not in ("out", "inout")]
    values = tuple(Value(o["name"], value_type(o)) for o in sources)
    destinations = tuple(Value(o["name"], value_type(o)) for o in operands if o["role"] in ("out", "inout"))
    bound = bind(instruction, Op(instruction.name, values, destinations))
    assert len(names) in (1, len(instruction.destinations))
    by_operand = {n: v.type for n, v in bound.values.items()}
    row = []
    for variable in instruction.type_vars:
        found = {
            t.dtype.name
            for n, t in by_operand.items()
            if instruction.operand(n).dtype == variable and isinstance(t, TileType | ScalarType)
        }
        assert len(found) == 1, (instruction.name, variable, found)
        row.append(found.pop())
    return tuple(row)


def value_type(operand: dict[str, Any]) -> TileType | ScalarType:
    d = find_dtype(operand["dtype"])
    assert d is not None
    return ScalarType(d) if operand["role"] == "scalar" else TileType(d, operand["rows"], operand["cols"])


@every("name", WITH_VECTORS)
def test_recorded_operations_break_no_rule_but_those_on_regions(name: str) -> None:
    """The simulator also executes what a page forbids: valid regions that differ."""
    for case in cases(name):
        op = recorded_op(TABLE[name], case)
        errors = {d.rule for d in check_op(op, profile("cpu_sim")) if d.severity == "error"}
        assert errors <= {"valid-equal"}, (case["id"], errors)


def recorded_op(instruction: Instruction, case: dict[str, Any]) -> Op:
    from pto_jax.ir import BLayout, Loc, SLayout

    def value(o: dict[str, Any]) -> Value:
        t = value_type(o)
        if isinstance(t, TileType):
            t = TileType(
                t.dtype,
                t.rows,
                t.cols,
                o["v_row"],
                o["v_col"],
                Loc[o["loc"].upper()],
                BLayout[o["blayout"].upper()],
                SLayout[o["slayout"].upper()],
                o["fractal"],
            )
        return Value(o["name"], t)

    written = ("out", "inout")
    return Op(
        instruction.name,
        tuple(value(o) for o in case["operands"] if o["role"] not in written),
        tuple(value(o) for o in case["operands"] if o["role"] in written),
    )


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("trem", ("src0", "src1", "tmp")),
        ("trem", ("src0", "src1")),
        ("txor", ("src0", "src1", "tmp")),
        ("tprelu", ("src0", "src1")),
        ("trems", ("src", "scalar", "tmp")),
        ("txors", ("src", "scalar")),
        ("tcvt", ("src",)),
        ("tcvt", ("src", "tmp")),
        ("trsqrt", ("src", "tmp")),
        ("tsel", ("mask", "src0", "src1", "tmp")),
        ("tsels", ("mask", "src", "tmp", "scalar")),
        ("tsels", ("mask", "src", "scalar")),
        ("tdivs", ("src", "scalar")),
        ("tdivs", ("scalar", "src")),
        ("taddc", ("src0", "src1")),
        ("tsubc", ("src0", "src1", "src2")),
        ("tpow", ("base", "exp", "tmp")),
        ("tadddeqrelu", ("src0", "src1", "deqScale")),
        ("tadddeqrelu", ("src0", "src1", "deqScale", "tmp")),
        ("taddsc", ("src0", "scalar", "src1")),
    ],
)
def test_overloads(name: str, form: tuple[str, ...]) -> None:
    assert form in TABLE[name].forms


def test_the_scalar_comes_first_where_it_is_written_first() -> None:
    f32 = find_dtype("f32")
    assert f32 is not None
    tile, scalar = Value("t", TileType(f32, 8, 8)), Value("s", ScalarType(f32))
    assert bind(TABLE["tdivs"], Op("tdivs", (scalar, tile), (tile,))).form == ("scalar", "src")
    assert bind(TABLE["tdivs"], Op("tdivs", (tile, scalar), (tile,))).form == ("src", "scalar")


def test_only_transcendental_functions_have_an_error_bound() -> None:
    classes = ("elementwise", "tile_scalar", "reduce_expand")
    bounded = {n: dict(i.ulp) for n, i in TABLE.items() if i.ulp and i.cls in classes}
    one = {"f32": 1, "f16": 1, "bf16": 1}
    halves = {"f32": 1, "f16": 1}
    differences = dict.fromkeys(("trowexpandexpdif", "tcolexpandexpdif"), halves)
    assert bounded == dict.fromkeys(("texp", "tlog", "tpow", "tpows"), one) | differences


@pytest.mark.parametrize(
    ("profile_name", "types"),
    [
        ("a2a3", "f32 f16 bf16 i32 i16"),
        ("a5", "f32 f16 bf16 i32 i16 i8 u8 f8e4m3 f8e5m2 u16 u32"),
        ("cpu_sim", "f32 f16 bf16 i32 i16 i8 u8 f8e4m3 f8e5m2 u16 u32 i64 u64 hif8"),
    ],
)
def test_types_of_tadd(profile_name: str, types: str) -> None:
    found = TABLE["tadd"].types[profile(profile_name).name]
    assert {row[0] for row in found} == set(types.split())


def test_saturating_forms_have_every_type_of_the_profile() -> None:
    for name in ("taddc", "tsubc"):
        assert len(TABLE[name].types["a2a3"]) == 11
        assert {"f8e4m3", "hif8", "u64"} <= {r[0] for r in TABLE[name].types["a5"]}


@every("name", sorted(TABLE))
def test_declarations_are_complete(name: str) -> None:
    instruction = TABLE[name]
    operands = {o.name for o in instruction.operands}
    assert instruction.summary.endswith(".") and instruction.semantics and instruction.sources
    for form in instruction.forms:
        assert set(form) <= operands
    for profile_name in PROFILE_NAMES:
        for row in instruction.types.get(profile_name, ()):
            assert len(row) == len(instruction.type_vars)
            assert all(find_dtype(d) is not None and find_dtype(d).name == d for d in row)  # type: ignore[union-attr]
        rows = instruction.types.get(profile_name, ())
        assert len(rows) == len(set(rows))
    if name in (*ELEMENTWISE, *TILE_SCALAR, *REDUCE_EXPAND):
        assert set(instruction.types) == set(PROFILE_NAMES)
        assert {p for p, rows in instruction.types.items() if not rows} == LACKING.get(name, set())
        assert instruction.decisions
    for decision in instruction.decisions:
        assert decision.question.endswith((".", "?")) and decision.choice.endswith(".") and decision.source


def test_rules_are_unique_per_profile() -> None:
    for instruction in TABLE.values():
        for profile_name in PROFILE_NAMES:
            rules = [c.rule for c in instruction.constraints if profile_name in c.profiles]
            assert len(rules) == len(set(rules)), (instruction.name, profile_name)
