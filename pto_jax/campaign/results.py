"""What a machine gives for a case, in one form for all machines, and how two of them are compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..generate.programs import Case
from ..ir import DType, MemRefType, PartitionViewType, PtrType, TensorViewType, VectorType
from ..vectors import compare, manifest

Words = NDArray[Any]
Buffer: TypeAlias = PtrType | MemRefType | PartitionViewType | TensorViewType
#: The bound of results that follow from inexact ones: their elements are not compared.
UNBOUNDED = -1


@dataclass(frozen=True, eq=False)
class Output:
    """One result: raw words, one per element (4-bit elements too), and a tile's valid sizes."""

    dtype: DType
    words: Words
    valid: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """The results of one case by name, the run-time rules that were found broken, what a device said.

    ``others`` are cases that were executed at the same time, each with its own results.
    """

    outputs: Mapping[str, Output]
    problems: tuple[str, ...] = ()
    log: str = ""
    others: tuple[tuple[Case, "Run"], ...] = ()


@dataclass(frozen=True)
class Mismatch:
    """An output on which two machines differ: what was found, element by element where it has elements."""

    output: str
    message: str
    comparison: compare.Comparison | None = None


def type_of(case: Case, name: str) -> Buffer | VectorType:
    """Type of a result that is no tile: a vector, or a buffer that is an argument."""
    argument = case.inputs.get(name)
    results = (v.type for op in case.program.walk() for v in op.results if v.name == name)
    t = next(results) if argument is None else argument.type
    assert isinstance(t, PtrType | MemRefType | PartitionViewType | TensorViewType | VectorType)
    return t


def mismatch(case: Case, name: str, found: Output | None, wanted: Output, by: str) -> Mismatch | None:
    """How a result differs from the wanted one, which a machine called ``by`` gave; None when it is equal.

    NaNs are equal to each other; results with an ULP bound may differ by it.
    """
    if found is None:
        return Mismatch(name, f"{name}: no such output, {by} has one")
    if found.valid != wanted.valid:
        return Mismatch(name, f"{name}: valid region {found.valid}, {by}: {wanted.valid}")
    if found.words.shape != wanted.words.shape:
        return Mismatch(name, f"{name}: shape {found.words.shape}, {by}: {wanted.words.shape}")
    bound = case.ulp.get(name, 0)
    if bound == UNBOUNDED or np.array_equal(found.words, wanted.words):
        return None
    rule = manifest.Rule(bound)
    comparison = compare.compare_words(name, wanted.dtype, wanted.words, found.words, rule)
    if comparison.equal:
        return None
    first = comparison.first
    if first is None:
        return Mismatch(name, f"{name}: {comparison.reason}", comparison)
    at = tuple(int(i) for i in np.unravel_index(first.index, wanted.words.shape))
    expected, actual = first.bits
    count = f"{comparison.different} of {comparison.elements} elements differ"
    return Mismatch(name, f"{name}: {count}, first {at}: {actual}, {by}: {expected}", comparison)
