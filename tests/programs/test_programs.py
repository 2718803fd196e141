"""Small programs leave what the same computation in NumPy leaves, however they are executed.

The engine, jitted and instruction by instruction, and the reference interpreter follow control flow, handles
and memory with the same code: only an expectation from outside both of them shows an error there.
"""

from collections.abc import Callable, Mapping

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.cases.code import Code, executed
from pto_jax.lowering.bits import x64
from tests.programs import cases_control, cases_cores, cases_handles, cases_memory, cases_pointers
from tests.programs.cases import Arguments, Arrays, Case
from tests.tables import every

CASES = (
    *cases_control.CASES,
    *cases_memory.CASES,
    *cases_handles.CASES,
    *cases_cores.CASES,
    *cases_pointers.CASES,
)


#: Programs with the most instructions: executed one by one, each of them costs a compilation.
LARGE = frozenset(
    "addresses aliases loops multi_tiles-turns scalars-list slots-corners subviews-boxes subviews-subviews"
    " views".split()
)


def _checked(
    case: Case, executions: Mapping[str, Callable[[Arguments], Arrays]], capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in case.arguments():
        expected, printed = case.formula(arguments), case.printed(arguments)
        for way, execute in executions.items():
            results = {name: np.asarray(array) for name, array in execute(arguments).items()}
            jax.effects_barrier()  # type: ignore[no-untyped-call]
            assert sorted(results) == sorted(expected), way
            for name, array in expected.items():
                assert results[name].dtype == arguments[name].dtype, way
                bound = case.relative.get(name, 0)
                np.testing.assert_allclose(results[name], array, bound, err_msg=f"{way}: {name}")
            # A compiled program promises no order of its prints.
            assert sorted(capsys.readouterr().out.splitlines()) == sorted(printed.splitlines()), way


def _kernel(case: Case) -> pto.Kernel:
    return pto.compile(case.parsed, entry=case.entry, grid=case.grid, warn=False)


def check(case: Case, capsys: pytest.CaptureFixture[str], code: Code = "optimised") -> None:
    """The interpreter and the jitted kernel leave and print what a program's formula says.

    Other ``code`` than XLA's is traced, hence without the checks of a call with arrays.
    """
    kernel = _kernel(case)

    def jitted(arguments: Arguments) -> Arrays:
        if code == "optimised":
            checked: Arrays = kernel(**arguments)
            return checked
        plain = {name: v for name, v in arguments.items() if not isinstance(v, np.ndarray)}
        arrays = {name: v for name, v in arguments.items() if name not in plain}
        with x64():
            results: Arrays = executed(code, lambda values: kernel(**values, **plain), arrays)
        return results

    executions: dict[str, Callable[[Arguments], Arrays]] = {
        "oracle": lambda arguments: oracle.run(case.parsed, arguments, entry=case.entry, grid=case.grid),
        "jitted": jitted,
    }
    _checked(case, executions, capsys)


@pytest.mark.variants(1)
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_a_program_leaves_and_prints_what_its_formula_says(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    check(case, capsys)


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=pytest.mark.slow if c.name in LARGE else ()) for c in CASES if c.eager],
)
def test_it_does_instruction_by_instruction(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = _kernel(case)
    _checked(case, {"eager": lambda arguments: kernel.eager(**arguments)}, capsys)


@every("case", CASES, ids=[c.name for c in CASES])
def test_a_call_changes_something(case: Case) -> None:
    """Expectations that equal the arguments, or each other, would show nothing."""
    calls = list(case.arguments())
    for arguments in calls:
        expected = case.formula(arguments)
        assert case.printed(arguments) or any((expected[n] != arguments[n]).any() for n in expected)
