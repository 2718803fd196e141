"""Types of values that a core keeps beside its tiles: arrays of scalars, and structures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from .dtypes import DType


@dataclass(frozen=True)
class LocalArrayType:
    """An array of scalars with constant extents."""

    dims: tuple[int, ...]
    dtype: DType

    @property
    def elements(self) -> int:
        """How many scalars it has."""
        return prod(self.dims)

    def __str__(self) -> str:
        return f"local_array<{'x'.join(map(str, self.dims))}x{self.dtype.name}>"


@dataclass(frozen=True)
class StructType:
    """A structure of scalars and of further structures."""

    fields: tuple[Field, ...]

    def leaves(self, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], DType]]:
        """Every scalar with the numbers of the fields that lead to it, in the order of the text.

        >>> from .dtypes import F32, I8
        >>> [path for path, _ in StructType((I8, StructType((F32, I8)))).leaves()]
        [(0,), (1, 0), (1, 1)]
        """
        for i, field in enumerate(self.fields):
            if isinstance(field, StructType):
                yield from field.leaves((*path, i))
            else:
                yield (*path, i), field

    def leaf(self, path: Sequence[object]) -> DType | None:
        """The scalar that a path of field numbers ends at, None where it ends elsewhere."""
        return dict(self.leaves()).get(tuple(n for n in path if isinstance(n, int)))

    def __str__(self) -> str:
        return f"struct<{', '.join(f.name if isinstance(f, DType) else str(f) for f in self.fields)}>"


Field: TypeAlias = "DType | StructType"
