"""Vector scopes that a text leaves to the assembler.

Micro-operations may stand outside ``pto.vecscope``; the assembler then makes a scope of as many in a row as
can share one. Barriers, flags, transfers, calls, tile operations and block queries end a row. Loops and
branches of micro-operations alone belong to it. Nothing that a scope computes may be used behind it: what
only registers and numbers are needed for is computed again there, and anything else has no scope. Source:
PTOAS of August 2026, the pass that infers scopes and its tests (test/lit/vpto/auto_vecscope_infer_*).

>>> from pto_jax.api import parse
>>> text = '''func.func @f(%x: !pto.ptr<f32, ub>) {
... %c0 = arith.constant 0 : index
... %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
... %v = pto.vlds %x[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
... pto.vsts %v, %x[%c0], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
... return }'''
>>> [op.name for op in with_scopes(parse(text)).functions[0].body.ops]
['arith.constant', 'vecscope', 'return']
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from .. import isa
from ..ir import AlignType, Function, MaskType, Op, Program, Region, Type, Value, VRegType
from ..isa.effects import traits_of
from ..isa.micro import SCOPES, opens_scope
from ..isa.traits import structural_traits

#: ``vector``: it needs a scope; ``scalar``: it may stand in one; ``boundary``: it ends one.
_Kind = Literal["vector", "scalar", "boundary"]


def is_physical(t: Type) -> bool:
    """Whether values of a type exist in a vector scope only: registers, masks and align states."""
    return isinstance(t, AlignType) or (isinstance(t, VRegType | MaskType) and not t.logical)


def with_scopes(program: Program) -> Program:
    """The program with the scopes that the assembler adds; the same object where it adds none."""
    functions = tuple(_of_function(f) for f in program.functions)
    same = all(a is b for a, b in zip(functions, program.functions, strict=True))
    return program if same else replace(program, functions=functions)


def _of_function(function: Function) -> Function:
    if all(structural_traits(n) is not None or isa.find(n) is not None for n in function.names):
        return function
    body = _with_scopes(function.body)
    return function if body is function.body else replace(function, body=body)


def _with_scopes(region: Region) -> Region:
    block = _Block(region.ops)
    ops = tuple(block.scoped())
    same = len(ops) == len(region.ops) and all(a is b for a, b in zip(ops, region.ops, strict=True))
    return region if same else replace(region, ops=ops)


def ends_scope(op: Op) -> bool:
    """Whether no scope that the assembler makes may hold an operation."""
    return _kind(op) == "boundary"


def _inside(op: Op) -> Op:
    """The operation with scopes in its regions."""
    if not op.regions or opens_scope(op):
        return op
    regions = tuple(map(_with_scopes, op.regions))
    same = all(a is b for a, b in zip(regions, op.regions, strict=True))
    return op if same else replace(op, regions=regions)


def _kind(op: Op) -> _Kind:
    traits, operation = traits_of(op), isa.find_micro(op.name)
    if operation is not None:
        if operation.between_scopes:
            return "boundary"
        special = operation.orders or ("spr" in operation.choices and not operation.places)
        if special or any(is_physical(v.type) for v in (*op.ins, *op.outs, *op.results)):
            return "vector"
    if traits.regions is not None:
        return (
            "vector" if traits.regions.runs in ("if", "for", "while") and _is_of_vectors(op) else "boundary"
        )
    plain = traits.pure and not traits.effects and traits.launch is None
    return "scalar" if plain and (operation is None or operation.kind == "register") else "boundary"


def _is_of_vectors(op: Op) -> bool:
    """Whether a loop or a branch has vector operations inside, and nothing that ends a scope."""
    if opens_scope(op):
        return False
    kinds = {_kind(o) for r in op.regions for o in r.ops if not traits_of(o).terminator}
    return "vector" in kinds and "boundary" not in kinds


@dataclass
class _Block:
    """The operations of a region, which positions use a name, and where one is defined.

    ``inner`` are the positions of what stands in scopes: vector operations, and scalars that are computed
    from their results.
    """

    ops: Sequence[Op]
    users: dict[str, list[int]] = field(default_factory=dict)
    defined: dict[str, int] = field(default_factory=dict)
    inner: set[int] = field(default_factory=set)
    #: Whether the values that were asked for can be computed a second time.
    again: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for at, op in enumerate(self.ops):
            for name in {v.name for o in op.walk() for v in (*o.ins, *o.outs)}:
                self.users.setdefault(name, []).append(at)
            self.defined.update((v.name, at) for v in op.results)
            if self.kinds[at] == "vector" or any(self._is_inner(v.name) for v in op.ins):
                self.inner.add(at)

    def _is_inner(self, name: str) -> bool:
        return self.defined.get(name) in self.inner

    @cached_property
    def kinds(self) -> Sequence[_Kind]:
        return [_kind(op) for op in self.ops]

    def scoped(self) -> Iterator[Op]:
        """The operations, those of a scope in one operation."""
        start = 0
        for at, kind in enumerate((*self.kinds, "boundary")):
            if kind == "boundary":
                yield from self._row(start, at)
                yield from map(_inside, self.ops[at : at + 1])
                start = at + 1

    def _row(self, start: int, end: int) -> Iterator[Op]:
        """The operations of a row without a boundary: scopes as long as can be, from the first on."""
        while start < end:
            stop = end
            while stop > start and (leak := self._leak(start, stop)) is not None:
                stop = leak
            if "vector" in self.kinds[start:stop]:
                yield from self._scope(start, stop)
                start = stop
            else:
                yield _inside(self.ops[start])
                start += 1

    def _leak(self, start: int, stop: int) -> int | None:
        """The first position of which a result is used behind the scope and cannot be computed there."""
        for at in range(start, stop):
            for value in self.ops[at].results if at in self.inner else ():
                outside = [
                    u for u in self.users.get(value.name, ()) if u not in self.inner or not start <= u < stop
                ]
                again = self._again(value.name) and all(self.kinds[u] != "boundary" for u in outside)
                if outside and not again:
                    return at
        return None

    def _again(self, name: str) -> bool:
        """Whether a value can be computed a second time: from numbers and from registers that can."""
        if name not in self.again:
            self.again[name] = self._computable(name)
        return self.again[name]

    def _computable(self, name: str) -> bool:
        at = self.defined.get(name)
        operation = isa.find_micro(self.ops[at].name) if at is not None else None
        if at is None or operation is None or operation.kind != "register" or operation.squeezes:
            return False
        value = next(v for v in self.ops[at].results if v.name == name)
        return is_physical(value.type) and all(
            self._again(v.name) if is_physical(v.type) else not self._is_inner(v.name)
            for v in self.ops[at].ins
        )

    def _scope(self, start: int, stop: int) -> Iterator[Op]:
        """The scope of the operations from one position to another, behind the scalars that it needs."""
        members = [at for at in range(start, stop) if at in self.inner]
        yield from (self.ops[at] for at in range(start, stop) if at not in self.inner)
        own = {v.name for at in members for v in self.ops[at].results}
        copies: dict[int, Op] = {}
        for at in members:
            for op in self.ops[at].walk():
                for value in op.ins:
                    if value.name not in own:
                        self._copy(value, copies)
        ops = (*copies.values(), *(self.ops[at] for at in members))
        yield Op(SCOPES[0], regions=(Region(ops),), span=self.ops[members[0]].span)

    def _copy(self, value: Value, copies: dict[int, Op]) -> None:
        """Compute a register of an earlier scope again, after what it is computed from."""
        at = self.defined.get(value.name)
        if at is None or at in copies or not self._again(value.name):
            return
        for source in self.ops[at].ins:
            self._copy(source, copies)
        copies[at] = replace(self.ops[at])
