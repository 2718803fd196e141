"""What a cost model is asked, and what it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, TypeAlias

from ..ir import DType, LayoutName
from .sizes import Size, ceil_div

ModelName = Literal["doc_formula", "analytic_legacy", "cce_stub", "fit", "tables", "a5_fit"]


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
