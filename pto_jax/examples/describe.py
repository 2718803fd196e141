"""What belongs to an example besides its program: arguments, and the same computation in NumPy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import dtype

Array = NDArray[Any]
Arrays = dict[str, Array]
Values = Mapping[str, Array]


@dataclass(frozen=True)
class Example:
    """A shipped program: its name, what it computes, suitable arguments and the same computation in NumPy.

    ``inputs`` makes all arguments, by name; ``formula`` maps them to what the program should leave in its
    results, which are not all buffers it writes: some are scratch space. ``grid`` is the number of blocks
    to launch. ``bound`` is the largest difference between program and formula on made-up arguments. ``ranks``
    is the number of processors that it is written for, with the windows ``shared`` and the ``context``
    records of :func:`pto_jax.compile`; arrays then have a leading axis of ranks.
    """

    name: str
    summary: str
    inputs: Callable[[np.random.Generator], Arrays]
    formula: Callable[[Values], Arrays]
    grid: int = 1
    bound: float = 0.0
    ranks: int | None = None
    shared: tuple[str, ...] = ()
    context: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Traversable:
        """The file of the program: a path, or a member of the archive that the package is imported from."""
        folder = files("pto_jax.examples")
        return (folder if self.ranks is None else folder / "on_ranks") / f"{self.name}.pto"

    def arguments(self, seed: int = 0) -> Arrays:
        """Seeded values for every argument."""
        return self.inputs(np.random.default_rng(seed))

    def differences(self, given: Values, written: Values) -> dict[str, float]:
        """The largest difference from NumPy in each result.

        >>> from pto_jax.examples import example
        >>> given = example("vector_add").arguments()
        >>> example("vector_add").differences(given, {"z": given["x"] + given["y"]})
        {'z': 0.0}
        """
        with np.errstate(all="ignore"):
            expected = self.formula(given)
        return {name: difference(written[name], array) for name, array in expected.items()}


def difference(result: Array, expected: Array) -> float:
    """The largest absolute difference; infinite where only one of two elements is a number."""
    a, b = numbers(result.reshape(-1)[: expected.size]), numbers(expected.reshape(-1))
    if result.dtype.kind in "ui" and expected.dtype.kind == "V":
        a = numbers(result.reshape(-1)[: expected.size].view(expected.dtype))
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0))


def numbers(array: Array) -> NDArray[np.float64]:
    """The elements as float64."""
    return np.asarray(array).astype(np.float64)


def matrix(given: Values, name: str, rows: int, cols: int, type: str | None = None) -> NDArray[np.float64]:
    """The start of an argument as a matrix; ``type`` is its element type where it may arrive as raw words."""
    rows, cols = max(rows, 0), max(cols, 0)
    flat = np.ascontiguousarray(given[name]).reshape(-1)[: rows * cols]
    if type is not None and flat.dtype != dtype(type).numpy:
        flat = flat.view(dtype(type).numpy)
    return numbers(flat).reshape(rows, cols)


def normal(rng: np.random.Generator, shape: tuple[int, ...], type: str = "f32", scale: float = 1.0) -> Array:
    """Normally distributed elements of a type."""
    return np.asarray(scale * rng.standard_normal(shape)).astype(dtype(type).numpy)


def zeros(shape: tuple[int, ...], type: str = "f32") -> Array:
    """Zeros of an element type, named as programs do."""
    return np.zeros(shape, dtype(type).numpy)


def powers_of_two(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Powers of two around one, as 8-bit exponents."""
    return np.asarray(2.0 ** rng.integers(-3, 4, shape)).astype(dtype("f8e8m0").numpy)


def softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(x) divided by its sum along each row."""
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return np.asarray(e / e.sum(1, keepdims=True))
