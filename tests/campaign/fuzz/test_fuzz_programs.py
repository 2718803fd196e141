"""A user's own programs: every file, entry and profile takes its turn; what is wrong with one is said."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.campaign.fuzz.executor_cases import ATTEMPTS, CaseExecutor, Programs
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases.comparison import Outcome, compare_case
from pto_jax.cases.targets import Engine, Oracle, Target
from pto_jax.cases.ulp import result_bounds
from pto_jax.cli.main import main
from pto_jax.errors import PtoError
from pto_jax.failures.recorder import Record, forget
from tests.campaign.blocks import joined

F32 = "!pto.tile<16x16xf32>"
TILE = "!pto.tile<16x16xf32, valid=?x?>"
#: A grid of blocks, each of which stores its number; buffers for up to four of them.
NUMBERED = """\
module {
  func.func @numbers(%y: !pto.ptr<f32>) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %b = pto.get_block_idx
    %r = arith.index_cast %b : i64 to index
    %v = pto.make_tensor_view %y, shape = [%c4, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
    %w = pto.partition_view %v, offsets = [%r, %c0], sizes = [%c1, %c8]
      : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<1x8xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xf32>
    %n = arith.constant 2.5 : f32
    pto.texpands ins(%n : f32) outs(%t : !pto.tile_buf<vec, 1x8xf32>)
    pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xf32>) outs(%w : !pto.partition_tensor_view<1x8xf32>)
    return
  }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "inner").mkdir()
    (tmp_path / "add.pto").write_text("tadd %dst, %a, %b : !pto.tile<16x16xf32>\n")
    (tmp_path / "inner" / "numbers.pto").write_text(NUMBERED)
    yield tmp_path


def plan(folder: Path, **options: Any) -> Plan:
    return Plan(programs=tuple(sorted(map(str, folder.rglob("*.pto")))), tested="oracle:a5", **options)


def test_programs_take_turns_with_inputs_of_their_own(folder: Path) -> None:
    made = Programs.of(plan(folder, profiles=("a2a3", "a5")))
    assert [(Path(s.file).name, s.profile.name) for s in made.subjects] == [
        ("add.pto", "a2a3"),
        ("add.pto", "a5"),
        ("numbers.pto", "a2a3"),
        ("numbers.pto", "a5"),
    ]
    cases = [made.case(i, 0) for i in range(80)]
    assert len({c.id for c in cases}) == 80
    assert all(c.program is made.subjects[c.index % 4].program for c in cases)
    words = [c.inputs["a"].words.tobytes() for c in cases if "a" in c.inputs]
    assert len(set(words)) == len(words) == 40
    assert {c.grid for c in cases if c.entry == "numbers"} == {1, 2, 3, 4}
    assert {c.grid for c in cases if c.entry is None} == {1}
    again = Programs.of(plan(folder, profiles=("a2a3", "a5"))).case(17, 0)
    assert again.id == cases[17].id
    assert all(np.array_equal(i.words, cases[17].inputs[n].words) for n, i in again.inputs.items())


def test_blocks_of_programs_find_what_differs(folder: Path) -> None:
    seen: list[Outcome] = []

    def keep(outcome: Outcome, reference: Target, tested: Target) -> Record:
        seen.append(outcome)
        return forget(outcome, reference, tested)

    alike = joined(CaseExecutor(plan(folder, seed=3, grid=2), keep, lambda index: None).pieces(0, 8))
    assert alike.kinds == {"equal": 8} and not seen
    assert alike.coverage["tadd|f32|-|full|row|-|straight"] == 4
    assert alike.coverage["texpands|f32|-|full|row|-|straight"] == 4
    # What lies outside a source's valid region is another value on another profile.
    half = "!pto.tile<16x16xf32, valid=8x16>"
    (folder / "add.pto").write_text(f"tadd %dst, %a, %b : {F32}, {half}, {half}\n")
    found = joined(CaseExecutor(plan(folder, profiles=("cpu_sim",)), keep, lambda index: None).pieces(0, 8))
    assert found.kinds == {"equal": 4, "different": 4} and [o.case.index for o in seen] == [0, 2, 4, 6]
    assert [f.index for f in found.failures] == [0, 2, 4, 6]
    assert found.failures[0].id == seen[0].case.id and found.failures[0].detail["dtype"] == "f32"


def test_a_row_that_is_an_argument_lies_inside_the_view(tmp_path: Path) -> None:
    file = tmp_path / "row.pto"
    numbered = [line for line in NUMBERED.splitlines() if "%b" not in line]
    file.write_text("\n".join(numbered).replace("!pto.ptr<f32>)", "!pto.ptr<f32>, %r: index)"))
    made = Programs.of(Plan(programs=(str(file),), tested="oracle:a5", profiles=("cpu_sim",)))
    cases = [made.case(i, 0) for i in range(20)]
    rows = {int(c.inputs["r"].words) for c in cases}
    assert len(rows) > 1 and all(
        8 * (int(c.inputs["r"].words) + 1) == c.inputs["y"].words.size for c in cases
    )
    assert {compare_case(c, Oracle(), Oracle("a5")).kind for c in cases} == {"equal"}


@pytest.mark.slow
def test_inputs_that_break_a_rule_are_drawn_again(tmp_path: Path) -> None:
    """Tiles whose valid regions have to be equal are mostly drawn with the same one, not always."""
    file = tmp_path / "sum.pto"
    file.write_text(f"taddreluconv %dst, %a, %b : {TILE.replace('f32', 'f16')}, {TILE}, {TILE}\n")
    given = Plan(programs=(str(file),), tested="eager", profiles=("cpu_sim",))
    made = Programs.of(given)
    firsts = [compare_case(made.case(i, 0), Oracle(), Engine()).kind for i in range(20)]
    assert set(firsts) == {"stopped", "equal"}
    batch = joined(CaseExecutor(given, forget, lambda index: None).pieces(0, 20))
    assert batch.kinds == {"equal": 20}


def test_open_valid_sizes_are_drawn(tmp_path: Path) -> None:
    file = tmp_path / "tile.pto"
    file.write_text(f"tneg %dst, %a : {TILE}\n")
    made = Programs.of(Plan(programs=(str(file),)))
    regions = [{n: i.valid for n, i in made.case(k, 0).inputs.items()} for k in range(60)]
    seen = {r["a"] for r in regions}
    assert (16, 16) in seen and len(seen) > 20
    assert 20 < sum(r["a"] == r["dst"] for r in regions) < 60
    careful = [made.case(k, ATTEMPTS - 1).inputs for k in range(9)]
    assert all(inputs["a"].valid == inputs["dst"].valid for inputs in careful)


def test_a_quiet_campaign_names_rejected_programs(folder: Path, fuzz: Any) -> None:
    (folder / "text.pto").write_text("func func\n")
    options = ["--programs", folder, "--tested", "oracle:a5", "--count", 1, "--workers", 1]
    assert fuzz(*options, "--quiet") == 1
    assert f"not in the results:\n  {folder}/text.pto: rejected\n  " in fuzz.out


@pytest.mark.slow
def test_a_rejected_program_is_named_once_and_the_others_are_executed(folder: Path, fuzz: Any) -> None:
    (folder / "bad.pto").write_text(f"tadd %dst, %a, %b : {F32}, {F32}, !pto.tile<8x16xf32>\n")
    (folder / "text.pto").write_text("func func\n")
    options = ["--programs", folder, "--tested", "oracle:a5", "--count", 6, "--batch", 3, "--workers", 2]
    assert fuzz(*options, "--store", "s.sqlite") == 1
    assert fuzz.err.count("bad.pto: rejected") == fuzz.err.count("text.pto: rejected") == 1
    assert "text.pto:1:1: error: unknown instruction 'func'" in fuzz.err and "bad.pto:1:" in fuzz.err
    assert "6 cases: 6 equal" in fuzz.out
    # The store remembers that programs were left out, and why.
    assert fuzz(*options, "--store", "s.sqlite", "--resume", "--junit", "j.xml") == 1
    assert "rate" not in fuzz.out and fuzz.out.count("text.pto: rejected") == 1
    assert 'errors="2"' in (folder / "j.xml").read_text()
    assert main(["report", "s.sqlite", "--html", "r.html"]) == 0
    assert "text.pto: rejected" in (folder / "r.html").read_text()
    (folder / "add.pto").write_text("tsub %dst, %a, %b : !pto.tile<16x16xf32>\n")
    assert fuzz(*options, "--store", "s.sqlite", "--resume") == 2
    assert "got another campaign: programs." in fuzz.err and "add.pto" in fuzz.err


def test_no_program_is_left(tmp_path: Path) -> None:
    file = tmp_path / "bad.pto"
    file.write_text("func func\n")
    with pytest.raises(PtoError, match="no program can be executed"):
        Programs.of(Plan(programs=(str(file),)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tadd %b, %a, %a : !pto.tile<16x16xf32>", {}),
        ("texp %b, %a : !pto.tile<16x16xf32>\ntmov %c, %b : !pto.tile<16x16xf32>", {"b": 1, "c": 1}),
        ("texp %b, %a : !pto.tile<16x16xf32>\ntexp %c, %b : !pto.tile<16x16xf32>", {"b": 1, "c": -1}),
        ("tneg %c, %a : !pto.tile<16x16xf32>\ntexp %b, %a : !pto.tile<16x16xf32>", {"b": 1}),
    ],
)
def test_bounds_follow_the_data(text: str, expected: dict[str, int]) -> None:
    program = pto.parse(text)
    assert result_bounds(program, program.functions[0]) == expected
