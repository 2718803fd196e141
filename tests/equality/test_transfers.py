"""The same bits from engine and interpreter for transfers of every layout, on batches of regions."""

from typing import Any

import jax
import numpy as np
import pytest

from pto_jax import isa
from pto_jax.isa.samples.operations import legal_samples
from pto_jax.profiles import A5, CPU_SIM, Profile
from pto_jax.testing.differential import BATCH, Case, arguments, make_case, result_words


def _cases(name: str, profile: Profile) -> list[Case]:
    """Transfers with a layout of their own; plain ones differ in the width of elements only."""
    samples = legal_samples(isa.instructions()[name], profile)
    return [make_case(s, profile) for s in samples if s.attrs]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tload", "tstore", "tstore_fp"])
def test_transfers_of_every_layout(name: str) -> None:
    cases = [case for p in (CPU_SIM, A5) for case in _cases(name, p)]

    def together(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [case.kernel(**g) for case, g in zip(cases, given, strict=True)]

    found = jax.jit(jax.vmap(together))([arguments(case.given) for case in cases])
    for case, results in zip(cases, found, strict=True):
        for b in range(BATCH):
            for result, expected in case.reference(b).items():
                got = result_words(case.dtype(result), results[result], b)
                what = f"{case.label} [{case.profile.name}], batch {b} of {case.program}"
                np.testing.assert_array_equal(got, expected, what)
