"""Programs that read and write one memory: what they have in them, and that all machines agree on them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from pto_jax.campaign.fuzz.executor_cases import Generated
from pto_jax.campaign.fuzz.focus import Focus
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.cases import targets
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import LANES, Batched, Engine, Oracle, Run
from pto_jax.cli.fuzz_plan import device_presets
from pto_jax.generate.options import MADE, OVERLAPS
from pto_jax.generate.programs import Case, cases, generate
from pto_jax.ir import Op, ScalarType
from pto_jax.lowering.machine import grid
from pto_jax.lowering.machine.grid import Part

#: Cases that compile fast: windows of a buffer, scalars, slots.
SAMPLE = (4, 7, 12)


def _transfers(case: Case) -> Iterator[Op]:
    return (op for op in case.program.walk() if op.name in ("tload", "tstore", "load_scalar", "store_scalar"))


@pytest.mark.slow
def test_memory_is_read_and_written_in_many_ways() -> None:
    made, counted = list(cases(1, 200, OVERLAPS)), Counter[str]()
    for case in made:
        names = {op.name for op in case.program.walk()}
        counted.update(names)
        counted["blocks"] += case.grid > 1
        counted["offsets of the run"] += any(isinstance(i.type, ScalarType) for i in case.inputs.values())
        counted["addresses"] += any(
            ("addr", 1) in op.groups for op in case.program.walk() if op.name == "alloc_tile"
        )
        assert any(op.name in ("tstore", "store_scalar") for op in _transfers(case)), case.index
    expected = "scf.for call section.vector load_scalar store_scalar castptr addptr subview subset bitcast "
    expected += "alloc_multi_tile multi_tile_get tcvt trowsum tcolsum trowexpand tcolexpand tadd tmuls tmov"
    assert not [name for name in expected.split() if not counted[name]]
    assert min(counted["blocks"], counted["offsets of the run"], counted["addresses"]) > 20


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Engine("jit"), Batched()], ids=lambda m: m.name)
def test_compiled_kernels_and_batches_agree_with_the_interpreter(machine: Engine | Batched) -> None:
    """Small: campaigns execute thousands."""
    for index in SAMPLE:
        assert compare_case(generate(0, index, OVERLAPS), Oracle(), machine).kind == "equal", index


@pytest.mark.parametrize("which", range(LANES))
def test_every_call_of_a_batch_is_compared(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong word in one of them, whichever it is, is a difference."""
    right, calls = targets.of_engine, count()

    def wrong(case: Case, outputs: Any, report: Any) -> Run:
        run = right(case, outputs, report)
        if next(calls) != which:
            return run
        return replace(run, outputs={n: replace(o, words=o.words ^ 1) for n, o in run.outputs.items()})

    monkeypatch.setattr(targets, "of_engine", wrong)
    assert compare_case(generate(0, SAMPLE[0], OVERLAPS), Oracle(), Batched()).kind == "different"


@pytest.mark.slow
def test_a_subset_of_a_tile_with_one_size_known_is_compiled() -> None:
    """A number of rows in the text and columns from an argument, found by a campaign."""
    outcome = compare_case(generate(0, 67, OVERLAPS), Oracle(), Engine("jit"))
    assert outcome.kind == "equal", outcome.message


def _only(name: str, index: int = 0) -> Case:
    plan = Plan(seed=4, presets=device_presets(), focus=Focus(only=(name,)))
    return Generated.of(plan).case(index)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["store_scalar", "load_scalar", "treshape", "set_flag", "barrier", "tpush"])
def test_operations_that_statements_make_can_be_asked_for(name: str) -> None:
    assert all(any(op.name == name for op in _only(name, i).program.walk()) for i in range(9))


@pytest.mark.nightly
@pytest.mark.slow
def test_all_operations_that_statements_make_can_be_asked_for() -> None:
    missing = {
        n: [i for i in range(9) if not any(o.name == n for o in _only(n, i).program.walk())] for n in MADE
    }
    assert sum(map(len, missing.values())) <= 9, {n: i for n, i in missing.items() if i}


@pytest.mark.slow
def test_programs_run_on_the_blocks_that_are_asked_for() -> None:
    source = Generated.of(Plan(seed=4, presets=device_presets(), grid=4))
    assert {source.case(i).grid for i in range(40)} == {4}
    assert {Generated.of(Plan(seed=4, grid=1)).case(i).grid for i in range(40)} == {1}


@pytest.mark.slow
def test_a_store_that_blocks_lose_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Campaigns as they are when nothing is said of programs."""
    right = Part.put

    def lossy(part: Part, words: Any, parts: Any) -> Any:
        return right(part, words, parts.at[-1].set(parts[0]))

    monkeypatch.setattr(grid.Part, "put", lossy)
    source = Generated.of(Plan(seed=2, presets=device_presets()))
    several = [case for case in map(source.case, range(200)) if case.grid > 1]
    engine = Engine("jit", code="numpy")
    assert any(compare_case(c, Oracle(), engine).kind == "different" for c in several)
