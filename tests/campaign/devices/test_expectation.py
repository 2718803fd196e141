"""Which elements of a case are compared: other undefined data is accepted, other defined data is not."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pto_jax.api import parse
from pto_jax.cases.expectation import Expectation, divergences, expectation
from pto_jax.cases.targets import UNBOUNDED, Oracle, Output, Run
from pto_jax.errors import ExecutionError, NotExecutableError
from pto_jax.generate.options import PRESETS
from pto_jax.generate.programs import Case, cases
from pto_jax.generate.state import Input
from pto_jax.ir import ScalarType, TileType
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.step import Policy
from pto_jax.profiles import ProfileName, profile
from pto_jax.vectors.exclusions import OtherNans

SEED = 20
I32, F32 = "!pto.tile<8x16xi32>", "!pto.tile<8x16xf32>"


class Filled(OtherNans):
    """The interpreter with other undefined data: bytes never written hold a pattern, lanes outside a
    source's valid region are read as stored, and NaNs have other bits."""

    def __init__(self, policy: Policy, buffers: Mapping[str, Any], max_steps: int = 1_000_000) -> None:
        super().__init__(replace(policy, out_of_region="backing"), buffers, max_steps)
        self._fill = 0x5A


def case_of(text: str, target: ProfileName, words: Mapping[str, Any]) -> Case:
    """A fragment; arguments hold the words given, 1 everywhere without."""
    program = parse(text)
    inputs = {}
    for a in program.functions[0].args:
        assert isinstance(a.type, TileType | ScalarType)
        shape = a.type.shape if isinstance(a.type, TileType) else ()
        given = np.broadcast_to(np.asarray(words.get(a.name, 1), a.type.dtype.word), shape)
        inputs[a.name] = Input(a.type, given.copy())
    return Case("0" * 16, 0, 0, profile(target), program, inputs, {})


def changed(run: Run, name: str, at: int) -> Run:
    """The results with one bit of one element changed."""
    output = run.outputs[name]
    words = output.words.copy()
    words.reshape(-1)[at] ^= 1
    return Run({**run.outputs, name: Output(output.dtype, words, output.valid)})


def expectations(preset: str, count: int) -> list[tuple[Case, Expectation]]:
    options = replace(PRESETS[preset], profiles=("a2a3", "a5"))
    found = []
    for case in cases(SEED, count, options):
        try:
            found.append((case, expectation(case)))
        except (ExecutionError, NotExecutableError):
            continue
    return found


@pytest.mark.variants(1)
@pytest.mark.parametrize("preset", ["straight", "everything", "aliases"])
def test_other_undefined_data_is_accepted(preset: str) -> None:
    differing = compared = total = 0
    for case, expected in expectations(preset, 14):
        try:
            other = Oracle(machine=Filled).run(case)
        except (ExecutionError, NotExecutableError):
            assert expected.lanes == 0
            continue
        assert expected.difference(case, other) is None, str(case.program)
        outputs = expected.run.outputs
        differing += any(not np.array_equal(o.words, other.outputs[n].words) for n, o in outputs.items())
        compared += expected.lanes
        total += sum(mask.size for mask in expected.compared.values())
    assert differing > 3
    assert compared > total // 5


def test_an_element_that_is_compared_counts_and_one_that_is_not_does_not() -> None:
    seen = {True: 0, False: 0}
    for case, expected in expectations("straight", 12):
        for name, mask in expected.compared.items():
            for compared in (True, False):
                at = np.flatnonzero(mask == compared)
                if not at.size or case.ulp.get(name):
                    continue
                found = expected.difference(case, changed(expected.run, name, int(at[-1])))
                assert (found is not None) == compared or _nan(expected, name, int(at[-1]))
                seen[compared] += 1
    assert min(seen.values()) > 10


def _nan(expected: Expectation, name: str, at: int) -> bool:
    output = expected.run.outputs[name]
    return bool(np.isnan(output.words.reshape(-1)[at : at + 1].view(output.dtype.numpy)).any())


def test_a_missing_result_and_another_region_are_differences() -> None:
    case = case_of(f"tneg %d, %a : {I32}", "a5", {})
    expected = expectation(case)
    d = expected.run.outputs["d"]
    assert expected.difference(case, Run({})) == "d: no such output"
    shrunk = expected.difference(case, Run({"d": Output(d.dtype, d.words, (8, 15))}))
    assert shrunk == "d: valid region (8, 15), expected (8, 16)"


def test_lanes_outside_valid_regions_are_named() -> None:
    part = I32.replace("i32", "i32, valid=8x15")
    case = case_of(f"tadd %d, %a, %b : {I32}, {part}, {I32}", "a2a3", {})
    expected = expectation(case)
    assert [(g.output, g.elements) for g in expected.gaps] == [("d", 8)]
    assert "outside the valid region 8x15 of %a (src0)" in expected.gaps[0].reason
    assert not expected.compared["d"][:, 15].any()
    assert expectation(case, "cpu_sim").compared["d"].all()


def test_a_fresh_tile_is_undefined_on_hardware_and_zero_on_the_simulator() -> None:
    text = f"%t = alloc_tile : {I32}\ntneg %d, %t : {I32}"
    assert expectation(case_of(text, "a5", {})).lanes == 0
    assert expectation(case_of(text, "cpu_sim", {})).lanes == 128


def test_a_tile_that_is_allocated_again_holds_nothing_to_compare() -> None:
    text = f"""
%zero = arith.constant 0 : index
%one = arith.constant 1 : index
%two = arith.constant 2 : index
scf.for %i = %zero to %two step %one {{
  %t = alloc_tile : {I32}
  tadd %d, %t, %a : {I32}
  tadds %t, %d, %s : {I32}, {I32}, i32
}}"""
    assert expectation(case_of(text, "cpu_sim", {})).lanes == 0


def test_an_undefined_number_leaves_nothing_to_compare() -> None:
    text = (
        f"%t = alloc_tile : {I32}\n%zero = arith.constant 0 : index\n"
        f"%n = pto.tgetval ins(%t, %zero : {I32}, index) outs : i32\ntadds %d, %a, %n : {I32}, {I32}, i32"
    )
    expected = expectation(case_of(text, "a2a3", {}))
    assert expected.lanes == 0
    assert (
        "the program computes with an undefined number: undefined: never written" in expected.gaps[0].reason
    )


def test_the_simulators_properties_take_lanes_out_on_the_simulator_only() -> None:
    words = np.full((8, 16), 0x40400000, np.uint32)
    words[2, 3] = 0x7FC00000
    case = case_of(f"tcvt %d, %a : {I32}, {F32}", "a5", {"a": words})
    assert expectation(case).lanes == 128
    on_simulator = expectation(case, "cpu_sim")
    assert np.argwhere(~on_simulator.compared["d"]).tolist() == [[2, 3]]
    assert "cannot hold is undefined in C++" in on_simulator.gaps[0].reason
    assert on_simulator.ends is None


def test_what_ends_the_simulators_process_is_said() -> None:
    case = case_of(f"tdivs %d, %a, %s : {I32}, {I32}, i32", "cpu_sim", {"s": 0})
    found = expectation(case).ends
    assert found is not None and "ends the process (tdivs at" in found


def test_bits_of_a_nan_that_are_read_as_integers_are_not_compared() -> None:
    text = f"tmul %t, %a, %b : {F32}\n%i = bitcast %t : {F32} -> {I32}\ntneg %d, %i : {I32}"
    words = np.full((8, 16), 0x3F800000, np.uint32)
    words[1, 1] = 0x7F800000
    case = case_of(text, "a5", {"a": words, "b": np.where(words == 0x7F800000, 0, words)})
    expected = expectation(case)
    assert np.argwhere(~expected.compared["d"]).tolist() == [[1, 1]]
    assert expected.compared["t"].all()


def test_results_without_a_bound_are_not_compared() -> None:
    case = replace(case_of(f"tneg %d, %a : {F32}", "a5", {}), ulp={"d": UNBOUNDED})
    assert expectation(case).lanes == 0


def test_instructions_that_differ_on_the_simulator_are_named() -> None:
    text = (
        f"%s = arith.constant 2.0 : f32\ntadds %t, %a, %n : {I32}, {I32}, i32\n"
        "tadddeqrelu %d, %a, %t, %s : !pto.tile<8x16xf16>, !pto.tile<8x16xi32>, !pto.tile<8x16xi32>, f32"
    )
    case = case_of(text, "a5", {"a": 1 << 20, "n": 1})
    (found,) = divergences(case)
    assert found.startswith("tadddeqrelu at <text>:3:1: 128 lanes")
    assert divergences(case_of(text, "a5", {"a": 1, "n": 1})) == []
    machine: type[ReferenceMachine] = ReferenceMachine
    assert Oracle(machine=machine).run(case).outputs["d"].words[0, 0] == 0x7BFF
