"""Operations with regions, and the regions while they are open."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ..ir import ScalarType, Type
from .arith import as_scalar, dtype_of
from .body import Block, Body, Node, current
from .places import fail, here
from .values import Handle


class Structure:
    """An operation with regions; ``result`` and ``results`` are there once all regions are closed."""

    name = ""

    def __init__(self, ins: Sequence[Handle] = (), attributes: dict[str, Any] | None = None) -> None:
        self.body: Body = current()
        self.place = here()
        self.node = Node(self.name, list(ins), attributes=attributes or {}, span=self.place.span)
        self.node.structure = self
        self.types: list[Type] | None = None
        self._yielded: tuple[Handle, ...] | None = None
        self._complete = False

    @property
    def results(self) -> tuple[Any, ...]:
        """The values that the regions hand out."""
        if not self._complete:
            fail(
                f"{self.node.name} ({self.node.span}) is not complete; allowed: results after its last region"
            )
        place, count = here(), len(self.node.results)
        for i, handle in enumerate(self.node.results):
            handle.named(place.target(i, count))
        return tuple(self.node.results)

    @property
    def result(self) -> Any:
        """The only value that the regions hand out."""
        if len(self.node.results) != 1:
            fail(
                f"{self.node.name} ({self.node.span}) has {len(self.node.results)} results; allowed: .results"
            )
        return self.results[0]

    def give(self, *values: Any) -> None:
        """The values that this region hands out, given once at its end."""
        block = self.body.stack[-1]
        if all(block is not b for b in self.node.regions) or self._yielded is not None:
            fail(f"values of {self.node.name} ({self.node.span}); allowed: once, at the end of its regions")
        self._yielded = self._typed(values)

    def _typed(self, values: Sequence[Any]) -> tuple[Handle, ...]:
        """The values as handles of the types that the other regions gave."""
        types = self.types
        if types is not None and len(types) != len(values):
            fail(
                f"found {len(values)} value(s) of {self.node.name} ({self.node.span}); allowed: {len(types)}"
            )
        handles = []
        for i, value in enumerate(values):
            type_ = types[i] if types is not None else None
            d = type_.dtype if isinstance(type_, ScalarType) else None
            handle = value if isinstance(value, Handle) else as_scalar(value, d or dtype_of(value), "value")
            if type_ is not None and handle.type != type_:
                fail(
                    f"found {handle}, which is {handle.type}, for {self.node.name} ({self.node.span}); "
                    f"allowed: {type_}"
                )
            handles.append(self.body.use(handle, self.node.name))
        self.types = [h.type for h in handles]
        return tuple(handles)

    def region(self, title: str, args: Sequence[tuple[Type, str | None]] = ()) -> Block:
        """Open a region."""
        block = Block(title, here().span)
        self.node.regions.append(block)
        self.body.enter(block)
        block.args = [self.body.define(t, hint) for t, hint in args]
        return block

    def close(self, block: Block, terminator: str = "scf.yield", first: Sequence[Handle] = ()) -> None:
        """Close a region, with the values it hands out at its end."""
        values = (*first, *(self._yielded or ()))
        self._yielded = None
        self.body.leave(block, terminator if values else None, values)

    def complete(self) -> None:
        """Define the results."""
        self._complete = True
        self.node.results = [self.body.define(t) for t in self.types or ()]


class OpenRegion:
    """A region opened with ``with``."""

    def __init__(self, of: Structure, title: str, *, last: bool, args: Sequence[Type] = ()) -> None:
        self._of = of
        self._title = title
        self._last = last
        self._args = args
        self._block: Block | None = None

    def __enter__(self) -> Any:
        of = self._of
        if not of.node.regions:
            of.body.emit(of.node)
        names = (*here().variables, *[None] * len(self._args))
        self._block = of.region(self._title, list(zip(self._args, names, strict=False)))
        return tuple(self._block.args) if self._args else of

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._block is not None
        if kind is not None:
            self._of.body.abandon(self._block)
            return
        self._of.close(self._block)
        if self._last:
            self._of.complete()
