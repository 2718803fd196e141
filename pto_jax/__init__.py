"""PTO tile programs executed as pure JAX functions.

>>> import pto_jax as pto
>>> program = pto.parse("%dst = tadd %src0, %src1 : !pto.tile<16x16xf32>")
>>> [op.name for op in program.walk()]
['tadd']

Names are resolved on first use: importing, parsing and verifying need no JAX.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .errors import UnknownNameError
from .garbage import seldom_collected

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import (
        builder as builder,
        extension as extension,
        nn as nn,
        ops as ops,
        oracle as oracle,
        pictures as pictures,
        runner as runner,
    )
    from .api import load as load, parse as parse, verify as verify
    from .builder import (
        TSYNC as TSYNC,
        Builder as Builder,
        Event as Event,
        GlobalTensor as GlobalTensor,
        Handle as Handle,
        Scalar as Scalar,
        TileHandle as TileHandle,
        View as View,
        alloc_tile as alloc_tile,
        as_type as as_type,
        call as call,
        cast as cast,
        ceildiv as ceildiv,
        constant as constant,
        else_ as else_,
        floordiv as floordiv,
        global_tensor as global_tensor,
        if_ as if_,
        kernel as kernel,
        maximum as maximum,
        minimum as minimum,
        ptr as ptr,
        range as range,
        region as region,
        return_ as return_,
        section as section,
        select as select,
        switch as switch,
        tensor_view as tensor_view,
        tile_type as tile_type,
        tsync as tsync,
        while_ as while_,
    )
    from .builder.functions import *  # noqa: F403 - operations, as type checkers see them
    from .cost import cost as cost
    from .errors import (
        ArgumentError as ArgumentError,
        BuildError as BuildError,
        Diagnostic as Diagnostic,
        DifferentiationError as DifferentiationError,
        ExactnessError as ExactnessError,
        ExecutionError as ExecutionError,
        FileError as FileError,
        NotExecutableError as NotExecutableError,
        ParseError as ParseError,
        PtoError as PtoError,
        PtoWarning as PtoWarning,
        Span as Span,
        VerifyError as VerifyError,
    )
    from .ir.dtypes import DType as DType, dtype as dtype
    from .ir.program import Program as Program
    from .ir.types import PtrType as PtrType, ScalarType as ScalarType, TileType as TileType
    from .nn.layers import straight_through as straight_through
    from .profiles import PROFILES as PROFILES, Profile as Profile, profile as profile
    from .runtime.kernel import Kernel as Kernel, compile as compile
    from .runtime.rank_launches import host_barrier as host_barrier, launches as launches
    from .runtime.ranks import RankKernel as RankKernel
    from .runtime.tiles import Tile as Tile, tile as tile
    from .sanitizer.sanitize import sanitize as sanitize
    from .schedules.races import races as races

#: Public name -> module that defines it; modules that are public themselves map to "".
_PUBLIC: dict[str, str] = {
    "load": "api",
    "parse": "api",
    "verify": "api",
    "races": "schedules.races",
    "compile": "runtime.kernel",
    "Kernel": "runtime.kernel",
    "RankKernel": "runtime.ranks",
    "launches": "runtime.rank_launches",
    "host_barrier": "runtime.rank_launches",
    "Program": "ir.program",
    "kernel": "builder",
    "Builder": "builder",
    "ptr": "builder",
    "tile_type": "builder",
    "tile": "runtime.tiles",
    "Tile": "runtime.tiles",
    "ops": "",
    "nn": "",
    "straight_through": "nn.layers",
    "cost": "",
    "oracle": "",
    "pictures": "",
    "runner": "",
    "sanitize": "sanitizer.sanitize",
    "builder": "",
    "extension": "",
    "TileType": "ir.types",
    "PtrType": "ir.types",
    "ScalarType": "ir.types",
    "DType": "ir.dtypes",
    "dtype": "ir.dtypes",
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
    "BuildError": "errors",
    "FileError": "errors",
    "DifferentiationError": "errors",
    "ExactnessError": "errors",
    "NotExecutableError": "errors",
    "PtoWarning": "errors",
}

__all__ = sorted(_PUBLIC)


if not TYPE_CHECKING:  # A module with this function has every name for type checkers.

    def __getattr__(name: str) -> Any:
        module = _PUBLIC.get(name)
        value: object = _built(name) if module is None else None
        if module is None and value is None:
            raise UnknownNameError(__name__, name, __dir__)
        if module is not None:
            # What is loaded stays; to look through it for garbage takes a tenth of the time.
            with seldom_collected():
                target = import_module(f".{module or name}", __name__)
            value = getattr(target, name) if module else target
        globals()[name] = value
        return value


def _built(name: str) -> object:
    """What builds programs under a name: instructions, loops, scalars; None where nothing does."""
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:
        return None
    return getattr(import_module(".builder", __name__), name, None)


def __dir__() -> list[str]:
    builder = import_module(".builder", __name__)
    return sorted(
        {n for n in globals() if n.startswith("__")} | {*_PUBLIC, *dir(builder)} - {"names", "find"}
    )
