"""Operations that a device declines: determined with small programs, left out of later ones.

A device declines programs whole, and says why in words of its own. Where it declines one, its instructions
are tried alone: an instruction of which every small program is declined is refused, else its pair of types
and layouts may be. Such operations are left out of the program, and of all that follow, with those that use
them. What a device refuses so depends on the device alone, not on the programs before: campaigns have the
same rows however their cases are divided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .. import ir
from ..analysis.entries import fragment_outputs, select_entry, written_buffers
from ..cases.answers import attempt
from ..cases.comparison import Outcome, Watch, compare_case, normalised, reason_of
from ..cases.edits import is_legal, tidied
from ..cases.kernels import is_kernel, kernel, kernels_only
from ..cases.targets import Oracle, Target
from ..errors import NotExecutableError, PtoError
from ..failures.isolation import types_of
from ..generate.micro_samples import catalogue as catalogue_of_micro
from ..generate.options import MICRO, SIMPLE, STRAIGHT, Options, layout_name
from ..generate.programs import Case, generate
from ..generate.selection import catalogue
from ..ir import Op, TileType
from ..isa import effects
from ..profiles import ProfileName

#: Small programs that are declined before what they have in common is refused, and how many are made at most
#: to find these.
TRIED, MADE = 3, 24


@dataclass(frozen=True)
class Feature:
    """What a device may refuse: an instruction, with its types and the layout of its first tile.

    ``kernel`` says whether programs are functions over pointers. Without types it is the instruction.
    """

    profile: ProfileName
    kernel: bool
    instruction: str
    types: str = ""
    layout: str = ""

    def has(self, op: Op) -> bool:
        """Whether an operation has it."""
        if op.name != self.instruction:
            return False
        return not self.types or (self.types, self.layout) == _form(op)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.instruction, self.types, self.layout)))


def _form(op: Op) -> tuple[str, str]:
    """The types of an instruction and the layout of its first tile."""
    tiles = (v.type for v in (*op.destinations, *op.ins) if isinstance(v.type, TileType))
    first = next(tiles, None)
    return types_of(op), "" if first is None else layout_name(first)


def feature(op: Op, profile: ProfileName, kernel: bool = False) -> Feature:
    """The feature of an operation in a program."""
    return Feature(profile, kernel, op.name, *_form(op))


def features(case: Case) -> Iterator[Feature]:
    """What a program has that small programs can be made of."""
    result = is_kernel(case)
    names = catalogue(case.profile.name, STRAIGHT.elements).keys() | catalogue_of_micro().keys()
    for op in case.program.walk():
        if op.name in names:
            yield feature(op, case.profile.name, result)


@dataclass
class Refusals:
    """What a device refuses, as far as that was asked."""

    device: Target
    _reasons: dict[Feature, str | None] = field(default_factory=dict)
    _usable: dict[tuple[ProfileName, bool], bool] = field(default_factory=dict)

    def reason(self, feature: Feature) -> str | None:
        """Why a device refuses an instruction, or its types and layout; None where it does not."""
        whole = replace(feature, types="", layout="")
        return self._asked(whole) or (self._asked(feature) if feature != whole else None)

    def accepted(self, case: Case) -> tuple[Case | None, tuple[str, ...]]:
        """The case without what is refused as far as that is known, and why; None where nothing is left."""
        rest, reasons = self._cut(
            case, {f: r for f in features(case) if (r := self._remembered(f)) is not None}
        )
        return (rest if rest is case or rest is None else noted(rest, reasons)), reasons

    def compared(
        self, outcome: Outcome, reference: Target, tested: Target, watch: Watch | None = None
    ) -> Outcome:
        """What becomes of a case that the device declined without what it refuses.

        Those are the features that small programs show, else the operations that its reason names.
        """
        case = outcome.case
        if not self._is_usable(case):
            return outcome
        rest, reasons = self._cut(case, {f: r for f in features(case) if (r := self.reason(f)) is not None})
        if rest is not case:
            outcome = finished(rest, case, reasons, reference, tested, watch)
        if rest is None or outcome.kind != "refused":
            return outcome
        smaller, named = _without_named(outcome.case, outcome.message)
        if smaller is outcome.case:
            return outcome
        again = finished(smaller, outcome.case, named, reference, tested, watch)
        return replace(again, refusals=(*reasons, *again.refusals))

    def _is_usable(self, case: Case) -> bool:
        """Whether the device takes any of the simplest programs; else it declines whatever it is given."""
        key = (case.profile.name, is_kernel(case))
        if key not in self._usable:
            simple = (Feature(*key, name) for name in sorted(SIMPLE))
            self._usable[key] = any(
                not isinstance(attempt(self.device, probe), NotExecutableError)
                for feature in simple
                for probe in _probes(feature, 1)
            )
        return self._usable[key]

    def _remembered(self, feature: Feature) -> str | None:
        whole = replace(feature, types="", layout="")
        return self._reasons.get(whole) or self._reasons.get(feature)

    def _asked(self, feature: Feature) -> str | None:
        if feature not in self._reasons:
            self._reasons[feature] = self._answer(feature)
        return self._reasons[feature]

    def _answer(self, feature: Feature) -> str | None:
        results: list[str] = []
        for probe in _probes(feature, TRIED):
            answer = attempt(self.device, probe)
            if not isinstance(answer, NotExecutableError):
                return None
            results.append(reason_of(answer))
        return f"{feature}: {results[0]}" if results else None

    @staticmethod
    def _cut(case: Case, refused: Mapping[Feature, str]) -> tuple[Case | None, tuple[str, ...]]:
        if not refused:
            return case, ()
        return _sound(case, lambda op: any(f.has(op) for f in refused)), tuple(
            dict.fromkeys(refused.values())
        )


def finished(
    rest: Case | None,
    case: Case,
    reasons: Sequence[str],
    reference: Target,
    tested: Target,
    watch: Watch | None = None,
) -> Outcome:
    """What becomes of a case of which only a part is executed, or nothing."""
    if rest is None:
        message = "; ".join(reasons)
        return Outcome("refused", case, reference.name, tested.name, message, refusals=tuple(reasons))
    outcome = compare_case(noted(rest, reasons), reference, tested, watch)
    return replace(outcome, refusals=(*reasons, *outcome.refusals))


def noted(case: Case, reasons: Sequence[str]) -> Case:
    """A case with what was left out of it."""
    return replace(case, origin=(*case.origin, *(f"without {reason}" for reason in reasons)))


def _without_named(case: Case, message: str) -> tuple[Case | None, tuple[str, ...]]:
    """The case without the operations that a device's reason names."""
    words = set(re.findall(r"[\w.]+", message.rpartition("the device declines:")[2]))
    names = {op.name for op in case.program.walk()} & (words | {w.removeprefix("pto.") for w in words})
    if not names:
        return case, ()
    reason = normalised(message.partition("error: ")[2] or message)
    reasons = (f"{' '.join(sorted(names))}: {reason}",)
    return _sound(case, lambda op: op.name in names), reasons


def _sound(case: Case, refused: Callable[[Op], bool]) -> Case | None:
    """A case without operations; None where nothing is left, or what is left comes to no end."""
    result = without(case, refused)
    return None if result is None or isinstance(attempt(Oracle(), result), Exception) else result


def _probes(feature: Feature, count: int) -> Iterator[Case]:
    """The first programs of one statement that have a feature, each in another form of the instruction."""
    seen: set[tuple[str, str]] = set()
    options = _options(feature)
    for index in range(MADE):
        try:
            case = (kernel if feature.kernel else generate)(0, index, options)
        except (PtoError, IndexError):
            return
        forms = {_form(op) for op in case.program.walk() if feature.has(op)}
        if forms - seen or (forms and feature.types):
            seen |= forms
            count -= 1
            yield case
        if not count:
            return


def _options(feature: Feature) -> Options:
    below = feature.instruction in catalogue_of_micro()
    options = replace(
        MICRO if below else STRAIGHT,
        profiles=(feature.profile,),
        statements=1,
        only=frozenset({feature.instruction}),
        dtypes=frozenset(filter(None, [feature.types.rpartition(">")[2]])),
        layouts=frozenset(filter(None, [feature.layout])),
    )
    return kernels_only(options) if feature.kernel else options


def without(case: Case, refused: Callable[[ir.Op], bool]) -> Case | None:
    """The case without operations that are refused; None where nothing is left that can be compared."""
    functions = []
    for function in case.program.functions:
        body = _body(function, refused)
        if body is None:
            return None
        functions.append(replace(function, body=body))
    result = tidied(replace(case, program=replace(case.program, functions=tuple(functions))))
    result = _fragment(result) if result.program.fragment else result
    try:
        return result if _writes(result) and is_legal(result) else None
    except PtoError:
        return None


def _body(function: ir.Function, refused: Callable[[ir.Op], bool]) -> ir.Region | None:
    """The body without what is refused and what depends on it."""
    memory = _Memory(function)
    # What arguments hold is defined.
    before = memory.written(function.body) - {memory.of(a) for a in function.args}
    names = frozenset(a.name for a in function.args)
    if function.name == ir.FRAGMENT:
        names |= _free(function.body)
    body = _Cut(refused).region(function.body, names)
    while body is not None:
        lost = before - memory.written(body)
        reads = _Cut(lambda op, lost=lost: any(memory.of(v) in lost for v in _read(op)))  # type: ignore[misc]
        again = reads.region(body, names)
        if again == body:
            break
        body = again
    return body


@dataclass
class _Cut:
    """Leaves out operations, and those that use what is then undefined."""

    refused: Callable[[ir.Op], bool]

    def region(self, region: ir.Region, names: frozenset[str]) -> ir.Region | None:
        """A region in which some names are defined; None where its end needs one that is not."""
        defined = names | {a.name for a in region.args}
        ops: list[ir.Op] = []
        for op in region.ops:
            kept = self._kept(op, defined)
            if kept is not None:
                ops.append(kept)
                defined |= {r.name for r in kept.results}
            elif effects.traits_of(op).terminator:
                return None
        return replace(region, ops=tuple(ops))

    def _kept(self, op: ir.Op, defined: frozenset[str]) -> ir.Op | None:
        if self.refused(op) or any(v.name not in defined for v in (*op.ins, *op.outs)):
            return None
        regions = [self.region(r, defined) for r in op.regions]
        inner = tuple(r for r in regions if r is not None)
        return replace(op, regions=inner) if len(inner) == len(regions) else None


@dataclass
class _Memory:
    """Which names of a function stand for the same tile."""

    function: ir.Function
    _owner: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op in self.function.walk():
            pair = effects.aliased(op)
            for handle, source in (*((pair,) if pair else ()), *effects.flows(op), *effects.entered(op)):
                if isinstance(handle.type, ir.TileType):
                    self._owner[self.of(handle)] = self.of(source)

    def of(self, value: ir.Value) -> str:
        """The name that stands for a tile's memory."""
        name = value.name
        while (owner := self._owner.get(name, name)) != name:
            name = owner
        return name

    def written(self, region: ir.Region) -> set[str]:
        """The tiles that operations of a region write."""
        ops = (inner for op in region.ops for inner in op.walk())
        return {self.of(v) for op in ops for v in _tiles(op.destinations) if _computes(op)}


def _computes(op: ir.Op) -> bool:
    traits = effects.traits_of(op)
    return traits.alias is None and traits.placement is None and not op.regions


def _read(op: ir.Op) -> Iterable[ir.Value]:
    """The tiles that an operation reads; handles of them read nothing."""
    return _tiles(op.ins) if _computes(op) else ()


def _tiles(values: Iterable[ir.Value]) -> Iterator[ir.Value]:
    return (v for v in values if isinstance(v.type, ir.TileType))


def _free(region: ir.Region) -> frozenset[str]:
    """Names that a fragment uses and does not make."""
    return frozenset(v.name for op in region.ops for o in op.walk() for v in (*o.ins, *o.outs)) - {
        r.name for op in region.ops for r in op.results
    }


def _fragment(case: Case) -> Case:
    """A fragment with the arguments that it uses, and the results that it has."""
    (function,) = case.program.functions
    names = {v.name for op in function.walk() for v in (*op.ins, *op.outs)}
    args = tuple(a for a in function.args if a.name in names)
    results = ir.fragment_results(function.body.ops, {a.name for a in args})
    program = replace(case.program, functions=(replace(function, args=args),), fragment_results=results)
    return replace(case, program=program, inputs={a.name: case.inputs[a.name] for a in args})


def _writes(case: Case) -> bool:
    """Whether a program has results."""
    program = case.program
    if program.fragment:
        return bool(fragment_outputs(program))
    return bool(written_buffers(program, select_entry(program, case.entry)))
