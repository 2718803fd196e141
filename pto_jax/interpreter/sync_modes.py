"""Rounding modes of the matrix unit."""

from ..ir import Op
from ..isa.matrix import ROUNDING_STATE
from .interpreter import Interpreter, executes
from .scope import Scope


@executes("sethf32mode", "settf32mode")
def _set_f32_mode(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    attrs = interpreter.reading.of(op).fitting().attrs
    interpreter.modes[ROUNDING_STATE] = attrs["mode"] if attrs["enable"] else None
