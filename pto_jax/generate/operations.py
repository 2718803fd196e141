"""Legal operations for the generator: variations of the samples of declarations.

For the preset ``defined``, operations keep every element that a program reads defined: tiles have contents
before they are read, valid regions cover the reads, and indices, divisors and shift counts are in range.
Operations without such a guarantee are left out. Answers of the verifier are remembered, because a generator
asks the same questions many times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from ..errors import VerifyError
from ..ir import (
    Attrs,
    AttrValue,
    GlobalLayout,
    Loc,
    Op,
    PartitionViewType,
    TileType,
    Type,
    Value,
    attrs,
)
from ..isa import find
from ..isa.check import check_op
from ..isa.declare import Instruction, Operand
from ..isa.rules import memory_indexed
from ..isa.rules.tile_legality import check_type
from ..isa.samples.operations import Sample
from ..profiles import Profile, ProfileName, profile as find_profile
from .options import Options, Region
from .values import Recipe

#: ``doubtful``: legal, with a warning that may concern which lanes are read or written.
Verdict: TypeAlias = Literal["illegal", "doubtful", "clean"]
Sizes: TypeAlias = tuple[int, int]
#: A warning where the assembler accepts a transfer beyond its window: execution refuses it.
_REFUSED = "window-lanes"


def legal(profile: Profile, op: Op, constants: Mapping[str, int] | None = None) -> bool:
    """Whether an operation on the values of a program is legal, as far as types and constants show."""
    return judged(profile, op, constants) != "illegal"


def judged(
    profile: Profile,
    op: Op,
    constants: Mapping[str, int] | None = None,
    sizes: Mapping[str, Sizes] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    layouts: Mapping[str, GlobalLayout] | None = None,
) -> Verdict:
    """The verdict on an operation, by the types of its values: their names do not matter.

    What is known besides the types is given by name: integer values, valid sizes at execution, extents and
    layouts of views.
    """
    names: dict[str, str] = {}

    def plain(values: tuple[Value, ...]) -> tuple[tuple[str, Type], ...]:
        return tuple((names.setdefault(v.name, f"v{len(names)}"), v.type) for v in values)

    ins, outs, results = plain(op.ins), plain(op.outs), plain(op.results)
    numbers = tuple((names[n], k) for n, k in (constants or {}).items() if n in names)
    regions = tuple((names[n], s) for n, s in (sizes or {}).items() if n in names)
    views = tuple((names[n], s, (layouts or {}).get(n)) for n, s in (shapes or {}).items() if n in names)
    rest = (op.attributes, op.groups, numbers)
    verdict = _verdict(op.name, ins, outs, results, *rest, (), views, profile.name)
    if verdict == "illegal" or _told((*ins, *outs, *results), dict(regions)):
        return verdict
    return _worse(verdict, _verdict(op.name, ins, outs, results, *rest, regions, views, profile.name))


def suits(
    sample: Sample,
    types: Mapping[str, Type],
    attributes: Mapping[str, AttrValue],
    sizes: Mapping[str, Sizes],
    profile: Profile,
) -> Verdict:
    """The verdict on a sample with other types and attributes, and with valid sizes at execution."""
    instruction = sample.instruction
    ins = tuple((name, types[name]) for name in sample.form)
    outs = tuple((o.name, types[o.name]) for o in instruction.destinations if o.name in types)
    values = tuple((n, numbers[0]) for n, numbers in sample.constants.items() if numbers)
    name, rest = instruction.name, (attrs(attributes), (), values)
    verdict = _verdict(name, ins, outs, (), *rest, (), (), profile.name)
    if verdict == "illegal" or _told((*ins, *outs), sizes):
        return verdict
    return _worse(verdict, _verdict(name, ins, outs, (), *rest, tuple(sizes.items()), (), profile.name))


_Values: TypeAlias = tuple[tuple[str, Type], ...]


@lru_cache(maxsize=1 << 16)
def _verdict(  # noqa: PLR0913 - what the cache is keyed by
    name: str,
    ins: _Values,
    outs: _Values,
    results: _Values,
    attributes: Attrs,
    groups: tuple[tuple[str, int], ...],
    constants: tuple[tuple[str, int], ...],
    sizes: tuple[tuple[str, Sizes], ...],
    views: tuple[tuple[str, tuple[int, ...], GlobalLayout | None], ...],
    profile: ProfileName,
) -> Verdict:
    read, written, bound = (tuple(Value(n, t) for n, t in part) for part in (ins, outs, results))
    op = Op(name, read, written, bound, attributes, groups=groups)
    where, values = find_profile(profile), dict(constants)
    try:
        shapes: dict[str, tuple[int | None, ...]] = {n: dims for n, dims, _ in views}
        layouts = {n: layout for n, _, layout in views if layout is not None}
        findings = check_op(
            op, where, constants=values, shapes=shapes, layouts=layouts, valid=dict(sizes), types=False
        )
    except VerifyError:
        return "illegal"
    if any(d.severity == "error" or d.rule == _REFUSED for d in findings) or not all(
        _exists(v.type, profile) for v in (*read, *written, *bound)
    ):
        return "illegal"
    return "doubtful" if any(d.rule in _rules_on_lanes(name) for d in findings) else "clean"


@cache
def _rules_on_lanes(name: str) -> frozenset[str]:
    """The rules of an instruction that concern which lanes it reads."""
    instruction = find(name)
    constraints = instruction.constraints if instruction is not None else ()
    return frozenset(c.rule for c in constraints if c.on_lanes)


@lru_cache(maxsize=1 << 14)
def _exists(t: Type, profile: ProfileName) -> bool:
    """Whether a profile has a type."""
    return all(finding.severity != "error" for finding in check_type(t, find_profile(profile)))


def _told(types: Iterable[tuple[str, Type]], sizes: Mapping[str, Sizes]) -> bool:
    """Whether types say the valid sizes themselves."""
    return all(not isinstance(t, TileType) or sizes.get(n, t.valid) == t.valid for n, t in types)


def _worse(a: Verdict, b: Verdict) -> Verdict:
    return "illegal" if "illegal" in (a, b) else "doubtful" if "doubtful" in (a, b) else "clean"


def usable(sample: Sample) -> bool:
    """Whether it can be said in advance that an operation reads defined lanes only."""
    instruction = sample.instruction
    if instruction.lanes == "open" or any(
        isinstance(t, TileType) and t.conv is not None for t in sample.types.values()
    ):
        return False
    return all(
        named_elements(instruction, o, sample.types) is not None
        for o in map(instruction.operand, sample.form)
        if o.holds == "positions"
    )


def named_elements(instruction: Instruction, operand: Operand, types: Mapping[str, Type]) -> Type | None:
    """The type of what a tile of positions reads elements of: a window of global memory, or a whole tile.

    None for other operands.
    """
    source, written = types.get(operand.within), instruction.destinations
    # Positions that are bytes can name nothing: then the result keeps what it had.
    reads = not any(o.keeps or o.name == operand.within for o in written)
    if not reads or not isinstance(types.get(operand.name), TileType):
        return None
    whole = isinstance(source, TileType) and source.valid == source.shape
    return source if whole or isinstance(source, PartitionViewType) else None


def places_of(want: Wanted, operand: Operand, profile: Profile, options: Options) -> int | None:
    """How many places positions may name, so that none is outside a window; None where any position may be.

    Other modes than ``undefined`` say what becomes of positions outside.
    """
    source = want.types.get(operand.within)
    if isinstance(source, TileType):
        return source.elements if options.defined else None
    if source is None:
        return None
    return memory_indexed.places_of(want.attributes, profile.name, want.types, any_mode=options.defined)


def takes_partial(instruction: Instruction) -> bool:
    """Whether the rules on valid regions say all about the lanes an instruction reads."""
    return instruction.lane_wise or instruction.lanes == "line"


def takes_sizes(instruction: Instruction, sizes: Mapping[str, tuple[int, int]]) -> bool:
    """Whether an instruction reads valid lanes only; a reduction of nothing still reads a first element."""
    return instruction.lanes == "same" or all(0 not in region for region in sizes.values())


def fills_results(instruction: Instruction) -> bool:
    """Whether an instruction writes every valid lane of its result."""
    return instruction.lane_wise


def recipe_of(instruction: Instruction, operand: str) -> Recipe | None:
    """The recipe for an operand whose values decide whether the result is defined; None for any values."""
    if operand in instruction.divisor or operand in instruction.positive:
        return "positive"
    return "counts" if instruction.shift_count == operand else None


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
    whole = options.defined and not takes_partial(sample.instruction)
    if not whole and rng.random() < options.shapes:
        reshaped = _reshaped(rng, sample)
        types = reshaped if _legal(sample, reshaped, attributes, {}, profile) else types
    if rng.random() < options.attributes:
        attributes = _varied(rng, sample, types, profile)
    for sizes in (_static(types),) if whole else _regions(rng, types, options, scale):
        if options.defined and not takes_sizes(sample.instruction, sizes):
            continue
        open_types = _opened(types, sizes, scale)
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


def _opened(types: Mapping[str, Type], sizes: Mapping[str, tuple[int, int]], scale: Scale) -> dict[str, Type]:
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
