"""The kernels of models execute jitted and in the interpreter with equal bits, on generated inputs.

PTO_CORPUS names a checkout of August 2026 or later. Every fortieth kernel is executed, PTO_MODELS_EVERY says
another number (1 for all, an hour on two cores); ``-s`` prints the table.
"""

from __future__ import annotations

import os
from functools import cache

import pytest

from tests.corpus.language import SAMPLES
from tests.corpus.launches import NO_CORPUS
from tests.corpus.models import Row, files, measure, summary
from tests.corpus.test_language import _PRESENT, _ROOT

pytestmark = pytest.mark.skipif(not _PRESENT, reason=NO_CORPUS)
EVERY = int(os.environ.get("PTO_MODELS_EVERY", "40"))
#: Kernels without communication, of a hundred, whose executions are equal.
FLOOR = 97


@cache
def rows() -> tuple[Row, ...]:
    """The kernels that are measured."""
    return tuple(measure(files(_ROOT)[::EVERY], _ROOT / SAMPLES))


def test_kernels_execute_alike() -> None:
    print(f"\n{summary(rows())}")
    own = [r for r in rows() if r.kind != "communication"]
    assert sum(r.kind == "equal" for r in own) * 100 >= FLOOR * len(own), summary(rows())


def test_no_kernel_differs_or_crashes() -> None:
    wrong = [r for r in rows() if r.kind in ("different", "crashed", "died", "rejected", "refused")]
    assert not wrong, "\n".join(map(str, wrong))
