"""Bins of coverage that a campaign has to reach, and which of them it has reached."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .coverage import PARTS

ANY = "*"


@dataclass(frozen=True)
class Bin:
    """Cells of coverage that belong together: a part that is ``*`` may be anything.

    >>> b = Bin(("tcvt", "f16", "*", "odd", "*", "*", "*"))
    >>> str(b), b.has("tcvt|f16|rmode=RINT|odd|row|-|loop"), b.has("tcvt|f16|-|full|row|-|loop")
    ('tcvt|f16|*|odd|*|*|*', True, False)
    """

    parts: tuple[str, ...]
    at_least: int = 1

    def __getitem__(self, part: str) -> str:
        """A part by its name."""
        return self.parts[PARTS.index(part)]

    def has(self, cell: str) -> bool:
        """Whether a cell of coverage belongs to the bin."""
        return all(a in (ANY, b) for a, b in zip(self.parts, cell.split("|"), strict=False))

    def __str__(self) -> str:
        return "|".join(self.parts)


def bins_to_json(bins: Sequence[Bin]) -> dict[str, int]:
    """The operations that each bin wants, which a store keeps."""
    return {str(b): b.at_least for b in bins}


def bins_of_json(value: Mapping[str, int]) -> tuple[Bin, ...]:
    """The bins that a store keeps."""
    return tuple(Bin(tuple(text.split("|")), n) for text, n in value.items())


def reached(bins: Sequence[Bin], cells: Mapping[str, int]) -> list[tuple[Bin, int]]:
    """Each bin with the operations that a campaign's cells have in it.

    An operation with several attributes is in as many cells; a bin of any attribute counts all of them.

    >>> reached([Bin(("tadd", *"******")), Bin(("tsub", *"******"))], {"tadd|f32|-|odd|row|-|loop": 3})[0][1]
    3
    """
    by_name: dict[str, list[tuple[str, int]]] = {}
    for cell, n in cells.items():
        by_name.setdefault(cell.partition("|")[0], []).append((cell, n))
    return [(b, sum(n for cell, n in by_name.get(b["instruction"], ()) if b.has(cell))) for b in bins]


def goal_lines(bins: Sequence[Bin], cells: Mapping[str, int], limit: int) -> Iterator[str]:
    """How many bins a campaign has reached, then a line for each of those that it has not."""
    counted = reached(bins, cells)
    missing = [(b, n) for b, n in counted if n < b.at_least]
    yield f"goal: {len(bins) - len(missing)} of {len(bins)} bins reached"
    for b, n in missing[:limit]:
        yield f"  not reached: {described(b)}: {n} of {b.at_least}"
    if len(missing) > limit:
        yield f"  and {len(missing) - limit} more"


def described(b: Bin) -> str:
    """A bin in words.

    >>> described(Bin(("tcvt", "f16", "*", "odd", "*", "*", "loop")))
    'tcvt type f16 region odd control loop'
    """
    named = [f"{part} {value}" for part, value in zip(PARTS[1:], b.parts[1:], strict=True) if value != ANY]
    return " ".join([b["instruction"], *named])
