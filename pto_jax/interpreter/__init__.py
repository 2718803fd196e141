"""Executing a program's operations in order, on some machine.

The walker owns what does not depend on how tiles are computed: names and scopes, scalar constants,
global-memory views, tile handles, control flow, calls.
"""

from . import aliases as aliases, control as control, memory as memory, pipes as pipes, state as state
from .control import step_by_step as step_by_step
from .cores import launch as launch, run_block as run_block
from .interpreter import (
    UNSETTLED as UNSETTLED,
    Frame as Frame,
    Scope as Scope,
    Walk as Walk,
    Walker as Walker,
    complete as complete,
    needs_rule as needs_rule,
)
from .machine import Machine as Machine
from .operands import (
    NOWHERE as NOWHERE,
    Buffer as Buffer,
    Choice as Choice,
    Execution as Execution,
    Operand as Operand,
    Pointer as Pointer,
    Scalar as Scalar,
    TileRef as TileRef,
    View as View,
    chosen as chosen,
    with_storage as with_storage,
)
from .state import memref_view as memref_view, printed as printed
from .windows import address as address
