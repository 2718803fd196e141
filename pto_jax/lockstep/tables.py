"""The tables of a campaign: which opcodes the program of an index is made of.

Where programs are compared by their digests, a table is large and stands for thousands of them. Where each
is compared alone, compiling a large table would take longer than its programs; tables are small then, follow
each other quickly, and all instructions have had their turn after a few of them.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import NamedTuple

from ..errors import ArgumentError
from ..profiles import PROFILE_NAMES, ProfileName
from .opcodes import Opcode, names, one_opcode
from .table import OPCODES, Table, parts, table

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


class Aim(NamedTuple):
    """What opcodes are wanted: of an instruction, with a result of an element type ("": any).

    ``regions`` are the kinds of valid regions that their programs should have (none: all).
    """

    name: str
    dtype: str = ""
    regions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tables:
    """The tables of some profiles (none: the default ones), which take turns.

    With ``opcodes`` small ones of so many at most. ``only`` names their instructions, ``dtypes`` element
    types that one operand of each opcode has, ``regions`` the kinds of valid regions (none: all). ``length``
    programs in a row use one table (None: what suits its size); the first ones use smaller tables, each for
    twice as many programs as the one before. Where there are ``aims``, tables are made of what these want
    instead, in turn. ArgumentError where no profile has such opcodes.
    """

    profiles: tuple[ProfileName, ...] = ()
    opcodes: int | None = None
    only: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    length: int | None = None
    aims: tuple[Aim, ...] = ()

    @property
    def span(self) -> int:
        """Programs in a row that use one table."""
        return self.length or (SPAN if self.opcodes is None else SMALL_SPAN)

    def spans(self, start: int, count: int) -> Iterator[tuple[int, int]]:
        """The parts of some programs that use one table each: first index and number.

        >>> list(Tables().spans(8190, 5)), list(Tables((), 64, length=1024).spans(200, 1000))
        ([(8190, 2), (8192, 3)], [(200, 56), (256, 256), (512, 512), (1024, 176)])
        """
        while count > 0:
            end = (start // self.span + 1) * self.span
            if self.length is not None and start < self.length:
                end = max(SMALL_SPAN, 1 << start.bit_length())
            here = min(count, end - start)
            yield start, here
            start, count = start + here, count - here

    def _turn(self, index: int) -> int:
        """How many tables come before that of an index."""
        if self.length is None:
            return index // self.span
        return (min(index, self.length) // SMALL_SPAN).bit_length() + index // self.length

    def place(self, index: int, start: int, end: int) -> tuple[int, int]:
        """The number of an index's table among those of some indices, from 1 on, and how many these are.

        >>> Tables((), 64, length=1024).place(300, 0, 1200)
        (2, 5)
        """
        first = self._turn(start)
        return self._turn(index) - first + 1, self._turn(end - 1) - first + 1

    def of(self, index: int) -> Table:
        """The table of an index.

        >>> few = Tables(("a5", "a2a3"), 20)
        >>> [few.of(i * SMALL_SPAN).profile for i in range(3)], len(few.of(0).opcodes)
        (['a5', 'a2a3', 'a5'], 8)
        >>> {o.name for o in Tables(("a5",), 20, only=("tcvt",)).of(0).opcodes}
        {'tcvt'}
        """
        return _table(self, self._turn(index))

    def _made(self, turn: int) -> Table:
        if self.aims:
            return self._aimed(turn)
        if self.opcodes is None:
            made = self._large(turn)
        else:
            profiles = self._having(self.profiles or PROFILE_NAMES)
            number = turn // len(profiles)
            made = small(profiles[turn % len(profiles)], number, self.opcodes, self.only, self.dtypes)
            most = _FIRST << turn if turn == 0 or self.length is not None else self.opcodes
            made = made if len(made.opcodes) <= most else replace(made, opcodes=made.opcodes[:most])
        return made if made.regions == self.regions else replace(made, regions=self.regions)

    def _aimed(self, turn: int) -> Table:
        """A table of what aims with the same regions want, on a profile that has some of it."""
        profiles, most = self.profiles or PROFILE_NAMES, self.opcodes or OPCODES
        by_regions: dict[tuple[str, ...], list[Aim]] = {}
        for aim in self.aims:
            by_regions.setdefault(aim.regions, []).append(aim)
        parts_of = [a[i : i + most] for a in by_regions.values() for i in range(0, len(a), most)]
        for later in range(len(profiles) * len(parts_of)):
            number, which = divmod(turn + later, len(profiles))
            again, part = divmod(number, len(parts_of))
            profile, shape = profiles[which], _SHAPES[again % len(_SHAPES)]
            found = (_aimed_at(aim, profile, shape, again) for aim in parts_of[part])
            if members := tuple(dict.fromkeys(o for o in found if o is not None)):
                return Table(profile, *shape, members, parts_of[part][0].regions)
        named = " ".join(dict.fromkeys(aim.name for aim in self.aims))
        raise ArgumentError(f"{named}: no bin that programs in lockstep reach; leave out --lockstep")

    def _large(self, turn: int) -> Table:
        listed = large(self.profiles or _PROFILES)
        if not self.only and not self.dtypes:
            return table(*listed[turn % len(listed)])
        parts_of = [
            made
            for profile, part in listed
            if (made := _narrowed(table(profile, part), self.only, self.dtypes)) is not None
        ]
        if not parts_of:
            raise ArgumentError(self._nothing())
        return parts_of[turn % len(parts_of)]

    def _having(self, profiles: Sequence[ProfileName]) -> Sequence[ProfileName]:
        if not self.only and not self.dtypes:
            return profiles
        having = [p for p in profiles if _has(p, self.only, self.dtypes)]
        if not having:
            raise ArgumentError(self._nothing())
        return having

    def _nothing(self) -> str:
        asked = [("--only", self.only), ("--dtype", self.dtypes)]
        said = " ".join(f"{option} {' '.join(given)}" for option, given in asked if given)
        return f"{said}: no opcode of lockstep has such operands; --tested jit takes all instructions"


def _aimed_at(aim: Aim, profile: ProfileName, shape: tuple[int, int], turn: int) -> Opcode | None:
    """An opcode that an aim wants, with other attributes in other turns; None where there is none."""
    if aim.name not in names(profile):
        return None
    said = f"{turn}:{aim.name}:{aim.dtype}"
    found = _member(aim.name, profile, shape, aim.dtype or _TYPES[turn % len(_TYPES)], said, required=False)
    return found if found is not None and aim.dtype in ("", found.dtype.name) else None


@lru_cache(maxsize=16)
def _table(tables: Tables, turn: int) -> Table:
    """The one table of a turn: what is compiled for it is found by it."""
    return tables._made(turn)


def _fits(opcode: Opcode, only: Sequence[str], dtypes: Sequence[str]) -> bool:
    return (not only or opcode.name in only) and (
        not dtypes or any(k.type.dtype.name in dtypes for k in opcode.kinds)
    )


@cache
def _narrowed(whole: Table, only: tuple[str, ...], dtypes: tuple[str, ...]) -> Table | None:
    fitting = tuple(o for o in whole.opcodes if _fits(o, only, dtypes))
    return replace(whole, opcodes=fitting) if fitting else None


@cache
def _has(profile: ProfileName, only: tuple[str, ...], dtypes: tuple[str, ...]) -> bool:
    listed = [name for name in names(profile) if not only or name in only]
    if not dtypes:
        return bool(listed)
    return any(
        _member(name, profile, _SHAPES[0], dtype, "", required=True) for name in listed for dtype in dtypes
    )


def large(profiles: Sequence[ProfileName]) -> list[tuple[ProfileName, int]]:
    """Profile and part of every large table, in the order in which spans of indices take them.

    >>> large(["a5"])[:2]
    [('a5', 0), ('a5', 1)]
    """
    counts = {p: parts(p) for p in profiles}
    return [(p, part) for part in range(max(counts.values())) for p in profiles if part < counts[p]]


@cache
def small(
    profile: ProfileName,
    number: int,
    opcodes: int,
    only: tuple[str, ...] = (),
    dtypes: tuple[str, ...] = (),
) -> Table:
    """A table of at most ``opcodes`` instructions in one form each, or in several where they are few.

    Every instruction is in one of :func:`rounds` tables in a row. ``only`` and ``dtypes`` as in
    :class:`Tables`.

    >>> first, second = ({o.name for o in small("a2a3", n, 20).opcodes} for n in (0, 1))
    >>> first & second, 10 < len(first) <= 20
    (set(), True)
    """
    listed = [name for name in names(profile) if not only or name in only]
    groups = rounds(len(listed), opcodes)
    turn, group = divmod(number, groups)
    shuffled = sorted(listed, key=lambda name: zlib.crc32(f"{turn}:{name}".encode()))
    chosen = shuffled[group::groups]
    shape = _SHAPES[number % len(_SHAPES)]
    types = dtypes or _TYPES
    members: dict[Opcode, None] = {}
    # Few instructions are there in several forms; those without one for a type leave room for others.
    for again in range(1 if len(listed) > opcodes else -(-opcodes // len(chosen))):
        for name in chosen:
            said = f"{number}:{name}" + (f":{again}" if again else "")
            dtype = types[(number + again) % len(types)]
            opcode = _member(name, profile, shape, dtype, said, required=bool(dtypes))
            if opcode is not None and len(members) < opcodes:
                members[opcode] = None
    if not members:
        return small(profile, number + 1, opcodes, only, dtypes)
    return Table(profile, *shape, tuple(members))


def _member(
    name: str, profile: ProfileName, shape: tuple[int, int], dtype: str, draw: str, *, required: bool
) -> Opcode | None:
    # Some instructions have no form for tiles of few rows.
    for rows, cols in dict.fromkeys((shape, _SHAPES[0])):
        opcode = one_opcode(name, profile, rows, cols, dtype, draw)
        if opcode is not None and not (required and not _fits(opcode, (), (dtype,))):
            return opcode
    return None


def rounds(instructions: int, opcodes: int) -> int:
    """How many small tables in a row have all of some number of instructions.

    >>> rounds(41, 20)
    3
    """
    return max(1, -(-instructions // opcodes))
