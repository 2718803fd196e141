"""Cases on two machines: agreement, and differences told with their place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import pto_jax as pto
from pto_jax.cases.comparison import compare_case, compare_cases
from pto_jax.cases.targets import Engine, Oracle, Output, Run
from pto_jax.devices.exchange import input_arrays
from pto_jax.generate.options import Options
from pto_jax.generate.programs import Case, cases, generate
from pto_jax.generate.state import Input
from pto_jax.ir import I8, I32, DType, PtrType

TINY = Options(
    profiles=("a5",),
    statements=4,
    elements=512,
    only=frozenset({"tadd", "tmuls", "trelu", "tmov"}),
    shapes=0.0,
    dynamic=1.0,
)


@dataclass(frozen=True)
class Spoilt:
    """An interpreter whose results have one wrong bit."""

    name: str = "spoilt"

    def run(self, case: Case) -> Run:
        outputs = dict(Oracle().run(case).outputs)
        name = next(iter(outputs))
        words = outputs[name].words.copy()
        words[1, 2] ^= 1
        return Run({**outputs, name: replace(outputs[name], words=words)})


@dataclass(frozen=True)
class Broken:
    name: str = "broken"

    def run(self, case: Case) -> Run:
        raise ZeroDivisionError("boom")


@pytest.mark.slow
def test_engine_and_interpreter_agree() -> None:
    for case in cases(1, 4, TINY):
        assert compare_case(case, Oracle(), Engine()).kind == "equal"
    for case in cases(1, 3, replace(TINY, control=0.5)):
        outcome = compare_case(case, Oracle(), Engine("jit"))
        assert not outcome.is_failure, str(outcome)


def test_a_difference_is_found_and_told() -> None:
    case = generate(1, 0, TINY)
    outcome = compare_case(case, Oracle(), Spoilt())
    assert outcome.is_failure and outcome.kind == "different" and outcome.mismatch is not None
    assert "first (1, 2)" in outcome.message and outcome.mismatch.output in outcome.message
    assert case.id in str(outcome) and str(case.program) in str(outcome)


def test_a_crash_is_a_failure() -> None:
    outcome = compare_case(generate(1, 0, TINY), Oracle(), Broken())
    assert outcome.is_failure and outcome.message == "broken: ZeroDivisionError: boom"


@pytest.mark.nightly
@pytest.mark.slow
def test_a_fragment_buffer_written_through_a_view_has_the_name_of_the_argument() -> None:
    only = frozenset({"tstore"})
    views = [c for c in cases(1, 40, replace(TINY, only=only)) if c.program.fragment]
    assert views and all("tstore" in str(c.program) for c in views)
    for case in views[:3]:
        outcome = compare_case(case, Oracle(), Engine())
        assert outcome.kind == "equal", str(outcome)


@dataclass(frozen=True)
class Together:
    """A device that takes many cases at once, and does something to what it gives for them."""

    given: Callable[[list[Run]], Any]
    name: str = "together"

    def run(self, case: Case) -> Run:
        return Oracle().run(case)

    def run_all(self, some: Sequence[Case]) -> Any:
        return self.given([Oracle().run(case) for case in some])


class Zeroing:
    """A device that sets its inputs to zero, and adds zeros."""

    name = "zeroing"

    def run(self, case: Case) -> Run:
        return self.run_all([case])[0]

    def run_all(self, some: Sequence[Case]) -> list[Run]:
        for case in some:
            for array in input_arrays(case.inputs).values():
                array[...] = 0
        return [Oracle().run(_of_zeros(case)) for case in some]


def _of_zeros(case: Case) -> Case:
    inputs = {n: replace(i, words=np.zeros_like(i.words)) for n, i in case.inputs.items()}
    return replace(case, inputs=inputs)


def test_what_a_device_writes_to_its_inputs_is_no_input_of_the_reference() -> None:
    some = [generate(1, index, TINY) for index in range(2)]
    assert [o.kind for o in compare_cases(some, Oracle(), Zeroing())] == ["different"] * 2


def test_inputs_of_a_device_are_read_only() -> None:
    class Writing(Zeroing):
        def run(self, case: Case) -> Run:
            for i in case.inputs.values():
                i.words[...] = 0
            return Oracle().run(case)

    outcome = compare_case(generate(1, 0, TINY), Oracle(), Writing())
    assert outcome.kind == "crashed" and "read-only" in outcome.message


def _case(text: str, **inputs: tuple[DType, int]) -> Case:
    """A case of a text whose arguments are buffers that count up."""
    words = {n: Input(PtrType(d), np.arange(count, dtype=d.word)) for n, (d, count) in inputs.items()}
    return replace(generate(1, 0), program=pto.parse(text), inputs=words, entry="k", grid=1, ulp={})


COPY = _case(
    """func.func @k(%x: !pto.ptr<i32>, %y: !pto.ptr<i32>, %w: !pto.ptr<i8>) attributes {pto.entry} {
  %c = pto.make_prefetch_async_context(%w : !pto.ptr<i8>) -> !pto.prefetch_async_context
  %c0 = arith.constant 0 : index
  %a = pto.load_scalar %x[%c0] : !pto.ptr<i32> -> i32
  pto.store_scalar %a, %y[%c0] : !pto.ptr<i32>, i32
  return
}""",
    x=(I32, 8),
    y=(I32, 8),
    w=(I8, 64),
)


@pytest.mark.parametrize(
    ("name", "bit", "kind"), [("x", 0, "equal"), ("x", 1, "different"), ("w", 1, "equal")]
)
def test_a_buffer_that_is_only_read_comes_back_as_it_was(name: str, bit: int, kind: str) -> None:
    """What the instructions do to a workspace is left to the device."""

    class Storing:
        name = "storing"

        def run(self, case: Case) -> Run:
            outputs = dict(Oracle().run(case).outputs)
            assert list(outputs) == ["y"]
            given = case.inputs[name]
            return Run({**outputs, name: Output(given.type.dtype, given.words ^ given.words.dtype.type(bit))})

    outcome = compare_case(COPY, Oracle(), Storing())
    assert outcome.kind == kind
    assert outcome.message.startswith("x: 8 of 8 elements differ" if kind == "different" else "")


NUMBERS: tuple[tuple[Any, list[str], str], ...] = (
    (lambda runs: runs[:-1], ["crashed"] * 3, "got 2 results for 3 cases"),
    (lambda runs: runs * 2, ["crashed"] * 3, "got 6 results for 3 cases"),
    (lambda runs: iter(runs[:-1]), ["equal", "equal", "crashed"], "got 2 results for 3 cases"),
    (lambda runs: iter(runs * 2), ["equal", "equal", "crashed"], "got more than 3 results for 3 cases"),
    (lambda runs: None, ["crashed"] * 3, "not iterable"),
    (lambda runs: runs[9], ["crashed"] * 3, "IndexError"),
    (iter, ["equal"] * 3, ""),
)


@pytest.mark.parametrize(("given", "kinds", "message"), NUMBERS)
def test_each_case_has_one_answer(given: Any, kinds: list[str], message: str) -> None:
    some = [generate(1, index, TINY) for index in range(3)]
    outcomes = list(compare_cases(some, Oracle(), Together(given)))
    assert [o.kind for o in outcomes] == kinds
    assert message in outcomes[-1].message


FORMS: tuple[tuple[Any, str], ...] = (
    (lambda run: None, "run: got None; allowed: a pto_jax.cases.targets.Run; try: return outputs_of"),
    (lambda run: {}, "run: got a value of type dict"),
    (lambda run: Run(list(run.outputs.items())), "run: outputs: got a value of type list"),
    (lambda run: _each(run, lambda o: o.words), "got a value of type ndarray; allowed: an Output"),
    (lambda run: _each(run, lambda o: replace(o, words=o.words.tolist())), "words: got a value of type list"),
    (
        lambda run: _each(run, lambda o: replace(o, words=o.words.astype(np.float64))),
        "words: got elements of float64; allowed: a NumPy array of ",
    ),
)


def _each(run: Run, change: Callable[[Output], Any]) -> Run:
    return Run({name: change(output) for name, output in run.outputs.items()})


@pytest.mark.parametrize(("given", "message"), FORMS)
def test_what_is_no_result_is_an_error_of_the_device(given: Callable[[Run], Any], message: str) -> None:
    class Device:
        name = "device"

        def run(self, case: Case) -> Run:
            found: Run = given(Oracle().run(case))
            return found

    outcome = compare_case(generate(1, 0, TINY), Oracle(), Device())
    assert outcome.kind == "crashed" and outcome.message.startswith("device: DeviceError: ")
    assert message in outcome.message
