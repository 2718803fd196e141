"""Rules of undefined bits of quantisation, of groups with a scale, of sorts and merges."""

import numpy as np

from ..ir import QuantType
from ..isa.irregular_quant import FP4_ALGS, GROUP, algorithm, along_rows
from ..isa.irregular_sort import BLOCK, slots
from ..oracle.irregular_quant import group_counts, put_exponent, put_flat
from ..oracle.irregular_sort import Records, merge
from ..oracle.numbers import Array
from ..oracle.storage import map_of
from .shadow import all_bits, first, first_along
from .step import ShadowStep, shadow_rule


@shadow_rule("tquant")
def _quantise(step: ShadowStep) -> None:
    t, (rows, cols) = step.type(), step.valid("src")
    rows, cols = min(rows, t.rows), min(cols, t.cols)
    origin_ids = first(step.raw("src", (rows, cols)), _parameter(step, "scale", rows))
    if step.attrs["quant_type"] == QuantType.INT8_ASYM:
        origin_ids = first(origin_ids, _parameter(step, "offset", rows))
    step.put(origin_ids, (rows, cols))


def _parameter(step: ShadowStep, name: str, rows: int) -> Array:
    """Column 0, whose last valid row serves all rows from there on."""
    last = max(step.valid(name)[0] - 1, 0)
    return step.gather(name, np.minimum(np.arange(rows), last)[:, None], np.zeros((1, 1), np.int64))


@shadow_rule("tdequant")
def _dequantise(step: ShadowStep) -> None:
    rows, cols = step.region
    last = max(step.valid("scale")[1] - 1, 0)
    at = np.arange(rows)[:, None], np.minimum(np.arange(cols), last)[None, :]
    step.put(first(step.raw("src"), step.gather("scale", *at), step.gather("offset", *at)))


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
                put_flat(marked, name, flat, _word(step, name, origin_id))
            put_exponent(marked, 255 if origin_id else 0, (line, group), flat, down=down)
    _put_codes(step, codes, down=down)


def _put_codes(step: ShadowStep, codes: Array, *, down: bool) -> None:
    """Undefined codes by the lanes of the source; either of two makes a pair undefined."""
    t = step.type()
    lines, groups = group_counts(step, down=down)
    rows, cols = (groups * GROUP, lines) if down else (lines, groups * GROUP)
    origins = codes[:rows, :cols]
    if t.dtype.pair_of:
        # The last of an odd number of columns shares its pair with none.
        origins = np.pad(origins, ((0, 0), (0, cols % 2)))
        origins = first(origins[:, 0::2], origins[:, 1::2])
    origins = origins[: t.rows, : t.cols]
    step.put(origins, origins.shape)


def _word(step: ShadowStep, name: str, origin_id: Array) -> Array:
    d = step.dtype(name)
    return np.full(1, all_bits(d) if origin_id else 0, d.word)


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
    words = [step.real.gather(n, np.array([0]), np.arange(step.valid(n)[1])) for n in names]
    lists = [Records(one, d, step.real.policy.flush_subnormals) for one in words]
    merge(lists, step.region[1] // width, stop_when_empty=True)
    return [source.taken for source in lists]
