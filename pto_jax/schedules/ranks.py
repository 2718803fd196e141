"""The verdict on an execution of several ranks: one result for every order, or the pairs that decide it.

The reference interpreter executes the ranks once and keeps what every operation used and ordered. Clocks over
all pipes of all cores then say what happens before what, as far as signals, fences and the ends of kernels
say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from .. import ir, order
from ..analysis.resolve import resolve
from ..errors import Diagnostic
from ..interpreter import Interpreter, Operand, Pointer, Scalar, Scope, Steps, TileRef, View
from ..interpreter.communication import Copy
from ..interpreter.cores import Block, Core
from ..interpreter.interleaving import name_of
from ..interpreter.operands import LocalPointer
from ..interpreter.rank_calls import Part, RankCall
from ..interpreter.ranks import Cell, Watch, part
from ..ir import AtomicType, Loc, Op, Pipe, WaitCmp
from ..isa import effects
from ..oracle.machine import ReferenceMachine
from ..oracle.storage import Place as Bytes, Window
from ..order import rank_clocks
from ..order.clocks import Clock, Race, Use
from ..order.judged import Judged
from ..order.rank_clocks import Notify, RankClocks, Waited
from ..order.regions import Region, Space, Storage, tile_region, view_region
from ..order.signals import Signals, Turn

#: What a finding is: two uses that nothing orders, a write that others may not see yet, an order that decides
#: bits though it is no race, a wait that may have no end.
Kind = Literal["race", "visibility", "schedule", "deadlock"]


@dataclass(frozen=True)
class RankFinding:
    """Two operations, mostly of two ranks, whose order decides the result: where, why, and how often."""

    kind: Kind
    first: Op
    second: Op
    reason: str
    count: int = 1

    @property
    def diagnostic(self) -> Diagnostic:
        """The finding as a warning at its second operation."""
        return Diagnostic("warning", self.reason, self.second.span, self.second.name, rule="ranks")

    def as_json(self) -> dict[str, object]:
        """The finding for JSON."""
        places = {"first": _placed(self.first), "second": _placed(self.second)}
        return {"kind": self.kind, **places, "reason": self.reason, "count": self.count}

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{_placed(self.first)} and {_placed(self.second)}: {self.kind}: {self.reason}{times}"


def _placed(op: Op) -> str:
    return f"{op.span or '<program>'} {op.name}"


@dataclass(frozen=True)
class RankReport:
    """The verdict on an execution on several ranks: no finding says that every order has its result."""

    findings: tuple[RankFinding, ...] = ()
    mode: str = "inserted"
    witness: str = ""

    @property
    def exact(self) -> bool:
        """Whether every order of the ranks gives the same result."""
        return not self.findings

    def __str__(self) -> str:
        shown = [f"schedule-dependent: {finding}" for finding in self.findings]
        if self.exact:
            shown = [f"exact: every order of the ranks gives this result ({self.mode})"]
        return "\n".join([*shown, *([f"  witness: {self.witness}"] if self.witness else [])])


# -- recording -------------------------------------------------------------------------------------------


class Recorder(ReferenceMachine):
    """Keeps the elements of global memory that the scalar unit uses."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.touched: list[tuple[bool, Pointer]] = []

    def load(self, op: Op, pointer: Pointer | LocalPointer, dtype: ir.DType) -> Scalar:
        """Note the place."""
        if isinstance(pointer, Pointer):
            self.touched.append((False, pointer))
        return super().load(op, pointer, dtype)

    def store(self, op: Op, pointer: Pointer | LocalPointer, value: Scalar) -> None:
        """Note the place."""
        if isinstance(pointer, Pointer):
            self.touched.append((True, pointer))
        super().store(op, pointer, value)


@dataclass(frozen=True)
class _Named(Core):
    """A core of a rank under its full name."""

    full: str = ""

    @property
    def name(self) -> str:
        """The name."""
        return self.full


@dataclass(eq=False)
class Record(Watch):
    """What an execution did, in its order: functions that tell clocks about it."""

    judged: dict[int, Judged]
    events: list[Callable[[_Replay], object]] = field(default_factory=list)
    #: The core that executes, the machine, and what cells of signals were at first.
    current: str = ""
    machine: Any = None
    initial: dict[Cell, int] = field(default_factory=dict)

    _used: dict[int, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The looks at signals that a loop repeats until the answer is yes, and does nothing else."""
        functions = [f for judged in self.judged.values() for f in judged.resolved.program.functions]
        return frozenset(id(look) for f in functions for look in _repeated(f))

    def used(self, program: ir.Program) -> frozenset[str]:
        """The names of values that some operation of a program takes."""
        if id(program) not in self._used:
            self._used[id(program)] = frozenset(v.name for op in program.walk() for v in op.ins)
        return self._used[id(program)]

    def cell(self, place: Pointer) -> Cell:
        """The cell of a signal."""
        cell = Cell(str(place.buffer), int(place.offset))
        if cell not in self.initial:
            self.initial[cell] = int(self.machine.buffers[cell.buffer].view(np.int32)[cell.offset])
        return cell

    def notified(self, rank: int, op: Op, place: Pointer, value: Scalar, *, adds: bool) -> None:
        """A signal is about to change."""
        cell, core, number = self.cell(place), self.current, int(value)
        self.events.append(lambda r: r.enter(rank, core).notify(op, core, cell, number, adds))

    def waited(self, rank: int, op: Op, places: Sequence[Pointer], compared: WaitCmp, value: Scalar) -> None:
        """A wait has come to its end."""
        cells, core, number = tuple(map(self.cell, places)), self.current, int(value)
        self.events.append(lambda r: r.enter(rank, core).wait(op, core, cells, compared, number))

    def tested(
        self,
        rank: int,
        op: Op,
        places: Sequence[Pointer],
        compared: WaitCmp,
        value: Scalar,
        *,
        answer: bool,
    ) -> None:
        """A look at a signal has its answer: after a yes the core goes on as behind a wait."""
        cells, core, number = tuple(map(self.cell, places)), self.current, int(value)
        waits = id(op) in self.repeated
        if not waits:
            self.events.append(lambda r: r.enter(rank, core).look(op, core, cells))
        if answer:
            self.events.append(
                lambda r: r.enter(rank, core).wait(op, core, cells, compared, number, sure=waits)
            )

    def interpreter(self, program: ir.Program, machine: Any, core: Core, shared: Block) -> Interpreter:
        """What executes the operations of a core and notes them."""
        return _Walk(self, program, machine, core, shared)

    def ended(self, rank: int) -> None:
        """A kernel has ended: what its cores have written is there for everybody."""
        self.events.append(lambda replay: replay.end(rank))

    def met(self) -> None:
        """All ranks have met."""
        self.events.append(lambda replay: replay.meet())


def _repeated(function: ir.Function) -> Iterator[Op]:
    """The one operation of each while loop that has an effect, and ends the loop where its result is true."""
    true = {op.results[0].name for op in function.walk() if op.attrs.get("value") is True}
    for op in function.walk():
        regions = effects.traits_of(op).regions
        if regions is None or regions.runs != "while" or op.ins:
            continue
        *before, end = op.regions[0].ops
        acts = [o for o in (*before, *op.regions[1].ops[:-1]) if not _is_pure(o)]
        negated = [o for o in before if o.name == "arith.xori" and o.results[0] == end.ins[0]]
        if len(acts) == 1 == len(negated) and acts[0] in before and acts[0].results:
            values = {v.name for v in negated[0].ins} - true
            if values == {acts[0].results[0].name}:
                yield acts[0]


def _is_pure(op: Op) -> bool:
    traits = effects.traits_of(op)
    return not (op.regions or traits.calls or traits.effects or traits.order or traits.fifo)


class _Walk(Interpreter):
    def __init__(
        self, record: Record, program: ir.Program, machine: Recorder, core: Core, shared: Block
    ) -> None:
        super().__init__(program, machine, core, shared)
        record.machine = machine
        self.record, self.recorder = record, machine
        self.full = name_of(shared.rank, int(shared.number), core)

    def step(self, op: Op, scope: Scope) -> Steps[None]:
        """Execute one operation, and note it behind its waits."""
        traits = effects.traits_of(op)
        self.recorder.touched.clear()
        if op.regions or traits.calls:
            yield from super().step(op, scope)
            return
        values = {v.name: scope.find(v) for v in (*op.ins, *op.outs)}
        steps, core = super().step(op, scope), self.core_of(op)
        while True:
            self.record.current = core
            try:
                waiting = next(steps)
            except StopIteration:
                break
            yield waiting
            self.recorder.touched.clear()
        self.note(op, scope, values)

    def core_of(self, op: Op) -> str:
        """The core that executes an operation: the one that runs, or the one that the text says."""
        kind = None if self.core.kind is not None else self.kinds.get(id(op))
        return self.full if kind is None else f"{self.full} {kind.name.lower()}"

    def note(self, op: Op, scope: Scope, values: Mapping[str, Operand]) -> None:
        """Note what an operation has done."""
        traits, core, rank = effects.traits_of(op), self.core_of(op), self.shared.rank
        judged = self.record.judged[id(self.program)]
        add = self.record.events.append
        names = Scope()
        for value in (*op.ins, *op.outs, *op.results):
            names.bind(value, scope.find(value))
        through = traits.order.through if traits.order is not None else ""
        if traits.order is not None and through not in ("signal", "transfer"):
            turn = self.turn(core)
            add(lambda r: r.enter(rank, core).order(judged, turn, op, names, core))
            return
        if traits.fifo in ("push", "pop", "free", "allocate"):
            turn, steps = self.turn(core), self.phases(op, judged)
            add(lambda r: r.enter(rank, core).signals_of(judged).fifo(turn, op, names, core, steps))
        if through == "signal" or self.reading.of(op).values.get("signal") is not None:
            return  # the watch has noted it
        if isinstance(copy := next(iter(names.names().values()), None), Copy) and copy.op is not op:
            if traits.order is None and op.results[0].name not in self.record.used(self.program):
                return  # nobody looks at the answer, which may be no
            asks = traits.order is None
            add(lambda r: r.enter(rank, core).complete(core, copy, op if asks else None))
            return
        written = id(op) in judged.written
        phases = [(p, list(self.uses(op, scope, values, p, core, written))) for p in self.phases(op, judged)]
        own = scope.find(op.results[0]) if op.results else None
        if isinstance(own, Copy) and own.op is op:
            add(lambda r: r.enter(rank, core).start(core, own, [u for _, us in phases for u in us]))
            return
        # What nobody looks at decides nothing, as the first word of a buffer that only names it.
        idle = op.results and not any(v.name in self.record.used(self.program) for v in op.results)
        elements = [] if idle else list(self.elements(op, core, written))
        read = [p for write, p in self.recorder.touched if not (write or idle) and p.dtype.storage_bits == 32]
        cells = tuple(Cell(str(p.buffer), int(p.offset)) for p in read)
        if elements or any(uses for _, uses in phases):
            add(lambda r: r.enter(rank, core).execute(judged, op, core, phases, elements))
        if cells:
            add(lambda r: r.enter(rank, core).look(op, core, cells))

    def turn(self, core: str) -> Turn:
        """What signals between cores see: the cores of the block under their full names."""
        shared, own = self.shared, self.core
        cores = tuple(
            _Named(c.kind, c.subblock, name_of(shared.rank, int(shared.number), c)) for c in shared.cores
        )
        return Turn(_Named(own.kind, own.subblock, core), replace(shared, cores=cores), self.region)

    def phases(self, op: Op, judged: Judged) -> Sequence[Any]:
        """The steps of an instruction on its pipes."""
        resolved, profile = self.reading.of(op), judged.resolved.profile
        attrs = resolved.bound.attrs if resolved.bound is not None else op.attrs
        return effects.phases_of(op, resolved.values, attrs, profile.name if profile is not None else "a2a3")

    def uses(
        self, op: Op, scope: Scope, values: Mapping[str, Operand], phase: Any, core: str, written: bool
    ) -> Iterator[Use]:
        """The bytes that an operation reads and writes in a step."""
        resolved = self.reading.of(op)
        indexed = {e.operand for e in effects.traits_of(op).effects if e.indexed and e.resource == "global"}
        for write, names in ((False, phase.reads), (True, phase.writes)):
            for name in names:
                value = resolved.values.get(name)
                if value is None or name in indexed:
                    continue
                for one in (op.group(name) if op.groups else ()) or (value,):
                    operand = values.get(one.name)
                    region = self.region(scope.find(one) if operand is None else operand)
                    if region is not None:
                        yield Use(op, core, phase.pipe, str(one), write, region, written)

    def elements(self, op: Op, core: str, written: bool) -> Iterator[Use]:
        """The elements of global memory that the scalar unit has used, and the lines that it has written."""
        for write, pointer in self.recorder.touched:
            view = View(pointer.buffer, pointer.dtype, pointer.offset, (1,), (1,))
            region = self.region(view)
            if region is not None:
                yield Use(op, core, Pipe.S, f"%{pointer.buffer}", write, region, written)

    def region(self, operand: Operand) -> Region | None:
        """The bytes of a handle or view."""
        if isinstance(operand, View):
            numbers = [int(operand.offset), *map(int, operand.shape), *map(int, operand.strides)]
            return view_region(operand, iter(numbers))
        if not isinstance(operand, TileRef):
            return None
        ref, row, col, whole = operand, 0, 0, None
        while isinstance(ref.storage, Window):
            row, col = row + ref.storage.row, col + ref.storage.col
            ref = ref.storage.tile
            whole = ref.type
        if not isinstance(ref.storage, Bytes):
            return None
        space = Space(operand.type.loc, self.full, id(ref.storage.buffer))
        held = replace(operand, storage=Storage(space, ref.storage.address, whole, row, col))
        return tile_region(held, (int(operand.v_row), int(operand.v_col)))


# -- judging ---------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Replay:
    """The clocks over what an execution did; ``joins`` are those that waits come after, if known."""

    initial: Mapping[Cell, int]
    vector: bool
    joins: Mapping[int, Clock] | None = None
    clocks: RankClocks = field(init=False)
    notifies: dict[Cell, list[Notify]] = field(default_factory=dict)
    waits: list[Waited] = field(default_factory=list)
    looks: list[Waited] = field(default_factory=list)
    #: The asynchronous copies of cores in their order.
    copies: dict[str, list[Copy]] = field(default_factory=dict)
    #: Copies with the operations that have asked whether they are over.
    asked: list[tuple[Op, Op]] = field(default_factory=list)
    cores: dict[int, list[str]] = field(default_factory=dict)
    #: The cores that use each buffer of global memory.
    users: dict[object, set[str]] = field(default_factory=dict)
    ends: dict[int, Clock] = field(default_factory=dict)
    met: Clock = field(default_factory=list)
    _signals: dict[int, Signals] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clocks = RankClocks(self.vector)

    def enter(self, rank: int, core: str) -> _Replay:
        """A core of a rank executes: at first behind what the rank has executed before."""
        if core not in self.cores.setdefault(rank, []):
            self.cores[rank].append(core)
            self.clocks.wait(core, Pipe.ALL, self.ends.get(rank, self.met))
        return self

    def end(self, rank: int) -> None:
        """A kernel of a rank is over, and all it has written is there."""
        for core in self.cores.get(rank, ()):
            self.clocks.barrier(core, Pipe.ALL)
            self.clocks.publish(core)
            self.clocks.write_back(core)
        self._join([rank], self.cores.get(rank, ()))

    def meet(self) -> None:
        """All ranks meet."""
        self._join(list(self.cores), [core for cores in self.cores.values() for core in cores])
        self.met = next(iter(self.ends.values()), [])

    def _join(self, ranks: Sequence[int], cores: Sequence[str]) -> None:
        clock: Clock = []
        for core in cores:
            clock = joined(clock, self.clocks.complete(core, Pipe.ALL))
        for rank in ranks:
            self.ends[rank] = clock
            for core in self.cores.get(rank, ()):
                self.clocks.wait(core, Pipe.ALL, clock)

    def signals_of(self, judged: Judged) -> Signals:
        """The flags and events of a program's cores."""
        return self._signals.setdefault(id(judged), Signals(self.clocks, judged))

    def order(self, judged: Judged, turn: Turn, op: Op, scope: Scope, core: str) -> None:
        """An operation orders others."""
        self.signals_of(judged).order(turn, op, scope, core)

    def execute(
        self, judged: Judged, op: Op, core: str, phases: Sequence[tuple[Any, list[Use]]], elements: list[Use]
    ) -> None:
        """An operation uses bytes, step by step."""
        before: Pipe | None = None
        for phase, uses in phases:
            if before is not None:
                self.signals_of(judged).hand_over(op, core, before, phase)
            before = phase.pipe
            if uses:
                self._execute(uses)
        if elements:
            self._execute(elements)

    def _execute(self, uses: list[Use]) -> None:
        for use in uses:
            if use.region.space.loc is None:
                self.users.setdefault(use.region.space.root, set()).add(use.core)
        self.clocks.execute([*uses, *_lines(uses)])

    def _agent(self, core: str, copy: Copy) -> str:
        """The name of a copy as an agent: its number among those of its core."""
        own = self.copies.setdefault(core, [])
        number = next((i for i, other in enumerate(own) if other is copy), len(own))
        own += [copy] * (number == len(own))
        return f"{core}, copy {number + 1}"

    def start(self, core: str, copy: Copy, uses: list[Use]) -> None:
        """An asynchronous copy starts: an agent of its own."""
        agent = self._agent(core, copy)
        self.clocks.wait(agent, Pipe.ALL, self.clocks.before(core, Pipe.S))
        if copy.earlier is not None:
            done = self.clocks.complete(self._agent(core, copy.earlier), Pipe.ALL)
            self.clocks.wait(agent, Pipe.ALL, done)
        self._execute([use._replace(core=agent, pipe=Pipe.MTE3) for use in uses])

    def complete(self, core: str, copy: Copy, asking: Op | None = None) -> None:
        """An asynchronous copy is complete for the core that has waited for it, or has asked."""
        agent = self.clocks.agent(self._agent(core, copy), Pipe.MTE3)
        if asking is not None and self.clocks.before(core, Pipe.S)[agent] < self.clocks.issued(agent):
            self.asked.append((copy.op, asking))
        self.clocks.wait(core, Pipe.ALL, self.clocks.complete(self._agent(core, copy), Pipe.ALL))

    def notify(self, op: Op, core: str, cell: Cell, value: int, adds: bool) -> None:
        """A signal changes: it hands over what the scalar unit has waited for."""
        region = Region(Space(None, "", cell.buffer), 4 * cell.offset, 4)
        self.clocks.announce(Use(op, core, Pipe.S, cell.buffer, True, region))
        epoch = self.clocks.issue(core, Pipe.S)
        agent, clock = self.clocks.agent(core, Pipe.S), self.clocks.before(core, Pipe.S)
        clock[agent] = epoch
        listed = self.notifies.setdefault(cell, [])
        listed.append(Notify(op, core, cell, value, adds, agent, epoch, clock))
        self.clocks.barrier(core, Pipe.ALL)

    def wait(
        self,
        op: Op,
        core: str,
        cells: tuple[Cell, ...],
        compared: WaitCmp,
        value: int,
        *,
        sure: bool = True,
    ) -> None:
        """A wait ends: what follows comes after what it has acquired.

        One that is not ``sure`` would have gone on with another answer.
        """
        epoch, number = self.clocks.issue(core, Pipe.S), len(self.waits)
        if self.joins is None:
            found: Clock = []
            for m in (m for cell in cells for m in self.notifies.get(cell, ())):
                found = joined(found, m.clock)
        else:
            found = self.joins[number]
        before = self.clocks.before(core, Pipe.S)
        self.clocks.wait(core, Pipe.S, found)
        clock = self.clocks.before(core, Pipe.S)
        agent = self.clocks.agent(core, Pipe.S)
        self.waits.append(Waited(op, core, cells, compared, value, agent, epoch, clock, before, sure))

    def look(self, op: Op, core: str, cells: tuple[Cell, ...]) -> None:
        """A look at signals."""
        epoch, clock = self.clocks.issue(core, Pipe.S), self.clocks.before(core, Pipe.S)
        agent = self.clocks.agent(core, Pipe.S)
        self.looks.append(Waited(op, core, cells, WaitCmp.GE, 0, agent, epoch, clock, clock))

    def acquired(self) -> dict[int, Clock]:
        """What every wait comes after in all orders."""
        clocks: dict[int, Clock] = {}
        for number, wait in enumerate(self.waits):
            clocks[number] = []
            for cell in wait.cells:
                own = rank_clocks.acquired(wait, cell, self.notifies.get(cell, ()), self.initial[cell])
                clocks[number] = joined(clocks[number], own)
        return clocks


def joined(one: Clock, two: Clock) -> Clock:
    """What is complete by one of two clocks."""
    longer = max(len(one), len(two))
    pairs = zip(one + [0] * (longer - len(one)), two + [0] * (longer - len(two)), strict=True)
    return [max(pair) for pair in pairs]


#: Bytes of a line of the scalar unit's cache.
_LINE = 64


def _lines(uses: Sequence[Use]) -> list[Use]:
    """The lines of the cache that writes of global memory are in, as bytes of their own."""
    lines = []
    for use in uses:
        if use.write and use.region.space.loc is None:
            first = use.region.start // _LINE * _LINE
            end = -(-use.region.end // _LINE) * _LINE
            space = Space(Loc.SCALING, "", ("line", use.region.space.root))
            lines.append(use._replace(region=Region(space, first, end - first)))
    return lines


def settled(record: Record, vector: bool) -> _Replay:
    """The clocks of an execution in which every wait comes after what it does in all orders."""
    joins: dict[int, Clock] | None = None
    replay = _Replay(record.initial, vector)
    for _ in range(rank_clocks.MOST_ROUNDS):
        replay = _Replay(record.initial, vector, joins)
        for event in record.events:
            event(replay)
        now = replay.acquired()
        if now == joins:
            break
        joins = now
    return replay


def judge(
    calls: Sequence[RankCall | None],
    execute: Callable[..., object],
    profile: Any,
    sync: str = "auto",
) -> RankReport:
    """The verdict on kernels of ranks; ``execute`` runs them with a machine, a watch and interpreters."""
    if sync == "both":
        written, inserted = (judge(calls, execute, profile, s) for s in ("as-written", "auto"))
        keys = {(f.kind, id(f.first), id(f.second)) for f in inserted.findings}
        extra = [
            replace(f, reason=f"{f.reason}; a tool that inserts synchronisation repairs it")
            for f in written.findings
            if (f.kind, id(f.first), id(f.second)) not in keys
        ]
        return RankReport((*inserted.findings, *extra), "as written, and inserted")
    programs = {id(c.program): c.program for c in calls if c is not None}
    judged = {
        key: order.judged_program(resolve(program, profile), as_written=sync == "as-written")
        for key, program in programs.items()
    }
    record = Record(judged)
    execute(machine=Recorder, watch=record, make=record.interpreter)
    replay = settled(record, vector=False)
    mode = "as written" if sync == "as-written" else "as the texts say"
    return RankReport(tuple(_findings(replay, _private([c for c in calls if c is not None]))), mode)


def _private(calls: Sequence[RankCall]) -> frozenset[str]:
    """The parts of buffers that only their own ranks reach."""
    parts = [b for call in calls for b in call.bindings.values() if isinstance(b, Part)]
    far = {p.buffer for p in parts if p.ranks != tuple(range(len(p.ranks)))}
    far |= {name for call in calls for name in call.shared}
    return frozenset(part(p.buffer, r) for p in parts if p.buffer not in far for r in p.ranks)


def _findings(replay: _Replay, private: frozenset[str]) -> Iterator[RankFinding]:
    seen: dict[tuple[str, int, int], RankFinding] = {}
    for finding in (*_races(replay, private), *_signals(replay)):
        key = finding.kind, id(finding.first), id(finding.second)
        if key in seen:
            finding = replace(seen[key], count=seen[key].count + finding.count)
        seen[key] = finding
    yield from seen.values()


_STATES = {
    "open": ("race", "the signal announces what may not be complete"),
    "drained": ("visibility", "the signal announces what is complete and not published"),
    "cached": ("visibility", "the signal announces what is in the data cache only"),
}


def _races(replay: _Replay, private: frozenset[str]) -> Iterator[RankFinding]:
    for key, race in replay.clocks.races.items():
        count, first, second = replay.clocks.counts[key], race.first, race.second
        root = first.region.space.root
        if race.announced and root in private and len(replay.users[root]) == 1:
            continue  # nobody that the signal reaches uses these bytes
        if race.announced:
            kind, reason = _STATES[race.announced]
            text = f"{reason}: {first.value} on PIPE_{first.pipe.name}"
            yield RankFinding(kind, first.op, second.op, text, count)  # type: ignore[arg-type]
        elif isinstance(first.region.space.root, tuple):
            if first.core != second.core and Pipe.S in (first.pipe, second.pipe):
                reason = (
                    f"{first.core} and {second.core} write one line of {_LINE} bytes, one through its cache"
                )
                yield RankFinding("visibility", first.op, second.op, reason, count)
        elif not _adds(race):
            where = f"{second.core} {second.does} {second.value} and nothing orders it after {first.core}, "
            yield RankFinding("race", first.op, second.op, f"{where}which {first.does} the same bytes", count)
        elif _is_float(race):
            reason = "float additions to the same elements round in the order of the ranks"
            yield RankFinding("schedule", first.op, second.op, reason, count)


def _adds(race: Race) -> bool:
    """Whether both uses add to elements in one step."""
    adds = [use.op.attrs.get("atomicType") == AtomicType.ATOMIC_ADD and use.write for use in race[:2]]
    return all(adds)


def _is_float(race: Race) -> bool:
    values = [v for v in (*race.second.op.outs, *race.second.op.ins) if str(v) == race.second.value]
    d = getattr(values[0].type, "dtype", None) if values else None
    return d is not None and d.is_float


def _signals(replay: _Replay) -> Iterator[RankFinding]:
    """Signals whose value, or whose wait, depends on the order."""
    for listed in replay.notifies.values():
        for i, one in enumerate(listed):
            for two in listed[i + 1 :]:
                if not (one.adds and two.adds) and rank_clocks.unordered(one, two):
                    reason = f"nothing orders two changes of {one.cell}, of which one sets it"
                    yield RankFinding("schedule", one.op, two.op, reason)
    for wait in (w for w in replay.waits if w.sure):
        for cell in wait.cells:
            for m in rank_clocks.may_pass(wait, replay.notifies.get(cell, ()), replay.initial[cell]):
                reason = f"{cell} may pass {wait.value} before the wait looks, which then has no end"
                yield RankFinding("deadlock", m.op, wait.op, reason)
    for copy, asking in replay.asked:
        reason = "the answer depends on whether the copy is over by then"
        yield RankFinding("schedule", copy, asking, reason)
    for look in replay.looks:
        for m in (m for cell in look.cells for m in replay.notifies.get(cell, ())):
            before = (look.clock[m.agent] if m.agent < len(look.clock) else 0) >= m.epoch
            if not before and not m.after(look.agent, look.epoch):
                reason = f"the answer depends on whether {m.cell} has changed by then"
                yield RankFinding("schedule", m.op, look.op, reason)
