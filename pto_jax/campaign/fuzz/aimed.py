r"""Programs that are generated towards a goal: each is aimed at one of its bins, and the bins take turns.

A case is a function of its seed, its index and the goal, whatever was reached before: it is the first of
some programs that has an operation in its bin. So campaigns on many workers, and those that are continued,
have the same cases.

>>> from .goal_file import parse_goal
>>> bins = parse_goal('[[bins]]\ninstruction = "taddc"\noperands = ["src2", "none"]', "g.toml")
>>> source = Aimed(1, (STRAIGHT,), bins)
>>> [any(map(b.has, coverage.of_program(source.case(n).program))) for n, b in enumerate(bins)]
[True, True]
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ...errors import PtoError
from ...generate.instructions import MADE
from ...generate.options import STRAIGHT, Options
from ...generate.programs import Case, case_id, generate
from ...generate.selection import catalogue, select
from ..kernels import kernel, kernels_only
from . import coverage, goal, messages
from .focus import with_statements

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
    bins: tuple[goal.Bin, ...]
    kernels: bool = False
    notes: Sequence[messages.Note] = ()
    attempts: int = 1

    def case(self, index: int, attempt: int = 0) -> Case:
        """The case of an index, the same for every attempt; PtoError where no program can be made."""
        turn, which = divmod(index, len(self.bins))
        wanted, usual = self.bins[which], self.options[(turn + which) % len(self.options)]
        last: Case | PtoError | None = None
        for number in range(TRIES):
            plain = number >= TRIES // 2
            base = replace(STRAIGHT, profiles=usual.profiles, recipes=usual.recipes) if plain else usual
            try:
                case = self._made(number, index, aimed(base, wanted, alone=plain, kernels=self.kernels))
            except PtoError as error:
                last = last or error
                continue
            if any(map(wanted.has, coverage.of_program(case.program))):
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
def aimed(options: Options, wanted: goal.Bin, *, alone: bool, kernels: bool = False) -> Options:
    """Options with which operations of a bin are frequent; ``alone`` with few other instructions.

    >>> b = goal.Bin(("tcvt", "f16", "*", "odd", "*", "*", "loop"))
    >>> made = aimed(STRAIGHT, b, alone=True)
    >>> sorted(made.only), made.dtypes, made.regions, made.control
    (['tcvt'], frozenset({'f16'}), ('odd',), 0.6)
    """
    if wanted["instruction"] in MADE:
        plain = replace(options, cores=0.0, overlaps=0.0)
        return _with_control(with_statements(plain, (wanted["instruction"],)), wanted["control"])
    name, element, layout = wanted["instruction"], wanted["type"], wanted["layout"]
    made = replace(
        kernels_only(options) if kernels else options,
        only=frozenset({name} if alone else {name, *_beside(wanted, options)}),
        dtypes=frozenset({element} - {goal.ANY, "-"}),
        layouts=frozenset({layout} - {goal.ANY, "-"}),
        factors=(*options.factors, (name, _MORE)),
        turns=0,
        attributes=_SURELY if wanted["attribute"] != goal.ANY else options.attributes,
    )
    made = _with_control(made, wanted["control"])
    if kinds := tuple(k for k in coverage.REGIONS if k == wanted["region"]):
        made = replace(made, regions=kinds, uneven=0.0)
    having = tuple(p for p in made.profiles if name in select(p, made).names)
    return replace(made, profiles=having or made.profiles, only=made.only if having else frozenset({name}))


def _with_control(options: Options, control: str) -> Options:
    """Options with which operations often have what a bin wants around them."""
    if control in ("loop", "branch"):
        return replace(options, control=max(options.control, _CONTROL))
    return replace(options, functions=_SURELY, calls=_CALLS) if control == "call" else options


def _beside(wanted: goal.Bin, options: Options) -> list[str]:
    """Some instructions for the programs of a bin, others for another bin."""
    names = {n for p in options.profiles for n in catalogue(p, options.elements)}
    return sorted(names, key=lambda n: hashlib.sha256(f"{wanted}:{n}".encode()).digest())[:_BESIDE]
