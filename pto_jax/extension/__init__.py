"""Instructions of users: declared, computed and tested like built-in ones.

A file with one call of :func:`instruction` adds an instruction to the parser, the printer, the verifier, the
executors, the sanitizer, the generator, the shrinker, the cost models and C++ emission; ``pto-jax COMMAND
--extension FILE.py`` loads it. :func:`register` takes a whole declaration and its rules, for instructions
that are not lane-wise.
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
