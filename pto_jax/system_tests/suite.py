"""Finding system tests: folders with kernels, a case table, a generator of inputs and a comparison."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ..devices.dut import execute
from ..errors import FileError
from ..files import read
from .host import HostProgram
from .raw import DESCRIPTION

#: Files that make a folder a system test.
NEEDED = ("cases.py", "gen_data.py", "compare.py", "main.cpp", "launch.cpp")
#: Files that make a folder a system test of one case.
SINGLE = ("kernel.pto", "golden.py", "compare.py", "main.cpp", "launch.cpp")
_NAMES = "import json, cases; open('names.json', 'w').write(json.dumps([c['name'] for c in cases.CASES]))"
#: Folders above a test that may hold modules which its scripts import.
_ABOVE = 3


@dataclass(frozen=True)
class SystemTest:
    """A folder of a system test; one of a single case is named by its path below ``root``."""

    folder: Path
    root: Path | None = None

    @property
    def is_single(self) -> bool:
        """Whether the folder has one case, whose inputs and results one script makes."""
        return self.root is not None

    @property
    def name(self) -> str:
        """The folder's name, behind that of the group it is in, if any."""
        if self.root is not None:
            return str(self.folder.relative_to(self.root)) if self.folder != self.root else self.folder.name
        group = self.folder.parent.parent.name
        return f"{group}/{self.folder.name}" if group == "smoke" else self.folder.name

    @property
    def kernels(self) -> Path:
        """The text with the kernels: the file named as the folder, else the only one."""
        named = self.folder / f"{self.folder.name}.pto"
        return named if named.exists() else min(self.folder.glob("*.pto"))

    def host(self) -> HostProgram:
        """The host program; FileError where it is not read."""
        main, wrappers = (read.read_text(self.folder / n) for n in ("main.cpp", "launch.cpp"))
        return HostProgram(main, wrappers, str(self.folder / "main.cpp"))


def system_tests(root: str | Path, *, needed: bool = True) -> list[SystemTest]:
    """The system tests in a folder and those below it, in order.

    Raises FileError where it is no folder, and where there is none that is ``needed``.
    """
    folder = Path(root)
    if not folder.is_dir():
        raise FileError(f"{folder}: not a folder")
    tables = [p.parent for p in folder.rglob("gen_data.py") if _is_test(p.parent)]
    single = [p.parent for p in folder.rglob("golden.py") if _has(p.parent, SINGLE)]
    table: dict[Path, Path | None] = {**dict.fromkeys(single, folder), **dict.fromkeys(tables)}
    if needed and not table:
        raise FileError(
            f"{folder}: no system test; a test is a folder with a .pto file and {', '.join(NEEDED)}, "
            f"with {', '.join(SINGLE)}, or with {DESCRIPTION}"
        )
    return [SystemTest(p, root) for p, root in sorted(table.items())]


def _is_test(folder: Path) -> bool:
    return _has(folder, NEEDED) and any(folder.glob("*.pto"))


def _has(folder: Path, files: tuple[str, ...]) -> bool:
    return all((folder / n).exists() for n in files)


@dataclass(frozen=True)
class Workplace:
    """A folder of its own in which a test's scripts are executed, with a time limit for each, in seconds.

    ``python`` is the interpreter of the scripts.
    """

    test: SystemTest
    folder: Path
    limit: float
    python: str = sys.executable

    @classmethod
    def made(cls, test: SystemTest, folder: Path, limit: float, python: str | None = None) -> Workplace:
        """The scripts of a test, copied; without ``python`` this process' own interpreter executes them."""
        for script in test.folder.glob("*.py"):
            shutil.copy(script, folder)
        return cls(test, folder, limit, python or sys.executable)

    def cases(self) -> list[str]:
        """The names of the cases, in the order of the table; a single one is named as the kernel's file."""
        if self.test.is_single:
            return ["kernel"]
        self._script("cases.py", "-c", _NAMES)
        names = read.parse_json(read.read_text(self.folder / "names.json"), "cases.py")
        return [str(n) for n in names]

    def generate(self) -> None:
        """Write the inputs and expected results of all cases."""
        if self.test.is_single:
            self._script("golden.py", "golden.py", "--output-dir", ".")
            return
        self._script("gen_data.py", "gen_data.py")

    def compare(self, case: str | None = None) -> str:
        """What the comparison of a case, or of all, finds wrong; empty where it passes."""
        try:
            self._script("compare.py", "compare.py", *([case] if case and not self.test.is_single else []))
        except FileError as error:
            return str(error).partition("compare.py: ")[2]
        return ""

    def _script(self, name: str, *words: str) -> None:
        above = [str(p) for p in list(self.test.folder.parents)[:_ABOVE]]
        variables = {"PYTHONPATH": ":".join([str(self.folder), *above]), "PYTHONDONTWRITEBYTECODE": "1"}
        ended = execute([self.python, *words], self.folder, self.limit, inside=True, variables=variables)
        if ended.status != 0:
            raise FileError(f"{self.test.folder / name}: {ended.reason}")
