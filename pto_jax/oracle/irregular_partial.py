"""Two tiles of which each may be valid in a part of the destination only."""

from collections.abc import Callable, Mapping

import numpy as np

from . import arithmetic, convert, storage
from .numbers import Array, decode, encode
from .step import Lane, Step, rule


def _inside(step: Step, name: str) -> Array:
    """Which lanes of the destination's region a source has."""
    rows, cols = step.valid(name)
    i, j = np.ogrid[tuple(map(slice, step.region))]
    return np.asarray((i < rows) & (j < cols))


def choose(step: Step, names: tuple[str, str], both: Array, neither: int = 0) -> Array:
    """``both`` where both value sources are valid, the valid one's bits elsewhere, else ``neither``."""
    in0, in1 = _inside(step, "src0"), _inside(step, "src1")
    a, b = (step.raw(n) for n in names)
    return np.where(in0 & in1, both, np.where(in0, a, np.where(in1, b, a.dtype.type(neither))))


def _loser(step: Step, sign: int) -> int:
    """On a5 the bits of the finite number farthest in one direction, elsewhere 0."""
    if step.policy.profile.name != "a5":
        return 0
    limits = convert.range_of(step.dtype())
    return int(encode(np.array([[limits[0] if sign < 0 else limits[1]]]), step.dtype())[0, 0])


def _partial(name: str, lane: Lane, loser: int = 0) -> None:
    """``loser`` is the sign of the number that never wins, 0 where lanes of neither source are zero."""

    @rule(name)
    def execute(step: Step) -> None:
        both = lane(step.dtype(), step.words("src0"), step.words("src1"))
        neither = _loser(step, loser) if loser else 0
        step.put(choose(step, ("src0", "src1"), step.flushed(both, "dst"), neither))


_partial("tpartadd", arithmetic.add)
_partial("tpartmul", arithmetic.multiply)
_partial("tpartmax", arithmetic.larger, -1)
_partial("tpartmin", arithmetic.smaller, 1)


#: Whether src0 wins, by instruction and profile: of NaN every comparison is false.
FIRST_WINS: Mapping[str, Mapping[str, Callable[[Array, Array], Array]]] = {
    "tpartargmax": {
        "cpu_sim": np.greater,
        "a2a3": np.greater_equal,
        "a5": lambda a, b: ~np.less(a, b),
    },
    "tpartargmin": {
        "cpu_sim": np.less,
        "a2a3": np.less_equal,
        "a5": lambda a, b: ~np.greater(a, b),
    },
}


def _partial_arg(name: str) -> None:
    @rule(name)
    def execute(step: Step) -> None:
        d = step.dtype()
        wins = FIRST_WINS[name][step.policy.profile.name]
        first = wins(decode(step.words("src0"), d), decode(step.words("src1"), d))
        chosen = {}
        for suffix in ("", "Idx"):
            names = (f"src0{suffix}", f"src1{suffix}")
            both = np.where(first, step.raw(names[0]), step.raw(names[1]))
            chosen[f"dst{suffix}"] = choose(step, names, both)
        # Every source is read before a result is written, which may be one of them.
        rows, cols = step.region
        for target, words in chosen.items():
            step.scatter(words, storage.map_of(step.type(target))[:rows, :cols], target)


_partial_arg("tpartargmax")
_partial_arg("tpartargmin")
