"""What the courses over a program share: what the text says of operations, and their cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import lcm
from typing import Any, NamedTuple

from ..analysis.provenance import called
from ..analysis.resolve import ResolvedOp, ResolvedProgram
from ..interpreter.cores import are_paired, meet_inside
from ..ir import AtomicType, Function, KernelKind, Op, Pipe, Value
from ..isa import effects
from ..isa.declare import Phase
from ..isa.traits import Traits
from ..profiles import ProfileName
from .guided import special_trips

#: The arguments by which a program asks which block, of how many, and which vector core it is.
BLOCK, BLOCKS, SUBBLOCK = (f"__pypto_spmd_{name}" for name in ("block_idx", "block_num", "subblock_idx"))
#: The longest period of trips that is looked for.
LONGEST = 24
#: Operations that divide, those of them that give quotients, and through how many a number is traced back.
_QUOTIENTS = ("arith.div", "arith.floordiv", "arith.ceildiv", "arith.shr")
_DIVIDES, _DEEP = (*_QUOTIENTS, "arith.rem", "arith.andi"), 6
#: Operations up to which all trips of a loop are followed, and those that all loops share.
SHORT, ALL_LOOPS = 600, 24_000


class OperandUse(NamedTuple):
    """An operand that a step reads or writes, by its declared name, and as messages name it."""

    name: str
    value: Value
    text: str
    write: bool
    atomic: bool


class Step(NamedTuple):
    """A step on a pipe, and the operands that it uses."""

    phase: Phase
    operands: tuple[OperandUse, ...]


class OpFacts(NamedTuple):
    """What the text says of an operation.

    ``kind`` is the kind of the core that executes it, "" where the text does not say it; ``written``: the
    text has to order it; ``fits``: its operands are those of its declaration.
    """

    traits: Traits
    pipe: Pipe
    runs: str | None
    kind: str
    written: bool
    steps: tuple[Step, ...]
    fits: bool = True

    @property
    def uses(self) -> bool:
        """Whether it does anything but compute numbers."""
        return bool(self.steps) or self.traits.order is not None or self.traits.fifo is not None


def facts_of(resolved: ResolvedOp, profile: ProfileName, kind: str, written: bool) -> OpFacts:
    """What the text says of an operation."""
    op = resolved.op
    traits = effects.traits_of(op)
    runs = traits.regions.runs if traits.regions is not None else None
    steps: tuple[Step, ...] = ()
    if runs is None and not traits.calls:
        attrs = resolved.bound.attrs if resolved.bound is not None else op.attrs
        phases = effects.phases_of(op, resolved.values, attrs, profile)
        parts = [Step(phase, tuple(_operands(resolved, traits, phase))) for phase in phases]
        # A step that uses nothing still hands its order on to the next one.
        steps = tuple(parts) if len(parts) > 1 or any(step.operands for step in parts) else ()
    return OpFacts(traits, effects.pipe_of(op), runs, kind, written, steps, not resolved.problems)


def _operands(resolved: ResolvedOp, traits: Traits, phase: Phase) -> Iterator[OperandUse]:
    """The operands of a step; the places of elements that indexes choose are not followed."""
    op = resolved.op
    indexed = {e.operand for e in traits.effects if e.indexed and e.resource == "global"}
    adds = op.attrs.get("atomicType") == AtomicType.ATOMIC_ADD
    names = ((False, name) for name in phase.reads), ((True, name) for name in phase.writes)
    for write, name in chain(*names):
        value = resolved.values.get(name)
        if value is not None and name not in indexed:
            yield OperandUse(name, value, str(value), write, write and adds)


@dataclass(eq=False)
class Judged:
    """What the courses over a program share.

    ``written``: identities of the operations between which nothing is inserted. ``inputs`` are the arguments
    that are known.
    """

    resolved: ResolvedProgram
    cores: Mapping[int, KernelKind]
    written: frozenset[int]
    vector: bool = False
    inputs: Mapping[str, Any] = field(default_factory=dict)
    #: The numbers of the operations in the order of the text.
    orders: dict[int, int] = field(default_factory=dict)
    _facts: dict[int, OpFacts] = field(default_factory=dict)
    _meets: dict[int, bool] = field(default_factory=dict)
    _special: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _periods: dict[int, int] = field(default_factory=dict)
    _steady: dict[int, tuple[bool, ...]] = field(default_factory=dict)

    @cached_property
    def caches(self) -> bool:
        """Whether the scalar unit stores to global memory, through its cache."""
        return any(
            effects.traits_of(op).has("write", "global") and effects.pipe_of(op) == Pipe.S
            for op in self.resolved.program.walk()
        )

    def facts(self, op: Op) -> OpFacts:
        """What the text says of an operation."""
        facts = self._facts.get(id(op))
        if facts is None:
            kind, profile = self.cores.get(id(op)), self.resolved.profile
            name = kind.name.lower() if kind is not None else ""
            on = profile.name if profile is not None else "a2a3"
            facts = self._facts[id(op)] = facts_of(self.resolved.of(op), on, name, id(op) in self.written)
        return facts

    def __post_init__(self) -> None:
        self.orders = {id(op): i for i, op in enumerate(self.resolved.program.walk())}

    def meets(self, op: Op) -> bool:
        """Whether cores meet inside an operation."""
        if id(op) not in self._meets:
            self._meets[id(op)] = meet_inside(self.resolved.program, op)
        return self._meets[id(op)]

    def special(self, op: Op) -> tuple[int, ...]:
        """The numbers of a loop's counter around which something in its body changes."""
        numbers = self._special.get(id(op))
        if numbers is None:
            function = self._functions.get(id(op))
            numbers = () if function is None else special_trips(self.resolved, function, op)
            self._special[id(op)] = numbers
        return numbers

    @cached_property
    def _functions(self) -> dict[int, Function]:
        """The functions of operations with regions."""
        return {id(op): f for f in self.resolved.program.functions for op in f.walk() if op.regions}

    @cached_property
    def in_loops(self) -> frozenset[int]:
        """The operations, by identity, that loops repeat: in them, or in functions that are called there."""
        program = self.resolved.program
        left, found = [op for op in program.walk() if _may_repeat(op)], set[int]()
        while left:
            for op in left.pop().walk():
                callee = called(program, op) if id(op) not in found else None
                left += callee.body.ops if callee is not None else ()
                found.add(id(op))
        return frozenset(found)

    @cached_property
    def room(self) -> int:
        """The operations of all followed trips of a loop: fewer where there are many loops."""
        loops = sum(bool(op.regions) for op in self.resolved.program.walk())
        return min(SHORT, ALL_LOOPS // max(1, loops))

    @property
    def profile_name(self) -> ProfileName | None:
        """The profile that is judged for."""
        return self.resolved.profile.name if self.resolved.profile is not None else None

    @cached_property
    def paired(self) -> bool:
        """Whether numbers of flags between cores tell the vector cores apart."""
        return are_paired(self.resolved.program, self.profile_name)

    def period(self, loop: Op) -> int:
        """After how many trips flags and tiles by trip number repeat: by what a loop divides numbers."""
        period = self._periods.get(id(loop))
        if period is None:
            own = {v for op in loop.walk() for v in (*op.results, *(a for r in op.regions for a in r.args))}
            calls = any(effects.traits_of(op).calls for op in loop.walk())
            divisors = {2} | {d for v, d in self._divisors if calls or v in own}
            divisors |= set(self._turns(loop))
            period = self._periods[id(loop)] = _common_multiple(divisors)
        return period

    def steady(self, loop: Op) -> tuple[bool, ...]:
        """Of what a loop carries: whether every trip adds the same number to it."""
        steady = self._steady.get(id(loop))
        if steady is None:
            made = _producers(loop)
            steady = self._steady[id(loop)] = tuple(
                _adds(new, old, loop, made) for old, new in _carries(loop)
            )
        return steady

    def _turns(self, loop: Op) -> Iterator[int]:
        """After how many trips carried numbers may begin again: what they are compared with, and one more."""
        turning = [old for (old, _), adds in zip(_carries(loop), self.steady(loop), strict=True) if not adds]
        made = _producers(loop) if turning else {}
        for op in loop.regions[0].ops if turning else ():
            limit = self._number(op, op.ins[1]) if op.name.startswith("arith.cmpi") else None
            if limit is not None and any(_adds(op.ins[0], old, loop, made) for old in turning):
                yield from (n for n in (limit, limit + 1) if 1 < n <= LONGEST)

    @cached_property
    def _divisors(self) -> list[tuple[Value, int]]:
        """The numbers that are divided, each by what; of quotients by the product."""
        pairs = []
        for function in self.resolved.program.functions:
            made = {v: op for op in function.walk() for v in op.results}
            for op in function.walk():
                number = self._divisor(op)
                if number is not None:
                    behind = self._quotient(op.ins[0], made)
                    pairs += [(op.ins[0], number * n) for n in {1, behind} if 1 < number * n <= LONGEST]
        return pairs

    def _number(self, op: Op, value: Value) -> int | None:
        """The number of an operand that the text says."""
        function = self._of_two.get(id(op))
        number = None if function is None else self.resolved.facts(function).of(op).number(value)
        return number if isinstance(number, int) else None

    @cached_property
    def _of_two(self) -> dict[int, Function]:
        """The functions of operations of two operands."""
        return {id(op): f for f in self.resolved.program.functions for op in f.walk() if len(op.ins) == 2}

    def _divisor(self, op: Op) -> int | None:
        """By which number of the text an operation divides."""
        kind = next((k for k in _DIVIDES if op.name.startswith(k)), None)
        number = self._number(op, op.ins[1]) if kind is not None and len(op.ins) == 2 else None
        if number is None or number < 0:
            return None
        return {"arith.andi": number + 1, "arith.shr": 1 << min(number, LONGEST)}.get(kind or "", number)

    def _quotient(self, value: Value, made: Mapping[Value, Op], deep: int = _DEEP) -> int:
        """What a number has been divided by before."""
        op = made.get(value)
        if op is None or not deep or not op.name.startswith("arith."):
            return 1
        behind = max((self._quotient(v, made, deep - 1) for v in op.ins), default=1)
        is_quotient = op.name.startswith(_QUOTIENTS)
        return behind * (self._divisor(op) or 1) if is_quotient else behind


def _carries(loop: Op) -> Iterator[tuple[Value, Value]]:
    """What a loop carries at the beginning of a trip, and what it hands on."""
    body = loop.regions[0]
    yield from zip(body.args[1:], body.ops[-1].ins if body.ops else (), strict=False)


def _producers(loop: Op) -> Mapping[Value, Op]:
    """The operations of a loop's body by their results."""
    return {v: op for op in loop.regions[0].ops for v in op.results}


def _adds(value: Value, old: Value, loop: Op, made: Mapping[Value, Op]) -> bool:
    """Whether a number is another one of its trip, or that plus a number that is the same in all trips."""
    while value != old:
        op = made.get(value)
        if op is None or op.name not in ("arith.addi", "arith.subi", "arith.index_cast"):
            return False
        first, *others = op.ins
        if op.name == "arith.addi" and first != old and not _depends(made, first):
            first, others = others[0], [first]
        if any(_depends(made, v) or v in loop.regions[0].args for v in others):
            return False
        value = first
    return True


def _depends(made: Mapping[Value, Op], value: Value) -> bool:
    """Whether a number is computed in a trip; a constant is not."""
    return value in made and made[value].name != "arith.constant"


def _may_repeat(op: Op) -> bool:
    """Whether the regions of an operation are executed again and again, as those of loops."""
    regions = effects.traits_of(op).regions if op.regions else None
    return regions is not None and (regions.repeats or regions.runs == "graph")


def _common_multiple(divisors: set[int]) -> int:
    """The least common multiple of some numbers, as far as it is not too long."""
    multiple = 1
    for divisor in sorted(divisors):
        multiple = lcm(multiple, divisor) if lcm(multiple, divisor) <= LONGEST else multiple
    return multiple
