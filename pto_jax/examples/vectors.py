"""NumPy side of the examples for vector cores."""

import numpy as np

from .describe import Arrays, Example, Values, matrix, normal, softmax, zeros


def _softmax_inputs(rng: np.random.Generator) -> Arrays:
    x = normal(rng, (45, 100), scale=3)
    return {"x": x, "y": zeros((45, 100)), "rows": np.asarray(45), "cols": np.asarray(100)}


def _softmax(given: Values) -> Arrays:
    return {"y": softmax(matrix(given, "x", int(given["rows"]), int(given["cols"])))}


def _rmsnorm_inputs(rng: np.random.Generator) -> Arrays:
    arguments = {"x": normal(rng, (64, 256), "bf16", 2.0), "gamma": 1 + normal(rng, (256,), scale=0.1)}
    return {**arguments, "y": zeros((64, 256), "bf16"), "eps": np.asarray(np.float32(1e-6))}


def _rmsnorm(given: Values) -> Arrays:
    x, gamma = matrix(given, "x", 64, 256, "bf16"), matrix(given, "gamma", 1, 256)
    return {"y": x / np.sqrt((x * x).mean(1, keepdims=True) + float(given["eps"])) * gamma}


def _topk_inputs(rng: np.random.Generator) -> Arrays:
    logits = normal(rng, (4, 512), scale=2)
    return {"logits": logits, "values": zeros((4, 16)), "positions": zeros((4, 16), "i32")}


def _topk(given: Values) -> Arrays:
    logits = matrix(given, "logits", 4, 512)
    positions = np.argsort(-logits, axis=1, kind="stable")[:, :16]
    return {"values": np.take_along_axis(logits, positions, 1), "positions": positions}


def _reduction_inputs(rng: np.random.Generator) -> Arrays:
    return {"x": normal(rng, (200, 128)), "result": zeros((2,)), "rows": np.asarray(200)}


def _reduction(given: Values) -> Arrays:
    x = matrix(given, "x", int(given["rows"]), 128)
    return {"result": matrix(given, "result", 1, 2) + np.array([x.sum(), (x * x).sum()])}


EXAMPLES = (
    Example(
        "softmax",
        "y = softmax(x) along the rows of a 45x100 matrix: bands of 16 rows, sizes known at run time only",
        _softmax_inputs,
        _softmax,
        bound=5e-7,
    ),
    Example(
        "rmsnorm",
        "y = x / sqrt(mean(x^2) + eps) * gamma for 64 bf16 tokens of 256 features, in 4 blocks",
        _rmsnorm_inputs,
        _rmsnorm,
        grid=4,
        bound=2e-2,
    ),
    Example(
        "topk",
        "the 16 largest of 512 logits in each of 4 rows with their positions, by sorting and merging lists",
        _topk_inputs,
        _topk,
        grid=4,
    ),
    Example(
        "grid_reduction",
        "sum and sum of squares of a 200x128 matrix, 5 blocks with atomic stores",
        _reduction_inputs,
        _reduction,
        grid=5,
        bound=2e-2,
    ),
)
