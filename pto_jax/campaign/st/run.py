"""Executing system tests and judging them by their own comparison."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ... import isa
from ...analysis.entries import arguments
from ...analysis.provenance import called
from ...api import load, verify
from ...errors import FileError, NotExecutableError, ParseError, PtoError, VerifyError
from ...ir.dtypes import DType
from ...ir.program import Function, Program, Value
from ...ir.types import PtrType, ScalarType
from ...isa.declare import Contradiction
from ...profiles import Profile, profile_of_arch
from .host import Buffer, Launch
from .report import Outcome, SystemTestReport
from .suite import SystemTest, Workplace, system_tests

Bytes: TypeAlias = NDArray[np.uint8]
#: Executes a kernel: program, entry, arguments by name; the buffers it wrote, by name.
Executor: TypeAlias = Callable[[Program, str, Mapping[str, Any]], Mapping[str, Any]]
_NOTHING: Bytes = np.zeros(0, np.uint8)
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


def _kernel(program: Program, launch: Launch) -> tuple[Program, Function]:
    """A kernel with what it calls: the other functions of the text are other cases' business."""
    function = program.function(launch.kernel)
    if function is None:
        raise FileError(f"{program.source}: no function {launch.kernel}")
    extra = function.args[len(launch.arguments) :]
    if len(launch.arguments) > len(function.args) or any(isinstance(a.type, ScalarType) for a in extra):
        raise FileError(
            f"{program.source}: {launch.kernel} has {len(function.args)} arguments, the launch gives "
            f"{len(launch.arguments)}"
        )
    names = {function.name}
    while True:
        inside = (op for f in program.functions if f.name in names for op in f.walk())
        used = {callee.name for op in inside if (callee := called(program, op)) is not None}
        if used <= names:
            break
        names |= used
    return replace(program, functions=tuple(f for f in program.functions if f.name in names)), function


def _execute(folder: Path, program: Program, launch: Launch, execute: Executor) -> None:
    """Execute a case in its folder: its files are read, and written as the host program writes them.

    Pointers that the launch does not give are memory that nothing else sees.
    """
    program, function = _kernel(program, launch)
    unseen = (Buffer(f"{launch.kernel} {i}") for i in range(len(launch.arguments), len(function.args)))
    given = dict(zip((a.name for a in function.args), (*launch.arguments, *unseen), strict=True))
    needed = {
        a.name: (a.min_elements or 0) * np.dtype(a.type.dtype.numpy).itemsize
        for a in arguments(program, function)
        if isinstance(a.type, PtrType)
    }
    memory: dict[str, Bytes] = {}
    for name, buffer in given.items():
        if isinstance(buffer, Buffer):
            size = buffer.offset + needed.get(name, 0)
            memory[buffer.name] = _contents(folder, buffer, max(size, memory.get(buffer.name, _NOTHING).size))
    values = {v.name: _argument(v, given[v.name], memory, program) for v in function.args}
    for name, result in execute(program, launch.kernel, values).items():
        buffer = given[name]
        assert isinstance(buffer, Buffer)
        written = np.ascontiguousarray(np.asarray(result)).reshape(-1).view(np.uint8)
        memory[buffer.name][buffer.offset : buffer.offset + written.size] = written
    for buffer in launch.arguments:
        if isinstance(buffer, Buffer) and buffer.target is not None:
            memory[buffer.name][: _target_size(folder, buffer)].tofile(folder / buffer.target)


def _argument(value: Value, given: Buffer | str, memory: Mapping[str, Bytes], program: Program) -> Any:
    t = value.type
    if isinstance(t, ScalarType):
        return _scalar(t.dtype, memory[given.name] if isinstance(given, Buffer) else given)
    if isinstance(given, str) or not isinstance(t, PtrType):
        raise FileError(f"{program.source}: {value.name} is a {t}, the launch gives {given}")
    contents, size = memory[given.name][given.offset :], np.dtype(t.dtype.numpy).itemsize
    return contents[: contents.size // size * size].view(t.dtype.numpy)


def _contents(folder: Path, buffer: Buffer, size: int) -> Bytes:
    """What a buffer of at least some bytes holds before the launch: its file, behind it zeros."""
    file = _NOTHING if buffer.source is None else np.fromfile(folder / buffer.source, np.uint8)
    contents = np.zeros(max(file.size, size, _target_size(folder, buffer) or 0), np.uint8)
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
