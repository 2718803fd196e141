"""Kernels of models that communicate, in the order of a step, against a replay in NumPy.

PTO_CORPUS names a checkout of the assembler, or of the runtime that holds emitted C++. The head of a model is
on two ranks: hidden rows go to both, each computes a half of the logits for all rows, and halves go back. So
are experts: rows go where a table says, and what experts made of them comes back. Here numbers by chance are
what is computed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import pto_jax as pto
from tests.corpus.language import SAMPLES
from tests.corpus.launches import NO_CORPUS
from tests.corpus.test_language import _ROOT

#: What holds emitted C++ of the same kernels, in a checkout of its own.
EMITTED = "examples/a2a3/tensormap_and_ringbuffer/deepseek_v4_flash_decode"
RANKS, WIDTH, HALF = 2, 4096, 64640


class Head(NamedTuple):
    """A variant: folders of what sends and of what receives, rows of a rank, the profile, blocks."""

    push: str
    wait: str
    rows: int
    profile: str
    gathering: int = 8
    #: Whether kernels take the first rank of their group and their place in it, and waits an epoch.
    placed: bool = False


HEADS = {
    "decode a5": Head("DeepseekV4DecodeA5", "DeepseekV4DecodeA5", 8, "a5"),
    "decode a3": Head("DeepseekV4DecodeA5", "DeepseekV4DecodeA3", 8, "a2a3"),
    "emitted": Head(EMITTED, EMITTED, 8, "a2a3"),
    "flash a5": Head("DeepseekV4FlashDsparkA5", "DeepseekV4FlashDsparkA5", 128, "a5", 128, placed=True),
}


def _kernel(
    profile: str, folder: str, name: str, bindings: Sequence[Any], blocks: int = 1
) -> tuple[Any, dict[str, Any]]:
    """A kernel with what its arguments are, in order: context records by the window with a star."""
    if folder == EMITTED:
        path = _ROOT / folder / "kernels" / "aiv" / f"{name}.cpp"
    else:
        path = _ROOT / SAMPLES / folder / "kernels" / "aiv" / f"{name}.pto"
    if not path.exists():
        pytest.skip(NO_CORPUS)
    program = pto.load(path)
    arguments = [a.name for a in program.entries[0].args if not a.name.startswith("__pypto")]
    names = dict(zip(arguments, bindings, strict=True))
    context = {n: w[1:] for n, w in names.items() if isinstance(w, str) and w.startswith("*")}
    kernel = pto.compile(
        program,
        profile=profile,
        grid=blocks,
        partial_launch=True,
        warn=False,
        ranks=RANKS,
        context=context,
        shared=tuple(dict.fromkeys(context.values())),
        engine="interpreter",
    )
    return kernel, {n: w for n, w in names.items() if n not in context}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADS)
def test_rows_go_to_both_ranks_and_logits_come_back(name: str) -> None:
    head = HEADS[name]
    rows = head.rows
    rank: list[int] = [0, 1]
    base, epoch = ([0], [1]) if head.placed else ([], [])
    tokens, rng = 5, np.random.default_rng(3)

    def made(part: str, kernel: str, bindings: list[Any], blocks: int = 1) -> Any:
        return _kernel(head.profile, part, kernel, bindings, blocks)

    gathering = rows // 16 * 8 * 2 if head.placed else 8
    sequence = [
        made(
            head.push,
            "lm_head_dispatch_push",
            ["x", "index", "chosen", "hidden", "done", *base, rank, "*hidden", "*done", tokens],
            rows,
        ),
        made(head.wait, "lm_head_dispatch_wait", ["x", "done", rank, *epoch, "*done", tokens]),
        made(head.wait, "lm_head_dispatch_gather", ["hidden", "owned", "*hidden"], gathering),
        made(
            head.push,
            "lm_head_combine_push",
            ["window", "shards", "ready", rank, *base, "*window", "*ready"],
            24,
        ),
        made(head.wait, "lm_head_combine_wait", ["shards", "ready", rank, *epoch, "*ready"]),
        made(head.wait, "lm_head_combine_gather", ["logits", "window", "*window"], 24),
        pto.host_barrier,
        made(head.wait, "lm_head_signal_clear", ["logits", "done", "ready", "*done", "*ready"]),
    ]
    # Logits of a hundred rows are gigabytes.
    step = pto.launches(sequence[:3] if head.placed else sequence, ranks=RANKS)
    bf16 = pto.dtype("bf16").numpy
    given: dict[str, Any] = {
        "x": rng.standard_normal((RANKS, tokens, WIDTH)).astype(bf16),
        "index": rng.integers(-1, tokens, (RANKS, rows)).astype(np.int32),
        "chosen": np.ones((RANKS, rows, WIDTH), bf16),
        "hidden": np.ones((RANKS, 2 * rows, WIDTH), bf16),
        "owned": np.ones((RANKS, 2 * rows, WIDTH), bf16),
        "shards": rng.standard_normal((RANKS, 2 * rows, HALF), np.float32),
        "window": np.ones((RANKS, rows, 2 * HALF), np.float32),
        "logits": np.ones((RANKS, rows, 2 * HALF), np.float32),
        "done": np.zeros((RANKS, 16), np.int32),
        "ready": np.zeros((RANKS, 16), np.int32),
    }
    given = {n: a for n, a in given.items() if n in step.buffers}
    found = step(**given)
    nothing = np.zeros(WIDTH, bf16)
    both = np.stack(
        [given["x"][r, i] if i >= 0 else nothing for r in range(RANKS) for i in given["index"][r]]
    )
    np.testing.assert_array_equal(found["owned"].view("u2"), np.stack([both, both]).view("u2"))
    if head.placed:
        return
    parts = given["shards"].reshape(RANKS, RANKS, rows, HALF)
    logits = parts.transpose(1, 2, 0, 3).reshape(RANKS, rows, 2 * HALF)
    np.testing.assert_array_equal(found["logits"].view("u4"), logits.view("u4"))
    assert not found["done"].any() and not found["ready"].any()
    assert step.judge(given).exact


class Experts(NamedTuple):
    """A variant: folders, tokens of a rank, experts of a rank, elements of a row, the profile.

    ``first`` are numbers that come before that of the rank, ``epochs`` those that come behind it in waits,
    one for each layer.
    """

    push: str
    wait: str
    tokens: int
    experts: int
    width: int
    profile: str = "a5"
    first: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()
    #: Whether the wait for results tells others that they are there.
    told_late: bool = False
    #: Whether the wait for rows has the table as an argument.
    anchored: bool = True
    #: What the names of files end with, layer by layer.
    suffixes: tuple[str, ...] = ("",)


EXPERTS = {
    "decode a5": Experts("DeepseekV4DecodeA5", "DeepseekV4DecodeA5", 8, 32, 4096, first=(8,)),
    "decode a3": Experts("DeepseekV4DecodeA5", "DeepseekV4DecodeA3", 8, 32, 4096, "a2a3", (8,)),
    "pro a5": Experts(
        "DeepseekV4ProDecodeA5", "DeepseekV4ProDecodeA5", 8, 48, 7168, told_late=True, anchored=False
    ),
    "emitted": Experts(EMITTED, EMITTED, 8, 32, 4096, "a2a3", (8,), told_late=True),
    # The second layer waits for twice the numbers of the first one, in the same windows.
    "emitted, two layers": Experts(
        EMITTED, EMITTED, 8, 32, 4096, "a2a3", (8,), told_late=True, suffixes=("", "_0")
    ),
    "emitted, epoch": Experts(
        EMITTED, EMITTED, 8, 32, 4096, "a2a3", (8,), (1,), told_late=True, suffixes=("_1",)
    ),
    "emitted, three epochs": Experts(
        EMITTED, EMITTED, 8, 32, 4096, "a2a3", (8,), (1, 2, 3), told_late=True, suffixes=("_1", "_2", "_3")
    ),
    "flash a5": Experts("DeepseekV4FlashDsparkA5", "DeepseekV4FlashDsparkA5", 32, 16, 4096, epochs=(1,)),
}
#: Experts of a token.
TOP = 6


def _layer(v: Experts, suffix: str, epoch: tuple[int, ...]) -> list[Any]:
    """The kernels that bring rows to experts, and those that bring results back."""
    rank = [0, 1]
    at_push: list[Any] = [*v.first, rank]
    of_index, of_result = ["index"] * v.anchored, [] if v.told_late else ["made"]
    sent: list[Any] = [] if v.told_late else ["combined", rank]

    def kernel(folder: str, name: str, bindings: Sequence[Any], blocks: int = 1) -> Any:
        return _kernel(v.profile, folder, name + suffix, bindings, blocks)

    meta = ["index", "meta", "arrived", "local", "count", *at_push, *epoch, "*meta", "*arrived"]
    push = ["index", "rows", "x", "scale", "weight", "aux", "route", "data", *at_push]
    gather = ["out", "local", "rows", "aux", "scale_out", "weight_out", "route", "route_out"]
    combine = ["local", "route_out", "back", "made", *sent, "*back", *([] if v.told_late else ["*combined"])]
    return [
        kernel(v.push, "dispatch_meta", meta),
        kernel(v.push, "dispatch_push", [*push, "*rows", "*aux", "*route", "*data"], v.experts),
        kernel(v.wait, "dispatch_wait", [*of_index, "data", rank, *epoch, "*data"]),
        kernel(v.wait, "dispatch_gather", [*gather, "*rows", "*aux", "*route"], v.experts),
        kernel(v.push, "combine", combine, v.experts),
        kernel(v.wait, "combine_wait", [*of_result, "combined", rank, *epoch, "*combined"]),
    ]


def _exchange(v: Experts) -> Any:
    """The kernels of all layers."""
    epochs: list[tuple[int, ...]] = [(e,) for e in v.epochs] or [()] * len(v.suffixes)
    layers = [_layer(v, suffix, epoch) for suffix, epoch in zip(v.suffixes, epochs, strict=True)]
    return pto.launches([kernel for layer in layers for kernel in layer], ranks=RANKS)


def _replayed(v: Experts, given: dict[str, Any]) -> dict[str, Any]:
    """What arrives at the experts, and what comes back."""
    room = RANKS * v.tokens
    found = {n: given[n].copy() for n in ("out", "scale_out", "weight_out", "route_out", "back", "count")}
    for dst in range(RANKS):
        for e in range(v.experts):
            at = e * room
            for src in range(RANKS):
                for place, expert in enumerate(given["index"][src].reshape(-1)):
                    if expert == dst * v.experts + e:
                        token = place // TOP
                        found["out"][dst, at] = given["x"][src, token]
                        found["scale_out"][dst, at] = given["scale"][src, token]
                        found["weight_out"][dst, at] = given["weight"][src].reshape(-1)[place]
                        found["route_out"][dst, at] = place
                        found["back"][src, place] = given["made"][dst, at]
                        at += 1
            found["count"][dst, e] = at - e * room
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.nightly] * (len(v.suffixes) > 1)) for n, v in EXPERTS.items()],
)
def test_rows_go_to_experts_and_results_come_back(name: str) -> None:
    v = EXPERTS[name]
    places, rng, bf16 = v.experts * RANKS * v.tokens, np.random.default_rng(5), pto.dtype("bf16").numpy
    # A token goes to an expert once.
    index = [[rng.permutation(RANKS * v.experts)[:TOP] for _ in range(v.tokens)] for _ in range(RANKS)]
    given: dict[str, Any] = {
        "index": np.array(index, np.int32),
        "x": rng.integers(-99, 99, (RANKS, v.tokens, v.width)).astype(np.int8),
        "scale": rng.standard_normal((RANKS, v.tokens), np.float32),
        "weight": rng.standard_normal((RANKS, v.tokens, TOP), np.float32),
        "made": rng.standard_normal((RANKS, places, v.width)).astype(bf16),
        "back": np.ones((RANKS, v.tokens * TOP, v.width), bf16),
        "rows": np.ones((RANKS, places, v.width), np.int8),
        "out": np.ones((RANKS, places, v.width), np.int8),
        "aux": np.ones((RANKS, places, 8), np.float32),
        **{n: np.ones((RANKS, places), np.float32) for n in ("scale_out", "weight_out")},
        "route": np.ones((RANKS, places, 8), np.int32),
        "route_out": np.ones((RANKS, places), np.int32),
        **{n: np.ones((RANKS, RANKS, v.experts), np.int32) for n in ("meta", "local")},
        "count": np.ones((RANKS, v.experts), np.int32),
        **{n: np.zeros((RANKS, 16), np.int32) for n in ("arrived", "data", "combined")},
    }
    step = _exchange(v)
    found = step(**given)
    for buffer, expected in _replayed(v, given).items():
        word = f"u{expected.dtype.itemsize}"
        np.testing.assert_array_equal(np.asarray(found[buffer]).view(word), expected.view(word), buffer)
    assert step.judge(given).exact, step.judge(given)
