"""Cycle models: the cost of an instruction or a program, with the model's name on every figure.

>>> from pto_jax.cost import cycles
>>> cycles("tadd", "f32", 16, 64)
2575
>>> import numpy as np
>>> cycles("tadd", "f32", np.array([0, 1, 16]), 64).tolist()
[0, 175, 2575]
"""

import sys
from types import ModuleType
from typing import Any

from .instruction import MODELS as MODELS, cycles as cycles, estimate as estimate
from .program import CostLine as CostLine, CostReport as CostReport, cost as cost
from .search import (
    Candidate as Candidate,
    Ranking as Ranking,
    Tuning as Tuning,
    Variant as Variant,
    rank as rank,
    tune as tune,
)
from .work import Figure as Figure, Model as Model, Path as Path

__all__ = [
    "MODELS",
    "Candidate",
    "CostLine",
    "CostReport",
    "Figure",
    "Model",
    "Path",
    "Ranking",
    "Tuning",
    "Variant",
    "cost",
    "cycles",
    "estimate",
    "rank",
    "tune",
]


class _Callable(ModuleType):
    """Lets ``pto_jax.cost`` be called whether it names the function or this module."""

    def __call__(self, *args: Any, **options: Any) -> CostReport:
        return cost(*args, **options)


sys.modules[__name__].__class__ = _Callable
