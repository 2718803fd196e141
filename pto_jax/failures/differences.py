"""What two machines disagree about, in words that failures of one cause share."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases.comparison import Outcome, normalised
from ..cases.targets import Output, Run
from ..generate.programs import Case
from ..ir import DType
from ..vectors.compare import has_ordered_bits, is_nan, ulp_distance
from ..vectors.manifest import Rule

Array = NDArray[Any]
_OUTSIDE, _LOST, _SPURIOUS = "outside the valid region", "not written", "written where it should not be"
#: A finding of the sanitizer: what made the first of the undefined data so, without names and numbers.
_UNDEFINED = re.compile(r"\bundefined data\b[^;]*; ([a-z -]+?)(?= \(| \d|$)", re.MULTILINE)
#: How a process ended, at the beginning of what is said of it.
_ENDED = re.compile(r"ended by signal \d+ \(\w+\)|exit status \d+|no answer within \S+ s")
_PLACES = frozenset({_OUTSIDE, _LOST, _SPURIOUS})


@dataclass(frozen=True)
class Difference:
    """``kind`` must not change while a case is made smaller; ``detail`` says more about the values.

    ``is_numeric`` says that it is about numbers, not about where and whether they are written.
    """

    kind: str
    detail: str = ""
    is_numeric: bool = False

    def __str__(self) -> str:
        return self.detail or self.kind


def difference(outcome: Outcome, expected: Run | None, actual: Run | None) -> Difference:
    """How a failure differs from what was wanted."""
    if outcome.kind == "crashed":
        return _crash(outcome)
    differs = outcome.mismatch
    if differs is None:
        undefined = _UNDEFINED.search(outcome.message)
        if undefined:
            return Difference("undefined data", undefined[1])
        if outcome.message and outcome.case.ranks is not None and outcome.tested == "races":
            return Difference(normalised(outcome.message.splitlines()[0]))
        return Difference("run-time rule")
    if expected is None or actual is None or differs.comparison is None:
        return Difference(_form(differs.message))
    if differs.comparison.first is None:
        return Difference("shape")
    name = differs.output
    detail = _values(outcome.case, name, expected.outputs[name], actual.outputs[name])
    return Difference("values", detail, detail not in _PLACES)


def _crash(outcome: Outcome) -> Difference:
    """Which machine raised what: the exception, a signal or an exit status, and what it said."""
    for role, name in (("reference", outcome.reference), ("tested", outcome.tested)):
        rest = outcome.message.removeprefix(f"{name}: ")
        if rest != outcome.message:
            kind, _, said = rest.partition(": ")
            ended = _ENDED.match(said)
            head = f"crash of the {role} executor: {kind}" + (f": {ended[0]}" if ended else "")
            more = normalised(said[ended.end() :] if ended else said)
            return Difference(head, f"{head}: {more}" if more else head)
    return Difference("crash of an executor")


def _form(message: str) -> str:
    for word, kind in (("valid region", "valid sizes"), ("shape", "shape"), ("no such output", "no output")):
        if word in message:
            return kind
    return "values"


def _values(case: Case, name: str, expected: Output, actual: Output) -> str:
    """A class that all elements that differ belong to."""
    d = expected.dtype
    bad = _different(d, expected.words, actual.words, Rule(case.ulp.get(name, 0)))
    if not bad.any():
        return "values"
    if _is_outside(bad, expected):
        return _OUTSIDE
    want, got = expected.words[bad], actual.words[bad]
    old = _before(case, name, expected)
    if old is not None:
        if (got == old[bad]).all():
            return _LOST
        in_place = any(v.name == name for op in case.program.walk() for v in op.ins)
        if (want == old[bad]).all() and not in_place:
            return _SPURIOUS
    return _numbers(d, want, got)


def _before(case: Case, name: str, output: Output) -> Array | None:
    """What an output held before: an argument its contents, a new tile what the profile fills it with."""
    argument = case.inputs.get(name)
    if argument is not None:
        return argument.words if argument.words.shape == output.words.shape else None
    top = (1 << output.dtype.bits) - 1
    fill = 0 if case.profile.fresh_tile == "zero" else top
    return np.full(output.words.shape, fill, output.words.dtype)


def _is_outside(bad: Array, expected: Output) -> bool:
    """Whether all elements that differ lie outside a tile's valid region."""
    if expected.valid is None or bad.ndim != 2:
        return False
    rows, cols = expected.valid
    return not bad[:rows, :cols].any()


def _different(d: DType, want: Array, got: Array, rule: Rule) -> Array:
    bad = want != got
    if has_ordered_bits(d):
        nan = is_nan(d, want) & is_nan(d, got)
        bad &= ~nan
        if rule.ulp:
            zero = (want & _magnitude(d) == 0) & (got & _magnitude(d) == 0)
            either = is_nan(d, want) | is_nan(d, got)
            bad &= zero | either | (ulp_distance(d, want, got) > rule.ulp)
    return np.asarray(bad)


def _magnitude(d: DType) -> int:
    return (1 << (d.bits - 1)) - 1


def _numbers(d: DType, want: Array, got: Array) -> str:
    """A class of the values, where all of them agree in it."""
    if d.is_float and has_ordered_bits(d):
        return _floats(d, want, got)
    if d.is_integer:
        return _integers(d, want, got)
    return "values"


def _floats(d: DType, want: Array, got: Array) -> str:
    nan_want, nan_got = is_nan(d, want), is_nan(d, got)
    if nan_want.all():
        return "a NaN is lost"
    if nan_got.all():
        return "a NaN too many"
    if nan_want.any() or nan_got.any():
        return "values"
    low, high = want & _magnitude(d), got & _magnitude(d)
    if ((low == 0) & (high == 0)).all():
        return "sign of zero"
    if (low == high).all():
        return "sign"
    if (ulp_distance(d, want, got) <= 1).all():
        return "off by one ULP"
    smallest = 1 << d.mantissa
    if ((low < smallest) & (high < smallest)).all():
        return "subnormals"
    largest = (((1 << d.exponent) - 1) << d.mantissa) - 1
    if ((low >= largest) | (high >= largest)).all():
        return "saturation"
    return "values"


def _integers(d: DType, want: Array, got: Array) -> str:
    if d.bits not in (8, 16, 32, 64):
        return "values"
    t = np.dtype(f"{'i' if d.is_signed else 'u'}{d.bits // 8}")
    a, b = want.view(t), got.view(t)
    with np.errstate(over="ignore"):
        step = (want - got).view(t)
    one = np.array([1, -1 if d.is_signed else np.iinfo(t).max], t)
    limits = [np.iinfo(t).min, np.iinfo(t).max]
    extreme = np.isin(a, limits[0 if d.is_signed else 1 :]) | np.isin(b, limits[0 if d.is_signed else 1 :])
    if np.isin(step, one).all() and not extreme.all():
        return "off by one"
    return "saturation" if extreme.all() else "values"
