"""Control flow: structured regions, functions of several blocks, sections, calls, and scalar arithmetic.

Branches between blocks are followed to the block where they join again.
"""

from collections.abc import Sequence
from functools import partial

from ..analysis.addresses import operation, scalar_dtype, wrapped
from ..errors import Diagnostic, ExecutionError, NotExecutableError
from ..ir import I1, INDEX, DType, Function, Op, Region, Symbol
from ..isa.traits import BRANCH_IF, CAST, FUNCTION_END, FUSION
from . import abstract, cores
from .interpreter import Interpreter, Repeated, Steps, complete, executes
from .machine import After, Arm, Before, Machine
from .operands import Frame, Operand, Pointer, Scalar, Scope, View
from .together import Inner, Meeting, met

#: The largest signed number of 64 bits.
MAX_TRIPS = (1 << 63) - 1


@executes("scf.for")
def _for(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    lower, upper, step = (scope[op.group(name)[0]] for name in ("lb", "ub", "step"))
    carried = tuple(scope[v] for v in op.group("inits"))
    region = op.regions[0]
    trips = _trips(interpreter, op, lower, upper, step)
    count = interpreter.machine.known(trips)

    def steps(trip: Scalar, operands: tuple[Operand, ...]) -> Steps[tuple[Operand, ...]]:
        counter = _counter(interpreter, lower, step, trip)
        if isinstance(interpreter.machine, abstract.AbstractMachine):
            counter = interpreter.machine.below(counter, upper)
        return interpreter.block(region, _inner(scope, region, (counter, *operands)))

    def body(trip: Scalar, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return complete(steps(trip, operands))

    unrolled = count is not None and interpreter.machine.unrolls(op, count)
    if not unrolled and _meets(interpreter, op):
        frame = interpreter.frame(op, scope)
        meeting = Meeting(op, "the other cores", "loop", frame, trips, carried, [steps])
        results = yield from met(meeting)
        unrolled, carried = results is None, carried if results is None else results
    elif not unrolled:
        carried = interpreter.machine.loop(interpreter.frame(op, scope), trips, carried, body)
    if unrolled:
        carried = yield from _written_out(interpreter, scope, op, (lower, step, count), carried)
    _bind(op, carried, scope)


def _written_out(
    interpreter: Interpreter,
    scope: Scope,
    op: Op,
    course: tuple[Scalar, Scalar, int | None],
    carried: tuple[Operand, ...],
) -> Steps[tuple[Operand, ...]]:
    """A loop trip by trip; its course is the lower bound, the step and the number of trips."""
    (lower, step, count), region, machine = course, op.regions[0], interpreter.machine
    first, stride = machine.known(lower), machine.known(step)
    for trip in range(count or 0):
        if first is not None and stride is not None:
            counter = machine.counter(first + trip * stride)
        else:
            counter = _counter(interpreter, lower, step, trip)
        carried = yield from interpreter.block(region, _inner(scope, region, (counter, *carried)))
    return carried


def _meets(interpreter: Interpreter, op: Op) -> bool:
    """Whether cores or ranks meet inside an operation, so that they have to enter it together."""
    if interpreter.machine.abstract:
        return False
    if interpreter.shared.world is not None and _communicates(interpreter, op):
        return True
    return len(interpreter.shared.cores) > 1 and cores.meet_inside(interpreter.program, op)


def _communicates(interpreter: Interpreter, op: Op) -> bool:
    """Whether ranks may have their turns inside an operation."""
    world = interpreter.shared.world
    pauses = world is not None and world.pauses
    return pauses or cores.communicates(interpreter.program, op)


def _trips(interpreter: Interpreter, op: Op, lower: Scalar, upper: Scalar, step: Scalar) -> Scalar:
    """How often a loop runs.

    A step that is not positive is an error, or no trip where only execution knows it.
    """
    low, high, stride = (interpreter.machine.known(n) for n in (lower, upper, step))
    if stride is None or stride <= 0:
        broken = interpreter.scalar("arith.cmpi.sle", (step, 0), INDEX, I1) if stride is None else True
        interpreter.machine.require(op, "step", "a positive step", broken, "a step of {}", (step,))
    if stride is not None and stride <= 0:
        return 0
    if stride is not None and low is not None and high is not None:
        return max(0, -((low - high) // stride))
    return _run_time_trips(interpreter, lower, upper, step, stride)


def _run_time_trips(
    interpreter: Interpreter, lower: Scalar, upper: Scalar, step: Scalar, stride: int | None
) -> Scalar:
    """As above, without a sum that could leave 64 bits: the distance is an unsigned number.

    More trips than a signed number holds are the largest one: no execution comes to its end.
    """

    def of(name: str, *args: Scalar, result: DType = INDEX) -> Scalar:
        return interpreter.scalar(f"arith.{name}", args, INDEX, result)

    before_last = of("divui", of("subi", of("subi", upper, lower), 1), step)
    count = of("addi", before_last, 1)
    if stride is None or stride == 1:
        overflows = of("cmpi.slt", count, 0, result=I1)
        count = of("select", overflows, MAX_TRIPS, count)
    runs = of("cmpi.sgt", upper, lower, result=I1)
    if stride is None:
        positive = of("cmpi.sgt", step, 0, result=I1)
        runs = interpreter.scalar("arith.andi", (runs, positive), I1, I1)
    return of("select", runs, count, 0)


def _counter(interpreter: Interpreter, lower: Scalar, step: Scalar, trip: Scalar) -> Scalar:
    return interpreter.index("arith.addi", lower, interpreter.index("arith.muli", trip, step))


@executes("scf.if")
def _if(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    condition = scope[op.ins[0]]
    truth = interpreter.machine.known(condition)
    if truth is not None:
        taken = op.regions[0 if truth else 1] if truth or len(op.regions) > 1 else Region(())
        results = yield from interpreter.block(taken, Scope(scope))
    elif _meets(interpreter, op):
        regions = [*op.regions, Region(())][:2]
        ways = [partial(_way, interpreter, region, scope) for region in regions]
        frame = interpreter.frame(op, scope)
        meeting = yield from met(Meeting(op, "the other cores", "branch", frame, condition, (), ways))
        results = meeting or ()
    else:
        arms = [_arm(interpreter, region, scope) for region in op.regions]
        arms += [lambda: ()] * (2 - len(arms))
        results = interpreter.machine.branch(interpreter.frame(op, scope), condition, arms)
    _bind(op, results, scope)


def _way(interpreter: Interpreter, region: Region, scope: Scope) -> Steps[tuple[Operand, ...]]:
    return interpreter.block(region, Scope(scope))


def _arm(interpreter: Interpreter, region: Region, scope: Scope) -> Arm:
    return lambda: complete(interpreter.block(region, Scope(scope)))


@executes("scf.index_switch")
def _switch(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """The first regions are the cases, in the order of their numbers; the last one is the default."""
    index = scope[op.ins[0]]
    cases = op.attrs["cases"]
    assert isinstance(cases, tuple)
    number = interpreter.machine.known(index)
    if number is not None:
        at = cases.index(number) if number in cases else len(cases)
        results = yield from interpreter.block(op.regions[at], Scope(scope))
    else:
        frame = interpreter.frame(op, scope)
        if _meets(interpreter, op):
            _bind(op, (yield from _cases(interpreter, op, scope, 0)), scope)
            return

        def choose(first: int) -> tuple[Operand, ...]:
            arm = _arm(interpreter, op.regions[first], scope)
            if first == len(cases):
                return arm()
            hit = interpreter.scalar("arith.cmpi.eq", (index, cases[first]), INDEX, I1)
            return interpreter.machine.branch(frame, hit, (arm, lambda: choose(first + 1)))

        results = choose(0)
    _bind(op, results, scope)


def _cases(interpreter: Interpreter, op: Op, scope: Scope, first: int) -> Steps[tuple[Operand, ...]]:
    """The cases of a switch from one on, in which cores meet: branches that they enter together."""
    cases = op.attrs["cases"]
    assert isinstance(cases, tuple)
    if first == len(cases):
        return (yield from _way(interpreter, op.regions[first], scope))
    hit = interpreter.scalar("arith.cmpi.eq", (scope[op.ins[0]], cases[first]), INDEX, I1)
    ways = [
        partial(_way, interpreter, op.regions[first], scope),
        partial(_cases, interpreter, op, scope, first + 1),
    ]
    frame = interpreter.frame(op, scope)
    return (yield from met(Meeting(op, "the other cores", "branch", frame, hit, (), ways))) or ()


@executes("scf.execute_region", FUSION)
def _execute_region(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    results = yield from interpreter.block(op.regions[0], Scope(scope))
    _bind(op, results, scope)


@executes("scf.while")
def _while(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    first, second = op.regions

    def before(carried: Sequence[Operand]) -> Steps[tuple[Operand, ...]]:
        return interpreter.block(first, _inner(scope, first, carried))

    def after(passed: Sequence[Operand]) -> Steps[tuple[Operand, ...]]:
        return interpreter.block(second, _inner(scope, second, passed))

    def tested(carried: tuple[Operand, ...]) -> tuple[Scalar, tuple[Operand, ...]]:
        condition, *passed = complete(before(carried))
        return condition, tuple(passed)

    inits = tuple(scope[v] for v in op.ins)
    frame = interpreter.frame(op, scope)
    if interpreter.shared.world is not None and interpreter.machine.in_order:
        results = yield from _in_turns(interpreter.machine, op, inits, (before, after))
    elif _meets(interpreter, op):
        results = yield from _while_together(interpreter.machine, op, frame, inits, (before, after))
    else:
        results = interpreter.machine.repeat(frame, inits, tested, lambda passed: complete(after(passed)))
    _bind(op, results, scope)


def _while_together(
    machine: Machine, op: Op, frame: Frame, inits: Sequence[Operand], regions: tuple[Inner, Inner]
) -> Steps[tuple[Operand, ...]]:
    """A while loop in which cores meet: step by step on a machine that does so, else entered together."""
    before, after = regions

    def again(passed: Sequence[Operand]) -> Steps[tuple[Operand, ...]]:
        return (yield from before((yield from after(passed))))

    stepping = machine.unrolls(op, machine.max_steps)
    condition, *passed = yield from before(inits)
    for _ in range(machine.max_steps + 1):
        truth = machine.known(condition)
        if truth is not None and not truth:
            return tuple(passed)
        if truth is None or not stepping:
            meeting = Meeting(op, "the other cores", "while", frame, condition, passed, [again])
            results = yield from met(meeting)
            if results is not None:
                return results
        condition, *passed = yield from again(passed)
    raise _too_many(op, machine)


def _in_turns(
    machine: Machine, op: Op, inits: Sequence[Operand], regions: tuple[Inner, Inner]
) -> Steps[tuple[Operand, ...]]:
    """A while loop on a rank: what it reads may change once others have had their turn."""
    before, after = regions
    carried = tuple(inits)
    for _ in range(machine.max_steps + 1):
        condition, *passed = yield from before(carried)
        if not machine.known(condition):
            return tuple(passed)
        yield Repeated(op, "its turn")
        carried = yield from after(passed)
    raise _too_many(op, machine)


def _inner(scope: Scope, region: Region, operands: Sequence[Operand]) -> Scope:
    inner = Scope(scope)
    for value, operand in zip(region.args, operands, strict=True):
        inner.bind(value, operand)
    return inner


def _bind(op: Op, operands: tuple[Operand, ...], scope: Scope) -> None:
    for value, operand in zip(op.results, operands, strict=True):
        scope.bind(value, operand)


@executes("call")
def _call(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    callee = op.attrs["callee"]
    assert isinstance(callee, Symbol)
    function = interpreter.program.function(callee.name)
    assert function is not None, callee
    if _elsewhere(interpreter, function):
        return
    if function.external:
        message = f"@{function.name} is declared without a body; allowed: a function of the program"
        raise NotExecutableError(op.error("executable", message))
    returned = yield from interpreter.function(function, [scope[v] for v in op.ins], Scope())
    _bind(op, returned, scope)


def _elsewhere(interpreter: Interpreter, function: Function) -> bool:
    """Whether a function is not executed by the interpreter's core."""
    kind = cores.kind_of(function)
    return kind is not None and interpreter.core.kind not in (None, kind)


@executes("vecscope", "strict_vecscope")
def _scope(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """A strict scope sees what it captures only; the verifier sees to that."""
    region = op.regions[0]
    yield from interpreter.block(region, _inner(scope, region, [scope[v] for v in op.ins]))


@executes("section.cube", "section.vector")
def _section(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    """A single core runs the sections of both kinds; the reader keeps their names apart."""
    if interpreter.core.kind in (None, cores.section_kind(op)):
        for region in op.regions:
            yield from interpreter.block(region, scope)


def step_by_step(
    machine: Machine, op: Op, inits: Sequence[Operand], before: Before, after: After
) -> tuple[Operand, ...]:
    """A while loop on a machine that knows its scalars."""
    carried = tuple(inits)
    for _ in range(machine.max_steps + 1):
        condition, passed = before(carried)
        if not machine.known(condition):
            return passed
        carried = after(passed)
    raise _too_many(op, machine)


def _too_many(op: Op, machine: Machine) -> ExecutionError:
    message = f"got more than {machine.max_steps} trips; allowed: at most that many (max_steps)"
    return ExecutionError(op.error("steps", message))


@executes("arith.constant")
def _constant(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], op.attrs["value"])


@executes(CAST)
def _cast(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    source, result = (scalar_dtype(v.type) for v in (*op.ins, *op.results))
    value = scope[op.ins[0]]
    if isinstance(value, View):
        scope.bind(op.results[0], Pointer(value.buffer, value.dtype, value.offset))
        return
    number = wrapped(value, result) if isinstance(value, int) else None
    scope.bind(
        op.results[0],
        interpreter.machine.scalar("arith.bitcast", [value], source, result) if number is None else number,
    )


@executes("arith")
def _arith(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    args = [scope[v] for v in op.ins]
    source = scalar_dtype(op.ins[-1].type)
    result = scalar_dtype(op.results[0].type)
    try:
        value = interpreter.scalar(operation(op), args, source, result)
    except NotExecutableError:
        finding = op.error("executable", "is not executed by this version")
        raise NotExecutableError(finding) from None
    scope.bind(op.results[0], value)


#: The first block, and behind the returns of a function: where branches meet that meet in no block.
ENTRY, EXIT = "^", ""
#: Branches after which a machine without a limit of its own stops.
MAX_BRANCHES = 1_000_000


@executes("cf.graph")
def _graph(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    labels = op.attrs["labels"]
    assert isinstance(labels, tuple)
    names = [ENTRY, *(str(label) for label in labels[1:])]
    graph = _Graph(interpreter, op, dict(zip(names, op.regions, strict=True)))
    interpreter.returned = yield from graph.run(ENTRY, (), EXIT, scope, ())


class _Graph:
    """The blocks of one function, by label."""

    def __init__(self, interpreter: Interpreter, op: Op, blocks: dict[str, Region]) -> None:
        self.interpreter, self.op, self.blocks = interpreter, op, blocks
        self.meets = meeting_points({n: successors(b) for n, b in blocks.items()})

    def run(
        self, label: str, operands: tuple[Operand, ...], stop: str, scope: Scope, chosen: tuple[str, ...]
    ) -> Steps[tuple[Operand, ...]]:
        """Execute from a block on, up to the block ``stop``; what is handed to that one, or returned.

        ``chosen`` are the blocks whose branches are only decided when the program runs.
        """
        machine = self.interpreter.machine
        limit = machine.max_steps or MAX_BRANCHES
        for _ in range(limit + len(self.blocks)):
            if label == stop:
                return operands
            block = self.blocks[label]
            for argument, operand in zip(block.args, operands, strict=True):
                scope.bind(argument, operand)
            values = yield from self.interpreter.block(block, scope)
            last, targets = block.ops[-1], successors(block)
            if last.name == FUNCTION_END:
                return values
            if last.name != BRANCH_IF:
                label, operands = targets[0], values
                continue
            first = 1 + len(last.group("to0"))
            both, truth = (values[1:first], values[first:]), machine.known(values[0])
            if truth is not None:
                label, operands = targets[0 if truth else 1], both[0 if truth else 1]
                continue
            if label in chosen:
                raise NotExecutableError(_loop(last))
            join, taken = self.meets[label], (*chosen, label)
            arms = [
                partial(self._arm, to, handed, join, scope, taken)
                for to, handed in zip(targets, both, strict=True)
            ]
            frame = Frame(last, self.interpreter.modes, scope)
            label, operands = join, machine.branch(frame, values[0], arms)
        message = f"got more than {limit} branches; allowed: at most that many (max_steps)"
        raise ExecutionError(self.op.error("steps", message))

    def _arm(
        self, label: str, operands: tuple[Operand, ...], stop: str, scope: Scope, chosen: tuple[str, ...]
    ) -> tuple[Operand, ...]:
        """What one side of a branch hands to where both meet."""
        return complete(self.run(label, operands, stop, Scope(scope), chosen))


def _loop(branch: Op) -> Diagnostic:
    message = "a loop of branches whose end only execution knows; allowed: scf.while, or eager execution"
    return branch.error("executable", message)


def successors(block: Region) -> list[str]:
    """The labels that a block's branch leads to."""
    targets = block.ops[-1].attrs.get("targets") if block.ops else None
    return [str(t) for t in targets] if isinstance(targets, tuple) else []


def meeting_points(graph: dict[str, list[str]]) -> dict[str, str]:
    """For every block the first one that all paths from it lead to; EXIT where there is none.

    >>> meeting_points({"^": ["a", "b"], "a": ["c"], "b": ["c"], "c": []})["^"]
    'c'
    """
    behind = {name: {*graph, EXIT} for name in graph} | {EXIT: {EXIT}}
    changed = True
    while changed:
        changed = False
        for name, targets in graph.items():
            common = set.intersection(*(behind[t] for t in targets or [EXIT])) | {name}
            if behind[name] != common:
                behind[name], changed = common, True
    # The nearest of the blocks behind one has all others of them behind itself.
    return {
        name: next((m for m in behind[name] - {name} if behind[m] == behind[name] - {name}), EXIT)
        for name in graph
    }
