"""The page on decisions that public test suites and specifications contradict."""

from collections.abc import Iterator

from .. import isa
from ..isa.declare import Contradiction
from .topics import Part, Topic


def contradictions() -> dict[Contradiction, tuple[str, ...]]:
    """Each contradiction with the instructions that it is about, in the order of the reference."""
    table: dict[Contradiction, tuple[str, ...]] = {}
    for instruction in isa.instructions().values():
        for decision in instruction.decisions:
            if isinstance(decision, Contradiction):
                table[decision] = (*table.get(decision, ()), instruction.name)
    return table


def _lines(c: Contradiction) -> Iterator[str]:
    yield f"profiles: {', '.join(c.profiles)}"
    yield f"here: {c.choice} Source: {c.source}."
    yield f"there: {c.other}. Source: {c.other_source}."


def topic() -> Topic:
    """The page; instructions that were added count too."""
    parts = (
        Part(f"{', '.join(names)}: {c.question}", list(_lines(c))) for c, names in contradictions().items()
    )
    summary = "Public tests and specifications that say something else than is decided, with both sources."
    return Topic("contradictions", summary, tuple(parts), ("contradiction",))
