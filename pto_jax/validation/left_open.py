"""Elements of results that the program before leaves open: what differs there is no fault of the one after.

Open are elements that follow from undefined data (memory that nothing wrote, a quotient by zero, a shift by
the width or more, lanes that an instruction does not define) or from the bits of a NaN that is read as
another type. A tile instruction and its expansion may differ there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.provenance import GlobalTypes
from ..cases.expectation import expectation
from ..errors import ExecutionError, NotExecutableError
from ..generate.programs import Case
from ..generate.state import Input
from ..ir import ScalarType, TileType, VectorType, unpack_pairs
from ..runtime.kernel import Kernel


@dataclass(frozen=True)
class LeftOpen:
    """By name of a result, a mask of the elements that are open, and why they are."""

    masks: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def mask(self, name: str, words: NDArray[Any]) -> NDArray[np.bool_]:
        """The open elements of a result, in the shape of its words."""
        mask = self.masks.get(name)
        if mask is None or mask.size != words.size:
            return np.zeros(words.shape, np.bool_)
        return mask.reshape(words.shape)


def left_open(kernel: Kernel, inputs: Mapping[str, NDArray[Any]]) -> LeftOpen:
    """What a kernel leaves open of its results for inputs by name; nothing where that cannot be followed.

    >>> import pto_jax as pto
    >>> program = pto.parse("%q = tdiv %a, %b : !pto.tile<i32, 1, 8>")
    >>> words = {"a": np.ones((1, 8), np.uint32), "b": np.arange(8, dtype=np.uint32).reshape(1, 8)}
    >>> opened = left_open(pto.compile(program, "a5"), words)
    >>> opened.masks["q"].sum().item(), opened.reasons["q"]
    (1, ('undefined: division by zero (tdiv at <text>:1:1)',))
    """
    values = {a.name: _input(a.type, inputs[a.name]) for a in kernel.arguments}
    case = Case("0", 0, 0, kernel.profile, kernel.program, values, {}, kernel.grid, kernel.entry)
    try:
        expected = expectation(case)
    except (ExecutionError, NotExecutableError):
        return LeftOpen()
    reasons: dict[str, tuple[str, ...]] = {}
    for gap in expected.gaps:
        reasons[gap.output] = (*reasons.get(gap.output, ()), gap.reason)
    return LeftOpen({name: ~mask for name, mask in expected.compared.items()}, reasons)


def _input(t: Any, array: NDArray[Any]) -> Input:
    """An argument as cases have it: raw words, one per element."""
    assert isinstance(t, ScalarType | TileType | VectorType | GlobalTypes)
    if t.dtype.packed and isinstance(t, GlobalTypes):
        return Input(t, unpack_pairs(array))
    valid = t.shape if isinstance(t, TileType) else None
    return Input(t, np.ascontiguousarray(array).view(t.dtype.word).reshape(np.shape(array)), valid)
