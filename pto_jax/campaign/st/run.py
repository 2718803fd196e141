"""Executing system tests and judging them by their own comparison."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ... import isa
from ...api import load, verify
from ...errors import FileError, NotExecutableError, ParseError, PtoError, VerifyError
from ...ir.dtypes import DType
from ...ir.program import Function, Program
from ...ir.types import PtrType, ScalarType
from ...isa.declare import Contradiction
from ...profiles import Profile, profile_of_arch
from .host import Buffer, Launch
from .report import Outcome, SystemTestReport
from .suite import SystemTest, Workplace, system_tests

Bytes: TypeAlias = NDArray[np.uint8]
#: Executes a kernel: program, entry, arguments by name; the buffers it wrote, by name.
Executor: TypeAlias = Callable[[Program, str, Mapping[str, Any]], Mapping[str, Any]]
#: Bytes of a buffer that no file gives the size of.
_UNKNOWN = 1 << 22
#: Marks contradictions whose other source is this kind of suite.
_SUITE = "tilelang"


def run_system_tests(
    root: str | Path,
    execute: Executor,
    *,
    only: str | None = None,
    limit: float = 300.0,
    watch: Callable[[Outcome], None] = lambda outcome: None,
) -> SystemTestReport:
    """Run every case of the tests in a folder; ``only`` keeps tests and cases whose name has it.

    The tests' own scripts are executed in child processes, each for at most ``limit`` seconds.
    """
    outcomes = []
    for test in system_tests(root):
        for outcome in _run(test, execute, only, limit):
            outcomes.append(outcome)
            watch(outcome)
    return SystemTestReport(tuple(outcomes))


def _run(test: SystemTest, execute: Executor, only: str | None, limit: float) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory(prefix="pto-st-") as folder:
        work = Workplace.made(test, Path(folder), limit)
        try:
            cases = [c for c in work.cases() if only is None or only in f"{test.name}/{c}"]
            if not cases:
                return
            work.generate()
        except FileError as error:
            yield Outcome(test.name, "", "script", str(error))
            return
        try:
            program = load(test.kernels)
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
            yield _judged(test, case, program, wrong)


def _executed(
    test: SystemTest, work: Workplace, program: Program, cases: list[str], execute: Executor
) -> Iterator[tuple[str, Outcome]]:
    """Execute the cases; what could not be executed, by case."""
    for case, launch in test.launches(cases).items():
        if isinstance(launch, FileError):
            yield case, Outcome(test.name, case, "host", str(launch))
            continue
        kind: Literal["construct", "error"] = "error"
        try:
            _check(program, launch)
            _execute(work.folder / case, program, launch, execute)
        except (VerifyError, NotExecutableError) as error:
            kind, message = "construct", _first(error)
        except PtoError as error:
            message = _first(error)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
        else:
            continue
        yield case, Outcome(test.name, case, kind, message)


def _check(program: Program, launch: Launch) -> None:
    function = program.function(launch.kernel)
    if function is None:
        raise FileError(f"{program.source}: no function {launch.kernel}")
    if len(function.args) != len(launch.arguments):
        raise FileError(
            f"{program.source}: {launch.kernel} has {len(function.args)} arguments, the launch gives "
            f"{len(launch.arguments)}"
        )


def _execute(folder: Path, program: Program, launch: Launch, execute: Executor) -> None:
    """Execute a case in its folder: its files are read, and written as the host program writes them."""
    function = program.function(launch.kernel)
    assert function is not None
    memory: dict[str, Bytes] = {}
    arguments: dict[str, Any] = {}
    for value, given in zip(function.args, launch.arguments, strict=True):
        if isinstance(given, Buffer):
            memory.setdefault(given.name, _contents(folder, given))
        t = value.type
        if isinstance(t, ScalarType):
            number = memory[given.name] if isinstance(given, Buffer) else given
            arguments[value.name] = _scalar(t.dtype, number)
        elif isinstance(given, Buffer):
            contents = memory[given.name][given.offset :]
            arguments[value.name] = _elements(_dtype(function, value.name), contents)
        else:
            raise FileError(f"{program.source}: {launch.kernel} takes memory as {value.name}, not {given}")
    results = execute(program, launch.kernel, arguments)
    for value, given in zip(function.args, launch.arguments, strict=True):
        if isinstance(given, Buffer) and value.name in results:
            written = np.ascontiguousarray(np.asarray(results[value.name])).reshape(-1).view(np.uint8)
            memory[given.name][given.offset : given.offset + written.size] = written
    for given in launch.arguments:
        if isinstance(given, Buffer) and given.target is not None:
            size = _target_size(folder, given)
            memory[given.name][:size].tofile(folder / given.target)


def _contents(folder: Path, buffer: Buffer) -> Bytes:
    """What a buffer holds before the launch: its file, else zeros."""
    size = _target_size(folder, buffer)
    contents = np.zeros(size or _UNKNOWN, np.uint8)
    if buffer.source is not None:
        file = np.fromfile(folder / buffer.source, np.uint8)
        contents = np.zeros(max(file.size, size or 0), np.uint8)
        contents[: file.size] = file
    return contents


def _target_size(folder: Path, buffer: Buffer) -> int | None:
    """The size of a result: of the expected one, which is named like it."""
    if buffer.target is None:
        return None
    stem = buffer.target.removesuffix(".bin")
    tail = stem.removeprefix("output").strip("_")
    names = [f"golden_{tail}", f"golden{tail}", f"golden_{stem}", f"{stem}_golden", "golden", stem]
    files = [folder / f"{n}.bin" for n in names]
    sizes = [f.stat().st_size for f in files if f.exists()]
    return sizes[0] if sizes else None


def _dtype(function: Function, name: str) -> DType:
    (value,) = (v for v in function.args if v.name == name)
    assert isinstance(value.type, PtrType), value.type
    return value.type.dtype


def _elements(d: DType, contents: Bytes) -> NDArray[Any]:
    """Bytes as elements; those behind the last whole one are left out."""
    size = np.dtype(d.numpy).itemsize
    return contents[: contents.size // size * size].view(d.numpy)


def _scalar(d: DType, given: Bytes | str) -> Any:
    """A scalar argument from a file's first bytes, or a number of the text; bits where it is a float's."""
    size = np.dtype(d.numpy).itemsize
    if not isinstance(given, str):
        if d.is_float or given.size == size:
            return given[:size].view(d.numpy)[0]
        number = int.from_bytes(given[:size].tobytes(), "little", signed=d.is_signed)
        return np.dtype(d.numpy).type(number)
    text = given.rstrip("fFuUlL") if not given.startswith("0x") else given.rstrip("uUlL")
    if d.is_float and "." not in text:
        return np.array(int(text, 0), f"u{size}").view(d.numpy)[()]
    return np.dtype(d.numpy).type(float(text) if d.is_float else int(text, 0))


def _judged(test: SystemTest, case: str, program: Program, wrong: str) -> Outcome:
    if not wrong:
        return Outcome(test.name, case, "pass")
    names = {op.name for op in program.walk()}
    for name in sorted(names):
        instruction = isa.find(name)
        for d in instruction.decisions if instruction is not None else ():
            if isinstance(d, Contradiction) and _SUITE in d.other_source:
                return Outcome(test.name, case, "contradiction", f"{name}: {d.question} {wrong}")
    return Outcome(test.name, case, "differs", wrong)


def _first(error: PtoError) -> str:
    return str(error.diagnostics[0]) if error.diagnostics else str(error)


def executor(kind: Literal["engine", "oracle"]) -> Executor:
    """How kernels are executed: by the engine, operation by operation, or by the reference interpreter."""

    def engine(program: Program, entry: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        from ...runtime.kernel import compile

        return compile(program, entry=entry, warn=False).eager(**arguments)

    def oracle(program: Program, entry: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        from ...oracle.interpret import run

        verify(program, profile=_profile(program), raise_on_error=True)
        return run(program, arguments, entry=entry)

    return engine if kind == "engine" else oracle


def _profile(program: Program) -> Profile:
    return profile_of_arch(program.attrs.get("pto.target_arch"))
