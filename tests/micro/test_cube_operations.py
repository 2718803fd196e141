"""Every operation of the cube unit and every transfer in generated kernels: traced and interpreted alike."""

from dataclasses import replace
from zlib import crc32

import pytest

from pto_jax.cases.comparison import compare_case
from pto_jax.cases.targets import Engine, Oracle
from pto_jax.generate.options import CUBE, CUBE_UNIT, MICRO, TRANSFERS, Options
from pto_jax.generate.programs import generate

_PROGRAMS = 4


def _options(name: str) -> Options:
    if name in CUBE_UNIT or name.startswith("set_"):
        return replace(CUBE if name in CUBE_UNIT else MICRO, having=frozenset({name}))
    return replace(MICRO, only=frozenset({name}), statements=4)


@pytest.mark.variants(0)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.instructions(n)) for n in (*CUBE_UNIT, *sorted(TRANSFERS))],
)
def test_kernels_that_have_it(name: str) -> None:
    executed = 0
    for index in range(_PROGRAMS):
        case = generate(crc32(name.encode()), index, _options(name))
        outcome = compare_case(case, Oracle(), Engine("jit", code="numpy"))
        assert not outcome.is_failure, str(outcome)
        executed += outcome.kind == "equal" and any(op.name == name for op in case.program.walk())
    assert executed
