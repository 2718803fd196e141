"""Definedness of quantisation."""

from __future__ import annotations

import numpy as np

from ..ir.types import MxQuantAlg, QuantType
from ..isa.irregular_quant_mx import FP4_ALGS, GROUP
from ..oracle.irregular_quant_mx import put_exponent, put_flat, put_lanes
from ..oracle.numbers import Array
from .shadow import all_bits, first, first_along
from .step import ShadeStep, shades


@shades("tquant")
def _quantise(step: ShadeStep) -> None:
    t, (rows, cols) = step.type(), step.valid("src")
    rows, cols = min(rows, t.rows), min(cols, t.cols)
    codes = first(step.raw("src", (rows, cols)), _parameter(step, "scale", rows))
    if step.attrs["quant_type"] == QuantType.INT8_ASYM:
        codes = first(codes, _parameter(step, "offset", rows))
    step.put(codes, (rows, cols))


def _parameter(step: ShadeStep, name: str, rows: int) -> Array:
    """Column 0, whose last valid row serves all rows from there on."""
    last = max(step.valid(name)[0] - 1, 0)
    return step.gather(name, np.minimum(np.arange(rows), last)[:, None], np.zeros((1, 1), np.int64))


@shades("tdequant")
def _dequantise(step: ShadeStep) -> None:
    rows, cols = step.region
    last = max(step.valid("scale")[1] - 1, 0)
    at = np.arange(rows)[:, None], np.minimum(np.arange(cols), last)[None, :]
    step.put(first(step.raw("src"), step.gather("scale", *at), step.gather("offset", *at)))


@shades("tquant.mx", "tquant_dn")
def _quantise_groups(step: ShadeStep) -> None:
    """Every element of a group may change its exponent."""
    alg = step.attrs["mx_alg"]
    assert isinstance(alg, MxQuantAlg)
    if step.policy.simulator and alg in FP4_ALGS:
        step.scatter(np.zeros(1, np.int32), np.arange(step.type().elements))
    down = step.instruction.name == "tquant_dn" or step.attrs.get("grp_axis") == 0
    source, (rows, cols) = step.type("src"), step.valid("src")
    lines, groups = (cols, source.rows // GROUP) if down else (rows, source.cols // GROUP)
    for line in range(lines):
        for group in range(groups):
            inner, along = np.arange(group * GROUP, (group + 1) * GROUP), np.full(GROUP, line)
            at = (inner, along) if down else (along, inner)
            code = first_along(step.gather("src", *at), 0)
            marked = step.marked(code)
            put_lanes(marked, "dst", at, _words(step, "dst", code, GROUP))
            flat = group * lines + line if down else line * groups + group
            for name in ("max", "scaling"):
                put_flat(marked, name, flat, _words(step, name, code, 1))
            put_exponent(marked, 255 if code else 0, (line, group), flat, down=down)


def _words(step: ShadeStep, name: str, code: Array, count: int) -> Array:
    d = step.dtype(name)
    return np.full(count, all_bits(d) if code else 0, d.word)
