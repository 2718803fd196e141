"""The campaign that mutants have to survive: generated cases of one seed, the same for all mutants.

``cases.txt`` names the cases. ``python -m tests.mutation`` runs the campaign and prints what kills each
mutant; ``python -m tests.mutation --select`` chooses the cases anew, which is due when the generator makes
other programs (its ``VERSION``) or when mutants come and go.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pto_jax.cases.comparison import Outcome, compare_case
from pto_jax.cases.targets import Engine, Oracle, Run
from pto_jax.generate.options import PRESETS, SIMPLE, STRAIGHT, Options
from pto_jax.generate.programs import VERSION, Case, generate
from tests.mutation import code
from tests.mutation.code import Spot
from tests.mutation.mutants import Mutant, applied, table

SEED = 1
CASES = Path(__file__).with_name("cases.txt")
_SMALL = replace(
    STRAIGHT, statements=3, elements=512, partial=0.5, dynamic=0.4, reuse=0.2, attributes=0.6, results=0.1
)


def _class(name: Any) -> Options:
    return replace(_SMALL, weights=((name, 1.0),))


def _some(names: str, **options: Any) -> Options:
    return replace(_SMALL, only=frozenset(names.split()), **options)


def _preset(name: str) -> Options:
    return replace(PRESETS[name], statements=4, elements=512, only=SIMPLE, turns=0)


#: What the cases of the pool are made of, and how many of them there are of each kind.
PARTS: tuple[tuple[int, Options], ...] = (
    (80, _class("elementwise")),
    (60, _class("tile_scalar")),
    (100, _class("reduce_expand")),
    (80, _class("layout")),
    (80, _class("memory")),
    (50, _class("matrix")),
    (120, _class("irregular")),
    (80, _some("tcvt", attributes=1.0)),
    (60, _some("taddc tsubc tmax tmin trems tfmods taxpy tpow tpows", reuse=0.0, partial=0.1)),
    (40, _some("trowsum tcolsum tpairreducesum tpartargmax tpartargmin", attributes=1.0)),
    (60, _some("tload tstore tfillpad timg2col tquant tgather", attributes=1.0, partial=0.9)),
    (40, _some("tadd tmul tmuladddst tmov tload trowexpandadd", statements=8, reuse=1.0, results=0.0)),
    (50, _preset("control")),
    (50, _preset("aliases")),
    (50, _preset("everything")),
    (50, replace(_preset("everything"), blocks=1.0, calls=0.25, control=0.1, depth=1)),
    (80, _some("tabs taddc tsubc tmax tmin trelu taddrelu tsubrelu tcmp", recipes=("specials",))),
    (150, _some("tload tstore", attributes=1.0, shapes=0.5)),
    (60, _some("trowsum tcolsum", recipes=("specials",), partial=0.8)),
    (40, _some("thistogram trowsum", attributes=1.0)),
    (80, _some("tload tstore", attributes=1.0, shapes=1.0, partial=1.0)),
    (60, _some("tload tstore", functions=1.0, reuse=0.0, tile_arguments=1.0, addresses=0.0)),
    (40, _some("tmrgsort tsort32", reuse=0.0, shapes=0.0)),
    (40, _some("tmov.zz", profiles=("a5",), partial=1.0, statements=2)),
    (40, _some("tcvt", recipes=("specials",), profiles=("cpu_sim", "a5"))),
    (20, _some("texp", reuse=0.0)),
    (20, _some("tmov.fp", attributes=1.0, recipes=("mixed",))),
    (20, _some("tmrgsort tsort32", reuse=0.0, shapes=0.0, recipes=("specials",))),
    (60, _some("taxpy tadddeqrelu", reuse=0.0, partial=0.1)),
)
#: Numbers of the cases of a part begin at a multiple of this.
PART = 10_000


def made(number: int) -> Case:
    """The case of a number."""
    return generate(SEED, number, PARTS[number // PART][1])


def pool() -> list[int]:
    """Numbers of the cases that the campaign is chosen from."""
    return [part * PART + i for part, (count, _) in enumerate(PARTS) for i in range(count)]


def chosen() -> list[int]:
    """Numbers of the campaign's cases."""
    version, *numbers = CASES.read_text().split()
    if version != f"generator-{VERSION}":
        raise AssertionError(f"the cases are of {version}; choose others: python -m tests.mutation --select")
    return [int(n) for n in numbers]


@dataclass(frozen=True, eq=False)
class Recorded:
    """The reference interpreter, whose results for a case are known."""

    result: Run | Exception
    name: str = "interpreter"
    #: Undefined data is what the profile says.
    follows: ClassVar[bool] = True

    def run(self, case: Case) -> Run:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@dataclass(frozen=True)
class Entry:
    """A case, what the interpreter gives, and the statements of the lowering that its trace reached.

    A mutant of another statement cannot change the case.
    """

    number: int
    case: Case
    wanted: Recorded
    reached: frozenset[Spot]

    def judged(self) -> Outcome:
        return compare_case(self.case, self.wanted, _executed(self.number))


def _executed(number: int) -> Engine:
    """Cases of odd numbers execute what is generated for a GPU."""
    return Engine("jit", code="cuda" if number % 2 else "numpy")


def prepared(numbers: Iterable[int]) -> list[Entry]:
    """Cases executed on the engine as it is, which agrees with the interpreter on all of them."""
    found = []
    with code.watched() as reached:
        for number in numbers:
            case = made(number)
            try:
                expected: Run | Exception = Oracle().run(case)
            except Exception as error:
                expected = error
            code.forget()
            reached.clear()
            outcome = compare_case(case, Recorded(expected), _executed(number))
            if outcome.is_failure:
                raise AssertionError(str(outcome))
            found.append(Entry(number, case, Recorded(expected), frozenset(reached)))
    return found


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: the case that kills it (none: it survives), and what that took.

    ``leaks``: the case fails on the engine as it is too, so the mutant was not taken back.
    """

    mutant: Mutant
    entry: Entry | None
    outcome: Outcome | None
    executed: int
    seconds: float
    leaks: bool = False

    def __str__(self) -> str:
        cost = f"{self.executed} cases, {self.seconds:.2f} s"
        if self.entry is None or self.outcome is None:
            return f"SURVIVES {self.mutant} ({cost}) {self.mutant.survives}"
        message = self.outcome.message.splitlines()[0][:100]
        where = f"case {self.entry.number} on {self.entry.case.profile.name}"
        return f"{self.mutant} ({cost}), {where}: {self.outcome.kind}: {message}"


def verdict(mutant: Mutant, entries: Sequence[Entry]) -> Verdict:
    """The first case of a campaign that kills a mutant."""
    start, executed, spot = time.process_time(), 0, mutant.spot
    killer, outcome = None, None
    with applied(mutant):
        for entry in entries:
            if spot in entry.reached:
                executed += 1
                outcome = entry.judged()
                if outcome.is_failure:
                    killer = entry
                    break
    leaks = killer is not None and killer.judged().is_failure
    return Verdict(mutant, killer, outcome, executed, time.process_time() - start, leaks)


@cache
def campaign() -> tuple[Entry, ...]:
    return tuple(prepared(chosen()))


def select() -> list[Verdict]:
    """Choose cases of the pool that kill every mutant that any of them kills, and write them down."""
    entries, kept = prepared(pool()), list[Entry]()
    print(f"{len(entries)} cases in the pool", flush=True)
    verdicts = []
    for mutant in table():
        found = verdict(mutant, kept)
        if found.entry is None:
            found = verdict(mutant, entries)
            if found.entry is not None:
                kept.append(found.entry)
        verdicts.append(found)
        print(found, flush=True)
    lines = [f"generator-{VERSION}", *(str(e.number) for e in sorted(kept, key=lambda e: e.number))]
    CASES.write_text("\n".join(lines) + "\n")
    return verdicts
