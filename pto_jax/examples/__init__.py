"""Programs shipped with the package, each with suitable arguments and its computation in NumPy.

>>> list(EXAMPLES)[:4]
['vector_add', 'add_relu_convert', 'masked_tile', 'conversion_chain']
"""

from collections.abc import Mapping
from types import MappingProxyType

from ..errors import ArgumentError, nearest, short_list
from . import ranks
from .computations import ELEMENTARY, MATRICES, MODELS, VECTORS
from .describe import Example as Example

EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {e.name: e for e in (*ELEMENTARY, *VECTORS, *MATRICES, *MODELS)}
)
#: The examples that run on several ranks.
ON_RANKS: Mapping[str, Example] = MappingProxyType({e.name: e for e in ranks.EXAMPLES})


def example(name: str) -> Example:
    """The shipped example called ``name``."""
    choice = {**EXAMPLES, **ON_RANKS}.get(name)
    if choice is None:
        names = (*EXAMPLES, *ON_RANKS)
        allowed = short_list(names, where="pto-jax run --example list")
        raise ArgumentError(f"no example is called {name!r}", allowed=allowed, fix=nearest(name, names))
    return choice


def described() -> str:
    """Name and one-line description of every example."""
    every = {**EXAMPLES, **ON_RANKS}
    width = max(map(len, every))
    return "\n".join(f"  {name:<{width}}  {e.summary}" for name, e in every.items())
