"""Weights in files of the format safetensors, stored codes and their scales included.

Arrays whose type safetensors lacks (4-bit integers and floats among them) are stored as bytes; their type
and shape stand in the metadata of the file, which also names the pairs of codes and scales.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import ArgumentError, FileError, one_of
from ..files import MAX_ARRAYS, read_bytes, write_bytes
from ..runtime.interchange import received
from .quantisation import Quantised

#: Key of the metadata that this module reads.
_KEY = "pto_jax"
#: Types by the names that files have, and by those that :mod:`safetensors` takes.
_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "BOOL": "bool",
    **{f"{k}{n}": f"{name}{n}" for k, name in (("I", "int"), ("U", "uint")) for n in (8, 16, 32, 64)},
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
_SUFFIXES = ("codes", "scale")


def save_weights(path: str | Path, weights: Mapping[str, Any]) -> None:
    """Write weights to a file of the format safetensors, which is replaced as a whole.

    ``weights`` maps names to arrays, to what :func:`quantise` gives, or to further mappings, whose names are
    joined with dots. Other programs read codes and scales as ``NAME.codes`` and ``NAME.scale``. Raises
    ArgumentError for other values and names with dots, FileError where the file cannot be written or
    ``safetensors`` is not installed (``pip install 'pto_jax[weights]'``).

    >>> import tempfile, os
    >>> from pto_jax import nn
    >>> w = np.ones((32, 4), np.float32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "layer.safetensors")
    ...     nn.save_weights(path, {"layer": {"w": nn.quantise(w, format="mx", axis=0), "bias": w[0]}})
    ...     layer = nn.load_weights(path)["layer"]
    >>> layer["w"].codes.dtype.name, layer["w"].scale.dtype.name, layer["bias"].shape
    ('float8_e4m3fn', 'float8_e8m0fnu', (4,))
    """
    library = _library(path)
    notes: dict[str, Any] = {"quantised": [], "bytes": {}}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in _flat(weights, ""):
        parts = {name: value}
        if isinstance(value, Quantised):
            notes["quantised"].append(name)
            parts = {f"{name}.{suffix}": part for suffix, part in zip(_SUFFIXES, value, strict=True)}
        for key, part in parts.items():
            array = np.asarray(_array(key, part), order="C")
            if key in arrays:
                raise ArgumentError(
                    f"save_weights: two values are called {key!r}", allowed="one of each name"
                )
            if array.dtype.name not in _TYPES.values():
                notes["bytes"][key] = {"dtype": array.dtype.name, "shape": list(array.shape)}
                array = array.reshape(-1).view(np.uint8)
            arrays[key] = array
    specs = {
        key: library.TensorSpec(dtype=a.dtype.name, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
        for key, a in arrays.items()
    }
    write_bytes(path, bytes(library.serialize(specs, metadata={_KEY: json.dumps(notes)})))


def load_weights(path: str | Path) -> dict[str, Any]:
    """The weights of a file of the format safetensors, as NumPy arrays.

    Names with dots become mappings in each other; codes and scales that :func:`save_weights` has written
    become :class:`Quantised` again. Files of other programs are read too. Raises FileError for a file that
    cannot be read or is damaged, and where ``safetensors`` is not installed.

    >>> load_weights("no.safetensors")
    Traceback (most recent call last):
    ...
    pto_jax.errors.FileError: no.safetensors: no such file
    """
    library, content = _library(path), read_bytes(path, MAX_ARRAYS)
    try:
        stored = dict(library.deserialize(content))
        size = int.from_bytes(content[:8], "little")
        notes = json.loads(json.loads(content[8 : 8 + size]).get("__metadata__", {}).get(_KEY, "{}"))
        arrays: dict[str, Any] = {
            name: _restored(one, notes.get("bytes", {}).get(name)) for name, one in stored.items()
        }
        for name in notes.get("quantised", []):
            codes, scale = (arrays.pop(f"{name}.{suffix}") for suffix in _SUFFIXES)
            arrays[name] = Quantised(codes, scale)
        return _nested(arrays)
    except Exception as error:  # The library raises an error of its own, damaged metadata any other one.
        reason = str(error).partition("\n")[0]
        raise FileError(f"{path}: no weights of the format safetensors: {reason}") from None


def _library(path: str | Path) -> ModuleType:
    try:
        import safetensors
    except ImportError:
        raise FileError(
            f"{path}: weights need safetensors, which is not installed", fix="pip install 'pto_jax[weights]'"
        ) from None
    return safetensors


def _flat(weights: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(weights, Mapping):
        got = f"save_weights: got {one_of(weights)}"
        raise ArgumentError(got, allowed="a mapping of names to arrays", fix='{"w": ...}')
    for name, value in weights.items():
        if not isinstance(name, str) or not name or "." in name:
            raise ArgumentError(f"save_weights: got the name {name!r}", allowed="text without dots")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _array(name: str, value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(received(value, f"save_weights: {name}"))
    if array.dtype.kind in "OSUMm":
        raise ArgumentError(f"save_weights: {name}: got {type(value).__name__}", allowed="arrays, Quantised")
    return array


def _restored(stored: Mapping[str, Any], note: Mapping[str, Any] | None) -> np.ndarray[Any, Any]:
    name, shape = _TYPES[stored["dtype"]], stored["shape"]
    if note is not None:
        name, shape = note["dtype"], note["shape"]
    return np.frombuffer(bytes(stored["data"]), np.dtype(getattr(ml_dtypes, name, name))).reshape(shape)


def _nested(arrays: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in arrays.items():
        *groups, last = name.split(".")
        inner = nested
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = value
    return nested
