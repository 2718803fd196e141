"""Every input of lane-wise instructions with small sources, on two executors.

A row is one legal operation of a profile: an instruction, its element types and the values of its
attributes. Its inputs are all bit patterns of all its sources together, as many as :data:`LARGEST`; rows
with more are named with their number. Tiles hold the patterns of tile sources, a case each has a value of a
scalar source.

>>> from pto_jax.profiles import PROFILES
>>> row = next(rows([PROFILES["a5"]], only=("tneg",), dtypes=("f16",)))
>>> print(row.label, row.inputs, len(list(cases(row))))
a5 tneg f16 -> f16 65536 32
"""

import itertools
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import isa
from ..cases.comparison import COMPARED, compare_case
from ..cases.edits import is_legal
from ..cases.identity import is_device
from ..cases.kernels import as_kernel
from ..cases.targets import Output, Run, Target, mismatch
from ..errors import ArgumentError
from ..generate.programs import Case
from ..generate.state import Input
from ..ir import AttrValue, Program, ScalarType, TileType
from ..isa.declare import Sample
from ..isa.samples.operations import legal_samples, to_program
from ..profiles import Profile

#: Most inputs of a row, and most cases: a scalar of two bytes would need a case for each of its values.
LARGEST, MOST_CASES = 1 << 16, 256
#: Failing inputs of a row that are listed.
SHOWN = 8


@dataclass(frozen=True)
class Row:
    """One legal operation on one profile."""

    profile: Profile
    sample: Sample

    @cached_property
    def sources(self) -> dict[str, TileType | ScalarType]:
        """The types of the operands whose bits are inputs; scratch is none."""
        types = {o.name: self.sample.types.get(o.name) for o in self._operands("in", "inout")}
        return {name: t for name, t in types.items() if isinstance(t, TileType | ScalarType)}

    @property
    def destinations(self) -> dict[str, TileType]:
        """The types of the results."""
        types = {o.name: self.sample.types.get(o.name) for o in self._operands("out", "inout")}
        return {name: t for name, t in types.items() if isinstance(t, TileType)}

    def _operands(self, *roles: str) -> Iterator[isa.Operand]:
        return (o for o in self.sample.instruction.operands if o.role in roles)

    def bits(self, name: str) -> int:
        """Bits of one lane of a source."""
        is_mask = self.sample.instruction.operand(name).holds == "mask"
        return 1 if is_mask else self.sources[name].dtype.bits

    @property
    def inputs(self) -> int:
        """How many inputs there are."""
        return int(1 << sum(map(self.bits, self.sources)))

    @property
    def scalars(self) -> int:
        """How many values the scalar sources have together, a case or more for each."""
        return int(1 << sum(self.bits(n) for n, t in self.sources.items() if isinstance(t, ScalarType)))

    @property
    def label(self) -> str:
        """Profile, instruction, types of sources and results, scratch and attributes."""
        scratch = [f"with {o.name}" for o in self._operands("tmp") if o.name in self.sample.form]
        attrs = [f"{n}={getattr(v, 'name', v)}" for n, v in self.sample.attrs.items()]
        sources, results = (
            ",".join(t.dtype.name for t in side.values()) for side in (self.sources, self.destinations)
        )
        head = (self.profile.name, self.sample.instruction.name, sources, "->", results)
        return " ".join((*head, *scratch, *attrs))

    @property
    def too_large(self) -> str:
        """Why the inputs are not executed, "" where they are."""
        if self.inputs > LARGEST:
            return f"{self.inputs} inputs; at most {LARGEST} are executed"
        if self.scalars > MOST_CASES:
            return f"{self.scalars} values of a scalar, a case each; at most {MOST_CASES} are executed"
        return ""


@dataclass(frozen=True)
class Failure:
    """An input on which the machines differ; all words are hexadecimal."""

    inputs: dict[str, str]
    wanted: str
    got: str

    def __str__(self) -> str:
        operands = ", ".join(f"{name} {words}" for name, words in self.inputs.items())
        return f"{operands}: {self.got}, wanted {self.wanted}"


@dataclass
class Result:
    """What became of a row: inputs that both machines executed, and results that differ."""

    row: str
    inputs: int
    compared: int = 0
    different: int = 0
    failures: list[Failure] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    too_large: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether a result differs, or a machine crashed."""
        return bool(self.different)

    def __str__(self) -> str:
        if self.too_large:
            return f"{self.row}: too large: {self.too_large}"
        lines = [f"{self.row}: {self.compared} of {self.inputs} inputs compared, {self.different} differ"]
        return "\n  ".join([*lines, *map(str, self.failures), *dict.fromkeys(self.messages)])

    def to_json(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)


def rows(
    profiles: Sequence[Profile], only: Collection[str] = (), dtypes: Collection[str] = ()
) -> Iterator[Row]:
    """The legal operations of lane-wise instructions, those too large without their attributes.

    ``only`` names instructions, ``dtypes`` types that an operand has, or ``f16->i8``: a source and a result.
    """
    for profile in profiles:
        for name, instruction in isa.instructions().items():
            if instruction.lanes != "same" or instruction.syntax != "tile" or (only and name not in only):
                continue
            for sample in legal_samples(instruction, profile):
                row = Row(profile, sample)
                if not dtypes or any(_has(row, d) for d in dtypes):
                    yield from [row] if row.too_large else _with_attributes(row)


def _has(row: Row, dtypes: str) -> bool:
    source, arrow, result = dtypes.partition("->")
    read, written = ({t.dtype.name for t in s.values()} for s in (row.sources, row.destinations))
    return source in read and result in written if arrow else dtypes in read | written


def _with_attributes(row: Row) -> Iterator[Row]:
    """The row with every legal combination of the values of attributes that are choices."""
    sample = row.sample
    choices = [a for a in sample.instruction.attributes if a.choices and not a.of_layout]
    for values in itertools.product(*(dict.fromkeys((a.default, *a.choices)) for a in choices)):
        attrs: dict[str, AttrValue] = {
            **sample.attrs,
            **{a.name: v for a, v in zip(choices, values, strict=True)},
        }
        result = replace(row, sample=replace(sample, attrs={n: v for n, v in attrs.items() if v is not None}))
        if is_legal(next(cases(result))):
            yield result


def cases(row: Row) -> Iterator[Case]:
    """Cases that together have every input of a row once or more, in the order of the inputs."""
    tiles = {n: t for n, t in row.sources.items() if isinstance(t, TileType)}
    scalars = {n: t for n, t in row.sources.items() if isinstance(t, ScalarType)}
    # Lanes of the tile sources, which the operation takes one by one.
    shape = next(iter(tiles.values())).shape if tiles else (1, 1)
    lanes, patterns = shape[0] * shape[1], row.inputs // row.scalars
    program = to_program(row.sample)
    starts = itertools.product(range(row.scalars), range(0, patterns, lanes))
    for index, (scalar, first) in enumerate(starts):
        numbers = {n: _part(row, list(scalars), n, np.array(scalar)) for n in scalars}
        tile = (first + np.arange(lanes).reshape(shape)) % patterns
        numbers |= {n: _part(row, list(tiles), n, tile) for n in tiles}
        yield _case(row, program, numbers, index)


def _part(row: Row, names: list[str], name: str, numbers: NDArray[Any]) -> NDArray[Any]:
    """The bits of one source in numbers that consist of those of several, the last one's lowest."""
    below = sum(map(row.bits, names[names.index(name) + 1 :]))
    mask = (1 << row.bits(name)) - 1
    return np.asarray(numbers >> below & mask).astype(row.sources[name].dtype.word)


def _case(row: Row, program: Program, words: dict[str, NDArray[Any]], index: int) -> Case:
    inputs = {}
    for a in program.functions[0].args:
        assert isinstance(a.type, TileType | ScalarType), a
        shape = a.type.shape if isinstance(a.type, TileType) else ()
        inputs[a.name] = Input(a.type, words.get(a.name, np.zeros(shape, a.type.dtype.word)))
    bounds = row.sample.instruction.ulp
    ulp = {n: bounds[t.dtype.name] for n, t in row.destinations.items() if t.dtype.name in bounds}
    name = f"{zlib.crc32(row.label.encode()):08x}{index:08x}"
    return Case(name, 0, index, row.profile, program, inputs, ulp)


def exhaust(row: Row, reference: Target, tested: Target, device: str = "") -> Result:
    """All inputs of a row on both machines; a ``device`` is given functions over pointers."""
    result = Result(row.label, row.inputs, too_large=row.too_large)
    if row.too_large:
        return result
    batches = list(cases(row))
    for case in batches:
        form = as_kernel(case) if is_device(device) else case
        if form is None:
            result.messages.append("no function over pointers has this operation")
            continue
        runs: list[tuple[Run, Run]] = []
        outcome = compare_case(form, reference, tested, lambda _, a, b, runs=runs: runs.append((a, b)))  # type: ignore[misc]
        if outcome.kind in (*COMPARED, "stopped"):
            result.compared += row.inputs // len(batches)
        if outcome.kind in ("different", "crashed"):
            failures = [f for both in runs for f in _failures(row, case, *both)]
            result.different += len(failures) or 1
            result.failures += failures[: SHOWN - len(result.failures)]
        if outcome.message and not runs:
            result.messages.append(outcome.message)
    return result


def _failures(row: Row, case: Case, expected: Run, got: Run) -> list[Failure]:
    """The inputs on which the results of one case differ, each input once."""
    table: dict[tuple[str, ...], Failure] = {}
    for name, value in expected.outputs.items():
        other = got.outputs.get(name)
        differs = mismatch(case, name, other, value, "")
        if other is None or differs is None or differs.comparison is None:
            continue
        for place in differs.comparison.places:
            both = [int(o.words.reshape(-1)[place]) for o in (value, other)]
            for lanes in _lanes(row, name, value, place, both[0] ^ both[1]):
                inputs = {n: _hexadecimal(case.inputs[n], lanes) for n in row.sources}
                table.setdefault(tuple(inputs.values()), Failure(inputs, *(f"{w:#x}" for w in both)))
    return list(table.values())


def _lanes(row: Row, name: str, result: Output, place: int, bits: int) -> Iterator[slice]:
    """The lanes of the sources that ``bits`` of an element of a result come from."""
    tiles = [t for t in row.sources.values() if isinstance(t, TileType)]
    cols = tiles[0].cols if tiles else 1
    width = result.words.size // row.destinations[name].rows
    r, c = divmod(place, width)
    if row.sample.instruction.operand(name).holds == "mask":
        lanes = (c * result.dtype.bits + i for i in range(result.dtype.bits) if bits >> i & 1)
        yield from (slice(r * cols + lane, r * cols + lane + 1) for lane in lanes if lane < cols)
    else:
        # An element of two numbers comes from two lanes, and two numbers come from such an element.
        first = r * cols + c * cols // width
        yield slice(first, max(first + 1, r * cols + (c + 1) * cols // width))


def _hexadecimal(operand: Input, lane: slice) -> str:
    words = operand.words.reshape(-1)[lane] if isinstance(operand.type, TileType) else [operand.words]
    return " ".join(f"{int(w):#0{operand.type.dtype.bits // 4 + 2}x}" for w in words)


def run(chosen_rows: Sequence[Row], reference: Target, tested: Target, device: str = "") -> Iterator[Result]:
    """The result of each row, in order; ArgumentError where there is none."""
    if not chosen_rows:
        raise ArgumentError(
            "--exhaustive: no lane-wise instruction has these names, types and profiles",
            allowed=("those of `pto-jax isa` that compute lane by lane, for example --only tcvt --dtype f16"),
        )
    return (exhaust(row, reference, tested, device) for row in chosen_rows)


def summary(results: Sequence[Result]) -> str:
    """One line on all rows.

    >>> summary([Result("tneg f16 -> f16", 65536, 65536), Result("tneg f32 -> f32", 0, too_large="all")])
    '2 rows: 1 executed, 65536 inputs compared, 0 differ; 1 too large'
    """
    executed = [r for r in results if not r.too_large]
    compared, different = sum(r.compared for r in executed), sum(r.different for r in executed)
    return (
        f"{len(results)} rows: {len(executed)} executed, {compared} inputs compared, {different} differ; "
        f"{len(results) - len(executed)} too large"
    )
