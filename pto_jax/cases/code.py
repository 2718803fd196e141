"""How cases execute what JAX traces: optimised by XLA, compiled soonest, or operation by operation in NumPy.

A program of a campaign runs once, so compiling it takes most of its time. NumPy executes the same trace in a
fraction of that, loops and branches included, and so shows every error but those of XLA itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import jax

from ..errors import ArgumentError
from ..lowering.numpy_steps import by_numpy
from ..lowering.platforms import unoptimised

#: ``o0`` is XLA's code without optimisations; ``numpy`` and ``cuda`` are the traces for CPUs and for CUDA,
#: executed by NumPy.
Code: TypeAlias = Literal["optimised", "o0", "numpy", "cuda"]
#: Those that a name of an executor may have.
CODES: tuple[Code, ...] = ("o0", "numpy", "cuda")
_PLATFORMS: Mapping[Code, str] = {"numpy": "cpu", "cuda": "cuda"}


def executed(code: Code, function: Callable[[Any], Any], argument: Any) -> Any:
    """The result of a function of a tree of arrays.

    >>> [float(executed(code, lambda x: 2 * x, 1.5)) for code in ("optimised", "o0", "numpy")]
    [3.0, 3.0, 3.0]
    """
    if code in _PLATFORMS:
        return by_numpy(_PLATFORMS[code]).call(function, argument)
    compiled = jax.jit(function)
    if code == "optimised":
        return compiled(argument)
    return compiled.lower(argument).compile(compiler_options=unoptimised())(argument)


def code_of(words: Sequence[str]) -> Code:
    """The code that the words behind the name of an executor choose; ArgumentError for more than one.

    >>> code_of(["numpy"]), code_of([])
    ('numpy', 'optimised')
    """
    names = [c for c in CODES if c in words]
    if len(names) > 1:
        raise ArgumentError(f"executor: got {' and '.join(names)}", allowed=f"one of {', '.join(CODES)}")
    return names[0] if names else "optimised"
