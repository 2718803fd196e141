"""Whether the order of ranks depends on data: what steers communication is followed without executing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .. import ir
from ..analysis.provenance import called
from ..analysis.resolve import resolve
from ..errors import Diagnostic, NotExecutableError
from ..isa.effects import traits_of
from .abstract import AbstractMachine, Unknown
from .cores import communicates
from .interleaving import launch
from .machine import After, Arm, Before, Body
from .operands import Frame, LocalPointer, Operand, Pointer, Scalar, Scope, TileRef


class Data(Unknown):
    """A scalar that global memory or a tile has."""


class Signal(Unknown):
    """A scalar that a signal was in a loop: another rank may change it meanwhile."""


def signals(
    program: ir.Program, function: ir.Function, active: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The arguments of a function that hold signals: what it notifies, waits for and looks at."""
    resolved = resolve(program)
    names, arguments = resolved.origins(function), set[str]()
    for op in function.walk():
        value = resolved.of(op).values.get("signal")
        if value is not None:
            arguments |= names.get(value.name, frozenset())
        callee = called(program, op)
        if callee is not None and callee.name not in active:
            arguments_of = {p.name: v.name for p, v in zip(callee.args, op.ins, strict=False)}
            for inner in signals(program, callee, active | {function.name}):
                arguments |= names.get(arguments_of.get(inner, ""), frozenset())
    return frozenset(arguments)


@dataclass
class Steering(AbstractMachine):
    """Follows a program and notes the first place where data steers whom a rank meets, and when."""

    program: ir.Program
    static: frozenset[str] = frozenset()
    records: frozenset[str] = frozenset()
    found: list[Diagnostic] = field(default_factory=list)
    repeats: int = 0

    def _note(self, op: ir.Op, what: str) -> None:
        message = (
            f"{what}, so the order of the ranks is not static; allowed: numbers of the text, scalars and "
            'signals; try: engine="interpreter", which executes it'
        )
        self.found.append(op.error("ranks", message))

    def begin(self, op: ir.Op, scope: Scope) -> None:
        """Note a wait whose value is data."""
        order = traits_of(op).order
        if order is None or (order.role, order.through) != ("wait", "signal"):
            return
        if any(isinstance(v.type, ir.ScalarType) and isinstance(scope.find(v), Data) for v in op.ins):
            self._note(op, "data decides what a rank waits for")

    def scalar(self, name: str, args: Sequence[Scalar], source: ir.DType, result: ir.DType) -> Scalar:
        """Data where an operand is data, else a signal where one is."""
        return next((kind() for kind in (Data, Signal) if any(isinstance(a, kind) for a in args)), Unknown())

    def address(self, base: Scalar, index: Scalar, stride: Scalar) -> Scalar:
        """Data where an operand is data."""
        return self.scalar("", (base, index, stride), ir.INDEX, ir.INDEX)

    def element(self, op: ir.Op, ref: TileRef, position: Scalar, dtype: ir.DType) -> Scalar:
        """Data."""
        return Data()

    def load(self, op: ir.Op, pointer: Pointer | LocalPointer, dtype: ir.DType) -> Scalar:
        """Data, but for signals and context records."""
        if isinstance(pointer, LocalPointer):
            return Data()
        if pointer.buffer in self.records and isinstance(pointer.offset, Data):
            self._note(op, "data decides which rank is the peer")
        if self.repeats and pointer.buffer in self.static and not communicates(self.program, op):
            return Signal()
        return Unknown() if pointer.buffer in self.static | self.records else Data()

    def opened(self, operand: Operand) -> Operand:
        """What a loop carries: data stay data."""
        return operand if isinstance(operand, Data) else super().opened(operand)

    def either(self, first: Operand, second: Operand) -> Operand:
        """What one of two regions hands on."""
        return second if isinstance(second, Data) else super().either(first, second)

    def _steered(self, frame: Frame, by: Scalar) -> None:
        if isinstance(by, Data) and _meets(self.program, frame.op):
            self._note(frame.op, "data decides how often ranks communicate here")

    def branch(self, frame: Frame, condition: Scalar, arms: Sequence[Arm]) -> tuple[Operand, ...]:
        """Both arms."""
        self._steered(frame, condition)
        return super().branch(frame, condition, arms)

    def loop(self, frame: Frame, trips: Scalar, inits: Sequence[Operand], body: Body) -> tuple[Operand, ...]:
        """One trip."""
        self._steered(frame, trips)
        return super().loop(frame, trips, inits, body)

    def repeat(
        self, frame: Frame, inits: Sequence[Operand], before: Before, after: After
    ) -> tuple[Operand, ...]:
        """One trip."""

        def tested(carried: tuple[Operand, ...]) -> tuple[Scalar, tuple[Operand, ...]]:
            condition, passed = before(carried)
            self._steered(frame, condition)
            if isinstance(condition, Signal):
                self._note(frame.op, "a loop reads a signal until another rank has changed it")
            return condition, passed

        def again(passed: tuple[Operand, ...]) -> tuple[Operand, ...]:
            return tested(after(passed))[1]

        self.repeats += 1
        passed = super().repeat(frame, inits, tested, again)
        self.repeats -= 1
        return passed


def _meets(program: ir.Program, op: ir.Op) -> bool:
    """Whether ranks wait for each other or change signals inside an operation."""
    return communicates(program, op) and any(map(_signals, _inside(program, op)))


def _inside(program: ir.Program, op: ir.Op) -> list[ir.Op]:
    operations = list(op.walk())
    for inner in list(operations):
        callee = called(program, inner)
        if callee is not None:
            operations += [o for o in callee.walk() if called(program, o) is not callee]
    return operations


def _signals(op: ir.Op) -> bool:
    order = traits_of(op).order
    return order is not None and order.through in ("signal", "cores")


def require_static(program: ir.Program, function: ir.Function, grid: int, records: frozenset[str]) -> None:
    """NotExecutableError where data decides the order of the ranks."""
    machine = Steering(program, signals(program, function), records)
    operands = [machine.argument(a) for a in function.args]
    launch(program, machine, function, operands, grid=grid)
    if machine.found:
        raise NotExecutableError(machine.found[0])
