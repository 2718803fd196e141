"""Reading failure folders; nothing of what made them is needed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import ir
from ...analysis.provenance import GlobalTypes
from ...api import parse
from ...errors import FileError
from ...files import load_arrays, read_json, read_text
from ...generate.programs import Case
from ...generate.state import Input
from ...profiles import PROFILE_NAMES, profile
from ...runtime.array_files import REGION
from .edits import entry_of
from .folder import INPUTS, ORIGINAL, ORIGINAL_INPUTS, REPORT, SHRUNK

Held = (
    ir.TileType
    | ir.ScalarType
    | ir.PtrType
    | ir.MemRefType
    | ir.PartitionViewType
    | ir.TensorViewType
    | ir.VectorType
)
#: Characters of a wrong value that are shown.
_LINE = 80
_KEYS: dict[str, type] = {
    "id": str,
    "seed": int,
    "index": int,
    "profile": str,
    "reference": str,
    "tested": str,
    "kind": str,
    "instruction": str,
    "signature": str,
    "shrunk": dict,
    "original": dict,
}


@dataclass(frozen=True)
class Failure:
    """What a folder holds: the minimal case or the original one, and the report."""

    case: Case
    report: Mapping[str, Any]


def folders(path: str | Path) -> list[Path]:
    """A failure folder, those in the folder of a cause, or those of all causes in a folder."""
    reports = (p for pattern in ("*", "*/*") for p in Path(path).glob(f"{pattern}/{REPORT}"))
    inside = sorted(p.parent for p in reports if not p.parent.name.startswith("."))
    return [Path(path)] if (Path(path) / REPORT).exists() or not inside else inside


def read(path: str | Path, original: bool = False) -> Failure:
    """The failure in a folder; FileError says what is wrong with it."""
    folder = Path(path)
    if not folder.is_dir():
        raise FileError(f"{folder}: is not a folder" if folder.exists() else f"{folder}: no such folder")
    report = _report(folder / REPORT)
    execution = report["original" if original else "shrunk"]
    file = folder / (ORIGINAL if original else SHRUNK)
    program = parse(read_text(file, regular=True), str(file))
    if execution["entry"] is not None and program.function(execution["entry"]) is None:
        raise FileError(f"{folder}: the program has no function {execution['entry']!r}, which {REPORT} names")
    if execution["entry"] is None and len(program.entries) != 1:
        raise FileError(f"{folder}: the program has {len(program.entries)} entries; {REPORT} names none")
    case = Case(
        report["id"],
        report["seed"],
        report["index"],
        profile(report["profile"]),
        program,
        {},
        execution["ulp"],
        execution["grid"],
        execution["entry"],
    )
    inputs = folder / (ORIGINAL_INPUTS if original else INPUTS)
    arrays = load_arrays(inputs)
    return Failure(
        replace(case, inputs={a.name: _input(inputs, a, arrays) for a in entry_of(case).args}), report
    )


def _report(path: Path) -> dict[str, Any]:
    report = read_json(path, regular=True)
    if not isinstance(report, dict):
        raise FileError(f"{path}: holds a {type(report).__name__}; an object is needed")
    for key, kind in _KEYS.items():
        if type(report.get(key)) is not kind:
            raise FileError(f"{path}: {key} is {_shown(report.get(key))}; {kind.__name__} is needed")
    if report["profile"] not in PROFILE_NAMES:
        allowed = " ".join(PROFILE_NAMES)
        raise FileError(f"{path}: profile is {report['profile']!r}; allowed: {allowed}")
    for part in ("shrunk", "original"):
        if not _is_execution(report[part]):
            raise FileError(
                f"{path}: {part} is {_shown(report[part])}; entry (a name or null), grid (at least 1) and "
                "ulp (numbers by name) are needed"
            )
    return report


def _is_execution(told: dict[str, Any]) -> bool:
    ulp, grid = told.get("ulp"), told.get("grid")
    bounds = isinstance(ulp, dict) and all(type(n) is int and n >= 0 for n in ulp.values())
    return bounds and type(grid) is int and grid > 0 and isinstance(told.get("entry"), str | None)


def _shown(value: Any) -> str:
    """A value in an error, at most a line of it."""
    text = repr(value)
    return text if len(text) <= _LINE else text[:_LINE] + "..."


def _input(path: Path, argument: ir.Value, arrays: Mapping[str, NDArray[Any]]) -> Input:
    """The input that an array is for an argument."""
    name, t = argument.name, argument.type
    if name not in arrays:
        held = ", ".join(arrays) or "nothing"
        raise FileError(f"{path}: no array for argument {name} ({t}); the file holds {held}")
    if not isinstance(t, Held):
        raise FileError(f"{path}: argument {name} is a {t}, which no folder holds")
    array, d = arrays[name], t.dtype
    if not _holds(array.dtype, d):
        raise FileError(f"{path}: {name} is {array.dtype}; elements of {d} are {d.word} words")
    words: NDArray[Any] = (
        np.ascontiguousarray(array)
        .view(d.word)
        .reshape(() if isinstance(t, ir.ScalarType) and array.size == 1 else array.shape)
    )
    if d.packed and isinstance(t, GlobalTypes):
        words = ir.unpack_pairs(words)
    if not _fits(t, words.shape):
        raise FileError(f"{path}: {name} has the shape {words.shape}; the program declares {t}")
    if not isinstance(t, ir.TileType) or t.is_static:
        return Input(t, words)
    return Input(t, words, _region(path, name, t, arrays.get(name + REGION)))


def _holds(given: np.dtype[Any], d: ir.DType) -> bool:
    """Whether an array type is that of elements or their words; ``.npz`` has no names for some types."""
    if given.itemsize != d.word.itemsize:
        return False
    return given in (d.numpy, d.word) or given.kind == "V" or (d.is_integer and given.kind in "iu")


def _fits(t: Held, shape: tuple[int, ...]) -> bool:
    if isinstance(t, ir.PtrType | ir.MemRefType):
        return True
    dims = () if isinstance(t, ir.ScalarType) else t.shape if isinstance(t, ir.TileType) else t.dims
    return len(dims) == len(shape) and all(n in (None, m) for n, m in zip(dims, shape, strict=True))


def _region(path: Path, name: str, t: ir.TileType, given: NDArray[Any] | None) -> tuple[int, int]:
    if given is None:
        return t.shape
    if given.shape != (2,) or given.dtype.kind not in "iu":
        raise FileError(
            f"{path}: {name}{REGION} is {given.dtype}{list(given.shape)}; two integers are needed"
        )
    rows, cols = (int(n) for n in given)
    if not (0 <= rows <= t.rows and 0 <= cols <= t.cols):
        raise FileError(f"{path}: {name}{REGION} is {rows}x{cols}; the program declares {t}")
    return rows, cols
