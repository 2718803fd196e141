"""Definedness of quantisation with a scale per group."""

import numpy as np

from ..isa.irregular_quant_mx import FP4_ALGS, GROUP, algorithm, along_rows
from ..oracle.irregular_quant_mx import group_counts, put_exponent, put_flat
from ..oracle.numbers import Array
from .shadow import all_bits, first, first_along
from .step import ShadowStep, shadow_rule


@shadow_rule("tquant.mx", "tquant_dn")
def _quantise_groups(step: ShadowStep) -> None:
    """Every element of a group may change its exponent."""
    alg, down = algorithm(step.attrs), along_rows(step.attrs)
    if step.policy.simulator and alg in FP4_ALGS:
        step.scatter(np.zeros(1, np.int32), np.arange(step.type().elements))
    lines, groups = group_counts(step, down=down)
    pitch = lines if step.policy.simulator else step.type("src").cols
    codes = np.zeros(step.type("src").shape, np.int32)
    for line in range(lines):
        for group in range(groups):
            inner, along = np.arange(group * GROUP, (group + 1) * GROUP), np.full(GROUP, line)
            at = (inner, along) if down else (along, inner)
            origin_id = first_along(step.gather("src", *at), 0)
            marked = step.marked(origin_id)
            codes[at] = origin_id
            flat = group * pitch + line if down else line * groups + group
            for name in ("max", "scaling"):
                put_flat(marked, name, flat, _words(step, name, origin_id, 1))
            put_exponent(marked, 255 if origin_id else 0, (line, group), flat, down=down)
    _put_codes(step, codes, down=down)


def _put_codes(step: ShadowStep, codes: Array, *, down: bool) -> None:
    """Undefined codes by the lanes of the source; either of two makes a pair undefined."""
    t = step.type()
    lines, groups = group_counts(step, down=down)
    rows, cols = (groups * GROUP, lines) if down else (lines, groups * GROUP)
    found = codes[:rows, :cols]
    if t.dtype.pair_of:
        # The last of an odd number of columns shares its pair with none.
        found = np.pad(found, ((0, 0), (0, cols % 2)))
        found = first(found[:, 0::2], found[:, 1::2])
    found = found[: t.rows, : t.cols]
    step.put(found, found.shape)


def _words(step: ShadowStep, name: str, origin_id: Array, count: int) -> Array:
    d = step.dtype(name)
    return np.full(count, all_bits(d) if origin_id else 0, d.word)
