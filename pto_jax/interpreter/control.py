"""Control flow: structured regions, calls, and the scalars that steer them."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import Diagnostic, ExecutionError
from ..ir.dtypes import I1, INDEX, DType
from ..ir.program import Op, Region, Symbol
from .cores import elsewhere, meets
from .interpreter import Frame, Scope, Walk, Walker, complete, handles
from .machine import After, Arm, Before, Machine
from .operands import Operand, Scalar

#: The largest signed number of 64 bits.
MAX_TRIPS = (1 << 63) - 1


@handles("scf.for")
def _for(walker: Walker, op: Op, scope: Scope) -> Walk[None]:
    lower, upper, step = (scope[op.group(name)[0]] for name in ("lb", "ub", "step"))
    carried = tuple(scope[v] for v in op.group("inits"))
    region = op.regions[0]
    trips = _trips(walker, op, lower, upper, step)
    known = walker.machine.known(trips)
    if known is not None and (walker.machine.unrolls(op, known) or meets(walker, op)):
        first, stride = walker.machine.known(lower), walker.machine.known(step)
        for trip in range(known):
            if first is not None and stride is not None:
                counter = walker.machine.counter(first + trip * stride)
            else:
                counter = _counter(walker, lower, step, trip)
            carried = yield from walker.block(region, _inner(scope, region, (counter, *carried)))
    else:

        def body(trip: Scalar, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
            inner = _inner(scope, region, (_counter(walker, lower, step, trip), *operands))
            return complete(walker.block(region, inner))

        carried = walker.machine.loop(Frame(op, walker, scope), trips, carried, body)
    _bind(op, carried, scope)


def _trips(walker: Walker, op: Op, lower: Scalar, upper: Scalar, step: Scalar) -> Scalar:
    """How often a loop runs; a step that is not positive is an error, or no trip where only execution
    knows it."""
    low, high, known = (walker.machine.known(n) for n in (lower, upper, step))
    if known is None or known <= 0:
        broken = walker.scalar("arith.cmpi.sle", (step, 0), INDEX, I1) if known is None else True
        walker.machine.require(op, "step", "a positive step", broken, "a step of {}", (step,))
    if known is not None and known <= 0:
        return 0
    if known is not None and low is not None and high is not None:
        return max(0, -((low - high) // known))
    return _run_time_trips(walker, lower, upper, step, known)


def _run_time_trips(walker: Walker, lower: Scalar, upper: Scalar, step: Scalar, known: int | None) -> Scalar:
    """As above, without a sum that could leave 64 bits: the distance is an unsigned number.

    More trips than a signed number holds are the largest one: no execution comes to its end.
    """

    def of(name: str, *args: Scalar, result: DType = INDEX) -> Scalar:
        return walker.scalar(f"arith.{name}", args, INDEX, result)

    before_last = of("divui", of("subi", of("subi", upper, lower), 1), step)
    count = of("addi", before_last, 1)
    if known is None or known == 1:
        overflows = of("cmpi.slt", count, 0, result=I1)
        count = of("select", overflows, MAX_TRIPS, count)
    runs = of("cmpi.sgt", upper, lower, result=I1)
    if known is None:
        positive = of("cmpi.sgt", step, 0, result=I1)
        runs = walker.scalar("arith.andi", (runs, positive), I1, I1)
    return of("select", runs, count, 0)


def _counter(walker: Walker, lower: Scalar, step: Scalar, trip: Scalar) -> Scalar:
    return walker.index("arith.addi", lower, walker.index("arith.muli", trip, step))


@handles("scf.if")
def _if(walker: Walker, op: Op, scope: Scope) -> Walk[None]:
    condition = scope[op.ins[0]]
    known = walker.machine.known(condition)
    if known is not None:
        taken = op.regions[0 if known else 1] if known or len(op.regions) > 1 else Region(())
        results = yield from walker.block(taken, Scope(scope))
    else:
        arms = [_arm(walker, region, scope) for region in op.regions]
        arms += [lambda: ()] * (2 - len(arms))
        results = walker.machine.branch(Frame(op, walker, scope), condition, arms)
    _bind(op, results, scope)


def _arm(walker: Walker, region: Region, scope: Scope) -> Arm:
    return lambda: complete(walker.block(region, Scope(scope)))


@handles("scf.index_switch")
def _switch(walker: Walker, op: Op, scope: Scope) -> Walk[None]:
    """The first regions are the cases, in the order of their numbers; the last one is the default."""
    index = scope[op.ins[0]]
    cases = op.attrs["cases"]
    assert isinstance(cases, tuple)
    known = walker.machine.known(index)
    if known is not None:
        at = cases.index(known) if known in cases else len(cases)
        results = yield from walker.block(op.regions[at], Scope(scope))
    else:
        frame = Frame(op, walker, scope)

        def choose(first: int) -> tuple[Operand, ...]:
            arm = _arm(walker, op.regions[first], scope)
            if first == len(cases):
                return arm()
            hit = walker.scalar("arith.cmpi.eq", (index, cases[first]), INDEX, I1)
            return walker.machine.branch(frame, hit, (arm, lambda: choose(first + 1)))

        results = choose(0)
    _bind(op, results, scope)


@handles("scf.execute_region")
def _execute_region(walker: Walker, op: Op, scope: Scope) -> Walk[None]:
    results = yield from walker.block(op.regions[0], Scope(scope))
    _bind(op, results, scope)


@handles("scf.while")
def _while(walker: Walker, op: Op, scope: Scope) -> Walk[None]:
    first, second = op.regions

    def before(carried: tuple[Operand, ...]) -> tuple[Scalar, tuple[Operand, ...]]:
        condition, *passed = complete(walker.block(first, _inner(scope, first, carried)))
        return condition, tuple(passed)

    def after(carried: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return complete(walker.block(second, _inner(scope, second, carried)))

    inits = tuple(scope[v] for v in op.ins)
    results = walker.machine.repeat(Frame(op, walker, scope), inits, before, after)
    _bind(op, results, scope)
    yield from ()


def _inner(scope: Scope, region: Region, operands: tuple[Operand, ...]) -> Scope:
    inner = Scope(scope)
    for value, operand in zip(region.args, operands, strict=True):
        inner.bind(value, operand)
    return inner


def _bind(op: Op, operands: tuple[Operand, ...], scope: Scope) -> None:
    for value, operand in zip(op.results, operands, strict=True):
        scope.bind(value, operand)


@handles("call")
def _call(walker: Walker, op: Op, scope: Scope) -> Walk[None]:
    callee = op.attrs["callee"]
    assert isinstance(callee, Symbol)
    function = walker.program.function(callee.name)
    assert function is not None, callee
    if elsewhere(walker, function):
        return
    returned = yield from walker.function(function, [scope[v] for v in op.ins], Scope())
    _bind(op, returned, scope)


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
    message = f"found more than {machine.max_steps} trips; allowed: at most that many (max_steps)"
    raise ExecutionError(Diagnostic("error", message, op.span, op.name, rule="steps"))
