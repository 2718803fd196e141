"""How instructions are computed in JAX; imported as ``pto_jax.lowering`` only."""

from __future__ import annotations

if __name__ != "pto_jax.lowering":
    raise ImportError("the folder 'lowering' is imported as pto_jax.lowering, never by itself")


from . import (
    elementwise,
    elementwise_fused,
    elementwise_select,
    fixpipe,
    irregular,
    irregular_gather,
    irregular_index,
    irregular_partial,
    irregular_quant,
    irregular_quant_mx,
    irregular_sort,
    layout,
    layout_extract,
    layout_fill,
    layout_img2col,
    layout_rearrange,
    matrix,
    matrix_mx,
    memory,
    memory_indexed,
    memory_layouts,
    reduce_expand,
    reduce_expand_binary,
    reduce_expand_index,
    tile_scalar,
)
from .machine.control_flow import varying_axes as varying_axes
from .machine.grid import disjoint_parts as disjoint_parts
from .machine.planning import Accesses as Accesses, accesses as accesses, near as near, plan as plan
from .machine.program import JaxMachine as JaxMachine
from .machine.storage import Plan as Plan
from .machine.tile_memory import MAX_STEPS as MAX_STEPS
from .rules import MEMORY_RULES as MEMORY_RULES, RULES as RULES, Semantics as Semantics

#: Importing a class file registers its rules.
CLASS_FILES = (
    elementwise,
    elementwise_fused,
    elementwise_select,
    tile_scalar,
    reduce_expand,
    reduce_expand_binary,
    reduce_expand_index,
    memory,
    memory_indexed,
    memory_layouts,
    layout,
    layout_extract,
    layout_fill,
    layout_img2col,
    layout_rearrange,
    fixpipe,
    matrix,
    matrix_mx,
    irregular,
    irregular_gather,
    irregular_index,
    irregular_partial,
    irregular_quant,
    irregular_quant_mx,
    irregular_sort,
)
