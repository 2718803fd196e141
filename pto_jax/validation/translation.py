"""Translation validation: a program before and after a compiler pass on the same generated inputs.

Every buffer that either program writes is compared bit by bit. An input on which the program before
breaks a run-time rule is not used; one on which only the program after breaks a rule is a difference.
Memory that nothing has written reads as the profile says: programs that use it may agree by chance.

>>> import pto_jax as pto
>>> from pto_jax.examples import EXAMPLES
>>> program = pto.load(EXAMPLES["vector_add"].path)
>>> validate(pair(program, program), count=2).failure is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis import entries, provenance
from ..analysis.provenance import GlobalTypes
from ..cases.expectation import expectation
from ..errors import ArgumentError, Diagnostic, ExecutionError, NotExecutableError, PtoError
from ..generate.fitting import fit, integers, suits
from ..generate.inputs import STYLES, Style, draw, draw_scalar, numbers, shape_of
from ..generate.programs import Case
from ..generate.state import Input
from ..ir import (
    I64,
    INDEX,
    ArrayType,
    DType,
    Program,
    ScalarType,
    TileType,
    Type,
    VectorType,
    dtype,
    unpack_pairs,
)
from ..profiles import Profile, profile as find_profile
from ..runtime.kernel import Kernel, compile
from ..runtime.ranks import RankKernel
from ..runtime.tiles import Tile
from ..schedules.ranks import RankFinding
from ..text import SUFFIXES
from ..vectors.compare import EXACT, Comparison, compare_words
from ..vectors.manifest import Rule

# -- elements that the program before leaves open ----------------------------------------------------


@dataclass(frozen=True)
class LeftOpen:
    """By name of a result, a mask of the elements that are open, and why they are."""

    masks: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def mask(self, name: str, words: NDArray[Any]) -> NDArray[np.bool_]:
        """The open elements of a result, in the shape of its words."""
        mask = self.masks.get(name)
        if mask is None or mask.size != words.size:
            return np.zeros(words.shape, np.bool_)
        return mask.reshape(words.shape)


def left_open(kernel: Kernel, inputs: Mapping[str, NDArray[Any]]) -> LeftOpen:
    """What a kernel leaves open of its results for inputs by name; nothing where that cannot be followed.

    >>> import pto_jax as pto
    >>> program = pto.parse("%q = tdiv %a, %b : !pto.tile<i32, 1, 8>")
    >>> words = {"a": np.ones((1, 8), np.uint32), "b": np.arange(8, dtype=np.uint32).reshape(1, 8)}
    >>> opened = left_open(pto.compile(program, "a5"), words)
    >>> opened.masks["q"].sum().item(), opened.reasons["q"]
    (1, ('undefined: division by zero (tdiv at <text>:1:1)',))
    """
    values = {a.name: _input(a.type, inputs[a.name]) for a in kernel.arguments}
    case = Case("0", 0, 0, kernel.profile, kernel.program, values, {}, kernel.grid, kernel.entry)
    try:
        expected = expectation(case)
    except (ExecutionError, NotExecutableError):
        return LeftOpen()
    reasons: dict[str, tuple[str, ...]] = {}
    for gap in expected.gaps:
        reasons[gap.output] = (*reasons.get(gap.output, ()), gap.reason)
    return LeftOpen({name: ~mask for name, mask in expected.compared.items()}, reasons)


def _input(t: Any, array: NDArray[Any]) -> Input:
    """An argument as cases have it: raw words, one per element."""
    assert isinstance(t, ScalarType | TileType | VectorType | GlobalTypes)
    if t.dtype.packed and isinstance(t, GlobalTypes):
        return Input(t, unpack_pairs(array))
    valid = t.shape if isinstance(t, TileType) else None
    return Input(t, np.ascontiguousarray(array).view(t.dtype.word).reshape(np.shape(array)), valid)


Array = NDArray[Any]
#: Inputs tried for one that the program before accepts, and for a further one.
ATTEMPTS, LATER = 60, 12


#: Written buffers by name, and the run-time rules that were broken.
Executed: TypeAlias = tuple[dict[str, Array], list[Diagnostic]]
Execute: TypeAlias = Callable[[Kernel, Mapping[str, Array]], Executed]


def run_engine(kernel: Kernel, inputs: Mapping[str, Array]) -> Executed:
    """What a kernel gives for inputs by name, compiled."""
    values = [fitted(a, inputs[a.name]) for a in kernel.arguments]
    try:
        outputs, report = kernel(*values)
    except ExecutionError as error:
        return {}, list(error.diagnostics)
    arrays = {n: np.asarray(o.words if isinstance(o, Tile) else o) for n, o in outputs.items()}
    regions = {n: o for n, o in outputs.items() if isinstance(o, Tile)}
    for name, t in regions.items():
        arrays[name] = valid_part(arrays[name], (int(t.valid_rows), int(t.valid_cols)))
    return arrays, report.problems()


def valid_part(words: Array, valid: tuple[int, int]) -> Array:
    """A tile with zeros outside its valid region: those lanes are nobody's result."""
    outside = np.ones(words.shape, bool)
    outside[: valid[0], : valid[1]] = False
    return np.where(outside, np.zeros((), words.dtype), words)


@dataclass(frozen=True)
class Pair:
    """Two kernels whose arguments match by position.

    Those of fragments match by name, and where one program is emitted C++, if all have the same names.
    """

    before: Kernel
    after: Kernel
    #: Position of the after kernel's argument for each of the before kernel's.
    order: tuple[int, ...]
    #: Scalars that only the after kernel has.
    extra: Mapping[str, Array] = field(default_factory=dict)
    #: Units in the last place that results may be apart, by the names before; that of "" is for all others.
    #: Without any bits are compared, those of NaNs too.
    ulp: Mapping[str, int] = field(default_factory=dict)
    #: Whether elements that the program before leaves open may differ.
    open: bool = False
    #: What executes both programs.
    run: Execute = field(default=run_engine, compare=False)

    @property
    def arguments(self) -> tuple[entries.Argument, ...]:
        """The arguments of the kernel before."""
        return self.before.arguments

    def rule(self, name: str) -> Rule:
        """How a result is compared."""
        return Rule(self.ulp.get(name, self.ulp.get("", 0))) if self.ulp else EXACT

    def ordered(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs by the names of the program after, in the order of the one before, and its own scalars."""
        names = [a.name for a in self.before.arguments]
        return dict(self.extra) | {
            self.after.arguments[i].name: inputs[n] for n, i in zip(names, self.order, strict=True)
        }

    @property
    def results(self) -> dict[str, str]:
        """What is compared: the name before, and the name after."""
        if self.before.program.fragment:
            return {n: n for n in self.before.outputs}
        names = [a.name for a in self.before.arguments]
        others = [self.after.arguments[i].name for i in self.order]
        renamed = dict(zip(names, others, strict=True))
        written = set(self.before.outputs) | {n for n in names if renamed[n] in self.after.outputs}
        return {n: renamed[n] for n in names if n in written}


@dataclass(frozen=True)
class Failure:
    """An input on which the programs differ.

    Its number, the first buffer that differs (with the words before as expected ones), or what the program
    after did wrong.
    """

    number: int
    inputs: Mapping[str, Array]
    before: Mapping[str, Array]
    after: Mapping[str, Array]
    comparison: Comparison | None = None
    problem: Diagnostic | None = None

    def __str__(self) -> str:
        if self.comparison is None:
            return f"input {self.number}: only the program after breaks a rule: {self.problem}"
        first = self.comparison.first
        if first is None:
            return f"input {self.number}: {self.comparison}"
        before, after = first.bits
        values = f"before {before} ({first.expected}) and after {after} ({first.actual})"
        place = self._place(first.operand, first.index)
        apart = f", {first.ulp} ULP apart" if first.ulp is not None else ""
        count = f"{self.comparison.different} of {self.comparison.elements} elements differ"
        return f"input {self.number}: {first.operand}{place}: {values}{apart}; {count}"

    def _place(self, name: str, index: int) -> str:
        shape = self.before[name].shape
        return f"[{', '.join(str(int(i)) for i in np.unravel_index(index, shape))}]"


@dataclass(frozen=True)
class Result:
    """How many inputs were compared, how many drawn ones the program before refused, and the failure.

    ``open`` are elements that differ and may, by buffer; ``reasons`` say why the program before leaves them
    open.
    """

    compared: int
    refused: int = 0
    failure: Failure | None = None
    open: Mapping[str, int] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    #: The sources of which every value was compared.
    enumerated: tuple[str, ...] = ()

    def joined(self, other: Result) -> Result:
        """The results of these inputs and of further ones."""
        names = dict.fromkeys((*self.open, *other.open))
        counts = {n: self.open.get(n, 0) + other.open.get(n, 0) for n in names}
        reasons = tuple(dict.fromkeys((*self.reasons, *other.reasons)))
        inputs = self.compared + other.compared, self.refused + other.refused
        return Result(*inputs, self.failure or other.failure, counts, reasons)

    @property
    def left(self) -> str:
        """How many elements differ that are open, and why; nothing where there are none."""
        counts = ", ".join(f"{n} of {name}" for name, n in self.open.items())
        if not counts:
            return ""
        more = f" and {len(self.reasons) - 2} more" if len(self.reasons) > 2 else ""
        why = "; ".join(self.reasons[:2])
        return f"elements that differ and that before leaves open: {counts} ({why}{more})"


def pair(
    before: Program,
    after: Program,
    profile: str | Profile | None = None,
    numerics: str = "exact",
    grid: int = 1,
    entry: str | None = None,
    partial_launch: bool = False,
    scalars: Mapping[str, int] | None = None,
) -> Pair:
    """Compile two programs to be compared, both under one profile: the one given, else that of before.

    ``scalars`` has values of arguments; those of names that only after has are no arguments to compare.

    Raises ArgumentError when their arguments do not match, VerifyError when one of them is illegal or,
    without ``partial_launch``, when the text of one shows that it needs another number of blocks.
    """
    options: dict[str, Any] = {"numerics": numerics, "checks": True, "grid": grid, "warn": False}
    target = None if profile is None else find_profile(profile)
    first = compile(before, target, entry, partial_launch=partial_launch, **options)
    second = compile(after, first.profile, entry, partial_launch=partial_launch, **options)
    # Drawn sizes may need any number of blocks; both programs execute the same part then.
    first, second = (replace(k, partial_launch=True) for k in (first, second))
    if before.fragment != after.fragment:
        raise ArgumentError("one program is a function, the other a fragment", allowed="two of a kind")
    extra = _extra(first, second, scalars or {})
    both = Pair(first, second, order_of(first, second, extra), extra)
    if not both.results:
        raise ArgumentError("got two programs that write no buffer", allowed="a store in one of them")
    return both


def _extra(before: Kernel, after: Kernel, scalars: Mapping[str, int]) -> dict[str, Array]:
    """The scalars that have a value and that only the program after has."""
    ours = {a.name for a in before.arguments}
    return {
        a.name: np.asarray(scalars[a.name]).astype(a.type.dtype.numpy)
        for a in after.arguments
        if a.name in scalars and a.name not in ours and isinstance(a.type, ScalarType)
    }


def order_of(before: Kernel, after: Kernel, extra: Collection[str]) -> tuple[int, ...]:
    """Position of the after kernel's argument for each of the before kernel's; ``extra`` are left out."""
    ours, theirs = before.arguments, after.arguments
    places = [i for i, a in enumerate(theirs) if a.name not in extra]
    order = tuple(places)
    names = [a.name for a in theirs]
    alike = sorted(a.name for a in ours) == sorted(names)
    if before.program.fragment and (not alike or set(before.outputs) != set(after.outputs)):
        raise ArgumentError(f"fragments of other names: {_signature(before)} and {_signature(after)}")
    if before.program.fragment or (alike and (emitted(before) or emitted(after))):
        order = tuple(names.index(a.name) for a in ours)
    if len(ours) != len(places):
        more = [a.name for a in theirs if isinstance(a.type, ScalarType) and a.name not in extra]
        fix = f"; try: --arg {more[0]}=N for a scalar that only after has" if more else ""
        message = f"the arguments differ: {_signature(before)} and {_signature(after)}"
        raise ArgumentError(message + (fix if len(places) > len(ours) else ""))
    for position, (a, i) in enumerate(zip(ours, order, strict=True)):
        b = theirs[i]
        if _interface(a.type) != _interface(b.type):
            raise ArgumentError(
                f"argument {position} differs: before {a.name}: {a.type}, after {b.name}: {b.type}",
                allowed="the same kind and element type",
            )
        if not isinstance(a.type, ScalarType | provenance.GlobalTypes | TileType | VectorType):
            raise ArgumentError(f"argument {a.name} has the type {a.type}, for which nothing is generated")
    return order


def emitted(kernel: Kernel) -> bool:
    """Whether a program was read from C++: its arguments have the names that the entry gives them."""
    return kernel.program.source.endswith(SUFFIXES)


def _signature(kernel: Kernel) -> str:
    return f"{kernel.entry}({', '.join(f'{a.name}: {a.type}' for a in kernel.arguments)})"


def _interface(t: Type) -> tuple[object, ...]:
    """What of an argument's type a caller sees: buffers of one element type are alike."""
    if isinstance(t, provenance.GlobalTypes):
        return ("buffer", t.dtype)
    if isinstance(t, ScalarType):
        # Emitted C++ has one type for indices and 64-bit integers.
        return ("scalar", I64 if t.dtype == INDEX else t.dtype)
    return (type(t).__name__, t)


def validate(
    both: Pair,
    count: int = 16,
    seed: int = 0,
    scalars: Mapping[str, int] | None = None,
    exhaustive: bool = False,
) -> Result:
    """Compare on ``count`` generated inputs, up to the first difference; ``scalars`` fixes some arguments.

    With ``exhaustive`` also on every value of the sources whose elements have one or two bytes.

    Raises ArgumentError when no generated input keeps to the run-time rules of the program before.
    """
    numbers = {name: n for name, n in (scalars or {}).items() if name not in both.extra}
    names = [a.name for a in both.arguments if isinstance(a.type, ScalarType)]
    for name in numbers:
        if name not in names:
            raise ArgumentError(f"got the scalar argument {name!r}", allowed=", ".join(names) or "none")
    if count < 1:
        raise ArgumentError(f"count: got {count}", allowed="1 or more")
    total = Result(0)
    accepted: dict[str, Array] = {}
    kept: Mapping[str, Array] = {}
    for number in range(count):
        problems: list[Diagnostic] = []
        # Where one input was accepted, few more draws are worth their time.
        tries = LATER if total.compared else ATTEMPTS
        for inputs in islice(_inputs(both, seed, number, numbers, accepted), tries):
            outputs, problems = both.run(both.before, inputs)
            if not problems:
                accepted = {n: inputs[n] for n in names if inputs[n].dtype.kind in "iu"}
                kept = inputs
                total = total.joined(_compared(both, number, inputs, outputs))
                if total.failure is not None:
                    return total
                break
            total = total.joined(Result(0, 1))
        if not total.compared:
            raise ArgumentError(
                f"none of {ATTEMPTS} generated inputs keeps to the rules of the program before; "
                f"the last one: {problems[0]}",
                fix="its scalars, or an input",
            )
    return _enumerated(both, count, kept, total) if exhaustive else total


#: The values of two bytes, and an odd factor by which further sources walk through them.
VALUES, WALK = 1 << 16, 40503


def _enumerated(both: Pair, number: int, base: Mapping[str, Array], total: Result) -> Result:
    """Further inputs: an accepted one whose small sources have every value, over as many calls as it takes.

    Two sources of one byte have every pair.
    """
    small = {
        a.name: a.type.dtype
        for a in both.arguments
        if isinstance(a.type, ArrayType) and a.type.dtype.word_bits <= 16 and base[a.name].size
    }
    sources = {n: d for n, d in small.items() if n not in both.before.outputs} or small
    if not sources:
        raise ArgumentError(
            "--exhaustive: no source has such elements", allowed="elements of one or two bytes"
        )
    step = min(base[name].size for name in sources)
    for call in range(-(-VALUES // step)):
        inputs = dict(base)
        for at, (name, d) in enumerate(sources.items()):
            lanes = call * step + np.arange(base[name].size)
            lanes = lanes * WALK**at if d.word_bits > 8 else lanes >> 8 * (at % 2)
            words = (lanes & (1 << d.bits) - 1).astype(d.word)
            inputs[name] = words.view(base[name].dtype).reshape(base[name].shape)
        outputs, problems = both.run(both.before, inputs)
        more = Result(0, 1) if problems else _compared(both, number + call, inputs, outputs)
        total = total.joined(more)
        if total.failure is not None:
            return total
    return replace(total, enumerated=tuple(sources))


def compare(both: Pair, inputs: Mapping[str, Array], number: int = 0) -> Result:
    """Compare on one input, given by the names of the program before; ``number`` is that of the input."""
    outputs, problems = both.run(both.before, inputs)
    if problems:
        raise ExecutionError(problems)
    return _compared(both, number, inputs, outputs)


def _compared(both: Pair, number: int, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Result:
    """The first difference on an input, the outputs of the program before being known."""
    results, problems = both.run(both.after, both.ordered(inputs))
    renamed = {n: results.get(m, inputs.get(n)) for n, m in both.results.items()}
    table = {n: a for n, a in renamed.items() if a is not None}
    expected = {n: outputs.get(n, inputs.get(n, table.get(n))) for n in both.results}
    arrays = {n: a for n, a in expected.items() if a is not None}
    if problems:
        return Result(1, 0, Failure(number, inputs, arrays, table, problem=problems[0]))
    types, counts, reasons = _types(both), dict[str, int](), list[str]()
    for name in both.results:
        before, after = arrays[name], table[name].reshape(arrays[name].shape)
        d = _dtype(types.get(name), before)
        one, other = _words(d, before), _words(d, after)
        result = compare_words(name, d, one, other, both.rule(name))
        if not result.equal and both.open:
            opened = left_open(both.before, inputs)
            mask = opened.mask(name, one)
            if counted := int(((one != other) & mask).sum()):
                counts[name] = counted
                reasons += opened.reasons.get(name, ())
                result = compare_words(name, d, one, other, both.rule(name), skip=mask)
        if not result.equal:
            return Result(1, 0, Failure(number, inputs, arrays, table, result), counts, tuple(reasons))
    return Result(1, 0, None, counts, tuple(reasons))


def fitted(argument: entries.Argument, array: Array) -> Array:
    """An input in the shape that an argument needs; the programs may see one buffer as other types."""
    if isinstance(argument.type, provenance.GlobalTypes):
        shape = shape_of(argument.type, argument.min_elements)
        if np.prod(shape) == array.size:
            return array.reshape(shape)
    return array


def _types(both: Pair) -> dict[str, Type]:
    """Types of the arguments and results of the program before."""
    types = {v.name: v.type for op in both.before.program.walk() for v in op.destinations}
    return types | {a.name: a.type for a in both.arguments}


def _dtype(t: Type | None, array: Array) -> DType:
    """The element type to compare as; two elements in a byte are compared as bytes."""
    d = getattr(t, "dtype", None)
    fits = isinstance(d, DType) and not d.packed and d.word.itemsize == array.dtype.itemsize
    return d if isinstance(d, DType) and fits else dtype(f"u{array.dtype.itemsize * 8}")


def _words(d: DType, array: Array) -> Array:
    return np.ascontiguousarray(array).view(d.word)


def _inputs(
    both: Pair, seed: int, number: int, scalars: Mapping[str, int], accepted: Mapping[str, Array]
) -> Iterator[dict[str, Array]]:
    """Inputs to try, one after the other, as arrays by argument name.

    Every second one has integers that suit the program: those ``accepted`` before, else fitted ones.
    """
    pool = numbers((both.before.program, both.after.program))
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng((seed, number, attempt))
        style = STYLES[(number + attempt) % len(STYLES)]
        late = attempt >= ATTEMPTS // 2
        drawn = {
            a.name: _value(both, rng, i, style, pool, scalars, late) for i, a in enumerate(both.arguments)
        }
        if attempt % 2:
            repeated = accepted if attempt % 4 == 1 else {}
            drawn |= repeated or _suited(both, drawn, scalars, (seed, number, attempt))
        yield drawn


def _suited(
    both: Pair, drawn: Mapping[str, Array], scalars: Mapping[str, int], seeds: tuple[int, ...]
) -> dict[str, Array]:
    """Integers and tables with which nothing in the program before leaves what it is a part of."""
    kernel = both.before
    function = entries.select_entry(kernel.program, kernel.entry)
    if scalars or not suits(kernel.program, function):
        return {}
    numbers = {name: int(drawn[name]) for name in integers(function)}
    fitted = fit(
        kernel.program, function, kernel.profile.name, numbers, hash(seeds) & 0xFFFFFFFF, kernel.grid
    )
    if fitted is None:
        return {}
    suited = {n: np.asarray(value).astype(drawn[n].dtype) for n, value in fitted.scalars.items()}
    for name in fitted.tables:
        table = fitted.table(name, drawn[name].size).astype(drawn[name].dtype)
        suited[name] = table.reshape(drawn[name].shape)
    for name, elements in fitted.reached.items():
        if elements > drawn[name].size:
            suited[name] = np.resize(suited.get(name, drawn[name]), elements)
    return suited


def _value(
    both: Pair,
    rng: np.random.Generator,
    position: int,
    style: Style,
    pool: Sequence[int],
    given: Mapping[str, int],
    late: bool,
) -> Array:
    argument, other = both.arguments[position], both.after.arguments[both.order[position]]
    t = argument.type
    if isinstance(t, ScalarType):
        if argument.name in given:
            return np.asarray(given[argument.name]).astype(t.dtype.numpy)
        return draw_scalar(rng, t.dtype, style, pool, late)
    assert isinstance(t, ArrayType)
    return draw(rng, t.dtype, _shape(argument, other), style)


def _shape(argument: entries.Argument, other: entries.Argument) -> tuple[int, ...]:
    """The shape that suits both programs: the one with fixed extents, else the larger buffer."""
    assert isinstance(argument.type, ArrayType) and isinstance(other.type, ArrayType)
    ours = shape_of(argument.type, argument.min_elements)
    theirs = shape_of(other.type, other.min_elements)
    if np.prod(ours) == np.prod(theirs):
        return ours
    if argument.min_elements is None or other.min_elements is None:
        return theirs if argument.min_elements is None else ours
    return max(ours, theirs, key=lambda s: int(np.prod(s)))


# -- several ranks -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankPair:
    """Two kernels of as many ranks, and the pair of their arguments and results."""

    before: RankKernel
    after: RankKernel
    pair: Pair

    @staticmethod
    def of(before: RankKernel, after: RankKernel, ulp: Mapping[str, int] | None = None) -> RankPair:
        """The pair of two kernels; ArgumentError where arguments do not match or nothing is written."""
        one: Any = before
        two: Any = after
        pair = Pair(one, two, order_of(one, two, ()), ulp=ulp or {}, run=_interpreted)
        if not pair.results:
            raise ArgumentError("neither program writes a buffer: there is nothing to compare")
        return RankPair(before, after, pair)

    def lost(self, values: Mapping[str, Any]) -> tuple[RankFinding, ...]:
        """What the program after leaves to the order of the ranks, where the one before leaves nothing."""
        if not self.before.judge(values).exact:
            return ()
        return self.after.judge(self.pair.ordered(values)).findings


def compared(both: RankPair, number: int, values: Mapping[str, Any]) -> Failure | None:
    """The first difference on an input, by the names of the program before; its errors are raised."""
    return compare(both.pair, values, number).failure


def _interpreted(kernel: Any, inputs: Mapping[str, Any]) -> Executed:
    """What the interpreter gives, or the diagnostics of what ended it."""
    try:
        return kernel.interpreted(*kernel.prepared((), inputs)), []
    except PtoError as error:
        if not error.diagnostics:
            raise
        return {}, list(error.diagnostics)
