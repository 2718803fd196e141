r"""Coverage targets of a campaign: TOML files of bins, bins reached, and programs generated for a bin.

Each ``[[bins]]`` is a cross: a bin for every combination of the values of its keys. The keys are the parts of
a coverage cell, a string or a list of strings each; a missing key allows anything, and ``"*"`` stands for
each declared value. ``at_least`` is the number of operations that a bin needs::

    at_least = 2

    [[bins]]
    instruction = ["tcvt", "tquant"]
    type = ["f16", "i8"]
    attribute = "rmode=*"
    region = ["odd", "empty"]
    control = ["straight", "loop"]

    [[bins]]
    instruction = "reduce_expand"
    type = "*"
    at_least = 10

The bins take turns. A case is a function of its seed, its index and the goal, independent of the bins reached
before: it is the first of some programs that has an operation in its bin. So campaigns on many workers, and
continued ones, have the same cases.

>>> from .goal import parse_goal
>>> bins = parse_goal('[[bins]]\ninstruction = "taddc"\noperands = ["src2", "none"]', "g.toml")
>>> source = Aimed(1, (STRAIGHT,), bins)
>>> [any(map(b.has, coverage.of_program(source.case(n).program))) for n, b in enumerate(bins)]
[True, True]
"""

import hashlib
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from ... import errors, isa
from ...cases.kernels import kernel, kernels_only
from ...errors import PtoError
from ...files import read_text
from ...generate import micro_samples, operations, options, selection
from ...generate.options import MADE, MICRO, STRAIGHT, Options
from ...generate.programs import Case, case_id, generate
from ...generate.selection import catalogue, select
from ...ir import TILE_DTYPES, TileType
from ...isa.samples.operations import Sample
from ...profiles import PROFILE_NAMES, ProfileName, profile as find_profile
from ...text.names import canonical, suggestion
from . import batch, coverage
from .coverage import CONTROLS, PARTS, REGIONS, operands_part, shown
from .focus import CLASSES, generated, generated_micro, micro_options, with_statements

ANY = "*"


@dataclass(frozen=True)
class Bin:
    """Cells of coverage that belong together: a part that is ``*`` may be anything.

    >>> b = Bin(("tcvt", "f16", "*", "odd", "*", "*", "*"))
    >>> str(b), b.has("tcvt|f16|rmode=RINT|odd|row|-|loop"), b.has("tcvt|f16|-|full|row|-|loop")
    ('tcvt|f16|*|odd|*|*|*', True, False)
    """

    parts: tuple[str, ...]
    at_least: int = 1

    def __getitem__(self, part: str) -> str:
        """A part by its name."""
        return self.parts[PARTS.index(part)]

    def has(self, cell: str) -> bool:
        """Whether a cell of coverage belongs to the bin."""
        return all(a in (ANY, b) for a, b in zip(self.parts, cell.split("|"), strict=False))

    def __str__(self) -> str:
        return "|".join(self.parts)


def bins_to_json(bins: Sequence[Bin]) -> dict[str, int]:
    """The operations that each bin wants, which a store keeps."""
    return {str(b): b.at_least for b in bins}


def bins_of_json(value: Mapping[str, int]) -> tuple[Bin, ...]:
    """The bins that a store keeps."""
    return tuple(Bin(tuple(text.split("|")), n) for text, n in value.items())


def reached(bins: Sequence[Bin], cells: Mapping[str, int]) -> list[tuple[Bin, int]]:
    """Each bin with the operations that a campaign's cells have in it.

    An operation with several attributes is in as many cells; a bin of any attribute counts all of them.

    >>> reached([Bin(("tadd", *"******")), Bin(("tsub", *"******"))], {"tadd|f32|-|odd|row|-|loop": 3})[0][1]
    3
    """
    by_name: dict[str, list[tuple[str, int]]] = {}
    for cell, n in cells.items():
        by_name.setdefault(cell.partition("|")[0], []).append((cell, n))
    return [(b, sum(n for cell, n in by_name.get(b["instruction"], ()) if b.has(cell))) for b in bins]


def goal_lines(bins: Sequence[Bin], cells: Mapping[str, int], limit: int) -> Iterator[str]:
    """How many bins a campaign has reached, then a line for each of those that it has not."""
    counted = reached(bins, cells)
    missing = [(b, n) for b, n in counted if n < b.at_least]
    yield f"goal: {len(bins) - len(missing)} of {len(bins)} bins reached"
    for b, n in missing[:limit]:
        yield f"  not reached: {described(b)}: {n} of {b.at_least}"
    if len(missing) > limit:
        yield f"  and {len(missing) - limit} more"


def described(b: Bin) -> str:
    """A bin in words.

    >>> described(Bin(("tcvt", "f16", "*", "odd", "*", "*", "loop")))
    'tcvt type f16 region odd control loop'
    """
    parts = [f"{part} {value}" for part, value in zip(PARTS[1:], b.parts[1:], strict=True) if value != ANY]
    return " ".join([b["instruction"], *parts])


#: Programs that are made for a case until one has an operation in its bin; the later half is made of the
#: bin's instruction alone, by the plainest options.
TRIES = 24
#: Instructions beside that of the bin, and how much more often that one is.
_BESIDE, _MORE = 4, 6.0
#: Probabilities of what surrounds an operation, where a bin says that.
_CONTROL, _CALLS, _SURELY = 0.6, 0.5, 1.0


@dataclass(frozen=True)
class Aimed:
    """Cases that are aimed at the bins of a goal; ``options`` take turns as well."""

    seed: int
    options: tuple[Options, ...]
    bins: tuple[Bin, ...]
    kernels: bool = False
    notes: Sequence[batch.Note] = ()
    attempts: int = 1

    def case(self, index: int, attempt: int = 0) -> Case:
        """The case of an index, the same for every attempt; PtoError where no program can be made."""
        turn, which = divmod(index, len(self.bins))
        aim, usual = self.bins[which], self.options[(turn + which) % len(self.options)]
        last: Case | PtoError | None = None
        for number in range(TRIES):
            plain = number >= TRIES // 2
            base = replace(STRAIGHT, profiles=usual.profiles, recipes=usual.recipes) if plain else usual
            try:
                case = self._made(number, index, aimed(base, aim, alone=plain, kernels=self.kernels))
            except PtoError as error:
                last = last or error
                continue
            if any(map(aim.has, coverage.of_program(case.program))):
                return case
            last = case
        if isinstance(last, Case):
            return last
        raise last or PtoError(f"index {index}: no program is made")

    def _made(self, number: int, index: int, options: Options) -> Case:
        said = hashlib.sha256(f"{self.seed}:{index}:{number}".encode()).hexdigest()
        seed = int(said[:15], 16)
        make = kernel if self.kernels else generate
        return replace(make(seed, 0, options), id=case_id(self.seed, index), seed=self.seed, index=index)


@lru_cache(maxsize=1 << 12)
def aimed(options: Options, aim: Bin, *, alone: bool, kernels: bool = False) -> Options:
    """Options with which operations of a bin are frequent; ``alone`` with few other instructions.

    >>> b = Bin(("tcvt", "f16", "*", "odd", "*", "*", "loop"))
    >>> made = aimed(STRAIGHT, b, alone=True)
    >>> sorted(made.only), made.dtypes, made.regions, made.control
    (['tcvt'], frozenset({'f16'}), ('odd',), 0.6)
    """
    if aim["instruction"] in generated_micro():
        return _aimed_below(options, aim, alone=alone)
    if aim["instruction"] in MADE:
        plain = replace(options, cores=0.0, overlaps=0.0)
        return _with_control(with_statements(plain, (aim["instruction"],)), aim["control"])
    name, element, layout = aim["instruction"], aim["type"], aim["layout"]
    narrowed = replace(
        kernels_only(options) if kernels else options,
        only=frozenset({name} if alone else {name, *_beside(aim, options)}),
        dtypes=frozenset({element} - {ANY, "-"}),
        layouts=frozenset({layout} - {ANY, "-"}),
        factors=(*options.factors, (name, _MORE)),
        turns=0,
        attributes=_SURELY if aim["attribute"] != ANY else options.attributes,
    )
    narrowed = _with_control(narrowed, aim["control"])
    if kinds := tuple(k for k in coverage.REGIONS if k == aim["region"]):
        narrowed = replace(narrowed, regions=kinds, uneven=0.0)
    having = tuple(p for p in narrowed.profiles if name in select(p, narrowed).names)
    return replace(
        narrowed, profiles=having or narrowed.profiles, only=narrowed.only if having else frozenset({name})
    )


def _aimed_below(options: Options, aim: Bin, *, alone: bool) -> Options:
    """Options of kernels with a micro-operation of a bin; ``alone`` with nothing but what it needs."""
    name, element = aim["instruction"], aim["type"]
    base = micro_options(options)
    beside = _scattered(generated_micro(), aim)
    return _with_control(
        replace(
            base,
            profiles=MICRO.profiles,
            only=frozenset({name} if alone else {name, *beside}),
            having=frozenset({name}),
            dtypes=frozenset({element} - {ANY, "-"}) if alone else frozenset(),
            factors=(*options.factors, (name, _MORE)),
            turns=0,
        ),
        aim["control"],
    )


def _with_control(options: Options, control: str) -> Options:
    """Options with which operations often have what a bin wants around them."""
    if control in ("loop", "branch"):
        return replace(options, control=max(options.control, _CONTROL))
    return replace(options, functions=_SURELY, calls=_CALLS) if control == "call" else options


def _beside(aim: Bin, options: Options) -> list[str]:
    """Some instructions for the programs of a bin, others for another bin."""
    names = {n for p in options.profiles for n in catalogue(p, options.elements)}
    return _scattered(names, aim)


def _scattered(names: Collection[str], aim: Bin) -> list[str]:
    return sorted(names, key=lambda n: hashlib.sha256(f"{aim}:{n}".encode()).digest())[:_BESIDE]


#: Most bins of a goal.
MOST = 100_000
#: Samples of one kind with which an attribute is tried.
_TRIED = 8
_KEYS = (*PARTS, "at_least")


def read_goal(file: str | Path, profiles: Sequence[ProfileName] = PROFILE_NAMES) -> tuple[Bin, ...]:
    """The bins of a goal's file, for campaigns on some profiles.

    FileError for a file that cannot be read, ArgumentError with file and line for what is no goal.
    """
    return parse_goal(read_text(file), str(file), profiles)


def parse_goal(text: str, name: str, profiles: Sequence[ProfileName] = PROFILE_NAMES) -> tuple[Bin, ...]:
    r"""The bins of a goal's text, those that legal operations are in; ``name`` is that of its file.

    >>> bins = parse_goal('[[bins]]\ninstruction = "taddc"\noperands = "*"', "goal.toml")
    >>> [b["operands"] for b in bins]
    ['src2', 'none']
    """
    source = _Source(text, name)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+), column (\d+)", str(error))
        place = f"{name}:{at[1]}:{at[2]}" if at else f"{name}:{text.count(chr(10)) + 1}"
        what = re.sub(r" \(at .*\)$", "", str(error))
        raise errors.ArgumentError(f"{place}: no TOML: {what}") from None
    source.keys(table, ("at_least", "bins"), None)
    entries = table.get("bins")
    if not isinstance(entries, list) or not entries or not all(isinstance(e, dict) for e in entries):
        source.fail(None, "bins", "a goal has one [[bins]] or more, each with an instruction")
    usual = source.number(table, None, 1)
    bins: dict[tuple[str, ...], int] = {}
    for number, content in enumerate(entries):
        entry = _Entry(source, number, content, tuple(profiles))
        at_least = source.number(content, number, usual)
        for parts in entry.crossed():
            bins[parts] = max(bins.get(parts, 0), at_least)
            if len(bins) > MOST:
                source.fail(number, "instruction", f"more than {MOST} bins; name fewer values")
    return tuple(Bin(parts, n) for parts, n in bins.items())


@dataclass(frozen=True)
class _Source:
    """A goal's text, and where in it things stand."""

    text: str
    name: str

    def fail(self, entry: int | None, key: str, message: str, value: object = None) -> NoReturn:
        """Raise ArgumentError with the line of a key, or of a value of it, in an entry."""
        raise errors.ArgumentError(f"{self.name}:{self.line(entry, key, value)}: {message}")

    def line(self, entry: int | None, key: str, value: object = None) -> int:
        """The line on which a value stands; else that of its key, of its entry, or the first."""
        heads = [m.start() for m in re.finditer(r"^[ \t]*\[\[[ \t]*bins[ \t]*\]\]", self.text, re.MULTILINE)]
        start = heads[entry] if entry is not None and entry < len(heads) else 0
        end = heads[entry + 1] if entry is not None and entry + 1 < len(heads) else len(self.text)
        at = start
        if match := re.compile(rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?[ \t]*=").search(
            self.text, start, end
        ):
            at = match.start()
            quoted = re.compile(rf"[\"']{re.escape(str(value))}[\"']")
            if value is not None and (exact := quoted.search(self.text, match.end(), end)):
                at = exact.start()
        return self.text.count("\n", 0, at) + 1

    def keys(self, table: Mapping[str, Any], allowed: Sequence[str], entry: int | None) -> None:
        for key in table:
            if key not in allowed:
                hint = suggestion(key, allowed)
                self.fail(entry, key, f"no key {key}{hint}; allowed: {' '.join(allowed)}")

    def number(self, table: Mapping[str, Any], entry: int | None, usual: int) -> int:
        value = table.get("at_least", usual)
        if type(value) is not int or not 1 <= value < 1 << 31:
            self.fail(
                entry, "at_least", f"at_least: got {value!r:.40}; allowed: a number of operations from 1 on"
            )
        return value

    def strings(self, table: Mapping[str, Any], key: str, entry: int) -> tuple[str, ...] | None:
        """What a key lists; None where it is left out."""
        value = table.get(key)
        if value is None:
            return None
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts or not all(isinstance(v, str) for v in texts):
            self.fail(entry, key, f"{key}: got {value!r:.40}; allowed: a string, or a list of strings")
        return tuple(dict.fromkeys(texts))


@dataclass
class _Entry:
    """One cross of a goal."""

    source: _Source
    number: int
    told: Mapping[str, Any]
    profiles: tuple[ProfileName, ...]
    listed: dict[str, tuple[str, ...] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source.keys(self.told, _KEYS, self.number)
        self.listed = {part: self.source.strings(self.told, part, self.number) for part in PARTS}

    def crossed(self) -> Iterator[tuple[str, ...]]:
        """The parts of the bins that some legal operation is in; ArgumentError for unused values."""
        used: dict[str, set[str]] = {part: set() for part in PARTS}
        for name in self._instructions():
            choices = [self._values(part, name) for part in PARTS[1:]]
            for values in product(*choices):
                parts = (name, *(spelled for _, spelled in values))
                if _possible(parts, self.profiles):
                    for part, (said, _) in zip(PARTS[1:], values, strict=True):
                        used[part].add(said)
                    yield parts
        for part in PARTS[1:]:
            for said in self.listed[part] or ():
                if said not in used[part]:
                    self._nothing(part, said)

    def _instructions(self) -> Iterator[str]:
        texts = self.listed["instruction"]
        if texts is None:
            self.source.fail(self.number, "bins", f"no instruction; allowed: names, {' '.join(CLASSES)}, *")
        for said in texts:
            names = [n for n in sorted(generated()) if said in (ANY, isa.instructions()[n].cls)]
            name = canonical(said)
            table = generated() | MADE.keys() | generated_micro()
            if not names and name not in table:
                hint = suggestion(name, (*table, *CLASSES))
                message = f"no generated instruction or class {said}{hint}"
                self.source.fail(self.number, "instruction", message, said)
            yield from names or [name]

    def _values(self, part: str, name: str) -> list[tuple[str, str]]:
        """What a part of an instruction's bins may be: as it is said in the file, and as cells spell it."""
        texts = self.listed[part]
        if texts is None:
            return [(ANY, ANY)]
        declared = _declared(part, name, self.profiles)
        results: list[tuple[str, str]] = []
        for said in texts:
            self._check(part, said)
            results += [(said, value) for value in declared if _means(said, value)]
        return results

    def _check(self, part: str, said: str) -> None:
        """Raise ArgumentError for what is a value of no instruction."""
        allowed: Collection[str] = {
            "type": [d.name for d in TILE_DTYPES],
            "layout": options.LAYOUT_NAMES,
            "region": REGIONS,
            "control": CONTROLS,
        }.get(part, ())
        if allowed and said not in (ANY, *allowed):
            self.source.fail(self.number, part, f"{part} {said}; allowed: {' '.join(allowed)} *", said)

    def _nothing(self, part: str, said: str) -> NoReturn:
        names = list(self._instructions())
        declared = dict.fromkeys(v for n in names for v in _declared(part, n, self.profiles))
        choices = " ".join(declared) or "nothing"
        which = names[0] if len(names) == 1 else f"any of the {len(names)} instructions"
        on = "" if set(self.profiles) == set(PROFILE_NAMES) else f" on {' '.join(self.profiles)}"
        message = (
            f"{part} {said}: no operation of {which}{on} is such with the other values; declared: {choices}"
        )
        self.source.fail(self.number, part, message[:600], said)


def _means(said: str, value: str) -> bool:
    """Whether a value is one of those that are said: itself, any, or any of an attribute.

    >>> _means("rmode=*", "rmode=RINT"), _means("rmode=rint", "rmode=RINT"), _means("f16", "f32")
    (True, True, False)
    """
    if said == ANY or said.lower() == value.lower():
        return True
    name, equals, which = said.partition("=")
    return which == ANY and value.startswith(name + equals)


def _declared(part: str, name: str, profiles: tuple[ProfileName, ...]) -> tuple[str, ...]:
    """The values that a part may have for an instruction."""
    if part == "control":
        return CONTROLS
    if name in generated_micro():
        return _declared_below(part, name)
    if part == "region":
        on_tiles = any(o.kind == "tile" for o in isa.instructions()[name].operands)
        return REGIONS if on_tiles else ("-",)
    if part == "attribute":
        attributes = isa.instructions()[name].attributes
        return tuple(f"{a.name}={shown(m)}" for a in attributes for m in a.choices)
    column = {"type": 0, "layout": 1, "operands": 2}[part]
    return tuple(dict.fromkeys(kind[column] for p in profiles for kind in _kinds(name, p)))


def _declared_below(part: str, name: str) -> tuple[str, ...]:
    """The values that a part may have for a micro-operation."""
    operation = isa.micro_operations()[name]
    if part == "attribute":
        return tuple(f"{n}={value}" for n, choices in operation.choices.items() for value in choices)
    if part == "type":
        return tuple(dict.fromkeys(s.shown for s in micro_samples.catalogue().get(name, ())))
    return ("-",)


@cache
def _kinds(name: str, profile: ProfileName) -> Mapping[tuple[str, str, str], tuple[Sample, ...]]:
    """The samples of an instruction by element type, layout and operands, as cells of coverage name them."""
    table: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in selection.catalogue(profile, options.STRAIGHT.elements).get(name, ()):
        table.setdefault(_kind(sample), []).append(sample)
    return {kind: tuple(samples) for kind, samples in table.items()}


def _kind(sample: Sample) -> tuple[str, str, str]:
    instruction = sample.instruction
    written = [o.name for o in instruction.destinations if o.name in sample.types]
    types = [sample.types[n] for n in (*written, *sample.form)]
    element = next((d.name for t in types if (d := getattr(t, "dtype", None)) is not None), "-")
    layout = next((options.layout_name(t) for t in types if isinstance(t, TileType)), "-")
    return element, layout, operands_part(instruction, sample.types)


@cache
def _possible(parts: tuple[str, ...], profiles: tuple[ProfileName, ...]) -> bool:
    """Whether a profile has a legal operation with these parts, as far as samples show."""
    name, element, attribute, _, layout, operands, _ = parts
    if name in generated_micro():
        wide = all(v in (ANY, "-") for v in parts[3:6]) and MICRO.profiles[0] in profiles
        return wide and (attribute == ANY or _declared_takes(name, element, attribute))
    if name in MADE:
        # What statements make has no samples: its bins are those of the operation and what surrounds it.
        return parts[1:-1] == (ANY,) * len(parts[1:-1])
    return any(
        attribute == ANY or _takes(samples[:_TRIED], attribute, profile)
        for profile in profiles
        for kind, samples in _kinds(name, profile).items()
        if all(a in (ANY, b) for a, b in zip((element, layout, operands), kind, strict=True))
    )


def _declared_takes(name: str, element: str, attribute: str) -> bool:
    """Whether a micro-operation on an element type has a value of an attribute."""
    key, _, value = attribute.partition("=")
    samples = micro_samples.catalogue().get(name, ())
    return any(value in s.choices.get(key, ()) for s in samples if element in (ANY, s.shown))


def _takes(samples: Sequence[Sample], attribute: str, profile: ProfileName) -> bool:
    """Whether one of some samples is legal with an attribute as a cell names it."""
    key, _, value = attribute.partition("=")
    declared = samples[0].instruction.attribute(key)
    if declared is None:
        return False
    member = next((m for m in declared.choices if shown(m) == value), None)
    if member is None:
        return False
    where = find_profile(profile)
    return any(
        operations.suits(s, s.types, {**s.attrs, key: member}, {}, where) != "illegal" for s in samples
    )
