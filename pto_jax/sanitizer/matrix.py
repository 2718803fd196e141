"""Rules of undefined bits of products: an element depends on a row and a column of the sources.

Block-scaled products and stores through a parameter row have the same dependence.
"""

import numpy as np

from ..isa.rules.matrix import groups
from ..oracle.matrix import extents
from ..oracle.numbers import Array
from . import layout, memory
from .shadow import first, first_along
from .step import ShadowStep, shadow_rule


@shadow_rule("tmatmul", "tmatmul.acc", "tmatmul.bias", "tgemv", "tgemv.acc", "tgemv.bias")
def product(step: ShadowStep) -> None:
    """A product, added to an accumulator or with a bias where the instruction says so."""
    m, k, n = extents(step)
    left, right = _side(step, "a", (m, k), 1), _side(step, "b", (k, n), 0)
    if step.is_tile("a_scale"):
        left = first(left, _side(step, "a_scale", (m, groups(k)), 1))
        right = first(right, _side(step, "b_scale", (groups(k), n), 0))
    origin_ids = np.broadcast_to(first(left[:, None], right[None, :]), (m, n))
    if step.instruction.name.endswith(".acc"):
        origin_ids = first(origin_ids, step.raw("acc", (m, n)))
    step.put(origin_ids, (m, n))
    if step.instruction.name.endswith(".bias"):
        rows, cols = step.region
        step.put(first(step.raw("dst", (rows, cols)), step.raw("bias", (1, cols))), (rows, cols))


def _side(step: ShadowStep, name: str, region: tuple[int, int], axis: int) -> Array:
    return first_along(step.raw(name, region), axis)


shadow_rule("tmov.fp")(lambda step: layout.move(step))
shadow_rule("textract_fp")(lambda step: layout.extract(step))
shadow_rule("tinsert_fp")(lambda step: layout.insert(step))
shadow_rule("tstore_fp")(lambda step: memory.store(step))


shadow_rule(*"tmatmul.mx tmatmul.mx.acc tmatmul.mx.bias tgemv.mx tgemv.mx.acc tgemv.mx.bias".split())(
    lambda step: product(step)
)
