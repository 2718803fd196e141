"""Values of C++ programs: types, variables, and memory that pointers point into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
    **dict.fromkeys(("half", "aclFloat16", "bfloat16_t"), "u2"),
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
        raise TypeError(f"a {place.type.name} is not read through a pointer")
    return read(place, scalar.itemsize).view(scalar)[0].item()


def store(place: Place, value: Any) -> None:
    """Put a value at a place, as one of the place's type."""
    if isinstance(place, Cell):
        place.value = place.type.converted(value)
        return
    scalar = place.type.scalar
    if scalar is None:
        raise TypeError(f"a {place.type.name} is not written through a pointer")
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
