"""The part of the ``run`` command that looks for undefined data: ``--sanitize``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, UndefinedDataError
from ..ir import PartitionViewType, PtrType, TensorViewType, TileType, Type, pack_pairs, unpack_pairs
from .options import RunOptions

if TYPE_CHECKING:
    from ..runtime.kernel import Kernel
    from ..sanitizer.sanitize import Sanitized


def check_options(options: RunOptions) -> None:
    """The interpreter executes: options of the engine mean nothing to it."""
    clash = {
        "--numerics fast": options.numerics != "exact",
        "--trace or --break": options.watch is not None,
        "--dump-state": options.dump_state is not None,
    }
    for name, is_set in clash.items():
        if is_set:
            raise ArgumentError(f"--sanitize executes on the reference interpreter; {name} is not for it")


@dataclass(frozen=True, eq=False)
class Execution:
    """What the program wrote, and what the sanitizer found."""

    outputs: Mapping[str, Any]
    found: Sanitized

    def report(self) -> None:
        """Say that nothing was found, or raise UndefinedDataError."""
        if self.found.diagnostics:
            raise UndefinedDataError(self.found.diagnostics)
        print(self.found)


def sanitized(kernel: Kernel, values: Mapping[str, Any], options: RunOptions, grid: int) -> Execution:
    """Execute a program on the interpreter with the values of a kernel's arguments."""
    from ..sanitizer.sanitize import sanitize

    limits: dict[str, Any] = {} if options.max_steps is None else {"max_steps": options.max_steps}
    types = {a.name: a.type for a in kernel.arguments}
    packed = {name for name, t in types.items() if _is_packed(t)}
    execution = sanitize(
        kernel.program,
        {name: _given(v, types[name]) for name, v in values.items()},
        profile=kernel.profile.name,
        entry=kernel.entry,
        grid=grid,
        partial_launch=options.partial_launch,
        strict=options.sanitize == "strict",
        **limits,
    )
    outputs = {n: _shown(v, packed=n in packed) for n, v in execution.outputs.items()}
    return Execution(outputs, execution)


def _is_packed(t: Type) -> bool:
    return isinstance(t, PtrType | TensorViewType | PartitionViewType) and t.dtype.packed


def _given(value: Any, t: Type) -> Any:
    """An argument as the interpreter takes it: 4-bit elements one per byte, tiles as its own."""
    from ..oracle import OracleTile
    from ..runtime.tiles import Tile

    if isinstance(value, Tile):
        return OracleTile(value.type, np.asarray(value.words), int(value.valid_rows), int(value.valid_cols))
    if isinstance(t, TileType):
        return OracleTile(t, np.asarray(value).reshape(t.shape))
    if not _is_packed(t):
        return value
    return unpack_pairs(np.asarray(value).view(np.uint8))


def _shown(value: Any, *, packed: bool) -> Any:
    """A result as a kernel gives it."""
    import jax

    from ..lowering.words import x64
    from ..oracle import OracleTile
    from ..runtime.tiles import Tile

    if isinstance(value, OracleTile):
        words = value.data.view(value.type.dtype.word)
        with x64():
            rows, cols = (jax.device_put(np.int32(n)) for n in value.valid)
            return Tile(jax.device_put(words), rows, cols, value.type)
    return pack_pairs(value.view(np.uint8)) if packed else value
