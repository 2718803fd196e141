"""Legal operations for the generator: variations of the declarations' samples."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from ..ir import AttrValue, GlobalLayout, Loc, TileType, Type
from ..isa.declare import Instruction
from ..isa.samples.operations import Sample
from ..profiles import Profile
from . import defined, legal
from .options import Options, Region

_SHAPES = ((1, 64), (8, 32), (16, 16), (32, 8), (2, 128), (7, 64), (16, 64))


@dataclass(frozen=True)
class Wanted:
    """One operation to be made: a sample, its attributes, and the valid sizes of its tiles when it runs."""

    sample: Sample
    types: Mapping[str, Type]
    attributes: Mapping[str, AttrValue]
    sizes: Mapping[str, tuple[int, int]]

    @property
    def instruction(self) -> Instruction:
        """The declaration of the instruction."""
        return self.sample.instruction

    def tile(self, name: str) -> TileType | None:
        """The type of an operand that is a tile, None for others."""
        t = self.types.get(name)
        return t if isinstance(t, TileType) else None


def wanted(
    rng: random.Random, sample: Sample, profile: Profile, options: Options, scale: Scale
) -> Wanted | None:
    """A legal variation of a sample, or the sample itself; None where options ask for more than legal."""
    types, attributes = dict(sample.types), dict(sample.attrs)
    whole = options.defined and not defined.takes_partial(sample.instruction)
    if not whole and rng.random() < options.shapes:
        reshaped = _reshaped(rng, sample)
        types = reshaped if _legal(sample, reshaped, attributes, {}, profile) else types
    if rng.random() < options.attributes:
        attributes = _varied(rng, sample, types, profile)
    for sizes in (_static(types),) if whole else _regions(rng, types, options, scale):
        if options.defined and not defined.takes_sizes(sample.instruction, sizes):
            continue
        open_types = _opened(rng, types, sizes, scale)
        verdict = legal.suits(sample, open_types, attributes, sizes, profile)
        if verdict == "clean" or (verdict == "doubtful" and not options.defined):
            return Wanted(sample, open_types, attributes, sizes)
    return None if options.defined else Wanted(sample, types, attributes, _static(types))


@dataclass(frozen=True)
class Scale:
    """What a program makes of the sizes of samples: one number for each, so that its tiles fit together."""

    sizes: Mapping[int, int]
    dynamic: bool

    @classmethod
    def draw(cls, rng: random.Random, options: Options) -> Scale:
        """Sizes for a program: of the kinds of regions that options name, else as often as they ask for."""
        if options.regions:
            kind = rng.choice(options.regions)
            return cls(_SIZES_OF[kind](rng), kind == "dynamic")
        # Sizes that are all even are rare where every kind stands beside the others.
        sizes = rng.choice((_mixed, _mixed, _mixed, _partial))(rng) if rng.random() < options.partial else {}
        return cls(sizes, rng.random() < options.dynamic)


def _mixed(rng: random.Random) -> dict[int, int]:
    """Every kind of size beside each other: whole, none, one, one less, odd, even, any."""
    makers: tuple[Callable[[int], int], ...] = (
        lambda n: n,
        lambda n: 0,
        lambda n: 1,
        lambda n: n - 1 or 1,
        lambda n: rng.randrange(1, n + 1, 2),
        lambda n: _even(rng, n),
        lambda n: rng.randint(1, n),
    )
    return {n: rng.choices(makers, (2, 4, 2, 3, 6, 3, 2))[0](n) for n in _EXTENTS}


def _even(rng: random.Random, n: int) -> int:
    """An even number of lines that are not all, where there are so many."""
    return 2 * rng.randint(1, (n - 1) // 2) if n > 2 else n


def _partial(rng: random.Random) -> dict[int, int]:
    return {n: _even(rng, n) for n in _EXTENTS}


def _odd(rng: random.Random) -> dict[int, int]:
    return {n: rng.randrange(1, n + 1, 2) for n in _EXTENTS}


def _empty(rng: random.Random) -> dict[int, int]:
    return {n: 0 if rng.random() < 0.7 else rng.randint(1, n) for n in _EXTENTS}


#: Extents of the samples' tiles.
_EXTENTS = (1, 2, 4, 7, 8, 16, 32, 64, 128, 256)
_SIZES_OF: Mapping[Region, Callable[[random.Random], dict[int, int]]] = {
    "full": lambda rng: {},
    "partial": _partial,
    "odd": _odd,
    "empty": _empty,
    "dynamic": _mixed,
}


def _static(types: Mapping[str, Type]) -> dict[str, tuple[int, int]]:
    return {
        n: (t.rows if t.v_row is None else t.v_row, t.cols if t.v_col is None else t.v_col)
        for n, t in types.items()
        if isinstance(t, TileType)
    }


def _regions(
    rng: random.Random, types: Mapping[str, Type], options: Options, scale: Scale
) -> Iterator[dict[str, tuple[int, int]]]:
    full = _static(types)
    fixed = {n for n, t in types.items() if isinstance(t, TileType) and t.conv is not None}

    def mapped(rows: bool, cols: bool) -> dict[str, tuple[int, int]]:
        def one(size: int, scaled: bool) -> int:
            return scale.sizes.get(size, size) if scaled else size

        return {n: (r, c) if n in fixed else (one(r, rows), one(c, cols)) for n, (r, c) in full.items()}

    if rng.random() < options.uneven and full:
        uneven, name = mapped(True, True), rng.choice(sorted(full))
        if name not in fixed:
            rows, cols = full[name]
            uneven[name] = (rng.randint(0, rows), rng.randint(0, cols))
            yield uneven
    if scale.sizes:
        yield mapped(True, True)
        yield mapped(True, False)
        yield mapped(False, True)
    yield full


def _opened(
    rng: random.Random, types: Mapping[str, Type], sizes: Mapping[str, tuple[int, int]], scale: Scale
) -> dict[str, Type]:
    """The types with static valid sizes, or with ones that only execution knows."""

    def one(t: Type, name: str) -> Type:
        if not isinstance(t, TileType) or t.conv is not None:
            return t
        return t.with_valid(None, None) if scale.dynamic else t.with_valid(*sizes[name])

    return {name: one(t, name) for name, t in types.items()}


def _reshaped(rng: random.Random, sample: Sample) -> dict[str, Type]:
    """Another shape for all the tiles that share one."""
    tiles = {n: t for n, t in sample.types.items() if isinstance(t, TileType)}
    plain = [t for t in tiles.values() if t.loc == Loc.VEC and not t.boxed and t.is_full and t.conv is None]
    if not plain:
        return dict(sample.types)
    old, new = plain[0].shape, rng.choice(_SHAPES)
    return {
        n: replace(t, rows=new[0], cols=new[1], v_row=new[0], v_col=new[1])
        if isinstance(t, TileType) and t.shape == old and t.is_full
        else t
        for n, t in sample.types.items()
    }


def _varied(
    rng: random.Random, sample: Sample, types: Mapping[str, Type], profile: Profile
) -> dict[str, AttrValue]:
    """Other values of attributes, as far as each of them is legal."""
    attributes = dict(sample.attrs)
    for attribute in sample.instruction.attributes:
        if issubclass(attribute.type, GlobalLayout) or rng.random() < 0.3:
            continue
        value: AttrValue
        if issubclass(attribute.type, IntEnum):
            value = rng.choice(list(attribute.type))
        elif attribute.type is bool:
            value = rng.random() < 0.5
        else:
            continue
        tried = {**attributes, attribute.name: value}
        if _legal(sample, types, tried, {}, profile):
            attributes = tried
    return attributes


def _legal(
    sample: Sample,
    types: Mapping[str, Type],
    attributes: Mapping[str, AttrValue],
    sizes: Mapping[str, tuple[int, int]],
    profile: Profile,
) -> bool:
    return legal.suits(sample, types, attributes, sizes, profile) != "illegal"
