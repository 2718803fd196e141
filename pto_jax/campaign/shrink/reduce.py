"""From a failing case to a minimal one that fails in the same way.

First each executed instruction is tried alone (:mod:`.isolation`); where one fails, the rest of the program
plays no part. Where none does, the failure needs several operations, and those that it does not need are
left out. Then sizes, inputs and attributes are made simple. The same case gives the same result, as
long as time allows.

>>> from pto_jax.generate.programs import generate
>>> from pto_jax.campaign.targets import Oracle
>>> made = shrink(generate(1, 0), Oracle(), Oracle(), seconds=10)
>>> made.outcome.is_failure, made.instruction
(False, '')
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...generate.programs import Case
from ...generate.state import Input
from ...generate.values import Recipe, words
from ...ir import Op, Region, ScalarType
from ...isa.effects import traits_of
from .. import comparison, targets
from ..results import mismatch
from . import attributes, edits, inputs, isolation, sizes
from .recording import Recording, number, numbered, record
from .search import Exhausted, Finding, Machines, Search

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
        attributes.shrink_attributes(search)
        return Blame(search.best, instruction, representative_inputs(machines, search.best))
    except Exhausted:
        instruction = instruction or _first_stored(search) or _last_written(finding, recording)
        return Blame(search.best, instruction, search.best)


def reduced(machines: Machines, blame: Blame) -> Shrunk:
    """The rest of the way: small sizes, simple contents."""
    search = Search(machines, blame.finding, blame.finding.signature)
    if blame.finding.outcome.is_failure:
        try:
            sizes.settle_regions(search)
            sizes.shrink_sizes(search)
            inputs.simplify_inputs(search)
            sizes.shrink_sizes(search)
            attributes.shrink_attributes(search)
        except Exhausted:
            pass
    best = search.best
    return Shrunk(best.case, best.outcome, machines.steps, blame.instruction, best)


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
    from ..kernels import watched

    if search.signature != "values":
        return ""
    form = search.machines.form
    made = watched((form(search.case) if form is not None else None) or search.case)
    if made is None:
        return ""
    case, seen = made
    finding = search.machines.run(case)
    if finding.wanted is None or finding.found is None:
        return ""
    for name, op in seen.items():
        wanted, found = finding.wanted.outputs[name], finding.found.outputs.get(name)
        if mismatch(case, name, found, wanted, "") is not None:
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
