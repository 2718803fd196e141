"""Raw files: folders of ``.bin`` inputs and expected results with a description, ``case.json``.

The description names a program, files or numbers for its arguments, and files of what these hold behind it::

    {"program": "add.pto", "inputs": {"x": "x.bin", "scale": 2.5}, "expected": {"out": "golden.bin"}}

``entry`` names the function where the text has several, ``name`` the case, and a list describes several
cases. An expected file may stand as ``{"file": NAME, "rtol": R, "atol": A}``; without tolerances every bit
counts. Memory that no input fills is zero and as large as the expected file.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..analysis.entries import written_buffers
from ..errors import FileError, with_article
from ..files import read
from ..ir import DType, Function, Program, PtrType, ScalarType, Value
from .cpp_program import Bytes, CType, Memory, Pointer

#: The description of a folder of raw files.
DESCRIPTION = "case.json"
_KEYS = {"name": str, "program": str, "entry": str, "inputs": dict, "expected": dict}


@dataclass(frozen=True)
class Expected:
    """A file with what an argument holds in the end, and how far from it numbers may be."""

    file: str
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True)
class RawCase:
    """A case of a folder; ``inputs`` are names of files, or numbers."""

    folder: Path
    name: str
    program: Path
    entry: str | None
    inputs: Mapping[str, str | int | float]
    expected: Mapping[str, Expected]

    def run(self, program: Program, launch: Callable[[str, list[Pointer | int | float]], None]) -> str:
        """Execute the case; what is found wrong, empty where nothing is.

        Raises FileError where the description does not fit the program or names files that are not there.
        """
        function = self._function(program)
        self._check_written(program, function)
        values = [self._argument(a) for a in function.args]
        launch(function.name, values)
        held = {a.name: (a.type, value) for a, value in zip(function.args, values, strict=True)}
        for name, expected in self.expected.items():
            kind, pointer = held[name]
            if not isinstance(pointer, Pointer) or not isinstance(kind, PtrType):
                raise FileError(
                    f"{self.folder / DESCRIPTION}: {name} is {with_article(kind)}, which holds no result"
                )
            want, have = self._file(expected.file), pointer.memory.bytes
            if want.size < have.size:
                got = f"{expected.file}: got {want.size} bytes for {name}, which has {have.size}"
                allowed = "all of them, so that each is compared"
                raise FileError(f"{self.folder / DESCRIPTION}: {got}", allowed=allowed)
            wrong = _difference(want, have, kind.dtype, expected)
            if wrong:
                return f"{name}: {wrong}"
        return ""

    def _function(self, program: Program) -> Function:
        names = [f.name for f in program.entries] if self.entry is None else [self.entry]
        function = program.function(names[0]) if len(names) == 1 else None
        place = self.folder / DESCRIPTION
        if function is None:
            entries = ", ".join(f.name for f in program.functions)
            raise FileError(f"{place}: entry: got {self.entry}", allowed=f"one of {entries}")
        arguments = [a.name for a in function.args]
        strange = [n for n in (*self.inputs, *self.expected) if n not in arguments]
        if strange:
            raise FileError(
                f"{place}: got {strange[0]}",
                allowed=f"the arguments of {function.name}: {', '.join(arguments)}",
            )
        return function

    def _check_written(self, program: Program, function: Function) -> None:
        """Raise FileError where no expected argument is one that the function writes."""
        written = written_buffers(program, function)
        pointers = [a.name for a in function.args if isinstance(a.type, PtrType)]
        if set(self.expected) <= set(pointers) and not set(self.expected) & set(written):
            got = f"expected: got {', '.join(self.expected)}, which {function.name} only reads"
            allowed = f"what it writes: {', '.join(written) or 'nothing'}"
            raise FileError(f"{self.folder / DESCRIPTION}: {got}", allowed=allowed)

    def _argument(self, argument: Value) -> Pointer | int | float:
        name, t = argument.name, argument.type
        source = self.inputs.get(name)
        if isinstance(source, int | float):
            # An integer would be the bits of a float argument.
            return float(source) if isinstance(t, ScalarType) and t.dtype.is_float else source
        memory = Memory(np.zeros(0, np.uint8) if source is None else self._file(source))
        if name in self.expected:
            memory.grow(self._file(self.expected[name].file).size)
        return Pointer(memory, 0, CType("void"))

    def _file(self, name: str) -> Bytes:
        file = self.folder / name
        if not file.is_file():
            raise FileError(f"{self.folder / DESCRIPTION}: {name}: no such file beside it")
        contents = np.fromfile(file, np.uint8)
        if not contents.size:
            raise FileError(f"{self.folder / DESCRIPTION}: {name}: got an empty file", allowed="raw elements")
        return contents


def raw_cases(root: str | Path) -> list[RawCase]:
    """The cases described in a folder and those below it; FileError where a description is not right."""
    return [case for file in sorted(Path(root).rglob(DESCRIPTION)) for case in _described(file)]


def _described(file: Path) -> Iterator[RawCase]:
    content = read.parse_json(read.read_text(file), str(file))
    for number, entry in enumerate(content if isinstance(content, list) else [content]):
        default = file.parent.name if not isinstance(content, list) else f"{file.parent.name}_{number}"
        yield _case(file, entry, default)


def _case(file: Path, entry: Any, default: str) -> RawCase:
    if not isinstance(entry, dict):
        raise FileError(f"{file}: got {entry!r}", allowed="an object, or a list of them")
    for key, value in entry.items():
        kind = _KEYS.get(key)
        if kind is None or not isinstance(value, kind):
            allowed = ", ".join(f"{k} ({t.__name__})" for k, t in _KEYS.items())
            raise FileError(f"{file}: got {key} = {value!r}", allowed=f"{allowed}")
    if "program" not in entry or not entry.get("expected"):
        raise FileError(f"{file}: got a case without program or expected", allowed="both")
    inputs = entry.get("inputs", {})
    for name, value in inputs.items():
        if not isinstance(value, str | int | float):
            raise FileError(f"{file}: input {name}: got {value!r}", allowed="the name of a file, or a number")
    expected = {n: _expected(file, n, v) for n, v in entry["expected"].items()}
    program = file.parent / entry["program"]
    return RawCase(file.parent, entry.get("name", default), program, entry.get("entry"), inputs, expected)


def _expected(file: Path, name: str, value: Any) -> Expected:
    if isinstance(value, str):
        return Expected(value)
    complete = isinstance(value, dict) and set(value) <= {"file", "rtol", "atol"}
    if not complete or not isinstance(value.get("file"), str):
        raise FileError(
            f"{file}: expected {name}: got {value!r}", allowed="the name of a file, or file, rtol and atol"
        )
    limits = [value.get(key, 0) for key in ("rtol", "atol")]
    if not all(type(limit) in (int, float) and limit >= 0 for limit in limits):
        raise FileError(f"{file}: expected {name}: got the tolerances {value!r}", allowed="numbers from 0 on")
    return Expected(value["file"], *map(float, limits))


def _difference(want: Bytes, have: Bytes, d: DType, limits: Expected) -> str:
    """The first element that differs, and how many do."""
    size = np.dtype(d.numpy).itemsize
    if want.size % size:
        return f"{limits.file} has {want.size} bytes, which are no whole elements of {d}"
    words = [x[: want.size].view(d.word) for x in (want, have)]
    different = words[0] != words[1]
    if limits.rtol or limits.atol:
        a, b = (x[: want.size].view(d.numpy).astype(np.float64) for x in (want, have))
        different &= ~np.isclose(b, a, rtol=limits.rtol, atol=limits.atol, equal_nan=True)
    if not different.any():
        return ""
    at, digits = int(np.argmax(different)), 2 * size
    return (
        f"element {at} of {different.size}: expected 0x{int(words[0][at]):0{digits}x}, got "
        f"0x{int(words[1][at]):0{digits}x}; {int(different.sum())} differ"
    )
