"""From a failing case to a minimal one that fails in the same way.

First each executed instruction is tried alone (:mod:`.isolation`); where one fails, the rest of the program
has no part in the failure. Where none does, the failure needs several operations, and the others are removed.
Then shapes and valid regions become smaller, inputs become zeros, ones and small numbers, and attributes get
their defaults. The same case gives the same result, as long as the time suffices.

>>> from pto_jax.generate.programs import generate
>>> from pto_jax.cases.targets import Oracle
>>> made = shrink(generate(1, 0), Oracle(), Oracle(), seconds=10)
>>> made.outcome.is_failure, made.instruction
(False, '')
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import isa
from ..cases import comparison, edits, recording, targets
from ..cases.edits import entry_of, renamed, rewritten, with_entry, with_op
from ..cases.recording import Recording, number, numbered, record
from ..cases.targets import mismatch
from ..generate.programs import Case
from ..generate.state import Input
from ..generate.values import Recipe, words
from ..ir import (
    Attrs,
    DType,
    Op,
    PartitionViewType,
    Region,
    ScalarType,
    TensorViewType,
    TileType,
    Type,
    Value,
)
from ..isa.effects import traits_of
from . import isolation
from .search import Exhausted, Finding, Machines, Search

#: A change of types; it gives the same type for equal types.
Change = Callable[[Type], Type]
_SIZES = (1, 2, 4, 8, 16, 32, 64)


def shrink_sizes(search: Search) -> None:
    """Small shapes, then small valid regions."""
    progress = True
    while progress:
        progress = any(search.first(_shapes(search, axes)) for axes in ("rc", "r", "c"))
    progress = True
    while progress:
        progress = any(search.first(_regions(search.case, axis)) for axis in (0, 1))


def settle_regions(search: Search) -> None:
    """Valid regions that are known before execution, and full ones, where the failure shows with them."""
    search.attempt(_static(search.case))
    search.attempt(_full(search.case))


def _tiles(case: Case) -> Iterator[TileType]:
    for op in case.program.walk():
        for v in (*op.ins, *op.outs, *op.results):
            if isinstance(v.type, TileType):
                yield v.type


def _changed(case: Case, change: Change, cut: Callable[[str, Input, Type], Input]) -> Case:
    """The case with other types, and inputs cut to them."""
    function = entry_of(case)
    names: dict[str, Value] = {a.name: replace(a, type=change(a.type)) for a in function.args}
    for op in function.walk():
        names |= {r.name: replace(r, type=change(r.type)) for r in op.results}
        names |= {a.name: replace(a, type=change(a.type)) for r in op.regions for a in r.args}
    args = tuple(names[a.name] for a in function.args)
    body = rewritten(function.body, lambda op: (renamed(op, names),))
    # On several ranks a buffer may be no argument.
    inputs = {n: cut(n, i, names[n].type) if n in names else i for n, i in case.inputs.items()}
    return replace(with_entry(case, replace(function, args=args, body=body)), inputs=inputs)


def _static(case: Case) -> Case:
    """Valid sizes of arguments in their types, where they all agree."""
    sizes: dict[TileType, tuple[int, int] | None] = {}
    for i in case.inputs.values():
        if isinstance(i.type, TileType) and i.valid is not None:
            sizes[i.type] = i.valid if sizes.get(i.type, i.valid) == i.valid else None

    def change(t: Type) -> Type:
        valid = sizes.get(t) if isinstance(t, TileType) else None
        return t.with_valid(*valid) if valid is not None and isinstance(t, TileType) else t

    return _changed(case, change, _retyped)


def _full(case: Case) -> Case:
    """Whole tiles valid, known before execution."""

    def change(t: Type) -> Type:
        return t.with_valid(t.rows, t.cols) if isinstance(t, TileType) else t

    return _changed(case, change, _retyped)


def _retyped(name: str, i: Input, t: Type) -> Input:
    if not isinstance(t, TileType):
        return i
    return Input(t, i.words, None if t.is_static else i.valid)


def _shapes(search: Search, axes: str) -> Iterator[Case]:
    """The case with one size of rows, columns or both replaced by a smaller one, in all types."""
    case = search.case
    sizes = {n for t in _tiles(case) for n in _of(t, axes)}
    for old in sorted(sizes, reverse=True):
        for new in (*(n for n in _SIZES if n < old), *((old // 2,) if old > 2 * _SIZES[-1] else ())):
            for at in _places(search, new):
                yield _reshaped(case, axes, {old: new}, at)


def _of(t: TileType, axes: str) -> tuple[int, ...]:
    return t.shape if axes == "rc" else (t.rows,) if axes == "r" else (t.cols,)


def _places(search: Search, new: int) -> Iterator[tuple[int, int]]:
    """Where a smaller part may begin: at the origin, or so that it has the first element that differs."""
    yield (0, 0)
    first = search.best.outcome.first
    if first is None:
        return
    shape = search.best.wanted.outputs[first.operand].words.shape if search.best.wanted is not None else ()
    if len(shape) < 2:
        return
    row, col = (int(n) for n in np.unravel_index(first.index, shape)[-2:])
    place = (row // new * new, col // new * new)
    if place != (0, 0):
        yield place


def _reshaped(case: Case, axes: str, sizes: Mapping[int, int], at: tuple[int, int]) -> Case:
    def one(n: int | None, axis: str) -> int | None:
        return sizes.get(n, n) if n is not None and axis in axes else n

    def change(t: Type) -> Type:
        if isinstance(t, TileType) and t.conv is None:
            rows, cols = one(t.rows, "r") or 0, one(t.cols, "c") or 0
            v_row = t.v_row if t.v_row is None else min(t.v_row, rows)
            v_col = t.v_col if t.v_col is None else min(t.v_col, cols)
            return replace(t, rows=rows, cols=cols, v_row=v_row, v_col=v_col)
        if isinstance(t, PartitionViewType | TensorViewType) and len(t.dims) >= 2:
            return replace(t, dims=(*t.dims[:-2], one(t.dims[-2], "r"), one(t.dims[-1], "c")))
        return t

    def cut(name: str, i: Input, t: Type) -> Input:
        if t == i.type or not isinstance(t, TileType | PartitionViewType | TensorViewType):
            return i
        dims = t.shape if isinstance(t, TileType) else tuple(n or 0 for n in t.dims)
        start = [min(s, old - new) for s, old, new in zip(at, i.words.shape[-2:], dims[-2:], strict=True)]
        rows, cols = (slice(s, s + n) for s, n in zip(start, dims[-2:], strict=True))
        words = np.ascontiguousarray(i.words[..., rows, cols])
        valid = i.valid and (
            min(max(i.valid[0] - start[0], 0), dims[-2]),
            min(max(i.valid[1] - start[1], 0), dims[-1]),
        )
        return Input(t, words, valid)

    return _changed(case, change, cut)


def _regions(case: Case, axis: int) -> Iterator[Case]:
    """The case with one valid size replaced by a smaller one."""
    static = {t.valid[axis] for t in _tiles(case)}
    dynamic = {i.valid[axis] for i in case.inputs.values() if i.valid is not None}
    for old in sorted((n for n in static | dynamic if n is not None), reverse=True):
        for new in (n for n in (1, 2, 4, 8, old // 2, old - 1) if 0 < n < old):
            yield _cropped(case, axis, old, new)


def _cropped(case: Case, axis: int, old: int, new: int) -> Case:
    def smaller(valid: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        rows, cols = valid
        return (new if rows == old else rows, cols) if axis == 0 else (rows, new if cols == old else cols)

    def change(t: Type) -> Type:
        return t.with_valid(*smaller(t.valid)) if isinstance(t, TileType) and t.conv is None else t

    def cut(name: str, i: Input, t: Type) -> Input:
        if i.valid is None:
            return _retyped(name, i, t)
        rows, cols = smaller(i.valid)
        return Input(i.type, i.words, (rows or 0, cols or 0))

    return _changed(case, change, cut)


Words = NDArray[Any]
#: Elements of one input that are made simple one by one.
_ELEMENTS = 8


def simplify_inputs(search: Search) -> None:
    """One input after another: as few elements as possible that are not zero, and those simple."""
    names = [n for n, i in search.case.inputs.items() if not _numbers_ranks(search.case, i)]
    if search.attempt(_with(search.case, {n: np.zeros_like(search.case.inputs[n].words) for n in names})):
        return
    for name in names:
        _thin(search, name)
    for name in names:
        _simplify(search, name)


def _numbers_ranks(case: Case, i: Input) -> bool:
    """Whether an input has a scalar for each rank, which may be its number."""
    return case.ranks is not None and isinstance(i.type, ScalarType)


def _with(case: Case, words: Mapping[str, Words]) -> Case:
    inputs = {n: replace(i, words=words[n]) if n in words else i for n, i in case.inputs.items()}
    return replace(case, inputs=inputs)


def _thin(search: Search, name: str) -> None:
    """Zeros wherever the failure does not need another value: halves, quarters and so on."""
    words = search.case.inputs[name].words
    if not words.any() or search.attempt(_with(search.case, {name: np.zeros_like(words)})):
        return
    if words.ndim == 0:
        return
    kept = np.flatnonzero(words)
    size = -(-len(kept) // 2)
    while size:
        for start in range(0, len(kept), size):
            part = kept[start : start + size]
            for drop in (np.setdiff1d(kept, part), part):
                result = search.case.inputs[name].words.copy()
                result.reshape(-1)[drop] = 0
                if len(drop) and search.attempt(_with(search.case, {name: result})):
                    break
            else:
                continue
            break
        places = np.flatnonzero(search.case.inputs[name].words)
        size = min(size, -(-len(places) // 2)) if len(places) < len(kept) and len(places) > 1 else size // 2
        kept = places


def _simplify(search: Search, name: str) -> None:
    """Small numbers in place of others: the same one everywhere, else one element after another."""
    i = search.case.inputs[name]
    words, d = i.words, i.type.dtype
    simple = _simple(d)
    numbers = np.unique(words[words != 0])
    if not numbers.size or (numbers.size == 1 and int(numbers[0]) in simple):
        return
    if search.first(_with(search.case, {name: np.where(words != 0, w, words)}) for w in simple):
        return
    for index in np.flatnonzero(words)[:_ELEMENTS].tolist():
        old = int(search.case.inputs[name].words.reshape(-1)[index])
        if old not in simple:
            search.first(_one(search.case, name, index, w) for w in (*simple, *_rounder(d, old)))


def _one(case: Case, name: str, index: int, word: int) -> Case:
    result = case.inputs[name].words.copy()
    result.reshape(-1)[index] = word
    return _with(case, {name: result})


def _simple(d: DType) -> list[Any]:
    """Words of small numbers."""
    if d.is_float and d.numpy != d.word:
        with np.errstate(over="ignore"):
            values = np.array([1.0, 2.0, -1.0, 0.5, 3.0], np.float32).astype(d.numpy)
        return [w for w in values.view(d.word).tolist() if w]
    top = (1 << d.bits) - 1
    return [n & top for n in ((1, 2, 3, -1) if d.is_signed or d.kind == "index" else (1, 2, 3))]


def _rounder(d: DType, word: int) -> Iterator[Any]:
    """The word with fewer of its low bits."""
    for cut in range(d.mantissa if d.is_float else d.bits - 1, 0, -max(1, d.bits // 16)):
        result = word >> cut << cut
        if result and result != word:
            yield result


def shrink_attributes(search: Search) -> None:
    """Leave attributes of instructions out: all of an operation's, else one after another."""
    for at in [recording.number(op) for op in search.case.program.walk()]:
        keys = _optional(search.case, at)
        if len(keys) > 1 and search.attempt(_without(search.case, at, keys)):
            continue
        for key in keys:
            search.attempt(_without(search.case, at, (key,)))


def _optional(case: Case, at: int) -> tuple[str, ...]:
    op = next((op for op in case.program.walk() if recording.number(op) == at), None)
    instruction = isa.find(op.name) if op is not None else None
    if op is None or instruction is None or instruction.syntax != "tile":
        return ()
    return tuple(op.attrs)


def _without(case: Case, at: int, keys: Collection[str]) -> Case:
    def change(op: Op) -> Op:
        return replace(op, attributes=tuple((k, v) for k, v in op.attributes if k not in keys))

    return with_op(case, at, change)


def relevant(op: Op) -> Attrs:
    """Attributes with another value than the default."""
    instruction = isa.find(op.name)
    if instruction is None:
        return op.attributes
    defaults = {k: a.default for a in instruction.attributes for k in (a.name, *a.keys)}
    return tuple((k, v) for k, v in op.attributes if k not in defaults or defaults[k] != v)


#: Inputs that are like each other's in all failures. Those of a case may hide what is wrong: where a tile
#: holds one value, a lost write and a wrong value look alike. So a cause is named after these where it shows.
_RECIPES: tuple[Recipe, ...] = ("uniform", "specials", "bits")
#: Seconds that a case may take when nothing else is said.
SECONDS = 60.0


@dataclass(frozen=True)
class Shrunk:
    """A minimal case, what becomes of it, and the cases that were executed on the way.

    ``instruction`` is the one at fault; ``finding`` is the outcome with the results of both machines.
    """

    case: Case
    outcome: comparison.Outcome
    steps: int
    instruction: str
    finding: Finding


def shrink(
    case: Case, reference: targets.Target, tested: targets.Target, *, seconds: float = SECONDS
) -> Shrunk:
    """The smallest case found that fails like the given one; the given one where it does not fail."""
    machines = Machines(reference, tested, time.monotonic() + seconds)
    return reduced(machines, blamed(machines, case))


@dataclass(frozen=True)
class Blame:
    """A failure reduced to the operations it needs, with the attributes they need.

    ``representative`` is how they fail on inputs that do not come from the case, where they do.
    """

    finding: Finding
    instruction: str
    representative: Finding


def blamed(machines: Machines, case: Case) -> Blame:
    """The instruction at fault, alone where it fails alone."""
    case = numbered(case)
    finding = machines.run(case)
    if not finding.outcome.is_failure:
        return Blame(finding, "", finding)
    search = Search(machines, finding, finding.signature)
    recording = record(case)
    instruction = ""
    try:
        location = isolation.isolate_instruction(machines, finding, recording)
        if location is not None:
            search.best, instruction = location
        else:
            instruction = _first_stored(search) or instruction
            _shrink_program(search)
            instruction = _first_stored(search) or _first_wrong(search) or instruction
            instruction = instruction or _last_written(finding, recording)
        shrink_attributes(search)
        return Blame(search.best, instruction, representative_inputs(machines, search.best))
    except Exhausted:
        instruction = instruction or _first_stored(search) or _last_written(finding, recording)
        return Blame(search.best, instruction, search.best)


def reduced(machines: Machines, blame: Blame) -> Shrunk:
    """The rest of the way: small sizes, simple contents."""
    search = Search(machines, blame.finding, blame.finding.signature)
    if blame.finding.outcome.is_failure:
        try:
            settle_regions(search)
            shrink_sizes(search)
            simplify_inputs(search)
            shrink_sizes(search)
            shrink_attributes(search)
        except Exhausted:
            pass
    best = search.best
    return Shrunk(best.case, best.outcome, machines.steps, blame.instruction, best)


def with_its_order(machines: Machines, case: Case) -> Finding:
    """A failure on ranks with the data and the ranks that it needs.

    Everything that orders operations stays: a protocol that lacks some of it may be wrong in itself.
    """
    case = numbered(case)
    order = edits.ordering(case)
    machines.form = lambda candidate: candidate if edits.ordering(candidate) == order else None
    finding = machines.run(case)
    search = Search(machines, finding, finding.signature)
    floats = {n: i.words for n, i in case.inputs.items() if i.type.dtype.is_float}
    try:
        if finding.outcome.is_failure:
            search.attempt(_with(case, {n: np.zeros_like(w) for n, w in floats.items()}))
            search.first(_on_fewer_ranks(search.case))
            _remove(search)
    except Exhausted:
        pass
    machines.form = None
    return search.best


def _on_fewer_ranks(case: Case) -> Iterator[Case]:
    """A case on two ranks and more, where a number of it says how many there are."""
    ranks = case.ranks
    counts = {n for n, i in case.inputs.items() if ranks is not None and (i.words == ranks.count).all()}
    scalars = {n for n in counts if isinstance(case.inputs[n].type, ScalarType)}
    for count in range(2, ranks.count if ranks is not None and scalars and not ranks.peers else 0):
        inputs = {
            n: replace(i, words=np.full_like(i.words[:count], count) if n in scalars else i.words[:count])
            for n, i in case.inputs.items()
        }
        yield replace(case, inputs=inputs, ranks=replace(ranks, count=count))  # type: ignore[type-var]


def representative_inputs(machines: Machines, finding: Finding) -> Finding:
    """The failure on ordinary values, else on special ones, else on those it was found with."""
    if finding.signature != "values":
        return finding
    for recipe in _RECIPES:
        failure = machines.fails(_filled(finding.case, recipe), finding.signature)
        if failure is not None:
            return failure
    return finding


def _filled(case: Case, recipe: Recipe) -> Case:
    rng = np.random.default_rng(0)

    def one(i: Input) -> Input:
        if isinstance(i.type, ScalarType) and not i.type.dtype.is_float:
            return i
        return replace(i, words=words(rng, i.type.dtype, i.words.shape, recipe))

    return replace(case, inputs={name: one(i) for name, i in case.inputs.items()})


# -- operations ----------------------------------------------------------------------------------------


def _shrink_program(search: Search) -> None:
    """Leave operations out and take regions apart, until neither is possible."""
    search.attempt(_closed(search, replace(search.case, grid=1)) if search.case.grid > 1 else None)
    progress = True
    while progress:
        progress = _remove(search)
        progress |= search.first(_unwrappings(search))
        progress |= search.attempt(edits.as_fragment(search.case))


def _closed(search: Search, candidate: Case | None) -> Case | None:
    return edits.closed(candidate, record(search.case)) if candidate is not None else None


def _remove(search: Search) -> bool:
    """Leave out as many operations as possible: halves first, the last ones first."""
    progress = False
    size = max(1, len(edits.removable(search.case)) // 2)
    while size:
        again = True
        while again:
            again = search.first(_removals(search, size))
            progress |= again
        size //= 2
    return progress


def _removals(search: Search, size: int) -> Iterator[Case | None]:
    recording, numbers = record(search.case), edits.removable(search.case)
    for end in range(len(numbers), 0, -size):
        yield edits.closed(edits.without(search.case, set(numbers[max(0, end - size) : end])), recording)


def _unwrappings(search: Search) -> Iterator[Case | None]:
    recording = record(search.case)
    for at in edits.structured(search.case):
        for joined in (True, False):
            for arm in range(3):
                yield edits.closed(edits.unwrapped(search.case, at, arm, joined), recording)


def _first_stored(search: Search) -> str:
    """The operation whose result differs first where every intermediate is stored.

    Nothing where none does, and for programs that are executed in another form than functions over pointers.
    """
    # Kernels are made by the edits of this package.
    from ..cases.kernels import watched

    if search.signature != "values":
        return ""
    form = search.machines.form
    result = watched((form(search.case) if form is not None else None) or search.case)
    if result is None:
        return ""
    case, seen = result
    finding = search.machines.run(case)
    if finding.wanted is None or finding.found is None:
        return ""
    for name, op in seen.items():
        expected, got = finding.wanted.outputs[name], finding.found.outputs.get(name)
        if mismatch(case, name, got, expected, "") is not None:
            return op.name
    return ""


def _last_written(finding: Finding, recording: Recording) -> str:
    """The operation that wrote the result that differs last, as far as one is known."""
    differs = finding.outcome.mismatch
    events = recording.influencing(differs.output if differs is not None else None)
    return next((event.op.name for event in events), "")


def _prepares(op: Op) -> bool:
    """Whether an operation computes nothing: an allocation, a constant, or the end."""
    traits = traits_of(op)
    return traits.placement is not None or traits.terminator or op.name == "arith.constant"


def _first_wrong(search: Search) -> str:
    """The operation after which a program that needs several operations goes wrong.

    Of a loop or branch it is the one that computes inside, where there is only one; of an allocation the
    one that computed last.
    """
    function = edits.entry_of(search.case)
    recording = record(search.case)
    computing = {number(e.op) for e in recording.events}
    last = ""
    for end, op in enumerate(function.body.ops, 1):
        inner = {o.name for o in op.walk() if number(o) in computing and not o.name.startswith("arith.")}
        name = inner.pop() if len(inner) == 1 else op.name
        last = last if last and _prepares(op) else name
        part = edits.with_entry(search.case, replace(function, body=Region(function.body.ops[:end])))
        if search.machines.fails(edits.closed(part, recording), search.signature) is not None:
            break
    return last
