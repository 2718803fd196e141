"""ULP distances between the results of two executors, and the accuracy that results must have.

Counted are results of the instructions that have an ULP bound, and of those with a bound of 0, roots,
reciprocals and quotients, because they are correctly rounded: there any distance is worth seeing.

>>> h = Histograms()
>>> h.add("texp", "f32", [0, 0, 1, 5, 9])
>>> h["texp", "f32"].counts, h["texp", "f32"].worst
(Counter({0: 2, 1: 1, 4: 1, 8: 1}), 9)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import isa
from ..analysis import dataflow, provenance
from ..analysis.entries import fragment_outputs, written_buffers
from ..analysis.resolve import resolve
from ..errors import objection
from ..generate.programs import Case
from ..ir import Function, Op, Program, ScalarType, Value
from ..isa import find
from ..isa.effects import traits_of
from ..isa.rules.constraints import element_type
from ..vectors.compare import has_ordered_bits, is_nan, ulp_distance
from .targets import UNBOUNDED, Output, Run

#: Distances below have a bucket each, those above one per power of two.
SMALL = 4
#: Stored counts and distances are smaller, so that floats hold them.
_LARGEST = 1 << 53


def label(start: int) -> str:
    """The distances of a bucket in words.

    >>> label(3), label(8)
    ('3', '8-15')
    """
    return str(start) if start < SMALL else f"{start}-{2 * start - 1}"


@dataclass
class Histogram:
    """Distances of one instruction's results.

    Elements per bucket, elements of which only one machine's is a NaN, and the largest distance.
    """

    counts: Counter[int] = field(default_factory=Counter)
    nan: int = 0
    worst: int = 0

    @property
    def elements(self) -> int:
        """The number of elements, NaNs included."""
        return self.counts.total() + self.nan

    def merge(self, other: Histogram) -> None:
        """Add the elements of another histogram."""
        self.counts.update(other.counts)
        self.nan += other.nan
        self.worst = max(self.worst, other.worst)

    def plain(self) -> dict[str, Any]:
        """As JSON values, the same for equal histograms."""
        counts = {str(start): self.counts[start] for start in sorted(self.counts)}
        return {"buckets": counts, "nan": self.nan, "worst": self.worst}


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(objection(f"got {value!r}", "a count"))
    return value


class Histograms:
    """Histograms by instruction and element type."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Histogram] = {}

    def __getitem__(self, key: tuple[str, str]) -> Histogram:
        return self._of[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Instructions and element types, in order."""
        return iter(sorted(self._of))

    def __len__(self) -> int:
        return len(self._of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histograms) and self._of == other._of

    __hash__ = None  # type: ignore[assignment]

    def add(self, instruction: str, dtype: str, distances: ArrayLike, nan: int = 0) -> None:
        """Count distances (0 or more, of any shape), and elements of which one is a NaN."""
        values = np.asarray(distances, np.int64).reshape(-1)
        histogram = self._of.setdefault((instruction, dtype), Histogram())
        histogram.nan += nan
        if not values.size:
            return
        # Distances are below 2**33, so that float64 holds them and frexp's exponent is exact.
        exponents = np.frexp(values.astype(np.float64))[1]
        place = np.where(values < SMALL, values, exponents + (SMALL - SMALL.bit_length()))
        for at, count in enumerate(np.bincount(place)):
            if count:
                start = at if at < SMALL else 1 << (at - SMALL + SMALL.bit_length() - 1)
                histogram.counts[start] += int(count)
        histogram.worst = max(histogram.worst, int(values.max()))

    def add_case(self, case: Case, expected: Run, actual: Run) -> None:
        """Count the distances between two machines' results of a case, inside the valid regions."""
        for (name, instruction), dtypes in _writers(case).items():
            a, b = expected.outputs.get(name), actual.outputs.get(name)
            if a is not None and b is not None and a.dtype.name in dtypes and _alike(a, b):
                self._count(instruction, a, b)

    def _count(self, instruction: str, expected: Output, actual: Output) -> None:
        d = expected.dtype
        rows, cols = expected.valid or (None, None)
        a, b = (o.words[:rows, :cols] if o.words.ndim == 2 else o.words for o in (expected, actual))
        nan_a, nan_b = is_nan(d, a), is_nan(d, b)
        numbers = ~(nan_a | nan_b)
        both = int((nan_a & nan_b).sum())
        apart = ulp_distance(d, a[numbers], b[numbers])
        distances = np.concatenate([apart, np.zeros(both, np.int64)]) if both else apart
        self.add(instruction, d.name, distances, int((nan_a ^ nan_b).sum()))

    def merge(self, other: Histograms) -> None:
        """Add the elements of other histograms, instruction by instruction."""
        for key, histogram in other._of.items():
            self._of.setdefault(key, Histogram()).merge(histogram)

    def to_json(self) -> str:
        """As JSON text, the same for equal histograms."""
        return json.dumps({"|".join(key): self._of[key].plain() for key in self}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Histograms:
        """What ``to_json`` wrote; ValueError when it is anything else."""
        result = cls()
        try:
            for key, value in json.loads(text).items():
                instruction, dtype = key.split("|")
                counts = Counter({int(start): _count(n) for start, n in value["buckets"].items()})
                if unknown := [start for start in counts if not 0 <= start < _LARGEST]:
                    raise ValueError(f"a bucket at {unknown[0]}")
                nan, worst = (_count(value[k]) for k in ("nan", "worst"))
                result._of[instruction, dtype] = Histogram(counts, nan, worst)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no ULP histograms: {type(error).__name__}: {error}") from None
        return result


def bounds() -> Mapping[tuple[str, str], int]:
    """The declared bounds by instruction and element type; 0 for what is correctly rounded."""
    from ..isa import instructions

    return {(n, d): bound for n, i in instructions().items() for d, bound in i.accuracy.bounds.items()}


@cache
def _counted(instruction: str) -> frozenset[str]:
    """Element types for which an instruction's results are counted."""
    declared = find(instruction)
    return frozenset(declared.accuracy.bounds if declared is not None else ())


def _writers(case: Case) -> dict[tuple[str, str], frozenset[str]]:
    """Results of a case whose last writer is counted, with that instruction and its element types."""
    last: dict[str, tuple[str, frozenset[str]]] = {}
    for op in case.program.walk():
        counted = _counted(op.name)
        for value in op.destinations:
            if counted and _holds_floats(value.type):
                last[value.name] = (op.name, counted)
            elif last:
                last.pop(value.name, None)
    return {(name, instruction): counted for name, (instruction, counted) in last.items()}


def _holds_floats(t: Any) -> bool:
    d = element_type(t)
    return d is not None and has_ordered_bits(d)


def _alike(a: Output, b: Output) -> bool:
    return a.dtype == b.dtype and a.words.shape == b.words.shape and a.valid == b.valid


# -- accuracy of results -----------------------------------------------------------------------------

_NONE = 1 << 62


def result_bounds(program: Program, function: Function) -> dict[str, int]:
    r"""ULP bounds of results that are not exact, :data:`.targets.UNBOUNDED` for those that have none.

    >>> import pto_jax as pto
    >>> text = "texp %b, %a : !pto.tile<16x16xf32>"
    >>> program = pto.parse(text)
    >>> result_bounds(program, program.functions[0])
    {'b': 1}
    >>> program = pto.parse(text + "\ntneg %c, %b : !pto.tile<16x16xf32>")
    >>> result_bounds(program, program.functions[0])
    {'b': 1, 'c': -1}
    """
    levels = _Levels(program)
    names = fragment_outputs(program) if program.fragment else written_buffers(program, function)
    table = {name: levels.of(function, name) for name in names}
    return {name: UNBOUNDED if level == _NONE else level for name, level in table.items() if level}


class _Levels:
    """The sparse problem: levels of all data, 0 exact, a bound, or the highest one, where there is none."""

    def __init__(self, program: Program) -> None:
        self._levels: dict[provenance.Name, int] = {}
        #: What decides on a path was not exact.
        self._everything = False
        ops = [(f, op) for f in program.functions for op in f.walk()]
        if any(_declared(op) for _, op in ops):
            self._resolved, self._classes = resolve(program), provenance.AliasClasses(program)
            dataflow.raise_values(ops, lambda at: self._execute(*at))

    def of(self, function: Function, name: str) -> int:
        """The level of what a name of a function stands for."""
        if self._everything or not self._levels:
            return _NONE if self._everything else 0
        return self._levels.get(self._classes.of(function.name, name), 0)

    def _execute(self, f: Function, op: Op) -> bool:
        """Raise the levels of what an operation writes; whether one changed."""
        if self._highest(f, _deciding(op)):
            changed, self._everything = not self._everything, True
            return changed
        source = self._highest(f, op.ins)
        changed = False
        for v in dict.fromkeys((*op.outs, *op.results, *self._resolved.of(op).written())):
            declared = _declared(op, v)
            exact_move = not declared and _moves(op)
            level = declared if not source else source if exact_move else _NONE
            written = self._classes.of(f.name, v.name)
            if level > self._levels.get(written, 0):
                self._levels[written], changed = level, True
        return changed

    def _highest(self, f: Function, values: Iterable[Value]) -> int:
        return max((self.of(f, v.name) for v in values), default=0)


def _deciding(op: Op) -> tuple[Value, ...]:
    """The values that decide which operations are executed."""
    traits = traits_of(op)
    if traits.decides:
        return op.ins[:1]
    if not op.regions or (traits.regions is not None and traits.regions.runs == "while"):
        return ()
    return op.ins[: len(op.ins) - len(op.group("inits"))]


def _declared(op: Op, written: Value | None = None) -> int:
    """The bound that an instruction's declaration gives its results, 0 where they are exact."""
    instruction = isa.find(op.name)
    if instruction is None or not instruction.ulp:
        return 0
    if written is None:
        return max(instruction.ulp.values())
    d = getattr(written.type, "dtype", None)
    return instruction.ulp.get(d.name, 0) if d is not None else max(instruction.ulp.values())


def _moves(op: Op) -> bool:
    """Whether an operation gives the elements of its source as they are, or makes another name of it."""
    traits = traits_of(op)
    if traits.alias is not None or traits.placement is not None:
        return True
    instruction = isa.find(op.name)
    if instruction is None or instruction.moves != "copy":
        return False
    types = {element_type(v.type) for v in (*op.ins, *op.destinations) if not isinstance(v.type, ScalarType)}
    attributes = (instruction.attribute(name) for name, _ in op.attributes)
    return len(types) == 1 and all(a is not None and a.of_layout for a in attributes)
