"""The focus of generated programs: instructions, types, layouts, valid regions, values, weights.

>>> focus = Focus(only=("tcvt",), dtypes=("f16",), regions=("odd",))
>>> narrowed = focus.options(STRAIGHT)
>>> sorted(narrowed.only), narrowed.profiles
(['tcvt'], ('cpu_sim', 'a2a3', 'a5'))
>>> Focus(only=("tcvtt",))
Traceback (most recent call last):
pto_jax.errors.ArgumentError: --only tcvtt: no generated instruction (did you mean 'tcvt'?)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import get_args

from ...errors import ArgumentError
from ...generate.micro_samples import catalogue as catalogue_of_micro, select_micro
from ...generate.options import LAYOUT_NAMES, MADE, MICRO, STRAIGHT, Options
from ...generate.selection import catalogue, select
from ...generate.values import RECIPES
from ...ir import TILE_DTYPES
from ...isa.declare import InstructionClass
from ...lockstep import opcodes as lockstep, tables
from ...profiles import PROFILE_NAMES, ProfileName
from ...text.names import canonical, suggestion
from .coverage import REGIONS

CLASSES: tuple[InstructionClass, ...] = get_args(InstructionClass)


@dataclass(frozen=True)
class Focus:
    """What the options of a campaign say of its programs; nothing where all is wanted.

    ``only`` names instructions, ``dtypes`` element types and ``layouts`` layouts that an operand of each has
    (``f32->i32``: a source and a result),
    ``regions`` kinds of valid regions, ``values`` recipes, ``weights`` are ``NAME=FACTOR`` of an instruction
    or class. ArgumentError for a name that there is not.
    """

    only: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "only", tuple(map(canonical, self.only)))
        choices: tuple[tuple[str, Sequence[str], Sequence[str]], ...] = (
            (
                "dtype",
                [d for text in self.dtypes for d in text.split("->", 1)],
                [d.name for d in TILE_DTYPES],
            ),
            ("layout", self.layouts, LAYOUT_NAMES),
            ("region", self.regions, REGIONS),
            ("values", self.values, RECIPES),
        )
        for option, values, allowed in choices:
            unknown = [name for name in values if name not in allowed]
            if unknown:
                raise ArgumentError(f"--{option} {unknown[0]}", allowed=" ".join(allowed))
        # Whether each is generated takes half a second to know.
        names = generated() | MADE.keys() | generated_micro() if self.only else set()
        for name in self.only:
            if name not in names:
                raise ArgumentError(f"--only {name}: no generated instruction{suggestion(name, names)}")
        for text in self.weights:
            _factor(text)

    def options(self, options: Options) -> Options:
        """Options of the generator with this focus, on the profiles that have such programs."""
        below = frozenset(self.only) & generated_micro()
        if options.micro or (below and below == frozenset(self.only)):
            return self._kernels(options, below)
        others = frozenset(self.only) - below
        statements = others & MADE.keys()
        if self.only or self.dtypes or self.layouts:
            # What programs of these kinds have does not follow the focus.
            options = replace(options, cores=0.0, overlaps=0.0)
        narrowed = replace(
            with_statements(options, statements),
            only=(others - statements) or options.only,
            dtypes=frozenset(self.dtypes),
            layouts=frozenset(self.layouts),
            regions=tuple(k for k in REGIONS if k in self.regions),
            uneven=0.0 if self.regions else options.uneven,
            recipes=tuple(r for r in RECIPES if r in self.values) or options.recipes,
            factors=(*options.factors, *map(_factor, self.weights)),
            turns=0 if statements or self.weights else options.turns,
        )
        having = tuple(p for p in narrowed.profiles if select(p, narrowed).names)
        if not having:
            missing = tables.missing_types(self.only, self.dtypes, options.profiles)
            raise ArgumentError(
                missing or f"{self}: no instruction of {' '.join(options.profiles)} has such operands"
            )
        return replace(narrowed, profiles=having)

    def _kernels(self, options: Options, below: frozenset[str]) -> Options:
        """Options of kernels of micro-operations with this focus; ``below`` are those that it names."""
        profiles = tuple(p for p in options.profiles if p in MICRO.profiles)
        if not profiles:
            raise ArgumentError(
                f"profiles {' '.join(options.profiles)} have no micro-operations",
                allowed=" ".join(MICRO.profiles),
            )
        narrowed = replace(
            micro_options(options),
            profiles=profiles,
            only=below,
            dtypes=frozenset(self.dtypes),
            layouts=frozenset(self.layouts),
            regions=tuple(k for k in REGIONS if k in self.regions),
            recipes=tuple(r for r in RECIPES if r in self.values) or options.recipes,
            factors=(*options.factors, *map(_factor, self.weights)),
            turns=0 if self.weights else MICRO.turns,
        )
        if (self.only and not below) or not select_micro(narrowed).names:
            raise ArgumentError(f"{self}: no micro-operation has such operands")
        return narrowed

    def in_lockstep(self, profiles: Sequence[ProfileName]) -> bool:
        """Whether programs that are made as arrays can follow it."""
        pairs = any("->" in d for d in self.dtypes)
        if (
            pairs
            or self.layouts
            or self.values
            or self.weights
            or not set(self.regions) <= set(tables.REGIONS)
        ):
            return False
        return any(
            not self.only or set(self.only) <= set(lockstep.names(p)) for p in profiles or PROFILE_NAMES
        )

    def __str__(self) -> str:
        said = {
            "only": self.only,
            "dtype": self.dtypes,
            "layout": self.layouts,
            "region": self.regions,
            "values": self.values,
            "weight": self.weights,
        }
        return " ".join(f"--{option} {' '.join(names)}" for option, names in said.items() if names)


def micro_options(options: Options) -> Options:
    """Options of kernels of micro-operations, with the values and control flow of others."""
    if options.micro:
        return options
    control = max(options.control, MICRO.control)
    return replace(MICRO, recipes=options.recipes, statements=options.statements, control=control)


def with_statements(options: Options, names: Iterable[str]) -> Options:
    """Options with which programs have operations that no sample makes; each has one of the names."""
    names = frozenset(names)
    if not names:
        return options
    raised = dict[str, float]()
    for name in sorted(names):
        for option, value in MADE[name].items():
            before: float = raised[option] if option in raised else getattr(options, option)
            raised[option] = value if option == "tile_arguments" else max(value, before)
    return replace(options, having=names, turns=0, **raised)  # type: ignore[arg-type]


@cache
def generated_micro() -> frozenset[str]:
    """The micro-operations that generated kernels have."""
    return frozenset(catalogue_of_micro())


@cache
def generated() -> frozenset[str]:
    """The instructions that generated programs concentrate on."""
    return frozenset(n for p in PROFILE_NAMES for n in catalogue(p, STRAIGHT.elements))


def _factor(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    names: Iterable[str] = (*CLASSES, *generated(), *generated_micro())
    if name not in names:
        raise ArgumentError(f"--weight {text}: no instruction or class {name}{suggestion(name, names)}")
    try:
        factor = float(number)
    except ValueError:
        factor = -1.0
    if not 0 <= factor < float("inf"):
        raise ArgumentError(f"--weight {text}", allowed="NAME=FACTOR with a factor of 0 or more")
    return name, factor
