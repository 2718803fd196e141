"""Simpler inputs: zeros and ones, few elements with small numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...generate.programs import Case
from ...ir import DType
from .search import Search

Words = NDArray[Any]
#: Elements of one input that are made simple one by one.
_ELEMENTS = 8


def simplify_inputs(search: Search) -> None:
    """One input after another: as few elements as possible that are not zero, and those simple."""
    names = list(search.case.inputs)
    if search.attempt(_with(search.case, {n: np.zeros_like(search.case.inputs[n].words) for n in names})):
        return
    for name in names:
        _thin(search, name)
    for name in names:
        _simplify(search, name)


def _with(case: Case, words: Mapping[str, Words]) -> Case:
    inputs = {n: replace(i, words=words[n]) if n in words else i for n, i in case.inputs.items()}
    return replace(case, inputs=inputs)


def _thin(search: Search, name: str) -> None:
    """Zeros wherever the failure does not need another value: halves, quarters and so on."""
    words = search.case.inputs[name].words
    if not words.any() or search.attempt(_with(search.case, {name: np.zeros_like(words)})):
        return
    if words.ndim == 0:
        return
    kept = np.flatnonzero(words)
    size = -(-len(kept) // 2)
    while size:
        for start in range(0, len(kept), size):
            part = kept[start : start + size]
            for drop in (np.setdiff1d(kept, part), part):
                made = search.case.inputs[name].words.copy()
                made.reshape(-1)[drop] = 0
                if len(drop) and search.attempt(_with(search.case, {name: made})):
                    break
            else:
                continue
            break
        places = np.flatnonzero(search.case.inputs[name].words)
        size = min(size, -(-len(places) // 2)) if len(places) < len(kept) and len(places) > 1 else size // 2
        kept = places


def _simplify(search: Search, name: str) -> None:
    """Small numbers in place of others: the same one everywhere, else one element after another."""
    i = search.case.inputs[name]
    words, d = i.words, i.type.dtype
    simple = _simple(d)
    numbers = np.unique(words[words != 0])
    if not numbers.size or (numbers.size == 1 and int(numbers[0]) in simple):
        return
    if search.first(_with(search.case, {name: np.where(words != 0, w, words)}) for w in simple):
        return
    for index in np.flatnonzero(words)[:_ELEMENTS].tolist():
        old = int(search.case.inputs[name].words.reshape(-1)[index])
        if old not in simple:
            search.first(_one(search.case, name, index, w) for w in (*simple, *_rounder(d, old)))


def _one(case: Case, name: str, index: int, word: int) -> Case:
    made = case.inputs[name].words.copy()
    made.reshape(-1)[index] = word
    return _with(case, {name: made})


def _simple(d: DType) -> list[Any]:
    """Words of small numbers."""
    if d.is_float and d.numpy != d.word:
        with np.errstate(over="ignore"):
            values = np.array([1.0, 2.0, -1.0, 0.5, 3.0], np.float32).astype(d.numpy)
        return [w for w in values.view(d.word).tolist() if w]
    top = (1 << d.bits) - 1
    return [n & top for n in ((1, 2, 3, -1) if d.is_signed or d.kind == "index" else (1, 2, 3))]


def _rounder(d: DType, word: int) -> Iterator[Any]:
    """The word with fewer of its low bits."""
    for cut in range(d.mantissa if d.is_float else d.bits - 1, 0, -max(1, d.bits // 16)):
        made = word >> cut << cut
        if made and made != word:
            yield made
