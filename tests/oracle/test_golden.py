"""The reference interpreter against every recorded case."""

from __future__ import annotations

from pathlib import Path

import pytest

from pto_jax.vectors.conformance import run_case
from pto_jax.vectors.execute import run_case_oracle
from pto_jax.vectors.manifest import load_file

FILES = sorted((Path(__file__).parents[1] / "golden").glob("*.npz"))


@pytest.mark.variants(22)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_recorded_values(path: Path) -> None:
    results = [run_case(case, run_case_oracle) for case in load_file(path)]
    failures = [f"{r.id} ({r.label}): {r.detail}" for r in results if r.status == "fail"]
    assert not failures, "\n".join(failures)
    assert any(r.status == "pass" for r in results)


def test_instructions_with_vectors_exist() -> None:
    assert {"tadd", "tcvt", "tload", "tstore", "tmov"} <= {p.stem for p in FILES}
