"""Executing the launches of a step in their order, with buffers that kernels share."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import oracle
from ..api import load
from ..errors import ArgumentError, FileError, PtoWarning, nearest, objection, one_of
from ..ir import DType, ScalarType, Type
from ..profiles import ProfileName
from ..runtime.conversion import as_scalar
from ..runtime.interchange import received
from ..runtime.kernel import Kernel, compile
from .description import DESCRIPTION, Launch, Part, Step, read_step

Array: TypeAlias = NDArray[Any]
#: Arguments that say which block a call executes, of how many, and which vector core of it, in programs
#: that ask so.
BLOCK, BLOCKS, SUBBLOCK = (f"__pypto_spmd_{name}" for name in ("block_idx", "block_num", "subblock_idx"))
#: Vector cores of a block.
SUBBLOCKS = 2
#: Compiled kernels by file, function and blocks.
Kernels: TypeAlias = "dict[tuple[str, str | None, int], Kernel]"
#: Called after each launch with its number, the launch and the names of the buffers it wrote.
Observer: TypeAlias = "Callable[[int, Launch, tuple[str, ...]], None]"


def run(
    folder: str | Path,
    arrays: Mapping[str, Any],
    step: Step | str | Path | None = None,
    *,
    profile: ProfileName | None = None,
    executor: Literal["engine", "interpreter"] = "engine",
    observer: Observer | None = None,
) -> dict[str, Array]:
    """Execute the kernels of a folder as its description says; the buffers at the end, by name.

    ``arrays`` has buffers by name, of any shape: arrays of NumPy or JAX, or of other libraries (torch).
    They stay as they are; results are NumPy arrays of the same shapes and types. ``step`` is a
    :class:`Step` or its file (default: ``launches.json`` of the folder). The engine compiles each kernel
    once; the interpreter needs no compilation, which is faster for a step that is executed once. Raises
    FileError for files that are missing or cannot be read, ParseError and VerifyError for kernels,
    ArgumentError for arguments that do not fit, ExecutionError for a rule that an execution breaks.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from pto_jax.examples import EXAMPLES
    >>> from pto_jax.runner import Launch, Part
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "add.pto").write_text(EXAMPLES["vector_add"].path.read_text())
    >>> step = Step((Launch("add.pto", [Part("a"), Part("a"), Part("c")]),))
    >>> run(folder, {"a": np.ones(4096, np.float32), "c": np.zeros(4096, np.float32)}, step)["c"][:2]
    array([2., 2.], dtype=float32)
    """
    if executor not in ("engine", "interpreter"):
        raise ArgumentError(f"executor {executor!r}", allowed="engine, interpreter")
    _require_kinds(folder, arrays)
    root = Path(folder)
    described = (
        step if isinstance(step, Step) else read_step(step if step is not None else root / DESCRIPTION)
    )
    state = {name: np.array(received(a, f"buffer {name}")) for name, a in arrays.items()}
    _used(described, state)
    for name, (d, shape) in described.buffers.items():
        _agree(name, d, shape, state.setdefault(name, _zeros(name, d, shape)))
    chosen: Any = profile or described.profile
    kernels: Kernels = {}
    for number, launch in enumerate(described.launches):
        place = f"launches[{number}] ({launch.kernel})"
        with _named(place):
            kernel = _kernel(kernels, root, launch, chosen)
        written = _launch(place, kernel, launch, state, executor)
        if observer is not None:
            observer(number, launch, written)
    return state


def _require_kinds(folder: object, arrays: object) -> None:
    if not isinstance(arrays, Mapping):
        got, fix = f"arrays: got {one_of(arrays)}", '{"x": np.ones((16, 16), np.float32)}'
        raise ArgumentError(got, allowed="arrays by the names of buffers", fix=fix)
    if not isinstance(folder, str | Path):
        raise ArgumentError(f"folder: got {folder!r}", allowed="the path of a folder", fix='"."')


def _used(step: Step, state: Mapping[str, Array]) -> None:
    """A warning for an array that no launch uses, where it may be a misspelt name."""
    listed = (launch.arguments for launch in step.launches)
    parts = [p for a in listed for p in (a.values() if isinstance(a, Mapping) else a)]
    names = {p if isinstance(p, str) else p.buffer for p in parts if isinstance(p, str | Part)}
    for name in state:
        near = "" if name in names else nearest(name, names - set(state))
        if near:
            got, allowed = f"buffer {name!r}: no launch uses it", ", ".join(sorted(names))
            warnings.warn(PtoWarning(objection(got, allowed, near)), stacklevel=3)


def _agree(name: str, d: DType, shape: tuple[int, ...], array: Array) -> None:
    """ArgumentError where a caller gives a buffer that the description says to be another one."""
    if (array.size, array.dtype.itemsize) != (prod(shape), np.dtype(d.numpy).itemsize):
        got = f"buffer {name}: got {array.dtype}{list(array.shape)}"
        raise ArgumentError(got, allowed=f"{d.name}{list(shape)}, as the description says")


def _zeros(name: str, d: DType, shape: tuple[int, ...]) -> Array:
    """A buffer of the step, as it begins."""
    try:
        return np.zeros(shape, d.numpy)
    except (MemoryError, ValueError):
        raise ArgumentError(
            f"buffers.{name}.shape: got {list(shape)}", allowed="extents that fit into memory"
        ) from None


def _kernel(
    kernels: dict[tuple[str, str | None, int], Kernel],
    root: Path,
    launch: Launch,
    profile: ProfileName | None,
) -> Kernel:
    """The kernel of a launch, compiled once; blocks that arguments name are calls of their own."""
    key = (launch.kernel, launch.entry, launch.blocks)
    if key not in kernels:
        program = load(root / launch.kernel)
        one = compile(program, profile, launch.entry, partial_launch=True, warn=False)
        grid = 1 if _asks(one) else launch.blocks
        kernels[key] = compile(program, profile, launch.entry, grid=grid, partial_launch=True, warn=False)
    return kernels[key]


def _launch(
    place: str, kernel: Kernel, launch: Launch, state: dict[str, Array], executor: str
) -> tuple[str, ...]:
    """Execute one launch on the buffers; the names of those that it wrote."""
    parts = _arguments(place, kernel, launch)
    written = {n: p for n, p in parts.items() if n in kernel.outputs and isinstance(p, Part)}
    _apart(place, parts, written)
    with _named(place):
        return _called(place, kernel, launch, parts, written, state, executor)


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Errors of files and arguments with the launch that has them."""
    try:
        yield
    except (ArgumentError, FileError) as error:
        if str(error).startswith(place):
            raise
        raise type(error)(f"{place}: {error}") from None


def _called(
    place: str,
    kernel: Kernel,
    launch: Launch,
    parts: Mapping[str, Part | float],
    written: Mapping[str, Part],
    state: dict[str, Array],
    executor: str,
) -> tuple[str, ...]:
    """The calls of one launch: one, or one for each block that its arguments name."""
    calls = product(range(launch.blocks), range(_subblocks(kernel))) if _asks(kernel) else ((0, 0),)
    for block, core in calls:
        arguments = {n: _value(f"{place}: argument {n}", kernel, n, p, state) for n, p in parts.items()}
        numbers = {BLOCK: block, BLOCKS: launch.blocks, SUBBLOCK: core}
        arguments |= {a.name: np.int32(numbers[a.name]) for a in kernel.arguments if a.name in numbers}
        outputs = _execute(kernel, arguments, executor)
        for name, part in written.items():
            flat = state[part.buffer].reshape(-1)
            made = np.asarray(outputs[name]).reshape(-1)
            flat[part.offset : part.offset + made.size] = made.view(flat.dtype)
            state[part.buffer] = flat.reshape(state[part.buffer].shape)
    return tuple(dict.fromkeys(part.buffer for part in written.values()))


def _asks(kernel: Kernel) -> bool:
    """Whether a call of a kernel executes one block, or one vector core of it."""
    return any(a.name in (BLOCK, SUBBLOCK) for a in kernel.arguments)


def _subblocks(kernel: Kernel) -> int:
    """How many vector cores execute each block of a kernel in calls of their own."""
    return SUBBLOCKS if any(a.name == SUBBLOCK for a in kernel.arguments) else 1


def _execute(kernel: Kernel, given: Mapping[str, Any], executor: str) -> Mapping[str, Any]:
    if executor == "engine":
        results: Mapping[str, Any] = kernel(**given)
        return results
    return oracle.run(
        kernel.program,
        dict(given),
        profile=kernel.profile,
        entry=kernel.entry,
        grid=kernel.grid,
        partial_launch=True,
    )


def _arguments(place: str, kernel: Kernel, launch: Launch) -> dict[str, Part | float]:
    """What each argument is given, but for those that say which block is executed."""
    expected = [a.name for a in kernel.arguments if a.name not in (BLOCK, BLOCKS, SUBBLOCK)]
    listed = launch.arguments
    arguments = dict(listed) if isinstance(listed, Mapping) else dict(zip(expected, listed, strict=False))
    count = len(listed)
    if count != len(expected) or set(arguments) != set(expected):
        got = ", ".join(listed) if isinstance(listed, Mapping) else f"{count}"
        fix = json.dumps({"arguments": {n: _described(arguments.get(n, "...")) for n in expected}})[1:-1]
        allowed = f"{len(expected)}: {', '.join(expected)}"
        raise ArgumentError(f"{place}: arguments: got {got}", allowed=allowed, fix=fix)
    return arguments


def _described(part: Part | float | str) -> object:
    """An argument as descriptions have it."""
    if not isinstance(part, Part):
        return part
    return {"buffer": part.buffer, "offset": part.offset} if part.offset else part.buffer


def _apart(place: str, parts: Mapping[str, Part | float], written: Mapping[str, Part]) -> None:
    """A buffer that the kernel writes stands for one argument only: its copies would differ."""
    for name, part in written.items():
        for other, found in parts.items():
            if other != name and isinstance(found, Part) and found.buffer == part.buffer:
                raise ArgumentError(
                    f"{place}: buffer {part.buffer} is argument {name}, which is written, and {other}",
                    allowed="another buffer",
                )


def _value(place: str, kernel: Kernel, name: str, part: Part | float, state: Mapping[str, Array]) -> Any:
    argument = next(a for a in kernel.arguments if a.name == name)
    if isinstance(argument.type, ScalarType):
        if isinstance(part, Part):
            raise ArgumentError(
                f"{place}: got the buffer {part.buffer!r}", allowed=f"a number, {argument.type}"
            )
        return np.asarray(as_scalar(part, argument.type.dtype, place))
    if not isinstance(part, Part):
        raise ArgumentError(f"{place}: got the number {part}", allowed=f"a buffer, {argument.type}")
    if part.buffer not in state:
        raise ArgumentError(f"{place}: got the buffer {part.buffer!r}", allowed=", ".join(state) or "none")
    whole = state[part.buffer]
    if part.offset > whole.size:
        raise ArgumentError(
            f"{place}: got offset {part.offset}", allowed=f"0 to {whole.size}, the size of {part.buffer}"
        )
    return _shaped(place, argument.type, whole.reshape(-1)[part.offset :] if part.offset else whole)


def _shaped(place: str, t: Type, array: Array) -> Array:
    """A buffer in the extents that a kernel declares, where it declares all of them."""
    declared = getattr(t, "dims", ())
    dims = tuple(n for n in declared if n is not None)
    if not dims or len(dims) != len(declared):
        return array
    if array.size < prod(dims):
        raise ArgumentError(
            f"{place} is a buffer, {t}; got {array.size} elements", allowed=f"{prod(dims)} or more"
        )
    return array.reshape(-1)[: prod(dims)].reshape(dims)
