"""Cases as folders that simulators and boards can be driven with."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..analysis.entries import arguments, select_entry
from ..api import parse
from ..cases.expectation import Expectation, divergences, expectation
from ..cases.targets import Oracle
from ..devices import contract, conversation, exchange
from ..devices.cpp import host, writer
from ..devices.exchange import readme
from ..errors import ArgumentError, Diagnostic, ExecutionError, FileError, NotExecutableError
from ..files import folder_replacing, load_arrays, save_arrays, write_text
from ..files.read import unusable
from ..generate.programs import Case
from ..generate.state import Input
from ..ir import PartitionViewType, TensorViewType, TileType, unpack_pairs
from ..profiles import CPU_SIM, ProfileName
from ..runtime.array_files import REGION, convert_input
from .fuzz.executor_cases import Generated, Programs
from .fuzz.plan import Form, Plan


@dataclass(frozen=True)
class EmitOptions:
    """EmitOptions of the command, as given."""

    files: tuple[str, ...]
    out: str
    inputs: str | None = None
    entry: str | None = None
    grid: int | None = None
    seed: int = 0
    start: int = 0
    count: int | None = None
    presets: tuple[str, ...] = ()
    form: Form = "any"
    profile: ProfileName | None = None
    cpp: writer.Mode | None = None
    vectors: str | None = None


@dataclass
class Emission:
    """What was written and what was not, and why."""

    out: str
    written: int = 0
    #: Cases in which no element is compared.
    empty: int = 0
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    vectors: Counter[str] = field(default_factory=Counter)

    @property
    def status(self) -> int:
        """The exit status: 0 when a case was written, 1 when none was."""
        return 0 if self.written else 1

    def text(self) -> str:
        """The lines that the command prints."""
        lines = [*self.notes, *(f"skipped {text}" for text in self.skipped)]
        lines.append(f"{self.written} cases in {self.out}, {len(self.skipped)} skipped")
        if self.empty:
            lines.append(
                f"{self.empty} of them compare nothing: their results are undefined on their profile; the "
                "preset 'defined' has programs whose results are not"
            )
        if self.vectors:
            total, kinds = sum(self.vectors.values()), len(self.vectors)
            lines.append(f"{total} vectors of {kinds} instructions")
        return "\n".join(lines)


@dataclass(frozen=True)
class Emitted:
    """Everything that a case's folder is made of.

    ``simulator`` is what the CPU simulator is compared with where that is not ``expected``, or why there is
    no such thing; ``differences`` says how the two differ.
    """

    case: Case
    expected: Expectation
    simulator: Expectation | str | None = None
    differences: tuple[str, ...] = ()
    cpp: str | None = None
    mode: writer.Mode | None = None


def emit(options: EmitOptions) -> Emission:
    """Write a folder per case; cases that cannot be written are reported with their place."""
    from ..devices.record import Recording

    report = Emission(options.out)
    root = _folder(Path(options.out))
    recording = Recording() if options.vectors is not None else None
    for case in _cases(options, report):
        try:
            emitted = prepare(case, options.cpp)
            if recording is not None:
                recording.run(case)
        except (NotExecutableError, ExecutionError) as error:
            report.skipped.append(f"{_name(case)}: {str(error).splitlines()[0]}")
            continue
        write_folder(root / _name(case), emitted)
        report.written += 1
        report.empty += not emitted.expected.lanes
    if recording is not None:
        assert options.vectors is not None
        report.vectors = recording.save(_folder(Path(options.vectors)))
    return report


def prepare(case: Case, mode: writer.Mode | None = None) -> Emitted:
    """A case with what is expected of it, in C++ too where ``mode`` says how tiles are placed.

    Raises NotExecutableError where the profile does not execute the program, or where C++ is asked for and
    the CPU simulator lacks an instruction or may not survive the case; ExecutionError where the program
    breaks a run-time rule.
    """
    placed = replace(case, program=parse(exchange.program_text(case), contract.PROGRAM))
    expected = expectation(placed)
    simulator = _on_simulator(placed) if case.profile.name != "cpu_sim" else None
    operations: tuple[str, ...] = ()
    if isinstance(simulator, Expectation) and _differ(placed, expected, simulator):
        operations = tuple(divergences(placed))
    text = None
    if mode is not None:
        text = _cpp(case, list(expected.run.outputs), mode)
        reason = simulator if isinstance(simulator, str) else (simulator or expected).ends
        if reason is not None:
            raise NotExecutableError(Diagnostic("error", f"the CPU simulator: {reason}"))
    return Emitted(case, expected, simulator, operations, text, mode)


def _cpp(case: Case, outputs: list[str], mode: writer.Mode) -> str:
    """The program in C++, if its profile's rules and the simulator's allow it."""
    from ..devices.cpp.host import source
    from ..verifier.programs import verify_program

    text = source(case, outputs, mode)
    if case.profile.name != "cpu_sim":
        refused = [d for d in verify_program(case.program, CPU_SIM) if d.severity == "error"]
        if refused:
            raise NotExecutableError(replace(refused[0], message=f"{refused[0].message} (CPU simulator)"))
    return text


def _on_simulator(case: Case) -> Expectation | str:
    try:
        return expectation(case, "cpu_sim")
    except (NotExecutableError, ExecutionError) as error:
        return str(error).splitlines()[0]


def _differ(case: Case, a: Expectation, b: Expectation) -> bool:
    """Whether elements differ that both expectations compare."""
    both = {name: mask & b.compared[name] for name, mask in a.compared.items()}
    return replace(a, compared=both).difference(case, b.run) is not None


def write_folder(folder: Path, emitted: Emitted) -> None:
    """Write one case into a folder, which is replaced as a whole."""
    case, expected, simulator = emitted.case, emitted.expected, emitted.simulator
    more: dict[str, Any] = {"results": _results(case, expected)}
    with folder_replacing(folder) as target:
        save_expectation(target, case, expected)
        if isinstance(simulator, Expectation):
            save_expectation(_folder(target / host.SIMULATOR_FOLDER), case, simulator)
            more[host.SIMULATOR_FOLDER] = {
                "results": _results(case, simulator),
                "differences": list(emitted.differences),
            }
        exchange.write_case(target, case, **more)
        conversation.save_inputs(_folder(target / "inputs"), case)
        if emitted.cpp is not None:
            write_text(target / "case.cpp", emitted.cpp)
            write_text(_folder(target / host.SUPPORT) / "stdfloat", host.STDFLOAT)
        text = readme(case, expected, simulator, emitted.differences, emitted.mode)
        write_text(target / "README.md", text)


def save_expectation(folder: Path, case: Case, expected: Expectation) -> None:
    """Write results and masks, in both forms, into a folder that exists."""
    exchange.save_outputs(folder / "expected.npz", case, expected.run)
    save_arrays(folder / "mask.npz", dict(expected.compared))
    conversation.save_outputs(_folder(folder / "expected"), case, expected.run)
    conversation.save_masks(_folder(folder / "mask"), case, expected.compared)


def _results(case: Case, expected: Expectation) -> list[dict[str, Any]]:
    """The manifest's entries of the results."""
    entries = []
    for name, output in expected.run.outputs.items():
        gaps = [{"elements": g.elements, "reason": g.reason} for g in expected.gaps if g.output == name]
        entry: dict[str, Any] = {
            "name": name,
            "dtype": output.dtype.name,
            "shape": list(output.words.shape),
            "compared": int(expected.compared[name].sum()),
            "not_compared": gaps,
        }
        if output.valid is not None:
            entry["valid"] = list(output.valid)
        if case.ulp.get(name, 0) > 0:
            entry["ulp"] = case.ulp[name]
        entries.append(entry)
    return entries


def _name(case: Case) -> str:
    return f"{case.index:06d}-{case.id}"


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(path, "made", error) from None
    return path


def _cases(options: EmitOptions, report: Emission) -> Iterator[Case]:
    if options.files:
        yield from _given(options, report)
        return
    generated = Generated.of(_plan(options))
    for index in range(options.start, options.start + (options.count or 10)):
        yield generated.case(index)


def _plan(options: EmitOptions) -> Plan:
    profiles = () if options.profile is None else (options.profile,)
    return Plan(
        seed=options.seed,
        profiles=profiles,
        presets=options.presets or ("straight",),
        form=options.form,
        programs=options.files,
        entry=options.entry,
        grid=options.grid,
    )


def _given(options: EmitOptions, report: Emission) -> Iterator[Case]:
    programs = Programs.of(_plan(options))
    report.notes = [note.text for note in programs.notes]
    count = options.count or len(programs.subjects)
    for index in range(options.start, options.start + count):
        if options.inputs is not None:
            yield _with_inputs(programs.case(index, 0), options.inputs)
        else:
            yield _sound(programs, index)


def _sound(programs: Programs, index: int) -> Case:
    """A case whose inputs break no run-time rule, where some are found."""
    for attempt in range(programs.attempts - 1):
        case = programs.case(index, attempt)
        try:
            Oracle().run(case)
            return case
        except (ExecutionError, NotExecutableError):
            continue
    return programs.case(index, programs.attempts - 1)


def _with_inputs(case: Case, path: str) -> Case:
    """The case on inputs from a file."""
    arrays = load_arrays(path)
    function = select_entry(case.program, case.entry)
    inputs: dict[str, Input] = {}
    for argument in arguments(case.program, function):
        name, old = argument.name, case.inputs[argument.name]
        if name not in arrays:
            held = ", ".join(arrays) or "nothing"
            got = f"{path}: got no array for argument {name} ({argument.type}); it holds {held}"
            raise FileError(got, allowed=f"one that is called {name!r}")
        try:
            array = convert_input(argument, arrays[name])
        except ArgumentError as error:
            raise FileError(f"{path}: {name}: {error}") from None
        words = _words(old, array)
        valid = old.valid
        if isinstance(old.type, TileType) and not old.type.is_static:
            rows, cols = arrays.get(name + REGION, np.array(old.type.shape))
            valid = (int(rows), int(cols))
        inputs[name] = Input(old.type, words, valid)
    return replace(case, inputs=inputs)


def _words(old: Input, array: Any) -> Any:
    d = old.type.dtype
    words = np.ascontiguousarray(array).view(d.word)
    if d.packed and isinstance(old.type, PartitionViewType | TensorViewType):
        words = unpack_pairs(words)
    return words
