"""Putting an instruction into the tables of every room."""

from .. import errors, isa
from ..isa import registry
from ..isa.declare import Instruction
from ..isa.semantics import REAL
from ..lowering import rules as lowering_rules
from ..oracle import step as oracle_rules
from ..sanitizer import lanes, step as shadow_rules

_TABLES = (lowering_rules.RULES, oracle_rules.RULES, shadow_rules.SHADOW_RULES)


def register(
    declaration: Instruction,
    jax: lowering_rules.Rule,
    numpy: oracle_rules.Rule,
    shadow: shadow_rules.Rule | None = None,
) -> Instruction:
    """Add an instruction with its rules, and give its declaration back.

    ``jax(context, inputs)`` gives the words of each destination, as rules of :mod:`pto_jax.lowering` do;
    ``numpy(step)`` writes them, as rules of :mod:`pto_jax.oracle` do; ``shadow(step)`` says which bits of
    them are defined. Without one, a lane is defined where that lane of every source is.

    Raises ArgumentError where the name is taken or no name of an instruction, or where a lane of the
    destination depends on other lanes and there is no ``shadow``.

    >>> from dataclasses import replace
    >>> from pto_jax import isa, oracle, ops
    >>> declared = replace(isa.instructions()["tneg"], name="tminus", intrinsic="TMINUS")
    >>> added = register(declared, lowering_rules.RULES["tneg"], oracle_rules.RULES["tneg"])
    >>> import numpy as np
    >>> ops.tminus(np.ones((1, 8), np.float32))
    Tile(vec 1x8xf32, [[-1 -1 ... -1 -1]])
    >>> unregister("tminus")
    """
    if shadow is None and not declaration.lane_wise:
        raise errors.ArgumentError(
            f"{declaration.name}: no shadow rule; it may be left out where a lane of the destination comes "
            "from that lane of the sources (lanes='same')"
        )
    registry.add(declaration, isa.instructions)
    name = declaration.name
    lowering_rules.RULES[name] = jax
    oracle_rules.RULES[name] = numpy
    shadow_rules.SHADOW_RULES[name] = shadow or lanes.lanewise
    return declaration


def unregister(name: str) -> None:
    """Take an added instruction out of every table, for tests and notebooks.

    Kernels that were compiled before keep computing what they did. Raises ArgumentError for a name that no
    added instruction has; :func:`register` has an example.
    """
    if name not in registry.added():
        names = ", ".join(registry.added()) or "none"
        raise errors.ArgumentError(f"no added instruction is called {name!r}; added: {names}")
    registry.remove(name)
    REAL.pop(name, None)
    for table in _TABLES:
        table.pop(name, None)
