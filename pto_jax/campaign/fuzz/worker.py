"""A process that executes blocks, so that a machine which crashes or hangs takes nothing else with it."""

import contextlib
import json
import os
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, MutableSequence
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import perf_counter

from ...cases import comparison, identity
from ...cases.identity import device
from ...cases.targets import Target
from ...errors import ArgumentError, FileError, PtoError, UnusableDeviceError
from ...extension import load_from_environment
from ...failures.recorder import Keeper, Record, Recorder, forget
from ...generate.programs import Case
from .batch import Board, Done, Failed, Note, Piece, Ready, Task
from .executor_cases import Beat, CaseExecutor, Executor, Say
from .plan import Plan


def serve(plan: Plan, connection: Connection, cells: MutableSequence[int]) -> None:
    """The worker's main function: blocks in, batches out, until the connection ends."""
    # The interrupt key of a terminal is for the campaign, which then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        os.setpgrp()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _serve(plan, connection, Board(cells))


def _serve(plan: Plan, connection: Connection, board: Board) -> None:
    guarded = Guarded(plan, board, connection.send)
    try:
        load_from_environment()
        executor = make(plan, guarded, board.show, lambda text: connection.send(Note(text)))
    except PtoError as error:
        connection.send(Failed(str(error), isinstance(error, ArgumentError | FileError)))
        return
    except Exception:
        connection.send(Failed(traceback.format_exc()))
        return
    for note in executor.notes:
        connection.send(note)
    connection.send(Ready(device(), executor.one_by_one))
    while True:
        task: Task = connection.recv()
        guarded.begin(task)
        connection.send(_executed(executor, task, connection.send))


def make(plan: Plan, recorder: Recorder, beat: Beat, say: Say = bool) -> Executor:
    """The executor of a campaign; the recorder is called once for each failure, ``say`` before long waits.

    Raises PtoError for machines and programs that there are not.
    """
    if plan.lockstep and identity.is_device(plan.tested):
        from ..lockstep import DeviceExecutor

        return DeviceExecutor(plan, recorder, beat, say)
    if plan.lockstep:
        from ..lockstep import LockstepExecutor

        return LockstepExecutor(plan, recorder, say)
    return CaseExecutor(plan, recorder, beat)


def _executed(executor: Executor, task: Task, send: Callable[[Piece], None]) -> Done | Failed:
    began = perf_counter()
    try:
        for batch in executor.pieces(task.start, task.count):
            ended = perf_counter()
            send(Piece(batch, ended - began))
            began = ended
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise
    except UnusableDeviceError as error:
        return Failed(str(error), final=True)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}:{place.lineno}"
        return Failed(f"executor: {type(error).__name__}: {error} ({where})")
    return Done(_memory())


class Guarded:
    """A recorder that says what it works on, and leaves out what ended a worker before.

    What it keeps of a failure depends on nothing but the block: folders of cases that were not finished are
    removed, and how many a cause has is counted in each block anew.
    """

    def __init__(self, plan: Plan, board: Board, say: Callable[[Note], None]) -> None:
        self._plan, self._board, self._say = plan, board, say
        self._recorder: Recorder = forget
        self._unrecorded: frozenset[int] = frozenset()

    def begin(self, task: Task) -> None:
        """Begin a task: causes have the folders that it says, and its unrecorded indices are left out."""
        plan, self._unrecorded = self._plan, task.unrecorded
        if plan.failures is not None or (plan.shrink_seconds and plan.shrink_calls):
            self._recorder = Keeper(
                plan.failures,
                plan.shrink_seconds,
                plan.reference,
                plan.tested,
                kept=task.folders,
                calls=plan.shrink_calls,
                kernels=plan.form == "kernel",
                beat=lambda: self._board.show(self._board.index, recording=True),
            )

    def __call__(self, outcome: comparison.Outcome, reference: Target, tested: Target) -> Record:
        """What is kept of a failure; where recording raises, its own words, with a note."""
        index = outcome.case.index
        if index in self._unrecorded:
            return forget(outcome, reference, tested)
        self._board.show(index, recording=True)
        try:
            self._remove(outcome.case)
            record = self._recorder(outcome, reference, tested)
        except UnusableDeviceError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self._say(Note(f"case {index}: its failure was not recorded: {reason}", kept=True))
            record = forget(outcome, reference, tested)
        self._board.show(index)
        return record

    def _remove(self, case: Case) -> None:
        """Remove folders of a case on these machines, which an unfinished block or campaign left."""
        if self._plan.failures is None:
            return
        for folder in Path(self._plan.failures).glob(f"*/seed{case.seed}-{case.index}"):
            try:
                report = json.loads((folder / "report.json").read_text())
            except (OSError, ValueError):
                report = {}
            ours = {"id": case.id, "reference": self._plan.reference, "tested": self._plan.tested}
            if ours.items() <= report.items() or not (folder / "report.json").exists():
                shutil.rmtree(folder, ignore_errors=True)


def _memory() -> int:
    """Bytes that this process holds; where the system does not say, the most it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _end_with_parent() -> None:
    """End this process when the campaign's is gone, whatever the worker is doing."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
