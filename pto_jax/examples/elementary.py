"""NumPy side of the examples that take a few instructions; their results are equal in every bit."""

import numpy as np

from .describe import Arrays, Example, Values, normal, zeros


def _add_inputs(rng: np.random.Generator) -> Arrays:
    return {"x": normal(rng, (64, 64)), "y": normal(rng, (64, 64)), "z": zeros((64, 64))}


def _add(given: Values) -> Arrays:
    return {"z": given["x"].reshape(-1)[:4096] + given["y"].reshape(-1)[:4096]}


def _add_relu_inputs(rng: np.random.Generator) -> Arrays:
    x, y = normal(rng, (64, 128), scale=5e4), normal(rng, (64, 128), scale=5e4)
    return {"x": x, "y": y, "z": zeros((64, 128), "f16")}


def _add_relu(given: Values) -> Arrays:
    total = given["x"].reshape(-1)[:8192] + given["y"].reshape(-1)[:8192]
    return {"z": np.minimum(np.maximum(total, 0), np.float32(65504)).astype(np.float16)}


def _masked_inputs(rng: np.random.Generator) -> Arrays:
    x, y = normal(rng, (40, 80)), normal(rng, (40, 80))
    return {"x": x, "y": y, "rows": np.asarray(13), "cols": np.asarray(45)}


def _masked(given: Values) -> Arrays:
    rows, cols = int(given["rows"]), int(given["cols"])
    x, y = (given[n].reshape(-1)[:3200].reshape(40, 80) for n in ("x", "y"))
    window = np.s_[3 : 3 + rows, 5 : 5 + cols]
    expected = y.copy()
    expected[window] = np.maximum(x[window], 0) * np.float32(0.5)
    return {"y": expected}


def _chain_inputs(rng: np.random.Generator) -> Arrays:
    arguments = {"x": normal(rng, (32, 64), scale=6), "q": zeros((32, 64), "i8"), "y": zeros((32, 64))}
    return {**arguments, "scale": np.asarray(np.float32(16)), "inverse": np.asarray(np.float32(0.0625))}


def _chain(given: Values) -> Arrays:
    half = (given["x"].reshape(-1)[:2048] * np.float32(given["scale"])).astype(np.float16)
    q = np.clip(np.rint(half.astype(np.float32)), -128, 127).astype(np.int8)
    return {"q": q, "y": q.astype(np.float32) * np.float32(given["inverse"])}


EXAMPLES = (
    Example("vector_add", "z = x + y, load, add, store on one 64x64 f32 tile", _add_inputs, _add),
    Example(
        "add_relu_convert",
        "z = f16(relu(x + y)) by one fused, saturating instruction",
        _add_relu_inputs,
        _add_relu,
    ),
    Example(
        "masked_tile",
        "y = relu(x) / 2 on an odd-sized window of a matrix, valid rows and columns at run time",
        _masked_inputs,
        _masked,
    ),
    Example(
        "conversion_chain",
        "int8 quantisation and back: f32 -> f16 -> i8 (saturating) -> f16 -> f32",
        _chain_inputs,
        _chain,
    ),
)
