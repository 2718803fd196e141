r"""Programs without some of their operations, compared as complete programs.

With an operation go those that use its results, and those that read a tile which nothing writes any more.

>>> import numpy as np, pto_jax as pto
>>> from pto_jax.generate.state import Input
>>> t = pto.TileType("i32", 1, 8)
>>> text = "\n".join(f"{op} : !pto.tile<1x8xi32>" for op in ("tneg %b, %a", "tabs %c, %b", "tnot %d, %a"))
>>> tile = Input(t, np.zeros((1, 8), np.uint32))
>>> case = Case("id", 0, 0, pto.profile("a5"), pto.parse(text), dict.fromkeys("abcd", tile), {})
>>> made = without(case, lambda op: op.name == "tneg")
>>> [op.name for op in made.program.walk()], list(made.inputs)
(['tabs', 'tnot'], ['b', 'a', 'c', 'd'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ... import ir
from ...analysis.entries import fragment_outputs, select_entry, written_buffers
from ...cases.edits import is_legal, tidied
from ...errors import PtoError
from ...generate.programs import Case
from ...isa import effects


def without(case: Case, refused: Callable[[ir.Op], bool]) -> Case | None:
    """The case without operations that are refused; None where nothing is left that can be compared."""
    functions = []
    for function in case.program.functions:
        body = _body(function, refused)
        if body is None:
            return None
        functions.append(replace(function, body=body))
    result = tidied(replace(case, program=replace(case.program, functions=tuple(functions))))
    result = _fragment(result) if result.program.fragment else result
    try:
        return result if _writes(result) and is_legal(result) else None
    except PtoError:
        return None


def _body(function: ir.Function, refused: Callable[[ir.Op], bool]) -> ir.Region | None:
    """The body without what is refused and what depends on it."""
    memory = _Memory(function)
    # What arguments hold is defined.
    before = memory.written(function.body) - {memory.of(a) for a in function.args}
    names = frozenset(a.name for a in function.args)
    if function.name == ir.FRAGMENT:
        names |= _free(function.body)
    body = _Cut(refused).region(function.body, names)
    while body is not None:
        lost = before - memory.written(body)
        reads = _Cut(lambda op, lost=lost: any(memory.of(v) in lost for v in _read(op)))  # type: ignore[misc]
        again = reads.region(body, names)
        if again == body:
            break
        body = again
    return body


@dataclass
class _Cut:
    """Leaves out operations, and those that use what is then undefined."""

    refused: Callable[[ir.Op], bool]

    def region(self, region: ir.Region, names: frozenset[str]) -> ir.Region | None:
        """A region in which some names are defined; None where its end needs one that is not."""
        defined = names | {a.name for a in region.args}
        ops: list[ir.Op] = []
        for op in region.ops:
            kept = self._kept(op, defined)
            if kept is not None:
                ops.append(kept)
                defined |= {r.name for r in kept.results}
            elif effects.traits_of(op).terminator:
                return None
        return replace(region, ops=tuple(ops))

    def _kept(self, op: ir.Op, defined: frozenset[str]) -> ir.Op | None:
        if self.refused(op) or any(v.name not in defined for v in (*op.ins, *op.outs)):
            return None
        regions = [self.region(r, defined) for r in op.regions]
        inner = tuple(r for r in regions if r is not None)
        return replace(op, regions=inner) if len(inner) == len(regions) else None


@dataclass
class _Memory:
    """Which names of a function stand for the same tile."""

    function: ir.Function
    _owner: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op in self.function.walk():
            pair = effects.aliased(op)
            for made, source in (*((pair,) if pair else ()), *effects.flows(op), *effects.entered(op)):
                if isinstance(made.type, ir.TileType):
                    self._owner[self.of(made)] = self.of(source)

    def of(self, value: ir.Value) -> str:
        """The name that stands for a tile's memory."""
        name = value.name
        while (owner := self._owner.get(name, name)) != name:
            name = owner
        return name

    def written(self, region: ir.Region) -> set[str]:
        """The tiles that operations of a region write."""
        ops = (inner for op in region.ops for inner in op.walk())
        return {self.of(v) for op in ops for v in _tiles(op.destinations) if _computes(op)}


def _computes(op: ir.Op) -> bool:
    traits = effects.traits_of(op)
    return traits.alias is None and traits.placement is None and not op.regions


def _read(op: ir.Op) -> Iterable[ir.Value]:
    """The tiles that an operation reads; handles of them read nothing."""
    return _tiles(op.ins) if _computes(op) else ()


def _tiles(values: Iterable[ir.Value]) -> Iterator[ir.Value]:
    return (v for v in values if isinstance(v.type, ir.TileType))


def _free(region: ir.Region) -> frozenset[str]:
    """Names that a fragment uses and does not make."""
    return frozenset(v.name for op in region.ops for o in op.walk() for v in (*o.ins, *o.outs)) - {
        r.name for op in region.ops for r in op.results
    }


def _fragment(case: Case) -> Case:
    """A fragment with the arguments that it uses, and the results that it has."""
    (function,) = case.program.functions
    used = {v.name for op in function.walk() for v in (*op.ins, *op.outs)}
    args = tuple(a for a in function.args if a.name in used)
    results = ir.fragment_results(function.body.ops, {a.name for a in args})
    program = replace(case.program, functions=(replace(function, args=args),), fragment_results=results)
    return replace(case, program=program, inputs={a.name: case.inputs[a.name] for a in args})


def _writes(case: Case) -> bool:
    """Whether a program has results."""
    program = case.program
    if program.fragment:
        return bool(fragment_outputs(program))
    return bool(written_buffers(program, select_entry(program, case.entry)))
