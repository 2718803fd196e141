"""NumPy side of the examples that are steps of language models."""

import numpy as np

from ..ir import dtype
from .describe import Arrays, Example, Values, matrix, normal, powers_of_two, zeros

HEADS, WIDTH, POSITIONS = 16, 64, 256
TOKENS, DEPTH, EXPERTS, GROUP = 32, 128, 4, 32


def _indexer_inputs(rng: np.random.Generator) -> Arrays:
    keys = normal(rng, (POSITIONS, WIDTH), "f16")
    # Positions without a token hold NaN: reading one would show in the result.
    keys[200:] = np.nan
    return {
        "q": normal(rng, (HEADS, WIDTH), "f16"),
        "k_cache": keys,
        "gate": normal(rng, (HEADS,), scale=0.25),
        "dots": zeros((HEADS, WIDTH)),
        "scores": np.full(POSITIONS, -np.inf, np.float32),
        "length": np.asarray(200),
    }


def _indexer(given: Values) -> Arrays:
    length, scores = int(given["length"]), matrix(given, "scores", 1, POSITIONS).copy()
    q, keys = matrix(given, "q", HEADS, WIDTH, "f16"), matrix(given, "k_cache", POSITIONS, WIDTH, "f16")
    votes = np.maximum(q @ keys[:length].T, 0)
    scores[0, :length] = matrix(given, "gate", 1, HEADS) @ votes
    return {"scores": scores}


def _expert_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "x": normal(rng, (TOKENS, DEPTH)) * np.exp2(rng.integers(-6, 7, (TOKENS, 1))).astype(np.float32),
        "w": normal(rng, (EXPERTS, DEPTH, WIDTH), "f8e4m3"),
        "w_scale": powers_of_two(rng, (EXPERTS, DEPTH // GROUP // 2, WIDTH, 2)),
        "codes": zeros((TOKENS, DEPTH), "f8e4m3"),
        "exponents": zeros((TOKENS, DEPTH // GROUP), "u8"),
        "y": zeros((TOKENS, WIDTH)),
        "expert": np.asarray(2),
    }


def _expert(given: Values) -> Arrays:
    expert, pairs = int(given["expert"]), DEPTH // GROUP // 2
    x = matrix(given, "x", TOKENS, DEPTH).reshape(TOKENS, -1, GROUP)
    # The largest 8-bit float is 1.75 * 2^8: the largest element of a group has that exponent.
    scale = np.exp2(np.floor(np.log2(np.abs(x).max(2, keepdims=True))) - 8)
    codes = np.clip(x / scale, -448, 448).astype(dtype("f8e4m3").numpy).astype(np.float64)
    w = matrix(given, "w", EXPERTS * DEPTH, WIDTH, "f8e4m3").reshape(EXPERTS, DEPTH, WIDTH)[expert]
    scales = matrix(given, "w_scale", EXPERTS * pairs, 2 * WIDTH, "f8e8m0").reshape(-1, pairs, WIDTH, 2)
    of_rows = scales[expert].transpose(0, 2, 1).reshape(-1, WIDTH).repeat(GROUP, 0)
    return {"y": (codes * scale).reshape(TOKENS, DEPTH) @ (w * of_rows)}


EXAMPLES = (
    Example(
        "indexer",
        "scores of 200 cached positions for one token of sparse attention: 16 heads vote, by their gates",
        _indexer_inputs,
        _indexer,
        bound=1e-3,
    ),
    Example(
        "mx_expert",
        "y = mx(x) @ w[expert]: tokens quantised to 8-bit floats with shared exponents, for one expert of 4",
        _expert_inputs,
        _expert,
        bound=1e-2,
    ),
)
