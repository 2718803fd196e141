"""Cost of whole programs: loops, branches, calls, pipes, and what is not known."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cli.main import main
from pto_jax.cost import CostReport, cycles, vfsim
from pto_jax.examples import EXAMPLES
from pto_jax.ir import Op, Pipe, Value, VRegType, dtype
from pto_jax.profiles import PROFILE_NAMES

TILE = "!pto.tile_buf<vec, 16x64xf32>"
DYNAMIC = "!pto.tile_buf<vec, 16x64xf32, valid=?x?>"
ADD = f"pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%a : {TILE})\n"
ABS = f"pto.tabs ins(%a : {TILE}) outs(%a : {TILE})\n"


def program(body: str, arguments: str = "%n: index, %flag: i1", others: str = "") -> pto.Program:
    constants = "".join(f"%c{i} = arith.constant {i} : index\n" for i in (0, 1, 2, 10))
    text = (
        f"module {{\nfunc.func @main({arguments}) attributes {{pto.entry}} {{\n{constants}"
        f"%a = pto.alloc_tile : {TILE}\n{body}return\n}}\n{others}}}"
    )
    return pto.parse(text)


def times(report: CostReport) -> list[object]:
    return [line.times for line in report.lines]


def test_lines_and_totals_of_a_straight_program() -> None:
    report = pto.cost(pto.load(EXAMPLES["vector_add"].path))
    assert [(line.instruction, line.pipe) for line in report.lines] == [
        ("tload", Pipe.MTE2),
        ("tload", Pipe.MTE2),
        ("tadd", Pipe.V),
        ("tstore", Pipe.MTE3),
    ]
    add = cycles("tadd", "f32", 64, 64)
    assert dict(report.totals) == {Pipe.V: add, Pipe.MTE2: 256}
    assert report.serial == add + 256 and report.overlapped == add
    assert report.model == "doc_formula" and not report.complete
    assert "tstore from Vec to GM" in str(report) and "no data" in str(report)


def test_complete_reports_say_so() -> None:
    report = pto.cost(pto.load(EXAMPLES["vector_add"].path), model="cce_stub")
    assert report.complete and {line.figure.model for line in report.lines} == {"cce_stub"}


def test_a_loop_counts_its_body_as_often_as_it_runs() -> None:
    inner = f"scf.for %j = %c0 to %c2 step %c1 {{\n{ADD}}}\n"
    report = pto.cost(program(f"scf.for %i = %c1 to %c10 step %c2 {{\n{ABS}{inner}}}\n"))
    assert times(report) == [5, 10]
    assert report.serial == 5 * cycles("tabs", "f32", 16, 64) + 10 * 2575
    assert times(pto.cost(program(f"scf.for %i = %c10 to %c1 step %c1 {{\n{ADD}}}\n"))) == [0]


def test_an_unknown_trip_count_is_said_and_can_be_given() -> None:
    text = f"scf.for %i = %c0 to %n step %c1 {{\n{ADD}}}\n"
    report = pto.cost(program(text))
    assert times(report) == [None] and not report.complete and report.serial == 2575
    assert "bounds of scf.for are not known" in report.notes[0] and "unknown number of times" in str(report)
    assert pto.cost(program(text), arguments={"n": 7}).serial == 7 * 2575
    many = pto.cost(program(text), arguments={"n": np.array([0, 3])})
    assert many.serial.tolist() == [0, 3 * 2575] and "array" in str(many)
    assert json.loads(many.to_json())["serial"] == [0, 3 * 2575]


def test_a_while_loop_runs_an_unknown_number_of_times() -> None:
    body = (
        "%r = scf.while (%x = %flag) : (i1) -> (i1) {\n scf.condition(%x) %x : i1\n} do {\n"
        f"^bb0(%y: i1):\n{ADD}scf.yield %y : i1\n}}\n"
    )
    report = pto.cost(program(body))
    assert times(report) == [None] and "scf.while" in report.notes[0]


def test_the_dearer_branch_counts() -> None:
    report = pto.cost(program(f"scf.if %flag {{\n{ABS}}} else {{\n{ADD}}}\n"))
    assert times(report) == [0, 1] and report.serial == 2575
    assert report.lines[1].notes == ("in a branch, counted as taken",)


def test_calls_count_the_callee_with_the_arguments_given() -> None:
    callee = (
        f"func.func private @work(%m: index, %t: {TILE}) {{\n%z = arith.constant 0 : index\n"
        "%o = arith.constant 1 : index\n"
        f"scf.for %i = %z to %m step %o {{\npto.tadd ins(%t, %t : {TILE}, {TILE}) outs(%t : {TILE})\n}}\n"
        "return\n}\n"
    )
    call = f"func.call @work(%c10, %a) : (index, {TILE}) -> ()\n"
    report = pto.cost(program(f"scf.for %i = %c0 to %c2 step %c1 {{\n{call}}}\n", others=callee))
    assert times(report) == [20] and report.lines[0].function == "work"


@pytest.mark.parametrize(
    ("other", "notes"),
    [(2, ("valid size of %d not known, physical size taken",)), (1, ())],
    ids=["two sizes", "one size"],
)
def test_sizes_that_branches_set(other: int, notes: tuple[str, ...]) -> None:
    """Behind a branch a size is known where every path has set the same one."""
    sizes = [f"pto.set_validshape %d, %c{n}, %c10 : {DYNAMIC}\n" for n in (1, other)]
    body = (
        f"%d = pto.alloc_tile valid_row = %c10 valid_col = %c10 : {DYNAMIC}\n"
        f"scf.if %flag {{\n{sizes[0]}}} else {{\n{sizes[1]}}}\n"
        f"pto.tadd ins(%d, %d : {DYNAMIC}, {DYNAMIC}) outs(%d : {DYNAMIC})\n"
    )
    assert pto.cost(program(body)).lines[-1].notes == notes


def test_run_time_valid_sizes() -> None:
    body = (
        f"%d = pto.alloc_tile valid_row = %n valid_col = %c10 : {DYNAMIC}\n"
        f"pto.tadd ins(%d, %d : {DYNAMIC}, {DYNAMIC}) outs(%d : {DYNAMIC})\n"
        f"pto.set_validshape %d, %c1, %c2 : {DYNAMIC}\n"
        f"pto.tadd ins(%d, %d : {DYNAMIC}, {DYNAMIC}) outs(%d : {DYNAMIC})\n"
    )
    unknown, known = pto.cost(program(body)), pto.cost(program(body), arguments={"n": 4})
    assert unknown.lines[0].notes == ("valid size of %d not known, physical size taken",)
    found = [line.figure.cycles for line in known.lines]
    assert found == [cycles("tadd", "f32", 4, 10), cycles("tadd", "f32", 1, 2)]
    many = pto.cost(program(body), arguments={"n": np.array([4, 16])}).lines[0].figure.cycles
    assert many.tolist() == [cycles("tadd", "f32", n, 10) for n in (4, 16)]
    assert all(line.figure.lower_bound for line in known.lines)


def test_products_take_their_sizes_from_both_operands() -> None:
    left = "!pto.tile_buf<left, 48x64xf16, valid=40x50>"
    right = "!pto.tile_buf<right, 64x64xf16, valid=50x60>"
    acc = "!pto.tile_buf<acc, 48x64xf32, valid=40x60>"
    for model, expected in (("doc_formula", 62), ("analytic_legacy", 62), ("cce_stub", 54)):
        report = pto.cost(
            pto.parse(f"pto.tmatmul ins(%x, %y : {left}, {right}) outs(%z : {acc})"), model=model
        )
        assert report.lines[0].figure.cycles == expected and report.lines[0].pipe == Pipe.M


def test_an_insertion_costs_what_it_moves_and_a_handle_nothing() -> None:
    small, large = "!pto.tile_buf<vec, 8x16xf32>", "!pto.tile_buf<vec, 16x64xf32>"
    report = pto.cost(
        pto.parse(
            "%c0 = arith.constant 0 : index\n"
            f"%t = pto.treshape %s : {small} -> !pto.tile_buf<vec, 4x32xf32>\n"
            f"pto.tinsert ins(%s, %c0, %c0 : {small}, index, index) outs(%d : {large})\n"
        )
    )
    assert [(line.instruction, line.figure.cycles) for line in report.lines] == [("tinsert", 4)]


def test_pipes_of_moves_follow_their_source() -> None:
    text = (
        "pto.tmov ins(%a : !pto.tile_buf<mat, 16x16xf16>) outs(%b : !pto.tile_buf<left, 16x16xf16>)\n"
        "pto.tmov ins(%c : !pto.tile_buf<acc, 16x16xf32>) outs(%d : !pto.tile_buf<mat, 16x16xf16>)\n"
        "pto.tmov ins(%e : !pto.tile_buf<vec, 16x16xf32>) outs(%f : !pto.tile_buf<vec, 16x16xf32>)\n"
    )
    report = pto.cost(pto.parse(text))
    assert [(line.pipe, line.figure.cycles) for line in report.lines] == [
        (Pipe.MTE1, 2),
        (Pipe.FIX, 8),
        (Pipe.V, 8),
    ]


def test_control_calls_count_where_the_model_has_a_figure() -> None:
    text = program("pto.barrier <PIPE_V>\n" + ADD)
    assert [line.instruction for line in pto.cost(text).lines] == ["tadd"]
    stub = pto.cost(text, model="cce_stub")
    assert [line.figure.cycles for line in stub.lines] == [1, 56]


def test_the_model_that_describes_the_profile_is_the_default() -> None:
    text = program(ADD)
    assert [pto.cost(text, profile=p).model for p in PROFILE_NAMES] == [
        "doc_formula",
        "doc_formula",
        "a5_fit",
    ]
    assert pto.cost(text, profile="a5").serial == 75


def test_a5_has_data_in_its_own_model_only() -> None:
    text = program(ADD)
    report = pto.cost(text, profile="a5", model="doc_formula")
    assert report.lines[0].figure.cycles is None and "no data for a5" in str(report)
    assert report.serial == 0 and not report.totals
    assert pto.cost(text, profile="a5", model="a5_fit").serial == 75


def test_types_that_are_not_given() -> None:
    report = pto.cost(pto.parse("%d = tadd %a, %b"))
    assert "the tile type of dst is not given" in report.lines[0].figure.note


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(pto.ArgumentError, match="@main: got the argument m; allowed: n, flag"):
        pto.cost(program(ADD), arguments={"m": 1})
    fragment = pto.parse("%d = tadd %a, %b : !pto.tile<16x64xf32>")
    with pytest.raises(pto.ArgumentError, match="got the argument a; allowed: no scalar arguments"):
        pto.cost(fragment, arguments={"a": 1})
    with pytest.raises(pto.ArgumentError, match="entry: got 'start'"):
        pto.cost(program(ADD), entry="start")


def test_the_module_and_the_function_have_one_name() -> None:
    import pto_jax.cost

    module: Any = sys.modules["pto_jax.cost"]
    assert pto_jax.cost(program(ADD)).serial == module(program(ADD)).serial == 2575


def test_the_command_prints_a_table_and_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "p.pto"
    path.write_text(str(program(f"scf.for %i = %c0 to %n step %c1 {{\n{ADD}}}\n")), encoding="utf-8")
    assert main(["cost", str(path)]) == 0
    out = capsys.readouterr().out
    assert "model doc_formula, profile a2a3" in out and "2575" in out and "counted once: 1" in out
    assert main(["cost", str(path), "--arg", "n=3", "--model", "analytic_legacy", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["model"] == "analytic_legacy" and record["complete"] and record["serial"] == 3 * 46
    assert record["lines"][0]["model"] == "analytic_legacy" and record["lines"][0]["times"] == 3
    assert main(["cost", str(path), "--arg", "n"]) == 2
    assert "--arg: got n; allowed: NAME=N" in capsys.readouterr().err
    assert main(["cost", str(tmp_path / "none.pto")]) == 2


# -- micro-operations --------------------------------------------------------------------------------

SCOPE = """module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {
func.func @k(%x: !pto.ptr<f32, gm>) attributes {pto.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %z = arith.constant 0 : i64
  %p = pto.castptr %z : i64 -> !pto.ptr<f32, ub>
  pto.vecscope {
    %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
    scf.for %i = %c0 to %c8 step %c1 {
      %v = pto.vlds %p[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
      %e = pto.vexp %v, %m : !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
      %s = pto.vcadd %e, %m : !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
      %l = pto.vln %v, %m : !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
      pto.vsts %s, %p[%c0], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
      pto.mem_bar "VST_VLD"
    }
  }
  return
}
}
"""


def test_micro_operations_have_intervals_and_latencies_of_the_published_tables() -> None:
    report = pto.cost(pto.parse(SCOPE), "a5")
    rows = {x.instruction: (x.figure.cycles, x.figure.terms.get("latency"), x.times) for x in report.lines}
    assert rows == {
        "pset_b32": (None, None, 1),
        "vlds": (1, 9, 8),
        "vexp": (4, 16, 8),
        "vcadd": (1, 22, 8),
        "vln": (None, None, 8),
        "vsts": (1, 9, 8),
    }
    assert report.totals == {Pipe.V: 8 * (1 + 4 + 1 + 1)} and not report.complete
    assert {x.figure.model for x in report.lines} == {"vfsim"}
    shown = str(report)
    assert "not in the totals, 2 of 6 instructions: vfsim has no figure for pset_b32, vln" in shown
    assert "vfsim; interval; latency 16, 2 ports, 6 after vlds" in shown


def test_a_result_is_forwarded_before_its_latency_ends() -> None:
    report = pto.cost(pto.parse(SCOPE), "a5")
    after = {x.instruction: {k: v for k, v in x.figure.terms.items() if "after" in k} for x in report.lines}
    # vexp to vcadd is no pair of the table: the latency without the three cycles of a bypass.
    assert after["vexp"] == {"after vlds": 6} and after["vcadd"] == {"after vexp": 16 - 3}
    assert after["vsts"] == {"after vcadd": 20} and after["vlds"] == after["vln"] == {}
    chain = "line 15: one pass of vlds vexp vcadd vsts takes 48 cycles (vfsim)"  # 6 + 13 + 20 + 9
    assert report.notes == (chain,) and chain in str(report)
    assert '"after vexp": 13' in report.to_json()


@pytest.mark.parametrize(
    ("source", "producer", "consumer", "cycles"),
    [
        ("f32", "vadd", "vadd", 3),
        ("f32", "vadd", "vsel", 5),
        ("f16", "vexp", "vmuls", 13),
        ("f16", "vexp", "vmul", 18),
        ("f32", "vdup", "vsts", 4),
        ("f32", "vsts", "vadd", 6),
        ("f32", "vln", "vadd", None),
        ("f32", "vadd", "vln", None),
        ("i32", "vadd", "vadd", None),
    ],
)
def test_pairs_of_operations_have_the_published_cycles(
    source: str, producer: str, consumer: str, cycles: int | None
) -> None:
    v = Value("v", VRegType(2048 // dtype(source).bits, dtype(source)))
    assert vfsim.forwarding(Op(producer, (v,), results=(v,)), Op(consumer, (v,), results=(v,))) == cycles


def test_a_value_converted_is_forwarded_by_its_new_type() -> None:
    single, half = (Value(n, VRegType(k, dtype(n))) for n, k in (("f32", 64), ("f16", 128)))
    narrowed = Op("vcvt", (single,), results=(half,))
    assert vfsim.forwarding(narrowed, Op("vexp", (half,), results=(half,))) == 4
    assert vfsim.forwarding(Op("vadd", (single,), results=(single,)), narrowed) == 3
    assert vfsim.forwarding(Op("vadd", (single,), results=(single,)), Op("vcmp", (single,))) is None


def test_an_instruction_without_a_destination_is_sized_by_its_source() -> None:
    report = str(pto.cost(pto.parse("pto.tprint ins(%t : !pto.tile_buf<vec, 16x64xf32>)")))
    assert "has no figure for tprint" in report and "is not given" not in report
