"""The interpreter: executes a program's operations in order, by any executor.

The interpreter owns what does not depend on how tiles are computed: names and scopes, scalar constants,
global-memory views, tile handles, calls. A :class:`Machine` owns storage and arithmetic; the JAX
lowering and the NumPy oracle are two machines. What executes an operation that is the same for every
machine is registered with :func:`executes`, in the file of the operation's class.

Scalars are Python numbers while they are known and the machine's own scalars afterwards, so views and
addresses fold to constants wherever the text allows it.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from .. import ir, isa
from ..analysis.entries import fragment_outputs
from ..analysis.resolve import resolve
from ..analysis.roots import cores_of
from ..errors import Diagnostic, NotExecutableError
from ..isa import effects, matrix
from ..isa.layout_img2col import IMG2COL_STATE
from ..isa.traits import UNKNOWN
from . import cores, memory_indexed, operands, windows
from .machine import Machine
from .operands import UNSETTLED, Execution, Frame, Operand, Scalar, Scope, TileRef, View, chosen, with_storage

T = TypeVar("T")
#: The mode that configuration of transfers is kept under, and what executes micro-operations.
TRANSFERS, MICRO = "transfers", "micro-operation"


@dataclass(eq=False)
class Waiting:
    """Why a core cannot go on: the operation, and what it waits for."""

    op: ir.Op
    what: str


@dataclass(eq=False)
class Blocked(Waiting):
    """A wait for a signal: ``what`` names it and says what is wanted, ``found`` is what it is."""

    found: int = 0


@dataclass(eq=False)
class Polled(Blocked):
    """A look at a signal that was not as wanted: the core goes on after others had their turn."""


@dataclass(eq=False)
class Paused(Waiting):
    """Other cores may have their turn here: the schedule decides."""


@dataclass(eq=False)
class Repeated(Paused):
    """A loop goes on as long as what it reads says: others have their turn before the next trip."""


#: The steps of an execution that can be interrupted: it yields where it waits for another core.
Steps: TypeAlias = Generator[Waiting, None, T]
#: Executes one operation, in steps where it has regions or waits.
Handler: TypeAlias = Callable[["Interpreter", ir.Op, Scope], "Steps[None] | None"]
HANDLERS: dict[str, Handler] = {}


def executes(*names: str) -> Callable[[Handler], Handler]:
    """Register a function as what executes the named operations on every machine.

    A dialect's name stands for all its operations without a function of their own.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise RuntimeError(f"operation {name} is executed by two functions")
            HANDLERS[name] = handler
        return handler

    return register


def needs_rule(instruction: isa.Instruction) -> bool:
    """Whether a machine has to execute an instruction, because the interpreter does not.

    >>> needs_rule(isa.instructions()["tadd"]), needs_rule(isa.instructions()["barrier"])
    (True, False)
    """
    return instruction.name not in HANDLERS and instruction.syntax != "custom"


class Interpreter:
    """Runs functions of a program on one core of a machine."""

    def __init__(self, program: ir.Program, machine: Machine, core: cores.Core, shared: cores.Block) -> None:
        self.program = program
        self.reading = resolve(program)
        self.machine = machine
        self.core = core
        self.shared = shared
        self._kinds: Mapping[int, ir.KernelKind] | None = None
        #: What the blocks of a function that were executed last return.
        self.returned: tuple[Operand, ...] = ()
        #: What configuration instructions have set.
        self.modes: dict[str, Any] = {
            matrix.ROUNDING_STATE: None,
            IMG2COL_STATE: operands.ImageState(),
            TRANSFERS: operands.TransferState(),
        }

    @property
    def kinds(self) -> Mapping[int, ir.KernelKind]:
        """The kind of core that executes an operation, by its identity, where the text says it."""
        if self._kinds is None:
            self._kinds = cores_of(self.program)
        return self._kinds

    def run(
        self, function: ir.Function, arguments: Sequence[Operand], scope: Scope | None = None
    ) -> tuple[Operand, ...]:
        """Execute a function; returns what its ``return`` gives, or a fragment's results.

        ``scope`` receives the function's names, for callers that look at them afterwards.
        """
        return complete(self.function(function, arguments, scope or Scope()))

    def function(
        self, function: ir.Function, arguments: Sequence[Operand], scope: Scope
    ) -> Steps[tuple[Operand, ...]]:
        """The steps of a function."""
        for value, operand in zip(function.args, arguments, strict=True):
            scope.bind(value, operand)
        returned = yield from self.block(function.body, scope)
        if self.program.fragment:
            return tuple(scope[ir.Value(n, ir.UnknownType())] for n in fragment_outputs(self.program))
        return returned

    def block(self, region: ir.Region, scope: Scope) -> Steps[tuple[Operand, ...]]:
        """Execute a region's operations; returns the operands of its terminator."""
        for op in region.ops:
            traits = effects.traits_of(op)
            if traits.terminator:
                return tuple(scope[v] for v in op.ins)
            yield from self.step(op, scope)
            if traits.regions is not None and traits.regions.runs == "graph":
                return self.returned
        return ()

    def step(self, op: ir.Op, scope: Scope) -> Steps[None]:
        """Execute one operation; NotExecutableError where nothing executes it."""
        world = self.shared.world
        if world is not None and world.touches(op):
            if world.pauses:
                yield Paused(op, "its turn")
            world.changes += world.alters(op)
        self.machine.begin(op, scope)
        handler = HANDLERS.get(op.name) or HANDLERS.get(op.name.partition(".")[0])
        if handler is not None:
            steps = handler(self, op, scope)
            if steps is not None:
                yield from steps
            return
        resolved = self.reading.of(op)
        if resolved.instruction is None and effects.traits_of(op) is not UNKNOWN:
            HANDLERS[MICRO](self, op, scope)
            return
        if resolved.instruction is None or not resolved.instruction.executable:
            raise NotExecutableError(op.error("executable", "is not executed by this version"))
        try:
            self.instruction(resolved.fitting(), op, scope)
        except NotExecutableError as error:  # from a rule, which does not know where it stands
            raise NotExecutableError(replace(d, span=d.span or op.span) for d in error.diagnostics) from None

    def instruction(self, bound: isa.Bound, op: ir.Op, scope: Scope) -> None:
        """Execute an instruction on the machine and bind what it gives."""
        operands: dict[str, Operand] = {}
        destinations = {o.name for o in bound.instruction.destinations}
        vectors = _vectors(bound)
        for name, value in bound.values.items():
            if name not in vectors and (name not in destinations or op.outs):
                operands[name] = scope[value]
        if op.groups:
            values = bound.values
            operands = {n: _indexed(self, op, values[n], v, operands, scope) for n, v in operands.items()}
        if not op.outs:
            for name in (o.name for o in bound.instruction.destinations if o.name in bound.values):
                if name in vectors:
                    continue
                result = bound.values[name]
                ref = self.fresh(op, result, operands)
                operands[name] = ref
                scope.bind(result, ref)
        execution = Execution(op, bound, operands, self._attrs(op, bound), vectors)
        results = self._execute(execution, scope)
        for name in vectors:
            store = scope.update if op.outs else scope.bind
            store(bound.values[name], results[name])

    def _execute(self, execution: Execution, scope: Scope) -> Mapping[str, Operand]:
        """Execute an instruction, once for each storage a handle may stand for."""
        for name, operand in execution.operands.items():
            if chosen(operand) is None:
                continue
            if execution.vectors:
                message = "has a vector result and a tile that only execution chooses; allowed: a known tile"
                raise NotExecutableError(Diagnostic("error", message, execution.op.span, execution.op.name))

            def run(one: Operand, name: str = name) -> tuple[Operand, ...]:
                self._execute(replace(execution, operands={**execution.operands, name: one}), scope)
                return ()

            self.resolved(execution.op, scope, operand, run)
            return {}
        execution = memory_indexed.loaded(self.machine, execution)
        self._require_windows(execution)
        windows.require_fitting(self.machine, execution)
        if any(o.holds == "positions" for o in execution.instruction.operands):
            seen = {n: self._flat(execution.op, o) for n, o in execution.operands.items()}
            execution = replace(execution, operands=seen)
        return self.machine.execute(execution)

    def _flat(self, op: ir.Op, operand: Operand) -> Operand:
        """A window as the tile that its positions are counted in."""
        return windows.flat(self.machine, op, operand) if getattr(operand, "pitched", False) else operand

    def _require_windows(self, execution: Execution) -> None:
        """Follow the rules on tiles that are windows of others."""
        operands = execution.operands
        for small, large, starts in (c.window for c in execution.instruction.constraints if c.window):
            if not operands.keys() >= {small, large, *starts} or execution.tile(large).type.conv is not None:
                continue
            part, whole = execution.tile(small), execution.tile(large)
            offsets, sizes = [operands[n] for n in starts], (part.v_row, part.v_col)
            windows.require_inside(self.machine, execution.op, large, offsets, sizes, whole.type.shape)

    def resolved(
        self, op: ir.Op, scope: Scope, operand: Operand, run: Callable[[Operand], tuple[Operand, ...]]
    ) -> tuple[Operand, ...]:
        """What an operation gives for a handle, view or pointer, whichever storage it stands for."""
        choice = chosen(operand)
        if choice is None:
            return run(operand)
        frame, options = self.frame(op, scope), choice.options

        def first_of(at: int) -> tuple[Operand, ...]:
            if at == len(options) - 1:
                return run(with_storage(operand, options[at]))
            hit = self.scalar("arith.cmpi.eq", (choice.index, at), ir.INDEX, ir.I1)
            arms = (lambda: run(with_storage(operand, options[at])), lambda: first_of(at + 1))
            truth = self.machine.known(hit)
            return arms[0 if truth else 1]() if truth is not None else self.machine.branch(frame, hit, arms)

        return first_of(0)

    def _attrs(self, op: ir.Op, bound: isa.Bound) -> Mapping[str, ir.AttrValue]:
        """The attributes of an instruction, and what modes set earlier add to them."""
        if bound.instruction.traits.has("read", "mode") and bound.instruction.traits.has("write", "mode"):
            mode = bound.attrs["mode"]
            assert isinstance(mode, ir.FmatrixMode)
            image, state = self.mode(op, IMG2COL_STATE).registers(mode, bound.values["src"].type)
            self.modes[IMG2COL_STATE] = image
            return {**bound.attrs, IMG2COL_STATE: state}
        rounding = self.mode(op, matrix.ROUNDING_STATE) if bound.instruction.cls == "matrix" else None
        if rounding is None:
            return bound.attrs
        return {**bound.attrs, matrix.ROUNDING_STATE: rounding}

    def frame(self, op: ir.Op, scope: Scope) -> Frame:
        """What the regions of an operation may change."""
        return Frame(op, self.modes, scope, self.reading)

    def mode(self, op: ir.Op, name: str) -> Any:
        """What configuration instructions have set; it must be known here."""
        if self.modes[name] is UNSETTLED:
            message = (
                "depends on a mode that was set under control flow only execution knows; "
                "allowed: set on every path, right before"
            )
            raise NotExecutableError(op.error("mode", message))
        return self.modes[name]

    def fresh(self, op: ir.Op, result: ir.Value, operands: Mapping[str, Operand]) -> TileRef:
        """A new tile for a result that no allocation names.

        The operands give valid sizes that its type leaves open, as far as it has rows and columns for them.
        """
        t = result.type
        assert isinstance(t, ir.TileType), f"untyped result {result}"
        source = next((o for o in operands.values() if isinstance(o, TileRef)), None)
        # A product has the rows of its left tile and the columns of its right one.
        above, beside = operands.get("a", source), operands.get("b", source)
        rows, cols = t.v_row, t.v_col
        if rows is None:
            rows = t.rows if above is None else self._within(above.v_row, above.type.rows, t.rows)
        if cols is None:
            cols = t.cols if beside is None else self._within(beside.v_col, beside.type.cols, t.cols)
        return TileRef(t, self.machine.fresh(op, result, t), rows, cols)

    def _within(self, size: Scalar, extent: int, own: int) -> Scalar:
        """A valid size of a tile that has ``extent`` rows or columns, for one that has ``own``."""
        return size if extent <= own else self.scalar("arith.minsi", (size, own), ir.INDEX, ir.INDEX)

    def scalar(self, name: str, args: Sequence[Scalar], source: ir.DType, result: ir.DType) -> Scalar:
        """An ``arith`` operation, folded when every operand is a Python integer."""
        return windows.scalar(self.machine, name, args, source, result)

    def index(self, name: str, a: Scalar, b: Scalar) -> Scalar:
        """Index arithmetic that keeps constants constant."""
        if name == "arith.muli" and (_is(a, 0) or _is(b, 0)):
            return 0
        neutral = 1 if name == "arith.muli" else 0
        if _is(a, neutral):
            return b
        if _is(b, neutral):
            return a
        return self.scalar(name, (a, b), ir.INDEX, ir.INDEX)

    def select(self, index: Scalar, choices: Sequence[Scalar]) -> Scalar:
        """``choices[index]`` for an index that may only be known at run time."""
        if isinstance(index, int):
            return choices[index]
        chosen = choices[0]
        for i, choice in enumerate(choices[1:], 1):
            hit = self.scalar("arith.cmpi.eq", (index, i), ir.INDEX, ir.I1)
            chosen = self.scalar("arith.select", (hit, choice, chosen), ir.INDEX, ir.INDEX)
        return chosen


def complete(steps: Steps[T]) -> T:
    """The result of an execution that nothing interrupts; NotExecutableError where it waits."""
    try:
        waiting = next(steps)
    except StopIteration as stop:
        result: T = stop.value
        return result
    message = f"waits for {waiting.what}, which no other core provides"
    raise NotExecutableError(waiting.op.error("waits", message))


def _vectors(bound: isa.Bound) -> dict[str, ir.VectorType]:
    """The destinations of an operation that are small vectors outside tile memory."""
    named = {
        o.name: bound.values[o.name].type for o in bound.instruction.destinations if o.name in bound.values
    }
    return {name: t for name, t in named.items() if isinstance(t, ir.VectorType)}


def _indexed(
    interpreter: Interpreter,
    op: ir.Op,
    name: ir.Value,
    operand: Operand,
    operands: Mapping[str, Operand],
    scope: Scope,
) -> Operand:
    """The window that ``%view[%r, %c]`` names: the tile's valid shape at the given offsets."""
    offsets = [scope[v] for v in op.group("offsets")]
    if not isinstance(operand, View) or not offsets:
        return operand
    tiles = [o for o in operands.values() if isinstance(o, TileRef)]
    destination = op.destinations[0].type
    if tiles:
        rows, cols = tiles[0].v_row, tiles[0].v_col
    else:
        assert isinstance(destination, ir.TileType)
        rows, cols = destination.valid
    lead = len(operand.shape) - 2
    return windows.window(
        interpreter.machine, op, name.name, operand, [0] * lead + offsets, [1] * lead + [rows, cols]
    )


def _is(a: Scalar, n: int) -> bool:
    return isinstance(a, int) and a == n
