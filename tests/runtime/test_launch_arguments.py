"""Launches whose sizes are arguments: judged where values are seen, with the interpreter as evidence."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import grids, oracle
from pto_jax.analysis.provenance import GlobalTypes
from pto_jax.cases.targets import interpreter_arguments
from pto_jax.generate import options as generate_options, programs
from pto_jax.generate.programs import Case
from pto_jax.grids.judgement import _Launches
from pto_jax.ir import Function, ScalarType
from tests.runtime.launch_texts import HEAD, ROW, TILE, VIEW, WIDE, Y, kernel, store

Run = Callable[..., Any]
ROWS = """
%rv = pto.make_tensor_view %y, shape = [%rows, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf32>
"""
BY_ROWS = kernel(ROWS, TILE, ROW, store(view="%rv"), arguments="%y: !pto.ptr<f32>, %rows: index")
FEW = "2 blocks (grid=2) write 256 of the 512 elements of view %rv (argument y); allowed: a grid that covers"


def test_sizes_that_are_arguments_are_judged_where_values_are_seen() -> None:
    checked, plain = (pto.compile(BY_ROWS, grid=2, checks=checks) for checks in (True, False))
    runs: tuple[Run, ...] = (plain.eager, plain.with_state, lambda *a: oracle.run(BY_ROWS, a, grid=2))
    for run in runs:
        with pytest.raises(pto.ExecutionError, match="get_block_idx: ") as raised:
            run(Y, 32)
        assert FEW in str(raised.value) and str(raised.value.diagnostics[0].span) == "k.pto:17:1"
        run(Y, 16)
    (found,) = checked(Y, 32)[1].problems()
    assert FEW in found.message and found.rule == "launch" and "try: grid=4 (--grid 4)" in found.message
    assert not checked(Y, 16)[1].problems()
    assert (np.asarray(plain(Y, 32)["y"])[:16] == 1).all()


def test_checks_judge_sizes_that_a_transformation_traces() -> None:
    checked = pto.compile(BY_ROWS, grid=2, checks=True)
    sizes = np.array([16, 32, 16, 64])
    (found,) = jax.vmap(checked, in_axes=(None, 0))(Y, sizes)[1].problems()
    assert "2 blocks (grid=2) that write what the views declare" in found.message
    assert found.message.endswith("batch index 1, 3") and str(found.span) == "k.pto:17:1"
    jitted: Any = jax.jit(checked)
    assert not jitted(Y, np.int32(16))[1].problems()
    assert jitted(Y, np.int32(48))[1].problems()


@pytest.mark.slow
def test_numbers_that_are_loaded_are_judged_where_values_are_seen() -> None:
    """A table says where each block writes; the table is not written."""
    loaded = (
        "%at = pto.load_scalar %x[%b] : !pto.ptr<i32> -> i32\n%row = arith.index_cast %at : i32 to index\n"
    )
    program = kernel(VIEW, TILE, loaded, store(), arguments="%y: !pto.ptr<f32>, %x: !pto.ptr<i32>")
    plain = pto.compile(program, grid=2)
    rest, same = np.arange(0, 64, 8, dtype=np.int32), np.array([8, 0, 0, 8, 8, 8, 8, 8], np.int32)
    runs: tuple[Run, ...] = (plain.eager, lambda *a: oracle.run(program, a, grid=2))
    for run in runs:
        with pytest.raises(pto.ExecutionError, match=r"2 blocks .* write 256 of the 1024 elements"):
            run(Y, rest)
        run(Y, same)


def test_extents_of_arrays_are_known_wherever_a_kernel_is_called() -> None:
    text = TILES_OF_MEMREF
    kernel_of = pto.compile(pto.parse(text, "m.pto"), grid=2)
    np.testing.assert_array_equal(kernel_of(Y[:16])["y"], 1)
    calls: tuple[Run, ...] = (kernel_of, kernel_of.eager, jax.jit(lambda y: kernel_of(y)))
    for call in calls:
        with pytest.raises(pto.ExecutionError, match=r"write 256 of the 1024 elements of view %y; .*grid=8"):
            call(Y)


TILES_OF_MEMREF = f"""
func.func @k(%y: {WIDE}) attributes {{pto.entry}} {{
{HEAD}
{TILE}{ROW}{store(view="%y")}
return
}}"""


def _written(case: Case, function: Function, given: dict[str, Any]) -> dict[str, NDArray[np.bool_]]:
    """The elements of every buffer that a launch is found to write."""
    scalars = {
        a.name: int(np.asarray(given[a.name]))
        for a in function.args
        if isinstance(a.type, ScalarType) and not a.type.dtype.is_float
    }
    shapes = {a.name: np.shape(given[a.name]) for a in function.args if isinstance(a.type, GlobalTypes)}
    contents = {n: partial(np.asarray, given[n]) for n in shapes}
    facts = grids.Facts(scalars, shapes, contents)
    blocks = _Launches(case.program, function, facts)._walk(np.arange(case.grid), case.grid)
    inside = {n: np.zeros(np.size(given[n]), np.bool_) for n in shapes if n not in blocks.undecided}
    for whole, windows in blocks.writes.items():
        for offset, sizes in ((o, s) for w in windows for o, s in zip(w.offset, w.sizes, strict=True)):
            at = np.array([offset])
            for n, stride in zip(sizes, whole.strides, strict=True):
                at = (at[:, None] + np.arange(n) * stride).reshape(-1)
            if whole.buffer in inside:
                inside[whole.buffer][at] = True
    return inside


@pytest.mark.slow
def test_windows_are_those_that_the_interpreter_writes() -> None:
    """On generated programs with blocks, control flow and views: nothing else changes."""
    options = replace(generate_options.CONTROL, blocks=1.0, functions=1.0)
    seen = 0
    for case in programs.cases(5, 12, options):
        function, given = case.program.function(case.entry or ""), interpreter_arguments(case)
        after = oracle.run(
            case.program, given, profile=case.profile, entry=case.entry, grid=case.grid, partial_launch=True
        )
        assert function is not None
        for name, inside in _written(case, function, given).items():
            if name not in after:
                assert not inside.any()
                continue
            before, now = (
                np.ascontiguousarray(x).reshape(inside.size, -1) for x in (given[name], after[name])
            )
            changed = (before.view(np.uint8) != now.view(np.uint8)).any(-1)
            assert not changed[~inside].any(), (case.index, name)
            seen += int(inside.sum())
    assert seen > 1000


# -- rows beyond the array ---------------------------------------------------------------------------


@pto.kernel(types={"x": pto.ptr("f32"), "y": pto.ptr("f32"), "rows": "index"})
def raised(x, y, rows):  # type: ignore[no-untyped-def]
    """x + 1 of rows x 8 numbers; the last tile may be smaller."""
    vx, vy = (pto.make_tensor_view(p, [rows, 8], [8, 1]) for p in (x, y))
    for row in pto.range(0, rows, 4):
        size = pto.minimum(rows - row, 4)
        tile = pto.alloc_tile("f32", 4, 8, valid=(size, 8))
        loaded = pto.tload(tile, pto.partition_view(vx, [row, 0], [size, 8]))
        done = pto.tadds(tile, tile, 1.0, wait=loaded)
        pto.tstore(pto.partition_view(vy, [row, 0], [size, 8]), tile, wait=done)


@pytest.mark.slow
def test_rows_beyond_the_array_are_found_by_name_and_line() -> None:
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    checked = raised.compile(checks=True, warn=False)
    first = raised.function.__code__.co_firstlineno
    for rows, broken in ((5, False), (7, True)):
        problems = checked(x, 0 * x, rows)[1].problems()
        assert [(d.instruction, d.span.line - first, d.rule) for d in problems] == [
            ("tload", 7, "in-bounds"),
            ("tstore", 9, "in-bounds"),
        ][: 2 * broken]
    for diagnostic, name in zip(problems, ("x", "y"), strict=True):
        assert f"of {name};" in diagnostic.message
        assert "40 elements" in diagnostic.message
    runs: tuple[Run, ...] = (checked.eager, lambda *a: oracle.run(raised.program, a))
    for run in runs:
        with pytest.raises(
            pto.ExecutionError, match=rf"test_launch_arguments\.py:{first + 7}:\d+: error: tload: .*\bx\b"
        ):
            # In the first trip: what follows the first access is not compiled.
            run(x[:3], 0 * x[:3], 4)
