"""System tests: the folders, their execution judged by their own comparison, and the table of outcomes."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from .. import api, isa, profiles
from ..analysis.entries import arguments
from ..analysis.provenance import called
from ..devices.dut import execute
from ..errors import (
    ArgumentError,
    FileError,
    NotExecutableError,
    ParseError,
    PtoError,
    VerifyError,
    with_article,
)
from ..files import parse_json, read_text
from ..files.terminal import table
from ..ir import DType, Function, Program, PtrType, ScalarType, Value
from ..isa.declare import Contradiction
from .cpp_program import CType, Memory, Pointer, read, write
from .host import HostProgram
from .raw import DESCRIPTION, RawCase, raw_cases

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
        file = self.folder / f"{self.folder.name}.pto"
        return file if file.exists() else min(self.folder.glob("*.pto"))

    def host(self) -> HostProgram:
        """The host program; FileError where it is not read."""
        main, wrappers = (read_text(self.folder / n) for n in ("main.cpp", "launch.cpp"))
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
        names = parse_json(read_text(self.folder / "names.json"), "cases.py")
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


#: ``differs``: the comparison fails; ``contradiction``: it does, and passes where an instruction computes
#: what a decision is against; ``construct``: the text needs what is not there or not allowed; ``error``: the
#: execution stopped; ``host``: the host program could not be followed; ``script``: a script failed.
Kind = Literal["pass", "differs", "contradiction", "construct", "error", "host", "script"]
KINDS: tuple[Kind, ...] = ("pass", "differs", "contradiction", "construct", "error", "host", "script")
_SHOWN = 30


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    test: str
    case: str
    kind: Kind
    message: str = ""


@dataclass(frozen=True)
class SystemTestReport:
    """The outcomes of a run, in order."""

    outcomes: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """Every case passes its own comparison, but for named contradictions, and at least one was run."""
        kinds = Counter(o.kind for o in self.outcomes)
        return kinds["pass"] > 0 and kinds["pass"] + kinds["contradiction"] == len(self.outcomes)

    def table(self) -> str:
        """A line per test with its counts, and a total."""
        tests = dict.fromkeys(o.test for o in self.outcomes)
        groups = [(t, [o for o in self.outcomes if o.test == t]) for t in tests]
        rows = [["test", "cases", *KINDS]]
        for name, group in (*groups, ("total", list(self.outcomes))):
            count = Counter(o.kind for o in group)
            rows.append([name, str(len(group)), *(str(count[k]) for k in KINDS)])
        return "\n".join(table(rows))

    def summary(self) -> str:
        """The table, and the first cases that do not pass, with their reasons."""
        lines = [self.table(), ""]
        wrong = [o for o in self.outcomes if o.kind != "pass"]
        lines += [f"{o.kind}: {o.test}/{o.case}: {o.message}" for o in wrong[:_SHOWN]]
        if len(wrong) > _SHOWN:
            lines.append(f"... and {len(wrong) - _SHOWN} more; --json has all")
        passed = len(self.outcomes) - len(wrong)
        lines.append(f"{'passed' if self.ok else 'FAILED'}: {passed} of {len(self.outcomes)} cases pass")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Totals and every case, as JSON."""
        totals = Counter(o.kind for o in self.outcomes)
        cases = [asdict(o) for o in self.outcomes]
        return json.dumps({"ok": self.ok, "totals": {k: totals[k] for k in KINDS}, "cases": cases}, indent=1)


#: Executes a kernel: program, entry, arguments by name, blocks; the buffers it wrote, by name.
Executor: TypeAlias = Callable[[Program, str, Mapping[str, Any], int], Mapping[str, Any]]
#: What a host program gives a kernel.
Argument: TypeAlias = "Pointer | int | float"


def run_system_tests(
    root: str | Path,
    execute: Executor,
    *,
    only: str | None = None,
    limit: float = 300.0,
    python: str | None = None,
    watch: Callable[[Outcome], None] = lambda outcome: None,
) -> SystemTestReport:
    """Run every case of the tests in a folder; ``only`` keeps tests and cases whose names contain it.

    Folders of raw files are cases too (:mod:`.raw`). ArgumentError for a ``python`` that is no program.
    The tests' own scripts are executed in child processes, each for at most ``limit`` seconds, by the
    interpreter ``python`` where one is given: they may need packages that this environment lacks.
    """
    if python is not None and shutil.which(python) is None:
        raise ArgumentError(
            f"{python}: no Python interpreter", allowed="the path of one that can be executed"
        )
    described = raw_cases(root)
    chosen = [c for c in described if only is None or only in f"{c.folder.name}/{c.name}"]
    tests = system_tests(root, needed=not described)
    outcomes = []
    for outcome in chain(
        (o for test in tests for o in _run(test, execute, only, limit, python)),
        (_raw(c, execute) for c in chosen),
    ):
        outcomes.append(outcome)
        watch(outcome)
    return SystemTestReport(tuple(outcomes))


def _raw(case: RawCase, execute: Executor) -> Outcome:
    """Execute a case of raw files."""
    kind: Kind = "error"
    try:
        program = api.load(case.program)
        message = case.run(program, lambda name, given: _launch(program, name, given, 1, execute))
        kind = "differs" if message else "pass"
    except (ParseError, VerifyError, NotExecutableError) as error:
        kind, message = "construct", _first(error)
    except FileError as error:
        kind, message = "script", str(error)
    except PtoError as error:
        message = _first(error)
    return Outcome(case.folder.name, case.name, kind, message)


def _run(
    test: SystemTest, execute: Executor, only: str | None, limit: float, python: str | None
) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory(prefix="pto-st-") as folder:
        work = Workplace.made(test, Path(folder), limit, python)
        try:
            cases = [c for c in work.cases() if only is None or only in f"{test.name}/{c}"]
            if not cases:
                return
            work.generate()
        except FileError as error:
            yield Outcome(test.name, "", "script", str(error))
            return
        try:
            program = api.load(test.kernels)
        except ParseError as error:
            yield from (Outcome(test.name, c, "construct", _first(error)) for c in cases)
            return
        stopped = dict(_executed(test, work, program, cases, execute))
        together = "" if stopped else work.compare()
        for case in cases:
            if case in stopped:
                yield stopped[case]
                continue
            wrong = work.compare(case) if stopped or together else ""
            yield _judged(test, work, case, program, wrong)


def _executed(
    test: SystemTest, work: Workplace, program: Program, cases: list[str], execute: Executor
) -> Iterator[tuple[str, Outcome]]:
    """Execute the cases; what could not be executed, by case."""
    try:
        host = test.host()
    except FileError as error:
        yield from ((case, Outcome(test.name, case, "host", str(error))) for case in cases)
        return
    for case in cases:
        kind: Literal["construct", "error", "host"] = "error"
        try:
            host.run(case, work.folder, partial(_launch, program, execute=execute))
        except (VerifyError, NotExecutableError) as error:
            kind, message = "construct", _first(error)
        except FileError as error:
            kind, message = "host", str(error)
        except PtoError as error:
            message = _first(error)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
        else:
            continue
        yield case, Outcome(test.name, case, kind, message)


def _kernel(program: Program, name: str, count: int) -> tuple[Program, Function]:
    """A kernel with what it calls: the other functions of the text are other cases' business."""
    function = program.function(name)
    if function is None:
        raise FileError(
            f"{program.source}: got the function {name}",
            allowed=", ".join(f.name for f in program.functions) or "none",
        )
    extra = function.args[count:]
    if count > len(function.args) or any(isinstance(a.type, ScalarType) for a in extra):
        raise FileError(
            f"{program.source}: {name} has {len(function.args)} arguments, the launch gives {count}"
        )
    names = {function.name}
    while True:
        inside = (op for f in program.functions if f.name in names for op in f.walk())
        callees = {callee.name for op in inside if (callee := called(program, op)) is not None}
        if callees <= names:
            break
        names |= callees
    return replace(program, functions=tuple(f for f in program.functions if f.name in names)), function


def _launch(program: Program, name: str, given: Sequence[Argument], grid: int, execute: Executor) -> None:
    """Execute a kernel on memory of the device.

    Pointers that the launch does not give are memory that nothing else sees; memory that is smaller than
    what the kernel accesses goes on with zeros.
    """
    program, function = _kernel(program, name, len(given))
    unseen = (Pointer(Memory.of(0), 0, CType("void")) for _ in function.args[len(given) :])
    values = dict(zip((a.name for a in function.args), (*given, *unseen), strict=True))
    for a in arguments(program, function):
        pointer = values[a.name]
        if isinstance(a.type, PtrType) and isinstance(pointer, Pointer):
            pointer.memory.grow(
                pointer.offset + (a.min_elements or 0) * np.dtype(a.type.dtype.numpy).itemsize
            )
    passed = {v.name: _argument(v, values[v.name], program) for v in function.args}
    for key, result in execute(program, name, passed, grid).items():
        pointer = values[key]
        assert isinstance(pointer, Pointer)
        write(pointer, np.ascontiguousarray(np.asarray(result)).reshape(-1).view(np.uint8))


def _argument(value: Value, argument: Argument, program: Program) -> Any:
    t = value.type
    if isinstance(t, ScalarType):
        return _scalar(t.dtype, argument)
    if not isinstance(argument, Pointer) or not isinstance(t, PtrType):
        raise FileError(f"{program.source}: {value.name} is {with_article(t)}, the launch gives {argument}")
    contents, size = argument.memory.bytes[argument.offset :], np.dtype(t.dtype.numpy).itemsize
    return contents[: contents.size // size * size].view(t.dtype.numpy)


def _scalar(d: DType, argument: Argument) -> Any:
    """A scalar argument from a number, or from the first bytes behind a pointer.

    An integer for a float argument has its bits.
    """
    size = np.dtype(d.numpy).itemsize
    if isinstance(argument, Pointer):
        return read(argument, size).view(d.numpy)[0]
    if d.is_float and isinstance(argument, int):
        return np.array(argument, f"u{size}").view(d.numpy)[()]
    return np.dtype(d.numpy).type(argument) if d.is_float else np.array(argument).astype(d.numpy)[()]


def _judged(test: SystemTest, work: Workplace, case: str, program: Program, wrong: str) -> Outcome:
    """What a comparison means: a contradiction where it passes by what the other source computes."""
    if not wrong:
        return Outcome(test.name, case, "pass")
    for name in sorted({op.name for op in program.walk()}):
        instruction = isa.find(name)
        for d in instruction.decisions if instruction is not None else ():
            if isinstance(d, Contradiction) and _explains(d, name, test, work, case, program):
                said = f"{name}: {d.question} Here: {d.choice} {d.other_source}: {d.other}. {wrong}"
                return Outcome(test.name, case, "contradiction", said)
    return Outcome(test.name, case, "differs", wrong)


def _explains(
    d: Contradiction, name: str, test: SystemTest, work: Workplace, case: str, program: Program
) -> bool:
    """Whether a case passes its comparison where an instruction computes what the other source wants."""
    from ..oracle.interpret import run
    from ..oracle.machine import ReferenceMachine
    from ..oracle.step import OTHER_RULES

    other = OTHER_RULES.get((d.key, name))
    if other is None:
        return False
    rules = MappingProxyType({name: other})

    class Machine(ReferenceMachine):
        instead = rules

    def execute(program: Program, entry: str, arguments: Mapping[str, Any], grid: int) -> Mapping[str, Any]:
        return run(program, arguments, entry=entry, machine=Machine, grid=grid)

    try:
        test.host().run(case, work.folder, partial(_launch, program, execute=execute))
    except PtoError:
        return False
    return not work.compare(case)


def _first(error: PtoError) -> str:
    return str(error.diagnostics[0]) if error.diagnostics else str(error)


def executor(kind: Literal["engine", "oracle"]) -> Executor:
    """How kernels are executed: by the engine, operation by operation, or by the reference interpreter."""

    def engine(program: Program, entry: str, arguments: Mapping[str, Any], grid: int) -> Mapping[str, Any]:
        from ..runtime.kernel import compile

        return compile(program, entry=entry, warn=False, grid=grid).eager(**arguments)

    def oracle(program: Program, entry: str, arguments: Mapping[str, Any], grid: int) -> Mapping[str, Any]:
        from ..oracle.interpret import run

        api.verify(program, profile=_profile(program), raise_on_error=True)
        return run(program, arguments, entry=entry, grid=grid)

    return engine if kind == "engine" else oracle


def _profile(program: Program) -> profiles.Profile:
    return profiles.profile_of_arch(program.attrs.get("pto.target_arch"))
