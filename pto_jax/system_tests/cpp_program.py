"""Execution of C++ programs of a plain subset: functions, structs, loops, pointers, memory.

The text becomes functions of a :class:`Scope`; the host environment defines the names that the text does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError, with_article

Bytes: TypeAlias = NDArray[np.uint8]
POINTER_BYTES = 8
#: NumPy types of C++ scalar types by name.
SCALARS: Mapping[str, str] = {
    **{f"int{8 * n}_t": f"i{n}" for n in (1, 2, 4, 8)},
    **{f"uint{8 * n}_t": f"u{n}" for n in (1, 2, 4, 8)},
    "bool": "u1",
    "char": "i1",
    "short": "i2",
    "int": "i4",
    "long": "i8",
    "signed": "i4",
    "unsigned": "u4",
    "float": "f4",
    "double": "f8",
    "size_t": "u8",
    "ssize_t": "i8",
    **dict.fromkeys(("half", "aclFloat16", "bfloat16_t", "__fp16"), "u2"),
    **dict.fromkeys(("float8_e4m3_t", "float8_e5m2_t", "float8_e8m0_t", "hifloat8_t"), "u1"),
    **dict.fromkeys(("float4_e1m2x2_t", "float4_e2m1x2_t"), "u1"),
}


@dataclass(frozen=True)
class CType:
    """A type: its name, how many levels of pointers, whether a reference, and the fields of a struct."""

    name: str
    pointers: int = 0
    reference: bool = False
    fields: tuple[Field, ...] = ()

    @property
    def scalar(self) -> np.dtype[Any] | None:
        """The NumPy type of numbers of this type, None for pointers and others."""
        code = None if self.pointers else SCALARS.get(self.name)
        return None if code is None else np.dtype(code)

    @property
    def size(self) -> int:
        """Bytes; of what is not known, those of a pointer."""
        if self.fields and not self.pointers:
            return sum(f.type.size for f in self.fields)
        if self.name == "void" and not self.pointers:
            return 1
        return POINTER_BYTES if self.scalar is None else self.scalar.itemsize

    @property
    def target(self) -> CType:
        """What a pointer of this type points to."""
        return replace(self, pointers=max(self.pointers - 1, 0))

    def converted(self, value: Any) -> Any:
        """A value as one of this type."""
        if isinstance(value, Pointer):
            return replace(value, type=self.target) if self.pointers else value
        if self.scalar is None or not isinstance(value, int | float):
            return value
        if self.scalar.kind == "f":
            return float(self.scalar.type(value))
        low = int(value) & ((1 << 8 * self.scalar.itemsize) - 1)
        wide = low >> (8 * self.scalar.itemsize - 1) and self.scalar.kind == "i"
        return low - (1 << 8 * self.scalar.itemsize) if wide else low


@dataclass(frozen=True)
class Field:
    """A member of a struct; ``value`` gives what it holds where nothing is given."""

    name: str
    type: CType
    value: Callable[[Any], Any] | None = None
    choice: int | None = None


@dataclass
class Memory:
    """Bytes of their own on the host or the device."""

    bytes: Bytes

    @staticmethod
    def of(size: int) -> Memory:
        """Memory of zeros."""
        return Memory(np.zeros(size, np.uint8))

    def grow(self, size: int) -> None:
        """Have at least some bytes, new ones zero."""
        if size > self.bytes.size:
            self.bytes = np.concatenate([self.bytes, np.zeros(size - self.bytes.size, np.uint8)])


@dataclass(frozen=True)
class Pointer:
    """A place in memory, in bytes from its start, and the type of what is there."""

    memory: Memory
    offset: int
    type: CType

    def moved(self, count: int) -> Pointer:
        """The place some elements further."""
        return replace(self, offset=self.offset + count * self.type.size)


@dataclass
class Cell:
    """A variable, an element of an array or a field; what ``&`` of it gives is the cell."""

    type: CType
    value: Any = None


Place: TypeAlias = "Cell | Pointer"


def load(place: Place) -> Any:
    """What is at a place."""
    if isinstance(place, Cell):
        return place.value
    scalar = place.type.scalar
    if scalar is None:
        raise TypeError(f"{with_article(place.type.name)} is not read through a pointer")
    return read(place, scalar.itemsize).view(scalar)[0].item()


def store(place: Place, value: Any) -> None:
    """Put a value at a place, as one of the place's type."""
    if isinstance(place, Cell):
        place.value = place.type.converted(value)
        return
    scalar = place.type.scalar
    if scalar is None:
        raise TypeError(f"{with_article(place.type.name)} is not written through a pointer")
    write(place, np.array([place.type.converted(value)], scalar).view(np.uint8))


def read(source: Any, size: int) -> Bytes:
    """Some bytes of memory, of a scalar variable, or of an array of them."""
    if isinstance(source, Pointer):
        return source.memory.bytes[source.offset : source.offset + size].copy()
    return _image(source)[:size]


def _cells(source: Any) -> list[Cell]:
    """A scalar variable, or the elements of an array."""
    cells: list[Cell] = source if isinstance(source, list) else [source]
    return cells[0].value if len(cells) == 1 and isinstance(cells[0].value, list) else cells


def _image(source: Any) -> Bytes:
    parts = [np.array([c.value or 0], c.type.scalar).view(np.uint8) for c in _cells(source)]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8)


def write(target: Any, data: Bytes) -> None:
    """Put bytes into memory, a scalar variable, or an array of them."""
    if isinstance(target, Pointer):
        if target.offset + data.size > target.memory.bytes.size:
            raise IndexError(f"{data.size} bytes do not fit into {target.memory.bytes.size}")
        target.memory.bytes[target.offset : target.offset + data.size] = data
        return
    image = _image(target)
    image[: data.size] = data[: image.size]
    for cell in _cells(target):
        scalar = cell.type.scalar
        assert scalar is not None
        cell.value, image = image[: scalar.itemsize].view(scalar)[0].item(), image[scalar.itemsize :]


def size_of(value: Any) -> int:
    """Bytes of a value or of what a place holds."""
    if isinstance(value, Cell):
        return size_of(value.value) if isinstance(value.value, list | dict) else value.type.size
    if isinstance(value, list):
        return sum(map(size_of, value))
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    return value.type.size if isinstance(value, Pointer) and value.type.scalar is not None else POINTER_BYTES


Run: TypeAlias = "Callable[[Scope], Any]"
#: Steps after which a program is taken to run for ever.
LIMIT = 2_000_000


class Scope:
    """Names of a block and of those around it."""

    def __init__(self, program: Program, outer: Scope | None = None) -> None:
        self.program, self.outer = program, outer
        self.names: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """What a name stands for: a cell, a function, or a value of the environment."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        program = self.program
        function = program.functions.get(name)
        if function is not None and function.body is not None:
            return function
        if name in program.environment:
            return program.environment[name]
        if name.startswith("ACL_"):
            return 0
        if function is not None:
            return function
        raise FileError(f"{program.place}: the value of {name} is not in the text")


@dataclass(frozen=True)
class Expression:
    """Gives a value; one with a place can be assigned to and its address taken."""

    run: Run
    place: Callable[[Scope], Place] | None = None


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; None where the text does not name it."""

    name: str | None
    type: CType


@dataclass(frozen=True)
class Function:
    """A function of the text; without a body it is only declared."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Run | None
    scope: Scope | None = None

    def __call__(self, scope: Scope, arguments: Sequence[Expression]) -> Any:
        """Call it with expressions of the calling scope."""
        inner = Scope(scope.program, self.scope or scope.program.globals)
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if parameter.type.reference and argument.place is not None:
                value = argument.place(scope)
                cell = value if isinstance(value, Cell) else Cell(parameter.type, load(value))
            else:
                cell = Cell(parameter.type, parameter.type.converted(argument.run(scope)))
            inner.names[parameter.name or ""] = cell
        if self.body is None:
            raise FileError(f"{scope.program.place}: {self.name} is declared, but not in the text")
        try:
            self.body(inner)
        except Returned as returned:
            return returned.value
        return None


@dataclass
class Program:
    """What a text defines: functions by name, and the statements that make its variables.

    ``environment`` has functions that take a scope and expressions, and values.
    """

    place: str
    environment: Mapping[str, Any]
    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Run] = field(default_factory=list)
    globals: Scope | None = None
    steps: int = 0

    def called(self, name: str, arguments: Sequence[Any]) -> Any:
        """Make the variables of the text, and call a function with values."""
        self.steps = 0
        scope = self.globals = Scope(self)
        for variable in self.variables:
            variable(scope)
        function = self.functions.get(name)
        if function is None or function.body is None:
            raise FileError(f"{self.place}: no function {name}")
        return function(scope, [known(value) for value in arguments])

    def count(self) -> None:
        """Count a step; too many are an error."""
        self.steps += 1
        if self.steps > LIMIT:
            raise FileError(f"{self.place}: no end after {LIMIT} steps")


def known(value: Any) -> Expression:
    """A value as an expression."""
    return Expression(lambda scope: value)


class Returned(Exception):
    """A function returns a value."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Left(Exception):
    """A loop is left."""


class Continued(Exception):
    """A loop goes on with its next turn."""


class Jumped(Exception):
    """Execution goes on at a label."""

    def __init__(self, label: str) -> None:
        self.label = label


def block(statements: Sequence[Run], labels: Mapping[str, int]) -> Run:
    """Statements one after the other; a jump to one of the labels goes on there."""

    def run(scope: Scope) -> None:
        inner = Scope(scope.program, scope)
        at = 0
        while at < len(statements):
            try:
                statements[at](inner)
                at += 1
            except Jumped as jumped:
                if jumped.label not in labels:
                    raise
                at = labels[jumped.label]

    return run


def loop(start: Run | None, test: Run | None, step: Run | None, body: Run, *, first: bool = False) -> Run:
    """A loop; with ``first`` the test comes behind the body."""

    def run(outer: Scope) -> None:
        scope = Scope(outer.program, outer)
        if start is not None:
            start(scope)
        unconditional = first
        while unconditional or test is None or test(scope):
            unconditional = False
            scope.program.count()
            try:
                body(scope)
            except Continued:
                pass
            except Left:
                break
            if step is not None:
                step(scope)

    return run


def each(name: str, kind: CType, over: Run, body: Run) -> Run:
    """A loop over the elements of an array."""

    def run(outer: Scope) -> None:
        for cell in over(outer):
            scope = Scope(outer.program, outer)
            scope.names[name] = cell if kind.reference else Cell(kind, cell.value)
            try:
                body(scope)
            except Continued:
                continue
            except Left:
                break

    return run


def choice(value: Run, cases: Sequence[tuple[Run | None, int]], statements: Sequence[Run]) -> Run:
    """A switch: cases with the statement that they begin at; None is the default."""

    def run(scope: Scope) -> None:
        number = value(scope)
        hit = next((at for test, at in cases if test is not None and test(scope) == number), None)
        if hit is None:
            hit = next((at for test, at in cases if test is None), len(statements))
        inner = Scope(scope.program, scope)
        try:
            for statement in statements[hit:]:
                statement(inner)
        except Left:
            pass

    return run


def made(kind: CType, given: Any, scope: Scope) -> Any:
    """The value of a variable from what stands in its braces, or from a value."""
    if not isinstance(given, list) or kind.pointers:
        return kind.converted(given)
    if not kind.fields:
        return made(kind, given[0][1], scope) if given else kind.converted(0)
    cells = {f.name: Cell(f.type, f.value(scope) if f.value is not None else None) for f in kind.fields}
    at = 0
    for name, value in given:
        if name is not None:
            at = next((i for i, f in enumerate(kind.fields) if f.name == name), len(kind.fields))
        if at >= len(kind.fields):
            raise FileError(f"{scope.program.place}: {kind.name} has no {name or f'{at + 1} fields'}")
        member = kind.fields[at]
        cells[member.name].value = made(member.type, value, scope)
        at += 1
        while member.choice is not None and at < len(kind.fields) and kind.fields[at].choice == member.choice:
            at += 1
    return cells


def array(kind: CType, sizes: Sequence[int | None], given: Any, scope: Scope) -> list[Cell]:
    """The cells of an array with what stands in its braces."""
    values = [value for _, value in given] if isinstance(given, list) else []
    count = sizes[0] if sizes[0] is not None else len(values)
    values += [None] * (count - len(values))
    if len(sizes) > 1:
        return [Cell(kind, array(kind, sizes[1:], value, scope)) for value in values]
    return [Cell(kind, None if v is None else made(kind, v, scope)) for v in values]


def member(value: Any, name: str, place: str) -> Cell:
    """A field of a struct, or of the one that a pointer to a variable leads to."""
    value = value.value if isinstance(value, Cell) else value
    if not isinstance(value, dict) or name not in value:
        raise FileError(f"{place}: no member {name} is known")
    cell = value[name]
    assert isinstance(cell, Cell)
    return cell


def element(value: Any, index: int) -> Place:
    """An element of an array or of memory."""
    if isinstance(value, list):
        cell = value[index]
        assert isinstance(cell, Cell)
        return cell
    assert isinstance(value, Pointer)
    return value.moved(index)


def assigned(target: Callable[[Scope], Place], value: Run, change: Callable[[Any, Any], Any] | None) -> Run:
    """An assignment; ``change`` combines the old value with the new one."""

    def run(scope: Scope) -> Any:
        place = target(scope)
        new = value(scope)
        store(place, new if change is None else change(load(place), new))
        return load(place)

    return run
