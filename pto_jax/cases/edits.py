"""Edits of a case's program that make it smaller. The results need not be legal: the verifier decides.

Values that an edit leaves undefined become arguments with what they held where they are used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .. import ir
from ..analysis.provenance import called
from ..errors import PtoError
from ..generate.programs import Case
from ..generate.state import Input
from ..isa.effects import handed_on, traits_of
from ..isa.rules.tile_legality import tile_of_memref
from ..isa.traits import Traits
from ..verifier.programs import WITHOUT_FIXES, Build, verify_program
from .recording import Recording, number

_ANY = Build()


def is_legal(case: Case, build: Build = _ANY) -> bool:
    """Whether a case's program passes the verifier of its profile, built as ``build`` says."""
    try:
        findings = verify_program(case.program, case.profile, limits=WITHOUT_FIXES, build=build)
        return all(d.severity != "error" for d in findings)
    except PtoError:
        return False


def digest(case: Case) -> str:
    """What identifies a case: its program and its inputs."""
    result = hashlib.sha256(f"{case.program.digest} {case.entry} {case.grid}".encode())
    for name, i in case.inputs.items():
        result.update(f"{name} {i.type!r} {i.valid} {i.words.shape}".encode())
        result.update(i.words.tobytes())
    return result.hexdigest()


Values = Mapping[str, ir.Value]


def entry_of(case: Case) -> ir.Function:
    """The function that a case executes."""
    program = case.program
    function = program.function(case.entry) if case.entry is not None else None
    return function or program.entries[0]


def with_entry(case: Case, function: ir.Function) -> Case:
    """The case with another body of the function it executes."""
    old = entry_of(case).name
    functions = tuple(function if f.name == old else f for f in case.program.functions)
    return replace(case, program=replace(case.program, functions=functions))


# -- operations ------------------------------------------------------------------------------------


def rewritten(region: ir.Region, change: Callable[[ir.Op], Sequence[ir.Op]]) -> ir.Region:
    """A region with every operation replaced by some others, inner regions first."""
    ops: list[ir.Op] = []
    for op in region.ops:
        inner = tuple(rewritten(r, change) for r in op.regions)
        ops += change(replace(op, regions=inner) if inner != op.regions else op)
    return replace(region, ops=tuple(ops))


def everywhere(case: Case, change: Callable[[ir.Op], Sequence[ir.Op]]) -> Case:
    """The case with every operation of every function replaced by some others."""
    program = case.program
    functions = tuple(replace(f, body=rewritten(f.body, change)) for f in program.functions)
    return replace(case, program=replace(program, functions=functions))


def with_op(case: Case, at: int, change: Callable[[ir.Op], ir.Op]) -> Case:
    """The case with the operation of a number changed."""
    return everywhere(case, lambda op: (change(op) if number(op) == at else op,))


def without(case: Case, dropped: Collection[int]) -> Case:
    """The case without the operations of some numbers."""
    return everywhere(case, lambda op: () if number(op) in dropped else (op,))


def removable(case: Case) -> list[int]:
    """Numbers of the operations that can be left out, in the order of the text."""
    return [number(op) for op in case.program.walk() if not traits_of(op).terminator]


def ordering(case: Case) -> list[tuple[int, int]]:
    """The operations that order others, and those around them, with how deep each is."""

    def within(region: ir.Region, depth: int) -> Iterator[tuple[int, int]]:
        for op in region.ops:
            inner = [edit for r in op.regions for edit in within(r, depth + 1)]
            if inner or traits_of(op).order is not None or traits_of(op).calls:
                yield number(op), depth
            yield from inner

    return [edit for f in case.program.functions for edit in within(f.body, 0)]


def renamed(op: ir.Op, names: Values) -> ir.Op:
    """An operation on other values."""
    if not names:
        return op

    def of(values: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
        return tuple(names.get(v.name, v) for v in values)

    regions = tuple(
        replace(r, ops=tuple(renamed(o, names) for o in r.ops), args=of(r.args)) for r in op.regions
    )
    return replace(op, ins=of(op.ins), outs=of(op.outs), results=of(op.results), regions=regions)


# -- regions and calls -------------------------------------------------------------------------------


def structured(case: Case) -> list[int]:
    """Numbers of loops, branches, sections and calls."""
    return [number(op) for op in case.program.walk() if op.regions or traits_of(op).calls]


def unwrapped(case: Case, at: int, arm: int, joined: bool) -> Case:
    """The case with the body of an operation in its place.

    The body is executed once. With ``joined`` its arguments are what the operation was given, and the
    operation's results what it hands on; else they are left undefined. ``arm`` chooses among regions.
    """
    handed: dict[str, ir.Value] = {}

    def change(op: ir.Op) -> Sequence[ir.Op]:
        body = _body(case.program, op, arm) if number(op) == at else None
        if body is None:
            return (op,)
        region, values = body
        if traits_of(op).calls:
            region = _own_names(region, at)
        names = {a.name: v for a, v in zip(region.args, values, strict=False)} if joined else {}
        if joined:
            handed.update(_handed_on(op, region, arm, names))
        return [renamed(o, names) for o in region.ops if not traits_of(o).terminator]

    edited = everywhere(case, change)
    return everywhere(edited, lambda op: (renamed(op, handed),)) if handed else edited


def _body(program: ir.Program, op: ir.Op, arm: int) -> tuple[ir.Region, tuple[ir.Value, ...]] | None:
    """A region of an operation, or the body of the function it calls, with what its arguments are."""
    if traits_of(op).calls:
        function = called(program, op)
        if function is None or arm:
            return None
        return replace(function.body, args=function.args), op.ins
    if arm >= len(op.regions):
        return None
    values, regions = op.ins, traits_of(op).regions
    if regions is not None and regions.runs == "for":
        values = (*op.group("lb"), *op.group("inits"))
    elif regions is not None and regions.runs == "while" and arm == 1:
        inner = {a.name: v for a, v in zip(op.regions[0].args, op.ins, strict=False)}
        values = tuple(inner.get(v.name, v) for v in handed_on(op.regions[0]))
    return op.regions[arm], values


def _handed_on(op: ir.Op, region: ir.Region, arm: int, names: Values) -> dict[str, ir.Value]:
    """What the results of an operation are where its body stands in its place."""
    regions = traits_of(op).regions
    if regions is not None and regions.runs == "while" and arm == 1:
        return {}
    return {r.name: names.get(v.name, v) for r, v in zip(op.results, handed_on(region), strict=False)}


def _own_names(region: ir.Region, mark: int) -> ir.Region:
    """The body of a function with names that its caller does not have."""
    names = {
        v.name: replace(v, name=f"{v.name}_{mark}")
        for op in region.ops
        for inner in op.walk()
        for v in (*inner.results, *(a for r in inner.regions for a in r.args))
    }
    return replace(region, ops=tuple(renamed(o, names) for o in region.ops))


# -- whole programs --------------------------------------------------------------------------------


def as_fragment(case: Case) -> Case | None:
    """The case as instructions without a function, whose tiles are all results; None where it needs one."""
    function = entry_of(case)
    if (
        case.program.fragment
        or case.grid != 1
        or case.ranks is not None
        or any(traits_of(op).calls for op in function.walk())
    ):
        return None
    ops = tuple(op for op in function.body.ops if not traits_of(op).terminator)
    body = ir.Region(ops)
    fragment = ir.Function(ir.FRAGMENT, function.args, body)
    old = case.program
    program = ir.Program((fragment,), old.attributes, fragment=True, has_module=False, tiles=old.tiles)
    return replace(case, program=program, entry=None)


def closed(case: Case, recording: Recording) -> Case | None:
    """The case with everything undefined as arguments, and nothing in it that is not used.

    None where a value is undefined for which nothing was recorded, or inside a function that is called.
    """
    tidy = tidied(case)
    names = {a.name for a in entry_of(tidy).args}
    missing: dict[str, ir.Value] = {}
    inputs: dict[str, Input] = {}
    for op, value, at, defined in _uses(entry_of(tidy).body, names):
        if value.name in defined or value.name in inputs:
            continue
        values = recording.used.get(number(op), ())
        held = values[at] if at < len(values) else None
        held = held or _default(value.type)
        # On several ranks an argument has one value for each.
        if held is None or case.ranks is not None:
            return None
        missing[value.name] = replace(value, type=held.type)
        inputs[value.name] = held
    function = entry_of(tidy)
    body = rewritten(function.body, lambda op: (renamed(op, missing),)) if missing else function.body
    used = {v.name for op in body.ops for o in op.walk() for v in (*o.ins, *o.outs)}
    args = tuple(a for a in (*function.args, *missing.values()) if a.name in used or case.ranks is not None)
    result = with_entry(tidy, replace(function, args=args, body=body))
    held_by = {**tidy.inputs, **inputs}
    kept = tidy.inputs if case.ranks is not None else {a.name: held_by[a.name] for a in args}
    program = result.program
    if program.fragment:
        results = ir.fragment_results(body.ops, {a.name for a in args})
        program = replace(program, fragment_results=results)
    return replace(result, program=program, inputs=kept)


def _uses(region: ir.Region, visible: set[str]) -> Iterator[tuple[ir.Op, ir.Value, int, set[str]]]:
    """Every use of a value with its position, and the names defined there."""
    defined = visible | {a.name for a in region.args}
    for op in region.ops:
        for at, value in enumerate((*op.ins, *op.outs)):
            yield op, value, at, defined
        for inner in op.regions:
            yield from _uses(inner, defined)
        defined = defined | {r.name for r in op.results}


def _default(t: ir.Type) -> Input | None:
    """Zeros of a type."""
    if isinstance(t, ir.MemRefType):
        tile = tile_of_memref(t)
        t = tile if tile is not None else t
    if isinstance(t, ir.TileType):
        return Input(t, np.zeros(t.shape, t.dtype.word), None if t.is_static else t.shape)
    if isinstance(t, ir.ScalarType):
        return Input(t, np.zeros((), t.dtype.word))
    if isinstance(t, ir.PartitionViewType | ir.TensorViewType | ir.VectorType) and None not in t.dims:
        return Input(t, np.zeros([n or 0 for n in t.dims], t.dtype.word))
    return None


@dataclass
class _Tidying:
    """Leaves out operations whose results nothing uses, and empty regions without results."""

    fragment: bool
    used: set[str] = field(default_factory=set)

    def region(self, region: ir.Region) -> ir.Region:
        ops: list[ir.Op] = []
        for op in reversed(region.ops):
            op = replace(op, regions=tuple(self.region(r) for r in op.regions)) if op.regions else op
            if not self._is_idle(op):
                self.used.update(v.name for v in (*op.ins, *op.outs))
                ops.append(op)
        return replace(region, ops=tuple(reversed(ops)))

    def _is_idle(self, op: ir.Op) -> bool:
        traits = traits_of(op)
        if traits.pure and op.results and not (self.fragment and _is_result(traits)):
            return not any(r.name in self.used for r in op.results)
        empty = op.regions and all(traits_of(o).terminator for r in op.regions for o in r.ops)
        return bool(empty) and not any(r.name in self.used for r in op.results)


def _is_result(traits: Traits) -> bool:
    """Handles over other tiles are results of a fragment, even where nothing reads them."""
    return traits.alias is not None and traits.alias.memory == "tile"


def tidied(case: Case) -> Case:
    """The case without operations whose results nothing uses, and without functions that nothing calls."""
    program = case.program
    functions = tuple(replace(f, body=_Tidying(program.fragment).region(f.body)) for f in program.functions)
    inner = {c.name for f in functions for op in f.walk() if (c := called(program, op)) is not None}
    main = entry_of(case).name
    functions = tuple(f for f in functions if f.name == main or f.name in inner)
    return replace(case, program=replace(program, functions=functions))
