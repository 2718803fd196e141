"""Mutations of the user's programs: legal again, of every kind, and told."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pto_jax as pto
from pto_jax.analysis.resolve import resolve
from pto_jax.api import load, resolve_profile
from pto_jax.campaign.fuzz.executor_cases import Programs
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases.mutation import mutated
from pto_jax.cases.targets import Oracle
from pto_jax.errors import ExecutionError
from pto_jax.verifier.programs import verify_program

PROGRAMS = Path(__file__).parents[2] / "programs"
#: Programs with loops, calls, blocks, memory and matrices.
FILES = ("loops", "calls", "matrices", "memrefs", "regions")
TEXT = """\
func.func @add(%a: !pto.ptr<f32>, %b: !pto.ptr<f32>) attributes {pto.entry} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = arith.constant 16 : index
  %va = pto.make_tensor_view %a, shape = [%n, %n], strides = [%n, %one] : !pto.tensor_view<16x16xf32>
  %vb = pto.make_tensor_view %b, shape = [%n, %n], strides = [%n, %one] : !pto.tensor_view<16x16xf32>
  %ga = pto.partition_view %va, offsets = [%zero, %zero], sizes = [%n, %n]
      : !pto.tensor_view<16x16xf32> -> !pto.partition_tensor_view<16x16xf32>
  %gb = pto.partition_view %vb, offsets = [%zero, %zero], sizes = [%n, %n]
      : !pto.tensor_view<16x16xf32> -> !pto.partition_tensor_view<16x16xf32>
  %x = pto.alloc_tile : !pto.tile<16x16xf32>
  %y = pto.alloc_tile : !pto.tile<16x16xf32>
  pto.tload ins(%ga : !pto.partition_tensor_view<16x16xf32>) outs(%x : !pto.tile<16x16xf32>)
  pto.trecip ins(%x : !pto.tile<16x16xf32>) outs(%y : !pto.tile<16x16xf32>)
  pto.tsub ins(%x, %y : !pto.tile<16x16xf32>, !pto.tile<16x16xf32>) outs(%y : !pto.tile<16x16xf32>)
  pto.tstore ins(%y : !pto.tile<16x16xf32>) outs(%gb : !pto.partition_tensor_view<16x16xf32>)
  return
}
"""


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", FILES)
def test_programs_stay_legal_and_their_text_says_the_same(name: str) -> None:
    program = resolve(load(str(PROGRAMS / f"{name}.pto"))).program
    profile = resolve_profile(program, None)
    for seed in range(2):
        made = mutated(program, profile, random.Random(seed))
        found = resolve(pto.parse(str(made.program))).program
        assert not [d for d in verify_program(found, profile) if d.severity == "error"]
        assert made.changes and made.program != program
    assert made == mutated(program, profile, random.Random(seed))


def test_every_kind_of_change_is_made() -> None:
    program = pto.parse(TEXT, "add.pto")
    kinds = Counter[str]()
    for seed in range(60):
        for change in mutated(program, pto.profile("a5"), random.Random(seed)).changes:
            kinds[_kind(change)] += 1
    assert set(kinds) == {"instruction", "attribute", "sources", "type", "valid", "size"}, kinds


def _kind(change: str) -> str:
    words = change.partition(": ")[2].split() if change.startswith("add.pto:") else change.split()
    named = {"valid": "valid", "size": "size", "sources": "sources"}
    plain = "attribute" if " of " in change else "instruction" if ".pto:" in change else "type"
    return named.get(words[0], plain)


def test_mutants_execute(tmp_path: Path) -> None:
    (tmp_path / "add.pto").write_text(TEXT)
    plan = Plan(seed=3, profiles=("a5",), programs=(str(tmp_path / "add.pto"),), mutate=True)
    source = Programs.of(plan)
    assert source.case(0, 0).origin == () and source.case(0, 0).program == source.subjects[0].program
    programs = set()
    for index in range(1, 25):
        case = source.case(index, 0)
        assert case.origin[0].endswith("add.pto") and len(case.origin) > 1
        assert case.program == Programs.of(plan).case(index, 1).program
        programs.add(case.program)
        try:
            assert Oracle().run(case).outputs
        except ExecutionError as error:
            pytest.fail(f"{case.origin}: {error}")
    assert len(programs) >= 20


@pytest.mark.slow
def test_a_campaign_says_what_a_mutant_was_made_of(fuzz: Any) -> None:
    Path("add.pto").write_text(TEXT)
    named = ["--against", "python:fuzz_machines:right", "--tested", "python:fuzz_machines:wrong"]
    options = [*named, "--programs", "add.pto", "--mutate", "--count", 4, "--profile", "a5"]
    assert fuzz(*options, "--store", "s.db", "--shrink-calls", 20) == 1
    assert "1 file, mutated" in fuzz.err
    (row,) = fuzz.rows("s.db")["failure"]
    assert json.loads(row[-1])["origin"].startswith("add.pto; ")
    report = json.loads((Path(row[-2]) / "report.json").read_text())
    assert report["origin"][0] == "add.pto" and len(report["origin"]) >= 2
    assert fuzz("--mutate", "--count", 1) == 2 and "got --mutate without --programs" in fuzz.err
