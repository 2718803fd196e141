"""PTO tile programs executed as pure JAX functions.

>>> import pto_jax as pto
>>> program = pto.parse("%dst = tadd %src0, %src1 : !pto.tile<16x16xf32>")
>>> [op.name for op in program.walk()]
['tadd']

Names are resolved on first use: importing, parsing and verifying need no JAX.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import ops as ops
    from . import oracle as oracle
    from .api import load as load
    from .api import parse as parse
    from .api import verify as verify
    from .dtypes import DType as DType
    from .dtypes import dtype as dtype
    from .engine import Kernel as Kernel
    from .engine import compile as compile
    from .errors import ArgumentError as ArgumentError
    from .errors import Diagnostic as Diagnostic
    from .errors import DifferentiationError as DifferentiationError
    from .errors import ExecutionError as ExecutionError
    from .errors import FileError as FileError
    from .errors import NotExecutableError as NotExecutableError
    from .errors import ParseError as ParseError
    from .errors import PtoError as PtoError
    from .errors import Span as Span
    from .errors import VerifyError as VerifyError
    from .ir import Program as Program
    from .profiles import PROFILES as PROFILES
    from .profiles import Profile as Profile
    from .profiles import profile as profile
    from .tile import Tile as Tile
    from .tile import tile as tile
    from .types import PtrType as PtrType
    from .types import ScalarType as ScalarType
    from .types import TileType as TileType

#: Public name -> module that defines it; modules that are public themselves map to "".
_PUBLIC: dict[str, str] = {
    "load": "api",
    "parse": "api",
    "verify": "api",
    "compile": "engine",
    "Kernel": "engine",
    "Program": "ir",
    "tile": "tile",
    "Tile": "tile",
    "ops": "",
    "oracle": "",
    "TileType": "types",
    "PtrType": "types",
    "ScalarType": "types",
    "DType": "dtypes",
    "dtype": "dtypes",
    "Profile": "profiles",
    "PROFILES": "profiles",
    "profile": "profiles",
    "Diagnostic": "errors",
    "Span": "errors",
    "PtoError": "errors",
    "ParseError": "errors",
    "VerifyError": "errors",
    "ExecutionError": "errors",
    "ArgumentError": "errors",
    "FileError": "errors",
    "DifferentiationError": "errors",
    "NotExecutableError": "errors",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = import_module(f".{module or name}", __name__)
    value: object = getattr(found, name) if module else found
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps ``pto_jax.tile`` the function: importing a submodule binds it in its package, which would
    hide a public name spelled like the module."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and _PUBLIC.get(name)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
