"""Stores have one transaction per block; what is kept of a failure is a function of its block."""

import contextlib
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pto_jax.campaign.fuzz import campaign
from pto_jax.campaign.fuzz.batch import Batch, Block, Board, Failure, Note, Task
from pto_jax.campaign.fuzz.plan import Plan, identity
from pto_jax.campaign.fuzz.store import Store
from pto_jax.campaign.fuzz.worker import Guarded, make
from pto_jax.errors import FileError
from tests.campaign.blocks import joined

PLAN = Plan(seed=4, count=12, batch=4)
ULP = '{"texp|f32": {"buckets": {"0": 2}, "nan": 0, "worst": 0}}'


def block(start: int, count: int = 4) -> Batch:
    failed = Failure(start + 1, f"id{start}", "different", "a5", "tadd", "why", "what", None, {"index": 3})
    kinds = Counter(equal=count - 1, different=1)
    return Batch(start, count, kinds, Counter({"tadd|f32|-|full|row": count}), ULP, (failed,))


def store(path: Path, *batches: Batch) -> Path:
    with Store.create(path, {**identity(PLAN), "started": 0.0}) as made:
        made.update([unsaved(b) for b in batches])
    return path


def unsaved(batch: Batch) -> Block:
    """A finished block that no store has."""
    whole = Block(batch.start, batch.count)
    whole.add(batch, 0.5)
    return whole


def test_a_block_and_its_failures_are_one_transaction(tmp_path: Path) -> None:
    path = store(tmp_path / "a", block(0))
    with Store.open(path) as opened:
        # The second failure of this block is one that the store has already.
        twice = replace(block(4), failures=(*block(4).failures, *block(0).failures))
        with pytest.raises(FileError, match="written by another campaign at the same time"):
            opened.update([unsaved(twice)])
        assert opened.done() == {0: 4}
        assert [row[0] for row in opened.rows("SELECT case_index FROM failure")] == [1]
        opened.update([unsaved(block(4))])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_half_a_surrogate_pair_in_a_message_is_kept_as_an_escape(tmp_path: Path) -> None:
    (failed,) = block(0).failures
    told = replace(failed, message="no file \udce9.bin", cause="\ud800")
    path = store(tmp_path / "a", replace(block(0), failures=(told,)))
    with Store.open(path) as opened:
        (kept,) = next(opened.batches())[0].failures
    assert (kept.message, kept.cause) == (r"no file \udce9.bin", r"\ud800")


def test_parts_of_a_block_join_to_the_whole() -> None:
    whole = joined([block(6, 2), block(0), block(4, 2)])
    assert (whole.start, whole.count, whole.kinds) == (0, 8, {"equal": 5, "different": 3})
    assert [f.index for f in whole.failures] == [1, 5, 7]
    assert whole.ulp == ULP.replace('"0": 2', '"0": 6') and whole.coverage.total() == 8


WRONG = "python:tests.campaign.shrink.planted:WRONG_ADDITION"
INDEX = 6


def wrong(folder: Path, failures: str) -> Plan:
    """A campaign with a program on which the machine is wrong."""
    file = folder / "add.pto"
    file.write_text("tadd %dst, %a, %b : !pto.tile<16x16xi16>\n")
    return Plan(seed=2, tested=WRONG, programs=(str(file),), failures=str(folder / failures))


def test_folders_are_those_of_finished_blocks(tmp_path: Path) -> None:
    plan = wrong(tmp_path, "failures")
    notes: list[Note] = []
    board = Board([0] * Board.SIZE)
    guarded = Guarded(plan, board, notes.append)
    executor = make(plan, guarded, board.show)
    guarded.begin(Task(INDEX, 1))
    batch = joined(executor.pieces(INDEX, 1))
    (failure,) = batch.failures
    folder = Path(failure.folder or "")
    assert failure.instruction == "tadd" and failure.cause.startswith("tadd: ")
    assert folder.is_relative_to(tmp_path / "failures") and (folder / "report.json").exists()
    assert board.index == INDEX and not board.recording and not notes

    # Once for a folder that is complete, once for one that was left while it was written.
    for unfinished in (False, True):
        if unfinished:
            (folder / "report.json").unlink()
        guarded.begin(Task(INDEX, 1))
        assert joined(executor.pieces(INDEX, 1)) == batch
        assert list(folder.parent.iterdir()) == [folder]

    guarded.begin(Task(INDEX, 1, unrecorded=frozenset({INDEX})))
    (plain,) = joined(executor.pieces(INDEX, 1)).failures
    assert plain.folder is None and plain.kind == "different"


def test_a_failure_that_cannot_be_recorded_is_kept_in_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    plan = wrong(tmp_path, "file")
    notes: list[Note] = []
    board = Board([0] * Board.SIZE)
    guarded = Guarded(plan, board, notes.append)
    guarded.begin(Task(INDEX, 1))
    (failure,) = joined(make(plan, guarded, board.show).pieces(INDEX, 1)).failures
    assert (failure.index, failure.folder) == (INDEX, None)
    (note,) = notes
    assert note.text.startswith(f"case {INDEX}: its failure was not recorded: FileError") and note.kept


def test_a_store_holds_few_notes_of_what_is_lacking() -> None:
    with Store.create(None, {"seed": 1}) as made:
        for first in (0, 5):
            campaign._keep_notes(
                made, [f"case {n}: not recorded" for n in range(first, first + campaign.NOTES)]
            )
        assert made.value("notes") == [f"case {n}: not recorded" for n in range(campaign.NOTES)]
