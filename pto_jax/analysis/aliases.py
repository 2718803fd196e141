"""Which names of a program may stand for the same data, wherever and whenever they are used.

Nothing is known of paths here: handles that meet in a branch or a loop are names of the same data from the
start, and so are all tiles that have an address or leave a function through a pipe, as they may share bytes.
"""

from collections.abc import Iterable
from itertools import chain
from typing import TypeAlias

from ..ir import Function, Op, Program, Value
from ..isa.effects import aliased, handed_on, placed, traits_of
from .provenance import called

#: A name by its function; the class of data that it stands for is known by one of its names.
Name: TypeAlias = tuple[str, str]
_SHARED: Name = ("", "")


class AliasClasses:
    r"""The names of a program in classes that may stand for the same data.

    >>> from pto_jax.api import parse
    >>> t = "!pto.tile<16x16xf32>"
    >>> classes = AliasClasses(parse(f"%b = pto.bitcast %a : {t} -> {t}\n%c = tneg %b : {t}"))
    >>> classes.of("fragment", "a") == classes.of("fragment", "b") != classes.of("fragment", "c")
    True
    """

    def __init__(self, program: Program) -> None:
        self._parents: dict[Name, Name] = {}
        for function in program.functions:
            for op in function.walk():
                self._unite_names(program, function, op)

    def of(self, function: str, name: str) -> Name:
        """The class of a name in a function."""
        return self._root((function, name))

    def _root(self, node: Name) -> Name:
        while (parent := self._parents.get(node, node)) != node:
            node = parent
        return node

    def _unite(self, f: Function, pairs: Iterable[tuple[Value, Value]], g: Function | None = None) -> None:
        for a, b in pairs:
            self._parents[self._root((f.name, a.name))] = self._root(((g or f).name, b.name))

    def _share(self, f: Function, values: Iterable[Value]) -> None:
        for v in values:
            self._parents[self._root((f.name, v.name))] = self._root(_SHARED)

    def _unite_names(self, program: Program, f: Function, op: Op) -> None:
        """Unite the names that an operation makes names of the same data."""
        pair, place, callee = aliased(op), placed(op), called(program, op)
        if pair is not None:
            self._unite(f, [pair])
        elif place is not None:
            self._share(f, place[:1] if place[1] is not None else ())
        elif callee is not None:
            self._unite(f, zip(op.ins, callee.args, strict=False), callee)
            self._unite(f, zip(op.results, handed_on(callee.body), strict=False), callee)
        elif op.regions:
            for region in op.regions:
                ends = region.ops[-1].ins if region.ops else ()
                sources = (op.group("inits") or op.ins, ends, ends[1:])
                for targets in (op.results, region.args, region.args[1:]):
                    self._unite(f, chain.from_iterable(zip(targets, s, strict=False) for s in sources))
        elif traits_of(op).fifo in ("push", "pop"):
            self._share(f, (*op.ins, *op.outs, *op.results))
