"""Devices are compared on what is defined: undefined memory and bits of NaNs are their own choice."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pto_jax.api import parse
from pto_jax.campaign.fuzz.executor_cases import Generated
from pto_jax.campaign.fuzz.plan import Form, Plan
from pto_jax.cases.comparison import compare_case
from pto_jax.cases.expectation import open_bits
from pto_jax.cases.targets import Oracle, Output, Run
from pto_jax.cli.fuzz_plan import device_presets
from pto_jax.errors import DeviceError
from pto_jax.failures.reduce import shrink
from pto_jax.generate.programs import Case
from pto_jax.generate.state import Input
from pto_jax.ir import TileType
from pto_jax.profiles import PROFILE_NAMES, ProfileName, profile
from tests.campaign.devices.devices import Zeroed

NAN = 0x7FC00000


def fragment(text: str, target: ProfileName = "a5", **words: Any) -> Case:
    program = parse(text)
    inputs = {}
    for a in program.functions[0].args:
        assert isinstance(a.type, TileType)
        given = np.broadcast_to(np.asarray(words.get(a.name, 1), a.type.dtype.word), a.type.shape)
        inputs[a.name] = Input(a.type, given.copy())
    return Case("0" * 16, 0, 0, profile(target), program, inputs, {})


def doubling(columns: int) -> str:
    """A sum over eight columns of a source that has fewer."""
    source = f"!pto.tile<1x8xi32, valid=1x{columns}>"
    return f"tadd %d, %a, %a : !pto.tile<1x8xi32>, {source}, {source}"


@dataclass(frozen=True)
class Changing:
    """The interpreter with some bits of results changed."""

    bits: Mapping[str, Any]
    name: str = "changing"

    def run(self, case: Case) -> Run:
        outputs = dict(Oracle().run(case).outputs)
        for name, bits in self.bits.items():
            o = outputs[name]
            outputs[name] = Output(o.dtype, o.words ^ np.asarray(bits, o.words.dtype), o.valid)
        return Run(outputs)


def kinds(count: int, form: Form) -> Counter[str]:
    source = Generated.of(Plan(seed=5, presets=device_presets(), form=form))
    found = Counter[str]()
    for index in range(count):
        outcome = compare_case(source.case(index), Oracle(), Zeroed())
        assert not outcome.is_failure, str(outcome)
        found[outcome.kind] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("form", ["kernel", "any"])
def test_a_device_with_zeros_for_what_is_undefined_is_right(form: Form) -> None:
    assert kinds(40, form)["equal"] > 34


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("form", ["kernel", "any"])
def test_a_device_with_zeros_for_what_is_undefined_is_right_on_many_programs(form: Form) -> None:
    assert kinds(500, form)["equal"] > 450


@pytest.mark.parametrize("target", PROFILE_NAMES)
def test_undefined_lanes_are_not_compared_and_defined_ones_are(target: ProfileName) -> None:
    """Of the result the last two columns follow from lanes outside the source's valid region."""
    case = fragment(doubling(6), target)
    assert compare_case(case, Oracle(), Changing({"d": [0, 0, 0, 0, 0, 0, 1, 1]})).kind == "equal"
    assert compare_case(case, Oracle(), Changing({"d": [0, 0, 0, 0, 0, 1, 0, 0]})).kind == "different"


def test_bits_of_a_nan_read_as_another_type_are_open() -> None:
    """A quotient of zeros is stored as integers; of the NaN only that it is one is defined."""
    for how in ("bitcast", "treshape"):
        case = fragment(
            f"tdiv %q, %a, %a : !pto.tile<1x8xf32>\n"
            f"%i = {how} %q : !pto.tile<1x8xf32> -> !pto.tile<1x8xi32>\n"
            "tmov %d, %i : !pto.tile<1x8xi32>",
            a=[0, 0, 0, 0, *[0x3F800000] * 4],
        )
        bits = open_bits(case).bits["d"]
        assert bits[0, :4].all() and not bits[0, 4:].any()
        assert compare_case(case, Oracle(), Changing({"d": [0x80000000] * 4 + [0] * 4})).kind == "equal"
        assert compare_case(case, Oracle(), Changing({"d": [0] * 4 + [1] * 4})).kind == "different"


def test_a_nan_that_is_lost_is_found() -> None:
    """As floats any NaN equals any other, and a number equals none."""
    case = fragment("tdiv %q, %a, %a : !pto.tile<1x8xf32>", a=[0] * 8)
    assert compare_case(case, Oracle(), Changing({"q": [0x80000000] * 8})).kind == "equal"
    assert compare_case(case, Oracle(), Changing({"q": [NAN] * 8})).kind == "different"


def test_a_program_of_which_nothing_is_defined_is_not_compared() -> None:
    outcome = compare_case(fragment(doubling(0)), Oracle(), Changing({"d": [1] * 8}))
    assert outcome.kind == "undefined" and "undefined data" in outcome.message


def test_a_crash_is_a_failure_whatever_is_undefined() -> None:
    class Crashing:
        name = "crashing"

        def run(self, case: Case) -> Run:
            raise DeviceError("ended by signal 11 (SIGSEGV)")

    assert compare_case(fragment(doubling(0)), Oracle(), Crashing()).kind == "crashed"


def test_smaller_programs_fail_for_defined_values_only() -> None:
    """What a device does wrong is shown by a program whose wrong elements are defined."""

    class Wrong:
        name = "wrong"

        def run(self, case: Case) -> Run:
            names = [op.name for op in case.program.walk()]
            return Changing({"d": 1} if "tabs" in names else {}).run(case)

    case = fragment(f"tabs %b, %c : !pto.tile<1x8xi32>\n{doubling(6)}")
    made = shrink(case, Oracle(), Wrong(), seconds=20)
    assert made.outcome.kind == "different"
    first = made.outcome.first
    assert first is not None and not open_bits(made.case).bits[first.operand].reshape(-1)[first.index]


def test_machines_of_the_package_are_compared_as_a_whole() -> None:
    """Undefined memory holds what the profile says on all of them."""

    @dataclass(frozen=True)
    class Own(Changing):
        follows: bool = True

    case = fragment(doubling(6))
    assert compare_case(case, Oracle(), Own({"d": [0] * 6 + [1, 1]})).kind == "different"
