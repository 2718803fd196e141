"""Kernels executed by the reference interpreter: nothing is compiled, so that few inputs cost little."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import errors, oracle
from ...analysis.provenance import GlobalTypes
from ...interpreter import Scope
from ...ir import DType, Op, TileType, Type, pack_pairs, unpack_pairs
from ...oracle.machine import ReferenceMachine
from ...runtime.kernel import Kernel
from ..translation import Executed, fitted, valid_part

#: Operations that an execution may have.
MAX_OPERATIONS = 200_000


class Bounded(ReferenceMachine):
    """Executes like its base, up to a number of operations."""

    executed = 0

    def begin(self, op: Op, scope: Scope) -> None:
        """Count an operation; ExecutionError beyond the last one that is allowed."""
        self.executed += 1
        if self.executed > MAX_OPERATIONS:
            message = f"more than {MAX_OPERATIONS} operations are executed"
            raise errors.ExecutionError([errors.Diagnostic("error", message, op.span, op.name)])
        super().begin(op, scope)


def execute(
    kernel: Kernel,
    arguments: Mapping[str, NDArray[Any]],
    machine: Callable[..., ReferenceMachine] = Bounded,
) -> dict[str, Any]:
    """What the interpreter gives for a kernel's arguments by name; ExecutionError for a broken rule."""
    given = {a.name: _given(a.type, fitted(a, arguments[a.name])) for a in kernel.arguments}
    return oracle.run(
        kernel.program,
        given,
        profile=kernel.profile,
        entry=kernel.entry,
        grid=kernel.grid,
        partial_launch=True,
        machine=machine,
    )


def run(kernel: Kernel, inputs: Mapping[str, NDArray[Any]]) -> Executed:
    """Written buffers by name in the form of the inputs, and the run-time rules that were broken."""
    try:
        outputs = execute(kernel, inputs)
    except errors.ExecutionError as error:
        return {}, list(error.diagnostics)
    types = {a.name: a.type for a in kernel.arguments}
    return {name: _found(types.get(name), value) for name, value in outputs.items()}, []


def _given(t: Type, array: NDArray[Any]) -> Any:
    if isinstance(t, TileType):
        return oracle.OracleTile(t, array.copy())
    if isinstance(t, GlobalTypes) and t.dtype.packed:
        return unpack_pairs(array)
    d = getattr(t, "dtype", None)
    same = isinstance(d, DType) and array.dtype in (d.numpy, d.word, np.dtype(np.bool_))
    return array if same or not isinstance(d, DType) else array.view(d.numpy)


def _found(t: Type | None, value: Any) -> NDArray[Any]:
    if isinstance(value, oracle.OracleTile):
        return valid_part(np.ascontiguousarray(value.data).view(value.type.dtype.word), value.valid)
    array = np.asarray(value)
    if isinstance(t, GlobalTypes) and t.dtype.packed:
        return pack_pairs(array)
    return array
