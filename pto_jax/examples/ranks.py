"""NumPy side of the examples that run on several ranks; arrays have a leading axis of ranks."""

import numpy as np

from .describe import Arrays, Example, Values, normal, numbers, zeros

#: The ranks of these examples.
RANKS = 4


def _ring_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "x": normal(rng, (RANKS, 64)),
        "inbox": zeros((RANKS, 64)),
        "arrived": zeros((RANKS, 1), "i32"),
        "y": zeros((RANKS, 64)),
    }


def _ring(given: Values) -> Arrays:
    return {"y": given["x"] + np.roll(given["x"], 1, 0)}


def _matmul_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "a": normal(rng, (RANKS, 32, 32), "f16"),
        "b": normal(rng, (RANKS, 32, 64), "f16"),
        "partial": zeros((RANKS, 32, 64)),
        "ready": zeros((RANKS, 1), "i32"),
        "y": zeros((RANKS, 32, 64)),
    }


def _matmul(given: Values) -> Arrays:
    total = np.matmul(numbers(given["a"]), numbers(given["b"])).sum(0)
    return {"y": np.broadcast_to(total, (RANKS, 32, 64))}


EXAMPLES = (
    Example(
        "ring_exchange",
        "4 ranks: y = x + x of the rank before, by put, notify and wait",
        _ring_inputs,
        _ring,
        ranks=RANKS,
        shared=("inbox", "arrived"),
        context={"ctx": "inbox"},
    ),
    Example(
        "all_reduce_matmul",
        "4 ranks: y = the sum of a @ b over all ranks, products added in the order of the ranks",
        _matmul_inputs,
        _matmul,
        bound=1e-4,
        ranks=RANKS,
        shared=("partial", "ready"),
        context={"ctx": "partial"},
    ),
)
