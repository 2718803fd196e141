"""Blocks of a campaign's cases as one."""

from __future__ import annotations

from collections.abc import Iterable

from pto_jax.campaign.fuzz.batch import Batch, Tally


def joined(parts: Iterable[Batch]) -> Batch:
    """Adjoining blocks as one; at least one."""
    ordered = sorted(parts, key=lambda b: b.start)
    tally = Tally(ordered[0].start)
    for part in ordered:
        tally.add(part)
    return tally.batch()
