"""Translation validation on several ranks: two programs on the same arrays with an axis of ranks.

>>> import pto_jax as pto
>>> from pto_jax.examples import example
>>> shown = example("ring_exchange")
>>> program = pto.load(shown.path)
>>> kernel = pto.compile(program, ranks=4, shared=shown.shared, context=shown.context)
>>> compared(RankPair.of(kernel, kernel), 0, shown.arguments(0)) is None
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError, PtoError
from ..runtime.ranks import RankKernel
from ..schedules.ranks import RankFinding
from .translation import Executed, Failure, Pair, compare, order_of


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
