r"""One reading of a program: what follows from its text, for everyone who consumes programs.

>>> from pto_jax.api import parse
>>> program = parse("%c4 = arith.constant 4 : index\n%d = tadd %a, %b : !pto.tile<16x16xf32>")
>>> resolved = resolve(program)
>>> constant, add = resolved.program.functions[0].body.ops
>>> sorted(resolved.of(add).values), [str(v) for v in resolved.of(add).written()]
(['dst', 'src0', 'src1'], ['%d'])
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from .. import errors, isa, profiles
from ..ir import Function, Op, Program, Value
from ..isa.effects import accesses, written
from ..isa.traits import Effect, Resource
from . import provenance, type_inference
from .facts import ANYWHERE, Entered, FunctionFacts, solve
from .region_writes import RegionWrites, region_writes

#: Programs that are remembered: a few, as one is consumed several times in a row, and facts take more memory
#: than the program that they are of.
REMEMBERED = 8


class ResolvedOp(NamedTuple):
    """An operation with its declaration and what its operands stand for in it.

    Both are None for an operation that is no instruction; ``bound`` is None, too, where the operands do not
    fit the declaration, and ``problems`` say why.
    """

    op: Op
    instruction: isa.Instruction | None
    bound: isa.Bound | None
    problems: tuple[errors.Diagnostic, ...] = ()

    @property
    def values(self) -> Mapping[str, Value]:
        """The values by declared operand name; none where they do not fit the declaration."""
        return self.bound.values if self.bound is not None else {}

    def fitting(self) -> isa.Bound:
        """What the operands stand for; VerifyError naming what is accepted where they do not fit."""
        if self.bound is None:
            raise errors.VerifyError(self.problems)
        return self.bound

    def accesses(self) -> Iterator[tuple[Effect, Value]]:
        """The effects on what operands name, with the operands' values: sources first."""
        return accesses(self.op, self.values)

    def written(self, *resources: Resource) -> Iterator[Value]:
        """The values whose memory the operation writes: any, or that of some resources."""
        return written(self.op, *resources, values=self.values)


@dataclass(frozen=True, eq=False)
class ResolvedProgram:
    """A program with its types completed, its operations bound, and the facts that follow from its text.

    Everything is computed when it is first asked for, once. Facts are those of the operations of ``program``,
    which is another object than the one that was resolved where types had to be filled in.
    """

    program: Program
    profile: profiles.Profile | None = None
    #: Whether a type is left open that does not follow from others.
    is_open: bool = False
    _ops: dict[int, ResolvedOp] = field(default_factory=dict, repr=False)
    _facts: dict[tuple[int, Entered], FunctionFacts] = field(default_factory=dict, repr=False)
    _origins: dict[int, tuple[Function, Mapping[str, frozenset[str]]]] = field(
        default_factory=dict, repr=False
    )
    _regions: dict[int, RegionWrites] = field(default_factory=dict, repr=False)

    @property
    def diagnostics(self) -> tuple[errors.Diagnostic, ...]:
        """What is wrong with the operands of its instructions, in the order of the text."""
        return tuple(problem for op in self.program.walk() for problem in self.of(op).problems)

    def of(self, op: Op) -> ResolvedOp:
        """What an operation says."""
        known = self._ops.get(id(op))
        # The entry keeps its operation alive, so that no other one has its identity.
        if known is None:
            known = self._ops[id(op)] = _resolved(op)
        return known

    def values(self, op: Op) -> Mapping[str, Value]:
        """The values of an operation by declared operand name; none where they do not fit."""
        return self.of(op).values

    def origins(self, function: Function) -> Mapping[str, frozenset[str]]:
        """For every pointer and view of a function: the arguments it may come from."""
        if id(function) not in self._origins:
            self._origins[id(function)] = function, provenance.roots(self.program, function)
        return self._origins[id(function)][1]

    def writes_inside(self, op: Op) -> RegionWrites:
        """What the regions of one of the program's operations write, by the names around them."""
        known = self._regions.get(id(op))
        if known is None:
            known = self._regions[id(op)] = region_writes(op, lambda inner: self.of(inner).written())
        return known

    def facts(self, function: Function, entered: Entered = ANYWHERE) -> FunctionFacts:
        """What is known of the operands of a function's operations, when it is entered in some way."""
        known = self._facts.get((id(function), entered))
        if known is None:
            known = self._facts[id(function), entered] = solve(function, self.values, entered)
        return known


def resolve(program: Program, profile: profiles.Profile | None = None) -> ResolvedProgram:
    """What follows from the text of a program; computed once for as long as the program is in use.

    A profile decides on legality only, so that it may be left out where that is not asked.
    """
    known = _remembered(_ByIdentity(program))
    return known if profile is None else replace(known, profile=profile)


def _resolved(op: Op) -> ResolvedOp:
    instruction = isa.find(op.name)
    if instruction is None:
        return ResolvedOp(op, None, None)
    try:
        return ResolvedOp(op, instruction, isa.bind(instruction, op))
    except errors.VerifyError as error:
        return ResolvedOp(op, instruction, None, tuple(error.diagnostics))


class _ByIdentity:
    """A program as a key: equal programs from different texts have operations of their own."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.program is other.program

    def __hash__(self) -> int:
        return id(self.program)


@lru_cache(maxsize=REMEMBERED)
def _remembered(key: _ByIdentity) -> ResolvedProgram:
    if not type_inference.is_open(key.program):
        return ResolvedProgram(key.program)
    program = type_inference.complete(key.program)
    return ResolvedProgram(program, is_open=type_inference.is_open(program))
