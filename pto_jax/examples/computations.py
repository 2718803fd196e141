"""Examples on one processor, each with its computation in NumPy."""

import numpy as np

from ..ir import dtype
from .describe import Arrays, Example, Values, matrix, normal, powers_of_two, softmax, zeros

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


def _indexer(inputs: Values) -> Arrays:
    length, scores = int(inputs["length"]), matrix(inputs, "scores", 1, POSITIONS).copy()
    q, keys = matrix(inputs, "q", HEADS, WIDTH, "f16"), matrix(inputs, "k_cache", POSITIONS, WIDTH, "f16")
    votes = np.maximum(q @ keys[:length].T, 0)
    scores[0, :length] = matrix(inputs, "gate", 1, HEADS) @ votes
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


def _expert(inputs: Values) -> Arrays:
    expert, pairs = int(inputs["expert"]), DEPTH // GROUP // 2
    x = matrix(inputs, "x", TOKENS, DEPTH).reshape(TOKENS, -1, GROUP)
    # The largest 8-bit float is 1.75 * 2^8: the largest element of a group has that exponent.
    scale = np.exp2(np.floor(np.log2(np.abs(x).max(2, keepdims=True))) - 8)
    codes = np.clip(x / scale, -448, 448).astype(dtype("f8e4m3").numpy).astype(np.float64)
    w = matrix(inputs, "w", EXPERTS * DEPTH, WIDTH, "f8e4m3").reshape(EXPERTS, DEPTH, WIDTH)[expert]
    scales = matrix(inputs, "w_scale", EXPERTS * pairs, 2 * WIDTH, "f8e8m0").reshape(-1, pairs, WIDTH, 2)
    of_rows = scales[expert].transpose(0, 2, 1).reshape(-1, WIDTH).repeat(GROUP, 0)
    return {"y": (codes * scale).reshape(TOKENS, DEPTH) @ (w * of_rows)}


MODELS = (
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


def _gemm_inputs(rng: np.random.Generator) -> Arrays:
    a, b = normal(rng, (128, 512), "f16"), normal(rng, (512, 128), "f16")
    return {"a": a, "b": b, "c": zeros((128, 128))}


def _gemm(inputs: Values) -> Arrays:
    a, b = matrix(inputs, "a", 128, 512, "f16"), matrix(inputs, "b", 512, 128, "f16")
    return {"c": matrix(inputs, "c", 128, 128) + a @ b}


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


def _ffn(inputs: Values) -> Arrays:
    x = matrix(inputs, "x", 32, 64, "bf16")
    gate, up = (x @ matrix(inputs, n, 64, 128, "bf16") for n in ("w_gate", "w_up"))
    return {"y": (gate / (1 + np.exp(-gate)) * up) @ matrix(inputs, "w_down", 128, 64, "bf16")}


def _flash_inputs(rng: np.random.Generator) -> Arrays:
    q, k, v = (normal(rng, (128, 64), "f16") for _ in range(3))
    return {"q": q, "k": k, "v": v, "out": zeros((128, 64))}


def _flash(inputs: Values) -> Arrays:
    q, k, v = (matrix(inputs, n, 128, 64, "f16") for n in ("q", "k", "v"))
    future = np.triu(np.ones((128, 128), bool), 1)
    return {"out": softmax(np.where(future, -np.inf, q @ k.T / 8)) @ v}


def _gqa_inputs(rng: np.random.Generator) -> Arrays:
    caches = {n: normal(rng, (2, 256, 64), "f16") for n in ("k_cache", "v_cache")}
    for cache in caches.values():
        # Positions without a token hold NaN: reading one would show in the result.
        cache[:, 200:] = np.nan
    scratch = {"scores": zeros((8, 64)), "weights": zeros((8, 64), "f16"), "out": zeros((8, 64))}
    return {"q": normal(rng, (8, 64), "f16"), **caches, **scratch, "length": np.asarray(200)}


def _gqa(inputs: Values) -> Arrays:
    length, q = int(inputs["length"]), matrix(inputs, "q", 8, 64, "f16")
    k, v = (matrix(inputs, n, 512, 64, "f16").reshape(2, 256, 64)[:, :length] for n in ("k_cache", "v_cache"))
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


def _int8(inputs: Values) -> Arrays:
    x, w = matrix(inputs, "x", 32, 128), matrix(inputs, "w", 128, 64)
    x_scale = np.maximum(np.abs(x).max(1, keepdims=True), 1e-20) / 127
    q = np.rint(x / x_scale)
    return {"y": (q @ w) * x_scale * matrix(inputs, "w_scale", 1, 64)}


def _mx_inputs(rng: np.random.Generator) -> Arrays:
    return {
        "a": normal(rng, (32, 128), "f8e4m3"),
        "a_scale": powers_of_two(rng, (32, 2, 2)),
        "b": normal(rng, (128, 64), "f8e4m3"),
        "b_scale": powers_of_two(rng, (2, 64, 2)),
        "c": zeros((32, 64)),
    }


def _mx(inputs: Values) -> Arrays:
    a, b = matrix(inputs, "a", 32, 128, "f8e4m3"), matrix(inputs, "b", 128, 64, "f8e4m3")
    a_scale = matrix(inputs, "a_scale", 32, 4, "f8e8m0")
    pairs = matrix(inputs, "b_scale", 2, 128, "f8e8m0").reshape(2, 64, 2)
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


def _pipe(inputs: Values) -> Arrays:
    product = matrix(inputs, "x", 64, 128, "f16") @ matrix(inputs, "w", 128, 64)
    return {"y": np.maximum(product * matrix(inputs, "w_scale", 1, 64) + matrix(inputs, "bias", 1, 64), 0)}


MATRICES = (
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


def _softmax_inputs(rng: np.random.Generator) -> Arrays:
    x = normal(rng, (45, 100), scale=3)
    return {"x": x, "y": zeros((45, 100)), "rows": np.asarray(45), "cols": np.asarray(100)}


def _softmax(inputs: Values) -> Arrays:
    return {"y": softmax(matrix(inputs, "x", int(inputs["rows"]), int(inputs["cols"])))}


def _rmsnorm_inputs(rng: np.random.Generator) -> Arrays:
    arguments = {"x": normal(rng, (64, 256), "bf16", 2.0), "gamma": 1 + normal(rng, (256,), scale=0.1)}
    return {**arguments, "y": zeros((64, 256), "bf16"), "eps": np.asarray(np.float32(1e-6))}


def _rmsnorm(inputs: Values) -> Arrays:
    x, gamma = matrix(inputs, "x", 64, 256, "bf16"), matrix(inputs, "gamma", 1, 256)
    return {"y": x / np.sqrt((x * x).mean(1, keepdims=True) + float(inputs["eps"])) * gamma}


def _topk_inputs(rng: np.random.Generator) -> Arrays:
    logits = normal(rng, (4, 512), scale=2)
    return {"logits": logits, "values": zeros((4, 16)), "positions": zeros((4, 16), "i32")}


def _topk(inputs: Values) -> Arrays:
    logits = matrix(inputs, "logits", 4, 512)
    positions = np.argsort(-logits, axis=1, kind="stable")[:, :16]
    return {"values": np.take_along_axis(logits, positions, 1), "positions": positions}


def _reduction_inputs(rng: np.random.Generator) -> Arrays:
    return {"x": normal(rng, (200, 128)), "result": zeros((2,)), "rows": np.asarray(200)}


def _reduction(inputs: Values) -> Arrays:
    x = matrix(inputs, "x", int(inputs["rows"]), 128)
    return {"result": matrix(inputs, "result", 1, 2) + np.array([x.sum(), (x * x).sum()])}


VECTORS = (
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


def _add_inputs(rng: np.random.Generator) -> Arrays:
    return {"x": normal(rng, (64, 64)), "y": normal(rng, (64, 64)), "z": zeros((64, 64))}


def _add(inputs: Values) -> Arrays:
    return {"z": inputs["x"].reshape(-1)[:4096] + inputs["y"].reshape(-1)[:4096]}


def _add_relu_inputs(rng: np.random.Generator) -> Arrays:
    x, y = normal(rng, (64, 128), scale=5e4), normal(rng, (64, 128), scale=5e4)
    return {"x": x, "y": y, "z": zeros((64, 128), "f16")}


def _add_relu(inputs: Values) -> Arrays:
    total = inputs["x"].reshape(-1)[:8192] + inputs["y"].reshape(-1)[:8192]
    return {"z": np.minimum(np.maximum(total, 0), np.float32(65504)).astype(np.float16)}


def _masked_inputs(rng: np.random.Generator) -> Arrays:
    x, y = normal(rng, (40, 80)), normal(rng, (40, 80))
    return {"x": x, "y": y, "rows": np.asarray(13), "cols": np.asarray(45)}


def _masked(inputs: Values) -> Arrays:
    rows, cols = int(inputs["rows"]), int(inputs["cols"])
    x, y = (inputs[n].reshape(-1)[:3200].reshape(40, 80) for n in ("x", "y"))
    window = np.s_[3 : 3 + rows, 5 : 5 + cols]
    expected = y.copy()
    expected[window] = np.maximum(x[window], 0) * np.float32(0.5)
    return {"y": expected}


def _chain_inputs(rng: np.random.Generator) -> Arrays:
    arguments = {"x": normal(rng, (32, 64), scale=6), "q": zeros((32, 64), "i8"), "y": zeros((32, 64))}
    return {**arguments, "scale": np.asarray(np.float32(16)), "inverse": np.asarray(np.float32(0.0625))}


def _chain(inputs: Values) -> Arrays:
    half = (inputs["x"].reshape(-1)[:2048] * np.float32(inputs["scale"])).astype(np.float16)
    q = np.clip(np.rint(half.astype(np.float32)), -128, 127).astype(np.int8)
    return {"q": q, "y": q.astype(np.float32) * np.float32(inputs["inverse"])}


ELEMENTARY = (
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
