"""Definedness of gathering blocks and of scattering."""

import numpy as np

from ..oracle.irregular_index import BLOCK_BYTES
from ..oracle.numbers import decode
from ..oracle.storage import map_of
from .irregular_gather import OUT_OF_TILE
from .shadow import first
from .step import ShadowStep, shadow_rule


@shadow_rule("tgatherb")
def _blocks(step: ShadowStep) -> None:
    t, (rows, cols) = step.type(), step.region
    step.moved("src")
    per_block = BLOCK_BYTES // t.dtype.word.itemsize
    blocks = cols // per_block if step.policy.simulator else -(-cols // per_block)
    at = np.ogrid[:rows, :blocks]
    given, size = step.real.gather("offset", *at).astype(np.int64), step.type("src").bytes
    origin_ids = step.gather("offset", *at)
    step.sink("index", "offset", origin_ids)
    bad = first(origin_ids, np.where(given + BLOCK_BYTES > size, step.origin_of(OUT_OF_TILE), 0))
    for row, block in np.argwhere(bad):
        places = map_of(t)[row, block * per_block : min((block + 1) * per_block, cols)]
        step.scatter(bad[row, block], places)


@shadow_rule("tscatter")
def _scatter(step: ShadowStep) -> None:
    if "indexes" in step.operands:
        region = step.valid("indexes")
        step.sink("index", "indexes", step.raw("indexes", region))
        given = decode(step.real.raw("indexes", region), step.dtype("indexes")).astype(np.int64)
        beyond = (given < 0) | (given >= step.type().elements)
        step.sink("index", "indexes", np.where(beyond, step.origin_of(OUT_OF_TILE), 0))
    step.moved("src")
