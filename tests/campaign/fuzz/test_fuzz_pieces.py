"""Results come case by case: whatever order they come in, and wherever a campaign ends, a block is the sum of
its cases."""

import random
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pto_jax.campaign.fuzz.batch import Batch, Block, Board, Failure, Task
from pto_jax.campaign.fuzz.campaign import _Interrupt, announcement
from pto_jax.campaign.fuzz.executor_cases import CaseExecutor
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.campaign.fuzz.store import Store
from pto_jax.campaign.fuzz.worker import Guarded
from pto_jax.errors import FileError
from pto_jax.failures.recorder import FOLDERS, forget
from tests.campaign.blocks import joined

ULP = '{"texp|f32": {"buckets": {"1": 2}, "nan": 0, "worst": 1}}'


def piece(index: int, folder: str | None = None) -> Batch:
    failed = Failure(index, f"id{index}", "different", cause="why", folder=folder)
    coverage = Counter({"tadd|f32|-|full|row": 1, f"tneg|f32|{index % 3}|full|row": 2})
    return Batch(index, 1, Counter({"different": 1}), coverage, ULP, (failed,))


@pytest.mark.parametrize("order", range(4))
def test_a_block_is_the_sum_of_its_cases_in_any_order(order: int) -> None:
    indices = list(range(20, 32))
    random.Random(order).shuffle(indices)
    block = Block(20, 12)
    for done, index in enumerate(indices, 1):
        assert not block.finished
        block.add(piece(index), 0.5)
        there = {i for start, count in block.spans for i in range(start, start + count)}
        left = {i for start, count in block.left(20, 12) for i in range(start, start + count)}
        assert there == set(indices[:done]) and left == set(indices[done:])
        # Runs are as long as they can be.
        assert all(a[0] + a[1] < b[0] for a, b in zip(block.spans, block.spans[1:], strict=False))
    assert block.finished and block.seconds == 6.0
    assert list(block.batches()) == [joined(piece(i) for i in range(20, 32))]


def test_an_unfinished_block_goes_on_where_the_store_ends(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store.create(path, {"seed": 1, "start": 0, "count": 16}) as store:
        block = store.block(8, 6)
        assert block.todo == [(8, 6)]
        for index in (8, 9, 12):
            block.add(piece(index), 1.0)
        store.update([block])
        assert store.done() == {8: 2, 12: 1} and store.kinds().total() == 3
    with Store.open(path) as store:
        again = store.block(8, 6)
        assert again.todo == [(10, 2), (13, 1)] and again.seconds == 3.0
        for index in (10, 11, 13):
            again.add(piece(index), 1.0)
        store.update([again])
        ((batch, worker, seconds, _),) = store.batches()
        assert batch == joined(piece(i) for i in range(8, 14))
        assert (worker, seconds) == ("0", 6.0)
        # A second campaign on the same store would write over what the first one did.
        with pytest.raises(FileError, match="written by another campaign at the same time"):
            store.update([block])
        assert store.done() == {8: 6}


@pytest.mark.slow
def test_cases_that_are_drawn_again_are_counted_once_in_any_division(tmp_path: Path) -> None:
    """Valid regions that have to be equal, on some inputs; machines that take one case, and many of them."""
    file = tmp_path / "sum.pto"
    tile = "!pto.tile<16x16x{}, valid=?x?>"
    types = ", ".join(tile.format(name) for name in ("f16", "f32", "f32"))
    file.write_text(f"taddreluconv %dst, %a, %b : {types}\n")
    plan = Plan(programs=(str(file),), tested="eager", profiles=("cpu_sim",))
    one = CaseExecutor(plan, forget, lambda index: None)
    pieces = list(one.pieces(0, 16))
    assert [(p.start, p.count) for p in pieces] == [(i, 1) for i in range(16)]
    parts = [*one.pieces(9, 7), *one.pieces(0, 9)]
    assert joined(parts) == joined(pieces)
    many = CaseExecutor(replace(plan), forget, lambda index: None)
    many.one_by_one = False
    mixed = list(many.pieces(0, 16))
    assert sorted(p.start for p in mixed) == list(range(16)) != [p.start for p in mixed]
    assert joined(mixed) == joined(pieces)


def test_folders_of_a_cause_are_counted_over_the_whole_block(tmp_path: Path) -> None:
    """A block that goes on has the folders of the part before; two more are one too many."""
    file = tmp_path / "add.pto"
    file.write_text("tadd %dst, %a, %b : !pto.tile<16x16xi16>\n")
    wrong = "python:tests.campaign.shrink.planted:WRONG_ADDITION"
    plan = Plan(seed=2, tested=wrong, programs=(str(file),), failures=str(tmp_path / "failures"))
    guarded = Guarded(plan, Board([0] * Board.SIZE), lambda note: None)
    executor = CaseExecutor(plan, guarded, lambda index: None)
    guarded.begin(Task(6, 1))
    block = Block(6, 4, executor.pieces(6, 1))
    ((cause, kept),) = block.folders().items()
    assert kept == 1
    guarded.begin(Task(6, 1, folders={cause: FOLDERS}))
    ((failure,),) = (p.failures for p in executor.pieces(6, 1))
    assert (failure.cause, failure.folder) == (cause, None)


@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        (Plan(tested="lockstep", lockstep=True, opcodes=20), ["left out: control flow", "--tested jit"]),
        (
            Plan(tested="eager"),
            ["generated programs (all presets)", "0.8 programs/s", "1000 programs in 20 min"],
        ),
        (Plan(tested="eager", reference="jit"), ["0.8 programs/s", "without --tested"]),
        (Plan(tested="fast", programs=("a", "b")), ["2 files, all profiles", "2 programs/s"]),
        (Plan(tested="dut:sim", profiles=("a5",)), ["a5, 2 processes", "--workers 1: one after the other"]),
        (Plan(tested="oracle:again"), ["a baseline: each program twice"]),
        (Plan(tested="sanitizer"), ["sanitizer against oracle"]),
    ],
)
def test_a_campaign_is_announced_in_one_line(plan: Plan, parts: list[str]) -> None:
    line = announcement(plan, 2, plan.count)
    assert "\n" not in line and all(part in line for part in parts), line
    slow = plan.tested in ("eager", "fast")
    assert ("each program is compiled" in line) == slow


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_noticed_between_two_results(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with _Interrupt() as interrupt:
        signal.raise_signal(number)
        assert interrupt.seen
    assert signal.getsignal(number) is before
