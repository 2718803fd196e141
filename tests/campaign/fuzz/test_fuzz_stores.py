"""Stores: one transaction per block."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pto_jax.campaign.fuzz.batch import Batch, Block, Failure
from pto_jax.campaign.fuzz.plan import Plan, identity
from pto_jax.campaign.fuzz.store import Store
from pto_jax.errors import FileError
from tests.campaign.blocks import joined

PLAN = Plan(seed=4, count=12, batch=4)
ULP = '{"texp|f32": {"buckets": {"0": 2}, "nan": 0, "worst": 0}}'


def block(start: int, count: int = 4) -> Batch:
    failed = Failure(start + 1, f"id{start}", "different", "a5", "tadd", "why", "what", None, {"index": 3})
    kinds = Counter(equal=count - 1, different=1)
    return Batch(start, count, kinds, Counter({"tadd|f32|-|full|row": count}), ULP, (failed,))


def store(path: Path, *batches: Batch) -> Path:
    with Store.create(path, {**identity(PLAN), "started": 0.0}) as made:
        made.update([unsaved(b) for b in batches])
    return path


def unsaved(batch: Batch) -> Block:
    """A finished block that no store has."""
    whole = Block(batch.start, batch.count)
    whole.add(batch, 0.5)
    return whole


def test_a_block_and_its_failures_are_one_transaction(tmp_path: Path) -> None:
    path = store(tmp_path / "a", block(0))
    with Store.open(path) as opened:
        # The second failure of this block is one that the store has already.
        twice = replace(block(4), failures=(*block(4).failures, *block(0).failures))
        with pytest.raises(FileError, match="written by another campaign at the same time"):
            opened.update([unsaved(twice)])
        assert opened.done() == {0: 4}
        assert [row[0] for row in opened.rows("SELECT case_index FROM failure")] == [1]
        opened.update([unsaved(block(4))])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_parts_of_a_block_join_to_the_whole() -> None:
    whole = joined([block(6, 2), block(0), block(4, 2)])
    assert (whole.start, whole.count, whole.kinds) == (0, 8, {"equal": 5, "different": 3})
    assert [f.index for f in whole.failures] == [1, 5, 7]
    assert whole.ulp == ULP.replace('"0": 2', '"0": 6') and whole.coverage.total() == 8
