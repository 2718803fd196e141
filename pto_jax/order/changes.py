"""Two versions of a program that differ in their synchronisation: which order is lost, which is gained.

Both are followed with the same assumed numbers. What a version orders is reduced to its immediate edges: an
operation of one pipe, and the first one of another pipe that begins after it. How a version spells an edge
(flags, their numbers, barriers) has no effect; an edge that stands in other operations, too, is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

from ..analysis.resolve import ResolvedProgram
from ..analysis.roots import roots
from ..ir import Function, Op, Pipe, Program, TileType
from ..isa import effects
from . import findings
from .clocks import Issued, Moment, Trace
from .findings import Finding
from .judge import courses, judged_program
from .judged import Judged
from .walk import CourseRun

#: Of a lost edge: two operations race without it, or none do. Of a gained one: it orders two operations that
#: raced, or nothing needs it.
Effect: TypeAlias = Literal["race now", "redundant", "race before", "stricter"]


class End(NamedTuple):
    """An operation at the end of an edge, with its lines in both versions (0: not known)."""

    operation: str
    pipe: str
    core: str
    old_line: int
    new_line: int

    def __str__(self) -> str:
        return f"{self.operation} (line {self.old_line}, now {self.new_line}) on {self.pipe}"

    def as_json(self) -> dict[str, object]:
        """The fields for JSON."""
        return self._asdict() if self.core else {k: v for k, v in self._asdict().items() if k != "core"}


@dataclass(frozen=True)
class Edge:
    """Order between two operations that only one version has; ``count`` of ``times`` executions miss it."""

    change: Literal["lost", "gained"]
    effect: Effect
    first: End
    second: End
    carried: bool
    count: int
    times: int
    races: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        cores = [f" of core {end.core or 'main'}" for end in (self.first, self.second)]
        if self.first.core == self.second.core:
            cores = ["", ""]
        carried = ", from an earlier pass of the loop" if self.carried else ""
        often = f" ({self.count} of {self.times} times)" if self.count < self.times else ""
        text = f"{self.change}: {self.first}{cores[0]} before {self.second}{cores[1]}{carried}{often}"
        text += f": {self.effect}"
        for race in self.races[:1]:
            more = f"\n  and {len(self.races) - 1} more races" if len(self.races) > 1 else ""
            text += f"\n  {race.diagnostic.render()}\n  missing: {race.missing}{more}"
        return text

    def as_json(self) -> dict[str, object]:
        """The edge for JSON."""
        return {
            "change": self.change,
            "effect": self.effect,
            "first": self.first.as_json(),
            "second": self.second.as_json(),
            "loop_carried": self.carried,
            "count": self.count,
            "times": self.times,
            "races": [race.as_json() for race in self.races],
        }


@dataclass
class Changes:
    """What two versions of a program order differently.

    ``findings`` are those that only the new version has. ``operations`` has how many operations of each kind
    synchronise, old and new; ``apart`` how many instructions only one of them has.
    """

    edges: list[Edge] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    operations: dict[str, tuple[int, int]] = field(default_factory=dict)
    apart: tuple[int, int] = (0, 0)

    def effects(self) -> Counter[tuple[str, str]]:
        """How many edges there are of each change and effect."""
        return Counter((edge.change, edge.effect) for edge in self.edges)

    def as_json(self) -> dict[str, object]:
        """The changes for JSON."""
        return {
            "edges": [edge.as_json() for edge in self.edges],
            "findings": [finding.as_json() for finding in self.findings],
            "operations": {name: list(count) for name, count in self.operations.items()},
            "only_old": self.apart[0],
            "only_new": self.apart[1],
        }


# -- the same instructions -------------------------------------------------------------------------------


def synchronises(op: Op) -> bool:
    """Whether an operation does nothing but order others."""
    order = effects.traits_of(op).order
    return order is not None and order.through not in ("signal", "transfer")


def _instructions(function: Function) -> list[Op]:
    return [op for op in function.walk() if not op.regions and not synchronises(op) and _uses(op)]


def _uses(op: Op) -> bool:
    traits = effects.traits_of(op)
    return bool(traits.effects) or traits.fifo is not None


def _signature(op: Op) -> tuple[object, ...]:
    tiles = [v.type for v in (*op.ins, *op.destinations) if isinstance(v.type, TileType)]
    return op.name, *((t.loc, t.dtype, t.rows, t.cols) for t in tiles)


def _pairs(old: Program, new: Program) -> list[tuple[Function, Function]]:
    """Functions of the same name; the only ones of both whatever their names."""
    by_name = {f.name: f for f in new.functions if not f.external}
    mine = [f for f in old.functions if not f.external]
    if len(mine) == len(by_name) == 1:
        return [(mine[0], next(iter(by_name.values())))]
    return [(f, by_name[f.name]) for f in mine if f.name in by_name]


class _Same:
    """Numbers of instructions, alike for the same one of both versions."""

    def __init__(self, pairs: Sequence[tuple[Function, Function]]) -> None:
        self.old: dict[int, int] = {}
        self.new: dict[int, int] = {}
        self.ops: dict[int, tuple[Op | None, Op | None]] = {}
        for one, two in pairs:
            self._align(_instructions(one), _instructions(two))

    def _align(self, old: list[Op], new: list[Op]) -> None:
        matcher = SequenceMatcher(
            None, [_signature(op) for op in old], [_signature(op) for op in new], autojunk=False
        )
        for tag, i, end, j, other in matcher.get_opcodes():
            if tag == "equal":
                for one, two in zip(old[i:end], new[j:other], strict=True):
                    self._add(one, two)
            else:
                for op in old[i:end]:
                    self._add(op, None)
                for op in new[j:other]:
                    self._add(None, op)

    def _add(self, one: Op | None, two: Op | None) -> None:
        number = len(self.ops)
        self.ops[number] = one, two
        if one is not None:
            self.old[id(one)] = number
        if two is not None:
            self.new[id(two)] = number

    @property
    def apart(self) -> tuple[int, int]:
        """How many instructions only the old version has, and only the new one."""
        return sum(b is None for _, b in self.ops.values()), sum(a is None for a, _ in self.ops.values())

    def end(self, at: Instance) -> End:
        """An instruction as the end of an edge."""
        ops = self.ops[at.number]
        lines = [op.span.line if op is not None and op.span is not None else 0 for op in ops]
        name = next(op.name for op in ops if op is not None)
        return End(name, f"PIPE_{at.pipe.name}", at.core, *lines)


# -- executions ------------------------------------------------------------------------------------------


class Instance(NamedTuple):
    """One execution of an instruction on a pipe, alike in both versions."""

    number: int
    core: str
    pipe: Pipe
    time: int


class _Execution:
    """A course over one version: what was complete before each instance."""

    def __init__(self, run: CourseRun, numbers: Mapping[int, int]) -> None:
        self.run, trace = run, run.clocks.trace or Trace()
        self.steps: dict[Instance, Issued] = {}
        self.at: dict[Moment, Instance] = {}
        self.vector = run.clocks.vector
        times: Counter[tuple[int, str, Pipe]] = Counter()
        for step in trace.issued:
            number = numbers.get(id(step.op))
            if number is not None:
                # Cores that do not meet are followed as one, whose vector sections name no core.
                core = "vector0" if step.core == "vector" else step.core
                key = number, core, step.pipe
                self.at[step.moment] = instance = Instance(*key, times[key])
                self.steps[instance] = step
                times[key] += 1
        self.clashes = list(
            dict.fromkeys(
                (self.at[one], self.at[two])
                for one, two in trace.clashes
                if one in self.at and two in self.at
            )
        )

    def knows(self, *instances: Instance) -> bool:
        """Whether this version executes these instances."""
        return all(i in self.steps for i in instances)

    def orders(self, one: Instance, two: Instance) -> bool:
        """Whether an instance is complete before another one begins."""
        (agent, epoch), step = self.steps[one].moment, self.steps[two]
        if agent == step.moment[0] and not (self.vector and one.pipe == Pipe.V):
            return epoch < step.moment[1]
        return agent < len(step.before) and step.before[agent] >= epoch

    def reaches(self, one: Instance, two: Instance) -> bool:
        """Whether an instance is another one, or comes before it on its pipe or by order between pipes."""
        if (one.core, one.pipe) == (two.core, two.pipe):
            return self.steps[one].moment <= self.steps[two].moment
        return self.orders(one, two)

    def edges(self) -> Iterator[tuple[Instance, Instance]]:
        """The immediate edges: what an instance waits for that none before it on its pipe has waited for."""
        clocks: dict[int, list[int]] = {}
        for step in self.steps.values():
            agent = step.moment[0]
            before = clocks.get(agent, [])
            if before != step.before:
                for moment in self._raised(step, before):
                    if moment in self.at:
                        yield self.at[moment], self.at[step.moment]
                clocks[agent] = step.before

    def _raised(self, step: Issued, before: Sequence[int]) -> Iterator[Moment]:
        own = None if self.vector and step.pipe == Pipe.V else step.moment[0]
        raised = [
            (agent, epoch)
            for agent, epoch in enumerate(step.before)
            if agent != own and epoch > (before[agent] if agent < len(before) else 0)
        ]
        clocks = [self.steps[self.at[m]].before for m in raised if m in self.at]
        for agent, epoch in raised:
            if not any(agent < len(clock) and clock[agent] >= epoch for clock in clocks):
                yield agent, epoch


# -- comparison ------------------------------------------------------------------------------------------

#: The static edge of instances: both instructions with their cores and pipes.
_Static: TypeAlias = "tuple[tuple[int, str, Pipe], tuple[int, str, Pipe]]"


class _Found(NamedTuple):
    """A static edge that a version lacks: its first instance, how often, and the clashes that it ordered."""

    one: Instance
    two: Instance
    often: list[int]
    clashes: dict[tuple[Instance, Instance], None]


def compare(old: ResolvedProgram, new: ResolvedProgram, *, vector: bool = False) -> Changes:
    """What two versions of a program order differently, both as they are written.

    ``vector``: dependent operations of the vector pipe need a barrier between them, too.
    """
    pairs = _pairs(old.program, new.program)
    same = _Same(pairs)
    both = judged_program(old, vector=vector), judged_program(new, vector=vector)
    changes = Changes(apart=same.apart, operations=_operations(old.program, new.program))
    tops = {f.name for f in roots(old.program)}
    for one, two in pairs:
        if one.name in tops:
            _compare(both, (one, two), same, changes)
    return changes


def _operations(old: Program, new: Program) -> dict[str, tuple[int, int]]:
    counts = [Counter(op.name for op in p.walk() if synchronises(op)) for p in (old, new)]
    return {name: (counts[0][name], counts[1][name]) for name in sorted(counts[0] | counts[1])}


def _compare(
    both: tuple[Judged, Judged], pair: tuple[Function, Function], same: _Same, changes: Changes
) -> None:
    """Follow both versions of a function with the same numbers, and add what they order differently."""
    assumed = [courses(judged, function) for judged, function in zip(both, pair, strict=True)]
    lost: dict[_Static, _Found] = {}
    gained: dict[_Static, _Found] = {}
    times: tuple[Counter[_Static], Counter[_Static]] = (Counter(), Counter())
    for course in dict.fromkeys(run.course for runs in assumed for run in runs):
        old, new = (
            _Execution(CourseRun(judged, course, Trace()).run(function), numbers)
            for judged, function, numbers in zip(both, pair, (same.old, same.new), strict=True)
        )
        _missing(old, new, lost, times[0])
        _missing(new, old, gained, times[1])
    found = [list(findings.races(j, runs)) for j, runs in zip(both, assumed, strict=True)]
    for change, missing, seen, races, numbers in (
        ("lost", lost, times[0], found[1], same.new),
        ("gained", gained, times[1], found[0], same.old),
    ):
        for static, entry in sorted(missing.items(), key=lambda item: (item[0][1][0], item[0][0][0])):
            of = tuple(_races(entry, races, numbers))
            effect: Effect
            if change == "lost":
                effect = "race now" if entry.clashes else "redundant"
            else:
                effect = "race before" if entry.clashes else "stricter"
            carried = entry.one.number >= entry.two.number
            ends = same.end(entry.one), same.end(entry.two)
            changes.edges.append(
                Edge(change, effect, *ends, carried, entry.often[0], seen[static], of)  # type: ignore[arg-type]
            )
    tokens = [list(findings.tokens(j, f, r)) for j, f, r in zip(both, pair, assumed, strict=True)]
    counts = Counter(_named(f, same.old) for f in (*found[0], *tokens[0]))
    for finding in (*found[1], *tokens[1]):
        counts[_named(finding, same.new)] -= 1
        if counts[_named(finding, same.new)] < 0:
            changes.findings.append(finding)


def _missing(
    one: _Execution, other: _Execution, listed: dict[_Static, _Found], times: Counter[_Static]
) -> None:
    """The immediate edges of an execution that another one does not order."""
    clashes = [c for c in other.clashes if one.knows(*c) and one.orders(*c)]
    for first, second in one.edges():
        static = first[:3], second[:3]
        times[static] += 1
        if not other.knows(first, second) or other.orders(first, second):
            continue
        entry = listed.setdefault(static, _Found(first, second, [0], {}))
        entry.often[0] += 1
        for x, y in clashes:
            if one.reaches(x, first) and one.reaches(second, y):
                entry.clashes[x, y] = None


def _races(entry: _Found, races: Sequence[Finding], numbers: Mapping[int, int]) -> list[Finding]:
    """The findings about the clashes of an edge, first those between its own instructions and pipes."""
    clashes = {(x.number, y.number, f"PIPE_{x.pipe.name}", f"PIPE_{y.pipe.name}") for x, y in entry.clashes}
    one, two = entry.one, entry.two
    own = one.number, two.number, f"PIPE_{one.pipe.name}", f"PIPE_{two.pipe.name}"
    texts = []
    for race in races:
        if race.second is not None and len(race.ops) == 2:
            first, second = (numbers.get(id(op), -1) for op in race.ops)
            key = first, second, race.first.pipe, race.second.pipe
            if key in clashes:
                texts.append((key != own, key[2:] != own[2:], race))
    return [race for *_, race in sorted(texts, key=lambda entry: entry[:2])]


def _named(finding: Finding, numbers: Mapping[int, int]) -> tuple[object, ...]:
    """What findings of both versions have in common: instructions, and the kinds of other operations."""
    ops = tuple(numbers.get(id(op), op.name) for op in finding.ops)
    pipes = finding.first.pipe, finding.second.pipe if finding.second is not None else ""
    return finding.kind, ops, pipes, finding.missing if finding.kind != "race" else ""
