"""Rules of undefined bits of irregular instructions: gathers, scatters, histograms, partial tiles."""

import numpy as np

from ..ir import CmpMode
from ..isa.irregular import counted_byte
from ..oracle import irregular, storage
from ..oracle.irregular import BLOCK_BYTES
from ..oracle.numbers import Array, decode
from ..oracle.step import compare
from ..oracle.storage import map_of
from .shadow import first, first_along
from .step import ShadowStep, shadow_rule


@shadow_rule("tci")
def _sequence(step: ShadowStep) -> None:
    step.define((1, step.region[1]))


@shadow_rule("ttri", "trandom")
def _made(step: ShadowStep) -> None:
    step.define()


@shadow_rule("tprint")
def _print(step: ShadowStep) -> None:
    if step.machine.strict:
        step.sink("read", "src", step.raw("src", step.valid("src")))


@shadow_rule("thistogram")
def _histogram(step: ShadowStep) -> None:
    """Any element of a row may change all its counts."""
    rows, cols = step.valid("src")
    origin_ids = first_along(step.raw("src", (rows, cols)), 1)
    if step.is_tile("idx"):
        origin_ids = first(origin_ids, _filters(step, rows))
    rows, cols = min(rows, step.type().rows), min(256, step.type().cols)
    step.put(np.broadcast_to(origin_ids[:rows, None], (rows, cols)), (rows, cols))


def _filters(step: ShadowStep, rows: int) -> Array:
    """One filter per row for 16-bit sources, one per higher byte for 32-bit ones."""
    bits, byte = step.dtype("src").bits, counted_byte(step.dtype("src").bits, step.attrs)
    origins = [np.zeros(rows, np.int32)]
    for above in range(byte + 1, bits // 8):
        at = np.arange(rows) if bits == 16 else np.full(rows, 3 - above)
        origins.append(step.gather("idx", at, np.zeros(rows, np.int64)))
    return first(*origins)


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
        origins = np.where(inside, source[np.where(inside, index, 0)], 0)
        step.put(first(bad, origins))


def _matches(step: ShadowStep) -> None:
    """Any element of a row may change how many match, and where their numbers go."""
    t, mode = step.type(), step.attrs["cmpMode"]
    assert isinstance(mode, CmpMode)
    region = step.valid("src")
    origin_ids = first_along(step.raw("src", region), 1)
    hits = compare(mode, step.real.values("src", region), step.real.values("kValue"))
    for row, origin_id in enumerate(origin_ids):
        if "cdst" in step.operands and row < step.type("cdst").elements:
            step.scatter(origin_id, np.array([row]), "cdst")
        if row < t.rows:
            count = region[1] if origin_id else np.count_nonzero(hits[row])
            step.scatter(origin_id, storage.map_of(t)[row, : min(count, t.cols)])


@shadow_rule("tgatherb")
def _blocks(step: ShadowStep) -> None:
    t, (rows, cols) = step.type(), step.region
    step.moved("src")
    per_block = BLOCK_BYTES // t.dtype.word.itemsize
    blocks = cols // per_block if step.policy.simulator else -(-cols // per_block)
    at = np.ogrid[:rows, :blocks]
    offsets, size = step.real.gather("offset", *at).astype(np.int64), step.type("src").bytes
    origin_ids = step.gather("offset", *at)
    step.sink("index", "offset", origin_ids)
    bad = first(origin_ids, np.where(offsets + BLOCK_BYTES > size, step.origin_of(OUT_OF_TILE), 0))
    for row, block in np.argwhere(bad):
        places = map_of(t)[row, block * per_block : min((block + 1) * per_block, cols)]
        step.scatter(bad[row, block], places)


@shadow_rule("tscatter")
def _scatter(step: ShadowStep) -> None:
    if "indexes" in step.operands:
        region = step.valid("indexes")
        step.sink("index", "indexes", step.raw("indexes", region))
        indices = decode(step.real.raw("indexes", region), step.dtype("indexes")).astype(np.int64)
        beyond = (indices < 0) | (indices >= step.type().elements)
        step.sink("index", "indexes", np.where(beyond, step.origin_of(OUT_OF_TILE), 0))
    step.moved("src")


@shadow_rule("tpartadd", "tpartmul", "tpartmax", "tpartmin")
def _partial(step: ShadowStep) -> None:
    """A lane takes the sources that are valid there."""
    step.put(irregular.choose(step, ("src0", "src1"), first(step.raw("src0"), step.raw("src1"))))


@shadow_rule("tpartargmax", "tpartargmin")
def _partial_position(step: ShadowStep) -> None:
    """Both values decide, then the chosen value and its number are taken."""
    values = first(step.raw("src0"), step.raw("src1"))
    wins = irregular.FIRST_WINS[step.instruction.name][step.policy.profile.name]
    chosen_first = wins(step.real.values("src0"), step.real.values("src1"))
    for suffix in ("", "Idx"):
        names = (f"src0{suffix}", f"src1{suffix}")
        taken = np.where(chosen_first, step.raw(names[0]), step.raw(names[1]))
        origin_ids = irregular.choose(step, names, first(values, taken))
        rows, cols = step.region
        target = f"dst{suffix}"
        step.scatter(origin_ids, storage.map_of(step.type(target))[:rows, :cols], target)
