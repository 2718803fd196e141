"""How instructions are computed in JAX; imported as ``pto_jax.lowering`` only."""

from __future__ import annotations

if __name__ != "pto_jax.lowering":
    raise ImportError("the folder 'lowering' is imported as pto_jax.lowering, never by itself")


# Importing a class file registers its rules.
from . import (
    elementwise as elementwise,
    elementwise_fused as elementwise_fused,
    elementwise_select as elementwise_select,
    fixpipe as fixpipe,
    irregular as irregular,
    irregular_gather as irregular_gather,
    irregular_index as irregular_index,
    irregular_partial as irregular_partial,
    irregular_quant as irregular_quant,
    irregular_quant_mx as irregular_quant_mx,
    irregular_sort as irregular_sort,
    layout as layout,
    layout_exponents as layout_exponents,
    layout_extract as layout_extract,
    layout_fill as layout_fill,
    layout_img2col as layout_img2col,
    layout_rearrange as layout_rearrange,
    matrix as matrix,
    matrix_mx as matrix_mx,
    memory as memory,
    memory_indexed as memory_indexed,
    memory_layouts as memory_layouts,
    reduce_expand as reduce_expand,
    reduce_expand_binary as reduce_expand_binary,
    reduce_expand_index as reduce_expand_index,
    tile_scalar as tile_scalar,
)
from .machine.attempts import varying_axes as varying_axes
from .machine.grid import disjoint_parts as disjoint_parts
from .machine.planning import Accesses as Accesses, accesses as accesses, near as near, plan as plan
from .machine.program import JaxMachine as JaxMachine
from .machine.storage import Plan as Plan
from .machine.tile_memory import MAX_STEPS as MAX_STEPS
from .rules import MEMORY_RULES as MEMORY_RULES, RULES as RULES, Semantics as Semantics
