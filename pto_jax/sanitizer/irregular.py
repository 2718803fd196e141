"""Definedness of sequences, patterns, random numbers, histograms and prints."""

import numpy as np

from ..isa.irregular import counted_byte
from ..oracle.numbers import Array
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
    found = [np.zeros(rows, np.int32)]
    for above in range(byte + 1, bits // 8):
        at = np.arange(rows) if bits == 16 else np.full(rows, 3 - above)
        found.append(step.gather("idx", at, np.zeros(rows, np.int64)))
    return first(*found)
