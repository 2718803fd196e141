"""What the courses over a program share: the operations that the text has to order, and their cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import lcm
from typing import Any

from ..analysis.resolve import ResolvedProgram
from ..interpreter.cores import meet_inside
from ..ir import Function, KernelKind, Op, Pipe, Value
from ..isa import effects
from .guided import special_trips
from .operations import Known, known

#: The arguments by which a program asks which block, of how many, and which vector core it is.
BLOCK, BLOCKS, SUBBLOCK = (f"__pypto_spmd_{name}" for name in ("block_idx", "block_num", "subblock_idx"))
#: The longest period of trips that is looked for.
LONGEST = 24
#: Operations up to which all trips of a loop are followed, and those that all loops share.
SHORT, ALL_LOOPS = 600, 24_000
#: Numbers of flags between cores from here on are those of the second vector core.
SECOND = 16


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
    _known: dict[int, Known] = field(default_factory=dict)
    _meets: dict[int, bool] = field(default_factory=dict)
    _special: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _periods: dict[int, int] = field(default_factory=dict)

    @cached_property
    def caches(self) -> bool:
        """Whether the scalar unit stores to global memory, through its cache."""
        return any(
            effects.traits_of(op).has("write", "global") and effects.pipe_of(op) == Pipe.S
            for op in self.resolved.program.walk()
        )

    def known(self, op: Op) -> Known:
        """What the text says of an operation."""
        facts = self._known.get(id(op))
        if facts is None:
            kind, profile = self.cores.get(id(op)), self.resolved.profile
            name = kind.name.lower() if kind is not None else ""
            on = profile.name if profile is not None else "a2a3"
            facts = self._known[id(op)] = known(self.resolved.of(op), on, name, id(op) in self.written)
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
    def room(self) -> int:
        """The operations of all followed trips of a loop: fewer where there are many loops."""
        loops = sum(bool(op.regions) for op in self.resolved.program.walk())
        return min(SHORT, ALL_LOOPS // max(1, loops))

    @cached_property
    def paired(self) -> bool:
        """Whether numbers of flags between cores tell the vector cores apart."""
        core = (
            op
            for op in self.resolved.program.walk()
            if (o := effects.traits_of(op).order) and o.through == "core"
        )
        numbers = (op.attrs.get("event") for op in core)
        return any(isinstance(n, int) and n >= SECOND for n in numbers)

    def period(self, loop: Op) -> int:
        """After how many trips flags and tiles by trip number repeat: by what a loop divides numbers."""
        period = self._periods.get(id(loop))
        if period is None:
            own = {v for op in loop.walk() for v in (*op.results, *(a for r in op.regions for a in r.args))}
            calls = any(effects.traits_of(op).calls for op in loop.walk())
            divisors = {2} | {d for v, d in self._divisors if calls or v in own}
            period = self._periods[id(loop)] = _common_multiple(divisors)
        return period

    @cached_property
    def _divisors(self) -> list[tuple[Value, int]]:
        """The numbers that are divided, each by what."""
        pairs = []
        for function in self.resolved.program.functions:
            facts = self.resolved.facts(function)
            for op in function.walk():
                if op.name.startswith(("arith.rem", "arith.andi", "arith.div")) and len(op.ins) == 2:
                    number = facts.of(op).number(op.ins[1])
                    if isinstance(number, int) and 1 < number <= LONGEST:
                        pairs.append((op.ins[0], number + 1 if op.name == "arith.andi" else number))
        return pairs


def _common_multiple(divisors: set[int]) -> int:
    """The least common multiple of some numbers, as far as it is not too long."""
    multiple = 1
    for divisor in sorted(divisors):
        multiple = lcm(multiple, divisor) if lcm(multiple, divisor) <= LONGEST else multiple
    return multiple
