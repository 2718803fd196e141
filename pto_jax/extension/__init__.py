"""Instructions of one's own: declared, computed and tested like built-in ones.

A file with one call of :func:`instruction` makes an instruction that parses, verifies, prints, runs, batches,
is sanitized, generated, shrunk, costed and emitted; ``pto-jax COMMAND --extension FILE.py`` loads it.
:func:`register` takes a whole declaration and rules for what is not lane by lane.
"""

from ..isa.declare import (
    Attribute as Attribute,
    Constraint as Constraint,
    Cycles as Cycles,
    Decision as Decision,
    Instruction as Instruction,
    Operand as Operand,
)
from ..isa.semantics import Range as Range
from .lanes import (
    instruction as instruction,
    load as load,
    load_from_environment as load_from_environment,
    loaded as loaded,
    register as register,
    unregister as unregister,
)
