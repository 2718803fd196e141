"""Values of a program under construction, as Python objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ..ir import MemRefType, PartitionViewType, TensorViewType, TileType, Type, Value
from .places import fail


class Owner(Protocol):
    """The function that values belong to, which gives each its name."""

    name: str

    def fresh(self, hint: str | None) -> str:
        """A name that no other value of the function has."""


class Scope(Protocol):
    """The region that values are defined in; once it is closed they can no longer be used."""

    open: bool


class Handle:
    """A value of the program: the result of an operation, or an argument.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index"}) as f:
    ...     str(f.args[0]), str(f.args[0].type)
    ('%n', 'index')
    """

    def __init__(self, owner: Owner, block: Scope, type_: Type, name: str | None = None) -> None:
        self.owner = owner
        self.block = block
        self.type = type_
        self._name = name

    @property
    def name(self) -> str:
        """Its name in the program, without ``%``."""
        if self._name is None:
            self._name = self.owner.fresh(None)
        return self._name

    def named(self, hint: str | None) -> None:
        """Give a name to a value that has none yet."""
        if self._name is None and hint is not None:
            self._name = self.owner.fresh(hint)

    @property
    def value(self) -> Value:
        """The value as programs hold it: its name and type."""
        return Value(self.name, self.type)

    def __str__(self) -> str:
        return f"%{self.name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}: {self.type}>"


class TileHandle(Handle):
    """A tile, or a local memref.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index"}) as f:
    ...     tile = b.alloc_tile("f32", 16, 32, valid=(f.args[0], 32))
    >>> tile.shape, tile.valid
    ((16, 32), (None, 32))
    """

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Rows and columns of a tile; of a memref its sizes, None for those known at run time."""
        return self.type.shape if isinstance(self.type, TileType) else _dims(self.type)

    @property
    def valid(self) -> tuple[int | None, int | None]:
        """The valid sizes that the type gives, None for those known at run time."""
        return self.type.valid if isinstance(self.type, TileType) else (None, None)


class View(Handle):
    """A tensor in global memory, or a window of one.

    ``view[r, c]`` is the place that ``tload`` and ``tstore`` begin at, with one number for every
    dimension.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index", "p": b.ptr("f32")}) as f:
    ...     view = b.global_tensor(f.args[1], [f.args[0], 64])
    >>> view.shape
    (None, 64)
    """

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes that the type gives, outermost first, None for those known at run time."""
        return _dims(self.type)

    def __getitem__(self, offsets: Any) -> Indexed:
        listed = offsets if isinstance(offsets, tuple) else (offsets,)
        if any(isinstance(o, slice) for o in listed):
            fail(f"a slice of {self}; allowed: numbers, or pto.partition_view(view, offsets, sizes)")
        return Indexed(self, listed)

    def __iter__(self) -> Iterator[Any]:
        fail(f"{self} has no elements in Python; allowed: tload and tstore")


class Indexed:
    """A place in a view."""

    def __init__(self, view: View, offsets: tuple[Any, ...]) -> None:
        self.view = view
        self.offsets = offsets


def _dims(t: Type) -> tuple[int | None, ...]:
    return t.dims if isinstance(t, TensorViewType | PartitionViewType | MemRefType) else ()
