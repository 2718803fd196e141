"""NumPy side of the examples that multiply matrices."""

import numpy as np

from .describe import Arrays, Example, Values, matrix, normal, powers_of_two, softmax, zeros


def _gemm_inputs(rng: np.random.Generator) -> Arrays:
    a, b = normal(rng, (128, 512), "f16"), normal(rng, (512, 128), "f16")
    return {"a": a, "b": b, "c": zeros((128, 128))}


def _gemm(given: Values) -> Arrays:
    a, b = matrix(given, "a", 128, 512, "f16"), matrix(given, "b", 512, 128, "f16")
    return {"c": matrix(given, "c", 128, 128) + a @ b}


def _ffn_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "x": normal(rng, (32, 64), "bf16"),
        "w_gate": normal(rng, (64, 128), "bf16", 0.125),
        "w_up": normal(rng, (64, 128), "bf16", 0.125),
        "w_down": normal(rng, (128, 64), "bf16", 0.09),
        "workspace": zeros((2, 32, 128)),
        "hidden": zeros((32, 128), "bf16"),
        "y": zeros((32, 64)),
    }


def _ffn(given: Values) -> Arrays:
    x = matrix(given, "x", 32, 64, "bf16")
    gate, up = (x @ matrix(given, n, 64, 128, "bf16") for n in ("w_gate", "w_up"))
    return {"y": (gate / (1 + np.exp(-gate)) * up) @ matrix(given, "w_down", 128, 64, "bf16")}


def _flash_inputs(rng: np.random.Generator) -> Arrays:
    q, k, v = (normal(rng, (128, 64), "f16") for _ in range(3))
    return {"q": q, "k": k, "v": v, "out": zeros((128, 64))}


def _flash(given: Values) -> Arrays:
    q, k, v = (matrix(given, n, 128, 64, "f16") for n in ("q", "k", "v"))
    future = np.triu(np.ones((128, 128), bool), 1)
    return {"out": softmax(np.where(future, -np.inf, q @ k.T / 8)) @ v}


def _gqa_inputs(rng: np.random.Generator) -> Arrays:
    caches = {n: normal(rng, (2, 256, 64), "f16") for n in ("k_cache", "v_cache")}
    for cache in caches.values():
        # Positions without a token hold NaN: reading one would show in the result.
        cache[:, 200:] = np.nan
    scratch = {"scores": zeros((8, 64)), "weights": zeros((8, 64), "f16"), "out": zeros((8, 64))}
    return {"q": normal(rng, (8, 64), "f16"), **caches, **scratch, "length": np.asarray(200)}


def _gqa(given: Values) -> Arrays:
    length, q = int(given["length"]), matrix(given, "q", 8, 64, "f16")
    k, v = (matrix(given, n, 512, 64, "f16").reshape(2, 256, 64)[:, :length] for n in ("k_cache", "v_cache"))
    return {"out": np.concatenate([softmax(q[4 * g : 4 * g + 4] @ k[g].T / 8) @ v[g] for g in range(2)])}


def _int8_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "x": normal(rng, (32, 128)),
        "w": np.asarray(rng.integers(-127, 128, (128, 64)), np.int8),
        "w_scale": np.asarray(rng.uniform(0.5e-3, 2e-3, 64), np.float32),
        "q": zeros((32, 128), "i8"),
        "x_scale": zeros((32,)),
        "sums": zeros((32, 64), "i32"),
        "y": zeros((32, 64), "f16"),
    }


def _int8(given: Values) -> Arrays:
    x, w = matrix(given, "x", 32, 128), matrix(given, "w", 128, 64)
    x_scale = np.maximum(np.abs(x).max(1, keepdims=True), 1e-20) / 127
    q = np.rint(x / x_scale)
    return {"y": (q @ w) * x_scale * matrix(given, "w_scale", 1, 64)}


def _mx_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "a": normal(rng, (32, 128), "f8e4m3"),
        "a_scale": powers_of_two(rng, (32, 2, 2)),
        "b": normal(rng, (128, 64), "f8e4m3"),
        "b_scale": powers_of_two(rng, (2, 64, 2)),
        "c": zeros((32, 64)),
    }


def _mx(given: Values) -> Arrays:
    a, b = matrix(given, "a", 32, 128, "f8e4m3"), matrix(given, "b", 128, 64, "f8e4m3")
    a_scale = matrix(given, "a_scale", 32, 4, "f8e8m0")
    pairs = matrix(given, "b_scale", 2, 128, "f8e8m0").reshape(2, 64, 2)
    b_scale = pairs.transpose(0, 2, 1).reshape(4, 64)
    return {"c": (a * a_scale.repeat(32, 1)) @ (b * b_scale.repeat(32, 0))}


def _pipe_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "x": normal(rng, (64, 128), "f16"),
        "w": np.asarray(rng.integers(-127, 128, (128, 64)), np.int8),
        "w_scale": np.asarray(rng.uniform(0.5e-3, 2e-3, 64), np.float32),
        "bias": normal(rng, (64,)),
        "slots": zeros((2, 16384)),
        "y": zeros((64, 64), "f16"),
    }


def _pipe(given: Values) -> Arrays:
    product = matrix(given, "x", 64, 128, "f16") @ matrix(given, "w", 128, 64)
    return {"y": np.maximum(product * matrix(given, "w_scale", 1, 64) + matrix(given, "bias", 1, 64), 0)}


EXAMPLES = (
    Example(
        "gemm_splitk",
        "c += a @ b, f16 128x512 by 512x128: 8 blocks, k split in two, ping-pong buffers, atomic stores",
        _gemm_inputs,
        _gemm,
        grid=8,
        bound=1e-4,
    ),
    Example(
        "swiglu_ffn",
        "y = (silu(x w_gate) * (x w_up)) w_down in bf16: four calls of one cube and one vector function",
        _ffn_inputs,
        _ffn,
        bound=2e-2,
    ),
    Example(
        "flash_attention",
        "out = softmax(q k^T / 8 + causal mask) v, 128 positions: online softmax over blocks of 32 keys",
        _flash_inputs,
        _flash,
        grid=4,
        bound=1e-3,
    ),
    Example(
        "gqa_decode",
        "one decoding step, 8 query heads on 2 key/value heads, 200 cached positions in tiles of 64",
        _gqa_inputs,
        _gqa,
        grid=2,
        bound=1e-3,
    ),
    Example(
        "int8_matmul",
        "y = x @ w by int8 products: rows of x quantised on the way in, sums dequantised on the way out",
        _int8_inputs,
        _int8,
        bound=1e-2,
    ),
    Example(
        "mx_matmul",
        "c = a @ b on 8-bit floats, every 32 elements along k with a power of two as their scale",
        _mx_inputs,
        _mx,
        bound=1e-3,
    ),
    Example(
        "pipe_linear",
        "y = relu((x @ w) * scale + bias), int8 weights: cube and vector cores with FIFO pipes between them",
        _pipe_inputs,
        _pipe,
        grid=2,
        bound=1e-2,
    ),
)
