"""A program of this folder with arguments, and what it leaves in its buffers, computed in plain NumPy."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax.ir import dtype

FOLDER = Path(__file__).parent

Array = NDArray[Any]
Arrays = dict[str, Array]
#: Arguments by name: arrays and numbers.
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A program, its entry, and the calls that are checked.

    ``shapes`` gives the shapes of buffers, with the element type where that is not f32, ``values`` changes
    what they hold. ``calls`` gives all other arguments, for each call. ``formula`` maps the arguments to the
    buffers that the program writes. ``relative`` bounds the relative error in buffers whose results are
    no exact numbers. ``printed`` gives the text that a call prints. ``eager`` is false where only the
    instructions matter, each of which costs a compilation when it is executed by itself.
    """

    program: str
    shapes: Mapping[str, tuple[Any, ...]]
    formula: Callable[[Arguments], Arrays]
    calls: tuple[Mapping[str, Any], ...] = field(default=({},))
    entry: str | None = None
    grid: int = 1
    values: Mapping[str, Callable[[Array], Array]] = field(default_factory=dict)
    relative: Mapping[str, float] = field(default_factory=dict)
    printed: Callable[[Arguments], str] = lambda arguments: ""
    eager: bool = True

    @property
    def name(self) -> str:
        return self.program + (f"-{self.entry}" if self.entry else "")

    @property
    def parsed(self) -> pto.Program:
        return load(self.program)

    def arguments(self) -> Iterator[dict[str, Any]]:
        """The arguments of each call: small whole numbers, the same in every run."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        for numbers in self.calls:
            buffers = {name: numbered(rng, shape) for name, shape in self.shapes.items()}
            buffers |= {name: change(buffers[name]) for name, change in self.values.items()}
            yield {**buffers, **numbers}


@cache
def load(name: str) -> pto.Program:
    """A program of this folder."""
    return pto.load(FOLDER / f"{name}.pto")


def numbered(rng: np.random.Generator, shape: tuple[Any, ...]) -> Array:
    """An array of numbers from -4 to 4 (0 to 8 where the element type has no sign)."""
    *extents, last = shape
    d = dtype(last) if isinstance(last, str) else dtype("f32")
    size = tuple(extents) if isinstance(last, str) else shape
    low = 0 if d.kind == "uint" else -4
    return rng.integers(low, low + 9, size).astype(d.numpy)
