"""Every shipped example against the same computation by hand in jnp, on the same shapes, batched."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.bench_run import Run, least
from pto_jax.api import load
from pto_jax.examples import EXAMPLES, Example
from pto_jax.lowering.numerics import Numerics
from pto_jax.runtime.kernel import Kernel, compile

#: Arguments of an example by name, one set of a batch.
Arguments = Mapping[str, Any]
#: Results of an example by name.
Results = dict[str, Any]

#: What the design asks for, by numerics.
TARGETS: dict[Numerics, str] = {"fast": "<= 1.5", "exact": "<= 4"}
#: How many sets of arguments a batch has.
BATCH = 256
#: Rounds of calls in turn, at least, and seconds that they take, at least; the least time of each counts.
ROUNDS, SECONDS = 15, 2.0


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    """A matrix product with f32 sums; on a CPU f32 operands are the fast ones."""
    if jax.default_backend() == "cpu":
        a, b = a.astype(jnp.float32), b.astype(jnp.float32)
    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


def _masked_tile(a: Arguments) -> Results:
    rows, cols = (jnp.arange(n) for n in a["x"].shape)
    inside = ((rows >= 3) & (rows < 3 + a["rows"]))[:, None] & (cols >= 5) & (cols < 5 + a["cols"])
    return {"y": jnp.where(inside, jax.nn.relu(a["x"]) * 0.5, a["y"])}


def _conversion_chain(a: Arguments) -> Results:
    half = (a["x"] * a["scale"]).astype(jnp.float16)
    q = jnp.clip(jnp.round(half.astype(jnp.float32)), -128, 127).astype(jnp.int8)
    return {"q": q, "y": q.astype(jnp.float32) * a["inverse"]}


def _rmsnorm(a: Arguments) -> Results:
    x = a["x"].astype(jnp.float32)
    y = x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + a["eps"]) * a["gamma"]
    return {"y": y.astype(a["x"].dtype)}


def _topk(a: Arguments) -> Results:
    values, positions = jax.lax.top_k(a["logits"], 16)
    return {"values": values, "positions": positions}


def _swiglu_ffn(a: Arguments) -> Results:
    gate, up = _product(a["x"], a["w_gate"]), _product(a["x"], a["w_up"])
    hidden = (jax.nn.silu(gate) * up).astype(jnp.bfloat16)
    return {"hidden": hidden, "workspace": jnp.stack([gate, up]), "y": _product(hidden, a["w_down"])}


def _flash_attention(a: Arguments) -> Results:
    scores = _product(a["q"], a["k"].T) / np.float32(8)
    past = jnp.tril(jnp.ones(scores.shape, bool))
    weights = jax.nn.softmax(jnp.where(past, scores, -jnp.inf), axis=-1)
    return {"out": _product(weights.astype(a["v"].dtype), a["v"])}


def _gqa_decode(a: Arguments) -> Results:
    inside = jnp.arange(256) < a["length"]

    def group(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.where(inside, _product(q, k.T) / np.float32(8), -jnp.inf)
        weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
        return _product(weights, jnp.where(inside[:, None], v, 0))

    return {"out": jax.vmap(group)(a["q"].reshape(2, 4, 64), a["k_cache"], a["v_cache"]).reshape(8, 64)}


def _int8_matmul(a: Arguments) -> Results:
    scale = jnp.maximum(jnp.abs(a["x"]).max(1, keepdims=True), 1e-20) / 127
    q = jnp.round(a["x"] / scale).astype(jnp.int8)
    sums = jnp.matmul(q, a["w"], preferred_element_type=jnp.int32)
    y = (sums.astype(jnp.float32) * scale * a["w_scale"]).astype(jnp.float16)
    return {"q": q, "x_scale": scale[:, 0], "sums": sums, "y": y}


def _mx_matmul(a: Arguments) -> Results:
    x, y = (a[n].astype(jnp.float32) for n in "ab")
    x_scale = a["a_scale"].reshape(32, 4).astype(jnp.float32)
    y_scale = a["b_scale"].astype(jnp.float32).transpose(0, 2, 1).reshape(4, 64)
    return {"c": _product(x * jnp.repeat(x_scale, 32, 1), y * jnp.repeat(y_scale, 32, 0))}


def _indexer(a: Arguments) -> Results:
    votes = jax.nn.relu(_product(a["q"], a["k_cache"].T))
    inside = jnp.arange(256) < a["length"]
    scores = jnp.where(inside, a["gate"] @ jnp.where(inside, votes, 0), a["scores"])
    return {"dots": votes[:, :64], "scores": scores}


def _mx_expert(a: Arguments) -> Results:
    x = a["x"].reshape(32, 4, 32)
    exponent = jnp.floor(jnp.log2(jnp.abs(x).max(2, keepdims=True))) - 8
    codes = jnp.clip(x / jnp.exp2(exponent), -448, 448).astype(a["codes"].dtype).reshape(32, 128)
    w, pairs = (a[n][a["expert"]].astype(jnp.float32) for n in ("w", "w_scale"))
    scale = pairs.transpose(0, 2, 1).reshape(4, 64)
    factors = (codes.astype(jnp.float32).reshape(32, 4, 32) * jnp.exp2(exponent)).reshape(32, 128)
    y = _product(factors, w * jnp.repeat(scale, 32, 0))
    return {"codes": codes, "exponents": (exponent[..., 0] + 127).astype(jnp.uint8), "y": y}


def _pipe_linear(a: Arguments) -> Results:
    y = _product(a["x"], a["w"].astype(jnp.float16)) * a["w_scale"] + a["bias"]
    return {"y": jax.nn.relu(y).astype(jnp.float16)}


#: The computation of each example as one writes it in jnp for one set of arguments.
BY_HAND: dict[str, Callable[[Arguments], Results]] = {
    "vector_add": lambda a: {"z": a["x"] + a["y"]},
    "add_relu_convert": lambda a: {"z": jnp.clip(a["x"] + a["y"], 0, 65504).astype(jnp.float16)},
    "masked_tile": _masked_tile,
    "conversion_chain": _conversion_chain,
    "softmax": lambda a: {"y": jax.nn.softmax(a["x"], axis=-1)},
    "rmsnorm": _rmsnorm,
    "topk": _topk,
    "grid_reduction": lambda a: {"result": a["result"] + jnp.stack([a["x"].sum(), (a["x"] * a["x"]).sum()])},
    "gemm_splitk": lambda a: {"c": a["c"] + _product(a["a"], a["b"])},
    "swiglu_ffn": _swiglu_ffn,
    "flash_attention": _flash_attention,
    "gqa_decode": _gqa_decode,
    "int8_matmul": _int8_matmul,
    "mx_matmul": _mx_matmul,
    "pipe_linear": _pipe_linear,
    "indexer": _indexer,
    "mx_expert": _mx_expert,
}


def batch(example: Example, count: int = BATCH) -> dict[str, jax.Array]:
    """Arguments of an example by name: arrays with a leading axis of ``count``, scalars as they are."""
    made = [example.arguments(seed) for seed in range(count)]
    return {
        name: jnp.stack([m[name] for m in made]) if value.ndim else jnp.asarray(value)
        for name, value in made[0].items()
    }


def sizes(example: Example) -> dict[str, int]:
    """The whole numbers among an example's arguments by name, which may be fixed before it is compiled."""
    return {n: int(v) for n, v in example.arguments().items() if not v.ndim and v.dtype.kind in "iu"}


def calls(
    example: Example, numerics: Numerics, scalars: Mapping[str, int] | None = None
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two jitted functions of a batch's arguments by position: the example's kernel, and jnp.

    The kernel may be compiled for certain ``scalars``, and takes no notice of these arguments then.
    """
    kernel: Kernel = compile(
        load(example.path), numerics=numerics, grid=example.grid, warn=False, scalars=scalars
    )
    taken = {a.name for a in kernel.arguments}
    axes = {n: 0 if v.ndim else None for n, v in example.arguments().items()}

    def ours(*values: Any) -> Any:
        return kernel(**{n: v for n, v in zip(axes, values, strict=True) if n in taken})

    def by_hand(*values: Any) -> Results:
        return BY_HAND[example.name](dict(zip(axes, values, strict=True)))

    return jax.jit(jax.vmap(ours, [*axes.values()])), jax.jit(jax.vmap(by_hand, [*axes.values()]))


def ratio(
    example: Example, values: Arguments, numerics: Numerics, scalars: Mapping[str, int] | None = None
) -> float:
    """The least time of an example on a batch over the least time of jnp, called in turn."""
    both = (partial(call, *values.values()) for call in calls(example, numerics, scalars))
    ours, by_hand = least(*both, rounds=ROUNDS, seconds=SECONDS)
    return ours / by_hand


def shipped_example(run: Run, name: str) -> None:
    """An example, batched, over the same computation by hand in jnp: fast and exact.

    What is written in jnp knows its sizes when it is compiled; so does the example in rows of its own.
    """
    example = EXAMPLES[name]
    values, known = batch(example), sizes(example)
    for numerics, target in TARGETS.items():
        times = ratio(example, values, numerics)
        run.add(f"{name} {numerics} over jnp", times, "x jnp's time", target, "lower")
        if known:
            times = ratio(example, values, numerics, known)
            run.add(f"{name} {numerics} over jnp, sizes known", times, "x jnp's time", target, "lower")


def shipped_examples(run: Run) -> None:
    """Every shipped example, batched, over the same computation by hand in jnp: fast and exact."""
    for name in EXAMPLES:
        shipped_example(run, name)
