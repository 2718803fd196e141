"""What the generator knows while it builds a program: values in scope, arguments and their contents."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import ir, profiles
from ..isa.signless import on_signless
from .operations import Scale, Sizes as Sizes
from .options import Options
from .values import Recipe, words

#: What an argument of a generated program can be.
InputType: TypeAlias = (
    ir.TileType
    | ir.ScalarType
    | ir.PartitionViewType
    | ir.TensorViewType
    | ir.VectorType
    | ir.PtrType
    | ir.MemRefType
)


@dataclass(frozen=True)
class Input:
    """One argument of a generated program: raw words, one per element, and a tile's valid sizes."""

    type: InputType
    words: NDArray[Any] = field(repr=False)
    valid: Sizes | None = None


@dataclass(frozen=True)
class Held:
    """A tile in scope: its value and its valid sizes when it is used, None where they depend on the run.

    ``at`` is the address it is placed at, if any, ``window`` says that its rows are parts of longer ones.
    """

    value: ir.Value
    type: ir.TileType
    sizes: Sizes | None
    at: ir.Value | None = None
    window: bool = False


@dataclass(frozen=True)
class Buffer:
    """Global memory in scope: a pointer or memref to a number of elements."""

    value: ir.Value
    dtype: ir.DType
    count: int


class Unfit(Exception):
    """What was begun cannot be finished here; what it made so far is taken back."""


@dataclass
class Level:
    """The values that one region defines, and the operations made for it."""

    tiles: list[Held] = field(default_factory=list)
    scalars: list[ir.Value] = field(default_factory=list)
    views: list[ir.Value] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    ops: list[ir.Op] = field(default_factory=list)
    loop: bool = False

    @property
    def parts(self) -> tuple[list[Any], ...]:
        """The lists of the level, for taking back what was added to them."""
        return (self.tiles, self.scalars, self.views, self.buffers, self.ops)


@dataclass
class State:
    """A program in the making. ``levels`` are the regions around the place where operations are added."""

    rng: random.Random
    options: Options
    profile: profiles.Profile
    fragment: bool
    scale: Scale
    levels: list[Level] = field(default_factory=lambda: [Level()])
    arguments: list[ir.Value] = field(default_factory=list)
    inputs: dict[str, Input] = field(default_factory=dict)
    loose: dict[str, int] = field(default_factory=dict)
    functions: list[Any] = field(default_factory=list)
    #: Whether new arguments can be made: not inside a function that is called.
    entry: bool = True
    address: int = 0
    #: Whether some addresses are only known at execution.
    moving: bool = False
    #: Whether all numbers are constants: only then blocks can be proved to be apart.
    fixed: bool = False
    #: Tensors that are arguments; the number of the block where there are several.
    tensors: list[ir.Value] = field(default_factory=list)
    block: ir.Value | None = None
    #: Whether tiles may be arguments of the program; with several blocks each has memory of its own.
    tile_arguments: bool = True
    _count: int = 0

    @property
    def level(self) -> Level:
        """The innermost region, which operations are added to."""
        return self.levels[-1]

    def chance(self, probability: float) -> bool:
        """Whether an event of some probability takes place, by the next random number."""
        return self.rng.random() < probability

    def name(self, stem: str) -> str:
        """A new name that begins with ``stem``."""
        self._count += 1
        return f"{stem}{self._count}"

    def emit(self, op: ir.Op) -> None:
        """Add an operation to the innermost region, arithmetic on unsigned integers between casts."""
        self.level.ops += on_signless(op, lambda _: self.name("b"))

    def tiles(self) -> Iterator[Held]:
        """The tiles in scope, outermost first."""
        for level in self.levels:
            yield from level.tiles

    def repeated(self, handle: Held) -> bool:
        """Whether a loop lies between the definition of a tile and this place."""
        for level in reversed(self.levels):
            if any(h.value == handle.value for h in level.tiles):
                return False
            if level.loop:
                return True
        return False

    def scalars(self, d: ir.DType) -> list[ir.Value]:
        """The scalars in scope that have a type, outermost first."""
        return [v for level in self.levels for v in level.scalars if v.type == ir.ScalarType(d)]

    def words(self, d: ir.DType, shape: tuple[int, ...], recipe: Recipe) -> NDArray[Any]:
        """Random raw words by a recipe, one for each element."""
        return words(self.numbers, d, shape, recipe)

    @cached_property
    def numbers(self) -> np.random.Generator:
        """The source of contents."""
        return np.random.default_rng(self.rng.getrandbits(64))

    def recipe(self, d: ir.DType, shape: tuple[int, ...]) -> NDArray[Any]:
        """Random raw words by one of the recipes that the options have."""
        return self.words(d, shape, self.rng.choice(self.options.recipes))

    def attempt(self, make: Callable[[], None]) -> bool:
        """Do something whole, or leave no trace of it where it turns out to be unfit."""
        levels = [(level, [len(part) for part in level.parts]) for level in self.levels]
        others = (self.arguments, self.tensors, self.functions)
        before, address, names = [len(part) for part in others], self.address, set(self.inputs)
        try:
            make()
        except Unfit:
            for level, sizes in levels:
                for part, size in zip(level.parts, sizes, strict=True):
                    del part[size:]
            for part, size in zip(others, before, strict=True):
                del part[size:]
            for name in set(self.inputs) - names:
                del self.inputs[name]
            self.address = address
            return False
        return True

    def argument(
        self, stem: str, t: ir.Type, words: NDArray[Any], valid: tuple[int, int] | None = None
    ) -> ir.Value:
        """A new argument of the program with its contents."""
        assert isinstance(t, InputType)
        value = ir.Value(self.name(stem), t)
        self.arguments.append(value)
        self.inputs[value.name] = Input(t, words, valid)
        return value

    def constant(self, number: int | float | bool, d: ir.DType = ir.INDEX) -> ir.Value:
        """Add a constant; its value."""
        value = ir.Value(self.name("c"), ir.ScalarType(d))
        self.emit(ir.Op("arith.constant", results=(value,), attributes=ir.attrs(value=number)))
        return value

    def index_argument(self, number: int) -> ir.Value:
        """An index that only execution knows; inside a called function, a constant."""
        if not self.entry:
            return self.constant(number)
        return self.argument("n", ir.ScalarType(ir.INDEX), np.array(number, np.int64).view(np.uint64))

    def number(self, number: int, known: float = 0.5) -> ir.Value:
        """An index of a given value, as a constant or as an argument."""
        constant = self.fixed or self.chance(known)
        return self.constant(number) if constant else self.index_argument(number)

    def condition(self) -> ir.Value:
        """A truth value that execution finds."""
        indices = self.scalars(ir.INDEX)
        if not indices or (self.entry and self.chance(0.3)):
            number = int(self.chance(0.5))
            if not self.entry:
                return self.constant(bool(number), ir.I1)
            return self.argument("f", ir.ScalarType(ir.I1), np.array(number, np.uint8))
        left, right = self.rng.choice(indices), self.number(self.rng.randint(0, 4), 0.8)
        result = ir.Value(self.name("f"), ir.ScalarType(ir.I1))
        predicate = self.rng.choice(("eq", "slt", "sge", "ne"))
        self.emit(
            ir.Op("arith.cmpi", (left, right), results=(result,), attributes=ir.attrs(predicate=predicate))
        )
        return result

    def scalar(self, d: ir.DType) -> ir.Value:
        """A scalar of a type: one there is, a new argument or a constant."""
        candidates = self.scalars(d)
        if candidates and (not self.entry or self.chance(0.5)):
            return self.rng.choice(candidates)
        if d == ir.INDEX:
            return self.number(self.rng.randint(0, 9))
        plain = d.name in ("f32", "i32", "i16", "i8")
        if not self.entry or (plain and self.chance(0.3)):
            whole = self.rng.randint(-8, 8) if d.kind != "uint" else self.rng.randint(0, 8)
            value = self.constant(whole / 4 if d.is_float else whole, d)
        else:
            value = self.argument("s", ir.ScalarType(d), self.recipe(d, (1,))[0])
        self.level.scalars.append(value)
        return value

    def masked(self, value: ir.Value, mask: int) -> ir.Value:
        """An index between 0 and a mask (one less than a power of two), made of any index."""
        limit, result = self.constant(mask), ir.Value(self.name("k"), ir.ScalarType(ir.INDEX))
        self.emit(ir.Op("arith.andi", (value, limit), results=(result,)))
        return result

    def place(self, size: int) -> int:
        """A new byte address for a tile, sometimes one inside the bytes of earlier tiles."""
        if self.address and self.chance(self.options.aliasing):
            return self.rng.randrange(0, self.address, 32)
        address, self.address = self.address, self.address + -(-size // 32) * 32
        return address


def below(limit: int) -> int:
    """The largest number of the form 2**k - 1 that is at most a limit.

    >>> below(8), below(15), below(0)
    (7, 15, 0)
    """
    return (1 << ((limit + 1).bit_length() - 1)) - 1
