"""Definedness of sequences, gathering, scattering, sorting, partial tiles and histograms."""

from __future__ import annotations

import numpy as np

from ..ir.types import CmpMode
from ..isa.irregular import counted_byte
from ..isa.irregular_sort import BLOCK, slots
from ..oracle import masks
from ..oracle.irregular_index import BLOCK_BYTES
from ..oracle.irregular_partial import choose
from ..oracle.irregular_sort import Records, merge
from ..oracle.numbers import Array, decode
from ..oracle.storage import map_of
from .shadow import first, first_along
from .step import ShadeStep, shades

OUT_OF_TILE = "index beyond the tile"


@shades("tci")
def _sequence(step: ShadeStep) -> None:
    step.define((1, step.region[1]))


@shades("ttri", "trandom")
def _made(step: ShadeStep) -> None:
    step.define()


@shades("tprint")
def _print(step: ShadeStep) -> None:
    if step.machine.strict:
        step.sink("read", "src", step.raw("src", step.valid("src")))


@shades("thistogram")
def _histogram(step: ShadeStep) -> None:
    """Any element of a row may change all its counts."""
    rows, cols = step.valid("src")
    codes = first_along(step.raw("src", (rows, cols)), 1)
    if step.is_tile("idx"):
        codes = first(codes, _filters(step, rows))
    rows, cols = min(rows, step.type().rows), min(256, step.type().cols)
    step.put(np.broadcast_to(codes[:rows, None], (rows, cols)), (rows, cols))


def _filters(step: ShadeStep, rows: int) -> Array:
    """One filter per row for 16-bit sources, one per higher byte for 32-bit ones."""
    bits, byte = step.dtype("src").bits, counted_byte(step.dtype("src").bits, step.attrs)
    found = [np.zeros(rows, np.int32)]
    for above in range(byte + 1, bits // 8):
        at = np.arange(rows) if bits == 16 else np.full(rows, 3 - above)
        found.append(step.gather("idx", at, np.zeros(rows, np.int64)))
    return first(*found)


# -- gathering and scattering ------------------------------------------------------------------------


@shades("tgather")
def _gather(step: ShadeStep) -> None:
    if "indices" in step.operands:
        _by_index(step)
    elif "kValue" in step.operands:
        _matches(step)
    else:
        step.moved("src")


def _by_index(step: ShadeStep) -> None:
    codes = step.raw("indices")
    step.sink("index", "indices", codes)
    source = step.stored("src").reshape(-1)
    index = decode(step.real.raw("indices"), step.dtype("indices")).astype(np.int64)
    inside = (index >= 0) & (index < source.size)
    step.moved("src")
    bad = first(codes, np.where(inside, 0, step.origin(OUT_OF_TILE)))
    if bad.any():
        found = np.where(inside, source[np.where(inside, index, 0)], 0)
        step.put(first(bad, found))


def _matches(step: ShadeStep) -> None:
    """Any element of a row may change how many match, and where their numbers go."""
    t, mode = step.type(), step.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    region = step.valid("src")
    codes = first_along(step.raw("src", region), 1)
    hits = masks.compare(mode, step.real.values("src", region), step.real.values("kValue"))
    for row, code in enumerate(codes):
        if "cdst" in step.operands and row < step.type("cdst").elements:
            step.scatter(code, np.array([row]), "cdst")
        if row < t.rows:
            count = region[1] if code else np.count_nonzero(hits[row])
            step.scatter(code, map_of(t)[row, : min(count, t.cols)])


@shades("tgatherb")
def _blocks(step: ShadeStep) -> None:
    t, (rows, cols) = step.type(), step.region
    step.moved("src")
    per_block = BLOCK_BYTES // t.dtype.word.itemsize
    blocks = cols // per_block if step.policy.simulator else -(-cols // per_block)
    at = np.ogrid[:rows, :blocks]
    given, size = step.real.gather("offset", *at).astype(np.int64), step.type("src").bytes
    codes = step.gather("offset", *at)
    step.sink("index", "offset", codes)
    bad = first(codes, np.where(given + BLOCK_BYTES > size, step.origin(OUT_OF_TILE), 0))
    for row, block in np.argwhere(bad):
        places = map_of(t)[row, block * per_block : min((block + 1) * per_block, cols)]
        step.scatter(bad[row, block], places)


@shades("tscatter")
def _scatter(step: ShadeStep) -> None:
    if "indexes" in step.operands:
        region = step.valid("indexes")
        step.sink("index", "indexes", step.raw("indexes", region))
        given = decode(step.real.raw("indexes", region), step.dtype("indexes")).astype(np.int64)
        beyond = (given < 0) | (given >= step.type().elements)
        step.sink("index", "indexes", np.where(beyond, step.origin(OUT_OF_TILE), 0))
    step.moved("src")


# -- sorting -----------------------------------------------------------------------------------------


@shades("tsort32")
def _sort(step: ShadeStep) -> None:
    """Any key or index of a block may change where its records go."""
    t, (rows, cols) = step.type(), step.valid("src")
    if step.policy.simulator and step.valid("idx") != (rows, cols):
        return
    width = slots(t.dtype.bits)
    one_row = not step.policy.simulator and step.valid("idx")[0] == 1
    codes = first(step.raw("src", (rows, cols)), step.raw("idx", (1 if one_row else rows, cols)))
    for row in range(min(rows, t.rows)):
        for base in range(0, cols, BLOCK):
            end = min(base + BLOCK, cols)
            code = first_along(codes[row, base:end], 0)
            # Records that do not fit are dropped as a whole.
            places = map_of(t)[row, base * width : min(end * width, t.cols // width * width)]
            step.scatter(code, places)


@shades("tmrgsort")
def _merge(step: ShadeStep) -> None:
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
    lists = [codes[: len(codes) // width * width] for codes in lists]
    together = np.concatenate(lists)
    code = first_along(together, 0)
    step.sink("scalar", "executed", np.asarray(code))
    taken = min(cols // width * width, len(together))
    if step.attrs["exhausted"] and not code:
        taken = width * sum(int(n) for n in _taken(step, names))
    _merged(step, together[:taken] * 0 + code, 0)


def _merged(step: ShadeStep, codes: Array, base: int) -> None:
    t, width = step.type(), slots(step.dtype().bits)
    end = min(base + len(codes), t.cols // width * width)
    step.scatter(first_along(codes, 0), map_of(t)[0, base:end])


def _taken(step: ShadeStep, names: list[str]) -> list[int]:
    """How many records of each list a merge takes that stops where one is used up."""
    width, d = slots(step.dtype().bits), step.dtype()
    lists = [Records(step.real.gather(n, np.array([0]), np.arange(step.valid(n)[1])), d) for n in names]
    merge(lists, step.region[1] // width, stop_when_empty=True)
    return [source.taken for source in lists]


# -- two tiles of different extent -------------------------------------------------------------------


@shades("tpartadd", "tpartmul", "tpartmax", "tpartmin")
def _partial(step: ShadeStep) -> None:
    """A lane takes the sources that are valid there."""
    step.put(choose(step, ("src0", "src1"), first(step.raw("src0"), step.raw("src1"))))


@shades("tpartargmax", "tpartargmin")
def _partial_position(step: ShadeStep) -> None:
    """Both values decide, then the chosen value and its number are taken."""
    values = first(step.raw("src0"), step.raw("src1"))
    better = np.greater if step.instruction.name.endswith("max") else np.less
    chosen_first = better(step.real.values("src0"), step.real.values("src1"))
    for suffix in ("", "Idx"):
        names = (f"src0{suffix}", f"src1{suffix}")
        taken = np.where(chosen_first, step.raw(names[0]), step.raw(names[1]))
        codes = choose(step, names, first(values, taken))
        rows, cols = step.region
        target = f"dst{suffix}"
        step.scatter(codes, map_of(step.type(target))[:rows, :cols], target)
