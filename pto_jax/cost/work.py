"""The work that a cost model is asked about, the figure that it answers, and arithmetic on sizes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, TypeAlias

import numpy as np

from ..analysis.addresses import fold_op
from ..ir import DType, LayoutName, Op

#: A size: an integer, or an array of integers.
Size: TypeAlias = Any


def ceil_div(a: Size, b: Size) -> Size:
    """Quotient rounded up.

    >>> ceil_div(9, 8), ceil_div(0, 8)
    (2, 0)
    """
    return -(-a // b)


def where(condition: Size, yes: Size, no: Size) -> Size:
    """``yes`` where the condition holds, else ``no``, in the array library of the arguments.

    >>> where(True, 1, 2)
    1
    """
    for value in (condition, yes, no):
        namespace = getattr(value, "__array_namespace__", None)
        if namespace is not None:
            return namespace().where(condition, yes, no)
    return yes if condition else no


def at_most(size: Size, limit: Size) -> Size:
    """The smaller of two sizes."""
    return where(size < limit, size, limit)


def at_least(size: Size, limit: Size) -> Size:
    """The larger of two sizes."""
    return where(size > limit, size, limit)


def nearest(value: Size) -> Size:
    """A cycle count from a real figure: rounded to nearest, halves up, never negative.

    >>> nearest(56.95), nearest(-0.2)
    (57, 0)
    """
    return at_least(whole((value + 0.5) // 1), 0)


def whole(value: Size) -> Size:
    """An integer from a real figure, its fraction cut off."""
    if isinstance(value, int | float | np.number):
        return int(value)
    return value.astype(int)


def is_number(value: Size) -> bool:
    """Whether a size is a plain number and not an array."""
    return isinstance(value, int | float | np.number)


#: Operations that have a result for arrays, too, by the numbers of their operands.
_OF_ARRAYS: Mapping[str, Callable[..., Size]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.minsi": at_most,
    "arith.maxsi": at_least,
    "arith.ceildivsi": ceil_div,
    **dict.fromkeys(("arith.index_cast", "arith.extsi", "arith.trunci", "arith.extui"), lambda a: a),
}


def fold(op: Op, known: Mapping[str, Size]) -> Size | None:
    """The size that an operation yields, as far as ``known`` gives its operands.

    Numbers as everywhere (:func:`pto_jax.analysis.addresses.fold_op`), arrays element by element.
    """
    number = fold_op(op, known)
    function = _OF_ARRAYS.get(op.name)
    if number is not None or function is None or not all(v.name in known for v in op.ins):
        return number
    return function(*(known[v.name] for v in op.ins))


ModelName = Literal["doc_formula", "analytic_legacy", "cce_stub", "fit", "tables", "a5_fit", "vfsim"]


class Path(IntEnum):
    """How an elementwise instruction goes over its tile.

    >>> from pto_jax.cost import estimate
    >>> estimate("tadd", "f32", 16, 64).path
    <Path.CONTINUOUS: 1>
    """

    SMALL = 0
    CONTINUOUS = 1
    GENERAL = 2


@dataclass(frozen=True, eq=False)
class Work:
    """One execution of an instruction.

    ``rows``, ``cols`` are the physical sizes, ``k`` the reduced size of a product, ``route`` a transfer's
    ends (``GM->Vec``). ``static``: the valid sizes are known when the program is compiled. ``binary``:
    tree form of tcolsum. ``source`` is the element type that a conversion starts from. ``block`` is the
    block length of tmrgsort, ``lists`` its number of lists.
    """

    instruction: str
    dtype: DType
    valid_row: Size
    valid_col: Size
    rows: Size
    cols: Size
    layout: LayoutName = "ND"
    k: Size = 1
    route: str = ""
    static: bool = True
    binary: bool = False
    block: Size = 64
    lists: int = 1
    source: DType | None = None

    @property
    def elements(self) -> Size:
        """Elements of the valid region."""
        return self.valid_row * self.valid_col

    @property
    def bytes(self) -> Size:
        """Bytes of the valid region, rounded up to whole ones."""
        return ceil_div(self.elements * self.dtype.storage_bits, 8)

    @property
    def per_repeat(self) -> int:
        """Elements of one 256-byte repeat."""
        return 256 * 8 // self.dtype.storage_bits


@dataclass(frozen=True, eq=False)
class Figure:
    """What one model says about one execution; ``cycles`` is None where it has no data, ``note`` says why.

    ``terms`` are the quantities the figure is made of. ``path`` and ``layout`` tell the elementwise path.
    ``lower_bound``: the model gives no count for this shape and the figure is the one of the best shape.
    With sizes that are arrays ``cycles``, ``terms``, ``path`` and ``lower_bound`` are arrays.

    >>> from pto_jax.cost import estimate
    >>> print(estimate("tadd", "f32", 16, 64))
    2575 cycles (doc_formula)
    """

    model: ModelName
    cycles: Size
    terms: Mapping[str, Size] = field(default_factory=dict)
    path: Size | None = None
    layout: LayoutName = "ND"
    lower_bound: Size = False
    note: str = ""

    def __str__(self) -> str:
        if self.cycles is None:
            return f"no data ({self.model}): {self.note}"
        bound = " (lower bound)" if self.lower_bound is True else ""
        return f"{self.cycles} cycles ({self.model}){bound}"


Estimate: TypeAlias = Callable[[Work], Figure]


@dataclass(frozen=True, eq=False)
class Model:
    """A cycle model: the profiles it describes, its instructions, and how it answers.

    >>> from pto_jax.cost import MODELS
    >>> MODELS["doc_formula"].profiles
    ('a2a3',)
    """

    name: ModelName
    title: str
    profiles: tuple[str, ...]
    instructions: frozenset[str]
    estimate: Estimate
    source: str


def no_data(model: ModelName, note: str) -> Figure:
    """The answer of a model that does not cover something."""
    return Figure(model, None, note=note)


def lacks(model: ModelName, work: Work, what: str = "") -> Figure:
    """No data for an instruction, or for its element type, route or form (``what``)."""
    return no_data(model, f"{model} has no figure for {work.instruction}{' ' + what if what else ''}")


def of_type(table: int | Mapping[str, int] | None, dtype: DType) -> int | None:
    """The entry of a table by element type; a number stands for every type."""
    return table.get(dtype.name) if isinstance(table, Mapping) else table
