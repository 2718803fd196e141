"""How an instruction at fault fails on inputs that are like each other's in all failures.

The inputs of a case may hide what is wrong: where a tile holds one value, a lost write and a wrong value
look alike. So the cause of a failure is named after inputs made here, wherever it shows with them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...generate.programs import Case
from ...generate.state import Input
from ...generate.values import Recipe, words
from ...ir.types import ScalarType
from .search import Finding, Machines

_RECIPES: tuple[Recipe, ...] = ("uniform", "specials", "bits")


def representative_inputs(machines: Machines, finding: Finding) -> Finding:
    """The failure on ordinary values, else on special ones, else on those it was found with."""
    if finding.signature != "values":
        return finding
    for recipe in _RECIPES:
        failure = machines.fails(_filled(finding.case, recipe), finding.signature)
        if failure is not None:
            return failure
    return finding


def _filled(case: Case, recipe: Recipe) -> Case:
    rng = np.random.default_rng(0)

    def one(i: Input) -> Input:
        if isinstance(i.type, ScalarType) and not i.type.dtype.is_float:
            return i
        return replace(i, words=words(rng, i.type.dtype, i.words.shape, recipe))

    return replace(case, inputs={name: one(i) for name, i in case.inputs.items()})
