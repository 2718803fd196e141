"""Executing a program's operations in order, on some machine.

The interpreter owns what does not depend on how tiles are computed: names and scopes, scalar constants,
global-memory views, tile handles, control flow, calls.
"""

from . import (
    arith as arith,
    branches as branches,
    control_flow as control_flow,
    hash_table as hash_table,
    local_storage as local_storage,
    memory_scalar as memory_scalar,
    memrefs as memrefs,
    multi_tiles as multi_tiles,
    pipe_handles as pipe_handles,
    pipes as pipes,
    pointers as pointers,
    queries as queries,
    reinterpret as reinterpret,
    subviews as subviews,
    sync_config as sync_config,
    sync_events as sync_events,
    sync_handles as sync_handles,
    sync_memory as sync_memory,
    sync_modes as sync_modes,
    tile_queries as tile_queries,
    views as views,
)
from .control_flow import step_by_step as step_by_step
from .interpreter import (
    HANDLERS as HANDLERS,
    Interpreter as Interpreter,
    Steps as Steps,
    complete as complete,
    executes as executes,
    needs_rule as needs_rule,
)
from .launch import launch as launch, run_block as run_block
from .machine import Machine as Machine
from .memrefs import memref_view as memref_view
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
from .queries import printed as printed
from .scope import UNSETTLED as UNSETTLED, Frame as Frame, Scope as Scope
from .windows import address as address
