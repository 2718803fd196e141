"""The same bits from every way to execute an instruction, for every declaration, type and profile.

The samples show every element type, form, mode and layout of a profile, not their product (which
``python -m pto_jax.testing.device_check`` runs). Each runs on a batch of random bit patterns with a
different valid region per element: through ``jit(shard_map(vmap(kernel)))`` on two devices, element by
element eagerly, and in the reference interpreter. Instructions with a declared ULP bound may differ from
the interpreter by that bound, never between modes of the engine.

Compilations are what these tests spend their time on. So the samples of an instruction are compiled
together, and a sample that traces to the same computation under several profiles is executed once and
compared with the interpreter under each of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.sharding import PartitionSpec
from numpy.typing import NDArray

from pto_jax import isa
from pto_jax.ir import DType
from pto_jax.isa.samples.operations import Sample, legal_samples
from pto_jax.lowering.bits import x64
from pto_jax.profiles import PROFILES
from pto_jax.testing.differential import (
    BATCH,
    Case,
    arguments,
    computes,
    differing,
    make_case,
    result_words,
)
from tests.covering import covering, types_shown

#: Samples in one compilation.
TOGETHER = 16
#: One instruction of every kind of rule; the others are compiled for minutes.
QUICK = frozenset("tadd tshls tcmp trowsum tcolexpand".split())
#: Instructions of further kinds, which are compiled for seconds.
SLOW = frozenset({"tmatmul", "tmov", "tsort32"})


def _instructions() -> Iterator[Any]:
    for name, instruction in isa.instructions().items():
        profiles = (next(legal_samples(instruction, p), None) for p in PROFILES.values())
        if computes(instruction) and any(profiles):
            nightly = () if name in SLOW else (pytest.mark.nightly,)
            marks = () if name in QUICK else (pytest.mark.slow, *nightly)
            yield pytest.param(instruction, id=name, marks=marks)


def _cases(instruction: isa.Instruction) -> list[Case]:
    """Samples under every profile. What the simulator does with each type is recorded, and compared in
    tests/conformance; here it shows the types that no hardware profile has."""
    cases: list[Case] = []
    taken: list[Sample] = []
    for name in ("a5", "a2a3", "cpu_sim"):
        labels, known = {case.label for case in cases}, set[object]()
        if name == "cpu_sim":
            known = {shown for sample in taken for shown in types_shown(sample)}
        samples = covering(legal_samples(instruction, PROFILES[name]), labels, known)
        taken += samples
        cases += [make_case(s, PROFILES[name]) for s in samples]
    return cases


def _key(case: Case) -> tuple[Any, ...]:
    """Equal for cases that trace to one computation on one batch of operands."""
    with x64():
        program = jax.make_jaxpr(lambda tiles: case.kernel(**tiles))(arguments(case.given, 0))
        code = (str(program), *_hidden(program))
    arrays = [part for g in case.given.values() for part in (g.words, g.regions) if part is not None]
    return code, tuple(a.tobytes() for a in arrays)


def _hidden(found: Any) -> Iterator[str | bytes]:
    """What the text of a traced program leaves out: array constants, and the code of a choice by platform."""
    if isinstance(found, ClosedJaxpr):
        yield from (np.asarray(c).tobytes() for c in found.consts)
        found = found.jaxpr
    if isinstance(found, Jaxpr):
        for eqn in found.eqns:
            if "choice" in eqn.params:
                code = eqn.params["choice"].primary.trace(*(v.aval for v in eqn.invars)).jaxpr
                yield str(code)
                yield from _hidden(code)
            for part in jax.tree.leaves(tuple(eqn.params.values())):
                yield from _hidden(part)


def _everywhere(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """jit(shard_map(vmap(kernel))) over two devices, for several cases in one compilation."""
    mesh = jax.make_mesh((2,), ("tiles",), axis_types=(jax.sharding.AxisType.Auto,))
    over = PartitionSpec("tiles")  # type: ignore[no-untyped-call]
    batch = jax.vmap(lambda given: [case.kernel(**g) for case, g in zip(cases, given, strict=True)])
    mapped = jax.shard_map(batch, mesh=mesh, in_specs=(over,), out_specs=over)
    # NumPy arrays go to the devices and come back without programs that slice them.
    given = jax.tree.map(np.asarray, [arguments(case.given) for case in cases])
    with x64():
        results: list[dict[str, Any]] = jax.device_get(jax.jit(mapped)(given))
    return results


def _assert_equal(d: DType, got: NDArray[Any], expected: NDArray[Any], ulp: int, what: str) -> None:
    different = differing(d, got, expected, ulp)
    if different.any():
        r, c = np.argwhere(different)[0]
        raise AssertionError(
            f"{what}: {different.sum()} lanes differ, first ({r}, {c}): "
            f"{got[r, c]:#x}, wanted {expected[r, c]:#x}"
        )


def _check(case: Case, found: dict[str, Any], eager: bool) -> None:
    for b in range(BATCH):
        single = case.kernel.eager_unchecked(**arguments(case.given, b)) if eager else {}
        for name, expected in case.reference(b).items():
            got = result_words(case.dtype(name), found[name], b)
            what = f"{case.label} [{case.profile.name}], batch {b}"
            _assert_equal(case.dtype(name), got, expected, case.ulp(name), f"{what}, engine and interpreter")
            if eager:
                alone = result_words(case.dtype(name), single[name])
                np.testing.assert_array_equal(alone, got, f"{what}, eager")


@pytest.mark.variants(0)
@pytest.mark.parametrize("instruction", list(_instructions()))
def test_every_mode_gives_the_same_bits(instruction: isa.Instruction) -> None:
    cases = _cases(instruction)
    keys = list(map(_key, cases))
    distinct = dict(zip(keys, cases, strict=True))
    results: dict[Any, dict[str, Any]] = {}
    listed = list(distinct.items())
    for part in (listed[i : i + TOGETHER] for i in range(0, len(listed), TOGETHER)):
        found = _everywhere([case for _, case in part])
        results |= {key: outcome for (key, _), outcome in zip(part, found, strict=True)}
    # Eager execution compiles apart from the batch; the first type row of each profile shows it.
    first = {case.profile.name: index for index, case in reversed(list(enumerate(cases)))}
    eager = {keys[index]: index for index in first.values()}.values()
    for index, (key, case) in enumerate(zip(keys, cases, strict=True)):
        _check(case, results[key], index in eager)
