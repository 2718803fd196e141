"""Stores: one transaction per block, what two stores must share to be merged, and what conflicts."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pto_jax.campaign.fuzz.batch import Batch, Failure
from pto_jax.campaign.fuzz.cluster import merge
from pto_jax.campaign.fuzz.identity import identity
from pto_jax.campaign.fuzz.plan import Plan
from pto_jax.campaign.fuzz.store import Store
from pto_jax.errors import ArgumentError, FileError, PtoError
from tests.campaign.blocks import joined

PLAN = Plan(seed=4, count=12, batch=4)
ULP = '{"texp|f32": {"buckets": {"0": 2}, "nan": 0, "worst": 0}}'


def block(start: int, count: int = 4) -> Batch:
    failed = Failure(start + 1, f"id{start}", "different", "a5", "tadd", "why", "what", None, {"index": 3})
    kinds = Counter(equal=count - 1, different=1)
    return Batch(start, count, kinds, Counter({"tadd|f32|-|full|row": count}), ULP, (failed,))


def store(path: Path, *blocks: Batch, plan: Plan = PLAN, process: int = 0, **known: Any) -> Path:
    campaign = {**identity(plan, process, 2), "started": float(process), **known}
    with Store.create(path, campaign) as made:
        for b in blocks:
            made.add(b, f"{process}.0", 0.5)
    return path


def test_merged_stores_have_every_block_once(tmp_path: Path) -> None:
    a = store(tmp_path / "a", block(0), block(8), device="cpu: x")
    b = store(tmp_path / "b", block(4), block(8), process=1, device="gpu: y")
    assert merge([b, a], tmp_path / "out") == 12
    with Store.open(tmp_path / "out") as merged:
        assert [found[0] for found in merged.batches()] == [block(0), block(4), block(8)]
        assert merged.kinds() == {"equal": 9, "different": 3}
        assert merged.coverage() == {"tadd|f32|-|full|row": 12}
        known = merged.campaign()
    assert (known["start"], known["count"], known["processes"]) == (0, 12, 1)
    assert known["device"] == "cpu: x, gpu: y"
    assert not list(tmp_path.glob("*.part*"))


def test_ranges_of_one_seed_merge(tmp_path: Path) -> None:
    a = store(tmp_path / "a", block(0), plan=replace(PLAN, count=4))
    b = store(tmp_path / "b", block(100), plan=replace(PLAN, start=100, count=4))
    assert merge([a, b], tmp_path / "out") == 8
    with Store.open(tmp_path / "out") as merged:
        assert (merged.value("start"), merged.value("count")) == (0, 104)


@pytest.mark.parametrize(
    ("other", "plan", "message"),
    [
        (block(8, 3), PLAN, "cases 8 to 11 and 8 to 10 overlap; allowed: the same blocks, or others"),
        (block(10), PLAN, "cases 8 to 11 and 10 to 13 overlap"),
        (replace(block(8), kinds=Counter(equal=4)), PLAN, "cases 8 to 11 have different kinds"),
        (replace(block(8), failures=()), PLAN, "cases 8 to 11 have different failures"),
        (replace(block(8), ulp="{}"), PLAN, "cases 8 to 11 have different ulp"),
        (block(4), replace(PLAN, seed=5), "are different campaigns: seed: 4, not 5"),
        (block(4), replace(PLAN, tested="jit"), "are different campaigns: tested: eager, not jit"),
    ],
)
def test_conflicts_leave_no_store(tmp_path: Path, other: Batch, plan: Plan, message: str) -> None:
    a = store(tmp_path / "a", block(0), block(8))
    b = store(tmp_path / "b", other, process=1, plan=plan)
    with pytest.raises(ArgumentError, match=message):
        merge([a, b], tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir() if "out" in p.name) == []


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    a = store(tmp_path / "a", block(0))
    (tmp_path / "text").write_text("text")
    cases: list[tuple[list[Path], str, str]] = [
        ([a, tmp_path / "missing"], "out", "missing: no such store"),
        ([a, tmp_path / "text"], "out", "text: is no SQLite file"),
        ([a], "a", "a: exists; give the name of a new file"),
        ([], "out", "no store to merge"),
    ]
    for stores, out, message in cases:
        with pytest.raises(PtoError, match=message):
            merge(stores, tmp_path / out)


def test_a_block_and_its_failures_are_one_transaction(tmp_path: Path) -> None:
    path = store(tmp_path / "a", block(0))
    with Store.open(path) as opened:
        # The second failure of this block is one that the store has already.
        twice = replace(block(4), failures=(*block(4).failures, *block(0).failures))
        with pytest.raises(FileError, match="written by another campaign at the same time"):
            opened.add(twice, "0", 0.0)
        assert opened.done() == {0: 4}
        assert [row[0] for row in opened.rows("SELECT case_index FROM failure")] == [1]
        opened.add(block(4), "0", 0.0)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_parts_of_a_block_join_to_the_whole() -> None:
    whole = joined([block(6, 2), block(0), block(4, 2)])
    assert (whole.start, whole.count, whole.kinds) == (0, 8, {"equal": 5, "different": 3})
    assert [f.index for f in whole.failures] == [1, 5, 7]
    assert whole.ulp == ULP.replace('"0": 2', '"0": 6') and whole.coverage.total() == 8
