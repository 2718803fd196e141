"""Tables of opcodes for lockstep programs, and the choice of a table by the index of a program.

Where programs are compared by their digests, a table is large and serves thousands of them. Where each is
compared alone, compilation of a large table would take longer than its programs; tables are small then and
follow each other quickly, so that a few of them contain all instructions.

The registers of a program have fixed types. A *kit* is a choice of types for them, together with the opcodes
whose operands they can be; it is computed once per table, so that programs are drawn by looking up numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import isa
from ..errors import ArgumentError, objection
from ..ir import TILE_DTYPES, DType, ScalarType
from ..lowering.lockstep import SCALARS, SLOTS, words_needed
from ..profiles import PROFILE_NAMES, ProfileName
from .opcodes import Kind, Opcode, catalogue, names, one_opcode
from .values import Formats, Pool, pool

#: Registers of a program; opcodes of a table, as many as compile in some seconds and run at full speed.
REGISTERS, OPCODES = 8, 224
#: How the valid regions of a program's registers are chosen: ``full``; the same part of each; the same
#: part without an element; any part of each.
REGIONS = ("full", "partial", "empty", "uneven")
#: Out of sixteen programs, those with each choice of regions.
_REGION_SHARES = (7, 5, 2, 2)
#: Entries of the tables that numbers are looked up in.
CHOICES, PLACES = 256, 4
_KIT_KINDS = 5
#: Each opcode is in this many kits at least.
_ROUNDS = 3
Numbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Table:
    """Opcodes of a profile for tiles of ``rows * cols`` elements, and what draws programs of them.

    ``regions`` are the choices of valid regions that programs have (none: all).
    """

    profile: ProfileName
    rows: int
    cols: int
    opcodes: tuple[Opcode, ...]
    regions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.opcodes:
            raise ArgumentError(f"a lockstep table without opcodes on {self.profile}", allowed="at least one")

    @property
    def words(self) -> int:
        """uint32 words of a register."""
        return max(words_needed(k.type) for k in self.kinds)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """What registers hold, in a fixed order."""
        return tuple(dict.fromkeys(k for o in self.opcodes for k in o.kinds))

    @cached_property
    def dtypes(self) -> tuple[DType, ...]:
        """Element types of registers and scalars."""
        scalars = (o.branch.context.dtype(n) for o in self.opcodes for n in o.branch.scalars)
        return tuple(dict.fromkeys((*(k.type.dtype for k in self.kinds), *scalars)))

    @cached_property
    def formats(self) -> Formats:
        """The parameters of the element types, in the order of ``dtypes``."""
        return Formats(self.dtypes)

    @cached_property
    def _fillings(self) -> list[tuple[int, bool]]:
        """Number in ``dtypes`` and whether two elements share a word, for each kind."""
        packed = (words_needed(k.type) < k.type.elements for k in self.kinds)
        return [(self.dtypes.index(k.type.dtype), p) for k, p in zip(self.kinds, packed, strict=True)]

    @cached_property
    def kind_pools(self) -> Numbers:
        """Which tiles of a pool fill a register of each kind."""
        distinct = list(dict.fromkeys(self._fillings))
        return np.array([distinct.index(f) for f in self._fillings], np.int32)

    def pool(self, start: NDArray[np.uint64]) -> Pool:
        """What registers are filled from, by the seed's :func:`values.origin`."""
        kinds, packed = zip(*dict.fromkeys(self._fillings), strict=True)
        return pool(self.formats, np.array(kinds), np.array(packed), self.words, start)

    @cached_property
    def limits(self) -> Numbers:
        """Physical rows and columns of each kind, with one column or row where its role says so."""
        return np.array([k.limits for k in self.kinds], np.int32)

    @cached_property
    def slot_kinds(self) -> Numbers:
        """Kind of the register in each slot of each opcode; unused slots repeat the destination's."""
        rows = []
        for o in self.opcodes:
            numbers = [self.kinds.index(k) for k in o.kinds]
            rows.append(numbers + [numbers[0]] * (SLOTS - len(numbers)))
        return np.array(rows, np.int32)

    @cached_property
    def apart(self) -> NDArray[np.bool_]:
        """Which slots of each opcode hold another register than the destination's, where kinds agree."""
        marks: NDArray[np.bool_] = self.slot_kinds == self.slot_kinds[:, :1]
        for i, o in enumerate(self.opcodes):
            marks[i] &= np.resize((*o.apart, *[False] * SLOTS), SLOTS)
        return marks

    @cached_property
    def scalar_dtypes(self) -> Numbers:
        """Number in ``dtypes`` of each scalar operand of each opcode; 0 where there is none."""
        numbers = np.zeros((len(self.opcodes), SCALARS), np.int32)
        for i, o in enumerate(self.opcodes):
            for j, name in enumerate(o.branch.scalars):
                assert isinstance(o.branch.context._types[name], ScalarType)
                numbers[i, j] = self.dtypes.index(o.branch.context.dtype(name))
        return numbers

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Whether each opcode is legal with each choice of regions."""
        return np.array([_allowed(o, self.rows, self.cols) for o in self.opcodes])

    @cached_property
    def region_shares(self) -> Numbers:
        """Numbers in REGIONS, of which one is drawn for each program; int32 [16]."""
        numbers = np.repeat(np.arange(len(REGIONS)), _REGION_SHARES)
        chosen = [n for n in numbers if not self.regions or REGIONS[n] in self.regions]
        return np.resize(np.array(chosen, np.int32), len(numbers))

    @cached_property
    def kits(self) -> Kits:
        """The kits that programs are drawn from."""
        return _kits(self)


def region(
    kind_limits: Any, rows: Any, cols: Any, odd: Any, shape: tuple[int, int], xp: Any = np
) -> tuple[Any, Any]:
    """Valid sizes of registers in a program that uses ``rows`` x ``cols`` of its tiles' ``shape``.

    Registers of other sizes have the same share of rows and columns, one column less where there are
    more of them and ``odd`` is 1. Works on integers and arrays.
    """
    limit_rows, limit_cols = kind_limits[..., 0], kind_limits[..., 1]
    found_rows = (rows * limit_rows + (shape[0] - 1)) // shape[0]
    found_cols = (cols * limit_cols + (shape[1] - 1)) // shape[1]
    fewer = xp.where((limit_cols > shape[1]) & (found_cols > 0), odd, 0 * found_cols)
    return found_rows, found_cols - fewer


def _allowed(opcode: Opcode, rows: int, cols: int) -> list[bool]:
    instruction, context = opcode.instruction, opcode.branch.context
    rules = [
        c.region
        for c in instruction.constraints
        if c.severity == "error" and context.profile in c.profiles and c.region is not None
    ]
    types = {n: context.tile(n) for n in (*opcode.branch.tiles, *(n for n, _ in opcode.tmp))}
    scratch = {n: t.shape for n, t in opcode.tmp}
    limits = np.array([k.limits for k in opcode.kinds], np.int32)

    def legal(sizes: tuple[Any, Any]) -> bool:
        operands = {n: (sizes[0][:, i], sizes[1][:, i]) for i, n in enumerate(opcode.branch.tiles)}
        every = {**operands, **scratch}
        return not any(np.any(r.broken(every, types)) for r in rules if r.applies(every))

    grid = np.stack(np.meshgrid(np.arange(rows + 1), np.arange(cols + 1), [0, 1], indexing="ij"), -1)
    grid = grid.reshape(-1, 3, 1).astype(np.int32)
    inside = (grid[:, :2] > 0).all(axis=(1, 2))
    shared = [grid[-2:-1], grid[inside], grid[~inside]]
    verdicts = [legal(region(limits[None], g[:, 0], g[:, 1], g[:, 2], (rows, cols))) for g in shared]
    rng = np.random.default_rng(0)
    uneven = rng.integers(0, limits + 1, (512, *limits.shape), np.int32)
    return [*verdicts, legal((uneven[..., 0], uneven[..., 1]))]


@dataclass(frozen=True, eq=False)
class Kits:
    """Kits of a table as arrays.

    ``kinds`` [kits, REGISTERS]; ``regions`` [kits, 4]: the choice of regions that stands for one, where no
    opcode of the kit allows it; ``choices`` [kits, 4, CHOICES]: opcodes; ``places`` [kits, kinds, PLACES]:
    registers of a kind.
    """

    kinds: Numbers
    regions: Numbers
    choices: Numbers
    places: Numbers


def _kits(table: Table) -> Kits:
    rng = np.random.default_rng(zlib.crc32("\n".join(map(str, table.opcodes)).encode()))
    needs = [frozenset(row) for row in table.slot_kinds.tolist()]
    chosen: list[list[int]] = []
    usable: list[NDArray[np.intp]] = []
    for _ in range(_ROUNDS):
        covered: set[int] = set()
        for start in rng.permutation(len(needs)):
            if int(start) in covered:
                continue
            kinds = _grown(needs, int(start), rng)
            fitting = np.array([i for i, need in enumerate(needs) if need <= kinds])
            twice = [int(table.slot_kinds[i, 0]) for i in (start, *fitting) if table.apart[i].any()]
            held = _registers(kinds, [needs[i] for i in fitting], list(dict.fromkeys(twice)))
            single = np.array([held.count(int(table.slot_kinds[i, 0])) == 1 for i in fitting])
            fitting = fitting[~(single & table.apart[fitting].any(axis=1))]
            covered.update(fitting.tolist())
            chosen.append(held)
            usable.append(fitting)
    return _arrays(table, chosen, usable, rng)


def _grown(needs: list[frozenset[int]], start: int, rng: np.random.Generator) -> set[int]:
    """Kinds that one opcode needs, and those of further opcodes that work on some of them."""
    kinds = set(needs[start])
    for i in rng.permutation(len(needs)):
        if len(kinds | needs[i]) <= max(_KIT_KINDS, len(needs[start])) and kinds & needs[i]:
            kinds |= needs[i]
    return kinds


def _registers(kinds: set[int], needs: list[frozenset[int]], twice: list[int]) -> list[int]:
    """A register of every kind, two of the first of some, and more of those that many opcodes use."""
    held = sorted(kinds)
    uses = {k: 1 + sum(k in need for need in needs) for k in held}
    while len(held) < REGISTERS:
        held.append(max(kinds, key=lambda k: (uses[k] / (held.count(k) + 1), -k)))
    for kind in [k for k in twice if held.count(k) == 1]:
        spare = [k for k in kinds if held.count(k) > (2 if k in twice else 1)]
        if spare:
            most = max(spare, key=lambda k: (held.count(k), -k))
            held[len(held) - 1 - held[::-1].index(most)] = kind
    return held


def _arrays(
    table: Table, chosen: list[list[int]], usable: list[NDArray[np.intp]], rng: np.random.Generator
) -> Kits:
    count = len(chosen)
    often = np.bincount(np.concatenate(usable), minlength=len(table.opcodes))
    regions = np.zeros((count, len(REGIONS)), np.int32)
    choices = np.zeros((count, len(REGIONS), CHOICES), np.int32)
    places = np.zeros((count, len(table.kinds), PLACES), np.int32)
    for k, (held, fitting) in enumerate(zip(chosen, usable, strict=True)):
        for r in range(len(REGIONS)):
            there = fitting[table.allowed[fitting, r]]
            regions[k, r] = r if len(there) else 0
            there = there if len(there) else fitting
            # Every opcode of a kit once, then more often those in few kits and of instructions with few
            # opcodes: types and modes multiply the opcodes of conversions and comparisons.
            named = [table.opcodes[i].name for i in there]
            weights = np.array([named.count(n) for n in named]) ** -0.5 / often[there]
            picked = rng.choice(there, CHOICES, p=weights / weights.sum())
            choices[k, r] = rng.permutation(np.concatenate([there, picked])[:CHOICES])
        for kind in set(held):
            where = [i for i, h in enumerate(held) if h == kind]
            places[k, kind] = (where * PLACES)[:PLACES]
    return Kits(np.array(chosen, np.int32), regions, choices, places)


def parts(profile: ProfileName, rows: int = 16, cols: int = 16) -> int:
    """How many tables the opcodes of a profile are dealt out to."""
    return -(-len(catalogue(profile, rows, cols)) // OPCODES)


@cache
def table(profile: ProfileName, part: int = 0, rows: int = 16, cols: int = 16) -> Table:
    """One of the tables that the opcodes of a profile are dealt out to: equal shares of each instruction.

    >>> t = table("a5")
    >>> len(t.opcodes) <= OPCODES, len({o.name for o in t.opcodes}) >= 60
    (True, True)
    """
    count = parts(profile, rows, cols)
    if not 0 <= part < count:
        raise ArgumentError(f"lockstep table {part} of {profile}", allowed=f"0 to {count - 1}")
    opcodes = sorted(catalogue(profile, rows, cols), key=lambda o: (o.name, zlib.crc32(str(o).encode())))
    return Table(profile, rows, cols, tuple(opcodes[part::count]))


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

    def __post_init__(self) -> None:
        if self.only and self.dtypes:
            self._having(self.profiles or PROFILE_NAMES)

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
            drawn = self._large(turn)
        else:
            profiles = self._having(self.profiles or PROFILE_NAMES)
            number = turn // len(profiles)
            drawn = small(profiles[turn % len(profiles)], number, self.opcodes, self.only, self.dtypes)
            most = _FIRST << turn if turn == 0 or self.length is not None else self.opcodes
            drawn = drawn if len(drawn.opcodes) <= most else replace(drawn, opcodes=drawn.opcodes[:most])
        return drawn if drawn.regions == self.regions else replace(drawn, regions=self.regions)

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
            opcodes = (_aimed_at(aim, profile, shape, again) for aim in parts_of[part])
            if members := tuple(dict.fromkeys(o for o in opcodes if o is not None)):
                return Table(profile, *shape, members, parts_of[part][0].regions)
        named = " ".join(dict.fromkeys(aim.name for aim in self.aims))
        raise ArgumentError(f"{named}: programs in lockstep reach none of these", fix="leave out --lockstep")

    def _large(self, turn: int) -> Table:
        candidates = large(self.profiles or _PROFILES)
        if not self.only and not self.dtypes:
            return table(*candidates[turn % len(candidates)])
        parts_of = [
            made
            for profile, part in candidates
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
        said = " ".join(f"{option} {' '.join(names)}" for option, names in asked if names)
        missing = missing_types(self.only, self.dtypes, self.profiles or PROFILE_NAMES)
        if missing:
            return missing
        return objection(f"{said}: no opcode of lockstep has such operands", fix="--tested jit")


def missing_types(names: Sequence[str], dtypes: Sequence[str], profiles: Sequence[str]) -> str:
    """The message for an instruction that has none of some element types on a profile, "" where all have one.

    >>> missing_types(("tadd",), ("hif8",), ("a5",)).partition(";")[0]
    'tadd has no hif8 on a5'
    """
    for name in names if dtypes else ():
        instruction = isa.find(name)
        tables = instruction.types if instruction is not None else {}
        types = {p: {d for row in rows for d in row} for p, rows in tables.items() if rows}
        lacking = [p for p in profiles if p in types and not types[p] & set(dtypes)]
        if lacking:
            allowed = ", ".join(d.name for d in TILE_DTYPES if d.name in types[lacking[0]])
            having = [p for p in types if types[p] & set(dtypes)]
            others = f"; profiles that have it: {', '.join(having)}" if having else ""
            fix = f"--profile {having[0]}" if having else ""
            return objection(f"{name} has no {' '.join(dtypes)} on {lacking[0]}", allowed + others, fix)
    return ""


def _aimed_at(aim: Aim, profile: ProfileName, shape: tuple[int, int], turn: int) -> Opcode | None:
    """An opcode that an aim wants, with other attributes in other turns; None where there is none."""
    if aim.name not in names(profile):
        return None
    said = f"{turn}:{aim.name}:{aim.dtype}"
    opcode = _member(aim.name, profile, shape, aim.dtype or _TYPES[turn % len(_TYPES)], said, required=False)
    return opcode if opcode is not None and aim.dtype in ("", opcode.dtype.name) else None


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
    chosen = [name for name in names(profile) if not only or name in only]
    if not dtypes:
        return bool(chosen)
    return any(
        _member(name, profile, _SHAPES[0], dtype, "", required=True) for name in chosen for dtype in dtypes
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
    candidates = [name for name in names(profile) if not only or name in only]
    groups = rounds(len(candidates), opcodes)
    turn, group = divmod(number, groups)
    shuffled = sorted(candidates, key=lambda name: zlib.crc32(f"{turn}:{name}".encode()))
    chosen = shuffled[group::groups]
    shape = _SHAPES[number % len(_SHAPES)]
    types = dtypes or _TYPES
    members: dict[Opcode, None] = {}
    # Few instructions are there in several forms; those without one for a type leave room for others.
    for again in range(1 if len(candidates) > opcodes else -(-opcodes // len(chosen))):
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
