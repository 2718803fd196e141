"""Definedness of sorting and merging."""

import numpy as np

from ..isa.irregular_sort import BLOCK, slots
from ..oracle.irregular_sort import Records, merge
from ..oracle.numbers import Array
from ..oracle.storage import map_of
from .shadow import first, first_along
from .step import ShadowStep, shadow_rule


@shadow_rule("tsort32")
def _sort(step: ShadowStep) -> None:
    """Any key or index of a block may change where its records go."""
    t, (rows, cols) = step.type(), step.valid("src")
    if step.policy.simulator and step.valid("idx") != (rows, cols):
        return
    width = slots(t.dtype.bits)
    one_row = not step.policy.simulator and step.valid("idx")[0] == 1
    origin_ids = first(step.raw("src", (rows, cols)), step.raw("idx", (1 if one_row else rows, cols)))
    for row in range(min(rows, t.rows)):
        for base in range(0, cols, BLOCK):
            end = min(base + BLOCK, cols)
            origin_id = first_along(origin_ids[row, base:end], 0)
            # Records that do not fit are dropped as a whole.
            places = map_of(t)[row, base * width : min(end * width, t.cols // width * width)]
            step.scatter(origin_id, places)


@shadow_rule("tmrgsort")
def _merge(step: ShadowStep) -> None:
    """Any key of the lists may change the order of all records, and how many are taken."""
    width, cols = slots(step.dtype().bits), step.region[1]
    if "blockLen" in step.operands:
        length = int(step.operands["blockLen"]) & 0xFFFFFFFF
        if length and length % width == 0:
            for base in range(0, cols - 4 * length + 1, 4 * length):
                _merged(step, step.gather("src0", np.array([0]), np.arange(base, base + 4 * length)), base)
        return
    names = [n for n in step.form if n.startswith("src")]
    lists = [step.gather(n, np.array([0]), np.arange(step.valid(n)[1])) for n in names]
    lists = [origin_ids[: len(origin_ids) // width * width] for origin_ids in lists]
    together = np.concatenate(lists)
    origin_id = first_along(together, 0)
    step.sink("scalar", "executed", np.asarray(origin_id))
    taken = min(cols // width * width, len(together))
    if step.attrs["exhausted"] and not origin_id:
        taken = width * sum(int(n) for n in _taken(step, names))
    _merged(step, together[:taken] * 0 + origin_id, 0)


def _merged(step: ShadowStep, origin_ids: Array, base: int) -> None:
    t, width = step.type(), slots(step.dtype().bits)
    end = min(base + len(origin_ids), t.cols // width * width)
    step.scatter(first_along(origin_ids, 0), map_of(t)[0, base:end])


def _taken(step: ShadowStep, names: list[str]) -> list[int]:
    """How many records of each list a merge takes that stops where one is used up."""
    width, d = slots(step.dtype().bits), step.dtype()
    lists = [Records(step.real.gather(n, np.array([0]), np.arange(step.valid(n)[1])), d) for n in names]
    merge(lists, step.region[1] // width, stop_when_empty=True)
    return [source.taken for source in lists]
