"""What programs of one table are made of: opcodes, and kits of registers they work on.

A program's registers have fixed types. A *kit* is a choice of types for them, together with the opcodes
whose operands they can be; it is found once per table, so that programs are drawn by looking up numbers.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from ..ir import DType, ScalarType
from ..lowering.lockstep import SCALARS, SLOTS, words_needed
from ..profiles import ProfileName
from .opcodes import Kind, Opcode, catalogue
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
            raise ArgumentError(f"a lockstep table without opcodes on {self.profile}; allowed: at least one")

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
        raise ArgumentError(f"lockstep table {part} of {profile}; allowed: 0 to {count - 1}")
    listed = sorted(catalogue(profile, rows, cols), key=lambda o: (o.name, zlib.crc32(str(o).encode())))
    return Table(profile, rows, cols, tuple(listed[part::count]))
