"""The conformance runner itself: replaying the records passes, any changed byte fails."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pto_jax.errors import ExecutionError, FileError
from pto_jax.ir import PtrType, TileType
from pto_jax.isa import bind
from pto_jax.vectors.cases import case_instruction, case_program, unsupported_reason
from pto_jax.vectors.conformance import ConformanceReport, run_case, run_conformance
from pto_jax.vectors.exclusions import EXCLUSIONS, exclusion, not_required
from pto_jax.vectors.manifest import Case, Operand, TileOperand, load_file

GOLDEN = Path(__file__).parents[1] / "golden"


def replay(case: Case) -> dict[str, NDArray[Any]]:
    return {o.name: o.after for o in case.outputs if o.after is not None}


def spoil(case: Case) -> dict[str, NDArray[Any]]:
    """The recorded result with one bit of a required element changed."""
    result = {name: array.copy() for name, array in replay(case).items()}
    result["dst"][0] ^= 1
    return result


@pytest.mark.nightly
@pytest.mark.slow
def test_replaying_the_records_passes_every_executable_case(recorded_cases: int) -> None:
    report = run_conformance([GOLDEN], replay)
    assert report.ok and report.totals["fail"] == report.totals["differs"] == 0
    assert len(report.results) == recorded_cases > 3000


def test_one_changed_bit_fails_a_case() -> None:
    report = run_conformance([GOLDEN / "tadd.npz"], spoil)
    assert not report.ok
    required = [c for c in load_file(GOLDEN / "tadd.npz") if not exclusion(c)]
    assert report.totals["fail"] == len(required)
    assert report.failures[0].detail.startswith("1 of 128 elements differ, first dst (0, 0): expected 0x")


def test_an_error_of_the_implementation_fails_its_case_only() -> None:
    case = load_file(GOLDEN / "tadd.npz")[0]

    def refuse(case: Case) -> dict[str, NDArray[Any]]:
        raise ExecutionError([])

    def crash(case: Case) -> dict[str, NDArray[Any]]:
        raise ZeroDivisionError("boom")

    assert run_case(case, refuse).detail.startswith("ExecutionError")
    assert run_case(case, crash).detail == "internal error: ZeroDivisionError: boom"
    assert run_case(case, lambda case: {}).detail == "dst: the implementation gave no result"
    extra = {**replay(case), "dts": np.zeros(1, np.uint8)}
    assert "no operand of this name" in run_case(case, lambda case: extra).detail


def test_changing_a_source_fails() -> None:
    case = load_file(GOLDEN / "tadd.npz")[0]
    source = case.operand("src0").before.copy()  # type: ignore[union-attr]
    assert run_case(case, lambda case: {**replay(case), "src0": source}).status == "pass"
    source[5] ^= 0x10
    changed = run_case(case, lambda case: {**replay(case), "src0": source})
    assert changed.status == "fail" and "src0" in changed.detail


@pytest.mark.slow
def test_not_required_cases_are_reported_apart(golden: list[Case]) -> None:
    shift = next(c for c in golden if "host-undefined" in c.tags)
    assert not_required(shift) and run_case(shift, spoil).status == "differs"
    assert run_case(shift, replay).status == "pass"


@pytest.mark.slow
def test_exclusions_are_few_and_each_is_used(golden: list[Case]) -> None:
    excluded = [c for c in golden if exclusion(c)]
    assert len(excluded) <= 0.02 * sum(unsupported_reason(c) is None for c in golden)
    for entry in EXCLUSIONS:
        assert any(entry.applies(c) for c in golden), entry.id
        assert entry.reason


def test_four_bit_integers_and_copies_are_not_excluded(golden: list[Case]) -> None:
    labels = [c.label for c in golden if c.instruction == "tcvt" and exclusion(c)]
    assert not [label for label in labels if "i4" in label or "f4" in label]


def test_every_form_of_moves_windows_and_stores_is_supported(golden: list[Case]) -> None:
    moved = ("tmov", "tmov_fp", "textract", "textract_fp", "tinsert", "tinsert_fp", "tstore", "tstore_fp")
    found = [c for c in golden if c.instruction in moved]
    assert {c.instruction for c in found} == set(moved)
    assert not [c.id for c in found if unsupported_reason(c)]


def test_every_executable_case_is_a_program_that_binds(golden: list[Case]) -> None:
    for case in golden:
        if unsupported_reason(case):
            continue
        program = case_program(case)
        op = program.functions[0].body.ops[-1]
        instruction = case_instruction(case)
        assert instruction is not None and op.name == instruction.name
        bound = bind(instruction, op)
        recorded = {o.name for o in case.operands}
        assert {a.name for a in program.functions[0].args} <= recorded
        assert {d.name for d in instruction.destinations if not d.optional} <= set(bound.values)


def test_case_programs_keep_order_and_attributes(golden: list[Case]) -> None:
    by_label = {(c.instruction, c.label): c for c in golden}
    division = case_program(by_label["tdivs", "f32_st_full"]).functions[0].body.ops[0]
    assert [v.name for v in division.ins] == ["scalar", "src"]
    convert = case_program(by_label["tcvt", "i8_f32_FLOOR_ON"]).functions[0].body.ops[0]
    assert [str(v) for _, v in convert.attributes] == ["3", "0"]
    unspecified = case_program(by_label["tcvt", "i8_f32_RINT_DEF"]).functions[0].body.ops[0]
    assert "sat_mode" not in unspecified.attrs


@pytest.mark.parametrize(
    ("name", "attrs", "message"),
    [
        ("tcvt", {"roundmode": "RINT"}, "attrs: got 'roundmode'; allowed: those of tcvt: .*; try: roundMode"),
        ("tcvt", {"descending": True}, "attrs: got 'descending'; allowed: those of tcvt: "),
        ("tci", {"descending": "no"}, "descending: got 'no'; allowed: bool"),
    ],
)
def test_attributes_that_nothing_reads_are_errors(name: str, attrs: Any, message: str) -> None:
    case = replace(load_file(GOLDEN / f"{name}.npz")[0], attrs=attrs)
    with pytest.raises(FileError, match=message):
        case_program(case)


def test_global_memory_operands_become_views_of_pointers(golden: list[Case]) -> None:
    load = next(c for c in golden if c.instruction == "tload" and c.label == "nd_partial_strided")
    program = case_program(load)
    source, tile = program.functions[0].args
    assert isinstance(source.type, PtrType) and isinstance(tile.type, TileType)
    assert [op.name for op in program.functions[0].body.ops][-3:] == [
        "make_tensor_view", "partition_view", "tload",
    ]  # fmt: skip
    assert program.fragment_results == ("dst",)


def test_the_report_is_a_table_and_json() -> None:
    report = run_conformance([GOLDEN / "tadd.npz", GOLDEN / "tload.npz"], replay, {"profile": "cpu_sim"})
    header, adds = report.table().splitlines()[:2]
    assert header.split()[:4] == ["instruction", "cases", "pass", "fail"]
    assert adds.split()[:4] == ["tadd", "86", "83", "0"]
    assert "passed:" in report.summary()
    data = json.loads(report.to_json())
    assert data["ok"] and data["profile"] == "cpu_sim" and len(data["cases"]) == 187


def test_a_case_without_compared_elements_is_no_success() -> None:
    case = load_file(GOLDEN / "tadd.npz")[0]
    opened = replace(case, operands=tuple(map(_undefined, case.operands)))
    for given in (replay, lambda case: {**replay(case), "src0": case.operand("src0").before}):
        result = run_case(opened, given)
        assert result.status == "unsupported" and "no element of the results is compared" in result.reason
    assert not ConformanceReport((result,)).ok


def _undefined(operand: Operand) -> Operand:
    """A result of which nothing is defined; other operands as they are."""
    if not isinstance(operand, TileOperand) or operand.after is None:
        return operand
    return replace(operand, undef=np.ones(operand.type.elements, np.bool_))


def test_nothing_executed_is_no_success(tmp_path: Path) -> None:
    unknown = replace(load_file(GOLDEN / "tadd.npz")[0], instruction="tfuture")
    assert unsupported_reason(unknown) == "the instruction is not declared"
    assert run_case(unknown, replay).status == "unsupported"
    with pytest.raises(FileError, match="no such file"):
        run_conformance([tmp_path / "none.npz"], replay)
