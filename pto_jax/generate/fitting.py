"""Integer arguments and buffer sizes that keep all accesses of a program inside.

Numbers are drawn and the program is followed with them (:mod:`.tainted`). Where a rule is broken, the
arguments that broke it become smaller, or larger where something was negative: a table of block numbers
holds numbers of blocks that there are, a position is one of those that exist. Arguments that make loops long
become smaller as well. No name of the program means anything here.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .. import errors, profiles
from ..analysis.provenance import GlobalTypes
from ..interpreter.interleaving import run_block
from ..ir import Function, Program, ScalarType
from .inputs import numbers
from .tainted import FAR, Broken, Origins, TaintMachine, TooLong

#: Executions that are followed to repair numbers, and draws before numbers that write nothing are taken.
REPAIRS, DRAWS = 60, 40
#: Draws of numbers of one magnitude; later ones have magnitudes of their own, and tables with few numbers
#: that are not negative.
ALIKE = 6
#: Operations that all draws together may follow before the later ones are left out.
FOLLOWED = 400_000
#: Instructions that an execution may have where arguments decide on it.
WORK = 400
#: Blocks that are followed: the first ones and the last.
FEW = 3
#: Numbers up to which extents grow to hold what lies behind them.
LARGE = 1 << 10
#: Times that and the size of buffers may be exceeded by late draws.
BEYOND = 8
#: Bounds of tables of which most elements name nothing.
SPARSE = (-16, 1)
#: Elements of a table up to which they are all different draws.
_PERIOD = 1 << 16


@dataclass(frozen=True)
class Fit:
    """Integers for a program's arguments.

    ``scalars`` are the integer scalars; ``tables`` the lowest and the highest element of the buffers whose
    elements are read as scalars; ``reached`` the number of elements of each buffer that are accessed, of
    those for which it is known. ``writes`` tells whether anything is written; ``positions`` are the bounds of
    the elements of further buffers, which name places in tiles or in windows: others are no error.
    """

    scalars: Mapping[str, int]
    tables: Mapping[str, tuple[int, int]]
    reached: Mapping[str, int]
    seed: int
    writes: bool
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def table(self, name: str, count: int) -> NDArray[np.int64]:
        """The elements of a table."""
        bounds = self.tables.get(name) or self.positions[name]
        return table(self.seed, name, bounds, count)


def table(seed: int, name: str, bounds: tuple[int, int], count: int) -> NDArray[np.int64]:
    """Integers within bounds, the same for a name and a seed: the first ones of any number of them."""
    low, high = bounds
    drawn = low + np.floor(_fractions(seed, name) * (high - low + 1)).astype(np.int64)
    return np.resize(drawn, count)


@lru_cache(maxsize=64)
def _fractions(seed: int, name: str) -> NDArray[np.float64]:
    return np.random.default_rng((seed, zlib.crc32(name.encode()))).random(_PERIOD)


@dataclass(eq=False)
class _Search:
    """The numbers that are tried: those of scalars, and the bounds of the elements of buffers."""

    program: Program
    function: Function
    profile: profiles.ProfileName
    grid: int
    seed: int
    scalars: dict[str, int]
    tables: dict[str, tuple[int, int]] = field(default_factory=dict)
    followed: int = 0
    pool: Sequence[int] = field(init=False)
    beyond: int = 1
    #: Whether an execution was followed to its end in every block.
    whole: bool = False

    def __post_init__(self) -> None:
        self.pool = numbers((self.program,))

    def follow(self) -> tuple[TaintMachine, Broken | None]:
        """An execution with the present numbers, and the first rule that it breaks."""
        machine = TaintMachine(self.profile, self.scalars, self._element, limit=self.beyond * FAR)
        operands = [machine.argument(a) for a in self.function.args]
        self.whole = self.grid <= FEW
        try:
            for number in dict.fromkeys((*range(FEW - 1), self.grid - 1)):
                if number < self.grid:
                    run_block(self.program, machine, self.function, operands, number, self.grid)
        except Broken as broken:
            return machine, broken
        except (TooLong, errors.PtoError):
            # What was seen so far is all that is known; execution says what is wrong.
            machine.unsized |= machine.reached.keys()
            self.whole = False
        finally:
            self.followed += machine.followed
        return machine, None

    def _element(self, buffer: str, at: int) -> int:
        bounds = self.tables.setdefault(buffer, (0, 8))
        return int(table(self.seed, buffer, bounds, _PERIOD)[at % _PERIOD])

    def redraw(self, draw: int, rng: np.random.Generator) -> None:
        """Other numbers, the larger the later.

        Those of late draws have magnitudes of their own, or are numbers of the program: sizes that are
        divided into pieces of a fixed size.
        """

        def size() -> int:
            return 1 << 2 * (draw if draw < ALIKE else int(rng.integers(0, ALIKE)))

        for name in self.scalars:
            from_pool = draw >= ALIKE and rng.random() < 0.5
            self.scalars[name] = int(rng.choice(self.pool)) if from_pool else int(rng.integers(0, size()))
        sparse = draw >= ALIKE and draw % 2 == 1
        self.beyond = BEYOND if draw >= ALIKE else 1
        self.tables = {name: SPARSE if sparse else (0, size()) for name in self.tables}

    def repair(self, broken: Broken, rng: np.random.Generator) -> bool:
        """Change the numbers that broke a rule; False where there are none.

        Conditions on elements may have broken one that no number names: then all tables change.
        """
        if not broken.small | broken.large:
            return self.smaller(frozenset(self.tables))
        small = frozenset(
            n for n in broken.small - broken.large if self.scalars.get(n, 0) < self.beyond * LARGE
        )
        if small:
            self.larger(small)
        elif broken.large and not self.smaller(broken.large):
            # Nothing smaller helps: some numbers belong together.
            for name in sorted(broken.large & self.scalars.keys()):
                self.scalars[name] = int(rng.integers(0, 65))
        return bool(small or broken.large)

    def smaller(self, origins: Origins) -> bool:
        """Halve numbers; whether any changed."""
        before = dict(self.scalars), dict(self.tables)
        for name in origins:
            if name in self.scalars:
                self.scalars[name] = int(self.scalars[name] / 2)
            else:
                low, high = self.tables.get(name, (0, 8))
                self.tables[name] = int(low / 2), int(high / 2)
        return before != (self.scalars, self.tables)

    def larger(self, origins: Origins) -> None:
        """Double numbers, and make them positive."""
        for name in origins:
            if name in self.scalars:
                self.scalars[name] = min(abs(2 * self.scalars[name]) + 1, 1 << 16)
            else:
                low, high = self.tables.get(name, (0, 8))
                low = min(abs(2 * low) + 1, 1 << 16)
                self.tables[name] = low, max(low, high)


def fit(
    program: Program,
    function: Function,
    profile: profiles.ProfileName,
    scalars: Mapping[str, int],
    seed: int,
    grid: int = 1,
) -> Fit | None:
    """Numbers that suit a function launched on ``grid`` blocks, as near to ``scalars`` as repairs allow.

    None where none were found.

    >>> import pto_jax as pto
    >>> text = "func.func @f(%p: !pto.ptr<f32>, %n: index) { %c = arith.constant 8 : index "
    >>> text += "%s = arith.constant 1 : index %v = pto.make_tensor_view %p, shape = [%c], strides = [%s] "
    >>> text += ": !pto.tensor_view<?xf32> %w = pto.partition_view %v, offsets = [%n], sizes = [%s] "
    >>> text += ": !pto.tensor_view<?xf32> -> !pto.partition_tensor_view<1xf32> return }"
    >>> program = pto.parse(text)
    >>> fit(program, program.functions[0], "a5", {"n": 100}, 0).scalars["n"] < 8
    True
    """
    search = _Search(program, function, profile, grid, seed, dict(scalars))
    result = None
    rng = np.random.default_rng(seed)
    for draw in range(DRAWS):
        if draw >= ALIKE and search.followed > FOLLOWED:
            break
        if draw:
            search.redraw(draw, rng)
        outcome = _repaired(search, rng)
        result = outcome if outcome is not None and (result is None or outcome.writes) else result
        if result is not None and result.writes:
            break
    return result


def _repaired(search: _Search, rng: np.random.Generator) -> Fit | None:
    for _ in range(REPAIRS):
        machine, broken = search.follow()
        if broken is None:
            if not search.smaller(_costly(machine)):
                return _fit_of(search, machine)
        elif not search.repair(broken, rng):
            return None
    return None


def _costly(machine: TaintMachine) -> Origins:
    """The arguments that make an execution long, or its buffers large."""
    longest = max(machine.trips, key=machine.trips.__getitem__, default=frozenset())
    long = machine.work > WORK and machine.trips.get(longest, 0) > 1
    return machine.far | (longest if long else frozenset())


def _fit_of(search: _Search, machine: TaintMachine) -> Fit:
    # A buffer that nothing accesses needs no more than an element.
    reached = {a.name: 1 for a in search.function.args if search.whole and isinstance(a.type, GlobalTypes)}
    reached |= machine.reached
    reached = {name: n for name, n in reached.items() if name not in machine.unsized}
    tables = {name: search.tables[name] for name in machine.tables}
    places = {name: (0, size - 1) for name, size in machine.positions.items() if name not in tables}
    return Fit(dict(search.scalars), tables, reached, search.seed, bool(machine.written), places)


def integers(function: Function) -> Sequence[str]:
    """The integer scalars among a function's arguments."""
    return [a.name for a in function.args if isinstance(a.type, ScalarType) and not a.type.dtype.is_float]


def suits(program: Program, function: Function) -> bool:
    """Whether there is something to fit: arguments of an entry that are buffers and scalars."""
    return not program.fragment and all(isinstance(a.type, GlobalTypes | ScalarType) for a in function.args)
