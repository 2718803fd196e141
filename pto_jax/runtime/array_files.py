"""Arguments and results in ``.npz`` files, as ``pto-jax run`` and case folders have them."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, FileError, nearest
from ..files import load_arrays
from ..ir import ArrayType, DType, ScalarType, TileType, Type

Array = NDArray[Any]
#: An array of this name after a tile's holds its valid rows and columns.
REGION = ".valid"


class Argument(Protocol):
    """What the command needs to know about an argument of a kernel."""

    @property
    def name(self) -> str:
        """The name in the program, without ``%``."""

    @property
    def type(self) -> Type:
        """The type that the program declares."""

    @property
    def min_elements(self) -> int | None:
        """Elements that the program accesses at least; None where the program does not say."""

    @property
    def read(self) -> bool:
        """Whether the program reads the buffer."""


class Signature(Protocol):
    """The arguments of a kernel and the names of the buffers it writes."""

    @property
    def arguments(self) -> Sequence[Argument]:
        """The arguments, in order."""

    @property
    def outputs(self) -> Sequence[str]:
        """The names of the buffers, or of a fragment's results, in order."""


def read_inputs(kernel: Signature, path: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Argument values from a file, and the name each argument was given under.

    A tile whose valid sizes execution gives takes them from the array ``NAME.valid``; without one it is
    valid as a whole.
    """
    arrays = load_arrays(path)
    values: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for i, argument in enumerate(kernel.arguments):
        candidates = [name for name in dict.fromkeys((argument.name, f"arg{i}")) if name in arrays]
        if not candidates:
            held = ", ".join(arrays) or "nothing"
            raise FileError(
                f"{path}: got no array for argument {argument.name} ({argument.type}); it holds {held}",
                allowed=f"one that is called {argument.name!r} or 'arg{i}'",
            )
        if len(candidates) > 1:
            raise FileError(
                f"{path}: argument {argument.name} is given twice, as {' and as '.join(candidates)}"
            )
        keys[argument.name] = candidates[0]
        try:
            values[argument.name] = convert_input(argument, arrays[candidates[0]])
            if candidates[0] + REGION in arrays:
                values[argument.name] = _with_region(
                    argument, values[argument.name], arrays[candidates[0] + REGION]
                )
        except ArgumentError as error:
            raise FileError(f"{path}: {candidates[0]}: {error}") from None
    regions = {a.name: keys[a.name] + REGION for a in kernel.arguments if isinstance(a.type, TileType)}
    unknown = [name for name in arrays if name not in keys.values() and name not in regions.values()]
    if unknown:
        names = [a.name for a in kernel.arguments]
        raise FileError(
            f"{path}: no argument is called {unknown[0]!r}",
            allowed=", ".join(names) or "no arrays",
            fix=nearest(unknown[0], [n for n in names if n not in arrays]),
        )
    return values, keys


def convert_input(argument: Argument, array: Array) -> Array:
    """An array as the value of an argument; raises ArgumentError when it does not fit."""
    from .interchange import received

    t, array = argument.type, received(array, f"argument {argument.name!r}")
    if isinstance(t, ScalarType):
        d = t.dtype
        # As in buffers: types that NumPy lacks are given by their bits.
        bits = d.numpy.kind == "V" and (array.dtype == d.word or array.dtype.kind == "V")
        if bits and array.dtype.itemsize == d.word.itemsize:
            array = array.view(d.numpy)
        return _convert_scalar(d, array)
    d = buffer_type(argument).dtype
    if array.dtype.kind == "V" and array.dtype != d.numpy and array.dtype.itemsize == d.word.itemsize:
        # NumPy writes bfloat16 and the 8-bit floats to .npz as nameless words.
        array = array.view(d.word)
    same_width = d.is_integer and array.dtype.kind in "iu" and array.dtype.itemsize == d.word.itemsize
    if array.dtype not in (d.numpy, d.word) and not same_width:
        raw = "" if d.numpy == d.word else f", or its bits as {d.word}"
        builtin = d.numpy.kind in "iuf" and array.dtype.kind in "iufb"
        fix = f"{argument.name}.astype(np.{d.numpy})" if builtin else ""
        raise ArgumentError(f"got {array.dtype}", allowed=f"{d.numpy}{raw}, for {d}", fix=fix)
    return array


def _with_region(argument: Argument, array: Array, region: Array) -> Any:
    """A tile with the valid sizes that a file gives."""
    from .tiles import tile

    t = argument.type
    if not isinstance(t, TileType):
        raise ArgumentError(f"got a valid region for an argument of type {t}", allowed="for tiles")
    if region.shape != (2,) or region.dtype.kind not in "iu":
        raise ArgumentError(f"{REGION}: got {region.dtype}{list(region.shape)}", allowed="two integers")
    rows, cols = map(int, region)
    if t.is_static and (rows, cols) != t.valid:
        raise ArgumentError(f"{REGION}: got {rows}x{cols}", allowed=f"{t}")
    return array if t.is_static else tile(array, (rows, cols), type=t)


def buffer_type(argument: Argument) -> ArrayType:
    """The type of an argument that is an array; ArgumentError where the program leaves the type open."""
    if not isinstance(argument.type, ArrayType):
        raise ArgumentError(
            f"argument {argument.name}: got the type {argument.type}",
            allowed="a pointer, memref, tile or scalar type, as the program states it",
        )
    return argument.type


def _convert_scalar(d: DType, array: Array) -> Array:
    if array.size != 1:
        raise ArgumentError(f"got an array of shape {array.shape}", allowed=f"a single {d} value")
    value = array.reshape(())[()]
    if d.is_float:
        if array.dtype.kind not in "fiu" and array.dtype != d.numpy:
            raise ArgumentError(f"got {array.dtype}", allowed=f"a scalar of type {d}")
        return np.asarray(value).astype(d.numpy)
    if array.dtype.kind not in "iub":
        raise ArgumentError(f"got {array.dtype}", allowed=f"a scalar of type {d}")
    bits = 64 if d.kind == "index" else d.bits
    low, high = (0, (1 << bits) - 1) if d.kind == "uint" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if not low <= int(value) <= high:
        raise ArgumentError(f"got {value}", allowed=f"{low} to {high}, the range of {d}")
    return np.asarray(int(value), dtype=d.numpy)


def storable(array: Array) -> Array:
    """Arrays whose type ``.npz`` cannot name are stored as raw unsigned words."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
