"""Inputs and results of a case as raw ``.bin`` files, one per argument or result.

Little-endian elements in the order of memory: buffers row by row, tiles in the order of their layout as
``testing.physical`` says, 4-bit elements of packed types two to a byte. Scalars are single elements, truth
values a byte. ``NAME.valid.bin`` has the valid rows and columns of a result that is a tile, as two 32-bit
integers.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DeviceError, FileError
from ...files import MAX_ARRAYS, read_bytes, write_bytes
from ...generate.programs import Case
from ...ir import DType, TileType
from ...vectors import physical
from ..results import Output, Run
from .exchange import result_types

VALID = ".valid.bin"


def save_inputs(folder: Path, case: Case) -> None:
    """Write the inputs of a case into a folder that exists."""
    for name, i in case.inputs.items():
        write_bytes(folder / f"{name}.bin", _bytes(i.type, i.type.dtype, i.words))


def save_outputs(folder: Path, case: Case, run: Run) -> None:
    """Write the results of a case into a folder that exists."""
    types = result_types(case.program)
    for name, output in run.outputs.items():
        write_bytes(folder / f"{name}.bin", _bytes(types[name], output.dtype, output.words))
        if output.valid is not None:
            write_bytes(folder / f"{name}{VALID}", np.array(output.valid, "<i4").tobytes())


def save_masks(folder: Path, case: Case, masks: Mapping[str, NDArray[np.bool_]]) -> None:
    """Write masks of results into a folder that exists: a byte per element, in the order of the result."""
    types = result_types(case.program)
    for name, mask in masks.items():
        t, ordered = types[name], mask.astype(np.uint8).reshape(-1)
        if isinstance(t, TileType):
            # Places of a padded row hold no element: they are not compared.
            ordered = np.zeros(physical.storage_elements(t), np.uint8)
            ordered[physical.element_offsets(t)] = mask
        write_bytes(folder / f"{name}.bin", ordered.tobytes())


def load_outputs(folder: Path, case: Case, names: Iterable[str]) -> Run:
    """Results of a case; DeviceError names a file that is missing or has another size."""
    types = result_types(case.program)
    return Run({name: _output(folder, case, name, types[name]) for name in names})


def _output(folder: Path, case: Case, name: str, t: Any) -> Output:
    raw = _read(folder / f"{name}.bin")
    d: DType = t.dtype
    if isinstance(t, TileType):
        _sized(name, raw, t.bytes)
        valid = _read(folder / f"{name}{VALID}")
        _sized(f"{name}{VALID}", valid, 8)
        rows, cols = (int(n) for n in valid.view("<i4"))
        return Output(d, physical.to_logical(t, raw), (rows, cols))
    shape = case.inputs[name].words.shape
    _sized(name, raw, d.storage_bytes(int(np.prod(shape, dtype=np.int64))))
    return Output(d, physical.unpack_elements(d, raw).reshape(shape))


def _sized(name: str, raw: NDArray[np.uint8], size: int) -> None:
    if raw.size != size:
        raise DeviceError(f"output {name}: found {raw.size} bytes, {size} are needed")


def _bytes(t: object, d: DType, words: NDArray[Any]) -> bytes:
    raw = physical.to_physical(t, words) if isinstance(t, TileType) else physical.pack_elements(d, words)
    return raw.tobytes()


def _read(path: Path) -> NDArray[np.uint8]:
    try:
        return np.frombuffer(read_bytes(path, MAX_ARRAYS, regular=True), np.uint8)
    except FileError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise DeviceError(f"outputs: {path.name}: {reason}") from None
