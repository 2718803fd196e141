"""Failures of a machine with a planted defect on generated programs, each executed once."""

from collections.abc import Iterator
from copy import copy
from functools import cache
from itertools import tee

from pto_jax.cases.comparison import Outcome, compare_case
from pto_jax.cases.targets import Oracle
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import cases
from tests.campaign.shrink.planted import WRONG_ADDITION, Planted


def failures(preset: str, machine: Planted = WRONG_ADDITION) -> Iterator[Outcome]:
    """The failures in the order of the programs: what is generated may change, so nobody says where."""
    return copy(_searched(preset, machine))


@cache
def _searched(preset: str, machine: Planted) -> Iterator[Outcome]:
    (first,) = tee(_search(preset, machine), 1)
    return first


def _search(preset: str, machine: Planted) -> Iterator[Outcome]:
    for case in cases(6, 1000, PRESETS[preset]):
        # Without the instruction there is no defect.
        if any(op.name == machine.instruction for op in case.program.walk()):
            outcome = compare_case(case, Oracle(), machine)
            if outcome.is_failure:
                yield outcome
