"""Programs written in Python.

Functions with :func:`kernel`, or :class:`Builder`. Every instruction is a function of this module, under
its name in the text (``tadd``) and that of the C++ intrinsic (``TADD``), made from its declaration:
destination first, then the sources, by position or by their declared names; attributes by keyword;
Python numbers become constants. Tile instructions return an event; ``wait=`` and :func:`tsync` take
events. Of all of them: ``named=`` gives the result a name, ``type=`` its type.

All names are also names of ``pto_jax`` itself, except ``Tile`` and ``Kernel``: there a tile of data and a
compiled program.
"""

from typing import TYPE_CHECKING, Any

from .argument_types import as_type, ptr, tensor_view, tile_type
from .arith import Scalar, cast, ceildiv, constant, floordiv, maximum, minimum, select
from .control import else_, if_, range, region, section, switch, while_
from .instructions import find, names
from .kernels import Kernel, kernel
from .program import ProgramBuilder, call, return_
from .synchronise import Event, tsync
from .tiles import alloc_tile, global_tensor, global_tensor as GlobalTensor, tile as Tile
from .values import Handle, TileHandle, View

if TYPE_CHECKING:
    from .functions import *  # noqa: F403 - what type checkers see of the functions made from declarations
else:
    from .functions import __getattr__ as __getattr__

TSYNC = tsync

__all__ = [
    "Builder",
    "Event",
    "GlobalTensor",
    "Handle",
    "Kernel",
    "Scalar",
    "TSYNC",
    "Tile",
    "TileHandle",
    "View",
    "alloc_tile",
    "as_type",
    "call",
    "cast",
    "ceildiv",
    "constant",
    "else_",
    "find",
    "floordiv",
    "global_tensor",
    "if_",
    "kernel",
    "maximum",
    "minimum",
    "names",
    "ptr",
    "range",
    "region",
    "return_",
    "section",
    "select",
    "switch",
    "tensor_view",
    "tile_type",
    "tsync",
    "while_",
]


class Builder(ProgramBuilder):
    """A program under construction.

    Everything that :mod:`pto_jax.builder` has is a method too: ``b.tadd(...)``, ``b.range(...)``.
    ``arch`` is the target the program names ("a3", "a5").

    >>> b = Builder(arch="a5")
    >>> with b.function("double", {"n": "index", "p": "!pto.ptr<i64>"}) as f:
    ...     n, p = f.args
    ...     b.store_scalar(b.cast(n + n, "i64"), p, 0)
    >>> [op.name for op in b.program.walk()]
    ['arith.constant', 'arith.addi', 'arith.index_cast', 'store_scalar', 'return']
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a builder has no {name!r}")
        return globals()[name] if name in globals() else find(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *names()})
