"""Host programs of system tests, executed: files, host and device memory, and launches of kernels.

The C++ text of a test is executed as it stands, with this room's own files, memory and launches in place of
the vendor's library; what it needs beyond that is an error that names it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..errors import FileError, PtoError
from .cpp_parser import read_program
from .cpp_program import Bytes, Cell, CType, Expression, Memory, Pointer, Program, Scope, read, store, write

#: Launches a kernel by its name, its arguments (pointers into device memory, and numbers), and the number of
#: blocks.
Launch: TypeAlias = Callable[[str, tuple["Pointer | int | float", ...], int], None]


@dataclass
class HostProgram:
    """The host program of a test: the text of its main function and that of the launch wrappers.

    Raises FileError where a text is not of the plain kind of C++ that is read.
    """

    main: str
    wrappers: str
    place: str
    program: Program = field(init=False)

    def __post_init__(self) -> None:
        self.program = Program(self.place, {})
        read_program(self.program, self.main, self.place)
        read_program(self.program, self.wrappers, str(Path(self.place).with_name("launch.cpp")))

    def run(self, case: str, folder: Path, launch: Launch) -> None:
        """Execute a case in the folder of all cases; FileError where the program does not get to its end."""
        world = _World(folder, launch)
        self.program.environment = world.environment()
        arguments = [Cell(CType("char", 1), word) for word in ("host", case)]
        try:
            main = self.program.functions.get("main")
            operands = (len(arguments), arguments) if main is None or main.parameters else ()
            ended = self.program.called("main", operands)
        except (PtoError, RecursionError):
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, AssertionError) as error:
            raise FileError(
                f"{self.place}: case {case}: the host program is not followed: {error}"
            ) from error
        if ended:
            said = " | ".join(world.said) or f"status {ended}"
            raise FileError(f"{self.place}: case {case}: the host program fails: {said}")
        if not world.launched:
            raise FileError(f"{self.place}: case {case}: the host program launches no kernel")


@dataclass
class _File:
    """An open file: the bytes that are not read yet."""

    rest: Bytes


@dataclass
class _World:
    """What a host program finds outside itself."""

    folder: Path
    launch: Launch
    said: list[str] = field(default_factory=list)
    launched: int = 0

    def environment(self) -> dict[str, Any]:
        """Functions and values by name; functions take the scope and the expressions of a call."""
        values: dict[str, Callable[..., Any]] = {
            "printf": lambda *_: 0,
            "getenv": lambda *_: None,
            "mkdir": lambda *_: 0,
            "atoi": lambda text: int(text),
            "strcmp": lambda a, b: (a > b) - (a < b),
            "strncmp": lambda a, b, n: (a[:n] > b[:n]) - (a[:n] < b[:n]),
            "fprintf": self._told,
            "memcpy": _copied,
            "memset": _filled,
            "fill_n": _repeated,
            "string": lambda text="": text,
            "WriteFile": self._written,
            "ifstream": lambda path, *_: self._contents(path),
            "aclrtMallocHost": lambda cell, size: _allocated(cell, size),
            "aclrtMalloc": lambda cell, size, *_: _allocated(cell, size),
            "aclrtMemset": lambda target, _, byte, size: _filled(target, byte, size),
            "aclrtMemcpy": lambda target, _, source, size, *__: _copied(target, source, size),
            "aclrtCreateStream": _stream,
            "aclGetRecentErrMsg": lambda: None,
            **dict.fromkeys(("aclInit", "aclFinalize", "aclrtSetDevice", "aclrtResetDevice"), _nothing),
            **dict.fromkeys(("aclrtDestroyStream", "aclrtSynchronizeStream"), _nothing),
            **dict.fromkeys(("aclrtFree", "aclrtFreeHost"), _nothing),
        }
        methods: dict[str, Callable[..., Any]] = {
            ".c_str": lambda text, *_: text,
            ".close": lambda *_: None,
            ".is_open": lambda contents, *_: contents is not None,
            ".read": lambda contents, scope, given: _read_on(contents, *(g.run(scope) for g in given)),
        }
        names = ("stderr", "stdout", "ios::binary", "ios::in", "ios_base::binary", "__FILE__", "__LINE__")
        return {
            **{name: _by_value(function) for name, function in values.items()},
            **methods,
            **dict.fromkeys(names),
            "ReadFile": self._read,
            "snprintf": _formatted,
            "<<<": self._launched,
        }

    def _told(self, stream: Any, text: str, *values: Any) -> int:
        self.said.append(_filled_in(text, values).strip())
        return 0

    def _contents(self, path: str) -> _File | None:
        file = self.folder / path
        return _File(np.fromfile(file, np.uint8)) if file.is_file() else None

    def _read(self, scope: Scope, arguments: Sequence[Expression]) -> bool:
        """ReadFile(path, size, buffer, room): the size that the file has comes back."""
        path, size, target, room = arguments
        contents = self._contents(path.run(scope))
        if contents is None or not 0 < contents.rest.size <= room.run(scope):
            return False
        write(target.run(scope), contents.rest)
        cell = size.place(scope) if size.place is not None else None
        if isinstance(cell, Cell):
            cell.value = int(contents.rest.size)
        return True

    def _written(self, path: str, source: Any, size: int) -> bool:
        if source is None:
            return False
        read(source, size).tofile(self.folder / path)
        return True

    def _launched(self, kernel: str, arguments: Sequence[Any], blocks: Any) -> None:
        self.launched += 1
        self.launch(kernel, tuple(arguments), blocks if isinstance(blocks, int) else 1)


def _by_value(function: Callable[..., Any]) -> Callable[[Scope, Sequence[Expression]], Any]:
    return lambda scope, given: function(*(g.run(scope) for g in given))


def _filled_in(text: str, values: Sequence[Any]) -> str:
    """A format with its values in their places."""
    for value in values:
        text = text.replace(next((k for k in ("%s", "%d", "%zu", "%u") if k in text), "%"), str(value), 1)
    return text


def _formatted(scope: Scope, arguments: Sequence[Expression]) -> int:
    """snprintf: an array of characters is from here on the text."""
    target, _, text, *values = arguments
    cell = target.place(scope) if target.place is not None else None
    filled = _filled_in(text.run(scope), [v.run(scope) for v in values])
    if isinstance(cell, Cell):
        cell.value = filled
    return len(filled)


def _filled(target: Any, byte: int, size: int) -> int:
    write(target, np.full(size, byte & 255, np.uint8))
    return 0


def _repeated(target: Any, count: int, value: int | float) -> int:
    """``std::fill_n``: a number of elements are a value."""
    for at in range(count):
        store(target.moved(at), value)
    return 0


def _nothing(*_: Any) -> int:
    return 0


def _copied(target: Any, source: Any, size: int) -> int:
    write(target, read(source, size))
    return 0


def _stream(cell: Cell) -> int:
    cell.value = 1
    return 0


def _allocated(cell: Cell, size: int) -> int:
    cell.value = cell.type.converted(Pointer(Memory.of(size), 0, CType("void")))
    return 0


def _read_on(contents: _File, target: Any, size: int) -> None:
    """Read the next bytes of an open file."""
    write(target, contents.rest[:size])
    contents.rest = contents.rest[size:]
