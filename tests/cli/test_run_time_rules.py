"""``pto-jax run`` reports what only execution knows: windows, addresses, steps, valid regions, offsets.

Where eager execution, ``checks`` and the interpreter are tested on the same rules is the table of
``test_every_rule_is_tested_in_every_mode``.
"""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.conftest import Source
from tests.runtime.test_loop_bounds import COUNTS, LOW, TOP

X = np.arange(1, 257, dtype=np.float32)
MOVED = Source("%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %o: index, %p: index, %s: index, %r: index")
for _name, _pointer in (("%v", "%x"), ("%u", "%y")):
    MOVED.view(_name, _pointer, (4, 64), ("%s", 1)).window(f"{_name}w", f"{_name}v", ("%o", "%p"), (2, 8))
MOVED.tile("%t", "f32", 2, 8, valid=("%r", 8)).load("%vw", "%t").op("tadd", "%t", "%t", out="%t")
MOVED.store("%t", "%uw")
ELEMENT = """func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %o: index) {
  %c0 = arith.constant 0 : index
  %v = pto.load_scalar %x[%o] : !pto.ptr<f32> -> f32
  pto.store_scalar %v, %y[%c0] : !pto.ptr<f32>, f32
  return
}"""


def run(commands: Any, text: str, options: tuple[str, ...] = (), **inputs: Any) -> int:
    """The exit status of a run on inputs; results are in out.npz."""
    file: Path = commands.file("k.pto", text)
    np.savez(commands.folder / "in.npz", **inputs)
    status: int = commands("run", file, "--inputs", "in.npz", "--outputs", "out.npz", *options)
    return status


def numbers(o: int = 0, p: int = 0, s: int = 64, r: int = 2) -> dict[str, Any]:
    return {"x": X, "y": -X} | {n: np.int64(v) for n, v in zip("opsr", (o, p, s, r), strict=True)}


OPTIONS = [(), ("--sanitize",)]


@pytest.mark.variants(4)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (numbers(p=57), "got offset 57 and size 8 in dimension 1 of %vv, whose extent is 64"),
        (numbers(o=-1), "got offset -1 and size 2 in dimension 0 of %vv, whose extent is 4"),
        (numbers(s=2**62), "error: tload: "),
        (numbers(s=TOP), "error: tload: "),
        (numbers(r=3), "error: alloc_tile: "),
    ],
    ids=["column", "row", "beyond-buffer", "beyond-64-bits", "region"],
)
def test_a_broken_rule_ends_a_run(
    commands: Any, options: tuple[str, ...], given: dict[str, Any], message: str
) -> None:
    assert run(commands, MOVED.text, options, **given) == 1
    told = commands.err + commands.out
    assert message in told and "k.pto:" in told and "Traceback" not in told
    assert not (commands.folder / "out.npz").exists()


def test_what_breaks_no_rule_is_computed(commands: Any) -> None:
    assert run(commands, MOVED.text, **numbers(o=2, p=56)) == 0, commands.err
    found = np.load(commands.folder / "out.npz")["y"].reshape(4, 64)
    np.testing.assert_array_equal(found[2:, 56:], 2 * X.reshape(4, 64)[2:, 56:])
    np.testing.assert_array_equal(found[:2], -X.reshape(4, 64)[:2])


@pytest.mark.parametrize("offset", [-1, 256, TOP, LOW])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_element_outside_its_buffer_ends_a_run(
    commands: Any, options: tuple[str, ...], offset: int
) -> None:
    assert run(commands, ELEMENT, options, x=X, y=-X, o=np.int64(offset)) == 1
    assert "load_scalar" in commands.err + commands.out
    assert run(commands, ELEMENT, options, x=X, y=-X, o=np.int64(7)) == 0, commands.err


@pytest.mark.parametrize("step", [0, -1])
def test_a_step_that_is_not_positive_ends_a_run(commands: Any, step: int) -> None:
    given: dict[str, Any] = {n: np.int64(v) for n, v in zip("lus", (0, 5, step), strict=True)}
    assert run(commands, COUNTS, x=np.zeros(2, np.int64), **given) == 1
    assert f"got a step of {step}; allowed: a positive step" in commands.err


def test_trip_counts_at_the_ends_of_64_bits(commands: Any) -> None:
    given: dict[str, Any] = {n: np.int64(v) for n, v in zip("lus", (LOW, TOP, 2**62), strict=True)}
    assert run(commands, COUNTS, x=np.zeros(2, np.int64), **given) == 0, commands.err
    assert np.load(commands.folder / "out.npz")["x"].tolist() == [4, 2**62]


def test_run_writes_a_wrong_place_in_no_mode(commands: Any) -> None:
    """Rows outside the view are in the buffer: nothing may be written there."""
    for options in (*OPTIONS, ("--trace",)):
        (commands.folder / "out.npz").unlink(missing_ok=True)
        assert run(commands, MOVED.text, options, **numbers(o=3, p=63)) == 1
        assert not (commands.folder / "out.npz").exists()


ADDRESSES, LOOPS, REGIONS = (f"runtime/test_{n}.py" for n in ("addresses", "loop_bounds", "run_time_rules"))
HERE = "cli/test_run_time_rules.py"
#: Rule, and the tests of it: where eager execution, ``checks`` and the interpreter agree, and of ``run``.
TESTED = {
    "windows outside their view": [
        (ADDRESSES, "test_a_window_outside_its_view_is_named"),
        (ADDRESSES, "test_a_window_may_go_on_in_the_buffer_along_the_slowest_dimension_only"),
        (ADDRESSES, "test_run_time_windows_of_tiles_are_checked"),
        (HERE, "test_a_broken_rule_ends_a_run"),
    ],
    "addresses beyond 64 bits": [
        (ADDRESSES, "test_only_elements_of_the_buffer_are_accessed"),
        (ADDRESSES, "test_addresses_of_pointers_do_not_wrap"),
        (HERE, "test_an_element_outside_its_buffer_ends_a_run"),
    ],
    "trip counts": [
        (LOOPS, "test_trip_counts_do_not_overflow"),
        (LOOPS, "test_a_step_that_is_not_positive_is_an_error"),
        (HERE, "test_trip_counts_at_the_ends_of_64_bits"),
        (HERE, "test_a_step_that_is_not_positive_ends_a_run"),
    ],
    "arrays of a trace that outlive it": [(LOOPS, "test_no_array_of_a_trace_outlives_it")],
    "captured constants": [
        (LOOPS, "test_a_captured_numpy_number_keeps_its_type_for_others"),
        (LOOPS, "test_a_captured_number_keeps_its_type_in_every_way_of_calling"),
    ],
    "valid regions": [
        (REGIONS, "test_valid_sizes_beyond_the_tile_are_reported"),
        (REGIONS, "test_without_checks_the_formula_is_computed"),
        (HERE, "test_a_broken_rule_ends_a_run"),
    ],
}


@pytest.mark.parametrize("rule", TESTED)
def test_every_rule_is_tested_in_every_mode(rule: str) -> None:
    tests = Path(__file__).parent.parent
    for file, name in TESTED[rule]:
        tree = ast.parse((tests / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
