"""Definedness of quantisation with a scale per group."""

from __future__ import annotations

import numpy as np

from ..isa.irregular_quant_mx import FP4_ALGS, GROUP, algorithm, along_rows
from ..oracle.irregular_quant_mx import put_exponent, put_flat, put_lanes
from ..oracle.numbers import Array
from .shadow import all_bits, first_along
from .step import ShadowStep, shadow_rule


@shadow_rule("tquant.mx", "tquant_dn")
def _quantise_groups(step: ShadowStep) -> None:
    """Every element of a group may change its exponent."""
    alg, down = algorithm(step.attrs), along_rows(step.instruction.name, step.attrs)
    if step.policy.simulator and alg in FP4_ALGS:
        step.scatter(np.zeros(1, np.int32), np.arange(step.type().elements))
    source, (rows, cols) = step.type("src"), step.valid("src")
    lines, groups = (cols, source.rows // GROUP) if down else (rows, source.cols // GROUP)
    for line in range(lines):
        for group in range(groups):
            inner, along = np.arange(group * GROUP, (group + 1) * GROUP), np.full(GROUP, line)
            at = (inner, along) if down else (along, inner)
            origin_id = first_along(step.gather("src", *at), 0)
            marked = step.marked(origin_id)
            put_lanes(marked, "dst", at, _words(step, "dst", origin_id, GROUP))
            flat = group * lines + line if down else line * groups + group
            for name in ("max", "scaling"):
                put_flat(marked, name, flat, _words(step, name, origin_id, 1))
            put_exponent(marked, 255 if origin_id else 0, (line, group), flat, down=down)


def _words(step: ShadowStep, name: str, origin_id: Array, count: int) -> Array:
    d = step.dtype(name)
    return np.full(count, all_bits(d) if origin_id else 0, d.word)
