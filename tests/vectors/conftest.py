"""The recorded results, and how many cases their files say they have."""

import json
from pathlib import Path

import numpy as np
import pytest

from pto_jax.vectors.manifest import Case, load_file, vector_files

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def golden() -> list[Case]:
    return [case for path in vector_files([GOLDEN]) for case in load_file(path)]


@pytest.fixture(scope="module")
def recorded_cases() -> int:
    """Cases that the files' manifests list, counted without the reader under test."""
    return sum(len(json.loads(str(np.load(p)["manifest"]))) for p in GOLDEN.glob("*.npz"))
