"""Cases as folders that simulators and boards can be driven with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ... import __version__
from ..._run import REGION, convert_input
from ...analysis import arguments, select_entry
from ...errors import ArgumentError, ExecutionError, FileError, NotExecutableError
from ...files import folder_replacing, load_arrays, write_text
from ...profiles import ProfileName
from ...testing.generate import Case, generate
from ...testing.generate_options import PRESETS
from ...testing.generate_state import Input
from ...types import PartitionViewType, TensorViewType, TileType
from ..fuzz.plan import Plan
from ..fuzz.programs import Programs
from ..results import Run
from ..targets import Oracle
from . import binary
from .folders import write_case

_SHOWN = 5
_README = """\
Case {id}, written by pto-jax {version} for {profile}{blocks}.

case.pto        the program{entry}
{cpp}manifest.json   identity, arguments and results: names, element types, shapes, valid regions
inputs.npz      the arguments by name; expected.npz: the results that the reference interpreter gives
inputs/         the same as raw files: NAME.bin; expected/: the results, with NAME.valid.bin for tiles

Raw files are little-endian elements in the order of memory: buffers row by row, tiles in the order of
their layout, 4-bit floats two to a byte (the even one in the low bits), a scalar as one element, a truth
value as one byte. NAME.valid.bin has the valid rows and columns as two 32-bit integers. In .npz files,
element types that NumPy lacks are unsigned words.

Results are to be equal bit by bit, any NaN to any NaN; a result with "ulp" in the manifest may be that
many units in the last place away.
{build}"""
_BUILD = """
case.cpp needs the header pto/pto-inst.hpp of a PTO implementation and C++20. Its main takes the folder of
inputs and an existing folder for outputs, which it writes as expected/ is written. Floating-point
contraction must be off. Tiles that are arguments are filled through memory, which only a simulator allows.
"""


@dataclass(frozen=True)
class Options:
    """Options of the command, as given."""

    files: tuple[str, ...]
    out: str
    inputs: str | None = None
    entry: str | None = None
    grid: int | None = None
    seed: int = 0
    start: int = 0
    count: int | None = None
    presets: tuple[str, ...] = ()
    profile: ProfileName | None = None
    cpp: Literal["auto", "manual"] | None = None
    vectors: str | None = None


@dataclass
class Report:
    """What was written and what was not, and why."""

    out: str
    written: int = 0
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    vectors: Counter[str] = field(default_factory=Counter)

    @property
    def complete(self) -> bool:
        return not self.refused

    def text(self) -> str:
        lines = [*self.notes, f"{self.written} cases in {self.out}"]
        if self.vectors:
            total, kinds = sum(self.vectors.values()), len(self.vectors)
            lines.append(f"{total} vectors of {kinds} instructions")
        if self.refused:
            lines.append(f"{len(self.refused)} cases not written:")
            lines += [f"  {text}" for text in self.refused[:_SHOWN]]
            if len(self.refused) > _SHOWN:
                lines.append(f"  and {len(self.refused) - _SHOWN} more")
        return "\n".join(lines)


def emit(options: Options) -> Report:
    """Write a folder per case; cases that cannot be written are told with their place."""
    from .record import Recording

    report = Report(options.out)
    root = _folder(Path(options.out))
    recording = Recording() if options.vectors is not None else None
    for case in _cases(options, report):
        try:
            expected = Oracle().run(case) if recording is None else recording.run(case)
            source = _cpp(case, expected, options)
        except (NotExecutableError, ExecutionError) as error:
            report.refused.append(f"{_name(case)}: {str(error).splitlines()[0]}")
            continue
        write_folder(root / _name(case), case, expected, source)
        report.written += 1
    if recording is not None:
        assert options.vectors is not None
        report.vectors = recording.save(_folder(Path(options.vectors)))
    return report


def write_folder(folder: Path, case: Case, expected: Run, source: str | None = None) -> None:
    """Write one case with its expected results into a folder, which is replaced as a whole."""
    with folder_replacing(folder) as made:
        for path in (made / "inputs", made / "expected"):
            _folder(path)
        write_case(made, case, expected)
        binary.save_inputs(made / "inputs", case)
        binary.save_outputs(made / "expected", case, expected)
        if source is not None:
            write_text(made / "case.cpp", source)
        write_text(made / "README.md", _readme(case, source))


def _readme(case: Case, source: str | None) -> str:
    return _README.format(
        id=case.id,
        version=__version__,
        profile=case.profile.title,
        blocks=f", {case.grid} blocks" if case.grid > 1 else "",
        entry=f"; {case.entry} is executed" if case.entry else "",
        cpp="" if source is None else "case.cpp        the program in C++ intrinsics, with a host program\n",
        build="" if source is None else _BUILD,
    )


def _cpp(case: Case, expected: Run, options: Options) -> str | None:
    if options.cpp is None:
        return None
    from ..cpp.translate import source

    return source(case, list(expected.outputs), options.cpp)


def _name(case: Case) -> str:
    return f"{case.index:06d}-{case.id}"


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{path}: cannot be made: {error.strerror or error}") from None
    return path


def _cases(options: Options, report: Report) -> Iterator[Case]:
    if options.files:
        yield from _given(options, report)
        return
    unknown = [p for p in options.presets if p not in PRESETS]
    if unknown:
        raise ArgumentError(f"no preset {', '.join(unknown)}; allowed: {' '.join(PRESETS)}")
    chosen = [PRESETS[p] for p in options.presets or ("straight",)]
    if options.profile is not None:
        chosen = [replace(p, profiles=(options.profile,)) for p in chosen]
    for index in range(options.start, options.start + (options.count or 10)):
        yield generate(options.seed, index, chosen[index % len(chosen)])


def _given(options: Options, report: Report) -> Iterator[Case]:
    profiles = () if options.profile is None else (options.profile,)
    plan = Plan(
        seed=options.seed, profiles=profiles, programs=options.files, entry=options.entry, grid=options.grid
    )
    programs = Programs.of(plan)
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
            raise FileError(f"{path}: no array for argument {name} ({argument.type})")
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
        words = np.stack([words & 15, words >> 4], axis=-1).reshape(*words.shape[:-1], -1)
    return words
