"""What a failure folder shows, for a report: the shrunk program, its inputs, the elements that differ.

Files are read and nothing in them is executed; what cannot be read is left out, with the reason.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FileError
from ...files import load_arrays, read_json, read_text
from ...runtime.array_files import REGION

#: The largest program that is shown, in bytes; arrays, elements of an input, and elements that differ.
PROGRAM, ARRAYS, ELEMENTS, DIFFERENT = 1 << 15, 32, 8, 6
_Array = NDArray[Any]


@dataclass(frozen=True)
class Evidence:
    """Texts of a failure; ``missing`` says why they are not all there.

    ``message`` is that of the shrunk program; ``only`` says what the failure depends on, ``origin`` what the
    program was made of.
    """

    program: str = ""
    message: str = ""
    inputs: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    only: str = ""
    origin: tuple[str, ...] = ()
    missing: str = ""


def evidence(folder: str | Path | None) -> Evidence:
    """What a folder shows; nothing where there is none.

    >>> evidence(None).program, evidence("nowhere").missing
    ('', 'nowhere/report.json: no such file')
    """
    if folder is None:
        return Evidence()
    where = Path(folder)
    try:
        content = read_json(where / "report.json", regular=True)
        program = read_text(where / "shrunk.pto", PROGRAM, regular=True)
        inputs = _numbers(where / "inputs.npz")
        results = (where / name for name in ("expected.npz", "got.npz"))
        # A machine that crashed gave no results.
        wanted, got = (_numbers(file) if file.is_file() else {} for file in results)
    except FileError as error:
        return Evidence(missing=str(error).splitlines()[0])
    about: Mapping[str, Any] = content if isinstance(content, dict) else {}
    origin = about.get("origin")
    return Evidence(
        program,
        _text(about, "message"),
        tuple(_inputs(inputs)),
        tuple(_differences(wanted, got)),
        _text(about, "only"),
        tuple(map(str, origin)) if isinstance(origin, list) else (),
    )


def _text(about: Mapping[str, Any], key: str) -> str:
    value = about.get(key)
    return value if isinstance(value, str) else ""


def _numbers(file: Path) -> Mapping[str, _Array]:
    """The arrays of a file; FileError where one has elements that no result has."""
    arrays = load_arrays(file)
    for name, array in arrays.items():
        if array.dtype.kind not in "biufV" or array.dtype.itemsize not in (1, 2, 4, 8):
            raise FileError(
                f"{file}: {name} has elements of type {array.dtype}; allowed: numbers of 1 to 8 bytes"
            )
    return arrays


def _inputs(arrays: Mapping[str, _Array]) -> Iterator[str]:
    for name, array in islice(arrays.items(), ARRAYS):
        size = "x".join(map(str, array.shape)) or "scalar"
        yield f"{name}  {array.dtype} {size}: {_elements(array)}"
    if len(arrays) > ARRAYS:
        yield f"{len(arrays) - ARRAYS} more"


def _elements(array: _Array) -> str:
    """The first elements; of a large array that is nearly empty those that are not 0, with their places.

    >>> _elements(np.eye(4, dtype=np.int8)[1:]), _elements(np.arange(3))
    ('[0, 1] 1  [1, 2] 1  [2, 3] 1  others 0', '0 1 2')
    """
    places = np.argwhere(_words(array) != 0)
    if array.size > ELEMENTS >= len(places):
        listed = [
            f"[{', '.join(map(str, place))}] {_shown(array[tuple(place)])}" for place in places.tolist()
        ]
        return "  ".join([*listed, "others 0"]) if listed else "all 0"
    more = " ..." if array.size > ELEMENTS else ""
    return " ".join(map(_shown, array.reshape(-1)[:ELEMENTS])) + more


def _differences(wanted: Mapping[str, _Array], got: Mapping[str, _Array]) -> Iterator[str]:
    """The first elements of each result that differ in a bit, in its valid region, other NaNs aside."""
    for name, expected in islice(wanted.items(), ARRAYS):
        actual = got.get(name)
        if name.endswith(REGION) or actual is None:
            continue
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            yield f"{name}: {actual.dtype} {actual.shape}, expected {expected.dtype} {expected.shape}"
            continue
        differs = _words(expected) != _words(actual)
        if expected.dtype.kind == "f":
            differs &= ~(np.isnan(expected) & np.isnan(actual))
        valid = wanted.get(name + REGION)
        if valid is not None and valid.shape == (2,) and valid.dtype.kind in "iu" and differs.ndim == 2:
            differs[int(valid[0]) :] = False
            differs[:, int(valid[1]) :] = False
        places = np.argwhere(differs)
        for place in places[:DIFFERENT]:
            at = tuple(map(int, place))
            where = ", ".join(map(str, at))
            yield f"{name}[{where}]: {_shown(actual[at])}, expected {_shown(expected[at])}"
        if len(places) > DIFFERENT:
            yield f"{name}: {len(places) - DIFFERENT} more of {differs.size} elements differ"


def _words(array: _Array) -> _Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _shown(value: Any) -> str:
    """An element as a number, with its bits where it is a float."""
    if value.dtype.kind == "f":
        word = int(value.view(f"u{value.dtype.itemsize}"))
        return f"{float(value):.9g} (0x{word:0{2 * value.dtype.itemsize}x})"
    return str(value)
