"""Execution of a program's operations in order, by any executor.

The interpreter owns what does not depend on how tiles are computed: names and scopes, scalar constants,
global-memory views, tile handles, control flow, calls.
"""

from ..isa import load_families
from . import control_flow as control_flow, micro as micro
from .control_flow import step_by_step as step_by_step
from .interleaving import launch as launch, run_block as run_block
from .interpreter import (
    HANDLERS as HANDLERS,
    Interpreter as Interpreter,
    Steps as Steps,
    complete as complete,
    executes as executes,
    needs_rule as needs_rule,
)
from .machine import Machine as Machine
from .operands import (
    NOWHERE as NOWHERE,
    UNSETTLED as UNSETTLED,
    Buffer as Buffer,
    Choice as Choice,
    Execution as Execution,
    Frame as Frame,
    Operand as Operand,
    Pointer as Pointer,
    Scalar as Scalar,
    Scope as Scope,
    TileRef as TileRef,
    View as View,
    chosen as chosen,
    with_storage as with_storage,
)
from .views import memref_view as memref_view, printed as printed
from .windows import address as address

load_families(__name__)
