"""What is kept of a failure is a function of its block, however often the block is executed."""

from __future__ import annotations

from pathlib import Path

from pto_jax.campaign.fuzz.batch import Board, Note, Task
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.campaign.fuzz.worker import Guarded, make
from tests.campaign.blocks import joined

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
    assert note.text.startswith(f"case {INDEX}: its failure was not recorded: FileError")
