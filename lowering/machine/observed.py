"""A machine that tells an observer what it does; for eager execution only, where every value is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jax import Array

from pto_jax.interpreter import Execution, Scope
from pto_jax.ir import Op

from .program import JaxMachine

if TYPE_CHECKING:
    from jaxtyping import Shaped

    from pto_jax.interpreter import Operand


class Observer(Protocol):
    """What is told about an execution, in its order; an exception that it raises ends the execution."""

    def block(self, machine: JaxMachine) -> None:
        """A block of a grid of several begins."""

    def begin(self, machine: JaxMachine, op: Op, scope: Scope) -> None:
        """Any operation begins, structured ones and handles' included."""

    def before(self, machine: JaxMachine, execution: Execution) -> None:
        """An instruction is about to compute."""

    def after(self, machine: JaxMachine, execution: Execution, made: Mapping[str, Operand]) -> None:
        """It has written its destinations; ``made`` are those outside tile memory."""


@dataclass
class ObservedMachine(JaxMachine):
    """Executes like :class:`JaxMachine` and tells ``observer``."""

    observer: Observer | None = None

    def begin(self, op: Op, scope: Scope) -> None:
        """Tell the observer the operation and the names it sees, before it is executed."""
        super().begin(op, scope)
        if self.observer is not None:
            self.observer.begin(self, op, scope)

    def new_block(self) -> None:
        """Tell the observer that a block of a launch begins."""
        super().new_block()
        if self.observer is not None:
            self.observer.block(self)

    def execute(self, execution: Execution) -> dict[str, Shaped[Array, "..."]]:
        """Execute an instruction; the observer looks before it and after it."""
        if self.observer is None:
            return super().execute(execution)
        self.observer.before(self, execution)
        made = super().execute(execution)
        self.observer.after(self, execution, made)
        return made
