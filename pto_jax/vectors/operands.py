"""The operands of a recorded case: tiles, views of global memory, scalars, vectors, and others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..ir import DType, GlobalLayout, TileType

Bytes: TypeAlias = NDArray[np.uint8]
Role = Literal["out", "in", "inout", "tmp"]


@dataclass(frozen=True, eq=False)
class TileOperand:
    """A tile: its type, and the bytes of the whole physical tile before and after.

    ``after`` is None for tiles the instruction only reads. ``undef`` marks physical elements whose
    recorded value is not a requirement. ``extra`` holds manifest entries this reader gives no meaning.
    """

    name: str
    role: Role
    type: TileType
    before: Bytes
    after: Bytes | None
    undef: NDArray[np.bool_] | None
    extra: Mapping[str, object]

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype


@dataclass(frozen=True, eq=False)
class GmOperand:
    """A view of global memory whose element 0 is the first element of the recorded buffer.

    ``elements`` is the length of that buffer (in bytes for 4-bit types).
    """

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: GlobalLayout
    elements: int
    before: Bytes
    after: Bytes | None
    extra: Mapping[str, object]


@dataclass(frozen=True)
class ScalarOperand:
    """A scalar operand by its exact bits."""

    name: str
    dtype: DType
    bits: int

    @property
    def value(self) -> int | float:
        """The scalar as a Python number (NaN payloads are lost)."""
        word = np.array(self.bits, dtype=self.dtype.word).view(self.dtype.numpy)[()]
        return int(word) if self.dtype.is_integer else float(word)


@dataclass(frozen=True, eq=False)
class VectorOperand:
    """A small vector outside tile memory, such as the counts of a merge."""

    name: str
    role: Role
    dtype: DType
    before: Bytes
    after: Bytes | None


@dataclass(frozen=True, eq=False)
class OtherOperand:
    """An operand that is neither a plain tile, a view, a vector nor a scalar (``kind``: "conv" ...)."""

    name: str
    role: str
    kind: str
    before: Bytes | None
    after: Bytes | None


Operand: TypeAlias = TileOperand | GmOperand | ScalarOperand | VectorOperand | OtherOperand
