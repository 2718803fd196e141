"""Selection of the instructions of generated programs, their types and frequencies.

>>> from .options import STRAIGHT
>>> from dataclasses import replace
>>> only = replace(STRAIGHT, only=frozenset({"tcvt"}), dtypes=frozenset({"f16"}))
>>> table = select("a5", only)
>>> table.names, all("f16" in {t.dtype.name for t in s.types.values()} for s in table.samples("tcvt"))
(('tcvt',), True)
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate

from .. import isa, profiles
from ..ir import MemRefType, PartitionViewType, ScalarType, TileType, VectorType
from ..isa.rules.constraints import element_type
from ..isa.samples.operations import Sample, legal_samples
from . import operations, options
from .options import Options, layout_name

_KNOWN = (TileType, ScalarType, PartitionViewType, VectorType, MemRefType)
#: Of the choices of an instruction, the share that the weights of the classes decide.
_BY_CLASS = 0.5
#: The least weight of an instruction, as a share of what all would have if all had the same.
_LEAST = 0.9


@dataclass(frozen=True, eq=False)
class Selection:
    """The instructions of some options on a profile.

    ``forms`` are the samples of each by the operands that they have; ``cumulative`` are the weights of
    ``names``, added up.
    """

    forms: Mapping[str, tuple[tuple[Sample, ...], ...]]
    names: tuple[str, ...]
    cumulative: tuple[float, ...]

    def samples(self, name: str) -> tuple[Sample, ...]:
        """All samples of an instruction."""
        return tuple(sample for form in self.forms.get(name, ()) for sample in form)

    def draw(self, rng: random.Random, turn: int | None = None) -> tuple[Sample, ...]:
        """Samples of one instruction in one form: optional operands are as often absent as there.

        A ``turn`` chooses the pair of an instruction and an element type instead.
        """
        if turn is not None and self.pairs:
            return self.pairs[turn % len(self.pairs)]
        (name,) = rng.choices(self.names, cum_weights=self.cumulative)
        return rng.choice(self.forms[name])

    @cached_property
    def pairs(self) -> tuple[tuple[Sample, ...], ...]:
        """The samples of every pair of an instruction and an element type, in a scattered order."""
        having: dict[tuple[str, str], list[Sample]] = {}
        for name in self.names:
            for sample in self.samples(name):
                elements = filter(None, map(element_type, sample.types.values()))
                for element in dict.fromkeys(d.name for d in elements) or ("",):
                    having.setdefault((name, element), []).append(sample)
        order = sorted(having)
        random.Random(0).shuffle(order)
        return tuple(tuple(having[pair]) for pair in order)


@cache
def catalogue(profile: profiles.ProfileName, elements: int) -> Mapping[str, tuple[Sample, ...]]:
    """Samples of every executable instruction of a profile, small ones where there are any."""
    by_name = {}
    for name, instruction in isa.instructions().items():
        plain = instruction.syntax == "tile" and name not in options.APART
        if not instruction.executable or not (plain or name in options.SETTINGS):
            continue
        where = profiles.profile(profile)
        samples = [s for s in _in_all_forms(tuple(legal_samples(instruction, where)), where) if _usable(s)]
        small = [s for s in samples if _largest(s) <= elements]
        if samples:
            by_name[name] = tuple(small or samples)
    return by_name


def _in_all_forms(samples: tuple[Sample, ...], profile: profiles.Profile) -> Iterator[Sample]:
    """The samples, and each without its optional operands, in all forms that are declared or another has."""
    yield from samples
    seen = {(s.form, tuple(s.types.items()), tuple(s.attrs.items())) for s in samples}
    declared = samples[0].instruction.forms if samples else ()
    for form in dict.fromkeys((*(s.form for s in samples), *declared)):
        for sample in samples:
            left_out = set(sample.form) - set(form)
            if not left_out or not set(form) <= set(sample.form):
                continue
            types = {n: t for n, t in sample.types.items() if n not in left_out}
            shorter = replace(sample, form=form, types=types)
            key = (form, tuple(types.items()), tuple(sample.attrs.items()))
            if key not in seen and operations.suits(shorter, types, sample.attrs, {}, profile) != "illegal":
                seen.add(key)
                yield shorter


def _usable(sample: Sample) -> bool:
    return all(isinstance(t, _KNOWN) for t in sample.types.values()) and not sample.grouped


def _largest(sample: Sample) -> int:
    roles = {o.name for o in sample.instruction.operands if o.role != "tmp"}
    tiles = [t for n, t in sample.types.items() if isinstance(t, TileType) and n in roles]
    return max((t.elements for t in tiles), default=0)


@cache
def select(profile: profiles.ProfileName, options: Options) -> Selection:
    """What programs with some options have on a profile."""
    forms: dict[str, tuple[tuple[Sample, ...], ...]] = {}
    for name, samples in catalogue(profile, options.elements).items():
        fitting = [s for s in samples if _wanted(s, options)]
        by_form: dict[tuple[str, ...], list[Sample]] = {}
        for sample in fitting:
            by_form.setdefault(_data(sample), []).append(sample)
        if by_form:
            forms[name] = tuple(map(tuple, by_form.values()))
    weights = _weights(forms, options)
    names = tuple(n for n in forms if weights[n] > 0)
    return Selection(forms, names, tuple(accumulate(weights[n] for n in names)))


def _wanted(sample: Sample, options: Options) -> bool:
    tiles = [t for t in sample.types.values() if isinstance(t, TileType)]
    elements = {n: d.name for n, t in sample.types.items() if (d := element_type(t)) is not None}
    read = {d for n, d in elements.items() if n in sample.form}
    written = {d for n, d in elements.items() if n not in sample.form}
    words = {*read, *written, *(f"{a}->{b}" for a in read for b in written)}
    return (
        (not options.only or sample.instruction.name in options.only)
        and (not options.dtypes or bool(options.dtypes & words))
        and (not options.layouts or any(layout_name(t) in options.layouts for t in tiles))
        and (not options.defined or operations.usable(sample))
    )


def _data(sample: Sample) -> tuple[str, ...]:
    """The operands of a form without scratch memory."""
    return tuple(n for n in sample.form if sample.instruction.operand(n).role != "tmp")


def _weights(forms: Mapping[str, tuple[tuple[Sample, ...], ...]], options: Options) -> dict[str, float]:
    """The weight of each instruction: by its class, and by the variety of its samples.

    Without the second part an instruction of a large class, and one pair of types of a conversion, would
    hardly ever be seen; nor would one of a single profile, or one beside others with a factor, without the
    least weight.
    """
    by_class: dict[str, float] = dict(options.weights)
    factors = dict(options.factors)
    declared = {name: isa.instructions()[name] for name in forms}
    members = [i.cls for i in declared.values()]
    share = sum(by_class.get(c, 0.0) for c in set(members))
    variety = {n: sum(map(len, f)) ** 0.5 if by_class.get(declared[n].cls) else 0.0 for n, f in forms.items()}
    total = sum(variety.values())
    weights, factor = {}, {n: factors.get(n, factors.get(i.cls, 1.0)) for n, i in declared.items()}
    for name, instruction in declared.items():
        of_class = by_class.get(instruction.cls, 0.0)
        parts = _BY_CLASS * of_class / share / members.count(instruction.cls) if share else 0.0
        parts += (1 - _BY_CLASS) * variety[name] / total if total else 0.0
        weights[name] = factor[name] * parts
    least = _LEAST * sum(weights.values()) / max(1, len(forms))
    for name, instruction in declared.items():
        if by_class.get(instruction.cls):
            having = sum(name in catalogue(p, options.elements) for p in options.profiles)
            rare = len(options.profiles) / max(1, having)
            weights[name] = max(weights[name], least * min(1.0, factor[name]) * rare)
    return weights
