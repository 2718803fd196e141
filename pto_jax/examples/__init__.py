"""Programs shipped with the package.

>>> sorted(EXAMPLES)
['add_relu_convert', 'conversion_chain', 'masked_tile', 'vector_add']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from ..errors import ArgumentError


@dataclass(frozen=True)
class Example:
    """A shipped program: its name, what it computes, and scalar arguments that suit it."""

    name: str
    summary: str
    scalars: Mapping[str, int | float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def path(self) -> Path:
        return Path(__file__).parent / f"{self.name}.pto"


EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        example.name: example
        for example in (
            Example("vector_add", "z = x + y, load, add, store on one 64x64 f32 tile"),
            Example("add_relu_convert", "z = f16(relu(x + y)) by one fused, saturating instruction"),
            Example(
                "masked_tile",
                "y = relu(x) / 2 on an odd-sized window of a matrix, valid rows and columns at run time",
                MappingProxyType({"rows": 13, "cols": 45}),
            ),
            Example(
                "conversion_chain",
                "int8 quantisation and back: f32 -> f16 -> i8 (saturating) -> f16 -> f32",
                MappingProxyType({"scale": 16.0, "inverse": 0.0625}),
            ),
        )
    }
)


def example(name: str) -> Example:
    """The shipped example called ``name``."""
    found = EXAMPLES.get(name)
    if found is None:
        raise ArgumentError(f"no example is called {name!r}; shipped: {', '.join(EXAMPLES)}")
    return found
