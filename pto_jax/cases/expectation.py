"""The expected results of a case, and the elements that can be compared.

An element is not compared where the profile leaves its value open: outside a tile's valid region, where it
follows from undefined data, from bits of a NaN, or from a result without an exact definition. For the CPU
simulator it is not compared either where the table of the simulator's properties says that it is no
reference.

>>> from pto_jax.generate.programs import generate
>>> case = generate(3, 1)
>>> found = expectation(case)
>>> sorted(found.compared) == sorted(found.run.outputs), found.difference(case, found.run)
(True, None)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import errors, profiles
from ..generate.programs import Case
from ..ir import DType, Op
from ..oracle.machine import ReferenceMachine
from ..sanitizer.shadow import origin_text
from ..vectors import exclusions, manifest
from ..vectors.compare import Comparison, compare_words, is_nan
from . import targets
from .tracking import Diverging, Simulator, Tracked

M = TypeVar("M", bound=ReferenceMachine)
Mask = NDArray[np.bool_]
_NAN_BITS = "follows from the bits of a NaN, which every machine chooses itself"
_NO_BOUND = "follows from a result that has no exact value"


@dataclass(frozen=True)
class Gap:
    """Elements of a result that are not compared, for one reason."""

    output: str
    elements: int
    reason: str


@dataclass(frozen=True, eq=False)
class Expectation:
    """The results of a machine, by name a mask that is true where an element is compared, and the gaps.

    ``ends`` says why the machine may not survive the case; nothing is compared then.
    """

    machine: profiles.ProfileName
    run: targets.Run
    compared: Mapping[str, Mask]
    gaps: tuple[Gap, ...] = ()
    ends: str | None = None

    @property
    def lanes(self) -> int:
        """How many elements are compared."""
        return sum(int(mask.sum()) for mask in self.compared.values())

    def difference(self, case: Case, actual: targets.Run) -> str | None:
        """How results differ from the expected ones where they are compared; None where they do not."""
        for name, expected in self.run.outputs.items():
            output = actual.outputs.get(name)
            if output is None:
                return f"{name}: no such output"
            if output.valid != expected.valid:
                return f"{name}: valid region {output.valid}, expected {expected.valid}"
            compared = self.compare(case, name, output)
            if not compared:
                return str(compared)
        return None

    def compare(self, case: Case, name: str, actual: targets.Output) -> Comparison:
        """One result by the rules of a case: any NaN equals any other, some results have an ULP bound."""
        expected = self.run.outputs[name]
        rule = manifest.Rule(max(0, case.ulp.get(name, 0)))
        return compare_words(
            name, expected.dtype, expected.words, actual.words, rule, skip=~self.compared[name]
        )


def expectation(case: Case, machine: profiles.ProfileName | None = None) -> Expectation:
    """What a case gives on the machine of a profile, its own by default.

    Raises what the interpreter raises: NotExecutableError for what the profile does not execute,
    ExecutionError where the program breaks a run-time rule.
    """
    profile = machine or case.profile.name
    tracked, run = _executed(case, Simulator if profile == "cpu_sim" else Tracked, profile)
    masks = _Masks(case, tracked, run, _places(case))
    masks.regions()
    masks.undefined()
    masks.unbounded()
    masks.nans(profile)
    return Expectation(profile, run, masks.compared, tuple(masks.gaps), _ends(case, tracked))


def _executed(
    case: Case, kind: Callable[..., M], profile: profiles.ProfileName | None = None
) -> tuple[M, targets.Run]:
    """A case on a machine of a kind: the machine as it is in the end, and the results."""
    results: list[M] = []

    def machine(*arguments: Any) -> M:
        results.append(kind(*arguments))
        return results[-1]

    run = targets.Oracle(profile, machine).run(case)
    return results[0], run


@dataclass
class _Masks:
    """Takes elements out of a comparison, one reason after the other."""

    case: Case
    machine: Tracked
    run: targets.Run
    places: Mapping[int, int]
    compared: dict[str, Mask] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.compared = {n: np.ones(o.words.shape, np.bool_) for n, o in self.run.outputs.items()}

    def take(self, name: str, out: Mask, reason: str) -> None:
        """Some elements of a result are not compared."""
        lost = self.compared[name] & out
        if lost.any():
            self.compared[name] &= ~out
            self.gaps.append(Gap(name, int(lost.sum()), reason))

    def take_all(self, reason: str) -> None:
        for name, mask in list(self.compared.items()):
            self.take(name, np.ones(mask.shape, np.bool_), reason)

    def regions(self) -> None:
        for name, output in self.run.outputs.items():
            if output.valid is not None:
                rows, cols = output.valid
                outside = np.ones(output.words.shape, np.bool_)
                outside[:rows, :cols] = False
                self.take(name, outside, f"outside the valid region {rows}x{cols}")

    def undefined(self) -> None:
        if self.machine.lost:
            self.take_all(f"the program computes with an undefined number: {self._reason(self.machine.lost)}")
        for name, output in self.run.outputs.items():
            origin_ids = None
            if name in self.machine.tiles:
                origin_ids = self.machine.tiles[name].origin_ids
            elif name in self.machine.memory:
                words = output.words
                origin_ids = self.machine.memory[name].origin_ids(np.arange(words.size), output.dtype)
                origin_ids = origin_ids.reshape(words.shape)
            for number in () if origin_ids is None else np.unique(origin_ids[origin_ids != 0]).tolist():
                self.take(name, origin_ids == number, self._reason(number))

    def _reason(self, number: int) -> str:
        return f"undefined: {origin_text(self.machine.origins[number], self.places)}"

    def unbounded(self) -> None:
        for name, mask in self.compared.items():
            if self.case.ulp.get(name) == targets.UNBOUNDED:
                self.take(name, np.ones(mask.shape, np.bool_), _NO_BOUND)

    def nans(self, profile: profiles.ProfileName) -> None:
        """Elements that change with the bits of the NaNs that instructions write."""
        for name, mask in _nan_bits(self.case, profile, self.run).items():
            self.take(name, mask, _NAN_BITS)


def _nan_bits(case: Case, profile: profiles.ProfileName, run: targets.Run) -> dict[str, Mask]:
    """By name of a result, the elements that change with the bits of NaNs."""
    masks = {name: np.zeros(output.words.shape, np.bool_) for name, output in run.outputs.items()}
    for machine in exclusions.OTHER_NANS:
        try:
            other = targets.Oracle(profile, machine).run(case)
        except (errors.ExecutionError, errors.NotExecutableError):
            return {name: np.ones(mask.shape, np.bool_) for name, mask in masks.items()}
        for name, output in run.outputs.items():
            result = other.outputs[name]
            same = result.words.shape == output.words.shape and result.valid == output.valid
            masks[name] |= _differ(output.dtype, output.words, result.words) if same else True
    return masks


def _differ(d: DType, a: targets.Words, b: targets.Words) -> Mask:
    """Where words differ and are not both NaN."""
    return np.asarray((a != b) & ~(is_nan(d, a) & is_nan(d, b)))


def _ends(case: Case, machine: Tracked) -> str | None:
    """Why the CPU simulator may not survive a case."""
    if not isinstance(machine, Simulator) or not machine.ends:
        return None
    exclusion, op = machine.ends[0]
    return f"{exclusion.reason} ({_place(case, op)})"


def _places(case: Case) -> dict[int, int]:
    """Numbers of a program's operations, for those whose text has no lines."""
    return {id(op): n for n, op in enumerate(case.program.walk(), 1)}


def _place(case: Case, op: Op) -> str:
    return f"{op.name} at {op.span or f'operation {_places(case).get(id(op), chr(63))}'}"


def divergences(case: Case) -> list[str]:
    """The operations of a case that give other values on the CPU simulator for the same operands."""
    machine, _ = _executed(case, Diverging)
    return [f"{_place(case, d.op)}: {d.lanes} lanes when it is first executed" for d in machine.divergences]


@dataclass(frozen=True, eq=False)
class Open:
    """What a case leaves open to a device: by name of a result, the bits of its words that may be any.

    They follow from undefined data, or from the bits of a NaN that is read as another type. A program that is
    ``wild`` computes with an undefined number: a device may end as well.
    """

    WILD: ClassVar[str] = "the program computes with an undefined number"
    bits: Mapping[str, targets.Words]
    wild: bool = False

    def settled(self, name: str, expected: targets.Output, actual: targets.Output) -> targets.Output:
        """A result with the wanted bits where any are right."""
        if self.is_open(name):
            return expected
        same = actual.words.shape == expected.words.shape and actual.words.dtype == expected.words.dtype
        if name not in self.bits or not same or self.bits[name].shape != expected.words.shape:
            return actual  # Of another shape than the program's, as machines of one's own may give.
        bits = self.bits[name]
        return replace(actual, words=(actual.words & ~bits) | (expected.words & bits))

    def is_open(self, name: str) -> bool:
        """Whether nothing of a result has a defined value."""
        return name in self.bits and bool((self.bits[name] == _all_bits(self.bits[name])).all())


def open_bits(case: Case, machine: profiles.ProfileName | None = None) -> Open:
    """What a case leaves open by the rules of the ISA, on its own profile or another one.

    Nothing where it cannot be executed.
    """
    profile = machine or case.profile.name
    try:
        tracked, run = _executed(case, Tracked, profile)
    except (errors.ExecutionError, errors.NotExecutableError):
        return Open({})
    other = _nan_bits(case, profile, run)
    bits = {}
    for name, output in run.outputs.items():
        shadow = np.zeros_like(output.words)
        if name in tracked.tiles:
            shadow = tracked.tiles[name].bits
        elif name in tracked.memory:
            shadow = tracked.memory[name].words(np.arange(shadow.size), output.dtype).reshape(shadow.shape)
        bits[name] = np.where(other[name] | bool(tracked.lost), _all_bits(shadow), shadow)
    return Open(bits, tracked.wild)


def _all_bits(words: targets.Words) -> Any:
    return words.dtype.type(np.iinfo(words.dtype).max)
