"""JAX rules of instructions and the JAX executor; imported as ``pto_jax.lowering`` only."""

if __name__ != "pto_jax.lowering":
    raise ImportError("the folder 'lowering' is imported as pto_jax.lowering, never by itself")


from pto_jax.isa import load_families

from . import doubts as doubts, platforms as platforms
from .machine.control_flow import varying_axes as varying_axes
from .machine.grid import disjoint_parts as disjoint_parts
from .machine.pieces import Buffers as Buffers, Source as Source
from .machine.planning import (
    Accesses as Accesses,
    accesses as accesses,
    independent as independent,
    inside as inside,
    near as near,
    offsets as offsets,
    plan as plan,
    spans as spans,
)
from .machine.program import JaxMachine as JaxMachine
from .machine.ranks import RankMachine as RankMachine, Words as Words
from .machine.storage import Plan as Plan
from .machine.tile_memory import ACCESS_RULES as ACCESS_RULES, MAX_STEPS as MAX_STEPS
from .rules import MEMORY_RULES as MEMORY_RULES, RULES as RULES, Semantics as Semantics

load_families(__name__)
