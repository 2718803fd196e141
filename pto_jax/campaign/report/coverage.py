"""What a campaign's programs covered, next to what the declarations allow."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ...generate.options import DEFAULT_WEIGHTS
from ...ir import ALL_DTYPES
from ...isa import instructions
from ...isa.reference import types_text
from ...profiles import PROFILE_NAMES, ProfileName
from ..fuzz.coverage import PARTS, REGIONS, shown

#: Classes whose instructions generated programs are made of.
_CLASSES = frozenset(cls for cls, _ in DEFAULT_WEIGHTS)


@dataclass(frozen=True)
class Row:
    """What is known about one instruction.

    How often it occurred per element type, attribute value, region kind, layout, optional operands and what
    surrounds it; the element types of results that are declared, and the attribute values.
    """

    instruction: str
    cls: str
    dtypes: Mapping[str, int]
    attributes: Mapping[str, int]
    regions: Mapping[str, int]
    layouts: Mapping[str, int]
    operands: Mapping[str, int]
    controls: Mapping[str, int]
    declared: frozenset[str]
    values: frozenset[str]

    @property
    def count(self) -> int:
        """How often the instruction occurred."""
        return sum(self.dtypes.values())

    @property
    def is_shown(self) -> bool:
        """Whether tables of element types have anything to say about it."""
        return self.count > 0 or bool(self.declared)

    @property
    def reached_attributes(self) -> dict[str, int]:
        """How often each attribute value occurred, in order."""
        return {value: n for value, n in sorted(self.attributes.items()) if value != "-"}

    @property
    def missing_dtypes(self) -> list[str]:
        """Declared element types that never occurred."""
        return [d for d in _ORDER if d in self.declared and not self.dtypes.get(d)]

    @property
    def missing_attributes(self) -> list[str]:
        """Declared attribute values that never occurred."""
        return sorted(v for v in self.values if not self.attributes.get(v))

    @property
    def missing_regions(self) -> list[str]:
        """Region kinds in which an instruction on tiles never occurred."""
        return [r for r in REGIONS if not self.regions.get(r)] if self.on_tiles else []

    @property
    def on_tiles(self) -> bool:
        """Whether the instruction is declared and has a tile among its operands."""
        declared = instructions().get(self.instruction)
        return declared is not None and any(o.kind == "tile" for o in declared.operands)


@dataclass(frozen=True)
class Coverage:
    """The coverage of a campaign.

    Rows in the order of the declarations, the element types and layouts that are columns, and how many cells
    were reached.
    """

    rows: tuple[Row, ...]
    dtypes: tuple[str, ...]
    layouts: tuple[str, ...]
    cells: int

    @property
    def reached(self) -> int:
        """Instructions that occurred."""
        return sum(row.count > 0 for row in self.rows)

    @property
    def never(self) -> list[str]:
        """Instructions that never occurred."""
        return [row.instruction for row in self.rows if not row.count]

    @property
    def pairs(self) -> tuple[int, int]:
        """Pairs of instruction and element type that occurred, of those that are declared."""
        pairs = [(row, d) for row in self.rows for d in row.declared]
        return sum(row.dtypes.get(d, 0) > 0 for row, d in pairs), len(pairs)

    def by_class(self) -> dict[str, list[Row]]:
        """The rows of each class of instructions."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.cls, []).append(row)
        return groups


_ORDER = (*(d.name for d in ALL_DTYPES), "-")


def coverage(cells: Mapping[str, int], profiles: Sequence[ProfileName] = PROFILE_NAMES) -> Coverage:
    """The rows of coverage cells (:mod:`..fuzz.coverage`) for some profiles.

    An operation with several attributes gives as many cells: counts are those of cells.

    >>> found = coverage({"tadd|f32|-|full|row": 3}, ["a5"])
    >>> row = next(r for r in found.rows if r.instruction == "tadd")
    >>> row.count, "f16" in row.missing_dtypes, row.missing_regions
    (3, True, ['partial', 'odd', 'empty', 'dynamic'])
    """
    parts: dict[str, tuple[Counter[str], ...]] = {}
    for cell, n in cells.items():
        name, *rest = cell.split("|")
        counters = parts.setdefault(name, tuple(Counter() for _ in PARTS[1:]))
        # Cells of older stores have fewer parts.
        for counter, part in zip(counters, rest, strict=False):
            counter[part] += n
    rows = tuple(_row(name, cls, parts.get(name), profiles) for name, cls in _named(parts, profiles))
    dtypes = {d for r in rows for d in (*r.dtypes, *r.declared)}
    layouts = {name for r in rows for name in r.layouts} - {"-"}
    order = [d for d in _ORDER if d in dtypes]
    return Coverage(rows, (*order, *sorted(dtypes - set(order))), tuple(sorted(layouts)), len(cells))


def _named(parts: Mapping[str, object], profiles: Sequence[ProfileName]) -> Iterator[tuple[str, str]]:
    """Instructions with a row, and their classes: those that can occur, and those that did."""
    for name, i in instructions().items():
        possible = i.executable and i.cls in _CLASSES and any(types_text(i, p) != "-" for p in profiles)
        if name in parts or possible:
            yield name, i.cls
    yield from ((name, "unknown") for name in sorted(set(parts) - set(instructions())))


def _row(
    name: str, cls: str, counters: Sequence[Counter[str]] | None, profiles: Sequence[ProfileName]
) -> Row:
    dtypes, attributes, regions, layouts, operands, controls = counters or [Counter() for _ in PARTS[1:]]
    allowed, values = frozenset[str](), frozenset[str]()
    if name in instructions():
        allowed = frozenset(d for p in profiles for d in _results(name, p))
        values = _values(name)
    return Row(name, cls, dtypes, attributes, regions, layouts, operands, controls, allowed, values)


@cache
def _results(name: str, profile: ProfileName) -> frozenset[str]:
    """Element types of an instruction's result (of its first operand where it has none) on a profile."""
    i = instructions()[name]
    rows = i.types.get(profile, ())
    typed = (o for o in (*i.destinations, *i.operands) if o.dtype is not None)
    first = next(typed, None)
    if first is None or not rows:
        return frozenset()
    if first.dtype not in i.type_vars:
        return frozenset({str(first.dtype)} & set(_ORDER))
    column = i.type_vars.index(first.dtype)
    return frozenset(row[column] for row in rows)


@cache
def _values(name: str) -> frozenset[str]:
    """Values of an instruction's attributes, as cells name them; a default may be left unsaid."""
    attributes = instructions()[name].attributes
    return frozenset(f"{a.name}={shown(m)}" for a in attributes for m in a.choices if m != a.default)
