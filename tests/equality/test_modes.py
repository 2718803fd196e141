"""The same bits from every way to execute an instruction, for every declaration, type row and profile.

Each sample runs on a batch of random bit patterns with a different valid region per element: once through
``jit(shard_map(vmap(kernel)))`` on two devices, element by element eagerly, and in the reference
interpreter. Instructions with a declared ULP bound may differ from the interpreter by that bound, never
between modes of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from numpy.typing import NDArray

from pto_jax import isa
from pto_jax.dtypes import DType
from pto_jax.engine import Kernel
from pto_jax.isa.samples import Sample, legal_samples
from pto_jax.profiles import PROFILES, Profile
from pto_jax.testing.differential import BATCH, arguments, computes, differing, make_case, result_words


def _samples() -> Iterator[Any]:
    for name, instruction in isa.instructions().items():
        if computes(instruction):
            for profile in PROFILES.values():
                if next(legal_samples(instruction, profile), None) is not None:
                    yield pytest.param(instruction, profile, id=f"{name}-{profile.name}")


def _everywhere(kernel: Kernel, arguments: dict[str, Any]) -> dict[str, Any]:
    """jit(shard_map(vmap(kernel))) over two devices."""
    mesh = jax.make_mesh((2,), ("tiles",), axis_types=(jax.sharding.AxisType.Auto,))
    over = PartitionSpec("tiles")  # type: ignore[no-untyped-call]
    mapped = jax.shard_map(jax.vmap(lambda a: kernel(**a)), mesh=mesh, in_specs=(over,), out_specs=over)
    result: dict[str, Any] = jax.jit(mapped)(arguments)
    return result


def _assert_equal(d: DType, got: NDArray[Any], wanted: NDArray[Any], ulp: int, what: str) -> None:
    different = differing(d, got, wanted, ulp)
    if different.any():
        r, c = np.argwhere(different)[0]
        raise AssertionError(
            f"{what}: {different.sum()} lanes differ, first ({r}, {c}): "
            f"{got[r, c]:#x}, wanted {wanted[r, c]:#x}"
        )


def _check(sample: Sample, profile: Profile, eager: bool) -> None:
    case = make_case(sample, profile)
    batched = _everywhere(case.kernel, arguments(case.given))
    for b in range(BATCH):
        single = case.kernel.eager_unchecked(**arguments(case.given, b)) if eager else {}
        for name, wanted in case.reference(b).items():
            got = result_words(case.dtype(name), batched[name], b)
            what = f"{case.label}, batch {b}"
            _assert_equal(case.dtype(name), got, wanted, case.ulp(name), f"{what}, engine and interpreter")
            if eager:
                alone = result_words(case.dtype(name), single[name])
                np.testing.assert_array_equal(alone, got, f"{what}, eager")


@pytest.mark.parametrize(("instruction", "profile"), list(_samples()))
def test_every_mode_gives_the_same_bits(instruction: isa.Instruction, profile: Profile) -> None:
    # Eager execution compiles apart from the batch; one type row per instruction and profile shows it.
    for index, sample in enumerate(legal_samples(instruction, profile)):
        _check(sample, profile, eager=index == 0)
