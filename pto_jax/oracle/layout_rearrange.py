"""Transposition, concatenation, interleaving and narrowing of tiles."""

import numpy as np

from . import layout_img2col, storage
from .numbers import Array, decode
from .step import Step, rule


@rule("ttrans")
def _transpose(step: Step) -> None:
    """What the source is valid in decides; the destination's valid region does not."""
    if step.type("src").conv is not None or step.type().conv is not None:
        layout_img2col.convert(step)
        return
    rows, cols = step.type().shape
    turned = step.raw("src", step.valid("src")).T[:rows, :cols]
    step.put(turned, turned.shape)


@rule("tconcat")
def _concatenate(step: Step) -> None:
    if "src0Idx" in step.operands:
        _by_counts(step)
        return
    rows = step.valid("dst")[0]
    parts = [step.raw(name, (rows, step.valid(name)[1])) for name in ("src0", "src1")]
    joined = np.concatenate(parts, axis=1)[:, : step.type().cols]
    step.put(joined, joined.shape)


def _by_counts(step: Step) -> None:
    t, (rows, cols) = step.type(), step.valid("dst")
    first, second, places = step.stored("src0"), step.stored("src1"), storage.map_of(t)
    bytes0, bytes1 = _counts(step, "src0Idx"), _counts(step, "src1Idx")
    width = step.dtype("src0Idx").bits // 8
    for r in range(rows):
        n0 = min(max(bytes0[r], 0) // width, first.shape[1])
        n1 = min(max(bytes1[r], 0) // width, second.shape[1])
        if not step.policy.simulator:
            n0 = min(n0, cols)
            n1 = min(n0 + n1, cols) - n0
        joined = np.concatenate([first[r, :n0], second[r, :n1]])[: t.cols]
        step.scatter(joined, places[r, : len(joined)])
        if "dstIdx" in step.operands:
            total = bytes0[r] + bytes1[r] if step.policy.simulator else (n0 + n1) * width
            word = np.array([total & ((1 << 8 * width) - 1)]).astype(step.dtype("dstIdx").word)
            step.scatter(word, storage.map_of(step.type("dstIdx"))[r, :1], "dstIdx")


@rule("tconcatidx")
def _concatenate_counted(step: Step) -> None:
    rows, cols = step.valid("dst")
    width, places = step.dtype("src0Idx").bits // 8, storage.map_of(step.type())
    first, second = step.stored("src0"), step.stored("src1")
    for r, (bytes0, bytes1) in enumerate(
        zip(_counts(step, "src0Idx")[:rows], _counts(step, "src1Idx")[:rows], strict=True)
    ):
        n0 = min(max(bytes0, 0) // width, step.valid("src0")[1], cols)
        n1 = min(max(bytes1, 0) // width, step.valid("src1")[1], cols - n0)
        step.scatter(np.concatenate([first[r, :n0], second[r, :n1]]), places[r, : n0 + n1])


def _counts(step: Step, name: str) -> list[int]:
    return [int(n) for n in decode(step.stored(name)[:, 0], step.dtype(name))]


@rule("tinterleave")
def _interleave(step: Step) -> None:
    rows, cols = step.valid("dst0")
    even, odd = step.raw("src0", (rows, cols)), step.raw("src1", (rows, cols))
    sequence = np.stack([even, odd], axis=2).reshape(rows, 2 * cols)
    _put(step, "dst0", sequence[:, :cols])
    # The second half begins at a column of src0.
    half = cols - cols % 2
    _put(step, "dst1", sequence[:, half : half + cols])


@rule("tdeinterleave")
def _deinterleave(step: Step) -> None:
    rows, cols = step.valid("dst0")
    if "src1" in step.operands:
        halves = [step.raw(name, (rows, cols)) for name in ("src0", "src1")]
        sequence = np.concatenate(halves, axis=1)
    else:
        sequence = step.raw("src0", (rows, 2 * cols))
    _put(step, "dst0", sequence[:, 0::2])
    _put(step, "dst1", sequence[:, 1::2])


def _put(step: Step, name: str, words: Array) -> None:
    t = step.type(name)
    inside = words[: t.rows, : t.cols]
    step.scatter(inside, storage.map_of(t)[: inside.shape[0], : inside.shape[1]], name)


@rule("tpack")
def _pack(step: Step) -> None:
    low = step.raw("src") & ((1 << step.dtype().bits) - 1)
    step.put(low.astype(step.dtype().word))
