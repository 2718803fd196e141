"""What the courses over a program say together: races, waits that stall, and tokens that leak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .. import isa
from ..analysis.roots import hands_token
from ..errors import Diagnostic, Span
from ..ir import Function, KernelKind, Op, Pipe, Program
from ..isa import effects
from ..isa.micro import Access, opens_scope
from ..isa.rules.pipes import CUBE_PIPES
from ..text import SUFFIXES
from .blocks import ALL, block_of
from .clocks import Race, Use
from .judged import Judged
from .regions import LINE
from .signals import EVENTS, Pair
from .walk import CourseRun

#: The first free number of a flag between two pipes.
Events = Counter[tuple[Pipe | None, Pipe | None]]
Kind = Literal["race", "deadlock", "unmatched", "overlap"]


class Place(NamedTuple):
    """An operation of a finding: where it stands, and what executes it."""

    line: int
    operation: str
    pipe: str
    core: str
    value: str
    access: str
    span: Span | None

    def as_json(self) -> dict[str, object]:
        """The fields for JSON; without those that say nothing."""
        fields = {"line": self.line, "operation": self.operation, "pipe": self.pipe}
        more = {"core": self.core, "value": self.value, "access": self.access}
        return fields | {key: text for key, text in more.items() if text}


@dataclass(frozen=True)
class Finding:
    """Something wrong with the order of a program's operations.

    ``first`` and ``second`` are its operations in the order in which they came; ``second`` is None where
    there is only one. ``missing`` says what is missing and the usual way to add it. ``count`` is how often
    the courses showed it.
    """

    kind: Kind
    first: Place
    second: Place | None
    missing: str
    count: int
    diagnostic: Diagnostic
    ops: tuple[Op, ...] = ()
    #: Whether a vector scope has to order both.
    in_scope: bool = False
    mode: str = ""
    witness: str = ""

    def as_json(self) -> dict[str, object]:
        """The finding for JSON."""
        fields: dict[str, object] = {
            "kind": self.kind,
            "first": self.first.as_json(),
            "second": self.second.as_json() if self.second is not None else None,
            "missing": self.missing,
            "count": self.count,
            "severity": self.diagnostic.severity,
            "message": self.diagnostic.message,
            "fix": self.diagnostic.fix or None,
        }
        more = {"mode": self.mode, "witness": self.witness}
        return fields | {key: text for key, text in more.items() if text}

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        witness = f"\n  witness: {self.witness}" if self.witness else ""
        return f"{self.diagnostic.render()}\n  {self.kind}{times}; missing: {self.missing}{witness}"


def _place(op: Op, pipe: Pipe | None, core: str = "", value: str = "", access: str = "") -> Place:
    line = op.span.line if op.span is not None else 0
    return Place(line, op.name, f"PIPE_{pipe.name}" if pipe is not None else "", core, value, access, op.span)


# -- races -----------------------------------------------------------------------------------------------


def races(judged: Judged, runs: Sequence[CourseRun]) -> Iterator[Finding]:
    """One finding for every two operations, in the order of the second ones."""
    firsts: dict[tuple[int, int, Pipe, Pipe], tuple[Race, int]] = {}
    for run in runs:
        for key, race in run.clocks.races.items():
            pair = judged.orders[key[0]], judged.orders[key[1]], key[2], key[3]
            first, count = firsts.get(pair, (race, 0))
            firsts[pair] = first, count + run.clocks.counts[key]
    text = Text(free_events(judged), _scopes(judged))
    for (one, two, *_), (race, count) in sorted(firsts.items(), key=lambda item: (item[0][1], item[0][0])):
        # Blocks run beside each other: the later line of one is no earlier pass of a loop.
        carried = one >= two and block_of(race.first.core) == block_of(race.second.core)
        carried &= id(race.first.op) in judged.in_loops
        yield _race(race, count, carried, text)


def free_events(judged: Judged) -> Counter[tuple[Pipe | None, Pipe | None]]:
    """The first number behind those of the flags of the text, for each pair of pipes."""
    free: Counter[tuple[Pipe | None, Pipe | None]] = Counter()
    for op in judged.resolved.program.walk():
        event = op.attrs.get("event")
        if isinstance(event, int):
            ends = effects.ends_of(op)
            free[ends] = max(free[ends], event + 1)
    return free


@dataclass(frozen=True)
class Text:
    """What suggestions take from the text: free numbers of flags, and vector scopes by operations inside."""

    events: Events
    scopes: Mapping[int, Op]

    def place(self, op: Op) -> str:
        """What flags and barriers stand before or behind: an operation, or the scope that it is in."""
        scope = self.scopes.get(id(op))
        return op.name if scope is None or scope.span is None else f"the scope of line {scope.span.line}"


def _scopes(judged: Judged) -> Mapping[int, Op]:
    """The vector scopes that the text has, by the operations inside them."""
    scopes = (op for op in judged.resolved.program.walk() if op.regions and opens_scope(op))
    return {id(inner): scope for scope in scopes if scope.span is not None for inner in scope.walk()}


def _race(race: Race, count: int, carried: bool, text: Text) -> Finding:
    first, use = race.first, race.second
    where = f" ({first.op.span})" if first.op.span else ""
    if race.announced == "scope":
        return _inside(race, count, carried, where)
    if race.announced not in ("", "hidden", "line"):
        return _announced(race, count, where)
    earlier = " in an earlier pass of the loop" if carried else ""
    between = (_core(first.core), _core(use.core)) if first.core != use.core else ("", "")
    if race.announced:
        return _between(race, count, where)
    if block_of(first.core) != block_of(use.core):
        allowed = "a fence and a barrier of all cores, or a flag of all blocks"
    elif first.core != use.core:
        allowed = "a flag between the cores, or a slot of a pipe"
    elif first.pipe == use.pipe:
        allowed = f"a barrier of PIPE_{use.pipe.name}"
    else:
        allowed = "a flag, an event or a barrier"
    message = (
        f"{use.does} {use.value} ({use.region}) on PIPE_{use.pipe.name}{between[1]} and nothing orders it "
        f"after {first.op.name}{where}, which {first.does} {first.value} on "
        f"PIPE_{first.pipe.name}{between[0]}{earlier}; allowed: {allowed} between them"
    )
    span = next((v.span for v in (*use.op.ins, *use.op.outs) if str(v) == use.value and v.span), use.op.span)
    return _finding(race, count, message, _edge(first, use, carried, text), span, _above(first, use, text))


def _finding(
    race: Race, count: int, message: str, missing: str, span: Span | None = None, fix: str = ""
) -> Finding:
    """A race with its message, and what is missing; the place is the second operation, or one in it."""
    first, use = race.first, race.second
    diagnostic = Diagnostic("warning", message, span or use.op.span, use.op.name, rule="hazard", fix=fix)
    one, two = (_place(u.op, u.pipe, u.core, u.value, "write" if u.write else "read") for u in (first, use))
    return Finding("race", one, two, missing, count, diagnostic, (first.op, use.op))


def _inside(race: Race, count: int, carried: bool, where: str) -> Finding:
    """Two accesses of a vector scope that nothing orders."""
    first, use = race.first, race.second
    barrier = _barrier_of(first, use)
    earlier = " in an earlier pass of the loop" if carried else ""
    message = (
        f"{use.does} {use.value} ({use.region}) and nothing in the vector scope orders it after "
        f"{first.op.name}{where}, which {first.does} {first.value}{earlier}; allowed: {barrier} between them"
    )
    paste = f"pto.{barrier}" if use.op.span is None or not use.op.span.python else barrier
    missing = f"{_kind_of(first)} -> {_kind_of(use)} in the scope; try: {paste} before {use.op.name}"
    return replace(_finding(race, count, message, missing), in_scope=True)


def _kind_of(use: Use) -> str:
    return f"{'scalar' if use.pipe == Pipe.S else 'vector'} {'store' if use.write else 'load'}"


def _barrier_of(first: Use, use: Use) -> str:
    """The barrier of a vector scope that orders the one use before the other and the least beside."""
    one, two = _access(first), _access(use)
    for name, operation in isa.micro_operations().items():
        kinds = [k for k, (prior, later) in operation.orders.items() if one in prior and two in later]
        if kinds:
            least = min(kinds, key=lambda k: sum(map(len, operation.orders[k])))
            return f'{name} "{least}"'
    raise AssertionError(one, two)


def _access(use: Use) -> Access:
    return "scalar" if use.pipe == Pipe.S else "vector", "write" if use.write else "read"


def _core(name: str) -> str:
    """A core in a message: its block comes first where several are followed."""
    return f" of {name}" if block_of(name) else f" of core {name or 'main'}"


def _between(race: Race, count: int, where: str) -> Finding:
    """Two uses of cores whose order is not enough: what is written is not visible, or lost with its line."""
    first, use = race.first, race.second
    one, two = (f"{u.value} on PIPE_{u.pipe.name}{_core(u.core)}" for u in (first, use))
    earlier = f"{first.op.name}{where}, which {first.does} {one}"
    fence = _publishing(signal=False)
    if race.announced == "hidden":
        message = (
            f"{use.does} {two} ({use.region}) behind {earlier} and is not published; allowed: {fence} "
            "before the barrier of all cores"
        )
        missing = f"PIPE_{first.pipe.name} -> PIPE_{use.pipe.name}; try: {fence} behind {first.op.name}"
    else:
        message = (
            f"writes {two} into a line of {LINE} bytes ({use.region}) beside bytes of {earlier}, and the "
            "cache of the scalar unit writes back whole lines; allowed: a line for each core"
        )
        missing = f"try: {LINE} bytes of its own for what each core stores"
    return _finding(race, count, message, missing)


def _announced(race: Race, count: int, where: str) -> Finding:
    """A signal to other processors before what it announces is over or visible."""
    first, use = race.first, race.second
    states = {
        "open": "may not be complete",
        "drained": "is not published",
        "cached": "is in the data cache only",
    }
    allowed = _publishing(signal=False)
    if race.announced == "cached":
        allowed = f"{_publishing(signal=True)} and {allowed}"
    message = (
        f"announces {first.op.name}{where}, which {first.does} {first.value} on PIPE_{first.pipe.name} and "
        f"{states[race.announced]}; allowed: {allowed} between them"
    )
    missing = f"PIPE_{first.pipe.name} -> PIPE_S; try: {allowed} before {use.op.name}"
    return _finding(race, count, message, missing)


def _publishing(*, signal: bool) -> str:
    """The instruction that publishes: what writes the cache back, or what drains all pipes."""
    orders = ((name, i.traits.order) for name, i in isa.instructions().items())
    return next(n for n, o in orders if o is not None and o.publishes and (o.role == "signal") == signal)


def _ordering(role: str, through: str, *, numbered: bool = False) -> str:
    """The instruction that orders in this way; ``numbered``: by a number that is an operand."""
    orders = ((n, i.traits.order) for n, i in isa.instructions().items() if i.operands or not numbered)
    return next(n for n, o in orders if o is not None and (o.role, o.through) == (role, through))


def _edge(first: Use, use: Use, carried: bool, text: Text) -> str:
    """The edge that is missing, and the usual way to add it."""
    one, two = text.place(first.op), text.place(use.op)
    edge = f"PIPE_{first.pipe.name} -> PIPE_{use.pipe.name}"
    if block_of(first.core) != block_of(use.core):
        steps = f"{_publishing(signal=False)} and {_ordering('barrier', 'cores')}"
        return f"{edge} from {first.core} to {use.core}; try: {steps} behind {one}"
    if first.core != use.core:
        return (
            f"{edge} from core {first.core or 'main'} to core {use.core or 'main'}; try: sync.set on "
            f"PIPE_{first.pipe.name} behind {one}, sync.wait before {two}"
        )
    if first.pipe == use.pipe:
        barrier = _spelled(use.op, _ordering("barrier", "pipe"), use.pipe)
        return f"{edge}; try: {barrier} between {one} and {two}"
    event = text.events[first.pipe, use.pipe] % EVENTS
    names = (_ordering(role, "flag") for role in ("signal", "wait"))
    set_, wait = (_spelled(use.op, name, first.pipe, use.pipe, event=event) for name in names)
    if carried:
        return (
            f"{edge} on the back edge of the loop; try: {set_} behind {one} and before "
            f"the loop, {wait} before {two} and behind the loop"
        )
    return f"{edge}; try: {set_} behind {one}, {wait} before {two}"


def _above(first: Use, use: Use, text: Text) -> str:
    """The line of the second operation below what orders it after the first.

    "" for uses on two cores, and in a vector scope, where nothing that orders pipes may stand.
    """
    span = use.op.span
    if (
        id(use.op) in text.scopes
        or first.core != use.core
        or span is None
        or first.op.span is None
        or first.op.span.line == span.line
    ):
        return ""
    if first.pipe == use.pipe:
        lines = [_spelled(use.op, _ordering("barrier", "pipe"), use.pipe)]
    else:
        event = text.events[first.pipe, use.pipe] % EVENTS
        names = (_ordering(role, "flag") for role in ("signal", "wait"))
        lines = [_spelled(use.op, name, first.pipe, use.pipe, event=event) for name in names]
    return "\n".join(("", *lines, span.text.strip()))


def _spelled(near: Op, name: str, *pipes: Pipe, event: int | None = None) -> str:
    """An operation on pipes in the language of another operation: C++, Python or PTO text."""
    words = [f"PIPE_{pipe.name}" for pipe in pipes]
    words += [f"EVENT_ID{event}"] if event is not None else []
    language = _language(near)
    if language == "python":
        return f"pto.{name}({', '.join(map(repr, words))})"
    if language == "c++":
        return f"{'pipe_' if event is None else ''}{name}({', '.join(words)});"
    options = ", ".join(f"<{word}>" for word in words)
    return f"pto.{name} {options}" if event is None else f"pto.{name}[{options}]"


def _language(op: Op) -> Literal["python", "c++", "text"]:
    """The language that an operation is written in."""
    if op.span is None:
        return "text"
    return "python" if op.span.python else "c++" if op.span.file.endswith(SUFFIXES) else "text"


def between_blocks(judged: Judged, function: Function, runs: Sequence[CourseRun]) -> Iterator[Finding]:
    """Races between blocks of a launch, and barriers of all cores to which not all of them come."""
    for race in races(judged, runs):
        if race.second is not None and block_of(race.first.core) != block_of(race.second.core):
            yield race
    for finding in _Verdict(judged, function, runs).stuck():
        if ALL in finding.diagnostic.message:
            yield finding


# -- tokens ----------------------------------------------------------------------------------------------


class _Verdict:
    """What the courses of one function say about its flags, events and buffer tokens."""

    def __init__(self, judged: Judged, function: Function, runs: Sequence[CourseRun]) -> None:
        self.judged, self.function = judged, function
        self.runs = [run for run in runs if run.ended]
        self.met = {key for run in runs for key in run.signals.met}
        self.reached = {key for run in runs for key in run.signals.reached}

    def findings(self) -> Iterator[Finding]:
        """One finding for each operation that hands a token in a wrong way in some course."""
        yield from self.starved()
        yield from self.unmet()
        yield from self.doubled()
        yield from self.leftover()
        yield from self.brackets()
        yield from self.outside()
        yield from self.stuck()
        yield from self.kept()

    def starved(self) -> Iterator[Finding]:
        """Waits for tokens that are not there: errors where no course has them."""
        waited: Counter[int] = Counter()
        starved: dict[int, list[str]] = {}
        ops: dict[int, tuple[Pair, Op]] = {}
        usual: set[int] = set()
        for run in self.runs:
            for key, (pair, op) in run.signals.waited.items():
                if not run.signals.doubts(pair):
                    waited[key] += 1
                    usual |= set() if run.course.is_further else {key}
                    ops[key] = pair, op
                    if key in run.signals.starved:
                        starved.setdefault(key, []).append(str(run.course))
        for key, assumptions in starved.items():
            pair, op = ops[key]
            always = len(assumptions) == waited[key]
            message = effects.starved(op, pair.core, _number(op)).message
            message = message if always else message.replace(" before:", f" before{_where(assumptions)}:", 1)
            severity: Literal["error", "warning"] = "warning"
            if always and not self.may_be_set(pair, op, key not in usual):
                severity = "error"
            missing = f"{_arrow(pair)}; try: {_flag('signal', pair, op)} on every path to the wait"
            yield self.finding("deadlock", op, message, missing, len(assumptions), severity, pair.target)

    def unmet(self) -> Iterator[Finding]:
        """Waits that lack a signal of their number in all courses, where only execution knows numbers.

        Other numbers may have one, as those of a table that names every flag once: execution decides.
        """
        courses = Counter(key for run in self.runs for key in run.signals.unmet - self.met)
        waited = {key: waits for run in self.runs for key, waits in run.signals.waited.items()}
        for key, count in courses.items():
            pair, op = waited[key]
            if self.is_elsewhere(pair) or any(run.signals.is_steered(pair) for run in self.runs):
                continue
            message = effects.starved(op, pair.core, _number(op)).message
            missing = f"{_arrow(pair)}; try: {_flag('signal', pair, op)} on every path to the wait"
            yield self.finding("deadlock", op, message, missing, count, "warning", pair.target)

    def is_elsewhere(self, pair: Pair) -> bool:
        """Whether two pipes have a signal that no course comes to."""
        signals = (op for op in self.judged.resolved.program.walk() if effects.ends_of(op) == pair[1:])
        return any(_is_signal(op) and id(op) not in self.reached for op in signals)

    def may_be_set(self, pair: Pair, op: Op, seldom: bool) -> bool:
        """Whether a signal that no course brings here might be meant: by a run-time number, or elsewhere.

        ``seldom``: only courses with numbers that are drawn come to the wait; for others a signal may come.
        """
        event = op.attrs.get("event")
        for other in self.judged.resolved.program.walk():
            if not _is_signal(other):
                continue
            kind = self.judged.cores.get(id(other))
            fits = event is None or other.attrs.get("event", event) == event
            apart = (kind.name.lower() if kind is not None else "") != pair.core
            if effects.ends_of(other) == pair[1:] and fits and (event is None or apart or seldom):
                return True
        return False

    def doubled(self) -> Iterator[Finding]:
        """Tokens that are set while they are there."""
        doubles: dict[int, tuple[Pair, Op, Op, list[str]]] = {}
        for run in self.runs:
            for key, (pair, op, earlier) in run.signals.doubled.items():
                if not run.signals.doubts(pair):
                    doubles.setdefault(key, (pair, op, earlier, []))[3].append(str(run.course))
        for pair, op, earlier, assumptions in doubles.values():
            where = f" ({earlier.span})" if earlier.span else ""
            some = _where(assumptions) if len(assumptions) < len(self.runs) else ""
            message = (
                f"sets a token that {earlier.name}{where} has set and nothing has waited for{some}; allowed: "
                "a wait between two signals of the same pipes and number"
            )
            # A copy has no number in the text; the flag that is there has the same one.
            wait = _flag("wait", pair, op if hands_token(op) else earlier)
            missing = f"{_arrow(pair)}; try: {wait} between both signals, or another number"
            yield self.finding(
                "unmatched", op, message, missing, len(assumptions), "warning", pair.source, earlier
            )

    def leftover(self) -> Iterator[Finding]:
        """Tokens that are there where the function ends."""
        tokens: dict[int, tuple[Pair, Op, list[str]]] = {}
        for run in self.runs:
            for (pair, _), token in run.signals.present.items():
                if not run.signals.doubts(pair):
                    tokens.setdefault(id(token.op), (pair, token.op, []))[2].append(str(run.course))
        for pair, op, assumptions in tokens.values():
            some = _where(assumptions) if len(assumptions) < len(self.runs) else ""
            message = (
                f"sets a token that nothing waits for up to the end of @{self.function.name}{some}; allowed: "
                "one wait for every signal"
            )
            missing = f"{_arrow(pair)}; try: {_flag('wait', pair, op)} behind the last use it guards"
            yield self.finding("unmatched", op, message, missing, len(assumptions), "warning", pair.source)

    def brackets(self) -> Iterator[Finding]:
        """Buffer tokens that are taken twice, given back without being taken, or kept."""
        problems: dict[int, tuple[Op, str, Op | None]] = {}
        for run in self.runs:
            for key, (op, earlier) in run.signals.nested.items():
                what = (
                    "takes a buffer token that its pipe holds"
                    if earlier is not None
                    else ("gives back a buffer token that its pipe does not hold")
                )
                problems.setdefault(key, (op, what, earlier))
            for op in run.signals.open.values():
                what = f"takes a buffer token that is held up to the end of @{self.function.name}"
                problems.setdefault(id(op), (op, what, None))
        for op, what, earlier in problems.values():
            message = f"{what}; allowed: get_buf and rls_buf in turns for every pipe and buffer"
            missing = "try: one rls_buf behind every get_buf of the same class and buffer"
            pipe = effects.pipe_named(op.attrs.get("op_type"))
            yield self.finding("unmatched", op, message, missing, 1, "warning", pipe, earlier)

    def outside(self) -> Iterator[Finding]:
        """Numbers of flags that no pipe has, where a number of the program says them."""
        places = {key: entry for run in self.runs for key, entry in run.signals.outside.items()}
        sure = not any(run.guesses.used for run in self.runs)
        for op, number in places.values():
            yield _outside(op, number, "error" if sure else "warning")

    def stuck(self) -> Iterator[Finding]:
        """Cores that wait for each other for ever."""
        problems = {d: None for run in self.runs for d in run.signals.deadlock}
        by_place = {(op.span, op.name): op for op in self.judged.resolved.program.walk()}
        for diagnostic in problems:
            op = by_place.get((diagnostic.span, diagnostic.instruction or ""))
            if op is not None:
                missing = "try: as many signals or pushes on the other core as this one waits for"
                if ALL in diagnostic.message:
                    missing = "try: the barrier outside of branches and loops that differ from block to block"
                yield self.finding(
                    "deadlock", op, diagnostic.message, missing, 1, "error", effects.pipe_of(op)
                )

    def kept(self) -> Iterator[Finding]:
        """Flags and slots for another core that it never takes; a pipe that is full stops its producer."""
        tokens: dict[int, tuple[str, int, Op, int]] = {}
        for run in self.runs:
            for what, count, op in run.signals.kept() if not run.signals.deadlock else ():
                if what != "free":
                    tokens.setdefault(id(op), (what, count, op, run.signals.slots))
        for what, count, op, slots in tokens.values():
            full = what == "slot" and count > slots
            noun = "a slot that no core pops" if what == "slot" else "a flag that no core waits for"
            message = f"gives {noun} up to the end of @{self.function.name}, {count} times"
            message += f", into a pipe of {slots} slots, and waits for a free one for ever" if full else ""
            message += "; allowed: as many on both cores"
            missing = f"try: {'a pop' if what == 'slot' else 'a wait'} on the other core for each"
            kind: Kind = "deadlock" if full else "unmatched"
            yield self.finding(kind, op, message, missing, count, "warning", effects.pipe_of(op))

    def finding(
        self,
        kind: Kind,
        op: Op,
        message: str,
        missing: str,
        count: int,
        severity: Literal["error", "warning"],
        pipe: Pipe | None,
        earlier: Op | None = None,
    ) -> Finding:
        """A finding about an operation, and the earlier one that it goes wrong with."""
        diagnostic = Diagnostic(severity, message, op.span, op.name, rule="token")
        place = _place(op, pipe)
        if earlier is None:
            return Finding(kind, place, None, missing, count, diagnostic, (op,))
        return Finding(kind, _place(earlier, pipe), place, missing, count, diagnostic, (earlier, op))


def tokens(judged: Judged, function: Function, runs: Sequence[CourseRun]) -> Iterator[Finding]:
    """What is wrong with the flags, events and buffer tokens of a function."""
    return _Verdict(judged, function, runs).findings()


def event_numbers(program: Program) -> Iterator[Finding]:
    """Event numbers that no pipe has."""
    for op in program.walk():
        order, event = effects.traits_of(op).order, op.attrs.get("event")
        if order is None or order.through not in ("flag", "event") or not isinstance(event, int):
            continue
        if not 0 <= event < EVENTS:
            yield _outside(op, event)


def _outside(op: Op, number: int, severity: Literal["error", "warning"] = "error") -> Finding:
    """A flag with a number that no pipe has."""
    message = f"number {number}; allowed: 0 to {EVENTS - 1}"
    diagnostic = Diagnostic(severity, message, op.span, op.name, rule="token")
    missing = f"try: a free number of 0 to {EVENTS - 1}"
    return Finding("unmatched", _place(op, effects.ends_of(op)[0]), None, missing, 1, diagnostic, (op,))


def hangs(judged: Judged) -> Iterator[Finding]:
    """Flags and barriers at which an A5 stops: of pipes that its core does not have, or of one pipe only.

    The latter may stop it (tilelang-ascend issue 1458).
    """
    profile = judged.resolved.profile
    if profile is None or profile.name != "a5":
        return
    for op in judged.resolved.program.walk():
        order = effects.traits_of(op).order
        if order is None or order.through not in ("flag", "event", "pipe"):
            continue
        pipe = effects.pipe_named(op.attrs.get("pipe", op.attrs.get("op_type")))
        ends = (pipe,) if order.through == "pipe" else effects.ends_of(op)
        foreign = [
            p
            for p in ends
            if p is not None and p in CUBE_PIPES and judged.cores.get(id(op)) == KernelKind.VECTOR
        ]
        if foreign:
            message = (
                f"names PIPE_{foreign[0].name} on a vector core, which stops there; allowed: its own pipes"
            )
            yield _hang(
                op, foreign[0], message, "error", "try: without it; the pipe is that of the cube core"
            )
        elif len(ends) == 2 and ends[0] is not None and ends[0] == ends[1]:
            message = (
                f"is a flag from PIPE_{ends[0].name} to itself, at which a5 may stop; allowed: two pipes"
            )
            yield _hang(op, ends[0], message, "warning", "try: without it; a pipe executes in order")


def _hang(op: Op, pipe: Pipe, message: str, severity: Literal["error", "warning"], missing: str) -> Finding:
    diagnostic = Diagnostic(severity, message, op.span, op.name, rule="token")
    return Finding("deadlock", _place(op, pipe), None, missing, 1, diagnostic, (op,))


def _is_signal(op: Op) -> bool:
    order = effects.traits_of(op).order
    return order is not None and order.role == "signal" and order.through in ("flag", "event")


def _arrow(pair: Pair) -> str:
    return f"PIPE_{pair.source.name} -> PIPE_{pair.target.name}"


def _flag(role: Literal["signal", "wait"], pair: Pair, op: Op) -> str:
    """The other half of a flag, as the language of the text has it."""
    event, language = op.attrs.get("event"), _language(op)
    if isinstance(event, int):
        return _spelled(op, _ordering(role, "flag"), pair.source, pair.target, event=event)
    pipes, number = [f"PIPE_{pipe.name}" for pipe in (pair.source, pair.target)], str(_number(op))
    if language == "c++":
        return f"{_ordering(role, 'flag')}({', '.join([*pipes, number.lstrip('%')])});"
    name = _ordering(role, "flag", numbered=True)
    if language == "python":
        return f"pto.{name}({', '.join([*map(repr, pipes), number.lstrip('%')])})"
    return f"pto.{name} [{', '.join([*(f'<{pipe}>' for pipe in pipes), number])}]"


def _number(op: Op) -> object:
    """The number of a flag, or the value that holds it."""
    event = op.attrs.get("event")
    return event if isinstance(event, int) else op.ins[0] if op.ins else "id"


def _where(assumptions: list[str]) -> str:
    """For which unknown numbers something happens."""
    *most, last = dict.fromkeys(assumptions)
    text = f"{', '.join(most)} or {last}" if most else last
    return f" where numbers that only execution knows are {text}"
