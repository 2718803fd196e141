"""Legal operations for the generator: samples of the declarations, and variations of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache

from .. import isa
from ..ir.program import AttrValue
from ..ir.types import (
    GlobalLayout,
    Loc,
    MemRefType,
    PartitionViewType,
    ScalarType,
    TileType,
    Type,
    VectorType,
)
from ..isa.declare import Instruction
from ..isa.samples.operations import Sample, legal_samples
from ..profiles import Profile, ProfileName, profile as find_profile
from . import defined
from .instructions import APART, SETTINGS
from .legal import suits
from .options import Options

_KNOWN = (TileType, ScalarType, PartitionViewType, VectorType, MemRefType)
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


@cache
def catalogue(profile: ProfileName, elements: int) -> Mapping[str, tuple[Sample, ...]]:
    """Samples of every executable instruction of a profile, small ones where there are any."""
    by_name = {}
    for name, instruction in isa.instructions().items():
        plain = instruction.syntax == "tile" and name not in APART
        if not instruction.executable or not (plain or name in SETTINGS):
            continue
        samples = [s for s in legal_samples(instruction, find_profile(profile)) if _usable(s)]
        small = [s for s in samples if _largest(s) <= elements]
        if samples:
            by_name[name] = tuple(small or samples)
    return by_name


def _usable(sample: Sample) -> bool:
    return all(isinstance(t, _KNOWN) for t in sample.types.values()) and not sample.grouped


def _largest(sample: Sample) -> int:
    roles = {o.name for o in sample.instruction.operands if o.role != "tmp"}
    tiles = [t for n, t in sample.types.items() if isinstance(t, TileType) and n in roles]
    return max((t.elements for t in tiles), default=0)


@cache
def samples_of(profile: ProfileName, options: Options) -> Mapping[str, tuple[Sample, ...]]:
    """Samples of the instructions that programs with some options have, by name."""
    every = catalogue(profile, options.elements)
    by_name = {n: every[n] for n in every if not options.only or n in options.only}
    if options.defined:
        by_name = {n: tuple(filter(defined.usable, samples)) for n, samples in by_name.items()}
    return {n: samples for n, samples in by_name.items() if samples}


@cache
def by_class(profile: ProfileName, options: Options) -> tuple[tuple[tuple[str, ...], ...], tuple[float, ...]]:
    """Names of usable instructions per class, and the classes' weights."""
    names: dict[str, list[str]] = {}
    for name in samples_of(profile, options):
        names.setdefault(isa.instructions()[name].cls, []).append(name)
    weighted = [(tuple(names[c]), w) for c, w in options.weights if c in names and w > 0]
    return tuple(n for n, _ in weighted), tuple(w for _, w in weighted)


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
        verdict = suits(sample, open_types, attributes, sizes, profile)
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
        """Sizes for a program, as often partial or dynamic as options ask for."""
        sizes = {}
        if rng.random() < options.partial:
            for n in (8, 16, 32, 64):
                pick = rng.random()
                sizes[n] = n if pick < 0.3 else 0 if pick < 0.36 else 1 if pick < 0.45 else rng.randint(1, n)
        return cls(sizes, rng.random() < options.dynamic)


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
    return suits(sample, types, attributes, sizes, profile) != "illegal"
