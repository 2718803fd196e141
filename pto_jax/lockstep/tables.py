"""The tables of a campaign: which opcodes the program of an index is made of.

Where programs are compared by their digests, a table is large and stands for thousands of them. Where each
is compared alone, compiling a large table would take longer than its programs; tables are small then, follow
each other quickly, and all instructions have had their turn after a few of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from ..profiles import PROFILE_NAMES, ProfileName
from .opcodes import Opcode, names, one_opcode
from .table import Table, parts, table

#: Programs in a row that use one table, a large and a small one.
SPAN, SMALL_SPAN = 1 << 13, 256
#: Opcodes of the very first small table, so that there are results soon.
_FIRST = 8
#: Without a profile, the one with the most instructions and types for large tables.
_PROFILES: tuple[ProfileName, ...] = ("a5",)
#: Small tables take turns in the shape of their tiles, and in the element type that most operands have:
#: opcodes of one type work on each other's results.
_SHAPES = ((16, 16), (8, 32), (4, 64))
_TYPES = ("f32", "i32", "f16", "i16", "bf16", "u8", "u32", "i8", "u16")


@dataclass(frozen=True)
class Tables:
    """The tables of some profiles (none: the default ones), which take turns.

    With ``opcodes`` small ones of so many at most.
    """

    profiles: tuple[ProfileName, ...] = ()
    opcodes: int | None = None

    @property
    def span(self) -> int:
        """Programs in a row that use one table."""
        return SPAN if self.opcodes is None else SMALL_SPAN

    def of(self, index: int) -> Table:
        """The table of an index.

        >>> few = Tables(("a5", "a2a3"), 20)
        >>> [few.of(i * SMALL_SPAN).profile for i in range(3)], len(few.of(0).opcodes)
        (['a5', 'a2a3', 'a5'], 8)
        """
        turn = index // self.span
        if self.opcodes is None:
            listed = large(self.profiles or _PROFILES)
            return table(*listed[turn % len(listed)])
        profiles = self.profiles or PROFILE_NAMES
        made = small(profiles[turn % len(profiles)], turn // len(profiles), self.opcodes)
        return made if turn else replace(made, opcodes=made.opcodes[:_FIRST])


def large(profiles: Sequence[ProfileName]) -> list[tuple[ProfileName, int]]:
    """Profile and part of every large table, in the order in which spans of indices take them.

    >>> large(["a5"])[:2]
    [('a5', 0), ('a5', 1)]
    """
    counts = {p: parts(p) for p in profiles}
    return [(p, part) for part in range(max(counts.values())) for p in profiles if part < counts[p]]


@cache
def small(profile: ProfileName, number: int, opcodes: int) -> Table:
    """A table of at most ``opcodes`` instructions in one form each.

    Every instruction is in one of :func:`rounds` tables in a row.

    >>> first, second = ({o.name for o in small("a2a3", n, 20).opcodes} for n in (0, 1))
    >>> first & second, 10 < len(first) <= 20
    (set(), True)
    """
    groups = rounds(profile, opcodes)
    shape = _SHAPES[number % len(_SHAPES)]
    turn, group = divmod(number, groups)
    shuffled = sorted(names(profile), key=lambda name: zlib.crc32(f"{turn}:{name}".encode()))
    chosen = shuffled[group::groups]
    dtype = _TYPES[number % len(_TYPES)]
    members: list[Opcode] = []
    for name in chosen:
        # Some instructions have no form for tiles of few rows.
        for rows, cols in dict.fromkeys((shape, _SHAPES[0])):
            opcode = one_opcode(name, profile, rows, cols, dtype, f"{number}:{name}")
            if opcode is not None:
                members.append(opcode)
                break
    return Table(profile, *shape, tuple(members))


def rounds(profile: ProfileName, opcodes: int) -> int:
    """How many small tables in a row have all instructions of a profile."""
    return -(-len(names(profile)) // opcodes)
