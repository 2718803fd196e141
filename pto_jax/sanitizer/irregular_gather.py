"""Definedness of gathering."""

import numpy as np

from ..ir import CmpMode
from ..oracle import masks, storage
from ..oracle.numbers import decode
from .shadow import first, first_along
from .step import ShadowStep, shadow_rule

OUT_OF_TILE = "index beyond the tile"


@shadow_rule("tgather")
def _gather(step: ShadowStep) -> None:
    if "indices" in step.operands:
        _by_index(step)
    elif "kValue" in step.operands:
        _matches(step)
    else:
        step.moved("src")


def _by_index(step: ShadowStep) -> None:
    origin_ids = step.raw("indices")
    step.sink("index", "indices", origin_ids)
    source = step.stored("src").reshape(-1)
    index = decode(step.real.raw("indices"), step.dtype("indices")).astype(np.int64)
    inside = (index >= 0) & (index < source.size)
    step.moved("src")
    bad = first(origin_ids, np.where(inside, 0, step.origin_of(OUT_OF_TILE)))
    if bad.any():
        found = np.where(inside, source[np.where(inside, index, 0)], 0)
        step.put(first(bad, found))


def _matches(step: ShadowStep) -> None:
    """Any element of a row may change how many match, and where their numbers go."""
    t, mode = step.type(), step.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    region = step.valid("src")
    origin_ids = first_along(step.raw("src", region), 1)
    hits = masks.compare(mode, step.real.values("src", region), step.real.values("kValue"))
    for row, origin_id in enumerate(origin_ids):
        if "cdst" in step.operands and row < step.type("cdst").elements:
            step.scatter(origin_id, np.array([row]), "cdst")
        if row < t.rows:
            count = region[1] if origin_id else np.count_nonzero(hits[row])
            step.scatter(origin_id, storage.map_of(t)[row, : min(count, t.cols)])
