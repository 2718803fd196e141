"""Which results of a program are exact, which have an ULP bound, and which follow from such a result.

Instructions without a correctly rounded definition have a bound; what is computed from their results has
none, because a comparison or a cancellation makes any difference large. Where data may flow is found as if
every path were taken, and as if tiles with an address all shared their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from ... import isa
from ...analysis.entries import fragment_outputs, written_buffers
from ...analysis.provenance import called
from ...ir.program import Function, Op, Program, Value
from ...ir.types import ScalarType
from ...isa.effects import aliased, handed_on, placed, traits_of, written
from ...isa.rules.constraints import element_type
from ..results import UNBOUNDED

#: The node of all tiles that have an address, or that leave a function through a pipe.
_SHARED = ("", "")
_Node = tuple[str, str]
_NONE = 1 << 62


def bounds(program: Program, function: Function) -> dict[str, int]:
    r"""ULP bounds of results that are not exact, :data:`..results.UNBOUNDED` for those that have none.

    >>> import pto_jax as pto
    >>> text = "texp %b, %a : !pto.tile<16x16xf32>"
    >>> program = pto.parse(text)
    >>> bounds(program, program.functions[0])
    {'b': 1}
    >>> program = pto.parse(text + "\ntneg %c, %b : !pto.tile<16x16xf32>")
    >>> bounds(program, program.functions[0])
    {'b': 1, 'c': -1}
    """
    flow = _Flow(program)
    names = fragment_outputs(program) if program.fragment else written_buffers(program, function)
    levels = {name: flow.level((function.name, name)) for name in names}
    return {name: UNBOUNDED if level == _NONE else level for name, level in levels.items() if level}


class _Flow:
    """Levels of all values: 0 exact, a bound, or the highest one, where there is none."""

    def __init__(self, program: Program) -> None:
        self._parents: dict[_Node, _Node] = {}
        self._levels: dict[_Node, int] = {}
        #: What decides on a path was not exact.
        self._everything = False
        ops = [(f, op) for f in program.functions for op in f.walk()]
        if not any(_declared(op) for _, op in ops):
            return
        for f, op in ops:
            self._join(program, f, op)
        changed = True
        while changed:
            changed = False
            for f, op in ops:
                changed |= self._execute(f, op)

    def level(self, node: _Node) -> int:
        return _NONE if self._everything else self._levels.get(self._root(node), 0)

    def _root(self, node: _Node) -> _Node:
        while (parent := self._parents.get(node, node)) != node:
            node = parent
        return node

    def _unite(self, f: Function, pairs: Iterable[tuple[Value, Value]], g: Function | None = None) -> None:
        for a, b in pairs:
            self._parents[self._root((f.name, a.name))] = self._root(((g or f).name, b.name))

    def _join(self, program: Program, f: Function, op: Op) -> None:
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

    def _share(self, f: Function, values: Iterable[Value]) -> None:
        for v in values:
            self._parents[self._root((f.name, v.name))] = self._root(_SHARED)

    def _execute(self, f: Function, op: Op) -> bool:
        """Raise the levels of what an operation writes; whether one changed."""
        if self._highest(f, _deciding(op)):
            changed, self._everything = not self._everything, True
            return changed
        source = self._highest(f, op.ins)
        changed = False
        for v in dict.fromkeys((*op.outs, *op.results, *written(op))):
            declared = _declared(op, v)
            exact_move = not declared and _moves(op)
            level = declared if not source else source if exact_move else _NONE
            root = self._root((f.name, v.name))
            if level > self._levels.get(root, 0):
                self._levels[root], changed = level, True
        return changed

    def _highest(self, f: Function, values: Iterable[Value]) -> int:
        return max((self.level((f.name, v.name)) for v in values), default=0)


def _deciding(op: Op) -> tuple[Value, ...]:
    """The values that decide which operations are executed."""
    traits = traits_of(op)
    if traits.decides:
        return op.ins[:1]
    if not op.regions or (traits.regions is not None and traits.regions.runs == "while"):
        return ()
    return op.ins[: len(op.ins) - len(op.group("inits"))]


def _declared(op: Op, written: Value | None = None) -> int:
    """The bound that an instruction's declaration gives its results, 0 where they are exact."""
    instruction = isa.find(op.name)
    if instruction is None or not instruction.ulp:
        return 0
    if written is None:
        return max(instruction.ulp.values())
    d = getattr(written.type, "dtype", None)
    return instruction.ulp.get(d.name, 0) if d is not None else max(instruction.ulp.values())


def _moves(op: Op) -> bool:
    """Whether an operation gives the elements of its source as they are, or makes another name of it."""
    traits = traits_of(op)
    if traits.alias is not None or traits.placement is not None:
        return True
    instruction = isa.find(op.name)
    if instruction is None or instruction.moves != "copy":
        return False
    types = {element_type(v.type) for v in (*op.ins, *op.destinations) if not isinstance(v.type, ScalarType)}
    attributes = (instruction.attribute(name) for name, _ in op.attributes)
    return len(types) == 1 and all(a is not None and a.of_layout for a in attributes)
