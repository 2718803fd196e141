"""Kernels of models that communicate, in the order of a step, against a replay in NumPy.

PTO_CORPUS names a checkout of August 2026 or later. The head of a model is on two ranks: hidden rows go to
both, each computes a half of the logits for all rows (here: numbers by chance), and halves go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import pto_jax as pto
from tests.corpus.language import SAMPLES
from tests.corpus.launches import NO_CORPUS
from tests.corpus.test_language import _PRESENT, _ROOT

pytestmark = pytest.mark.skipif(not _PRESENT, reason=NO_CORPUS)
RANKS, WIDTH, HALF = 2, 4096, 64640


class Head(NamedTuple):
    """A variant: folders of what sends and of what receives, rows of a rank, the profile, blocks."""

    push: str
    wait: str
    rows: int
    profile: str
    gathering: int = 8
    #: Whether kernels take the first rank of their group and their place in it, not the number of the rank.
    placed: bool = False


HEADS = {
    "decode a5": Head("DeepseekV4DecodeA5", "DeepseekV4DecodeA5", 8, "a5"),
    "decode a3": Head("DeepseekV4DecodeA5", "DeepseekV4DecodeA3", 8, "a2a3"),
    "flash a5": Head("DeepseekV4FlashDsparkA5", "DeepseekV4FlashDsparkA5", 128, "a5", 128, placed=True),
}


def _kernel(
    head: Head, folder: str, name: str, bindings: Sequence[Any], blocks: int = 1
) -> tuple[Any, dict[str, Any]]:
    """A kernel with what its arguments are, in order: context records by the window with a star."""
    path = _ROOT / SAMPLES / folder / "kernels" / "aiv" / f"{name}.pto"
    program = pto.load(path)
    arguments = [a.name for a in program.functions[0].args if a.name.startswith("arg")]
    names = dict(zip(arguments, bindings, strict=True))
    context = {n: w[1:] for n, w in names.items() if isinstance(w, str) and w.startswith("*")}
    kernel = pto.compile(
        program,
        profile=head.profile,
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
    own: list[Any] = [[0, 0], [0, 1]] if head.placed else [[0, 1]]
    tokens, rng = 5, np.random.default_rng(3)

    def made(part: str, kernel: str, bindings: list[Any], blocks: int = 1) -> Any:
        return _kernel(head, part, kernel, bindings, blocks)

    gathering = rows // 16 * 8 * 2 if head.placed else 8
    sequence = [
        made(
            head.push,
            "lm_head_dispatch_push",
            ["x", "index", "chosen", "hidden", "done", *own, "*hidden", "*done", tokens],
            rows,
        ),
        made(head.wait, "lm_head_dispatch_wait", ["x", "done", *own, "*done", tokens]),
        made(head.wait, "lm_head_dispatch_gather", ["hidden", "owned", "*hidden"], gathering),
        made(
            head.push,
            "lm_head_combine_push",
            ["window", "shards", "ready", *own, "*window", "*ready"],
            24,
        ),
        made(head.wait, "lm_head_combine_wait", ["shards", "ready", *own, "*ready"]),
        made(head.wait, "lm_head_combine_gather", ["logits", "window", "*window"], 24),
        pto.host_barrier,
        made(head.wait, "lm_head_signal_clear", ["logits", "done", "ready", "*done", "*ready"]),
    ]
    step = pto.launches(sequence, ranks=RANKS)
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
    found = step(**given)
    nothing = np.zeros(WIDTH, bf16)
    both = np.stack(
        [given["x"][r, i] if i >= 0 else nothing for r in range(RANKS) for i in given["index"][r]]
    )
    parts = given["shards"].reshape(RANKS, RANKS, rows, HALF)
    logits = parts.transpose(1, 2, 0, 3).reshape(RANKS, rows, 2 * HALF)
    for buffer, wanted in (("owned", np.stack([both, both])), ("logits", logits)):
        word = f"u{found[buffer].dtype.itemsize}"
        np.testing.assert_array_equal(np.asarray(found[buffer]).view(word), wanted.view(word))
    assert not found["done"].any() and not found["ready"].any()
    # The clocks of a hundred rows on two ranks take minutes.
    assert head.placed or step.judge(given).exact
