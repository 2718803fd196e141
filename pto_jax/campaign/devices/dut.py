"""Devices under test that are command lines: a program and inputs in files, results out of files.

A :class:`Command` is executed once per case, where its caller is; its placeholders stand for files in a
folder of the case's own. A :class:`BatchCommand` is executed once for many cases. What both are given and
have to give says :mod:`.contract`.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import DeviceError
from ...generate.programs import Case
from ..results import Run
from ..targets import BatchTarget
from .contract import DECLINE_FILE, DECLINED, INPUTS, NEEDED, OUTPUTS, PLACEHOLDERS, PROGRAM
from .exchange import load_outputs, write_case
from .process import Ended, Template, declined, execute, failed

#: Times in a row that a batch command may end without a single answer before the rest is given up.
_ATTEMPTS = 3
#: Bytes of a device's reason to decline that are read.
_REASON = 500


@dataclass(frozen=True)
class Command:
    """A command line that executes one case; ``timeout`` is in seconds."""

    command: str
    timeout: float
    _template: Template = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        template = Template.of(self.command, NEEDED, [n for n in PLACEHOLDERS if n not in NEEDED])
        object.__setattr__(self, "_template", template)

    @property
    def name(self) -> str:
        """The machine as the command line of this package names it."""
        return f"dut:{self.command}"

    def run(self, case: Case) -> Run:
        """The outputs of one case from one process.

        NotExecutableError where it declines, DeviceError where it ends otherwise than it should.
        """
        if case.grid > 1 and not self._template.used & {"grid", "folder"}:
            raise declined(f"{case.grid} blocks; the command has neither {{grid}} nor {{folder}}")
        with tempfile.TemporaryDirectory(prefix="pto-jax-dut-") as made:
            folder = Path(made)
            write_case(folder, case)
            values = {
                "program": str(folder / PROGRAM),
                "inputs": str(folder / INPUTS),
                "outputs": str(folder / OUTPUTS),
                "grid": str(case.grid),
                "profile": case.profile.name,
                "folder": made,
            }
            ended = execute(self._template.filled(values), folder, self.timeout)
            if ended.status != 0:
                raise _failure(ended)
            return replace(load_outputs(folder / OUTPUTS, case), log=ended.output)


@dataclass(frozen=True)
class BatchCommand(BatchTarget):
    """A command line that executes many cases at once: ``{folder}`` holds one folder per case.

    The folders are to be worked through in the order of their names; each has the files that a
    :class:`Command` is given, and gets ``outputs.npz``, or ``declined.txt`` with the reason why the
    device does not execute it. A process that ends, or gives no answer for ``timeout`` seconds, is
    blamed on the first case without one, and started again for those after it.
    """

    command: str
    timeout: float
    _template: Template = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_template", Template.of(self.command, ("folder",)))

    @property
    def name(self) -> str:
        """The machine as the command line of this package names it."""
        return f"dut-batch:{self.command}"

    def run_all(self, cases: Sequence[Case]) -> list[Run | Exception]:
        """The outputs of each case, or the error that stands for it, in order."""
        results: list[Run | Exception] = []
        fruitless = 0
        while len(results) < len(cases):
            answers = self._round(cases[len(results) :])
            fruitless = 0 if isinstance(answers[0], Run) else fruitless + 1
            results += answers
            if fruitless == _ATTEMPTS:
                results += [answers[-1]] * (len(cases) - len(results))
        return results

    def _round(self, cases: Sequence[Case]) -> list[Run | Exception]:
        """What one process gives: results up to the case that ended it."""
        with tempfile.TemporaryDirectory(prefix="pto-jax-dut-") as made:
            root = Path(made) / "cases"
            folders = [root / f"{i:06d}" for i in range(len(cases))]
            for folder, case in zip(folders, cases, strict=True):
                folder.mkdir(parents=True)
                write_case(folder, case)
            ended = execute(
                self._template.filled({"folder": str(root)}),
                Path(made),
                self.timeout,
                lambda: sum(_answered(f) for f in folders),
            )
            results: list[Run | Exception] = []
            for folder, case in zip(folders, cases, strict=True):
                if not _answered(folder) and ended.status != 0:
                    return [*results, _failure(ended)]
                results.append(_answer(folder, case))
            return results


def _answered(folder: Path) -> bool:
    return (folder / OUTPUTS).exists() or (folder / DECLINE_FILE).exists()


def _answer(folder: Path, case: Case) -> Run | Exception:
    if (folder / DECLINE_FILE).exists():
        with (folder / DECLINE_FILE).open("rb") as file:
            reason = file.read(_REASON).decode("utf-8", errors="replace").strip()
        return declined(reason)
    try:
        return load_outputs(folder / OUTPUTS, case)
    except DeviceError as error:
        return error


def _failure(ended: Ended) -> Exception:
    if ended.status == DECLINED:
        return declined(ended.tail)
    return failed(ended.reason, ended.output)
